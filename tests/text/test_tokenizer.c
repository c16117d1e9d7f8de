/* The tokenizer of a Marian directory. */
#include "model/weights/weight_file.h"
#include "support/demo.h"
#include "text/vocab.h"
#include "tfm/text.h"

/* The demo's vocabulary with reversed ids except </s>, <unk> and <pad>, so that they are neither in SentencePiece's nor
 * in file order. */
static json_t *vocabulary;
static int entries;

static int setup(void **state) {
    const char *piece;
    json_t *id;
    vocabulary = demo_json("vocab.json");
    entries = (int)json_object_size(vocabulary);
    json_object_foreach(vocabulary, piece, id) {
        const json_int_t old = json_integer_value(id);
        if (old > 1 && old < entries - 1)
            json_integer_set(id, entries - old);
    }
    return scratch_setup(state);
}

static int teardown(void **state) {
    json_decref(vocabulary);
    return scratch_teardown(state);
}

/* The id of a piece in it. */
static int32_t id(const char *piece) {
    const json_t *found = json_object_get(vocabulary, piece);
    if (!found)
        fail_msg("the demo's vocabulary has no \"%s\"", piece);
    return (int32_t)json_integer_value(found);
}

#define BLANK "\xe2\x96\x81"
#define TOM id(BLANK "Tom")
#define IS id(BLANK "is")
#define WAITING id(BLANK "waiting")
#define FULL_STOP id(".")

/* Writes it as `name`, with all ids shifted by `shift`, and with pieces `more` (taken over) or NULL. */
static void write_vocab(const char *name, int shift, json_t *more) {
    json_t *vocab = json_deep_copy(vocabulary), *number;
    const char *piece;
    json_object_foreach(vocab, piece, number) {
        json_integer_set(number, json_integer_value(number) + shift);
    }
    assert_int_equal(more ? json_object_update(vocab, more) : 0, 0);
    assert_int_equal(json_dump_file(vocab, scratch_path(name), 0), 0);
    json_decref(more);
    json_decref(vocab);
}

/* The demo's directory with this vocabulary in the scratch folder, to be damaged there. */
static void demo(void) {
    scratch_copy("apps/demo/source.spm", "source.spm");
    scratch_copy("apps/demo/source.spm", "target.spm");
    scratch_copy("apps/demo/tokenizer_config.json", "tokenizer_config.json");
    write_vocab("vocab.json", 0, NULL);
    remove(scratch_path("target_vocab.json"));
}

static tfm_tokenizer *open_scratch(void) {
    tfm_tokenizer *tokenizer;
    harness_ok(tfm_tokenizer_open(&tokenizer, scratch_root));
    return tokenizer;
}

static tfm_tokenizer *open_demo(void) {
    tfm_tokenizer *tokenizer;
    char *dir = harness_source("apps/demo");
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    free(dir);
    return tokenizer;
}

static void encodes(const tfm_tokenizer *tokenizer, tfm_side side, const char *line, const int32_t *want,
                    size_t count) {
    int32_t *ids;
    size_t got;
    harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &got, side, line, strlen(line)));
    if (got != count || memcmp(ids, want, count * sizeof(*ids)) != 0) {
        for (size_t i = 0; i < got; i++)
            printf("%d ", ids[i]);
        fail_msg("\"%s\": wrong ids", line);
    }
    tfm_ids_free(&ids);
    assert_null(ids);
}

