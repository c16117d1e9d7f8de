/* The ranks of a run: processes that a launcher such as mpirun has started together. */
#ifndef TFM_LAUNCHED_APP_H
#define TFM_LAUNCHED_APP_H

#include "cli/cli.h"

/* How many of this program the launcher has started, and which this is, by its environment; 1 and 0 without one. */
int mpi_launched_ranks(int *rank);

/* Joins the others. *ranks is how they talk, and *local the number of this one among those of its machine; NULL for a
 * process alone. Fails where the program cannot: then the first has said so (mpi.c, mpi_absent.c). */
int mpi_ranks_open(const tfm_process_group **ranks, int *local);
/* Leaves them. Every rank calls it, and waits for the others. */
void mpi_ranks_close(void);

#endif
