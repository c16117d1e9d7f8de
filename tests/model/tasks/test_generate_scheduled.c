/* Options of tfm_generate that only the engine has: penalties, biases and log p of each token, compared with the logits
 * of a forward pass. */
#include "support/toy_decoder.h"
#include "tfm/engine.h"

enum { NEW = 24, TOP = 5, PROMPTS = 4 };

/* A text, checked token by token. */
typedef struct heard {
    tfm_model *model;
    const tfm_generate_options *options;
    int32_t ids[64];
    size_t prompt, count; /* tokens of the prompt; and of all */
    size_t tokens, changed;
    int ended;
} heard;

static float bias_of(const heard *h, int32_t id) {
    const tfm_generate_options *o = h->options;
    double added = 0;
    int seen = 0;
    for (size_t i = 0; i < o->logit_bias_count; i++)
        added += o->logit_bias[i].id == id ? (double)o->logit_bias[i].bias : 0;
    for (size_t i = h->prompt; i < h->count; i++)
        seen += h->ids[i] == id;
    added -= (double)o->frequency_penalty * seen + (seen ? (double)o->presence_penalty : 0);
    return (float)added;
}

static void on_log_probs(void *user, size_t prompt, int rank, int32_t id, const tfm_token_log_probs *log_probs) {
    heard *h = user;
    float logits[TOY_VOCABULARY];
    double sum = 0;
    int best = 0, plain = 0;
    (void)prompt, (void)rank;
    toy_logits(h->model, logits, h->ids, h->count);
    for (int i = 0; i < TOY_VOCABULARY; i++) {
        sum += exp((double)logits[i]);
        plain = logits[i] > logits[plain] ? i : plain;
        best = logits[i] + bias_of(h, i) > logits[best] + bias_of(h, best) ? i : best;
    }
    if (!h->options->sample)
        assert_int_equal(id, best);
    assert_true(fabs((double)log_probs->log_prob - ((double)logits[id] - log(sum))) < 1e-4);
    assert_int_equal(log_probs->count, h->options->top_log_probs);
    for (size_t k = 0; k < log_probs->count; k++) {
        int larger = 0;
        for (int i = 0; i < TOY_VOCABULARY; i++)
            larger += logits[i] > logits[log_probs->ids[k]] + 1e-5f;
        assert_true(larger <= (int)k);
        assert_true(fabs((double)log_probs->log_probs[k] - ((double)logits[log_probs->ids[k]] - log(sum))) < 1e-4);
    }
    h->changed += best != plain;
    h->ids[h->count++] = id;
}

static bool on_end(void *user, const tfm_generation *g) {
    heard *h = user;
    h->ended++;
    h->tokens = g->tokens.count;
    assert_memory_equal(g->tokens.ids, h->ids + h->prompt, g->tokens.count * sizeof(int32_t));
    return true;
}

static heard generate(tfm_model *model, tfm_generate_options options) {
    const int32_t prompt[] = {20, 33, 20, 41, 20};
    heard h = {.model = model, .options = &options, .prompt = 5, .count = 5};
    memcpy(h.ids, prompt, sizeof(prompt));
    options.max_new_tokens = NEW;
    options.on_log_probs = on_log_probs;
    options.on_log_probs_user = &h;
    harness_ok(tfm_generate(model, &(tfm_prompt){.ids = prompt, .count = 5}, 1, &options, on_end, &h));
    assert_int_equal(h.ended, 1);
    return h;
}