#define ENCODES(tokenizer, side, line, ...)                                                                            \
    encodes(tokenizer, side, line, (int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void decodes(const tfm_tokenizer *tokenizer, const char *want, size_t count, const int32_t *ids) {
    char *text;
    harness_ok(tfm_tokenizer_decode(tokenizer, &text, ids, count));
    assert_string_equal(text, want);
    tfm_text_free(&text);
    assert_null(text);
}

#define DECODES(tokenizer, want, ...)                                                                                  \
    decodes(tokenizer, want, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (int32_t[]){__VA_ARGS__})

/* The ids are those of vocab.json, whatever SentencePiece's ids are. */
static void test_demo_tokenizer_uses_vocab_json_ids(void **state) {
    (void)state;
    demo();
    tfm_tokenizer *tokenizer = open_scratch();
    const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
    assert_true(info.source_size == entries && info.target_size == entries && !info.separate);
    assert_true(info.source_eos == 0 && info.source_unk == 1 && info.source_pad == entries - 1);
    assert_true(info.target_eos == 0 && info.target_unk == 1 && info.target_pad == entries - 1);
    ENCODES(tokenizer, TFM_SOURCE, "Ich liebe dich.", id(BLANK "Ich"), id(BLANK "liebe"), id(BLANK "dich"), FULL_STOP,
            0);
    ENCODES(tokenizer, TFM_TARGET, "Tom is waiting.", TOM, IS, WAITING, FULL_STOP, 0);
    ENCODES(tokenizer, TFM_SOURCE, "", 0);
    ENCODES(tokenizer, TFM_SOURCE, " \t ", 0);
    /* SentencePiece normalizes: full-width forms, no-break spaces, runs of blanks, a combining dot. */
    ENCODES(tokenizer, TFM_SOURCE, "\xef\xbc\xb4om\xc2\xa0 is  waiting. ", TOM, IS, WAITING, FULL_STOP, 0);
    assert_string_equal(tfm_tokenizer_piece(tokenizer, TFM_SOURCE, TOM), BLANK "Tom");
    assert_null(tfm_tokenizer_piece(tokenizer, TFM_SOURCE, entries));
    assert_null(tfm_tokenizer_piece(tokenizer, TFM_TARGET, -1));

    DECODES(tokenizer, "Tom is waiting.", entries - 1, TOM, IS, WAITING, FULL_STOP);
    DECODES(tokenizer, "Tom is", TOM, IS, 0, WAITING, FULL_STOP);
    DECODES(tokenizer, "Tom is", TOM, entries - 1, IS, -5, entries + 999, 0x7fffffff);
    DECODES(tokenizer, "Tom \xe2\x81\x87 .", TOM, 1, FULL_STOP);
    decodes(tokenizer, "", 0, NULL);
    char *text;
    harness_refused(tfm_tokenizer_decode(tokenizer, &text, NULL, 1), TFM_ERROR_ARGUMENT, "ids");
    tfm_tokenizer_free(&tokenizer);
    assert_null(tokenizer);
    tfm_tokenizer_free(&tokenizer);
}

/* Whole files of the demo are restored from their ids. */
static void test_demo_files_survive_encode_and_decode(void **state) {
    (void)state;
    tfm_tokenizer *tokenizer = open_demo();
    static const char *const FILES[] = {"apps/demo/greedy.en", "apps/demo/beam4.en", "apps/demo/test.de"};
    for (size_t i = 0; i < TFM__COUNT(FILES); i++) {
        size_t size, lines = 0;
        char *text = scratch_source(FILES[i], &size);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
            int32_t *ids;
            size_t count;
            harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_TARGET, line, strlen(line)));
            decodes(tokenizer, line, count, ids);
            tfm_ids_free(&ids);
        }
        assert_int_equal(lines, 20);
        free(text);
    }
    tfm_tokenizer_free(&tokenizer);
}

/* Whether line places[i] of `text` in the directory has the golden ids `i.source_ids`, for eight lines. */
static void compare_goldens(const char *dir, const char *text_name, const int *places) {
    char *golden = tfm__path_join(dir, "golden.safetensors"), *path = tfm__path_join(dir, text_name), *text;
    tfm__weights *file;
    tfm_tokenizer *tokenizer;
    harness_ok(tfm__weights_open(&file, golden));
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    harness_ok(tfm__file_read(&text, NULL, path));
    int number = 0, compared = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), number++) {
        if (compared == 8 || number != places[compared])
            continue;
        char name[32];
        snprintf(name, sizeof(name), "%d.source_ids", compared++);
        const tfm__stored_tensor *want = tfm__weights_find(file, name);
        assert_non_null(want);
        int32_t *ids;
        size_t count;
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, strlen(line)));
        assert_int_equal(count, want->count);
        assert_memory_equal(ids, want->data, want->bytes);
        tfm_ids_free(&ids);
    }
    assert_int_equal(compared, 8);
    free(text);
    free(path);
    free(golden);
    tfm_tokenizer_free(&tokenizer);
    tfm__weights_free(&file);
}

