/* 16-bit weights: linear layers by every provider, fused layers of one input, and embeddings, against double precision
 * on the rounded numbers; all 65536 patterns; and ops that reject them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/fused_linear.h"
#include "ops/gemm/quantize.h"
#include "tfm/tape.h"

static const tfm_dtype DTYPES[] = {TFM_F16, TFM_BF16};

/* The value of a pattern, by the definition of the formats. */
static double value_of(uint16_t bits, tfm_dtype dtype) {
    const int fraction_bits = dtype == TFM_F16 ? 10 : 7, bias = dtype == TFM_F16 ? 15 : 127;
    const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7fff) >> fraction_bits;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 2 * bias + 1)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)
                            : ldexp(fraction, 1 - bias - fraction_bits));
}

/* Random patterns of numbers between 2^-6 and 4, and their values. */
static void fill(harness_random *random, uint16_t *bits, double *values, int64_t count, tfm_dtype dtype) {
    const int fraction_bits = dtype == TFM_F16 ? 10 : 7, bias = dtype == TFM_F16 ? 15 : 127;
    for (int64_t i = 0; i < count; i++) {
        bits[i] = (uint16_t)((harness_range(random, 0, 1) << 15) |
                             (harness_range(random, bias - 6, bias + 1) << fraction_bits) |
                             harness_range(random, 0, (1 << fraction_bits) - 1));
        values[i] = value_of(bits[i], dtype);
    }
}

/* In the middle of poisoned memory, or at the start of a buffer, where vector loads are possible. */
static tfm_tensor tensor_of(tfm_dtype dtype, const void *host, int64_t rows, int64_t columns, bool aligned) {
    if (!aligned)
        return HARNESS_TENSOR(dtype, host, rows, columns);
    tfm_tensor x = {0};
    harness_ok(tfm_tensor_new(harness_context(), &x, dtype, 2, (int64_t[]){rows, columns}));
    harness_ok(tfm_tensor_write(harness_context(), x, host));
    return x;
}

static double activated(double v, tfm_activation activation) {
    return activation == TFM_RELU ? fmax(v, 0) : activation == TFM_SILU ? v / (1 + exp(-v)) : v;
}

typedef struct layer {
    int64_t m, n, k;
    tfm_dtype dtype;
    bool aligned, biased;
    tfm_activation activation;
} layer;

/* Mantissa bits to which this provider rounds x, or 0: `cpu-bf16` and MMA round to the weight's dtype. */
static int rounded_by(const char *provider, tfm_dtype dtype) {
    const bool rounds = strcmp(provider, "cpu-bf16") == 0 || strcmp(provider, "gpu-mma") == 0;
    return !rounds ? 0 : dtype == TFM_F16 ? 11 : 8;
}

static void oracle(double *want, const layer *l, const float *x, const double *w, const float *bias, int bits) {
    for (int64_t e = 0; e < l->m * l->n; e++) {
        double sum = l->biased ? (double)bias[e % l->n] : 0;
        for (int64_t p = 0; p < l->k; p++) {
            const double a = (double)x[e / l->n * l->k + p];
            sum += (bits ? harness_rounded(a, bits) : a) * w[e % l->n * l->k + p];
        }
        want[e] = activated(sum, l->activation);
    }
}

