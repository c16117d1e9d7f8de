/* Other files of a model directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "fuzz.h"
#include "base/gguf.h"
#include "model/adapters/adapter.h"
#include "model/arch/config_keys.h"
#include "model/arch/family.h"
#include "model/core/quantized_params.h"
#include "model/weights/packed_tensors.h"
#include "ops/quant/quant_format.h"
#include "support/gguf_builder.h"
#include "text/added_tokens.h"
#include "text/spm.h"
#include "text/vocab.h"

/* config.json and generation_config.json, a NUL between them. */
static bool config(const uint8_t *data, size_t size) {
    size_t bytes;
    char *first = fuzz_part(&data, &size, &bytes);
    fuzz_file("config.json", first, bytes);
    fuzz_file("generation_config.json", data, size);
    const tfm__family *family;
    tfm__arch arch;
    tfm__generation_rules read;
    const bool good = tfm__family_read(&family, &arch, &read, fuzz_folder()) == TFM_OK;
    if (good)
        for (int32_t id = -1; id < 200; id++)
            (void)(tfm__generation_is_pad(&read, id) + tfm__generation_is_banned(&read, id));
    free(first);
    return good;
}

#ifdef TFM_YAML
/* The configuration inside a Marian model, and its decoder configuration file, with a NUL between them. */
static bool marian(const uint8_t *data, size_t size) {
    static const float TABLE[8] = {1};
    size_t bytes;
    char *text = fuzz_part(&data, &size, &bytes);
    uint8_t file[512] = {1, 0, 0, 0, 0, 0, 0, 0, 2}, *whole = malloc(sizeof(file) + bytes + 1);
    if (!whole)
        abort();
    static const uint8_t HEADERS[2][32] = {
        {5, 0, 0, 0, 0, 0, 0, 0, 4, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, sizeof(TABLE)},
        {18, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1}};
    static const int32_t DIMS[3] = {4, 2};
    memcpy(file + 16, HEADERS, sizeof(HEADERS));
    const uint64_t length = bytes + 1;
    const int32_t dim = (int32_t)length;
    memcpy(file + 48 + 24, &length, 8);
    memcpy(file + 80, "Wemb\0special:model.yml", 23);
    memcpy(file + 103, DIMS, 8);
    memcpy(file + 111, &dim, 4);
    memcpy(file + 123, TABLE, sizeof(TABLE)); /* the table has no padding */
    memcpy(whole, file, 155);
    memcpy(whole + 155, text, bytes + 1);
    fuzz_folder_empty();
    fuzz_file("model.bin", whole, 155 + bytes + 1);
    if (size > 0)
        fuzz_file("config.yml", data, size);
    free(whole);
    free(text);
    const tfm__family *family;
    tfm__arch arch;
    tfm__generation_rules read;
    const bool good = tfm__family_read(&family, &arch, &read, fuzz_folder()) == TFM_OK;
    if (good)
        fuzz_touch(&arch, sizeof(arch));
    return good;
}

static void marian_seed(const char *path) {
    FILE *out = fopen(path, "wb");
    if (!out ||
        fputs("type: transformer\ndim-emb: 2\ntransformer-heads: 1\ntransformer-decoder-autoreg: rnn\ndec-cell: ssru\n"
              "tied-embeddings-all: true\nenc-depth: 2\ntransformer-postprocess: dan\n",
              out) < 0 ||
        fputc(0, out) == EOF ||
        fputs("models:\n  - x/model.bin\nvocabs: [a.spm, b.spm]\nshortlist: [lex.bin, false]\nbeam-size: 2\n"
              "normalize: 0.6\nword-penalty: 0\n",
              out) < 0 ||
        fclose(out) != 0)
        abort();
}
#endif

