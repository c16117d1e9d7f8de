/* GEMMs on emulated matrix cores (MMA): each instruction's fragments and each tile against double precision over 16-bit
 * inputs, and the fallback if an MMA instruction is wrong. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "dev/cache/cache.h"
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "ops/selftest/selftest.h"
#include "support/scratch.h"
#include "tfm/tune.h"

typedef struct shape {
    int64_t m, n, k, batch; /* batch 0: one matrix */
    bool transpose_a, transpose_b, shared_b;
} shape;

typedef struct extras {
    bool bias, accumulate;
    tfm_activation activation; /* none or ReLU */
    float alpha;               /* 0: 1 */
} extras;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

static void require_gpu_class(void) {
    if (tuning()->class != TFM__CLASS_GPU) {
        printf("skipped: a CPU-style device\n");
        skip();
    }
}

static double rounded(double x) {
    return harness_rounded(x, tuning()->gemm_input_dtype == TFM_BF16 ? 8 : 11);
}

static void oracle(double *c, const float *a, const float *b, const float *bias, const shape *s, const extras *e) {
    const int64_t a_row = s->transpose_a ? 1 : s->k, a_column = s->transpose_a ? s->m : 1;
    const int64_t b_row = s->transpose_b ? 1 : s->n, b_column = s->transpose_b ? s->k : 1;
    for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
        const int64_t z = i / (s->m * s->n), row = i / s->n % s->m, column = i % s->n;
        const float *x = a + z * s->m * s->k + row * a_row;
        const float *y = b + (s->shared_b ? 0 : z * s->n * s->k) + column * b_column;
        double sum = 0;
        for (int64_t l = 0; l < s->k; l++)
            sum += rounded((double)x[l * a_column]) * rounded((double)y[l * b_row]);
        sum = sum * (e->alpha != 0 ? (double)e->alpha : 1) + (bias ? (double)bias[column] : e->accumulate ? c[i] : 0);
        c[i] = e->activation == TFM_RELU && sum < 0 ? 0 : sum;
    }
}

static float *normals(harness_random *random, int64_t count) {
    float *host = malloc((size_t)count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, 1);
    return host;
}

static tfm_tensor operand(const float *host, bool batched, int64_t batch, int64_t rows, int64_t columns,
                          bool transposed) {
    const int64_t dims[] = {batch, transposed ? columns : rows, transposed ? rows : columns};
    return harness_tensor(TFM_F32, batched ? 3 : 2, batched ? dims : dims + 1, host);
}

