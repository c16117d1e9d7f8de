#include <string.h>
#include "text/base64.h"

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *tfm__base64_encode(const void *data, size_t size) {
    const unsigned char *bytes = data;
    char *text = tfm__alloc(size / 3 * 4 + 5, 1);
    size_t used = 0;
    for (size_t i = 0; text && i < size; i += 3) {
        const uint32_t word = (uint32_t)bytes[i] << 16 | (uint32_t)(i + 1 < size ? bytes[i + 1] : 0) << 8 |
                              (i + 2 < size ? bytes[i + 2] : 0);
        for (int shift = 18; shift >= 0; shift -= 6)
            text[used++] = DIGITS[word >> shift & 63];
        for (size_t over = i + 3; over > size; over--)
            text[used - (over - size)] = '=';
    }
    return text;
}

tfm_status tfm__base64_decode(unsigned char **out, size_t *size, const char *text, const char *path, const char *key) {
    signed char values[256];
    memset(values, -1, sizeof(values));
    for (int i = 0; i < 64; i++)
        values[(unsigned char)DIGITS[i]] = (signed char)i;
    const size_t length = strlen(text);
    unsigned char *bytes = *out = tfm__alloc(length / 4 * 3 + 3, 1);
    uint32_t word = 0;
    int held = 0;
    *size = 0;
    if (!bytes)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        const int value = values[(unsigned char)text[i]];
        if (value < 0) {
            free(bytes);
            *out = NULL;
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is not base64: byte %zu", path, key, i + 1);
        }
        word = word << 6 | (uint32_t)(value & 63);
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[(*size)++] = (unsigned char)(word >> held);
        }
    }
    return TFM_OK;
}
