/* Added tokens: tokens next to the vocabulary, e.g. from fine-tuning: a new language code, a placeholder. */
#ifndef TFM_LIB_ADDED_TOKENS_H
#define TFM_LIB_ADDED_TOKENS_H

#include <jansson.h>
#include "text/vocab.h"

typedef struct tfm__added_token {
    char *text;
    size_t bytes;
    int32_t id;
} tfm__added_token;

/* Starts as {0}. */
typedef struct tfm__added_tokens {
    tfm__added_token *tokens;
    size_t count;
} tfm__added_tokens;

/* Reads the added tokens, and adds the missing ones to `vocab`: from `added_tokens_decoder` in `config`, which is
 * tokenizer_config.json or NULL, else from added_tokens.json at `path`, if it exists. TFM_ERROR_FORMAT if a token has
 * the id of another piece. */
tfm_status tfm__added_tokens_open(tfm__added_tokens *out, tfm__vocab *vocab, const json_t *config,
                                  const char *config_path, const char *path);
void tfm__added_tokens_free(tfm__added_tokens *added);

/* An iteration over the added tokens of a text. The text stays the caller's. */
typedef struct tfm__added_token_scan {
    const tfm__added_tokens *added;
    const char *text;
    size_t bytes;
    /* Next position of each token, at or after the current one; `bytes` if there is none. */
    size_t *next;
} tfm__added_token_scan;

tfm_status tfm__added_token_scan_begin(tfm__added_token_scan *out, const tfm__added_tokens *added, const char *text,
                                       size_t bytes);
void tfm__added_token_scan_end(tfm__added_token_scan *scan);
/* Finds the first token at or after *at, the longest one at that position, and sets *at to its beginning. Without one
 * it returns NULL and sets *at to the text's end. Positions must increase. */
const tfm__added_token *tfm__added_token_scan_next(tfm__added_token_scan *scan, size_t *at);

#endif
