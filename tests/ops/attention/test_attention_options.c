/* Attention options alone and combined, against double precision: masks, soft cap, windows, past lengths, 16-bit
 * inputs, scores and log-sum-exp. Few head widths, since each compiles a kernel. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"

/* The base of all cases below. */
static attention_case plain(int64_t batch, int64_t targets, int64_t length) {
    return (attention_case){.batch = batch,
                            .targets = targets,
                            .length = length,
                            .heads = 4,
                            .kv_heads = 2,
                            .key_width = 16,
                            .value_width = 24,
                            .summed = true};
}

static void set_mask(attention_case *c, tfm_dtype dtype, int rank, int64_t b, int64_t h, int64_t t, int64_t s) {
    const int64_t dims[] = {b, h, t, s};
    c->masked = true;
    c->mask = dtype;
    c->mask_rank = rank;
    memcpy(c->mask_dims, dims + 4 - rank, (size_t)rank * sizeof(*dims));
}

/* Masks of every rank and broadcast, for one query and for many. */
static void test_broadcast_masks_match_oracle(void **state) {
    (void)state;
    const tfm_dtype dtypes[] = {TFM_F32, TFM_U8, TFM_F16, TFM_BF16};
    for (int64_t targets = 1; targets < 40; targets += 38)
        for (size_t i = 0; i < (harness_slow() ? 2 : 4); i++) {
            attention_case c = plain(3, targets, 37);
            c.heads_first = i % 2;
            const struct {
                int rank;
                int64_t b, h, t, s;
            } MASKS[] = {{2, 1, 1, targets, 37}, {4, 3, 4, targets, 37}, {4, 3, 1, 1, 37}, {4, 1, 1, targets, 37},
                         {3, 1, 4, targets, 37}, {4, 1, 4, 1, 1},        {1, 1, 1, 1, 37}, {2, 1, 1, 1, 37},
                         {2, 1, 1, targets, 20}, {4, 3, 1, 1, 1},        {1, 1, 1, 1, 1}};
            for (size_t m = 0; m < sizeof(MASKS) / sizeof(*MASKS); m++) {
                set_mask(&c, dtypes[i], MASKS[m].rank, MASKS[m].b, MASKS[m].h, MASKS[m].t, MASKS[m].s);
                c.causal = m % 3 == 1;
                attention_check(c);
            }
        }
}

/* Windows of every kind: both sides, one side, the query's own position, empty, wider than the sequence. */
static void test_attention_windows_match_oracle(void **state) {
    (void)state;
    const int64_t sides[][2] = {{0, 0}, {3, 3}, {5, -1}, {-1, 2}, {0, 40}, {INT64_MAX, 1}, {1, INT64_MAX}, {-1, -1}};
    const int64_t pasts[] = {0, 7, -5, 200, -200, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof(sides) / sizeof(*sides); i++)
        for (size_t j = 0; j < sizeof(pasts) / sizeof(*pasts); j++) {
            attention_case c = plain(2, i % 2 ? 1 : 65, 65);
            const int64_t far = INT64_C(1) << 41; /* practically the end of the range, for the oracle */
            if (harness_slow() && j % 3)
                continue;
            c.window = true;
            c.before = sides[i][0] > far ? far : sides[i][0];
            c.after = sides[i][1] > far ? far : sides[i][1];
            c.past = pasts[j] > far ? far : pasts[j] < -far ? -far : pasts[j];
            c.causal = j % 2;
            c.padded = i % 3 == 2;
            attention_check(c);
        }
}

/* The largest option values act as no limit. */
static void test_extreme_windows_act_as_no_limit(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float one = 1;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, &one, 1, 1, 1, 1), y = {0};
    const struct {
        int64_t past, before, after;
        double want;
    } CASES[] = {{INT64_MAX, INT64_MAX, INT64_MAX, 1},
                 {INT64_MIN, INT64_MAX, INT64_MAX, 1},
                 {INT64_MAX, 5, 5, 0},
                 {INT64_MIN, 5, 5, 0},
                 {INT64_MAX, -1, 5, 1},
                 {INT64_MIN, 5, INT64_MIN, 1},
                 {INT64_MIN, 5, -1, 1},
                 {INT64_MAX, INT64_MIN, -1, 1}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        harness_ok(tfm_attention(ctx, &y, q, q, q,
                                 &(tfm_attention_options){.window = true,
                                                          .past = CASES[i].past,
                                                          .window_left = CASES[i].before,
                                                          .window_right = CASES[i].after}));
        float *got = harness_floats(y);
        harness_close(got, &CASES[i].want, 1, 1e-6, "far windows");
        free(got);
    }
}

