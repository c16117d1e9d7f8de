/* Scores of the tokens of a tokenizer.json, as GGUF's kinds `llama` and `t5` have them. */
#ifndef TFM_LIB_GGUF_SCORES_H
#define TFM_LIB_GGUF_SCORES_H

#include "text/hf_tokenizer.h"

/* Fills scores[count], 0 at first. Of a unigram model: its own. Of a byte-pair model: minus the rank of the first merge
 * that forms the token; TFM_ERROR_UNSUPPORTED if two pieces form a token without being a merge, since SentencePiece
 * would merge them. `root` is the tokenizer.json of `t`; `path` is for error messages. */
tfm_status tfm__gguf_scores(float *scores, int32_t count, const tfm__hf_tokenizer *t, const json_t *root,
                            const char *path);

#endif
