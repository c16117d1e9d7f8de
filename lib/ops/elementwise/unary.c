/* Elementwise unary functions: cl/elementwise/unary.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

/* The numbering of cl/elementwise/unary.cl. */
enum function {
    NEG,
    ABS,
    SQRT,
    RECIPROCAL,
    EXP,
    LOG,
    ERF,
    SIGMOID,
    TANH,
    HARDSWISH,
    HARD_SIGMOID,
    CLIP,
    FUNCTIONS,
};

static const char *const NAMES[FUNCTIONS] = {"neg", "abs",     "sqrt", "reciprocal", "exp",          "log",
                                             "erf", "sigmoid", "tanh", "hardswish",  "hard_sigmoid", "clip"};

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor x = record->saved[0], dy = tfm__tape_grad_output(ctx, record, 0);
    const tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0);
    const int64_t n = (int64_t)tfm_tensor_count(x);
    const bool vec4 = TFM__CAN_VEC4(ctx, dx.to, dy, x);
    return tfm__launch(ctx, tfm__kernel_get(ctx, "unary", "unary_backward", "%s", tfm__vec4_define(vec4)),
                       tfm__vec4_grid(ctx, n, vec4),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T(dy), TFM__T(x), TFM__I_AS("function", record->ints[0]),
                                 TFM__F_AS("p", record->floats[0]), TFM__F_AS("q", record->floats[1]), TFM__I(n),
                                 TFM__I_AS("add", dx.add)));
}

static tfm_status unary_op(tfm_context *ctx, enum function function, tfm_tensor *y, tfm_tensor x, float p, float q) {
    const char *op = NAMES[function];
    if (TFM__OP_BEGIN(ctx, op, "0f", x) != TFM_OK || tfm__op_output_like(ctx, op, y, x) != TFM_OK ||
        TFM__OP_IN_PLACE(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(x);
    const bool vec4 = TFM__CAN_VEC4(ctx, *y, x);
    tfm__launch(
        ctx, tfm__kernel_get(ctx, "unary", "unary", "%s", tfm__vec4_define(vec4)), tfm__vec4_grid(ctx, n, vec4),
        TFM__ARGS(TFM__T_AS("y", *y), TFM__T(x), TFM__I_AS("function", function), TFM__F(p), TFM__F(q), TFM__I(n)));
    return tfm__tape_add(ctx, &(tfm__record){.op = op,
                                             .backward = backward,
                                             .out = {*y},
                                             .in = {x},
                                             .saved = {x},
                                             .ints = {function},
                                             .floats = {p, q}});
}

tfm_status tfm_neg(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, NEG, y, x, 0, 0);
}

tfm_status tfm_abs(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, ABS, y, x, 0, 0);
}

tfm_status tfm_sqrt(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, SQRT, y, x, 0, 0);
}

tfm_status tfm_reciprocal(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, RECIPROCAL, y, x, 0, 0);
}

tfm_status tfm_exp(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, EXP, y, x, 0, 0);
}

tfm_status tfm_log(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, LOG, y, x, 0, 0);
}

tfm_status tfm_erf(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, ERF, y, x, 0, 0);
}

tfm_status tfm_sigmoid(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, SIGMOID, y, x, 0, 0);
}

tfm_status tfm_tanh(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, TANH, y, x, 0, 0);
}

tfm_status tfm_hardswish(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return unary_op(ctx, HARDSWISH, y, x, 0, 0);
}

tfm_status tfm_hard_sigmoid(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, float alpha, float beta) {
    return unary_op(ctx, HARD_SIGMOID, y, x, alpha, beta);
}

tfm_status tfm_clip(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, float low, float high) {
    if (isnan(low) || isnan(high))
        return tfm__op_error(ctx, "clip", "the bounds are %g and %g: NaN bounds nothing", (double)low, (double)high);
    return unary_op(ctx, CLIP, y, x, low, high);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static double reference(int function, double x) {
    switch (function) {
    case NEG:
        return -x;
    case ABS:
        return fabs(x);
    case SQRT:
        return sqrt(x);
    case RECIPROCAL:
        return 1 / x;
    case EXP:
        return exp(x);
    case LOG:
        return log(x);
    case ERF:
        return erf(x);
    case SIGMOID:
        return 1 / (1 + exp(-x));
    case TANH:
        return tanh(x);
    case HARDSWISH:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    case HARD_SIGMOID:
        return fmin(fmax(0.75 * x + 0.5, 0), 1);
    default:
        return fmin(fmax(x, -0.5), 1.25);
    }
}

static void check(tfm__check *c) {
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, 3, 111);
    double *want = EXPECTED(333);
    /* Positive inputs for roots and logarithms; quotients up to 20. */
    const bool positive = c->number == SQRT || c->number == LOG || c->number == RECIPROCAL;
    for (int64_t i = 0; tfm__check_ready(c) && i < 333; i++) {
        x[i] = positive ? fabsf(x[i]) + 0.05f : 2 * x[i];
        want[i] = reference(c->number, (double)x[i]);
    }
    if (tfm__check_ready(c))
        tfm_tensor_write(c->ctx, tx, x);
    unary_op(c->ctx, (enum function)c->number, &y, tx, c->number == CLIP ? -0.5f : 0.75f,
             c->number == CLIP ? 1.25f : 0.5f);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_unary[] = {
    {"neg", "", check, NEG},
    {"abs", "", check, ABS},
    {"sqrt", "", check, SQRT},
    {"reciprocal", "", check, RECIPROCAL},
    {"exp", "", check, EXP},
    {"log", "", check, LOG},
    {"erf", "", check, ERF},
    {"sigmoid", "", check, SIGMOID},
    {"tanh", "", check, TANH},
    {"hardswish", "", check, HARDSWISH},
    {"hard_sigmoid", "", check, HARD_SIGMOID},
    {"clip", "", check, CLIP},
    {0},
};
