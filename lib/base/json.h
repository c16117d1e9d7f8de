/* JSON files. */
#ifndef TFM_LIB_JSON_H
#define TFM_LIB_JSON_H

#include <jansson.h>
#include "base/base.h"

/* Parses a file with an object without duplicate keys; release it with json_decref. A missing file is TFM_ERROR_IO;
 * invalid JSON is TFM_ERROR_FORMAT with line and column. */
tfm_status tfm__json_load(json_t **out, const char *path);

/* Parses any JSON value from memory; `name` is used in error messages. Skips a byte order mark; integers beyond 64 bits
 * become reals, and each `\u0000` of a string becomes U+FFFD. Duplicate keys, trailing text, invalid UTF-8, a NUL in a
 * key and nesting deeper than 2048 are TFM_ERROR_FORMAT. apps/cli/json_text.c is the program's equivalent; test_json
 * tests both. */
tfm_status tfm__json_read(json_t **out, const char *text, size_t bytes, const char *name);
/* The same for a value that must be an object. */
tfm_status tfm__json_parse(json_t **out, const char *text, size_t bytes, const char *name);

/* The offset of the text after a byte order mark and blanks; `bytes` if nothing follows. '<' there is a web page. */
size_t tfm__json_skip_bom(const void *text, size_t bytes);

/* Writes the object to dir/name and releases it; NULL means out of memory. `what` begins the error message. */
tfm_status tfm__json_write(const char *dir, const char *name, json_t *object, const char *what);

/* "a string", "an object", ...: for error messages. */
const char *tfm__json_kind(const json_t *value);

/* The value as JSON text, truncated: for error messages. Returns `text`, which holds at least TFM__JSON_TEXT bytes. */
#define TFM__JSON_TEXT 64
const char *tfm__json_text(char *text, const json_t *value);

#endif
