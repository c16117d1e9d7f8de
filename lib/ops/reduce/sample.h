/* tfm_sample for rows that come and go. */
#ifndef TFM_LIB_SAMPLE_H
#define TFM_LIB_SAMPLE_H

#include "ops/ops.h"

/* What tfm_sample does; but the random number of row r is that of row streams[r], where `streams` (R) I32 is not
 * empty. */
tfm_status tfm__sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                       tfm_tensor streams, const tfm_sample_options *options);

/* On GPU-style devices, in one launch: what tfm__sample does, and values (R), the logits of the ids, -inf for -1, and
 * lse (R), the logarithm of the sum of e to a row's logits. Row r is of the stream streams[sources[r]]; both are
 * I32. All three outputs are made in the current scope if they are empty. */
tfm_status tfm__sample_with_scores(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *values, tfm_tensor *lse,
                                   tfm_tensor logits, tfm_tensor streams, tfm_tensor sources,
                                   const tfm_sample_options *options);

#endif
