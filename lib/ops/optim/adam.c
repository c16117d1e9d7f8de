/* Adam optimizer step: cl/optim/adam.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

static tfm_status check_options(tfm_context *ctx, const tfm_adam_options *o) {
    if (!(o->learning_rate >= 0.0) || isinf(o->learning_rate) || !(o->beta1 >= 0.0 && o->beta1 < 1.0) ||
        !(o->beta2 >= 0.0 && o->beta2 < 1.0) || !((float)o->epsilon > 0.0f) || !(o->weight_decay >= 0.0) ||
        !(o->max_grad_norm >= 0.0) || o->step < 1)
        return tfm__op_error(ctx, "adam",
                             "learning_rate %g, beta1 %g, beta2 %g, epsilon %g, weight_decay %g, max_grad_norm %g, "
                             "step %lld: betas must lie in "
                             "[0, 1), epsilon be positive, steps count from 1, the others not be negative",
                             o->learning_rate, o->beta1, o->beta2, o->epsilon, o->weight_decay, o->max_grad_norm,
                             (long long)o->step);
    return TFM_OK;
}

/* It overwrites its inputs, which a recorded op may have saved even if they are not watched. */
static tfm_status check_tape(tfm_context *ctx, size_t count, const tfm_tensor *written) {
    for (size_t i = 0; i < count; i++) {
        const char *held = tfm__tape_overwrites(ctx, written[i]);
        if (held)
            return tfm__op_error(ctx, "adam",
                                 "input %zu, %s, overlaps %s: run the backward pass or stop the tape first", i + 1,
                                 TFM__SHAPE(written[i]), held);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm_adam(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient, tfm_tensor m, tfm_tensor v,
                    const tfm_adam_options *options) {
    const char *op = "adam";
    if (!options)
        return tfm__op_error(ctx, op, "it needs options: they have the learning rate");
    const tfm_tensor norm = options->grad_norm;
    if (TFM__OP_BEGIN(ctx, op, "ffffF", x, gradient, m, v, norm) != TFM_OK ||
        TFM__OP_OPTIONS(ctx, op, options) != TFM_OK ||
        check_tape(ctx, 4, (const tfm_tensor[]){x, gradient, m, v}) != TFM_OK || check_options(ctx, options) != TFM_OK)
        return tfm_context_status(ctx);
    const size_t count = tfm_tensor_count(x);
    if (tfm_tensor_count(gradient) != count || tfm_tensor_count(m) != count || tfm_tensor_count(v) != count ||
        (norm.buffer && tfm_tensor_count(norm) != 1))
        return tfm__op_error(ctx, op,
                             "x is %s, the gradient %s, m %s, v %s: they must be of one size, and grad_norm of 1",
                             TFM__SHAPE(x), TFM__SHAPE(gradient), TFM__SHAPE(m), TFM__SHAPE(v));
    if (options->max_grad_norm > 0.0 && !norm.buffer)
        return tfm__op_error(ctx, op, "to clip it needs the norm: see tfm_l2_norm");
    if (TFM__OP_NO_OVERLAP(ctx, op, x, gradient, m, v, norm) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, gradient, m, v, norm) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, m, v, norm) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, v, norm) != TFM_OK)
        return tfm_context_status(ctx);
    const double t = (double)options->step;
    const double step_size = options->learning_rate / (1 - pow(options->beta1, t)),
                 inv_sqrt_correction2 = 1 / sqrt(1 - pow(options->beta2, t));
    const int64_t n = (int64_t)count;
    const bool vec4 = TFM__CAN_VEC4(ctx, x, gradient, m, v);
    return tfm__launch(
        ctx, tfm__kernel_get(ctx, op, "adam", "%s", tfm__vec4_define(vec4)), tfm__vec4_grid(ctx, n, vec4),
        TFM__ARGS(TFM__T(x), TFM__T(gradient), TFM__T(m), TFM__T(v), TFM__T(norm), TFM__I(n), TFM__F(step_size),
                  TFM__F(inv_sqrt_correction2), TFM__F_AS("decay", options->learning_rate * options->weight_decay),
                  TFM__F_AS("beta1", options->beta1), TFM__F_AS("beta2", options->beta2),
                  TFM__F_AS("one_minus_beta1", 1 - options->beta1), TFM__F_AS("one_minus_beta2", 1 - options->beta2),
                  TFM__F_AS("epsilon", options->epsilon), TFM__F_AS("max_norm", options->max_grad_norm)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t n = 333;
    const tfm_adam_options o = {.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .step = 3};
    float *x, *g, *m, *v;
    tfm_tensor tx = RANDOM_FLOATS(x, n), tg = RANDOM_FLOATS(g, n), tm = RANDOM_FLOATS(m, n), tv = {0};
    double *want = EXPECTED(n);
    v = m; /* of any sign: only its square is used */
    float squares[333];
    for (int64_t i = 0; tfm__check_ready(c) && i < n; i++) {
        squares[i] = v[i] * v[i];
        const double first = o.beta1 * (double)m[i] + (1 - o.beta1) * (double)g[i];
        const double second = o.beta2 * (double)squares[i] + (1 - o.beta2) * (double)g[i] * (double)g[i];
        want[i] = (double)x[i] -
                  o.learning_rate * first / (1 - pow(o.beta1, 3)) / (sqrt(second / (1 - pow(o.beta2, 3))) + o.epsilon);
    }
    tfm_tensor_new(c->ctx, &tv, TFM_F32, 1, &n);
    tfm_tensor_write(c->ctx, tv, squares);
    tfm_adam(c->ctx, tx, tg, tm, tv, &o);
    tfm__check_compare(c, tx, want);
}

const tfm__check_entry tfm__selftest_adam[] = {
    {"adam", "", check, 0},
    {0},
};
