/* Elementwise selection between two tensors: cl/elementwise/where.cl. */
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"

static tfm_status launch(tfm_context *ctx, const tfm__iter *iter, tfm_tensor y, tfm_tensor c, tfm_tensor a,
                         tfm_tensor b) {
    const size_t size = tfm_dtype_size(y.dtype);
    const char *type = size == 4 ? "int" : size == 2 ? "short" : "char";
    return tfm__iter_launch(ctx, iter, tfm__kernel_get(ctx, "where", "where", "-DELEMENT=%s", type),
                            tfm__element_grid(ctx, iter->kernel.n), (const int[]){0, 3, 1, 2},
                            TFM__ARGS(TFM__T(y), TFM__T(c), TFM__T(a), TFM__T(b)));
}

/* dy where the input was selected, else 0, summed over the broadcast dims. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), choice = record->saved[0];
    tfm_tensor zero = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &zero, TFM_F32, 1, (int64_t[]){1});
    tfm__tensor_fill(ctx, zero, &(float){0});
    for (int i = 0; i < 2; i++) {
        const tfm__gradient dx = tfm__tape_grad_input(ctx, record, i);
        if (!dx.to.buffer)
            continue;
        const tfm_tensor a = i == 0 ? dy : zero, b = i == 0 ? zero : dy;
        const tfm__gradient whole = tfm__broadcast_gradient(ctx, dx, dy, false);
        tfm__iter iter;
        tfm__iter_broadcast(&iter, &(tfm_tensor){0}, 3, (const tfm_tensor[]){a, b, choice});
        launch(ctx, &iter, whole.to, choice, a, b);
        tfm__broadcast_reduce(ctx, dx, whole);
    }
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm_where(tfm_context *ctx, tfm_tensor *y, tfm_tensor condition, tfm_tensor a, tfm_tensor b) {
    const char *op = "where";
    tfm__iter iter;
    tfm_tensor whole = {.dtype = a.dtype};
    if (TFM__OP_BEGIN(ctx, op, "0***", condition, a, b) != TFM_OK)
        return tfm_context_status(ctx);
    if (condition.dtype != TFM_U8 || a.dtype != b.dtype)
        return tfm__op_error(ctx, op, "the condition is %s, a %s and b %s: it must be U8, and they of one dtype",
                             TFM__SHAPE(condition), TFM__SHAPE(a), TFM__SHAPE(b));
    if (!tfm__iter_broadcast(&iter, &whole, 3, (const tfm_tensor[]){a, b, condition}))
        return tfm__op_error(ctx, op, "the condition is %s, a %s and b %s: dims must be equal or 1",
                             TFM__SHAPE(condition), TFM__SHAPE(a), TFM__SHAPE(b));
    if (tfm__op_output_like(ctx, op, y, whole) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, a, b) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *y, condition) != TFM_OK)
        return tfm_context_status(ctx);
    launch(ctx, &iter, *y, condition, a, b);
    return tfm__tape_add(
        ctx, &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {a, b}, .saved = {condition}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* (3, 5, 1) selects between (17) and (5, 17). */
static void check(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = RANDOM_FLOATS(a, 17), tb = RANDOM_FLOATS(b, 5, 17), condition = {0};
    uint8_t *choice = tfm__check_alloc(c, 15, 1);
    double *want = EXPECTED(255);
    tfm_tensor_new(c->ctx, &condition, TFM_U8, 3, (int64_t[]){3, 5, 1});
    for (int64_t i = 0; tfm__check_ready(c) && i < 15; i++)
        choice[i] = i % 4 == 1;
    if (tfm__check_ready(c))
        tfm_tensor_write(c->ctx, condition, choice);
    for (int64_t i = 0; tfm__check_ready(c) && i < 255; i++)
        want[i] = (double)(choice[i / 17] ? a[i % 17] : b[i % 85]);
    tfm_where(c->ctx, &y, condition, ta, tb);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_where[] = {
    {"where", "", check, 0},
    {0},
};
