/* GEMMs with bf16 weights by CPU instructions and their emulation, against double precision over bf16-rounded inputs;
 * and the fallback if an instruction is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "support/scratch.h"

typedef struct layer {
    int64_t m, n, k;
    bool biased;
    tfm_activation activation;
} layer;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

/* A fresh context with no validation results. */
static void again(void **state) {
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

static void need_wide(void) {
    if (tuning()->class != TFM__CLASS_CPU) {
        printf("skipped: a GPU-style device\n");
        skip();
    }
}

static uint16_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* Runs the layer by `cpu-bf16`, or with `any`, by the chosen provider. Returns why it declined, or NULL. */
static const char *check(bool any, layer l) {
    static harness_random random = {1};
    tfm_context *ctx = harness_context();
    float *x = malloc((size_t)(l.m * l.k) * sizeof(*x)), *bias = malloc((size_t)l.n * sizeof(*bias));
    float *w = malloc((size_t)(l.n * l.k) * sizeof(*w));
    uint16_t *bits = malloc((size_t)(l.n * l.k) * sizeof(*bits));
    double *want = malloc((size_t)(l.m * l.n) * sizeof(*want));
    assert_true(x && bias && w && bits && want);
    harness_fill(&random, x, (size_t)(l.m * l.k), 1);
    harness_fill(&random, bias, (size_t)l.n, 1);
    harness_fill(&random, w, (size_t)(l.n * l.k), 1);
    for (int64_t i = 0; i < l.n * l.k; i++) {
        w[i] = (float)harness_rounded((double)w[i], 8);
        bits[i] = bits_of(w[i]);
    }
    for (int64_t e = 0; e < l.m * l.n; e++) {
        double sum = l.biased ? (double)bias[e % l.n] : 0;
        for (int64_t p = 0; p < l.k; p++)
            sum += harness_rounded((double)x[e / l.n * l.k + p], 8) * (double)w[e % l.n * l.k + p];
        want[e] = l.activation == TFM_RELU ? fmax(sum, 0) : l.activation == TFM_SILU ? sum / (1 + exp(-sum)) : sum;
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_BF16, bits, l.n, l.k)};
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, l.m, l.k), y = HARNESS_TENSOR(TFM_F32, NULL, l.m, l.n);
    tfm_tensor tb = l.biased ? HARNESS_TENSOR(TFM_F32, bias, l.n) : (tfm_tensor){0};
    const char *why = NULL;
    harness_ok(tfm_linear_with(ctx, any ? NULL : "cpu-bf16", &why, &y, tx, &weight, tb, l.activation));
    if (!why) {
        char what[96];
        snprintf(what, sizeof(what), "%s: m %d, n %d, k %d", tuning()->mma_emulated ? "emulated" : "instruction",
                 (int)l.m, (int)l.n, (int)l.k);
        float *got = harness_floats(y);
        /* Another provider does not round: then compare at 8 bits */
        harness_close(got, want, (size_t)(l.m * l.n), any ? 0.3 : 2e-5, what);
        harness_guards(y);
        free(got);
    }
    tfm_param_free(ctx, &weight);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x);
    free(bias);
    free(w);
    free(bits);
    free(want);
    return why;
}

/* Full and partial tiles, odd rows, columns and K, and every epilogue. */
static void check_shapes(void) {
    const int64_t sizes[][3] = {{9, 32, 64},   {12, 33, 2},    {13, 1, 1},     {20, 64, 3},   {21, 65, 37},
                                {24, 96, 128}, {100, 31, 130}, {37, 128, 259}, {61, 257, 66}, {128, 48, 512}};
    for (int i = 0; i < 10; i++)
        assert_null(check(false, (layer){sizes[i][0], sizes[i][1], sizes[i][2], i % 3 != 1,
                                         i % 4 == 1   ? TFM_RELU
                                         : i % 4 == 3 ? TFM_SILU
                                                      : TFM_NO_ACTIVATION}));
    /* With split-K an activation applies to the complete sum, also at edges. */
    const layer pieces[] = {
        {33, 64, 600, true, TFM_SILU}, {70, 45, 1100, false, TFM_SILU}, {9, 31, 515, true, TFM_RELU}};
    for (int i = 0; i < 3; i++)
        assert_null(check(false, pieces[i]));
}

static void test_emulated_bf16_gemm_matches_rounded_inputs(void **state) {
    need_wide();
    for (int tiles = 0; tiles < 2; tiles++) {
        tuning()->mma_emulated = true;
        tuning()->amx_bf16 = tiles;
        check_shapes();
        again(state);
    }
}

/* Vector and tile instructions. */
static void test_native_bf16_gemm_matches_rounded_inputs(void **state) {
    need_wide();
    if (!tuning()->avx512_bf16 || tuning()->width != 16) {
        printf("skipped: the processor has no bf16 dot products\n");
        skip();
    }
    const bool tiles = tuning()->amx_bf16;
    check_shapes();
    if (tiles) {
        again(state);
        tuning()->amx_bf16 = false;
        check_shapes();
        again(state);
    }
    /* It is the default for such layers, except for few rows, which stay fp32. */
    tfm_param weight = {0};
    tfm__gemm_task task = {.batch = 1, .m = 64, .n = 64, .k = 64, .transpose_b = true, .shared_b = true, .alpha = 1};
    task.b.dtype = TFM_BF16;
    task.weight = &weight;
    assert_ptr_equal(tfm__gemm_select(harness_context(), &task), &tfm__gemm_cpu_bf16);
    task.m = tuning()->gemm_mr_tail;
    assert_ptr_equal(tfm__gemm_select(harness_context(), &task), &tfm__gemm_cpu_skinny);
}

