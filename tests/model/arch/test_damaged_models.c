/* Well-formed but wrong model directories: each must give an error message, never plausible text. */
#include "support/demo.h"
#include "support/harness.h"
#include "support/scratch.h"
#include "tfm/tfm.h"

static tfm_model *opened(void) {
    tfm_model *model = NULL;
    harness_ok(tfm_model_open(&model, harness_context(), scratch_root, NULL));
    return model;
}

/* Opening and describing the folder fail with the same message. */
static void refused_as(tfm_status want, const char *part) {
    tfm_model *model = NULL;
    tfm_model_info info;
    harness_refused(tfm_model_open(&model, harness_context(), scratch_root, NULL), want, part);
    assert_null(model);
    char *sentence = strdup(tfm_error_message());
    harness_refused(tfm_model_read_info(&info, scratch_root, NULL), want, part);
    assert_string_equal(tfm_error_message(), sentence);
    free(sentence);
}

static void refused(const char *part) {
    refused_as(TFM_ERROR_FORMAT, part);
}

static char emitted[8][256];

static bool on_text(void *user, size_t line, int best, const char *text, double score) {
    (void)user, (void)best, (void)score;
    snprintf(emitted[line], sizeof(emitted[line]), "%s", text);
    return true;
}

static bool on_translation(void *user, const tfm_translation *t) {
    return on_text(user, t->line, t->rank, t->text, t->score);
}

static bool on_score(void *user, size_t line, double log_prob, size_t tokens) {
    (void)user, (void)line, (void)log_prob, (void)tokens;
    return true;
}

static bool on_reject(void *user, size_t line, const char *message) {
    *(size_t *)user = line;
    return strstr(message, "its prefix: ") != NULL;
}

/* The weights of one norm are NaN, as after a truncated download. */
static void test_nan_weights_are_reported(void **state) {
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
        harness_refused(tfm_translate(model, line, 1, &(tfm_search_options){.beam_size = beam}, on_text, NULL),
                        TFM_ERROR_FORMAT, "finite probability");
    harness_refused(tfm_score(model, line, line, 1, NULL, on_score, NULL), TFM_ERROR_FORMAT, "weights are damaged");
    tfm_model_free(&model);
}

/* Replaces a number in a file of the folder. */
static void set_number(const char *name, const char *key, int old, int value) {
    char from[128], to[128];
    snprintf(from, sizeof(from), "\"%s\": %d", key, old);
    snprintf(to, sizeof(to), "\"%s\": %d", key, value);
    scratch_edit(name, from, to);
}

