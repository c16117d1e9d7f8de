/* Unicode's tables, by ICU. All text here is what tfm_text_check takes, and less than 2 GiB. */
#ifndef TFM_LIB_UNICODE_H
#define TFM_LIB_UNICODE_H

#include <stdbool.h>
#include "base/base.h"

/* White space is what separates words: all of Unicode's spaces, line and paragraph separators, and the controls
 * from U+0009 to U+000D, from U+001C to U+001F, and U+0085. */

/* The text with small letters, by the full rules: a letter may become two, and a capital sigma at a word's end is
 * a final one. *out for free(). */
tfm_status tfm__unicode_lower(char **out, size_t *out_bytes, const char *text, size_t bytes);

/* How many of the bytes are left without the white space at the end. */
size_t tfm__unicode_trim(const char *text, size_t bytes);

/* Writes the characters but for white space, at most `bytes` of them; returns how many. */
size_t tfm__unicode_characters(int32_t *out, const char *text, size_t bytes);

/* Whether there is a letter or a digit. */
bool tfm__unicode_says(const char *text, size_t bytes);

/* Goes on to the next word behind *at: *word is where it begins, *at where it ends. False if there is none. *at is
 * 0 at first. */
bool tfm__unicode_word(size_t *word, size_t *at, const char *text, size_t bytes);

#endif
