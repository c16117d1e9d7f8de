/* Unary functions: every range against double precision, NaN and infinities, gradients. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef tfm_status (*op_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);

static tfm_status hard_sigmoid(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return tfm_hard_sigmoid(ctx, y, x, 0.2f, 0.5f);
}

static tfm_status clip(tfm_context *ctx, tfm_tensor *y, tfm_tensor x) {
    return tfm_clip(ctx, y, x, -1, 2);
}

static double neg(double x) {
    return -x;
}
static double inverse(double x) {
    return 1 / x;
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double hardswish(double x) {
    return x * fmin(fmax(x / 6 + 0.5, 0), 1);
}
static double hard_sigmoid_of(double x) {
    return fmin(fmax((double)0.2f * x + 0.5, 0), 1);
}
static double clipped(double x) {
    return fmin(fmax(x, -1), 2);
}

/* `ends`: values at -inf and inf. Gradients are compared from `low` on, away from `corners`. `size`: magnitude of the
 * terms that cancel near 0. */
static const struct function {
    const char *name;
    op_fn op;
    double (*oracle)(double x);
    double ends[2];
    float low, corners[2];
    double size;
} FUNCTIONS[] = {
    {"neg", tfm_neg, neg, {INFINITY, -INFINITY}, -9, {9, 9}, 0},
    {"abs", tfm_abs, fabs, {INFINITY, INFINITY}, -9, {0, 9}, 0},
    {"sqrt", tfm_sqrt, sqrt, {NAN, INFINITY}, 0.5f, {9, 9}, 0},
    {"reciprocal", tfm_reciprocal, inverse, {-0.0, 0}, 0.5f, {9, 9}, 0},
    {"exp", tfm_exp, exp, {0, INFINITY}, -9, {9, 9}, 0},
    {"log", tfm_log, log, {NAN, INFINITY}, 0.5f, {9, 9}, 0},
    {"erf", tfm_erf, erf, {-1, 1}, -9, {9, 9}, 0},
    {"sigmoid", tfm_sigmoid, sigmoid, {0, 1}, -9, {9, 9}, 0},
    {"tanh", tfm_tanh, tanh, {-1, 1}, -9, {9, 9}, 0},
    {"hardswish", tfm_hardswish, hardswish, {0, INFINITY}, -9, {-3, 3}, 0},
    {"hard_sigmoid", hard_sigmoid, hard_sigmoid_of, {0, 1}, -9, {-2.5f, 2.5f}, 0.5},
    {"clip", clip, clipped, {-1, 2}, -9, {-1, 2}, 0},
};
enum { COUNT = sizeof(FUNCTIONS) / sizeof(*FUNCTIONS) };

/* Within a few ulps of the value, or of `size` if larger. Overflow is infinity; subnormal results may be 0. */
static bool is_near(double got, double want, double size) {
    if (isnan(want))
        return isnan(got);
    if (fabs(want) > FLT_MAX)
        return got == copysign(INFINITY, want);
    if (fabs(want) < FLT_MIN)
        return fabs(got) <= (want == 0 ? 0 : FLT_MIN);
    return fabs(got - want) <= 3e-6 * fmax(fabs(want), size);
}

/* Whole vectors, tails, and more than one work-item. */
static void test_unary_ops_match_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { N = 4097 };
    static float host[N];
    for (int i = 0; i < N; i++)
        host[i] = i < 400 ? ldexpf(i % 2 ? 1.3f : -1.3f, i / 4 - 80) : -20 + 40 * (float)i / N;
    for (int f = 0; f < COUNT; f++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const int64_t n = in_place ? 17 : N;
            tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, n), y = in_place ? x : HARNESS_TENSOR(TFM_F32, NULL, n);
            harness_ok(FUNCTIONS[f].op(ctx, &y, x));
            float *got = harness_floats(y);
            for (int64_t i = 0; i < n; i++) {
                const double want = FUNCTIONS[f].oracle((double)host[i]);
                if (!is_near((double)got[i], want, FUNCTIONS[f].size))
                    fail_msg("%s of %.9g: got %.9g, wanted %.9g", FUNCTIONS[f].name, (double)host[i], (double)got[i],
                             want);
            }
            harness_guards(y);
            free(got);
        }
}

