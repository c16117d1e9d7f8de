/* Unicode properties, by ICU. All text is valid for tfm_text_check, and below 2 GiB. */
#ifndef TFM_LIB_UNICODE_H
#define TFM_LIB_UNICODE_H

#include <stdbool.h>
#include "base/base.h"

/* White space separates words: all Unicode spaces, line and paragraph separators, and the controls U+0009 to U+000D,
 * U+001C to U+001F, and U+0085. */

/* A lower-case copy by Unicode's full rules: a letter may become two, and a word-final capital sigma becomes a final
 * sigma. For free(). */
tfm_status tfm__unicode_lower(char **out, size_t *out_bytes, const char *text, size_t bytes);

/* Whether the first character of a text is this letter or its capital. Neither text is empty. */
bool tfm__unicode_is_letter(const char *text, const char *letter);

/* A copy with a capital first letter. For free(). */
tfm_status tfm__unicode_capitalize(char **out, const char *text);

/* The length of the text without trailing white space. */
size_t tfm__unicode_trim(const char *text, size_t bytes);

/* Writes the characters that are not white space and returns their number, at most `bytes`. */
size_t tfm__unicode_non_space(int32_t *out, const char *text, size_t bytes);

/* Whether the text has a letter or a digit. */
bool tfm__unicode_has_alnum(const char *text, size_t bytes);

/* Finds the next word after *at: *word is its beginning, *at its end; false if there is none. *at is initially 0. */
bool tfm__unicode_next_word(size_t *word, size_t *at, const char *text, size_t bytes);

#endif
