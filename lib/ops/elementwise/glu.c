/* Gated linear units, after the two linear layers: cl/elementwise/glu.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

/* Splits x's rows, of dims `like`, into their halves; returns the width of one. */
static int64_t split_gate(tfm_tensor *x, tfm_tensor *gate, tfm_tensor like, tfm_glu_layout layout) {
    const int64_t width = tfm__last_dim(like) / 2;
    *gate = *x;
    if (layout == TFM_GLU_GATE_FIRST)
        x->offset += (size_t)width;
    else
        gate->offset += (size_t)width;
    return width;
}

static tfm_status launch_backward(tfm_context *ctx, tfm__gradient dx, tfm__gradient dgate, tfm_tensor dy, tfm_tensor x,
                                  tfm_tensor gate, int64_t pitch, tfm_activation activation) {
    const int64_t n = (int64_t)tfm_tensor_count(dy), width = tfm__last_dim(dy);
    const bool vec4 = (width | pitch) % 4 == 0 && TFM__CAN_VEC4(ctx, dx.to, dgate.to, dy, x, gate);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "glu", "glu_backward", "-DTFM_ACTIVATION=%d%s", (int)activation, tfm__vec4_define(vec4));
    return tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, n, vec4),
                       TFM__ARGS(TFM__T_AS("dx", dx.to), TFM__T_AS("dgate", dgate.to), TFM__T(dy), TFM__T(x),
                                 TFM__T(gate), TFM__I(n), TFM__I(width), TFM__I(pitch), TFM__I_AS("add_x", dx.add),
                                 TFM__I_AS("add_gate", dgate.add)));
}

static tfm_status backward(tfm_context *ctx, const tfm__record *record) {
    const tfm_tensor dy = tfm__tape_grad_output(ctx, record, 0), none = {0};
    const tfm_activation activation = (tfm_activation)record->ints[0];
    tfm_tensor x = record->saved[0], gate = record->saved[1];
    tfm__gradient dx = tfm__tape_grad_input(ctx, record, 0), dgate = {{0}, dx.add};
    const int64_t pitch = tfm__last_dim(x);
    if (gate.buffer) {
        dgate = tfm__tape_grad_input(ctx, record, 1);
    } else {
        split_gate(&dx.to, &dgate.to, x, (tfm_glu_layout)record->ints[1]);
        split_gate(&x, &gate, x, (tfm_glu_layout)record->ints[1]);
    }
    /* Both gradients may be of one tensor: accumulate them one after the other. */
    if (record->saved[1].buffer && dx.to.buffer && dgate.to.buffer && tfm__overlap(dx.to, dgate.to)) {
        launch_backward(ctx, dx, (tfm__gradient){none, false}, dy, x, gate, pitch, activation);
        dx.to = none;
    }
    return launch_backward(ctx, dx, dgate, dy, x, gate, pitch, activation);
}

tfm_status tfm_glu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor gate, tfm_activation activation,
                   tfm_glu_layout layout) {
    const char *op = "glu";
    if (TFM__OP_BEGIN(ctx, op, "0fF", x, gate) != TFM_OK)
        return tfm_context_status(ctx);
    if ((int)activation < TFM_NO_ACTIVATION || (int)activation >= TFM_ACTIVATIONS)
        return tfm__op_error(ctx, op, "there is no activation %d: use one of enum tfm_activation", (int)activation);
    if (layout != TFM_GLU_GATE_FIRST && layout != TFM_GLU_GATE_LAST)
        return tfm__op_error(ctx, op, "there is no layout %d: use one of enum tfm_glu_layout", (int)layout);
    if (gate.buffer && !tfm__same_dims(gate, x))
        return tfm__op_error(ctx, op, "gate is %s, but x is %s: the dims must be equal", TFM__SHAPE(gate),
                             TFM__SHAPE(x));
    if (!gate.buffer && tfm__last_dim(x) % 2 != 0)
        return tfm__op_error(ctx, op, "x is %s: without a gate its last dimension has two halves", TFM__SHAPE(x));
    const int64_t pitch = tfm__last_dim(x);
    tfm_tensor result = x;
    if (!gate.buffer)
        result.dims[x.rank - 1] /= 2;
    if (tfm__op_output_like(ctx, op, y, result) != TFM_OK || TFM__OP_IN_PLACE(ctx, op, *y, x, gate) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__record record = {
        .op = op, .backward = backward, .out = {*y}, .in = {x, gate}, .saved = {x, gate}, .ints = {activation, layout}};
    const int64_t n = (int64_t)tfm_tensor_count(*y), width = gate.buffer ? pitch : split_gate(&x, &gate, x, layout);
    const bool vec4 = (width | pitch) % 4 == 0 && TFM__CAN_VEC4(ctx, *y, x, gate);
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, op, "glu", "-DTFM_ACTIVATION=%d%s", (int)activation, tfm__vec4_define(vec4));
    tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, n, vec4),
                TFM__ARGS(TFM__T_AS("y", *y), TFM__T(x), TFM__T(gate), TFM__I(n), TFM__I(width), TFM__I(pitch)));
    return tfm__tape_add(ctx, &record);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t rows = 5, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, 2 * n);
    double *want = EXPECTED(rows * n);
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        const double gate = (double)x[i / n * 2 * n + i % n], value = (double)x[i / n * 2 * n + n + i % n];
        want[i] = gate / (1 + exp(-gate)) * value;
    }
    tfm_glu(c->ctx, &y, tx, (tfm_tensor){0}, TFM_SILU, TFM_GLU_GATE_FIRST);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_glu[] = {
    {"glu", "swiglu, halves", check, 0},
    {0},
};
