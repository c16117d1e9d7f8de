/* The ranks of a run, by MPI. An MPI error aborts all of them (MPI's default). */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "train/mpi_env.h"

/* Waits for a call. While another rank validates or writes, this may take minutes: after a moment the rank sleeps
 * between polls. */
static bool wait_for(MPI_Request request) {
    const double moment = 0.02, begun = cli_seconds();
    for (int done = 0; !done;) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!done && cli_seconds() - begun > moment)
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        else if (!done)
            sched_yield();
    }
    return true;
}

static bool all_to_all(void *user, void *in, const void *out, size_t bytes) {
    MPI_Request request;
    (void)user;
    return MPI_Ialltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &request) ==
               MPI_SUCCESS &&
           wait_for(request);
}

static bool all_gather(void *user, void *all, const void *own, size_t bytes) {
    MPI_Request request;
    (void)user;
    return MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD, &request) ==
               MPI_SUCCESS &&
           wait_for(request);
}

static tfm_process_group ours = {.all_to_all = all_to_all, .all_gather = all_gather};

int mpi_ranks_open(const tfm_process_group **ranks, int *local) {
    int rank, given;
    MPI_Comm machine;
    *ranks = NULL;
    *local = 0;
    if (mpi_launched_ranks(&rank) == 1 && !getenv("PMIX_RANK"))
        return CLI_OK;
    /* Over one TCP connection Open MPI sends in one direction at a time, over two in both: with one, gradients took
     * twice the time of the link. */
    setenv("OMPI_MCA_btl_tcp_links", "2", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
        return cli_fail("MPI cannot be started");
    MPI_Comm_rank(MPI_COMM_WORLD, &ours.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ours.world_size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ours.rank, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, local);
    MPI_Comm_free(&machine);
    if (ours.world_size > 1)
        *ranks = &ours;
    return CLI_OK;
}

void mpi_ranks_close(void) {
    int open = 0;
    if (MPI_Initialized(&open) == MPI_SUCCESS && open)
        MPI_Finalize();
}