static void test_tokens_follow_penalties_and_biases(void **state) {
    (void)state;
    const tfm_logit_bias biases[] = {{13, 3}, {14, -INFINITY}, {15, 100}, {15, -97.5f}, {13, 0.5f}};
    for (int kind = 0; kind < TOY_KINDS; kind++) {
        tfm_model *model = toy_decoder((toy_kind)kind, 0);
        const size_t none = generate(model, (tfm_generate_options){.top_log_probs = TOP}).changed,
                     presence = generate(model, (tfm_generate_options){.presence_penalty = 3}).changed,
                     frequency = generate(model, (tfm_generate_options){.frequency_penalty = 0.9f}).changed,
                     both = generate(model, (tfm_generate_options){.presence_penalty = -0.5f,
                                                                   .frequency_penalty = 0.4f,
                                                                   .logit_bias = biases,
                                                                   .logit_bias_count = 5,
                                                                   .top_log_probs = TOY_VOCABULARY})
                                .changed;
        assert_int_equal(none, 0);
        assert_true(presence > 0 && frequency > 0 && both > 0);
        generate(model, (tfm_generate_options){.sample = true, .temperature = 2, .top_log_probs = 1});
        tfm_model_free(&model);
    }
}

static void test_banned_and_preferred_tokens(void **state) {
    (void)state;
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    const tfm_logit_bias only = {17, 1000};
    heard h = generate(model, (tfm_generate_options){.logit_bias = &only, .logit_bias_count = 1, .skip_scores = true});
    for (size_t i = h.prompt; i < h.count; i++)
        assert_int_equal(h.ids[i], 17);
    tfm_logit_bias most[TOY_VOCABULARY - 1];
    for (int i = 0; i < TOY_VOCABULARY - 1; i++)
        most[i] = (tfm_logit_bias){i < 30 ? i : i + 1, -INFINITY};
    h = generate(model,
                 (tfm_generate_options){.sample = true, .logit_bias = most, .logit_bias_count = TOY_VOCABULARY - 1});
    for (size_t i = h.prompt; i < h.count; i++)
        assert_int_equal(h.ids[i], 30);
    tfm_model_free(&model);
}

/* ---- Grammars -------------------------------------------------------------------------------------------- */

enum { MIXED = 12 };

typedef struct constrained {
    char text[512];
    tfm_finish_reason reason;
    size_t tokens;
} constrained;

static bool on_constrained(void *user, const tfm_generation *g) {
    constrained *c = (constrained *)user + g->rank;
    snprintf(c->text, sizeof(c->text), "%s", g->text);
    c->reason = g->finish_reason;
    c->tokens = g->tokens.count;
    return true;
}

/* Requests with and without a grammar, in the same steps. `end`: the end token, or -1. */
static void follow_grammars(int32_t end) {
    static constrained got[MIXED][2], want[MIXED][2];
    const char *const texts[] = {"root ::= \"ich\" (\"ein\" | \" Tom\")* \" you\"", "root ::= [a-z]{4,9} \" T\"",
                                 "root ::= \"\" | \" s\" root2\nroot2 ::= \" w\"{3}"};
    const tfm_logit_bias prefer_end = {0, 20};
    tfm_model *model = talking_toy();
    tfm_engine *engine = NULL;
    tfm_grammar *grammars[3];
    model->rules.eos_id = end;
    harness_ok(tfm_engine_open(&engine, model, NULL));
    for (int i = 0; i < 3; i++)
        harness_ok(tfm_grammar_from_gbnf(&grammars[i], texts[i]));
    for (int i = 0; i < MIXED; i++) {
        const int32_t ids[] = {20 + i, 33, 40 - i};
        const tfm_prompt prompt = {.ids = ids, .count = 3};
        const tfm_generate_options o = {.max_new_tokens = 40,
                                        .sample = i % 4 > 1,
                                        .n_best = i % 4 > 1 ? 2 : 1,
                                        .seed = 2,
                                        .frequency_penalty = i % 3 == 1 ? 1 : 0,
                                        .logit_bias = &prefer_end,
                                        .logit_bias_count = i % 6 == 5,
                                        .grammar = i % 2 ? grammars[i / 2 % 3] : NULL};
        harness_ok(tfm_generate(model, &prompt, 1, &o, on_constrained, want[i]));
        harness_ok(tfm_engine_submit(engine, NULL, &prompt, &o, on_constrained, got[i]));
    }
    for (bool more = true; more;)
        harness_ok(tfm_engine_step(engine, &more));
    int complete = 0, empty = 0;
    for (int i = 0; i < MIXED; i++)
        for (int k = 0; k < (i % 4 > 1 ? 2 : 1); k++) {
            const constrained *c = &got[i][k];
            assert_string_equal(c->text, want[i][k].text);
            assert_int_equal(c->reason, want[i][k].reason);
            if (i % 2 == 0 || c->reason != TFM_FINISH_EOS)
                continue;
            char whole[520];
            snprintf(whole, sizeof(whole), "%s%s", strncmp(c->text, "s w", 3) == 0 ? " " : "", c->text);
            assert_true(tfm_grammar_matches(grammars[i / 2 % 3], whole, strlen(whole)));
            complete++;
            empty += !*c->text;
        }
    assert_true(complete >= 5);
    assert_int_equal(empty > 0, end >= 0);
    tfm_engine_free(&engine);
    for (int i = 0; i < 3; i++)
        tfm_grammar_free(&grammars[i]);
    tfm_model_free(&model);
}

