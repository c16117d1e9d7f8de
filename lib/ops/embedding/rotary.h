/* RoPE of queries and keys in one launch. */
#ifndef TFM_LIB_ROTARY_H
#define TFM_LIB_ROTARY_H

#include "ops/ops.h"

/* tfm_rotary of two tensors (B, T, H D) with the same head width: y of x, with `heads` heads, and y2 of x2, with
 * options->heads. One launch, unless the tape records it. A y2 that exists as F16 or BF16 is converted as by
 * tfm__cast_saturating. */
tfm_status tfm__rotary_pair(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int heads, tfm_tensor *y2, tfm_tensor x2,
                            tfm_tensor cosines, tfm_tensor sines, const tfm_rotary_options *options);

#endif