/* Queries aligned to the end of each sequence's keys, also with more queries than keys. */
static void test_bottom_right_causal_mask_matches_oracle(void **state) {
    (void)state;
    for (int kind = 0; kind < 16; kind++) {
        attention_case c = plain(5, kind & 1 ? 1 : 17, kind & 2 ? 33 : 9);
        c.causal_bottom_right = c.causal = true;
        c.padded = !(kind & 4);
        c.paged = kind & 8;
        c.window = kind % 3 == 0;
        c.before = 4;
        attention_check(c);
    }
}

static void test_soft_cap_matches_oracle(void **state) {
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        attention_case c = plain(2, kind & 1 ? 1 : 17, 40);
        c.soft_cap = kind & 2 ? 0.5F : 30;
        c.spread = kind & 2 ? 1 : 10;
        c.tolerance = kind & 2 ? 0 : 2e-5; /* scores up to 30 */
        c.causal = kind & 4;
        attention_check(c);
    }
}

/* Scores before and after each step. */
static void test_returned_scores_match_oracle_at_each_stage(void **state) {
    (void)state;
    for (int kind = 0; kind < 32; kind++) {
        attention_case c = plain(3, 7, kind & 4 ? 19 : 3);
        c.scored = true;
        c.stage = (tfm_attention_stage)(kind % 4);
        c.causal = kind & 4;
        c.heads_first = kind & 8;
        c.paged = !(kind & 8) && kind & 4;
        c.padded = kind & 1;
        c.past = 4;
        if (kind & 16) {
            c.soft_cap = 2;
            c.window = true;
            c.before = 2;
            set_mask(&c, kind & 8 ? TFM_U8 : TFM_F32, 4, 1, 4, 7, c.length);
        }
        attention_check(c);
    }
}

static void test_half_precision_attention_matches_oracle(void **state) {
    (void)state;
    for (int kind = 0; kind < 16; kind++) {
        attention_case c = plain(3, kind & 1 ? 1 : 17, 37);
        c.numbers = kind & 2 ? TFM_F16 : TFM_BF16;
        c.narrow = kind & 4;
        c.heads_first = kind & 8;
        c.padded = kind & 4;
        c.scored = !(kind & 1);
        c.paged = !c.heads_first && kind & 4;
        if (c.numbers == TFM_F16 ? kind & 1 : !(kind & 1))
            set_mask(&c, c.numbers, 2, 1, 1, c.targets, 37);
        attention_check(c);
        c.wide_q = true; /* as a decoder requests the cached keys */
        attention_check(c);
    }
    attention_case wide = plain(1, 1, 9); /* columns that fill no vector */
    wide.key_width = 17;
    wide.value_width = 9;
    wide.numbers = TFM_F16;
    attention_check(wide);
    wide.targets = 9;
    attention_check(wide);
    wide.wide_q = wide.scored = true;
    attention_check(wide);
    wide.targets = 1;
    attention_check(wide);
}

/* Prefill, whole and after a past, over a KV block table: cache dtypes, GQA, widths that fill no vector, and rows
 * outside the cache. */
