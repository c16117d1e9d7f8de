/* Emulated MMA with 16-bit weights: GEMMs against double precision over rounded inputs, fp16 overflow, when MMA is
 * chosen, and models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "support/scratch.h"
#include "tfm/model.h"

static const tfm_dtype DTYPES[] = {TFM_F16, TFM_BF16};

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

static void require_gpu_class(void) {
    if (tuning()->class != TFM__CLASS_GPU) {
        printf("skipped: a CPU-style device\n");
        skip();
    }
}

/* A fresh context with no validation results. */
static void again(void **state) {
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

static tfm__gemm_task square(int64_t size, tfm_dtype stored) {
    tfm__gemm_task task = {.batch = 1, .m = size, .n = size, .k = size, .shared_b = true, .alpha = 1};
    task.transpose_b = true;
    task.b.dtype = stored;
    return task;
}

/* The emulation of this instruction, if it has this dtype and the device has room for the tile; else false. */
static bool pose(tfm__mma mma_kind, tfm_dtype stored, int tile) {
    const tfm__gemm_task task = square(64, stored);
    tuning()->mma = mma_kind;
    tuning()->mma_emulated = true;
    tuning()->gemm_tile = tile;
    return !tfm__gemm_gpu_mma.declines(harness_context(), &task);
}

/* The nearest number of so many bits, ties to even. */
static double rounded(double x, tfm_dtype dtype) {
    const int bits = dtype == TFM_BF16 ? 8 : 11;
    return harness_rounded(x, bits);
}

/* Random numbers as a tensor: in F32, or in 16 bits. */
static float *operand(tfm_tensor *out, tfm_dtype dtype, int64_t rows, int64_t columns, harness_random *random) {
    float *host = malloc((size_t)(rows * columns) * sizeof(*host));
    assert_non_null(host);
    harness_fill(random, host, (size_t)(rows * columns), 1);
    tfm_tensor raw = HARNESS_TENSOR(TFM_F32, host, rows, columns);
    *out = raw;
    if (dtype != TFM_F32) {
        *out = (tfm_tensor){0};
        harness_ok(tfm_cast(harness_context(), out, raw, dtype));
    }
    return host;
}

/* One GEMM by emulated MMA, of matrices that are transposed or not. */
static void check(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, tfm_dtype stored) {
    static harness_random random = {5};
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm__gemm_task task = {.batch = 1, .m = m, .n = n, .k = k, .shared_b = true, .alpha = 0.5f};
    task.transpose_a = transpose_a;
    task.transpose_b = transpose_b;
    float *a = operand(&task.a, TFM_F32, transpose_a ? k : m, transpose_a ? m : k, &random);
    float *b = operand(&task.b, stored, transpose_b ? n : k, transpose_b ? k : n, &random);
    task.c = HARNESS_TENSOR(TFM_F32, NULL, m, n);
    double *want = calloc((size_t)(m * n), sizeof(*want));
    assert_non_null(want);
    for (int64_t i = 0; i < m * n; i++)
        for (int64_t p = 0; p < k; p++)
            want[i] += 0.5 * rounded((double)a[transpose_a ? p * m + i / n : i / n * k + p], stored) *
                       rounded((double)b[transpose_b ? i % n * k + p : p * n + i % n], stored);
    assert_null(tfm__gemm_gpu_mma.declines(ctx, &task));
    harness_ok(tfm__gemm_dispatch(ctx, &tfm__gemm_gpu_mma, &task));
    assert_null(tfm__gemm_gpu_mma.declines(ctx, &task)); /* else another provider computed it */
    char what[128];
    snprintf(what, sizeof(what), "MMA %d, b of %s: m %d, n %d, k %d%s%s", (int)tuning()->mma, tfm_dtype_name(stored),
             (int)m, (int)n, (int)k, transpose_a ? ", a transposed" : "", transpose_b ? ", b transposed" : "");
    float *got = harness_floats(task.c);
    harness_close(got, want, (size_t)(m * n), 2e-5, what);
    harness_guards(task.c);
    free(got);
    free(want);
    free(a);
    free(b);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Each instruction and both dtypes, with alternating transposes and odd sizes: each is a separate program. */
static void test_mma_half_weight_gemm_matches_rounded_inputs(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    int ran = 0;
    for (int mma_kind = TFM__MMA_M16N8K16; mma_kind < TFM__MMA_COUNT; mma_kind++)
        for (int d = 0; d < 2; d++) {
            const int t = (mma_kind + 2 * d) % 4;
            if (!pose((tfm__mma)mma_kind, DTYPES[d], 3 + (mma_kind + d) % 2))
                continue;
            if ((mma_kind / 2 + d) % 2)
                check(37, 69, 41, t & 1, t & 2, DTYPES[d]);
            else
                check(36, 68, 68, t & 1, t & 2, DTYPES[d]);
            ran++;
        }
    assert_false(pose(TFM__MMA_M16N8K8, TFM_BF16, 0));
    *tuning() = own;
    if (ran == 0) {
        printf("skipped: no tile fits the device\n");
        skip();
    }
}

/* Inputs beyond the fp16 range give finite results; infinity and NaN are preserved. */
static void test_mma_inputs_beyond_fp16_stay_finite(void **state) {
    (void)state;
    require_gpu_class();
    enum { ROWS = 6, K = 8, N = 20 };
    const float firsts[ROWS] = {1e5f, -3e38f, 65519, INFINITY, -INFINITY, NAN};
    const float wants[2][ROWS] = {{65504, -65504, 65504, INFINITY, -INFINITY, NAN},
                                  {99840, -3.004e38f, 65536, INFINITY, -INFINITY, NAN}};
    const tfm__tuning own = *tuning();
    tfm_context *ctx = harness_context();
    for (int d = 0; d < 2 && pose(TFM__MMA_M16N8K16, DTYPES[d], 4); d++) {
        float x[ROWS * K] = {0}, w[N * K];
        for (int i = 0; i < ROWS; i++)
            x[i * K + i] = firsts[i];
        for (int i = 0; i < N * K; i++)
            w[i] = 1;
        harness_ok(tfm_scope_open(ctx));
        tfm_param weight = {0};
        tfm_tensor y = {0};
        const char *why;
        harness_ok(tfm_cast(ctx, &weight.value, HARNESS_TENSOR(TFM_F32, w, N, K), DTYPES[d]));
        harness_ok(tfm_linear_with(ctx, "gpu-mma", &why, &y, HARNESS_TENSOR(TFM_F32, x, ROWS, K), &weight,
                                   (tfm_tensor){0}, TFM_NO_ACTIVATION));
        assert_null(why);
        float *got = harness_floats(y);
        for (int i = 0; i < ROWS * N; i++) {
            const float want = wants[d][i / N];
            assert_true(isnan(want)   ? isnan(got[i]) != 0
                        : isinf(want) ? got[i] == want
                                      : fabsf(got[i] - want) <= 0.002f * fabsf(want));
            assert_true(d == 1 || i / N > 2 || got[i] == want);
        }
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    *tuning() = own;
}

/* It is the default for 16-bit weights, also if `tfm tune` has rows for F32; not for F32, and not for few rows. */
static void test_mma_is_selected_for_half_weights(void **state) {
    require_gpu_class();
    tfm_context *ctx = harness_context();
    if (strcmp(tuning()->name, "gpu") != 0 || !pose(TFM__MMA_WMMA, TFM_F16, 0)) {
        again(state);
        skip();
    }
    char name[TFM__TUNING_TEXT_MAX];
    for (int d = 0; d < 2; d++) {
        tfm__gemm_task task = square(100, DTYPES[d]), floats = square(100, TFM_F32);
        assert_ptr_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_gpu_mma);
        assert_ptr_not_equal(tfm__gemm_select(ctx, &floats), &tfm__gemm_gpu_mma);
        assert_true(tfm__gemm_tuning_key(name, &floats, TFM_F32));
        harness_ok(tfm__tuning_db_set(ctx, name, "gpu-tiled 64x64x16"));
        tfm__gemm_reload_tuning(ctx);
        assert_ptr_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_gpu_mma);
        assert_ptr_equal(tfm__gemm_select(ctx, &floats), &tfm__gemm_gpu_tiled);
        task.m = 8;
        assert_ptr_not_equal(tfm__gemm_select(ctx, &task), &tfm__gemm_gpu_mma);
    }
    again(state);
}

static unsigned long long mma_calls;

static void read_profile(void *user, tfm_log_level level, const char *line) {
    (void)user;
    (void)level;
    const char *at = strstr(line, "profile: gemm_mma ");
    if (at)
        mma_calls = strtoull(at + strlen("profile: gemm_mma "), NULL, 10);
}

/* Validation is per storage dtype of b: a kernel that is wrong for one dtype alone falls back for that dtype. */
static void test_wrong_half_load_is_replaced_for_that_dtype_only(void **state) {
    require_gpu_class();
    size_t size;
    char *text = scratch_source("cl/gemm/gemm_mma.cl", &size);
    const char *right = "(uint)(high) << 16", *wrong = "(uint)(high) << 15";
    size_t at = 0;
    while (at < size && strncmp(text + at, right, strlen(right)) != 0)
        at++;
    assert_true(at < size);
    memcpy(text + at, wrong, strlen(wrong));
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("gemm_mma.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    tfm_context *ctx = harness_context();
    tfm_log_set(read_profile, NULL, TFM_LOG_WARNING); /* without a warning */
    if (pose(TFM__MMA_M16N8K16, TFM_F16, 4)) {
        harness_random random = {6};
        tuning()->gemm_input_dtype = TFM_F16;
        for (int d = 0; d < 2; d++) {
            harness_ok(tfm_scope_open(ctx));
            tfm__gemm_task task = square(20, TFM_F32);
            free(operand(&task.a, TFM_F32, 20, 20, &random));
            free(operand(&task.b, d ? TFM_F32 : TFM_F16, 20, 20, &random));
            task.c = HARNESS_TENSOR(TFM_F32, NULL, 20, 20);
            harness_ok(tfm__gemm_dispatch(ctx, &tfm__gemm_gpu_mma, &task));
            const char *why = tfm__gemm_gpu_mma.declines(ctx, &task);
            assert_true(d ? !why : why && strstr(why, "wrong"));
            harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

/* Logits of a few ids, in a separate context whose profile counts launches; by emulated MMA if `emulated`. */
static float *logits(size_t *count, const char *dir, tfm_precision precision, bool emulated, void **state) {
    int32_t ids[40]; /* more rows than a skinny GEMM */
    for (int i = 0; i < 40; i++)
        ids[i] = 3 + i * 7 % 60;
    tfm_model *model = NULL;
    tfm_tensor y = {0}, none = {0};
    assert_int_equal(setenv("TFM_PROFILE", "1", 1), 0);
    again(state);
    unsetenv("TFM_PROFILE");
    tuning()->mma = emulated ? TFM__MMA_WMMA : TFM__MMA_NONE;
    tuning()->mma_emulated = true;
    tuning()->gemm_tile = emulated ? 4 : 0;
    tfm_context *ctx = harness_context();
    harness_ok(tfm_model_open(&model, ctx, dir, &(tfm_model_options){.no_tokenizer = true, .precision = precision}));
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm_model_decode(model, &y, HARNESS_TENSOR(TFM_I32, ids, 1, 40), none, none));
    *count = tfm_tensor_count(y);
    float *host = harness_floats(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    tfm_model_free(&model);
    mma_calls = 0;
    tfm_log_set(read_profile, NULL, TFM_LOG_WARNING);
    again(state); /* which closes the profile */
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    return host;
}

static double distance(const float *a, const float *b, size_t count) {
    double far = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)a[i] * (double)a[i];
    }
    return sqrt(far / length);
}

/* A model opened in 16 bits runs its layers by MMA, with logits within 16-bit accuracy; opened in F32 it does not. */
static void test_half_precision_model_uses_mma(void **state) {
    const tfm_precision precisions[] = {TFM_PRECISION_FP16, TFM_PRECISION_BF16};
    const double most[] = {3e-3, 2.5e-2};
    size_t count;
    if (strcmp(tuning()->name, "gpu") != 0 || harness_slow() || !pose(TFM__MMA_WMMA, TFM_BF16, 4)) {
        again(state);
        skip();
    }
    char *dir = harness_source("tests/golden/families/llama-plain-2023-f16");
    float *want = logits(&count, dir, TFM_PRECISION_FP32, true, state);
    assert_int_equal(mma_calls, 0);
    for (int i = harness_brief() ? 1 : 0; i < 2; i++) {
        float *got = logits(&count, dir, precisions[i], true, state);
        const unsigned long long calls = mma_calls;
        float *other = logits(&count, dir, precisions[i], false, state);
        const double far = distance(want, got, count), near = distance(want, other, count);
        print_message("%s: %g from fp32 with MMA, which ran %llu times, %g without\n", tfm_dtype_name(DTYPES[i]), far,
                      calls, near);
        assert_true(far < most[i] && near < most[i] && far > near);
        assert_int_equal(mma_calls, 0);
        assert_true(calls > 3 * 7); /* its layers' matrices, and logits; validation runs count too */
        free(got);
        free(other);
    }
    free(want);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma_half_weight_gemm_matches_rounded_inputs),
        cmocka_unit_test(test_mma_inputs_beyond_fp16_stay_finite),
        cmocka_unit_test(test_mma_is_selected_for_half_weights),
        cmocka_unit_test(test_wrong_half_load_is_replaced_for_that_dtype_only),
        cmocka_unit_test(test_half_precision_model_uses_mma),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
