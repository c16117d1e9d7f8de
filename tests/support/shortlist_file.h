/* A small shortlist in Bergamot's format, byte by byte. */
#ifndef TFM_TESTS_SHORTLIST_FILE_H
#define TFM_TESTS_SHORTLIST_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The sizes of the vocabularies. */
enum { SHORTLIST_SOURCE = 5, SHORTLIST_TARGET = 40 };

/* Candidates of the five source words; 1 has none. */
static const int SHORTLIST_OFFSETS[SHORTLIST_SOURCE + 1] = {0, 2, 2, 5, 6, 9};
static const int SHORTLIST_WORDS[9] = {10, 39, 3, 20, 21, 39, 11, 12, 13};

static inline void shortlist_put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

/* Writes the checksum. */
static inline void shortlist_seal(unsigned char *file, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 16; i + 8 <= size; i += 8) {
        uint64_t word = 0;
        for (size_t k = 8; k-- > 0;)
            word = word << 8 | file[i + k];
        sum ^= word + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    }
    shortlist_put(file + 8, sum, 8);
}

enum { SHORTLIST_BYTES = 48 + 8 * (SHORTLIST_SOURCE + 1) + 4 * 9 };

static inline void shortlist_make(unsigned char file[SHORTLIST_BYTES]) {
    shortlist_put(file, 0xF11A48D5013417F5u, 8);
    shortlist_put(file + 16, 4, 8);  /* the four most frequent words are always included */
    shortlist_put(file + 24, 50, 8); /* candidates per word, used only when a shortlist is built */
    shortlist_put(file + 32, SHORTLIST_SOURCE + 1, 8);
    shortlist_put(file + 40, 9, 8);
    for (int i = 0; i <= SHORTLIST_SOURCE; i++)
        shortlist_put(file + 48 + 8 * i, (uint64_t)SHORTLIST_OFFSETS[i], 8);
    for (int i = 0; i < 9; i++)
        shortlist_put(file + 48 + 8 * (SHORTLIST_SOURCE + 1) + 4 * i, (uint64_t)SHORTLIST_WORDS[i], 4);
    shortlist_seal(file, SHORTLIST_BYTES);
}

#endif
