/* Forced and forbidden tokens of generation_config.json against transformers' beam search (tests/golden/make_rules.py).
 * */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/arch/config_keys.h"
#include "model/core/model.h"
#include "support/scratch.h"

static const double TOLERANCE = 2e-4; /* of log p: single precision against single precision */

static json_t *goldens(void) {
    size_t size;
    char *text = scratch_source("tests/golden/rules.json", &size);
    json_t *root = json_loadb(text, size, 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

/* The model of the scratch folder, with these rules. */
static tfm_model *open_with(const json_t *keys) {
    char *text = json_dumps(keys, JSON_COMPACT);
    tfm_model *model = NULL;
    scratch_text("generation_config.json", text);
    free(text);
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, &(tfm_model_options){.no_tokenizer = true}));
    return model;
}

/* All sources as one batch. */
static tfm_hypotheses search(tfm_model *model, const json_t *sources, const tfm_search_options *options) {
    int32_t ids[256];
    size_t counts[8], used = 0, i, k;
    json_t *source, *id;
    json_array_foreach((json_t *)(uintptr_t)sources, i, source) {
        counts[i] = json_array_size(source);
        json_array_foreach(source, k, id) ids[used++] = (int32_t)json_integer_value(id);
    }
    tfm_hypotheses found;
    harness_ok(tfm_search(model, &found, ids, counts, json_array_size(sources), NULL, NULL, options));
    return found;
}

/* The ids, and the log p of each, which add up to the sum. */
static void same(const tfm_hypothesis *got, const json_t *want) {
    const json_t *ids = json_object_get(want, "ids"), *log_probs = json_object_get(want, "log_probs");
    double sum = 0;
    assert_int_equal(got->tokens, json_array_size(ids));
    for (int i = 0; i < got->tokens; i++) {
        assert_int_equal(got->ids[i], json_integer_value(json_array_get(ids, (size_t)i)));
        const double log_prob = json_number_value(json_array_get(log_probs, (size_t)i));
        assert_true(fabs((double)got->log_probs[i] - log_prob) < TOLERANCE);
        sum += (double)got->log_probs[i];
    }
    assert_true(fabs(got->log_prob - sum) < 1e-4);
}

static void test_generation_rules_match_transformers(void **state) {
    (void)state;
    json_t *root = goldens(), *of, *one, *want;
    size_t m, c, i;
    json_array_foreach(root, m, of) {
        char path[128];
        snprintf(path, sizeof(path), "tests/golden/%s", json_string_value(json_object_get(of, "model")));
        scratch_model(path);
        json_array_foreach(json_object_get(of, "cases"), c, one) {
            tfm_model *model = open_with(json_object_get(one, "keys"));
            tfm_hypotheses found =
                search(model, json_object_get(of, "sources"),
                       &(tfm_search_options){.beam_size = 4,
                                             .length_norm = TFM_LENGTH_NORM_HF,
                                             .max_length = (int)json_integer_value(json_object_get(one, "most"))});
            json_array_foreach(json_object_get(one, "found"), i, want) {
                print_message("# %s, %s, line %zu\n", path, json_string_value(json_object_get(one, "name")), i + 1);
                same(&found.items[i], want);
                assert_true(fabs(found.items[i].score - json_number_value(json_object_get(want, "score"))) < TOLERANCE);
            }
            tfm_hypotheses_free(&found);
            tfm_model_free(&model);
        }
        if (harness_slow())
            break;
    }
    json_decref(root);
}

/* In the paper's scoring a forced end counts with the model's probability, and the hypothesis is finished by it. */
static void test_forced_eos_counts_in_paper_length_norm(void **state) {
    (void)state;
    json_t *root = goldens(), *of = json_array_get(root, 0), *want;
    size_t i;
    scratch_model("tests/golden/postnorm-relu-bias");
    json_t *keys = json_object_get(json_array_get(json_object_get(of, "cases"), 2), "keys");
    assert_non_null(json_object_get(keys, "forced_eos_token_id"));
    tfm_model *model = open_with(keys);
    tfm_hypotheses found =
        search(model, json_object_get(of, "sources"), &(tfm_search_options){.beam_size = 1, .max_length = 5});
    json_array_foreach(json_object_get(of, "greedy"), i, want) {
        same(&found.items[i], want);
        assert_int_equal(found.items[i].count, 4);
    }
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
    json_decref(root);
}

