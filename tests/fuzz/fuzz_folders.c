/* Directories with several related files: models, Hugging Face tokenizers, sentence-transformers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"
#include "model/tasks/embedder.h"
#include "support/gguf_builder.h"

static tfm_context *device(void) {
    static tfm_context *ctx; /* until the program exits */
    if (!ctx && tfm_context_open(&ctx, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        abort();
    }
    return ctx;
}

/* ---- Models ------------------------------------------------------------------------------------------- */

/* config.json, a NUL, and model.safetensors: the model's info and the opened model must agree, also after quantization.
 * Nothing is run, because kernels would be built for each input. */
static bool model(const uint8_t *data, size_t size) {
    static const tfm_model_options OPTIONS = {.no_tokenizer = true};
    static const char *const FILES[] = {"config.json", "model.safetensors", ""};
    size_t bytes;
    char *config = fuzz_part(&data, &size, &bytes), path[512];
    bool good[2] = {false};
    fuzz_folder_empty();
    fuzz_file("config.json", config, bytes);
    fuzz_file("model.safetensors", data, size);
    free(config);
    snprintf(path, sizeof(path), "%s", fuzz_folder());
    for (int i = 0; i < 2; i++) {
        tfm_model *opened = NULL;
        tfm_model_info info;
        const bool told = tfm_model_read_info(&info, path, &OPTIONS) == TFM_OK;
        const tfm_status status = tfm_model_open(&opened, device(), path, &OPTIONS);
        good[i] = status == TFM_OK;
        if (status != TFM_ERROR_MEMORY && told != good[i])
            abort();
        tfm_model_free(&opened);
        tfm_context_clear_error(device());
        snprintf(path, sizeof(path), "%s/bytes", fuzz_folder());
        if (i == 0 && (!good[0] || tfm_model_quantize(path, fuzz_folder(), TFM_I8) != TFM_OK))
            break;
    }
    for (size_t i = 0; i < TFM__COUNT(FILES); i++) { /* the last one is the folder */
        snprintf(path, sizeof(path), "%s/bytes/%s", fuzz_folder(), FILES[i]);
        remove(path);
    }
    return good[0];
}

/* ---- Tokenizers --------------------------------------------------------------------------------------- */

/* A text to token ids and back: alone, as one of a pair, and in a language. */
static void use(const tfm_tokenizer *tokenizer, const char *text, size_t bytes) {
    const tfm_encode_options ways[] = {{0},
                                       {.no_special_tokens = true},
                                       {.text_pair = text, .text_pair_bytes = bytes},
                                       {.language = "fr"},
                                       {.language = "fr_XX"}};
    for (size_t i = 0; i < TFM__COUNT(ways); i++) {
        int32_t *ids = NULL;
        size_t count;
        char *back = NULL;
        if (tfm_tokenizer_encode_with(tokenizer, &ids, &count, i & 1 ? TFM_TARGET : TFM_SOURCE, text, bytes,
                                      &ways[i]) == TFM_OK) {
            fuzz_touch(ids, count * sizeof(*ids));
            for (size_t k = 0; k < count; k++)
                if (ids[k] < 0 || ids[k] >= tfm_tokenizer_get_info(tokenizer)->source_size)
                    abort();
            if (tfm_tokenizer_decode(tokenizer, &back, ids, count) == TFM_OK)
                if (tfm_text_check(back, strlen(back)) != TFM_OK)
                    abort();
        }
        tfm_text_free(&back);
        tfm_ids_free(&ids);
    }
}

/* Writes parts of the input to files; the last file gets the rest. The part for NULL is a text. */
static bool open_files(const uint8_t *data, size_t size, const char *const *names, size_t count) {
    char *text = NULL;
    size_t bytes, text_bytes = 0;
    fuzz_folder_empty();
    for (size_t i = 0; i < count; i++) {
        char *part = i + 1 < count ? fuzz_part(&data, &size, &bytes) : NULL;
        if (names[i]) {
            fuzz_file(names[i], part ? part : (const char *)data, part ? bytes : size);
            free(part);
        } else {
            text = part;
            text_bytes = bytes;
        }
    }
    tfm_tokenizer *tokenizer = NULL;
    const bool good = tfm_tokenizer_open(&tokenizer, fuzz_folder()) == TFM_OK;
    if (good)
        use(tokenizer, text, text_bytes);
    tfm_tokenizer_free(&tokenizer);
    free(text);
    return good;
}