/* One GEMM by MMA, or with `any`, by the chosen provider. Returns why MMA declined, or NULL. */
static const char *check(bool any, shape s, extras e) {
    static harness_random random = {1};
    tfm_context *ctx = harness_context();
    s.batch = s.batch > 1 ? s.batch : 1;
    const int64_t count = s.batch * s.m * s.n;
    float *a = normals(&random, s.batch * s.m * s.k), *b = normals(&random, s.batch * s.n * s.k);
    float *bias = e.bias ? normals(&random, s.n) : NULL, *before = e.accumulate ? normals(&random, count) : NULL;
    harness_ok(tfm_scope_open(ctx));
    tfm_gemm_options options = {.transpose_a = s.transpose_a,
                                .transpose_b = s.transpose_b,
                                .alpha = e.alpha,
                                .accumulate = e.accumulate,
                                .activation = e.activation};
    if (bias)
        options.bias = HARNESS_TENSOR(TFM_F32, bias, s.n);
    tfm_tensor ta = operand(a, s.batch > 1, s.batch, s.m, s.k, s.transpose_a);
    tfm_tensor tb = operand(b, s.batch > 1 && !s.shared_b, s.batch, s.k, s.n, s.transpose_b);
    tfm_tensor c = operand(before, s.batch > 1, s.batch, s.m, s.n, false);
    const char *why = NULL;
    harness_ok(tfm__gemm_with(ctx, any ? NULL : &tfm__gemm_gpu_mma, &why, &c, ta, tb, &options));
    if (!why) {
        char what[160];
        snprintf(what, sizeof(what), "MMA %d of %s, tile %d: batch %d, m %d, n %d, k %d%s%s%s", (int)tuning()->mma,
                 tfm_dtype_name(tuning()->gemm_input_dtype), tuning()->gemm_tile, (int)s.batch, (int)s.m, (int)s.n,
                 (int)s.k, s.transpose_a ? ", a transposed" : "", s.transpose_b ? ", b transposed" : "",
                 e.accumulate ? ", accumulated" : "");
        double *want = malloc((size_t)count * sizeof(double));
        assert_non_null(want);
        for (int64_t i = 0; before && i < count; i++)
            want[i] = (double)before[i];
        oracle(want, a, b, bias, &s, &e);
        float *got = harness_floats(c);
        /* Another provider does not round: then compare at 16 bits. */
        harness_close(got, want, (size_t)count, any ? 0.1 : 2e-5, what);
        harness_guards(c);
        free(got);
        free(want);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(a);
    free(b);
    free(bias);
    free(before);
    return why;
}

/* The emulation of this MMA instruction, if the device has room for the tile; else false. */
static bool pose(tfm__mma mma_kind, tfm_dtype inputs, int tile) {
    const tfm__gemm_task task = {.batch = 1, .m = 64, .n = 64, .k = 64, .shared_b = true, .alpha = 1};
    tuning()->mma = mma_kind;
    tuning()->mma_emulated = true;
    tuning()->gemm_input_dtype = inputs;
    tuning()->gemm_tile = tile;
    return !tfm__gemm_gpu_mma.declines(harness_context(), &task);
}

/* Fragments of each instruction, in both dtypes, all tiles and transpose combinations; operands read with float4 and
 * one by one. */
static void test_mma_fragments_match_rounded_inputs(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    int ran = 0;
    for (tfm__mma mma_kind = TFM__MMA_M16N8K16; mma_kind < TFM__MMA_COUNT; mma_kind++)
        for (int t = 0; t < 4; t++) {
            const bool in_fp16 = t % 2 == 0 || mma_kind == TFM__MMA_M16N8K8, odd = (t / 2 + (int)mma_kind) % 2;
            const int tile = harness_slow() ? 3 : 1 + (t + (int)mma_kind) % 4;
            if (harness_brief() && (t == 1 || t == 2) != (int)mma_kind % 2)
                continue; /* either dtype, with the transposes that the next instruction skips */
            if (!pose(mma_kind, in_fp16 ? TFM_F16 : TFM_BF16, tile))
                continue; /* no room on this device */
            const shape s = {
                .m = odd ? 37 : 36, .n = odd ? 69 : 68, .k = odd ? 41 : 68, .transpose_a = t & 1, .transpose_b = t & 2};
            harness_align(odd ? 0 : 4); /* then operands are read with float4 */
            assert_null(check(false, s, (extras){0}));
            harness_align(0);
            ran++;
        }
    assert_false(pose(TFM__MMA_M16N8K8, TFM_BF16, 0));
    *tuning() = own;
    if (ran == 0) {
        printf("skipped: no tile fits the device\n");
        skip();
    }
}

/* Odd shapes, batches, split-K, epilogues, and 64-bit indices: with one instruction, since the tile handles these. */
static void test_mma_odd_shapes_and_epilogues_are_right(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const extras plain = {0}, sum = {.accumulate = true, .alpha = -0.5f};
    if (pose(TFM__MMA_M16N8K16, TFM_F16, 4)) {
        const bool t = true;
        const int64_t sizes[] = {1, 3, 17, 65};
        for (int i = 0; i < 64; i += harness_slow() ? 21 : 5)
            check(false, (shape){.m = sizes[i % 4], .n = sizes[i / 4 % 4], .k = sizes[i / 16], .transpose_b = t},
                  plain);
        tuning()->gemm_split_k = 3;
        assert_null(
            check(false, (shape){.m = 7, .n = 65, .k = 197, .batch = 2, .transpose_b = t}, (extras){.alpha = 2}));
        assert_null(check(false, (shape){.m = 36, .n = 8, .k = 192, .transpose_b = t}, sum));
        tuning()->gemm_split_k = 1;
        assert_null(check(false, (shape){.m = 33, .n = 9, .k = 40, .batch = 3, .transpose_b = t}, sum));
        assert_null(check(false, (shape){.m = 33, .n = 9, .k = 40, .batch = 3, .transpose_b = t, .shared_b = true},
                          (extras){.bias = true, .activation = TFM_RELU}));
        assert_null(check(false, (shape){.m = 20, .n = 36, .k = 8, .transpose_b = t},
                          (extras){.bias = true, .activation = TFM_RELU, .alpha = 0.5f}));
        tuning()->gemm_index_64bit = true;
        assert_null(check(false, (shape){.m = 40, .n = 65, .k = 33, .transpose_b = t}, plain));
        tuning()->gemm_index_64bit = false;
    }
    *tuning() = own;
}

/* NaN and infinity of a row stay in it; fp16 overflow saturates. */
static void test_mma_keeps_nan_and_clamps_fp16_overflow(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    tfm_context *ctx = harness_context();
    for (tfm_dtype inputs = TFM_F16; inputs <= TFM_BF16 && pose(TFM__MMA_M16N8K16, inputs, 4); inputs++) {
        float a[4][5] = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, NAN}, {INFINITY, 1, 1, 1, 1}, {1e5f, 0, 0, 0, 0}}, b[5][37];
        for (int i = 0; i < 5 * 37; i++)
            b[i / 37][i % 37] = 1;
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor ta = HARNESS_TENSOR(TFM_F32, a, 4, 5), tb = HARNESS_TENSOR(TFM_F32, b, 5, 37), c = {0};
        const char *why;
        harness_ok(tfm__gemm_with(ctx, &tfm__gemm_gpu_mma, &why, &c, ta, tb, NULL));
        assert_null(why);
        float *got = harness_floats(c);
        for (int j = 0; j < 37; j++) {
            assert_true(got[j] == 5 && isnan(got[37 + j]) && isinf(got[2 * 37 + j]));
            assert_true(got[3 * 37 + j] == (inputs == TFM_F16 ? 65504 : 99840)); /* 1e5 in 8 bits */
        }
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    *tuning() = own;
}