static void test_texts_follow_their_grammars(void **state) {
    (void)state;
    follow_grammars(-1);
    follow_grammars(0);
}

/* The first token that may end a text of the grammar, and one of it that ends no text. */
static void test_stop_ids_end_complete_texts(void **state) {
    (void)state;
    tfm_model *model = talking_toy();
    tfm_grammar *grammar = NULL;
    constrained c = {.tokens = 0};
    const tfm_prompt prompt = {.ids = (const int32_t[]){20}, .count = 1};
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= (\"ich\" \"ein\")+"));
    const tfm_logit_bias biases[] = {{50, 1000}, {27, 10}};
    const tfm_generate_options o = {.grammar = grammar,
                                    .max_new_tokens = 9,
                                    .stop_ids = (const int32_t[]){50},
                                    .stop_id_count = 1,
                                    .logit_bias = biases,
                                    .logit_bias_count = 2};
    harness_ok(tfm_generate(model, &prompt, 1, &o, on_constrained, &c));
    assert_int_equal(strncmp(c.text, "ichein", 6), 0);
    assert_int_equal(c.tokens, 3);
    assert_int_equal(c.reason, TFM_FINISH_EOS);
    tfm_grammar_free(&grammar);
    tfm_model_free(&model);
}

static void count_warnings(void *user, tfm_log_level level, const char *line) {
    *(int *)user += level == TFM_LOG_WARNING && strstr(line, "a text ends before it is complete");
}

/* Each token is allowed, but the positions after " a" are too many: that text ends, and others do not notice. */
static void test_too_ambiguous_text_ends_alone(void **state) {
    (void)state;
    enum { RULES = 700 };
    tfm_model *model = talking_toy();
    tfm_engine *engine = NULL;
    tfm_grammar *grammar = NULL;
    constrained ambiguous = {.tokens = 9}, plain = {.tokens = 0}, again = {.tokens = 0};
    char *text = malloc(RULES * 40 + 64), *at = text;
    assert_non_null(text);
    for (int i = 0; i < RULES; i++)
        at += sprintf(at, "%s r%d", i ? " |" : "root ::=", i);
    for (int i = 0; i < RULES; i++)
        at += sprintf(at, "\nr%d ::= x \"%d\"", i, i);
    sprintf(at, "\nx ::= \" a\" (\"n\"?){300}\n");
    harness_ok(tfm_grammar_from_gbnf(&grammar, text));
    harness_ok(tfm_engine_open(&engine, model, NULL));
    const tfm_prompt prompt = {.ids = (const int32_t[]){20, 33}, .count = 2};
    const tfm_generate_options o = {.max_new_tokens = 12}, strict = {.max_new_tokens = 12, .grammar = grammar};
    int warnings = 0;
    tfm_log_set(count_warnings, &warnings, TFM_LOG_WARNING);
    harness_ok(tfm_engine_submit(engine, NULL, &prompt, &o, on_constrained, &plain));
    harness_ok(tfm_engine_submit(engine, NULL, &prompt, &strict, on_constrained, &ambiguous));
    for (bool more = true; more;)
        harness_ok(tfm_engine_step(engine, &more));
    assert_int_equal(warnings, 1);
    assert_int_equal(ambiguous.tokens, 1);
    assert_int_equal(ambiguous.reason, TFM_FINISH_LENGTH);
    assert_int_equal(plain.tokens, 12);
    const void *trie = model->trie; /* another engine takes the same, for which the grammar has masks */
    assert_non_null(trie);
    harness_ok(tfm_generate(model, &prompt, 1, &strict, on_constrained, &again));
    assert_ptr_equal(model->trie, trie);
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
    tfm_engine_free(&engine);
    tfm_grammar_free(&grammar);
    tfm_model_free(&model);
    free(text);
}

