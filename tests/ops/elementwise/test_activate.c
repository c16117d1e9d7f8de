/* Activations against double precision. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static double oracle(tfm_activation activation, double v) {
    const double gelu = v * 0.5 * erfc(-v / sqrt(2));
    switch (activation) {
    case TFM_RELU:
        return v > 0 ? v : 0;
    case TFM_GELU:
        return gelu;
    case TFM_GELU_TANH:
        return v / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
    case TFM_SILU:
        return v / (1 + exp(-v));
    case TFM_QUICK_GELU:
        return v / (1 + exp(-1.702 * v));
    case TFM_RELU2:
        return v > 0 ? v * v : 0;
    case TFM_RELU6:
        return v > 6 ? 6 : v > 0 ? v : 0;
    case TFM_LEAKY_RELU:
        return v > 0 ? v : v / 100;
    case TFM_SIGMOID:
        return 1 / (1 + exp(-v));
    case TFM_TANH:
        return tanh(v);
    case TFM_MISH:
        return v * tanh(v > 40 ? v : log1p(exp(v)));
    case TFM_LAPLACE:
        return 0.5 * (1 + erf((v - 0.707107) / (0.282095 * sqrt(2))));
    case TFM_GELU_10:
        return gelu > 10 ? 10 : gelu;
    case TFM_HARDSWISH:
        return v < -3 ? 0 : v > 3 ? v : v * (v + 3) / 6;
    default:
        return v;
    }
}

/* Numbers around x, not NaN: the activation of a guard NaN equals the guard and would hide a write outside y. */
static tfm_tensor among_numbers(const float *host, int64_t n) {
    enum { AROUND = 33 };
    float *wide = calloc((size_t)n + 2 * AROUND, sizeof(float));
    assert_non_null(wide);
    memcpy(wide + AROUND, host, (size_t)n * sizeof(float));
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, wide, n + 2 * AROUND), x;
    harness_ok(tfm_tensor_rows(harness_context(), &x, whole, AROUND, n));
    free(wide);
    return x;
}

static void check(tfm_activation activation, const float *host, int64_t n, bool in_place) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = in_place ? HARNESS_TENSOR(TFM_F32, host, n) : among_numbers(host, n);
    tfm_tensor y = in_place ? x : HARNESS_TENSOR(TFM_F32, NULL, n);
    harness_ok(tfm_activate(ctx, &y, x, activation));
    float *got = harness_floats(y);
    for (int64_t i = 0; i < n; i++) {
        /* Absolute tolerance near 0 and in the tails, relative beyond 1. */
        const double exact = oracle(activation, host[i]);
        const double want = exact > FLT_MAX ? (double)INFINITY : exact, size = fmax(1, fabs(want));
        if (!(got[i] == want || fabs(got[i] - want) <= 5e-7 * size))
            fail_msg("activation %d of %.9g: got %.9g, wanted %.9g (%lld of %lld)", (int)activation, (double)host[i],
                     (double)got[i], want, (long long)i, (long long)n);
    }
    harness_guards(y);
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_activations_match_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 4096, 4097, 33333};
    harness_random random = {1};
    for (int activation = TFM_NO_ACTIVATION; activation < TFM_ACTIVATIONS; activation++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            float *host = malloc((size_t)sizes[i] * sizeof(float));
            assert_non_null(host);
            harness_fill(&random, host, (size_t)sizes[i], 3);
            check((tfm_activation)activation, host, sizes[i], false);
            check((tfm_activation)activation, host, sizes[i], true);
            free(host);
        }
}

/* Every range: a fine sweep of the middle, powers of two up to the ends of float, both zeros. */
static void test_activations_over_all_exponents_match(void **state) {
    (void)state;
    enum { FINE = 60000, POWERS = 2 * 254 };
    float *host = malloc((FINE + POWERS + 2) * sizeof(float));
    assert_non_null(host);
    for (int i = 0; i < FINE; i++)
        host[i] = -15 + 30 * (float)i / FINE;
    for (int i = 0; i < POWERS; i++)
        host[FINE + i] = ldexpf(i % 2 ? 1 : -1, i / 2 - 126);
    host[FINE + POWERS] = 0.0f;
    host[FINE + POWERS + 1] = -0.0f;
    for (int activation = TFM_NO_ACTIVATION; activation < TFM_ACTIVATIONS; activation++)
        check((tfm_activation)activation, host, FINE + POWERS + 2, false);
    free(host);
}

/* gelu's tail is accurate: x Phi(x) keeps five digits down to -5, and is 0 at -infinity. */
static void test_gelu_tail_keeps_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[100];
    for (int i = 0; i < 100; i++)
        host[i] = -(float)i / 20;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 100), y = {0};
    harness_ok(tfm_activate(ctx, &y, x, TFM_GELU));
    float *got = harness_floats(y);
    for (int i = 0; i < 100; i++) {
        const double want = oracle(TFM_GELU, host[i]);
        assert_true(fabs(got[i] - want) <= 1e-5 * fabs(want));
    }
    free(got);
    tfm_tensor_free(ctx, &y);
    const float ends[] = {INFINITY, -INFINITY, 3e38f, -3e38f, -14};
    tfm_tensor e = HARNESS_TENSOR(TFM_F32, ends, 5);
    harness_ok(tfm_activate(ctx, &y, e, TFM_GELU));
    got = harness_floats(y);
    for (int i = 0; i < 5; i++)
        assert_true(ends[i] > 0 ? got[i] == ends[i] : fabsf(got[i]) < 1e-35f);
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_activation_of_nan_is_nan(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[33];
    for (int i = 0; i < 33; i++)
        host[i] = NAN;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 33);
    for (int activation = TFM_NO_ACTIVATION; activation < TFM_ACTIVATIONS; activation++) {
        tfm_tensor y = {0};
        harness_ok(tfm_activate(ctx, &y, x, (tfm_activation)activation));
        float *got = harness_floats(y);
        for (int i = 0; i < 33; i++)
            assert_true(isnan(got[i]));
        free(got);
        tfm_tensor_free(ctx, &y);
    }
}

