/* Layer normalisation, with the residual addition in front of it or with its statistics: cl/layernorm.cl. */
#include <math.h>
#include <string.h>
#include "ops/selftest.h"

/* Whether v is empty or has the dims of x from `axis` on. */
static tfm_status check_scale(tfm_context *ctx, const char *label, tfm_tensor v, tfm_tensor x, int axis) {
    const int trailing = x.rank - axis;
    if (!v.buffer ||
        (v.rank == trailing && memcmp(v.dims, x.dims + axis, (size_t)trailing * sizeof(*v.dims)) == 0))
        return TFM_OK;
    return tfm__op_refuse(ctx, "layernorm", "%s is %s, but x is %s: give one value for each column of x",
                          label, TFM_SHAPE(v), TFM_SHAPE(x));
}

static tfm_status check_params(tfm_context *ctx, tfm_tensor gamma, tfm_tensor beta, tfm_tensor x, int axis,
                               float epsilon) {
    if (check_scale(ctx, "gamma", gamma, x, axis) != TFM_OK ||
        check_scale(ctx, "beta", beta, x, axis) != TFM_OK)
        return tfm_context_status(ctx);
    if (!(epsilon >= 0.0f))
        return tfm__op_refuse(ctx, "layernorm", "epsilon is %g: it must not be negative", (double)epsilon);
    return TFM_OK;
}

/* Where the caller wants no s, y itself holds it between the passes. */
static tfm_status launch(tfm_context *ctx, tfm_tensor y, tfm_tensor sum, tfm_tensor mean, tfm_tensor inv_std,
                         tfm_tensor x, tfm_tensor residual, tfm_tensor gamma, tfm_tensor beta, int axis,
                         float epsilon) {
    const int64_t n = tfm__dims_from(x, axis), rows = tfm__dims_before(x, axis);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "layernorm", "layernorm", "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                       TFM_ARGS(TFM_T(y), TFM_T(sum), TFM_T(mean), TFM_T(inv_std), TFM_T(x), TFM_T(residual),
                                TFM_T(gamma), TFM_T(beta), TFM_I(rows), TFM_I(n), TFM_F(epsilon)));
}

tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                         tfm_tensor gamma, tfm_tensor beta, float epsilon) {
    const char *op = "layernorm";
    const tfm_tensor none = {0};
    if (TFM_OP_BEGIN(ctx, op, "fFFF", x, residual, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    if (residual.buffer && !tfm__same_dims(residual, x))
        return tfm__op_refuse(ctx, op, "residual is %s, but x is %s: the dims must be equal",
                              TFM_SHAPE(residual), TFM_SHAPE(x));
    if (check_params(ctx, gamma, beta, x, x.rank - 1, epsilon) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK ||
        (sum && tfm__op_output_like(ctx, op, sum, x) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor s = sum ? *sum : none;
    if (TFM_OP_IN_PLACE(ctx, op, *y, x, residual) != TFM_OK ||
        TFM_OP_IN_PLACE(ctx, op, s, x, residual) != TFM_OK ||
        TFM_OP_APART(ctx, op, *y, s, gamma, beta) != TFM_OK ||
        TFM_OP_APART(ctx, op, s, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    return launch(ctx, *y, sum ? *sum : *y, none, none, x, residual, gamma, beta, x.rank - 1, epsilon);
}

tfm_status tfm_layernorm_axes(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mean, tfm_tensor *inv_std,
                              tfm_tensor x, tfm_tensor gamma, tfm_tensor beta, int axis, float epsilon) {
    const char *op = "layernorm";
    const tfm_tensor none = {0};
    if (TFM_OP_BEGIN(ctx, op, "fFF", x, gamma, beta) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK ||
        check_params(ctx, gamma, beta, x, axis, epsilon) != TFM_OK)
        return tfm_context_status(ctx);
    int64_t dims[TFM_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = i < axis ? x.dims[i] : 1;
    if (tfm__op_output_like(ctx, op, y, x) != TFM_OK ||
        (mean && tfm__op_output(ctx, op, mean, TFM_F32, x.rank, dims) != TFM_OK) ||
        (inv_std && tfm__op_output(ctx, op, inv_std, TFM_F32, x.rank, dims) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor m = mean ? *mean : none, i = inv_std ? *inv_std : none;
    if (TFM_OP_IN_PLACE(ctx, op, *y, x) != TFM_OK || TFM_OP_APART(ctx, op, *y, m, i, gamma, beta) != TFM_OK ||
        TFM_OP_APART(ctx, op, m, i, x, gamma, beta) != TFM_OK ||
        TFM_OP_APART(ctx, op, i, x, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    return launch(ctx, *y, *y, m, i, x, none, gamma, beta, axis, epsilon);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    const float epsilon = 1e-5f;
    float *x, *residual, *gamma, *beta;
    tfm_tensor y = {0}, sum = {0}, tx = FLOATS(x, rows, n), tr = FLOATS(residual, rows, n),
               tg = FLOATS(gamma, n), tb = FLOATS(beta, n);
    double *want = WANTED(rows * n), *want_sum = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double mean = 0, variance = 0, *s = want_sum + r * n;
        for (int64_t i = 0; i < n; i++)
            mean += (s[i] = (double)x[r * n + i] + (double)residual[r * n + i]) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (s[i] - mean) * (s[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] =
                (s[i] - mean) / sqrt(variance + (double)epsilon) * (double)gamma[i] + (double)beta[i];
    }
    tfm_layernorm(c->ctx, &y, &sum, tx, tr, tg, tb, epsilon);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, sum, want_sum);
}

static void check_axes(tfm__check *c) {
    const int64_t rows = 3, n = 5 * 17;
    const float epsilon = 1e-5f;
    float *x, *gamma, *beta;
    tfm_tensor y = {0}, mean = {0}, inv_std = {0}, tx = FLOATS(x, rows, 5, 17), tg = FLOATS(gamma, 5, 17),
               tb = FLOATS(beta, 5, 17);
    double *want = WANTED(rows * n), *want_mean = WANTED(rows), *want_inverse = WANTED(rows);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double variance = 0;
        for (int64_t i = 0; i < n; i++)
            want_mean[r] += (double)x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow((double)x[r * n + i] - want_mean[r], 2) / (double)n;
        want_inverse[r] = 1 / sqrt(variance + (double)epsilon);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = ((double)x[r * n + i] - want_mean[r]) * want_inverse[r] * (double)gamma[i] +
                              (double)beta[i];
    }
    tfm_layernorm_axes(c->ctx, &y, &mean, &inv_std, tx, tg, tb, 1, epsilon);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, mean, want_mean);
    tfm__check_judge(c, inv_std, want_inverse);
}

const tfm__check_entry tfm__selftest_layernorm[] = {
    {"layernorm", "residual", check, 0},
    {"layernorm", "axes, statistics", check_axes, 0},
    {0},
};
