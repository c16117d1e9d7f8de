/* Cumulative sums along a dimension: cl/reduce/cumsum.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

static tfm_status launch(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int axis, bool exclusive, bool reverse) {
    const int64_t outer = tfm__dims_before(x, axis), inner = tfm__dims_from(x, axis + 1), rows = x.dims[axis];
    const int64_t blocks = tfm__column_blocks(ctx, inner), items = inner == 1 ? outer : outer * blocks;
    /* Integer sums wrap, like unsigned ones. */
    const char *type = x.dtype == TFM_F32 ? "float -DVECTOR=tfm_vec" : "uint -DVECTOR=tfm_uvec";
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "cumsum", inner == 1 ? "cumsum_rows" : "cumsum_columns", "-DSCALAR=%s", type);
    if (inner == 1)
        return tfm__launch(ctx, kernel, tfm__row_grid(ctx, items),
                           TFM__ARGS(TFM__T_AS("y", to.to), TFM__T(x), TFM__I(items), TFM__I(rows), TFM__I(exclusive),
                                     TFM__I(reverse), TFM__I_AS("add", to.add)));
    return tfm__launch(ctx, kernel, tfm__row_grid(ctx, items),
                       TFM__ARGS(TFM__T_AS("y", to.to), TFM__T(x), TFM__I(items), TFM__I(rows), TFM__I(inner),
                                 TFM__I(blocks), TFM__I(exclusive), TFM__I(reverse), TFM__I_AS("add", to.add)));
}

/* An element contributes to all later sums, so its gradient is a cumulative sum in the reverse direction. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    return launch(ctx, tfm__tape_grad_input(ctx, record, 0), tfm__tape_grad_output(ctx, record, 0),
                  (int)record->ints[0], record->ints[1] != 0, record->ints[2] == 0);
}

tfm_status tfm_cumsum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis, bool exclusive, bool reverse) {
    const char *op = "cumsum";
    if (TFM__OP_BEGIN(ctx, op, "04", x) != TFM_OK || tfm__op_axis(ctx, op, &axis, x) != TFM_OK ||
        tfm__op_output_like(ctx, op, y, x) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    launch(ctx, (tfm__gradient){*y, false}, x, axis, exclusive, reverse);
    return tfm__tape_add(
        ctx,
        &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {x}, .ints = {axis, exclusive, reverse}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Along the middle of (3, 65, 17), or along the last dim: number 1. */
static void check(tfm__check *c) {
    const int64_t a = 3, b = c->number ? 1 : 17, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, a, n, b);
    double *want = EXPECTED(a * n * b);
    for (int64_t k = 0; tfm__check_ready(c) && k < a * b; k++) {
        double sum = 0;
        for (int64_t r = n - 1; r >= 0; r--) {
            const int64_t at = (k / b * n + r) * b + k % b;
            want[at] = sum;
            sum += (double)x[at];
        }
    }
    tfm_cumsum(c->ctx, &y, tx, 1, true, true);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_cumsum[] = {
    {"cumsum", "columns", check, 0},
    {"cumsum", "rows", check, 1},
    {0},
};
