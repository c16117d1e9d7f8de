/* One-hot encoding of indices: cl/embedding/onehot.cl. */
#include <inttypes.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

tfm_status tfm_onehot(tfm_context *ctx, tfm_tensor *y, tfm_tensor indices, int64_t depth, int axis, float off,
                      float on) {
    const char *op = "onehot";
    if (TFM__OP_BEGIN(ctx, op, "0i", indices) != TFM_OK)
        return tfm_context_status(ctx);
    const int rank = indices.rank + 1;
    if (rank > TFM_MAX_RANK || axis < -rank || axis >= rank || depth < 1 || depth > INT32_MAX)
        return tfm__op_error(ctx, op,
                             "axis %d of depth %" PRId64 " for indices %s: the result has at most %d dims, the "
                             "axis is one of them, and the depth from 1 to %d",
                             axis, depth, TFM__SHAPE(indices), TFM_MAX_RANK, INT32_MAX);
    axis = axis < 0 ? axis + rank : axis;
    int64_t dims[TFM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? depth : indices.dims[i < axis ? i : i - 1];
    if (tfm__op_output(ctx, op, y, TFM_F32, rank, dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, indices) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(*y), inner = tfm__dims_from(*y, axis + 1);
    return tfm__launch(ctx, tfm__kernel_get(ctx, op, "onehot", ""), tfm__element_grid(ctx, n),
                       TFM__ARGS(TFM__T_AS("y", *y), TFM__T(indices), TFM__I(n), TFM__I(depth), TFM__I(inner),
                                 TFM__F(off), TFM__F(on)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Of (5, 17): the new axis in the middle, or at the end. */
static void check(tfm__check *c) {
    const int64_t depth = 11, inner = c->number ? 1 : 17, outer = 85 / inner;
    int32_t *indices;
    tfm_tensor y = {0}, ti = RANDOM_INTS(indices, 13, 5, 17);
    double *want = EXPECTED(85 * depth);
    for (int64_t i = 0; tfm__check_ready(c) && i < outer * depth * inner; i++)
        want[i] = indices[i / (depth * inner) * inner + i % inner] == i / inner % depth ? 3 : -1;
    tfm_onehot(c->ctx, &y, ti, depth, c->number ? -1 : 1, -1, 3);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_onehot[] = {
    {"onehot", "columns", check, 0},
    {"onehot", "rows", check, 1},
    {0},
};
