/* YAML files as JSON values, for Marian's configurations. */
#ifndef TFM_LIB_YAML_H
#define TFM_LIB_YAML_H

#include <jansson.h>
#include "base/base.h"

/* Parses a mapping with unique string keys; `name` is used in error messages. Release the object with json_decref.
 * Plain words that are a JSON number, true, false or null get that type; all others are strings. Anchors and tags are
 * rejected, because configurations do not use them. Invalid YAML is TFM_ERROR_FORMAT with line and column; without
 * libyaml all is TFM_ERROR_UNSUPPORTED. */
tfm_status tfm__yaml_parse(json_t **out, const char *text, size_t bytes, const char *name);

/* The same for a file. A missing one is TFM_ERROR_IO. */
tfm_status tfm__yaml_load(json_t **out, const char *path);

#endif
