/* Model directories that are well-formed and wrong: each must end in a sentence, never in plausible text. */
#include "demo.h"
#include "harness.h"
#include "scratch.h"
#include "tfm/tfm.h"

static tfm_model *opened(void) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
    return model;
}

static void refused(const char *part) {
    tfm_model *model = NULL;
    harness_refused(tfm_model_open(&model, harness_context(), scratch_root, NULL), TFM_ERROR_FORMAT, part);
    assert_null(model);
}

static char emitted[8][256];

static bool on_text(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)best, (void)score;
    snprintf(emitted[line], sizeof(emitted[line]), "%s", text);
    return true;
}

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    (void)user, (void)line, (void)log_prob, (void)tokens;
    return true;
}

static bool on_reject(void *user, size_t line, const char *message) {
    *(size_t *)user = line;
    return strstr(message, "its prefix: ") != NULL;
}

/* One norm's weights are not numbers, as after a torn download. */
static void test_not_numbers(void **state) {
    (void)state;
    scratch_model("tests/golden/prenorm-embedding-norm");
    char *content = NULL;
    size_t size;
    harness_ok(tfm__file_read(&content, &size, scratch_path("model.safetensors")));
    memset(content + size - 64, 0xff, 64);
    scratch_write("model.safetensors", content, size);
    free(content);
    tfm_model *model = opened();
    const char *line[] = {"one two"};
    for (int beam = 1; beam <= 4; beam += 3)
        harness_refused(tfm_translate(model, line, 1, &(tfm_search_options){.beam = beam}, on_text, NULL),
                        TFM_ERROR_FORMAT, "finite probability");
    harness_refused(tfm_score(model, line, line, 1, NULL, on_score, NULL), TFM_ERROR_FORMAT, "weights are damaged");
    tfm_model_free(&model);
}

/* Puts a number into a file of the folder in place of the one that is there. */
static void set_number(const char *name, const char *key, int old, int value) {
    char from[128], to[128];
    snprintf(from, sizeof(from), "\"%s\": %d", key, old);
    snprintf(to, sizeof(to), "\"%s\": %d", key, value);
    scratch_edit(name, from, to);
}

static void test_other_configuration(void **state) {
    (void)state;
    const int layers = demo_number("decoder_layers");
    char first_left[64];
    snprintf(first_left, sizeof(first_left), "model.decoder.layers.%d.", layers - 1);
    scratch_model("apps/demo");
    set_number("config.json", "decoder_layers", layers, layers - 1);
    refused(first_left);
    scratch_model("apps/demo");
    scratch_edit("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    refused("lm_head.weight is missing");
    scratch_model("tests/golden/prenorm-embedding-norm");
    scratch_edit("config.json", "\"normalize_embedding\": true", "\"normalize_embedding\": false");
    refused("layernorm_embedding");
}

/* What the model in the folder makes of a line. */
static const char *translated(const char *line) {
    tfm_model *model = opened();
    harness_ok(tfm_translate(model, &line, 1, NULL, on_text, NULL));
    tfm_model_free(&model);
    return emitted[0];
}

static void test_other_vocabulary(void **state) {
    (void)state;
    const int pad = demo_number("pad_token_id");
    char text[128];
    snprintf(text, sizeof(text), "{\"</s>\": 0, \"<unk>\": 1, \"\xe2\x96\x81" "das\": 2, \"<pad>\": %d}", pad);
    scratch_model("apps/demo");
    scratch_text("vocab.json", text);
    refused("no piece in the vocabulary");
    scratch_model("apps/demo");
    set_number("config.json", "pad_token_id", pad, 5);
    set_number("generation_config.json", "pad_token_id", pad, 5);
    snprintf(text, sizeof(text), "<pad> is id %d", pad);
    refused(text);
    /* The target's own vocabulary may have it elsewhere. */
    scratch_model("tests/golden/untied-gelu-bf16");
    scratch_copy("tests/golden/untied-gelu-bf16/target_vocab.json", "target_vocab.json");
    scratch_edit("target_vocab.json", "\"<pad>\": 61", "\"l\": 61");
    scratch_edit("target_vocab.json", "\"l\": 2,", "\"<pad>\": 2,");
    assert_true(*translated("the bird"));
}

/* A model that was saved without its head: the same names with nothing in front, those of stored positions too. */
static void test_bare_names(void **state) {
    (void)state;
    static const char NAME[] = "\"model.", BARE[] = "      \"";
    scratch_model("tests/golden/untied-gelu-bf16");
    scratch_copy("tests/golden/untied-gelu-bf16/target_vocab.json", "target_vocab.json");
    char *content = NULL, *want = strdup(translated("the bird"));
    size_t size, found = 0;
    harness_ok(tfm__file_read(&content, &size, scratch_path("model.safetensors")));
    for (char *at = content; (at = memmem(at, (size_t)(content + size - at), NAME, strlen(NAME))); found++)
        memcpy(at, BARE, strlen(BARE));
    assert_true(found > 40);
    scratch_write("model.safetensors", content, size);
    assert_string_equal(translated("the bird"), want);
    free(content);
    free(want);
}

static void test_lines(void **state) {
    (void)state;
    scratch_model("apps/demo");
    tfm_model *model = opened();
    char *source = demo_line("test.de", 6), *translation = demo_line("beam4.en", 6);
    const char *lines[] = {" \t ", "Ja.", source}, *prefixes[] = {NULL, "\xff", NULL};
    size_t rejected = 99;
    harness_ok(tfm_translate(model, lines, 3,
                             &(tfm_search_options){.prefixes = prefixes, .reject = on_reject, .reject_user = &rejected},
                             on_text, NULL));
    assert_int_equal(rejected, 1);
    assert_string_equal(emitted[0], "");
    assert_string_equal(emitted[1], "");
    assert_string_equal(emitted[2], translation);
    harness_refused(tfm_translate(model, lines, 1, &(tfm_search_options){.beam = 999}, on_text, NULL), TFM_ERROR_ARGUMENT,
                    "beam is 999");
    harness_refused(tfm_translate(model, lines, 1, &(tfm_search_options){.has_alpha = true, .alpha = 1e5}, on_text, NULL),
                    TFM_ERROR_ARGUMENT, "alpha");
    tfm_model_free(&model);
    free(translation);
    free(source);
}

/* The directory's own first token is forced, in front of the caller's prefix. */
static void test_forced_first(void **state) {
    (void)state;
    scratch_model("apps/demo");
    scratch_edit("generation_config.json", "{", "{\"forced_bos_token_id\": 17,");
    tfm_model *model = opened();
    const int32_t source[] = {5, 9, 300, 0}, prefix[] = {40};
    const size_t count = 4, prefix_count = 1;
    tfm_hypotheses found;
    harness_ok(tfm_search(model, &found, source, &count, 1, prefix, &prefix_count, NULL));
    assert_true(found.items[0].count >= 2 && found.items[0].ids[0] == 17 && found.items[0].ids[1] == 40);
    tfm_hypotheses_free(&found);
    harness_ok(tfm_search(model, &found, source, &count, 1, NULL, NULL, &(tfm_search_options){.beam = 1}));
    assert_true(found.items[0].count >= 1 && found.items[0].ids[0] == 17);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_not_numbers, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_other_configuration, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_other_vocabulary, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_bare_names, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_lines, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_forced_first, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
