/* Softmax and log-softmax over one dimension: cl/softmax.cl. */
#include "ops/ops.h"

/* Over dimension `axis` of x (rows, n, inner), n being its size. Adjacent columns are read together, so they
 * share a work-group: `block` columns each. */
static tfm_status run(tfm_context *ctx, bool logarithm, tfm_tensor *y, tfm_tensor x, int axis) {
    const char *op = logarithm ? "log_softmax" : "softmax";
    if (TFM_OP_BEGIN(ctx, op, "f", x) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK || TFM_OP_IN_PLACE(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = x.dims[axis], rows = tfm__dims_before(x, axis), inner = tfm__dims_from(x, axis + 1);
    if (inner == 1)
        return tfm__launch(ctx, tfm__kernel_get(ctx, "softmax", op, ""), tfm__row_grid(ctx, rows),
                           TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_I(rows), TFM_I(n)));
    const tfm__row *row = tfm__context_row(ctx);
    const int64_t block = (int64_t)row->width * row->group, blocks = (inner + block - 1) / block;
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "softmax", logarithm ? "log_softmax_columns" : "softmax_columns", "");
    return tfm__launch(
        ctx, kernel, tfm__row_grid(ctx, rows * blocks),
        TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_I(rows), TFM_I(n), TFM_I(inner), TFM_I(blocks)));
}

tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return run(ctx, false, y, x, -1);
}

tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return run(ctx, true, y, x, -1);
}

tfm_status tfm_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis) {
    return run(ctx, false, y, x, axis);
}

tfm_status tfm_log_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis) {
    return run(ctx, true, y, x, axis);
}
