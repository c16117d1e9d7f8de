/* Hugging Face tokenizers against `tokenizers` and transformers on the same lines. */
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "support/harness.h"
#include "model/tasks/incremental_detokenizer.h"
#include "support/scratch.h"
#include "tfm/text.h"

static json_t *load(const char *dir, const char *name) {
    json_t *value;
    char *path = tfm__path_join(dir, name);
    harness_ok(tfm__json_load(&value, path));
    free(path);
    return value;
}

/* Whether ids equal the list; reports the wrong line. */
static void compare_ids(const char *dir, const char *what, size_t number, const json_t *want, const int32_t *ids,
                        size_t count) {
    size_t i = 0;
    while (i < count && i < json_array_size(want) && ids[i] == json_integer_value(json_array_get(want, i)))
        i++;
    if (i != count || i != json_array_size(want))
        fail_msg("%s: %s of line %zu: %zu ids, expected %zu; id %zu is %d, expected %d", dir, what, number, count,
                 json_array_size(want), i, i < count ? (int)ids[i] : -1,
                 (int)json_integer_value(json_array_get(want, i)));
}

/* A line encoded as source, or as target; only multilingual models differ. */
static void compare_line(const tfm_tokenizer *tokenizer, const char *dir, size_t number, const char *line,
                         const json_t *expected, tfm_side side) {
    const bool target = side == TFM_TARGET;
    const json_t *wanted = json_object_get(expected, target ? "target_ids" : "ids");
    const tfm_encode_options options = {.language =
                                            json_string_value(json_object_get(expected, target ? "target" : "source"))};
    int32_t *ids;
    size_t count;
    char *text;
    harness_ok(tfm_tokenizer_encode_with(tokenizer, &ids, &count, side, line, strlen(line), &options));
    compare_ids(dir, target ? "target ids" : "ids", number, json_array_get(wanted, number), ids, count);
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    const char *want = json_string_value(json_array_get(json_object_get(expected, "texts"), number));
    if (strcmp(text, want) != 0)
        fail_msg("%s: the text of line %zu is \"%s\", expected \"%s\"", dir, number, text, want);
    tfm_text_free(&text);
    tfm_ids_free(&ids);
}

/* Lines 30 to 39 without special tokens, and with the next line as a pair. */
static void compare_other(const tfm_tokenizer *tokenizer, const char *dir, const json_t *lines,
                          const json_t *expected) {
    for (size_t i = 0; i < json_array_size(json_object_get(expected, "plain")); i++) {
        const char *line = json_string_value(json_array_get(lines, 30 + i));
        const char *next = json_string_value(json_array_get(lines, 31 + i));
        int32_t *ids;
        size_t count;
        harness_ok(tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line),
                                             &(tfm_encode_options){.no_special_tokens = true}));
        compare_ids(dir, "plain ids", 30 + i, json_array_get(json_object_get(expected, "plain"), i), ids, count);
        tfm_ids_free(&ids);
        if (!json_object_get(expected, "pairs"))
            continue;
        harness_ok(
            tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_TARGET, line, strlen(line),
                                      &(tfm_encode_options){.text_pair = next, .text_pair_bytes = strlen(next)}));
        compare_ids(dir, "ids of a pair", 30 + i, json_array_get(json_object_get(expected, "pairs"), i), ids, count);
        tfm_ids_free(&ids);
    }
}

static void compare(const char *root, const char *name) {
    char *dir = tfm__path_join(root, name);
    json_t *all = load(root, "lines.json"), *expected = load(dir, "expected.json");
    const json_t *lines = json_object_get(all, "lines");
    tfm_tokenizer *tokenizer;
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    const json_int_t given = json_integer_value(json_object_get(expected, "every"));
    const size_t every = given ? (size_t)given : 1, count = (json_array_size(lines) + every - 1) / every;
    assert_true(json_array_size(lines) > 200 && json_array_size(json_object_get(expected, "ids")) == count);
    for (size_t i = 0; i < count; i++)
        for (int side = TFM_SOURCE; side <= (json_object_get(expected, "target") ? TFM_TARGET : TFM_SOURCE); side++)
            compare_line(tokenizer, name, i, json_string_value(json_array_get(lines, i * every)), expected,
                         (tfm_side)side);
    compare_other(tokenizer, name, lines, expected);
    tfm_tokenizer_free(&tokenizer);
    json_decref(all);
    json_decref(expected);
    free(dir);
}

/* The folder in the first argument, as made by golden/make_tokenizers.py, or the one in the repository. */
static char *folder;

static char *root_folder(void) {
    return folder ? tfm__strdup(folder) : harness_source("tests/golden/tokenizers");
}

