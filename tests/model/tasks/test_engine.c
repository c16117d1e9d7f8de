/* The decode engine gives each request the texts that tfm_generate gives it alone; callbacks may submit and cancel. */
#include "support/toy_decoder.h"
#include "tfm/engine.h"

enum { REQUESTS = 12, RANKS = 3 };

typedef struct heard {
    tfm_engine *engine;
    char parts[RANKS][4096], text[RANKS][4096];
    float log_probs[RANKS][64];
    size_t tokens[RANKS], prompt_tokens, cached;
    double score[RANKS];
    tfm_finish_reason reason[RANKS];
    int ended, said, last_part; /* last_part: on_text ends the text with it; 0: never */
    uint64_t request;
    int cancel_after, seen; /* cancel_after: on_token cancels the request with this token; 0: never */
    const tfm_prompt *next; /* submitted by on_end, with `heard` then[1] */
} heard;

static bool on_text(void *user, size_t request, int rank, const char *part) {
    heard *h = user;
    (void)request;
    assert_true(*part);
    strcat(h->parts[rank], part);
    return ++h->said != h->last_part;
}

static bool on_token(void *user, size_t request, int rank, int32_t id) {
    heard *h = user;
    (void)rank, (void)id;
    assert_true(!h->engine || request == h->request);
    if (++h->seen == h->cancel_after)
        tfm_engine_cancel(h->engine, h->request);
    return true;
}

static bool on_end(void *user, const tfm_generation *g) {
    heard *h = user;
    strcpy(h->text[g->rank], g->text);
    h->tokens[g->rank] = g->tokens.count;
    h->prompt_tokens = g->prompt_tokens;
    h->cached = g->cached_tokens;
    h->score[g->rank] = g->score;
    h->reason[g->rank] = g->finish_reason;
    memcpy(h->log_probs[g->rank], g->log_probs, g->tokens.count * sizeof(float));
    h->ended++;
    if (h->next) {
        const tfm_prompt *prompt = h->next;
        h->next = NULL;
        harness_ok(
            tfm_engine_submit(h->engine, NULL, prompt, &(tfm_generate_options){.max_new_tokens = 5}, on_end, h + 1));
    }
    return true;
}

static void run(tfm_engine *engine) {
    for (bool more = true; more;)
        harness_ok(tfm_engine_step(engine, &more));
}

