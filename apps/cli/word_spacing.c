/* Whether a text is written with spaces between its words. */
#include "cli/cli.h"

/* Minimum characters for a decision. */
enum { LEAST_CHARACTERS = 100 };

/* Scripts without spaces between words: first and last character. Korean has spaces. */
static const struct {
    unsigned first, last;
} UNSPACED[] = {
    {0x0e00, 0x0eff},   /* Thai, Lao */
    {0x0f00, 0x109f},   /* Tibetan, Burmese */
    {0x1780, 0x17ff},   /* Khmer */
    {0x3040, 0x312f},   /* Hiragana, Katakana, Bopomofo */
    {0x3400, 0x4dbf},   /* rare Chinese characters */
    {0x4e00, 0x9fff},   /* Chinese characters */
    {0xf900, 0xfaff},   /* compatibility ideographs */
    {0xff66, 0xff9f},   /* half-width Katakana */
    {0x20000, 0x3ffff}, /* the rarest Chinese characters */
};

/* The character whose first byte is at `at`; of a text that is not UTF-8, any. */
static unsigned character(const unsigned char *at, size_t bytes) {
    if (at[0] >= 0xf0 && bytes > 3)
        return (at[0] & 7u) << 18 | (at[1] & 63u) << 12 | (at[2] & 63u) << 6 | (at[3] & 63u);
    if (at[0] >= 0xe0 && bytes > 2)
        return (at[0] & 15u) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);
    return at[0];
}

void cli_word_spacing_add(cli_word_spacing *s, const char *text, size_t bytes) {
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] == ' ' || at[i] == '\t' || (at[i] & 0xc0) == 0x80) /* a blank, or a byte after a character's first */
            continue;
        s->characters++;
        const unsigned c = character(at + i, bytes - i);
        for (size_t k = 0; k < CLI_COUNT(UNSPACED); k++)
            s->unspaced += c >= UNSPACED[k].first && c <= UNSPACED[k].last;
    }
}

bool cli_word_spacing_none(const cli_word_spacing *s) {
    return s->characters >= LEAST_CHARACTERS && 2 * s->unspaced > s->characters;
}
