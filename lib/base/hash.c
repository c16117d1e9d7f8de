#include <endian.h>
#include <string.h>
#include "base/base.h"

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash ^= word * 0x9e3779b97f4a7c15u;
    hash = hash << 29 | hash >> 35;
    return hash * 0xd6e8feb86659fd93u + 0x2545f4914f6cdd1du;
}

/* Each step is bijective in the word and in the state: a change within one word always changes the hash. */
void tfm__hash_add(tfm__hash *h, const void *data, size_t bytes) {
    const unsigned char *at = data;
    uint64_t word;
    while (bytes > 0) {
        const size_t filled = h->bytes % 8;
        for (; filled == 0 && bytes >= 8; at += 8, bytes -= 8, h->bytes += 8) {
            memcpy(&word, at, 8);
            h->value = mix(h->value, le64toh(word));
        }
        const size_t n = bytes < 8 - filled ? bytes : 8 - filled;
        memcpy(h->word + filled, at, n);
        memcpy(&word, h->word, 8);
        if (filled + n == 8)
            h->value = mix(h->value, le64toh(word));
        h->bytes += n;
        at += n;
        bytes -= n;
    }
}

uint64_t tfm__hash_finish(const tfm__hash *h) {
    unsigned char last[8] = {0};
    uint64_t word, value = h->value;
    memcpy(last, h->word, h->bytes % 8);
    memcpy(&word, last, 8);
    if (h->bytes % 8 != 0)
        value = mix(value, le64toh(word));
    value = mix(value, h->bytes);
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93u;
    return value ^ value >> 29;
}

uint64_t tfm__hash64(const void *data, size_t bytes, uint64_t seed) {
    tfm__hash hash = {.value = seed};
    tfm__hash_add(&hash, data, bytes);
    return tfm__hash_finish(&hash);
}
