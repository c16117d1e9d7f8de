/* tfm_rotary of queries and keys. */
#ifndef TFM_LIB_ROTARY_H
#define TFM_LIB_ROTARY_H

#include "ops/ops.h"

/* What tfm_rotary makes of two tensors (B, T, H D) whose heads are as wide: y of x, which has `heads`, and more_y of
 * more_x, which has options->heads. In one launch, unless the tape records it. A more_y that was made as F16 or BF16
 * gets what tfm__keep makes of it. */
tfm_status tfm__rotary_both(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int heads, tfm_tensor *more_y,
                            tfm_tensor more_x, tfm_tensor cosines, tfm_tensor sines, const tfm_rotary_options *options);

#endif
