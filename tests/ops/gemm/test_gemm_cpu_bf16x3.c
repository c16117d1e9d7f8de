/* bf16x3: fp32 GEMMs by AMX tiles, each float split into three bf16 values, and by emulated tiles, against double
 * precision with fp32 accuracy; and the fallback if tiles are wrong. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "support/scratch.h"

typedef struct problem {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    bool weight; /* b is a parameter with a packed copy */
    bool bias, accumulate;
    float alpha;
    tfm_activation activation;
} problem;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

/* A fresh context with no validation results. */
static void again(void **state) {
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* Vectors of 16 floats; compilers split them on narrower CPUs. */
static void need_wide(void **state) {
    if (tuning()->width != 16 && strncmp(harness_context()->info.platform, "Intel", 5) == 0) {
        printf("skipped: Intel's compiler takes half an hour to split vectors of 16\n");
        skip();
    }
    if (tuning()->class == TFM__CLASS_CPU && tuning()->width != 16 && !getenv("TFM_TEST_VARIANT")) {
        setenv("TFM_TEST_VARIANT", "cpu-512", 1);
        again(state);
        unsetenv("TFM_TEST_VARIANT");
    }
    if (tuning()->class != TFM__CLASS_CPU || tuning()->width != 16) {
        printf("skipped: the device does not use vectors of 16 floats\n");
        skip();
    }
}

static bool has_tiles(void) {
    return tuning()->amx_bf16 && tfm__amx_allowed();
}

static void emulate(void) {
    tuning()->mma_emulated = tuning()->amx_bf16 = true;
}

static float *numbers(harness_random *random, int64_t count) {
    float *host = malloc((size_t)count * sizeof(*host));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, 1);
    return host;
}

/* The exact element, and in *size the sum of its terms' magnitudes, for the fp32 error bound. */
static double wanted(const problem *p, const float *a, const float *b, const float *bias, const float *before,
                     int64_t e, double *size) {
    const int64_t i = e / p->n, j = e % p->n;
    const double alpha = p->alpha != 0 ? (double)p->alpha : 1;
    double sum = 0;
    *size = 0;
    for (int64_t x = 0; x < p->k; x++) {
        const double term = alpha * (double)a[p->transpose_a ? x * p->m + i : i * p->k + x] *
                            (double)b[p->transpose_b ? j * p->k + x : x * p->n + j];
        sum += term;
        *size += fabs(term);
    }
    const double more = (bias ? (double)bias[j] : 0) + (before ? (double)before[e] : 0);
    sum += more;
    *size += fabs(more);
    return p->activation == TFM_RELU ? fmax(sum, 0) : p->activation == TFM_SILU ? sum / (1 + exp(-sum)) : sum;
}