static bool tokenizer(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "tokenizer.json"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

static bool older_words(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "added_tokens.json", "special_tokens_map.json",
                                        "vocab.txt"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

static bool older_pairs(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "merges.txt", "vocab.json"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

/* A SentencePiece model contains NULs, so it comes last. */
static bool older_pieces(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "sentencepiece.bpe.model"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

/* With a separate vocabulary file, for M2M-100. */
static bool older_both(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "vocab.json", "sentencepiece.bpe.model"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

/* A GGUF file, which contains NULs, after a text. A tokenizer that opens is converted, and the result opens, unless it
 * lacks what only tokenizer.json needs. */
static bool gguf_tokenizer(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {NULL, "x.gguf"};
    static const char TEXT[] = "ab 12 <x>";
    char path[512], dir[sizeof(path) + 16], part[sizeof(dir) + 32];
    const bool good = open_files(data, size, NAMES, TFM__COUNT(NAMES));
    tfm_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof(path), "%s", fuzz_folder());
    snprintf(dir, sizeof(dir), "%s/converted", path);
    if (!good)
        return false;
    mkdir(dir, 0700);
    if (tfm_tokenizer_convert(dir, path) == TFM_OK && tfm_tokenizer_open(&tokenizer, dir) == TFM_OK)
        use(tokenizer, TEXT, sizeof(TEXT) - 1);
    tfm_tokenizer_free(&tokenizer);
    snprintf(part, sizeof(part), "%s/tokenizer.json", dir);
    remove(part);
    snprintf(part, sizeof(part), "%s/tokenizer_config.json", dir);
    remove(part);
    remove(dir);
    return true;
}

static void gguf_seed(const char *path, const char *model, const char *const *tokens, const int32_t *types,
                      size_t count) {
    static const char *const MERGES[] = {"a b", "1 2"}, TEXT[] = "ab 12 <x>ab";
    float scores[16] = {0};
    gguf_builder b = {0};
    for (size_t i = 0; i < count; i++)
        scores[i] = -(float)i;
    gguf_add_string(&b, "tokenizer.ggml.model", model);
    gguf_add_string(&b, "tokenizer.ggml.pre", "qwen2");
    gguf_add_strings(&b, "tokenizer.ggml.tokens", tokens, count);
    gguf_add_array(&b, "tokenizer.ggml.token_type", 5, count, types, count * sizeof(*types));
    gguf_add_array(&b, "tokenizer.ggml.scores", 6, count, scores, count * sizeof(*scores));
    gguf_add_strings(&b, "tokenizer.ggml.merges", MERGES, TFM__COUNT(MERGES));
    gguf_add_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    gguf_add_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    gguf_add_bool(&b, "tokenizer.ggml.add_bos_token", true);
    gguf_add_bool(&b, "tokenizer.ggml.add_space_prefix", true);
    gguf_bytes all = gguf_finish(&b);
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(TEXT, 1, sizeof(TEXT), out) != sizeof(TEXT) || fwrite(all.data, 1, all.size, out) != all.size ||
        fclose(out) != 0)
        abort();
    free(all.data);
}

static const int32_t GGUF_TYPES[] = {2, 3, 1, 1, 1, 1, 1, 1, 4, 1};

static void gguf_pieces_seed(const char *path) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "\xe2\x96\x81", "a", "b", "ab", "1", "2", "<x>", "12"};
    gguf_seed(path, "llama", TOKENS, GGUF_TYPES, TFM__COUNT(TOKENS));
}

static void gguf_merges_seed(const char *path) {
    static const char *const TOKENS[] = {"?", "<s>", "\xc4\xa0", "a", "b", "ab", "1", "2", "<x>", "12"};
    gguf_seed(path, "gpt2", TOKENS, GGUF_TYPES, TFM__COUNT(TOKENS));
}

static void gguf_words_seed(const char *path) {
    static const char *const TOKENS[] = {"[UNK]",
                                         "[CLS]",
                                         "\xe2\x96\x81"
                                         "a",
                                         "b",
                                         "\xe2\x96\x81"
                                         "1",
                                         "2",
                                         "x",
                                         "<",
                                         "<x>",
                                         ">"};
    gguf_seed(path, "bert", TOKENS, GGUF_TYPES, TFM__COUNT(TOKENS));
}

static void gguf_unigram_seed(const char *path) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "\xe2\x96\x81", "a", "b", "ab", "1", "2", "<x>", "12"};
    gguf_seed(path, "t5", TOKENS, GGUF_TYPES, TFM__COUNT(TOKENS));
}

