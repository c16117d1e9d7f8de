/* 16-bit and int8 KV cache: rounding, the layers that write 16-bit results, and the memory and results of searches with
 * it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "model/core/model.h"
#include "ops/gemm/fused_linear.h"
#include "ops/attention/kv_quantize.h"
#include "ops/embedding/rotary.h"

static const tfm_dtype DTYPES[] = {TFM_F16, TFM_BF16};

/* The 16-bit tensor as floats; free with free(). */
static float *as_floats(tfm_tensor x) {
    tfm_tensor wide = {0};
    harness_ok(tfm_cast(harness_context(), &wide, x, TFM_F32));
    return harness_floats(wide);
}

/* Each is its value, to half a step of the dtype and the error of sums near 1. */
static void close_kept(tfm_tensor got, const double *want, const char *what) {
    const double step = got.dtype == TFM_F16 ? 0x1p-11 : 0x1p-8;
    float *host = as_floats(got);
    double square = 0;
    const size_t count = tfm_tensor_count(got);
    for (size_t i = 0; i < count; i++)
        square += want[i] * want[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)host[i] - want[i]) <= step * fabs(want[i]) + 2e-5 * fmax(1, sqrt(square))))
            fail_msg("%s as %s: element %zu is %g, not %g", what, tfm_dtype_name(got.dtype), i, (double)host[i],
                     want[i]);
    harness_guards(got);
    free(host);
}

/* As tfm_cast, except that F16 overflow saturates. */
static void test_half_store_rounds_and_clamps_fp16(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float odd[] = {65503, 65504, 65519, 65520, 65536, -1e9f, 3.4e38f, INFINITY, -INFINITY, NAN, 0, -0.0f, 1e-7f};
    enum { ODD = sizeof(odd) / sizeof(*odd), COUNT = 1000 + ODD };
    float host[COUNT];
    harness_fill(&(harness_random){1}, host, COUNT, 4);
    memcpy(host + 500, odd, sizeof(odd));
    for (int d = 0; d < 2; d++)
        for (int64_t n = 1; n <= COUNT; n = n * 5 + 2) {
            harness_ok(tfm_scope_open(ctx));
            const float *from = host + (n > COUNT - 500 ? COUNT - n : 500); /* the odd ones, up to n */
            tfm_tensor y = HARNESS_TENSOR(DTYPES[d], NULL, n), cast = {0}, x = HARNESS_TENSOR(TFM_F32, from, n);
            harness_ok(tfm__cast_saturating(ctx, y, x));
            harness_ok(tfm_cast(ctx, &cast, x, DTYPES[d]));
            harness_guards(y);
            float *got = as_floats(y), *want = as_floats(cast);
            for (int64_t i = 0; i < n; i++) {
                const float v = from[i];
                if (DTYPES[d] == TFM_F16 && isinf(want[i]) && !isinf(v))
                    want[i] = copysignf(65504, v);
                assert_true(isnan(v) ? isnan(got[i]) : got[i] == want[i]);
            }
            free(got);
            free(want);
            harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 3);
    harness_refused(tfm__cast_saturating(ctx, HARNESS_TENSOR(TFM_I32, NULL, 3), x), TFM_ERROR_ARGUMENT, "dtype");
    harness_refused(tfm__cast_saturating(ctx, HARNESS_TENSOR(TFM_F16, NULL, 4), x), TFM_ERROR_ARGUMENT, "");
}

/* ---- Layers ---- */

typedef struct layers {
    int64_t rows, k, n[3];
    bool normed, far;
    tfm_dtype kept[3];
} layers;

/* Aligned to four elements, as the skinny-GEMM kernel requires. */
static tfm_tensor even(const float *host, int64_t rows, int64_t columns) {
    tfm_tensor x = {0};
    harness_ok(tfm_tensor_new(harness_context(), &x, TFM_F32, 2, (int64_t[]){rows, columns}));
    harness_ok(tfm_tensor_write(harness_context(), x, host));
    return x;
}

