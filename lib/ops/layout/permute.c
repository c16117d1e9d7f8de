/* Permutes dimensions: a strided copy, cl/layout/strided.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"

/* y[..., i_axes[0], ...] = or += x[i_0, i_1, ...]: y has x's dims in that order. */
static tfm_status permute_copy(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const int *axes) {
    int64_t dense[TFM_MAX_RANK], to[TFM_MAX_RANK], from[TFM_MAX_RANK];
    tfm__dense_strides(dense, x.rank, x.dims);
    tfm__dense_strides(to, y.to.rank, y.to.dims);
    for (int i = 0; i < y.to.rank; i++)
        from[i] = dense[axes[i]];
    const tfm__iter iter = tfm__iter_make(y.to.rank, y.to.dims, 2, (const int64_t *const[]){to, from});
    return tfm__strided_gradient(ctx, y, x, &iter);
}

/* The inverse permutation. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const int *axes = record->data;
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    int inverse[TFM_MAX_RANK];
    for (int i = 0; i < dy.rank; i++)
        inverse[axes[i]] = i;
    return permute_copy(ctx, tfm__tape_grad_input(ctx, record, 0), dy, inverse);
}

tfm_status tfm_permute(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes) {
    if (TFM__NEEDS_ON(ctx, "permute", axes) != TFM_OK)
        return tfm_context_status(ctx);
    const char *op = "permute";
    if (TFM__OP_BEGIN(ctx, op, "0*", x) != TFM_OK)
        return tfm_context_status(ctx);
    int64_t dims[TFM_MAX_RANK];
    unsigned seen = 0;
    for (int i = 0; i < x.rank; i++) {
        if (axes[i] < 0 || axes[i] >= x.rank || (seen & 1u << axes[i]))
            return tfm__op_error(ctx, op, "the axes must be those of %s, 0 to %d, each once", TFM__SHAPE(x),
                                 x.rank - 1);
        seen |= 1u << axes[i];
        dims[i] = x.dims[axes[i]];
    }
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    permute_copy(ctx, (tfm__gradient){*y, false}, x, axes);
    return tfm__tape_add(ctx, &(tfm__record){.op = op,
                                             .backward = backward,
                                             .out = {*y},
                                             .in = {x},
                                             .data = axes,
                                             .data_bytes = (size_t)x.rank * sizeof(*axes)});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t a = 3, b = 5, d = 17;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, a, b, d);
    double *want = EXPECTED(a * b * d);
    for (int64_t i = 0; tfm__check_ready(c) && i < a * b * d; i++)
        want[(i % d * a + i / d / b) * b + i / d % b] = (double)x[i];
    tfm_permute(c->ctx, &y, tx, (int[]){2, 0, 1});
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_permute[] = {
    {"permute", "", check, 0},
    {0},
};
