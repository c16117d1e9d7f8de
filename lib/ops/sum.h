/* Sums for other ops' backward passes. */
#ifndef TFM_LIB_SUM_H
#define TFM_LIB_SUM_H

#include "ops/tape.h"

/* to (outer, inner) = or += the sums of x (outer, rows, inner) over its middle dimension, whatever dims both
 * have. An empty `to` is nothing to do. */
tfm_status tfm__sum_into(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer, int64_t rows,
                         int64_t inner);

/* The gradient of what was broadcast to dy's dims, as in NumPy: to = or += dy summed over what was repeated.
 */
tfm_status tfm__sum_broadcast(tfm_context *ctx, tfm__gradient to, tfm_tensor dy);

#endif
