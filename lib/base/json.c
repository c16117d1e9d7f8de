#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"

static const char BOM[] = "\xEF\xBB\xBF", REPLACEMENT[] = "\xEF\xBF\xBD";

/* A new replacement value, or NULL: an integer for a real without a fraction if integers were read as reals, and U+FFFD
 * for each NUL in a string, since C strings end there. */
static json_t *normalized_value(const json_t *value, bool integers) {
    const double x = json_real_value(value);
    if (integers && json_is_real(value) && fabs(x) < 0x1p53 && x == floor(x))
        return json_integer((json_int_t)x);
    const char *text = json_string_value(value);
    const size_t bytes = json_string_length(value);
    if (!text || strlen(text) == bytes)
        return NULL;
    char *copy = malloc(3 * bytes), *at = copy;
    for (size_t i = 0; copy && i < bytes; i++) {
        const char *put = text[i] ? &text[i] : REPLACEMENT;
        const size_t count = text[i] ? 1 : 3;
        memcpy(at, put, count);
        at += count;
    }
    json_t *whole = copy ? json_stringn(copy, (size_t)(at - copy)) : NULL;
    free(copy);
    return whole;
}

static void normalize_value(json_t *value, bool integers) {
    json_t *item, *other;
    size_t index;
    json_array_foreach(value, index, item) {
        normalize_value(item, integers);
        if ((other = normalized_value(item, integers)))
            json_array_set_new(value, index, other);
    }
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        normalize_value(item = json_object_iter_value(at), integers);
        if ((other = normalized_value(item, integers)))
            json_object_iter_set_new(value, at, other);
    }
}

size_t tfm__json_skip_bom(const void *text, size_t bytes) {
    const unsigned char *data = text;
    size_t at = bytes >= strlen(BOM) && memcmp(data, BOM, strlen(BOM)) == 0 ? strlen(BOM) : 0;
    while (at < bytes && (data[at] == ' ' || (data[at] >= 9 && data[at] <= 13)))
        at++;
    return at;
}

tfm_status tfm__json_read(json_t **out, const char *text, size_t bytes, const char *name) {
    *out = NULL;
    if (bytes == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is empty; a JSON object is needed", name);
    const size_t mark = tfm__json_skip_bom(text, bytes);
    if (mark < bytes && text[mark] == '<')
        return tfm__fail(TFM_ERROR_FORMAT, "%s is a web page, not JSON: download the file itself", name);
    json_error_t error;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    const size_t skipped = bytes >= strlen(BOM) && memcmp(text, BOM, strlen(BOM)) == 0 ? strlen(BOM) : 0;
    bool integers = false;
    json_t *root = json_loadb(text + skipped, bytes - skipped, flags, &error);
    if (!root &&
        json_error_code(&error) == json_error_numeric_overflow) { /* transformers writes 10^30 for "no limit" */
        root = json_loadb(text + skipped, bytes - skipped, flags | JSON_DECODE_INT_AS_REAL, &error);
        integers = true;
    }
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory while reading %s", name);
    if (!root)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not JSON: line %d, column %d: %s", name, error.line, error.column,
                         error.text);
    normalize_value(root, integers);
    json_t *other = normalized_value(root, integers);
    if (other) {
        json_decref(root);
        root = other;
    }
    *out = root;
    return TFM_OK;
}

tfm_status tfm__json_parse(json_t **out, const char *text, size_t bytes, const char *name) {
    const tfm_status status = tfm__json_read(out, text, bytes, name);
    if (status != TFM_OK || json_is_object(*out))
        return status;
    tfm__fail(TFM_ERROR_FORMAT, "%s holds %s; a JSON object is needed", name, tfm__json_kind(*out));
    json_decref(*out);
    *out = NULL;
    return TFM_ERROR_FORMAT;
}

tfm_status tfm__json_load(json_t **out, const char *path) {
    *out = NULL;
    tfm__file file;
    tfm_status status = tfm__file_map(&file, path);
    if (status != TFM_OK)
        return status;
    status = tfm__json_parse(out, (const char *)file.data, file.size, path);
    tfm__file_unmap(&file);
    return status;
}

const char *tfm__json_kind(const json_t *value) {
    static const char *const KINDS[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string", [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false",     [JSON_NULL] = "null",
    };
    return value ? KINDS[json_typeof(value)] : "nothing";
}

const char *tfm__json_text(char *text, const json_t *value) {
    char *whole =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9)) : NULL;
    if (!whole)
        snprintf(text, TFM__JSON_TEXT, "%s", tfm__json_kind(value));
    else if (strlen(whole) < TFM__JSON_TEXT)
        snprintf(text, TFM__JSON_TEXT, "%s", whole);
    else
        snprintf(text, TFM__JSON_TEXT, "%.*s...", TFM__JSON_TEXT - 4, whole);
    free(whole);
    return text;
}

/* 15 digits print 0.6, and 17 digits, which represent any number, 0.59999999999999998: use 17 only if fewer change the
 * number. */
static char *json_dump_shortest(const json_t *object) {
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    if (text && !json_equal(object, again)) {
        free(text);
        text = json_dumps(object, JSON_INDENT(1));
    }
    json_decref(again);
    return text;
}

tfm_status tfm__json_write(const char *dir, const char *name, json_t *object, const char *what) {
    char *path = tfm__path_join(dir, name), *text = json_dump_shortest(object);
    const tfm_status status = path && text ? tfm__file_write(path, text, strlen(text))
                                           : tfm__fail(TFM_ERROR_MEMORY, "%s: out of host memory for %s", what, name);
    json_decref(object);
    free(text);
    free(path);
    return status;
}
