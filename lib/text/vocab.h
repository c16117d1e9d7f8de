/* A vocabulary: pieces and their ids, from a JSON object such as vocab.json. */
#ifndef TFM_LIB_VOCAB_H
#define TFM_LIB_VOCAB_H

#include <jansson.h>
#include "base/base.h"

typedef struct tfm__vocab tfm__vocab;

/* Reads the vocabulary from a file. Ids must be unique integers from 0 to 2^24 - 1. */
tfm_status tfm__vocab_open(tfm__vocab **out, const char *path);
/* A vocabulary of `count` pieces, with their indices as ids. Error messages name `path`. */
tfm_status tfm__vocab_from_list(tfm__vocab **out, const char *(*piece)(const void *user, size_t id), const void *user,
                                size_t count, const char *path);
void tfm__vocab_free(tfm__vocab **vocab);

/* Adds a new piece with an unused id. Error messages name `path`. */
tfm_status tfm__vocab_add(tfm__vocab *vocab, const char *piece, const json_t *id, const char *path);

/* The id of a piece, or -1. */
int32_t tfm__vocab_id(const tfm__vocab *vocab, const char *piece);

/* The piece of an id, owned by the vocabulary, or NULL. */
const char *tfm__vocab_piece(const tfm__vocab *vocab, int32_t id);

/* The largest id plus one. */
int32_t tfm__vocab_size(const tfm__vocab *vocab);

#endif
