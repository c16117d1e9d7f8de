/* The launch of cl/gemm/gemm_gpu_skinny.cl: linear layers of few rows on GPU-style devices, several of one input and
 * the norm before them at once. gemm_gpu_skinny.c has it as a provider of one layer, fused_linear.c of all. */
#ifndef TFM_LIB_GEMM_GPU_SKINNY_H
#define TFM_LIB_GEMM_GPU_SKINNY_H

#include "ops/gemm/gemm.h"

/* Layers without columns are not there; nor has a gate columns, whose product is no result of its own. */
typedef struct tfm__skinny_launch {
    tfm_tensor c[TFM__GEMM_MAX_GROUP], w[TFM__GEMM_MAX_GROUP], bias[TFM__GEMM_MAX_GROUP];
    int64_t n[TFM__GEMM_MAX_GROUP];
    tfm_dtype stored; /* of all of w */
    tfm_dtype kept;   /* of those of c that are not F32 */
    tfm_tensor a, residual, gamma, beta, sum, normed;
    int64_t m, k;
    int norm; /* 0 for none, 1 layer, 2 root mean square */
    bool gated;
    float epsilon;
    tfm_activation activation;
} tfm__skinny_launch;

/* Whether a work-group has local memory for a row of k numbers and its norm. */
bool tfm__skinny_fits_norm(tfm_context *ctx, int64_t m, int64_t k);
/* Tensors that the kernel reads or writes by fours begin at a multiple of four. */
bool tfm__skinny_aligned_vec4(tfm_tensor x);
tfm_status tfm__skinny_enqueue(tfm_context *ctx, const tfm__skinny_launch *l);

#endif
