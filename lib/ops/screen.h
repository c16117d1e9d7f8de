/* Which entry of each row of a product is the largest, by bytes and by as few floats as that takes. */
#ifndef TFM_LIB_SCREEN_H
#define TFM_LIB_SCREEN_H

#include "ops/ops.h"

/* A weight w (V, K) F32 as bytes, and how far they are from it. All zeros is none. */
typedef struct tfm__screen {
    tfm_param bytes;   /* (V, K) I8, for tfm_linear */
    tfm_tensor bounds; /* (2, V): as cl/screen.cl says */
    uint64_t version;  /* 1 + that of the weight that they are of; 0: there are none */
} tfm__screen;

/* Whether it is worth it on this device for such a weight: where bytes are multiplied by instructions of their own.
 * False after a failure, too. */
bool tfm__screen_serves(tfm_context *ctx, tfm_tensor weight);

/* Has *screen be of this weight, (V, K) F32, in memory that lasts. tfm__screen_free frees it, also after a failure. */
tfm_status tfm__screen_make(tfm_context *ctx, tfm__screen *screen, const tfm_param *weight);
void tfm__screen_free(tfm_context *ctx, tfm__screen *screen);

/* For each row of x (R, K) the largest entry of weight x + bias, its index, the lower one of equal ones, and a number
 * that as a normaliser makes its log p 0: values and tokens (R, 1) and sums (R), made in the current scope. `near`
 * (R, V) is what tfm_linear makes of x by screen->bytes and the bias (V), or -inf for entries that are not to be
 * chosen. Where all are -inf or NaN, the largest is -inf, and its index 0. Returns 1; or how many parts of the entries
 * the device has looked through, and the three are as tfm__topk_of_parts makes them, (R, parts, 1) and (R, parts, 2).
 */
int64_t tfm__screen_best(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *sums, tfm_tensor near,
                         tfm_tensor x, const tfm__screen *screen, const tfm_param *weight, tfm_tensor bias);

#endif
