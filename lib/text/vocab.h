/* A vocabulary: pieces and their ids, from a JSON object such as vocab.json. */
#ifndef TFM_LIB_VOCAB_H
#define TFM_LIB_VOCAB_H

#include <jansson.h>
#include "base/base.h"

typedef struct tfm__vocab tfm__vocab;

/* Reads the vocabulary from a file. Every id must be an integer from 0 to 2^24 - 1 that no other piece has. */
tfm_status tfm__vocab_open(tfm__vocab **out, const char *path);
/* A vocabulary of `count` pieces, each with its place among them as its id. Sentences name `path`. */
tfm_status tfm__vocab_from_list(tfm__vocab **out, const char *(*piece)(const void *user, size_t id), const void *user,
                                size_t count, const char *path);
void tfm__vocab_free(tfm__vocab **vocab);

/* Adds a piece that the vocabulary does not have, with an id that no other piece has. Sentences name `path`. */
tfm_status tfm__vocab_add(tfm__vocab *vocab, const char *piece, const json_t *id, const char *path);

/* Returns the id of a piece, or -1 if there is none. */
int32_t tfm__vocab_id(const tfm__vocab *vocab, const char *piece);

/* Returns the piece of an id, which belongs to the vocabulary, or NULL if there is none. */
const char *tfm__vocab_piece(const tfm__vocab *vocab, int32_t id);

/* Returns the largest id plus one. */
int32_t tfm__vocab_size(const tfm__vocab *vocab);

#endif
