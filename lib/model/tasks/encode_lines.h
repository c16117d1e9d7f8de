/* Lines for calls that do not generate: encoded with special tokens, truncated to the model's length, in batches. */
#ifndef TFM_LIB_ENCODE_LINES_H
#define TFM_LIB_ENCODE_LINES_H

#include "model/tasks/batch.h"
#include "tfm/embed.h"

/* Encoding options. */
typedef struct tfm__line_encoder {
    tfm_model *model;
    const tfm_embed_options *options;
    size_t max_tokens;  /* per text, including special tokens */
    const char *prompt; /* prefix of each line; NULL: none */
    bool lowercase;     /* lowercases the text */
    size_t width;       /* minimum width of a batch, filled up with the token `fill`; 0: none */
    int32_t fill;
    tfm_embed_stats stats; /* statistics so far */
    /* Special tokens before and after a text, and between two (encode_lines.c). */
    size_t before, after, between;
} tfm__line_encoder;

/* Sets the special tokens. Fails if the model has no tokenizer. */
tfm_status tfm__line_encoder_open(tfm__line_encoder *line_encoder, const char *what);

/* Ids of `count` lines, for tfm__lines_free. Bad lines are rejected through the options or fail the call. */
tfm_status tfm__line_encoder_encode(tfm__line_encoder *line_encoder, tfm__line **out, const char *const *lines,
                                    size_t count);

/* Tokens of the prompt in each text, including the special tokens before it. */
tfm_status tfm__line_encoder_prompt_tokens(const tfm__line_encoder *line_encoder, int64_t *out);

/* A batch on the device: ids (B, T), lengths (B), token types (B, T) if the model uses them for text pairs, else
 * empty. */
typedef struct tfm__encoded_batch {
    tfm_tensor ids, types, lengths;
} tfm__encoded_batch;
tfm_status tfm__line_encoder_upload(const tfm__line_encoder *line_encoder, tfm_context *ctx, tfm__encoded_batch *out,
                                    tfm__line *const *batch, size_t n);

/* Calls `run` for batches of lines, all sorted by length, and updates the statistics. */
tfm_status tfm__line_encoder_run(tfm__line_encoder *line_encoder, tfm__line *lines, size_t count,
                                 tfm_status (*run)(void *user, tfm_model *on, tfm__line *const *batch, size_t n),
                                 void *user);

/* Adds the statistics since `start` to the options' statistics. */
void tfm__line_encoder_count(const tfm__line_encoder *line_encoder, double start);

#endif
