/* Which entry of each row of a product is the largest, by bytes and by as few floats as that takes. */
#ifndef TFM_LIB_ARGMAX_INT8_H
#define TFM_LIB_ARGMAX_INT8_H

#include "dev/dev.h"

/* A weight w (V, K) F32 as bytes, and how far they are from it: V K bytes and 16 V besides. All zeros is none. */
typedef struct tfm__int8_screen {
    tfm_param bytes;   /* (V, K) I8, for tfm_linear */
    tfm_tensor bounds; /* (2, V): as cl/gemm/argmax_int8.cl says */
    uint64_t version;  /* 1 + that of the weight that they are of; 0: there are none */
} tfm__int8_screen;

/* Whether it is worth it on this device for such a weight: where bytes are multiplied by instructions that are faster
 * than those of floats. False after a failure, too. */
bool tfm__argmax_int8_supported(tfm_context *ctx, tfm_tensor weight);

/* Has *screen be of this weight, (V, K) F32, in memory that lasts. tfm__int8_screen_free frees it, also after a
 * failure. */
tfm_status tfm__int8_screen_update(tfm_context *ctx, tfm__int8_screen *screen, const tfm_param *weight);
void tfm__int8_screen_free(tfm_context *ctx, tfm__int8_screen *screen);

/* A product weight x + bias whose largest entries are wanted. */
typedef struct tfm__argmax_int8_task {
    tfm__int8_screen *screen; /* that of the weight */
    const tfm_param *weight;
    tfm_tensor bias;     /* (V): -inf for entries that may not be chosen */
    tfm_tensor x;        /* (R, K) */
    tfm_tensor verified; /* (1) I32: gets as many more as entries were multiplied in floats */
} tfm__argmax_int8_task;

/* For each row of x the largest entry and its index, the lower one of equal ones: values and tokens (R, 1), made in the
 * current scope. Where all entries are -inf, the largest is -inf, and its index 0. It is NaN where x has a number that
 * is not finite. A row of the weight with such a number counts as in floats, so that the largest may be infinite or
 * NaN. */
tfm_status tfm__argmax_int8(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens,
                            const tfm__argmax_int8_task *product);
/* The same in two steps, between which the caller may make entries of approx (R, V) -inf, those that may not be chosen.
 */
tfm_status tfm__argmax_int8_approximate(tfm_context *ctx, tfm_tensor *approx, const tfm__argmax_int8_task *product);
tfm_status tfm__argmax_int8_verify(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor approx,
                                   const tfm__argmax_int8_task *product);

#endif
