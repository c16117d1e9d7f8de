/* A byte buffer, and iteration over well-formed UTF-8. */
#ifndef TFM_LIB_BYTES_H
#define TFM_LIB_BYTES_H

#include <string.h>
#include "base/base.h"

/* A growing byte buffer, initially {0}. After an allocation failure it stays `failed` and ignores additions, so that
 * callers check once, at the end. */
typedef struct tfm__bytes {
    char *data; /* NULL while empty */
    size_t count, capacity;
    bool failed;
} tfm__bytes;

void tfm__bytes_free(tfm__bytes *bytes);
/* Reserves `more` bytes; false on failure. */
bool tfm__bytes_reserve(tfm__bytes *bytes, size_t more);
/* The bytes with a terminating NUL, for free(), or NULL if it has failed. Resets the struct to {0}. */
char *tfm__bytes_take(tfm__bytes *bytes);

static inline void tfm__bytes_add(tfm__bytes *out, const char *text, size_t bytes) {
    if (bytes && (out->capacity - out->count >= bytes || tfm__bytes_reserve(out, bytes))) {
        memcpy(out->data + out->count, text, bytes);
        out->count += bytes;
    }
}

/* Iteration over well-formed UTF-8. `at` is within the text, at a character's first byte. */

static inline size_t tfm__char_bytes(const char *at) {
    const unsigned char first = (unsigned char)*at;
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Reads the character and moves `at` past it. */
static inline int32_t tfm__char_next(const char *text, size_t *at) {
    const unsigned char *b = (const unsigned char *)text + *at;
    if (b[0] < 0x80) {
        *at += 1;
        return b[0];
    }
    if (b[0] < 0xe0) {
        *at += 2;
        return (b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    }
    if (b[0] < 0xf0) {
        *at += 3;
        return (b[0] & 0x0f) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    }
    *at += 4;
    return (b[0] & 0x07) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

/* The character before `at`; `at` is not 0. */
static inline int32_t tfm__char_before(const char *text, size_t at) {
    do
        at--;
    while (((unsigned char)text[at] & 0xc0) == 0x80);
    return tfm__char_next(text, &at);
}

/* Writes a character, 1 to 4 bytes, and returns their number. */
static inline size_t tfm__char_write(char out[4], int32_t c) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

static inline void tfm__bytes_add_char(tfm__bytes *out, int32_t c) {
    if (out->capacity - out->count >= 4 || tfm__bytes_reserve(out, 4))
        out->count += tfm__char_write(out->data + out->count, c);
}

#endif
