/* Fused linear layers of one input after a norm, in one launch if the device supports it, against double precision;
 * their backward passes equal those of the separate ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/fused_linear.h"

typedef struct shape {
    int64_t rows, k;
    int count;
    int64_t n[3];
    bool normed, root_mean_square, residual, affine, biased;
    bool even; /* all aligned to four elements */
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

/* A guarded tensor, aligned to four elements as the skinny-GEMM kernel requires, or unaligned. */
static tfm_tensor placed(bool even, const float *host, int rank, const int64_t *dims) {
    if (!even)
        return harness_tensor(TFM_F32, rank, dims, host);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, count + 4);
    x.offset = (x.offset + 3) / 4 * 4;
    x.rank = rank;
    memcpy(x.dims, dims, (size_t)rank * sizeof(*dims));
    if (host)
        harness_ok(tfm_tensor_write(harness_context(), x, host));
    return x;
}
#define PLACED(even, host, ...)                                                                                        \
    placed(even, host, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

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

/* Some of several layers have no bias. */
static bool has_bias(const shape *s, int layer) {
    return s->biased && (s->k % 5 != 1 || layer != (int)(s->rows % 3));
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
    tfm_tensor y[3] = {{0}}, got_sum = PLACED(s.even, NULL, s.rows, s.k), got_norm = PLACED(s.even, NULL, s.rows, s.k);
    tfm_param weights[3];
    tfm__fused_output outputs[3];
    for (int i = 0; i < s.count; i++) {
        w[i] = normals(random, s.n[i] * s.k);
        bias[i] = normals(random, s.n[i]);
        weights[i] = (tfm_param){.value = {0}};
        weights[i].value = PLACED(s.even, w[i], s.n[i], s.k);
        y[i] = PLACED(s.even, NULL, s.rows, s.n[i]);
        outputs[i] = (tfm__fused_output){&y[i], &weights[i], {0}};
        if (has_bias(&s, i))
            outputs[i].bias = PLACED(s.even, bias[i], s.n[i]);
    }
    tfm__fused_input input = {.x = PLACED(s.even, x, s.rows, s.k),
                              .normed = s.normed,
                              .root_mean_square = s.root_mean_square,
                              .epsilon = 1e-5f};
    if (s.residual)
        input.residual = PLACED(s.even, residual, s.rows, s.k);
    if (s.affine) {
        input.gamma = PLACED(s.even, gamma, s.k);
        if (!s.root_mean_square)
            input.beta = PLACED(s.even, beta, s.k);
    }
    if (s.normed) {
        input.sum = &got_sum;
        input.norm = &got_norm;
    }
    harness_ok(tfm__fused_linear(ctx, &input, s.count, outputs, TFM_RELU));
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
            want[e] = fmax(want[e] + (has_bias(&s, i) ? (double)bias[i][q] : 0), 0);
        }
        snprintf(what, sizeof(what), "GEMM %d of %d: %d x %d, %d rows, norm %d%s%s%s", i, s.count, (int)s.n[i],
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

static void test_norm_and_grouped_linear_match_double_precision(void **state) {
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
        s.even = number % 3 == 1;
        check(s, &random);
    }
}

/* Two layers, one gating the other. */
static void check_gated(const shape *s, bool gelu, harness_random *random) {
    tfm_context *ctx = harness_context();
    const int64_t n = s->n[0];
    float *x = normals(random, s->rows * s->k), *residual = normals(random, s->rows * s->k),
          *gamma = normals(random, s->k);
    float *w[2], *bias[2];
    double *sum = calloc((size_t)(s->rows * s->k), sizeof(double)),
           *norm = calloc((size_t)(s->rows * s->k), sizeof(double));
    double *want = calloc((size_t)(s->rows * n), sizeof(double));
    char what[120];
    assert_true(sum && norm && want);
    make_input(sum, norm, x, residual, gamma, gamma, s);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor y = PLACED(s->even, NULL, s->rows, n), got_sum = PLACED(s->even, NULL, s->rows, s->k);
    tfm_param weights[2];
    tfm__fused_output layers[2];
    for (int i = 0; i < 2; i++) {
        w[i] = normals(random, n * s->k);
        bias[i] = normals(random, n);
        weights[i] = (tfm_param){.value = PLACED(s->even, w[i], n, s->k)};
        layers[i] = (tfm__fused_output){NULL, &weights[i], {0}};
        if (s->biased)
            layers[i].bias = PLACED(s->even, bias[i], n);
    }
    tfm__fused_input input = {.x = PLACED(s->even, x, s->rows, s->k),
                              .normed = s->normed,
                              .root_mean_square = s->root_mean_square,
                              .epsilon = 1e-5f};
    if (s->normed) {
        input.residual = PLACED(s->even, residual, s->rows, s->k);
        input.sum = &got_sum;
    }
    harness_ok(tfm__fused_linear_gated(ctx, &input, &y, layers[0], layers[1], gelu ? TFM_GELU_TANH : TFM_SILU));
    for (int64_t e = 0; e < s->rows * n; e++) {
        double v[2] = {0};
        for (int i = 0; i < 2; i++) {
            for (int64_t k = 0; k < s->k; k++)
                v[i] += (s->normed ? norm[e / n * s->k + k] : (double)x[e / n * s->k + k]) * w[i][e % n * s->k + k];
            v[i] += s->biased ? (double)bias[i][e % n] : 0;
        }
        const double u = gelu ? 1.5957691216057308 * (v[1] + 0.044715 * v[1] * v[1] * v[1]) : v[1];
        want[e] = v[0] * v[1] / (1 + exp(-u));
    }
    snprintf(what, sizeof(what), "gated: %d x %d, %d rows, norm %d%s", (int)n, (int)s->k, (int)s->rows,
             s->normed + s->root_mean_square, s->biased ? ", bias" : "");
    close_to(y, want, what);
    if (s->normed)
        close_to(got_sum, sum, "the sum");
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    for (int i = 0; i < 2; i++) {
        tfm_param_free(ctx, &weights[i]);
        free(w[i]);
        free(bias[i]);
    }
    free(x);
    free(residual);
    free(gamma);
    free(sum);
    free(norm);
    free(want);
}

static void test_gated_linear_matches_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    const int64_t rows[] = {1, 3, 11, 8, 33, 5}, widths[] = {36, 132}, outputs[] = {1, 17, 48, 65};
    for (int i = 0; i < 6; i++)
        check_gated(&(shape){.rows = rows[i],
                             .k = widths[i / 3],
                             .n = {outputs[i % 4]},
                             .normed = i % 3 > 0,
                             .root_mean_square = i % 3 > 1,
                             .residual = i % 3 > 0,
                             .biased = i % 2,
                             .even = i < 5},
                    i % 4 == 1, &random);
}

