/* Launch of cl/gemm/gemm_gpu_skinny.cl: linear layers of few rows on GPU-style devices, several layers of one input
 * with the preceding norm. gemm_gpu_skinny.c uses it as a provider for one layer, fused_linear.c for all of them. */
#ifndef TFM_LIB_GEMM_GPU_SKINNY_H
#define TFM_LIB_GEMM_GPU_SKINNY_H

#include "ops/gemm/gemm.h"

/* Layers with n == 0 are absent. A gate has n == 0 too, since it has no separate output. */
typedef struct tfm__skinny_launch {
    tfm_tensor c[TFM__GEMM_MAX_GROUP], w[TFM__GEMM_MAX_GROUP], bias[TFM__GEMM_MAX_GROUP];
    int64_t n[TFM__GEMM_MAX_GROUP];
    tfm_dtype stored; /* of all of w */
    tfm_dtype kept;   /* dtype of the c that are not F32 */
    tfm_tensor a, residual, gamma, beta, sum, normed;
    int64_t m, k;
    int norm; /* 0: none, 1: layer norm, 2: RMS norm */
    bool gated;
    float epsilon;
    tfm_activation activation;
} tfm__skinny_launch;

/* Whether local memory of a work-group holds a row of k numbers and its norm. */
bool tfm__skinny_fits_norm(tfm_context *ctx, int64_t m, int64_t k);
/* Whether all tensors that the kernel accesses as vectors of four are aligned to four elements. */
bool tfm__skinny_aligned_vec4(tfm_tensor x);
tfm_status tfm__skinny_enqueue(tfm_context *ctx, const tfm__skinny_launch *l);

#endif