static bool holds(const tfm_hypothesis *h, int from, int to, int32_t id) {
    for (int i = from; i < to && i < h->tokens; i++)
        if (h->ids[i] == id)
            return true;
    return false;
}

/* Whether an id occurs twice. */
static bool repeats(const tfm_hypothesis *h) {
    for (int i = 0; i < h->tokens; i++)
        if (holds(h, 0, i, h->ids[i]))
            return true;
    return false;
}

/* Other forbidden tokens are not generated, in either form and with any beam; without the rule they are. */
static void test_suppressed_tokens_are_never_generated(void **state) {
    (void)state;
    json_t *root = goldens(), *of = json_array_get(root, 0);
    const json_t *sources = json_object_get(of, "sources");
    json_t *base = json_object_get(json_array_get(json_object_get(of, "cases"), 0), "keys");
    scratch_model("tests/golden/postnorm-relu-bias");
    const int32_t start = (int32_t)json_integer_value(json_object_get(base, "decoder_start_token_id"));
    for (int run = 0; run < 4; run++) {
        const tfm_search_options o = {.beam_size = run % 2 ? 4 : 1,
                                      .length_norm = run / 2 ? TFM_LENGTH_NORM_HF : TFM_LENGTH_NORM_PAPER,
                                      .max_length = 24};
        tfm_model *plain = open_with(base);
        tfm_hypotheses free_ones = search(plain, sources, &o);
        const int32_t *first = free_ones.items[0].ids, eos = tfm_model_get_info(plain)->eos_id;
        assert_true(free_ones.items[0].tokens < 24 && repeats(&free_ones.items[0]));
        /* With penalty and bias the first greedy token changes. */
        json_t *const cases[] = {json_pack("{s:i}", "no_repeat_ngram_size", 1),
                                 json_pack("{s:i}", "min_length", 25),
                                 json_pack("{s:[i]}", "suppress_tokens", first[0]),
                                 json_pack("{s:[i]}", "begin_suppress_tokens", first[0]),
                                 json_pack("{s:[[[i], f]]}", "sequence_bias", first[0], -50.0),
                                 json_pack("{s:[[[i, i], f]]}", "sequence_bias", start, first[0], -50.0),
                                 json_pack("{s:f}", "repetition_penalty", 1e4),
                                 json_pack("{s:i, s:i}", "min_length", 40, "forced_eos_token_id", eos)};
        for (size_t i = 0; i < TFM__COUNT(cases); i++) {
            json_object_update(cases[i], base);
            tfm_model *model = open_with(cases[i]);
            tfm_hypotheses found = search(model, sources, &o);
            const tfm_hypothesis *h = &found.items[0];
            assert_true(i != 0 || !repeats(h));
            assert_true(i != 6 || o.beam_size > 1 || !repeats(h));
            assert_true(i != 1 || (h->tokens == 24 && !holds(h, 0, 23, eos)));
            /* A forced end at the limit is generated even before min_length. */
            assert_true(i != 7 || (h->tokens == 24 && holds(h, 23, 24, eos) && !holds(h, 0, 23, eos)));
            assert_true((i != 2 && i != 4) || !holds(h, 0, 24, first[0]));
            assert_true((i != 3 && i != 5) || h->ids[0] != first[0]);
            tfm_hypotheses_free(&found);
            tfm_model_free(&model);
            json_decref(cases[i]);
        }
        tfm_hypotheses_free(&free_ones);
        tfm_model_free(&plain);
    }
    json_decref(root);
}

