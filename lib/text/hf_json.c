#include "text/hf_json.h"

/* Nesting of sequences. */
enum { MAX_DEPTH = 16 };

const char *tfm__hf_type(const json_t *value, tfm__json_location location) {
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!type)
        tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; an object with a `type` is needed", location.path,
                  location.section, tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
    return type;
}

tfm_status tfm__hf_unknown(const char *type, tfm__json_location location) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` of type \"%.100s\" is not supported by tfm", location.path,
                     location.section, type);
}

static tfm_status wrong(const json_t *value, const char *key, const char *wanted, tfm__json_location location) {
    return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` in `%s` is %s; %s is needed", location.path, key, location.section,
                     tfm__json_text((char[TFM__JSON_TEXT]){0}, value), wanted);
}

tfm_status tfm__hf_bool(bool *out, const json_t *value, const char *key, bool fallback, tfm__json_location location) {
    const json_t *found = json_object_get(value, key);
    *out = found && !json_is_null(found) ? json_is_true(found) : fallback;
    return !found || json_is_null(found) || json_is_boolean(found) ? TFM_OK
                                                                   : wrong(found, key, "true or false", location);
}

tfm_status tfm__hf_int(int64_t *out, const json_t *value, const char *key, int64_t fallback,
                       tfm__json_location location) {
    const json_t *found = json_object_get(value, key);
    *out = found && !json_is_null(found) ? json_integer_value(found) : fallback;
    return !found || json_is_null(found) || json_is_integer(found) ? TFM_OK : wrong(found, key, "an integer", location);
}

tfm_status tfm__hf_string(const char **out, const json_t *value, const char *key, const char *fallback,
                          tfm__json_location location) {
    const json_t *found = json_object_get(value, key);
    *out = found && !json_is_null(found) ? json_string_value(found) : fallback;
    return !found || json_is_null(found) || *out ? TFM_OK : wrong(found, key, "a string", location);
}

tfm_status tfm__hf_list(const json_t **out, const json_t *value, const char *key, tfm__json_location location) {
    *out = json_object_get(value, key);
    return json_is_array(*out) ? TFM_OK : wrong(*out, key, "a list", location);
}

tfm_status tfm__hf_pattern(const char **out, bool *regex, const json_t *value, const char *key,
                           tfm__json_location location) {
    const json_t *found = json_object_get(value, key);
    const char *text = json_string_value(json_object_get(found, "String"));
    *regex = !text;
    *out = text ? text : json_string_value(json_object_get(found, "Regex"));
    return *out ? TFM_OK : wrong(found, key, "an object with a `String` or a `Regex`", location);
}

static tfm_status each(const json_t *value, const char *list, tfm__hf_step step, void *user,
                       tfm__json_location location, int depth) {
    const json_t *items;
    const json_t *item;
    size_t i;
    const char *type = tfm__hf_type(value, location);
    if (!type)
        return TFM_ERROR_FORMAT;
    if (strcmp(type, "Sequence") != 0)
        return step(user, value, type, location);
    if (depth == MAX_DEPTH)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has sequences more than %d deep", location.path, location.section,
                         MAX_DEPTH);
    tfm_status status = tfm__hf_list(&items, value, list, location);
    if (status == TFM_OK)
        json_array_foreach(items, i, item) {
            if (status == TFM_OK)
                status = each(item, list, step, user, location, depth + 1);
        }
    return status;
}

tfm_status tfm__hf_each(const json_t *value, const char *list, tfm__hf_step step, void *user,
                        tfm__json_location location) {
    return value && !json_is_null(value) ? each(value, list, step, user, location, 0) : TFM_OK;
}
