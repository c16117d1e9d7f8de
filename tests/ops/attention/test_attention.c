/* Fused attention against softmax(scale q k^T) v in double precision: shapes, masks, layouts, shared and paged keys.
 * Masked data (padding, later keys, unused pool rows) is NaN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"
#include "dev/device/context_internal.h"

static float *run(const attention_problem *p) {
    const attention_got got = attention_run(p);
    free(got.scores);
    free(got.lse);
    return got.y;
}

static double *oracle(const attention_problem *p) {
    const attention_wanted want = attention_oracle(p);
    free(want.scores);
    free(want.lse);
    return want.y;
}

/* Every kind of call, in both layouts. */
static void check_kinds(attention_case s) {
    for (int kind = 0; kind < 8; kind++) {
        s.heads_first = kind & 1;
        s.causal = kind & 2;
        s.padded = kind & 4;
        attention_check(s);
    }
}

static void test_attention_matches_double_precision(void **state) {
    (void)state;
    const int64_t targets[] = {1, 3, 17, 65}, lengths[] = {1, 3, 17, 65}, widths[] = {1, 3, 8, 17, 32, 64, 65};
    for (size_t i = 0; i < (harness_slow() ? 2 : 4); i++)
        for (size_t j = 0; j < 4; j++)
            for (size_t k = 2; k < (harness_slow() ? 4 : 6); k++)
                attention_check((attention_case){.batch = 3,
                                                 .targets = targets[i],
                                                 .length = lengths[j],
                                                 .heads = 2,
                                                 .kv_heads = 2,
                                                 .key_width = widths[k],
                                                 .value_width = widths[k],
                                                 .causal = (i + j) % 2,
                                                 .padded = (j + k) % 2,
                                                 .heads_first = (i + k) % 2,
                                                 .past = (int64_t)k - 2});
    /* Seven and ten vectors of eight columns; the last of seven is partial. */
    for (int64_t width = 53; width <= 80; width += 27)
        attention_check((attention_case){.batch = 2,
                                         .targets = 9,
                                         .length = 43,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .key_width = 8,
                                         .value_width = width,
                                         .causal = true});
    for (size_t k = 0; k < 7; k++)
        for (int64_t t = 1; t < 3; t++)
            attention_check((attention_case){.batch = 2,
                                             .targets = t,
                                             .length = 19,
                                             .heads = 2,
                                             .kv_heads = 2,
                                             .key_width = widths[k],
                                             .value_width = widths[6 - k]});
}

static void test_attention_masks_and_layouts_match_oracle(void **state) {
    (void)state;
    check_kinds((attention_case){.batch = 4,
                                 .targets = 5,
                                 .length = 40,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .key_width = 16,
                                 .value_width = 24,
                                 .past = 3});
    if (harness_slow())
        return;
    check_kinds((attention_case){.batch = 4,
                                 .targets = 1,
                                 .length = 37,
                                 .heads = 4,
                                 .kv_heads = 4,
                                 .key_width = 32,
                                 .value_width = 32,
                                 .past = 20});
    check_kinds((attention_case){.batch = 3,
                                 .targets = 9,
                                 .length = 9,
                                 .heads = 6,
                                 .kv_heads = 1,
                                 .key_width = 5,
                                 .value_width = 70,
                                 .scale = 0.3F});
    check_kinds((attention_case){.batch = 1,
                                 .targets = 200,
                                 .length = 170,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .key_width = 64,
                                 .value_width = 64,
                                 .past = 11});
    check_kinds((attention_case){
        .batch = 2, .targets = 20, .length = 33, .heads = 1, .kv_heads = 1, .key_width = 1000, .value_width = 3});
    check_kinds((attention_case){
        .batch = 2, .targets = 6, .length = 33, .heads = 1, .kv_heads = 1, .key_width = 3, .value_width = 1100});
}

