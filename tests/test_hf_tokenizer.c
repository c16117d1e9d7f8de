/* Tokenizers of Hugging Face's files against what `tokenizers` and transformers make of the same lines. */
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "harness.h"
#include "scratch.h"
#include "tfm/text.h"

static json_t *load(const char *dir, const char *name) {
    json_t *value;
    char *path = tfm__path_join(dir, name);
    harness_ok(tfm__json_load(&value, path));
    free(path);
    return value;
}

/* Whether ids are those of a list; says which line is wrong. */
static void compare_ids(const char *dir, const char *what, size_t number, const json_t *want, const int32_t *ids,
                        size_t count) {
    size_t i = 0;
    while (i < count && i < json_array_size(want) && ids[i] == json_integer_value(json_array_get(want, i)))
        i++;
    if (i != count || i != json_array_size(want))
        fail_msg("%s: %s of line %zu: %zu ids for %zu, and id %zu is %d for %d", dir, what, number, count,
                 json_array_size(want), i, i < count ? (int)ids[i] : -1,
                 (int)json_integer_value(json_array_get(want, i)));
}

static void compare_line(const tfm_tokenizer *tokenizer, const char *dir, size_t number, const char *line,
                         const json_t *expected) {
    int32_t *ids;
    size_t count;
    char *text;
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
    compare_ids(dir, "ids", number, json_array_get(json_object_get(expected, "ids"), number), ids, count);
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    const char *want = json_string_value(json_array_get(json_object_get(expected, "texts"), number));
    if (strcmp(text, want) != 0)
        fail_msg("%s: the text of line %zu is \"%s\" for \"%s\"", dir, number, text, want);
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
                                             &(tfm_encode_options){.plain = true}));
        compare_ids(dir, "plain ids", 30 + i, json_array_get(json_object_get(expected, "plain"), i), ids, count);
        tfm_ids_free(&ids);
        if (!json_object_get(expected, "pairs"))
            continue;
        harness_ok(tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_TARGET, line, strlen(line),
                                             &(tfm_encode_options){.pair = next, .pair_bytes = strlen(next)}));
        compare_ids(dir, "ids of a pair", 30 + i, json_array_get(json_object_get(expected, "pairs"), i), ids, count);
        tfm_ids_free(&ids);
    }
}

static void compare(const char *name) {
    char *root = harness_source("tests/golden/tokenizers"), *dir = tfm__path_join(root, name);
    json_t *all = load(root, "lines.json"), *expected = load(dir, "expected.json");
    const json_t *lines = json_object_get(all, "lines");
    tfm_tokenizer *tokenizer;
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    assert_true(json_array_size(lines) > 200 &&
                json_array_size(json_object_get(expected, "ids")) == json_array_size(lines));
    for (size_t i = 0; i < json_array_size(lines); i++)
        compare_line(tokenizer, name, i, json_string_value(json_array_get(lines, i)), expected);
    compare_other(tokenizer, name, lines, expected);
    tfm_tokenizer_free(&tokenizer);
    json_decref(all);
    json_decref(expected);
    free(dir);
    free(root);
}

static void test_kinds(void **state) {
    static const char *const KINDS[] = {"gpt2",          "llama3", "roberta", "bert",   "wordpiece", "unigram",
                                        "unigram_bytes", "llama2", "gemma",   "suffix", "prefix",    "words"};
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++)
        compare(KINDS[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
