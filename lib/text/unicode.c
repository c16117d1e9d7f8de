#include <unicode/uchar.h>
#include <unicode/ucasemap.h>
#include <unicode/utf8.h>
#include "text/unicode.h"
#include <string.h>

/* ICU's definition of white space that includes the separators U+001C to U+001F, like Python's and so sacreBLEU's. */
static bool is_space(UChar32 c) {
    return u_isspace(c) != 0;
}

tfm_status tfm__unicode_lower(char **out, size_t *out_bytes, const char *text, size_t bytes) {
    UErrorCode error = U_ZERO_ERROR;
    UCaseMap *map = ucasemap_open("", U_FOLD_CASE_DEFAULT, &error); /* "": language-independent rules */
    const int32_t size = ucasemap_utf8ToLower(map, NULL, 0, text, (int32_t)bytes, &error);
    if (error == U_BUFFER_OVERFLOW_ERROR) /* reported for an empty buffer */
        error = U_ZERO_ERROR;
    *out = U_SUCCESS(error) ? tfm__alloc((size_t)size + 1, 1) : NULL;
    *out_bytes = (size_t)size;
    tfm_status status = *out ? TFM_OK : TFM_ERROR_MEMORY;
    if (*out)
        ucasemap_utf8ToLower(map, *out, size + 1, text, (int32_t)bytes, &error);
    ucasemap_close(map);
    if (U_FAILURE(error)) {
        free(*out);
        *out = NULL;
        status = tfm__fail(TFM_ERROR_MEMORY, "ICU cannot convert a line of %zu bytes to lower case: %s", bytes,
                           u_errorName(error));
    }
    return status;
}

bool tfm__unicode_is_letter(const char *text, const char *letter) {
    int32_t at = 0, other = 0;
    UChar32 a = 0, b = 0;
    U8_NEXT_UNSAFE(text, at, a);
    U8_NEXT_UNSAFE(letter, other, b);
    return a == b || u_tolower(a) == b;
}

tfm_status tfm__unicode_capitalize(char **out, const char *text) {
    const int32_t bytes = (int32_t)strlen(text);
    int32_t next = 0, used = 0;
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(text, next, bytes, c);
    const UChar32 capital = u_totitle(c);
    *out = tfm__alloc((size_t)bytes + U8_MAX_LENGTH + 1, 1);
    if (!*out)
        return TFM_ERROR_MEMORY;
    U8_APPEND_UNSAFE(*out, used, capital);
    memcpy(*out + used, text + next, (size_t)(bytes - next));
    return TFM_OK;
}

size_t tfm__unicode_trim(const char *text, size_t bytes) {
    const uint8_t *at = (const uint8_t *)text;
    int32_t end = (int32_t)bytes;
    while (end > 0) {
        int32_t before = end;
        UChar32 c;
        U8_PREV(at, 0, before, c);
        if (!is_space(c))
            break;
        end = before;
    }
    return (size_t)end;
}

size_t tfm__unicode_non_space(int32_t *out, const char *text, size_t bytes) {
    const uint8_t *from = (const uint8_t *)text;
    size_t count = 0;
    for (int32_t i = 0, end = (int32_t)bytes; i < end;) {
        UChar32 c;
        U8_NEXT(from, i, end, c);
        if (!is_space(c))
            out[count++] = c;
    }
    return count;
}

bool tfm__unicode_has_alnum(const char *text, size_t bytes) {
    const uint8_t *from = (const uint8_t *)text;
    for (int32_t i = 0, end = (int32_t)bytes; i < end;) {
        UChar32 c;
        U8_NEXT(from, i, end, c);
        if (u_isalnum(c))
            return true;
    }
    return false;
}

bool tfm__unicode_next_word(size_t *word, size_t *at, const char *text, size_t bytes) {
    const uint8_t *from = (const uint8_t *)text;
    const int32_t end = (int32_t)bytes;
    bool inside = false;
    int32_t i = (int32_t)*at;
    while (i < end) {
        int32_t next = i;
        UChar32 c;
        U8_NEXT(from, next, end, c);
        if (inside && is_space(c))
            break;
        if (!inside && !is_space(c)) {
            *word = (size_t)i;
            inside = true;
        }
        i = next;
    }
    *at = (size_t)i;
    return inside;
}
