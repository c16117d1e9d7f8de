/* A vocabulary: pieces and their ids, from a JSON object such as vocab.json. */
#ifndef TFM_LIB_VOCAB_H
#define TFM_LIB_VOCAB_H

#include <jansson.h>
#include "base/base.h"

typedef struct tfm__vocab tfm__vocab;

/* Every id must be an integer from 0 to 2^24 - 1, each used once. */
tfm_status tfm__vocab_open(tfm__vocab **out, const char *path);
void tfm__vocab_free(tfm__vocab **vocab);

/* Takes a piece in that it does not have, with an id that no other has; `path` is for sentences. */
tfm_status tfm__vocab_add(tfm__vocab *vocab, const char *piece, const json_t *id, const char *path);

/* The id of a piece, or -1. */
int32_t tfm__vocab_id(const tfm__vocab *vocab, const char *piece);

/* The piece of an id, or NULL. Borrowed from the vocabulary. */
const char *tfm__vocab_piece(const tfm__vocab *vocab, int32_t id);

/* The largest id plus one. */
int32_t tfm__vocab_size(const tfm__vocab *vocab);

#endif
