/* Prompts and options of text generation, for calls of one batch and for the engine. */
#ifndef TFM_LIB_PROMPTS_H
#define TFM_LIB_PROMPTS_H

#include "model/tasks/incremental_detokenizer.h"
#include "tfm/engine.h"

/* Checks what a tokenizer is needed for, and that prompts are given. */
tfm_status tfm__prompts_check(const tfm_model *model, const tfm_prompt *prompts, size_t count,
                              const tfm_generate_options *options);
/* The ids of a prompt; of an empty one those of an empty text, which may begin with BOS. The caller frees them with
 * tfm_ids_free. */
tfm_status tfm__prompt_read(const tfm_model *model, int32_t **ids, size_t *count, const tfm_prompt *prompt);

#endif