static void test_chunked_prefill_over_block_table_matches_oracle(void **state) {
    (void)state;
    const int64_t targets[] = {17, 65, 16, 130},
                  widths[][2] = {{16, 24}, {20, 12}, {64, 64}, {128, 68}, {256, 256}, {196, 132}, {12, 256}};
    for (int kind = 0; kind < (harness_slow() ? 4 : 42); kind += harness_brief() ? 1 + kind % 5 : 1) {
        attention_case c = plain(kind % 4 == 3 ? 1 : 3, targets[kind % 4], targets[kind % 4] + kind * 5);
        c.paged = c.causal = true;
        c.key_width = widths[kind / 2 % 7][0];
        c.value_width = widths[kind / 2 % 7][1];
        c.kv_heads = kind % 3 == 0 ? 1 : kind % 3 == 1 ? 2 : 4;
        c.numbers = kind % 3 == 0 ? TFM_F32 : kind % 3 == 1 ? TFM_F16 : TFM_BF16;
        c.wide_q = kind % 4 != 1;
        c.holes = kind % 2;
        c.causal_bottom_right = c.padded = kind % 5 == 2; /* a block table with spare columns, as in a search */
        c.past = c.causal_bottom_right ? 0 : c.length - c.targets;
        c.window = kind % 3 == 2;
        c.before = 11;
        c.after = -1;
        c.soft_cap = kind % 6 == 5 ? 3 : 0;
        c.heads_first = kind % 7 == 3;
        c.beams = kind % 8 == 6 && !c.padded ? 2 : 0;
        if (kind % 8 == 4 || kind % 14 == 9)
            set_mask(&c, kind & 8 ? TFM_F32 : TFM_U8, 4, 1, c.heads, 1, c.length);
        attention_check(c);
        if (c.key_width > 128 && !c.wide_q) /* a long prompt in one prefill */
            c.paged = c.holes = false;
        if (!c.paged)
            attention_check(c);
    }
}

/* Any option combined with any other. */
static void test_random_attention_options_match_oracle(void **state) {
    (void)state;
    harness_random random = {77};
    const int64_t sizes[] = {1, 3, 17, 65, 100};
    for (int i = 0; i < (harness_slow() ? (harness_brief() ? 8 : 24) : harness_brief() ? 10 : 160); i++) {
        const uint64_t bits = harness_next(&random);
        attention_case c = plain(harness_range(&random, 1, 4), sizes[harness_range(&random, 0, 4)],
                                 sizes[harness_range(&random, 0, 4)]);
        c.kv_heads = bits & 1 ? 2 : 1;
        c.heads_first = bits & 2;
        c.causal = bits & 4;
        c.padded = bits & 8;
        c.paged = (bits & 0x70) == 0;
        c.beams = (bits & 0x180) == 0 ? 2 : 0;
        c.soft_cap = (bits & 0x600) == 0 ? 3 : 0;
        c.window = (bits & 0x1800) == 0;
        c.before = harness_range(&random, -1, 20);
        c.after = harness_range(&random, -1, 20);
        c.causal_bottom_right = (bits & 0x2000) != 0;
        c.past = c.causal_bottom_right ? 0 : harness_range(&random, -20, 60);
        c.scored = (bits & 0xc000) == 0;
        c.stage = (tfm_attention_stage)(bits >> 16 & 3);
        c.numbers = (bits & 0x40000) ? TFM_F32 : i % 2 ? TFM_F16 : TFM_BF16;
        c.narrow = (bits & 0x80000) != 0;
        c.wide_q = (bits & 0x4000000) != 0;
        if (bits & 0x100000)
            set_mask(&c, bits & 0x200000 ? TFM_F32 : TFM_U8, 4, bits & 0x400000 ? c.batch : 1,
                     bits & 0x800000 ? c.heads : 1, bits & 0x1000000 ? c.targets : 1,
                     bits & 0x2000000 ? c.length : harness_range(&random, 1, c.length));
        if (c.paged && c.beams && c.padded) /* rows are per sequence, lengths per source */
            c.padded = false;
        attention_check(c);
    }
}

/* y of one head of one column, keys 1, 1, 1, 1 and values 1, 2, 4, 8. */
static void check_four(tfm_tensor mask, float soft_cap, double want, double want_log_sum, const char *what) {
    tfm_context *ctx = harness_context();
    const float ones[] = {1, 1, 1, 1}, values[] = {1, 2, 4, 8};
    for (int64_t targets = 1; targets < 6; targets += 3) {
        tfm_tensor q = HARNESS_TENSOR(TFM_F32, ones, 1, 1, targets, 1), k = HARNESS_TENSOR(TFM_F32, ones, 1, 1, 4, 1);
        tfm_tensor v = HARNESS_TENSOR(TFM_F32, values, 1, 1, 4, 1), y = {0}, lse = {0};
        harness_ok(
            tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.mask = mask, .soft_cap = soft_cap, .lse = &lse}));
        float *got = harness_floats(y), *got_sum = harness_floats(lse);
        for (int64_t t = 0; t < targets; t++) {
            if (isnan(want)) {
                assert_true(isnan(got[t]) && isnan(got_sum[t]));
                continue;
            }
            harness_close(got + t, &want, 1, 2e-6, what);
            harness_close(got_sum + t, &want_log_sum, 1, 2e-6, what);
        }
        free(got);
        free(got_sum);
    }
}

