/* The pieces of a vocabulary, by text and by id. */
#ifndef TFM_LIB_TOKEN_MAP_H
#define TFM_LIB_TOKEN_MAP_H

#include "base/base.h"

/* Ids are below this: more rows no embedding has. */
#define TFM__MAX_IDS (1 << 24)

typedef struct tfm__lexicon tfm__lexicon;

tfm_status tfm__lexicon_new(tfm__lexicon **out);
void tfm__lexicon_free(tfm__lexicon **lexicon);

/* Gives a piece an id, which is from 0 to TFM__MAX_IDS - 1. A text that has an id already gets the new one; an id that
 * has a text already keeps that for tfm__lexicon_piece, unless `instead` is set. */
tfm_status tfm__lexicon_add(tfm__lexicon *lexicon, const char *text, size_t bytes, int32_t id, bool instead);

/* The id of a text, or -1. */
int32_t tfm__lexicon_find(const tfm__lexicon *lexicon, const char *text, size_t bytes);
/* Ends the pieces of the model: what is added afterwards is found by tfm__lexicon_find only. */
void tfm__lexicon_close(tfm__lexicon *lexicon);
/* The id of one of the model's own pieces, or -1. */
int32_t tfm__lexicon_find_own(const tfm__lexicon *lexicon, const char *text, size_t bytes);
/* The text of an id, with a NUL after it, or NULL if it has none. `bytes` may be NULL. It belongs to the lexicon and
 * stays until something is added. */
const char *tfm__lexicon_piece(const tfm__lexicon *lexicon, int32_t id, size_t *bytes);
/* The largest id plus one, and how many different texts have ids. */
int32_t tfm__lexicon_size(const tfm__lexicon *lexicon);
int32_t tfm__lexicon_count(const tfm__lexicon *lexicon);

#endif
