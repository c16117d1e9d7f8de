/* Gathers rows, or slices of any dimension, by index: cl/layout/gather.cl. */
#include <string.h>
#include "ops/selftest/selftest.h"
#include "ops/reduce/sum.h"

tfm_status tfm__index_add(tfm_context *ctx, tfm__gradient to, tfm_tensor dy, tfm_tensor indices, int64_t outer,
                          int64_t count, int64_t width, float scale) {
    const int64_t taken = (int64_t)tfm_tensor_count(indices);
    const int64_t cores = tfm_context_device(ctx)->compute_units;
    int64_t parts = 1, most = 64; /* enough for any CPU */
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    if (tfm__context_tuning(ctx)->class == TFM__CLASS_GPU && 4 * cores > most)
        most = 4 * cores;
    while (2 * parts * outer <= most && 2 * parts <= count)
        parts *= 2;
    if (!to.add)
        tfm__tensor_fill(ctx, to.to, &(float){0});
    return tfm__launch(ctx, tfm__kernel_get(ctx, "gather", "gather_backward", ""), tfm__row_grid(ctx, outer * parts),
                       TFM__ARGS(TFM__T_AS("dx", to.to), TFM__T(dy), TFM__T(indices), TFM__I(outer), TFM__I(taken),
                                 TFM__I(width), TFM__I(count), TFM__I(parts), TFM__F(scale)));
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor x = record->in[0];
    const int axis = (int)record->ints[0];
    return tfm__index_add(ctx, tfm__tape_grad_input(ctx, record, 0), tfm__tape_grad_output(ctx, record, 0),
                          record->saved[0], tfm__dims_before(x, axis), x.dims[axis], tfm__dims_from(x, axis + 1), 1);
}

static tfm_status launch(tfm_context *ctx, tfm_tensor y, tfm_tensor x, tfm_tensor indices, int axis) {
    const char *op = "gather";
    if (TFM__OP_NO_OVERLAP(ctx, op, y, x, indices) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(y), count = x.dims[axis];
    const int64_t taken = (int64_t)tfm_tensor_count(indices), width = tfm__dims_from(x, axis + 1);
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "gather", "");
    tfm__launch(
        ctx, kernel, tfm__element_grid(ctx, n),
        TFM__ARGS(TFM__T(y), TFM__T(x), TFM__T(indices), TFM__I(n), TFM__I(width), TFM__I(count), TFM__I(taken)));
    return tfm__tape_add(
        ctx, &(tfm__record){.op = op, .backward = backward, .out = {y}, .in = {x}, .saved = {indices}, .ints = {axis}});
}

tfm_status tfm_gather(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices) {
    const char *op = "gather";
    if (TFM__OP_BEGIN(ctx, op, "04i", x, indices) != TFM_OK)
        return tfm_context_status(ctx);
    if (indices.rank != 1)
        return tfm__op_error(ctx, op, "indices is %s: it must have one dimension", TFM__SHAPE(indices));
    int64_t dims[TFM_MAX_RANK];
    memcpy(dims, x.dims, sizeof(dims));
    dims[0] = indices.dims[0];
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, dims) != TFM_OK)
        return tfm_context_status(ctx);
    return launch(ctx, *y, x, indices, 0);
}

tfm_status tfm_gather_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis) {
    const char *op = "gather";
    if (TFM__OP_BEGIN(ctx, op, "04i", x, indices) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int rank = x.rank - 1 + indices.rank;
    if (rank > TFM_MAX_RANK)
        return tfm__op_error(ctx, op, "x is %s and indices is %s: the result would have %d dimensions, at most %d",
                             TFM__SHAPE(x), TFM__SHAPE(indices), rank, TFM_MAX_RANK);
    int64_t dims[TFM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i < axis                  ? x.dims[i]
                  : i < axis + indices.rank ? indices.dims[i - axis]
                                            : x.dims[i - indices.rank + 1];
    if (tfm__op_output(ctx, op, y, x.dtype, rank, dims) != TFM_OK)
        return tfm_context_status(ctx);
    return launch(ctx, *y, x, indices, axis);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 9, n = 21, width = 17;
    float *x;
    int32_t *indices;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, width),
               ti = RANDOM_INTS(indices, (int)rows + 2, n); /* two are out of range */
    double *want = EXPECTED(n * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < n * width; i++)
        want[i] = indices[i / width] < rows ? (double)x[indices[i / width] * width + i % width] : 0;
    tfm_gather(c->ctx, &y, tx, ti);
    tfm__check_compare(c, y, want);
}

static void check_axis(tfm__check *c) {
    const int64_t outer = 3, count = 9, n = 4, width = 17;
    float *x;
    int32_t *indices;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, outer, count, width), ti = RANDOM_INTS(indices, (int)count, 2, 2);
    double *want = EXPECTED(outer * n * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < outer * n * width; i++)
        want[i] = (double)x[(i / width / n * count + indices[i / width % n]) * width + i % width];
    tfm_gather_axis(c->ctx, &y, tx, ti, 1);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_gather[] = {
    {"gather", "", check, 0},
    {"gather", "axis 1", check_axis, 0},
    {0},
};
