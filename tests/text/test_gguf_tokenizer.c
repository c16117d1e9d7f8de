/* Tokenizers in GGUF metadata: small vocabularies of each kind whose ids follow from the algorithms, damaged files, and
 * tokenizers written to GGUF that read back. */
#include "base/json.h"
#include "base/random.h"
#include "support/gguf_scratch.h"
#include "support/harness.h"
#include "text/gguf_tokenizer.h"
#include "tfm/text.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

#define BLANK "\xe2\x96\x81"

typedef struct token {
    const char *text;
    int32_t type;
    float score;
} token;

static void add_tokens(gguf_builder *b, const token *tokens, size_t count) {
    const char *texts[64];
    int32_t types[64];
    float scores[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) {
        texts[i] = tokens[i].text;
        types[i] = tokens[i].type;
        scores[i] = tokens[i].score;
    }
    gguf_add_strings(b, "tokenizer.ggml.tokens", texts, count);
    gguf_add_array(b, "tokenizer.ggml.token_type", 5, count, types, count * sizeof(*types));
    gguf_add_array(b, "tokenizer.ggml.scores", 6, count, scores, count * sizeof(*scores));
}

static char *path_of(const char *name) {
    return tfm__path_join(scratch_root, name);
}

/* The tokenizer of open_file as a directory. */
static tfm_tokenizer *converted;

/* Converts a file, and opens the result. */
static tfm_tokenizer *convert(const char *path) {
    tfm_tokenizer *tokenizer;
    char *dir = path_of("converted");
    harness_ok(tfm__dir_make(dir, 0700));
    harness_ok(tfm_tokenizer_convert(dir, path));
    harness_ok(tfm_tokenizer_open(&tokenizer, dir));
    free(dir);
    return tokenizer;
}

static tfm_tokenizer *open_file(gguf_builder *b) {
    tfm_tokenizer *tokenizer;
    gguf_write(b, "model.gguf");
    char *path = path_of("model.gguf");
    harness_ok(tfm_tokenizer_open(&tokenizer, path));
    converted = convert(path);
    assert_memory_equal(tfm_tokenizer_get_info(converted), tfm_tokenizer_get_info(tokenizer),
                        sizeof(tfm_tokenizer_info));
    free(path);
    return tokenizer;
}

static void close_file(tfm_tokenizer **tokenizer) {
    tfm_tokenizer_free(tokenizer);
    tfm_tokenizer_free(&converted);
}

static void check_ids_of(const tfm_tokenizer *t, const char *text, const int32_t *want, size_t count) {
    int32_t *ids;
    size_t found;
    harness_ok(tfm_tokenizer_encode(t, &ids, &found, TFM_SOURCE, text, strlen(text)));
    for (size_t i = 0; i < found && i < count; i++)
        if (ids[i] != want[i])
            fail_msg("token %zu of \"%s\" is %d, expected %d", i, text, (int)ids[i], (int)want[i]);
    if (found != count)
        fail_msg("\"%s\" has %zu tokens, expected %zu", text, found, count);
    tfm_ids_free(&ids);
}

static void check_ids(const tfm_tokenizer *t, const char *text, const int32_t *want, size_t count) {
    check_ids_of(t, text, want, count);
    if (converted)
        check_ids_of(converted, text, want, count);
}

#define IDS(t, text, ...)                                                                                              \
    check_ids(t, text, (const int32_t[]){__VA_ARGS__}, TFM__COUNT(((const int32_t[]){__VA_ARGS__})))

static void check_text(const tfm_tokenizer *t, const char *want, const int32_t *ids, size_t count) {
    char *text;
    harness_ok(tfm_tokenizer_decode(t, &text, ids, count));
    assert_string_equal(text, want);
    tfm_text_free(&text);
    if (!converted)
        return;
    harness_ok(tfm_tokenizer_decode(converted, &text, ids, count));
    assert_string_equal(text, want);
    tfm_text_free(&text);
}

#define TEXT(t, want, ...)                                                                                             \
    check_text(t, want, (const int32_t[]){__VA_ARGS__}, TFM__COUNT(((const int32_t[]){__VA_ARGS__})))

/* ---- llama -------------------------------------------------------------------------------------------- */

