/* Gathers elements by index along a dimension: cl/layout/gather_elements.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor all = tfm__tape_grad_output(ctx, record, 0), chosen = record->saved[0];
    const int axis = (int)record->ints[0];
    const tfm__gradient to = tfm__tape_grad_input(ctx, record, 0);
    int64_t from_strides[TFM_MAX_RANK], to_strides[TFM_MAX_RANK], dims[TFM_MAX_RANK];
    if (!to.add)
        tfm__tensor_fill(ctx, to.to, &(float){0});
    tfm__dense_strides(from_strides, all.rank, all.dims);
    tfm__dense_strides(to_strides, to.to.rank, to.to.dims);
    for (int i = 0; i < all.rank; i++)
        dims[i] = i == axis ? 1 : all.dims[i];
    const int64_t chunk = tfm__context_tuning(ctx)->chunk, busy = 256; /* work-items, then several rows each */
    const int64_t count = record->ints[1], step = to_strides[axis], taken = all.dims[axis],
                  from_step = from_strides[axis];
    const tfm__iter iter = tfm__iter_make(all.rank, dims, 2, (const int64_t *const[]){from_strides, to_strides});
    const int64_t n = iter.kernel.n, lines = n < 2 * busy ? 1 : n / busy < chunk ? n / busy : chunk;
    return tfm__iter_launch(ctx, &iter, tfm__kernel_get(ctx, "gather_elements", "gather_elements_backward", ""),
                            tfm__element_grid(ctx, tfm__ceil_div(n, lines) * chunk), (const int[]){1, 0, 0},
                            TFM__ARGS(TFM__T_AS("dx", to.to), TFM__T_AS("dy", all), TFM__T_AS("indices", chosen),
                                      TFM__I(count), TFM__I(step), TFM__I(taken), TFM__I(from_step), TFM__I(lines)));
}

static tfm_status launch(tfm_context *ctx, tfm_tensor y, tfm_tensor x, tfm_tensor indices, int axis) {
    int64_t dense[TFM_MAX_RANK], strides[TFM_MAX_RANK];
    tfm__dense_strides(dense, indices.rank, indices.dims);
    tfm__dense_strides(strides, x.rank, x.dims);
    const int64_t count = x.dims[axis], step = strides[axis];
    strides[axis] = 0;
    const tfm__iter iter = tfm__iter_make(indices.rank, indices.dims, 2, (const int64_t *const[]){dense, strides});
    return tfm__iter_launch(ctx, &iter, tfm__kernel_get(ctx, "gather_elements", "gather_elements", ""),
                            tfm__element_grid(ctx, iter.kernel.n), (const int[]){0, 1, 0},
                            TFM__ARGS(TFM__T(y), TFM__T(x), TFM__T(indices), TFM__I(count), TFM__I(step)));
}

tfm_status tfm_gather_elements(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis) {
    const char *op = "gather_elements";
    if (TFM__OP_BEGIN(ctx, op, "04i", x, indices) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (indices.rank != x.rank)
        return tfm__op_error(ctx, op, "x is %s and the indices are %s: they must have as many dims as x", TFM__SHAPE(x),
                             TFM__SHAPE(indices));
    if (x.dims[axis] > INT32_MAX)
        return tfm__op_error(ctx, op, "x is %s: no I32 index reaches all of axis %d", TFM__SHAPE(x), axis);
    for (int i = 0; i < x.rank; i++)
        if (i != axis && indices.dims[i] > x.dims[i])
            return tfm__op_error(ctx, op, "x is %s and the indices are %s: they must not be larger along axis %d",
                                 TFM__SHAPE(x), TFM__SHAPE(indices), i);
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, indices.dims) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, x, indices) != TFM_OK)
        return tfm_context_status(ctx);
    launch(ctx, *y, x, indices, axis);
    return tfm__tape_add(
        ctx,
        &(tfm__record){
            .op = op, .backward = backward, .out = {*y}, .in = {x}, .saved = {indices}, .ints = {axis, x.dims[axis]}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t a = 3, b = 19, n = 17, taken = 5;
    float *x;
    int32_t *indices;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, a, b, n), ti = RANDOM_INTS(indices, (int)b, a, taken, n);
    double *want = EXPECTED(a * taken * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < a * taken * n; i++)
        want[i] = (double)x[(i / (taken * n) * b + indices[i]) * n + i % n];
    tfm_gather_elements(c->ctx, &y, tx, ti, 1);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_gather_elements[] = {
    {"gather_elements", "", check, 0},
    {0},
};
