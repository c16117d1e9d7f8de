/* The ranks of a run: processes started together by a launcher such as mpirun. */
#ifndef TFM_LAUNCHED_APP_H
#define TFM_LAUNCHED_APP_H

#include "cli/cli.h"

/* World size and rank from the launcher's environment; 1 and 0 without a launcher. */
int mpi_launched_ranks(int *rank);

/* Joins the other ranks. *ranks: the process group, NULL for a single process; *local: the rank within its machine.
 * After a failure rank 0 has printed the message (mpi.c, mpi_absent.c). */
int mpi_ranks_open(const tfm_process_group **ranks, int *local);
/* Leaves the group. Every rank calls it, and waits for the others. */
void mpi_ranks_close(void);

#endif
