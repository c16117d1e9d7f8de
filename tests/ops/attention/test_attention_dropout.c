/* Attention dropout: rate, independence, and the oracle's mask on every kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"
#include "ops/selftest/selftest.h"

/* The oracle is Philox: known-answer test of Random123. */
static void test_oracle_philox_gives_random123_answers(void **state) {
    (void)state;
    const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const uint32_t *c = known[i].counter, *key = known[i].key;
        const tfm_dropout_options d = {.seed = (uint64_t)key[1] << 32 | key[0], .stream = (uint64_t)c[3] << 32 | c[2]};
        for (int word = 0; word < 4; word++)
            assert_int_equal(tfm__check_philox(&d, c[0], c[1], word), known[i].want[word]);
    }
}

/* ---- Sampled masks ---- */

enum { B = 2, H = 3, T = 33, S = 64 };

/* Weights (B, H, T, S) times S: all scores are equal and the values are unit vectors. */
static float *weights(tfm_dropout_options dropout) {
    tfm_context *ctx = harness_context();
    float *v = attention_take(B * H * S * S, sizeof(float)), *q = attention_take(B * H * S, sizeof(float));
    for (int64_t i = 0; i < B * H * S; i++)
        v[i * S + i % S] = S;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor query = HARNESS_TENSOR(TFM_F32, q, B, H, T, 1), key = HARNESS_TENSOR(TFM_F32, q, B, H, S, 1);
    tfm_tensor value = HARNESS_TENSOR(TFM_F32, v, B, H, S, S), y = HARNESS_TENSOR(TFM_F32, NULL, B, H, T, S);
    harness_ok(tfm_attention(ctx, &y, query, key, value, &(tfm_attention_options){.dropout = &dropout}));
    harness_guards(y);
    float *got = harness_floats(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(v);
    free(q);
    return got;
}

/* `hits` of `count` trials of this probability, within six standard deviations. */
static void likely(int64_t hits, int64_t count, double chance) {
    const double want = chance * (double)count, deviation = sqrt(want * (1 - chance));
    if (fabs((double)hits - want) > 6 * deviation + 1e-3)
        fail_msg("%d of %d dropped, expected %.0f", (int)hits, (int)count, want);
}

/* Each weight is 0 or 1 / (1 - rate), at the given rate, independent of its neighbors. */
static void test_dropout_rate_is_met_independently(void **state) {
    (void)state;
    const float rates[] = {0.1f, 0.5f, 0.9f};
    const int64_t far[] = {1, S, 4 * S, T * S, H * T * S}; /* the next key, target, block, head, sequence */
    for (size_t r = 0; r < sizeof(rates) / sizeof(*rates); r++) {
        float *got = weights((tfm_dropout_options){.rate = rates[r], .seed = 5, .stream = 9});
        int64_t dropped = 0;
        for (int64_t i = 0; i < B * H * T * S; i++) {
            dropped += got[i] == 0;
            assert_true(got[i] == 0 || fabsf(got[i] * (1 - rates[r]) - 1) < 1e-5f);
        }
        likely(dropped, B * H * T * S, rates[r]);
        for (size_t k = 0; k < sizeof(far) / sizeof(*far); k++) {
            const int64_t pairs = B * H * T * S - far[k];
            int64_t both = 0;
            for (int64_t i = 0; i < pairs; i++)
                both += got[i] == 0 && got[i + far[k]] == 0;
            likely(both, pairs, (double)rates[r] * (double)rates[r]);
        }
        free(got);
    }
}

/* Equal options sample equal masks; another seed or stream differs. */
static void test_dropout_seed_and_stream_select_the_mask(void **state) {
    (void)state;
    const tfm_dropout_options one = {.rate = 0.5f, .seed = 1, .stream = 1},
                              others[] = {{.rate = 0.5f, .seed = 2, .stream = 1},
                                          {.rate = 0.5f, .seed = 1, .stream = 2},
                                          {.rate = 0.5f, .seed = 1ull << 32 | 1, .stream = 1},
                                          {.rate = 0.5f, .seed = 1, .stream = 1ull << 32 | 1}};
    float *first = weights(one), *same = weights(one);
    assert_memory_equal(first, same, B * H * T * S * sizeof(float));
    for (size_t o = 0; o < sizeof(others) / sizeof(*others); o++) {
        float *other = weights(others[o]);
        int64_t agree = 0;
        for (int64_t i = 0; i < B * H * T * S; i++)
            agree += first[i] == other[i];
        likely(agree, B * H * T * S, 0.5);
        free(other);
    }
    free(first);
    free(same);
}

/* ---- Against the oracle ---- */

static attention_case plain(int64_t batch, int64_t targets, int64_t length, float rate) {
    return (attention_case){.batch = batch,
                            .targets = targets,
                            .length = length,
                            .heads = 4,
                            .kv_heads = 2,
                            .key_width = 16,
                            .value_width = 24,
                            .scored = true, /* counted over all weights */
                            .summed = true,
                            .dropout = {rate, 3, 1ull << 35 | 7}};
}

static void test_attention_dropout_matches_oracle(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            attention_case c = plain(2, sizes[i], sizes[j], 0.3f);
            if (harness_slow() && (i + j) % 2)
                continue;
            c.kv_heads = (int64_t[]){1, 2, 4}[(i + j) % 3];
            c.heads_first = i % 2;
            c.causal = j % 2;
            c.past = 3;
            attention_check(c);
        }
    attention_case wide = plain(2, 3, 40, 0.3f); /* too wide for many queries per work-item */
    wide.heads = wide.kv_heads = 1;
    wide.key_width = 4100;
    wide.tolerance = 2e-5;
    attention_check(wide);
    attention_case lone = plain(5, 1, 1000, 0.3f);
    lone.heads = lone.kv_heads = 1;
    attention_check(lone);
}