static void test_tokenizer_json_of_every_kind_matches_tokenizers(void **state) {
    static const char *const KINDS[] = {"gpt2",    "llama3",        "roberta", "bert",  "wordpiece",
                                        "unigram", "unigram_bytes", "llama2",  "gemma", "suffix",
                                        "prefix",  "words",         "classes"};
    char *root = root_folder();
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++)
        compare(root, KINDS[i]);
    free(root);
}

/* Letters of added tokens that map to bytes elsewhere stay letters, also if a trainer put the token into the
 * vocabulary; a piece of the model is bytes. */
static void test_added_tokens_keep_byte_letters(void **state) {
    (void)state;
    static const char *const ADDED[] = {"<\xc4\x8d>",
                                        "\xc4\x8d"
                                        "au",
                                        "\xc4\xa0"
                                        "qx",
                                        "[\xc4\x8d]", "\xc4\xa0"};
    static const char *const TEXTS[] = {"a[\xc4\x8d] b", "a<\xc4\x8d>b",
                                        "y \xc4\x8d"
                                        "au z",
                                        "\xc4\xa0"
                                        "qx",
                                        "the quick \xc4\x8d"};
    scratch_copy("tests/golden/tokenizers/gpt2/tokenizer.json", "tokenizer.json");
    scratch_text("tokenizer_config.json", "{}");
    json_t *root = load(scratch_root, "tokenizer.json"), *list = json_object_get(root, "added_tokens");
    json_t *vocabulary = json_object_get(json_object_get(root, "model"), "vocab");
    json_object_set_new(vocabulary, ADDED[3], json_integer(900));
    for (size_t i = 0; i < TFM__COUNT(ADDED); i++)
        json_array_append_new(list, json_pack("{s:s, s:b}", "content", ADDED[i], "normalized", 0));
    char *text = json_dumps(root, 0);
    scratch_text("tokenizer.json", text);
    free(text);
    json_decref(root);
    tfm_tokenizer *tokenizer;
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
    for (size_t i = 0; i < TFM__COUNT(TEXTS); i++) {
        int32_t *ids;
        size_t count;
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, TEXTS[i], strlen(TEXTS[i])));
        harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
        assert_string_equal(text, TEXTS[i]);
        tfm_text_free(&text);
        tfm_ids_free(&ids);
    }
    tfm_tokenizer_free(&tokenizer);
}

/* Files older than tokenizer.json. */
static void test_older_tokenizer_files_match_transformers(void **state) {
    static const char *const KINDS[] = {"bert",      "mpnet", "gpt2",    "roberta", "qwen2", "t5",    "pegasus", "xlmr",
                                        "camembert", "mbart", "mbart50", "nllb",    "llama", "gemma", "m2m100"};
    char *root = root_folder();
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++) {
        char name[32];
        snprintf(name, sizeof(name), "older_%s", KINDS[i]);
        compare(root, name);
    }
    free(root);
}

/* BERT's classes build their normalizer from tokenizer_config.json; the ids are transformers' for the same files. */
static void test_bert_classes_set_the_normalizer(void **state) {
    (void)state;
    static const char line[] = "Été Ünï 日本 TEST abc";
    static const struct {
        const char *config;
        int32_t ids[16];
    } CASES[] = {
        {"{\"tokenizer_class\": \"BertTokenizer\"}", {2, 452, 248, 461, 246, 232, 234, 460, 441, 25, 351, 293, 3}},
        {"{\"tokenizer_class\": \"BertTokenizer\", \"do_lower_case\": false}", {2, 1, 1, 232, 234, 1, 25, 351, 293, 3}},
        {"{\"tokenizer_class\": \"DistilBertTokenizerFast\", \"strip_accents\": false}",
         {2, 1, 1, 232, 234, 460, 441, 25, 351, 293, 3}},
        {"{\"tokenizer_class\": \"ElectraTokenizer\", \"tokenize_chinese_chars\": false}",
         {2, 452, 248, 461, 246, 1, 460, 441, 25, 351, 293, 3}},
        {"{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"do_lower_case\": false}",
         {2, 452, 248, 461, 246, 232, 234, 460, 441, 25, 351, 293, 3}},
    };
    scratch_copy("tests/golden/tokenizers/bert/tokenizer.json", "tokenizer.json");
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        tfm_tokenizer *tokenizer;
        int32_t *ids;
        size_t count, want = 0;
        scratch_text("tokenizer_config.json", CASES[i].config);
        harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
        while (want < TFM__COUNT(CASES[i].ids) && CASES[i].ids[want])
            want++;
        assert_int_equal(count, want);
        assert_memory_equal(ids, CASES[i].ids, count * sizeof(*ids));
        tfm_ids_free(&ids);
        tfm_tokenizer_free(&tokenizer);
    }
}

