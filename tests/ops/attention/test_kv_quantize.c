/* The int8 KV cache: heads that are written, and attention over them in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/attention/kv_quantize.h"
#include "support/attention_oracle.h"
#include "support/kv_int8.h"

/* I8 (rows, bytes) at a multiple of four, poisoned. */
static tfm_tensor slots(int64_t rows, int64_t bytes) {
    harness_align(4);
    const tfm_tensor x = HARNESS_TENSOR(TFM_I8, NULL, rows, bytes);
    harness_align(0);
    return x;
}

static void check_bytes(tfm_tensor got, const float *from, int64_t heads, int64_t width) {
    const int64_t span = TFM_KV_INT8_SPAN(width), header = kv_int8_header(width);
    char *bytes = malloc((size_t)(heads * span));
    assert_non_null(bytes);
    harness_ok(tfm_tensor_read(harness_context(), bytes, got));
    harness_guards(got);
    for (int64_t i = 0; i < heads * width; i++) {
        const float *head = from + i / width * width;
        const char *out = bytes + i / width * span;
        const int64_t c = i % width;
        const double scale = (double)kv_int8_scale(out, c);
        const double exact = (double)kv_int8_largest(head, c, width) / 127;
        if (!isfinite(exact)) {
            assert_true(isnan(scale));
            continue;
        }
        if (exact < 1e-32) { /* becomes zero */
            assert_true(scale == 0 && out[header + c] == 0);
            continue;
        }
        if (!(scale >= exact * (1 - 1e-6) && scale <= exact * (1 + 0x1p-7 + 1e-6)))
            fail_msg("column %d of %d: scale %g, not %g rounded up", (int)c, (int)width, scale, exact);
        if (!(fabs((double)head[c] - scale * (signed char)out[header + c]) <= 0.5001 * scale))
            fail_msg("column %d of %d: %g is %d steps of %g", (int)c, (int)width, (double)head[c],
                     (signed char)out[header + c], scale);
    }
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = (width + 31) / 32 * 2; i < header; i++)
            assert_int_equal(bytes[h * span + i], 0);
        for (int64_t i = header + width; i < span; i++)
            assert_int_equal(bytes[h * span + i], 0);
    }
    free(bytes);
}

static void test_heads_are_written_to_half_a_step(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t widths[] = {1, 3, 4, 5, 17, 31, 64, 65, 80, 128, 256, 1000}, rows[] = {1, 7, 40};
    harness_random random = {5};
    for (size_t w = 0; w < sizeof(widths) / sizeof(*widths); w++)
        for (int r = 0; r < (harness_slow() ? 2 : 3); r++) {
            const int64_t D = widths[w], R = rows[r], H = r + 1, count = R * H * D;
            float *k = malloc(sizeof(*k) * (size_t)count), *v = malloc(sizeof(*v) * (size_t)count);
            assert_true(k && v);
            harness_fill(&random, k, (size_t)count, 3);
            harness_fill(&random, v, (size_t)count, 1e-3F);
            for (int64_t i = 0; i < D; i++) /* the first key is zeros, the last one tiny */
                k[i] = 0;
            for (int64_t i = 1; i <= D && R > 1; i++)
                k[count - i] *= 1e-36F;
            k[count / 2] *= 1e4F; /* an outlier */
            harness_ok(tfm_scope_open(ctx));
            const tfm_tensor keys = slots(R, H * TFM_KV_INT8_SPAN(D)), values = slots(R, H * TFM_KV_INT8_SPAN(D));
            harness_ok(tfm__kv_quantize(ctx, keys, values, HARNESS_TENSOR(TFM_F32, k, 1, R, H * D),
                                        HARNESS_TENSOR(TFM_F32, v, R, 1, H * D), H));
            check_bytes(values, v, R * H, D);
            check_bytes(keys, k, R * H, D);
            harness_ok(tfm_scope_close(ctx, 0, NULL));
            free(k);
            free(v);
        }
}

