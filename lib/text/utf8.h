/* UTF-8 (RFC 3629). */
#ifndef TFM_LIB_UTF8_H
#define TFM_LIB_UTF8_H

#include "base/base.h"

/* How many of the bytes, from the first on, are whole well-formed characters: `bytes` if all are. NUL counts
 * as one. */
size_t tfm__utf8_valid(const char *text, size_t bytes);

#endif
