/* Generation with a prompt cache: the same tokens as without, and the reused prefix is counted. */
#include "support/toy_decoder.h"

enum { ROOM = TOY_POSITIONS + 1 };

/* One sequence, and the cache that has a prefix of it. */
typedef struct chat {
    tfm_model *model;
    tfm_prompt_cache *cache;
    harness_random random;
    int32_t ids[ROOM];
    size_t count;
} chat;

static chat chat_begin(toy_kind kind, int ends) {
    chat c = {.model = toy_decoder(kind, ends), .random = {5}};
    harness_ok(tfm_prompt_cache_new(&c.cache, c.model));
    assert_int_equal(tfm_prompt_cache_tokens(c.cache), 0);
    return c;
}

static void chat_end(chat *c) {
    tfm_prompt_cache_free(&c->cache);
    assert_null(c->cache);
    tfm_model_free(&c->model);
}

/* Cuts the sequence to `kept` tokens and appends `more` random ones. */
static void edit(chat *c, size_t kept, size_t more) {
    assert_true(kept <= c->count && kept + more < ROOM);
    for (c->count = kept; more > 0; more--)
        c->ids[c->count++] = (int32_t)harness_range(&c->random, 12, TOY_VOCABULARY - 1);
}

/* Generates after the sequence, appends the text, and compares it with a call without the cache. Returns the tokens of
 * the prompt that were found in the cache. */
static size_t answer(chat *c, tfm_generate_options o) {
    tfm_hypotheses with, without;
    tfm_generate_stats stats = {0};
    harness_ok(tfm_generate_ids(c->model, &without, c->ids, &c->count, 1, &o));
    o.prompt_cache = c->cache;
    o.stats = &stats;
    harness_ok(tfm_generate_ids(c->model, &with, c->ids, &c->count, 1, &o));
    const tfm_hypothesis *h = with.items, *want = without.items;
    assert_int_equal(h->tokens, want->tokens);
    assert_memory_equal(h->ids, want->ids, (size_t)h->tokens * sizeof(*h->ids));
    for (int i = 0; i < h->tokens; i++)
        assert_true(fabs((double)h->log_probs[i] - (double)want->log_probs[i]) <
                    (c->model->kv_dtype == TFM_I8 ? 2e-2 : 2e-4)); /* a key may round to the next integer */
    assert_int_equal(stats.prompt_tokens, c->count);
    const size_t cached = tfm_prompt_cache_tokens(c->cache), all = c->count + h->count;
    assert_true(cached == all || cached + 1 == all); /* the last token may not have been computed */
    memcpy(c->ids + c->count, h->ids, h->count * sizeof(*h->ids));
    c->count = all;
    tfm_hypotheses_free(&with);
    tfm_hypotheses_free(&without);
    return (size_t)stats.cached_tokens;
}

static const tfm_generate_options FIVE = {.max_new_tokens = 5};

static void test_turns_reuse_all_previous_tokens(void **state) {
    (void)state;
    for (int kind = 0; kind < 2 * TOY_KINDS; kind++) {
        chat c = chat_begin((toy_kind)(kind % TOY_KINDS), 0);
        c.model->kv_dtype = kind < TOY_KINDS ? TFM_F32 : TFM_I8;
        edit(&c, 0, 9);
        assert_int_equal(answer(&c, FIVE), 0);
        for (int turn = 0; turn < 6; turn++) { /* the cache grows beyond its first capacity */
            const size_t before = c.count;
            edit(&c, c.count, turn % 2 ? 20 : 3);
            assert_int_equal(answer(&c, FIVE), before - 1);
        }
        chat_end(&c);
    }
}

static void test_shorter_and_other_prompts_reuse_the_common_prefix(void **state) {
    (void)state;
    chat c = chat_begin(TOY_ROTARY, 0);
    edit(&c, 0, 12);
    answer(&c, FIVE);
    edit(&c, 12, 0); /* the same prompt again: its last token is computed for the logits */
    assert_int_equal(answer(&c, FIVE), 11);
    edit(&c, 4, 0);
    assert_int_equal(answer(&c, FIVE), 3);
    edit(&c, 7, 6);
    assert_int_equal(answer(&c, FIVE), 7);
    c.ids[0] = c.ids[0] == 12 ? 13 : 12;
    assert_int_equal(answer(&c, FIVE), 0);
    edit(&c, 1, 0); /* one token has no prefix */
    assert_int_equal(answer(&c, FIVE), 0);
    edit(&c, c.count, 3);
    tfm_prompt_cache_clear(c.cache);
    assert_int_equal(tfm_prompt_cache_tokens(c.cache), 0);
    assert_int_equal(answer(&c, FIVE), 0);
    chat_end(&c);
}