static void test_a_head_that_is_not_finite_has_no_finite_scale(void **state) {
    (void)state;
    enum { D = 37, HEADS = 6 };
    const float odd[] = {NAN, INFINITY, -INFINITY, -NAN, 3e38F, 0};
    tfm_context *ctx = harness_context();
    float k[HEADS * D];
    harness_fill(&(harness_random){6}, k, HEADS * D, 1);
    for (int h = 0; h < HEADS; h++)
        k[h * D + (h * 13 + 36) % D] = odd[h];
    harness_ok(tfm_scope_open(ctx));
    const tfm_tensor keys = slots(2, 3 * TFM_KV_INT8_SPAN(D)), values = slots(2, 3 * TFM_KV_INT8_SPAN(D));
    const tfm_tensor x = HARNESS_TENSOR(TFM_F32, k, 2, 3 * D);
    harness_ok(tfm__kv_quantize(ctx, keys, values, x, x, 3));
    check_bytes(keys, k, HEADS, D);
    check_bytes(values, k, HEADS, D);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static attention_case plain(int64_t batch, int64_t targets, int64_t length, int64_t width) {
    return (attention_case){.batch = batch,
                            .targets = targets,
                            .length = length,
                            .heads = 6,
                            .kv_heads = 6,
                            .key_width = width,
                            .value_width = width,
                            .numbers = TFM_I8};
}

/* One query over the cache: each width of heads, groups of heads, and what a decoder asks for. */
static void test_decode_over_int8_cache_matches_oracle(void **state) {
    (void)state;
    const int64_t widths[] = {3, 64, 100};
    for (size_t w = 0; w < sizeof(widths) / sizeof(*widths); w += harness_slow() ? 2 : 1)
        for (int kind = 0; kind < (harness_slow() ? 3 : 6); kind++) {
            attention_case c = plain(1 + kind % 3, 1, 1 + kind * 19, widths[w]);
            c.kv_heads = kind % 3 == 0 ? 6 : kind % 3 == 1 ? 2 : 1;
            c.paged = true;
            c.holes = kind % 4 == 3;
            c.window = kind % 4 == 2;
            c.past = c.length - 1;
            c.before = 40;
            c.soft_cap = kind % 5 == 2 ? 3 : 0;
            c.masked = kind % 3 == 1; /* ALiBi */
            c.mask_rank = 4;
            memcpy(c.mask_dims, (int64_t[]){1, 6, 1, c.length}, sizeof(c.mask_dims));
            c.beams = kind % 5 == 2 ? 2 : 0;
            c.summed = kind % 2;
            attention_check(c);
        }
}

/* A prompt after a past, padded rows, and keys that are no cache. */
static void test_prefill_over_int8_cache_matches_oracle(void **state) {
    (void)state;
    const int64_t targets[] = {2, 5, 17, 66, 20}, widths[] = {20, 64, 33, 256, 64};
    for (int kind = 0; kind < (harness_slow() ? 4 : 10); kind++) {
        attention_case c =
            plain(1 + kind % 2, targets[kind % 5], targets[kind % 5] + 31 * (kind % 4), widths[kind / 2 % 5]);
        c.kv_heads = kind % 3 == 0 ? 2 : kind % 3 == 1 ? 1 : 6;
        c.paged = kind % 4 < 3;
        c.holes = c.paged && kind % 2;
        c.heads_first = kind % 4 == 3;
        c.causal = true;
        c.padded = c.causal_bottom_right = kind % 5 == 4;
        c.past = c.causal_bottom_right ? 0 : c.length - c.targets;
        c.window = kind % 3 == 2;
        c.before = 21;
        c.soft_cap = kind % 7 == 3 ? 3 : 0;
        c.scored = !c.holes && kind % 6 == 2;
        c.stage = (tfm_attention_stage)(kind % 4);
        attention_check(c);
    }
}

static void test_int8_heads_of_another_shape_are_refused(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status bad = TFM_ERROR_ARGUMENT;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 3, 10), y = {0}, good = slots(3, 2 * TFM_KV_INT8_SPAN(5));
    tfm_tensor other = slots(3, 2 * TFM_KV_INT8_SPAN(5)), narrow = slots(3, 20), odd = good;
    odd.offset += 1;
    harness_refused(tfm__kv_quantize(ctx, narrow, other, x, x, 2), bad, "must be (3, 24)");
    harness_refused(tfm__kv_quantize(ctx, good, narrow, x, x, 2), bad, "must be (3, 24)");
    harness_refused(tfm__kv_quantize(ctx, good, other, x, x, 3), bad, "heads");
    harness_refused(tfm__kv_quantize(ctx, good, other, x, x, 0), bad, "heads");
    harness_refused(tfm__kv_quantize(ctx, odd, other, x, x, 2), bad, "multiple of four");
    harness_refused(tfm__kv_quantize(ctx, good, good, x, x, 2), bad, "shares memory");
    harness_refused(tfm__kv_quantize(ctx, x, good, x, x, 2), bad, "dtype");
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 10);
    const tfm_tensor rows = HARNESS_TENSOR(TFM_I32, ((int32_t[]){0, 2}), 1, 2);
    const tfm_attention_options options = {.heads = 2, .kv_indices = rows};
    harness_refused(tfm_attention(ctx, &y, q, narrow, narrow, &options), bad, "do not divide");
    harness_refused(tfm_attention(ctx, &y, q, good, narrow, &options), bad, "do not divide");
    harness_refused(tfm_attention(ctx, &y, q, odd, good, &options), bad, "multiples of four");
    harness_refused(tfm_attention(ctx, &y, q, good, x, &options), bad, "one dtype");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_are_written_to_half_a_step),
        cmocka_unit_test(test_a_head_that_is_not_finite_has_no_finite_scale),
        cmocka_unit_test(test_decode_over_int8_cache_matches_oracle),
        cmocka_unit_test(test_prefill_over_int8_cache_matches_oracle),
        cmocka_unit_test(test_int8_heads_of_another_shape_are_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
