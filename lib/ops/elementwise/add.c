/* Addition with broadcasting: cl/elementwise/add.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"
#include "ops/reduce/sum.h"

static tfm_status launch_broadcast(tfm_context *ctx, const tfm__iter *iter, tfm_tensor y, tfm_tensor a, tfm_tensor b) {
    const bool vec4 = tfm__iter_can_vec4(ctx, iter, 3, (const tfm_tensor[]){y, a, b});
    return tfm__iter_launch(ctx, iter, tfm__kernel_get(ctx, "add", "add_broadcast", "%s", tfm__vec4_define(vec4)),
                            tfm__vec4_grid(ctx, iter->kernel.n, vec4), (const int[]){0, 1, 2},
                            TFM__ARGS(TFM__T(y), TFM__T(a), TFM__T(b)));
}

/* da = dy, db = dy, summed over the broadcast dims. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    for (int i = 0; i < 2; i++)
        tfm__sum_to_size(ctx, tfm__tape_grad_input(ctx, record, i), dy);
    return tfm_context_status(ctx);
}

tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    const char *op = "add";
    tfm_tensor sum = {.dtype = TFM_F32};
    tfm__iter iter;
    if (a.dtype == TFM_I32 && b.dtype == TFM_I32)
        return tfm__add_integers(ctx, y, a, b);
    if (TFM__OP_BEGIN(ctx, op, "0ff", a, b) != TFM_OK)
        return tfm_context_status(ctx);
    if (!tfm__iter_broadcast(&iter, &sum, 2, (const tfm_tensor[]){a, b}))
        return tfm__op_error(ctx, op, "a is %s and b is %s: dims must be equal or 1", TFM__SHAPE(a), TFM__SHAPE(b));
    if (tfm__op_output_like(ctx, op, y, sum) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, a, b) != TFM_OK)
        return tfm_context_status(ctx);
    const size_t n = tfm_tensor_count(*y);
    if (tfm_tensor_count(a) == n && tfm_tensor_count(b) == n)
        tfm__add_same_shape(ctx, *y, a, b);
    else
        launch_broadcast(ctx, &iter, *y, a, b);
    return tfm__tape_add(ctx, &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {a, b}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = RANDOM_FLOATS(a, 17, 65), tb = RANDOM_FLOATS(b, 17, 65);
    double *want = EXPECTED(17 * 65);
    for (int64_t i = 0; tfm__check_ready(c) && i < 17 * 65; i++)
        want[i] = (double)a[i] + (double)b[i];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_compare(c, y, want);
}

/* (3, 1, 17) + (5, 1) */
static void check_broadcast(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = RANDOM_FLOATS(a, 3, 1, 17), tb = RANDOM_FLOATS(b, 5, 1);
    double *want = EXPECTED(3 * 5 * 17);
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 5 * 17; i++)
        want[i] = (double)a[i / 85 * 17 + i % 17] + (double)b[i / 17 % 5];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_add[] = {
    {"add", "", check, 0},
    {"add", "broadcast", check_broadcast, 0},
    {0},
};