/* vocab.json, tokenizer_config.json, added_tokens.json and a text, with NULs between them. */
static bool vocab(const uint8_t *data, size_t size) {
    size_t bytes;
    char *first = fuzz_part(&data, &size, &bytes), *second, *third;
    const char *path = fuzz_file("vocab.json", first, bytes);
    tfm__vocab *read = NULL;
    tfm__added_tokens added = {0};
    json_t *root = NULL;
    bool good = false;
    second = fuzz_part(&data, &size, &bytes);
    const char *config_path = fuzz_file("tokenizer_config.json", second, bytes);
    third = fuzz_part(&data, &size, &bytes);
    const char *added_path = fuzz_file("added_tokens.json", third, bytes);
    if (tfm__vocab_open(&read, path) == TFM_OK) {
        const int32_t some = tfm__vocab_size(read) < 1000 ? tfm__vocab_size(read) : 1000;
        for (int32_t id = -1; id <= some; id++)
            if (tfm__vocab_piece(read, id) && tfm__vocab_id(read, tfm__vocab_piece(read, id)) != id)
                abort();
        if (tfm__json_load(&root, config_path) != TFM_OK)
            root = NULL;
        tfm__added_token_scan scan;
        good = tfm__added_tokens_open(&added, read, root, config_path, added_path) == TFM_OK;
        if (good && tfm__added_token_scan_begin(&scan, &added, (const char *)data, size) == TFM_OK) {
            size_t at = 0;
            for (const tfm__added_token *t; (t = tfm__added_token_scan_next(&scan, &at)) != NULL; at += t->bytes)
                fuzz_touch((const char *)data + at, t->bytes);
            tfm__added_token_scan_end(&scan);
        }
    }
    tfm__added_tokens_free(&added);
    tfm__vocab_free(&read);
    json_decref(root);
    free(third);
    free(second);
    free(first);
    return good;
}

/* Models that pass the check must not crash SentencePiece. */
static bool spm(const uint8_t *data, size_t size) {
    uint8_t *copy = fuzz_copy(data, size);
    tfm__spm *model = NULL;
    tfm__pieces pieces = {0};
    const bool good = tfm__spm_check(copy, size, "spm") == TFM_OK && tfm__spm_open(&model, copy, size, "spm") == TFM_OK;
    if (good) {
        static const char TEXT[] = "Ein Haus, \xef\xbc\xa1 \xe3\x80\x80 \xc3\x84rger \xf0\x9f\x98\x80.";
        if (tfm__spm_encode(model, &pieces, TEXT, sizeof(TEXT) - 1) == TFM_OK)
            for (size_t i = 0; i < pieces.count; i++)
                fuzz_touch(pieces.bytes + pieces.starts[i], strlen(pieces.bytes + pieces.starts[i]));
        for (size_t i = 0; i < tfm__spm_size(model) && i < 1000; i++)
            fuzz_touch(tfm__spm_piece(model, i), strlen(tfm__spm_piece(model, i)));
    }
    tfm__pieces_free(&pieces);
    tfm__spm_free(&model);
    free(copy);
    return good;
}

/* A GGUF model: metadata, names and shapes as when it is opened, and the values of all tensors. */
static bool gguf(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("x.gguf", data, size);
    tfm_model_info info;
    tfm__gguf *file = NULL;
    tfm__weights *weights = NULL;
    const bool good = tfm_model_read_info(&info, path, &(tfm_model_options){.no_tokenizer = true}) == TFM_OK;
    if (tfm__gguf_open(&file, path) == TFM_OK && tfm__weights_open_gguf(&weights, &file) == TFM_OK)
        for (size_t i = 0; i < tfm__weights_count(weights); i++) {
            const tfm__stored_tensor *t = tfm__weights_at(weights, i);
            float *values = t->usable ? malloc(t->count * sizeof(float)) : NULL; /* the file has at most 64 KB */
            if (values) {
                tfm__stored_to_floats(values, t, 0, t->count, 1);
                tfm__stored_to_floats(values, t, t->count / 3, t->count / 2, 1);
                fuzz_touch(values, t->count * sizeof(float));
            }
            free(values);
        }
    tfm__weights_free(&weights);
    return good;
}

