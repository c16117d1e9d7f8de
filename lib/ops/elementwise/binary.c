/* Binary functions with broadcasting: cl/elementwise/binary.cl. add.c has addition, except of integers. */
#include <math.h>
#include <string.h>
#include "ops/selftest/selftest.h"
#include "ops/layout/strided.h"
#include "ops/reduce/sum.h"

/* The numbering of cl/elementwise/binary.cl. */
enum function { SUB, MUL, DIV, POW, MIN, MAX, ADD, EQUAL, LESS, LESS_EQUAL, AND, OR, XOR, FUNCTIONS };

static const struct {
    const char *name, *dtypes; /* dtypes of both inputs: f F32, i I32, b U8 */
} OPS[FUNCTIONS] = {
    [SUB] = {"sub", "fi"},    [MUL] = {"mul", "fi"},
    [DIV] = {"div", "fi"},    [POW] = {"pow", "f"},
    [MIN] = {"min", "fi"},    [MAX] = {"max", "fi"},
    [AND] = {"and", "b"},     [OR] = {"or", "b"},
    [LESS] = {"less", "fib"}, [LESS_EQUAL] = {"less_equal", "fib"},
    [XOR] = {"xor", "b"},     [EQUAL] = {"equal", "fib"},
    [ADD] = {"add", "i"},
};

static const char *defines(enum function function, tfm_dtype dtype) {
    if (function < EQUAL)
        return dtype == TFM_F32 ? "-DSCALAR=float -DRESULT=float -DARITHMETIC -DFLOATING"
                                : "-DSCALAR=int -DRESULT=int -DARITHMETIC";
    return dtype == TFM_F32   ? "-DSCALAR=float -DRESULT=uchar"
           : dtype == TFM_I32 ? "-DSCALAR=int -DRESULT=uchar"
                              : "-DSCALAR=uchar -DRESULT=uchar";
}

static const char *known_dtypes(const char *letters) {
    return strcmp(letters, "f") == 0    ? "both F32"
           : strcmp(letters, "b") == 0  ? "both U8"
           : strcmp(letters, "i") == 0  ? "both I32"
           : strcmp(letters, "fi") == 0 ? "both F32 or both I32"
                                        : "both F32, both I32 or both U8";
}

/* Writes the gradient of y's elements to dx, which is the gradient of an input without broadcasting. The slopes of a
 * difference read neither a nor b, which the tape has not saved: the gradient tensor, with at least as many elements,
 * is passed for them. */
static tfm_status launch_backward(tfm_context *ctx, tfm__gradient to, tfm_tensor dy, const tfm__record *record,
                                  int second) {
    const bool kept = record->ints[0] != SUB;
    const tfm_tensor dx = to.to, a = kept ? record->saved[0] : dy, b = kept ? record->saved[1] : dy;
    tfm__iter iter;
    tfm__iter_broadcast(&iter, &(tfm_tensor){0}, 2, record->in);
    const bool vec4 = record->ints[0] <= DIV && tfm__iter_can_vec4(ctx, &iter, 3, (const tfm_tensor[]){dx, a, b}) &&
                      TFM__CAN_VEC4(ctx, dy);
    return tfm__iter_launch(
        ctx, &iter,
        tfm__kernel_get(ctx, "binary", "binary_backward", "%s%s", defines(SUB, TFM_F32), tfm__vec4_define(vec4)),
        tfm__vec4_grid(ctx, iter.kernel.n, vec4), (const int[]){0, 0, 1, 2},
        TFM__ARGS(TFM__T(dx), TFM__T(dy), TFM__T(a), TFM__T(b), TFM__I_AS("function", record->ints[0]), TFM__I(second),
                  TFM__I_AS("add", to.add)));
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0);
    for (int i = 0; i < 2; i++) {
        const tfm__gradient dx = tfm__tape_grad_input(ctx, record, i);
        if (!dx.to.buffer)
            continue;
        if (record->ints[0] == SUB && i == 0) {
            tfm__sum_to_size(ctx, dx, dy);
            continue;
        }
        tfm_scope_open(ctx);
        const tfm__gradient whole = tfm__broadcast_gradient(ctx, dx, dy, true);
        launch_backward(ctx, whole, dy, record, i);
        tfm__broadcast_reduce(ctx, dx, whole);
        tfm_scope_close(ctx, 0, NULL);
    }
    return tfm_context_status(ctx);
}

