/* Softmax and log-softmax over the last dimension: cl/softmax.cl. */
#include "ops/ops.h"

static tfm_status run_rows(tfm_context *ctx, const char *name, tfm_tensor *y, tfm_tensor x) {
    if (TFM_OP_BEGIN(ctx, name, "f", x) != TFM_OK || tfm__op_output_like(ctx, name, y, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = tfm__last_dim(x), rows = tfm__row_count(x);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "softmax", name, "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_I(rows), TFM_I(n)));
}

tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return run_rows(ctx, "softmax", y, x);
}

tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return run_rows(ctx, "log_softmax", y, x);
}
