/* Every GEMM provider against double precision: odd shapes, transposes, batches, strides, biases, activations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "support/brief.h"
#include "ops/gemm/gemm.h"
#include "ops/selftest/selftest.h"
#include "support/scratch.h"

typedef struct shape {
    int64_t batch; /* 0: 1 */
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    bool shared_b; /* one b for the whole batch */
} shape;

typedef struct extras {
    const float *bias;
    tfm_activation activation;
    float alpha; /* 0: 1 */
    bool accumulate;
} extras;

static double activated(double v, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return v > 0 ? v : 0;
    case TFM_GELU:
        return v * 0.5 * erfc(-v / sqrt(2));
    case TFM_GELU_TANH:
        return 0.5 * v * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));
    case TFM_SILU:
        return v / (1 + exp(-v));
    default:
        return tfm__check_activation(v, activation); /* used by few models and compared by test_activate */
    }
}

/* With e->accumulate the initial values of c. */
static void oracle(double *c, const float *a, const float *b, const shape *s, const extras *e) {
    const int64_t a_row = s->transpose_a ? 1 : s->k, a_column = s->transpose_a ? s->m : 1;
    const int64_t b_row = s->transpose_b ? 1 : s->n, b_column = s->transpose_b ? s->k : 1;
    for (int64_t z = 0; z < s->batch; z++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++) {
                const float *x = a + z * s->m * s->k + i * a_row;
                const float *y = b + (s->shared_b ? 0 : z * s->n * s->k) + j * b_column;
                double sum = 0;
                for (int64_t l = 0; l < s->k; l++)
                    sum += (double)x[l * a_column] * y[l * b_row];
                double *to = &c[(z * s->m + i) * s->n + j];
                sum = sum * (e->alpha != 0 ? e->alpha : 1) + (e->bias ? e->bias[j] : e->accumulate ? *to : 0);
                *to = activated(sum, e->activation);
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
    int64_t dims[] = {batch, transposed ? columns : rows, transposed ? rows : columns};
    return harness_tensor(TFM_F32, batched ? 3 : 2, batched ? dims : dims + 1, host);
}

static uint64_t launches; /* of the library's kernels, in the last GEMM */

/* One GEMM by one provider (NULL: the chosen one). False if it declines. */
static bool check(const tfm__gemm_provider *provider, shape s, extras e, harness_random *random) {
    tfm_context *ctx = harness_context();
    s.batch = s.batch > 1 ? s.batch : 1;
    const bool batched = s.batch > 1;
    const int64_t batch_b = s.shared_b ? 1 : s.batch;
    float *a = normals(random, s.batch * s.m * s.k), *b = normals(random, batch_b * s.n * s.k);
    harness_ok(tfm_scope_open(ctx));
    tfm_gemm_options options = {.transpose_a = s.transpose_a,
                                .transpose_b = s.transpose_b,
                                .alpha = e.alpha,
                                .accumulate = e.accumulate,
                                .activation = e.activation};
    if (e.bias)
        options.bias = HARNESS_TENSOR(TFM_F32, e.bias, s.n);
    tfm_tensor ta = operand(a, batched, s.batch, s.m, s.k, s.transpose_a);
    tfm_tensor tb = operand(b, batched && !s.shared_b, s.batch, s.k, s.n, s.transpose_b);
    const size_t count = (size_t)(s.batch * s.m * s.n);
    float *before = e.accumulate ? normals(random, (int64_t)count) : NULL;
    tfm_tensor c = operand(before, batched, s.batch, s.m, s.n, false);
    const char *why = NULL;
    const uint64_t launched = ctx->launches;
    harness_ok(tfm__gemm_with(ctx, provider, &why, &c, ta, tb, &options));
    launches = ctx->launches - launched;
    if (!why) {
        char what[160];
        snprintf(what, sizeof(what), "%s: batch %d, m %d, n %d, k %d%s%s%s%s, activation %d",
                 provider ? provider->name : "chosen", (int)s.batch, (int)s.m, (int)s.n, (int)s.k,
                 s.transpose_a ? ", a transposed" : "", s.transpose_b ? ", b transposed" : "",
                 s.shared_b ? ", b shared" : "", e.accumulate ? ", accumulated" : "", (int)e.activation);
        double *want = malloc(count * sizeof(double));
        assert_non_null(want);
        for (size_t i = 0; before && i < count; i++)
            want[i] = (double)before[i];
        oracle(want, a, b, &s, &e);
        float *got = harness_floats(c);
        harness_close(got, want, count, 2e-5, what);
        harness_guards(c);
        free(got);
        free(want);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(a);
    free(b);
    free(before);
    return !why;
}

/* All combinations of odd sizes up to a limit for the oracle's time; an odd `stride` skips some, so that every
 * transpose combination occurs. Brief runs skip more, most of them as on a GPU, whose kernels are slow on PoCL. */
static void odd_shapes(const tfm__gemm_provider *provider, int stride, double most) {
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    harness_random random = {1};
    if (harness_brief() && stride < 11)
        stride = (less() ? 4 : 2) * stride + 1;
    int number = 0;
    for (int i = 0; i < 5 * 5 * 5; i++) {
        shape s = {.m = sizes[i % 5], .n = sizes[i / 5 % 5], .k = sizes[i / 25]};
        if ((double)s.m * (double)s.n * (double)s.k > most)
            continue;
        for (int t = 0; t < 4; t++) {
            s.transpose_a = t & 1;
            s.transpose_b = t & 2;
            if (number++ % stride == 0)
                check(provider, s, (extras){0}, &random);
        }
    }
}

/* Skips the test if the packing providers decline any GEMM. */
static void need_wide(void) {
    if (tfm__context_tuning(harness_context())->class != TFM__CLASS_CPU) {
        printf("skipped: the packing providers decline this device\n");
        skip();
    }
}

static void test_cpu_skinny_gemm_matches_double_precision(void **state) {
    (void)state;
    need_wide();
    odd_shapes(&tfm__gemm_cpu_skinny, 1, 2e6);
}

static void test_cpu_packed_gemm_matches_double_precision(void **state) {
    (void)state;
    need_wide();
    odd_shapes(&tfm__gemm_cpu_packed, 1, 2e6);
}

/* Each register tile, whole and with split-K of three; operands with and without float4 alignment; 32-bit and 64-bit
 * indices. */
static void test_every_gpu_tile_matches_double_precision(void **state) {
    (void)state;
    const tfm__gemm_provider *provider = &tfm__gemm_gpu_tiled;
    tfm__tuning *tuning = &harness_context()->tuning;
    if (tuning->class != TFM__CLASS_GPU) {
        printf("skipped: a CPU-style device\n");
        skip();
    }
    const tfm__tuning own = *tuning;
    const extras sum = {.accumulate = true, .alpha = -0.5f};
    const bool few = harness_brief(); /* options with separate kernels per tile: each tile gets one of them */
    harness_random random = {11};
    int ran = 0;
    for (int tile = 1; tile <= 6; tile += few && harness_slow() ? 2 : 1) {
        tuning->gemm_tile = tile;
        for (int t = 0; t < 4; t++) {
            if (harness_brief() && t != tile % 4)
                continue;
            const bool a = t & 1, b = t & 2;
            tuning->gemm_split_k = 1;
            ran += check(provider, (shape){.m = 133, .n = 135, .k = 37, .transpose_a = a, .transpose_b = b},
                         (extras){0}, &random);
            harness_align(4);
            if (!few || tile == 1)
                check(provider, (shape){.batch = 2, .m = 4, .n = 132, .k = 20, .transpose_a = a, .transpose_b = b}, sum,
                      &random);
            if (b && (!few || tile == 3)) /* c is stored without float4 */
                check(provider, (shape){.m = 68, .n = 69, .k = 72, .transpose_a = a, .transpose_b = b}, (extras){0},
                      &random);
            tuning->gemm_split_k = 3;
            if (!few || tile == 2) /* partial sums are added with float4 */
                check(provider, (shape){.m = 5, .n = 68, .k = 200, .transpose_a = a, .transpose_b = b}, sum, &random);
            harness_align(0);
            tuning->gemm_index_64bit = true;
            tuning->gemm_split_k = 3;
            if (!few || tile == 3)
                check(provider, (shape){.m = 7, .n = 65, .k = 197, .transpose_a = a, .transpose_b = b, .batch = 2},
                      (extras){.alpha = 0.5f}, &random);
            tuning->gemm_index_64bit = false;
            if (!few || tile == 5)
                check(provider, (shape){.m = 132, .n = 8, .k = 192, .transpose_a = a, .transpose_b = b}, sum, &random);
        }
    }
    *tuning = own;
    if (ran == 0) {
        printf("skipped: no tile fits the device\n");
        skip();
    }
    odd_shapes(provider, !harness_slow() ? 5 : few ? 23 : 11, 2e6);
}

/* Tiles with more accumulators than the device has registers, as on Intel GPUs: none is chosen unless a build option
 * provides more registers. tests/gpu checks the register counts; this checks that they are obeyed. */
static void test_tiles_beyond_register_limit_are_declined(void **state) {
    (void)state;
    tfm__tuning *tuning = &harness_context()->tuning;
    if (tuning->class != TFM__CLASS_GPU) {
        printf("skipped: a CPU-style device\n");
        skip();
    }
    const tfm__tuning own = *tuning;
    const tfm__gemm_task task = {.batch = 1, .m = 512, .n = 512, .k = 512, .alpha = 1};
    int taken[3] = {0};
    for (int tile = 1; tile <= 6; tile++) {
        const struct {
            int held;
            const char *more;
        } devices[] = {{0, NULL}, {36, NULL}, {36, " -DMORE"}};
        tuning->gemm_tile = tile;
        for (int i = 0; i < 3; i++) {
            tuning->gemm_register_floats = devices[i].held;
            tuning->large_grf_option = devices[i].more;
            taken[i] += tfm__gemm_gpu_tiled.declines(harness_context(), &task) == NULL;
        }
    }
    assert_in_range(taken[1], 1, taken[0] - 1);
    assert_int_equal(taken[2], taken[0]);
    /* A device that fits no tile uses another provider. */
    harness_random random = {12};
    tuning->gemm_tile = 0;
    tuning->gemm_register_floats = 1;
    tuning->large_grf_option = NULL;
    assert_non_null(tfm__gemm_gpu_tiled.declines(harness_context(), &task));
    assert_false(check(&tfm__gemm_gpu_tiled, (shape){.m = 133, .n = 135, .k = 37}, (extras){0}, &random));
    *tuning = own;
}

static void test_reference_gemm_matches_double_precision(void **state) {
    (void)state;
    odd_shapes(&tfm__gemm_reference, harness_slow() ? 7 : 3, 2e6);
}

static void test_selected_gemm_matches_double_precision(void **state) {
    (void)state;
    odd_shapes(NULL, harness_slow() ? 11 : less() ? 9 : 5, 2e6);
}

/* Every number of rows around the tile heights, every number of columns around the panel widths. */
static void test_gemm_around_tile_edges_is_right(void **state) {
    (void)state;
    harness_random random = {2};
    const int step = harness_slow() ? 13 : harness_brief() ? 3 : 1;
    for (int p = 0; p < TFM__GEMM_PROVIDERS - 1; p++) {
        for (int64_t m = 1; m <= 28; m += step)
            check(tfm__gemm_providers[p], (shape){.m = m, .n = 35, .k = 9, .transpose_a = m % 2, .transpose_b = true},
                  (extras){0}, &random);
        for (int64_t n = 1; n <= 70; n += step)
            check(tfm__gemm_providers[p], (shape){.m = 7, .n = n, .k = 5, .transpose_b = n % 2}, (extras){0}, &random);
    }
}

static void batches(const tfm__gemm_provider *provider, int stride) {
    harness_random random = {3};
    for (int t = 0; t < 8; t += stride) {
        shape s = {.batch = 3, .m = 5, .n = 33, .k = 17, .transpose_a = t & 1, .transpose_b = t & 2, .shared_b = t & 4};
        check(provider, s, (extras){0}, &random);
        s.batch = 7;
        s.m = 14;
        check(provider, s, (extras){.alpha = 0.25f}, &random);
        s.n = 100;
        s.k = 140;
        check(provider, s, (extras){0}, &random);
    }
}

static void test_batched_and_strided_gemm_is_right(void **state) {
    (void)state;
    for (int p = 0; p < TFM__GEMM_PROVIDERS - 1; p++)
        batches(tfm__gemm_providers[p], less() ? 3 : 1);
}

/* More matrices than some devices take in one grid dimension. */
static void test_more_matrices_than_grid_limit_are_right(void **state) {
    (void)state;
    if (harness_slow() || harness_brief()) {
        printf("skipped: 70000 matrices are slow\n");
        skip();
    }
    harness_random random = {4};
    check(&tfm__gemm_reference, (shape){.batch = 70000, .m = 2, .n = 3, .k = 2}, (extras){0}, &random);
    check(NULL, (shape){.batch = 70000, .m = 2, .n = 3, .k = 2, .transpose_b = true}, (extras){0}, &random);
}

static void epilogues(const tfm__gemm_provider *provider) {
    harness_random random = {5};
    for (int activation = TFM_NO_ACTIVATION; activation < TFM_ACTIVATIONS; activation++)
        for (int64_t n = 3; n <= 200 && !(harness_brief() && activation > TFM_RELU && activation != TFM_SILU);
             n += less() ? 122 : 61) {
            float *bias = normals(&random, n);
            extras e = {.bias = bias, .activation = (tfm_activation)activation, .alpha = 0.5f};
            check(provider, (shape){.m = 5, .n = n, .k = 11, .transpose_b = true}, e, &random);
            check(provider, (shape){.m = 15, .n = n, .k = 11, .transpose_b = true}, e, &random);
            e.bias = NULL;
            check(provider, (shape){.batch = 2, .m = 2, .n = n, .k = 11, .transpose_a = true}, e, &random);
            if (activation <= TFM_RELU) { /* -inf: a token excluded from search */
                for (int64_t j = 0; j < n; j += 2)
                    bias[j] = -INFINITY;
                e.bias = bias;
                check(provider, (shape){.m = 14, .n = n, .k = 3, .transpose_b = true}, e, &random);
            }
            free(bias);
        }
}

static void test_bias_and_activation_epilogues_are_right(void **state) {
    (void)state;
    for (int p = 0; p < TFM__GEMM_PROVIDERS - 1; p++)
        epilogues(tfm__gemm_providers[p]);
}

/* Brief runs skip CLBlast on GPUs: PoCL compiles it for longer than all other kernels, and it is tested on CPUs. */
static void need_clblast(void) {
    if (less()) {
        printf("skipped: CLBlast compiles for long\n");
        skip();
    }
}

static const char *clblast_declines(void) {
    const tfm__gemm_task task = {.batch = 1, .m = 3, .n = 5, .k = 7, .shared_b = true, .alpha = 1};
    return tfm__gemm_declines(harness_context(), &tfm__gemm_clblast, &task);
}

static void accumulations(const tfm__gemm_provider *provider) {
    harness_random random = {9};
    const extras sum = {.accumulate = true}, scaled = {.accumulate = true, .alpha = -0.5f};
    for (int t = 0; t < 4; t++) {
        check(provider, (shape){.m = 3, .n = 65, .k = 17, .transpose_a = t & 1, .transpose_b = t & 2}, sum, &random);
        check(provider, (shape){.m = 65, .n = 33, .k = 40, .transpose_a = t & 1, .transpose_b = t & 2}, scaled,
              &random);
        check(
            provider,
            (shape){.batch = 3, .m = 14, .n = 5, .k = 9, .transpose_a = t & 1, .transpose_b = t & 2, .shared_b = t & 1},
            scaled, &random);
    }
}

/* A transposed a by blocks of rows: more than one, and a c so small that sums are split; b in whole panels, read in
 * place or packed. */
static void check_transposed(const tfm__gemm_provider *provider) {
    harness_random random = {10};
    float *bias = normals(&random, 64);
    for (int64_t n = 63; n <= (provider || !harness_brief() ? 64 : 63); n++) {
        check(provider, (shape){.m = 100, .n = n, .k = 1000, .transpose_a = true}, (extras){.alpha = 0.5f}, &random);
        check(provider, (shape){.m = 53, .n = n, .k = 600, .transpose_a = true, .transpose_b = true},
              (extras){.accumulate = true}, &random);
        check(provider, (shape){.batch = 3, .m = 20, .n = n, .k = 530, .transpose_a = true}, (extras){0}, &random);
        for (int activation = TFM_NO_ACTIVATION; activation <= TFM_GELU; activation += harness_brief() ? TFM_GELU : 1)
            check(provider, (shape){.m = 50, .n = n, .k = 520, .transpose_a = true},
                  (extras){.bias = bias, .activation = (tfm_activation)activation}, &random);
    }
    check(provider, (shape){.m = 900, .n = 64, .k = 300, .transpose_a = true}, (extras){0},
          &random); /* strips enough to pack b */
    free(bias);
}

static void test_transposed_a_blocks_are_right(void **state) {
    (void)state;
    check_transposed(&tfm__gemm_cpu_packed);
    if (!less()) /* block sizes that GPUs do not use */
        check_transposed(NULL);
}

/* c += alpha a b, as in gradient accumulation. */
static void test_accumulating_gemm_is_right(void **state) {
    (void)state;
    for (int p = 0; p < TFM__GEMM_PROVIDERS; p++)
        if (!(harness_slow() || less()) ||
            tfm__gemm_providers[p] != &tfm__gemm_clblast) /* CPUs have it in brief runs */
            accumulations(tfm__gemm_providers[p]);
    assert_null(clblast_declines());
}

static void test_clblast_gemm_matches_double_precision(void **state) {
    (void)state;
    need_clblast();
    const tfm__gemm_provider *provider = &tfm__gemm_clblast;
    harness_random random = {6};
    if (!check(provider, (shape){.m = 3, .n = 5, .k = 7}, (extras){0}, &random)) {
        printf("skipped: CLBlast declines this device\n");
        skip();
    }
    odd_shapes(provider, harness_slow() ? 23 : 7, 2e6);
    batches(provider, harness_slow() || less() ? 3 : 1);
    if (!harness_slow()) {
        epilogues(provider);
        check(provider, (shape){.m = 250, .n = 300, .k = 260, .transpose_b = true}, (extras){0}, &random);
        check(provider, (shape){.batch = 2, .m = 250, .n = 300, .k = 260, .transpose_a = true}, (extras){0}, &random);
    }
    assert_null(clblast_declines());
}

/* CLBlast switches kernels at a size that depends on the device: each octave is compared, with random numbers. */
static void test_clblast_is_validated_once_per_size(void **state) {
    tfm_context *ctx = harness_context();
    const tfm__gemm_provider *provider = &tfm__gemm_clblast;
    harness_random random = {9};
    const shape small = {.m = 3, .n = 5, .k = 7}, large = {.m = 17, .n = 65, .k = 33};
    const float zero = 0;
    need_clblast();
    if (!check(provider, small, (extras){0}, &random)) {
        printf("skipped: CLBlast declines this device\n");
        skip();
    }
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
    ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 3, 7), b = HARNESS_TENSOR(TFM_F32, NULL, 7, 5), c = {0};
    harness_ok(tfm__tensor_fill(ctx, b, &zero));
    const float values[] = {0, NAN};
    for (int i = 0; i < 2; i++) {
        const char *why;
        harness_ok(tfm__tensor_fill(ctx, a, &values[i]));
        const uint64_t launched = ctx->launches;
        harness_ok(tfm__gemm_with(ctx, provider, &why, &c, a, b, NULL));
        assert_true(ctx->launches > launched); /* the reference kernel's; those numbers are not random */
    }
    check(provider, small, (extras){0}, &random);
    assert_true(launches > 0);
    check(provider, small, (extras){0}, &random);
    assert_int_equal(launches, 0);
    check(provider, large, (extras){0}, &random);
    assert_true(launches > 0);
    tfm_tensor_free(ctx, &a);
    tfm_tensor_free(ctx, &b);
    tfm_tensor_free(ctx, &c);
}

/* Sizes beyond the provider's int range or a device's grid. */
static void test_clblast_declines_beyond_32_bits(void **state) {
    (void)state;
    const tfm__gemm_task tasks[] = {
        {.batch = 1, .m = 65536, .n = 32768, .k = 8, .shared_b = true},
        {.batch = 1, .m = 8, .n = 1 << 20, .k = 8, .shared_b = true},
        {.batch = 1 << 16, .m = 8, .n = 8, .k = 8},
        {.batch = 1, .m = 8, .n = 8, .k = 8, .shared_b = true, .b = {.offset = INT32_MAX}},
        {.batch = 1, .m = 30000, .n = 30000, .k = 30000, .shared_b = true},
    };
    for (size_t i = 0; i < TFM__COUNT(tasks); i++) {
        const char *why = tfm__gemm_clblast.declines(harness_context(), &tasks[i]);
        assert_non_null(why);
        assert_non_null(strstr(why, "32 bits"));
    }
}

static int warnings;

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    (void)user;
    warnings += level == TFM_LOG_WARNING && strstr(line, "the result of CLBlast was wrong") != NULL;
}