/* Whether line i of greedy.txt is the text of `i.greedy_ids`. Lines may be empty. */
static void compare_texts(const char *dir) {
    char *golden = tfm__path_join(dir, "golden.safetensors"), *path = tfm__path_join(dir, "greedy.txt"), *text;
    tfm__weights *file;
    tfm_tokenizer *tokenizer;
    harness_ok(tfm__weights_open(&file, golden));
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    harness_ok(tfm__file_read(&text, NULL, path));
    char *rest = text;
    for (int number = 0; number < 20; number++) {
        char name[32], *line = strsep(&rest, "\n");
        assert_non_null(line);
        snprintf(name, sizeof(name), "%d.greedy_ids", number);
        const tfm__stored_tensor *ids = tfm__weights_find(file, name);
        assert_non_null(ids);
        int32_t *copy = malloc(ids->bytes);
        assert_non_null(copy);
        memcpy(copy, ids->data, ids->bytes);
        decodes(tokenizer, line, ids->count, copy);
        free(copy);
    }
    free(text);
    free(path);
    free(golden);
    tfm_tokenizer_free(&tokenizer);
    tfm__weights_free(&file);
}

/* Small models with goldens by Hugging Face's tokenizer, one with separate vocabularies. */
static void test_marian_tokenizer_matches_transformers(void **state) {
    (void)state;
    static const char *const NAMES[] = {"postnorm-relu-bias", "prenorm-embedding-norm", "prenorm-silu-f16",
                                        "untied-gelu-bf16"};
    static const int PLACES[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        char *root = harness_source("tests/golden"), *dir = tfm__path_join(root, NAMES[i]);
        compare_goldens(dir, "test.src", PLACES);
        compare_texts(dir);
        free(dir);
        free(root);
    }
}

/* The shared model, with the ids used in PyTorch. */
static void test_shared_model_ids_match_pytorch(void **state) {
    (void)state;
    static const int PLACES[] = {0, 62, 125, 187, 250, 312, 375, 437};
    char *dir = harness_shared("models/tatoeba-de-en");
    if (!dir)
        skip();
    compare_goldens(dir, "test.de", PLACES);
    free(dir);
}

static void test_invalid_utf8_and_nul_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        const char *part; /* NULL: valid */
    } CASES[] = {
        {"", 0, NULL},
        {"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10, NULL},
        {"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\xe0\xa0\x80\xf0\x90\x80\x80\xc2\x80", 19, NULL},
        {"ab\0c", 4, "byte 3 of the line is NUL"},
        {"\0", 1, "byte 1 of the line is NUL"},
        {"\0\xff", 2, "byte 1 of the line is NUL"},
        {"ab\xff", 3, "byte 3 of the line, 0xff, is not well-formed UTF-8"},
        {"a\x80", 2, "byte 2"},
        {"\xc0\x80", 2, "byte 1"},         /* overlong */
        {"\xc1\xbf", 2, "byte 1"},         /* overlong */
        {"\xe0\x9f\xbf", 3, "byte 1"},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 4, "byte 1"}, /* overlong */
        {"\xed\xa0\x80", 3, "byte 1"},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, "byte 1"}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 4, "byte 1"},
        {"ab\xc3", 3, "byte 3"},
        {"ab\xe2\x82", 4, "byte 3"},
        {"\xf0\x9f\x98", 3, "byte 1"},
        {"\xe2\x82\x41", 3, "byte 1"},
        {"\xc3\xc3\xa4", 3, "byte 1"},
    };
    tfm_tokenizer *tokenizer = open_demo();
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        /* In memory of exact size, so that a sanitizer detects a read past the end. */
        char *line = malloc(CASES[i].bytes ? CASES[i].bytes : 1);
        assert_non_null(line);
        memcpy(line, CASES[i].text, CASES[i].bytes);
        int32_t *ids;
        size_t count;
        if (CASES[i].part) {
            scratch_refused(tfm_text_check(line, CASES[i].bytes), TFM_ERROR_INPUT, CASES[i].part);
            scratch_refused(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, CASES[i].bytes),
                            TFM_ERROR_INPUT, CASES[i].part);
            assert_null(ids);
        } else {
            harness_ok(tfm_text_check(line, CASES[i].bytes));
            harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, line, CASES[i].bytes));
        }
        tfm_ids_free(&ids);
        free(line);
    }
    tfm_tokenizer_free(&tokenizer);
}

/* ---- Vocabularies ------------------------------------------------------------------------------------------------ */

