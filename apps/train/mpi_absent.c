/* Built without MPI: one process only; several ranks are an error. */
#include "train/mpi_env.h"

int mpi_ranks_open(const tfm_process_group **ranks, int *local) {
    int rank;
    const int world = mpi_launched_ranks(&rank);
    *ranks = NULL;
    *local = 0;
    if (world == 1)
        return CLI_OK;
    return rank > 0 ? CLI_FAILED
                    : cli_fail("%d ranks were started together, and this tfm was built without MPI: build it where "
                               "libopenmpi-dev is installed, or start it without mpirun",
                               world);
}

void mpi_ranks_close(void) {
}
