/* Reranking by a language model. */
#ifndef TFM_LIB_RERANK_PROMPTS_H
#define TFM_LIB_RERANK_PROMPTS_H

#include "model/core/model.h"
#include "tfm/rerank.h"

/* tfm_rerank for a checked decoder-only model with an output projection and checked arguments: a query for each
 * document. `run` has the options of its batches. */
tfm_status tfm__rerank_prompts(tfm_model *model, float *scores, const char *const *queries,
                               const char *const *documents, size_t count, const tfm_rerank_options *options,
                               const tfm_embed_options *run);

#endif
