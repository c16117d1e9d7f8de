/* Rank and world size from the environment of launchers. */
#include <stdlib.h>
#include "train/mpi_env.h"

int mpi_launched_ranks(int *rank) {
    /* Open MPI's mpirun; MPICH's, and Slurm's srun with --mpi=pmi2. */
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};
    *rank = 0;
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        const char *const world = getenv(names[i][0]), *const own = getenv(names[i][1]);
        if (world && own && atoi(world) > 1) {
            *rank = atoi(own);
            return atoi(world);
        }
    }
    return 1;
}