/* An added token becomes special by its role, not by a list of special tokens. */
static void test_added_token_is_special_by_its_own_name_only(void **state) {
    (void)state;
    tfm_tokenizer *tokenizer;
    int32_t *ids;
    size_t count;
    char *text;
    static const char line[] = "the river, harbour";
    scratch_copy("tests/golden/tokenizers/gpt2/tokenizer.json", "tokenizer.json");
    scratch_text("tokenizer_config.json", "{\"extra_special_tokens\": [\"river\"], \"additional_special_tokens\": "
                                          "[\"river\"], \"pad_token\": \"harbour\"}");
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    assert_string_equal(text, "the river, ");
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    tfm_tokenizer_free(&tokenizer);
    /* Special tokens are plain text if the file says so. */
    scratch_text("tokenizer_config.json", "{\"pad_token\": \"harbour\", \"split_special_tokens\": true}");
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    assert_string_equal(text, line);
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    tfm_tokenizer_free(&tokenizer);
}

/* A token of tokenizer.json keeps its flags if a named role differs; added_tokens_decoder overrides them. */
static void test_tokenizer_json_flags_precede_token_names(void **state) {
    (void)state;
    static const char *const CONFIGS[] = {
        "{\"tokenizer_class\": \"RobertaTokenizer\"}",
        "{\"tokenizer_class\": \"RobertaTokenizer\", \"mask_token\": {\"content\": \"<mask>\", \"lstrip\": false, "
        "\"rstrip\": true}}",
        "{\"tokenizer_class\": \"RobertaTokenizer\", \"added_tokens_decoder\": {\"380\": {\"content\": \"<mask>\", "
        "\"lstrip\": false, \"rstrip\": true, \"special\": true}}}"};
    static const char line[] = "the <mask> the";
    int32_t *ids[TFM__COUNT(CONFIGS)];
    size_t counts[TFM__COUNT(CONFIGS)];
    scratch_copy("tests/golden/tokenizers/roberta/tokenizer.json", "tokenizer.json");
    for (size_t i = 0; i < TFM__COUNT(CONFIGS); i++) {
        tfm_tokenizer *tokenizer;
        scratch_text("tokenizer_config.json", CONFIGS[i]);
        harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids[i], &counts[i], TFM_SOURCE, line, strlen(line)));
        tfm_tokenizer_free(&tokenizer);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(ids[0], ids[1], counts[0] * sizeof(int32_t));
    assert_true(counts[2] != counts[0] || memcmp(ids[0], ids[2], counts[0] * sizeof(int32_t)) != 0);
    for (size_t i = 0; i < TFM__COUNT(CONFIGS); i++)
        tfm_ids_free(&ids[i]);
}

/* Script classes are exact: a full stop shared with Han is not Han. */
static void test_unicode_script_excludes_shared_punctuation(void **state) {
    (void)state;
    static const char *const PATTERNS[] = {"\\\\p{Han}+", "[^\\\\P{Han}]+", "\\\\P{^Han}+", "[\\\\p{Han}\\\\p{Thai}]+"};
    for (size_t i = 0; i < TFM__COUNT(PATTERNS); i++) {
        tfm_tokenizer *tokenizer;
        int32_t *ids;
        size_t count;
        char *file =
            tfm__format("{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", \"vocab\": {\"<unk>\": "
                        "0, \"東京\": 1, \"。\": 2}}, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                        "{\"Regex\": \"%s\"}, \"behavior\": \"Isolated\", \"invert\": false}}",
                        PATTERNS[i]);
        scratch_text("tokenizer.json", file);
        scratch_text("tokenizer_config.json", "{}");
        harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "東京。", strlen("東京。")));
        assert_int_equal(count, 2);
        assert_true(ids[0] == 1 && ids[1] == 2);
        tfm_ids_free(&ids);
        tfm_tokenizer_free(&tokenizer);
        free(file);
    }
}

