/* RMS normalization with a preceding residual addition: cl/norm/rmsnorm.cl. */
#include <math.h>
#include <string.h>
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"

enum { DX, DRESIDUAL, DGAMMA };

/* Writes dx, dresidual and dgamma's partial sums; empty ones are skipped. */
static tfm_status launch_backward(tfm_context *ctx, const tfm__record *record, tfm__gradient dx,
                                  tfm__gradient dresidual, tfm_tensor dgamma, tfm_tensor dy, tfm_tensor dsum) {
    const int64_t rows = record->ints[0], n = record->ints[1], chunk = tfm__sum_chunk(ctx, rows);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "rmsnorm", "rmsnorm_backward", "");
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, tfm__ceil_div(rows, chunk)),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dresidual", dresidual.to), TFM__T(dgamma),
                                 TFM__T(dy), TFM__T(dsum), TFM__T_AS("s", record->saved[0]),
                                 TFM__T_AS("gamma", record->saved[1]), TFM__I(rows), TFM__I(n), TFM__I(chunk),
                                 TFM__F_AS("epsilon", record->floats[0]), TFM__I_AS("add_x", dx.add),
                                 TFM__I_AS("add_residual", dresidual.add)));
}

/* Sums over rows take two steps: over chunks of rows, then over the chunks. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const int64_t rows = record->ints[0], n = record->ints[1], chunks = tfm__ceil_div(rows, tfm__sum_chunk(ctx, rows));
    tfm__gradient dx = tfm__tape_grad_input(ctx, record, DX);
    const tfm__gradient dresidual = tfm__tape_grad_input(ctx, record, DRESIDUAL),
                        dgamma = tfm__tape_grad_input(ctx, record, DGAMMA);
    tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), part = {0}, zeros = {0};
    const tfm_tensor dsum = tfm__tape_grad_output(ctx, record, 1), none = {0};
    if (dgamma.to.buffer)
        tfm_tensor_new(ctx, &part, TFM_F32, 2, (int64_t[]){chunks, n});
    if (!dy.buffer) { /* only the sum was used */
        tfm_tensor_new(ctx, &zeros, TFM_F32, 2, (int64_t[]){rows, n});
        tfm__tensor_fill(ctx, zeros, &(float){0});
        dy = zeros;
    }
    /* The two inputs may overlap, and two work-groups would update the same row: one gradient after the other. */
    if (dx.to.buffer && dresidual.to.buffer && tfm__overlap(dx.to, dresidual.to)) {
        launch_backward(ctx, record, dx, (tfm__gradient){none, false}, none, dy, dsum);
        dx.to = none;
    }
    launch_backward(ctx, record, dx, dresidual, part, dy, dsum);
    return tfm__sum_into(ctx, dgamma, part, 1, chunks, n);
}

tfm_status tfm_rmsnorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                       tfm_tensor gamma, int axis, float epsilon) {
    const char *op = "rmsnorm";
    if (TFM__OP_BEGIN(ctx, op, "fFF", x, residual, gamma) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (residual.buffer && !tfm__same_dims(residual, x))
        return tfm__op_error(ctx, op, "residual is %s, but x is %s: the dims must be equal", TFM__SHAPE(residual),
                             TFM__SHAPE(x));
    const int trailing = x.rank - axis;
    if (gamma.buffer &&
        (gamma.rank != trailing || memcmp(gamma.dims, x.dims + axis, (size_t)trailing * sizeof(*gamma.dims)) != 0))
        return tfm__op_error(ctx, op, "gamma is %s, but x is %s: it must have x's dims from %d on", TFM__SHAPE(gamma),
                             TFM__SHAPE(x), axis);
    if (!(epsilon >= 0.0f))
        return tfm__op_error(ctx, op, "epsilon is %g: it must not be negative", (double)epsilon);
    if (tfm__op_output_like(ctx, op, y, x) != TFM_OK || (sum && tfm__op_output_like(ctx, op, sum, x) != TFM_OK))
        return tfm_context_status(ctx);
    tfm_tensor s = sum ? *sum : (tfm_tensor){0}, kept = {0};
    if (TFM__OP_IN_PLACE(ctx, op, *y, x, residual) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, s, x, residual) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, s, gamma) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, s, gamma) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = tfm__dims_from(x, axis), rows = tfm__dims_before(x, axis);
    if (!s.buffer && residual.buffer && TFM__TAPE_REQUIRES_GRAD(ctx, x, residual, gamma)) {
        tfm_tensor_new(ctx, &kept, TFM_F32, x.rank, x.dims);
        s = kept;
    }
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "rmsnorm", "");
    tfm__launch(ctx, kernel, tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("y", *y), TFM__T_AS("sum", s.buffer ? s : *y), TFM__T(x), TFM__T(residual),
                          TFM__T(gamma), TFM__I(rows), TFM__I(n), TFM__F(epsilon)));
    tfm__tape_add(ctx, &(tfm__record){.op = op,
                                      .backward = backward,
                                      .out = {*y, s},
                                      .in = {x, residual, gamma},
                                      .saved = {s.buffer ? s : x, gamma},
                                      .ints = {rows, n},
                                      .floats = {epsilon}});
    tfm_tensor_free(ctx, &kept); /* the tape keeps it */
    return tfm_context_status(ctx);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    float *x, *residual, *gamma;
    tfm_tensor y = {0}, sum = {0}, tx = RANDOM_FLOATS(x, rows, n), tr = RANDOM_FLOATS(residual, rows, n),
               tg = RANDOM_FLOATS(gamma, n);
    double *want = EXPECTED(rows * n), *want_sum = EXPECTED(rows * n);
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
    tfm__check_compare(c, y, want);
    tfm__check_compare(c, sum, want_sum);
}

const tfm__check_entry tfm__selftest_rmsnorm[] = {
    {"rmsnorm", "residual", check, 0},
    {0},
};
