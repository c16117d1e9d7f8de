/* UTF-8 (RFC 3629). */
#ifndef TFM_LIB_UTF8_H
#define TFM_LIB_UTF8_H

#include "text/bytes.h"

/* Length of the longest well-formed prefix: `bytes` if all is well-formed. NUL is valid. */
size_t tfm__utf8_valid(const char *text, size_t bytes);

/* Adds bytes as UTF-8, with U+FFFD for malformed parts: one per maximal subpart of a character (Unicode, section 3.9),
 * like Rust's from_utf8_lossy. */
void tfm__utf8_lossy(tfm__bytes *out, const char *text, size_t bytes);

#endif
