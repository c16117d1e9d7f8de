/* Tokens that a tokenizer has beside its vocabulary, as fine-tuning adds them: a new language code, a
 * placeholder. */
#ifndef TFM_LIB_ADDED_H
#define TFM_LIB_ADDED_H

#include <jansson.h>
#include "text/vocab.h"

typedef struct tfm__added_token {
    char *text;
    size_t bytes;
    int32_t id;
} tfm__added_token;

/* Starts as {0}. */
typedef struct tfm__added {
    tfm__added_token *tokens;
    size_t count;
} tfm__added;

/* Takes into `vocab` what it does not have: tokens of `added_tokens_decoder` in `config`, which is
 * tokenizer_config.json or NULL, else those of the file added_tokens.json, if it is there. TFM_ERROR_FORMAT
 * where an id is another piece's. */
tfm_status tfm__added_open(tfm__added *out, tfm__vocab *vocab, const json_t *config, const char *config_path,
                           const char *path);
void tfm__added_free(tfm__added *added);

/* A walk through a text from one of them to the next. */
typedef struct tfm__added_walk {
    const tfm__added *added;
    const char *text;
    size_t bytes;
    size_t *next; /* of each token: where it is, at or behind the place that was asked for; `bytes` where it
                     is not */
} tfm__added_walk;

tfm_status tfm__added_begin(tfm__added_walk *out, const tfm__added *added, const char *text, size_t bytes);
void tfm__added_end(tfm__added_walk *walk);
/* The first token at or behind *at, of those that begin there the longest, and *at where it begins; or NULL,
 * and *at is the text's end. Places only go forward. */
const tfm__added_token *tfm__added_find(tfm__added_walk *walk, size_t *at);

#endif
