/* Softmax and log-softmax over one dimension: cl/reduce/softmax.cl. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

/* One of the kernels on x (rows, n, inner): one form for inner = 1, another for inner > 1, where adjacent columns are
 * read together and share a work-group, a vector for each item. `is_backward`: dx from dy and y, else y from x. */
static tfm_status launch(tfm_context *ctx, bool logarithm, bool is_backward, size_t count, const tfm__arg *tensors,
                         tfm_tensor like, int axis) {
    const int64_t n = like.dims[axis], rows = tfm__dims_before(like, axis), inner = tfm__dims_from(like, axis + 1);
    const int64_t blocks = tfm__column_blocks(ctx, inner);
    char name[64];
    snprintf(name, sizeof(name), "%ssoftmax%s%s", logarithm ? "log_" : "", inner == 1 ? "" : "_columns",
             is_backward ? "_backward" : "");
    const tfm__arg sizes[] = {TFM__I(rows), TFM__I(n), TFM__I(inner), TFM__I(blocks)};
    const size_t size_count = inner == 1 ? 2 : 4;
    tfm__arg args[8];
    memcpy(args, tensors, count * sizeof(*args));
    memcpy(args + count, sizes, size_count * sizeof(*args));
    return tfm__launch(ctx, tfm__kernel_get(ctx, "softmax", name, ""),
                       tfm__row_grid(ctx, inner == 1 ? rows : rows * blocks), count + size_count, args);
}

/* dx = y (dy - sum dy y); for log-softmax, dx = dy - e^y sum dy. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor y = record->saved[0];
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
    const tfm__arg args[] = {TFM__T_AS("dx", dx.to), TFM__T_AS("dy", tfm__tape_grad_output(ctx, record, 0)), TFM__T(y),
                             TFM__I_AS("add", dx.add)};
    return launch(ctx, record->ints[0] != 0, true, TFM__COUNT(args), args, y, (int)record->ints[1]);
}

/* Along dimension `axis` of x (rows, n, inner), of size n. */
static tfm_status forward(tfm_context *ctx, bool logarithm, tfm_tensor *y, tfm_tensor x, int axis) {
    const char *op = logarithm ? "log_softmax" : "softmax";
    if (TFM__OP_BEGIN(ctx, op, "0f", x) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__arg args[] = {TFM__T_AS("y", *y), TFM__T(x)};
    launch(ctx, logarithm, false, TFM__COUNT(args), args, x, axis);
    return tfm__tape_add(
        ctx, &(tfm__record){
                 .op = op, .backward = backward, .out = {*y}, .in = {x}, .saved = {*y}, .ints = {logarithm, axis}});
}

tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return forward(ctx, false, y, x, -1);
}

tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return forward(ctx, true, y, x, -1);
}

tfm_status tfm_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis) {
    return forward(ctx, false, y, x, axis);
}

tfm_status tfm_log_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis) {
    return forward(ctx, true, y, x, axis);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 5, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, n);
    double *want = EXPECTED(rows * n);
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
    tfm__check_compare(c, y, want);
}

/* Along the middle dimension. */
static void check_axis(tfm__check *c) {
    const int64_t n = 17, inner = 37, rows = 3;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, n, inner);
    double *want = EXPECTED(rows * n * inner);
    for (int64_t k = 0; tfm__check_ready(c) && k < rows * inner; k++) {
        const int64_t at = k / inner * n * inner + k % inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[at + i * inner]);
        for (int64_t i = 0; i < n; i++)
            want[at + i * inner] = exp((double)x[at + i * inner]) / sum;
    }
    tfm_softmax_axis(c->ctx, &y, tx, 1);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_softmax[] = {
    {"softmax", "", check, 0},
    {"softmax", "columns", check_axis, 0},
    {"log_softmax", "", check, 1},
    {0},
};
