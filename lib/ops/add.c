/* Addition, with dims that broadcast: cl/add.cl. */
#include "ops/selftest.h"
#include "ops/strided.h"
#include "ops/sum.h"

/* The dims of a + b, and each one's strides in them, 0 where it repeats; false where they do not fit. */
static bool broadcast(tfm_tensor *y, int64_t strides[3][TFM_MAX_RANK], tfm_tensor a, tfm_tensor b) {
    const tfm_tensor *inputs[2] = {&a, &b};
    y->dtype = a.dtype;
    y->rank = a.rank > b.rank ? a.rank : b.rank;
    for (int i = 0; i < y->rank; i++)
        y->dims[i] = 1;
    for (int w = 0; w < 2; w++) {
        const int missing = y->rank - inputs[w]->rank;
        int64_t dense[TFM_MAX_RANK];
        tfm__dense_strides(dense, inputs[w]->rank, inputs[w]->dims);
        for (int i = 0; i < y->rank; i++) {
            const int64_t dim = i < missing ? 1 : inputs[w]->dims[i - missing];
            strides[w + 1][i] = dim == 1 ? 0 : dense[i - missing];
            if (dim != 1 && y->dims[i] != 1 && dim != y->dims[i])
                return false;
            if (dim != 1)
                y->dims[i] = dim;
        }
    }
    tfm__dense_strides(strides[0], y->rank, y->dims);
    return true;
}

static tfm_status launch_broadcast(tfm_context *ctx, tfm_tensor y, tfm_tensor a, tfm_tensor b,
                                   int64_t strides[3][TFM_MAX_RANK]) {
    const tfm__walk walk =
        tfm__walk_make(y.rank, y.dims, 3, (const int64_t *const[]){strides[0], strides[1], strides[2]});
    const int64_t *d = walk.dims, *p = walk.strides[1], *q = walk.strides[2];
    const int64_t n = (int64_t)tfm_tensor_count(y);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "add", "add_broadcast", "");
    return tfm__launch(
        ctx, kernel, tfm__element_grid(ctx, n),
        TFM_ARGS(TFM_T(y), TFM_T(a), TFM_T(b), TFM_I(n), TFM_I_AS("d1", d[1]), TFM_I_AS("d2", d[2]),
                 TFM_I_AS("d3", d[3]), TFM_I_AS("d4", d[4]), TFM_I_AS("a0", p[0]), TFM_I_AS("a1", p[1]),
                 TFM_I_AS("a2", p[2]), TFM_I_AS("a3", p[3]), TFM_I_AS("a4", p[4]), TFM_I_AS("b0", q[0]),
                 TFM_I_AS("b1", q[1]), TFM_I_AS("b2", q[2]), TFM_I_AS("b3", q[3]), TFM_I_AS("b4", q[4])));
}

static tfm_status launch_same(tfm_context *ctx, tfm_tensor y, tfm_tensor a, tfm_tensor b) {
    const int64_t n = (int64_t)tfm_tensor_count(y);
    return tfm__launch(ctx, tfm__kernel_get(ctx, "add", "add", ""), tfm__element_grid(ctx, n),
                       TFM_ARGS(TFM_T(y), TFM_T(a), TFM_T(b), TFM_I(n)));
}

tfm_status tfm__accumulate(tfm_context *ctx, tfm__gradient to, tfm_tensor x) {
    if (!to.to.buffer)
        return tfm_context_status(ctx);
    return to.add ? launch_same(ctx, to.to, to.to, x) : tfm__tensor_copy(ctx, to.to, x);
}

/* da = dy, db = dy, summed over what was repeated. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_out(ctx, record, 0);
    for (int i = 0; i < 2; i++)
        tfm__sum_broadcast(ctx, tfm__tape_in(ctx, record, i), dy);
    return tfm_context_status(ctx);
}

tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    const char *op = "add";
    tfm_tensor sum = {0};
    int64_t strides[3][TFM_MAX_RANK];
    if (TFM_OP_BEGIN(ctx, op, "ff", a, b) != TFM_OK)
        return tfm_context_status(ctx);
    if (!broadcast(&sum, strides, a, b))
        return tfm__op_refuse(ctx, op, "a is %s and b is %s: dims must be equal or 1", TFM_SHAPE(a),
                              TFM_SHAPE(b));
    if (tfm__op_output_like(ctx, op, y, sum) != TFM_OK || TFM_OP_IN_PLACE(ctx, op, *y, a, b) != TFM_OK)
        return tfm_context_status(ctx);
    const size_t n = tfm_tensor_count(*y);
    if (tfm_tensor_count(a) != n || tfm_tensor_count(b) != n)
        launch_broadcast(ctx, *y, a, b, strides);
    else
        launch_same(ctx, *y, a, b);
    return tfm__tape_add(ctx, &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {a, b}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = FLOATS(a, 17, 65), tb = FLOATS(b, 17, 65);
    double *want = WANTED(17 * 65);
    for (int64_t i = 0; tfm__check_ready(c) && i < 17 * 65; i++)
        want[i] = (double)a[i] + (double)b[i];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_judge(c, y, want);
}

/* (3, 1, 17) + (5, 1) */
static void check_broadcast(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = FLOATS(a, 3, 1, 17), tb = FLOATS(b, 5, 1);
    double *want = WANTED(3 * 5 * 17);
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 5 * 17; i++)
        want[i] = (double)a[i / 85 * 17 + i % 17] + (double)b[i / 17 % 5];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_judge(c, y, want);
}

const tfm__check_entry tfm__selftest_add[] = {
    {"add", "", check, 0},
    {"add", "broadcast", check_broadcast, 0},
    {0},
};