/* Extreme mask values: -FLT_MAX is an ordinary score, -inf masks, and NaN propagates to rows that see it. */
static void test_lowest_float_infinite_and_nan_masks_are_exact(void **state) {
    (void)state;
    const float low = -FLT_MAX, none = -INFINITY, nan = NAN;
    const double sum = low * log(2); /* kernels work in exp2, and the lowest score stays the lowest */
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, ((float[]){low, low, low, low}), 4);
    check_four(x, 0, 3.75, sum, "all at the lowest float");
    x = HARNESS_TENSOR(TFM_F32, ((float[]){none, none, none, none}), 4);
    check_four(x, 0, 0, -INFINITY, "all hidden");
    check_four(x, 2, 0, -INFINITY, "all hidden, capped");
    x = HARNESS_TENSOR(TFM_F32, ((float[]){none, low, none, low}), 4);
    check_four(x, 0, 5, sum, "two at the lowest float");
    x = HARNESS_TENSOR(TFM_F32, ((float[]){low, 0, none, low}), 4);
    check_four(x, 0, 2, 1, "one above the lowest float");
    x = HARNESS_TENSOR(TFM_F32, ((float[]){0, nan, 0, 0}), 4);
    check_four(x, 0, NAN, NAN, "a mask of NaN");
    x = HARNESS_TENSOR(TFM_F32, &nan, 1);
    check_four(x, 1, NAN, NAN, "a mask of NaN for all");
    x = HARNESS_TENSOR(TFM_U8, ((unsigned char[]){0, 255, 1, 0}), 4);
    check_four(x, 0, 3, 1 + log(2), "bytes");
}

/* Masked NaN or infinity stays masked when other rows of the tile see it, and propagates to those rows. */
static void test_hidden_nan_values_stay_hidden(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int kind = 0; kind < 6; kind++) {
        attention_case c = plain(1, kind & 1 ? 1 : 9, 50);
        c.heads = c.kv_heads = 1;
        c.causal = true;
        c.past = 41;
        set_mask(&c, TFM_F32, 2, 1, 1, 1, 50);
        attention_problem p = attention_make(&c);
        p.mask[20] = -INFINITY;
        attention_wanted want = attention_oracle(&p);
        p.v[20 * 24 + 3] = bad[kind / 2]; /* hidden by the mask */
        p.v[49 * 24 + 5] = bad[kind / 2]; /* visible to the last of nine only */
        p.mask[49] = 0;
        p.k[20 * 16] = bad[(kind / 2 + 1) % 3];
        attention_got got = attention_run(&p);
        const int64_t spoilt = c.targets == 9 ? 8 : 1;
        harness_close(got.y, want.y, (size_t)(spoilt * 24), 3e-6, "hidden values");
        if (c.targets == 9)
            assert_true(!isfinite(got.y[8 * 24 + 5]) && isfinite(got.y[8 * 24 + 3]));
        free(got.y);
        free(got.scores);
        free(got.lse);
        free(want.y);
        free(want.scores);
        free(want.lse);
        attention_drop(&p);
    }
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_broadcast_masks_match_oracle),
        cmocka_unit_test(test_attention_windows_match_oracle),
        cmocka_unit_test(test_extreme_windows_act_as_no_limit),
        cmocka_unit_test(test_bottom_right_causal_mask_matches_oracle),
        cmocka_unit_test(test_soft_cap_matches_oracle),
        cmocka_unit_test(test_returned_scores_match_oracle_at_each_stage),
        cmocka_unit_test(test_half_precision_attention_matches_oracle),
        cmocka_unit_test(test_chunked_prefill_over_block_table_matches_oracle),
        cmocka_unit_test(test_random_attention_options_match_oracle),
        cmocka_unit_test(test_lowest_float_infinite_and_nan_masks_are_exact),
        cmocka_unit_test(test_hidden_nan_values_stay_hidden),
    };
    return cmocka_run_group_tests_name("attention_options", all, harness_setup, harness_teardown);
}
