/* int8 linear layers by work-groups on any device: each kernel variant bit-exact against integer sums; real numbers
 * against the plain kernel; and the fallback if a dot-product instruction does not build or is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm_int8.h"
#include "ops/selftest/selftest.h"
#include "support/scratch.h"

typedef struct sizes {
    int64_t m, n, k;
} sizes;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

/* Whether the device supports the work-groups; else the test is skipped. */
static void need_room(void) {
    const tfm__limits *limits = tfm__context_limits(harness_context());
    if (limits->max_group < 128 || limits->local_bytes < 17408) {
        printf("skipped: the device's work-groups or local memory are too small\n");
        skip();
    }
    tuning()->int8_gpu = true;
    tuning()->dp4a = TFM__DP4A_NONE;
}

/* Skinny kernel of up to 64 rows, or one of the tiles; 0: the best. */
static void want_rows(void) {
    tuning()->gemm_skinny_rows = 64;
}
static void want_tile(int tile) {
    tuning()->gemm_skinny_rows = 0;
    tuning()->gemm_tile = tile;
}

/* Whether tensors are vector-aligned: all, as the library allocates them, or none. */
static bool aligned;
static void align(bool by_vectors) {
    aligned = by_vectors;
    harness_align(by_vectors ? 4 : 0);
}

/* An int8 weight within a larger buffer. */
static tfm_param bytes_of(const int8_t *host, const float *scales, int64_t n, int64_t k) {
    tfm_context *ctx = harness_context();
    tfm_param weight = {0};
    const int64_t before = aligned ? 16 : 5, count = n * k + 2 * before;
    int8_t *all = malloc((size_t)count);
    assert_non_null(all);
    memset(all, -77, (size_t)count);
    memcpy(all + before, host, (size_t)(n * k));
    harness_ok(tfm_tensor_new(ctx, &weight.value, TFM_I8, 1, &count));
    harness_ok(tfm_tensor_write(ctx, weight.value, all));
    free(all);
    weight.value.offset = before;
    weight.value.rank = 2;
    weight.value.dims[0] = n;
    weight.value.dims[1] = k;
    weight.scales = HARNESS_TENSOR(TFM_F32, scales, n);
    return weight;
}

static uint64_t launches;

/* By work-groups, into poisoned memory: the result, freed by the caller. */
static float *run(sizes s, const float *x, const int8_t *q, const float *scales, const float *bias,
                  tfm_activation activation) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = bytes_of(q, scales, s.n, s.k);
    tfm__gemm_task t = {.m = s.m,
                        .n = s.n,
                        .k = s.k,
                        .c = HARNESS_TENSOR(TFM_F32, NULL, s.m, s.n),
                        .a = HARNESS_TENSOR(TFM_F32, x, s.m, s.k),
                        .weight = &weight,
                        .activation = activation};
    if (bias)
        t.bias = HARNESS_TENSOR(TFM_F32, bias, s.n);
    const uint64_t before = ctx->launches;
    harness_ok(tfm__int8_gpu(ctx, &t));
    launches = ctx->launches - before;
    harness_guards(t.c);
    float *got = harness_floats(t.c);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return got;
}

/* Integers in both operands and the bias, so that the result is bit-exact. */
static void check(sizes s, tfm_activation activation, bool biased) {
    static harness_random random = {1};
    float *x = malloc((size_t)(s.m * s.k) * sizeof(*x)), *scales = malloc((size_t)s.n * sizeof(*scales));
    float *bias = malloc((size_t)s.n * sizeof(*bias));
    int8_t *q = malloc((size_t)(s.n * s.k));
    assert_true(x && scales && bias && q);
    const bool ends = harness_range(&random, 0, 2) == 0; /* extreme products, with sums that fp32 represents exactly */
    for (int64_t i = 0; i < s.m * s.k; i++)
        x[i] = i % s.k == 0 || (ends && s.k < 1000) ? (harness_next(&random) & 1 ? 127.0f : -127.0f)
                                                    : (float)harness_range(&random, -127, 127);
    for (int64_t i = 0; i < s.n * s.k; i++)
        q[i] = (int8_t)harness_range(&random, ends ? 125 : -127, 127);
    for (int64_t j = 0; j < s.n; j++) {
        scales[j] = j % 3 == 0 ? 0.5f : j % 3 == 1 ? 1 : 2;
        bias[j] = (float)harness_range(&random, -1000, 1000);
    }
    float *got = run(s, x, q, scales, biased ? bias : NULL, activation);
    for (int64_t e = 0; e < s.m * s.n; e++) {
        const int64_t i = e / s.n, j = e % s.n;
        int64_t sum = 0;
        for (int64_t p = 0; p < s.k; p++)
            sum += (int64_t)x[i * s.k + p] * q[j * s.k + p];
        assert_true(llabs(sum) < 1 << 24);
        double want = (double)sum * (double)scales[j] + (biased ? (double)bias[j] : 0);
        want = activation == TFM_RELU && want < 0 ? 0 : want;
        if ((double)got[e] != (double)(float)want && !harness_poses()) {
            print_error("m %d, n %d, k %d, %s %d: row %d, column %d is %.9g, not %.9g\n", (int)s.m, (int)s.n, (int)s.k,
                        tuning()->gemm_skinny_rows ? "few rows" : "tile", tuning()->gemm_tile, (int)i, (int)j,
                        (double)got[e], want);
            fail();
        }
    }
    free(x);
    free(scales);
    free(bias);
    free(q);
    free(got);
}

