/* Multistage MMA kernels (cl/gemm/gemm_mma_multistage.cl), with copies, loads and MMA emulated where the device lacks
 * the instructions: each tile against double precision over 16-bit inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm_mma.h"
#include "ops/selftest/selftest.h"
#include "support/scratch.h"

/* Indices of the multistage tiles in the table, from 1. */
enum { FIRST = 5, LAST = 7 };

typedef struct problem {
    int64_t m, n, k, batch; /* batch 0: one matrix */
    bool transpose_a, transpose_b, shared_b, stored, bias, accumulate;
    tfm_activation activation; /* none or ReLU */
} problem;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

static void require_gpu_class(void) {
    if (tuning()->class != TFM__CLASS_GPU) {
        printf("skipped: a CPU-style device\n");
        skip();
    }
}

/* The multistage tile of this index if it fits the device, with at most so much local memory next to the emulation's;
 * this sets the number of stages. With `own`, by the device's own instructions. */
static bool pose(bool own, tfm_dtype inputs, int tile, size_t local) {
    tfm_context *ctx = harness_context();
    const tfm__gemm_task task = {.batch = 1, .m = 64, .n = 64, .k = 64, .shared_b = true, .alpha = 1};
    if (!own) {
        tuning()->mma = TFM__MMA_M16N8K16;
        tuning()->mma_emulated = true;
        const size_t most = ctx->capabilities.limits.local_bytes, asked = local + 128 * 7 * sizeof(uint32_t);
        ctx->limits.local_bytes = asked < most ? asked : most;
    }
    tuning()->gemm_input_dtype = inputs;
    tuning()->gemm_tile = tile;
    return tuning()->mma == TFM__MMA_M16N8K16 && !tfm__gemm_gpu_mma.declines(ctx, &task);
}

static float *operand(tfm_tensor *out, bool batched, int64_t batch, int64_t rows, int64_t columns, tfm_dtype dtype) {
    static harness_random random = {11};
    const int64_t dims[] = {batch, rows, columns};
    const size_t count = (size_t)((batched ? batch : 1) * rows * columns);
    float *host = malloc(count * sizeof(*host));
    assert_non_null(host);
    harness_fill(&random, host, count, 1);
    const tfm_tensor raw = harness_tensor(TFM_F32, batched ? 3 : 2, batched ? dims : dims + 1, host);
    *out = raw;
    if (dtype != TFM_F32) {
        *out = (tfm_tensor){0};
        harness_ok(tfm_cast(harness_context(), out, raw, dtype));
    }
    return host;
}

static double rounded(double x) {
    return harness_rounded(x, tuning()->gemm_input_dtype == TFM_BF16 ? 8 : 11);
}

static void oracle(double *want, const problem *p, const float *a, const float *b, const float *bias,
                   const float *before) {
    const int64_t a_row = p->transpose_a ? 1 : p->k, a_step = p->transpose_a ? p->m : 1;
    const int64_t b_column = p->transpose_b ? p->k : 1, b_step = p->transpose_b ? 1 : p->n;
    for (int64_t i = 0; i < p->batch * p->m * p->n; i++) {
        const int64_t z = i / (p->m * p->n), row = i / p->n % p->m, column = i % p->n;
        double sum = 0;
        for (int64_t s = 0; s < p->k; s++)
            sum += rounded((double)a[z * p->m * p->k + row * a_row + s * a_step]) *
                   rounded((double)b[(p->shared_b ? 0 : z * p->n * p->k) + column * b_column + s * b_step]);
        sum = 0.5 * sum + (bias ? (double)bias[column] : before ? (double)before[i] : 0);
        want[i] = p->activation == TFM_RELU && sum < 0 ? 0 : sum;
    }
}