static void test_text_ends_where_no_token_fits(void **state) {
    (void)state;
    tfm_model *model = talking_toy(), *silent = toy_decoder(TOY_ROTARY, 0);
    tfm_grammar *grammar = NULL;
    constrained c = {.tokens = 9};
    const tfm_prompt prompt = {.ids = (const int32_t[]){20}, .count = 1};
    harness_ok(tfm_grammar_from_gbnf(&grammar, "root ::= \"ich\" \"{}\""));
    const tfm_generate_options o = {.grammar = grammar};
    harness_ok(tfm_generate(model, &prompt, 1, &o, on_constrained, &c));
    assert_string_equal(c.text, "ich");
    assert_int_equal(c.reason, TFM_FINISH_LENGTH);
    harness_refused(tfm_generate(silent, &prompt, 1, &o, on_constrained, &c), TFM_ERROR_ARGUMENT, "its tokenizer");
    tfm_grammar_free(&grammar);
    tfm_model_free(&model);
    tfm_model_free(&silent);
}

/* ---- Order ----------------------------------------------------------------------------------------------- */

typedef struct order {
    size_t emitted[PROMPTS * 2], count, stop_after;
    int32_t tokens[PROMPTS * 2][NEW];
    size_t made[PROMPTS * 2], rejected;
    int steps;
} order;

static bool on_ordered(void *user, const tfm_generation *g) {
    order *o = user;
    const size_t at = o->count++;
    o->emitted[at] = g->prompt * 2 + (size_t)g->rank;
    o->made[at] = g->tokens.count;
    if (g->tokens.count > 0)
        memcpy(o->tokens[at], g->tokens.ids, g->tokens.count * sizeof(int32_t));
    else
        assert_true(isnan(g->score) && !*g->text);
    return o->count != o->stop_after;
}

static bool on_rejected(void *user, size_t prompt, const char *message) {
    order *o = user;
    assert_int_equal(prompt, 1);
    assert_non_null(strstr(message, "641 tokens"));
    o->rejected++;
    return true;
}

static bool goes_on(void *user) {
    order *o = user;
    return ++o->steps < 3;
}