/* Rows and columns that fill no group, K that fills no word, step or row of lanes; reads of 16 bytes and of one; few
 * rows in one launch, and in two. */
static void test_int8_skinny_kernel_is_exact(void **state) {
    (void)state;
    need_room();
    const tfm__tuning own = *tuning();
    const int64_t ks[] = {1, 3, 16, 63, 64, 130, 515, 528, 1024};
    int number = 0;
    want_rows();
    for (int turn = 0; turn < 2; turn++) {
        align(turn);
        for (int64_t m = 1; m <= 40; m += m < 10 ? 1 : 7)
            for (int64_t n = 1; n <= 130; n += n < 20 ? 6 : 37)
                for (int i = 0; i < 9; i++)
                    if (number++ % (harness_slow() ? 29 : harness_brief() ? 13 : 5) == 0) {
                        check((sizes){m, n, ks[i]}, number % 2 ? TFM_RELU : TFM_NO_ACTIVATION, number % 3 != 0);
                        assert_true(launches == 1);
                    }
        /* Longer K, for which few groups quantize the rows. */
        check((sizes){1, 5, 2064}, TFM_NO_ACTIVATION, true);
        assert_true(launches == 1);
        check((sizes){4, 18, 4160}, TFM_RELU, true);
        assert_true(launches == 2);
        check((sizes){11, 3, 4165}, TFM_NO_ACTIVATION, false);
        assert_true(launches == 2);
    }
    align(false);
    *tuning() = own;
}

/* Few rows and too few columns for many compute units: two and four teams share a column's K, in one launch or two.
 * */
static void test_int8_column_sharing_is_exact(void **state) {
    (void)state;
    need_room();
    tfm_context *ctx = harness_context();
    const unsigned units = ctx->info.compute_units;
    const tfm__tuning own = *tuning();
    const sizes some[] = {{3, 5, 1045}, {1, 18, 2053}, {8, 31, 4165}, {8, 31, 1024}, {19, 5, 2048}, {4, 18, 4160}};
    want_rows();
    ctx->info.compute_units = 1000;
    for (int i = 0; i < 6; i++) {
        align(i >= 3);
        check(some[i], i % 2 ? TFM_RELU : TFM_NO_ACTIVATION, i % 3 != 0);
        assert_true(launches == (some[i].k > 4000 ? 2 : 1)); /* as many as without */
    }
    bool two = false, four = false;
    for (size_t i = 0; i < TFM__COUNT(ctx->kernels); i++) {
        const tfm__kernel *kernel = ctx->kernels[i];
        const char *defines = kernel ? kernel->name + strlen(kernel->name) + 1 : "";
        two = two || strstr(defines, "-DSLICED_K=2");
        four = four || strstr(defines, "-DSLICED_K=4");
    }
    assert_true(two && four);
    ctx->info.compute_units = units;
    align(false);
    *tuning() = own;
}

static void test_int8_tiles_are_exact(void **state) {
    (void)state;
    need_room();
    const tfm__tuning own = *tuning();
    const int64_t sides[] = {1, 5, 31, 40, 66, 130}, ks[] = {1, 30, 32, 48, 65, 112, 333};
    int number = 0;
    for (int tile = 2; tile <= 3; tile++)
        for (int turn = 0; turn < 2; turn++) {
            align(turn);
            want_tile(tile);
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < 7; j++)
                    for (int l = 0; l < 7; l++)
                        if (number++ % (harness_slow() ? 47 : harness_brief() ? 23 : 11) == 0)
                            check((sizes){sides[i], j < 6 ? sides[j] : 132, ks[l]},
                                  number % 2 ? TFM_RELU : TFM_NO_ACTIVATION, number % 3 != 0);
        }
    align(false);
    *tuning() = own;
}

