/* Linear layers whose products round to bf16 what they read, as in training by --precision bf16: forward and both ways
 * back, against double precision over numbers that are rounded so. By processors' own products of bf16, by their
 * emulation, and by that of a matrix engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "ops/gemm/gemm.h"
#include "tfm/tape.h"

typedef struct layer {
    int64_t rows, outputs, inputs;
    bool biased, relu;
} layer;

static tfm__tuning *tuning(void) {
    return &harness_context()->tuning;
}

/* A fresh context, for a fresh state of what was tried. */
static void again(void **state) {
    harness_teardown(state);
    assert_int_equal(harness_setup(state), 0);
}

/* The device's own instruction, for vectors or for tiles; false where it has none. */
static bool instruction(bool tiles) {
    if (tuning()->class != TFM__CLASS_CPU || tuning()->width != 16 ||
        !(tiles ? tuning()->amx_bf16 && tfm__amx_allowed() : tuning()->avx512_bf16))
        return false;
    tuning()->amx_bf16 = tiles;
    return true;
}

/* An emulation. */
static void pose(bool tiles) {
    tuning()->mma_emulated = true;
    tuning()->mma = TFM__MMA_M16N8K16;
    tuning()->amx_bf16 = tiles;
}

/* Four ways of multiplying; false where this device has none such, and where an emulator takes no engine. */
static bool set_way(int way) {
    if (way < 2)
        return instruction(way == 1);
    pose(way == 3);
    return way < 3 ? !harness_slow() || !tfm__gemm_half_declines(harness_context(), TFM_BF16)
                   : tuning()->class == TFM__CLASS_CPU && tuning()->width == 16;
}

static void skip_without(bool any, void **state) {
    if (any)
        return;
    again(state);
    printf("skipped: this kind of device uses no matrix cores for GEMM\n");
    skip();
}

static float *normals(harness_random *random, int64_t count) {
    float *host = malloc((size_t)count * sizeof(*host));
    assert_non_null(host);
    harness_fill(random, host, (size_t)count, 1);
    return host;
}

static double rounded(float x) {
    return harness_rounded((double)x, 8);
}

/* What is compared: the result, and the gradients. */
typedef struct wanted {
    double *y, *dx, *dw, *dbias;
} wanted;

static double *zeros(int64_t count) {
    double *host = calloc((size_t)count, sizeof(*host));
    assert_non_null(host);
    return host;
}

/* `y`: what the device made, which says where ReLU let something through. */
static void oracle(wanted *want, const layer *l, const float *x, const float *w, const float *bias, const float *dy,
                   const float *before, const float *y) {
    for (int64_t i = 0; i < l->outputs * l->inputs; i++)
        want->dw[i] = (double)before[i];
    for (int64_t i = 0; i < l->rows; i++)
        for (int64_t j = 0; j < l->outputs; j++) {
            const int64_t at = i * l->outputs + j;
            const float dz = l->relu && y[at] <= 0 ? 0 : dy[at];
            double sum = l->biased ? (double)bias[j] : 0;
            for (int64_t k = 0; k < l->inputs; k++) {
                const double a = rounded(x[i * l->inputs + k]), b = rounded(w[j * l->inputs + k]);
                sum += a * b;
                want->dx[i * l->inputs + k] += rounded(dz) * b;
                want->dw[j * l->inputs + k] += rounded(dz) * a;
            }
            want->y[at] = l->relu && sum < 0 ? 0 : sum;
            want->dbias[j] += (double)dz;
        }
}

static void judge(const layer *l, tfm_tensor got, const double *want, const char *what) {
    char text[128];
    snprintf(text, sizeof(text), "%s%s, %d rows, %d outputs, %d inputs", what,
             tuning()->mma_emulated ? ", emulated" : "", (int)l->rows, (int)l->outputs, (int)l->inputs);
    float *host = harness_floats(got);
    harness_close(host, want, tfm_tensor_count(got), 2e-5, text);
    harness_guards(got);
    free(host);
}

