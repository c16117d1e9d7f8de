#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"

/* Turns reals without a fraction, which were read in the place of integers, into those. */
static void restore_integers(json_t *value);

static json_t *integer_of(json_t *value) {
    const double x = json_real_value(value);
    if (json_is_real(value) && fabs(x) < 0x1p53 && x == floor(x))
        return json_integer((json_int_t)x);
    restore_integers(value);
    return NULL;
}

static void restore_integers(json_t *value) {
    json_t *item, *integer;
    size_t index;
    json_array_foreach(value, index, item) {
        if ((integer = integer_of(item)))
            json_array_set_new(value, index, integer);
    }
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
        if ((integer = integer_of(json_object_iter_value(at))))
            json_object_iter_set_new(value, at, integer);
}

size_t tfm__json_begin(const void *text, size_t bytes) {
    static const unsigned char BOM[] = {0xef, 0xbb, 0xbf};
    const unsigned char *data = text;
    size_t at = bytes >= sizeof(BOM) && memcmp(data, BOM, sizeof(BOM)) == 0 ? sizeof(BOM) : 0;
    while (at < bytes && (data[at] == ' ' || (data[at] >= 9 && data[at] <= 13)))
        at++;
    return at;
}

tfm_status tfm__json_parse(json_t **out, const char *text, size_t bytes, const char *name) {
    *out = NULL;
    if (bytes == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is empty; a JSON object is needed", name);
    const size_t mark = tfm__json_begin(text, bytes);
    if (mark < bytes && text[mark] == '<')
        return tfm__fail(TFM_ERROR_FORMAT, "%s is a web page, not JSON: download the file itself", name);
    json_error_t error;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_t *root = json_loadb(text, bytes, flags, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow) /* 10^30 is how some say "any" */
        restore_integers(root = json_loadb(text, bytes, flags | JSON_DECODE_INT_AS_REAL, &error));
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return tfm__fail(TFM_ERROR_MEMORY, "out of host memory while reading %s", name);
    if (!root)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is not JSON: line %d, column %d: %s", name, error.line, error.column,
                         error.text);
    if (!json_is_object(root)) {
        tfm__fail(TFM_ERROR_FORMAT, "%s holds %s; a JSON object is needed", name, tfm__json_kind(root));
        json_decref(root);
        return TFM_ERROR_FORMAT;
    }
    *out = root;
    return TFM_OK;
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

/* With 15 digits 0.6 is printed as people write it, and with 17, which any number needs at most, as
 * 0.59999999999999998: so with as many only where fewer would be other numbers. */
static char *text_of(const json_t *object) {
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
    char *path = tfm__path_join(dir, name), *text = text_of(object);
    const tfm_status status = path && text ? tfm__file_write(path, text, strlen(text))
                                           : tfm__fail(TFM_ERROR_MEMORY, "%s: out of host memory for %s", what, name);
    json_decref(object);
    free(text);
    free(path);
    return status;
}
