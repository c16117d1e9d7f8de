/* Layer normalization, optionally with a preceding residual addition or with its statistics: cl/norm/layernorm.cl. */
#include <math.h>
#include <string.h>
#include "ops/elementwise/dropout.h"
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"

/* Whether v is empty or has the dims of x from `axis` on. */
static tfm_status check_scale(tfm_context *ctx, const char *label, tfm_tensor v, tfm_tensor x, int axis) {
    const int trailing = x.rank - axis;
    if (!v.buffer || (v.rank == trailing && memcmp(v.dims, x.dims + axis, (size_t)trailing * sizeof(*v.dims)) == 0))
        return TFM_OK;
    return tfm__op_error(ctx, "layernorm", "%s is %s, but x is %s: give one value for each column of x", label,
                         TFM__SHAPE(v), TFM__SHAPE(x));
}

static tfm_status check_params(tfm_context *ctx, tfm_tensor gamma, tfm_tensor beta, tfm_tensor x, int axis,
                               float epsilon) {
    if (check_scale(ctx, "gamma", gamma, x, axis) != TFM_OK || check_scale(ctx, "beta", beta, x, axis) != TFM_OK)
        return tfm_context_status(ctx);
    if (!(epsilon >= 0.0f))
        return tfm__op_error(ctx, "layernorm", "epsilon is %g: it must not be negative", (double)epsilon);
    return TFM_OK;
}

typedef struct norm {
    tfm_tensor x, residual, gamma, beta;
    tfm_tensor y, sum, mean, inv_std;
    int axis;
    float epsilon;
    const tfm_dropout_options *dropout; /* of the residual; NULL: none */
} norm;

static tfm__kernel *kernel_get(tfm_context *ctx, const char *name, const tfm_dropout_options *dropout) {
    return tfm__kernel_get(ctx, "layernorm", name, tfm__dropout_enabled(dropout) ? "-DDROPOUT" : "");
}

enum { DX, DRESIDUAL, DGAMMA, DBETA };

/* Writes the gradients to `part`; empty ones are skipped. */
static tfm_status launch_backward(tfm_context *ctx, const tfm__record *record, const tfm_tensor *part,
                                  const tfm__gradient *to, tfm_tensor dy, tfm_tensor dsum) {
    const int64_t rows = record->ints[0], n = record->ints[1], chunk = tfm__sum_chunk(ctx, rows);
    const tfm_dropout_options *dropout = record->data;
    const tfm_tensor *saved = record->saved;
    tfm__kernel *kernel = kernel_get(ctx, "layernorm_backward", dropout);
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, tfm__ceil_div(rows, chunk)),
                       TFM__ARGS(TFM__T_AS("dx", part[DX]), TFM__T_AS("dresidual", part[DRESIDUAL]),
                                 TFM__T_AS("dgamma", part[DGAMMA]), TFM__T_AS("dbeta", part[DBETA]), TFM__T(dy),
                                 TFM__T(dsum), TFM__T_AS("s", saved[0]), TFM__T_AS("mean", saved[1]),
                                 TFM__T_AS("inv_std", saved[2]), TFM__T_AS("gamma", saved[3]), TFM__I(rows), TFM__I(n),
                                 TFM__I(chunk), TFM__I_AS("add_x", to[DX].add),
                                 TFM__I_AS("add_residual", to[DRESIDUAL].add), TFM__DROPOUT_ARGS(dropout)));
}

