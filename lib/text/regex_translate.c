#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <unicode/uchar.h>
#include "text/regex.h"

/* Oniguruma's syntax compared with PCRE2's with UTF and UCP. Differences: members of `\s`, `\w`, `\h` and POSIX
 * classes; `(?m)` is PCRE2's `(?s)`; `x{2,3}+` is a repetition, not possessive; `\u00e9` is a character; in a class,
 * `[` begins a nested class and `&&` an intersection. */

#define SPACE "\\p{White_Space}"
#define WORD_IN_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD WORD_IN_CLASS "\\xb2\\xb3\\xb9\\xbc-\\xbe" /* from another table than in a class */
#define PUNCTUATION "\\p{P}\\p{S}"

#define PCRE2_SCRIPTS_EXTENDED (PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40)

enum { NESTING = 100 };

typedef struct translation {
    tfm__bytes *out;
    const char *at, *end;
    const char *where;
    size_t atom;            /* the last atom's position in `out` */
    size_t groups[NESTING]; /* positions of the open groups */
    int depth;
} translation;

static void put(translation *t, const char *text) {
    tfm__bytes_add(t->out, text, strlen(text));
}

static void copy(translation *t, size_t bytes) {
    tfm__bytes_add(t->out, t->at, bytes);
    t->at += bytes;
}

static tfm_status refuse(const translation *t, const char *what) {
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: a regular expression has %s, which tfm does not support", t->where,
                     what);
}

static bool begins(const translation *t, const char *text) {
    const size_t bytes = strlen(text);
    return (size_t)(t->end - t->at) >= bytes && memcmp(t->at, text, bytes) == 0;
}

/* Whether the name is a script's, such as Han. */
static bool is_script(const char *name, size_t bytes) {
    char whole[32];
    if (bytes >= sizeof(whole))
        return false;
    memcpy(whole, name, bytes);
    whole[bytes] = 0;
    return u_getPropertyValueEnum(UCHAR_SCRIPT, whole) != UCHAR_INVALID_CODE &&
           u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, whole) == UCHAR_INVALID_CODE;
}

/* `\u00e9`, `\x{e9}`; `\p{Han}`: PCRE2 from 10.40 on uses script extensions, Oniguruma the script property; others are
 * as in PCRE2. */
static void escape_other(translation *t) {
    if (t->at[1] == 'u' && t->end - t->at >= 6) {
        put(t, "\\x{");
        tfm__bytes_add(t->out, t->at + 2, 4);
        put(t, "}");
        t->at += 6;
        return;
    }
    const bool braced = t->end - t->at > 2 && t->at[2] == '{';
    if (t->at[1] == 'x' && braced && memchr(t->at, '}', (size_t)(t->end - t->at))) {
        copy(t, (size_t)((const char *)memchr(t->at, '}', (size_t)(t->end - t->at)) + 1 - t->at));
        return;
    }
    if ((t->at[1] == 'p' || t->at[1] == 'P') && braced) {
        const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
        static const char *const NAMES[][2] = {{"Punct}", "\\p{P}"},  {"punct}", "\\p{P}"},
                                               {"Space}", SPACE},     {"space}", SPACE},
                                               {"Digit}", "\\p{Nd}"}, {"Alpha}", "\\p{Alphabetic}"}};
        for (size_t i = 0; close && t->at[1] == 'p' && i < TFM__COUNT(NAMES); i++)
            if (strncmp(t->at + 3, NAMES[i][0], strlen(NAMES[i][0])) == 0) {
                put(t, NAMES[i][1]);
                t->at = close + 1;
                return;
            }
        const bool negated = t->at[3] == '^';
        const char *name = t->at + 3 + negated;
        if (close && PCRE2_SCRIPTS_EXTENDED && is_script(name, (size_t)(close - name))) {
            put(t, (t->at[1] == 'P') != negated ? "\\P{sc:" : "\\p{sc:");
            t->at = name;
        }
        copy(t, close ? (size_t)(close + 1 - t->at) : 2);
        return;
    }
    copy(t, 1);
    copy(t, tfm__char_bytes(t->at));
}

/* The PCRE2 text of an escaped letter; empty: the escape stays as it is; NULL: any other letter. */
static const char *escaped_letter(char letter, bool in_class) {
    switch (letter) {
    case 's':
        return SPACE;
    case 'S':
        return "\\P{White_Space}";
    case 'w':
        return in_class ? WORD_IN_CLASS : "[" WORD "]";
    case 'W':
        return "[^" WORD "]";
    case 'h':
        return in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
    case 'H':
        return "[^0-9a-fA-F]";
    case 'b':
        return in_class ? "" : "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))";
    case 'B':
        return in_class ? "" : "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))";
    default:
        return NULL;
    }
}

