/* Slices each dimension: a strided copy, cl/layout/strided.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"

/* Python's slice.indices: the first index and the count in a dimension of n; count 0 if the slice is empty. */
static int64_t slice_indices(int64_t *first, tfm_range range, int64_t n) {
    const int64_t low = range.step < 0 ? -1 : 0, high = range.step < 0 ? n - 1 : n;
    int64_t bounds[2] = {range.start, range.end};
    for (int i = 0; i < 2; i++) {
        if (bounds[i] < 0)
            bounds[i] = bounds[i] < -n ? low : bounds[i] + n;
        bounds[i] = bounds[i] < low ? low : bounds[i] > high ? high : bounds[i];
    }
    const int64_t span = range.step < 0 ? bounds[0] - bounds[1] : bounds[1] - bounds[0];
    *first = bounds[0];
    if (span <= 0)
        return 0;
    /* -INT64_MIN overflows; any step beyond the span takes one element */
    const int64_t stride = range.step > 0 ? range.step : range.step <= -span ? span : -range.step;
    return (span - 1) / stride + 1;
}

/* The iteration over the slice: its dims, its contiguous strides, and offset `from` and strides in x. */
typedef struct slice_view {
    int64_t start, from[TFM_MAX_RANK];
} slice_view;

/* The gradient of x: zeros outside the slice. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const slice_view *p = record->data;
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
    int64_t dense[TFM_MAX_RANK];
    if (!dx.add)
        tfm__tensor_fill(ctx, dx.to, &(float){0});
    tfm__dense_strides(dense, dy.rank, dy.dims);
    const tfm__iter iter = tfm__iter_make(dy.rank, dy.dims, 2, (const int64_t *const[]){p->from, dense});
    dx.to.offset += (size_t)p->start;
    return tfm__strided_gradient(ctx, dx, dy, &iter);
}

tfm_status tfm_slice(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_range *ranges) {
    if (TFM__NEEDS_ON(ctx, "slice", ranges) != TFM_OK)
        return tfm_context_status(ctx);
    const char *op = "slice";
    if (TFM__OP_BEGIN(ctx, op, "0*", x) != TFM_OK)
        return tfm_context_status(ctx);
    int64_t dims[TFM_MAX_RANK], dense[TFM_MAX_RANK], to[TFM_MAX_RANK];
    slice_view p = {0};
    tfm__dense_strides(dense, x.rank, x.dims);
    for (int i = 0; i < x.rank; i++) {
        tfm_range range = ranges[i];
        int64_t first;
        range.step = range.step ? range.step : 1;
        dims[i] = slice_indices(&first, range, x.dims[i]);
        p.start += dims[i] > 0 ? first * dense[i] : 0;
        p.from[i] = dims[i] > 1 ? dense[i] * range.step : 0;
    }
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__dense_strides(to, x.rank, dims);
    const tfm__iter iter = tfm__iter_make(x.rank, dims, 2, (const int64_t *const[]){to, p.from});
    tfm_tensor part = x;
    part.offset += (size_t)p.start;
    tfm__strided_copy(ctx, *y, part, &iter);
    return tfm__tape_add(
        ctx,
        &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {x}, .data = &p, .data_bytes = sizeof(p)});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* x[1:4, ::-2] */
static void check(tfm__check *c) {
    const int64_t rows = 5, n = 21;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, n);
    double *want = EXPECTED(3 * 11);
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 11; i++)
        want[i] = (double)x[(1 + i / 11) * n + 20 - 2 * (i % 11)];
    tfm_slice(c->ctx, &y, tx, (tfm_range[]){{1, 4, 1}, {-1, INT64_MIN, -2}});
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_slice[] = {
    {"slice", "backwards", check, 0},
    {0},
};
