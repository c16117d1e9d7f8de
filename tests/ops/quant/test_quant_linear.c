/* Block-quantized linear layers and embeddings against weights unpacked on the host, in double precision. */
#include "ops/quant/quant.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "ops/gemm/quantize.h"
#include "support/harness.h"
#include "tfm/tape.h"

/* Places of the fp16 scale and minimum in a block. */
static void scale_places(const tfm__quant_format *f, int *scale, int *min) {
    *scale = f->type == TFM__QUANT_Q2_K ? 80 : f->type == TFM__QUANT_Q3_K ? 108 : f->type == TFM__QUANT_Q6_K ? 208 : 0;
    *min = *scale + 2;
}

/* Random blocks whose weights are about 1; every scale also as a negative number. */
static uint8_t *random_blocks(harness_random *random, const tfm__quant_format *f, int64_t n, int64_t k) {
    const size_t count = (size_t)(n * tfm__ceil_div(k, f->block));
    uint8_t *blocks = malloc(count * (size_t)f->bytes + 1);
    int scale, min;
    assert_non_null(blocks);
    scale_places(f, &scale, &min);
    for (size_t i = 0; i < count; i++) {
        uint8_t *b = blocks + i * (size_t)f->bytes;
        for (int j = 0; j < f->bytes; j++)
            b[j] = (uint8_t)harness_next(random);
        const float range = (float)(f->codebook ? 128 : 1 << f->bits) * (f->super ? 32 : 1);
        const uint16_t s = tfm__half_from_float((harness_next(random) & 1 ? 2.0f : -2.0f) / range *
                                                (float)harness_range(random, 5, 10) / 10),
                       m = tfm__half_from_float(f->super ? 1.0f / 64 : -1);
        memcpy(b + scale, &s, 2);
        if (f->minimum)
            memcpy(b + min, &m, 2);
        const float wide[] = {tfm__half_to_float(s), -0.5f * tfm__half_to_float(s)};
        if (f->wide)
            memcpy(b, wide, sizeof(wide));
    }
    return blocks;
}

static tfm_param upload(const tfm__quant_format *f, const uint8_t *blocks, int64_t n, int64_t k) {
    tfm_param w;
    harness_ok(tfm__quant_upload(harness_context(), &w, "w", f, &(tfm__quant_rows){.of = blocks}, n, k));
    return w;
}

static int pieces_written;

static void count_pieces(const void *of) {
    assert_non_null(of);
    pieces_written++;
}

/* Pieces and threads meet at row blocks; the last one is incomplete. */
static void test_upload_in_pieces_equals_repacking_at_once(void **state) {
    enum { N = 9003, K = 1024, PIECES = 2 };
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm__quant_format *f = tfm__quant_format_named("Q4_1");
    harness_random random = {7};
    uint8_t *blocks = random_blocks(&random, f, N, K);
    const tfm__quant_rows rows = {.of = blocks, .written = count_pieces};
    const int64_t words = tfm__quant_words(ctx, f, N, K);
    uint32_t *want = malloc(4 * (size_t)words), *got = malloc(4 * (size_t)words);
    tfm_param w;
    assert_true(want && got);
    tfm__quant_repack(f, tfm__quant_tile_rows(ctx), want, &rows, 0, N, K, NULL);
    pieces_written = 0;
    harness_ok(tfm__quant_upload(ctx, &w, "w", f, &rows, N, K));
    assert_int_equal(pieces_written, PIECES);
    harness_ok(tfm_tensor_read(ctx, got, w.value));
    assert_memory_equal(got, want, 4 * (size_t)words);
    tfm_param_free(ctx, &w);
    free(got);
    free(want);
    free(blocks);
}

typedef struct shape {
    int64_t m, n, k;
} shape;

static void oracle(double *want, const float *x, const float *w, const float *bias, shape s,
                   tfm_activation activation) {
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = bias ? (double)bias[j] : 0;
            for (int64_t p = 0; p < s.k; p++)
                sum += (double)x[i * s.k + p] * (double)w[j * s.k + p];
            want[i * s.n + j] = activation == TFM_SILU ? sum / (1 + exp(-sum)) : sum;
        }
}

/* Activations with an outlier in each row. */
static float *random_rows(harness_random *random, int64_t m, int64_t k) {
    float *x = malloc((size_t)(m * k + 1) * sizeof(*x));
    assert_non_null(x);
    harness_fill(random, x, (size_t)(m * k), 1);
    for (int64_t i = 0; i < m; i++)
        x[i * k + harness_range(random, 0, k - 1)] *= 30;
    return x;
}