/* Three layers of one input, some with 16-bit results. */
static void check_layers(layers l, harness_random *random) {
    tfm_context *ctx = harness_context();
    float *x = malloc(sizeof(*x) * (size_t)(l.rows * l.k)), *w[3];
    double *norm = malloc(sizeof(*norm) * (size_t)(l.rows * l.k));
    assert_true(x && norm);
    harness_fill(random, x, (size_t)(l.rows * l.k), 1);
    for (int64_t r = 0; r < l.rows; r++) {
        double square = 0;
        for (int64_t i = 0; i < l.k; i++)
            square += (double)x[r * l.k + i] * (double)x[r * l.k + i] / (double)l.k;
        for (int64_t i = 0; i < l.k; i++)
            norm[r * l.k + i] = (double)x[r * l.k + i] / (l.normed ? sqrt(square + 1e-5) : 1);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor y[3];
    tfm_param weights[3];
    tfm__fused_output outputs[3];
    for (int i = 0; i < 3; i++) {
        w[i] = malloc(sizeof(*w[i]) * (size_t)(l.n[i] * l.k));
        assert_non_null(w[i]);
        harness_fill(random, w[i], (size_t)(l.n[i] * l.k), l.far ? 1e5f : 1);
        weights[i] = (tfm_param){.value = even(w[i], l.n[i], l.k)};
        y[i] = HARNESS_TENSOR(l.kept[i], NULL, l.rows, l.n[i]);
        outputs[i] = (tfm__fused_output){&y[i], &weights[i], {0}};
    }
    harness_ok(tfm__fused_linear(
        ctx,
        &(tfm__fused_input){.x = even(x, l.rows, l.k), .normed = l.normed, .root_mean_square = true, .epsilon = 1e-5f},
        3, outputs, TFM_NO_ACTIVATION));
    for (int i = 0; i < 3; i++) {
        char what[120];
        double *want = calloc((size_t)(l.rows * l.n[i]), sizeof(*want));
        assert_non_null(want);
        for (int64_t e = 0; e < l.rows * l.n[i]; e++) {
            for (int64_t k = 0; k < l.k; k++)
                want[e] += norm[e / l.n[i] * l.k + k] * (double)w[i][e % l.n[i] * l.k + k];
            if (l.kept[i] == TFM_F16)
                want[e] = fmin(fmax(want[e], -65504), 65504);
        }
        snprintf(what, sizeof(what), "layer %d of %d x %d, %d rows%s%s", i, (int)l.n[i], (int)l.k, (int)l.rows,
                 l.normed ? ", normed" : "", l.far ? ", far" : "");
        float *got = l.kept[i] == TFM_F32 ? harness_floats(y[i]) : NULL;
        if (got)
            harness_close(got, want, (size_t)(l.rows * l.n[i]), 2e-5, what);
        else
            close_kept(y[i], want, what);
        harness_guards(y[i]);
        free(got);
        free(want);
        free(w[i]);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    for (int i = 0; i < 3; i++)
        tfm_param_free(ctx, &weights[i]);
    free(x);
    free(norm);
}

static void test_half_store_of_layers_matches_oracle(void **state) {
    (void)state;
    harness_random random = {2};
    const int64_t rows[] = {1, 3, 8, 40, 2}, widths[] = {36, 132, 516, 64, 33};
    const tfm_dtype kept[][3] = {{TFM_F32, TFM_F16, TFM_F16},
                                 {TFM_F32, TFM_BF16, TFM_BF16},
                                 {TFM_F16, TFM_F32, TFM_F16},
                                 {TFM_BF16, TFM_F16, TFM_F32}};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) {
            if (harness_brief() && (i + 3 * k) % 5 > 1)
                continue; /* covers each norm, gate, dtype and unaligned case */
            check_layers((layers){.rows = rows[i],
                                  .k = widths[i],
                                  .n = {17, 48, 9},
                                  .normed = (i + k) % 2 == 0,
                                  .far = (i + k) % 5 == 4,
                                  .kept = {kept[k][0], kept[k][1], kept[k][2]}},
                         &random);
        }
}

/* Queries stay fp32; keys rotated with them become 16-bit. */
static void test_rope_keys_are_stored_in_half_precision(void **state) {
    (void)state;
    enum { B = 2, T = 3, H = 4, KEYS = 2, P = 9, FIRST = 5 };
    const int64_t widths[][2] = {{2, 1}, {7, 3}, {64, 32}, {66, 33}, {128, 40}};
    tfm_context *ctx = harness_context();
    harness_random random = {3};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int kind = 0; kind < 4; kind++) {
            const int64_t D = widths[i][0], half = widths[i][1];
            const tfm_dtype dtype = DTYPES[kind / 2];
            float x[B * T * (H + KEYS) * 128], tables[2][P * 40];
            double want[B * T * KEYS * 128];
            harness_fill(&random, x, sizeof(x) / sizeof(*x), 1);
            harness_fill(&random, tables[0], P * 40, 1);
            harness_fill(&random, tables[1], P * 40, 1);
            harness_ok(tfm_scope_open(ctx));
            tfm_tensor queries = {0}, alone = {0}, keys = HARNESS_TENSOR(dtype, NULL, B, T, KEYS * D);
            tfm_tensor q = HARNESS_TENSOR(TFM_F32, x, B, T, H * D);
            tfm_tensor k = HARNESS_TENSOR(TFM_F32, x + B * T * H * D, B, T, KEYS * D);
            tfm_tensor cosines = HARNESS_TENSOR(TFM_F32, tables[0], P, half);
            tfm_tensor sines = HARNESS_TENSOR(TFM_F32, tables[1], P, half);
            const tfm_rotary_options options = {.heads = KEYS, .first = FIRST, .interleaved = kind % 2};
            tfm_rotary_options of_queries = options;
            of_queries.heads = H;
            harness_ok(tfm__rotary_pair(ctx, &queries, q, H, &keys, k, cosines, sines, &options));
            harness_ok(tfm_rotary(ctx, &alone, q, cosines, sines, &of_queries));
            float *got = harness_floats(queries), *single = harness_floats(alone);
            assert_memory_equal(got, single, sizeof(*got) * (size_t)(B * T * H * D));
            for (int64_t e = 0; e < B * T * KEYS * D; e++) {
                const float *in = x + B * T * H * D + e / D * D;
                const int64_t c = e % D, p = e / (KEYS * D) % T + FIRST, pair = kind % 2 ? c / 2 : c % half;
                const bool second = kind % 2 ? c % 2 : c >= half;
                const double other = c >= 2 * half ? 0 : in[kind % 2 ? c ^ 1 : second ? c - half : c + half];
                want[e] = c >= 2 * half ? (double)in[c]
                                        : (double)in[c] * (double)tables[0][p * half + pair] +
                                              (second ? 1 : -1) * other * (double)tables[1][p * half + pair];
            }
            close_kept(keys, want, "keys after RoPE");
            free(got);
            free(single);
            harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
}

/* ---- Memory ---- */

static void test_kv_cache_of_each_dtype_appends(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_kv_cache cache;
    const float row[] = {1, 2, 3, 0.25f, -5};
    memset(&cache, 0x5a, sizeof(cache));
    harness_refused(tfm_kv_cache_new_dtype(ctx, &cache, 2, 5, 4, TFM_I32), TFM_ERROR_ARGUMENT, "F32, F16, BF16 or I8");
    harness_refused(tfm_kv_cache_new_dtype(ctx, &cache, 2, 5, 4, TFM_I8), TFM_ERROR_ARGUMENT, "TFM_KV_INT8_SPAN");
    tfm_kv_cache_free(ctx, &cache); /* which the header allows, also after a failure */
    assert_null(cache.kv);
    for (int d = 0; d < 2; d++) {
        harness_ok(tfm_kv_cache_new_dtype(ctx, &cache, 2, 5, 4, DTYPES[d]));
        for (int i = 0; i < 2; i++) {
            tfm_tensor first = {0};
            harness_ok(tfm_scope_open(ctx));
            harness_ok(tfm_tensor_rows(ctx, &first, cache.kv[i].values, 3, 1));
            harness_ok(tfm__cast_saturating(ctx, first, HARNESS_TENSOR(TFM_F32, row, 1, 5)));
            harness_ok(tfm_scope_close(ctx, 0, NULL));
        }
        cache.slots = 4;
        harness_ok(tfm_kv_cache_reserve(ctx, &cache, 9)); /* with unchanged dtype and rows */
        assert_true(cache.capacity == 13 && cache.kv[1].keys.dtype == DTYPES[d]);
        harness_ok(tfm_scope_open(ctx));
        float *got = as_floats(cache.kv[1].values);
        for (int i = 0; i < 5; i++)
            assert_true(got[15 + i] == row[i]);
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        tfm_kv_cache_free(ctx, &cache);
    }
}

/* Bytes of one KV cache of 8 heads of 64, in blocks of the memory pool. */
static uint64_t bytes_of(tfm_dtype dtype) {
    tfm_context *ctx = NULL;
    tfm_kv_cache cache;
    harness_ok(tfm_context_open(&ctx, NULL));
    harness_ok(tfm_kv_cache_new_dtype(ctx, &cache, 3, 8 * tfm__kv_span(dtype, 64), 4096, dtype));
    const uint64_t bytes = tfm_context_peak_memory(ctx);
    tfm_kv_cache_free(ctx, &cache);
    tfm_context_free(&ctx);
    return bytes;
}

static void test_half_and_int8_kv_caches_take_less_memory(void **state) {
    (void)state;
    const uint64_t whole = bytes_of(TFM_F32);
    assert_true(whole >= 6 * UINT64_C(512) * 4096 * 4);
    assert_int_equal(bytes_of(TFM_F16), whole / 2);
    assert_int_equal(bytes_of(TFM_BF16), whole / 2);
    const uint64_t int8 = bytes_of(TFM_I8); /* 64 bytes and two scales for 64 floats, in coarser blocks */
    assert_true(int8 >= whole / 64 * 17 && int8 <= whole / 16 * 5);
}

/* ---- Searches ---- */

typedef struct found {
    int32_t ids[64];
    size_t count;
    double score;
    uint64_t estimate;
    tfm_dtype kept;
} found;

/* The best translation by apps/demo with this model dtype; `kept` overrides the device's KV cache dtype unless -1. */
static found translate(tfm_precision precision, int kept) {
    const int32_t ids[] = {58, 12, 130, 71, 25, 7, 0};
    const size_t count = sizeof(ids) / sizeof(*ids);
    char *dir = harness_source("apps/demo");
    tfm_model *model = NULL;
    tfm_hypotheses out;
    found f;
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.precision = precision}));
    f.estimate = tfm_model_get_info(model)->estimated_bytes;
    model->kv_dtype = kept < 0 ? model->kv_dtype : (tfm_dtype)kept;
    f.kept = model->kv_dtype;
    const int beam = harness_brief() ? 2 : 4;
    harness_ok(tfm_search(model, &out, ids, &count, 1, NULL, NULL,
                          &(tfm_search_options){.beam_size = beam, .max_length = 40}));
    f.count = out.items[0].count;
    memcpy(f.ids, out.items[0].ids, f.count * sizeof(*f.ids));
    f.score = out.items[0].score;
    tfm_hypotheses_free(&out);
    tfm_model_free(&model);
    free(dir);
    return f;
}

