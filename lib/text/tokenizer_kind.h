/* The interface of a kind of tokenizer. tokenizer.c dispatches to it, checks arguments and counts references. A new
 * kind needs a file with an open function, and a line in tokenizer.c. */
#ifndef TFM_LIB_TOKENIZER_KIND_H
#define TFM_LIB_TOKENIZER_KIND_H

#include <jansson.h>
#include "base/base.h"
#include "text/bytes.h"
#include "tfm/text.h"

/* A growing id buffer (id_buffer.c). */
typedef struct tfm__id_buffer {
    int32_t *ids;
    size_t count, capacity;
} tfm__id_buffer;

/* Reserves `more` ids after the last. */
tfm_status tfm__id_buffer_reserve(tfm__id_buffer *ids, size_t more);
tfm_status tfm__id_buffer_add(tfm__id_buffer *ids, int32_t id);

/* All calls except `close` are thread-safe. Texts are well-formed UTF-8 without NUL, and not NULL. */
typedef struct tfm__tokenizer_kind {
    const char *name;
    void (*close)(void *self);
    /* Adds the ids of a text. `options` is not NULL. `alpha` > 0 samples a segmentation. */
    tfm_status (*encode)(const void *self, tfm__id_buffer *out, tfm_side side, const tfm_encode_options *options,
                         const char *text, size_t bytes, float alpha);
    /* Decodes ids of the target side, for free(). */
    tfm_status (*decode)(const void *self, char **text, const int32_t *ids, size_t count);
    /* The piece of an id or NULL; the id of a piece, or of a language code, or -1. */
    const char *(*piece)(const void *self, tfm_side side, int32_t id);
    int32_t (*find)(const void *self, tfm_side side, const char *piece);
    int32_t (*language_id)(const void *self, const char *code);
    /* How many ids at the end have no final text until others follow. */
    size_t (*incomplete)(const void *self, const int32_t *ids, size_t count);
    /* Adds the bytes that a token of the target side has within a text; none for a special token or an unused id. */
    tfm_status (*token_bytes)(const void *self, tfm__bytes *out, int32_t id);
} tfm__tokenizer_kind;

/* The result of opening a directory, initially {0}. */
typedef struct tfm__tokenizer_parts {
    const tfm__tokenizer_kind *kind;
    void *self;
    tfm_tokenizer_info info;
    char *languages[2]; /* By tfm_side; NULL if unknown. */
} tfm__tokenizer_parts;

tfm_status tfm__marian_tokenizer_open(tfm__tokenizer_parts *out, const char *dir);
tfm_status tfm__hf_tokenizer_open(tfm__tokenizer_parts *out, const char *dir);

/* Whether tfm__hf_tokenizer_open finds a tokenizer there. */
bool tfm__hf_tokenizer_exists(const char *dir);

/* Copies the languages of the two sides from tokenizer_config.json. `config` may be NULL. */
tfm_status tfm__tokenizer_languages(char *names[2], const json_t *config);

#endif