static tfm_status escape(translation *t, bool in_class) {
    static const char UNSUPPORTED[] = {'G', 'K', 'g', 'k', 'Q', 'E',
                                       'O', 'C', 'y', 'Y', 'X' /* depends on the Unicode version */};
    if (t->end - t->at < 2)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a regular expression ends with a backslash", t->where);
    const char letter = t->at[1];
    if (in_class && letter == 'W')
        return refuse(t, "\\W in a class");
    if (in_class && letter == 'H')
        return refuse(t, "\\H in a class");
    if (memchr(UNSUPPORTED, letter, sizeof(UNSUPPORTED)))
        return refuse(t, (char[]){'\\', letter, '\0'});
    const char *text = escaped_letter(letter, in_class);
    if (!text) {
        escape_other(t);
    } else if (!*text) {
        copy(t, 2);
    } else {
        put(t, text);
        t->at += 2;
    }
    return TFM_OK;
}

static tfm_status posix(translation *t) {
    static const char *const NAMES[][2] = {
        {"[:alpha:]", "\\p{Alphabetic}"}, {"[:digit:]", "\\p{Nd}"},        {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
        {"[:upper:]", "\\p{Uppercase}"},  {"[:lower:]", "\\p{Lowercase}"}, {"[:space:]", SPACE},
        {"[:punct:]", PUNCTUATION},       {"[:word:]", WORD_IN_CLASS},     {"[:xdigit:]", "0-9a-fA-F"},
    };
    for (size_t i = 0; i < TFM__COUNT(NAMES); i++)
        if (begins(t, NAMES[i][0])) {
            put(t, NAMES[i][1]);
            t->at += strlen(NAMES[i][0]);
            return TFM_OK;
        }
    return refuse(t, "a nested class");
}

/* From `[` to `]`. */
static tfm_status class_of(translation *t) {
    copy(t, 1);
    if (begins(t, "^"))
        copy(t, 1);
    if (begins(t, "]")) {
        put(t, "\\]");
        t->at++;
    }
    while (t->at < t->end && *t->at != ']') {
        tfm_status status = TFM_OK;
        if (*t->at == '\\')
            status = escape(t, true);
        else if (*t->at == '[')
            status = posix(t);
        else if (begins(t, "&&"))
            status = refuse(t, "&& in a class");
        else
            copy(t, tfm__char_bytes(t->at));
        if (status != TFM_OK)
            return status;
    }
    if (t->at == t->end)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a regular expression has a class without ]", t->where);
    copy(t, 1);
    return TFM_OK;
}

/* After `(`: the kind of group. */
static tfm_status group(translation *t) {
    if (t->depth == NESTING)
        return refuse(t, "groups nested too deep");
    t->groups[t->depth++] = t->out->count;
    copy(t, 1);
    if (!begins(t, "?"))
        return TFM_OK;
    copy(t, 1);
    if (t->at < t->end && strchr("~@{(&RP0123456789+|", *t->at))
        return refuse(t, "a group that begins with (? and an unsupported character");
    for (; t->at < t->end && strchr("imsxa-", *t->at); t->at++) {
        if (*t->at == 's' || *t->at == 'a')
            return refuse(t, "the option s or a");
        tfm__bytes_add(t->out, *t->at == 'm' ? "s" : t->at, 1);
    }
    return TFM_OK;
}

/* `{2,3}` after an atom; a following `+`, or after `{2}` a `?` that makes it optional. */
static void interval(translation *t) {
    const char *close = memchr(t->at, '}', (size_t)(t->end - t->at));
    const bool counted = close && close > t->at + 1 &&
                         strspn(t->at + 1, "0123456789,") == (size_t)(close - t->at - 1) &&
                         strcspn(t->at + 1, "0123456789") < (size_t)(close - t->at - 1); /* `{,}` is literal text */
    if (!counted) {
        t->atom = t->out->count;
        put(t, "\\{");
        t->at++;
        return;
    }
    const bool exact = !memchr(t->at, ',', (size_t)(close - t->at));
    if (t->at[1] == ',') { /* from 0 */
        put(t, "{0");
        t->at++;
    }
    copy(t, (size_t)(close + 1 - t->at));
    if ((begins(t, "+") || (exact && begins(t, "?"))) && tfm__bytes_reserve(t->out, 3)) {
        memmove(t->out->data + t->atom + 3, t->out->data + t->atom, t->out->count - t->atom);
        memcpy(t->out->data + t->atom, "(?:", 3);
        t->out->count += 3;
        put(t, ")");
        copy(t, 1);
    }
}

static tfm_status next(translation *t) {
    switch (*t->at) {
    case '\\':
        t->atom = t->out->count;
        return escape(t, false);
    case '[':
        t->atom = t->out->count;
        return class_of(t);
    case '(':
        return group(t);
    case ')':
        if (t->depth == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: a regular expression has a ) without a (", t->where);
        t->atom = t->groups[--t->depth];
        copy(t, 1);
        return TFM_OK;
    case '{':
        interval(t);
        return TFM_OK;
    case '*':
    case '+':
    case '?':
        copy(t, 1);
        return TFM_OK;
    default:
        t->atom = t->out->count;
        copy(t, tfm__char_bytes(t->at));
        return TFM_OK;
    }
}

tfm_status tfm__regex_translate(tfm__bytes *out, const char *pattern, size_t bytes, const char *where) {
    translation t = {.out = out, .at = pattern, .end = pattern + bytes, .where = where, .atom = out->count};
    tfm_status status = TFM_OK;
    while (status == TFM_OK && t.at < t.end && !out->failed)
        status = next(&t);
    return status;
}