/* It is the default where rounding is allowed, and unused where it is not. */
static void test_mma_is_selected_only_where_rounding_is_allowed(void **state) {
    (void)state;
    require_gpu_class();
    const tfm__tuning own = *tuning();
    const tfm__gemm_task task = {.batch = 1, .m = 100, .n = 100, .k = 100, .shared_b = true, .alpha = 1};
    const bool gpu = strcmp(tuning()->name, "gpu") == 0;
    if (pose(TFM__MMA_WMMA, TFM_BF16, 0)) {
        assert_int_equal(tfm__gemm_select(harness_context(), &task) == &tfm__gemm_gpu_mma, gpu);
        assert_int_equal(tfm__context_set_gemm_input_dtype(harness_context(), TFM_F32), TFM_BF16);
        assert_ptr_not_equal(tfm__gemm_select(harness_context(), &task), &tfm__gemm_gpu_mma);
        assert_non_null(strstr(tfm__gemm_gpu_mma.declines(harness_context(), &task), "reads fp32"));
    }
    *tuning() = own;
}

/* The self-test's MMA checks, next to the emulation. */
static void test_mma_selftest_passes(void **state) {
    (void)state;
    require_gpu_class();
    extern const tfm__check_entry tfm__selftest_gemm[];
    const tfm__tuning own = *tuning();
    int seen = 0;
    if (harness_slow() || !pose(TFM__MMA_MFMA, TFM_F32, 0))
        tuning()->mma = TFM__MMA_NONE; /* then they report it */
    const bool there = tuning()->mma != TFM__MMA_NONE;
    for (const tfm__check_entry *entry = tfm__selftest_gemm; entry->op; entry++) {
        if (strncmp(entry->form, "gpu-mma", 7) != 0)
            continue;
        seen++;
        if (there && harness_brief() && strstr(entry->form, ", tiles"))
            continue; /* test_gemm_mma_multistage.c tests those of another instruction */

        /* Only NVIDIA has multistage kernels: test_gemm_mma_multistage.c. */
        const bool rings = strstr(entry->form, ", multistage") != NULL;
        tfm__check c = {.ctx = harness_context(), .form = entry->form, .number = entry->number, .random = 2017};
        harness_ok(tfm_scope_open(c.ctx));
        entry->run(&c);
        harness_ok(tfm_scope_close(c.ctx, 0, NULL));
        assert_int_equal(c.skip_reason == NULL, there && !rings);
        assert_true(!there || !rings || strstr(c.skip_reason, "no multistage tiles"));
        assert_true(c.error < 2e-5);
        assert_int_equal(tuning()->gemm_input_dtype, TFM_F32);
        for (size_t i = 0; i < c.allocation_count; i++)
            free(c.allocations[i]);
    }
    assert_int_equal(seen, 6);
    *tuning() = own;
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level == TFM_LOG_WARNING && strstr(line, "matrix cores") != NULL;
}