static void test_config_that_does_not_fit_weights_is_rejected(void **state) {
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

static const char LFS[] = "version https://git-lfs.github.com/spec/v1\noid sha256:01\nsize 9\n";

/* A file of the folder that is missing (NULL) or has other content. */
static const struct {
    const char *name, *text, *part;
    tfm_status status;
} OTHER_FILES[] = {
    {"config.json", NULL, "config.json", TFM_ERROR_IO},
    {"config.json", "{\"model_type\": ", "config.json is not JSON", TFM_ERROR_FORMAT},
    {"config.json", "<html>", "config.json is a web page", TFM_ERROR_FORMAT},
    {"generation_config.json", "{,}", "generation_config.json is not JSON", TFM_ERROR_FORMAT},
    {"source.spm", NULL, "source.spm", TFM_ERROR_IO},
    {"source.spm", "damaged", "source.spm is not a SentencePiece model", TFM_ERROR_FORMAT},
    {"source.spm", LFS, "source.spm is a pointer of Git LFS", TFM_ERROR_FORMAT},
    {"target.spm", NULL, "target.spm", TFM_ERROR_IO},
    {"vocab.json", NULL, "vocab.json", TFM_ERROR_IO},
    {"vocab.json", "{\"</s>\": 0", "vocab.json is not JSON", TFM_ERROR_FORMAT},
    {"tokenizer_config.json", "[", "tokenizer_config.json is not JSON", TFM_ERROR_FORMAT},
    {"model.safetensors", NULL, "has no model.safetensors and no pytorch_model.bin", TFM_ERROR_IO},
    {"model.safetensors", "", "model.safetensors is empty", TFM_ERROR_FORMAT},
    {"model.safetensors", "<html>", "model.safetensors is a web page, not weights", TFM_ERROR_FORMAT},
    {"model.safetensors", "\xef\xbb\xbf\n<!DOCTYPE html>\n<html lang=en><title>Gr\xc3\xbc\xc3\x9f</title>",
     "model.safetensors is a web page, not weights", TFM_ERROR_FORMAT},
    {"model.safetensors", "no", "model.safetensors is a text, not weights", TFM_ERROR_FORMAT},
    {"model.safetensors", "Entry not found", "model.safetensors is a text, not weights", TFM_ERROR_FORMAT},
    {"model.safetensors", "{\"error\": \"Entry not found\"}", "is a text in JSON, not weights", TFM_ERROR_FORMAT},
    {"model.safetensors", LFS, "model.safetensors is a pointer of Git LFS", TFM_ERROR_FORMAT},
};

static void test_replaced_model_files_are_rejected(void **state) {
    (void)state;
    static const char FROM[] = "tests/golden/prenorm-embedding-norm";
    for (size_t i = 0; i < sizeof(OTHER_FILES) / sizeof(*OTHER_FILES); i++) {
        scratch_model(FROM);
        if (OTHER_FILES[i].text)
            scratch_text(OTHER_FILES[i].name, OTHER_FILES[i].text);
        else
            assert_int_equal(remove(scratch_path(OTHER_FILES[i].name)), 0);
        refused_as(OTHER_FILES[i].status, OTHER_FILES[i].part);
    }
    scratch_model(FROM);
    assert_int_equal(rename(scratch_path("model.safetensors"), scratch_path("kept")), 0);
    scratch_text("pytorch_model.bin", "<html>");
    refused("pytorch_model.bin is a web page, not weights");
    assert_int_equal(remove(scratch_path("pytorch_model.bin")), 0);
    assert_int_equal(rename(scratch_path("kept"), scratch_path("model.safetensors")), 0);
}

static void note_adapter(void *user, tfm_log_level level, const char *message) {
    *(int *)user +=
        level == TFM_LOG_WARNING && strstr(message, "has an adapter (adapter_config.json) next to the model");
}

/* If a file is missing, the files present identify the kind of directory. */
static void test_directory_without_weights_says_what_it_holds(void **state) {
    (void)state;
    static const char *const AWAY[] = {"config.json", "model.safetensors"};
    static const struct {
        const char *name, *part;
        tfm_status status;
        bool without_config; /* it is recognized without one, too */
    } cases[] = {
        {"adapter_config.json", "has an adapter (adapter_config.json)", TFM_ERROR_UNSUPPORTED, true},
        {"model-q4.gguf", "model-q4.gguf is not a GGUF file", TFM_ERROR_FORMAT, false},
        {"model-00001-of-00002.safetensors",
         "has model-00001-of-00002.safetensors, but no model.safetensors.index.json", TFM_ERROR_IO, false},
        {"pytorch_model-00001-of-00002.bin",
         "has pytorch_model-00001-of-00002.bin, but no pytorch_model.bin.index.json", TFM_ERROR_IO, false},
        {"model.fp16.safetensors",
         "but model.fp16.safetensors: if these are the model's weights, give the file the name "
         "model.safetensors",
         TFM_ERROR_IO, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        scratch_text(cases[i].name, "{}");
        for (int k = !cases[i].without_config; k < 2; k++) {
            scratch_model("tests/golden/prenorm-embedding-norm");
            assert_int_equal(remove(scratch_path(AWAY[k])), 0);
            refused_as(cases[i].status, cases[i].part);
        }
        assert_int_equal(remove(scratch_path(cases[i].name)), 0);
    }
    /* Next to a model it is a warning. */
    int told = 0;
    tfm_model_info info;
    scratch_model("tests/golden/prenorm-embedding-norm");
    tfm_log_set(note_adapter, &told, TFM_LOG_WARNING);
    for (int k = 0; k < 2; k++) {
        harness_ok(tfm_model_read_info(&info, scratch_root, NULL));
        assert_int_equal(told, k);
        scratch_text("adapter_config.json", "{}");
    }
    tfm_log_set(NULL, NULL, TFM_LOG_WARNING);
}

/* Truncated weights, other shapes, a missing layer; and a directory without tokenizer. */
static void test_truncated_or_misshaped_weights_are_rejected(void **state) {
    (void)state;
    static const char FROM[] = "tests/golden/prenorm-embedding-norm";
    char *content = NULL;
    size_t size;
    scratch_model(FROM);
    harness_ok(tfm__file_read(&content, &size, scratch_path("model.safetensors")));
    scratch_write("model.safetensors", content, size / 2);
    refused("the file was truncated");
    scratch_write("model.safetensors", content, 100);
    refused("it was truncated");
    char *name = memmem(content, size, "decoder.layers.0.fc1.weight", 27);
    assert_non_null(name);
    memcpy(name, "decoder.layers.0.fc9.weight", 27);
    scratch_write("model.safetensors", content, size);
    refused("decoder.layers.0.fc1.weight");
    free(content);
    scratch_model(FROM);
    scratch_edit("config.json", "\"encoder_ffn_dim\": ", "\"encoder_ffn_dim\": 1");
    refused("fc1.weight");
    scratch_model(FROM);
    scratch_edit("config.json", "{", "{\"quantization_config\": {\"quant_method\": \"eetq\"},");
    refused_as(TFM_ERROR_UNSUPPORTED, "quantized (\"eetq\")");
    scratch_model(FROM);
    assert_int_equal(remove(scratch_path("source.spm")) | remove(scratch_path("vocab.json")), 0);
    tfm_model_info info;
    harness_ok(tfm_model_read_info(&info, scratch_root, &(tfm_model_options){.no_tokenizer = true}));
    assert_true(info.parameters > 0);
    refused_as(TFM_ERROR_IO, "vocab.json");
}

/* The model's translation of a line. */
static const char *translated(const char *line) {
    tfm_model *model = opened();
    harness_ok(tfm_translate(model, &line, 1, NULL, on_text, NULL));
    tfm_model_free(&model);
    return emitted[0];
}

static void test_vocabulary_that_does_not_fit_is_rejected(void **state) {
    (void)state;
    const int pad = demo_number("pad_token_id");
    char text[128];
    snprintf(text, sizeof(text),
             "{\"</s>\": 0, \"<unk>\": 1, \"\xe2\x96\x81"
             "das\": 2, \"<pad>\": %d}",
             pad);
    scratch_model("apps/demo");
    scratch_text("vocab.json", text);
    refused("no piece in the vocabulary");
    scratch_model("apps/demo");
    set_number("config.json", "pad_token_id", pad, 5);
    set_number("generation_config.json", "pad_token_id", pad, 5);
    snprintf(text, sizeof(text), "<pad> is id %d", pad);
    refused(text);
    /* The target vocabulary may have another id for it. */
    scratch_model("tests/golden/untied-gelu-bf16");
    scratch_copy("tests/golden/untied-gelu-bf16/target_vocab.json", "target_vocab.json");
    scratch_edit("target_vocab.json", "\"<pad>\": 61", "\"l\": 61");
    scratch_edit("target_vocab.json", "\"l\": 2,", "\"<pad>\": 2,");
    assert_true(*translated("the bird"));
}

/* A model saved without its head: the same names without prefix, also for stored positions. */
static void test_weights_without_model_prefix_load(void **state) {
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

/* The same weights in PyTorch files give the same text. */
static void test_torch_weights_give_the_same_translation(void **state) {
    (void)state;
    static const char *const FILES[] = {"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
                                        "pytorch_model-00002-of-00002.bin"};
    scratch_model("tests/golden/prenorm-embedding-norm");
    char *want = strdup(translated("the bird"));
    assert_int_equal(remove(scratch_path("model.safetensors")), 0);
    for (size_t i = 0; i < sizeof(FILES) / sizeof(*FILES); i++) {
        char from[256];
        snprintf(from, sizeof(from), "tests/golden/torch/%s", FILES[i]);
        scratch_copy(from, FILES[i]);
    }
    assert_true(*want);
    assert_string_equal(translated("the bird"), want);
    free(want);
}

static void test_translate_and_score_reject_bad_arguments(void **state) {
    (void)state;
    scratch_model("apps/demo");
    tfm_model *model = opened();
    char *source = demo_line("test.de", 6), *translation = demo_line("beam4.en", 6);
    const char *lines[] = {" \t ", "Ja.", source}, *prefixes[] = {NULL, "\xff", NULL};
    size_t rejected = 99;
    harness_ok(tfm_translate_lines(
        model, lines, 3, &(tfm_text_options){.prefixes = prefixes, .reject = on_reject, .reject_user = &rejected}, NULL,
        on_translation, NULL));
    assert_int_equal(rejected, 1);
    assert_string_equal(emitted[0], "");
    assert_string_equal(emitted[1], "");
    assert_string_equal(emitted[2], translation);
    harness_refused(tfm_translate(model, lines, 1, &(tfm_search_options){.beam_size = 999}, on_text, NULL),
                    TFM_ERROR_ARGUMENT, "beam_size is 999");
    harness_refused(tfm_translate(model, lines, 1,
                                  &(tfm_search_options){.has_length_penalty = true, .length_penalty = 1e5}, on_text,
                                  NULL),
                    TFM_ERROR_ARGUMENT, "length_penalty");
    tfm_model_free(&model);
    free(translation);
    free(source);
}

/* The directory's forced first token comes before the caller's prefix. */
static void test_forced_bos_precedes_the_prefix(void **state) {
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
    harness_ok(tfm_search(model, &found, source, &count, 1, NULL, NULL, &(tfm_search_options){.beam_size = 1}));
    assert_true(found.items[0].count >= 1 && found.items[0].ids[0] == 17);
    tfm_hypotheses_free(&found);
    tfm_model_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nan_weights_are_reported, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_config_that_does_not_fit_weights_is_rejected, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_replaced_model_files_are_rejected, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_directory_without_weights_says_what_it_holds, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_truncated_or_misshaped_weights_are_rejected, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(test_vocabulary_that_does_not_fit_is_rejected, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_weights_without_model_prefix_load, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_torch_weights_give_the_same_translation, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_translate_and_score_reject_bad_arguments, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_forced_bos_precedes_the_prefix, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