/* Runs the layer by each provider, and by the default one; returns a bit for each that accepted. */
static unsigned check_layer(layer l, harness_random *random) {
    tfm_context *ctx = harness_context();
    float *x = malloc((size_t)(l.m * l.k) * sizeof(*x)), *bias = malloc((size_t)l.n * sizeof(*bias));
    uint16_t *bits = malloc((size_t)(l.n * l.k) * sizeof(*bits));
    double *w = malloc((size_t)(l.n * l.k) * sizeof(*w)), *want = malloc((size_t)(l.m * l.n) * sizeof(*want));
    assert_true(x && bias && bits && w && want);
    harness_fill(random, x, (size_t)(l.m * l.k), 1);
    harness_fill(random, bias, (size_t)l.n, 1);
    fill(random, bits, w, l.n * l.k, l.dtype);
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = {.value = tensor_of(l.dtype, bits, l.n, l.k, l.aligned)};
    tfm_tensor tx = tensor_of(TFM_F32, x, l.m, l.k, l.aligned), none = {0};
    tfm_tensor tb = l.biased ? HARNESS_TENSOR(TFM_F32, bias, l.n) : none;
    unsigned taken = 0;
    const tfm__gemm_task task = {.batch = 1,
                                 .m = l.m,
                                 .n = l.n,
                                 .k = l.k,
                                 .transpose_b = true,
                                 .shared_b = true,
                                 .alpha = 1,
                                 .a = tx,
                                 .b = weight.value,
                                 .c = tx,
                                 .activation = l.activation,
                                 .weight = &weight};
    for (size_t i = 0; i <= TFM__GEMM_PROVIDERS; i++) {
        const char *name = tfm_gemm_provider(i), *why, *clblast = "clblast";
        tfm_tensor y = l.aligned ? none : HARNESS_TENSOR(TFM_F32, NULL, l.m, l.n);
        harness_ok(tfm_linear_with(ctx, name, &why, &y, tx, &weight, tb, l.activation));
        assert_true(!name || strcmp(name, clblast) != 0 || why);
        if (why)
            continue;
        taken |= 1U << i;
        oracle(want, &l, x, w, bias, rounded_by(name ? name : tfm__gemm_select(ctx, &task)->name, l.dtype));
        char what[128];
        snprintf(what, sizeof(what), "%s: %s, m %d, n %d, k %d%s", name ? name : "chosen", tfm_dtype_name(l.dtype),
                 (int)l.m, (int)l.n, (int)l.k, l.aligned ? ", aligned" : "");
        float *got = harness_floats(y);
        harness_close(got, want, (size_t)(l.m * l.n), 2e-5, what);
        free(got);
        if (!l.aligned)
            harness_guards(y);
    }
    tfm_param_free(ctx, &weight);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x);
    free(bias);
    free(bits);
    free(w);
    free(want);
    return taken;
}

static void test_half_weight_layers_match_rounded_weights(void **state) {
    (void)state;
    /* Multiples of four come first: of two dtypes, one may be read by vectors of four. */
    const int64_t shapes[][3] = {{1, 64, 512},   {2, 131, 516}, {8, 129, 260}, {4, 37, 132},  {70, 48, 64},
                                 {130, 140, 72}, {1, 1, 1},     {3, 1, 5},     {13, 66, 129}, {33, 130, 257}};
    const tfm_activation activations[10] = {[3] = TFM_RELU, [9] = TFM_SILU}; /* each is a separate program */
    harness_random random = {1};
    unsigned taken = 0;
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 2; k++)
            taken |= check_layer((layer){shapes[i][0], shapes[i][1], shapes[i][2], DTYPES[k], (i + k) % 2 == 0,
                                         i % 3 != 1, activations[i]},
                                 &random);
    /* Every provider of this class of device was used. */
    const bool wide = tfm__context_tuning(harness_context())->class == TFM__CLASS_CPU;
    const char *const mine[][3] = {{"gpu-skinny", "gpu-tiled", "reference"}, {"cpu-skinny", "cpu-packed", "reference"}};
    for (int i = 0; i < 3; i++)
        for (size_t p = 0; p < TFM__GEMM_PROVIDERS; p++)
            assert_true(strcmp(tfm_gemm_provider(p), mine[wide][i]) != 0 || taken >> p & 1);
}

/* Few rows and too few columns for a device's many compute units. */
static void test_half_weight_column_sharing_is_right(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const unsigned own = ctx->info.compute_units;
    harness_random random = {5};
    ctx->info.compute_units = 100;
    for (int k = 0; k < 2; k++) {
        check_layer((layer){5, 21, 516, DTYPES[k], true, false, TFM_NO_ACTIVATION}, &random);
        check_layer((layer){1, 9, 264, DTYPES[k], true, true, TFM_RELU}, &random);
    }
    ctx->info.compute_units = own;
}

