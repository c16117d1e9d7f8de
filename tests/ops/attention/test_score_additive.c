/* Additive scores against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

static float *numbers(harness_random *random, int64_t count, float scale) {
    float *host = malloc((size_t)count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, scale);
    return host;
}

static void check(harness_random *random, int64_t B, int64_t T, int64_t S, int64_t A, float scale) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    float *q = numbers(random, B * T * A, scale), *k = numbers(random, B * S * A, scale), *v = numbers(random, A, 1);
    double *want = calloc((size_t)(B * T * S), sizeof(double));
    assert_non_null(want);
    for (int64_t row = 0; row < B * T; row++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t a = 0; a < A; a++)
                want[row * S + s] += v[a] * tanh((double)q[row * A + a] + k[(row / T * S + s) * A + a]);
    tfm_tensor tq = HARNESS_TENSOR(TFM_F32, q, B, T, A), tk = HARNESS_TENSOR(TFM_F32, k, B, S, A),
               tv = HARNESS_TENSOR(TFM_F32, v, A), y = HARNESS_TENSOR(TFM_F32, NULL, B, T, S);
    harness_ok(tfm_score_additive(ctx, &y, tq, tk, tv));
    float *got = harness_floats(y);
    char what[80];
    snprintf(what, sizeof(what), "scores of B %lld, T %lld, S %lld, A %lld", (long long)B, (long long)T, (long long)S,
             (long long)A);
    harness_close(got, want, (size_t)(B * T * S), 4e-6, what);
    harness_guards(y);
    free(got);
    free(want);
    free(q);
    free(k);
    free(v);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_additive_scores_match_double_precision(void **state) {
    (void)state;
    harness_random random = {1};
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    for (size_t i = 0; i < 5; i++) {
        check(&random, 2, 3, 5, sizes[i], 1);
        check(&random, 1, 2, sizes[i], 17, 1);
        check(&random, 3, sizes[i], 7, 33, 1);
    }
    check(&random, 17, 5, 65, 65, 0.01f); /* tanh is nearly linear */
    check(&random, 2, 5, 130, 65, 30);    /* tanh saturates */
}

/* One element per score: infinities give v, NaN propagates. */
static void test_additive_scores_saturate_and_keep_nan(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float ends[] = {INFINITY, -INFINITY, 3e38f, -3e38f, 1e-30f, NAN}, one = 1;
    const float want[] = {1, -1, 1, -1, 0, NAN};
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, ends, 1, 6, 1), y = {0}, v = HARNESS_TENSOR(TFM_F32, &one, 1);
    const float zero = 0;
    harness_ok(tfm_score_additive(ctx, &y, q, HARNESS_TENSOR(TFM_F32, &zero, 1, 1, 1), v));
    float *got = harness_floats(y);
    for (int i = 0; i < 6; i++)
        assert_true(isnan(want[i]) ? isnan(got[i]) : fabs((double)(got[i] - want[i])) < 5e-7);
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_score_additive_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 4), k = HARNESS_TENSOR(TFM_F32, NULL, 2, 5, 4), y = {0};
    tfm_tensor v = HARNESS_TENSOR(TFM_F32, NULL, 4), narrow = HARNESS_TENSOR(TFM_F32, NULL, 3), over = q;
    tfm_tensor other = HARNESS_TENSOR(TFM_F32, NULL, 1, 5, 4);
    harness_refused(tfm_score_additive(ctx, &y, q, k, narrow), no, "score_additive: q is (2, 3, 4) F32, k");
    harness_refused(tfm_score_additive(ctx, &y, q, other, v), no, "k (1, 5, 4) F32");
    harness_refused(tfm_score_additive(ctx, &y, v, k, v), no, "must be (B, T, A)");
    harness_refused(tfm_score_additive(ctx, &k, q, k, v), no, "the output is (2, 5, 4) F32");
    over.dims[2] = 5;
    over.dims[1] = 2;
    q.dims[1] = 2;
    over.offset += 1;
    harness_refused(tfm_score_additive(ctx, &over, q, k, v), no, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_additive_scores_match_double_precision),
        cmocka_unit_test(test_additive_scores_saturate_and_keep_nan),
        cmocka_unit_test(test_score_additive_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