static void test_texts_come_in_order(void **state) {
    (void)state;
    static int32_t ids[TOY_POSITIONS + 1] = {22, 23, 24, 25, 26, 27};
    const tfm_prompt prompts[PROMPTS] = {{.ids = ids, .count = 3},
                                         {.ids = ids, .count = TOY_POSITIONS + 1},
                                         {.ids = ids + 1, .count = 4},
                                         {.ids = ids + 2, .count = 2}};
    tfm_model *model = toy_decoder(TOY_LEARNED, 2);
    order separate = {0}, together = {0};
    tfm_generate_stats stats = {0};
    tfm_generate_options o = {
        .max_new_tokens = NEW, .sample = true, .n_best = 2, .seed = 5, .reject = on_rejected, .reject_user = &separate};
    harness_ok(tfm_generate(model, prompts, PROMPTS, &o, on_ordered, &separate));
    const tfm_logit_bias nothing = {20, 0};
    o.logit_bias = &nothing;
    o.logit_bias_count = 1;
    o.reject_user = &together;
    o.stats = &stats;
    harness_ok(tfm_generate(model, prompts, PROMPTS, &o, on_ordered, &together));
    o.stats = NULL;
    assert_int_equal(together.count, 7);
    assert_int_equal(together.rejected, 1);
    assert_memory_equal(together.emitted, separate.emitted, sizeof(together.emitted));
    assert_memory_equal(together.made, separate.made, sizeof(together.made));
    assert_memory_equal(together.tokens, separate.tokens, sizeof(together.tokens));
    assert_int_equal(stats.prompts, 3);
    assert_int_equal(stats.prompt_tokens, 9);
    order stopped = {.stop_after = 4};
    o.reject_user = &stopped;
    harness_refused(tfm_generate(model, prompts, PROMPTS, &o, on_ordered, &stopped), TFM_ERROR_CANCELLED,
                    "stopped at prompt 3");
    order cancelled = {0};
    o.reject_user = o.should_continue_user = &cancelled;
    o.should_continue = goes_on;
    harness_refused(tfm_generate(model, prompts, PROMPTS, &o, on_ordered, &cancelled), TFM_ERROR_CANCELLED,
                    "cancelled");
    o.reject = NULL;
    o.should_continue = NULL;
    harness_refused(tfm_generate(model, prompts, PROMPTS, &o, on_ordered, &cancelled), TFM_ERROR_INPUT, "prompt 2: ");
    tfm_model_free(&model);
}

static void test_bad_options_are_refused(void **state) {
    (void)state;
    tfm_model *model = toy_decoder(TOY_ROTARY, 0);
    const int32_t ids[] = {20};
    const size_t count = 1;
    const tfm_prompt prompt = {.ids = ids, .count = 1};
    const tfm_logit_bias outside = {TOY_VOCABULARY, 1}, nan = {3, NAN}, infinite = {3, INFINITY};
    heard h = {0};
    const struct {
        tfm_generate_options options;
        const char *part;
    } cases[] = {
        {{.presence_penalty = 101}, "presence_penalty is out of range"},
        {{.frequency_penalty = NAN}, "frequency_penalty is out of range"},
        {{.top_log_probs = 65, .on_log_probs = on_log_probs}, "top_log_probs is out of range"},
        {{.top_log_probs = 5}, "needs on_log_probs"},
        {{.logit_bias_count = 1}, "may be NULL"},
        {{.logit_bias = &outside, .logit_bias_count = 1}, "from 0 to 60"},
        {{.logit_bias = &nan, .logit_bias_count = 1}, "is nan for the id 3"},
        {{.logit_bias = &infinite, .logit_bias_count = 1}, "is inf for the id 3"},
        {{.presence_penalty = 1, .beam_size = 2}, "a beam of 1"},
        {{.stop_id_count = 1}, "may be NULL"},
        {{.stop_ids = (const int32_t[]){-1}, .stop_id_count = 1}, "stop_ids 1 is -1"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        harness_refused(tfm_generate(model, &prompt, 1, &cases[i].options, on_end, &h), TFM_ERROR_ARGUMENT,
                        cases[i].part);
    tfm_hypotheses out;
    harness_refused(tfm_generate_ids(model, &out, ids, &count, 1, &(tfm_generate_options){.presence_penalty = 1}),
                    TFM_ERROR_UNSUPPORTED, "use tfm_generate");
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_follow_penalties_and_biases),
        cmocka_unit_test(test_banned_and_preferred_tokens),
        cmocka_unit_test(test_texts_follow_their_grammars),
        cmocka_unit_test(test_stop_ids_end_complete_texts),
        cmocka_unit_test(test_too_ambiguous_text_ends_alone),
        cmocka_unit_test(test_text_ends_where_no_token_fits),
        cmocka_unit_test(test_texts_come_in_order),
        cmocka_unit_test(test_bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
