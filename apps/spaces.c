/* Whether a text is written with spaces between its words. */
#include "cli.h"

/* Words of languages with spaces have some eight letters at most on average (Finnish, Georgian); what lies between two
 * blanks of Chinese or Thai is a clause. A few short lines say nothing. */
enum { LONGEST_MEAN = 12, LEAST_CHARACTERS = 100 };

void cli_spaces_add(cli_spaces *s, const char *text, size_t bytes) {
    bool within = false;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool blank = c == ' ' || c == '\t';
        s->words += !blank && !within;
        s->characters += !blank && (c & 0xc0) != 0x80; /* the first byte of each */
        within = !blank;
    }
}

bool cli_spaces_none(const cli_spaces *s) {
    return s->characters >= LEAST_CHARACTERS && s->characters > LONGEST_MEAN * s->words;
}