/* Whether a kernel of gemm_gpu_skinny was requested with this define. */
static bool asked_with(const tfm_context *ctx, const char *define) {
    for (size_t i = 0; i < TFM__COUNT(ctx->kernels); i++) {
        const tfm__kernel *kernel = ctx->kernels[i];
        if (kernel && strcmp(kernel->name, "gemm_gpu_skinny") == 0 &&
            strstr(kernel->name + strlen(kernel->name) + 1, define))
            return true;
    }
    return false;
}

/* Too few columns for many compute units: two and four teams share a column's K, also with a short rest, for each
 * number of rows, norm and gate. */
static void test_work_groups_share_columns_on_large_devices(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const char *first = ctx->tuning.gemm_order[0].provider;
    const bool takes = first && strcmp(first, "gpu-skinny") == 0;
    const unsigned own = ctx->info.compute_units;
    harness_random random = {4};
    const int64_t rows[] = {1, 3, 8, 2, 21, 4, 11, 1}, widths[] = {256, 516, 772, 508, 644, 512, 260, 252};
    for (int i = 0; i < 8; i++) {
        shape s = {.rows = rows[i], .k = widths[i], .count = 1 + i % 3, .n = {19, 4, 33}, .even = true};
        s.normed = i % 4 != 0;
        s.root_mean_square = i % 4 == 2;
        s.residual = s.normed && i % 2;
        s.affine = s.residual;
        s.biased = i % 3 != 1;
        ctx->info.compute_units = 100;
        check(s, &random);
        s.n[0] = 21; /* a gated input has a residual with its norm, and no gamma */
        s.residual = s.normed;
        s.affine = false;
        check_gated(&s, i % 2, &random);
    }
    assert_true(!takes || (asked_with(ctx, "-DSLICED_K=2") && asked_with(ctx, "-DSLICED_K=4")));
    ctx->info.compute_units = own;
}

/* Columns enough for all compute units, or just too few. */
static void test_column_sharing_follows_compute_units(void **state) {
    (void)state;
    enum { K = 512, N = 512 };
    const struct {
        unsigned units;
        int64_t rows;
        int parts;
    } cases[] = {{8, 1, 1}, {32, 8, 1}, {33, 1, 2}, {65, 1, 4}, {132, 4, 4}, {108, 32, 1}, {304, 1, 4}};
    for (size_t i = 0; i < TFM__COUNT(cases); i++) {
        tfm_context *ctx = NULL;
        harness_ok(tfm_context_open(&ctx, NULL));
        const char *first = ctx->tuning.gemm_order[0].provider;
        tfm_tensor x = {0}, y = {0}, none = {0};
        tfm_param weight = {.value = {0}};
        ctx->info.compute_units = cases[i].units;
        harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){cases[i].rows, K}));
        harness_ok(tfm_tensor_new(ctx, &weight.value, TFM_F32, 2, (int64_t[]){N, K}));
        const uint64_t before = ctx->launches;
        harness_ok(tfm_linear(ctx, &y, x, &weight, none, TFM_NO_ACTIVATION));
        if (first && strcmp(first, "gpu-skinny") == 0) {
            assert_int_equal(ctx->launches - before, 1);
            assert_int_equal(asked_with(ctx, "-DSLICED_K=2"), cases[i].parts == 2);
            assert_int_equal(asked_with(ctx, "-DSLICED_K=4"), cases[i].parts == 4);
        }
        tfm_param_free(ctx, &weight);
        tfm_context_free(&ctx);
    }
}

