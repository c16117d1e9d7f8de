/* Tokens that a tokenizer has beside its vocabulary, as fine-tuning adds them: a new language code, a
 * placeholder. */
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

/* Reads the added tokens, and adds to `vocab` those that it does not have. They are those of `added_tokens_decoder` in
 * `config`, which is tokenizer_config.json or NULL; else those of the file added_tokens.json at `path`, if it exists.
 * TFM_ERROR_FORMAT if a token has the id of another piece. */
tfm_status tfm__added_tokens_open(tfm__added_tokens *out, tfm__vocab *vocab, const json_t *config,
                                  const char *config_path, const char *path);
void tfm__added_tokens_free(tfm__added_tokens *added);

/* A walk through a text from one added token to the next. The text stays the caller's. */
typedef struct tfm__added_token_scan {
    const tfm__added_tokens *added;
    const char *text;
    size_t bytes;
    /* Where each token is, at or after the place that was asked for; `bytes` if it is nowhere. */
    size_t *next;
} tfm__added_token_scan;

tfm_status tfm__added_token_scan_begin(tfm__added_token_scan *out, const tfm__added_tokens *added, const char *text,
                                       size_t bytes);
void tfm__added_token_scan_end(tfm__added_token_scan *scan);
/* Finds the first token at or after *at, the longest of those that begin there, and sets *at to where it begins. If
 * there is none it returns NULL and sets *at to the text's end. Places only go forward. */
const tfm__added_token *tfm__added_token_scan_next(tfm__added_token_scan *scan, size_t *at);

#endif
