/* The bytes of tokens for constrained decoding: together those of the decoded text. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "support/harness.h"
#include "text/bytes.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

static void add_token(tfm__bytes *out, const tfm__token_trie *trie, int32_t id) {
    tfm__bytes_add(out, (const char *)trie->bytes + trie->begin[id], trie->begin[id + 1] - trie->begin[id]);
}

static bool ends_with(const char *name, const char *end) {
    return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static size_t blanks(const char *text) {
    return strspn(text, " ");
}

/* The length without blanks at the end. */
static size_t trimmed(const char *text) {
    size_t bytes = strlen(text);
    while (bytes && text[bytes - 1] == ' ')
        bytes--;
    return bytes;
}

/* Whether the tokens of a line have the bytes of its decoded text; unless `exact`, apart from blanks at both ends. */
static bool agrees(const tfm_tokenizer *tokenizer, const tfm__token_trie *trie, const char *line, bool exact) {
    int32_t *ids;
    size_t count;
    char *text;
    tfm__bytes all = {0};
    harness_ok(tfm_tokenizer_encode_with(tokenizer, &ids, &count, TFM_TARGET, line, strlen(line),
                                         &(tfm_encode_options){.no_special_tokens = true}));
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    for (size_t i = 0; i < count; i++)
        add_token(&all, trie, ids[i]);
    char *joined = tfm__bytes_take(&all);
    const char *x = joined + (exact ? 0 : blanks(joined)), *y = text + (exact ? 0 : blanks(text));
    const size_t bytes = exact ? strlen(x) : trimmed(x);
    const bool same = bytes == (exact ? strlen(y) : trimmed(y)) && memcmp(x, y, bytes) == 0;
    if (!same)
        print_error("\"%s\" has the bytes \"%s\" and the text \"%s\"\n", line, joined, text);
    free(joined);
    tfm_text_free(&text);
    tfm_ids_free(&ids);
    return same;
}

static int compare_lines(const char *dir, const json_t *lines) {
    tfm_tokenizer *tokenizer;
    tfm__token_trie *trie;
    int wrong = 0;
    size_t i;
    const json_t *line;
    const bool exact =
        ends_with(dir, "gpt2") || ends_with(dir, "llama3") || ends_with(dir, ".gguf") || ends_with(dir, "qwen2");
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    const tfm_tokenizer_info *info = tfm_tokenizer_get_info(tokenizer);
    const size_t size = (size_t)info->target_size;
    harness_ok(tfm__tokenizer_token_trie(&trie, tokenizer, size + 7)); /* padded, as logits are */
    assert_int_equal(trie->vocabulary, size + 7);
    assert_int_equal(trie->begin[size], trie->begin[size + 7]);
    const int32_t special[] = {info->bos, info->cls, info->sep, info->mask, info->target_eos, info->target_pad};
    for (i = 0; i < TFM__COUNT(special); i++)
        if (special[i] >= 0)
            assert_int_equal(trie->begin[special[i]], trie->begin[special[i] + 1]);
    assert_true(json_array_size(lines) > 200);
    json_array_foreach(lines, i, line) wrong += !agrees(tokenizer, trie, json_string_value(line), exact);
    if (wrong)
        print_error("%s: %d of %zu lines differ\n", dir, wrong, json_array_size(lines));
    tfm__token_trie_free(&trie);
    tfm_tokenizer_free(&tokenizer);
    return wrong;
}

/* A tokenizer directory or GGUF file in the first argument, which is compared too. */
static const char *another;

static void test_token_bytes_of_every_kind_are_those_of_the_text(void **state) {
    (void)state;
    json_t *lines;
    char *file = harness_source("tests/golden/tokenizers/lines.json"),
         *root = harness_source("tests/golden/tokenizers");
    DIR *folder = opendir(root);
    int wrong = 0, kinds = 0;
    char *bytes;
    size_t size;
    harness_ok(tfm__file_read(&bytes, &size, file));
    harness_ok(tfm__json_read(&lines, bytes, size, file));
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char dir[4096];
        snprintf(dir, sizeof(dir), "%s/%s", root, entry->d_name);
        /* `classes` has special tokens whose normalized form decodes to a text. */
        if (entry->d_name[0] == '.' || ends_with(entry->d_name, ".json") || strcmp(entry->d_name, "classes") == 0)
            continue;
        wrong += compare_lines(dir, json_object_get(lines, "lines"));
        kinds++;
    }
    closedir(folder);
    if (another)
        wrong += compare_lines(another, json_object_get(lines, "lines"));
    json_decref(lines);
    free(bytes);
    free(file);
    free(root);
    assert_true(kinds >= 20);
    assert_int_equal(wrong, 0);
}

static void test_token_bytes_of_marian_are_those_of_the_text(void **state) {
    (void)state;
    char *dir = harness_source("tests/golden/untied-gelu-bf16");
    tfm_tokenizer *tokenizer;
    tfm__token_trie *trie;
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    harness_ok(tfm__tokenizer_token_trie(&trie, tokenizer, (size_t)tfm_tokenizer_get_info(tokenizer)->target_size));
    assert_true(agrees(tokenizer, trie, "the old house", false));
    const int32_t eos = tfm_tokenizer_get_info(tokenizer)->target_eos;
    assert_int_equal(trie->begin[eos], trie->begin[eos + 1]);
    tfm__token_trie_free(&trie);
    tfm_tokenizer_free(&tokenizer);
    free(dir);
}

int main(int argc, char **argv) {
    another = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_bytes_of_marian_are_those_of_the_text),
        cmocka_unit_test(test_token_bytes_of_every_kind_are_those_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
