/* Why attention divides scores by sqrt(d) ("Attention Is All You Need", section 3.2.1, footnote 4): dot products of
 * d-wide unit-variance vectors have variance d, scaled ones 1. Also measures entropy and gradient of the unscaled
 * softmax at d = 512. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"
#include "tfm/tape.h"

/* N queries over N keys: enough pairs for the variance, and as many keys as a sentence has words. */
enum { PAIRS = 512, WORDS = 64 };

static tfm_tensor unit_vectors(harness_random *random, int64_t count, int64_t d) {
    float *host = malloc((size_t)(count * d) * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)(count * d), 1);
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, count, d);
    free(host);
    return x;
}

static double variance(tfm_tensor x) {
    const size_t count = tfm_tensor_count(x);
    float *host = harness_floats(x);
    double mean = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        mean += host[i];
        square += (double)host[i] * host[i];
    }
    free(host);
    mean /= (double)count;
    return square / (double)count - mean * mean;
}

static void test_scaled_scores_have_unit_variance(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {512};
    const int64_t widths[] = {8, 64, 512};
    const int64_t n = harness_slow() ? PAIRS / 4 : PAIRS;
    for (size_t i = 0; i < 3; i++) {
        const int64_t d = widths[i];
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor q = unit_vectors(&random, n, d), k = unit_vectors(&random, n, d), plain = {0}, scaled = {0};
        const tfm_gemm_options unscaled = {.transpose_b = true},
                               with_alpha = {.transpose_b = true, .alpha = 1 / sqrtf((float)d)};
        harness_ok(tfm_gemm(ctx, &plain, q, k, &unscaled));
        harness_ok(tfm_gemm(ctx, &scaled, q, k, &with_alpha));
        const double of_plain = variance(plain) / (double)d, of_scaled = variance(scaled);
        printf("d %3lld: variance of q.k is %.3f d, of q.k / sqrt(d) %.3f\n", (long long)d, of_plain, of_scaled);
        /* An estimate from n vectors of d numbers on each side has a relative deviation of about 2 / sqrt(n d). */
        const double tolerance = 4 * 2 / sqrt((double)(n * d));
        assert_true(fabs(of_plain - 1) < tolerance && fabs(of_scaled - 1) < tolerance);
        assert_true(fabs(of_plain - of_scaled) < 1e-5);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* Statistics of the softmax: medians over rows, since a few rows always have two keys near the top. */
typedef struct choice {
    double largest;  /* largest weight; 1: one-hot */
    double entropy;  /* entropy in nats, at most log WORDS */
    double slope;    /* of the largest weight by its own score, p (1 - p) */
    double gradient; /* norm of the score gradient for an output gradient of norm 1 */
} choice;

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double rows[WORDS]) {
    qsort(rows, WORDS, sizeof(*rows), compare);
    return (rows[WORDS / 2 - 1] + rows[WORDS / 2]) / 2;
}

static choice look(tfm_tensor weights, tfm_tensor gradient) {
    double largest[WORDS] = {0}, entropy[WORDS] = {0}, slope[WORDS], length[WORDS] = {0};
    float *p = harness_floats(weights), *g = harness_floats(gradient);
    for (int row = 0; row < WORDS; row++) {
        for (int i = row * WORDS; i < (row + 1) * WORDS; i++) {
            largest[row] = fmax(largest[row], p[i]);
            entropy[row] -= p[i] > 0 ? p[i] * log((double)p[i]) : 0;
            length[row] += (double)g[i] * g[i];
        }
        slope[row] = largest[row] * (1 - largest[row]);
        length[row] = sqrt(length[row]);
    }
    free(p);
    free(g);
    return (choice){median(largest), median(entropy), median(slope), median(length)};
}

/* Softmax of q k^T alpha, and its backward pass from a random gradient with rows of norm 1. */
static choice choose(tfm_tensor q, tfm_tensor k, float alpha) {
    tfm_context *ctx = harness_context();
    harness_random random = {2017};
    float direction[WORDS * WORDS];
    const float zeros[WORDS * WORDS] = {0};
    harness_fill(&random, direction, WORDS * WORDS, 1);
    for (int row = 0; row < WORDS; row++) {
        double square = 0;
        for (int i = row * WORDS; i < (row + 1) * WORDS; i++)
            square += (double)direction[i] * direction[i];
        for (int i = row * WORDS; i < (row + 1) * WORDS; i++)
            direction[i] /= (float)sqrt(square);
    }
    tfm_tensor scores = {0}, weights = {0}, up = HARNESS_TENSOR(TFM_F32, direction, WORDS, WORDS),
               gradient = HARNESS_TENSOR(TFM_F32, zeros, WORDS, WORDS);
    harness_ok(tfm_gemm(ctx, &scores, q, k, &(tfm_gemm_options){.transpose_b = true, .alpha = alpha}));
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, scores, gradient));
    harness_ok(tfm_softmax(ctx, &weights, scores));
    harness_ok(tfm_backward(ctx, weights, up));
    return look(weights, gradient);
}

static void test_unscaled_softmax_saturates(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t d = 512;
    harness_random random = {3};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor q = unit_vectors(&random, WORDS, d), k = unit_vectors(&random, WORDS, d);
    const choice plain = choose(q, k, 1), scaled = choose(q, k, 1 / sqrtf((float)d));
    printf("softmax at d 512   largest weight   entropy   p (1 - p)   gradient\n");
    printf("q.k                %14.3f %9.3f %11.2e %10.2e\n", plain.largest, plain.entropy, plain.slope,
           plain.gradient);
    printf("q.k / sqrt(d)      %14.3f %9.3f %11.2e %10.2e\n", scaled.largest, scaled.entropy, scaled.slope,
           scaled.gradient);
    assert_true(plain.largest > 0.99 && plain.entropy < 0.05 && plain.slope < 0.01);
    assert_true(scaled.largest < 0.25 && scaled.entropy > log(WORDS) - 1 && scaled.slope > 0.05);
    assert_true(plain.gradient < scaled.gradient / 50);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaled_scores_have_unit_variance),
        cmocka_unit_test(test_unscaled_softmax_saturates),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
