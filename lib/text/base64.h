/* Base64 (RFC 4648). */
#ifndef TFM_LIB_BASE64_H
#define TFM_LIB_BASE64_H

#include "base/base.h"

/* The bytes as text, for free(); NULL with the error message set if out of memory. */
char *tfm__base64_encode(const void *bytes, size_t size);
/* The bytes of a text up to `=`, for free(). TFM_ERROR_FORMAT for other characters: the message begins with `path` and
 * names `key`. */
tfm_status tfm__base64_decode(unsigned char **out, size_t *size, const char *text, const char *path, const char *key);

#endif