/* Runs a GEMM by `provider`; NULL is the default. Returns why it declined, or NULL. */
static const char *run(const char *provider, problem p, const float *a, const float *b, harness_random *random) {
    tfm_context *ctx = harness_context();
    float *bias = p.bias ? numbers(random, p.n) : NULL, *before = p.accumulate ? numbers(random, p.m * p.n) : NULL;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor ta = p.transpose_a ? HARNESS_TENSOR(TFM_F32, a, p.k, p.m) : HARNESS_TENSOR(TFM_F32, a, p.m, p.k);
    tfm_tensor tb = p.transpose_b ? HARNESS_TENSOR(TFM_F32, b, p.n, p.k) : HARNESS_TENSOR(TFM_F32, b, p.k, p.n);
    tfm_tensor c = HARNESS_TENSOR(TFM_F32, before, p.m, p.n);
    tfm_tensor tbias = bias ? HARNESS_TENSOR(TFM_F32, bias, p.n) : (tfm_tensor){0};
    tfm_param weight = {.value = tb};
    const char *why = NULL;
    if (p.weight)
        harness_ok(tfm_linear_with(ctx, provider, &why, &c, ta, &weight, tbias, p.activation));
    else
        harness_ok(tfm_gemm_with(ctx, provider, &why, &c, ta, tb,
                                 &(tfm_gemm_options){.transpose_a = p.transpose_a,
                                                     .transpose_b = p.transpose_b,
                                                     .alpha = p.alpha,
                                                     .accumulate = p.accumulate,
                                                     .bias = tbias,
                                                     .activation = p.activation}));
    if (!why) {
        float *got = harness_floats(c);
        for (int64_t e = 0; e < p.m * p.n; e++) {
            double size;
            const double want = wanted(&p, a, b, bias, before, e, &size), error = fabs((double)got[e] - want);
            /* The error of a sum of k floats grows as sqrt(k); terms below the smallest normal float may be lost. */
            const double most = size * 0x1p-24 * (4 + 2 * sqrt((double)p.k)) + FLT_MIN * (double)p.k;
            if (!(error <= most))
                fail_msg("%s, %dx%dx%d%s%s%s: element %d is %.9g and should be %.9g",
                         tuning()->mma_emulated ? "emulated" : "instruction", (int)p.m, (int)p.n, (int)p.k,
                         p.transpose_a ? ", a transposed" : "", p.transpose_b ? ", b transposed" : "",
                         p.weight ? ", a weight" : "", (int)e, (double)got[e], want);
        }
        harness_guards(c);
        free(got);
    }
    tfm_tensor_free(ctx, &weight.packed); /* the scope owns the value */
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(bias);
    free(before);
    return why;
}

static const char *check(const char *provider, problem p) {
    static harness_random random = {1};
    float *a = numbers(&random, p.m * p.k), *b = numbers(&random, p.k * p.n);
    const char *why = run(provider, p, a, b, &random);
    free(a);
    free(b);
    return why;
}

/* Full and partial blocks, rows, columns and panels, odd K, K in segments of 512, more than the 8 panels of 32 columns
 * per pass; and every layout and epilogue. */
static void check_products(void) {
    const int64_t sizes[][3] = {{32, 32, 32},  {64, 64, 512},  {1, 1, 1},      {33, 33, 33},    {31, 65, 2},
                                {96, 31, 130}, {45, 300, 37},  {40, 96, 1100}, {70, 45, 515},   {9, 600, 64},
                                {130, 17, 96}, {256, 256, 48}, {37, 128, 600}, {100, 288, 1024}};
    for (int i = 0; i < 14; i++)
        for (int form = 0; form < 5; form++) {
            if (harness_brief() && (i + form) % 2)
                continue;
            problem p = {.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2]};
            p.weight = form == 4;
            p.transpose_a = form == 1 || form == 3;
            p.transpose_b = form >= 2;
            p.bias = (i + form) % 3 != 0;
            p.accumulate = !p.weight && (i + form) % 3 == 0;
            p.alpha = !p.weight && (i + form) % 5 == 1 ? -0.75f : 0;
            p.activation = p.accumulate || i % 3 == 1 ? TFM_NO_ACTIVATION : i % 3 == 2 ? TFM_RELU : TFM_SILU;
            assert_null(check("cpu-bf16x3", p));
        }
}

static void test_emulated_bf16x3_gemm_matches_fp32(void **state) {
    need_wide(state);
    emulate();
    check_products();
    again(state);
}

static void test_native_bf16x3_gemm_matches_fp32(void **state) {
    need_wide(state);
    if (!has_tiles()) {
        printf("skipped: the CPU has no AMX bf16 tiles\n");
        skip();
    }
    check_products();
    again(state);
}

