/* A choice between two tensors, element by element: cl/where.cl. */
#include "ops/selftest.h"
#include "ops/strided.h"
#include "ops/sum.h"

static tfm_status launch(tfm_context *ctx, tfm_tensor whole, tfm_tensor choice, tfm_tensor left, tfm_tensor right) {
    int64_t strides[4][TFM_MAX_RANK];
    tfm_tensor dims = {0};
    tfm__broadcast(&dims, strides, 3, (const tfm_tensor[]){left, right, choice});
    const tfm__walk walk = tfm__walk_make(dims.rank, dims.dims, 4,
                                          (const int64_t *const[]){strides[0], strides[1], strides[2], strides[3]});
    const size_t size = tfm_dtype_size(whole.dtype);
    const char *type = size == 4 ? "int" : size == 2 ? "short" : "char";
    for (int64_t piece = 0; piece < walk.pieces && tfm_context_status(ctx) == TFM_OK; piece++) {
        const tfm_tensor y = tfm__walk_at(&walk, 0, piece, whole), c = tfm__walk_at(&walk, 3, piece, choice);
        const tfm_tensor a = tfm__walk_at(&walk, 1, piece, left), b = tfm__walk_at(&walk, 2, piece, right);
        tfm__arg args[TFM__WALK_ARGS + 4] = {TFM__T(y), TFM__T(c), TFM__T(a), TFM__T(b)};
        const size_t count = tfm__walk_args(args, 4, &walk, 4);
        tfm__launch(ctx, tfm__kernel_get(ctx, "where", "where", "-DELEMENT=%s", type), tfm__element_grid(ctx, walk.n),
                    count, args);
    }
    return tfm_context_status(ctx);
}

/* dy where the input was chosen, 0 elsewhere, and the sum of that over what was repeated. */
static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_out(ctx, record, 0), choice = record->keep[0];
    tfm_tensor zero = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &zero, TFM_F32, 1, (int64_t[]){1});
    tfm__tensor_fill(ctx, zero, &(float){0});
    for (int i = 0; i < 2; i++) {
        const tfm__gradient dx = tfm__tape_in(ctx, record, i);
        if (!dx.to.buffer)
            continue;
        tfm_tensor whole = dx.to;
        const bool straight = !dx.add && tfm_tensor_count(dx.to) == tfm_tensor_count(dy);
        if (!straight) {
            whole = (tfm_tensor){0};
            tfm_tensor_new(ctx, &whole, TFM_F32, dy.rank, dy.dims);
        }
        launch(ctx, whole, choice, i == 0 ? dy : zero, i == 0 ? zero : dy);
        if (!straight)
            tfm__sum_broadcast(ctx, dx, whole);
    }
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm_where(tfm_context *ctx, tfm_tensor *y, tfm_tensor condition, tfm_tensor a, tfm_tensor b) {
    const char *op = "where";
    int64_t strides[4][TFM_MAX_RANK];
    tfm_tensor whole = {.dtype = a.dtype};
    if (TFM__OP_BEGIN(ctx, op, "0***", condition, a, b) != TFM_OK)
        return tfm_context_status(ctx);
    if (condition.dtype != TFM_U8 || a.dtype != b.dtype)
        return tfm__op_refuse(ctx, op, "the condition is %s, a %s and b %s: it must be U8, and they of one dtype",
                              TFM__SHAPE(condition), TFM__SHAPE(a), TFM__SHAPE(b));
    if (!tfm__broadcast(&whole, strides, 3, (const tfm_tensor[]){a, b, condition}))
        return tfm__op_refuse(ctx, op, "the condition is %s, a %s and b %s: dims must be equal or 1",
                              TFM__SHAPE(condition), TFM__SHAPE(a), TFM__SHAPE(b));
    if (tfm__op_output_like(ctx, op, y, whole) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, a, b) != TFM_OK ||
        TFM__OP_APART(ctx, op, *y, condition) != TFM_OK)
        return tfm_context_status(ctx);
    launch(ctx, *y, condition, a, b);
    return tfm__tape_add(
        ctx, &(tfm__record){.op = op, .backward = backward, .out = {*y}, .in = {a, b}, .keep = {condition}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* (3, 5, 1) chooses between (17) and (5, 17). */
static void check(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = FLOATS(a, 17), tb = FLOATS(b, 5, 17), condition = {0};
    uint8_t *choice = tfm__check_block(c, 15, 1);
    double *want = WANTED(255);
    tfm_tensor_new(c->ctx, &condition, TFM_U8, 3, (int64_t[]){3, 5, 1});
    for (int64_t i = 0; tfm__check_ready(c) && i < 15; i++)
        choice[i] = i % 4 == 1;
    if (tfm__check_ready(c))
        tfm_tensor_write(c->ctx, condition, choice);
    for (int64_t i = 0; tfm__check_ready(c) && i < 255; i++)
        want[i] = (double)(choice[i / 17] ? a[i % 17] : b[i % 85]);
    tfm_where(c->ctx, &y, condition, ta, tb);
    tfm__check_judge(c, y, want);
}

const tfm__check_entry tfm__selftest_where[] = {
    {"where", "", check, 0},
    {0},
};