/* "abc" becomes a + bc, whose score is better than ab's, and abc is then found; "abd" stays ab + d. */
static const token LLAMA[] = {
    {"<unk>", UNKNOWN, 0},      {"<s>", CONTROL, 0},   {"</s>", CONTROL, 0}, {BLANK, NORMAL, -9},
    {"a", NORMAL, -9},          {"b", NORMAL, -9},     {"c", NORMAL, -9},    {"d", NORMAL, -9},
    {"ab", NORMAL, -3},         {"bc", NORMAL, -1},    {"abc", NORMAL, -5},  {BLANK "a", NORMAL, -2},
    {"<tag>", USER_DEFINED, 0}, {"aa", NORMAL, -2.5F},
};

static void llama(gguf_builder *b, bool bytes) {
    static char names[256][8];
    token all[TFM__COUNT(LLAMA)];
    memcpy(all, LLAMA, sizeof(LLAMA));
    gguf_add_string(b, "tokenizer.ggml.model", "llama");
    if (!bytes) {
        add_tokens(b, all, TFM__COUNT(LLAMA));
        return;
    }
    const char *texts[TFM__COUNT(LLAMA) + 256];
    int32_t types[TFM__COUNT(LLAMA) + 256];
    float scores[TFM__COUNT(LLAMA) + 256] = {0};
    for (size_t i = 0; i < TFM__COUNT(texts); i++) {
        const size_t byte = i - TFM__COUNT(LLAMA);
        if (i >= TFM__COUNT(LLAMA))
            snprintf(names[byte], sizeof(names[byte]), "<0x%02X>", (unsigned)byte);
        texts[i] = i < TFM__COUNT(LLAMA) ? LLAMA[i].text : names[byte];
        types[i] = i < TFM__COUNT(LLAMA) ? LLAMA[i].type : BYTE;
        scores[i] = i < TFM__COUNT(LLAMA) ? LLAMA[i].score : 0;
    }
    gguf_add_strings(b, "tokenizer.ggml.tokens", texts, TFM__COUNT(texts));
    gguf_add_array(b, "tokenizer.ggml.token_type", 5, TFM__COUNT(types), types, sizeof(types));
    gguf_add_array(b, "tokenizer.ggml.scores", 6, TFM__COUNT(scores), scores, sizeof(scores));
}

static void test_llama_merges_the_pair_with_the_best_score(void **state) {
    (void)state;
    gguf_builder b = {0};
    llama(&b, false);
    gguf_add_bool(&b, "tokenizer.ggml.add_space_prefix", false);
    tfm_tokenizer *t = open_file(&b);
    IDS(t, "abc", 1, 10);
    IDS(t, "abd", 1, 8, 7);
    IDS(t, "aab", 1, 13, 5);               /* aa before ab */
    IDS(t, "aaa", 1, 13, 4);               /* the leftmost of equal ones */
    IDS(t, " abc", 1, 11, 9);              /* BLANK a before abc */
    IDS(t, "a\xc3\xa9\xc3\xa9z", 1, 4, 0); /* adjacent unknown characters are one */
    IDS(t, "b<tag>b</s>", 1, 5, 12, 5, 2);
    TEXT(t, "abc d", 1, 10, 3, 7, 2);
    assert_int_equal(tfm_tokenizer_get_info(t)->bos, 1);
    assert_int_equal(tfm_tokenizer_get_info(t)->source_eos, 2);
    assert_int_equal(tfm_tokenizer_get_info(t)->source_unk, 0);
    assert_int_equal(tfm_tokenizer_get_info(t)->source_size, TFM__COUNT(LLAMA));
    close_file(&t);
}

static void test_llama_prefixes_blanks_and_falls_back_to_bytes(void **state) {
    (void)state;
    const int32_t byte = TFM__COUNT(LLAMA);
    gguf_builder b = {0};
    llama(&b, true);
    gguf_add_bool(&b, "tokenizer.ggml.add_eos_token", true);
    gguf_add_u32(&b, "tokenizer.ggml.padding_token_id", UINT32_MAX); /* ignored */
    tfm_tokenizer *t = open_file(&b);
    IDS(t, "a", 1, 11, 2);
    IDS(t, "b<tag>a", 1, 3, 5, 12, 11, 2); /* also after a token */
    IDS(t, "\xc3\xa9", 1, 3, byte + 0xc3, byte + 0xa9, 2);
    IDS(t, "", 1, 2);
    TEXT(t, "a\xc3\xa9", 1, 11, byte + 0xc3, byte + 0xa9, 2);
    assert_int_equal(tfm_tokenizer_get_info(t)->source_pad, -1);
    close_file(&t);
}