static double tolerance_of(tfm__quant_activation form, int64_t k) {
    return (form == TFM__QUANT_ACTIVATION_FP32 ? 1e-5 : 1e-3) * (k > 512 ? 2 : 1);
}

/* One layer, in each form of the activations. */
static void check_linear(const tfm__quant_format *f, shape s, bool biased, tfm_activation activation,
                         harness_random *random) {
    uint8_t *blocks = random_blocks(random, f, s.n, s.k);
    float *x = random_rows(random, s.m, s.k), *w = malloc((size_t)(s.n * s.k) * sizeof(*w)),
          *bias = malloc((size_t)s.n * sizeof(*bias));
    double *want = malloc((size_t)(s.m * s.n) * sizeof(*want));
    assert_true(w && bias && want);
    tfm__quant_unpack(f, w, blocks, (size_t)(s.n * s.k / f->block));
    harness_fill(random, bias, (size_t)s.n, 3);
    oracle(want, x, w, biased ? bias : NULL, s, activation);
    tfm_param matrix = upload(f, blocks, s.n, s.k);
    static int turn; /* brief runs alternate the forms */
    const int only = (turn + turn / 3) % 3;
    turn++;
    for (int form = 0; form < 3; form++) {
        if (harness_brief() && form != only)
            continue;
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, s.m, s.k), y = HARNESS_TENSOR(TFM_F32, NULL, s.m, s.n),
                   tb = HARNESS_TENSOR(TFM_F32, bias, s.n);
        const tfm__fused_output out = {&y, &matrix, biased ? tb : (tfm_tensor){0}};
        harness_ok(tfm__quant_linear(harness_context(), tx, 1, &out, activation, (tfm__quant_activation)form));
        harness_guards(y);
        float *got = harness_floats(y);
        char what[96];
        snprintf(what, sizeof(what), "%s %dx%dx%d form %d", f->name, (int)s.m, (int)s.n, (int)s.k, form);
        harness_close(got, want, (size_t)(s.m * s.n), tolerance_of((tfm__quant_activation)form, s.k), what);
        free(got);
    }
    tfm_param_free(harness_context(), &matrix);
    free(blocks);
    free(x);
    free(w);
    free(bias);
    free(want);
}

static void test_linear_of_every_format(void **state) {
    (void)state;
    const int64_t rows[] = {1, 4, 33}, widths[] = {64, 576, 256};
    harness_random random = {11};
    int number = 0;
    for (int i = 0; i < TFM__QUANT_ALL_FORMATS; i++) {
        const tfm__quant_format *f = tfm__quant_formats() + i;
        for (size_t r = 0; f->group && r < 3; r++) {
            const int64_t k = widths[(r + (size_t)i) % 3] / f->block * f->block;
            const shape s = {rows[r], r == 2 ? 130 : (int64_t)(r * 33 + 5), k ? k : 512};
            const bool compiled = !harness_brief() || r == (size_t)(i / 3) % 3; /* each pair is another program */
            if (compiled && !harness_left_out(&number, 4))
                check_linear(f, s, r % 2 == 0, TFM_NO_ACTIVATION, &random);
        }
    }
}

static void test_linear_of_every_row_count(void **state) {
    (void)state;
    harness_random random = {12};
    for (int64_t m = 1; m <= 9; m += harness_brief() ? 3 : 1)
        check_linear(tfm__quant_format_of(TFM__QUANT_Q4_1), (shape){m, m == 1 ? 1 : 13 * m, 32 * m}, m == 4, TFM_SILU,
                     &random);
    check_linear(tfm__quant_format_of(TFM__QUANT_Q4_1), (shape){9, 40, 4096}, false, TFM_SILU, &random);
    if (!harness_brief())
        check_linear(tfm__quant_format_of(TFM__QUANT_Q4_1), (shape){2, 40, 8192}, false, TFM_SILU, &random);
}