static void test_language_code_prefix_is_one_token(void **state) {
    (void)state;
    demo();
    write_vocab("vocab.json", 0, json_pack("{s:i, s:i}", ">>fra<<", entries, ">>x y<<", entries + 1));
    tfm_tokenizer *tokenizer = open_scratch();
    ENCODES(tokenizer, TFM_SOURCE, ">>fra<< Tom is waiting.", entries, TOM, IS, WAITING, FULL_STOP, 0);
    ENCODES(tokenizer, TFM_SOURCE, ">>fra<<Tom is waiting.", entries, TOM, IS, WAITING, FULL_STOP, 0);
    ENCODES(tokenizer, TFM_SOURCE, ">>x y<<", entries + 1, 0);
    ENCODES(tokenizer, TFM_SOURCE, ">>ger<< Tom", 1, TOM, 0);
    int32_t *ids;
    size_t count;
    /* No text here starts with a code. */
    static const char *const PLAIN[] = {"Tom >>fra<< is", ">>fra", ">>", ">fra<<", ">><<", " >>fra<<"};
    for (size_t i = 0; i < TFM__COUNT(PLAIN); i++) {
        harness_ok(tfm_tokenizer_encode(tokenizer, &ids, &count, TFM_SOURCE, PLAIN[i], strlen(PLAIN[i])));
        for (size_t k = 0; k < count; k++)
            assert_int_not_equal(ids[k], entries);
        assert_int_not_equal(count, 1);
        tfm_ids_free(&ids);
    }
    tfm_tokenizer_free(&tokenizer);
}

/* Tokens outside SentencePiece's vocabulary have one id in any position; the text between them is encoded separately.
 * */
static void test_added_tokens_are_one_id_anywhere(void **state) {
    (void)state;
    static const char DECODER[] = "{\"added_tokens_decoder\": {\"0\": {\"content\": \"</s>\", \"special\": true},"
                                  "\"%d\": {\"content\": \">>nds<<\", \"special\": true},"
                                  "\"%d\": {\"content\": \"<name>\", \"special\": false},"
                                  "\"%d\": {\"content\": \"<name>s\"}},"
                                  "\"model_max_length\": 1000000000000000019884624838656}";
    char text[512];
    demo();
    for (int file = 0; file < 2; file++) { /* as written by current and earlier transformers */
        if (file == 0) {
            snprintf(text, sizeof(text), DECODER, entries, entries + 1, entries + 2);
            scratch_text("tokenizer_config.json", text);
        } else {
            scratch_text("tokenizer_config.json", "{}");
            snprintf(text, sizeof(text), "{\">>nds<<\": %d, \"<name>\": %d, \"<name>s\": %d}", entries, entries + 1,
                     entries + 2);
            scratch_text("added_tokens.json", text);
        }
        tfm_tokenizer *tokenizer = open_scratch();
        assert_int_equal(tfm_tokenizer_get_info(tokenizer)->source_size, entries + 3);
        assert_string_equal(tfm_tokenizer_piece(tokenizer, TFM_TARGET, entries + 1), "<name>");
        ENCODES(tokenizer, TFM_SOURCE, ">>nds<< Tom is waiting.", entries, TOM, IS, WAITING, FULL_STOP, 0);
        ENCODES(tokenizer, TFM_SOURCE, "Tom is<name>s waiting<name>.<name>", TOM, IS, entries + 2, WAITING, entries + 1,
                id(BLANK), FULL_STOP, entries + 1, 0);
        ENCODES(tokenizer, TFM_TARGET, "<name><name>", entries + 1, entries + 1, 0);
        DECODES(tokenizer, ">>nds<< Tom<name> is", entries, TOM, entries + 1, IS, 0);
        tfm_tokenizer_free(&tokenizer);
        remove(scratch_path("added_tokens.json"));
    }
    static const struct {
        const char *decoder, *part;
    } wrong[] = {
        {"{\"x\": \"<name>\"}", "tokenizer_config.json: `added_tokens_decoder` has \"<name>\" at \"x\""},
        {"{\"5000\": {}}", "has {} at \"5000\""},
        {"{\"7\": \"<name>\"}", "and \"<name>\" have the same id, 7"},
        {"{\"-1\": \"<name>\"}", "the id of \"<name>\" is -1"},
        {"{\"99999999\": \"<name>\"}", "the id of \"<name>\" is 99999999"},
        {"{\"5000\": \"\"}", "an added token is empty"},
    };
    for (size_t i = 0; i < TFM__COUNT(wrong); i++) {
        tfm_tokenizer *tokenizer;
        snprintf(text, sizeof(text), "{\"added_tokens_decoder\": %s}", wrong[i].decoder);
        scratch_text("tokenizer_config.json", text);
        scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_FORMAT, wrong[i].part);
    }
}