/* Blanks after special tokens are part of them in Phi-3, whose file only has a name to show it. */
static void test_phi3_tokens_strip_blanks(void **state) {
    (void)state;
    for (int phi = 0; phi < 2; phi++) {
        gguf_builder b = {0};
        llama(&b, false);
        gguf_add_bool(&b, "tokenizer.ggml.add_space_prefix", false);
        gguf_add_string(&b, "general.name", phi ? "Tiny Phi-3" : "Tiny Phi");
        tfm_tokenizer *t = open_file(&b);
        if (phi)
            IDS(t, "<tag> b<s> b", 1, 12, 5, 1, 3, 5);
        else
            IDS(t, "<tag> b<s> b", 1, 12, 3, 5, 1, 3, 5);
        close_file(&t);
    }
}

/* ---- gpt2 --------------------------------------------------------------------------------------------- */

#define SPACE "\xc4\xa0"

static const token GPT2[] = {{"a", NORMAL, 0},
                             {"b", NORMAL, 0},
                             {"1", NORMAL, 0},
                             {"2", NORMAL, 0},
                             {SPACE, NORMAL, 0},
                             {"ab", NORMAL, 0},
                             {SPACE "a", NORMAL, 0},
                             {"12", NORMAL, 0},
                             {"121", NORMAL, 0},
                             {"<|end|>", CONTROL, 0},
                             {"\xc4\x8d", USER_DEFINED, 0},
                             {"aba", NORMAL, 0},
                             {"1212", NORMAL, 0},
                             {"", NORMAL, 0}};
static const char *const MERGES[] = {SPACE " a", "a b", "1 2", "12 1", "12 12"};

static void gpt2(gguf_builder *b, const char *pre) {
    gguf_add_string(b, "tokenizer.ggml.model", "gpt2");
    if (pre)
        gguf_add_string(b, "tokenizer.ggml.pre", pre);
    add_tokens(b, GPT2, TFM__COUNT(GPT2));
    gguf_add_strings(b, "tokenizer.ggml.merges", MERGES, TFM__COUNT(MERGES));
    gguf_add_u32(b, "tokenizer.ggml.eos_token_id", 9);
}

static void test_gpt2_pre_tokenizer_decides_how_digits_split(void **state) {
    (void)state;
    static const struct {
        const char *pre;
        int32_t ids[5];
        size_t count;
    } CASES[] = {{"gpt-2", {12}, 1},                                   /* 1 2 twice, then 12 12 */
                 {"smollm", {2, 3, 2, 3}, 4},                          /* single digits */
                 {"qwen2", {2, 3, 2, 3}, 4},  {"llama3", {8, 3}, 2},   /* 121, 2 */
                 {"deepseek-llm", {12}, 1},   {"afmoe", {2, 3, 7}, 3}, /* 1, 212 */
                 {"superbpe", {2, 3, 7}, 3},  {"falcon", {8, 3}, 2},   {NULL, {8, 3}, 2}};
    for (size_t i = 0; i < TFM__COUNT(CASES); i++) {
        gguf_builder b = {0};
        gpt2(&b, CASES[i].pre);
        gguf_add_bool(&b, "tokenizer.ggml.add_bos_token", false);
        tfm_tokenizer *t = open_file(&b);
        check_ids(t, "1212", CASES[i].ids, CASES[i].count);
        close_file(&t);
    }
}

static void test_gpt2_reads_tokens_merges_and_flags(void **state) {
    (void)state;
    gguf_builder b = {0};
    gpt2(&b, "gpt-2");
    gguf_add_bool(&b, "tokenizer.ggml.add_bos_token", true);
    gguf_add_bool(&b, "tokenizer.ggml.add_eos_token", true);
    gguf_add_u32(&b, "tokenizer.ggml.bos_token_id", 9);
    tfm_tokenizer *t = open_file(&b);
    IDS(t, "ab a", 9, 5, 6, 9);
    IDS(t, "aba", 9, 5, 0, 9); /* no merge forms it */
    IDS(t,
        "a\xc4\x8d"
        "b<|end|>",
        9, 0, 10, 1, 9, 9);
    tfm_tokenizer_free(&converted); /* its model has the character, which then decodes to a byte */
    TEXT(t, "ab a\xc4\x8d", 5, 6, 10, 9);
    assert_string_equal(tfm_tokenizer_piece(t, TFM_SOURCE, 13), "[EMPTY_13]");
    close_file(&t);
    gpt2(&b, "llama-bpe"); /* words that are tokens need no merges, and BOS by default */
    gguf_add_u32(&b, "tokenizer.ggml.bos_token_id", 9);
    t = open_file(&b);
    IDS(t, "aba", 9, 11);
    close_file(&t);
}