/* Three layers after a norm, which are one launch of few rows on some devices; of one dtype, and of several. */
static void check_joined(const tfm_dtype *dtypes, harness_random *random) {
    enum { ROWS = 3, K = 68 };
    const int64_t n[] = {40, 9, 130};
    tfm_context *ctx = harness_context();
    float x[ROWS * K];
    double norm[ROWS * K], *w = malloc(sizeof(*w) * 130 * K), want[ROWS * 130];
    uint16_t *bits = malloc(sizeof(*bits) * 130 * K);
    assert_true(w && bits);
    harness_fill(random, x, ROWS * K, 1);
    for (int r = 0; r < ROWS; r++) {
        double square = 0;
        for (int i = 0; i < K; i++)
            square += (double)x[r * K + i] * (double)x[r * K + i] / K;
        for (int i = 0; i < K; i++)
            norm[r * K + i] = (double)x[r * K + i] / sqrt(square + 1e-5);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor y[3] = {{0}};
    tfm_param weights[3] = {{.value = {0}}};
    tfm__fused_output outputs[3];
    harness_random again = *random;
    for (int i = 0; i < 3; i++) {
        fill(random, bits, w, n[i] * K, dtypes[i]);
        weights[i].value = tensor_of(dtypes[i], bits, n[i], K, true);
        outputs[i] = (tfm__fused_output){&y[i], &weights[i], {0}};
    }
    harness_ok(tfm__fused_linear(
        ctx,
        &(tfm__fused_input){
            .x = tensor_of(TFM_F32, x, ROWS, K, true), .normed = true, .root_mean_square = true, .epsilon = 1e-5f},
        3, outputs, TFM_NO_ACTIVATION));
    for (int i = 0; i < 3; i++) {
        fill(&again, bits, w, n[i] * K, dtypes[i]);
        for (int64_t e = 0; e < ROWS * n[i]; e++) {
            want[e] = 0;
            for (int64_t p = 0; p < K; p++)
                want[e] += norm[e / n[i] * K + p] * w[e % n[i] * K + p];
        }
        float *got = harness_floats(y[i]);
        harness_close(got, want, (size_t)(ROWS * n[i]), 2e-5, "joined");
        free(got);
        tfm_param_free(ctx, &weights[i]);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(w);
    free(bits);
}

static void test_grouped_half_weight_layers_are_right(void **state) {
    (void)state;
    harness_random random = {2};
    check_joined((tfm_dtype[]){TFM_F16, TFM_F16, TFM_F16}, &random);
    check_joined((tfm_dtype[]){TFM_BF16, TFM_BF16, TFM_BF16}, &random);
    check_joined((tfm_dtype[]){TFM_F16, TFM_BF16, TFM_F16}, &random);
}

/* Equal, except that a device may flush subnormals to 0. */
static void same(float got, double want) {
    const bool equal = isnan(want) ? isnan(got) != 0 : (double)got == want;
    assert_true(equal || (fabs(want) < 0x1p-126 && got == 0));
}

/* All 65536 patterns: the finite ones through a layer that selects one weight column per row, with one row and with
 * many; the others through an embedding too. */
static void test_all_65536_half_values_are_converted(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    static uint16_t bits[65536];
    static int32_t ids[65536 / 16];
    float picks[16 * 16] = {0};
    for (int i = 0; i < 16; i++)
        picks[17 * i] = 1;
    for (int d = 0; d < 2; d++) {
        int finite = 0;
        for (int i = 0; i < 65536; i++)
            if (isfinite(value_of((uint16_t)i, DTYPES[d])))
                bits[finite++] = (uint16_t)i;
        const int64_t n = finite / 16;
        harness_ok(tfm_scope_open(ctx));
        tfm_param weight = {.value = tensor_of(DTYPES[d], bits, n, 16, true)};
        for (int64_t m = 1; m <= 16; m += 15) {
            tfm_tensor y = {0};
            harness_ok(tfm_linear(ctx, &y, tensor_of(TFM_F32, picks, m, 16, true), &weight, (tfm_tensor){0},
                                  TFM_NO_ACTIVATION));
            float *got = harness_floats(y);
            for (int64_t e = 0; e < m * n; e++)
                same(got[e], value_of(bits[e % n * 16 + e / n], DTYPES[d]));
            free(got);
        }
        tfm_param_free(ctx, &weight);
        for (int i = 0; i < 65536; i++)
            bits[i] = (uint16_t)i;
        for (int i = 0; i < 65536 / 16; i++)
            ids[i] = i;
        tfm_tensor y = {0};
        harness_ok(tfm_embedding(ctx, &y, tensor_of(DTYPES[d], bits, 65536 / 16, 16, false),
                                 HARNESS_TENSOR(TFM_I32, ids, 65536 / 16), 1, (tfm_tensor){0}, 0));
        float *got = harness_floats(y);
        for (int i = 0; i < 65536; i++)
            same(got[i], value_of((uint16_t)i, DTYPES[d]));
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* An embedding with positions, an id out of range, and some of its rows as a parameter. */
static void test_half_embedding_table_is_converted(void **state) {
    (void)state;
    enum { V = 9, E = 35, N = 6 };
    tfm_context *ctx = harness_context();
    const int32_t ids[N] = {3, 8, 0, 8, 5, 9};
    harness_random random = {3};
    for (int d = 0; d < 2; d++) {
        uint16_t bits[V * E], kept[N * E];
        double values[V * E], want[N * E];
        float places[(N + 1) * E];
        fill(&random, bits, values, V * E, DTYPES[d]);
        harness_fill(&random, places, (N + 1) * E, 1);
        for (int i = 0; i < (N - 1) * E; i++)
            want[i] = 0.5 * values[ids[i / E] * E + i % E] + (double)places[E + i];
        harness_ok(tfm_scope_open(ctx));
        tfm_param table = {.value = HARNESS_TENSOR(DTYPES[d], bits, V, E)}, some = {0};
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, N, E), ti = HARNESS_TENSOR(TFM_I32, ids, N);
        tfm_tensor tp = HARNESS_TENSOR(TFM_F32, places, N + 1, E);
        harness_ok(tfm__embedding_param(ctx, &y, &table, ti, 0.5f, tp, 1, NULL));
        harness_guards(y);
        float *got = harness_floats(y);
        harness_close(got, want, (N - 1) * E, 1e-6, "embedding");
        assert_true(isnan(got[N * E - 1]) && !isnan(got[(N - 1) * E - 1]));
        free(got);
        harness_ok(tfm__param_rows(ctx, &some, &table, ti));
        assert_true(some.value.dtype == DTYPES[d] && !some.scales.buffer);
        harness_ok(tfm_tensor_read(ctx, kept, some.value));
        for (int i = 0; i < N * E; i++)
            assert_int_equal(kept[i], ids[i / E] < V ? bits[ids[i / E] * E + i % E] : 0);
        tfm_param_free(ctx, &some);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* 16-bit tensors have no backward pass, and are weights only. */
static void test_half_weights_have_no_backward_pass(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const uint16_t bits[6] = {0};
    const float ones[6] = {1, 1, 1, 1, 1, 1};
    tfm_tensor x = tensor_of(TFM_F32, ones, 2, 3, true), dx = tensor_of(TFM_F32, ones, 2, 3, true), y = {0}, none = {0};
    tfm_param weight = {.value = tensor_of(TFM_F16, bits, 2, 3, true)};
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, ((int32_t[]){0, 1}), 2);
    harness_refused(tfm_gemm(ctx, &y, x, weight.value, &(tfm_gemm_options){.transpose_b = true}), TFM_ERROR_ARGUMENT,
                    "dtype");
    harness_refused(tfm_linear(ctx, &y, weight.value, &weight, none, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT, "dtype");
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_refused(tfm_linear(ctx, &y, x, &weight, none, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT,
                    "has no backward pass");
    harness_refused(tfm_embedding(ctx, &y, weight.value, ids, 1, x, 0), TFM_ERROR_ARGUMENT, "backward pass");
    tfm_tape_stop(ctx);
    tfm_param_free(ctx, &weight);
    tfm_tensor_free(ctx, &x);
    tfm_tensor_free(ctx, &dx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_weight_layers_match_rounded_weights),
        cmocka_unit_test(test_half_weight_column_sharing_is_right),
        cmocka_unit_test(test_grouped_half_weight_layers_are_right),
        cmocka_unit_test(test_all_65536_half_values_are_converted),
        cmocka_unit_test(test_half_embedding_table_is_converted),
        cmocka_unit_test(test_half_weights_have_no_backward_pass),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
