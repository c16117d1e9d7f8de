/* Pieces of a batch, which are sent to the device one at a time. */
#ifndef TFM_LIB_MICRO_BATCH_H
#define TFM_LIB_MICRO_BATCH_H

#include "train/trainer.h"

/* Some rows of a batch, as wide as the longest of them, or all of them, as wide as the batch. */
typedef struct tfm__micro_batch {
    const tfm_batch *batch;
    int64_t first, count, source_width, target_width;
} tfm__micro_batch;

/* What is sent at once: sources (B, S), the decoder's input (B, T), targets (B, T) and the lengths of the sources (B).
 * A language model has neither sources nor lengths. */
typedef struct tfm__device_batch {
    tfm_tensor sources, inputs, targets, lengths;
} tfm__device_batch;

/* How many tokens were sent, without padding: those that are read of the sources, and those that are learned. */
typedef struct tfm__token_counts {
    uint64_t source, target;
} tfm__token_counts;

/* How many tokens of a row are not learned: a language model reads a text but for its last token, and learns it but for
 * its first. A translation begins after a token that is not in it. */
int64_t tfm__trainer_target_shift(const tfm_trainer *t);
/* Refuses a batch that the model cannot take; `call` is for the sentence. */
tfm_status tfm__train_batch_check(const tfm_trainer *t, const char *call, const tfm_batch *b);
/* The rows of a batch from `first` on, at most `rows`. */
tfm__micro_batch tfm__micro_batch_slice(const tfm_batch *b, int64_t first, int64_t rows);
/* Sends a piece, and adds its tokens to *sent. */
tfm_status tfm__micro_batch_upload(tfm_trainer *t, tfm__device_batch *u, const tfm__micro_batch *p,
                                   tfm__token_counts *sent);

#endif