/* ---- bert --------------------------------------------------------------------------------------------- */

static const token BERT[] = {{"[PAD]", CONTROL, 0},  {"[UNK]", CONTROL, 0},    {"[CLS]", CONTROL, 0},
                             {"[SEP]", CONTROL, 0},  {"[MASK]", CONTROL, 0},   {BLANK "play", NORMAL, 0},
                             {"ing", NORMAL, 0},     {BLANK "ing", NORMAL, 0}, {BLANK ".", NORMAL, 0},
                             {BLANK "e", NORMAL, 0}, {"e", NORMAL, 0}};

static void bert(gguf_builder *b) {
    static const char *const KEYS[] = {"padding", "unknown", "cls", "seperator", "mask"};
    gguf_add_string(b, "tokenizer.ggml.model", "bert");
    add_tokens(b, BERT, TFM__COUNT(BERT));
    for (uint32_t i = 0; i < TFM__COUNT(KEYS); i++) {
        char key[64];
        snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", KEYS[i]);
        gguf_add_u32(b, key, i);
    }
}

static void test_bert_continues_words_with_unmarked_pieces(void **state) {
    (void)state;
    gguf_builder b = {0};
    bert(&b);
    tfm_tokenizer *t = open_file(&b);
    IDS(t, "Playing ing.", 2, 5, 6, 7, 8, 3);
    IDS(t,
        "\xc3\xa9"
        "e x [MASK]",
        2, 9, 10, 1, 4, 3);
    TEXT(t, "playing ing.", 5, 6, 7, 8);
    int32_t *ids;
    size_t count;
    harness_ok(tfm_tokenizer_encode_with(t, &ids, &count, TFM_SOURCE, "e", 1,
                                         &(tfm_encode_options){.text_pair = "ing", .text_pair_bytes = 3}));
    assert_int_equal(count, 5);
    assert_memory_equal(ids, ((int32_t[]){2, 9, 3, 7, 3}), 5 * sizeof(*ids));
    tfm_ids_free(&ids);
    assert_int_equal(tfm_tokenizer_get_info(t)->cls, 2);
    assert_int_equal(tfm_tokenizer_get_info(t)->mask, 4);
    close_file(&t);
    bert(&b);
    gguf_add_bool(&b, "tokenizer.ggml.normalizer.lowercase", false);
    t = open_file(&b);
    IDS(t, "Playing \xc3\xa9", 2, 1, 1, 3);
    close_file(&t);
}

/* ---- t5 ----------------------------------------------------------------------------------------------- */

/* "ab": ab costs 3, a + b cost 4; "abc": a + bc cost 3.5, ab + c cost 5. */
static const token T5[] = {{"<pad>", CONTROL, 0}, {"</s>", CONTROL, 0}, {"<unk>", UNKNOWN, 0},   {BLANK, NORMAL, -2},
                           {"a", NORMAL, -2},     {"b", NORMAL, -2},    {"c", NORMAL, -2},       {"ab", NORMAL, -3},
                           {"bc", NORMAL, -1.5F}, {"bb", UNUSED, 0},    {"<x>", USER_DEFINED, 0}};

static void t5(gguf_builder *b) {
    gguf_add_string(b, "tokenizer.ggml.model", "t5");
    add_tokens(b, T5, TFM__COUNT(T5));
    gguf_add_bool(b, "tokenizer.ggml.add_space_prefix", true);
}

static void test_t5_takes_the_best_sum_of_scores(void **state) {
    (void)state;
    gguf_builder b = {0};
    t5(&b);
    gguf_add_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", true);
    tfm_tokenizer *t = open_file(&b);
    IDS(t, "ab", 3, 7, 1);
    IDS(t, "abc", 3, 4, 8, 1);
    IDS(t, "  a  b ", 3, 4, 3, 5, 1);
    IDS(t, "bb", 3, 5, 5, 1); /* unused pieces are not found */
    IDS(t, "axyb<x>c", 3, 4, 2, 5, 10, 3, 6, 1);
    IDS(t, " ", 1);
    TEXT(t, "a bc", 3, 4, 3, 8, 1);
    close_file(&t);
    t5(&b);
    t = open_file(&b);
    IDS(t, " a  b", 3, 3, 4, 3, 3, 5, 1);
    close_file(&t);
}

