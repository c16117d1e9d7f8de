/* The `added_tokens` of a tokenizer.json: tokens that are found in a text before it is cut. */
#ifndef TFM_LIB_HF_ADDED_TOKENS_H
#define TFM_LIB_HF_ADDED_TOKENS_H

#include "text/spans.h"
#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/normalize.h"
#include "text/trie.h"

typedef struct tfm__hf_added_token {
    char *text;
    char *normal; /* its normalised form, which `tokenizers` gives back as its text; NULL where it is not normalized */
    int32_t id;
    bool single_word; /* only where no word goes on at either end */
    bool lstrip;      /* takes the blanks before it */
    bool rstrip;      /* takes those after it */
    bool normalized;  /* is looked for in the normalised text, in its own normalised form */
    bool special;     /* adds nothing to a text, as a rule: */
    bool literal;     /* the model does not make it of other pieces, nor is it a byte */
    bool skipped;     /* `tokenizers` gives back the normalised form, and that has to be the text of a special one */
} tfm__hf_added_token;

/* Starts as {0}. */
typedef struct tfm__hf_added_tokens {
    tfm__hf_added_token *items;
    size_t count, capacity;
    bool split_special; /* special ones are not looked for in a text */
    tfm__trie raw, normal;
    int32_t *by_id; /* items, or -1 */
    size_t by_id_count;
} tfm__hf_added_tokens;

/* Adds a token, of which it takes a copy, or changes what is known of it. Its id is the one that the token_map has for
 * it, else `id` if that is not negative and free, else the next one after all; the token_map then has it too. */
tfm_status tfm__hf_added_tokens_add(tfm__hf_added_tokens *added, tfm__token_map *token_map,
                                    const tfm__hf_added_token *token, const char *path);
/* Adds those of a list of objects with `id` and `content`. */
tfm_status tfm__hf_added_tokens_read(tfm__hf_added_tokens *added, tfm__token_map *token_map, const json_t *list,
                                     const char *path);
/* Once all are there. */
tfm_status tfm__hf_added_tokens_finish(tfm__hf_added_tokens *added, const tfm__token_map *token_map,
                                       const tfm__normalizer *normalizer);
void tfm__hf_added_tokens_free(tfm__hf_added_tokens *added);

/* The token of an id, or NULL. */
const tfm__hf_added_token *tfm__hf_added_token_by_id(const tfm__hf_added_tokens *added, int32_t id);

/* Cuts a text at the tokens, of which `normal` chooses those that are looked for in normalised text. `out` gets cuts
 * from `base` on; `start` says whether the text begins where the line does. */
void tfm__hf_added_tokens_split(const tfm__hf_added_tokens *added, bool normal, tfm__spans *out, const char *text,
                                size_t bytes, size_t base, bool start);

/* Reads `lstrip` and its like of an object. */
tfm_status tfm__hf_added_token_flags(tfm__hf_added_token *out, const json_t *value, tfm__json_location location);

#endif
