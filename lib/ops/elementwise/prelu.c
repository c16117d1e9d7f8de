/* PReLU, an activation with a learned slope: cl/elementwise/prelu.cl. */
#include "ops/reduce/sum.h"
#include "ops/selftest/selftest.h"

enum { DX, DSLOPE };

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const int64_t rows = record->ints[0], n = record->ints[1], chunk = tfm__sum_chunk(ctx, rows),
                  chunks = tfm__ceil_div(rows, chunk);
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, DX), dslope = tfm__tape_grad_input(ctx, record, DSLOPE);
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    tfm_tensor part = {0};
    if (dslope.to.buffer)
        tfm_tensor_new(ctx, &part, TFM_F32, 2, (int64_t[]){chunks, n});
    tfm__launch(ctx, tfm__kernel_get(ctx, "prelu", "prelu_backward", ""), tfm__row_grid(ctx, chunks),
                TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dslope", part), TFM__T(dy),
                          TFM__T_AS("x", record->saved[0]), TFM__T_AS("slope", record->saved[1]), TFM__I(rows),
                          TFM__I(n), TFM__I(chunk), TFM__I_AS("add", dx.add)));
    return tfm__sum_into(ctx, dslope, part, 1, chunks, n);
}

tfm_status tfm_prelu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor slope) {
    const char *op = "prelu";
    if (TFM__OP_BEGIN(ctx, op, "0ff", x, slope) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = tfm__last_dim(x), rows = tfm__row_count(x);
    if (slope.rank != 1 || slope.dims[0] != n)
        return tfm__op_error(ctx, op, "slope is %s, but x is %s: it must have one dim, x's last", TFM__SHAPE(slope),
                             TFM__SHAPE(x));
    if (tfm__op_output_like(ctx, op, y, x) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, x) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, slope) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__launch(ctx, tfm__kernel_get(ctx, op, "prelu", ""), tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("y", *y), TFM__T(x), TFM__T(slope), TFM__I(rows), TFM__I(n)));
    return tfm__tape_add(
        ctx,
        &(tfm__record){
            .op = op, .backward = backward, .out = {*y}, .in = {x, slope}, .saved = {x, slope}, .ints = {rows, n}});
}

static void check(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    float *x, *slope;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, n), ts = RANDOM_FLOATS(slope, n);
    double *want = EXPECTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++)
        want[i] = x[i] > 0 ? (double)x[i] : (double)x[i] * (double)slope[i % n];
    tfm_prelu(c->ctx, &y, tx, ts);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_prelu[] = {
    {"prelu", "", check, 0},
    {0},
};
