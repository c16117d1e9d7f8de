/* Texts of calls that only read them: lines to ids with special tokens, cut to what the model takes, in batches. */
#ifndef TFM_LIB_ENCODE_LINES_H
#define TFM_LIB_ENCODE_LINES_H

#include "model/tasks/batch.h"
#include "tfm/embed.h"

/* How lines become ids. */
typedef struct tfm__line_encoder {
    tfm_model *model;
    const tfm_embed_options *options;
    size_t max_tokens;     /* Tokens of a text, with special ones. */
    const char *prompt;    /* Is put before each line; NULL: nothing. */
    bool lowercase;        /* Letters are made small. */
    tfm_embed_stats stats; /* What is done so far. */
    /* Special tokens before and after a text, and between two (encode_lines.c). */
    size_t before, after, between;
} tfm__line_encoder;

/* Sets the tokens around texts. Refuses a model without a tokenizer. */
tfm_status tfm__line_encoder_open(tfm__line_encoder *line_encoder, const char *what);

/* The ids of `count` lines, freed with tfm__lines_free. Bad ones are rejected through the options or fail the call. */
tfm_status tfm__line_encoder_encode(tfm__line_encoder *line_encoder, tfm__line **out, const char *const *lines,
                                    size_t count);

/* How many tokens of each text are the prompt's, with those before it. */
tfm_status tfm__line_encoder_prompt_tokens(const tfm__line_encoder *line_encoder, int64_t *out);

/* One batch on the device: ids (B, T), lengths (B), and types (B, T) where the model tells two texts apart by them,
 * else empty. */
typedef struct tfm__encoded_batch {
    tfm_tensor ids, types, lengths;
} tfm__encoded_batch;
tfm_status tfm__line_encoder_upload(const tfm__line_encoder *line_encoder, tfm_context *ctx, tfm__encoded_batch *out,
                                    tfm__line *const *batch, size_t n);

/* Has `run` work on batches of lines that are sorted by length, all together, and counts them. */
tfm_status tfm__line_encoder_run(tfm__line_encoder *line_encoder, tfm__line *lines, size_t count,
                                 tfm_status (*run)(void *user, tfm_model *on, tfm__line *const *batch, size_t n),
                                 void *user);

/* Adds what was done, since `start`, to the counts that the options ask for. */
void tfm__line_encoder_count(const tfm__line_encoder *line_encoder, double start);

#endif