/* Weights and embeddings of a width that does not fill its last block: what the block has there counts nothing. */
static void check_width(const tfm__quant_format *f, int64_t k) {
    const int64_t n = 19, padded = tfm__ceil_div(k, f->block) * f->block, rows[] = {1, 10};
    const int32_t ids[] = {18, 3};
    harness_random random = {(uint64_t)k};
    uint8_t *blocks = random_blocks(&random, f, n, k);
    float *w = malloc((size_t)(n * padded) * sizeof(*w)), *table = malloc((size_t)(n * k) * sizeof(*table));
    tfm_param matrix = upload(f, blocks, n, k);
    tfm_tensor ti = HARNESS_TENSOR(TFM_I32, ids, 2), embedded = HARNESS_TENSOR(TFM_F32, NULL, 2, k);
    assert_true(w && table);
    tfm__quant_unpack(f, w, blocks, (size_t)(n * padded / f->block));
    for (int64_t i = 0; i < n; i++)
        memcpy(table + i * k, w + i * padded, (size_t)k * sizeof(*w));
    for (int r = 0; r < 4; r++) {
        const shape s = {rows[r % 2], n, k};
        float *x = random_rows(&random, s.m, k);
        double *want = malloc((size_t)(s.m * n) * sizeof(*want));
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, s.m, k), y = HARNESS_TENSOR(TFM_F32, NULL, s.m, n);
        const tfm__quant_activation form = r / 2 ? TFM__QUANT_ACTIVATION_FP32 : TFM__QUANT_ACTIVATION_PROMPT;
        const tfm__fused_output out = {&y, &matrix, {0}};
        oracle(want, x, table, NULL, s, TFM_NO_ACTIVATION);
        harness_ok(tfm__quant_linear(harness_context(), tx, 1, &out, TFM_NO_ACTIVATION, form));
        harness_guards(y);
        float *got = harness_floats(y);
        harness_close(got, want, (size_t)(s.m * n), tolerance_of(form, k), f->name);
        free(got);
        free(want);
        free(x);
    }
    harness_ok(tfm__embedding_param(harness_context(), &embedded, &matrix, ti, 1, (tfm_tensor){0}, 0, NULL));
    harness_guards(embedded);
    float *got = harness_floats(embedded);
    for (int64_t e = 0; e < 2 * k; e++)
        assert_true(got[e] == table[ids[e / k] * k + e % k]);
    free(got);
    free(w);
    free(table);
    free(blocks);
    tfm_param_free(harness_context(), &matrix);
}

static void test_widths_that_do_not_fill_the_last_block(void **state) {
    (void)state;
    for (int64_t k = 1; k < 100; k += 33)
        check_width(tfm__quant_format_of(TFM__QUANT_INT8_M32), k);
    if (!harness_brief())
        check_width(tfm__quant_format_of(TFM__QUANT_INT8_G32), 40);
}

/* Three layers of one input, two of them of one format, equal one by one to the bit. */
static void test_grouped_layers_equal_single_layers(void **state) {
    (void)state;
    const tfm__quant_format *formats[] = {tfm__quant_format_of(TFM__QUANT_Q4_K), tfm__quant_format_of(TFM__QUANT_Q4_K),
                                          tfm__quant_format_of(TFM__QUANT_Q6_K)};
    const int64_t ns[] = {70, 33, 40}, k = 512;
    harness_random random = {5};
    for (int64_t m = 1; m <= 17; m += 8) {
        float *x = random_rows(&random, m, k);
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, m, k), y[3] = {{0}}, single[3] = {{0}};
        tfm_param w[3];
        tfm__fused_output out[3];
        for (int i = 0; i < 3; i++) {
            uint8_t *blocks = random_blocks(&random, formats[i], ns[i], k);
            w[i] = upload(formats[i], blocks, ns[i], k);
            free(blocks);
            y[i] = HARNESS_TENSOR(TFM_F32, NULL, m, ns[i]);
            out[i] = (tfm__fused_output){&y[i], &w[i], {0}};
        }
        harness_ok(tfm__quant_linear(harness_context(), tx, 3, out, TFM_RELU, TFM__QUANT_ACTIVATION_GENERATED));
        for (int i = 0; i < 3; i++) {
            out[i].y = &single[i];
            harness_ok(tfm__quant_linear(harness_context(), tx, 1, &out[i], TFM_RELU, TFM__QUANT_ACTIVATION_GENERATED));
            harness_guards(y[i]);
            float *a = harness_floats(y[i]), *b = harness_floats(single[i]);
            assert_memory_equal(a, b, (size_t)(m * ns[i]) * sizeof(float));
            free(a);
            free(b);
            tfm_param_free(harness_context(), &w[i]);
        }
        free(x);
    }
}

