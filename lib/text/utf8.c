#include <string.h>
#include "text/utf8.h"
#include "tfm/text.h"

/* Bytes of the character at `at`, or 0 if none is well-formed there. The second byte has the narrow ranges
 * that keep out overlong forms, surrogates and what is beyond U+10FFFF (RFC 3629, section 4). */
static size_t character(const unsigned char *at, size_t left) {
    unsigned char first = at[0], low = 0x80, high = 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length > left)
        return 0;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (at[i] < low || at[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

size_t tfm__utf8_valid(const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text;
    size_t i = 0;
    while (i < bytes) {
        size_t length = character(at + i, bytes - i);
        if (length == 0)
            return i;
        i += length;
    }
    return i;
}

tfm_status tfm_text_check(const char *line, size_t bytes) {
    if (TFM__NEEDS("text_check", line) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    size_t valid = tfm__utf8_valid(line, bytes);
    const char *nul = valid ? memchr(line, '\0', valid) : NULL;
    if (nul)
        return tfm__fail(TFM_ERROR_INPUT, "byte %zu of the line is NUL; lines are text", (size_t)(nul - line) + 1);
    if (valid < bytes)
        return tfm__fail(TFM_ERROR_INPUT,
                         "byte %zu of the line, 0x%02x, is not well-formed UTF-8; convert the text to UTF-8", valid + 1,
                         (unsigned char)line[valid]);
    return TFM_OK;
}
