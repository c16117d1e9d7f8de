/* Concatenation: one strided copy for each input, cl/layout/strided.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"

/* Checks that the inputs match the first, and sums their sizes along the axis. */
static tfm_status sum_axis(tfm_context *ctx, int64_t *total, size_t count, const tfm_tensor *inputs, int axis) {
    *total = 0;
    for (size_t k = 0; k < count; k++) {
        tfm_tensor x = inputs[k];
        bool fits = x.rank == inputs[0].rank && x.dtype == inputs[0].dtype;
        for (int i = 0; i < x.rank && fits; i++)
            fits = i == axis || x.dims[i] == inputs[0].dims[i];
        if (!fits)
            return tfm__op_error(ctx, "concat",
                                 "input %zu is %s, but input 1 is %s: all but dimension %d must be equal", k + 1,
                                 TFM__SHAPE(x), TFM__SHAPE(inputs[0]), axis);
        *total += x.dims[axis];
    }
    return TFM_OK;
}

/* The iteration of (rows, run) and of the same columns in (rows, width): strides of the first, then of the second. */
static tfm__iter iter_make(int64_t rows, int64_t run, int64_t width, bool apart) {
    const int64_t part[2] = {run, 1}, whole[2] = {width, 1};
    return tfm__iter_make(2, (int64_t[]){rows, run}, 2,
                          (const int64_t *const[]){apart ? part : whole, apart ? whole : part});
}

/* One record for each input: rows, run and width of its columns, and its first column. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm__iter iter = iter_make(record->ints[0], record->ints[1], record->ints[2], true);
    tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    dy.offset += (size_t)record->ints[3];
    return tfm__strided_gradient(ctx, tfm__tape_grad_input(ctx, record, 0), dy, &iter);
}

tfm_status tfm_concat(tfm_context *ctx, tfm_tensor *y, size_t count, const tfm_tensor *inputs, int axis) {
    if (TFM__NEEDS_ON(ctx, "concat", inputs) != TFM_OK)
        return tfm_context_status(ctx);
    const char *op = "concat";
    if (count == 0)
        return tfm__op_error(ctx, op, "no inputs: give at least one");
    for (size_t k = 0; k < count; k++)
        if (TFM__OP_BEGIN(ctx, op, "0*", inputs[k]) != TFM_OK)
            return tfm_context_status(ctx);
    tfm_tensor whole = inputs[0];
    int64_t total;
    if (tfm__op_axis(ctx, op, &axis, whole) != TFM_OK || sum_axis(ctx, &total, count, inputs, axis) != TFM_OK)
        return tfm_context_status(ctx);
    whole.dims[axis] = total;
    if (tfm__op_output_like(ctx, op, y, whole) != TFM_OK ||
        tfm__op_no_overlap(ctx, op, false, *y, count, inputs) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t rows = tfm__dims_before(whole, axis), width = tfm__dims_from(whole, axis);
    tfm_tensor part = *y;
    for (size_t k = 0; k < count; k++) { /* (rows, run) into the columns of (rows, width) */
        const int64_t run = tfm__dims_from(inputs[k], axis);
        const tfm__iter iter = iter_make(rows, run, width, false);
        tfm__strided_copy(ctx, part, inputs[k], &iter);
        part.offset += (size_t)run;
    }
    for (size_t k = 0, column = 0; k < count; k++) {
        const int64_t run = tfm__dims_from(inputs[k], axis);
        tfm__tape_add(ctx, &(tfm__record){.op = op,
                                          .backward = backward,
                                          .out = {*y},
                                          .in = {inputs[k]},
                                          .ints = {rows, run, width, (int64_t)column}});
        column += (size_t)run;
    }
    return tfm_context_status(ctx);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 5, left = 17, right = 3, n = left + right;
    float *a, *b;
    tfm_tensor y = {0}, inputs[2] = {RANDOM_FLOATS(a, rows, left), RANDOM_FLOATS(b, rows, right)};
    double *want = EXPECTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++)
        want[i] = i % n < left ? (double)a[i / n * left + i % n] : (double)b[i / n * right + i % n - left];
    tfm_concat(c->ctx, &y, 2, inputs, 1);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_concat[] = {
    {"concat", "", check, 0},
    {0},
};