/* If the rules exclude all tokens including the end, a translation stops there, with any beam. */
static void test_exhausted_vocabulary_ends_the_translation(void **state) {
    (void)state;
    json_t *root = goldens(), *of = json_array_get(root, 0);
    json_t *keys = json_pack("{s:i, s:i}", "no_repeat_ngram_size", 1, "min_length", 1000);
    json_object_update_missing(keys, json_object_get(json_array_get(json_object_get(of, "cases"), 0), "keys"));
    scratch_model("tests/golden/postnorm-relu-bias");
    tfm_model *model = open_with(keys);
    const int vocabulary = tfm_model_get_info(model)->target_vocab_size;
    for (int run = 0; run < 4; run++) {
        const tfm_search_options o = {.beam_size = run % 2 ? 4 : 1,
                                      .length_norm = run / 2 ? TFM_LENGTH_NORM_HF : TFM_LENGTH_NORM_PAPER,
                                      .max_length = 2 * vocabulary};
        tfm_hypotheses found = search(model, json_object_get(of, "sources"), &o);
        for (size_t i = 0; i < found.sentences; i++) {
            const tfm_hypothesis *h = &found.items[i];
            assert_true(h->tokens > vocabulary / 2 && h->tokens < vocabulary && !repeats(h) && isfinite(h->score));
        }
        tfm_hypotheses_free(&found);
    }
    tfm_model_free(&model);
    json_decref(keys);
    json_decref(root);
}

/* Forced tokens are generated even if repeated or in the source: a first token, and the end at the limit. */
static void test_forced_tokens_override_suppression(void **state) {
    (void)state;
    json_t *root = goldens(), *of = json_array_get(root, 0);
    json_t *base = json_object_get(json_array_get(json_object_get(of, "cases"), 0), "keys");
    scratch_model("tests/golden/postnorm-relu-bias");
    tfm_model *plain = open_with(base);
    const int32_t eos = tfm_model_get_info(plain)->eos_id, word = eos == 7 ? 8 : 7;
    tfm_model_free(&plain);
    json_t *keys = json_pack("{s:i, s:i, s:i}", "no_repeat_ngram_size", 1, "encoder_no_repeat_ngram_size", 1,
                             "forced_eos_token_id", eos);
    json_object_update_missing(keys, base);
    tfm_model *model = open_with(keys);
    const int32_t source[] = {word, 9, 11, eos}, begin[] = {word, word, 11};
    for (int run = 0; run < 4; run++) {
        const tfm_search_options o = {.beam_size = run % 2 ? 4 : 1,
                                      .length_norm = run / 2 ? TFM_LENGTH_NORM_HF : TFM_LENGTH_NORM_PAPER,
                                      .max_length = 8};
        tfm_hypotheses found;
        harness_ok(tfm_search(model, &found, source, (size_t[]){4}, 1, begin, (size_t[]){3}, &o));
        const tfm_hypothesis *h = &found.items[0];
        assert_int_equal(h->tokens, 8);
        assert_memory_equal(h->ids, begin, sizeof(begin));
        assert_true(holds(h, 7, 8, eos) && !holds(h, 0, 7, eos) && !holds(h, 3, 8, word) && !holds(h, 0, 8, 9));
        tfm_hypotheses_free(&found);
    }
    tfm_model_free(&model);
    json_decref(keys);
    json_decref(root);
}

/* A forbidden sequence is not generated at the start either, nor completed with the start token. */
static void test_prefix_that_completes_a_bad_word_is_rejected(void **state) {
    (void)state;
    const tfm__generation_rules rules = {.pad_id = 0,
                                         .eos_id = 5,
                                         .start_id = 5,
                                         .forced_bos_id = 9,
                                         .bad_word_count = 3,
                                         .bad_words = {0, 2, 5, 8},
                                         .bad_word_ids = {20, 21, 30, 31, 32, 5, 9, 40}};
    const struct {
        int32_t ids[3];
        bool banned;
    } cases[] = {{{20, 22, 21}, false}, {{19, 20, 21}, true}, {{30, 31, 32}, true}, {{31, 32, 30}, false},
                 {{41, 9, 40}, false},  {{40, 41, 42}, true}, {{21, 20, 20}, false}};
    for (size_t i = 0; i < TFM__COUNT(cases); i++) {
        const tfm_status status = tfm__search_check_prefix(&rules, cases[i].ids, 3, 50);
        if (cases[i].banned)
            harness_refused(status, TFM_ERROR_INPUT, "completes a word of bad_words_ids");
        else
            harness_ok(status);
    }
}

