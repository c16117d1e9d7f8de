/* Weights of classical alignment attention, global and local, against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { GLOBAL, MONOTONIC, PREDICTED };

typedef struct setting {
    int64_t B, T, S, window, past;
    int kind;
    bool padded, in_place;
} setting;

static void oracle(double *want, const setting *c, const float *x, const int32_t *lengths, const float *centers) {
    for (int64_t row = 0; row < c->B * c->T; row++, x += c->S, want += c->S) {
        const double p = c->kind == PREDICTED ? centers[row] : (double)(row % c->T + c->past);
        double best = -INFINITY, sum = 0;
        bool seen[1000];
        for (int64_t s = 0; s < c->S; s++) {
            seen[s] = (!c->padded || s < lengths[row / c->T]) &&
                      (c->kind == GLOBAL || fabs((double)s - p) <= (double)c->window);
            best = seen[s] ? fmax(best, x[s]) : best;
        }
        for (int64_t s = 0; s < c->S; s++)
            sum += want[s] = seen[s] && !isinf(best) ? exp(x[s] - best) : 0;
        for (int64_t s = 0; s < c->S && sum > 0; s++) {
            const double far = ((double)s - p) / ((double)c->window / 2);
            want[s] *= (c->kind == PREDICTED ? exp(-far * far / 2) : 1) / sum;
        }
    }
}

static void check(harness_random *random, setting c) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(c.B * c.T * c.S);
    float *x = malloc(count * sizeof(float)), *centers = malloc((size_t)(c.B * c.T) * sizeof(float));
    int32_t *lengths = malloc((size_t)c.B * sizeof(int32_t));
    double *want = malloc(count * sizeof(double));
    assert_true(x && centers && lengths && want);
    harness_ok(tfm_scope_open(ctx));
    harness_fill(random, x, count, 3);
    for (int64_t i = 0; i < 9; i++) /* sometimes a masked key */
        x[harness_range(random, 0, (int64_t)count - 1)] = -INFINITY;
    for (int64_t i = 0; i < c.B; i++)
        lengths[i] = (int32_t)harness_range(random, 0, c.S + 1); /* none, and more than the sequence has */
    for (int64_t i = 0; i < c.B * c.T; i++)                      /* also before the first and after the last key */
        centers[i] = (float)harness_range(random, -8, 4 * c.S + 8) / 4;
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, c.B, c.T, c.S);
    tfm_tensor y = c.in_place ? tx : HARNESS_TENSOR(TFM_F32, NULL, c.B, c.T, c.S);
    tfm_align_options options = {.window = c.window, .past = c.past};
    if (c.padded)
        options.lengths = HARNESS_TENSOR(TFM_I32, lengths, c.B);
    if (c.kind == PREDICTED)
        options.centers = HARNESS_TENSOR(TFM_F32, centers, c.B, c.T);
    harness_ok(tfm_align(ctx, &y, tx, &options));
    oracle(want, &c, x, lengths, centers);
    float *got = harness_floats(y);
    char what[96];
    snprintf(what, sizeof(what), "kind %d of B %lld, T %lld, S %lld, window %lld", c.kind, (long long)c.B,
             (long long)c.T, (long long)c.S, (long long)c.window);
    harness_close(got, want, count, 1e-6, what);
    harness_guards(y);
    free(got);
    free(want);
    free(lengths);
    free(centers);
    free(x);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_align_matches_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    for (size_t i = 0; i < 5; i++)
        for (int k = 0; k < 6; k++)
            check(&random, (setting){.B = 3,
                                     .T = 9,
                                     .S = sizes[i],
                                     .kind = k % 3,
                                     .window = k % 3 ? 1 + sizes[i] / 4 : 0,
                                     .past = k % 3 == MONOTONIC ? sizes[i] / 3 : 0,
                                     .padded = k >= 3,
                                     .in_place = k % 2});
    check(&random, (setting){.B = 17, .T = 65, .S = 40, .kind = MONOTONIC, .window = 1});
    check(&random, (setting){.B = 2, .T = 5, .S = 40, .kind = MONOTONIC, .window = INT32_MAX, .past = INT32_MAX});
    check(&random, (setting){.B = 2, .T = 5, .S = 40, .kind = MONOTONIC, .window = 3, .past = INT32_MAX}); /* zeros */
}

/* NaN in a row that is not padding propagates; a window far outside the sequence is empty. */
static void test_non_finite_window_centers_give_nan_or_zero(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float x[4 * 20] = {0}, centers[4] = {NAN, INFINITY, -INFINITY, 3e38f};
    const int32_t length = 18;
    tfm_tensor y = {0};
    const tfm_align_options options = {
        .lengths = HARNESS_TENSOR(TFM_I32, &length, 1), .window = 2, .centers = HARNESS_TENSOR(TFM_F32, centers, 1, 4)};
    harness_ok(tfm_align(ctx, &y, HARNESS_TENSOR(TFM_F32, x, 1, 4, 20), &options));
    float *got = harness_floats(y);
    for (int i = 0; i < 4 * 20; i++)
        assert_true(i < length ? isnan(got[i]) : got[i] == 0);
    free(got);
    tfm_tensor_free(ctx, &y);
}

