/* Classes of characters as the library `tokenizers` has them, asked of ICU. */
#ifndef TFM_LIB_CHAR_CLASS_H
#define TFM_LIB_CHAR_CLASS_H

#include <stdbool.h>
#include <stdint.h>

bool tfm__char_is_space(int32_t c);       /* White_Space */
bool tfm__char_is_word(int32_t c);        /* what \w is in Rust's regular expressions */
bool tfm__char_is_number(int32_t c);      /* Nd, Nl or No */
bool tfm__char_is_punctuation(int32_t c); /* of ASCII all that is no letter or digit, and the P categories */
bool tfm__char_is_control(int32_t c);     /* what BERT leaves out: Cc, Cf and Co but for tab and line ends */
bool tfm__char_is_mark(int32_t c);        /* M */
bool tfm__char_is_accent(int32_t c);      /* Mn */
bool tfm__char_is_cjk(int32_t c);         /* what BERT puts blanks around */

/* Whether a version of Unicode has the character. */
bool tfm__char_in_unicode(int32_t c, int version);

/* The small form of a character without regard to its neighbours: one character, or for U+0130 two, in `out`. Returns
 * how many. */
int tfm__char_to_lower(int32_t out[2], int32_t c);

/* The script for cutting where scripts change; -1 for the blank, which goes with any. */
int32_t tfm__char_script(int32_t c);

/* Whether a character goes with the one before it into one grapheme cluster, as far as two or three characters of less
 * than six bytes together can be one: UAX #29, rules GB3 to GB9b without those of Hangul, flags and pictures. */
bool tfm__char_extends_grapheme(int32_t before, int32_t c);

#endif