/* Columns in another order, alone and next to a layer without one. */
static void test_columns_in_another_order_give_the_same_sums(void **state) {
    (void)state;
    const tfm__quant_format *f = tfm__quant_format_of(TFM__QUANT_INT4_G32);
    const int64_t n = 37, k = 96;
    harness_random random = {21};
    int32_t columns[96];
    float moved[96], x[19 * 96];
    uint8_t *blocks = random_blocks(&random, f, n, k);
    tfm_param plain = upload(f, blocks, n, k), ordered;
    for (int32_t j = 0; j < k; j++)
        columns[j] = (j * 37 + 11) % 96; /* a permutation: 37 and 96 have no common factor */
    harness_ok(tfm__quant_upload(harness_context(), &ordered, "ordered", f,
                                 &(tfm__quant_rows){.of = blocks, .columns = columns}, n, k));
    for (int64_t m = 1; m <= 19; m += 9) {
        harness_fill(&random, x, (size_t)(m * k), 1);
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, m, k), y[2] = {{0}}, want = {0};
        const tfm__fused_output out[] = {{&y[0], &ordered, {0}}, {&y[1], &plain, {0}}}, one = {&want, &plain, {0}};
        y[0] = HARNESS_TENSOR(TFM_F32, NULL, m, n);
        harness_ok(tfm__quant_linear(harness_context(), tx, 2, out, TFM_SILU, TFM__QUANT_ACTIVATION_PROMPT));
        harness_guards(y[0]);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < k; j++)
                moved[j] = x[i * k + columns[j]];
            memcpy(x + i * k, moved, sizeof(moved));
        }
        harness_ok(tfm__quant_linear(harness_context(), HARNESS_TENSOR(TFM_F32, x, m, k), 1, &one, TFM_SILU,
                                     TFM__QUANT_ACTIVATION_PROMPT));
        float *a = harness_floats(y[0]), *b = harness_floats(want), *c = harness_floats(y[1]);
        assert_memory_equal(a, b, (size_t)(m * n) * sizeof(float));
        assert_memory_not_equal(a, c, (size_t)(m * n) * sizeof(float));
        free(a);
        free(b);
        free(c);
    }
    tfm_param_free(harness_context(), &plain);
    tfm_param_free(harness_context(), &ordered);
    free(blocks);
}

/* A row's result does not depend on the number of rows, in kernels for few rows and for many. */
static void check_rows(const tfm__quant_format *f, const int64_t *counts, size_t number) {
    const int64_t n = 40, k = f->block > 32 ? 512 : 608, most = counts[number - 1];
    harness_random random = {7};
    uint8_t *blocks = random_blocks(&random, f, n, k);
    float *x = random_rows(&random, most, k), *few = NULL;
    tfm_param w = upload(f, blocks, n, k);
    for (size_t i = 0; i < number; i++) {
        tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, counts[i], k), y = {0};
        const tfm__fused_output out = {&y, &w, {0}};
        harness_ok(
            tfm__quant_linear(harness_context(), tx, 1, &out, TFM_NO_ACTIVATION, TFM__QUANT_ACTIVATION_GENERATED));
        float *got = harness_floats(y);
        if (few)
            assert_memory_equal(got, few, (size_t)(counts[i - 1] * n) * sizeof(float));
        free(few);
        few = got;
    }
    free(few);
    free(blocks);
    free(x);
    tfm_param_free(harness_context(), &w);
}

