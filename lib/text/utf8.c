#include <string.h>
#include "text/bytes.h"
#include "text/utf8.h"
#include "tfm/text.h"

/* Bytes of the character at `at`, or 0 if it is malformed; *good is how many could begin one. The narrow ranges of the
 * second byte exclude overlong forms, surrogates and code points beyond U+10FFFF (RFC 3629, section 4). */
static size_t character(const unsigned char *at, size_t left, size_t *good) {
    unsigned char first = at[0], low = 0x80, high = 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    *good = length > 0;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (; *good < length; ++*good) {
        if (*good == left || at[*good] < low || at[*good] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

size_t tfm__utf8_valid(const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text;
    size_t i = 0, good;
    while (i < bytes) {
        size_t length = character(at + i, bytes - i, &good);
        if (length == 0)
            return i;
        i += length;
    }
    return i;
}

void tfm__utf8_lossy(tfm__bytes *out, const char *text, size_t bytes) {
    for (size_t at = 0, good; at < bytes; at += good ? good : 1) {
        const size_t valid = tfm__utf8_valid(text + at, bytes - at);
        tfm__bytes_add(out, text + at, valid);
        at += valid;
        if (at == bytes)
            break;
        tfm__bytes_add(out, "\xef\xbf\xbd", 3);
        character((const unsigned char *)text + at, bytes - at, &good);
    }
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
