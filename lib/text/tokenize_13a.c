/* The rules of mteval-v13a.pl (NIST 2009), in order, as fixed by sacreBLEU (Post 2018): some depend on the results of
 * earlier ones. They are defined on characters. Bytes work as well: all searched characters are ASCII, and "not a
 * digit" holds for every byte of a longer character. */
#include <stdbool.h>
#include <string.h>
#include "text/tokenize_13a.h"
#include "text/unicode.h"

typedef struct text {
    char *data;
    size_t bytes;
} text;

typedef bool (*kind)(char c);

/* ASCII punctuation and symbols that always separate; not ' - . and the comma. Includes the space. */
static bool is_symbol(char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_no_digit(char c) {
    return !is_digit(c);
}

static bool is_stop(char c) {
    return c == '.' || c == ',';
}

static bool is_dash(char c) {
    return c == '-';
}

/* Replaces every `from` by `to`, which is not longer, in place. */
static void replace(text *t, const char *from, const char *to) {
    const size_t from_bytes = strlen(from), to_bytes = strlen(to);
    size_t read = 0, written = 0;
    for (const char *found; (found = memmem(t->data + read, t->bytes - read, from, from_bytes));) {
        size_t before = (size_t)(found - t->data) - read;
        memmove(t->data + written, t->data + read, before);
        memcpy(t->data + written + before, to, to_bytes);
        read += before + from_bytes;
        written += before + to_bytes;
    }
    memmove(t->data + written, t->data + read, t->bytes - read);
    t->bytes = written + t->bytes - read;
}

static void put(text *t, char c) {
    t->data[t->bytes++] = c;
}

/* Adds a space before and after every symbol. */
static tfm_status space_symbols(text *t) {
    text out = {tfm__alloc(t->bytes, 3), 0};
    if (!out.data)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->bytes; i++) {
        const bool apart = is_symbol(t->data[i]);
        if (apart)
            put(&out, ' ');
        put(&out, t->data[i]);
        if (apart)
            put(&out, ' ');
    }
    free(t->data);
    *t = out;
    return TFM_OK;
}

/* Adds a space between every pair of a first and a second, and another after it (or, with `before`, before it). Pairs
 * do not overlap; the leftmost one counts. */
static tfm_status space_pairs(text *t, kind first, kind second, bool before) {
    text out = {tfm__alloc(t->bytes, 2), 0};
    if (!out.data)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->bytes; i++) {
        if (i + 1 == t->bytes || !first(t->data[i]) || !second(t->data[i + 1])) {
            put(&out, t->data[i]);
            continue;
        }
        if (before)
            put(&out, ' ');
        put(&out, t->data[i++]);
        put(&out, ' ');
        put(&out, t->data[i]);
        if (!before)
            put(&out, ' ');
    }
    free(t->data);
    *t = out;
    return TFM_OK;
}

tfm_status tfm__tokenize_13a(char **out, size_t *out_bytes, const char *line, size_t bytes) {
    bytes = tfm__unicode_trim(line, bytes);
    text t = {tfm__alloc(bytes + 2, 1), bytes + 2};
    *out = NULL;
    if (!t.data)
        return TFM_ERROR_MEMORY;
    t.data[0] = t.data[bytes + 1] = ' '; /* so that the line's first and last characters have neighbors */
    memcpy(t.data + 1, line, bytes);
    replace(&t, "<skipped>", "");
    replace(&t, "-\n", "");
    replace(&t, "\n", " ");
    replace(&t, "&quot;", "\"");
    replace(&t, "&amp;", "&"); /* the result, "&lt;" of "&amp;lt;", is replaced by the next rules */
    replace(&t, "&lt;", "<");
    replace(&t, "&gt;", ">");
    tfm_status status = space_symbols(&t);
    if (status == TFM_OK)
        status = space_pairs(&t, is_no_digit, is_stop, false);
    if (status == TFM_OK)
        status = space_pairs(&t, is_stop, is_no_digit, true);
    if (status == TFM_OK)
        status = space_pairs(&t, is_digit, is_dash, false);
    if (status != TFM_OK)
        free(t.data);
    else {
        *out = t.data;
        *out_bytes = t.bytes;
    }
    return status;
}