/* Scores, weights and context of Bahdanau attention in three calls; the scores against double precision. */
static void test_bahdanau_context_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { T = 2, S = 5, A = 7, D = 3 };
    float q[T * A], k[S * A], v[A], values[S * D];
    double want[T * D] = {0};
    harness_random random = {4};
    harness_fill(&random, q, T * A, 1);
    harness_fill(&random, k, S * A, 1);
    harness_fill(&random, v, A, 1);
    harness_fill(&random, values, S * D, 1);
    for (int t = 0; t < T; t++) {
        double sum = 0;
        for (int s = 0; s < S; s++) {
            double score = 0;
            for (int a = 0; a < A; a++)
                score += v[a] * tanh((double)q[t * A + a] + k[s * A + a]);
            sum += exp(score);
            for (int d = 0; d < D; d++)
                want[t * D + d] += exp(score) * values[s * D + d];
        }
        for (int d = 0; d < D; d++)
            want[t * D + d] /= sum;
    }
    tfm_tensor weights = {0}, context = {0};
    harness_ok(tfm_score_additive(ctx, &weights, HARNESS_TENSOR(TFM_F32, q, 1, T, A),
                                  HARNESS_TENSOR(TFM_F32, k, 1, S, A), HARNESS_TENSOR(TFM_F32, v, A)));
    harness_ok(tfm_align(ctx, &weights, weights, NULL));
    harness_ok(tfm_gemm(ctx, &context, weights, HARNESS_TENSOR(TFM_F32, values, 1, S, D), NULL));
    float *got = harness_floats(context);
    harness_close(got, want, T * D, 1e-6, "context");
    free(got);
    tfm_tensor_free(ctx, &weights);
    tfm_tensor_free(ctx, &context);
}

typedef struct backward_case {
    setting s;
    const int32_t *lengths;
    bool between; /* of copies, so the tape computes their gradients */
} backward_case;

/* The key window is fixed in the oracle: centers stay off the midpoint between two keys. */
static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    const setting *s = &b->s;
    for (int64_t row = 0; row < s->B * s->T; row++, y += s->S) {
        const double p = s->kind == PREDICTED ? inputs[1][row] : (double)(row % s->T + s->past);
        double sum = 0;
        for (int64_t i = 0; i < s->S; i++) {
            const bool seen = (!s->padded || i < b->lengths[row / s->T]) &&
                              (s->kind == GLOBAL || fabs((double)i - p) <= (double)s->window);
            sum += y[i] = seen ? exp(inputs[0][row * s->S + i]) : 0;
        }
        for (int64_t i = 0; i < s->S && sum > 0; i++) {
            const double far = ((double)i - p) / ((double)s->window / 2);
            y[i] *= (s->kind == PREDICTED ? exp(-far * far / 2) : 1) / sum;
        }
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor x[2] = {inputs[0], inputs[1]};
    for (int i = 0; i < 2 && b->between; i++)
        if (inputs[i].buffer) {
            x[i] = (tfm_tensor){0};
            tfm_activate(ctx, &x[i], inputs[i], TFM_NO_ACTIVATION);
        }
    tfm_align_options options = {.window = b->s.window, .past = b->s.past, .centers = x[1]};
    if (b->s.padded)
        options.lengths = HARNESS_TENSOR(TFM_I32, b->lengths, b->s.B);
    return tfm_align(ctx, y, x[0], &options);
}

static void test_align_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {5};
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    const int32_t lengths[] = {0, 40, 1000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int kind = GLOBAL; kind <= PREDICTED; kind++)
            for (int between = 0; between < 2; between++) {
                const int64_t S = sizes[i], T = S == 1000 ? 1 : 5;
                const setting s = {3, T, S, kind == GLOBAL ? 0 : 6, kind == MONOTONIC ? 2 : 0, kind, between, false};
                float x[3000], centers[15];
                harness_fill(&random, x, (size_t)(3 * T * S), 1);
                for (int64_t k = 0; k < 3 * T; k++)
                    centers[k] = (float)harness_range(&random, 0, S < 20 ? S : 20) + 0.3f;
                const backward_case b = {s, lengths, between};
                gradient_case c = {.name = "align",
                                   .inputs = {{3, {3, T, S}, x, false}},
                                   .oracle = oracle_backward,
                                   .run = run_backward,
                                   .user = &b,
                                   .count = (size_t)(3 * T * S),
                                   .tolerance = 2e-6};
                if (kind == PREDICTED)
                    c.inputs[1] = (gradient_input){2, {3, T}, centers, false};
                gradient_check(&c);
            }
}

static void test_align_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 8), flat = HARNESS_TENSOR(TFM_F32, NULL, 6, 8), y = {0};
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 3), over = x, centers = x;
    over.offset++;
    centers.rank = 2;
    harness_refused(tfm_align(ctx, &y, flat, NULL), no, "align: scores is (6, 8) F32");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.lengths = ints}), no, "lengths is (3) I32");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.window = 1, .centers = flat}), no, "centers is (6, 8)");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.window = -1}), no, "window is -1");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.window = 1, .past = INT64_MAX}), no, "and past 9");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.past = 1}), no, "give how far");
    harness_refused(tfm_align(ctx, &y, x, &(tfm_align_options){.centers = centers}), no, "give how far");
    harness_refused(tfm_align(ctx, &flat, x, NULL), no, "the output is (6, 8) F32");
    harness_refused(tfm_align(ctx, &over, x, NULL), no, "shares memory");
    harness_refused(tfm_align(ctx, &x, x, &(tfm_align_options){.window = 1, .centers = centers}), no, "shares memory");
    assert_null(y.buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_align_matches_double_precision),
        cmocka_unit_test(test_non_finite_window_centers_give_nan_or_zero),
        cmocka_unit_test(test_bahdanau_context_matches_double_precision),
        cmocka_unit_test(test_align_gradients_match_double_precision),
        cmocka_unit_test(test_align_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
