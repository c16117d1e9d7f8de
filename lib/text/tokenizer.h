/* What the library asks of a tokenizer beyond its door. */
#ifndef TFM_LIB_TOKENIZER_H
#define TFM_LIB_TOKENIZER_H

#include "base/base.h"
#include "tfm/text.h"

/* As tfm_tokenizer_encode, with a segmentation drawn anew by each call where `alpha` is above 0:
 * tfm__spm_sample. */
tfm_status tfm__tokenizer_encode(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                 const char *line, size_t bytes, float alpha);

/* Bytes of the `>>xxx<<` that a line begins with, a language's code in Marian's models; 0 where it has none. */
size_t tfm__code_bytes(const char *line, size_t bytes);

#endif