/* Prefixes at chunk borders of the prefill, and up to the last position. */
static void test_long_prompts_reuse_prefixes_across_chunks(void **state) {
    (void)state;
    const size_t lengths[] = {300, 513, 514, 600, TOY_POSITIONS - 4};
    chat c = chat_begin(TOY_LEARNED, 0);
    for (size_t i = 0, before = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        edit(&c, before, lengths[i] - before);
        assert_int_equal(answer(&c, FIVE), before);
        before = lengths[i];
    }
    assert_int_equal(c.count, TOY_POSITIONS + 1);
    chat_end(&c);
}

static void test_sampling_penalties_and_ends_are_those_of_uncached_calls(void **state) {
    (void)state;
    const tfm_generate_options ways[] = {
        {.max_new_tokens = 12, .sample = true, .temperature = 1.5f, .seed = 4},
        {.max_new_tokens = 12, .repetition_penalty = 1.5f},
        {.max_new_tokens = 12, .min_new_tokens = 6, .skip_scores = true},
        {.max_new_tokens = 12, .sample = true, .top_k = 5, .repetition_penalty = 1.2f, .seed = 9},
    };
    float bias[TOY_VOCABULARY] = {0};
    int ended = 0;
    bias[TOY_EOS] = bias[TOY_OTHER_EOS] = 3;
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        chat c = chat_begin((toy_kind)kind, 2);
        harness_ok(tfm_tensor_write(c.model->ctx, c.model->logits_bias, bias));
        for (int turn = 0; turn < 12; turn++) {
            const size_t before = c.count;
            edit(&c, c.count, 4);
            const size_t reused = answer(&c, ways[turn % 4]), prompt = before + 4;
            assert_true(reused == before || reused + 1 == before);
            ended += c.count < prompt + 12;
        }
        chat_end(&c);
    }
    assert_true(ended > 6);
}

typedef struct stop {
    int at, seen;
} stop;

static bool on_token(void *user, size_t prompt, int rank, int32_t id) {
    stop *s = user;
    (void)prompt, (void)rank, (void)id;
    return ++s->seen % s->at != 0;
}

static void test_stopped_text_stays_in_the_cache(void **state) {
    (void)state;
    chat c = chat_begin(TOY_LOCAL, 0);
    stop s = {.at = 3};
    edit(&c, 0, 5);
    answer(&c, (tfm_generate_options){.max_new_tokens = 20, .on_token = on_token, .on_token_user = &s});
    assert_int_equal(c.count, 8);
    edit(&c, 8, 2);
    assert_true(answer(&c, FIVE) >= 7);
    chat_end(&c);
}

static bool stop_at(void *user) {
    stop *s = user;
    return ++s->seen != s->at;
}

static void test_cancelled_call_keeps_the_computed_prompt(void **state) {
    (void)state;
    chat c = chat_begin(TOY_ROTARY, 0);
    tfm_hypotheses found;
    stop s = {.at = 1};
    tfm_generate_options o = {
        .max_new_tokens = 9, .should_continue = stop_at, .should_continue_user = &s, .prompt_cache = c.cache};
    edit(&c, 0, 600);
    harness_refused(tfm_generate_ids(c.model, &found, c.ids, &c.count, 1, &o), TFM_ERROR_CANCELLED,
                    "stopped in the prefill");
    assert_int_equal(tfm_prompt_cache_tokens(c.cache), 512);
    s = (stop){.at = 4};
    harness_refused(tfm_generate_ids(c.model, &found, c.ids, &c.count, 1, &o), TFM_ERROR_CANCELLED, "stopped after 3");
    assert_int_equal(tfm_prompt_cache_tokens(c.cache), 600);
    assert_int_equal(answer(&c, FIVE), 599);
    chat_end(&c);
}

