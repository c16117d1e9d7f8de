/* Linear layers of one input behind a norm, in one launch where a device has it, against double precision; and their
 * backward passes are those of the ops that they stand for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/cl.h"
#include "harness.h"
#include "ops/gemm.h"
#include "ops/linears.h"

typedef struct shape {
    int64_t rows, k;
    int count;
    int64_t n[3];
    bool normed, root_mean_square, residual, affine, biased;
} shape;

static void make_input(double *sum, double *norm, const float *x, const float *residual, const float *gamma,
                       const float *beta, const shape *s) {
    for (int64_t r = 0; r < s->rows; r++) {
        double mean = 0, square = 0;
        for (int64_t i = 0; i < s->k; i++) {
            sum[r * s->k + i] = (double)x[r * s->k + i] + (s->residual ? (double)residual[r * s->k + i] : 0);
            mean += s->root_mean_square ? 0 : sum[r * s->k + i] / (double)s->k;
        }
        for (int64_t i = 0; i < s->k; i++)
            square += pow(sum[r * s->k + i] - mean, 2) / (double)s->k;
        for (int64_t i = 0; i < s->k; i++)
            norm[r * s->k + i] = (sum[r * s->k + i] - mean) / sqrt(square + 1e-5) * (s->affine ? gamma[i] : 1.0) +
                                 (s->affine && !s->root_mean_square ? beta[i] : 0.0);
    }
}

static float *normals(harness_random *random, int64_t count) {
    float *host = malloc((size_t)count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, 1);
    return host;
}

static void close_to(tfm_tensor got, const double *want, const char *what) {
    float *host = harness_floats(got);
    harness_close(host, want, tfm_tensor_count(got), 2e-5, what);
    harness_guards(got);
    free(host);
}

static void check(shape s, harness_random *random) {
    tfm_context *ctx = harness_context();
    float *x = normals(random, s.rows * s.k), *residual = normals(random, s.rows * s.k);
    float *gamma = normals(random, s.k), *beta = normals(random, s.k), *w[3], *bias[3];
    double *sum = calloc((size_t)(s.rows * s.k), sizeof(double)),
           *norm = calloc((size_t)(s.rows * s.k), sizeof(double));
    assert_true(sum && norm);
    make_input(sum, norm, x, residual, gamma, beta, &s);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor y[3] = {{0}}, got_sum = HARNESS_TENSOR(TFM_F32, NULL, s.rows, s.k),
               got_norm = HARNESS_TENSOR(TFM_F32, NULL, s.rows, s.k);
    tfm_param weights[3];
    tfm__linear_output outputs[3];
    for (int i = 0; i < s.count; i++) {
        w[i] = normals(random, s.n[i] * s.k);
        bias[i] = normals(random, s.n[i]);
        weights[i] = (tfm_param){.value = {0}};
        weights[i].value = HARNESS_TENSOR(TFM_F32, w[i], s.n[i], s.k);
        y[i] = HARNESS_TENSOR(TFM_F32, NULL, s.rows, s.n[i]);
        outputs[i] = (tfm__linear_output){&y[i], &weights[i], {0}};
        if (s.biased)
            outputs[i].bias = HARNESS_TENSOR(TFM_F32, bias[i], s.n[i]);
    }
    tfm__linears_input input = {.x = HARNESS_TENSOR(TFM_F32, x, s.rows, s.k),
                                .normed = s.normed,
                                .root_mean_square = s.root_mean_square,
                                .epsilon = 1e-5f};
    if (s.residual)
        input.residual = HARNESS_TENSOR(TFM_F32, residual, s.rows, s.k);
    if (s.affine) {
        input.gamma = HARNESS_TENSOR(TFM_F32, gamma, s.k);
        if (!s.root_mean_square)
            input.beta = HARNESS_TENSOR(TFM_F32, beta, s.k);
    }
    if (s.normed) {
        input.sum = &got_sum;
        input.norm = &got_norm;
    }
    harness_ok(tfm__linears(ctx, &input, s.count, outputs, TFM_RELU));
    if (s.normed) {
        close_to(got_sum, sum, "the sum");
        close_to(got_norm, norm, "its norm");
    }
    for (int i = 0; i < s.count; i++) {
        char what[160];
        double *want = calloc((size_t)(s.rows * s.n[i]), sizeof(double));
        assert_non_null(want);
        for (int64_t e = 0; e < s.rows * s.n[i]; e++) {
            const int64_t r = e / s.n[i], q = e % s.n[i];
            for (int64_t k = 0; k < s.k; k++)
                want[e] += (s.normed ? norm[r * s.k + k] : (double)x[r * s.k + k]) * w[i][q * s.k + k];
            want[e] = fmax(want[e] + (s.biased ? (double)bias[i][q] : 0), 0);
        }
        snprintf(what, sizeof(what), "product %d of %d: %d x %d, %d rows, norm %d%s%s%s", i, s.count, (int)s.n[i],
                 (int)s.k, (int)s.rows, s.normed + s.root_mean_square, s.residual ? ", residual" : "",
                 s.affine ? ", affine" : "", s.biased ? ", bias" : "");
        close_to(y[i], want, what);
        free(want);
        free(w[i]);
        free(bias[i]);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    for (int i = 0; i < s.count; i++)
        tfm_param_free(ctx, &weights[i]);
    free(x);
    free(residual);
    free(gamma);
    free(beta);
    free(sum);
    free(norm);
}

static void test_shapes(void **state) {
    (void)state;
    harness_random random = {1};
    const int64_t rows[] = {1, 2, 3, 4, 8, 11, 33}, widths[] = {4, 36, 132, 520, 33};
    int number = 0;
    for (int i = 0; i < 7 * 5; i++, number++) {
        shape s = {.rows = rows[i % 7], .k = widths[i / 7], .count = 1 + number % 3, .n = {48, 17, 65}};
        s.normed = number % 5 != 0;
        s.root_mean_square = s.normed && number % 3 == 0;
        s.residual = s.normed && number % 4 != 1;
        s.affine = s.normed && number % 4 != 2;
        s.biased = number % 7 != 3;
        check(s, &random);
    }
}

/* Numbers far from 0, where a mean of floats is not exact enough for the variance. */
static void test_far(void **state) {
    (void)state;
    enum { K = 512 };
    tfm_context *ctx = harness_context();
    float x[K], w[K] = {0};
    double want[K], mean = 0, square = 0;
    harness_random random = {2};
    harness_fill(&random, x, K, 1);
    for (int i = 0; i < K; i++) {
        x[i] += 10000;
        mean += (double)x[i] / K;
    }
    for (int i = 0; i < K; i++)
        square += pow((double)x[i] - mean, 2) / K;
    for (int i = 0; i < K; i++)
        want[i] = ((double)x[i] - mean) / sqrt(square + 1e-5);
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, w, 1, K)};
    tfm_tensor y = {0}, norm = HARNESS_TENSOR(TFM_F32, NULL, 1, K);
    harness_ok(tfm__linears(
        ctx,
        &(tfm__linears_input){.x = HARNESS_TENSOR(TFM_F32, x, 1, K), .normed = true, .epsilon = 1e-5f, .norm = &norm},
        1, &(tfm__linear_output){&y, &weight, {0}}, TFM_NO_ACTIVATION));
    close_to(norm, want, "the norm of numbers far from 0");
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    tfm_param_free(ctx, &weight);
}

