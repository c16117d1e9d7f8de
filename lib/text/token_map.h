/* The pieces of a vocabulary, by text and by id. */
#ifndef TFM_LIB_TOKEN_MAP_H
#define TFM_LIB_TOKEN_MAP_H

#include "base/base.h"

/* Ids are below this: more rows no embedding has. */
#define TFM__MAX_IDS (1 << 24)

typedef struct tfm__token_map tfm__token_map;

tfm_status tfm__token_map_new(tfm__token_map **out);
void tfm__token_map_free(tfm__token_map **token_map);

/* Gives a piece an id, which is from 0 to TFM__MAX_IDS - 1. A text that has an id already gets the new one; an id that
 * has a text already keeps that for tfm__token_map_piece, unless `instead` is set. */
tfm_status tfm__token_map_add(tfm__token_map *token_map, const char *text, size_t bytes, int32_t id, bool instead);

/* The id of a text, or -1. */
int32_t tfm__token_map_find(const tfm__token_map *token_map, const char *text, size_t bytes);
/* Ends the pieces of the model: what is added afterwards is found by tfm__token_map_find only. */
void tfm__token_map_seal(tfm__token_map *token_map);
/* The id of one of the model's own pieces, or -1. */
int32_t tfm__token_map_find_base(const tfm__token_map *token_map, const char *text, size_t bytes);
/* The text of an id, with a NUL after it, or NULL if it has none. `bytes` may be NULL. It belongs to the token_map and
 * stays until something is added. */
const char *tfm__token_map_piece(const tfm__token_map *token_map, int32_t id, size_t *bytes);
/* The largest id plus one, and how many different texts have ids. */
int32_t tfm__token_map_size(const tfm__token_map *token_map);
int32_t tfm__token_map_count(const tfm__token_map *token_map);

#endif
