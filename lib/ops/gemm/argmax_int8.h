/* Argmax of each row of a matrix multiplication: screened in int8, verified in fp32 for as few entries as needed. */
#ifndef TFM_LIB_ARGMAX_INT8_H
#define TFM_LIB_ARGMAX_INT8_H

#include "dev/dev.h"

/* A weight w (V, K) F32 quantized to int8, with error bounds: V K bytes plus 16 V. All zeros means none. */
typedef struct tfm__int8_screen {
    tfm_param bytes;   /* (V, K) I8, for tfm_linear */
    tfm_tensor bounds; /* (2, V): as cl/gemm/argmax_int8.cl says */
    uint64_t version;  /* 1 + the version of its weight; 0: none */
} tfm__int8_screen;

/* Whether screening pays for such a weight on this device: int8 instructions faster than fp32. False after a failure,
 * too. */
bool tfm__argmax_int8_supported(tfm_context *ctx, tfm_tensor weight);

/* Fills *screen from this weight (V, K) F32, in persistent memory. tfm__int8_screen_free frees it, also after a
 * failure. */
tfm_status tfm__int8_screen_update(tfm_context *ctx, tfm__int8_screen *screen, const tfm_param *weight);
void tfm__int8_screen_free(tfm_context *ctx, tfm__int8_screen *screen);

/* The layer weight x + bias, input of the argmax. */
typedef struct tfm__argmax_int8_task {
    tfm__int8_screen *screen; /* the screen of weight */
    const tfm_param *weight;
    tfm_tensor bias;     /* (V): -inf excludes an entry */
    tfm_tensor x;        /* (R, K) */
    tfm_tensor verified; /* (1) I32: incremented by the number of entries multiplied in fp32 */
} tfm__argmax_int8_task;

/* For each row of x the largest entry and its index, the lower of equal ones: values and tokens (R, 1), created in the
 * current scope. If all entries are -inf, the value is -inf and the index 0. The value is NaN if x has a non-finite
 * number. A weight row with one is treated as in fp32, so the value may be infinite or NaN. */
tfm_status tfm__argmax_int8(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens,
                            const tfm__argmax_int8_task *product);
/* The same in two steps: in between, the caller may set entries of approx (R, V) to -inf to exclude them. */
tfm_status tfm__argmax_int8_approximate(tfm_context *ctx, tfm_tensor *approx, const tfm__argmax_int8_task *product);
tfm_status tfm__argmax_int8_verify(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor approx,
                                   const tfm__argmax_int8_task *product);

#endif
