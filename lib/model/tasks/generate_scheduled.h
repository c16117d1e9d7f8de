/* tfm_generate by an engine. */
#ifndef TFM_LIB_GENERATE_SCHEDULED_H
#define TFM_LIB_GENERATE_SCHEDULED_H

#include "model/decode/decode_loop.h"
#include "tfm/engine.h"

/* As tfm_generate, for checked options with a beam of 1. count > 0. All time counts as decoding. */
tfm_status tfm__generate_scheduled(tfm_model *model, const tfm_prompt *prompts, size_t count,
                                   const tfm_generate_options *options, tfm_generation_fn emit, void *user);

/* Leaves out a number of the engine's requests (engine.c). */
void tfm__engine_skip(tfm_engine *engine);

#endif