/* A fresh context with no validation results, with a cache in this folder, or if NULL, the program's cache. The last
 * one ends without: PoCL would recompile to return its binaries. */
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
}

static void again(void **state) {
    again_in(state, NULL);
}

/* A wrong fragment layout: the first GEMM detects it, another provider computes it, and one warning is logged. */
static void test_wrong_mma_fragments_are_replaced_with_one_warning(void **state) {
    require_gpu_class();
    size_t size;
    char *text = scratch_source("cl/common/mma.cl", &size);
    const char *right = "#define A_WORD(row, k) ((row) / 8 + (k) / 8 * 2)",
               *wrong = "#define A_WORD(row, k) ((row) / 8 * 2 + (k) / 8)";
    size_t at = 0;
    while (at < size && strncmp(text + at, right, strlen(right)) != 0)
        at++;
    assert_true(at < size && strlen(right) == strlen(wrong));
    memcpy(text + at, wrong, strlen(wrong));
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("mma.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    warnings = 0;
    if (pose(TFM__MMA_M16N8K16, TFM_F16, 4)) {
        tuning()->gemm_order[0] = (tfm__gemm_preference){.provider = "gpu-mma"};
        tuning()->gemm_order[1] = (tfm__gemm_preference){.provider = "reference"};
        assert_null(check(true, (shape){.m = 33, .n = 35, .k = 40}, (extras){0}));
        assert_int_equal(warnings, 1);
        assert_null(check(true, (shape){.m = 33, .n = 35, .k = 41}, (extras){0}));
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(check(false, (shape){.m = 33, .n = 35, .k = 41}, (extras){0}), "wrong"));
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

/* The device's own MMA instruction, if any: all tiles, transpose combinations and dtypes. */
static void test_native_mma_matches_rounded_inputs(void **state) {
    require_gpu_class();
    again(state);
    const tfm__tuning own = *tuning();
    if (own.mma == TFM__MMA_NONE) {
        printf("skipped: the device has no matrix cores\n");
        skip();
    }
    int ran = 0;
    for (int i = 0; i < 32; i++) {
        const bool odd = (i ^ i >> 1 ^ i >> 2 ^ i >> 3) & 1;
        if (!pose(own.mma, i & 4 ? TFM_F16 : TFM_BF16, 1 + i / 8))
            continue;
        tuning()->mma_emulated = false;
        harness_align(odd ? 0 : 4);
        assert_null(check(false,
                          (shape){.m = odd ? 137 : 260,
                                  .n = odd ? 69 : 132,
                                  .k = odd ? 83 : 164,
                                  .transpose_a = i >> 1 & 1,
                                  .transpose_b = i & 1},
                          (extras){.bias = odd, .activation = odd ? TFM_RELU : TFM_NO_ACTIVATION}));
        ran++;
    }
    harness_align(0);
    assert_true(ran > 0);
    *tuning() = own;
}

/* An instruction that the device lacks. */
static tfm__mma absent(void) {
    const tfm__mma own = harness_context()->capabilities.mma;
    return own == TFM__MMA_M16N8K16 || own == TFM__MMA_M16N8K8 ? TFM__MMA_WMMA : TFM__MMA_M16N8K16;
}

/* An instruction that does not build: another provider computes, and the next context knows that without a trial. */
static void test_unbuildable_mma_instruction_is_remembered(void **state) {
    require_gpu_class();
    assert_int_equal(scratch_setup(state), 0);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    for (int run = 0; run < 2; run++) {
        again_in(state, scratch_root);
        if (!pose(absent(), TFM_BF16, 4))
            continue;
        tuning()->mma_emulated = false;
        warnings = 0;
        assert_null(check(true, (shape){.m = 33, .n = 35, .k = 40}, (extras){0}));
        const tfm__gemm_task task = {.batch = 1, .m = 33, .n = 35, .k = 40, .shared_b = true, .alpha = 1};
        if (strcmp(tuning()->name, "gpu") == 0) {
            assert_int_equal(warnings, run == 0);
            assert_non_null(strstr(tfm__gemm_gpu_mma.declines(harness_context(), &task), "does not build"));
        }
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    again(state);
    scratch_teardown(state);
}

/* The cache state during a kernel's validation, as left by a process that ends there; no other process validates
 * meanwhile. */
static void keep_cache(void *user, tfm_log_level level, const char *line) {
    char command[8300];
    int lock;
    if (level <= TFM_LOG_WARNING)
        warnings++;
    if (!strstr(line, "gemm_mma.cl"))
        return;
    assert_false(tfm__cache_lock(&lock, 0));
    snprintf(command, sizeof(command), "cp -r '%s' '%s'", getenv("TFM_CACHE_DIR"), (const char *)user);
    assert_int_equal(system(command), 0);
}

/* A process that ends during validation, by the user or by the driver: the next one retries, the one after that does
 * not. */
static void test_crash_twice_disables_kernel(void **state) {
    require_gpu_class();
    assert_int_equal(scratch_setup(state), 0);
    char folders[4][4200];
    for (int run = 0; run < 4; run++)
        snprintf(folders[run], sizeof(folders[run]), "%s/%d", scratch_root, run);
    for (int run = 0; run < 3; run++) {
        again_in(state, folders[run]);
        if (!pose(absent(), TFM_BF16, 4) || strcmp(tuning()->name, "gpu") != 0)
            break;
        tuning()->mma_emulated = false;
        warnings = 0;
        tfm_log_set(keep_cache, folders[run + 1], TFM_LOG_INFO);
        assert_null(check(true, (shape){.m = 33, .n = 35, .k = 40}, (extras){0}));
        tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
        const tfm__gemm_task task = {.batch = 1, .m = 33, .n = 35, .k = 40, .shared_b = true, .alpha = 1};
        const bool tried = run < 2;
        assert_int_equal(warnings, tried);
        assert_non_null(strstr(tfm__gemm_gpu_mma.declines(harness_context(), &task),
                               tried ? "does not build" : "ended in each validation"));
    }
    again(state);
    scratch_teardown(state);
}

/* A GEMM by the instruction in a separate cache folder; false on a device that is not tuned as a GPU. */
static bool multiply_in(void **state, const char *folder, const char *verdict) {
    const tfm__gemm_task task = {.batch = 1, .m = 33, .n = 35, .k = 40, .shared_b = true, .alpha = 1};
    again_in(state, folder);
    if (!pose(absent(), TFM_BF16, 4) || strcmp(tuning()->name, "gpu") != 0)
        return false;
    tuning()->mma_emulated = false;
    warnings = 0;
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    assert_null(check(true, (shape){.m = 33, .n = 35, .k = 40}, (extras){0}));
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    assert_non_null(strstr(tfm__gemm_gpu_mma.declines(harness_context(), &task), verdict));
    return true;
}

/* Another process in its validation, which ends it after a while. */
typedef struct other {
    char command[8500];
    int lock;
} other;

static void *end_it(void *user) {
    other *o = user;
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_int_equal(system(o->command), 0);
    tfm__cache_unlock(o->lock);
    return NULL;
}

/* A process waits for another's validation and takes its result; one that does not end is given up, with nothing
 * stored, after a single wait. */
static void test_mma_validation_waits_for_another_process(void **state) {
    require_gpu_class();
    char first[4200], second[4200];
    other o;
    pthread_t thread;
    assert_int_equal(scratch_setup(state), 0);
    snprintf(first, sizeof(first), "%s/first", scratch_root);
    snprintf(second, sizeof(second), "%s/second", scratch_root);
    if (multiply_in(state, first, "does not build")) {
        assert_int_equal(warnings, 1);
        snprintf(o.command, sizeof(o.command), "cp '%s'/*.tfm '%s'", first, second);
        assert_int_equal(setenv("TFM_CACHE_DIR", second, 1), 0);
        assert_true(tfm__cache_lock(&o.lock, 0) && o.lock >= 0);
        assert_int_equal(pthread_create(&thread, NULL, end_it, &o), 0);
        assert_true(multiply_in(state, second, "does not build"));
        pthread_join(thread, NULL);
        assert_int_equal(warnings, 0); /* nothing was validated */
        if (!harness_brief()) {
            snprintf(second, sizeof(second), "%s/third", scratch_root);
            assert_int_equal(setenv("TFM_CACHE_DIR", second, 1), 0);
            assert_true(tfm__cache_lock(&o.lock, 0) && o.lock >= 0);
            const double begun = tfm__seconds();
            assert_true(multiply_in(state, second, "another program"));
            assert_int_equal(warnings, 1);
            tuning()->gemm_tile = 1;
            check(true, (shape){.m = 133, .n = 135, .k = 40}, (extras){0});
            assert_true(tfm__seconds() - begun < 35);
            tfm__cache_unlock(o.lock);
            assert_true(multiply_in(state, second, "does not build"));
            assert_int_equal(warnings, 1);
        }
    }
    again(state);
    scratch_teardown(state);
}

/* Validation is per kernel: if the compiler fails with an activation, that kernel alone falls back. */
static void test_unbuildable_activation_falls_back(void **state) {
    static const char BEGINNING[] = "#if TFM_ACTIVATION == 1\n#error no\n#endif\n";
    require_gpu_class();
    size_t size;
    char *text = scratch_source("cl/gemm/gemm_mma.cl", &size), *all = malloc(size + sizeof(BEGINNING));
    assert_non_null(all);
    memcpy(all, BEGINNING, sizeof(BEGINNING) - 1);
    memcpy(all + sizeof(BEGINNING) - 1, text, size);
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("gemm_mma.cl", all, size + sizeof(BEGINNING) - 1);
    free(text);
    free(all);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    again(state);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    warnings = 0;
    if (pose(TFM__MMA_M16N8K16, TFM_F16, 4)) {
        tuning()->gemm_order[0] = (tfm__gemm_preference){.provider = "gpu-mma"};
        tuning()->gemm_order[1] = (tfm__gemm_preference){.provider = "reference"};
        const shape s = {.m = 33, .n = 35, .k = 40};
        assert_null(check(false, s, (extras){0}));
        for (int i = 0; i < 2; i++) {
            assert_null(check(true, s, (extras){.activation = TFM_RELU}));
            assert_int_equal(warnings, 1);
        }
        assert_non_null(strstr(check(false, s, (extras){0}), "does not build"));
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    again(state);
    scratch_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma_fragments_match_rounded_inputs),
        cmocka_unit_test(test_mma_odd_shapes_and_epilogues_are_right),
        cmocka_unit_test(test_mma_keeps_nan_and_clamps_fp16_overflow),
        cmocka_unit_test(test_mma_is_selected_only_where_rounding_is_allowed),
        cmocka_unit_test(test_mma_selftest_passes),
        cmocka_unit_test(test_wrong_mma_fragments_are_replaced_with_one_warning),
        cmocka_unit_test(test_native_mma_matches_rounded_inputs),
        cmocka_unit_test(test_unbuildable_mma_instruction_is_remembered),
        cmocka_unit_test(test_crash_twice_disables_kernel),
        cmocka_unit_test(test_mma_validation_waits_for_another_process),
        cmocka_unit_test(test_unbuildable_activation_falls_back),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