/* One GEMM by the emulated multistage kernel. Returns why another kernel computed it, or NULL. */
static const char *check(problem p) {
    tfm_context *ctx = harness_context();
    tfm_tensor bias = {0}, none = {0};
    const bool batched = p.batch > 1;
    p.batch = batched ? p.batch : 1;
    p.shared_b = p.shared_b || !batched;
    const size_t count = (size_t)(p.batch * p.m * p.n);
    harness_ok(tfm_scope_open(ctx));
    tfm__gemm_task task = {.batch = p.batch, .m = p.m, .n = p.n, .k = p.k, .shared_b = p.shared_b, .alpha = 0.5f};
    task.transpose_a = p.transpose_a;
    task.transpose_b = p.transpose_b;
    task.activation = p.activation;
    task.accumulate = p.accumulate;
    float *a = operand(&task.a, batched, p.batch, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, TFM_F32);
    float *b = operand(&task.b, !p.shared_b, p.batch, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n,
                       p.stored ? tuning()->gemm_input_dtype : TFM_F32);
    float *before = operand(&task.c, batched, p.batch, p.m, p.n, TFM_F32), *more = NULL;
    if (p.bias)
        more = operand(&bias, false, 1, 1, p.n, TFM_F32);
    task.bias = p.bias ? bias : none;
    const char *why = tfm__gemm_gpu_mma.declines(ctx, &task);
    if (!why)
        harness_ok(tfm__gemm_dispatch(ctx, &tfm__gemm_gpu_mma, &task));
    why = why ? why : tfm__gemm_gpu_mma.declines(ctx, &task);
    if (!why) {
        char what[160];
        snprintf(what, sizeof(what), "multistage tile %d of %s: batch %d, m %d, n %d, k %d%s%s%s", tuning()->gemm_tile,
                 tfm_dtype_name(tuning()->gemm_input_dtype), (int)p.batch, (int)p.m, (int)p.n, (int)p.k,
                 p.transpose_a ? ", a transposed" : "", p.transpose_b ? ", b transposed" : "",
                 p.stored ? ", b stored" : "");
        double *want = malloc(count * sizeof(*want));
        assert_non_null(want);
        oracle(want, &p, a, b, more, p.accumulate ? before : NULL);
        float *got = harness_floats(task.c);
        harness_close(got, want, count, 2e-5, what);
        harness_guards(task.c);
        free(got);
        free(want);
    }
    free(a);
    free(b);
    free(before);
    free(more);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return why;
}

/* Each multistage tile with both dtypes and all transpose combinations, each a separate program: from fp32, also with
 * rows that are no whole chunks, and from 16-bit weights. */
static void test_multistage_forms_match_rounded_inputs(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = harness_context()->limits;
    int ran = 0;
    for (int t = 0; t < 4; t++)
        for (int tile = FIRST; tile <= LAST; tile++) {
            if ((harness_brief() || harness_slow()) && tile != FIRST + (t + 2) % 3)
                continue;
            const bool odd = (t + tile) % 2, stored = (t + tile / 2) % 2;
            if (!pose(false, t % 3 ? TFM_F16 : TFM_BF16, tile, t == 2 ? 32768 : 49152))
                continue; /* no room on this device */
            harness_align(odd ? 0 : 4);
            assert_null(check((problem){.m = odd ? 133 : 72,
                                        .n = stored ? 136
                                             : odd  ? 69
                                                    : 140,
                                        .k = stored ? 168
                                             : odd  ? 141
                                                    : 164,
                                        .transpose_a = t & 1,
                                        .transpose_b = t & 2,
                                        .stored = stored}));
            harness_align(0);
            ran++;
        }
    *tuning() = own;
    harness_context()->limits = limits;
    if (ran == 0) {
        printf("skipped: no multistage tile fits the device\n");
        skip();
    }
}

