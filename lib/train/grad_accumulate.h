/* Forward and backward of batches, in micro-batches that fit into the device's memory. */
#ifndef TFM_LIB_GRAD_ACCUMULATE_H
#define TFM_LIB_GRAD_ACCUMULATE_H

#include "train/micro_batch.h"

/* Sums over micro-batches. */
typedef struct tfm__loss_sums {
    tfm_tensor loss, nll; /* (1) */
    tfm__token_counts tokens;
} tfm__loss_sums;

/* Per micro-batch: an update's forward and backward, or an evaluation's forward. */
typedef struct tfm__pass_options {
    bool training;
    int64_t update;
    float smoothing, scale;
    uint64_t max_batches; /* With several ranks: the largest number of batches of a rank, times the number of ranks. */
    bool last_micro_batch;
} tfm__pass_options;

/* Runs all batches, split if they do not fit. On success a scope with the sums stays open. */
tfm_status tfm__run_micro_batches(tfm_trainer *t, tfm__loss_sums *s, const tfm_batch *batches, size_t count,
                                  const tfm__pass_options *options, const char *what);
/* Restores the context's earlier state, stops the tape, and makes the context's error this thread's message. */
tfm_status tfm__trainer_recover(tfm_trainer *t, int depth, const char *what, const char *advice);

#endif
