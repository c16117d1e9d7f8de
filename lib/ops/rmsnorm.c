/* Root-mean-square normalisation with the residual addition in front of it: cl/rmsnorm.cl. */
#include <math.h>
#include <string.h>
#include "ops/selftest.h"
#include "ops/tape.h"

tfm_status tfm_rmsnorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                       tfm_tensor gamma, int axis, float epsilon) {
    const char *op = "rmsnorm";
    if (TFM_OP_BEGIN(ctx, op, "fFF", x, residual, gamma) != TFM_OK ||
        TFM_TAPE_NONE(ctx, op, x, residual, gamma) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (residual.buffer && !tfm__same_dims(residual, x))
        return tfm__op_refuse(ctx, op, "residual is %s, but x is %s: the dims must be equal",
                              TFM_SHAPE(residual), TFM_SHAPE(x));
    const int trailing = x.rank - axis;
    if (gamma.buffer && (gamma.rank != trailing ||
                         memcmp(gamma.dims, x.dims + axis, (size_t)trailing * sizeof(*gamma.dims)) != 0))
        return tfm__op_refuse(ctx, op, "gamma is %s, but x is %s: it must have x's dims from %d on",
                              TFM_SHAPE(gamma), TFM_SHAPE(x), axis);
    if (!(epsilon >= 0.0f))
        return tfm__op_refuse(ctx, op, "epsilon is %g: it must not be negative", (double)epsilon);
    if (tfm__op_output_like(ctx, op, y, x) != TFM_OK ||
        (sum && tfm__op_output_like(ctx, op, sum, x) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor s = sum ? *sum : (tfm_tensor){0};
    if (TFM_OP_IN_PLACE(ctx, op, *y, x, residual) != TFM_OK ||
        TFM_OP_IN_PLACE(ctx, op, s, x, residual) != TFM_OK || TFM_OP_APART(ctx, op, *y, s, gamma) != TFM_OK ||
        TFM_OP_APART(ctx, op, s, gamma) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = tfm__dims_from(x, axis), rows = tfm__dims_before(x, axis);
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "rmsnorm", "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T_AS("sum", sum ? *sum : *y), TFM_T(x),
                                TFM_T(residual), TFM_T(gamma), TFM_I(rows), TFM_I(n), TFM_F(epsilon)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    float *x, *residual, *gamma;
    tfm_tensor y = {0}, sum = {0}, tx = FLOATS(x, rows, n), tr = FLOATS(residual, rows, n),
               tg = FLOATS(gamma, n);
    double *want = WANTED(rows * n), *want_sum = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double square = 0, *s = want_sum + r * n;
        for (int64_t i = 0; i < n; i++) {
            s[i] = (double)x[r * n + i] + (double)residual[r * n + i];
            square += s[i] * s[i] / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = s[i] / sqrt(square + 1e-5) * (double)gamma[i];
    }
    tfm_rmsnorm(c->ctx, &y, &sum, tx, tr, tg, -1, 1e-5f);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, sum, want_sum);
}

const tfm__check_entry tfm__selftest_rmsnorm[] = {
    {"rmsnorm", "residual", check, 0},
    {0},
};