/* In a vector, and in the tail. */
static void test_unary_ops_of_nan_and_infinity_are_right(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[35];
    for (int i = 0; i < 35; i++)
        host[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : INFINITY;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 35);
    for (int f = 0; f < COUNT; f++) {
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, 35);
        harness_ok(FUNCTIONS[f].op(ctx, &y, x));
        float *got = harness_floats(y);
        for (int i = 0; i < 35; i++) {
            const double want = i % 3 == 0 ? NAN : FUNCTIONS[f].ends[i % 3 - 1];
            if (!((double)got[i] == want || fabs((double)got[i] - want) < 1e-6 || (isnan(got[i]) && isnan(want))))
                fail_msg("%s of %g is %g, not %g", FUNCTIONS[f].name, (double)host[i], (double)got[i], want);
        }
        free(got);
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const struct function *f = c->user;
    for (size_t i = 0; i < c->count; i++)
        y[i] = f->oracle(inputs[0][i]);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const struct function *f = c->user;
    return f->op(ctx, y, inputs[0]);
}

static void test_unary_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {7};
    float host[130];
    for (int f = 0; f < COUNT; f++) {
        harness_fill(&random, host, 130, 2);
        for (int i = 0; i < 130; i++) {
            if (FUNCTIONS[f].low > 0)
                host[i] = fabsf(host[i]) + FUNCTIONS[f].low;
            for (int k = 0; k < 2; k++)
                if (fabsf(host[i] - FUNCTIONS[f].corners[k]) < 0.02f)
                    host[i] += 0.05f;
        }
        gradient_check(&(gradient_case){.name = FUNCTIONS[f].name,
                                        .inputs = {{2, {2, 65}, host, false}},
                                        .oracle = oracle,
                                        .run = run,
                                        .user = &FUNCTIONS[f],
                                        .count = 130,
                                        .tolerance = 4e-6});
    }
}

/* The gradient at NaN is NaN, except for piecewise linear functions: see cl/elementwise/unary.cl. */
static void test_unary_gradient_of_nan_is_nan_unless_linear(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[17], zeros[17] = {0};
    for (int i = 0; i < 17; i++)
        host[i] = NAN;
    for (int f = 0; f < COUNT; f++) {
        const op_fn op = FUNCTIONS[f].op;
        tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 17), dx = HARNESS_TENSOR(TFM_F32, zeros, 17), y = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, dx));
        harness_ok(op(ctx, &y, x));
        harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
        float *got = harness_floats(dx);
        for (int i = 0; i < 17; i += 16) { /* in a vector, and in the tail */
            const float want = op == tfm_neg ? -1 : op == clip ? 1 : op == hard_sigmoid ? 0.2f : NAN;
            if (isnan(want) ? !isnan(got[i]) : got[i] != want)
                fail_msg("the slope of %s at NaN is %g, not %g", FUNCTIONS[f].name, (double)got[i], (double)want);
        }
        free(got);
        tfm_tensor_free(ctx, &y);
    }
}

static void test_unary_ops_reject_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 17), over = x, y = {0}, ints = HARNESS_TENSOR(TFM_I32, NULL, 17);
    over.offset++;
    harness_refused(tfm_tanh(ctx, &over, x), TFM_ERROR_ARGUMENT, "tanh: the output (17) F32 shares memory");
    harness_refused(tfm_erf(ctx, &y, ints), TFM_ERROR_ARGUMENT, "erf: input 1 is (17) I32");
    harness_refused(tfm_clip(ctx, &y, x, NAN, 1), TFM_ERROR_ARGUMENT, "clip: the bounds are");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_ops_match_double_precision),
        cmocka_unit_test(test_unary_ops_of_nan_and_infinity_are_right),
        cmocka_unit_test(test_unary_gradients_match_double_precision),
        cmocka_unit_test(test_unary_gradient_of_nan_is_nan_unless_linear),
        cmocka_unit_test(test_unary_ops_reject_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