/* Decoder calls: self-attention over a paged KV cache, cross-attention keys shared by beams. */
static void test_paged_and_beam_shared_keys_match_oracle(void **state) {
    (void)state;
    for (int64_t length = 1; length < 70; length += harness_slow() ? 31 : 8)
        for (int64_t kv_heads = 4; kv_heads > 0; kv_heads -= 3)
            for (int kind = 0; kind < 4; kind++) {
                attention_case s = {.batch = 10,
                                    .targets = 1,
                                    .length = length,
                                    .heads = 4,
                                    .kv_heads = kv_heads,
                                    .key_width = 32,
                                    .value_width = 32,
                                    .padded = kind & 1,
                                    .heads_first = kind & 2};
                s.beams = 4;
                attention_check(s);
                s.paged = true;
                s.padded = false;
                attention_check(s);
                s.beams = 0;
                s.targets = 3;
                s.padded = kind & 1;
                s.causal = true;
                s.past = length - 3 > 0 ? length - 3 : 0;
                attention_check(s);
            }
}

/* Scores far apart: only the largest counts and no exponential overflows. A score of 400 keeps five digits after the
 * point of seven. */
static void test_extreme_scores_stay_finite(void **state) {
    (void)state;
    for (int64_t targets = 1; targets < 7; targets += 5) {
        attention_check((attention_case){.batch = 2,
                                         .targets = targets,
                                         .length = 50,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .key_width = 16,
                                         .value_width = 16,
                                         .scale = 1,
                                         .spread = 100,
                                         .tolerance = 3e-4});
        attention_check((attention_case){.batch = 2,
                                         .targets = targets,
                                         .length = 50,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .key_width = 16,
                                         .value_width = 16,
                                         .scale = 1e-6F});
    }
}

/* Attention is permutation-invariant: reversing keys and values together changes rounding only. */
static void test_permuted_keys_change_rounding_only(void **state) {
    (void)state;
    for (int64_t targets = 1; targets < 12; targets += 10) {
        const attention_case s = {.batch = 2,
                                  .targets = targets,
                                  .length = 61,
                                  .heads = 2,
                                  .kv_heads = 2,
                                  .key_width = 24,
                                  .value_width = 32};
        attention_problem p = attention_make(&s);
        float *before = run(&p);
        for (int64_t n = 0; n < s.batch; n++)
            for (int64_t j = 0; j < s.length / 2; j++)
                for (int64_t i = 0; i < 2; i++) {
                    const int64_t width = s.kv_heads * (i ? s.value_width : s.key_width);
                    float *all = i ? p.v : p.k, *a = all + (n * s.length + j) * width;
                    float *b = all + (n * s.length + s.length - 1 - j) * width;
                    for (int64_t d = 0; d < width; d++) {
                        const float kept = a[d];
                        a[d] = b[d];
                        b[d] = kept;
                    }
                }
        float *after = run(&p);
        for (int64_t i = 0; i < s.batch * targets * s.heads * s.value_width; i++)
            assert_true(fabsf(before[i] - after[i]) < 2e-6F);
        free(before);
        free(after);
        attention_drop(&p);
    }
}