/* Non-integers, nonlinear activations, and the longest row: as the plain kernel computes them. */
static void test_int8_gpu_kernels_match_reference_kernel(void **state) {
    (void)state;
    need_room();
    const tfm__tuning own = *tuning();
    const sizes some[] = {{1, 70, 512}, {7, 33, 200}, {9, 21, 77}, {50, 129, 77}, {70, 40, 1040}, {2, 3, 131072}};
    harness_random random = {3};
    for (int i = 0; i < (harness_slow() ? 10 : 12); i++) { /* llvmpipe ends loops after 65,535 iterations in total */
        const sizes s = some[i / 2];
        const tfm_activation activation = i % 3 == 0 ? TFM_GELU : i % 3 == 1 ? TFM_SILU : TFM_NO_ACTIVATION;
        if (i % 2 == 0)
            want_rows();
        else
            want_tile(0);
        float *x = malloc((size_t)(s.m * s.k) * sizeof(*x)), scales[129], bias[129];
        int8_t *q = malloc((size_t)(s.n * s.k));
        assert_true(x && q);
        harness_fill(&random, x, (size_t)(s.m * s.k), 1);
        harness_fill(&random, scales, 129, 0.01f);
        harness_fill(&random, bias, 129, 1);
        for (int64_t p = 0; p < s.n * s.k; p++)
            q[p] = (int8_t)harness_range(&random, -127, 127);
        float *got = run(s, x, q, scales, bias, activation);
        tuning()->int8_gpu = false;
        float *want = run(s, x, q, scales, bias, activation);
        tuning()->int8_gpu = true;
        for (int64_t e = 0; e < s.m * s.n && !harness_poses(); e++)
            if (memcmp(&got[e], &want[e], sizeof(float)) != 0 &&
                (own.fma || fabsf(got[e] - want[e]) > 1e-4f * (1 + fabsf(want[e])))) {
                print_error("m %d, n %d, k %d, activation %d: %g at %d, plain has %g\n", (int)s.m, (int)s.n, (int)s.k,
                            (int)activation, (double)got[e], (int)e, (double)want[e]);
                fail();
            }
        free(got);
        free(want);
        free(x);
        free(q);
    }
    *tuning() = own;
}

/* A non-finite row gives NaN in that row alone; zeros give the bias; tiny numbers count as zeros. */
static void test_int8_gpu_isolates_non_finite_rows(void **state) {
    (void)state;
    need_room();
    const tfm__tuning own = *tuning();
    float x[6 * 80], scales[] = {1, 2, 3, 4, 5}, bias[] = {1, 2, 3, 4, 5};
    int8_t q[5 * 80];
    harness_random random = {4};
    harness_fill(&random, x, 6 * 80, 1);
    for (int i = 0; i < 5 * 80; i++)
        q[i] = (int8_t)harness_range(&random, 1, 127);
    for (int k = 0; k < 80; k++) {
        x[80 + k] = 0;
        x[4 * 80 + k] = 1e-35f;
    }
    x[2 * 80 + 79] = INFINITY;
    x[3 * 80] = NAN;
    for (int turn = 0; turn < 4; turn++) {
        align(turn % 2);
        if (turn < 2)
            want_rows();
        else
            want_tile(3);
        float *got = run((sizes){6, 5, 80}, x, q, scales, bias, TFM_NO_ACTIVATION);
        for (int i = 0; i < 6 * 5; i++) {
            assert_true((i / 5 == 2 || i / 5 == 3) == (isnan(got[i]) != 0));
            if (i / 5 == 1 || i / 5 == 4)
                assert_true(got[i] == bias[i % 5]);
        }
        free(got);
    }
    align(false);
    *tuning() = own;
}

/* ---- Dot-product instruction ------------------------------------------------------------------------------------- */

static int warnings, tries;

static void count_lines(void *user, tfm_log_level level, const char *line) {
    (void)user;
    if (strstr(line, "int8 dot products")) {
        tries++;
        warnings += level == TFM_LOG_WARNING;
    }
}