static void test_result_of_a_row_is_independent_of_the_others(void **state) {
    (void)state;
    static const tfm__quant_type TYPES[] = {TFM__QUANT_Q6_K, TFM__QUANT_Q8_0, TFM__QUANT_Q4_K, TFM__QUANT_INT4_G64};
    check_rows(tfm__quant_format_of(TFM__QUANT_Q4_0), (const int64_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
    if (tfm__context_tuning(harness_context())->class != TFM__CLASS_CPU)
        return; /* other devices add in another order for many rows */
    check_rows(tfm__quant_format_of(TFM__QUANT_Q4_1), (const int64_t[]){1, 4, 9, 131}, 4);
    for (size_t i = 0; i < (harness_brief() ? 1 : TFM__COUNT(TYPES)); i++)
        check_rows(tfm__quant_format_of(TYPES[i]), (const int64_t[]){4, 66}, 2);
}

/* Any bytes, so that scales are infinite or NaN too. */
static void test_embedding_equals_the_unpacked_weights_to_the_bit(void **state) {
    (void)state;
    const int32_t ids[] = {0, 36, 7, 31, -1, 37, 8, 7, INT32_MIN};
    const int64_t n = 37, count = TFM__COUNT(ids);
    harness_random random = {3};
    for (int i = 0; i < TFM__QUANT_ALL_FORMATS; i++) {
        const tfm__quant_format *f = tfm__quant_formats() + i;
        const int64_t k = 3 * f->block;
        if (!f->group || (harness_brief() && i % 2 == 0 && !f->super)) /* each is another program */
            continue;
        uint8_t *blocks = random_blocks(&random, f, n, k);
        float *w = malloc((size_t)(n * k) * sizeof(*w));
        assert_non_null(w);
        /* rows with any scales, then sane ones; fp32 scales only sane, because other products are not exact */
        for (int64_t j = 0; j < n * 3 * f->bytes / 2 && !f->wide; j++)
            blocks[j] = (uint8_t)harness_next(&random);
        tfm__quant_unpack(f, w, blocks, (size_t)(n * 3));
        tfm_param table = upload(f, blocks, n, k);
        tfm_tensor ti = HARNESS_TENSOR(TFM_I32, ids, count), y = HARNESS_TENSOR(TFM_F32, NULL, count, k);
        harness_ok(tfm__embedding_param(harness_context(), &y, &table, ti, 1, (tfm_tensor){0}, 0, NULL));
        harness_guards(y);
        float *got = harness_floats(y);
        for (int64_t e = 0; e < count * k; e++) {
            const int32_t id = ids[e / k];
            const float want = id < 0 || id >= n ? NAN : w[id * k + e % k];
            if (isnan(want) ? !isnan(got[e]) : memcmp(&want, &got[e], 4) != 0)
                print_error("%s id %d, column %d: %a, want %a\n", f->name, (int)id, (int)(e % k), (double)got[e],
                            (double)want);
            assert_true(isnan(want) ? isnan(got[e]) : memcmp(&want, &got[e], 4) == 0);
        }
        free(got);
        free(w);
        free(blocks);
        tfm_param_free(harness_context(), &table);
    }
}

/* The ops of models read a parameter in blocks: same results as the layer, and as the unpacked weights. */
static void test_ops_of_models_read_block_quantized_parameters(void **state) {
    (void)state;
    const int32_t ids[] = {4, 0, 36, 7};
    const int64_t n = 37, k = 96, m = 4;
    tfm_context *ctx = harness_context();
    const tfm__quant_format *f = tfm__quant_format_of(TFM__QUANT_Q5_1);
    harness_random random = {9};
    uint8_t *blocks = random_blocks(&random, f, n, k);
    float *x = random_rows(&random, m, k), w[37 * 96], positions[6 * 96];
    tfm__quant_unpack(f, w, blocks, (size_t)(n * k / f->block));
    harness_fill(&random, positions, 6 * 96, 1);
    tfm_param weight = upload(f, blocks, n, k), cut = {0};
    tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, m, k), ti = HARNESS_TENSOR(TFM_I32, ids, m),
               tp = HARNESS_TENSOR(TFM_F32, positions, 6, k), y = {0}, layer = {0}, rows = {0}, pair[2] = {{0}};
    const tfm__fused_output out = {&y, &weight, {0}};
    harness_ok(tfm__quant_linear(ctx, tx, 1, &out, TFM_RELU, TFM__QUANT_ACTIVATION_FP32));
    weight.exact_input = true;
    harness_ok(tfm_linear(ctx, &layer, tx, &weight, (tfm_tensor){0}, TFM_RELU));
    harness_ok(tfm__fused_linear(ctx, &(tfm__fused_input){.x = tx}, 2,
                                 (tfm__fused_output[]){{&pair[0], &weight, {0}}, {&pair[1], &weight, {0}}}, TFM_RELU));
    harness_ok(tfm__param_rows(ctx, &cut, &weight, ti));
    harness_ok(tfm__embedding_param(ctx, &rows, &weight, ti, 2, tp, 1, NULL));
    float *want = harness_floats(y),
          *same[] = {harness_floats(layer), harness_floats(pair[0]), harness_floats(pair[1])},
          *kept = harness_floats(cut.value), *embedded = harness_floats(rows);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(same[i], want, (size_t)(m * n) * sizeof(float));
        free(same[i]);
    }
    for (int64_t e = 0; e < m * k; e++) {
        const float number = w[ids[e / k] * k + e % k];
        assert_true(kept[e] == number);
        assert_true(fabsf(embedded[e] - (2 * number + positions[k + e])) < 1e-5f);
    }
    free(want);
    free(kept);
    free(embedded);
    free(x);
    free(blocks);
    tfm_param_free(ctx, &cut);
    tfm_param_free(ctx, &weight);
}

