/* Exposes the library's view of a model to interchange.py:
 *
 *     interchange tokens DIR      for each line "source TAB target" of standard input: "ids TAB ids"
 *     interchange logits DIR      for each line "ids TAB ids", source and decoder input: (T, V) raw floats
 *     interchange create DIR shared|separate      creates a model with one shared vocabulary, or two
 *
 * Failures are one sentence on standard error and exit code 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfm/tfm.h>

enum { MOST_IDS = 4096 };

static bool print_ids(const tfm_tokenizer *tokenizer, tfm_side side, const char *text, const char *end) {
    int32_t *ids;
    size_t count;
    if (tfm_tokenizer_encode(tokenizer, &ids, &count, side, text, strlen(text)) != TFM_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    fputs(end, stdout);
    tfm_ids_free(&ids);
    return true;
}

static bool tokens(const char *dir) {
    tfm_tokenizer *tokenizer;
    char *line = NULL;
    size_t room = 0;
    bool good = tfm_tokenizer_open(&tokenizer, dir) == TFM_OK;
    while (good && getline(&line, &room, stdin) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *target = line + strcspn(line, "\t");
        if (*target)
            *target++ = 0;
        good = print_ids(tokenizer, TFM_SOURCE, line, "\t") && print_ids(tokenizer, TFM_TARGET, target, "\n");
    }
    free(line);
    tfm_tokenizer_free(&tokenizer);
    return good;
}

/* (1, n) of the integers at *text, which advances past them. */
static tfm_tensor read_ids(tfm_context *ctx, char **text) {
    int32_t ids[MOST_IDS];
    int64_t count = 0;
    tfm_tensor x = {0};
    while (**text && **text != '\t' && **text != '\n' && count < MOST_IDS)
        ids[count++] = (int32_t)strtol(*text, text, 10);
    *text += **text != 0;
    tfm_tensor_new(ctx, &x, TFM_I32, 2, (int64_t[]){1, count});
    tfm_tensor_write(ctx, x, ids);
    return x;
}

static bool write_logits(tfm_model *model, char *line) {
    tfm_context *ctx = tfm_model_context(model);
    tfm_tensor encoded = {0}, logits = {0}, lengths = {0};
    tfm_scope_open(ctx);
    tfm_tensor source = read_ids(ctx, &line), target = read_ids(ctx, &line);
    const int32_t length = (int32_t)source.dims[1];
    tfm_tensor_new(ctx, &lengths, TFM_I32, 1, (int64_t[]){1});
    tfm_tensor_write(ctx, lengths, &length);
    tfm_model_encode(model, &encoded, source, lengths);
    bool good = tfm_model_decode(model, &logits, target, encoded, lengths) == TFM_OK;
    float *host = good ? malloc(tfm_tensor_count(logits) * sizeof(*host)) : NULL;
    good = host && tfm_tensor_read(ctx, host, logits) == TFM_OK &&
           fwrite(host, sizeof(*host), tfm_tensor_count(logits), stdout) == tfm_tensor_count(logits);
    free(host);
    return tfm_scope_close(ctx, 0, NULL) == TFM_OK && good;
}

static bool logits(const char *dir, tfm_context *ctx) {
    tfm_model *model;
    char *line = NULL;
    size_t room = 0;
    bool good = tfm_model_open(&model, ctx, dir, &(tfm_model_options){.no_tokenizer = true}) == TFM_OK;
    while (good && getline(&line, &room, stdin) > 0)
        good = write_logits(model, line);
    free(line);
    tfm_model_free(&model);
    return good;
}

static bool create(const char *dir, const char *kind, tfm_context *ctx) {
    tfm_model *model;
    const bool separate = strcmp(kind, "separate") == 0;
    const tfm_model_shape shape = {.width = 64,
                                   .heads = 4,
                                   .ffn_dim = 160,
                                   .encoder_layers = 3,
                                   .decoder_layers = 2,
                                   .source_vocab_size = 300,
                                   .target_vocab_size = separate ? 300 : 0,
                                   .max_positions = 64,
                                   .pad_id = 299,
                                   .start_id = 299,
                                   .eos_id = 0,
                                   .activation = separate ? TFM_SILU : TFM_RELU,
                                   .seed = 11};
    const bool good = tfm_model_new(&model, ctx, &shape) == TFM_OK &&
                      tfm_model_save(model, dir, separate ? TFM_F16 : TFM_F32) == TFM_OK;
    tfm_model_free(&model);
    return good;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    tfm_context *ctx = NULL;
    bool good;
    if (strcmp(what, "tokens") == 0 && argc == 3) {
        good = tokens(argv[2]);
    } else if (strcmp(what, "logits") == 0 && argc == 3) {
        good = tfm_context_open(&ctx, NULL) == TFM_OK && logits(argv[2], ctx);
    } else if (strcmp(what, "create") == 0 && argc == 4) {
        good = tfm_context_open(&ctx, NULL) == TFM_OK && create(argv[2], argv[3], ctx);
    } else {
        fputs("usage: interchange tokens DIR | logits DIR | create DIR shared|separate\n", stderr);
        return 2;
    }
    if (!good)
        fprintf(stderr, "interchange: %s\n", tfm_error_message());
    tfm_context_free(&ctx);
    return good ? 0 : 1;
}
