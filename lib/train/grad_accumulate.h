/* Forward and backward of batches, in pieces that fit into the device's memory. */
#ifndef TFM_LIB_GRAD_ACCUMULATE_H
#define TFM_LIB_GRAD_ACCUMULATE_H

#include "train/micro_batch.h"

/* What is added up over pieces. */
typedef struct tfm__loss_sums {
    tfm_tensor loss, nll; /* (1) */
    tfm__token_counts tokens;
} tfm__loss_sums;

/* What is done with every piece: an update's forward and backward, or an evaluation's forward. */
typedef struct tfm__pass_options {
    bool training;
    int64_t update; /* The number of the update. */
    float smoothing, scale;
    uint64_t max_batches;  /* Where there are several ranks: the most that one has, times their number. */
    bool last_micro_batch; /* No piece follows. */
} tfm__pass_options;

/* Runs all batches, in pieces where they do not fit. If all goes well, a scope is left open that has the sums. */
tfm_status tfm__run_micro_batches(tfm_trainer *t, tfm__loss_sums *s, const tfm_batch *batches, size_t count,
                                  const tfm__pass_options *options, const char *what);
/* Puts the context back to where it was before, with the tape stopped, and makes its error this thread's sentence. */
tfm_status tfm__trainer_recover(tfm_trainer *t, int depth, const char *what, const char *advice);

#endif
