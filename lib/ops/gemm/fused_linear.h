/* Fused linear layers of one input, with a preceding norm. */
#ifndef TFM_LIB_FUSED_LINEAR_H
#define TFM_LIB_FUSED_LINEAR_H

#include "ops/ops.h"

/* Input of the layers: x (..., K), or norm(x + residual). */
typedef struct tfm__fused_input {
    tfm_tensor x;
    tfm_tensor residual; /* (..., K), or empty for none; used only if `normed` */
    bool normed;
    bool root_mean_square;  /* tfm_rmsnorm, not tfm_layernorm */
    tfm_tensor gamma, beta; /* (K), or empty */
    float epsilon;
    tfm_tensor *sum;  /* receives x + residual; NULL: not required */
    tfm_tensor *norm; /* receives the norm of that; NULL: not required */
} tfm__fused_input;

typedef struct tfm__fused_output {
    tfm_tensor *y;     /* (..., N) */
    tfm_param *weight; /* (N, K) */
    tfm_tensor bias;   /* (N), or empty */
} tfm__fused_output;

/* Called before each linear layer of a context, with its input; it may replace the weight's value. While there is one,
 * layers run one at a time. A status other than TFM_OK is also the context's. NULL: none. */
typedef struct tfm__linear_observer {
    tfm_status (*before)(void *user, tfm_tensor x, tfm_param *weight);
    void *user;
} tfm__linear_observer;
void tfm__linear_set_observer(tfm_context *ctx, const tfm__linear_observer *observer);
const tfm__linear_observer *tfm__linear_get_observer(const tfm_context *ctx);

/* y_i = activation(x w_i^T + bias_i) for each of `count` outputs, at most three, plus the requested norm outputs. For
 * few rows, one launch including the norm if the device has the kernel; else tfm_layernorm or tfm_rmsnorm, then one
 * launch for all layers (tfm__linear_grouped) or tfm_linear for each. Creates empty outputs in the current scope; an
 * F16 or BF16 output is converted as by tfm__cast_saturating. The backward pass is that of the separate ops. */
tfm_status tfm__fused_linear(tfm_context *ctx, const tfm__fused_input *input, int count,
                             const tfm__fused_output *outputs, tfm_activation activation);
/* y = (x w_up^T + bias_up) activation(x w_gate^T + bias_gate), as tfm_glu of the two layers; their separate outputs are
 * not written. */
tfm_status tfm__fused_linear_gated(tfm_context *ctx, const tfm__fused_input *input, tfm_tensor *y, tfm__fused_output up,
                                   tfm__fused_output gate, tfm_activation activation);

/* gemm_grouped.c: several layers of x in one launch, with the same results as tfm_linear, if the layers' provider
 * supports it. False: unsupported, nothing is done. True: done, or the context has failed. */
bool tfm__linear_grouped(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                         tfm_activation activation);

#endif