static void oracle_of_all(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t i = 0; i < c->count; i++)
        y[i] = oracle(*(const tfm_activation *)c->user, inputs[0][i]);
}

static tfm_status run_one(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return tfm_activate(ctx, y, inputs[0], *(const tfm_activation *)c->user);
}

/* Some have kinks, at 0, 3 (hardswish), 6 (ReLU6) and 10 (gelu_10): inputs avoid them and cover the tails. */
static float off_corners(float x) {
    const float size = fabsf(x);
    const bool near = fabsf(size - 3) < 0.03F || fabsf(size - 6) < 0.03F || fabsf(size - 10) < 0.03F;
    return near ? 0.95F * x : x;
}

static void test_activation_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    harness_random random = {5};
    for (int activation = TFM_NO_ACTIVATION; activation < TFM_ACTIVATIONS; activation++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            float host[1000];
            harness_fill(&random, host, (size_t)sizes[s], 3);
            for (int64_t i = 0; i < sizes[s]; i++)
                host[i] = off_corners(host[i] + (host[i] < 0 ? -0.02F : 0.02F));
            const tfm_activation which = (tfm_activation)activation;
            gradient_check(&(gradient_case){.name = "activate",
                                            .inputs = {{1, {sizes[s]}, host, false}},
                                            .oracle = oracle_of_all,
                                            .run = run_one,
                                            .user = &which,
                                            .count = (size_t)sizes[s],
                                            .tolerance = 2e-6});
        }
}

/* In the tails slopes are 0 or 1 with few exceptions, and never inf times 0. */
static float far_slope(tfm_activation activation, float x) {
    switch (activation) {
    case TFM_RELU2:
        return x > 0 ? 2 * x : 0;
    case TFM_LEAKY_RELU:
        return x > 0 ? 1 : 0.01f;
    case TFM_RELU6:
    case TFM_SIGMOID:
    case TFM_TANH:
    case TFM_LAPLACE:
    case TFM_GELU_10:
        return 0;
    default:
        return x > 0 ? 1 : 0;
    }
}

static void test_activation_gradients_far_from_zero_are_right(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { FAR = 10 };
    const float far[FAR] = {200, -200, 1e9f, -1e9f, 1e13f, -1e13f, 1e20f, -1e20f, 3e38f, -3e38f}, zeros[FAR] = {0};
    for (int activation = TFM_RELU; activation < TFM_ACTIVATIONS; activation++) {
        tfm_tensor x = HARNESS_TENSOR(TFM_F32, far, FAR), to = HARNESS_TENSOR(TFM_F32, zeros, FAR), y = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, to));
        harness_ok(tfm_activate(ctx, &y, x, (tfm_activation)activation));
        harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
        float *got = harness_floats(to);
        for (int i = 0; i < FAR; i++)
            if (got[i] != far_slope((tfm_activation)activation, far[i]) &&
                !(fabsf(got[i] - far_slope((tfm_activation)activation, far[i])) < 1e-30f))
                fail_msg("activation %d at %g: slope %g", activation, (double)far[i], (double)got[i]);
        free(got);
        tfm_tensor_free(ctx, &y);
    }
}

static void test_activate_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    tfm_tensor other = HARNESS_TENSOR(TFM_F32, NULL, 6), y = {0};
    harness_refused(tfm_activate(ctx, &y, (tfm_tensor){0}, TFM_RELU), TFM_ERROR_ARGUMENT, "activate");
    harness_refused(tfm_activate(ctx, &y, ints, TFM_RELU), TFM_ERROR_ARGUMENT, "activate: input 1 is (2, 3) I32");
    harness_refused(tfm_activate(ctx, &y, x, TFM_ACTIVATIONS), TFM_ERROR_ARGUMENT,
                    "activate: there is no activation 15");
    harness_refused(tfm_activate(ctx, &other, x, TFM_RELU), TFM_ERROR_ARGUMENT, "activate: the output is (6) F32");
}

static void test_activate_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), over = x;
    over.offset += 3;
    harness_refused(tfm_activate(ctx, &over, x, TFM_RELU), no, why);
    harness_ok(tfm_activate(ctx, &x, x, TFM_RELU)); /* in place is allowed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations_match_double_precision),
        cmocka_unit_test(test_activations_over_all_exponents_match),
        cmocka_unit_test(test_gelu_tail_keeps_precision),
        cmocka_unit_test(test_activation_of_nan_is_nan),
        cmocka_unit_test(test_activation_gradients_match_double_precision),
        cmocka_unit_test(test_activate_rejects_bad_arguments),
        cmocka_unit_test(test_activate_rejects_overlapping_output),
        cmocka_unit_test(test_activation_gradients_far_from_zero_are_right),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
