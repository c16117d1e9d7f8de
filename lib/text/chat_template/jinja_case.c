#include "text/chat_template/jinja_case.h"
#include <unicode/uchar.h>
#include <unicode/ucasemap.h>

bool tfm__jinja_is_space(int32_t c) {
    return c < 0x80 ? c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) : u_isUWhiteSpace(c);
}

static bool is_alpha(int32_t c) {
    return (U_GET_GC_MASK(c) & U_GC_L_MASK) != 0;
}

static int32_t numeric_type(int32_t c) {
    return u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
}

bool tfm__jinja_is_word(int32_t c) {
    return c == '_' || is_alpha(c) || numeric_type(c) != U_NT_NONE;
}

bool tfm__jinja_is_printable(int32_t c) {
    return c == ' ' || (U_GET_GC_MASK(c) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

/* ---- Case ------------------------------------------------------------------------------------------------------ */

typedef int32_t (*convert_fn)(const UCaseMap *map, char *out, int32_t capacity, const char *in, int32_t bytes,
                              UErrorCode *error);

static int32_t to_title(const UCaseMap *map, char *out, int32_t capacity, const char *in, int32_t bytes,
                        UErrorCode *error) {
    size_t at = 0; /* the title form of one character */
    const int32_t c = tfm__char_next(in, &at), title = u_totitle(c);
    if (title != c && title != u_toupper(c)) {
        char text[4];
        const size_t count = tfm__char_write(text, title);
        if ((int32_t)count <= capacity)
            memcpy(out, text, count);
        return (int32_t)count;
    }
    const int32_t count = ucasemap_utf8ToUpper(map, out, capacity, in, bytes, error);
    if (count > (int32_t)tfm__char_bytes(out) &&
        U_SUCCESS(*error)) { /* several letters: only the first is upper case */
        char rest[32];
        const size_t first = tfm__char_bytes(out);
        const int32_t lower = ucasemap_utf8ToLower(map, rest, sizeof(rest), out + first, count - (int32_t)first, error);
        if (U_SUCCESS(*error) && (int32_t)first + lower <= capacity)
            memcpy(out + first, rest, (size_t)lower);
        return (int32_t)first + lower;
    }
    return count;
}

static void convert(tfm__jinja_writer *out, UCaseMap *map, convert_fn fn, const char *text, size_t bytes) {
    UErrorCode error = U_ZERO_ERROR;
    char small[64];
    if (bytes > INT32_MAX / 4) {
        tfm__jinja_error(out->j, "a string of %zu bytes is too long for a change of letter case", bytes);
        return;
    }
    const int32_t capacity = (int32_t)(bytes <= 16 ? sizeof(small) : 3 * bytes);
    char *buffer = bytes <= 16 ? small : tfm__jinja_alloc(out->j, (size_t)capacity, 1);
    const int32_t count = buffer && bytes ? fn(map, buffer, capacity, text, (int32_t)bytes, &error) : 0;
    if (U_FAILURE(error) && error != U_STRING_NOT_TERMINATED_WARNING)
        tfm__jinja_error(out->j, "letter case: %s", u_errorName(error));
    else if (buffer)
        tfm__jinja_write(out, buffer, (size_t)count);
}

static bool is_cased(int32_t c) {
    return u_hasBinaryProperty(c, UCHAR_CASED);
}

/* Character by character: str.title, str.swapcase. A final sigma depends on the letters around it, so lower case is of
 * the whole string where no letter changes the length; Python's rule is the same. */
static void convert_each(tfm__jinja_writer *out, UCaseMap *map, const tfm__jinja_string *string, tfm__jinja_case to) {
    bool cased = false;
    for (size_t at = 0, next = 0; at < string->bytes && out->j->status == TFM_OK; at = next) {
        const int32_t c = tfm__char_next(string->data, &next);
        const bool lower = to == TFM__JINJA_SWAP ? u_isUUppercase(c) : cased;
        convert_fn fn = lower ? ucasemap_utf8ToLower : to == TFM__JINJA_TITLE ? to_title : ucasemap_utf8ToUpper;
        size_t after = next;
        const bool sigma =
            lower && c == 0x3a3 && cased && (next >= string->bytes || !is_cased(tfm__char_next(string->data, &after)));
        if (sigma)
            tfm__jinja_write_char(out, 0x3c2);
        else if (to == TFM__JINJA_SWAP && !lower && !u_isULowercase(c))
            tfm__jinja_write(out, string->data + at, next - at);
        else
            convert(out, map, fn, string->data + at, next - at);
        cased = is_cased(c);
    }
}

static void capitalize(tfm__jinja_writer *out, UCaseMap *map, const tfm__jinja_string *string) {
    tfm__jinja_writer first = {.j = out->j}, all = {.j = out->j};
    if (!string->bytes)
        return;
    const size_t bytes = tfm__char_bytes(string->data);
    convert(&first, map, ucasemap_utf8ToLower, string->data, bytes);
    convert(&all, map, ucasemap_utf8ToLower, string->data, string->bytes);
    convert(out, map, to_title, string->data, bytes);
    if (all.bytes >= first.bytes && out->j->status == TFM_OK)
        tfm__jinja_write(out, all.data + first.bytes, all.bytes - first.bytes);
}

static void convert_ascii(tfm__jinja_writer *out, const tfm__jinja_string *string, bool upper) {
    const char from = upper ? 'a' : 'A';
    char *text = tfm__jinja_alloc(out->j, string->bytes + 1, 1);
    for (size_t i = 0; text && i < string->bytes; i++) {
        const char c = string->data[i];
        text[i] = c >= from && c <= from + 25 ? (char)(c ^ 0x20) : c;
    }
    if (text)
        tfm__jinja_write(out, text, string->bytes);
}

tfm__jinja_value tfm__jinja_to_case(tfm__jinja *j, tfm__jinja_value value, tfm__jinja_case to) {
    if (j->status != TFM_OK)
        return value;
    const tfm__jinja_string *string = value.string;
    tfm__jinja_writer out = {.j = j};
    if (tfm__jinja_is_ascii(string) && (to == TFM__JINJA_UPPER || to == TFM__JINJA_LOWER || to == TFM__JINJA_FOLD)) {
        convert_ascii(&out, string, to == TFM__JINJA_UPPER);
        return tfm__jinja_like(tfm__jinja_written(&out), value);
    }
    UErrorCode error = U_ZERO_ERROR;
    UCaseMap *map = ucasemap_open("", U_FOLD_CASE_DEFAULT, &error);
    if (U_FAILURE(error))
        return tfm__jinja_error(j, "letter case: %s", u_errorName(error));
    if (to == TFM__JINJA_UPPER)
        convert(&out, map, ucasemap_utf8ToUpper, string->data, string->bytes);
    else if (to == TFM__JINJA_LOWER)
        convert(&out, map, ucasemap_utf8ToLower, string->data, string->bytes);
    else if (to == TFM__JINJA_FOLD)
        convert(&out, map, ucasemap_utf8FoldCase, string->data, string->bytes);
    else if (to == TFM__JINJA_CAPITALIZE)
        capitalize(&out, map, string);
    else
        convert_each(&out, map, string, to);
    ucasemap_close(map);
    return tfm__jinja_like(tfm__jinja_written(&out), value);
}

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

static bool is_alnum(int32_t c) {
    return is_alpha(c) || numeric_type(c) != U_NT_NONE;
}
static bool is_decimal(int32_t c) {
    return numeric_type(c) == U_NT_DECIMAL;
}
static bool is_digit(int32_t c) {
    return numeric_type(c) == U_NT_DECIMAL || numeric_type(c) == U_NT_DIGIT;
}
static bool is_numeric(int32_t c) {
    return numeric_type(c) != U_NT_NONE;
}

/* str.islower, str.isupper and str.istitle: 'l', 'u' or 't'. */
static bool has_case(const tfm__jinja_string *string, char kind) {
    bool cased = false, previous = false;
    for (size_t at = 0; at < string->bytes;) {
        const int32_t c = tfm__char_next(string->data, &at);
        const bool lower = u_isULowercase(c), title = u_charType(c) == U_TITLECASE_LETTER, upper = u_isUUppercase(c);
        if (kind == 'l' ? upper || title : kind == 'u' ? lower || title : 0)
            return false;
        if (kind == 't' && ((upper || title) ? previous : lower && !previous))
            return false;
        previous = upper || title || lower;
        cased |= kind == 'l' ? lower : kind == 'u' ? upper : previous;
    }
    return cased;
}

static bool is_identifier(const tfm__jinja_string *string) {
    for (size_t at = 0; at < string->bytes;) {
        const bool first = at == 0;
        const int32_t c = tfm__char_next(string->data, &at);
        if (c != '_' && !u_hasBinaryProperty(c, first ? UCHAR_XID_START : UCHAR_XID_CONTINUE))
            return false;
    }
    return string->bytes > 0;
}

bool tfm__jinja_string_test(const tfm__jinja_string *string, const char *name, bool *known) {
    static const struct {
        const char *name;
        bool (*test)(int32_t c);
        bool empty;
    } tests[] = {{"isspace", tfm__jinja_is_space, false},
                 {"isalpha", is_alpha, false},
                 {"isalnum", is_alnum, false},
                 {"isdecimal", is_decimal, false},
                 {"isdigit", is_digit, false},
                 {"isnumeric", is_numeric, false},
                 {"isprintable", tfm__jinja_is_printable, true}};
    *known = true;
    for (size_t i = 0; i < TFM__COUNT(tests); i++) {
        if (strcmp(tests[i].name, name) != 0)
            continue;
        for (size_t at = 0; at < string->bytes;)
            if (!tests[i].test(tfm__char_next(string->data, &at)))
                return false;
        return string->bytes > 0 || tests[i].empty;
    }
    if (strcmp(name, "islower") == 0 || strcmp(name, "isupper") == 0 || strcmp(name, "istitle") == 0)
        return has_case(string, name[2]);
    if (strcmp(name, "isascii") == 0)
        return tfm__jinja_is_ascii(string);
    if (strcmp(name, "isidentifier") == 0)
        return is_identifier(string);
    *known = false;
    return false;
}