/* The gradient of the weight is added to what is there, as from one batch of an update to the next. */
static void check(layer l) {
    static harness_random random = {1};
    tfm_context *ctx = harness_context();
    float *x = normals(&random, l.rows * l.inputs), *w = normals(&random, l.outputs * l.inputs);
    float *bias = normals(&random, l.outputs), *dy = normals(&random, l.rows * l.outputs);
    float *before = normals(&random, l.outputs * l.inputs), *none = calloc((size_t)(l.rows * l.inputs), sizeof(*none));
    wanted want = {zeros(l.rows * l.outputs), zeros(l.rows * l.inputs), zeros(l.outputs * l.inputs), zeros(l.outputs)};
    assert_non_null(none);
    tuning()->gemm_input_dtype = TFM_BF16;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, l.rows, l.inputs), tb = {0}, y = {0};
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, w, l.outputs, l.inputs)};
    tfm_tensor tdy = HARNESS_TENSOR(TFM_F32, dy, l.rows, l.outputs);
    tfm_tensor dx = HARNESS_TENSOR(TFM_F32, none, l.rows, l.inputs);
    tfm_tensor dw = HARNESS_TENSOR(TFM_F32, before, l.outputs, l.inputs), dbias = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, tx, dx));
    harness_ok(tfm_tape_watch(ctx, weight.value, dw));
    if (l.biased) {
        float *zero = calloc((size_t)l.outputs, sizeof(*zero));
        tb = HARNESS_TENSOR(TFM_F32, bias, l.outputs);
        dbias = HARNESS_TENSOR(TFM_F32, zero, l.outputs);
        free(zero);
        harness_ok(tfm_tape_watch(ctx, tb, dbias));
    }
    harness_ok(tfm_linear(ctx, &y, tx, &weight, tb, l.relu ? TFM_RELU : TFM_NO_ACTIVATION));
    float *got = harness_floats(y);
    harness_ok(tfm_backward(ctx, y, tdy));
    oracle(&want, &l, x, w, bias, dy, before, got);
    harness_close(got, want.y, (size_t)(l.rows * l.outputs), 2e-5, "y");
    judge(&l, dx, want.dx, "dx");
    judge(&l, dw, want.dw, "dw");
    if (l.biased)
        judge(&l, dbias, want.dbias, "dbias");
    tfm_tensor_free(ctx, &weight.packed);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    tuning()->gemm_input_dtype = TFM_F32;
    void *const all[] = {x, w, bias, dy, before, none, got, want.y, want.dx, want.dw, want.dbias};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

/* Whole tiles, parts of them, odd sizes, and inner dimensions in pieces, of each of the three products. */
static void test_bf16_linear_layers_match_rounded_inputs(void **state) {
    const layer layers[] = {{64, 64, 64, true, true},   {63, 31, 95, true, false},   {13, 33, 1, false, false},
                            {600, 32, 50, true, false}, {40, 530, 33, false, true},  {37, 19, 1100, true, false},
                            {129, 96, 128, true, true}, {523, 77, 65, false, false}, {21, 45, 37, true, false}};
    int ways = 0;
    for (int way = 0; way < 4; way++, again(state)) {
        if (!set_way(way))
            continue;
        ways++;
        assert_null(tfm__gemm_half_declines(harness_context(), TFM_BF16));
        const size_t count = tuning()->mma_emulated && harness_brief() ? 4 : sizeof(layers) / sizeof(*layers);
        for (size_t i = 0; i < count; i++)
            check(layers[i]);
    }
    skip_without(ways > 0, state);
}

/* Where products may not round, nobody rounds; and a weight that both read has the copy that each of them wants. */
static void test_weight_copies_serve_bf16_and_fp32_in_turn(void **state) {
    enum { ROWS = 40, OUTPUTS = 36, INPUTS = 48 };
    harness_random random = {7};
    skip_without(set_way(1) || set_way(0) || set_way(2), state);
    tfm_context *ctx = harness_context();
    float *x = normals(&random, ROWS * INPUTS), *w = normals(&random, OUTPUTS * INPUTS);
    double *want = zeros(ROWS * OUTPUTS), *narrow = zeros(ROWS * OUTPUTS);
    for (int e = 0; e < ROWS * OUTPUTS; e++)
        for (int k = 0; k < INPUTS; k++) {
            const float a = x[e / OUTPUTS * INPUTS + k], b = w[e % OUTPUTS * INPUTS + k];
            want[e] += (double)a * (double)b;
            narrow[e] += rounded(a) * rounded(b);
        }
    harness_ok(tfm_scope_open(ctx));
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, w, OUTPUTS, INPUTS)};
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, ROWS, INPUTS), y = HARNESS_TENSOR(TFM_F32, NULL, ROWS, OUTPUTS);
    for (int turn = 0; turn < 4; turn++) {
        assert_int_equal(tfm__context_set_gemm_input_dtype(ctx, turn % 2 ? TFM_BF16 : TFM_F32), TFM_F32);
        harness_ok(tfm_linear(ctx, &y, tx, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION));
        tfm__context_set_gemm_input_dtype(ctx, TFM_F32);
        float *got = harness_floats(y);
        harness_close(got, turn % 2 ? narrow : want, ROWS * OUTPUTS, 2e-5, turn % 2 ? "rounded" : "as it is");
        free(got);
    }
    tfm_tensor_free(ctx, &weight.packed);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x);
    free(w);
    free(want);
    free(narrow);
    again(state);
}

/* A device that has nothing for it says why. */
static void test_missing_bf16_support_is_explained(void **state) {
    tfm_context *ctx = harness_context();
    tuning()->avx512_bf16 = tuning()->amx_bf16 = false;
    tuning()->mma = TFM__MMA_NONE;
    const char *why = tfm__gemm_half_declines(ctx, TFM_BF16);
    assert_non_null(why);
    assert_non_null(strstr(why, "has no"));
    assert_int_equal(tuning()->gemm_input_dtype, TFM_F32);
    again(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bf16_linear_layers_match_rounded_inputs),
                                       cmocka_unit_test(test_weight_copies_serve_bf16_and_fp32_in_turn),
                                       cmocka_unit_test(test_missing_bf16_support_is_explained)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