/* KV cache dtype of a model opened with these options. */
static tfm_dtype kept_by(tfm_precision precision) {
    char *dir = harness_source("apps/demo");
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir, &(tfm_model_options){.precision = precision}));
    const tfm_dtype kept = model->kv_dtype;
    tfm_model_free(&model);
    free(dir);
    return kept;
}

static void test_search_with_half_kv_cache_is_near_fp32(void **state) {
    (void)state;
    if (harness_slow())
        skip();
    const bool keeps = tfm__context_tuning(harness_context())->kv_half;
    assert_int_equal(keeps, tfm__context_tuning(harness_context())->class == TFM__CLASS_GPU);
    for (int d = harness_brief() ? 1 : 0; d < 2; d++) {
        const tfm_precision precision = d ? TFM_PRECISION_BF16 : TFM_PRECISION_FP16;
        const found chosen = translate(precision, -1), whole = translate(precision, TFM_F32),
                    half = translate(precision, (int)DTYPES[d]);
        assert_int_equal(chosen.kept, keeps ? DTYPES[d] : TFM_F32);
        assert_true(chosen.score == (keeps ? half : whole).score);
        assert_int_equal(half.count, whole.count);
        assert_memory_equal(half.ids, whole.ids, whole.count * sizeof(*whole.ids));
        assert_true(half.score != whole.score && fabs(half.score - whole.score) < (d ? 5e-2 : 5e-3));
    }
    assert_int_equal(kept_by(TFM_PRECISION_FP16), keeps ? TFM_F16 : TFM_F32);
    assert_int_equal(kept_by(TFM_PRECISION_FP32), TFM_F32);
    assert_int_equal(kept_by(TFM_PRECISION_INT8), TFM_F32);
}