/* A fresh context with no validation results, with a cache in this folder, or the program's cache. */
static void again_in(void **state, const char *folder) {
    static char own[4200];
    const char *named = getenv("TFM_CACHE_DIR");
    static bool known;
    if (!known)
        snprintf(own, sizeof(own), "%s", named ? named : "");
    known = true;
    assert_int_equal(setenv("TFM_CACHE_DIR", "off", 1), 0);
    harness_teardown(state);
    if (folder || own[0])
        assert_int_equal(setenv("TFM_CACHE_DIR", folder ? folder : own, 1), 0);
    else
        unsetenv("TFM_CACHE_DIR");
    assert_int_equal(harness_setup(state), 0);
    need_room();
}

/* Why the instruction is not used for GEMMs with this many rows. */
static const char *trouble(int64_t m, int64_t n, int64_t k) {
    tfm_param weight = {.value = {.rank = 2, .dims = {n, k}}};
    return tfm__int8_dp4a_declines(harness_context(), &(tfm__gemm_task){.m = m, .n = n, .k = k, .weight = &weight});
}

/* An emulated GPU on a CPU device is not asked about instructions; it records what exists. */
static void need_results(void) {
    need_room();
    if (harness_poses())
        skip();
}

/* Both kernels with the context's instruction: all results are right, and `part` is why it is not used. */
static void check_dots(const char *part) {
    for (int turn = 0; turn < 2; turn++) {
        const int64_t m = turn ? 70 : 9, n = 35, k = 131;
        if (turn)
            want_tile(2);
        else
            want_rows();
        check((sizes){m, n, k}, TFM_NO_ACTIVATION, true);
        const char *why = trouble(m, n, k);
        if (part && !(why && strstr(why, part)))
            fail_msg("expected %s, got: %s", part, why ? why : "no error");
        if (!part)
            assert_null(why);
    }
}

/* An instruction that the device lacks: the kernels do not build with it, are correct without, and the next context
 * knows that without another validation. */
