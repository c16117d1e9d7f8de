/* KV caches of generation that outlive a call (tfm_prompt_cache). */
#ifndef TFM_LIB_PROMPT_CACHE_H
#define TFM_LIB_PROMPT_CACHE_H

#include "model/decode/prefill.h"

/* Checks the option `prompt_cache` of a call, if given. */
tfm_status tfm__prompt_cache_check(const tfm_model *model, const tfm_generate_options *options, size_t prompts);

/* Makes the KV cache *kv of a run, with room for the prompts and `more` slots. With a `cache`, which may be NULL, it is
 * taken from there with the longest common prefix of the only prompt, whose length is then prompts->cached. */
tfm_status tfm__prompt_cache_take(tfm_prompt_cache *cache, tfm_model *model, tfm_kv_cache *kv, tfm__prompts *prompts,
                                  int64_t more);

/* Returns the KV cache after a run: its first slots have the prompt, then `count` generated ids; slots beyond them are
 * dropped. *kv is empty then; on failure it is unchanged. After a failed run, call nothing: the cache is empty. */
tfm_status tfm__prompt_cache_put(tfm_prompt_cache *cache, tfm_kv_cache *kv, const tfm__prompts *prompts,
                                 const int32_t *ids, size_t count);

#endif
