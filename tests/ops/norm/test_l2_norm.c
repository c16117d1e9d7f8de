/* The L2 norm of a vector. */
#include <math.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

static void test_l2_norm_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 16384, 16385, 300001};
    harness_random random = {1};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        float *host = malloc((size_t)sizes[k] * sizeof(float));
        double sum = 0;
        assert_non_null(host);
        harness_fill(&random, host, (size_t)sizes[k], 2);
        for (int64_t i = 0; i < sizes[k]; i++)
            sum += (double)host[i] * host[i];
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, sizes[k]), norm = HARNESS_TENSOR(TFM_F32, NULL, 1);
        harness_ok(tfm_l2_norm(ctx, &norm, x));
        harness_guards(norm);
        float *got = harness_floats(norm);
        assert_true(fabs(*got / sqrt(sum) - 1) < 1e-6);
        free(got);
        free(host);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* One non-finite element anywhere is detected. */
static void test_l2_norm_shows_non_finite_elements(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    float *host = calloc(20000, sizeof(float));
    assert_non_null(host);
    for (int k = 0; k < 4; k++) {
        tfm_tensor norm = {0};
        host[19999] = bad[k];
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_l2_norm(ctx, &norm, HARNESS_TENSOR(TFM_F32, host, 20000)));
        float *got = harness_floats(norm);
        assert_false(isfinite(*got));
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    free(host);
}

static void test_l2_norm_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 17), in = {0}, two = HARNESS_TENSOR(TFM_F32, NULL, 2);
    harness_ok(tfm_tensor_rows(harness_context(), &in, x, 3, 1));
    harness_refused(tfm_l2_norm(harness_context(), &in, x), TFM_ERROR_ARGUMENT, "shares memory");
    harness_refused(tfm_l2_norm(harness_context(), &two, x), TFM_ERROR_ARGUMENT, "l2_norm: the output is (2)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_l2_norm_matches_double_precision),
        cmocka_unit_test(test_l2_norm_shows_non_finite_elements),
        cmocka_unit_test(test_l2_norm_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
