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

/* The first of them in the text, of those that begin there the longest, and where it begins; NULL for none.
 */
const tfm__added_token *tfm__added_find(const tfm__added *added, size_t *at, const char *text, size_t bytes);

#endif
