/* The `added_tokens` of a tokenizer.json: tokens that are found in a text before it is cut. */
#ifndef TFM_LIB_HF_ADDED_TOKENS_H
#define TFM_LIB_HF_ADDED_TOKENS_H

#include "text/spans.h"
#include "text/hf_json.h"
#include "text/token_map.h"
#include "text/normalize.h"
#include "text/trie.h"

typedef struct tfm__added_piece {
    char *text;
    char *normal; /* its normalised form, which `tokenizers` gives back as its text; NULL where it is not normalized */
    int32_t id;
    bool single_word; /* only where no word goes on at either end */
    bool lstrip;      /* takes the blanks before it */
    bool rstrip;      /* takes those after it */
    bool normalized;  /* is looked for in the normalised text, in its own normalised form */
    bool special;     /* adds nothing to a text, as a rule: */
    bool own;         /* the model does not make it of other pieces, nor is it a byte */
    bool silent;      /* `tokenizers` gives back the normalised form, and that has to be the text of a special one */
} tfm__added_piece;

/* Starts as {0}. */
typedef struct tfm__added_pieces {
    tfm__added_piece *items;
    size_t count, room;
    bool splits; /* special ones are not looked for in a text */
    tfm__trie raw, normal;
    int32_t *by_id; /* items, or -1 */
    size_t by_id_count;
} tfm__added_pieces;

/* Adds a token, of which it takes a copy, or changes what is known of it. Its id is the one that the lexicon has for
 * it, else `id` if that is not negative and free, else the next one after all; the lexicon then has it too. */
tfm_status tfm__added_pieces_add(tfm__added_pieces *added, tfm__lexicon *lexicon, const tfm__added_piece *piece,
                                 const char *path);
/* Adds those of a list of objects with `id` and `content`. */
tfm_status tfm__added_pieces_read(tfm__added_pieces *added, tfm__lexicon *lexicon, const json_t *list,
                                  const char *path);
/* Once all are there. */
tfm_status tfm__added_pieces_end(tfm__added_pieces *added, const tfm__lexicon *lexicon,
                                 const tfm__normalizer *normalizer);
void tfm__added_pieces_free(tfm__added_pieces *added);

/* The token of an id, or NULL. */
const tfm__added_piece *tfm__added_piece_of(const tfm__added_pieces *added, int32_t id);

/* Cuts a text at the tokens, of which `normal` chooses those that are looked for in normalised text. `out` gets cuts
 * from `base` on; `start` says whether the text begins where the line does. */
void tfm__added_pieces_cut(const tfm__added_pieces *added, bool normal, tfm__spans *out, const char *text, size_t bytes,
                           size_t base, bool start);

/* Reads `lstrip` and its like of an object. */
tfm_status tfm__added_piece_flags(tfm__added_piece *out, const json_t *value, tfm__place place);

#endif
