/* Directories of which several files belong together: tokenizers of Hugging Face's, and sentence-transformers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"
#include "model/task/embedder.h"

/* ---- Tokenizers --------------------------------------------------------------------------------------- */

/* A text to ids and back, by itself, as one of two, and in a language. */
static void use(const tfm_tokenizer *tokenizer, const char *text, size_t bytes) {
    const tfm_encode_options ways[] = {
        {0}, {.plain = true}, {.pair = text, .pair_bytes = bytes}, {.language = "fr"}, {.language = "fr_XX"}};
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

/* Puts parts of the input into files; the last file takes what is left. The part for NULL is a text. */
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

/* A model of SentencePiece's has NULs in it, so it comes last. */
static bool older_pieces(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "sentencepiece.bpe.model"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

/* With a vocabulary of its own, for M2M-100. */
static bool older_both(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"tokenizer_config.json", NULL, "vocab.json", "sentencepiece.bpe.model"};
    return open_files(data, size, NAMES, TFM__COUNT(NAMES));
}

/* ---- sentence-transformers ---------------------------------------------------------------------------- */

static tfm_model *encoder(void) {
    static tfm_context *ctx; /* both for as long as the program runs */
    static tfm_model *model;
    char *dir = model ? NULL : fuzz_source("tests/golden/embedder/0_Transformer");
    if (!model && (tfm_context_open(&ctx, NULL) != TFM_OK || tfm_model_open(&model, ctx, dir, NULL) != TFM_OK)) {
        fprintf(stderr, "%s\n", tfm_error_message());
        abort();
    }
    free(dir);
    return model;
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

/* modules.json, the configurations of the pooling and of a layer, and those of texts, with NULs between them. */
static bool modules(const uint8_t *data, size_t size) {
    static const char *const NAMES[] = {"modules.json", "1_Pooling/config.json", "2_Dense/config.json",
                                        "0_Transformer/sentence_bert_config.json", "config_sentence_transformers.json"};
    static const char *const FOLDERS[] = {"0_Transformer", "1_Pooling", "2_Dense", "3_Normalize"};
    static bool made;
    tfm_model *model = encoder();
    tfm_embedder read = {.ctx = model->ctx,
                         .model = model,
                         .encoder_width = model->info.width,
                         .encoder_positions = model->info.max_positions};
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
        for (size_t i = 0; i < read.info.prompts; i++)
            if (!tfm_embedder_prompt_name(&read, i))
                abort();
    }
    for (int i = 0; i < read.step_count; i++) {
        tfm_dense_free(read.model->ctx, &read.steps[i].dense);
        tfm_norm_free(read.model->ctx, &read.steps[i].norm);
    }
    json_decref(read.prompts);
    free(read.default_prompt);
    free(dir);
    tfm_context_clear_error(read.model->ctx);
    return good;
}

const fuzz_target fuzz_folders[] = {{"tokenizer", tokenizer, NULL},
                                    {"older_words", older_words, NULL},
                                    {"older_pairs", older_pairs, NULL},
                                    {"older_pieces", older_pieces, NULL},
                                    {"older_both", older_both, NULL},
                                    {"modules", modules, NULL},
                                    {NULL, NULL, NULL}};