/* Large fp32 GEMMs use tiles if available; small ones and bf16-rounded ones do not. */
static void test_bf16x3_is_selected_for_large_fp32_gemm(void **state) {
    need_wide(state);
    tfm_context *ctx = harness_context();
    tfm__gemm_task task = {.batch = 1, .m = 1024, .n = 512, .k = 512, .shared_b = true, .alpha = 1};
    const bool tiles = has_tiles();
    assert_ptr_equal(tfm__gemm_select(ctx, &task), tiles ? &tfm__gemm_cpu_bf16x3 : &tfm__gemm_cpu_packed);
    if (tiles)
        assert_string_equal(tfm_gemm_select(ctx, 1024, 512, 512), "cpu-bf16x3");
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(ctx, TFM_BF16);
    assert_ptr_not_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_cpu_bf16x3);
    assert_non_null(strstr(tfm__gemm_cpu_bf16x3.declines(ctx, &task), tiles ? "may not be rounded" : "bf16"));
    tfm__context_set_gemm_input_dtype(ctx, before);
    task.m = 255;
    assert_ptr_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_cpu_packed);
    task.m = 1024;
    task.n = 64;
    assert_ptr_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_cpu_packed);
    task.n = 512;
    task.batch = 2;
    assert_ptr_not_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_cpu_bf16x3);
    task.batch = 1;
    tuning()->amx_bf16 = false;
    assert_non_null(strstr(tfm__gemm_cpu_bf16x3.declines(ctx, &task), "no bf16 AMX tiles"));
    again(state);
}

static void in_each_form(void **state, void (*body)(void)) {
    need_wide(state);
    if (has_tiles()) {
        body();
        again(state);
        need_wide(state);
    }
    emulate();
    body();
    again(state);
}

/* Results larger than the caches: with vector-aligned rows they use streaming stores if K is one segment. */
static void check_large(void) {
    for (int aligned = 0; aligned < 2; aligned++) {
        harness_align(aligned ? 16 : 0);
        assert_null(
            check("cpu-bf16x3", (problem){.m = 2049, .n = 1040, .k = 33, .bias = true, .activation = TFM_RELU}));
        assert_null(check("cpu-bf16x3", (problem){.m = 2048, .n = 1024, .k = 31, .accumulate = true}));
        assert_null(check("cpu-bf16x3", (problem){.m = 2048, .n = 1033, .k = 32, .alpha = -0.75f}));
        assert_null(
            check("cpu-bf16x3", (problem){.m = 2048, .n = 1024, .k = 17, .bias = true, .activation = TFM_SILU}));
        if (!harness_brief())
            assert_null(check("cpu-bf16x3", (problem){.m = 2048, .n = 1056, .k = 515, .bias = true}));
    }
    harness_align(0);
}

static void test_bf16x3_large_gemm_is_right(void **state) {
    in_each_form(state, check_large);
}

/* Each row of a and column of b has its own magnitude, from 2^-60 to 2^60. */
static void check_sizes(void) {
    enum { M = 70, N = 90, K = 77 };
    harness_random random = {3};
    float *a = numbers(&random, M * K), *b = numbers(&random, K * N);
    for (int i = 0; i < M * K; i++)
        a[i] = ldexpf(a[i], i / K * 120 / (M - 1) - 60);
    for (int i = 0; i < K * N; i++)
        b[i] = ldexpf(b[i], i % N * 120 / (N - 1) - 60);
    assert_null(run("cpu-bf16x3", (problem){.m = M, .n = N, .k = K}, a, b, &random));
    free(a);
    free(b);
}

static void test_bf16x3_handles_tiny_and_huge_numbers(void **state) {
    in_each_form(state, check_sizes);
}

/* Each of the six partial products alone: the others cancel. Values with three parts are 1, 2^-9 and 2^-18, and the
 * result is exact. */