/* Causally masked keys, and cache rows and sources out of range, have no effect, even as NaN. */
static void test_unseen_nan_keys_do_not_matter(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const attention_case s = {.batch = 1,
                              .targets = 40,
                              .length = 40,
                              .heads = 1,
                              .kv_heads = 1,
                              .key_width = 16,
                              .value_width = 16,
                              .causal = true};
    attention_problem p = attention_make(&s);
    double *want = oracle(&p);
    for (int spoilt = 0; spoilt < 2;
         spoilt++) { /* a key, then a value: NaN must propagate to queries that attend to it */
        float *which = spoilt ? p.v + 20 * 16 + 3 : p.k + 20 * 16 + 3;
        const float kept = *which;
        *which = NAN;
        float *got = run(&p);
        harness_close(got, want, 20 * 16, 3e-6, "before the first NaN");
        for (int64_t t = 20; t < 40; t++)
            assert_true(isnan(got[t * 16 + 3]));
        free(got);
        *which = kept;
    }
    free(want);
    attention_drop(&p);

    harness_ok(tfm_scope_open(ctx));
    const float ones[] = {1, 1, 2, 2, 4, 4};
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, ones, 3, 1, 2), pool = HARNESS_TENSOR(TFM_F32, ones, 3, 2), y = {0};
    tfm_tensor rows = HARNESS_TENSOR(TFM_I32, ((int32_t[]){0, -1, 3, 2, 1 << 30, -77}), 3, 2);
    harness_ok(tfm_attention(ctx, &y, q, pool, pool, &(tfm_attention_options){.heads = 1, .kv_indices = rows}));
    float *got = harness_floats(y);
    harness_close(got, (double[]){1, 1, 4, 4, 0, 0}, 6, 1e-6, "rows outside the pool");
    free(got);
    int32_t late[80]; /* several masked tiles, then one visible key: the result is its value */
    for (int i = 0; i < 80; i++)
        late[i] = i == 75 ? 1 : -1;
    tfm_tensor twice = HARNESS_TENSOR(TFM_F32, ones, 1, 3, 2), late_y = {0};
    tfm_tensor late_rows = HARNESS_TENSOR(TFM_I32, late, 1, 80);
    harness_ok(
        tfm_attention(ctx, &late_y, twice, pool, pool, &(tfm_attention_options){.heads = 1, .kv_indices = late_rows}));
    got = harness_floats(late_y);
    harness_close(got, (double[]){2, 2, 2, 2, 2, 2}, 6, 1e-6, "one row in the pool, late");
    free(got);
    tfm_tensor keys = HARNESS_TENSOR(TFM_F32, ones, 3, 1, 2), z = {0};
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, ((int32_t[]){3, 1, -1}), 3);
    harness_ok(tfm_attention(ctx, &z, q, keys, keys, &(tfm_attention_options){.heads = 1, .kv_batch = sources}));
    got = harness_floats(z);
    harness_close(got, (double[]){0, 0, 2, 2, 0, 0}, 6, 1e-6, "sources that do not exist");
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Queries attend to all existing keys, whatever past length or source index is given. */
static void test_out_of_range_pasts_and_lengths_are_clamped(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t pasts[] = {INT64_MAX, INT64_MAX - 1, INT32_MAX, 5};
    const float keys[] = {1, 1, 1, 1}, values[] = {1, 2, 3, 6};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, keys, 1, 1, 4, 1), k = HARNESS_TENSOR(TFM_F32, keys, 1, 1, 4, 1);
    tfm_tensor v = HARNESS_TENSOR(TFM_F32, values, 1, 1, 4, 1);
    for (size_t i = 0; i < 4; i++) {
        tfm_tensor y = {0};
        harness_ok(tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.causal = true, .past = pasts[i]}));
        float *got = harness_floats(y);
        harness_close(got, (double[]){3, 3, 3, 3}, 4, 1e-6, "many keys before");
        free(got);
    }
    tfm_tensor ones = HARNESS_TENSOR(TFM_F32, keys, 4, 1, 1, 1), y = {0};
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, ((int32_t[]){-1, INT32_MIN, 1, INT32_MAX}), 4);
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, ((int32_t[]){2, INT32_MIN, 3, INT32_MAX}), 4);
    tfm_tensor each = HARNESS_TENSOR(TFM_F32, values, 4, 1, 1, 1);
    harness_ok(tfm_attention(ctx, &y, ones, ones, each, &(tfm_attention_options){.lengths = lengths}));
    float *got = harness_floats(y);
    harness_close(got, (double[]){0, 0, 3, 6}, 4, 1e-6, "lengths out of range");
    free(got);
    harness_ok(tfm_attention(ctx, &y, ones, ones, each, &(tfm_attention_options){.kv_batch = sources}));
    got = harness_floats(y);
    harness_close(got, (double[]){3, 0, 6, 0}, 4, 1e-6, "sources out of range");
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Heads far wider than any model's: correct, or rejected if the device lacks the memory. */
static void test_very_wide_heads_are_right_or_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    if (!harness_slow())
        attention_check((attention_case){
            .batch = 1, .targets = 5, .length = 3, .heads = 1, .kv_heads = 1, .key_width = 8, .value_width = 20001});
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 8), k = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 8);
    tfm_tensor v = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 131072), y = {0};
    harness_refused(tfm_attention(ctx, &y, q, k, v, NULL), TFM_ERROR_ARGUMENT, "at most 65536");
    harness_refused(tfm_attention(ctx, &y, v, v, k, NULL), TFM_ERROR_ARGUMENT, "at most 65536");
    float *ones = attention_take(2 * 60000, sizeof(float));
    for (int i = 0; i < 2 * 60000; i++)
        ones[i] = 1;
    tfm_tensor wide = HARNESS_TENSOR(TFM_F32, ones, 1, 1, 2, 60000);
    tfm_tensor values = HARNESS_TENSOR(TFM_F32, ((float[]){1, 3}), 1, 1, 2, 1);
    const tfm_status status = tfm_attention(ctx, &y, wide, wide, values, NULL);
    if (status != TFM_OK) {
        harness_refused(status, TFM_ERROR_ARGUMENT, "bytes of local memory");
    } else {
        float *got = harness_floats(y);
        harness_close(got, (double[]){2, 2}, 2, 1e-6, "very wide keys");
        free(got);
    }
    free(ones);
}