static bool fail_once(void *user) {
    if (++*(int *)user == 3)
        tfm__context_fail(harness_context(), TFM_ERROR_AGAIN, "a test");
    return true;
}

static void test_failed_run_empties_the_cache(void **state) {
    (void)state;
    chat c = chat_begin(TOY_LEARNED, 0);
    int steps = 0;
    tfm_hypotheses found;
    edit(&c, 0, 6);
    answer(&c, FIVE);
    const size_t prompt = c.count;
    tfm_generate_stats stats = {0};
    harness_ok(tfm_generate_ids(c.model, &found, c.ids, &prompt, 1,
                                &(tfm_generate_options){.max_new_tokens = 5,
                                                        .should_continue = fail_once,
                                                        .should_continue_user = &steps,
                                                        .stats = &stats,
                                                        .prompt_cache = c.cache}));
    assert_int_equal(stats.cached_tokens, 0); /* of the run that succeeded */
    tfm_hypotheses_free(&found);
    assert_int_equal(answer(&c, FIVE), prompt - 1);
    chat_end(&c);
}

/* A sequence that crosses the switch of longrope has other keys: nothing is reused. */
static void test_prefix_with_other_rope_frequencies_is_not_reused(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        chat c = chat_begin(TOY_ROTARY, 0);
        tfm__rotary_arch *rotary = &c.model->arch.decoder.rotary;
        rotary->switch_length = 20;
        rotary->recompute_keys = recompute;
        for (int i = 0; i < rotary->width / 2; i++)
            rotary->inv_freq_long[i] = rotary->inv_freq[i] / 3;
        edit(&c, 0, 6);
        answer(&c, FIVE);
        edit(&c, 11, 2);
        assert_int_equal(answer(&c, FIVE), 10); /* both below */
        edit(&c, 18, 1);
        assert_int_equal(answer(&c, FIVE), 17); /* grows past it */
        edit(&c, 24, 4);
        assert_int_equal(answer(&c, FIVE), recompute ? 23 : 0); /* both above */
        edit(&c, 10, 2);
        assert_int_equal(answer(&c, FIVE), 0);
        chat_end(&c);
    }
}

static void test_bad_uses_of_a_prompt_cache_are_refused(void **state) {
    (void)state;
    chat c = chat_begin(TOY_LEARNED, 0);
    tfm_model *other = toy_decoder(TOY_ROTARY, 0);
    tfm_hypotheses found;
    const size_t counts[] = {3, 2};
    edit(&c, 0, 5);
    const tfm_generate_options cases[] = {{.beam_size = 2}, {.sample = true, .n_best = 2}, {.max_new_tokens = 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        tfm_generate_options o = cases[i];
        o.prompt_cache = c.cache;
        harness_refused(tfm_generate_ids(c.model, &found, c.ids, counts, i == 2 ? 2 : 1, &o), TFM_ERROR_ARGUMENT,
                        "a prompt cache has one sequence");
    }
    const tfm_generate_options o = {.prompt_cache = c.cache};
    harness_refused(tfm_generate_ids(other, &found, c.ids, counts, 1, &o), TFM_ERROR_ARGUMENT, "of another model");
    tfm_model_free(&other);
    chat_end(&c);
    tfm_prompt_cache_clear(NULL);
    assert_int_equal(tfm_prompt_cache_tokens(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_reuse_all_previous_tokens),
        cmocka_unit_test(test_shorter_and_other_prompts_reuse_the_common_prefix),
        cmocka_unit_test(test_long_prompts_reuse_prefixes_across_chunks),
        cmocka_unit_test(test_sampling_penalties_and_ends_are_those_of_uncached_calls),
        cmocka_unit_test(test_stopped_text_stays_in_the_cache),
        cmocka_unit_test(test_cancelled_call_keeps_the_computed_prompt),
        cmocka_unit_test(test_failed_run_empties_the_cache),
        cmocka_unit_test(test_prefix_with_other_rope_frequencies_is_not_reused),
        cmocka_unit_test(test_bad_uses_of_a_prompt_cache_are_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
