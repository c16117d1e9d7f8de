/* tfm_rotary of queries and keys. */
#ifndef TFM_LIB_ROTARY_H
#define TFM_LIB_ROTARY_H

#include "ops/ops.h"

/* What tfm_rotary makes of two tensors (B, T, H D) whose heads are as wide: y of x, which has `heads`, and y2 of
 * x2, which has options->heads. In one launch, unless the tape records it. A y2 that was made as F16 or BF16
 * gets what tfm__cast_saturating makes of it. */
tfm_status tfm__rotary_pair(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int heads, tfm_tensor *y2, tfm_tensor x2,
                            tfm_tensor cosines, tfm_tensor sines, const tfm_rotary_options *options);

#endif