/* Padding is defined by the configuration: a vocabulary need not contain it. */
static void test_vocabulary_without_padding_is_accepted(void **state) {
    (void)state;
    demo();
    json_t *vocab = json_load_file(scratch_path("vocab.json"), 0, NULL);
    assert_int_equal(json_object_del(vocab, "<pad>"), 0);
    assert_int_equal(json_dump_file(vocab, scratch_path("vocab.json"), 0), 0);
    json_decref(vocab);
    tfm_tokenizer *tokenizer = open_scratch();
    assert_true(tfm_tokenizer_get_info(tokenizer)->source_pad == -1 &&
                tfm_tokenizer_get_info(tokenizer)->target_pad == -1);
    ENCODES(tokenizer, TFM_SOURCE, "Tom is waiting.", TOM, IS, WAITING, FULL_STOP, 0);
    DECODES(tokenizer, "Tom is", TOM, -1, IS, 0);
    tfm_tokenizer_free(&tokenizer);
}

/* A piece unknown to SentencePiece and the vocabulary is <unk>; one known to the vocabulary alone has its id. */
static void test_unknown_pieces_become_unk(void **state) {
    (void)state;
    demo();
    tfm_tokenizer *tokenizer = open_scratch();
    ENCODES(tokenizer, TFM_SOURCE, "Tom\xe6\xbc\xa2\xe5\xad\x97.", TOM, 1, FULL_STOP, 0);
    tfm_tokenizer_free(&tokenizer);
    write_vocab("vocab.json", 0, json_pack("{s:i}", "\xe6\xbc\xa2\xe5\xad\x97", entries));
    tokenizer = open_scratch();
    ENCODES(tokenizer, TFM_SOURCE, "Tom\xe6\xbc\xa2\xe5\xad\x97.", TOM, entries, FULL_STOP, 0);
    DECODES(tokenizer, "Tom\xe6\xbc\xa2\xe5\xad\x97.", TOM, entries, FULL_STOP, 0);
    tfm_tokenizer_free(&tokenizer);
    /* A vocabulary without "." */
    write_vocab("vocab.json", 0, NULL);
    json_t *vocab = json_load_file(scratch_path("vocab.json"), 0, NULL);
    assert_int_equal(json_object_del(vocab, "."), 0);
    assert_int_equal(json_dump_file(vocab, scratch_path("vocab.json"), 0), 0);
    json_decref(vocab);
    tokenizer = open_scratch();
    ENCODES(tokenizer, TFM_SOURCE, "Tom is waiting.", TOM, IS, WAITING, 1, 0);
    DECODES(tokenizer, "Tom", TOM, FULL_STOP);
    tfm_tokenizer_free(&tokenizer);
}

static void test_separate_vocabularies_follow_the_config(void **state) {
    (void)state;
    demo();
    write_vocab("target_vocab.json", 100, NULL);
    /* The file alone does not count if the configuration says that the vocabulary is shared. */
    tfm_tokenizer *tokenizer = open_scratch();
    assert_false(tfm_tokenizer_get_info(tokenizer)->separate);
    tfm_tokenizer_free(&tokenizer);

    scratch_text("tokenizer_config.json", "{\"separate_vocabs\": true, \"eos_token\": {\"content\": \"</s>\"}}");
    tokenizer = open_scratch();
    const tfm_tokenizer_info info = *tfm_tokenizer_get_info(tokenizer);
    assert_true(info.separate && info.source_size == entries && info.target_size == entries + 100);
    assert_true(info.source_eos == 0 && info.target_eos == 100 && info.target_unk == 101 &&
                info.target_pad == entries + 99);
    ENCODES(tokenizer, TFM_SOURCE, "Tom is waiting.", TOM, IS, WAITING, FULL_STOP, 0);
    ENCODES(tokenizer, TFM_TARGET, "Tom is waiting.", TOM + 100, IS + 100, WAITING + 100, FULL_STOP + 100, 100);
    DECODES(tokenizer, "Tom is waiting.", entries + 99, TOM + 100, IS + 100, WAITING + 100, FULL_STOP + 100, 100);
    tfm_tokenizer_free(&tokenizer);

    remove(scratch_path("tokenizer_config.json"));
    tokenizer = open_scratch();
    assert_true(tfm_tokenizer_get_info(tokenizer)->separate);
    tfm_tokenizer_free(&tokenizer);
    scratch_text("tokenizer_config.json", "{\"separate_vocabs\": true}");
    remove(scratch_path("target_vocab.json"));
    scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_IO, "target_vocab.json");
}

