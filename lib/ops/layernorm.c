/* Layer normalisation with the residual addition in front of it: cl/layernorm.cl. */
#include "ops/ops.h"

static tfm_status check_vector(tfm_context *ctx, const char *label, tfm_tensor v, tfm_tensor x) {
    if (!v.buffer || (v.rank == 1 && v.dims[0] == tfm__last_dim(x)))
        return TFM_OK;
    return tfm__op_refuse(ctx, "layernorm", "%s is %s, but x is %s: give one value for each column of x",
                          label, TFM_SHAPE(v), TFM_SHAPE(x));
}

tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                         tfm_tensor gamma, tfm_tensor beta, float epsilon) {
    const char *op = "layernorm";
    if (TFM_OP_BEGIN(ctx, op, "fFFF", x, residual, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    if (residual.buffer && !tfm__same_dims(residual, x))
        return tfm__op_refuse(ctx, op, "residual is %s, but x is %s: the dims must be equal",
                              TFM_SHAPE(residual), TFM_SHAPE(x));
    if (check_vector(ctx, "gamma", gamma, x) != TFM_OK || check_vector(ctx, "beta", beta, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (!(epsilon >= 0.0f))
        return tfm__op_refuse(ctx, op, "epsilon is %g: it must not be negative", (double)epsilon);
    if (tfm__op_output_like(ctx, op, y, x) != TFM_OK ||
        (sum && tfm__op_output_like(ctx, op, sum, x) != TFM_OK))
        return tfm_context_status(ctx);
    if (sum && sum->buffer == y->buffer && sum->offset == y->offset)
        return tfm__op_refuse(ctx, op, "y and sum are the same tensor: give each its own");
    const int64_t n = tfm__last_dim(x), rows = tfm__row_count(x);
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "layernorm", "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T_AS("sum", sum ? *sum : *y), TFM_T(x),
                                TFM_T(residual), TFM_T(gamma), TFM_T(beta), TFM_I(rows), TFM_I(n),
                                TFM_F(epsilon)));
}