/* Values far from 0, where an fp32 mean is too inexact for the variance. */
static void test_fused_norm_of_large_mean_is_exact(void **state) {
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
    harness_ok(tfm__fused_linear(
        ctx,
        &(tfm__fused_input){.x = HARNESS_TENSOR(TFM_F32, x, 1, K), .normed = true, .epsilon = 1e-5f, .norm = &norm}, 1,
        &(tfm__fused_output){&y, &weight, {0}}, TFM_NO_ACTIVATION));
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

/* Where the device prefers it, three layers after a norm are one kernel, for aligned shapes. */
static void test_three_projections_are_one_launch_on_gpu(void **state) {
    (void)state;
    enum { ROWS = 4, K = 64 };
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    const char *first = ctx->tuning.gemm_order[0].provider;
    const bool joins = first && strcmp(first, "gpu-skinny") == 0;
    tfm_tensor x = {0}, y[3] = {{0}};
    tfm_param w[3];
    tfm__fused_output outputs[3];
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){ROWS, K}));
    for (int i = 0; i < 3; i++) {
        w[i] = (tfm_param){.value = {0}};
        harness_ok(tfm_tensor_new(ctx, &w[i].value, TFM_F32, 2, (int64_t[]){K, K}));
        outputs[i] = (tfm__fused_output){&y[i], &w[i], {0}};
    }
    const tfm__fused_input input = {.x = x, .normed = true, .epsilon = 1e-5f};
    const size_t before = kernels_of(ctx);
    harness_ok(tfm__fused_linear(ctx, &input, 3, outputs, TFM_NO_ACTIVATION));
    if (joins)
        assert_int_equal(kernels_of(ctx), before + 1);
    else
        assert_true(kernels_of(ctx) > before + 1);
    assert_int_equal(tfm__fused_linear(ctx, &input, 4, outputs, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT);
    for (int i = 0; i < 3; i++)
        tfm_param_free(ctx, &w[i]);
    tfm_context_free(&ctx);
}

/* A CPU-style device runs them in one launch as well, each bit-identical to the separate layer. */
static void test_three_projections_are_one_launch_on_cpu(void **state) {
    (void)state;
    enum { K = 40, MOST = 37 };
    static const int64_t n[] = {48, 130, 7};
    tfm_context *ctx = harness_context();
    harness_random random = {8};
    if (ctx->tuning.class != TFM__CLASS_CPU || getenv("TFM_GEMM")) {
        skip();
        return;
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_param w[3];
    for (int i = 0; i < 3; i++) {
        float *host = normals(&random, n[i] * K);
        w[i] = (tfm_param){.value = PLACED(false, host, n[i], K)};
        free(host);
    }
    for (int64_t rows = 1; rows <= MOST; rows += 4) {
        float *host = normals(&random, rows * K), *want, *got;
        tfm_tensor x = PLACED(false, host, rows, K), alone[3] = {{0}}, y[3] = {{0}};
        tfm__fused_output outputs[3];
        free(host);
        for (int i = 0; i < 3; i++) {
            outputs[i] = (tfm__fused_output){&y[i], &w[i], {0}};
            harness_ok(tfm_linear(ctx, &alone[i], x, &w[i], (tfm_tensor){0}, TFM_RELU));
        }
        for (int count = 2; count <= 3; count++) {
            const uint64_t before = ctx->launches;
            harness_ok(tfm__fused_linear(ctx, &(tfm__fused_input){.x = x}, count, outputs, TFM_RELU));
            assert_int_equal(ctx->launches, before + 1);
            for (int i = 0; i < count; i++) {
                want = harness_floats(alone[i]);
                got = harness_floats(y[i]);
                assert_memory_equal(got, want, tfm_tensor_count(y[i]) * sizeof(float));
                free(want);
                free(got);
            }
        }
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    for (int i = 0; i < 3; i++)
        tfm_param_free(ctx, &w[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_and_grouped_linear_match_double_precision),
        cmocka_unit_test(test_gated_linear_matches_double_precision),
        cmocka_unit_test(test_work_groups_share_columns_on_large_devices),
        cmocka_unit_test(test_column_sharing_follows_compute_units),
        cmocka_unit_test(test_fused_norm_of_large_mean_is_exact),
        cmocka_unit_test(test_three_projections_are_one_launch_on_gpu),
        cmocka_unit_test(test_three_projections_are_one_launch_on_cpu),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
