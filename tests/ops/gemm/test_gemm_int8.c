/* Linear layers with int8 weights: exact for integer rows, within the rounding bound otherwise; extreme values;
 * non-finite inputs; and embeddings that share the weight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/quantize.h"
#include "tfm/ops.h"

typedef struct sizes {
    int64_t m, n, k;
} sizes;

static double activated(double v, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return v > 0 ? v : 0;
    case TFM_GELU:
        return v * 0.5 * erfc(-v / sqrt(2));
    case TFM_SILU:
        return v / (1 + exp(-v));
    default:
        return v;
    }
}

/* An int8 parameter, quantized from host floats (N, K). */
static tfm_param bytes_of(const float *host, int64_t n, int64_t k) {
    tfm_param param = {0};
    harness_ok(tfm_tensor_new(harness_context(), &param.value, TFM_F32, 2, (int64_t[]){n, k}));
    harness_ok(tfm_tensor_write(harness_context(), param.value, host));
    harness_ok(tfm_param_quantize(harness_context(), &param));
    return param;
}

/* The layer in double precision. Quantized x and w are recomputed without the library; *slack gets the possible error
 * of x where it is no whole number of steps. */
static void oracle(double *want, double *slack, const float *x, const float *w, const float *bias, sizes s,
                   tfm_activation activation) {
    for (int64_t j = 0; j < s.n; j++) {
        double most = 0, size = 0;
        for (int64_t p = 0; p < s.k; p++)
            most = fmax(most, fabs((double)w[j * s.k + p]));
        double *q = malloc((size_t)s.k * sizeof(*q));
        assert_non_null(q);
        for (int64_t p = 0; p < s.k; p++) {
            q[p] = most > 0 ? rint((double)w[j * s.k + p] * 127 / most) * most / 127 : 0;
            size += fabs(q[p]);
        }
        for (int64_t i = 0; i < s.m; i++) {
            double sum = bias ? (double)bias[j] : 0, largest = 0;
            for (int64_t p = 0; p < s.k; p++) {
                sum += (double)x[i * s.k + p] * q[p];
                largest = fmax(largest, fabs((double)x[i * s.k + p]));
            }
            want[i * s.n + j] = activated(sum, activation);
            slack[i * s.n + j] = 0.5 * largest / 127 * size;
        }
        free(q);
    }
}

/* Integers including both ends; the first of each row is an end, so that its step is 1. */
static void fill_whole(harness_random *random, float *out, int64_t rows, int64_t k, int ends) {
    for (int64_t i = 0; i < rows * k; i++)
        out[i] = i % k == 0 || harness_range(random, 0, 9) < ends ? (harness_next(random) & 1 ? 127.0f : -127.0f)
                                                                  : (float)harness_range(random, -127, 127);
}

static void check(sizes s, tfm_activation activation, bool biased, int whole, harness_random *random) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(s.m * s.n);
    float *x = malloc((size_t)(s.m * s.k) * sizeof(*x)), *w = malloc((size_t)(s.n * s.k) * sizeof(*w));
    float *bias = malloc((size_t)s.n * sizeof(*bias));
    double *want = malloc(count * sizeof(*want)), *slack = malloc(count * sizeof(*slack));
    assert_true(x && w && bias && want && slack);
    if (whole >= 0) {
        fill_whole(random, x, s.m, s.k, whole);
        fill_whole(random, w, s.n, s.k, whole);
    } else {
        harness_fill(random, x, (size_t)(s.m * s.k), 1);
        harness_fill(random, w, (size_t)(s.n * s.k), 0.1f);
    }
    harness_fill(random, bias, (size_t)s.n, 1);
    oracle(want, slack, x, w, biased ? bias : NULL, s, activation);
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = bytes_of(w, s.n, s.k);
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, s.m, s.k), y = HARNESS_TENSOR(TFM_F32, NULL, s.m, s.n);
    tfm_tensor tb = biased ? HARNESS_TENSOR(TFM_F32, bias, s.n) : (tfm_tensor){0};
    harness_ok(tfm_linear(ctx, &y, tx, &weight, tb, activation));
    harness_guards(y);
    float *got = harness_floats(y);
    char what[96];
    snprintf(what, sizeof(what), "m %d, n %d, k %d, activation %d", (int)s.m, (int)s.n, (int)s.k, (int)activation);
    if (whole >= 0) {
        harness_close(got, want, count, 1e-6, what);
    } else {
        double root = 0;
        for (size_t i = 0; i < count; i++)
            root += want[i] * want[i] / (double)count;
        for (size_t i = 0; i < count; i++)
            if (!(fabs((double)got[i] - want[i]) <= 1.13 * slack[i] + 1e-5 * (1 + sqrt(root))) && !harness_poses()) {
                print_error("%s: %g at %zu, wanted %g within %g\n", what, (double)got[i], i, want[i], slack[i]);
                fail();
            }
    }
    tfm_param_free(ctx, &weight);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x);
    free(w);
    free(bias);
    free(want);
    free(slack);
    free(got);
}

