/* The pieces of a vocabulary, by text and by id. */
#ifndef TFM_LIB_TOKEN_MAP_H
#define TFM_LIB_TOKEN_MAP_H

#include "base/base.h"

/* Ids are below this: no embedding has more rows. */
#define TFM__MAX_IDS (1 << 24)

typedef struct tfm__token_map tfm__token_map;

tfm_status tfm__token_map_new(tfm__token_map **out);
void tfm__token_map_free(tfm__token_map **token_map);

/* Makes room for `count` pieces, up to TFM__MAX_IDS, with `bytes` of text, so that additions need not move others. */
tfm_status tfm__token_map_reserve(tfm__token_map *token_map, size_t count, size_t bytes);
/* Gives a piece an id below TFM__MAX_IDS. A known text gets the new id; a known id keeps its text for
 * tfm__token_map_piece, unless `instead` is set. */
tfm_status tfm__token_map_add(tfm__token_map *token_map, const char *text, size_t bytes, int32_t id, bool instead);

/* The id of a text, or -1. */
int32_t tfm__token_map_find(const tfm__token_map *token_map, const char *text, size_t bytes);
/* The same, faster if it is `guess`. */
int32_t tfm__token_map_find_near(const tfm__token_map *token_map, const char *text, size_t bytes, int32_t guess);
/* Ends the model's own pieces: later ones are found by tfm__token_map_find only. */
void tfm__token_map_seal(tfm__token_map *token_map);
/* The id of one of the model's own pieces, or -1. */
int32_t tfm__token_map_find_base(const tfm__token_map *token_map, const char *text, size_t bytes);
/* The text of an id, NUL-terminated, or NULL. `bytes` may be NULL. Owned by the token_map, valid until the next
 * addition. */
const char *tfm__token_map_piece(const tfm__token_map *token_map, int32_t id, size_t *bytes);
/* The largest id plus one, and the number of distinct texts. */
int32_t tfm__token_map_size(const tfm__token_map *token_map);
int32_t tfm__token_map_count(const tfm__token_map *token_map);

#endif
