/* The decode engine: continuous batching of text generation. Requests are submitted at any time, each with its own
 * options, and a step computes a token of each. A request that ends makes room for the next one at once. Prompts are
 * computed in chunks between the steps, and prompts that begin alike share their keys and values (prefix caching).
 *
 *     static bool print(void *user, const tfm_generation *generation) {
 *         return puts(generation->text) >= 0;
 *     }
 *
 *     tfm_engine *engine = NULL;
 *     if (tfm_engine_open(&engine, model, NULL) == TFM_OK &&
 *         tfm_engine_submit(engine, NULL, &(tfm_prompt){.text = "Once", .bytes = 4}, NULL, print, NULL) == TFM_OK)
 *         for (bool more = true; more && tfm_engine_step(engine, &more) == TFM_OK;)
 *             continue;
 *     tfm_engine_free(&engine);
 *
 * The tokens of a request are those of tfm_generate for it alone, up to rounding. An engine works on its model's
 * context, so one thread at a time may use both. */
#ifndef TFM_ENGINE_H
#define TFM_ENGINE_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_engine tfm_engine;

typedef struct tfm_engine_options {
    int max_sequences; /* Texts decoded together; others wait. 0 means 32. */
    /* Maximum tokens in the KV cache: of texts with their prompts, and of earlier ones kept as prefixes. If running
     * texts need more, the youngest are computed again later. Memory is allocated as it is needed. 0 means what
     * fits an eighth of the device's memory: at least one text of the model's positions, at most max_sequences. */
    int64_t max_cache_tokens;
    /* Prompt tokens computed in a step. More of them end a prompt sooner, and delay the next tokens of other texts. 0
     * means 512 on a GPU and while no text is decoded; else 32 for up to 8 texts, and 8 more for each other one. */
    int prefill_tokens;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_engine_options;

typedef struct tfm_engine_stats {
    uint64_t waiting, running;  /* Texts that wait for their first step, or again after a preemption; texts that run. */
    uint64_t steps, new_tokens; /* Decoding steps so far, and the tokens that they computed. */
    uint64_t prompt_tokens, cached_tokens;    /* Prompt tokens computed so far, and found in the KV cache. */
    uint64_t preemptions;                     /* Texts that gave their memory to older ones, so far. */
    uint64_t cache_tokens;                    /* Tokens in the KV cache. */
    uint64_t drafted_tokens, accepted_tokens; /* Drafts verified so far, and new tokens that were drafts. */
} tfm_engine_stats;

/* Creates an engine. The model stays in memory as long as it. `options` may be NULL. On failure *out is NULL:
 * TFM_ERROR_UNSUPPORTED for a model with an encoder, TFM_ERROR_ARGUMENT for one opened on several devices or without an
 * output projection. */
TFM_API tfm_status tfm_engine_open(tfm_engine **out, tfm_model *model, const tfm_engine_options *options);

/* Submits a prompt. *request, which may be NULL, receives its number, the argument `prompt` of the callbacks; numbers
 * count from 0. `options` are those of tfm_generate, and may be NULL; a beam and a prompt cache are not supported,
 * batch_tokens, reject, should_continue and stats are ignored, skip_scores applies to samples too, and the stop
 * strings, logit_bias and stop_ids must stay valid until the end. `done` receives each of the n_best texts when it
 * ends; its result is ignored. Callbacks are called by tfm_engine_step; they may submit and cancel.
 *
 * Errors do not affect other requests: those of tfm_generate; TFM_ERROR_UNSUPPORTED for a beam, a prompt cache, and
 * logits processors of the directory that only tfm_generate has; TFM_ERROR_INPUT for more tokens than the KV cache can
 * hold. */
TFM_API tfm_status tfm_engine_submit(tfm_engine *engine, uint64_t *request, const tfm_prompt *prompt,
                                     const tfm_generate_options *options, tfm_generation_fn done, void *user);

/* Ends a request without further callbacks. Nothing happens if it has ended. */
TFM_API void tfm_engine_cancel(tfm_engine *engine, uint64_t request);

/* Runs a step: reports the tokens of the step before, admits waiting requests, computes a part of their prompts, and
 * begins the next token of all others. *more: whether there is work left. A failure is the device's: no request can
 * continue, and the engine must be freed. */
TFM_API tfm_status tfm_engine_step(tfm_engine *engine, bool *more);

TFM_API tfm_engine_stats tfm_engine_get_stats(const tfm_engine *engine);

/* Forgets all requests without callbacks, releases the engine, and sets the pointer to NULL. */
TFM_API void tfm_engine_free(tfm_engine **engine);

#ifdef __cplusplus
}
#endif

#endif
