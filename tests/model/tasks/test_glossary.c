/* Translations with a glossary: each has the terms of its source; others are unchanged. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/tasks/glossary.h"
#include "support/harness.h"
#include "tfm/tfm.h"

enum { LINES = 8, TEXT = 512 };

static const char *const SOURCES[LINES] = {"Mein Fahrrad hat einen platten Reifen.",
                                           "Wo ist mein Auto?",
                                           "Das Autohaus ist alt.",
                                           "Ich bin hier.",
                                           "Das Auto steht vor dem Haus.",
                                           "Tom ist in seinem Haus, und Mary ist in ihrem Haus.",
                                           "",
                                           "Ist das Auto teuer?"};
static const tfm_glossary_term TERMS[] = {
    {"Auto", "truck"}, {"Haus", "school"}, {"Fahrrad", "bicycle"}, {"Reifen", "tyre"}, {"Tom", "Thomas"}};
enum { TERM_COUNT = sizeof(TERMS) / sizeof(TERMS[0]) };
/* Terms of each line. */
static const char *const WANTED[LINES][3] = {{"bicycle", "tyre"},  {"truck"}, {NULL},   {NULL}, {"truck", "school"},
                                             {"Thomas", "school"}, {NULL},    {"truck"}};

static tfm_model *open_demo(void) {
    char *dir = harness_source("apps/demo");
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), dir, NULL));
    free(dir);
    return model;
}

typedef char texts[LINES][TEXT];

static bool keep(void *user, const tfm_translation *t) {
    snprintf(((char(*)[TEXT])user)[t->line], TEXT, "%s", t->text);
    double sum = 0;
    for (size_t i = 0; i < t->target.count; i++)
        sum += (double)t->log_probs[i];
    assert_true(isnan(t->score) || fabs(sum - t->log_prob) < 1e-3);
    return true;
}

static void translate(texts out, tfm_model *model, const tfm_text_options *text, int beam_size) {
    memset(out, 0, sizeof(texts));
    harness_ok(
        tfm_translate_lines(model, SOURCES, LINES, text, &(tfm_search_options){.beam_size = beam_size}, keep, out));
}

static void check_terms(texts got, texts plain) {
    for (int i = 0; i < LINES; i++) {
        if (!WANTED[i][0])
            assert_string_equal(got[i], plain[i]);
        for (int k = 0; k < 3 && WANTED[i][k]; k++)
            if (!tfm__glossary_has(got[i], WANTED[i][k], false))
                fail_msg("\"%s\" has no \"%s\"", got[i], WANTED[i][k]);
    }
}

static void test_translations_have_the_terms_of_their_sources(void **state) {
    (void)state;
    static texts plain, got, again;
    tfm_model *model = open_demo();
    const tfm_text_options options = {.glossary = TERMS, .glossary_count = TERM_COUNT};
    for (int beam_size = 1; beam_size <= 4; beam_size += 3) {
        translate(plain, model, NULL, beam_size);
        translate(got, model, &options, beam_size);
        check_terms(got, plain);
        tfm_text_options small = options;
        small.batch_tokens = 12;
        translate(again, model, &small, beam_size);
        assert_memory_equal(got, again, sizeof(got));
        tfm_text_options split = options;
        split.split = true;
        translate(again, model, &split, beam_size);
        check_terms(again, plain);
    }
    assert_string_equal(got[4], "The truck is parked in front of the school."); /* each at its word */
    /* A term that the translation has changes nothing. */
    static const tfm_glossary_term own[] = {{"Fahrrad", "bicycle"}, {"Auto", "car"}};
    translate(got, model, &(tfm_text_options){.glossary = own, .glossary_count = 2}, 4);
    assert_memory_equal(got, plain, sizeof(got));
    tfm_model_free(&model);
}

typedef struct feed {
    size_t next;
} feed;

static bool next_line(void *user, const char **line, size_t *bytes) {
    feed *f = user;
    if (f->next == LINES)
        return false;
    *line = SOURCES[f->next++];
    *bytes = strlen(*line);
    return true;
}