static void test_search_with_int8_kv_cache_is_near_fp32(void **state) {
    (void)state;
    if (harness_slow())
        skip();
    const found whole = translate(TFM_PRECISION_FP32, TFM_F32), int8 = translate(TFM_PRECISION_FP32, TFM_I8);
    assert_int_equal(int8.count, whole.count);
    assert_memory_equal(int8.ids, whole.ids, whole.count * sizeof(*whole.ids));
    if (!(int8.score != whole.score && fabs(int8.score - whole.score) < 5e-2))
        fail_msg("score %.9g, in fp32 %.9g", int8.score, whole.score);
}

/* Of the options, whatever the weights. */
static void test_kv_precision_selects_the_dtype(void **state) {
    (void)state;
    static const struct {
        tfm_precision asked;
        tfm_dtype dtype;
    } KINDS[] = {{TFM_PRECISION_FP32, TFM_F32},
                 {TFM_PRECISION_FP16, TFM_F16},
                 {TFM_PRECISION_BF16, TFM_BF16},
                 {TFM_PRECISION_INT8, TFM_I8}};
    char *dir = harness_source("apps/demo");
    tfm_model_info infos[4];
    for (int i = 0; i < 4; i++) {
        tfm_model *model = NULL;
        const tfm_model_options options = {.precision = TFM_PRECISION_BF16, .kv_precision = KINDS[i].asked};
        harness_ok(tfm_model_open(&model, harness_context(), dir, &options));
        assert_int_equal(model->kv_dtype, KINDS[i].dtype);
        harness_ok(tfm_model_read_info(&infos[i], dir, &options));
        assert_int_equal(infos[i].kv_token_bytes, tfm_model_get_info(model)->kv_token_bytes);
        assert_int_equal(infos[i].estimated_bytes, tfm_model_get_info(model)->estimated_bytes);
        tfm_model_free(&model);
    }
    assert_int_equal(infos[1].kv_token_bytes, infos[0].kv_token_bytes / 2);
    assert_int_equal(infos[2].kv_token_bytes, infos[0].kv_token_bytes / 2);
    const uint64_t width = (uint64_t)infos[0].decoder_head_width;
    assert_int_equal(infos[3].kv_token_bytes, infos[0].kv_token_bytes / (4 * width) * TFM_KV_INT8_SPAN(width));
    assert_true(infos[3].estimated_bytes < infos[0].estimated_bytes);
    free(dir);
}

