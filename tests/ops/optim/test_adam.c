/* Adam's step against double precision. */
#include <math.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

enum { X, G, M, V, ALL };

static void oracle(double *const *t, int64_t n, const tfm_adam_options *o, double norm) {
    const double clip = o->max_grad_norm > 0 && norm > o->max_grad_norm ? o->max_grad_norm / norm : 1;
    for (int64_t i = 0; i < n; i++) {
        const double g = t[G][i] * clip;
        t[M][i] = o->beta1 * t[M][i] + (1 - o->beta1) * g;
        t[V][i] = o->beta2 * t[V][i] + (1 - o->beta2) * g * g;
        const double m = t[M][i] / (1 - pow(o->beta1, (double)o->step)),
                     v = t[V][i] / (1 - pow(o->beta2, (double)o->step));
        t[X][i] -= o->learning_rate * o->weight_decay * t[X][i] + o->learning_rate * m / (sqrt(v) + o->epsilon);
    }
}

/* Three steps, with new gradients each time. */
static void check(harness_random *random, int64_t n, tfm_adam_options o) {
    tfm_context *ctx = harness_context();
    double *want[ALL];
    float *host[ALL];
    tfm_tensor t[ALL];
    harness_ok(tfm_scope_open(ctx));
    for (int k = 0; k < ALL; k++) {
        want[k] = calloc((size_t)n, sizeof(double));
        host[k] = calloc((size_t)n, sizeof(float));
        assert_true(want[k] && host[k]);
        if (k == X)
            harness_fill(random, host[k], (size_t)n, 1);
        for (int64_t i = 0; i < n; i++)
            want[k][i] = host[k][i];
        t[k] = HARNESS_TENSOR(TFM_F32, host[k], n);
    }
    for (o.step = 1; o.step <= 3; o.step++) {
        harness_fill(random, host[G], (size_t)n, 2);
        double square = 0;
        for (int64_t i = 0; i < n; i++) {
            want[G][i] = host[G][i];
            square += want[G][i] * want[G][i];
        }
        harness_ok(tfm_tensor_write(ctx, t[G], host[G]));
        o.grad_norm = (tfm_tensor){0};
        harness_ok(tfm_l2_norm(ctx, &o.grad_norm, t[G]));
        harness_ok(tfm_adam(ctx, t[X], t[G], t[M], t[V], &o));
        oracle(want, n, &o, sqrt(square));
    }
    for (int k = 0; k < ALL; k++) {
        float *got = harness_floats(t[k]);
        for (int64_t i = 0; i < n; i++)
            want[G][i] = 0; /* ready for the next step */
        harness_close(got, want[k], (size_t)n, 2e-6, "adam");
        harness_guards(t[k]);
        free(got);
    }
    for (int k = 0; k < ALL; k++) {
        free(want[k]);
        free(host[k]);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static const tfm_adam_options PAPER = {.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .step = 1};

static void test_adam_step_matches_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 10000};
    harness_random random = {1};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        tfm_adam_options o = PAPER;
        check(&random, sizes[k], o);
        o.weight_decay = 0.1;
        o.max_grad_norm = 1;
        check(&random, sizes[k], o);
        o.max_grad_norm = 1e6; /* above any norm: no clipping */
        o.epsilon = 0.1;
        check(&random, sizes[k], o);
    }
}

/* Non-finite gradients change nothing. */
static void test_adam_skips_non_finite_gradients(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[ALL][65];
    tfm_tensor t[ALL];
    tfm_adam_options o = PAPER;
    harness_random random = {2};
    harness_ok(tfm_scope_open(ctx));
    for (int k = 0; k < ALL; k++) {
        harness_fill(&random, host[k], 65, 1);
        host[k][7] = k == G ? NAN : host[k][7];
        t[k] = HARNESS_TENSOR(TFM_F32, host[k], 65);
    }
    harness_ok(tfm_l2_norm(ctx, &o.grad_norm, t[G]));
    harness_ok(tfm_adam(ctx, t[X], t[G], t[M], t[V], &o));
    for (int k = 0; k < ALL; k++) {
        float *got = harness_floats(t[k]);
        for (int i = 0; i < 65; i++)
            assert_true(got[i] == (k == G ? 0 : host[k][i]));
        free(got);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_adam_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 17), g = HARNESS_TENSOR(TFM_F32, NULL, 17),
               m = HARNESS_TENSOR(TFM_F32, NULL, 17), v = HARNESS_TENSOR(TFM_F32, NULL, 17),
               other = HARNESS_TENSOR(TFM_F32, NULL, 16);
    tfm_adam_options o = PAPER;
    harness_refused(tfm_adam(ctx, x, g, m, v, NULL), TFM_ERROR_ARGUMENT, "it needs options");
    harness_refused(tfm_adam(ctx, x, other, m, v, &o), TFM_ERROR_ARGUMENT,
                    "adam: x is (17) F32, the gradient (16) F32");
    harness_refused(tfm_adam(ctx, x, g, m, m, &o), TFM_ERROR_ARGUMENT, "shares memory");
    o.max_grad_norm = 1;
    harness_refused(tfm_adam(ctx, x, g, m, v, &o), TFM_ERROR_ARGUMENT, "it needs the norm");
    const tfm_adam_options bad[] = {
        {.learning_rate = -1, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .step = 1},
        {.learning_rate = 1, .beta1 = 1, .beta2 = 0.98, .epsilon = 1e-9, .step = 1},
        {.learning_rate = 1, .beta1 = 0.9, .beta2 = NAN, .epsilon = 1e-9, .step = 1},
        {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 0, .step = 1},
        {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-46, .step = 1}, /* 0 as a float */
        {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .step = 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        harness_refused(tfm_adam(ctx, x, g, m, v, &bad[i]), TFM_ERROR_ARGUMENT, "steps count from 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam_step_matches_double_precision),
        cmocka_unit_test(test_adam_skips_non_finite_gradients),
        cmocka_unit_test(test_adam_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