/* A built-in language of the class works without its added token; another word is no language. */
static void test_class_language_without_added_token_is_known(void **state) {
    (void)state;
    tfm_tokenizer *tokenizer;
    int32_t *ids;
    size_t count;
    scratch_text("tokenizer.json",
                 "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", \"vocab\": {\"<unk>\": 0, "
                 "\"</s>\": 1, \"de_DE\": 2, \"the\": 3}}, \"pre_tokenizer\": {\"type\": "
                 "\"WhitespaceSplit\"}}");
    scratch_text("tokenizer_config.json", "{\"tokenizer_class\": \"MBartTokenizer\", \"src_lang\": \"de_DE\"}");
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, "the", 3));
    assert_int_equal(count, 3);
    assert_true(ids[0] == 3 && ids[1] == 1 && ids[2] == 2);
    tfm_ids_free(&ids);
    harness_refused(tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_SOURCE, "the", 3,
                                              &(tfm_encode_options){.language = "the"}),
                    TFM_ERROR_ARGUMENT, "has no language \"the\"");
    tfm_tokenizer_free(&tokenizer);
}

/* ---- Incremental detokenization ----------------------------------------------------------------------- */

/* The text after each id has whole, final characters, and in the end equals the text of all ids. */
static void speak(const tfm_tokenizer *tokenizer, const char *name, const int32_t *ids, size_t count) {
    tfm__incremental_detokenizer detokenizer;
    char *whole, *said = tfm__strdup("");
    harness_ok(tfm_tokenizer_decode(tokenizer, &whole, ids, count));
    harness_ok(tfm__incremental_detokenizer_begin(&detokenizer, tokenizer, NULL, 0, NULL, 0));
    for (size_t i = 0; i <= count; i++) {
        harness_ok(i < count ? tfm__incremental_detokenizer_push(&detokenizer, ids[i])
                             : tfm__incremental_detokenizer_finish(&detokenizer));
        const size_t final = tfm__incremental_detokenizer_final_bytes(&detokenizer, i == count);
        if (tfm_text_check(detokenizer.text, final) != TFM_OK || final < strlen(said) ||
            memcmp(said, detokenizer.text, strlen(said)) != 0)
            fail_msg("%s: after %zu ids the text was \"%s\", then \"%.*s\"", name, i, said, (int) final,
                     detokenizer.text);
        free(said);
        said = tfm__format("%.*s", (int) final, detokenizer.text);
    }
    if (strcmp(said, whole) != 0)
        fail_msg("%s: got \"%s\" of \"%s\"", name, said, whole);
    tfm__incremental_detokenizer_free(&detokenizer);
    tfm_text_free(&whole);
    free(said);
}

/* Tokens that are parts of a character: of real texts, and random tokens, mostly invalid bytes. */
static void test_incremental_detokenizer_handles_split_characters(void **state) {
    static const char *const KINDS[] = {"gpt2", "llama2", "older_gemma", "unigram_bytes"};
    (void)state;
    for (size_t k = 0; k < TFM__COUNT(KINDS); k++) {
        char *root = root_folder(), *dir = tfm__path_join(root, KINDS[k]);
        json_t *all = load(root, "lines.json");
        const json_t *lines = json_object_get(all, "lines");
        tfm_tokenizer *tokenizer;
        harness_ok(tfm_tokenizer_open(&tokenizer, dir));
        const int32_t size = tfm_tokenizer_get_info(tokenizer)->source_size;
        tfm__random draw = tfm__random_new(7, k);
        for (size_t i = 0; i < json_array_size(lines); i++) {
            const char *line = json_string_value(json_array_get(lines, i));
            int32_t *ids, any[24];
            size_t count;
            harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
            speak(tokenizer, KINDS[k], ids, count);
            tfm_ids_free(&ids);
            for (size_t n = 0; n < TFM__COUNT(any); n++) /* half of them from the byte tokens */
                any[n] = (int32_t)tfm__random_below(&draw, (uint64_t)(n & 1 ? size : 262));
            speak(tokenizer, KINDS[k], any, TFM__COUNT(any));
        }
        tfm_tokenizer_free(&tokenizer);
        json_decref(all);
        free(dir);
        free(root);
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokenizer_json_of_every_kind_matches_tokenizers),
                                       cmocka_unit_test(test_older_tokenizer_files_match_transformers),
                                       cmocka_unit_test(test_incremental_detokenizer_handles_split_characters),
                                       cmocka_unit_test(test_added_token_is_special_by_its_own_name_only),
                                       cmocka_unit_test(test_tokenizer_json_flags_precede_token_names),
                                       cmocka_unit_test(test_unicode_script_excludes_shared_punctuation),
                                       cmocka_unit_test(test_bert_classes_set_the_normalizer),
                                       cmocka_unit_test(test_class_language_without_added_token_is_known),
                                       cmocka_unit_test(test_added_tokens_keep_byte_letters)};
    if (count > 1) {
        folder = arguments[1];
        return _cmocka_run_group_tests("lines", tests, 3, scratch_setup, scratch_teardown);
    }
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