static void test_tape_refuses_a_block_quantized_layer_by_name(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm__quant_format *f = tfm__quant_format_of(TFM__QUANT_Q8_0);
    harness_random random = {1};
    uint8_t *blocks = random_blocks(&random, f, 4, 64);
    tfm_param w = upload(f, blocks, 4, 64);
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 64), dx = HARNESS_TENSOR(TFM_F32, NULL, 2, 64), y = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_refused(tfm_linear(ctx, &y, x, &w, (tfm_tensor){0}, TFM_NO_ACTIVATION), TFM_ERROR_ARGUMENT,
                    "quant_linear: it has no backward pass");
    tfm_tape_stop(ctx);
    tfm_param_free(ctx, &w);
    free(blocks);
}

static void test_empty_tensors_and_refusals(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm__quant_format *f = tfm__quant_format_of(TFM__QUANT_Q4_K);
    harness_random random = {1};
    uint8_t *blocks = random_blocks(&random, f, 4, 512);
    tfm_param w = upload(f, blocks, 4, 512), bad;
    tfm_tensor none = HARNESS_TENSOR(TFM_F32, NULL, 0, 512), y = {0}, x = HARNESS_TENSOR(TFM_F32, NULL, 2, 512),
               narrow = HARNESS_TENSOR(TFM_F32, NULL, 2, 256), ids = HARNESS_TENSOR(TFM_I32, NULL, 0);
    tfm__fused_output out = {&y, &w, {0}};
    harness_ok(tfm__quant_linear(ctx, none, 1, &out, TFM_NO_ACTIVATION, TFM__QUANT_ACTIVATION_PROMPT));
    y = (tfm_tensor){0};
    harness_ok(tfm__embedding_param(ctx, &y, &w, ids, 1, (tfm_tensor){0}, 0, NULL));
    y = (tfm_tensor){0};
    harness_refused(tfm__quant_linear(ctx, narrow, 1, &out, TFM_NO_ACTIVATION, TFM__QUANT_ACTIVATION_PROMPT),
                    TFM_ERROR_ARGUMENT, "512 columns");
    out.bias = narrow;
    harness_refused(tfm__quant_linear(ctx, x, 1, &out, TFM_NO_ACTIVATION, TFM__QUANT_ACTIVATION_PROMPT),
                    TFM_ERROR_ARGUMENT, "bias is");
    out = (tfm__fused_output){&x, &w, {0}};
    harness_refused(tfm__quant_linear(ctx, x, 1, &out, TFM_NO_ACTIVATION, TFM__QUANT_ACTIVATION_PROMPT),
                    TFM_ERROR_ARGUMENT, "");
    harness_refused(tfm__quant_upload(ctx, &bad, "blk.0.attn_q.weight", f, &(tfm__quant_rows){.of = blocks}, 4, 500),
                    TFM_ERROR_ARGUMENT, "blk.0.attn_q.weight: (4, 500) cannot be stored in blocks of Q4_K");
    tfm_param_free(ctx, &w);
    free(blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload_in_pieces_equals_repacking_at_once),
        cmocka_unit_test(test_linear_of_every_format),
        cmocka_unit_test(test_linear_of_every_row_count),
        cmocka_unit_test(test_widths_that_do_not_fill_the_last_block),
        cmocka_unit_test(test_grouped_layers_equal_single_layers),
        cmocka_unit_test(test_columns_in_another_order_give_the_same_sums),
        cmocka_unit_test(test_result_of_a_row_is_independent_of_the_others),
        cmocka_unit_test(test_embedding_equals_the_unpacked_weights_to_the_bit),
        cmocka_unit_test(test_ops_of_models_read_block_quantized_parameters),
        cmocka_unit_test(test_tape_refuses_a_block_quantized_layer_by_name),
        cmocka_unit_test(test_empty_tensors_and_refusals),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