/* Together with every other option. */
static void test_attention_dropout_with_all_options_matches_oracle(void **state) {
    (void)state;
    harness_random random = {78};
    const int64_t sizes[] = {1, 3, 17, 65, 100};
    for (int i = 0; i < (harness_slow() || harness_brief() ? 16 : 80); i++) {
        const uint64_t bits = harness_next(&random);
        attention_case c = plain(harness_range(&random, 1, 4), sizes[harness_range(&random, 0, 4)],
                                 sizes[harness_range(&random, 0, 4)], bits & 1 ? 0.1f : 0.6f);
        c.kv_heads = bits & 2 ? 2 : 1;
        c.heads_first = bits & 4;
        c.causal = bits & 8;
        c.padded = bits & 0x10;
        c.paged = (bits & 0x60) == 0;
        c.beams = (bits & 0x180) == 0 ? 2 : 0;
        c.padded &= !(c.paged && c.beams); /* rows are per sequence, lengths per source */
        c.soft_cap = (bits & 0x600) == 0 ? 3 : 0;
        c.window = (bits & 0x1800) == 0;
        c.before = harness_range(&random, -1, 20);
        c.after = harness_range(&random, -1, 20);
        c.causal_bottom_right = (bits & 0x2000) != 0;
        c.numbers = (bits & 0xc000) ? TFM_F32 : i % 2 ? TFM_F16 : TFM_BF16;
        c.masked = (bits & 0x30000) == 0;
        c.mask = bits & 0x40000 ? TFM_F32 : TFM_U8;
        c.mask_rank = 2;
        c.mask_dims[0] = c.targets;
        c.mask_dims[1] = c.length;
        attention_check(c);
    }
}

/* ---- Argument checks ---- */

/* A rate of 0 is bit-identical to no dropout. */
static void test_zero_dropout_rate_gives_the_same_bits(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[2 * 9 * 20];
    harness_random random = {9};
    harness_fill(&random, host, 360, 1);
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 2, 1, 9, 20), y = {0}, z = {0};
    harness_ok(tfm_attention(ctx, &y, x, x, x, NULL));
    harness_ok(tfm_attention(ctx, &z, x, x, x,
                             &(tfm_attention_options){.dropout = &(tfm_dropout_options){.seed = 1, .stream = 1}}));
    float *a = harness_floats(y), *b = harness_floats(z);
    assert_memory_equal(a, b, sizeof(host));
    free(a);
    free(b);
}

static void test_attention_dropout_rejects_bad_rate(void **state) {
    (void)state;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 3, 4), y = {0};
    const float bad[] = {-0.1f, 1, 2, NAN};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        harness_refused(tfm_attention(harness_context(), &y, x, x, x,
                                      &(tfm_attention_options){.dropout = &(tfm_dropout_options){.rate = bad[i]}}),
                        TFM_ERROR_ARGUMENT, "attention: the dropout rate is");
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_oracle_philox_gives_random123_answers),
        cmocka_unit_test(test_dropout_rate_is_met_independently),
        cmocka_unit_test(test_dropout_seed_and_stream_select_the_mask),
        cmocka_unit_test(test_attention_dropout_matches_oracle),
        cmocka_unit_test(test_attention_dropout_with_all_options_matches_oracle),
        cmocka_unit_test(test_zero_dropout_rate_gives_the_same_bits),
        cmocka_unit_test(test_attention_dropout_rejects_bad_rate),
    };
    return cmocka_run_group_tests_name("attention_dropout", all, harness_setup, harness_teardown);
}