/* ---- Chat templates ----------------------------------------------------------------------------------- */

static json_t *config_of(gguf_builder *b) {
    tfm__gguf *file;
    json_t *config;
    gguf_write(b, "model.gguf");
    char *path = path_of("model.gguf");
    harness_ok(tfm__gguf_open(&file, path));
    harness_ok(tfm__gguf_tokenizer_config(&config, file));
    tfm__gguf_close(&file);
    free(path);
    return config;
}

static const char *string_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void test_chat_templates_and_special_tokens_are_a_tokenizer_config(void **state) {
    (void)state;
    gguf_builder b = {0};
    llama(&b, false);
    gguf_add_string(&b, "tokenizer.chat_template", "{{ messages }}");
    json_t *config = config_of(&b);
    assert_string_equal(string_of(config, "chat_template"), "{{ messages }}");
    assert_string_equal(string_of(config, "bos_token"), "<s>");
    assert_string_equal(string_of(config, "eos_token"), "</s>");
    assert_true(json_is_true(json_object_get(config, "add_bos_token")));
    json_decref(config);
    llama(&b, false);
    gguf_add_string(&b, "tokenizer.chat_template", "one");
    gguf_add_string(&b, "tokenizer.chat_template.tool_use", "two");
    config = config_of(&b);
    const json_t *list = json_object_get(config, "chat_template");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(string_of(json_array_get(list, 0), "name"), "default");
    assert_string_equal(string_of(json_array_get(list, 0), "template"), "one");
    assert_string_equal(string_of(json_array_get(list, 1), "name"), "tool_use");
    json_decref(config);
    gguf_add_string(&b, "general.architecture", "llama"); /* without a tokenizer */
    config = config_of(&b);
    assert_int_equal(json_object_size(config), 0);
    json_decref(config);
}

static void test_converted_tokenizer_keeps_chat_templates_and_special_tokens(void **state) {
    (void)state;
    gguf_builder b = {0};
    json_t *config;
    llama(&b, false);
    gguf_add_string(&b, "tokenizer.chat_template", "one");
    gguf_add_string(&b, "tokenizer.chat_template.tool_use", "two");
    tfm_tokenizer *t = open_file(&b);
    char *path = path_of("converted/tokenizer_config.json");
    harness_ok(tfm__json_load(&config, path));
    assert_string_equal(string_of(json_array_get(json_object_get(config, "chat_template"), 1), "template"), "two");
    assert_string_equal(string_of(config, "bos_token"), "<s>");
    assert_string_equal(string_of(config, "unk_token"), "<unk>");
    json_decref(config);
    free(path);
    close_file(&t);
}

static void test_conversion_refuses_directories_and_files_without_a_tokenizer(void **state) {
    (void)state;
    gguf_builder b = {0};
    char *dir = harness_source("tests/golden/tokenizers/gpt2"), *path = path_of("model.gguf");
    harness_refused(tfm_tokenizer_convert(scratch_root, dir), TFM_ERROR_UNSUPPORTED, "is not a GGUF file");
    gguf_add_string(&b, "general.architecture", "llama");
    gguf_write(&b, "model.gguf");
    harness_refused(tfm_tokenizer_convert(scratch_root, path), TFM_ERROR_UNSUPPORTED, "has no tokenizer");
    gguf_add_string(&b, "tokenizer.ggml.model", "rwkv");
    gguf_write(&b, "model.gguf");
    harness_refused(tfm_tokenizer_convert(scratch_root, path), TFM_ERROR_UNSUPPORTED, "\"rwkv\" is not supported");
    free(path);
    free(dir);
}

/* ---- Folders ------------------------------------------------------------------------------------------ */

