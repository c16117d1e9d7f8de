/* The fast reader of a byte-pair tokenizer.json against the general one. */
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "support/harness.h"
#include "support/scratch.h"
#include "text/hf_scan.h"

/* The ids of a word. */
static void encode(tfm__id_buffer *ids, const tfm__subword_model *model, const char *word) {
    tfm__scratch scratch = {0};
    ids->count = 0;
    harness_ok(model->encode_word(model, ids, word, strlen(word), &scratch));
    free(scratch.memory);
}

/* Fails unless both models have the same pieces and encode each piece to the same ids. */
static void compare_models(const tfm__subword_model *a, const tfm__subword_model *b) {
    tfm__id_buffer left = {0}, right = {0};
    const int32_t size = tfm__token_map_size(a->token_map);
    assert_int_equal(size, tfm__token_map_size(b->token_map));
    assert_int_equal(a->unk, b->unk);
    for (int32_t id = 0; id < size; id++) {
        const char *piece = tfm__token_map_piece(a->token_map, id, NULL),
                   *other = tfm__token_map_piece(b->token_map, id, NULL);
        assert_int_equal(piece == NULL, other == NULL);
        if (!piece)
            continue;
        assert_string_equal(piece, other);
        if (!*piece)
            continue;
        encode(&left, a, piece);
        encode(&right, b, piece);
        assert_int_equal(left.count, right.count);
        for (size_t i = 0; i < left.count; i++)
            assert_int_equal(left.ids[i], right.ids[i]);
    }
    free(left.ids);
    free(right.ids);
}

/* Whether the fast reader takes the file; then the general one does, with the same model and sections. */
static bool scans(const char *path) {
    tfm__subword_model fast = {0}, general = {0};
    json_t *root, *whole, *other;
    if (!tfm__hf_scan(&root, &fast, path)) {
        assert_true(!root && !fast.token_map && !fast.self);
        return false;
    }
    harness_ok(tfm__json_load(&whole, path));
    harness_ok(tfm__subword_model_read(&general, json_object_get(whole, "model"), path));
    compare_models(&fast, &general);
    other = json_object_get(whole, "model");
    assert_int_equal(json_object_size(json_object_get(json_object_get(root, "model"), "vocab")), 0);
    json_object_set_new(other, "vocab", json_object());
    json_object_set_new(other, "merges", json_array());
    assert_true(json_equal(root, whole));
    json_decref(root);
    json_decref(whole);
    tfm__subword_model_free(&fast);
    tfm__subword_model_free(&general);
    return true;
}

static bool scans_text(const char *text, size_t bytes) {
    char *path = tfm__path_join(scratch_root, "tokenizer.json");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    const bool taken = scans(path);
    free(path);
    return taken;
}

static void test_byte_pair_files_are_read_as_by_the_general_reader(void **state) {
    static const char *const KINDS[] = {"gpt2", "llama3", "roberta", "llama2", "gemma", "suffix", "prefix"};
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++) {
        char name[128];
        snprintf(name, sizeof(name), "tests/golden/tokenizers/%s/tokenizer.json", KINDS[i]);
        char *path = harness_source(name);
        if (!scans(path))
            fail_msg("%s is not read by the fast reader", path);
        free(path);
    }
}

/* Escapes in keys, pieces and merges; both forms of merges; members in any order around the model. */
static const char FILE_TEXT[] =
    "{\"a\": [1, {\"b\": \"]}\\\"\"}], \"mod\\u0065l\": {\"type\": \"BPE\", \"unk_token\": \"\\u00fc\", \"vocab\": "
    "{\"a\": 0, \"\\n\": 1, \"\\ud83d\\ude00\": 2,\t\"\xc3\xbc\":3, \"\\\"\":4, \"a\\n\": 5, \"\\\"\\ud83d\\ude00\" : "
    "6, "
    "\"a\\na\": 7}, \"merges\": [\"a \\n\", [\"\\\"\", \"\\uD83D\\uDE00\"], [\"a\\n\", \"a\"]], \"dropout\": null}, "
    "\"z\": -1.5e3}\n";

static void test_escapes_are_decoded(void **state) {
    (void)state;
    assert_true(scans_text(FILE_TEXT, strlen(FILE_TEXT)));
}

/* Whatever the fast reader takes, the general one takes too: `scans` fails otherwise. */
static void test_damaged_file_is_left_to_the_general_reader(void **state) {
    static const char BYTES[] = "\"\\{}[],: 0z\x01\xc3\xff";
    const size_t size = strlen(FILE_TEXT);
    size_t taken = 0;
    char text[sizeof(FILE_TEXT)];
    (void)state;
    for (size_t at = 0; at + 1 < size; at++)
        assert_false(scans_text(FILE_TEXT, at));
    for (size_t at = 0; at < size; at++)
        for (size_t i = 0; i < sizeof(BYTES); i++) { /* NUL too */
            memcpy(text, FILE_TEXT, sizeof(text));
            text[at] = BYTES[i];
            taken += scans_text(text, size);
        }
    assert_true(taken > 0 && taken < size * sizeof(BYTES) / 2);
}

static void test_unusual_file_is_left_to_the_general_reader(void **state) {
    static const char *const TEXTS[] = {
        "{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 01}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 16777216}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 99999999999}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 1.0}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"\\ud800\": 0}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"\\u0000\": 0}, \"merges\": []}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a a\"]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}",
        "{\"model\": {\"merges\": [], \"vocab\": {\"a\": 0}}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}",
        "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
        "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}}",
        "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}} x",
    };
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(TEXTS); i++)
        if (scans_text(TEXTS[i], strlen(TEXTS[i])))
            fail_msg("the fast reader takes %s", TEXTS[i]);
    assert_true(scans_text("{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}", 44));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_byte_pair_files_are_read_as_by_the_general_reader),
                                       cmocka_unit_test(test_escapes_are_decoded),
                                       cmocka_unit_test(test_damaged_file_is_left_to_the_general_reader),
                                       cmocka_unit_test(test_unusual_file_is_left_to_the_general_reader)};
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
