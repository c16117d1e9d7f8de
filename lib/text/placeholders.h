/* What of a text is not translated: placeholders, tags, addresses, emoji. */
#ifndef TFM_LIB_PLACEHOLDERS_H
#define TFM_LIB_PLACEHOLDERS_H

#include <tfm/text.h>
#include "base/base.h"

/* The bytes of a text that stay together: neighbours with no word between them, and quotes or brackets around them. */
typedef struct tfm__placeholder {
    size_t begin, end;
} tfm__placeholder;

/* Finds those of a text, in order; the caller frees *out. An expression that takes too many steps finds nothing more.
 */
tfm_status tfm__placeholders_find(const tfm_placeholders *placeholders, tfm__placeholder **out, size_t *count,
                                  const char *text, size_t bytes);

/* What ICU says of the character before and after a byte of a text. */
bool tfm__alnum_before(const char *text, size_t at);
bool tfm__alnum_after(const char *text, size_t at, size_t bytes);
/* Whether a text has a letter or a digit. */
bool tfm__has_alnum(const char *text, size_t bytes);

#endif
