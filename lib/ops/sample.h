/* tfm_sample for rows that come and go. */
#ifndef TFM_LIB_SAMPLE_H
#define TFM_LIB_SAMPLE_H

#include "ops/ops.h"

/* What tfm_sample does; but the random number of row r is that of row streams[r], where `streams` (R) I32 is not
 * empty. */
tfm_status tfm__sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                       tfm_tensor streams, const tfm_sample_options *options);

#endif
