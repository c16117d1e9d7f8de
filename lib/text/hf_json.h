/* Reads sections of a tokenizer.json; errors name what is missing, unknown or of another type. */
#ifndef TFM_LIB_HF_JSON_H
#define TFM_LIB_HF_JSON_H

#include <stdbool.h>
#include <string.h>
#include "base/json.h"

/* The location for error messages: a file, and a part of it such as "normalizer". */
typedef struct tfm__json_location {
    const char *path, *section;
} tfm__json_location;

/* The `type` of a section, or NULL with the error message set. */
const char *tfm__hf_type(const json_t *value, tfm__json_location location);
/* TFM_ERROR_UNSUPPORTED: "FILE: `normalizer` of type "X" is not supported". */
tfm_status tfm__hf_unknown(const char *type, tfm__json_location location);

/* A key's value, `fallback` if missing or null. Of another type: TFM_ERROR_FORMAT. */
tfm_status tfm__hf_bool(bool *out, const json_t *value, const char *key, bool fallback, tfm__json_location location);
tfm_status tfm__hf_int(int64_t *out, const json_t *value, const char *key, int64_t fallback,
                       tfm__json_location location);
tfm_status tfm__hf_string(const char **out, const json_t *value, const char *key, const char *fallback,
                          tfm__json_location location);
/* A required list. */
tfm_status tfm__hf_list(const json_t **out, const json_t *value, const char *key, tfm__json_location location);
/* A required {"String": "..."} or {"Regex": "..."}. */
tfm_status tfm__hf_pattern(const char **out, bool *regex, const json_t *value, const char *key,
                           tfm__json_location location);

/* Flattens a tree of sequences: calls `step` for each section that is not a sequence. */
typedef tfm_status (*tfm__hf_step)(void *user, const json_t *value, const char *type, tfm__json_location location);
tfm_status tfm__hf_each(const json_t *value, const char *list, tfm__hf_step step, void *user,
                        tfm__json_location location);

#endif
