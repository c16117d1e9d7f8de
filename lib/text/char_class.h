/* Character classes of the library `tokenizers`, based on ICU. */
#ifndef TFM_LIB_CHAR_CLASS_H
#define TFM_LIB_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

bool tfm__char_is_space(int32_t c);       /* White_Space */
bool tfm__char_is_word(int32_t c);        /* \w of Rust's regular expressions */
bool tfm__char_is_number(int32_t c);      /* Nd, Nl or No */
bool tfm__char_is_punctuation(int32_t c); /* all ASCII except letters and digits, and the P categories */
bool tfm__char_is_control(int32_t c);     /* removed by BERT: Cc, Cf and Co except tab and line ends */
bool tfm__char_is_mark(int32_t c);        /* M */
bool tfm__char_is_accent(int32_t c);      /* Mn */
bool tfm__char_is_cjk(int32_t c);         /* surrounded by blanks by BERT */

/* Whether the version of Unicode has the character. */
bool tfm__char_in_unicode(int32_t c, int version);

/* The lower-case form without context: one character, or two for U+0130, in `out`. Returns their number. */
int tfm__char_to_lower(int32_t out[2], int32_t c);

/* The script, for splitting at script changes; -1 for the blank, which joins any script. */
int32_t tfm__char_script(int32_t c);

/* Whether a character extends the grapheme cluster before it, for clusters of two or three characters below six bytes:
 * UAX #29, rules GB3 to GB9b without Hangul, flags and pictographs. */
bool tfm__char_extends_grapheme(int32_t before, int32_t c);

#endif
