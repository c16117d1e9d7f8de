/* Reference kernel of int8 weights, for every device: cl/gemm/gemm_int8.cl. */
#include "ops/gemm/gemm_int8.h"

static tfm__kernel *kernel_of(tfm_context *ctx, const char *name, tfm_activation activation) {
    return tfm__kernel_get(ctx, "gemm_int8", name, "-DPLAIN -DTFM_ACTIVATION=%d", activation);
}

tfm_status tfm__int8_reference(tfm_context *ctx, const tfm__gemm_task *t) {
    tfm_tensor a = {0}, row_scales = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &a, TFM_I8, 2, (int64_t[]){t->m, tfm__int8_padded(t->k)});
    tfm_tensor_new(ctx, &row_scales, TFM_F32, 1, &t->m);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(
            ctx, kernel_of(ctx, "int8_quantize_rows_reference", t->activation), tfm__row_grid(ctx, t->m),
            TFM__ARGS(TFM__T(a), TFM__T(row_scales), TFM__T_AS("x", t->a), TFM__I_AS("m", t->m), TFM__I_AS("k", t->k)));
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel_of(ctx, "gemm_int8_reference", t->activation), tfm__element_grid(ctx, t->m * t->n),
                    TFM__ARGS(TFM__T_AS("c", t->c), TFM__T(a), TFM__T(row_scales), TFM__T_AS("q", t->weight->value),
                              TFM__T_AS("scales", t->weight->scales), TFM__T_AS("bias", t->bias), TFM__I_AS("m", t->m),
                              TFM__I_AS("n", t->n), TFM__I_AS("k", t->k),
                              TFM__I_AS("has_bias", t->bias.buffer != NULL)));
    return tfm_scope_close(ctx, 0, NULL);
}