static void test_int8_gemm_of_whole_numbers_is_exact(void **state) {
    (void)state;
    const int64_t ms[] = {1, 2, 3, 5, 8, 9, 13, 97, 200}, ns[] = {1, 4, 7, 66, 131},
                  ks[] = {1, 15, 16, 63, 64, 130, 515};
    harness_random random = {1};
    int number = 0;
    for (size_t i = 0; i < 9; i++)
        for (size_t j = 0; j < 5; j++)
            for (size_t p = 0; p < 7; p++)
                if (number++ % (harness_slow() ? 7 : 1) == 0)
                    check((sizes){ms[i], ns[j], ks[p]}, number % 2 ? TFM_RELU : TFM_NO_ACTIVATION, number % 3 != 0,
                          number % 4, &random);
}

/* All products are extreme: pairs overflow 16 bits, and sums are the largest possible. */
static void test_int8_gemm_of_extreme_values_does_not_overflow(void **state) {
    (void)state;
    harness_random random = {2};
    check((sizes){2, 9, 4096}, TFM_NO_ACTIVATION, false, 10, &random);
    check((sizes){11, 9, 4100}, TFM_NO_ACTIVATION, true, 10, &random);
    /* So many rows that tiles transpose a weight once for all: K segments, strips in groups, and partial edges. */
    check((sizes){384, 33, 64}, TFM_NO_ACTIVATION, true, 10, &random);
    check((sizes){401, 535, 77}, TFM_RELU, true, 10, &random);
    check((sizes){391, 1601, 64}, TFM_NO_ACTIVATION, true, 10, &random); /* items of many rows on many cores */
    check((sizes){1541, 9, 1090}, TFM_SILU, true, 1, &random);
    if (tfm__context_tuning(harness_context())->amx_int8) /* many sums for scalar kernels */
        check((sizes){1537, 530, 520}, TFM_RELU, false, 2, &random);
    float *x = malloc(131072 * sizeof(*x));
    assert_non_null(x);
    for (int i = 0; i < 131072; i++)
        x[i] = -127;
    tfm_param weight = bytes_of(x, 1, 131072);
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, 1, 131072), y = {0};
    harness_ok(tfm_linear(harness_context(), &y, tx, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION));
    float *got = harness_floats(y);
    harness_close(got, (double[]){127.0 * 127 * 131072}, 1, 1e-6, "the longest row");
    tfm_param_free(harness_context(), &weight);
    free(got);
    free(x);
}

static void test_int8_gemm_error_is_within_rounding(void **state) {
    (void)state;
    harness_random random = {3};
    const tfm_activation all[] = {TFM_NO_ACTIVATION, TFM_RELU, TFM_NO_ACTIVATION};
    const sizes some[] = {{1, 70, 512},  {7, 33, 200},  {8, 5, 33},     {9, 70, 512},
                          {50, 129, 77}, {400, 40, 90}, {390, 530, 20}, {1537, 20, 520}};
    for (size_t i = 0; i < 8; i++)
        check(some[i], all[i % 3], i % 2, -1, &random);
}

