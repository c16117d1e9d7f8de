/* The sum of all ranks' gradients, a bucket at a time, while the backward pass still runs. */
#ifndef TFM_LIB_ALLREDUCE_H
#define TFM_LIB_ALLREDUCE_H

#include "train/trainer.h"

/* Makes room for it, for the trainer's ranks; frees it. */
tfm_status tfm__allreduce_open(tfm_trainer *t);
void tfm__allreduce_close(tfm_trainer *t);

/* Has the next backward pass start to read each bucket of the gradient as soon as it is whole. */
void tfm__allreduce_prepare_backward(tfm_trainer *t);
/* Forgets what was read so far, as of an attempt that failed. */
void tfm__allreduce_reset(tfm_trainer *t);

/* Waits for the buckets in turn, sends each, and adds up this rank's blocks in the order of the ranks; *squares is the
 * sum of their squares. `shared` has the sum then: all of it, or where the state is sharded, the rank's own blocks. A
 * rank that fails, which *status says before or becomes here, has nothing to add, but sends all the same, since the
 * others wait for it. False where the ranks cannot talk. */
bool tfm__allreduce_gradients(tfm_trainer *t, double *squares, tfm_status *status);

/* Each rank's blocks of `shared` become those of all. False where the ranks cannot talk. */
bool tfm__allgather_params(tfm_trainer *t);

#endif
