/* GEMM by int8 weights: what gemm_int8.c, gemm_int8_gpu.c and gemm_int8_reference.c share. */
#ifndef TFM_LIB_GEMM_INT8_H
#define TFM_LIB_GEMM_INT8_H

#include "ops/gemm/gemm.h"

/* Rows of quantized activations are padded to this many numbers, as cl/common/int8_common.cl has it. */
enum { TFM__INT8_PADDING = 64 };
static inline int64_t tfm__int8_padded(int64_t k) {
    return tfm__ceil_div(k, TFM__INT8_PADDING) * TFM__INT8_PADDING;
}

/* gemm_int8_reference.c: runs anywhere. */
tfm_status tfm__int8_reference(tfm_context *ctx, const tfm__gemm_task *task);

/* Whether such layers are faster here than those of floats: on CPUs with AVX2 or more, whose kernels are right. Tries
 * these out at the first call; false after a failure. */
bool tfm__int8_is_fast(tfm_context *ctx);
/* Makes what such layers keep with a weight, which they make at their first use otherwise. */
tfm_status tfm__int8_prepare(tfm_context *ctx, tfm_param *weight);

/* gemm_int8_gpu.c: by work-groups, where the device has room for them; else, by what runs anywhere. */
tfm_status tfm__int8_gpu(tfm_context *ctx, const tfm__gemm_task *task);
/* Why the instruction that devices of this kind have for it is not used for such a task, NULL where it is: once the
 * task has run. */
const char *tfm__int8_dp4a_declines(tfm_context *ctx, const tfm__gemm_task *task);

#endif
