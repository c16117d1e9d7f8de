/* tfm_sample with a random stream per row, for continuous batching. */
#ifndef TFM_LIB_SAMPLE_H
#define TFM_LIB_SAMPLE_H

#include "ops/ops.h"

/* tfm_sample, except that row r uses the random numbers of row streams[r], if `streams` (R) I32 is not empty. */
tfm_status tfm__sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                       tfm_tensor streams, const tfm_sample_options *options);

/* On GPU-style devices, in one launch: tfm__sample, plus values (R), the logits of the ids, -inf for -1, and lse (R),
 * the log-sum-exp of each row's logits. Row r uses stream streams[sources[r]]; both are I32. Creates empty outputs in
 * the current scope. */
tfm_status tfm__sample_with_scores(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *values, tfm_tensor *lse,
                                   tfm_tensor logits, tfm_tensor streams, tfm_tensor sources,
                                   const tfm_sample_options *options);

/* Options of one row of tfm__sample_rows. */
enum { TFM__SAMPLE_SETTINGS = 4, TFM__SAMPLE_NUMBERS = 5 };
/* Fills a row's settings and numbers: tfm_sample's `options` (checked by the caller) with this random stream, or
 * greedy search if `options` is NULL. */
void tfm__sample_row(float *settings, int32_t *numbers, const tfm_sample_options *options, uint32_t stream);
/* ids (R) from logits (R, V), each row with its own options: settings (R, TFM__SAMPLE_SETTINGS) F32 and numbers (R,
 * TFM__SAMPLE_NUMBERS) I32. -1 where all logits are -inf. */
tfm_status tfm__sample_rows(tfm_context *ctx, tfm_tensor *ids, tfm_tensor logits, tfm_tensor settings,
                            tfm_tensor numbers);

#endif
