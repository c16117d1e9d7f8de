/* YAML files, as JSON values: what Marian's configurations are written in. */
#ifndef TFM_LIB_YAML_H
#define TFM_LIB_YAML_H

#include <jansson.h>
#include "base/base.h"

/* Parses a text whose value must be a mapping with strings as keys, each once; `name` is what the sentence calls it.
 * Give the object back with json_decref. Plain words that JSON takes for a number, true, false or null are that, all
 * others strings. Anchors and tags are refused, for no configuration needs them. What is not such YAML is
 * TFM_ERROR_FORMAT with line and column; a library that was built without libyaml reads none: TFM_ERROR_UNSUPPORTED. */
tfm_status tfm__yaml_parse(json_t **out, const char *text, size_t bytes, const char *name);

/* The same of a file. A missing one is TFM_ERROR_IO. */
tfm_status tfm__yaml_load(json_t **out, const char *path);

#endif
