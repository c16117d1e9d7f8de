/* Linear layers of one input, with a norm in front of them. */
#ifndef TFM_LIB_FUSED_LINEAR_H
#define TFM_LIB_FUSED_LINEAR_H

#include "ops/ops.h"

/* What the layers read: x (..., K), or norm(x + residual). */
typedef struct tfm__fused_input {
    tfm_tensor x;
    tfm_tensor residual; /* (..., K), or empty for none; it counts only where `normed` */
    bool normed;
    bool root_mean_square;  /* tfm_rmsnorm, not tfm_layernorm */
    tfm_tensor gamma, beta; /* (K), or empty */
    float epsilon;
    tfm_tensor *sum;  /* gets x + residual; NULL: nobody wants it */
    tfm_tensor *norm; /* gets the norm of that; NULL: nobody wants it */
} tfm__fused_input;

typedef struct tfm__fused_output {
    tfm_tensor *y;     /* (..., N) */
    tfm_param *weight; /* (N, K) */
    tfm_tensor bias;   /* (N), or empty */
} tfm__fused_output;

/* y_i = activation(x w_i^T + bias_i) for each of `count` outputs, three at most, and what else the input asks for.
 * Where a device has a kernel for it, those of few rows are one launch with their norm; else the norm is what
 * tfm_layernorm or tfm_rmsnorm makes, and the layers one launch (tfm__linear_grouped) or what tfm_linear makes of each.
 * Outputs are made in the current scope if they are empty; one that was made as F16 or BF16 gets what
 * tfm__cast_saturating makes of its result. Backward: as of those ops. */
tfm_status tfm__fused_linear(tfm_context *ctx, const tfm__fused_input *input, int count,
                             const tfm__fused_output *outputs, tfm_activation activation);
/* y = (x w_up^T + bias_up) activation(x w_gate^T + bias_gate), as tfm_glu makes it of the two; their own outputs are
 * not asked for. */
tfm_status tfm__fused_linear_gated(tfm_context *ctx, const tfm__fused_input *input, tfm_tensor *y, tfm__fused_output up,
                                   tfm__fused_output gate, tfm_activation activation);

/* gemm_grouped.c: several layers of x in one launch, each with the numbers that tfm_linear gives, where the provider of
 * their products can do that. False: it cannot, and nothing is done. True: it is done, or the context has failed. */
bool tfm__linear_grouped(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                         tfm_activation activation);

#endif