static void test_texts_are_those_of_tfm_generate(void **state) {
    (void)state;
    static heard got[REQUESTS], want[REQUESTS];
    static int32_t ids[REQUESTS][16];
    harness_random random = {4};
    tfm_model *model = talking_toy();
    tfm_engine *engine = NULL;
    tfm_hypotheses plain;
    harness_ok(tfm_engine_open(&engine, model, &(tfm_engine_options){.max_sequences = 5, .prefill_tokens = 4}));
    for (int i = 0; i < REQUESTS; i++) {
        const size_t count = harness_range(&random, 1, 15);
        for (size_t k = 0; k < count; k++)
            ids[i][k] = (int32_t)harness_range(&random, 12, TOY_VOCABULARY - 1);
        const tfm_prompt prompt = {.ids = ids[i], .count = count};
        char *stop = NULL;
        harness_ok(tfm_generate_ids(model, &plain, ids[i], &count, 1, &(tfm_generate_options){.max_new_tokens = 9}));
        harness_ok(tfm_tokenizer_decode(model->tokenizer, &stop, plain.items[0].ids + 7, 1));
        tfm_generate_options o = {.max_new_tokens = 20, .on_text = on_text, .first_prompt = (uint64_t)i, .seed = 3};
        if (i % 4 == 1) {
            o.stop_strings = (const char *const *)&stop;
            o.stop_string_count = *stop ? 1 : 0;
        }
        o.sample = i % 4 == 2;
        o.n_best = i % 4 == 2 ? RANKS : 1;
        got[i] = want[i] = (heard){.last_part = i % 4 == 3 ? 4 : 0};
        o.on_text_user = &want[i];
        o.first_prompt = 0; /* the prompt's number in its call is 0 */
        harness_ok(tfm_generate(model, &prompt, 1, &o, on_end, &want[i]));
        o.on_text_user = &got[i];
        harness_ok(tfm_engine_submit(engine, &got[i].request, &prompt, &o, on_end, &got[i]));
        assert_int_equal(got[i].request, i);
        if (i % 4 == 1)
            run(engine); /* the stop string is freed */
        else if (i % 3 == 0)
            harness_ok(tfm_engine_step(engine, &(bool){false}));
        tfm_text_free(&stop);
        tfm_hypotheses_free(&plain);
    }
    run(engine);
    int stopped = 0;
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(got[i].ended, want[i].ended);
        assert_int_equal(got[i].prompt_tokens, want[i].prompt_tokens);
        for (int rank = 0; rank < got[i].ended; rank++) {
            assert_string_equal(got[i].text[rank], want[i].text[rank]);
            assert_string_equal(got[i].parts[rank], got[i].text[rank]);
            assert_int_equal(got[i].tokens[rank], want[i].tokens[rank]);
            assert_int_equal(got[i].reason[rank], want[i].reason[rank]);
            assert_true(fabs(got[i].score[rank] - want[i].score[rank]) < 1e-4);
            stopped += got[i].reason[rank] == TFM_FINISH_STOP;
            for (size_t k = 0; k < got[i].tokens[rank]; k++)
                assert_true(fabsf(got[i].log_probs[rank][k] - want[i].log_probs[rank][k]) < 2e-4F);
        }
    }
    assert_true(stopped >= 4);
    const tfm_engine_stats stats = tfm_engine_get_stats(engine);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_true(stats.new_tokens > stats.steps && stats.preemptions == 0 && stats.cache_tokens > 0);
    tfm_engine_free(&engine);
    assert_null(engine);
    tfm_model_free(&model);
}

static void test_prompt_lookup_computes_several_tokens_in_a_step(void **state) {
    (void)state;
    static heard got, want;
    const int32_t ids[] = {20, 21, 22, 23};
    const tfm_prompt prompt = {.ids = ids, .count = 4};
    tfm_model *model = toy_decoder(TOY_LOCAL, 0);
    tfm_engine *engine = NULL;
    tfm_generate_options options = {.max_new_tokens = 60};
    harness_ok(tfm_engine_open(&engine, model, NULL));
    got = want = (heard){0};
    harness_ok(tfm_generate(model, &prompt, 1, &options, on_end, &want));
    options.prompt_lookup_num_tokens = 3;
    harness_ok(tfm_engine_submit(engine, NULL, &prompt, &options, on_end, &got));
    run(engine);
    assert_int_equal(got.tokens[0], 60);
    for (int k = 0; k < 60; k++)
        assert_true(fabsf(got.log_probs[0][k] - want.log_probs[0][k]) < 2e-4F);
    const tfm_engine_stats stats = tfm_engine_get_stats(engine);
    assert_int_equal(stats.new_tokens, 60);
    assert_int_equal(stats.steps + stats.accepted_tokens, 60);
    assert_true(stats.accepted_tokens > 20 && stats.accepted_tokens <= stats.drafted_tokens);
    for (int wrong = -1; wrong <= 16; wrong += 17) {
        options.prompt_lookup_num_tokens = wrong;
        assert_int_equal(tfm_engine_submit(engine, NULL, &prompt, &options, on_end, &got), TFM_ERROR_ARGUMENT);
        assert_non_null(strstr(tfm_error_message(), "prompt_lookup_num_tokens"));
    }
    tfm_engine_free(&engine);
    tfm_model_free(&model);
}

