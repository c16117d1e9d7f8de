/* What the library needs of a tokenizer besides its public functions. */
#ifndef TFM_LIB_TOKENIZER_H
#define TFM_LIB_TOKENIZER_H

#include "base/base.h"
#include "tfm/text.h"

/* The most bytes of a line that is encoded or cut into sentences. */
enum { TFM__MAX_LINE = 64 << 20 };

/* Adds an owner, who calls tfm_tokenizer_free in the end. Returns the tokenizer. */
tfm_tokenizer *tfm__tokenizer_retain(const tfm_tokenizer *tokenizer);

/* Does what tfm_tokenizer_encode does. If `alpha` is above 0, each call draws a new segmentation, as tfm__spm_sample
 * describes. */
tfm_status tfm__tokenizer_encode_sampled(const tfm_tokenizer *tokenizer, int32_t **ids, size_t *count, tfm_side side,
                                         const char *line, size_t bytes, float alpha);

/* Has encoding refuse ids from these numbers on, by side, as a model's embeddings have no rows for them. */
void tfm__tokenizer_set_vocab_limit(tfm_tokenizer *tokenizer, int32_t source, int32_t target);

/* Whether it is one of Marian's. */
bool tfm__tokenizer_is_marian(const tfm_tokenizer *tokenizer);

/* Returns how many of `count` ids at the end do not have their text for certain until others follow: bytes, of which
 * only a whole run is a text or none. */
size_t tfm__tokenizer_incomplete(const tfm_tokenizer *tokenizer, const int32_t *ids, size_t count);

/* Returns the length in bytes of the `>>xxx<<` that a line begins with, which is a language's code in Marian's models.
 * 0 if the line has none. */
size_t tfm__language_code_bytes(const char *line, size_t bytes);

#endif