/* Odd shapes, batches, split-K, epilogues, and 64-bit indices. */
static void test_multistage_odd_shapes_and_epilogues_are_right(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = harness_context()->limits;
    const bool t = true;
    if (pose(false, TFM_F16, LAST, 32768)) {
        const int64_t sizes[] = {1, 3, 17, 65};
        for (int i = 0; i < 64; i += harness_slow() ? 21 : 9)
            assert_null(
                check((problem){.m = sizes[i % 4], .n = sizes[i / 4 % 4], .k = sizes[i / 16], .transpose_b = t}));
        assert_null(check((problem){.m = 9, .n = 65, .k = 40, .batch = 3, .transpose_b = t, .accumulate = true}));
        assert_null(check((problem){.m = 9,
                                    .n = 10,
                                    .k = 33,
                                    .batch = 2,
                                    .transpose_b = t,
                                    .shared_b = true,
                                    .bias = true,
                                    .activation = TFM_RELU}));
        assert_null(check((problem){.m = 66, .n = 11, .k = 96, .transpose_b = t, .bias = true}));
        tuning()->gemm_split_k = 3;
        assert_null(check((problem){.m = 7, .n = 65, .k = 197, .batch = 2, .transpose_b = t}));
        assert_null(check((problem){.m = 36, .n = 8, .k = 192, .transpose_b = t, .accumulate = true}));
        tuning()->gemm_split_k = 1;
        tuning()->gemm_index_64bit = true;
        assert_null(check((problem){.m = 40, .n = 65, .k = 33, .transpose_b = t}));
        tuning()->gemm_index_64bit = false;
        /* 16-bit rows that are no whole chunks use the other tiles. */
        assert_non_null(check((problem){.m = 20, .n = 16, .k = 36, .transpose_b = t, .stored = true}));
    }
    *tuning() = own;
    harness_context()->limits = limits;
}

/* Conversions count in the estimate, so that batches can be sized. */
static void test_multistage_memory_counts_rounded_copies(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = harness_context()->limits;
    tfm__gemm_task task = {.batch = 1, .m = 4096, .n = 4096, .k = 4090, .shared_b = true, .alpha = 1};
    task.transpose_b = true;
    if (pose(false, TFM_F16, LAST, 32768)) {
        const uint64_t one = 2 * 4096 * 4096;
        assert_true(tfm__gemm_gpu_mma.memory(harness_context(), &task) >= 2 * one);
        task.b.dtype = TFM_F16;
        task.k = 4096;
        const uint64_t stored = tfm__gemm_gpu_mma.memory(harness_context(), &task);
        assert_true(stored >= one && stored < 2 * one);
    }
    *tuning() = own;
    harness_context()->limits = limits;
}

/* With an H100's core count each GEMM takes the fastest tile of tests/bench/results/h100.md, or one within 10 %. A
 * worse choice of the cost model is not a wrong result, so nothing else fails. */
static void test_mma_tile_heuristic_matches_h100_measurements(void **state) {
    (void)state;
    require_gpu_class();
    static const struct {
        int64_t m, n, k;
        int tile_m, tile_n;
        bool ring;
    } FASTEST[] = {
        {64, 512, 512, 32, 32, false},      {256, 512, 512, 32, 32, false},    {256, 2048, 512, 32, 32, false},
        {256, 512, 2048, 64, 64, true},     {1024, 512, 512, 32, 32, false},   {4096, 512, 512, 128, 64, true},
        {2048, 2048, 512, 128, 128, true},  {4096, 2048, 512, 128, 128, true}, {256, 32000, 512, 128, 128, true},
        {4096, 4096, 4096, 128, 128, true},
    };
    tfm_context *ctx = harness_context();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = ctx->limits;
    const unsigned cores = ctx->info.compute_units;
    if (ctx->capabilities.limits.local_bytes < 49152) {
        printf("skipped: the largest tiles do not fit the device's local memory\n");
        skip();
    }
    if (pose(false, TFM_BF16, 0, 49152)) {
        ctx->info.compute_units = 132;
        for (size_t i = 0; i < TFM__COUNT(FASTEST); i++) {
            tfm__gemm_task task = {.m = FASTEST[i].m, .n = FASTEST[i].n, .k = FASTEST[i].k};
            task.batch = 1;
            task.alpha = 1;
            task.shared_b = task.transpose_b = true;
            task.b.dtype = TFM_BF16;
            const tfm__mma_plan p = tfm__mma_plan_of(ctx, &task);
            assert_non_null(p.tile);
            if (p.tile->macro_tile.m != FASTEST[i].tile_m || p.tile->macro_tile.n != FASTEST[i].tile_n ||
                p.tile->macro_tile.converts != FASTEST[i].ring)
                fail_msg("%d x %d x %d takes a %s of %d x %d", (int)task.m, (int)task.n, (int)task.k,
                         p.tile->macro_tile.converts ? "multistage" : "tile", p.tile->macro_tile.m,
                         p.tile->macro_tile.n);
            if (FASTEST[i].ring) /* a is converted to 16 bits */
                assert_true(tfm__gemm_gpu_mma.memory(ctx, &task) >= (uint64_t)(2 * task.m * task.k));
        }
    }
    *tuning() = own;
    ctx->limits = limits;
    ctx->info.compute_units = cores;
}

