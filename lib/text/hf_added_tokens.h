/* The `added_tokens` of a tokenizer.json: tokens that are found in a text before pre-tokenization. */
#ifndef TFM_LIB_HF_ADDED_TOKENS_H
#define TFM_LIB_HF_ADDED_TOKENS_H

#include "text/spans.h"
#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/normalize.h"
#include "text/trie.h"

typedef struct tfm__hf_added_token {
    char *text;
    char *normal; /* its normalized form, which `tokenizers` decodes to; NULL if not normalized */
    int32_t id;
    bool single_word; /* matches only at word boundaries */
    bool lstrip;      /* includes the blanks before it */
    bool rstrip;      /* includes the blanks after it */
    bool normalized;  /* its normalized form is searched in the normalized text */
    bool special;     /* skipped in decoding by default: */
    bool literal;     /* the model does not build it from other pieces, and it is not a byte piece */
    bool skipped;     /* `tokenizers` decodes to the normalized form, which must be the text of a special token */
} tfm__hf_added_token;

/* Initially {0}. */
typedef struct tfm__hf_added_tokens {
    tfm__hf_added_token *items;
    size_t count, capacity;
    bool split_special; /* special tokens are not searched in a text */
    tfm__trie raw, normal;
    int32_t *by_id; /* items, or -1 */
    size_t by_id_count;
} tfm__hf_added_tokens;

/* Adds a copy of a token, or updates a known one. Its id is the token_map's, else `id` if that is free and not
 * negative, else the next free id; the token_map then has it too. */
tfm_status tfm__hf_added_tokens_add(tfm__hf_added_tokens *added, tfm__token_map *token_map,
                                    const tfm__hf_added_token *token, const char *path);
/* Adds the tokens of a list of objects with `id` and `content`. */
tfm_status tfm__hf_added_tokens_read(tfm__hf_added_tokens *added, tfm__token_map *token_map, const json_t *list,
                                     const char *path);
/* Call after the last addition. */
tfm_status tfm__hf_added_tokens_finish(tfm__hf_added_tokens *added, const tfm__token_map *token_map,
                                       const tfm__normalizer *normalizer);
void tfm__hf_added_tokens_free(tfm__hf_added_tokens *added);

/* The token of an id, or NULL. */
const tfm__hf_added_token *tfm__hf_added_token_by_id(const tfm__hf_added_tokens *added, int32_t id);

/* Splits a text at added tokens; `normal` selects the ones searched in normalized text. Adds spans from `base` on;
 * `start`: the text begins at the line's start. */
void tfm__hf_added_tokens_split(const tfm__hf_added_tokens *added, bool normal, tfm__spans *out, const char *text,
                                size_t bytes, size_t base, bool start);

/* Reads flags such as `lstrip` of an object. */
tfm_status tfm__hf_added_token_flags(tfm__hf_added_token *out, const json_t *value, tfm__json_location location);

#endif