/* Without the option nothing is rounded. */
static void test_bf16_gemm_declines_fp32_and_few_rows(void **state) {
    (void)state;
    need_wide();
    tfm_context *ctx = harness_context();
    tfm_param weight = {0};
    tfm__gemm_task task = {.batch = 1, .m = 64, .n = 64, .k = 64, .transpose_b = true, .shared_b = true, .alpha = 1};
    const tfm__tuning own = *tuning();
    task.weight = &weight;
    task.b.dtype = TFM_BF16;
    tuning()->avx512_bf16 = tuning()->amx_bf16 = false;
    assert_non_null(strstr(tfm__gemm_cpu_bf16.declines(ctx, &task), "the processor has no"));
    tuning()->mma_emulated = true;
    assert_null(tfm__gemm_cpu_bf16.declines(ctx, &task));
    for (tfm_dtype dtype = TFM_F32; dtype <= TFM_F16; dtype++) {
        task.b.dtype = dtype;
        assert_non_null(strstr(tfm__gemm_cpu_bf16.declines(ctx, &task), "it is for bf16 weights"));
    }
    task.b.dtype = TFM_BF16;
    task.m = tuning()->gemm_mr_tail;
    assert_non_null(strstr(tfm__gemm_cpu_bf16.declines(ctx, &task), "more than 8 rows"));
    *tuning() = own;
}

/* NaN and infinity of a row stay in it. */
static void test_bf16_gemm_keeps_nan_and_infinity_in_their_row(void **state) {
    need_wide();
    for (int form = 0; form < 4; form++) {
        const bool emulated = form / 2, tiles = form % 2;
        tfm_context *ctx = harness_context();
        enum { M = 13, N = 37, K = 5 };
        float x[M][K];
        uint16_t w[N][K];
        if (!emulated && (tuning()->width != 16 || !(tiles ? tuning()->amx_bf16 : tuning()->avx512_bf16)))
            continue;
        tuning()->mma_emulated = emulated;
        tuning()->amx_bf16 = tiles;
        for (int i = 0; i < M * K; i++)
            x[i / K][i % K] = 1;
        for (int i = 0; i < N * K; i++)
            w[i / K][i % K] = bits_of(1);
        x[3][4] = NAN;
        x[4][0] = INFINITY;
        x[5][2] = 3.3e38f;
        harness_ok(tfm_scope_open(ctx));
        tfm_param weight = {.value = HARNESS_TENSOR(TFM_BF16, w, N, K)};
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, M, K), y = {0};
        const char *why;
        harness_ok(tfm_linear_with(ctx, "cpu-bf16", &why, &y, tx, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION));
        assert_null(why);
        float *got = harness_floats(y);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                const float v = got[i * N + j];
                assert_true(i == 3 ? isnan(v) : i == 4 ? isinf(v) : i == 5 ? v > 3.2e38f && isfinite(v) : v == K);
            }
        free(got);
        tfm_param_free(ctx, &weight);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        again(state);
    }
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level == TFM_LOG_WARNING && strstr(line, "bf16 GEMM") != NULL;
}

/* Wrong instructions: the first GEMM detects each, another provider computes it, and one warning per instruction is
 * logged. */
static void test_wrong_bf16_kernel_is_replaced_with_one_warning(void **state) {
    need_wide();
    size_t size;
    char *text = scratch_source("cl/gemm/bf16_pack.cl", &size);
    const char *right = "FLOATS(x << 16), FLOATS(w << 16)", *wrong = "FLOATS(x << 17), FLOATS(w << 16)";
    size_t at = 0;
    while (at < size && strncmp(text + at, right, strlen(right)) != 0)
        at++;
    assert_true(at < size && strlen(right) == strlen(wrong));
    memcpy(text + at, wrong, strlen(wrong));
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("bf16_pack.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    for (int tiles = 0; tiles < 2; tiles++) {
        again(state);
        warnings = 0;
        tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
        tuning()->mma_emulated = true;
        tuning()->amx_bf16 = tiles && tuning()->width == 16;
        const int wanted = tuning()->amx_bf16 ? 2 : 1;
        for (int i = 0; i < 2; i++) {
            assert_null(check(true, (layer){33, 35, 40, true, TFM_NO_ACTIVATION}));
            assert_int_equal(warnings, wanted);
        }
        assert_non_null(strstr(check(false, (layer){33, 35, 40, true, TFM_NO_ACTIVATION}), "wrong"));
        tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    }
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emulated_bf16_gemm_matches_rounded_inputs),
        cmocka_unit_test(test_native_bf16_gemm_matches_rounded_inputs),
        cmocka_unit_test(test_bf16_gemm_declines_fp32_and_few_rows),
        cmocka_unit_test(test_bf16_gemm_keeps_nan_and_infinity_in_their_row),
        cmocka_unit_test(test_wrong_bf16_kernel_is_replaced_with_one_warning),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