/* Rules are saved as they were read. */
static void test_generation_rules_are_saved_as_read(void **state) {
    (void)state;
    tfm__generation_rules rules = {.pad_id = 0,
                                   .eos_id = 5,
                                   .start_id = 5,
                                   .forced_bos_id = -1,
                                   .forced_eos_id = 5,
                                   .suppress_id_count = 1,
                                   .suppress_ids = {7},
                                   .bad_word_count = 2,
                                   .bad_words = {0, 2, 5},
                                   .bad_word_ids = {20, 21, 30, 31, 32}};
    json_t *got = tfm__write_generation_rules(&rules, 512),
           *want = json_loads("[[7], [20, 21], [30, 31, 32]]", 0, NULL);
    assert_true(json_equal(json_object_get(got, "bad_words_ids"), want));
    assert_int_equal(json_integer_value(json_object_get(got, "forced_eos_token_id")), 5);
    assert_null(json_object_get(got, "forced_bos_token_id"));
    json_decref(got);
    rules.bad_word_count = rules.suppress_id_count = 0;
    rules.forced_eos_id = -1;
    got = tfm__write_generation_rules(&rules, 512);
    assert_true(!json_object_get(got, "bad_words_ids") && !json_object_get(got, "forced_eos_token_id"));
    json_decref(got);
    json_decref(want);
}

/* ---- Texts ---------------------------------------------------------------------------------------------------- */

/* The generated text of the one line. */
typedef struct written_line {
    int32_t ids[64];
    size_t count;
    char text[256];
} written_line;

static bool keep_line(void *user, const tfm_translation *t) {
    written_line *w = user;
    w->count = t->target.count;
    assert_true(w->count < TFM__COUNT(w->ids));
    memcpy(w->ids, t->target.ids, w->count * sizeof(w->ids[0]));
    snprintf(w->text, sizeof(w->text), "%s", t->text);
    return true;
}

/* An end that is an ordinary token is part of the text, as in transformers, which skips special tokens alone; </s> is
 * not. */
static void test_eos_that_is_a_word_stays_in_the_text(void **state) {
    (void)state;
    static const char *const line = ">>rev<< a heavy door hears a summer again.";
    written_line whole, cut;
    scratch_model("tests/golden/prenorm-silu-f16");
    for (int run = 0; run < 2; run++) {
        char *want = NULL, ends[64];
        tfm_model *model = NULL;
        harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
        const tfm_search_options greedy = {.beam_size = 1};
        harness_ok(tfm_translate_lines(model, &line, 1, NULL, &greedy, keep_line, run ? &cut : &whole));
        const written_line *w = run ? &cut : &whole;
        harness_ok(tfm_tokenizer_decode(tfm_model_tokenizer(model), &want, whole.ids, run ? 4 : whole.count - 1));
        print_message("# %s\n", w->text);
        assert_string_equal(w->text, want);
        assert_int_equal(w->count, run ? 4 : whole.count);
        assert_true(whole.count > 6 && whole.ids[3] != whole.ids[0] && whole.ids[3] != whole.ids[1] &&
                    whole.ids[3] != whole.ids[2]);
        snprintf(ends, sizeof(ends), "\"eos_token_id\": [0, %d]", (int)whole.ids[3]);
        if (run == 0)
            scratch_edit("generation_config.json", "\"eos_token_id\": 0", ends);
        tfm_text_free(&want);
        tfm_model_free(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_generation_rules_match_transformers, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_forced_eos_counts_in_paper_length_norm, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_suppressed_tokens_are_never_generated, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_exhausted_vocabulary_ends_the_translation, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_forced_tokens_override_suppression, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_eos_that_is_a_word_stays_in_the_text, scratch_setup, scratch_teardown),
        cmocka_unit_test(test_prefix_that_completes_a_bad_word_is_rejected),
        cmocka_unit_test(test_generation_rules_are_saved_as_read),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
