/* The all-reduce of gradients, per bucket, overlapped with the backward pass. */
#ifndef TFM_LIB_ALLREDUCE_H
#define TFM_LIB_ALLREDUCE_H

#include "train/trainer.h"

/* Allocates its buffers for the trainer's ranks; frees them. */
tfm_status tfm__allreduce_open(tfm_trainer *t);
void tfm__allreduce_close(tfm_trainer *t);

/* Makes the next backward pass start reading each gradient bucket as soon as it is complete. */
void tfm__allreduce_prepare_backward(tfm_trainer *t);
/* Discards reads of a failed attempt. */
void tfm__allreduce_reset(tfm_trainer *t);

/* Waits for each bucket, sends it, and sums this rank's blocks in rank order; *squares is the sum of their squares.
 * `shared` then has the whole sum, or with sharded state this rank's blocks. A failed rank (*status before, or set
 * here) contributes zeros but still communicates, since the others wait for it. False if communication fails. */
bool tfm__allreduce_gradients(tfm_trainer *t, double *squares, tfm_status *status);

/* All-gathers the ranks' blocks of `shared`. False if communication fails. */
bool tfm__allgather_params(tfm_trainer *t);

#endif