static void test_invalid_vocab_json_is_rejected(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } CASES[] = {
        {"", "is empty"},
        {"[]", "holds a list"},
        {"{}", "no pieces"},
        {"{\"a\": 0", "is not JSON"},
        {"{\"a\": 0, \"a\": 1}", "duplicate"},
        {"{\"a\": 0, \"b\": 0}", "\"a\" and \"b\" have the same id, 0"},
        {"{\"a\": -1}", "the id of \"a\" is -1"},
        {"{\"a\": 16777216}", "is 16777216; an integer from 0 to 16777215"},
        {"{\"a\": 99999999999999999999}", "the id of \"a\" is 1e20"},
        {"{\"a\": 1.0}", "is 1.0"},
        {"{\"a\": \"1\"}", "is \"1\""},
        {"{\"a\": null}", "is null"},
        {"{\"\xff\": 1}", "is not JSON"},
        {"{\"<unk>\": 0, \"<pad>\": 1}", "has no \"</s>\""},
        {"{\"</s>\": 0, \"<pad>\": 1}", "has no \"<unk>\", which is the `unk_token`"},
    };
    tfm_tokenizer *tokenizer;
    demo();
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        scratch_text("vocab.json", CASES[i].text);
        scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_FORMAT, CASES[i].part);
        assert_null(tokenizer);
    }
    static const char *const NAMES[] = {"vocab.json", "source.spm", "target.spm"};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        demo();
        remove(scratch_path(NAMES[i]));
        scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_IO, NAMES[i]);
    }
    static const char *const CONFIGS[][2] = {{"{\"separate_vocabs\": 1}", "`separate_vocabs` is 1"},
                                             {"{\"eos_token\": 1}", "`eos_token` is 1"},
                                             {"{\"unk_token\": \"<nix>\"}", "has no \"<nix>\""},
                                             {"{", "tokenizer_config.json is not JSON"}};
    for (size_t i = 0; i < TFM__COUNT(CONFIGS); i++) {
        demo();
        scratch_text("tokenizer_config.json", CONFIGS[i][0]);
        scratch_refused(tfm_tokenizer_open(&tokenizer, scratch_root), TFM_ERROR_FORMAT, CONFIGS[i][1]);
    }
    scratch_refused(tfm_tokenizer_open(&tokenizer, NULL), TFM_ERROR_ARGUMENT, "dir is NULL");
    scratch_refused(tfm_tokenizer_open(NULL, scratch_root), TFM_ERROR_ARGUMENT, "out is NULL");
}

/* The largest vocabularies of the family have some 65,000 pieces. */
static void test_vocabulary_of_65000_pieces_is_read(void **state) {
    (void)state;
    FILE *file = fopen(scratch_path("large.json"), "w");
    assert_non_null(file);
    fprintf(file, "{");
    for (int i = 0; i < 65000; i++)
        fprintf(file, "%s\"\xe2\x96\x81piece%d\": %d", i ? ", " : "", i, 64999 - i);
    fprintf(file, "}");
    fclose(file);
    tfm__vocab *vocab;
    harness_ok(tfm__vocab_open(&vocab, scratch_path("large.json")));
    assert_int_equal(tfm__vocab_size(vocab), 65000);
    assert_int_equal(tfm__vocab_id(vocab, "\xe2\x96\x81piece64000"), 999);
    assert_int_equal(tfm__vocab_id(vocab, "piece"), -1);
    assert_string_equal(tfm__vocab_piece(vocab, 0), "\xe2\x96\x81piece64999");
    tfm__vocab_free(&vocab);
    tfm__vocab_free(&vocab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo_tokenizer_uses_vocab_json_ids),
        cmocka_unit_test(test_demo_files_survive_encode_and_decode),
        cmocka_unit_test(test_marian_tokenizer_matches_transformers),
        cmocka_unit_test(test_shared_model_ids_match_pytorch),
        cmocka_unit_test(test_invalid_utf8_and_nul_are_rejected),
        cmocka_unit_test(test_language_code_prefix_is_one_token),
        cmocka_unit_test(test_added_tokens_are_one_id_anywhere),
        cmocka_unit_test(test_vocabulary_without_padding_is_accepted),
        cmocka_unit_test(test_unknown_pieces_become_unk),
        cmocka_unit_test(test_separate_vocabularies_follow_the_config),
        cmocka_unit_test(test_invalid_vocab_json_is_rejected),
        cmocka_unit_test(test_vocabulary_of_65000_pieces_is_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