static void check_shares(void) {
    enum { M = 33, N = 35, K = 70 };
    static const struct {
        float a[2], b[2];
        double want;
    } cases[] = {{{1, 0}, {1, 0}, 1},
                 {{1 + 0x1p-9f, -1}, {1, 1}, 0x1p-9},
                 {{1, 1}, {1 + 0x1p-9f, -1}, 0x1p-9},
                 {{1 + 0x1p-9f, -1 - 0x1p-8f}, {1 + 0x1p-9f, 1}, 0x1p-18},
                 {{1 + 0x1p-9f + 0x1p-18f, -1 - 0x1p-9f}, {1, 1}, 0x1p-18},
                 {{1, 1}, {1 + 0x1p-9f + 0x1p-18f, -1 - 0x1p-9f}, 0x1p-18}};
    for (int i = 0; i < 6; i++)
        for (int form = 0; form < 4; form++) {
            tfm_context *ctx = harness_context();
            static float a[M * K], b[K * N];
            const int at = 17 * form + i; /* its position along K */
            memset(a, 0, sizeof(a));
            memset(b, 0, sizeof(b));
            for (int two = 0; two < 2; two++) {
                for (int row = 0; row < M; row++)
                    a[form & 1 ? (at + two) * M + row : row * K + at + two] = cases[i].a[two];
                for (int column = 0; column < N; column++)
                    b[form & 2 ? column * K + at + two : (at + two) * N + column] = cases[i].b[two];
            }
            harness_ok(tfm_scope_open(ctx));
            tfm_tensor ta = form & 1 ? HARNESS_TENSOR(TFM_F32, a, K, M) : HARNESS_TENSOR(TFM_F32, a, M, K);
            tfm_tensor tb = form & 2 ? HARNESS_TENSOR(TFM_F32, b, N, K) : HARNESS_TENSOR(TFM_F32, b, K, N), c = {0};
            const char *why;
            harness_ok(
                tfm_gemm_with(ctx, "cpu-bf16x3", &why, &c, ta, tb,
                              &(tfm_gemm_options){.transpose_a = (form & 1) != 0, .transpose_b = (form & 2) != 0}));
            assert_null(why);
            float *got = harness_floats(c);
            for (int e = 0; e < M * N; e++)
                if ((double)got[e] != cases[i].want)
                    fail_msg("%s, case %d, form %d: element %d is %.9g and should be %.9g",
                             tuning()->mma_emulated ? "emulated" : "instruction", i, form, e, (double)got[e],
                             cases[i].want);
            free(got);
            harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
}

static void test_bf16x3_shares_sum_to_the_float(void **state) {
    in_each_form(state, check_shares);
}

/* NaN and infinity stay in their row or column and fill it; values that bf16 would round to infinity stay finite; bf16
 * subnormals do no harm. Blocks meet such values in the first K segment, the second, or none; the bias is added once.
 * */
static void check_special(void) {
    enum { M = 67, N = 70, K = 600 };
    static float a[M][K], b[K][N], given[M * K];
    const float large = 3.4e38f;
    float bias[N];
    for (int i = 0; i < M * K; i++)
        a[i / K][i % K] = 1;
    for (int i = 0; i < N * K; i++)
        b[i / N][i % N] = 1;
    for (int j = 0; j < N; j++)
        bias[j] = (float)(1000 + j);
    a[3][4] = NAN;
    a[5][2] = large;
    a[7][1] = 1e-40f;
    a[40][599] = INFINITY;
    b[9][68] = INFINITY;
    b[8][66] = -large;
    for (int transpose = 0; transpose < 2; transpose++) {
        tfm_context *ctx = harness_context();
        for (int i = 0; i < M * K; i++)
            given[transpose ? i % K * M + i / K : i] = a[i / K][i % K];
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor ta = transpose ? HARNESS_TENSOR(TFM_F32, given, K, M) : HARNESS_TENSOR(TFM_F32, given, M, K);
        tfm_tensor tb = HARNESS_TENSOR(TFM_F32, b, K, N), c = {0};
        const tfm_gemm_options options = {.transpose_a = transpose, .bias = HARNESS_TENSOR(TFM_F32, bias, N)};
        const char *why;
        harness_ok(tfm_gemm_with(ctx, "cpu-bf16x3", &why, &c, ta, tb, &options));
        assert_null(why);
        float *got = harness_floats(c);
        for (int e = 0; e < M * N; e++) {
            const int i = e / N, j = e % N;
            double want = (double)bias[j], size = want;
            for (int p = 0; p < K; p++) {
                want += (double)a[i][p] * (double)b[p][j];
                size += fabs((double)a[i][p] * (double)b[p][j]);
            }
            if (isnan(want) || isinf(want))
                assert_true(isnan(want) ? isnan(got[e]) : (double)got[e] == want);
            else if (!(fabs((double)got[e] - want) <= size * 0x1p-20))
                fail_msg("%s: element (%d, %d) is %.9g and should be %.9g",
                         tuning()->mma_emulated ? "emulated" : "instruction", i, j, (double)got[e], want);
        }
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

static void test_bf16x3_keeps_nan_and_infinity_in_their_row(void **state) {
    in_each_form(state, check_special);
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level == TFM_LOG_WARNING && strstr(line, "AMX tiles gave wrong results") != NULL;
}

/* Tiles that drop the smallest part: the first GEMM detects it, another provider computes it, and one warning is
 * logged. */
static void test_wrong_bf16x3_kernel_is_replaced_with_one_warning(void **state) {
    need_wide(state);
    size_t size;
    char *text = scratch_source("cl/gemm/gemm_cpu_bf16x3.cl", &size);
    const char *right = "for (int q = SPLIT - 1; q >= 0; q--) {", *wrong = "for (int q = SPLIT - 2; q >= 0; q--) {";
    size_t at = 0;
    while (at < size && strncmp(text + at, right, strlen(right)) != 0)
        at++;
    assert_true(at < size && strlen(right) == strlen(wrong));
    memcpy(text + at, wrong, strlen(wrong));
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("gemm_cpu_bf16x3.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    need_wide(state);
    emulate();
    warnings = 0;
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    for (int i = 0; i < 2; i++) {
        assert_null(check(NULL, (problem){.m = 300, .n = 512, .k = 512}));
        assert_int_equal(warnings, 1);
    }
    assert_non_null(strstr(check("cpu-bf16x3", (problem){.m = 33, .n = 35, .k = 40}), "wrong"));
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

/* The estimated pool memory matches the real one. */
static void test_bf16x3_memory_estimate_holds(void **state) {
    need_wide(state);
    emulate();
    tfm_context *ctx = harness_context();
    assert_null(check("cpu-bf16x3", (problem){.m = 64, .n = 64, .k = 64})); /* its validation is over */
    const tfm__gemm_task task = {.batch = 1, .m = 300, .n = 700, .k = 90, .shared_b = true, .alpha = 1};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, task.m, task.k), b = HARNESS_TENSOR(TFM_F32, NULL, task.k, task.n);
    tfm_tensor c = HARNESS_TENSOR(TFM_F32, NULL, task.m, task.n), ballast = {0};
    tfm__pool_trim(ctx); /* and a ballast: nothing is reused, and what is taken exceeds the peak of earlier tests */
    harness_ok(tfm_tensor_new(ctx, &ballast, TFM_U8, 1, (int64_t[]){(int64_t)tfm_context_peak_memory(ctx)}));
    const uint64_t before = tfm_context_peak_memory(ctx), told = tfm__gemm_cpu_bf16x3.memory(ctx, &task);
    const char *why;
    harness_ok(tfm_gemm_with(ctx, "cpu-bf16x3", &why, &c, a, b, NULL));
    assert_null(why);
    const uint64_t taken = tfm_context_peak_memory(ctx) - before;
    assert_true(taken > 0 && taken <= told);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    again(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emulated_bf16x3_gemm_matches_fp32),
        cmocka_unit_test(test_native_bf16x3_gemm_matches_fp32),
        cmocka_unit_test(test_bf16x3_is_selected_for_large_fp32_gemm),
        cmocka_unit_test(test_bf16x3_large_gemm_is_right),
        cmocka_unit_test(test_bf16x3_shares_sum_to_the_float),
        cmocka_unit_test(test_bf16x3_handles_tiny_and_huge_numbers),
        cmocka_unit_test(test_bf16x3_keeps_nan_and_infinity_in_their_row),
        cmocka_unit_test(test_wrong_bf16x3_kernel_is_replaced_with_one_warning),
        cmocka_unit_test(test_bf16x3_memory_estimate_holds),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