static void test_callbacks_may_cancel_and_submit(void **state) {
    (void)state;
    static heard h[4];
    const int32_t ids[] = {20, 21, 22, 23, 24};
    const tfm_prompt prompt = {.ids = ids, .count = 5}, shorter = {.ids = ids, .count = 3};
    tfm_model *model = toy_decoder(TOY_LEARNED, 0);
    tfm_engine *engine = NULL;
    harness_ok(tfm_engine_open(&engine, model, NULL));
    for (int i = 0; i < 3; i++) {
        h[i] = (heard){.engine = engine, .cancel_after = i == 0 ? 4 : 0, .next = i == 2 ? &shorter : NULL};
        const tfm_generate_options o = {.max_new_tokens = 8,
                                        .on_token = on_token,
                                        .on_token_user = &h[i],
                                        .sample = i == 0,
                                        .n_best = i == 0 ? RANKS : 1};
        harness_ok(tfm_engine_submit(engine, &h[i].request, &prompt, &o, on_end, &h[i]));
    }
    h[3] = (heard){.engine = engine};
    run(engine);
    assert_true(h[0].seen == 4 && h[0].ended == 0);
    assert_true(h[1].seen == 8 && h[1].ended == 1 && h[2].ended == 1);
    assert_true(h[3].ended == 1 && h[3].tokens[0] == 5 && h[3].cached == 2);
    tfm_engine_cancel(engine, h[1].request); /* it has ended */
    tfm_engine_cancel(engine, 99);
    harness_ok(tfm_engine_submit(engine, NULL, &prompt, NULL, on_end, &h[0])); /* left in the engine that is freed */
    harness_ok(tfm_engine_step(engine, &(bool){false}));
    tfm_engine_free(&engine);
    tfm_model_free(&model);
}

static void test_bad_requests_are_refused_and_others_go_on(void **state) {
    (void)state;
    static heard h;
    static int32_t ids[TOY_POSITIONS + 1];
    const int32_t outside[] = {TOY_VOCABULARY};
    const tfm_prompt good = {.ids = (const int32_t[]){20, 21}, .count = 2};
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    tfm_engine *engine = NULL;
    tfm_prompt_cache *cache = NULL;
    harness_ok(tfm_engine_open(&engine, model, &(tfm_engine_options){.max_cache_tokens = 50}));
    harness_ok(tfm_prompt_cache_new(&cache, model));
    h = (heard){0};
    harness_ok(tfm_engine_submit(engine, NULL, &good, &(tfm_generate_options){.max_new_tokens = 6}, on_end, &h));
    harness_ok(tfm_engine_step(engine, &(bool){false}));
    const struct {
        tfm_prompt prompt;
        tfm_generate_options options;
        tfm_status status;
        const char *part;
    } cases[] = {
        {good, {.beam_size = 2}, TFM_ERROR_UNSUPPORTED, "beam search"},
        {good, {.prompt_cache = cache}, TFM_ERROR_UNSUPPORTED, "a prompt cache"},
        {good, {.temperature = 1}, TFM_ERROR_ARGUMENT, "set `sample`"},
        {good, {.stop_strings = (const char *const[]){"a"}, .stop_string_count = 1}, TFM_ERROR_ARGUMENT, "tokenizer"},
        {good, {.max_new_tokens = 49}, TFM_ERROR_INPUT, "the 50 tokens of the KV cache"},
        {{.ids = ids, .count = TOY_POSITIONS + 1}, {0}, TFM_ERROR_INPUT, "641 tokens"},
        {{.ids = outside, .count = 1}, {0}, TFM_ERROR_ARGUMENT, "has the id 61"},
        {{.text = "a", .bytes = 1}, {0}, TFM_ERROR_ARGUMENT, "takes ids, not text"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        harness_refused(tfm_engine_submit(engine, NULL, &cases[i].prompt, &cases[i].options, on_end, &h),
                        cases[i].status, cases[i].part);
    run(engine);
    assert_true(h.ended == 1 && h.tokens[0] == 6);
    tfm_engine_free(&engine);
    harness_refused(tfm_engine_open(&engine, model, &(tfm_engine_options){.max_sequences = -1}), TFM_ERROR_ARGUMENT,
                    "max_sequences -1");
    assert_null(engine);
    tfm_prompt_cache_free(&cache);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_those_of_tfm_generate),
        cmocka_unit_test(test_prompt_lookup_computes_several_tokens_in_a_step),
        cmocka_unit_test(test_callbacks_may_cancel_and_submit),
        cmocka_unit_test(test_bad_requests_are_refused_and_others_go_on),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