static void test_unbuildable_dot_instruction_is_remembered(void **state) {
    need_results();
    if (harness_slow()) { /* llvmpipe's compiler aborts the process */
        printf("skipped: an emulator's compiler is not tested with missing instructions\n");
        skip();
    }
    const tfm__dp4a own = harness_context()->capabilities.dp4a;
    bool built = false;
    assert_int_equal(scratch_setup(state), 0);
    for (int run_number = 0; run_number < 2; run_number++) {
        again_in(state, scratch_root);
        tuning()->dp4a = own == TFM__DP4A_NVIDIA ? TFM__DP4A_AMD_RDNA3 : TFM__DP4A_NVIDIA;
        tfm_log_set(count_lines, NULL, TFM_LOG_INFO);
        tries = warnings = 0;
        want_rows();
        check((sizes){9, 35, 131}, TFM_NO_ACTIVATION, true);
        const char *why = trouble(9, 35, 131);
        built = why && strstr(why, "found a wrong result");
        if (built)
            break;
        check_dots("does not build");
        assert_int_equal(tries, run_number == 0 ? 2 : 0);
        assert_int_equal(warnings, 0);
        tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    again_in(state, NULL);
    scratch_teardown(state);
    if (built) {
        printf("skipped: this compiler builds an instruction that the device lacks; the wrong result is detected\n");
        skip();
    }
}

/* Replaces `right` by `wrong`, of at most the same length. */
static void put(char *text, const char *right, const char *wrong) {
    char *at = strstr(text, right);
    assert_true(at && strlen(wrong) <= strlen(right));
    memset(at, ' ', strlen(right));
    memcpy(at, wrong, strlen(wrong));
}

/* An emulated instruction that validates, or that reads the sign of one byte of each word as a value bit: then one
 * warning per kernel is logged and the kernels run without it. */
static void test_wrong_dot_instruction_is_replaced_with_warning(void **state) {
    need_results();
    size_t size;
    char *text = scratch_source("cl/common/dp4a.cl", &size), *whole = calloc(size + 1, 1);
    assert_non_null(whole);
    memcpy(whole, text, size);
    free(text);
    put(whole, "#error \"the device has no cl_khr_integer_dot_product\"", "");
    put(whole, "return sum + dot_4x8packed_ss_int(as_uint(a), as_uint(b));",
        "const char4 x=as_char4(a),y=as_char4(b);return DIFFERS;   ");
    assert_int_equal(scratch_setup(state), 0);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    for (int wrong = 0; wrong < 2; wrong++) {
        char *all = malloc(size + 256);
        assert_non_null(all);
        snprintf(all, size + 256, "#define DIFFERS sum+x.x*y.x+x.y*y.y+x.z*y.z+%sx.w*y.w\n%s", wrong ? "(uchar)" : "",
                 whole);
        scratch_write("dp4a.cl", all, strlen(all));
        free(all);
        again_in(state, NULL);
        tuning()->dp4a = TFM__DP4A_KHRONOS;
        tfm_log_set(count_lines, NULL, TFM_LOG_WARNING);
        warnings = 0;
        check_dots(wrong ? "wrong" : NULL);
        assert_int_equal(warnings, wrong ? 2 : 0);
        if (!wrong) { /* fits the registers only with the instruction */
            want_tile(1);
            check((sizes){131, 133, 77}, TFM_RELU, true);
            want_rows();
            for (int64_t m = 1; m <= 9; m += 2) {
                check((sizes){m, 37, 1040}, TFM_NO_ACTIVATION, true);
                check((sizes){m, 37, 33}, TFM_NO_ACTIVATION, true);
            }
            const unsigned units = harness_context()->info.compute_units;
            harness_context()->info.compute_units = 1000;
            check((sizes){3, 37, 1040}, TFM_NO_ACTIVATION, true);
            check((sizes){8, 37, 2053}, TFM_NO_ACTIVATION, true);
            harness_context()->info.compute_units = units;
            align(true);
            check((sizes){8, 37, 1040}, TFM_NO_ACTIVATION, true);
            check((sizes){11, 20, 4160}, TFM_NO_ACTIVATION, true);
            align(false);
        }
        tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    }
    free(whole);
    unsetenv("TFM_CL_DIR");
    again_in(state, NULL);
    scratch_teardown(state);
}

/* The device's own instruction, if any. */
static void test_native_dot_instruction_is_exact(void **state) {
    need_room();
    again_in(state, NULL);
    const tfm__tuning own = *tuning();
    tuning()->dp4a = harness_context()->capabilities.dp4a;
    if (tuning()->dp4a == TFM__DP4A_NONE) {
        printf("skipped: the device has no int8 dot products\n");
        skip();
    }
    check_dots(NULL);
    align(true);
    for (int64_t m = 1; m <= 32; m += m < 9 ? 1 : 23) {
        want_rows();
        check((sizes){m, 129, 1040}, TFM_RELU, true);
        check((sizes){m, 131, 523}, TFM_RELU, true);
    }
    for (int tile = 1; tile <= 3; tile++) {
        want_tile(tile);
        check((sizes){137, 132, 208}, TFM_RELU, true);
        check((sizes){137, 131, 203}, TFM_RELU, false);
    }
    align(false);
    *tuning() = own;
}

/* A device with groups too small to quantize rows uses the plain kernel, even if a tile would fit. */
static void test_small_workgroup_device_uses_reference_kernel(void **state) {
    (void)state;
    need_room();
    tfm_context *ctx = harness_context();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = ctx->limits;
    want_tile(3);
    for (int small = 0; small < 2; small++) {
        harness_ok(tfm_scope_open(ctx));
        const int8_t q[40] = {0};
        const float scales[1] = {1};
        tfm_param weight = bytes_of(q, scales, 1, 40);
        const tfm__gemm_task t = {.m = 66, .n = 1, .k = 40, .weight = &weight};
        ctx->limits.max_group = small ? 64 : limits.max_group;
        const char *why = tfm__int8_dp4a_declines(ctx, &t);
        ctx->limits = limits;
        assert_non_null(why);
        assert_true((strstr(why, "another int8 instruction") != NULL) == small);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    *tuning() = own;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_skinny_kernel_is_exact),
        cmocka_unit_test(test_int8_column_sharing_is_exact),
        cmocka_unit_test(test_int8_tiles_are_exact),
        cmocka_unit_test(test_int8_gpu_kernels_match_reference_kernel),
        cmocka_unit_test(test_int8_gpu_isolates_non_finite_rows),
        cmocka_unit_test(test_native_dot_instruction_is_exact),
        cmocka_unit_test(test_unbuildable_dot_instruction_is_remembered),
        cmocka_unit_test(test_wrong_dot_instruction_is_replaced_with_warning),
        cmocka_unit_test(test_small_workgroup_device_uses_reference_kernel),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
