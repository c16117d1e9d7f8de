/* The table of normalisations that a SentencePiece model carries, read as `tokenizers` reads it, or as SentencePiece.
 */
#ifndef TFM_LIB_CHARSMAP_H
#define TFM_LIB_CHARSMAP_H

#include "base/base.h"
#include "text/bytes.h"

typedef struct tfm__charsmap tfm__charsmap;

/* Takes the table's bytes. An empty one changes nothing. TFM_ERROR_FORMAT if it is damaged. */
tfm_status tfm__charsmap_new(tfm__charsmap **out, const void *bytes, size_t size, const char *path);
/* The same from base64. `longest`: the longest rule counts wherever it begins, as in SentencePiece; `tokenizers` takes
 * the shortest that a grapheme cluster or a character begins with, and all of that goes with it. */
tfm_status tfm__charsmap_new_base64(tfm__charsmap **out, const char *text, bool longest, const char *path);
void tfm__charsmap_free(tfm__charsmap **map);

/* Adds the normalised text. */
void tfm__charsmap_run(const tfm__charsmap *map, tfm__bytes *out, const char *text, size_t bytes);

#endif
