/* JSON files. */
#ifndef TFM_LIB_JSON_H
#define TFM_LIB_JSON_H

#include <jansson.h>
#include "base/base.h"

/* Parses a file whose value must be an object without duplicate keys; give it back with json_decref. A
 * missing file is TFM_ERROR_IO; what is not such JSON is TFM_ERROR_FORMAT with line and column. */
tfm_status tfm__json_load(json_t **out, const char *path);

/* Parses JSON of any kind from memory; `name` is what error messages call it. A byte order mark is skipped, integers
 * beyond 64 bits become reals, and each `\u0000` of a string becomes U+FFFD. Duplicate keys, trailing text, invalid
 * UTF-8, a NUL in a key and nesting deeper than 2048 are TFM_ERROR_FORMAT. apps/cli/json_text.c does the same for the
 * program, and test_json tests both. */
tfm_status tfm__json_read(json_t **out, const char *text, size_t bytes, const char *name);
/* The same for a value that must be an object. */
tfm_status tfm__json_parse(json_t **out, const char *text, size_t bytes, const char *name);

/* Where a text begins after a byte order mark and blanks; `bytes` if nothing follows them. A web page has '<' there. */
size_t tfm__json_skip_bom(const void *text, size_t bytes);

/* Writes the object to dir/name, and gives it back: NULL is one for which there was no memory. `what` begins the
 * sentence then. */
tfm_status tfm__json_write(const char *dir, const char *name, json_t *object, const char *what);

/* "a string", "an object", ...: for sentences. */
const char *tfm__json_kind(const json_t *value);

/* The value as the file writes it, cut when long: for sentences. `text` holds at least TFM__JSON_TEXT bytes;
 * returned. */
#define TFM__JSON_TEXT 64
const char *tfm__json_text(char *text, const json_t *value);

#endif
