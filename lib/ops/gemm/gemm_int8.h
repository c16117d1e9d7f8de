/* int8 GEMM: declarations shared by gemm_int8.c, gemm_int8_gpu.c and gemm_int8_reference.c. */
#ifndef TFM_LIB_GEMM_INT8_H
#define TFM_LIB_GEMM_INT8_H

#include "ops/gemm/gemm.h"

/* Rows of quantized activations are padded to this many elements, as in cl/common/int8_common.cl. */
enum { TFM__INT8_PADDING = 64 };
static inline int64_t tfm__int8_padded(int64_t k) {
    return tfm__ceil_div(k, TFM__INT8_PADDING) * TFM__INT8_PADDING;
}

/* gemm_int8_reference.c: the fallback for all devices. */
tfm_status tfm__int8_reference(tfm_context *ctx, const tfm__gemm_task *task);

/* Whether int8 layers are faster than fp32 here: CPUs with AVX2 or more and valid kernels. Validates them at the first
 * call; false after a failure. */
bool tfm__int8_is_fast(tfm_context *ctx);
/* Creates the data that such layers cache with a weight, otherwise created at their first use. */
tfm_status tfm__int8_prepare(tfm_context *ctx, tfm_param *weight);

/* gemm_int8_gpu.c: GPU kernels if the device has the resources for them; else the reference kernel. */
tfm_status tfm__int8_gpu(tfm_context *ctx, const tfm__gemm_task *task);
/* Why the task does not use the device's int8 instruction; NULL if it does. Call it after the task has run. */
const char *tfm__int8_dp4a_declines(tfm_context *ctx, const tfm__gemm_task *task);

#endif
