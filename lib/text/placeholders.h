/* Untranslatable parts of a text: placeholders, tags, addresses, emoji. */
#ifndef TFM_LIB_PLACEHOLDERS_H
#define TFM_LIB_PLACEHOLDERS_H

#include <tfm/text.h>
#include "base/base.h"

/* A range of bytes: adjacent placeholders without a word between, with quotes or brackets around them. */
typedef struct tfm__placeholder {
    size_t begin, end;
} tfm__placeholder;

/* Finds the placeholders of a text, in order; the caller frees *out. An expression that takes too many steps stops
 * matching. */
tfm_status tfm__placeholders_find(const tfm_placeholders *placeholders, tfm__placeholder **out, size_t *count,
                                  const char *text, size_t bytes);

/* Whether the character before or after a byte is alphanumeric, by ICU. */
bool tfm__alnum_before(const char *text, size_t at);
bool tfm__alnum_after(const char *text, size_t at, size_t bytes);
/* Whether a text has a letter or a digit. */
bool tfm__has_alnum(const char *text, size_t bytes);

#endif