static void test_streams_and_prefixes_have_the_terms(void **state) {
    (void)state;
    static texts plain, got, streamed;
    tfm_model *model = open_demo();
    const tfm_text_options options = {.glossary = TERMS, .glossary_count = TERM_COUNT};
    const tfm_search_options search = {.beam_size = 4};
    translate(plain, model, NULL, 4);
    translate(got, model, &options, 4);
    memset(streamed, 0, sizeof(streamed));
    harness_ok(tfm_translate_stream(model, next_line, &(feed){0}, &options, &search, keep, streamed));
    assert_memory_equal(got, streamed, sizeof(got));
    const char *prefixes[LINES] = {[0] = "Her", [1] = "Look", [4] = "Here"};
    tfm_text_options forced = options;
    forced.prefixes = prefixes;
    memcpy(got, plain, sizeof(got));
    translate(got, model, &forced, 4);
    for (int i = 0; i < LINES; i++)
        assert_true(!prefixes[i] || strncmp(got[i], prefixes[i], strlen(prefixes[i])) == 0);
    check_terms(got, plain);
    /* No room: the translation stays. */
    translate(plain, model, NULL, 4);
    harness_ok(tfm_translate_lines(model, SOURCES + 1, 1, &options,
                                   &(tfm_search_options){.beam_size = 4, .max_length = 1}, keep, got));
    assert_false(tfm__glossary_has(got[0], "truck", false));
    tfm_model_free(&model);
}

static void test_terms_are_found_as_words(void **state) {
    (void)state;
    static const tfm_glossary_term terms[] = {
        {"Haus", "a"}, {"Haus und Hof", "b"}, {"und", "c"}, {"\xE7\x8C\xAB", "d"}, {"\xC3\xA4rger", "e"}};
    static const struct {
        const char *text, *found;
    } cases[] = {{"Haus", "1...."},
                 {"Haus und Hof", ".1..."},
                 {"Das Haus, und", "1.1.."},
                 {"Hausboot", "....."},
                 {"Baumhaus haus", "....."},
                 {"Und Haus und Hof", ".11.."},
                 {"\xE9\xBB\x92\xE7\x8C\xAB\xE3\x81\xAF", "...1."},
                 {"\xC3\x84rger.", "....1"},
                 {"Ver\xC3\xA4rgerung", "....."},
                 {"", "....."}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool need[5] = {false};
        tfm__glossary_find(need, terms, 5, cases[i].text, strlen(cases[i].text));
        for (int k = 0; k < 5; k++)
            if (need[k] != (cases[i].found[k] == '1'))
                fail_msg("\"%s\": term %d is %s", cases[i].text, k, need[k] ? "found" : "not found");
    }
    assert_true(tfm__glossary_has("two trucks", "truck", false) && !tfm__glossary_has("two trucks", "truck", true));
    assert_true(tfm__glossary_has("Truck.", "truck", true) && !tfm__glossary_has("struck", "truck", false));
}

static bool never(void *user, const tfm_translation *t) {
    (void)user, (void)t;
    fail_msg("a translation");
    return false;
}

static void test_invalid_glossaries_are_rejected(void **state) {
    (void)state;
    static const struct {
        tfm_glossary_term term;
        int n_best;
        const char *part;
    } cases[] = {{{"", "a"}, 1, "term 1 of the glossary has an empty side"},
                 {{"a", NULL}, 1, "term 1 of the glossary has an empty side"},
                 {{"a", "b"}, 2, "n_best 2"},
                 {{"a", "\xD0\x96"}, 1, "no tokens for \"\xD0\x96\", the translation of \"a\""}};
    tfm_model *model = open_demo();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        harness_refused(tfm_translate_lines(model, SOURCES, 1,
                                            &(tfm_text_options){.glossary = &cases[i].term, .glossary_count = 1},
                                            &(tfm_search_options){.n_best = cases[i].n_best}, never, NULL),
                        TFM_ERROR_ARGUMENT, cases[i].part);
    harness_refused(tfm_translate_lines(model, SOURCES, 1, &(tfm_text_options){.glossary_count = 1}, NULL, never, NULL),
                    TFM_ERROR_ARGUMENT, "with 1 terms");
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translations_have_the_terms_of_their_sources),
        cmocka_unit_test(test_streams_and_prefixes_have_the_terms),
        cmocka_unit_test(test_terms_are_found_as_words),
        cmocka_unit_test(test_invalid_glossaries_are_rejected),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