/* Kernels of this name that were requested with these defines. */
static int kernels_named(const char *name, const char *defines) {
    const tfm_context *ctx = harness_context();
    int count = 0;
    for (size_t i = 0; i < TFM__COUNT(ctx->kernels); i++) {
        const tfm__kernel *kernel = ctx->kernels[i];
        count += kernel && strcmp(kernel->name, name) == 0 && strstr(kernel->name + strlen(name) + 1, defines);
    }
    return count;
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level == TFM_LOG_WARNING && strstr(line, "matrix cores") != NULL;
}

/* A fresh context with no validation results. */
static void again(void **state) {
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* A self-test check of the emulated instruction: 0 if correct, else the reason. */
static const char *self_test(const char *form) {
    extern const tfm__check_entry tfm__selftest_gemm[];
    const tfm__check_entry *entry = tfm__selftest_gemm;
    while (entry->op && strcmp(entry->form, form) != 0)
        entry++;
    assert_non_null(entry->op);
    tfm__check c = {.ctx = harness_context(), .form = form, .number = entry->number, .random = 2017};
    harness_ok(tfm_scope_open(c.ctx));
    entry->run(&c);
    harness_ok(tfm_scope_close(c.ctx, 0, NULL));
    for (size_t i = 0; i < c.allocation_count; i++)
        free(c.allocations[i]);
    if (!c.skip_reason && !(c.error < 2e-5))
        fail_msg("%s: error %g", form, c.error);
    return c.skip_reason;
}

/* The self-test validates each multistage and other tile, not only those of a small GEMM, and reports why one does not
 * fit. */
static void test_multistage_selftest_runs_every_tile(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const tfm__limits limits = harness_context()->limits;
    const bool both = !harness_brief() && !harness_slow();
    if (pose(false, TFM_F16, LAST, 49152)) {
        tuning()->gemm_tile = 0;
        tuning()->gemm_input_dtype = TFM_F32;
        assert_null(self_test("gpu-mma, f16, multistage"));
        assert_int_equal(kernels_named("gemm_mma_multistage", "-DSTAGES=2") > 0, true);
        assert_int_equal(kernels_named("gemm_mma_multistage", "-DSTAGES=3") > 0, true);
        assert_null(both ? self_test("gpu-mma, bf16, multistage") : NULL);
        assert_null(self_test("gpu-mma, bf16, tiles"));
        for (size_t i = 0; i < 4; i++) {
            static const char *const tiles[] = {"-DTILE_M=128 -DTILE_N=64", "-DTILE_M=64 -DTILE_N=64",
                                                "-DTILE_M=32 -DTILE_N=32", "-DTILE_M=16 -DTILE_N=64"};
            assert_true(kernels_named("gemm_mma", tiles[i]) > 0);
        }
        assert_null(both ? self_test("gpu-mma, f16, tiles") : NULL);
        assert_int_equal(tuning()->gemm_input_dtype, TFM_F32);
        harness_context()->limits.local_bytes = 8192;
        const char *why = self_test("gpu-mma, f16, multistage");
        assert_true(why && strstr(why, "too small"));
    }
    *tuning() = own;
    harness_context()->limits = limits;
}

/* A wrong multistage kernel: its first GEMM detects it, another MMA tile computes it, and one warning is logged. */
static void test_wrong_multistage_kernel_is_replaced_with_one_warning(void **state) {
    require_gpu_class();
    size_t size;
    char *text = scratch_source("cl/common/async_copy.cl", &size);
    const char *right = "transposed ? first + 1 : first;", *wrong = "transposed ? first + 0 : first;";
    char *at = strstr(text, right);
    assert_true(at && strlen(right) == strlen(wrong));
    memcpy(at, wrong, strlen(wrong));
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("async_copy.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    warnings = 0;
    if (pose(false, TFM_F16, LAST, 32768)) {
        assert_non_null(check((problem){.m = 33, .n = 35, .k = 40}));
        assert_int_equal(warnings, 1);
        tuning()->gemm_input_dtype = TFM_F32;
        const char *why = self_test("gpu-mma, f16, multistage");
        assert_true(why && strstr(why, "wrong"));
        tuning()->gemm_input_dtype = TFM_F16;
        assert_int_equal(warnings, 2); /* other transposes are a separate kernel */
        tuning()->gemm_tile = 4;       /* other kernels stay in use */
        assert_null(check((problem){.m = 33, .n = 35, .k = 40}));
        assert_int_equal(warnings, 2);
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

/* The device's own instructions, if any: all multistage tiles, transpose combinations and dtypes. */
static void test_native_multistage_matches_rounded_inputs(void **state) {
    require_gpu_class();
    again(state);
    const tfm__tuning own = *tuning();
    if (own.mma != TFM__MMA_M16N8K16 || own.mma_emulated) {
        printf("skipped: the device has no such matrix cores\n");
        skip();
    }
    int ran = 0;
    for (int i = 0; i < 48; i++) {
        const bool stored = i & 8, odd = (i ^ i >> 1 ^ i >> 2) & 1;
        if (harness_brief() && i % 3 > 0)
            continue; /* a driver compiles each for a second or two */
        if (!pose(true, i & 4 ? TFM_F16 : TFM_BF16, FIRST + i / 16, 0))
            continue;
        harness_align(odd ? 0 : 4);
        assert_null(check((problem){.m = odd ? 261 : 272,
                                    .n = stored ? 264
                                         : odd  ? 133
                                                : 268,
                                    .k = stored ? 424
                                         : odd  ? 389
                                                : 420,
                                    .transpose_a = i >> 1 & 1,
                                    .transpose_b = i & 1,
                                    .stored = stored,
                                    .bias = odd,
                                    .activation = odd ? TFM_RELU : TFM_NO_ACTIVATION}));
        ran++;
    }
    harness_align(0);
    assert_true(ran > 0);
    tuning()->gemm_split_k = 3;
    assert_null(check((problem){.m = 136, .n = 72, .k = 1000, .transpose_b = true}));
    *tuning() = own;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multistage_forms_match_rounded_inputs),
        cmocka_unit_test(test_multistage_odd_shapes_and_epilogues_are_right),
        cmocka_unit_test(test_multistage_memory_counts_rounded_copies),
        cmocka_unit_test(test_mma_tile_heuristic_matches_h100_measurements),
        cmocka_unit_test(test_multistage_selftest_runs_every_tile),
        cmocka_unit_test(test_wrong_multistage_kernel_is_replaced_with_one_warning),
        cmocka_unit_test(test_native_multistage_matches_rounded_inputs),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
