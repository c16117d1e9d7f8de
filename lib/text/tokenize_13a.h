/* The tokenizer of mteval-v13a.pl, the standard for BLEU. */
#ifndef TFM_LIB_TOKENIZE_13A_H
#define TFM_LIB_TOKENIZE_13A_H

#include "base/base.h"

/* The tokenized line: words of tfm__unicode_next_word. *out for free(). The line may contain line ends; trailing white
 * space is removed first, as in sacreBLEU. */
tfm_status tfm__tokenize_13a(char **out, size_t *out_bytes, const char *line, size_t bytes);

#endif