/* A CLBlast that disagrees with the plain kernel (here the plain kernel is wrong) is detected at its first GEMM;
 * another provider computes it again, one warning is logged, and CLBlast is not used again. */
static void test_wrong_clblast_result_is_replaced(void **state) {
    need_clblast();
    const tfm__tuning *tuning = tfm__context_tuning(harness_context());
    if (tuning->class != TFM__CLASS_CPU && strcmp(tuning->gemm_order[0].provider, "reference") == 0) {
        printf("skipped: the fallback on this device is the plain kernel\n");
        skip();
    }
    size_t size;
    char *text = scratch_source("cl/gemm/gemm_reference.cl", &size);
    const char *zero = "sum[i][j] = 0.0f";
    size_t at = 0;
    while (at < size && strncmp(text + at, zero, strlen(zero)) != 0)
        at++;
    assert_true(at < size);
    text[at + strlen("sum[i][j] = ")] = '1';
    harness_teardown(state);
    assert_int_equal(scratch_setup(state), 0);
    scratch_write("gemm_reference.cl", text, size);
    free(text);
    assert_int_equal(setenv("TFM_CL_DIR", scratch_root, 1), 0);
    assert_int_equal(harness_setup(state), 0);
    tfm_log_set(count_warnings, NULL, TFM_LOG_WARNING);
    harness_random random = {8};
    warnings = 0;
    assert_true(check(&tfm__gemm_clblast, (shape){.m = 9, .n = 5, .k = 7, .transpose_b = true}, (extras){0}, &random));
    assert_false(check(&tfm__gemm_clblast, (shape){.m = 9, .n = 5, .k = 7, .transpose_b = true}, (extras){0}, &random));
    assert_int_equal(warnings, 1);
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    unsetenv("TFM_CL_DIR");
    harness_teardown(state);
    scratch_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* The kernels as compiled for other CPUs: this device runs any vector width, though more slowly. */
static void test_cpu_kernels_are_right_at_other_vector_widths(void **state) {
    need_wide();
    static const int widths[][2] = {{8, 6}, {4, 6}}; /* vector width, rows of a tile: AVX2, SSE and NEON */
    for (int i = 0; i < 2; i++) {
        harness_teardown(state);
        assert_int_equal(harness_setup(state), 0);
        tfm__tuning *tuning = (tfm__tuning *)tfm__context_tuning(harness_context());
        tuning->width = widths[i][0];
        tuning->gemm_mr = widths[i][1];
        tuning->gemm_mr_tail = widths[i][1] * 2 / 3;
        tuning->fma = i == 0;
        odd_shapes(&tfm__gemm_cpu_packed, 5, 2e6);
        odd_shapes(&tfm__gemm_cpu_skinny, 5, 2e6);
        batches(&tfm__gemm_cpu_packed, 3);
        epilogues(&tfm__gemm_cpu_packed);
        epilogues(&tfm__gemm_cpu_skinny);
        accumulations(&tfm__gemm_cpu_packed);
        accumulations(&tfm__gemm_cpu_skinny);
        check_transposed(&tfm__gemm_cpu_packed);
    }
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* The plain kernel on devices with smaller work-group limits, down to one item. */
static void test_reference_gemm_runs_in_small_workgroups(void **state) {
    (void)state;
    tfm__limits *limits = (tfm__limits *)tfm__context_limits(harness_context());
    const size_t most = limits->max_group;
    for (size_t group = 64; group > 0; group = group == 1 ? 0 : group == 64 ? 16 : 1) {
        limits->max_group = group < most ? group : most;
        odd_shapes(&tfm__gemm_reference, harness_slow() ? 31 : 7, 2e6);
        batches(&tfm__gemm_reference, 3);
    }
    limits->max_group = most;
}

/* Few rows and many agree to rounding on every provider; NaN in an input stays in its row. */
static void test_nan_stays_in_its_row(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (int p = 0; p < TFM__GEMM_PROVIDERS - 1; p++) {
        float a[3][5] = {{0}}, b[5][37] = {{0}};
        a[1][4] = NAN;
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor ta = HARNESS_TENSOR(TFM_F32, a, 3, 5), tb = HARNESS_TENSOR(TFM_F32, b, 5, 37), c = {0};
        const char *why;
        harness_ok(
            tfm__gemm_with(ctx, tfm__gemm_providers[p], &why, &c, ta, tb, &(tfm_gemm_options){.activation = TFM_RELU}));
        if (!why) {
            float *got = harness_floats(c);
            for (int i = 0; i < 3 * 37; i++)
                assert_true(i / 37 == 1 ? isnan(got[i]) : got[i] == 0);
            free(got);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

static void check_linear(tfm_tensor x, tfm_param *weight, tfm_tensor bias, const float *hx, const float *hw,
                         const float *hb, int64_t rows, int64_t n, int64_t k) {
    tfm_context *ctx = harness_context();
    tfm_tensor y = {0};
    double *want = malloc((size_t)(rows * n) * sizeof(double));
    assert_non_null(want);
    harness_ok(tfm_linear(ctx, &y, x, weight, bias, TFM_RELU));
    assert_int_equal(y.rank, x.rank);
    assert_int_equal(y.dims[y.rank - 1], n);
    float *got = harness_floats(y);
    oracle(want, hx, hw, &(shape){.batch = 1, .m = rows, .n = n, .k = k, .transpose_b = true},
           &(extras){.bias = hb, .activation = TFM_RELU});
    harness_close(got, want, (size_t)(rows * n), 2e-5, "linear");
    free(got);
    free(want);
    tfm_tensor_free(ctx, &y);
}

/* The packed copy outlives scopes, follows the weight's version, and is made once. */
static void test_packed_weight_copy_follows_weight_version(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {7};
    const int64_t n = 77, k = 33;
    float *hx = normals(&random, 26 * k), *hw = normals(&random, n * k), *hb = normals(&random, n);
    tfm_param weight = {0};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor bias = HARNESS_TENSOR(TFM_F32, hb, n), x = HARNESS_TENSOR(TFM_F32, hx, 2, 13, k);
    tfm_tensor row = HARNESS_TENSOR(TFM_F32, hx, k);
    harness_ok(tfm_tensor_new(ctx, &weight.value, TFM_F32, 2, (int64_t[]){n, k}));
    harness_ok(tfm_tensor_write(ctx, weight.value, hw));
    harness_ok(tfm_scope_open(ctx));
    check_linear(x, &weight, bias, hx, hw, hb, 26, n, k);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    tfm_tensor packed = weight.packed;
    tfm_tensor filler = HARNESS_TENSOR(TFM_F32, NULL, 200, k); /* would reuse the memory of a freed packed copy */
    check_linear(row, &weight, bias, hx, hw, hb, 1, n, k);
    check_linear(x, &weight, (tfm_tensor){0}, hx, hw, NULL, 26, n, k);
    assert_memory_equal(&packed, &weight.packed, sizeof(packed));
    (void)filler;

    harness_fill(&random, hw, (size_t)(n * k), 1);
    harness_ok(tfm_tensor_write(ctx, weight.value, hw));
    weight.version++;
    check_linear(x, &weight, bias, hx, hw, hb, 26, n, k);
    tfm_param_free(ctx, &weight);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(hx);
    free(hw);
    free(hb);
}

static void test_gemm_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 4, 6), b = HARNESS_TENSOR(TFM_F32, NULL, 6, 5), c = {0};
    tfm_tensor flat = HARNESS_TENSOR(TFM_F32, NULL, 6), ids = HARNESS_TENSOR(TFM_I32, NULL, 6, 5);
    tfm_tensor many = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 6), three = HARNESS_TENSOR(TFM_F32, NULL, 3, 6, 5);
    tfm_tensor square = HARNESS_TENSOR(TFM_F32, NULL, 6, 6);
    tfm_param none = {0}, odd = {.value = flat};
    harness_refused(tfm_gemm(ctx, NULL, a, b, &(tfm_gemm_options){.accumulate = true}), no, "a c to add to");
    harness_refused(tfm_gemm(ctx, &c, a, (tfm_tensor){0}, NULL), no, "gemm: input 2 is an empty tensor");
    harness_refused(tfm_gemm(ctx, &c, a, ids, NULL), no, "gemm: input 2 is (6, 5) I32");
    harness_refused(tfm_gemm(ctx, &c, a, a, NULL), no, "a (4, 6) F32 and b (4, 6) F32 disagree on the inner");
    harness_refused(tfm_gemm(ctx, &c, a, b, &(tfm_gemm_options){.transpose_b = true}), no, "(6, 5) F32 transposed");
    harness_refused(tfm_gemm(ctx, &c, flat, b, NULL), no, "two dimensions");
    harness_refused(tfm_gemm(ctx, &c, many, three, NULL), no, "disagree on the batch");
    harness_refused(tfm_gemm(ctx, &c, a, three, NULL), no, "disagree on the batch");
    harness_refused(tfm_gemm(ctx, &c, a, b, &(tfm_gemm_options){.bias = flat}), no, "bias is (6) F32");
    harness_refused(tfm_gemm(ctx, &c, a, b, &(tfm_gemm_options){.activation = 99}), no, "activation number 99");
    const tfm_gemm_options more = {.accumulate = true}, relu = {.accumulate = true, .activation = TFM_RELU};
    tfm_tensor sum = HARNESS_TENSOR(TFM_F32, NULL, 4, 5);
    harness_refused(tfm_gemm(ctx, &c, a, b, &more), no, "needs a c to add to");
    harness_refused(tfm_gemm(ctx, &sum, a, b, &relu), no, "neither bias nor activation");
    harness_refused(tfm_gemm(ctx, &flat, a, b, NULL), no, "output is (6) F32, the result (4, 5) F32");
    harness_refused(tfm_gemm(ctx, &square, square, square, NULL), no, "shares memory");
    harness_refused(tfm_linear(ctx, &c, a, NULL, (tfm_tensor){0}, TFM_RELU), no, "linear: weight is NULL");
    harness_refused(tfm_linear(ctx, &c, a, &none, (tfm_tensor){0}, TFM_RELU), no, "linear: input 2");
    harness_refused(tfm_linear(ctx, &c, a, &odd, (tfm_tensor){0}, TFM_RELU), no, "must be (N, K)");
    assert_null(c.buffer);
}

/* Provider selection by name. */
static void test_gemm_provider_is_selected_by_name(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const char *why = NULL;
    size_t count = 0;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 9, 6), b = HARNESS_TENSOR(TFM_F32, NULL, 6, 5), c = {0};
    tfm_tensor w = HARNESS_TENSOR(TFM_F32, NULL, 5, 6);
    tfm_param weight = {.value = w};
    for (; tfm_gemm_provider(count); count++)
        assert_string_equal(tfm_gemm_provider(count), tfm__gemm_providers[count]->name);
    assert_int_equal(count, TFM__GEMM_PROVIDERS);
    harness_ok(tfm_gemm_with(ctx, "reference", &why, &c, a, b, NULL));
    assert_null(why);
    harness_ok(tfm_gemm_with(ctx, NULL, &why, &c, a, b, NULL));
    assert_null(why);
    harness_ok(tfm_gemm_with(ctx, "cpu-skinny", &why, &c, a, b, NULL)); /* nine rows are not skinny on any device */
    assert_non_null(why);
    harness_ok(tfm_linear_with(ctx, "cpu-skinny", &why, &c, a, &weight, (tfm_tensor){0}, TFM_RELU));
    assert_non_null(why);
    harness_ok(tfm_linear_with(ctx, "reference", &why, &c, a, &weight, (tfm_tensor){0}, TFM_RELU));
    assert_null(why);
    assert_non_null(tfm_gemm_select(ctx, 100, 100, 100));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    assert_null(tfm_gemm_select(ctx, 0, 1, 1));
    harness_refused(tfm_context_status(ctx), TFM_ERROR_ARGUMENT, "gemm_select");
    harness_refused(tfm_gemm_with(ctx, "fastest", &why, &c, a, b, NULL), TFM_ERROR_ARGUMENT, "no provider 'fastest'");
    harness_refused(tfm_linear_with(ctx, "", &why, &c, a, &weight, (tfm_tensor){0}, TFM_RELU), TFM_ERROR_ARGUMENT,
                    "linear: there is no provider ''");
}

static void test_tfm_gemm_variable_selects_providers(void **state) {
    (void)state;
    const tfm__gemm_task task = {.batch = 1, .m = 100, .n = 100, .k = 100, .shared_b = true};
    const char *modes[] = {"clblast", "builtin", "", "fastest"};
    for (int i = 0; i < 4; i++) {
        tfm_context *ctx = NULL;
        assert_int_equal(setenv("TFM_GEMM", modes[i], 1), 0);
        harness_ok(tfm_context_open(&ctx, NULL));
        const tfm__gemm_provider *chosen = tfm__gemm_select(ctx, &task);
        if (i == 0)
            assert_ptr_equal(chosen, &tfm__gemm_clblast);
        else if (i < 3)
            assert_ptr_not_equal(chosen, &tfm__gemm_clblast);
        else {
            assert_null(chosen);
            assert_non_null(strstr(tfm_context_error(ctx), "auto, clblast or builtin"));
        }
        tfm_context_free(&ctx);
    }
    unsetenv("TFM_GEMM");
}

/* A tuning row with an unknown provider must not cause an error or slow GEMMs. */
static void test_unknown_provider_in_tuning_is_an_error(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    tfm_tensor a = {0}, c = {0};
    harness_ok(tfm_context_open(&ctx, NULL));
    ctx->tuning.gemm_order[0] = (tfm__gemm_preference){.provider = "clblsat"};
    harness_ok(tfm_tensor_new(ctx, &a, TFM_F32, 2, (int64_t[]){2, 2}));
    assert_int_equal(tfm_gemm(ctx, &c, a, a, NULL), TFM_ERROR_UNSUPPORTED);
    assert_non_null(strstr(tfm_error_message(), "asks for a provider 'clblsat'"));
    tfm_context_free(&ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_skinny_gemm_matches_double_precision),
        cmocka_unit_test(test_unknown_provider_in_tuning_is_an_error),
        cmocka_unit_test(test_cpu_packed_gemm_matches_double_precision),
        cmocka_unit_test(test_every_gpu_tile_matches_double_precision),
        cmocka_unit_test(test_tiles_beyond_register_limit_are_declined),
        cmocka_unit_test(test_reference_gemm_matches_double_precision),
        cmocka_unit_test(test_selected_gemm_matches_double_precision),
        cmocka_unit_test(test_gemm_around_tile_edges_is_right),
        cmocka_unit_test(test_batched_and_strided_gemm_is_right),
        cmocka_unit_test(test_more_matrices_than_grid_limit_are_right),
        cmocka_unit_test(test_bias_and_activation_epilogues_are_right),
        cmocka_unit_test(test_transposed_a_blocks_are_right),
        cmocka_unit_test(test_accumulating_gemm_is_right),
        cmocka_unit_test(test_clblast_gemm_matches_double_precision),
        cmocka_unit_test(test_clblast_is_validated_once_per_size),
        cmocka_unit_test(test_clblast_declines_beyond_32_bits),
        cmocka_unit_test(test_wrong_clblast_result_is_replaced),
        cmocka_unit_test(test_cpu_kernels_are_right_at_other_vector_widths),
        cmocka_unit_test(test_reference_gemm_runs_in_small_workgroups),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_packed_weight_copy_follows_weight_version),
        cmocka_unit_test(test_gemm_rejects_bad_arguments),
        cmocka_unit_test(test_gemm_provider_is_selected_by_name),
        cmocka_unit_test(test_tfm_gemm_variable_selects_providers),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
