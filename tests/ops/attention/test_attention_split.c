/* Split-KV attention: every kind of call against double precision, with keys cut into many short spans, and by the
 * device's own tuning. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"
#include "dev/device/context_internal.h"
#include "ops/attention/attention.h"

static bool shares_rows(void) {
    return tfm__context_tuning(harness_context())->class == TFM__CLASS_GPU;
}

/* Minimum keys per span, and maximum number of spans. */
static void cut(int64_t keys) {
    harness_context()->tuning.split_workgroups = 1 << 20;
    harness_context()->tuning.split_min_keys = keys;
}

/* Launches of tfm_attention on these inputs, and y; free with free(). */
static uint64_t launches_of(float **y, const attention_problem *p) {
    const attention_case *c = &p->c;
    tfm_context *ctx = harness_context();
    tfm_tensor got = {0};
    harness_ok(tfm_scope_open(ctx));
    const tfm_tensor q = HARNESS_TENSOR(TFM_F32, p->q, c->batch, c->targets, c->heads * c->key_width);
    const tfm_tensor k = HARNESS_TENSOR(TFM_F32, p->k, c->batch, c->length, c->kv_heads * c->key_width);
    const tfm_tensor v = HARNESS_TENSOR(TFM_F32, p->v, c->batch, c->length, c->kv_heads * c->value_width);
    const uint64_t before = ctx->launches;
    harness_ok(tfm_attention(ctx, &got, q, k, v,
                             &(tfm_attention_options){.heads = (int)c->heads, .kv_heads = (int)c->kv_heads}));
    const uint64_t launches = ctx->launches - before;
    *y = harness_floats(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return launches;
}

/* The case with a paged cache: all keys, a window, and the dtypes of caches. */
static void check_paged(attention_case c, int64_t kind, int64_t before, int64_t past) {
    c.padded = false;
    c.beams = kind % 2 ? 2 : 0;
    c.paged = true;
    attention_check(c);
    c.window = true;
    c.before = before;
    c.after = kind % 2 ? -1 : 2;
    c.past = past;
    attention_check(c);
    c.numbers = kind % 2 ? TFM_F16 : TFM_BF16;
    c.wide_q = true;
    attention_check(c);
    c.numbers = TFM_I8;
    c.value_width = c.key_width;
    attention_check(c);
}

static void test_split_k_attention_matches_oracle(void **state) {
    (void)state;
    const int64_t lengths[] = {1, 2, 7, 64, 131, 300}, spans[] = {1, 3, 50};
    if (!shares_rows())
        skip();
    for (int64_t kind = 0; kind < 12; kind += harness_slow() ? 5 : 1) {
        const int64_t length = lengths[(kind + kind / 6) % 6];
        cut(spans[kind % 3]);
        attention_case c = {.batch = 3,
                            .targets = kind % 4 == 3 ? 3 : 1,
                            .length = length,
                            .heads = 4,
                            .kv_heads = kind % 2 ? 4 : 1,
                            .key_width = kind == 1 ? 17 : 32,
                            .value_width = kind == 2 ? 70 : 32,
                            .heads_first = kind % 4 > 1,
                            .padded = kind % 4 == 1,
                            .causal = kind % 4 == 3,
                            .past = kind % 4 == 3 && length > 3 ? length - 3 : 0};
        attention_check(c);
        check_paged(c, kind, 1 + kind * 3, length / 2);
    }
}

/* The decode kernel of CPU-style devices: groups of heads that fill its blocks of queries or not, and lengths and
 * windows that end within a span. */
static void test_decode_spans_match_oracle(void **state) {
    (void)state;
    const int64_t groups[][2] = {{9, 3}, {7, 1}, {11, 1}, {3, 3}}, lengths[] = {128, 129, 300, 700};
    if (shares_rows())
        skip();
    for (int64_t kind = 0; kind < 8; kind += harness_slow() ? 3 : 1) {
        attention_case c = {.batch = 3,
                            .targets = 1,
                            .length = lengths[(kind + kind / 4) % 4],
                            .heads = groups[kind % 4][0],
                            .kv_heads = groups[kind % 4][1],
                            .key_width = kind == 1   ? 17
                                         : kind == 2 ? 160
                                                     : 64,
                            .value_width = kind == 1   ? 70
                                           : kind == 6 ? 160
                                                       : 64,
                            .heads_first = kind % 4 > 1,
                            .padded = kind % 2 == 1};
        attention_check(c);
        check_paged(c, kind, 40 + kind * 31, c.length * 3 / 4);
    }
}

/* Prefill after a long past, by tiles: fewer keys than spans, and spans that end within a tile. */
static void test_split_k_tiles_match_oracle(void **state) {
    (void)state;
    const int64_t spans[] = {1, 7, 50};
    if (!shares_rows())
        skip();
    for (int kind = 0; kind < (harness_slow() ? 2 : 12); kind++) {
        cut(spans[kind % 3]);
        attention_check((attention_case){.batch = 1 + kind % 2,
                                         .targets = kind % 4 ? 17 : 66,
                                         .length = 70 + 61 * (kind % 5),
                                         .heads = 4,
                                         .kv_heads = kind % 2 ? 2 : 1,
                                         .key_width = 32,
                                         .value_width = kind == 8 ? 68 : 32,
                                         .heads_first = kind % 6 == 5,
                                         .paged = true,
                                         .holes = kind % 3 == 1,
                                         .causal = kind % 4 < 3,
                                         .past = 3 + 61 * (kind % 5),
                                         .window = kind % 4 == 3,
                                         .before = 40,
                                         .after = 9,
                                         .padded = kind % 5 == 4,
                                         .soft_cap = kind % 6 == 1 ? 2 : 0,
                                         .numbers = kind % 4 == 0   ? TFM_F32
                                                    : kind % 4 == 1 ? TFM_F16
                                                    : kind % 4 == 2 ? TFM_I8
                                                                    : TFM_BF16,
                                         .wide_q = kind % 2});
    }
}

static void test_split_k_scores_and_half_inputs_match_oracle(void **state) {
    (void)state;
    if (!shares_rows() || harness_slow())
        skip();
    for (int kind = 0; kind < 6; kind++) {
        cut(1 + kind);
        attention_check((attention_case){.batch = 2,
                                         .targets = 1 + kind % 2,
                                         .length = 45 + 7 * kind,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .key_width = 16,
                                         .value_width = 24,
                                         .soft_cap = kind % 2 ? 3 : 0,
                                         .masked = true,
                                         .mask = kind < 3 ? TFM_F32 : TFM_U8,
                                         .mask_rank = kind % 3 ? 4 : 1,
                                         .mask_dims = {kind % 3 ? 2 : 40, 1, 1, 45 + 7 * kind},
                                         .numbers = kind == 1   ? TFM_F16
                                                    : kind == 2 ? TFM_BF16
                                                                : TFM_F32,
                                         .narrow = kind == 2,
                                         .wide_q = kind == 1});
    }
    /* Scores far apart: the maxima of the spans differ equally. */
    cut(5);
    attention_check((attention_case){.batch = 2,
                                     .targets = 1,
                                     .length = 50,
                                     .heads = 2,
                                     .kv_heads = 2,
                                     .key_width = 16,
                                     .value_width = 16,
                                     .scale = 1,
                                     .spread = 100,
                                     .tolerance = 3e-4});
}

/* A bound on the work of one launch so low that there are many launches: per tile, per group of tiles of a head, per
 * group of heads and per group of sequences. Results are bit-identical to one launch. */
static void test_bounded_launches_give_the_same_bits(void **state) {
    (void)state;
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning before = *tuning;
    const int64_t targets[] = {150, 150, 150, 9}, widths[] = {16, 16, 20, 17};
    if (!shares_rows())
        skip();
    tuning->split_min_keys = 0;
    for (int kind = 0; kind < 4; kind++) {
        attention_case c = {.batch = 3,
                            .targets = targets[kind],
                            .length = 70,
                            .heads = 4,
                            .kv_heads = 2,
                            .key_width = widths[kind],
                            .value_width = widths[kind]};
        const size_t bytes = attention_count(&c) * sizeof(float);
        attention_problem p = attention_make(&c);
        attention_wanted want = attention_oracle(&p);
        float *whole, *part;
        uint64_t fewer = 1;
        tuning->attention_max_launch_macs = before.attention_max_launch_macs;
        assert_int_equal(launches_of(&whole, &p), 1);
        harness_close(whole, want.y, attention_count(&c), 3e-6, "one launch");
        /* The total work or slightly more; then ever smaller parts of it. */
        const int64_t all = 16 * c.batch * c.heads * (c.targets + 128) * c.length * 2 * c.key_width;
        for (int64_t bound = all; bound > 0; bound /= 3) {
            tuning->attention_max_launch_macs = bound;
            const uint64_t launches = launches_of(&part, &p);
            assert_true(launches >= fewer);
            if (!harness_poses())
                assert_memory_equal(part, whole, bytes);
            fewer = launches;
            free(part);
        }
        assert_true(fewer >= (uint64_t)(c.batch * c.kv_heads * (kind < 3 ? 2 * (c.heads / c.kv_heads) : 1)));
        tuning->attention_max_launch_macs = 1;
        c.paged = c.causal = true;
        attention_check(c);
        free(whole);
        free(want.y);
        free(want.scores);
        free(want.lse);
        attention_drop(&p);
    }
    *tuning = before;
}

/* Any split takes two launches, is deterministic, and is close to one launch. */
static void test_split_k_attention_is_deterministic(void **state) {
    (void)state;
    const attention_case c = {
        .batch = 2, .targets = 1, .length = 700, .heads = 4, .kv_heads = 2, .key_width = 32, .value_width = 32};
    const size_t bytes = attention_count(&c) * sizeof(float);
    attention_problem p = attention_make(&c);
    attention_wanted want = attention_oracle(&p);
    float *whole, *first, *again;
    harness_context()->tuning.split_min_keys = 0;
    assert_int_equal(launches_of(&whole, &p), shares_rows() ? 1 : 2); /* CPU-style devices split by length alone */
    cut(9);
    const uint64_t launches = launches_of(&first, &p);
    launches_of(&again, &p);
    assert_int_equal(launches, 2);
    assert_memory_equal(first, again, bytes);
    if (shares_rows())
        assert_true(memcmp(first, whole, bytes) != 0 || harness_poses());
    harness_close(first, want.y, attention_count(&c), 3e-6, "keys in spans");
    free(whole);
    free(first);
    free(again);
    free(want.y);
    free(want.scores);
    free(want.lse);
    attention_drop(&p);
}

/* A span of only masked keys contributes nothing; a visible NaN propagates. */
static void test_split_with_only_hidden_keys_contributes_nothing(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float ones[] = {1, 1, 2, 2, 4, 4};
    int32_t late[300];
    cut(10);
    harness_ok(tfm_scope_open(ctx));
    for (int i = 0; i < 300; i++)
        late[i] = i == 275 ? 1 : -1;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, ones, 2, 1, 2), pool = HARNESS_TENSOR(TFM_F32, ones, 3, 2), y = {0};
    int32_t rows[600];
    memcpy(rows, late, sizeof(late));
    for (int i = 0; i < 300; i++)
        rows[300 + i] = -1;
    tfm_tensor pages = HARNESS_TENSOR(TFM_I32, rows, 2, 300);
    harness_ok(tfm_attention(ctx, &y, q, pool, pool, &(tfm_attention_options){.heads = 1, .kv_indices = pages}));
    float *got = harness_floats(y);
    harness_close(got, (double[]){2, 2, 0, 0}, 4, 1e-6, "one key, late, and none at all");
    free(got);
    tfm_tensor spoilt = HARNESS_TENSOR(TFM_F32, ((float[]){1, 1, 2, NAN, 4, 4}), 3, 2);
    harness_ok(tfm_attention(ctx, &y, q, pool, spoilt, &(tfm_attention_options){.heads = 1, .kv_indices = pages}));
    got = harness_floats(y);
    assert_true(got[0] == 2 && got[1] != got[1] && got[2] == 0 && got[3] == 0);
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* One query and thousands of keys are split on a GPU by default; many queries fill it anyway. */
static void test_split_k_is_chosen_for_few_queries_of_many_keys(void **state) {
    (void)state;
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    tfm__attention a = {.q = {.rank = 3, .dims = {1, 1, 512}},
                        .targets = 1,
                        .length = 4096,
                        .columns = 4096,
                        .heads = 8,
                        .kv_heads = 8,
                        .from = -TFM__ATTENTION_UNBOUNDED,
                        .to = TFM__ATTENTION_UNBOUNDED};
    const bool gpu = strcmp(ctx->tuning.name, "gpu") == 0;
    ctx->info.compute_units = 48;
    assert_int_equal(tfm__attention_num_splits(ctx, &a, 8), gpu ? 16 : 1);
    assert_int_equal(tfm__attention_num_splits(ctx, &a, 64), gpu ? 3 : 1);
    assert_int_equal(tfm__attention_num_splits(ctx, &a, 192), 1);
    a.length = 500; /* a second span would be too short */
    assert_int_equal(tfm__attention_num_splits(ctx, &a, 1), 1);
    a.length = 4096; /* a window of 600 keys */
    a.from = 4095 - 599;
    a.to = 4096;
    assert_int_equal(tfm__attention_num_splits(ctx, &a, 1), gpu ? 2 : 1);
    tfm_context_free(&ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_k_is_chosen_for_few_queries_of_many_keys),
        cmocka_unit_test(test_split_k_attention_matches_oracle),
        cmocka_unit_test(test_decode_spans_match_oracle),
        cmocka_unit_test(test_split_k_tiles_match_oracle),
        cmocka_unit_test(test_bounded_launches_give_the_same_bits),
        cmocka_unit_test(test_split_k_scores_and_half_inputs_match_oracle),
        cmocka_unit_test(test_split_k_attention_is_deterministic),
        cmocka_unit_test(test_split_with_only_hidden_keys_contributes_nothing),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
