/* The tokenizer of mteval-v13a.pl, which BLEU scores are reported with. */
#ifndef TFM_LIB_TOKENIZE_13A_H
#define TFM_LIB_TOKENIZE_13A_H

#include "base/base.h"

/* The line with its tokens apart: words, as tfm__unicode_next_word finds them. *out for free(). The line may hold line
 * ends; white space at its end goes first, as sacreBLEU does it. */
tfm_status tfm__tokenize_13a(char **out, size_t *out_bytes, const char *line, size_t bytes);

#endif