static void test_folder_with_one_gguf_file_opens(void **state) {
    (void)state;
    gguf_builder b = {0};
    json_t *config;
    tfm_tokenizer *t;
    char *folder = path_of("folder");
    harness_ok(tfm__dir_make(folder, 0700));
    llama(&b, false);
    gguf_add_string(&b, "tokenizer.chat_template", "T");
    gguf_write(&b, "folder/model.gguf");
    harness_ok(tfm_tokenizer_open(&t, folder));
    IDS(t, "abc", 1, 11, 9);
    tfm_tokenizer_free(&t);
    harness_ok(tfm__gguf_tokenizer_config_of(&config, folder));
    assert_string_equal(string_of(config, "chat_template"), "T");
    json_decref(config);
    gguf_add_string(&b, "general.architecture", "llama"); /* without a tokenizer: the files next to it */
    gguf_write(&b, "folder/model.gguf");
    scratch_copy("tests/golden/tokenizers/gpt2/tokenizer.json", "folder/tokenizer.json");
    harness_ok(tfm_tokenizer_open(&t, folder));
    assert_true(tfm_tokenizer_get_info(t)->source_size > 256);
    tfm_tokenizer_free(&t);
    harness_ok(tfm__gguf_tokenizer_config_of(&config, folder));
    assert_null(config);
    free(folder);
    folder = harness_source("tests/golden/tokenizers/gpt2");
    harness_ok(tfm__gguf_tokenizer_config_of(&config, folder));
    assert_null(config);
    free(folder);
}

/* ---- Damaged files ------------------------------------------------------------------------------------ */

static void refuse(gguf_builder *b, tfm_status status, const char *what) {
    tfm_tokenizer *t;
    gguf_write(b, "model.gguf");
    char *path = path_of("model.gguf");
    harness_refused(tfm_tokenizer_open(&t, path), status, what);
    assert_null(t);
    free(path);
}

static void test_other_tokenizers_are_refused_by_name(void **state) {
    (void)state;
    static const char *const NAMES[] = {"rwkv", "plamo2", "none", ""};
    gguf_builder b = {0};
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        char what[64];
        snprintf(what, sizeof(what), "\"%s\" is not supported", NAMES[i]);
        gguf_add_string(&b, "tokenizer.ggml.model", NAMES[i]);
        refuse(&b, TFM_ERROR_UNSUPPORTED, what);
    }
    gpt2(&b, "gpt-9");
    refuse(&b, TFM_ERROR_UNSUPPORTED, "\"gpt-9\" is not supported");
    gguf_add_string(&b, "general.architecture", "llama");
    refuse(&b, TFM_ERROR_FORMAT, "has no tokenizer");
}

