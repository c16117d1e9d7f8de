/* Micro-batches, which are uploaded one at a time. */
#ifndef TFM_LIB_MICRO_BATCH_H
#define TFM_LIB_MICRO_BATCH_H

#include "train/trainer.h"

/* Rows of a batch, as wide as the longest of them, or all rows, as wide as the batch. */
typedef struct tfm__micro_batch {
    const tfm_batch *batch;
    int64_t first, count, source_width, target_width;
} tfm__micro_batch;

/* One upload: sources (B, S), the decoder's input (B, T), targets (B, T) and the source lengths (B). Language models
 * have neither sources nor lengths. */
typedef struct tfm__device_batch {
    tfm_tensor sources, inputs, targets, lengths;
} tfm__device_batch;

/* Tokens uploaded, without padding: source tokens, and targets. */
typedef struct tfm__token_counts {
    uint64_t source, target;
} tfm__token_counts;

/* Tokens of a row that are not targets: 1 for a language model, whose inputs are all tokens except the last and whose
 * targets are all except the first; 0 for a translation, which begins with a start token. */
int64_t tfm__trainer_target_shift(const tfm_trainer *t);
/* Rejects a batch that the model cannot process; `call` is used in the error message. */
tfm_status tfm__train_batch_check(const tfm_trainer *t, const char *call, const tfm_batch *b);
/* The target tokens of a valid batch, without tokens that have no loss. */
uint64_t tfm__train_batch_targets(const tfm_trainer *t, const tfm_batch *b);
/* The rows of a batch from `first` on, at most `rows`. */
tfm__micro_batch tfm__micro_batch_slice(const tfm_batch *b, int64_t first, int64_t rows);
/* Uploads a micro-batch, and adds its tokens to *sent. */
tfm_status tfm__micro_batch_upload(tfm_trainer *t, tfm__device_batch *u, const tfm__micro_batch *p,
                                   tfm__token_counts *sent);

#endif