/* ---- sentence-transformers ---------------------------------------------------------------------------- */

static tfm_model *encoder(void) {
    static tfm_model *opened; /* until the program exits */
    char *dir = opened ? NULL : fuzz_source("tests/golden/embedder/0_Transformer");
    if (!opened && tfm_model_open(&opened, device(), dir, NULL) != TFM_OK) {
        fprintf(stderr, "%s\n", tfm_error_message());
        abort();
    }
    free(dir);
    return opened;
}

static void copy_weights(void) {
    char *path = fuzz_source("tests/golden/embedder/2_Dense/model.safetensors");
    FILE *in = fopen(path, "rb");
    static char bytes[1 << 14];
    const size_t size = in ? fread(bytes, 1, sizeof(bytes), in) : 0;
    if (!size || fclose(in) != 0)
        abort();
    free(path);
    fuzz_file("2_Dense/model.safetensors", bytes, size);
}

/* modules.json and the configuration files of pooling, a layer and texts, with NULs between them. */
static bool modules(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"modules.json", "1_Pooling/config.json", "2_Dense/config.json",
                                        "0_Transformer/sentence_bert_config.json", "config_sentence_transformers.json"};
    static const char *const FOLDERS[] = {"0_Transformer", "1_Pooling", "2_Dense", "3_Normalize"};
    static bool made;
    tfm_model *inner = encoder();
    tfm_embedder read = {.ctx = inner->ctx,
                         .model = inner,
                         .encoder_width = inner->info.width,
                         .encoder_positions = inner->info.max_positions};
    for (size_t i = 0; i < TFM__COUNT(FOLDERS) && !made; i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", fuzz_folder(), FOLDERS[i]);
        if (mkdir(path, 0700) != 0)
            abort();
    }
    if (!made)
        copy_weights();
    made = true;
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++) {
        size_t bytes;
        char *part = fuzz_part(&data, &size, &bytes);
        fuzz_file(NAMES[i], part, bytes);
        free(part);
    }
    char *dir = NULL;
    const bool good =
        tfm__modules_encoder_dir(&dir, fuzz_folder()) == TFM_OK && tfm__modules_read(&read, fuzz_folder()) == TFM_OK;
    if (good) {
        fuzz_touch(read.info.pooling, strlen(read.info.pooling));
        for (size_t i = 0; i < read.info.prompt_count; i++)
            if (!tfm_embedder_prompt_name(&read, i))
                abort();
    }
    tfm__modules_free(&read);
    free(dir);
    tfm_context_clear_error(read.model->ctx);
    return good;
}

const fuzz_target fuzz_folders[] = {{"model", model, NULL},
                                    {"tokenizer", tokenizer, NULL},
                                    {"older_words", older_words, NULL},
                                    {"older_pairs", older_pairs, NULL},
                                    {"older_pieces", older_pieces, NULL},
                                    {"older_both", older_both, NULL},
                                    {"gguf_pieces", gguf_tokenizer, gguf_pieces_seed},
                                    {"gguf_merges", gguf_tokenizer, gguf_merges_seed},
                                    {"gguf_words", gguf_tokenizer, gguf_words_seed},
                                    {"gguf_unigram", gguf_tokenizer, gguf_unigram_seed},
                                    {"modules", modules, NULL},
                                    {NULL, NULL, NULL}};
