/* KV caches of generation that outlive a call: slot i has token i of one sequence, so a prefix is a number of slots. */
#include "model/decode/prompt_cache.h"
#include <string.h>

struct tfm_prompt_cache {
    tfm_model *model; /* retained */
    tfm_kv_cache kv;  /* empty before the first run, and after a failed one */
    int32_t *ids;     /* [count]: tokens of the first slots */
    size_t count, room;
    int64_t length; /* of the sequence that the keys were computed for: RoPE frequencies may depend on it */
};

tfm_status tfm_prompt_cache_new(tfm_prompt_cache **out, tfm_model *model) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("prompt_cache_new", out, model) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (model->replicas)
        return tfm__fail(TFM_ERROR_ARGUMENT, "prompt_cache_new: the model was opened on a fleet: open it on a context");
    const tfm_status status = tfm__model_needs(model, "prompt_cache_new", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status != TFM_OK)
        return status;
    if (model->arch.encoder.layers)
        return tfm__fail(TFM_ERROR_ARGUMENT, "prompt_cache_new: the model is an encoder-decoder: use a decoder-only "
                                             "model");
    tfm_prompt_cache *cache = tfm__alloc(1, sizeof(*cache));
    if (!cache)
        return TFM_ERROR_MEMORY;
    cache->model = tfm__model_retain(model);
    *out = cache;
    return TFM_OK;
}

size_t tfm_prompt_cache_tokens(const tfm_prompt_cache *cache) {
    return cache ? cache->count : 0;
}

void tfm_prompt_cache_clear(tfm_prompt_cache *cache) {
    if (cache)
        cache->count = 0;
}

void tfm_prompt_cache_free(tfm_prompt_cache **pointer) {
    tfm_prompt_cache *cache = pointer ? *pointer : NULL;
    if (!cache)
        return;
    *pointer = NULL;
    tfm_kv_cache_free(cache->model->ctx, &cache->kv);
    tfm_model_free(&cache->model);
    free(cache->ids);
    free(cache);
}

tfm_status tfm__prompt_cache_check(const tfm_model *model, const tfm_generate_options *options, size_t prompts) {
    const tfm_prompt_cache *cache = options->prompt_cache;
    if (!cache)
        return TFM_OK;
    if (cache->model != model)
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: the prompt cache is of another model");
    if (prompts > 1 || options->beam_size > 1 || options->n_best > 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "generate: a prompt cache has one sequence, and there are %zu prompts, a beam of %d and an "
                         "n-best of %d: give one prompt and leave the others out",
                         prompts, options->beam_size, options->n_best);
    return TFM_OK;
}

/* Tokens of the prompt that the cache has; the last one of a prompt is always computed. */
static size_t common_prefix(const tfm_prompt_cache *cache, const int32_t *ids, size_t count) {
    size_t same = 0;
    while (same < cache->count && same + 1 < count && cache->ids[same] == ids[same])
        same++;
    return same > 0 && tfm__model_rope_reusable(cache->model, cache->length, (int64_t)count) ? same : 0;
}

tfm_status tfm__prompt_cache_take(tfm_prompt_cache *cache, tfm_model *model, tfm_kv_cache *kv, tfm__prompts *prompts,
                                  int64_t more) {
    if (!cache || !cache->kv.kv)
        return tfm__model_kv_cache_new(model, kv, prompts->slots + more);
    prompts->cached = (int64_t)common_prefix(cache, prompts->ids[0], prompts->counts[0]);
    *kv = cache->kv;
    kv->slots = prompts->cached;
    cache->kv = (tfm_kv_cache){0};
    cache->count = 0;
    return tfm_kv_cache_reserve(model->ctx, kv, prompts->slots - prompts->cached + more);
}

tfm_status tfm__prompt_cache_put(tfm_prompt_cache *cache, tfm_kv_cache *kv, const tfm__prompts *prompts,
                                 const int32_t *ids, size_t count) {
    const size_t prompt = prompts->counts[0], all = prompt + count, slots = (size_t)kv->slots;
    if (all > cache->room) {
        int32_t *larger = tfm__alloc(2 * all, sizeof(*larger));
        if (!larger)
            return TFM_ERROR_MEMORY;
        free(cache->ids);
        cache->ids = larger;
        cache->room = 2 * all;
    }
    memcpy(cache->ids, prompts->ids[0], prompt * sizeof(*cache->ids));
    if (count > 0)
        memcpy(cache->ids + prompt, ids, count * sizeof(*cache->ids));
    cache->count = all < slots ? all : slots;
    cache->length = (int64_t)(prompt > slots ? prompt : slots);
    cache->kv = *kv;
    *kv = (tfm_kv_cache){0};
    return TFM_OK;
}