static void test_wrong_metadata_are_refused(void **state) {
    (void)state;
    static const char *const UNKNOWN_MERGE[] = {"a z"}, *const NO_MERGE[] = {"ab"}, *const TWO[] = {"a", "a"};
    gguf_builder b = {0};
    gguf_add_u32(&b, "tokenizer.ggml.model", 3);
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.model` is not a string");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    refuse(&b, TFM_ERROR_FORMAT, "has 0 tokens");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    gguf_add_array(&b, "tokenizer.ggml.tokens", 5, 1, (int32_t[]){1}, 4);
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.tokens` is not a list of strings");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 2);
    refuse(&b, TFM_ERROR_FORMAT, "token 1 of `tokenizer.ggml.tokens`, \"a\", is there twice");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 2);
    gguf_add_array(&b, "tokenizer.ggml.scores", 6, 1, (float[]){1}, 4);
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.scores` has 1 elements");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 1);
    gguf_add_array(&b, "tokenizer.ggml.token_type", 6, 1, (float[]){1}, 4);
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.token_type` is not a list of integers");
    gguf_add_string(&b, "tokenizer.ggml.model", "llama");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", (const char *const[]){"\xc3"}, 1);
    refuse(&b, TFM_ERROR_FORMAT, "token 0 of `tokenizer.ggml.tokens` is not text in UTF-8");
    gguf_add_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 1);
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.merges` is missing");
    gguf_add_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 1);
    gguf_add_strings(&b, "tokenizer.ggml.merges", UNKNOWN_MERGE, 1);
    refuse(&b, TFM_ERROR_FORMAT, "\"a z\", is of pieces that the vocabulary does not have");
    gguf_add_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", TWO, 1);
    gguf_add_strings(&b, "tokenizer.ggml.merges", NO_MERGE, 1);
    refuse(&b, TFM_ERROR_FORMAT, "merge 0 of `tokenizer.ggml.merges` is not two pieces");
    t5(&b);
    gguf_add_array(&b, "tokenizer.ggml.precompiled_charsmap", 1, 5, "\xff\xff\xff\xff\1", 5);
    refuse(&b, TFM_ERROR_FORMAT, "the normalization table is damaged");
    t5(&b);
    gguf_add_string(&b, "tokenizer.ggml.add_eos_token", "yes");
    refuse(&b, TFM_ERROR_FORMAT, "`tokenizer.ggml.add_eos_token` is not a boolean");
}

/* Opens and uses what a damaged file gives. */
static void try_bytes(const unsigned char *data, size_t size) {
    tfm_tokenizer *t;
    int32_t *ids;
    size_t count;
    char *text, *path = path_of("damaged.gguf");
    scratch_write("damaged.gguf", data, size);
    if (tfm_tokenizer_open(&t, path) == TFM_OK) {
        if (tfm_tokenizer_encode(t, &ids, &count, TFM_SOURCE, "ab 12 <tag>\xc3\xa9", 13) == TFM_OK &&
            tfm_tokenizer_decode(t, &text, ids, count) == TFM_OK)
            tfm_text_free(&text);
        tfm_ids_free(&ids);
    }
    tfm_tokenizer_free(&t);
    free(path);
}

static void test_damaged_files_never_crash(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        gguf_builder b = {0};
        if (kind == 0)
            t5(&b);
        else if (kind == 1)
            gpt2(&b, "llama-bpe");
        else if (kind == 2)
            bert(&b);
        else
            llama(&b, false);
        gguf_bytes all = gguf_finish(&b);
        tfm__random draw = tfm__random_new(5, (uint64_t)kind);
        for (size_t size = 0; size < all.size; size += 7)
            try_bytes(all.data, size);
        for (int i = 0; i < 400; i++) {
            const size_t at = (size_t)tfm__random_below(&draw, all.size);
            const unsigned char kept = all.data[at];
            all.data[at] = (unsigned char)tfm__random_below(&draw, 256);
            try_bytes(all.data, all.size);
            all.data[at] = kept;
        }
        free(all.data);
    }
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static json_t *lines_of(void) {
    json_t *all;
    char *path = harness_source("tests/golden/tokenizers/lines.json");
    harness_ok(tfm__json_load(&all, path));
    free(path);
    return all;
}

/* Writes the directory's tokenizer to written.gguf. */
static tfm_status write_file(const char *dir, int32_t rows) {
    tfm__gguf_writer w = {0};
    char *path = path_of("written.gguf");
    tfm_status status = tfm__gguf_tokenizer_write(&w, dir, rows);
    if (status == TFM_OK)
        status = tfm__gguf_writer_begin(&w, path);
    status = tfm__gguf_writer_close(&w, status);
    free(path);
    return status;
}

/* Whether the line has none of a list's texts. */
static bool lacks(const char *line, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcasestr(line, texts[i]))
            return false;
    return true;
}

/* Lines without what GGUF files have no place for: flags of added tokens; and if not `exact`, Unicode normal forms, and
 * the ways in which `tokenizers` differs from SentencePiece for blanks at the ends, runs of blanks, U+2581 and control
 * characters. */
static bool is_plain(const char *line, bool exact) {
    static const char *const FLAGS[] = {"<mask>", "river", "harbour"};
    static const char *const OTHERS[] = {
        "  ",           BLANK,          "<",        "[",           "\t", "\n", "\xcc", "\xcd", "\xe2\x80\x8b",
        "\xe3\x80\x80", "\xe2\x84\xab", "\xef\xa4", "\xe0\xa5\x98"};
    if (!lacks(line, FLAGS, TFM__COUNT(FLAGS)))
        return false;
    return exact || (*line && *line != ' ' && line[strlen(line) - 1] != ' ' && lacks(line, OTHERS, TFM__COUNT(OTHERS)));
}

static void compare_line(const tfm_tokenizer *a, const tfm_tokenizer *b, const char *name, const char *line,
                         const char *how) {
    int32_t *ids[2];
    size_t count[2];
    char *texts[2];
    for (int i = 0; i < 2; i++) {
        harness_ok(tfm_tokenizer_encode(i ? b : a, &ids[i], &count[i], TFM_SOURCE, line, strlen(line)));
        harness_ok(tfm_tokenizer_decode(i ? b : a, &texts[i], ids[i], count[i]));
    }
    if (count[0] != count[1] || memcmp(ids[0], ids[1], count[0] * sizeof(*ids[0])) != 0)
        fail_msg("%s: \"%s\" has other ids when %s", name, line, how);
    if (strcmp(texts[0], texts[1]) != 0)
        fail_msg("%s: \"%s\" becomes \"%s\" when %s, not \"%s\"", name, line, texts[1], how, texts[0]);
    for (int i = 0; i < 2; i++) {
        tfm_ids_free(&ids[i]);
        tfm_text_free(&texts[i]);
    }
}

static void round_trip(const char *kind, bool exact) {
    static const char *const NAMED[] = {"<unk>"}; /* special tokens of tokenizer_config.json are found in texts */
    char name[64];
    snprintf(name, sizeof(name), "tests/golden/tokenizers/%s", kind);
    char *dir = harness_source(name), *path = path_of("written.gguf");
    json_t *all = lines_of();
    const json_t *lines = json_object_get(all, "lines");
    tfm_tokenizer *a, *b, *c;
    harness_ok(tfm_tokenizer_open(&a, dir));
    harness_ok(write_file(dir, tfm_tokenizer_get_info(a)->source_size + 3));
    harness_ok(tfm_tokenizer_open(&b, path));
    assert_int_equal(tfm_tokenizer_get_info(b)->source_size, tfm_tokenizer_get_info(a)->source_size + 3);
    c = convert(path);
    size_t compared = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *line = json_string_value(json_array_get(lines, i));
        compared += is_plain(line, exact);
        if (is_plain(line, exact))
            compare_line(a, b, kind, line, "read from a GGUF file");
        if (lacks(line, NAMED, TFM__COUNT(NAMED)))
            compare_line(b, c, kind, line, "converted to a directory");
    }
    assert_true(compared >= (exact ? 100 : 20));
    tfm_tokenizer_free(&a);
    tfm_tokenizer_free(&b);
    tfm_tokenizer_free(&c);
    json_decref(all);
    free(path);
    free(dir);
}

static void test_written_tokenizers_read_back(void **state) {
    static const char *const EXACT[] = {"gpt2",  "llama3",     "bert",        "llama2",
                                        "gemma", "older_bert", "older_gemma", "older_roberta"};
    static const char *const OTHERS[] = {"older_llama", "older_qwen2",   "older_t5",
                                         "older_xlmr",  "older_pegasus", "older_camembert"};
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(EXACT); i++)
        round_trip(EXACT[i], true);
    for (size_t i = 0; i < TFM__COUNT(OTHERS); i++)
        round_trip(OTHERS[i], false);
}

static void test_tokenizers_without_a_form_in_gguf_are_refused(void **state) {
    static const char *const KINDS[][2] = {{"roberta", "this `pre_tokenizer`"},
                                           {"older_gpt2", "this `pre_tokenizer`"},
                                           {"older_mbart", "languages"},
                                           {"older_m2m100", "separate vocabulary"},
                                           {"words", "this `model`"},
                                           {"suffix", "this `model`"},
                                           {"prefix", "this `model`"},
                                           {"unigram_bytes", "\"Nmt\""},
                                           {"wordpiece", "\"NFD\""},
                                           {"classes", "\"Lowercase\""},
                                           {"older_mpnet", "BertNormalizer"}};
    (void)state;
    for (size_t i = 0; i < TFM__COUNT(KINDS); i++) {
        char name[64];
        snprintf(name, sizeof(name), "tests/golden/tokenizers/%s", KINDS[i][0]);
        char *dir = harness_source(name);
        harness_refused(write_file(dir, 100), TFM_ERROR_UNSUPPORTED, KINDS[i][1]);
        free(dir);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_merges_the_pair_with_the_best_score),
        cmocka_unit_test(test_llama_prefixes_blanks_and_falls_back_to_bytes),
        cmocka_unit_test(test_phi3_tokens_strip_blanks),
        cmocka_unit_test(test_gpt2_pre_tokenizer_decides_how_digits_split),
        cmocka_unit_test(test_gpt2_reads_tokens_merges_and_flags),
        cmocka_unit_test(test_bert_continues_words_with_unmarked_pieces),
        cmocka_unit_test(test_t5_takes_the_best_sum_of_scores),
        cmocka_unit_test(test_chat_templates_and_special_tokens_are_a_tokenizer_config),
        cmocka_unit_test(test_converted_tokenizer_keeps_chat_templates_and_special_tokens),
        cmocka_unit_test(test_conversion_refuses_directories_and_files_without_a_tokenizer),
        cmocka_unit_test(test_folder_with_one_gguf_file_opens),
        cmocka_unit_test(test_other_tokenizers_are_refused_by_name),
        cmocka_unit_test(test_wrong_metadata_are_refused),
        cmocka_unit_test(test_damaged_files_never_crash),
        cmocka_unit_test(test_written_tokenizers_read_back),
        cmocka_unit_test(test_tokenizers_without_a_form_in_gguf_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