static tfm_status binary_op(tfm_context *ctx, enum function function, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    const char *op = OPS[function].name;
    tfm_tensor whole = {0};
    tfm__iter iter;
    if (TFM__OP_BEGIN(ctx, op, "0**", a, b) != TFM_OK)
        return tfm_context_status(ctx);
    bool known = false;
    for (const char *letter = OPS[function].dtypes; *letter; letter++)
        known |= a.dtype == (*letter == 'f' ? TFM_F32 : *letter == 'i' ? TFM_I32 : TFM_U8);
    if (!known || a.dtype != b.dtype)
        return tfm__op_error(ctx, op, "a is %s and b is %s: they must be %s", TFM__SHAPE(a), TFM__SHAPE(b),
                             known_dtypes(OPS[function].dtypes));
    if (!tfm__iter_broadcast(&iter, &whole, 2, (const tfm_tensor[]){a, b}))
        return tfm__op_error(ctx, op, "a is %s and b is %s: dims must be equal or 1", TFM__SHAPE(a), TFM__SHAPE(b));
    if (tfm__op_output(ctx, op, y, function < EQUAL ? a.dtype : TFM_U8, whole.rank, whole.dims) != TFM_OK ||
        TFM__OP_IN_PLACE(ctx, op, *y, a, b) != TFM_OK)
        return tfm_context_status(ctx);
    const bool vec4 =
        function < EQUAL && a.dtype == TFM_F32 && tfm__iter_can_vec4(ctx, &iter, 3, (const tfm_tensor[]){*y, a, b});
    tfm__iter_launch(
        ctx, &iter,
        tfm__kernel_get(ctx, "binary", "binary", "%s%s", defines(function, a.dtype), tfm__vec4_define(vec4)),
        tfm__vec4_grid(ctx, iter.kernel.n, vec4), (const int[]){0, 1, 2},
        TFM__ARGS(TFM__T_AS("y", *y), TFM__T(a), TFM__T(b), TFM__I(function)));
    if (function >= EQUAL) /* step functions: the slope is 0 everywhere, so no gradient */
        return tfm_context_status(ctx);
    const tfm_tensor none = {0};
    return tfm__tape_add(ctx, &(tfm__record){.op = op,
                                             .backward = backward,
                                             .out = {*y},
                                             .in = {a, b},
                                             .saved = {function == SUB ? none : a, function == SUB ? none : b},
                                             .ints = {function}});
}

tfm_status tfm__add_integers(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, ADD, y, a, b);
}

tfm_status tfm_sub(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, SUB, y, a, b);
}

tfm_status tfm_mul(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, MUL, y, a, b);
}

tfm_status tfm_div(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, DIV, y, a, b);
}

tfm_status tfm_pow(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, POW, y, a, b);
}

tfm_status tfm_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, MIN, y, a, b);
}

tfm_status tfm_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, MAX, y, a, b);
}

tfm_status tfm_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, EQUAL, y, a, b);
}

tfm_status tfm_less(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, LESS, y, a, b);
}

tfm_status tfm_less_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, LESS_EQUAL, y, a, b);
}

tfm_status tfm_and(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, AND, y, a, b);
}

tfm_status tfm_or(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, OR, y, a, b);
}

tfm_status tfm_xor(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    return binary_op(ctx, XOR, y, a, b);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static double reference(int function, double a, double b) {
    switch (function) {
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case POW:
        return pow(a, b);
    case MIN:
        return fmin(a, b);
    default:
        return fmax(a, b);
    }
}

/* (3, 1, 17) and (5, 1): a > 0 for powers, b away from 0 for quotients. */
static void check(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = RANDOM_FLOATS(a, 3, 1, 17), tb = RANDOM_FLOATS(b, 5, 1);
    double *want = EXPECTED(3 * 5 * 17);
    for (int64_t i = 0; tfm__check_ready(c) && c->number == POW && i < 51; i++)
        a[i] = fabsf(a[i]) + 0.1f;
    for (int64_t i = 0; tfm__check_ready(c) && c->number == DIV && i < 5; i++)
        b[i] += b[i] < 0 ? -0.1f : 0.1f;
    for (int64_t i = 0; tfm__check_ready(c) && i < 3 * 5 * 17; i++)
        want[i] = reference(c->number, (double)a[i / 85 * 17 + i % 17], (double)b[i / 17 % 5]);
    if (tfm__check_ready(c) && tfm_tensor_write(c->ctx, ta, a) == TFM_OK)
        tfm_tensor_write(c->ctx, tb, b);
    binary_op(c->ctx, (enum function)c->number, &y, ta, tb);
    tfm__check_compare(c, y, want);
}

/* Comparisons on integers, some of them equal. */
static void check_truth(tfm__check *c) {
    int32_t *a, *b;
    tfm_tensor less = {0}, ta = RANDOM_INTS(a, 5, 7, 33), tb = RANDOM_INTS(b, 5, 33);
    uint8_t *got = tfm__check_alloc(c, 231, 1);
    tfm_less(c->ctx, &less, ta, tb);
    if (!got || tfm_tensor_read(c->ctx, got, less) != TFM_OK)
        return;
    for (int64_t i = 0; i < 231; i++)
        if (got[i] != (a[i] < b[i % 33]))
            c->error = INFINITY;
}

const tfm__check_entry tfm__selftest_binary[] = {
    {"sub", "broadcast", check, SUB}, {"mul", "broadcast", check, MUL},
    {"div", "broadcast", check, DIV}, {"pow", "broadcast", check, POW},
    {"min", "broadcast", check, MIN}, {"max", "broadcast", check, MAX},
    {"less", "i32", check_truth, 0},  {0},
};