static size_t kernels_of(const tfm_context *ctx) {
    size_t count = 0;
    for (size_t i = 0; i < TFM__COUNT(ctx->kernels); i++)
        count += ctx->kernels[i] != NULL;
    return count;
}

/* Where a device prefers it, three layers behind a norm are one kernel, of whatever is not too odd for it. */
static void test_joined(void **state) {
    (void)state;
    enum { ROWS = 4, K = 64 };
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    const char *first = ctx->tuning.gemm_order[0].provider;
    const bool joins = first && strcmp(first, "rows") == 0;
    tfm_tensor x = {0}, y[3] = {{0}};
    tfm_param w[3];
    tfm__linear_output outputs[3];
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){ROWS, K}));
    for (int i = 0; i < 3; i++) {
        w[i] = (tfm_param){.value = {0}};
        harness_ok(tfm_tensor_new(ctx, &w[i].value, TFM_F32, 2, (int64_t[]){K, K}));
        outputs[i] = (tfm__linear_output){&y[i], &w[i], {0}};
    }
    const tfm__linears_input input = {.x = x, .normed = true, .epsilon = 1e-5f};
    const size_t before = kernels_of(ctx);
    harness_ok(tfm__linears(ctx, &input, 3, outputs, TFM_NO_ACTIVATION));
    if (joins)
        assert_int_equal(kernels_of(ctx), before + 1);
    else
        assert_true(kernels_of(ctx) > before + 1);
    assert_int_equal(tfm__linears(ctx, &input, 4, outputs, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT);
    for (int i = 0; i < 3; i++)
        tfm_param_free(ctx, &w[i]);
    tfm_context_free(&ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_joined),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
