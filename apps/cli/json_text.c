/* Parses foreign JSON: files next to models, and bodies of requests. Like lib/base/json.c, which is not public, except
 * that the last duplicate key wins, as in Python; test_json gives both the same texts. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static const char BOM[] = "\xEF\xBB\xBF", REPLACEMENT[] = "\xEF\xBF\xBD";

/* The replacement of a value, a new reference, or NULL: an integer for a real without a fraction if integers were read
 * as reals, and U+FFFD for each NUL of a string. */
static json_t *cleaned(const json_t *value, bool integers) {
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

static void clean(json_t *value, bool integers) {
    json_t *item, *other;
    size_t index;
    json_array_foreach(value, index, item) {
        clean(item, integers);
        if ((other = cleaned(item, integers)))
            json_array_set_new(value, index, other);
    }
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at)) {
        clean(item = json_object_iter_value(at), integers);
        if ((other = cleaned(item, integers)))
            json_object_iter_set_new(value, at, other);
    }
}

json_t *cli_json_parse(const char *text, size_t bytes, char why[CLI_REASON]) {
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    const size_t skipped = bytes >= strlen(BOM) && memcmp(text, BOM, strlen(BOM)) == 0 ? strlen(BOM) : 0;
    json_error_t error;
    bool integers = false;
    json_t *root = json_loadb(text + skipped, bytes - skipped, flags, &error);
    if (!root &&
        json_error_code(&error) == json_error_numeric_overflow) { /* transformers writes 10^30 for "no limit" */
        root = json_loadb(text + skipped, bytes - skipped, flags | JSON_DECODE_INT_AS_REAL, &error);
        integers = true;
    }
    snprintf(why, CLI_REASON, "line %d, column %d: %s", error.line, error.column, error.text);
    if (!root)
        return NULL;
    clean(root, integers);
    json_t *other = cleaned(root, integers);
    if (!other)
        return root;
    json_decref(root);
    return other;
}

json_t *cli_json_load(const char *path, char why[CLI_REASON]) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t bytes = 0, room = 0, got = 1;
    if (!file) {
        snprintf(why, CLI_REASON, "%s", strerror(errno));
        return NULL;
    }
    errno = 0;
    while (got > 0 && cli_grow(&text, &room, bytes + BUFSIZ, 1)) {
        got = fread(text + bytes, 1, room - bytes, file);
        bytes += got;
    }
    json_t *root = NULL;
    if (ferror(file) || got > 0)
        snprintf(why, CLI_REASON, "%s", got > 0 ? "out of memory" : strerror(errno));
    else
        root = cli_json_parse(text, bytes, why);
    fclose(file);
    free(text);
    return root;
}