/* Sums over rows take two steps: over chunks of rows, then over the chunks. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const int64_t rows = record->ints[0], n = record->ints[1], chunks = tfm__ceil_div(rows, tfm__sum_chunk(ctx, rows));
    tfm__gradient to[4];
    tfm_tensor part[4] = {{0}}, dy = tfm__tape_grad_output(ctx, record, 0), zeros = {0};
    const tfm_tensor dsum = tfm__tape_grad_output(ctx, record, 1), none = {0};
    for (int i = 0; i < 4; i++) {
        to[i] = tfm__tape_grad_input(ctx, record, i);
        part[i] = to[i].to;
        if (i >= DGAMMA && to[i].to.buffer) {
            part[i] = none;
            tfm_tensor_new(ctx, &part[i], TFM_F32, 2, (int64_t[]){chunks, n});
        }
    }
    if (!dy.buffer) { /* only the sum was used */
        tfm_tensor_new(ctx, &zeros, TFM_F32, 2, (int64_t[]){rows, n});
        tfm__tensor_fill(ctx, zeros, &(float){0});
        dy = zeros;
    }
    /* The two inputs may overlap, and two work-groups would update the same row: one gradient after the other. */
    if (part[DX].buffer && part[DRESIDUAL].buffer && tfm__overlap(part[DX], part[DRESIDUAL])) {
        launch_backward(ctx, record, (tfm_tensor[4]){part[DX]}, to, dy, dsum);
        part[DX] = none;
    }
    launch_backward(ctx, record, part, to, dy, dsum);
    return tfm__sum_pair(ctx, (tfm__column_sum){to[DGAMMA], part[DGAMMA], n},
                         (tfm__column_sum){to[DBETA], part[DBETA], n}, 1, chunks);
}

/* Unless s is requested, y holds it between the passes. The tape needs it: s is x if nothing was added. */
static tfm_status forward(tfm_context *ctx, norm m) {
    const int64_t n = tfm__dims_from(m.x, m.axis), rows = tfm__dims_before(m.x, m.axis);
    const bool recorded = TFM__TAPE_REQUIRES_GRAD(ctx, m.x, m.residual, m.gamma, m.beta);
    tfm_tensor own[3] = {{0}}; /* tensors for the backward pass that the caller did not request */
    if (recorded) {
        if (m.residual.buffer && !m.sum.buffer && tfm_tensor_new(ctx, &own[0], TFM_F32, m.x.rank, m.x.dims) == TFM_OK)
            m.sum = own[0];
        if (!m.mean.buffer && tfm_tensor_new(ctx, &own[1], TFM_F32, 1, &rows) == TFM_OK)
            m.mean = own[1];
        if (!m.inv_std.buffer && tfm_tensor_new(ctx, &own[2], TFM_F32, 1, &rows) == TFM_OK)
            m.inv_std = own[2];
    }
    tfm__launch(ctx, kernel_get(ctx, "layernorm", m.dropout), tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("y", m.y), TFM__T_AS("sum", m.sum), TFM__T_AS("mean", m.mean),
                          TFM__T_AS("inv_std", m.inv_std), TFM__T_AS("x", m.x), TFM__T_AS("residual", m.residual),
                          TFM__T_AS("gamma", m.gamma), TFM__T_AS("beta", m.beta), TFM__I(rows), TFM__I(n),
                          TFM__F_AS("epsilon", m.epsilon), TFM__DROPOUT_ARGS(m.dropout)));
    if (!recorded)
        return tfm_context_status(ctx);
    tfm__tape_add(ctx, &(tfm__record){.op = "layernorm",
                                      .backward = backward,
                                      .out = {m.y, m.sum},
                                      .in = {m.x, m.residual, m.gamma, m.beta},
                                      .saved = {m.sum.buffer ? m.sum : m.x, m.mean, m.inv_std, m.gamma},
                                      .ints = {rows, n},
                                      .data = m.dropout,
                                      .data_bytes = m.dropout ? sizeof(*m.dropout) : 0});
    for (size_t i = 0; i < TFM__COUNT(own); i++)
        tfm_tensor_free(ctx, &own[i]); /* the tape keeps it */
    return tfm_context_status(ctx);
}

tfm_status tfm_layernorm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor branch,
                                 tfm_tensor gamma, tfm_tensor beta, float epsilon, const tfm_dropout_options *dropout) {
    const char *op = "layernorm";
    const tfm_tensor none = {0};
    if (TFM__OP_BEGIN(ctx, op, "fFFF", x, branch, gamma, beta) != TFM_OK ||
        tfm__dropout_check(ctx, op, dropout) != TFM_OK)
        return tfm_context_status(ctx);
    if (branch.buffer && !tfm__same_dims(branch, x))
        return tfm__op_error(ctx, op, "residual is %s, but x is %s: the dims must be equal", TFM__SHAPE(branch),
                             TFM__SHAPE(x));
    if (check_params(ctx, gamma, beta, x, x.rank - 1, epsilon) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK || (sum && tfm__op_output_like(ctx, op, sum, x) != TFM_OK))
        return tfm_context_status(ctx);
    const tfm_tensor s = sum ? *sum : none;
    if (TFM__OP_IN_PLACE(ctx, op, *y, x, branch) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, s, x, branch) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, s, gamma, beta) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, s, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    return forward(ctx, (norm){.x = x,
                               .residual = branch,
                               .gamma = gamma,
                               .beta = beta,
                               .y = *y,
                               .sum = s,
                               .axis = x.rank - 1,
                               .epsilon = epsilon,
                               .dropout = branch.buffer && tfm__dropout_enabled(dropout) ? dropout : NULL});
}

tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                         tfm_tensor gamma, tfm_tensor beta, float epsilon) {
    return tfm_layernorm_dropout(ctx, y, sum, x, residual, gamma, beta, epsilon, NULL);
}

tfm_status tfm_layernorm_axes(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mean, tfm_tensor *inv_std, tfm_tensor x,
                              tfm_tensor gamma, tfm_tensor beta, int axis, float epsilon) {
    const char *op = "layernorm";
    const tfm_tensor none = {0};
    if (TFM__OP_BEGIN(ctx, op, "fFF", x, gamma, beta) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK ||
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
    if (TFM__OP_IN_PLACE(ctx, op, *y, x) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, m, i, gamma, beta) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, m, i, x, gamma, beta) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, i, x, gamma, beta) != TFM_OK)
        return tfm_context_status(ctx);
    return forward(
        ctx,
        (norm){
            .x = x, .gamma = gamma, .beta = beta, .y = *y, .mean = m, .inv_std = i, .axis = axis, .epsilon = epsilon});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    const float epsilon = 1e-5f;
    float *x, *residual, *gamma, *beta;
    tfm_tensor y = {0}, sum = {0}, tx = RANDOM_FLOATS(x, rows, n), tr = RANDOM_FLOATS(residual, rows, n),
               tg = RANDOM_FLOATS(gamma, n), tb = RANDOM_FLOATS(beta, n);
    double *want = EXPECTED(rows * n), *want_sum = EXPECTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double mean = 0, variance = 0, *s = want_sum + r * n;
        for (int64_t i = 0; i < n; i++)
            mean += (s[i] = (double)x[r * n + i] + (double)residual[r * n + i]) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (s[i] - mean) * (s[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = (s[i] - mean) / sqrt(variance + (double)epsilon) * (double)gamma[i] + (double)beta[i];
    }
    tfm_layernorm(c->ctx, &y, &sum, tx, tr, tg, tb, epsilon);
    tfm__check_compare(c, y, want);
    tfm__check_compare(c, sum, want_sum);
}

static void check_axes(tfm__check *c) {
    const int64_t rows = 3, n = 5 * 17;
    const float epsilon = 1e-5f;
    float *x, *gamma, *beta;
    tfm_tensor y = {0}, mean = {0}, inv_std = {0}, tx = RANDOM_FLOATS(x, rows, 5, 17), tg = RANDOM_FLOATS(gamma, 5, 17),
               tb = RANDOM_FLOATS(beta, 5, 17);
    double *want = EXPECTED(rows * n), *want_mean = EXPECTED(rows), *want_inverse = EXPECTED(rows);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double variance = 0;
        for (int64_t i = 0; i < n; i++)
            want_mean[r] += (double)x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow((double)x[r * n + i] - want_mean[r], 2) / (double)n;
        want_inverse[r] = 1 / sqrt(variance + (double)epsilon);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] =
                ((double)x[r * n + i] - want_mean[r]) * want_inverse[r] * (double)gamma[i] + (double)beta[i];
    }
    tfm_layernorm_axes(c->ctx, &y, &mean, &inv_std, tx, tg, tb, 1, epsilon);
    tfm__check_compare(c, y, want);
    tfm__check_compare(c, mean, want_mean);
    tfm__check_compare(c, inv_std, want_inverse);
}

const tfm__check_entry tfm__selftest_layernorm[] = {
    {"layernorm", "residual", check, 0},
    {"layernorm", "axes, statistics", check_axes, 0},
    {0},
};