/* With nonlinear activations integers stay exact; large sums give the linear value or 0. */
static void test_int8_gemm_activations_are_right(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_activation all[] = {TFM_GELU, TFM_SILU};
    for (int a = 0; a < 2; a++)
        for (int m = 3; m <= 19; m += 16) {
            float x[19 * 20], w[21 * 20];
            double want[19 * 21];
            for (int i = 0; i < m * 20; i++)
                x[i] = i % 20 == 0 ? 1 : i % 20 == 1 ? (float)(i / 20 % 7 - 3) / 127 : 0;
            for (int i = 0; i < 21 * 20; i++)
                w[i] = i % 20 == 0 ? 0 : i % 20 == 1 ? 127 : 0;
            for (int i = 0; i < m * 21; i++)
                want[i] = activated(i / 21 % 7 - 3, all[a]);
            tfm_param weight = bytes_of(w, 21, 20);
            tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, m, 20), y = HARNESS_TENSOR(TFM_F32, NULL, m, 21);
            harness_ok(tfm_linear(ctx, &y, tx, &weight, (tfm_tensor){0}, all[a]));
            harness_guards(y);
            float *got = harness_floats(y);
            harness_close(got, want, (size_t)m * 21, 1e-5, "activation");
            free(got);
            tfm_param_free(ctx, &weight);
        }
}

/* A non-finite row gives NaN in that row alone; zeros give the bias; tiny numbers count as zeros. */
static void test_int8_gemm_isolates_non_finite_rows(void **state) {
    (void)state;
    for (int m = 6; m <= 12; m += 6) {
        float x[12 * 80], w[5 * 80], bias[] = {1, 2, 3, 4, 5};
        harness_random random = {4};
        harness_fill(&random, x, 12 * 80, 1);
        harness_fill(&random, w, 5 * 80, 1);
        for (int k = 0; k < 80; k++) {
            x[80 + k] = 0;
            x[4 * 80 + k] = 1e-35f;
        }
        x[2 * 80 + 79] = INFINITY;
        x[3 * 80] = NAN;
        tfm_param weight = bytes_of(w, 5, 80);
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, m, 80), y = {0}, tb = HARNESS_TENSOR(TFM_F32, bias, 5);
        harness_ok(tfm_linear(harness_context(), &y, tx, &weight, tb, TFM_NO_ACTIVATION));
        float *got = harness_floats(y);
        for (int i = 0; i < m * 5; i++) {
            assert_true((i / 5 == 2 || i / 5 == 3) == (isnan(got[i]) != 0));
            if (i / 5 == 1 || i / 5 == 4)
                assert_true(got[i] == bias[i % 5]);
        }
        free(got);
        tfm_param_free(harness_context(), &weight);
    }
}

