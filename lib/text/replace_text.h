/* Replaces fixed strings in texts. */
#ifndef TFM_LIB_REPLACE_TEXT_H
#define TFM_LIB_REPLACE_TEXT_H

#include "text/bytes.h"

/* Adds the text with every `from` as `to`. */
void tfm__replace_all(tfm__bytes *out, const char *text, size_t bytes, const char *from, size_t from_bytes,
                      const char *to, size_t to_bytes);

/* Adds the text after `count` pairs of search text and replacement were applied in order. */
tfm_status tfm__replace_pairs(tfm__bytes *out, const char *text, size_t bytes, const char *const pairs[][2],
                              size_t count);

/* transformers' clean_up_tokenization_spaces: removes blanks before punctuation and in "do n't". */
tfm_status tfm__clean_up_spaces(tfm__bytes *out, const char *text, size_t bytes);

#endif
