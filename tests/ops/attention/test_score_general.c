/* General and dot-product scores against double precision. */
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static float *numbers(harness_random *random, int64_t count) {
    float *host = malloc((size_t)count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, 1);
    return host;
}

/* dq = 0: dot product of equal widths. */
static void check(harness_random *random, int64_t B, int64_t T, int64_t S, int64_t dq, int64_t dk) {
    tfm_context *ctx = harness_context();
    const bool dot = dq == 0;
    dq = dot ? dk : dq;
    harness_ok(tfm_scope_open(ctx));
    float *q = numbers(random, B * T * dq), *k = numbers(random, B * S * dk), *w = numbers(random, dk * dq);
    double *projected = calloc((size_t)(B * T * dk), sizeof(double)),
           *want = calloc((size_t)(B * T * S), sizeof(double));
    assert_true(projected && want);
    for (int64_t row = 0; row < B * T; row++)
        for (int64_t n = 0; n < dk; n++)
            for (int64_t m = 0; m < dq; m++)
                projected[row * dk + n] += dot ? (m == n) * q[row * dq + m] : (double)q[row * dq + m] * w[n * dq + m];
    for (int64_t row = 0; row < B * T; row++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t n = 0; n < dk; n++)
                want[row * S + s] += projected[row * dk + n] * k[(row / T * S + s) * dk + n];
    tfm_tensor tq = HARNESS_TENSOR(TFM_F32, q, B, T, dq), tk = HARNESS_TENSOR(TFM_F32, k, B, S, dk),
               y = HARNESS_TENSOR(TFM_F32, NULL, B, T, S);
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, w, dk, dq)};
    harness_ok(tfm_score_general(ctx, &y, tq, dot ? NULL : &weight, tk));
    float *got = harness_floats(y);
    char what[96];
    snprintf(what, sizeof(what), "scores of B %lld, T %lld, S %lld, dq %lld, dk %lld", (long long)B, (long long)T,
             (long long)S, (long long)dq, (long long)dk);
    harness_close(got, want, (size_t)(B * T * S), 4e-6, what);
    harness_guards(y);
    free(got);
    free(want);
    free(projected);
    free(q);
    free(k);
    free(w);
    tfm_param_free(ctx, &weight);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_general_scores_match_double_precision(void **state) {
    (void)state;
    harness_random random = {2};
    const int64_t sizes[] = {1, 3, 17, 65};
    for (size_t i = 0; i < 4; i++) {
        check(&random, 2, 3, 5, sizes[i], 17);
        check(&random, 2, 1, sizes[i], 17, 33);
        check(&random, 3, sizes[i], 7, 0, sizes[3 - i]);
    }
    check(&random, 1, 2, 1000, 65, 3);
}

/* (B, T, dq), (B, S, dk), and the weight (dk, dq) if `weighted`. */
typedef struct backward_case {
    int64_t T, S, dq, dk;
    bool weighted;
} backward_case;

enum { BATCH = 2 };

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (size_t i = 0; i < c->count; i++) {
        const double *q = inputs[0] + (int64_t)i / b->S * b->dq,
                     *k = inputs[1] + ((int64_t)i / b->S / b->T * b->S + (int64_t)i % b->S) * b->dk;
        y[i] = 0;
        for (int64_t n = 0; n < b->dk; n++)
            for (int64_t m = 0; m < b->dq; m++)
                y[i] += b->weighted ? k[n] * inputs[2][n * b->dq + m] * q[m] : n == m ? k[n] * q[m] : 0;
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_param weight = {.value = inputs[2]};
    tfm_status status =
        tfm_score_general(ctx, y, inputs[0], ((const backward_case *)c->user)->weighted ? &weight : NULL, inputs[1]);
    tfm_tensor_free(ctx, &weight.packed);
    return status;
}

/* Both GEMMs are recorded on the tape, so the op needs no backward pass. */
static void test_general_score_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    const backward_case cases[] = {{1, 1, 1, 1, true}, {3, 17, 5, 9, true}, {5, 17, 17, 17, false}};
    for (int i = 0; i < 3; i++) {
        const backward_case *b = &cases[i];
        float q[BATCH * 5 * 17], k[BATCH * 17 * 17], w[17 * 17];
        harness_fill(&random, q, sizeof(q) / sizeof(*q), 1);
        harness_fill(&random, k, sizeof(k) / sizeof(*k), 1);
        harness_fill(&random, w, sizeof(w) / sizeof(*w), 0.5f);
        gradient_check(&(gradient_case){.name = "score_general",
                                        .inputs = {{3, {BATCH, b->T, b->dq}, q, false},
                                                   {3, {BATCH, b->S, b->dk}, k, false},
                                                   {2, {b->dk, b->dq}, w, !b->weighted}},
                                        .oracle = oracle_backward,
                                        .run = run_backward,
                                        .user = b,
                                        .count = (size_t)(BATCH * b->T * b->S),
                                        .tolerance = 5e-6});
    }
}

static void test_score_general_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 4), k = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 6), y = {0};
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, NULL, 4, 6)};
    harness_refused(tfm_score_general(ctx, &y, q, &weight, k), no, "score_general: weight is (4, 6) F32");
    harness_refused(tfm_score_general(ctx, &y, q, NULL, k), no, "without a weight they must be equally wide");
    harness_refused(tfm_score_general(ctx, &y, weight.value, NULL, k), no, "q is (4, 6) F32");
    harness_refused(tfm_score_general(ctx, &q, q, NULL, q), no, "the output is (2, 3, 4) F32");
    assert_null(y.buffer);
    k = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 4);
    harness_refused(tfm_score_general(ctx, &q, q, NULL, k), no, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_general_scores_match_double_precision),
        cmocka_unit_test(test_general_score_gradients_match_double_precision),
        cmocka_unit_test(test_score_general_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
