/* The normalization table of a SentencePiece model, applied as in `tokenizers` or as in SentencePiece. */
#ifndef TFM_LIB_CHARSMAP_H
#define TFM_LIB_CHARSMAP_H

#include "base/base.h"
#include "text/bytes.h"

typedef struct tfm__charsmap tfm__charsmap;

/* Copies the table's bytes. An empty table changes nothing. TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__charsmap_new(tfm__charsmap **out, const void *bytes, size_t size, const char *path);
/* The same from base64. `longest`: applies the longest rule at any position, as SentencePiece; `tokenizers` applies the
 * shortest rule that is a prefix of a grapheme cluster or character, and replaces all of that. */
tfm_status tfm__charsmap_new_base64(tfm__charsmap **out, const char *text, bool longest, const char *path);
void tfm__charsmap_free(tfm__charsmap **map);

/* Adds the normalized text. */
void tfm__charsmap_run(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes);

#endif
