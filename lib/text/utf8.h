/* UTF-8 (RFC 3629). */
#ifndef TFM_LIB_UTF8_H
#define TFM_LIB_UTF8_H

#include "text/bytes.h"

/* How many of the bytes, from the first on, are whole well-formed characters: `bytes` if all are. NUL counts
 * as one. */
size_t tfm__utf8_valid(const char *text, size_t bytes);

/* Adds bytes as UTF-8, with U+FFFD for what is none: one for the longest beginning of a character that is there
 * (Unicode, section 3.9), as Rust's from_utf8_lossy does it. */
void tfm__utf8_lossy(tfm__bytes *out, const char *text, size_t bytes);

#endif