/* Many sequences: more work-groups than one grid dimension takes. */
static void test_many_sequences_exceed_one_grid_axis(void **state) {
    (void)state;
    if (harness_slow())
        return;
    attention_check((attention_case){
        .batch = 9001, .targets = 1, .length = 3, .heads = 4, .kv_heads = 4, .key_width = 8, .value_width = 8});
    attention_check((attention_case){
        .batch = 9001, .targets = 2, .length = 3, .heads = 4, .kv_heads = 4, .key_width = 8, .value_width = 8});
}

/* Queries split over many work-items: within tolerance of the oracle, and bit-identical to each other. */
static void test_query_blocks_give_the_same_result(void **state) {
    (void)state;
    if (harness_slow())
        return;
    tfm__attention_block *block = harness_context()->tuning.attention_blocks;
    const tfm__attention_block own = *block;
    const attention_case cases[] = {
        {.causal = true, .padded = true},
        {.window = true, .before = 40, .after = 3, .heads_first = true},
        {.window = true, .before = 70, .after = 0, .scored = true, .soft_cap = 3},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        attention_case c = cases[i];
        c.batch = 2;
        c.targets = 270;
        c.length = 150;
        c.heads = c.kv_heads = 2;
        c.key_width = c.value_width = 17;
        attention_problem p = attention_make(&c);
        float *got[2];
        for (int k = 0; k < 2; k++) {
            block->queries = block->queries_large = k ? 64 : 256;
            attention_check(c);
            got[k] = run(&p);
        }
        *block = own;
        if (harness_context()->tuning.class == TFM__CLASS_CPU)
            assert_memory_equal(got[0], got[1], attention_count(&c) * sizeof(float));
        free(got[0]);
        free(got[1]);
        attention_drop(&p);
    }
}

/* A mask with one visible key. */
static tfm_tensor log_sum_part(tfm_tensor x) {
    x.rank = 1;
    x.dims[0] = 1;
    x.offset += 3;
    return x;
}

static void test_attention_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status bad = TFM_ERROR_ARGUMENT;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 12), k = HARNESS_TENSOR(TFM_F32, NULL, 2, 5, 12), y = {0};
    tfm_tensor longer = HARNESS_TENSOR(TFM_F32, NULL, 2, 6, 12), three = HARNESS_TENSOR(TFM_F32, NULL, 3, 5, 12);
    tfm_tensor flat = HARNESS_TENSOR(TFM_F32, NULL, 2, 12), apart = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 5, 3);
    tfm_tensor numbers = HARNESS_TENSOR(TFM_I32, NULL, 3), wrong = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 13);
    tfm_tensor pages = HARNESS_TENSOR(TFM_I32, NULL, 3, 5);