/* The memory estimate halves with a 16-bit KV cache. */
static void test_memory_estimate_counts_half_kv_cache(void **state) {
    (void)state;
    char *dir = harness_source("apps/demo");
    const bool keeps = tfm__context_tuning(harness_context())->kv_half;
    tfm_model *model = NULL;
    tfm_model_info unopened;
    const tfm_model_options options = {.precision = TFM_PRECISION_FP16};
    harness_ok(tfm_model_open(&model, harness_context(), dir, &options));
    harness_ok(tfm_model_read_info(&unopened, dir, &options));
    const tfm__stack_arch *arch = &model->arch.decoder;
    const uint64_t rows = 4096 + 4096 / 16 * 32 * (uint64_t)unopened.beam_size; /* of the source and of the target */
    const uint64_t floats = 2 * rows * (uint64_t)(arch->layers * arch->width);
    assert_int_equal(unopened.estimated_bytes - tfm_model_get_info(model)->estimated_bytes, keeps ? 2 * floats : 0);
    tfm_model_free(&model);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_store_rounds_and_clamps_fp16),
        cmocka_unit_test(test_half_store_of_layers_matches_oracle),
        cmocka_unit_test(test_rope_keys_are_stored_in_half_precision),
        cmocka_unit_test(test_kv_cache_of_each_dtype_appends),
        cmocka_unit_test(test_half_and_int8_kv_caches_take_less_memory),
        cmocka_unit_test(test_search_with_half_kv_cache_is_near_fp32),
        cmocka_unit_test(test_search_with_int8_kv_cache_is_near_fp32),
        cmocka_unit_test(test_kv_precision_selects_the_dtype),
        cmocka_unit_test(test_memory_estimate_counts_half_kv_cache),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