static void gguf_seed(const char *path) {
    static const char *const NAMES[] = {"token_embd",  "attn_q",   "attn_k", "attn_v",
                                        "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
    static const char *const NORMS[] = {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"};
    enum { WIDTH = 32 };
    unsigned char zeros[WIDTH * WIDTH * 4] = {0};
    gguf_builder b = {0};
    gguf_add_string(&b, "general.architecture", "llama");
    gguf_add_u32(&b, "llama.block_count", 1);
    gguf_add_u32(&b, "llama.embedding_length", WIDTH);
    gguf_add_u32(&b, "llama.feed_forward_length", WIDTH);
    gguf_add_u32(&b, "llama.context_length", 64);
    gguf_add_u32(&b, "llama.attention.head_count", 4);
    gguf_add_array(&b, "llama.attention.head_count_kv", 4, 1, (uint32_t[]){2}, 4);
    gguf_add_f32(&b, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    gguf_add_f32(&b, "llama.rope.freq_base", 10000);
    gguf_add_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    gguf_add_strings(&b, "tokenizer.ggml.tokens", (const char *[]){"a", "<|im_end|>"}, 2);
    gguf_add_array(&b, "tokenizer.ggml.token_type", 5, 2, (int32_t[]){1, 3}, 8);
    for (size_t i = 0; i < sizeof(NORMS) / sizeof(*NORMS); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.weight", NORMS[i]);
        gguf_add_tensor(&b, name, 0, 1, (int64_t[]){WIDTH}, zeros, WIDTH * 4);
    }
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
        char name[64];
        const int64_t rows = i == 2 || i == 3 ? WIDTH / 2 : WIDTH;
        snprintf(name, sizeof(name), "%s%s.weight", i ? "blk.0." : "", NAMES[i]);
        gguf_add_tensor(&b, name, i % 2 ? 8 : 2, 2, (int64_t[]){rows, WIDTH}, zeros, (size_t)rows * (i % 2 ? 34 : 18));
    }
    gguf_bytes all = gguf_finish(&b);
    FILE *file = fopen(path, "wb");
    if (file)
        fwrite(all.data, 1, all.size, file);
    if (!file || fclose(file) != 0)
        abort();
    free(all.data);
}

/* All rows of a packed matrix, as floats and as blocks. */
static void read_packed(const tfm__stored_tensor *t) {
    const tfm__packed *p = t->packed;
    const size_t columns = (size_t)p->columns, blocks = t->blocks ? columns / (size_t)t->blocks->block : 0;
    float *values = malloc(columns * sizeof(*values));
    unsigned char *bytes = malloc(blocks * (size_t)(t->blocks ? t->blocks->bytes : 1) + 1);
    for (int64_t row = 0; values && bytes && row < p->rows; row++) {
        tfm__packed_floats(values, p, row);
        fuzz_touch(values, columns * sizeof(*values));
        if (t->blocks)
            tfm__packed_blocks(bytes, p, t->blocks, row);
        fuzz_touch(bytes, blocks * (size_t)(t->blocks ? t->blocks->bytes : 1));
    }
    free(values);
    free(bytes);
}

/* config.json with a quantization_config, a NUL, and the safetensors file: the matrices of GPTQ, AWQ and
 * compressed-tensors. */
static bool packed(const uint8_t *data, size_t size) {
    size_t bytes;
    char *text = fuzz_part(&data, &size, &bytes), path[] = "config.json";
    tfm__config_files from = {.config_path = path};
    tfm__packing packing;
    tfm__weights *weights = NULL;
    fuzz_file("model.safetensors", data, size);
    bool good = tfm__json_parse(&from.config, text, bytes, path) == TFM_OK &&
                tfm__quantization_config_read(&packing, &from) == TFM_OK &&
                tfm__weights_open_dir(&weights, fuzz_folder()) == TFM_OK &&
                tfm__weights_unpack(weights, &packing) == TFM_OK;
    for (size_t i = 0; good && i < tfm__weights_count(weights); i++)
        if (tfm__weights_at(weights, i)->packed)
            read_packed(tfm__weights_at(weights, i));
    tfm__weights_free(&weights);
    json_decref(from.config);
    free(text);
    return good;
}

/* adapter_config.json, a NUL, and adapter_model.safetensors. */
static bool adapter(const uint8_t *data, size_t size) {
    size_t bytes;
    char *config_text = fuzz_part(&data, &size, &bytes);
    tfm__adapter adapter;
    fuzz_file("adapter_config.json", config_text, bytes);
    fuzz_file("adapter_model.safetensors", data, size);
    const bool good = tfm__adapter_open(&adapter, fuzz_folder()) == TFM_OK;
    for (size_t i = 0; i < adapter.count; i++)
        if (adapter.changes[i].name)
            fuzz_touch(adapter.changes[i].name, strlen(adapter.changes[i].name));
    tfm__adapter_free(&adapter);
    free(config_text);
    return good;
}

const fuzz_target fuzz_model[] = {
    {"config", config, NULL},
#ifdef TFM_YAML
    {"marian", marian, marian_seed},
#endif
    {"packed", packed, NULL},        {"adapter", adapter, NULL}, {"gguf", gguf, gguf_seed},
    {"vocab", vocab, NULL},          {"spm", spm, NULL},         {NULL, NULL, NULL}};