/* An int8 table as an embedding, and some of its rows as a parameter. */
static void test_int8_embedding_table_is_dequantized(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float table[9 * 35], places[6 * 35];
    const int32_t ids[] = {3, 8, 0, 8, 5, 9};
    double want[5 * 35];
    harness_random random = {5};
    fill_whole(&random, table, 9, 35, 3);
    harness_fill(&random, places, 6 * 35, 1);
    for (int i = 0; i < 5 * 35; i++)
        want[i] = 0.5 * (double)table[ids[i / 35] * 35 + i % 35] + (double)places[35 + i];
    tfm_param param = bytes_of(table, 9, 35), some = {0};
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, 6, 35), ti = HARNESS_TENSOR(TFM_I32, ids, 6), z = {0};
    tfm_tensor tp = HARNESS_TENSOR(TFM_F32, places, 6, 35), few = HARNESS_TENSOR(TFM_I32, ids, 5);
    harness_refused(tfm__embedding_param(ctx, &y, &param, ti, 0.5f, tp, 1, NULL), TFM_ERROR_ARGUMENT, "positions");
    y = HARNESS_TENSOR(TFM_F32, NULL, 5, 35);
    harness_ok(tfm__embedding_param(ctx, &y, &param, few, 0.5f, tp, 1, NULL));
    harness_guards(y);
    float *got = harness_floats(y);
    harness_close(got, want, 5 * 35, 1e-6, "embedding");
    free(got);
    harness_ok(tfm__embedding_param(ctx, &z, &param, ti, 1, (tfm_tensor){0}, 0, NULL));
    got = harness_floats(z);
    assert_true(isnan(got[5 * 35]) && isnan(got[6 * 35 - 1]) && !isnan(got[5 * 35 - 1]));
    free(got);
    harness_ok(tfm__param_rows(ctx, &some, &param, few));
    int8_t all[9 * 35], kept[5 * 35];
    harness_ok(tfm_tensor_read(ctx, all, param.value));
    harness_ok(tfm_tensor_read(ctx, kept, some.value));
    for (int i = 0; i < 5; i++)
        assert_memory_equal(kept + i * 35, all + ids[i] * 35, 35);
    float *scales = harness_floats(some.scales);
    harness_close(scales, (double[]){1, 1, 1, 1, 1}, 5, 1e-7, "scales");
    free(scales);
    tfm_param_free(ctx, &some);
    tfm_param_free(ctx, &param);
}

static void test_int8_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float w[6] = {1, 2, 3, 4, 5, INFINITY};
    tfm_param bad = {0}, flat = {0}, good;
    tfm_tensor y = {0}, x = HARNESS_TENSOR(TFM_F32, w, 2, 3), wide = HARNESS_TENSOR(TFM_F32, w, 1, 5);
    harness_ok(tfm_tensor_new(ctx, &bad.value, TFM_F32, 2, (int64_t[]){2, 3}));
    harness_ok(tfm_tensor_write(ctx, bad.value, w));
    harness_refused(tfm_param_quantize(ctx, &bad), TFM_ERROR_ARGUMENT, "row 1");
    harness_ok(tfm_tensor_new(ctx, &flat.value, TFM_F32, 1, (int64_t[]){6}));
    harness_refused(tfm_param_quantize(ctx, &flat), TFM_ERROR_ARGUMENT, "(N, K)");
    w[5] = 6;
    good = bytes_of(w, 2, 3);
    harness_refused(tfm_param_quantize(ctx, &good), TFM_ERROR_ARGUMENT, "dtype");
    harness_refused(tfm_linear(ctx, &y, wide, &good, (tfm_tensor){0}, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT, "fit");
    harness_refused(tfm_linear(ctx, &y, x, &good, x, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT, "bias");
    tfm_param bare = good;
    bare.scales = (tfm_tensor){0};
    harness_refused(tfm_linear(ctx, &y, x, &bare, (tfm_tensor){0}, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT, "empty");
    harness_refused(
        tfm_embedding(ctx, &y, good.value, HARNESS_TENSOR(TFM_I32, ((int32_t[]){0}), 1), 1, (tfm_tensor){0}, 0),
        TFM_ERROR_ARGUMENT, "dtype");
    tfm_param_free(ctx, &bad);
    tfm_param_free(ctx, &flat);
    tfm_param_free(ctx, &good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_gemm_of_whole_numbers_is_exact),
        cmocka_unit_test(test_int8_gemm_of_extreme_values_does_not_overflow),
        cmocka_unit_test(test_int8_gemm_error_is_within_rounding),
        cmocka_unit_test(test_int8_gemm_activations_are_right),
        cmocka_unit_test(test_int8_embedding_table_is_dequantized),
        cmocka_unit_test(test_int8_gemm_isolates_non_finite_rows),
        cmocka_unit_test(test_int8_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