#define REFUSED(part, q_, k_, v_, ...)                                                                                 \
    harness_refused(tfm_attention(ctx, &y, q_, k_, v_, &(tfm_attention_options){__VA_ARGS__}), bad, part)
    REFUSED("heads", q, k, k, .heads = 0);
    REFUSED("heads", q, k, k, .heads = 5);
    REFUSED("multiple", q, k, k, .heads = 4, .kv_heads = 3);
    REFUSED("rank", q, apart, apart, .heads = 4);
    REFUSED("rank", q, k, k, .heads = 4, .kv_indices = pages);
    REFUSED("neither", flat, flat, flat, .heads = 4);
    REFUSED("length", q, k, longer, .heads = 4);
    REFUSED("same sequences", q, three, three, .heads = 4);
    REFUSED("lengths", q, k, k, .heads = 4, .lengths = numbers);
    REFUSED("kv_batch", q, k, k, .heads = 4, .kv_batch = numbers);
    REFUSED("kv_indices", q, flat, flat, .heads = 4, .kv_indices = pages);
    REFUSED("past", q, k, k, .heads = 4, .past = -1, .causal_bottom_right = true);
    REFUSED("soft cap", q, k, k, .heads = 4, .soft_cap = -1);
    REFUSED("soft cap", q, k, k, .heads = 4, .soft_cap = NAN);
    REFUSED("mask", q, k, k, .heads = 4, .mask = longer);
    REFUSED("mask", q, k, k, .heads = 4, .mask = HARNESS_TENSOR(TFM_U8, NULL, 1, 2, 4, 3, 5));
    REFUSED("mask", q, k, k, .heads = 4, .mask = HARNESS_TENSOR(TFM_U8, NULL, 2, 1, 2, 5));
    REFUSED("mask", q, k, k, .heads = 4, .mask = HARNESS_TENSOR(TFM_F32, NULL, 3, 6));
    REFUSED("not a dtype", q, k, k, .heads = 4, .mask = HARNESS_TENSOR(TFM_I32, NULL, 3, 5));
    REFUSED("one dtype", q, k, HARNESS_TENSOR(TFM_F16, NULL, 2, 5, 12), .heads = 4);
    REFUSED("one dtype", HARNESS_TENSOR(TFM_F16, NULL, 2, 3, 12), k, k, .heads = 4);
    tfm_tensor lse = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 4), none = {0};
    REFUSED("result", q, k, k, .heads = 4, .lse = &lse);
    harness_refused(tfm_attention(ctx, NULL, q, k, k, &(tfm_attention_options){.heads = 4}), bad, "output");
    y = HARNESS_TENSOR(TFM_BF16, NULL, 2, 3, 12);
    REFUSED("output", q, k, k, .heads = 4);
    y = none;
    REFUSED("dtype", q, k, k, .heads = 4, .lengths = flat);
    REFUSED("empty", q, (tfm_tensor){0}, k, .heads = 4);
    tfm_tensor scores = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 3, 6);
    REFUSED("result", q, k, k, .heads = 4, .scores = &scores);
    tfm_tensor all = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 5, 5), keys = all;
    keys.rank = 3;
    memcpy(keys.dims, (int64_t[]){2, 5, 12}, 3 * sizeof(int64_t));
    memcpy(all.dims, (int64_t[]){2, 4, 3, 5}, 4 * sizeof(int64_t));
    REFUSED("shares memory", q, keys, k, .heads = 4, .scores = &all);
    memcpy(lse.dims, (int64_t[]){2, 4, 3}, 3 * sizeof(int64_t));
    REFUSED("shares memory", q, k, k, .heads = 4, .lse = &lse, .mask = log_sum_part(lse));
    tfm_tensor both = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 3, 5);
    lse.buffer = both.buffer;
    lse.offset = both.offset;
    lse.generation = both.generation;
    REFUSED("shares memory", q, k, k, .heads = 4, .lse = &lse, .scores = &both);
    scores = (tfm_tensor){0};
    REFUSED("stage", q, k, k, .heads = 4, .scores = &scores, .stage = (tfm_attention_stage)4);
    y = wrong;
    REFUSED("output", q, k, k, .heads = 4);
#undef REFUSED
    harness_guards(wrong);
}

static void test_attention_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 4, 8), far = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 4, 8);
    harness_refused(tfm_attention(ctx, &q, q, far, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, q, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, far, q, NULL), no, why);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_attention_matches_double_precision),
        cmocka_unit_test(test_attention_masks_and_layouts_match_oracle),
        cmocka_unit_test(test_paged_and_beam_shared_keys_match_oracle),
        cmocka_unit_test(test_extreme_scores_stay_finite),
        cmocka_unit_test(test_unseen_nan_keys_do_not_matter),
        cmocka_unit_test(test_many_sequences_exceed_one_grid_axis),
        cmocka_unit_test(test_query_blocks_give_the_same_result),
        cmocka_unit_test(test_permuted_keys_change_rounding_only),
        cmocka_unit_test(test_attention_rejects_bad_arguments),
        cmocka_unit_test(test_out_of_range_pasts_and_lengths_are_clamped),
        cmocka_unit_test(test_very_wide_heads_are_right_or_rejected),
        cmocka_unit_test(test_attention_rejects_overlapping_output),
    };
    return cmocka_run_group_tests_name("attention", all, harness_setup, harness_teardown);
}
