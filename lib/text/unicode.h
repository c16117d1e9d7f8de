/* What Unicode's tables say of characters, asked of ICU. All text here is such as tfm_text_check takes, and less than
 * 2 GiB. */
#ifndef TFM_LIB_UNICODE_H
#define TFM_LIB_UNICODE_H

#include <stdbool.h>
#include "base/base.h"

/* White space is what separates words: all of Unicode's spaces, line and paragraph separators, and the controls
 * from U+0009 to U+000D, from U+001C to U+001F, and U+0085. */

/* Makes a copy of the text in small letters, by Unicode's full rules: a letter may become two, and a capital sigma at a
 * word's end becomes a final one. The caller frees *out with free(). */
tfm_status tfm__unicode_lower(char **out, size_t *out_bytes, const char *text, size_t bytes);

/* Returns the length of the text without the white space at its end. */
size_t tfm__unicode_trim(const char *text, size_t bytes);

/* Writes the characters that are not white space and returns their number, at most `bytes`. */
size_t tfm__unicode_non_space(int32_t *out, const char *text, size_t bytes);

/* Says whether the text has a letter or a digit. */
bool tfm__unicode_has_alnum(const char *text, size_t bytes);

/* Finds the next word after *at. Sets *word to where it begins and *at to where it ends; returns false if there is
 * none. *at is 0 at first. */
bool tfm__unicode_next_word(size_t *word, size_t *at, const char *text, size_t bytes);

#endif
