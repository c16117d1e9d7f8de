/* Activations as separate ops; GEMM applies them in its epilogue. cl/elementwise/activate.cl, formulas in
 * cl/common/prelude.cl. */
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

tfm_status tfm__activate_backward(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, tfm_tensor x,
                                  tfm_activation activation) {
    const int64_t n = (int64_t)tfm_tensor_count(x);
    const bool vec4 = TFM__CAN_VEC4(ctx, dx.to, dy, x);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "activate", "activate_backward", "-DTFM_ACTIVATION=%d%s",
                                          (int)activation, tfm__vec4_define(vec4));
    return tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, n, vec4),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T(dy), TFM__T(x), TFM__I(n), TFM__I_AS("add", dx.add)));
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    return tfm__activate_backward(ctx, tfm__tape_grad_input(ctx, record, 0), tfm__tape_grad_output(ctx, record, 0),
                                  record->saved[0], (tfm_activation)record->ints[0]);
}

tfm_status tfm_activate(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_activation activation) {
    if (TFM__OP_BEGIN(ctx, "activate", "0f", x) != TFM_OK)
        return tfm_context_status(ctx);
    if ((int)activation < TFM_NO_ACTIVATION || (int)activation >= TFM_ACTIVATIONS)
        return tfm__op_error(ctx, "activate", "there is no activation %d: use one of enum tfm_activation",
                             (int)activation);
    if (tfm__op_output_like(ctx, "activate", y, x) != TFM_OK || TFM__OP_IN_PLACE(ctx, "activate", *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(x);
    const bool vec4 = TFM__CAN_VEC4(ctx, *y, x);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "activate", "activate", "-DTFM_ACTIVATION=%d%s", (int)activation, tfm__vec4_define(vec4));
    tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, n, vec4), TFM__ARGS(TFM__T_AS("y", *y), TFM__T(x), TFM__I(n)));
    return tfm__tape_add(ctx, &(tfm__record){.op = "activate",
                                             .backward = backward,
                                             .out = {*y},
                                             .in = {x},
                                             .saved = {activation == TFM_RELU ? *y : x},
                                             .ints = {activation}});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, 3, 333);
    double *want = EXPECTED(999);
    for (int64_t i = 0; tfm__check_ready(c) && i < 999; i++)
        want[i] = tfm__check_activation((double)x[i], (tfm_activation)c->number);
    tfm_activate(c->ctx, &y, tx, (tfm_activation)c->number);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_activate[] = {
    {"activate", "relu", check, TFM_RELU},
    {"activate", "gelu", check, TFM_GELU},
    {"activate", "gelu_tanh", check, TFM_GELU_TANH},
    {"activate", "silu", check, TFM_SILU},
    {"activate", "quick_gelu", check, TFM_QUICK_GELU},
    {"activate", "relu2", check, TFM_RELU2},
    {"activate", "relu6", check, TFM_RELU6},
    {"activate", "leaky_relu", check, TFM_LEAKY_RELU},
    {"activate", "sigmoid", check, TFM_SIGMOID},
    {"activate", "tanh", check, TFM_TANH},
    {"activate", "mish", check, TFM_MISH},
    {"activate", "laplace", check, TFM_LAPLACE},
    {"activate", "gelu_10", check, TFM_GELU_10},
    {"activate", "hardswish", check, TFM_HARDSWISH},
    {0},
};
