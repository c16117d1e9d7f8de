/* The table of normalisations that a SentencePiece model carries, read as `tokenizers` reads it. */
#ifndef TFM_LIB_CHARSMAP_H
#define TFM_LIB_CHARSMAP_H

#include "base/base.h"
#include "text/bytes.h"

typedef struct tfm__charsmap tfm__charsmap;

/* Takes the table's bytes. An empty one changes nothing. TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__charsmap_new(tfm__charsmap **out, const void *bytes, size_t size, const char *path);
/* The same from base64. */
tfm_status tfm__charsmap_new_base64(tfm__charsmap **out, const char *text, const char *path);
void tfm__charsmap_free(tfm__charsmap **map);

/* Adds the normalised text. */
void tfm__charsmap_run(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes);

#endif
