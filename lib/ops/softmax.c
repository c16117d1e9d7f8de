/* Softmax and log-softmax over one dimension: cl/softmax.cl. */
#include <math.h>
#include "ops/selftest.h"

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

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 5, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, n);
    double *want = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[r * n + i]);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = c->number ? (double)x[r * n + i] - log(sum) : exp((double)x[r * n + i]) / sum;
    }
    if (c->number)
        tfm_log_softmax(c->ctx, &y, tx);
    else
        tfm_softmax(c->ctx, &y, tx);
    tfm__check_judge(c, y, want);
}

/* Over the middle dimension. */
static void check_axis(tfm__check *c) {
    const int64_t n = 17, inner = 37, rows = 3;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, n, inner);
    double *want = WANTED(rows * n * inner);
    for (int64_t k = 0; tfm__check_ready(c) && k < rows * inner; k++) {
        const int64_t at = k / inner * n * inner + k % inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[at + i * inner]);
        for (int64_t i = 0; i < n; i++)
            want[at + i * inner] = exp((double)x[at + i * inner]) / sum;
    }
    tfm_softmax_axis(c->ctx, &y, tx, 1);
    tfm__check_judge(c, y, want);
}

const tfm__check_entry tfm__selftest_softmax[] = {
    {"softmax", "", check, 0},
    {"softmax", "columns", check_axis, 0},
    {"log_softmax", "", check, 1},
    {0},
};
