/* Continuous batching of text generation: sequences are admitted and leave at any step, each with its own parameters.
 * They share one KV cache (kv_pool.h) and so the keys and values of common prefixes. */
#ifndef TFM_LIB_SCHEDULER_H
#define TFM_LIB_SCHEDULER_H

#include "model/decode/decode_loop.h"

typedef struct tfm__scheduler tfm__scheduler;
typedef struct tfm__sequence tfm__sequence;

typedef struct tfm__scheduler_options {
    int sequences;      /* maximum sequences decoded together; >= 1 */
    int64_t slots;      /* maximum slots of the KV cache: tokens of all sequences and of cached prefixes */
    int prefill_tokens; /* prompt tokens of a step; 0: as many as take about as long as its new tokens */
    int lookahead;      /* 1: a step begins before the tokens of the step before are known; -1: not; 0: on GPUs */
} tfm__scheduler_options;

typedef struct tfm__sequence_request {
    const int32_t *ids; /* [count]: the prompt, checked by tfm__prompt_check; copied */
    size_t count;
    tfm__generate_params params; /* of a beam of 1 and one copy; logit_bias is valid until the end */
    uint32_t stream;             /* random number stream */
    /* A new token; log p are 0 if scores are skipped. Returns false to end the sequence with it. */
    bool (*on_token)(void *user, int32_t id, const tfm_token_log_probs *log_probs);
    /* The sequence has ended, and is not valid any more. `cached`: prompt tokens found in the KV cache. Not called for
     * a cancelled one. */
    void (*on_end)(void *user, tfm_finish_reason reason, int64_t cached);
    void *user;
} tfm__sequence_request;

/* The model outlives the scheduler. Free *out also after a failure. TFM_ERROR_UNSUPPORTED for a model with an encoder.
 */
tfm_status tfm__scheduler_new(tfm__scheduler **out, tfm_model *model, const tfm__scheduler_options *options);
/* Forgets all sequences without a callback. */
void tfm__scheduler_free(tfm__scheduler *scheduler);
/* Adds a sequence. May be called from a callback. TFM_ERROR_UNSUPPORTED: a logits processor that only tfm_generate has;
 * TFM_ERROR_INPUT: more tokens than slots. */
tfm_status tfm__scheduler_add(tfm__scheduler *scheduler, tfm__sequence **out, const tfm__sequence_request *request);
/* Ends a sequence without a callback. May be called from a callback. */
void tfm__scheduler_cancel(tfm__scheduler *scheduler, tfm__sequence *sequence);
/* One step: admits sequences, runs a part of the prompts, and computes a token of each other sequence. *more: whether
 * any are left. After a failure, which is the context's, free the scheduler. */
tfm_status tfm__scheduler_step(tfm__scheduler *scheduler, bool *more);

typedef struct tfm__scheduler_counts {
    size_t waiting, running; /* sequences */
    uint64_t admitted, preempted;
    uint64_t steps, tokens;     /* of decoding */
    uint64_t drafted, accepted; /* tokens of drafts: verified, and accepted */
    uint64_t prefilled, cached; /* prompt tokens computed, and found in the KV cache */
    int64_t slots;              /* in use */
} tfm__scheduler_counts;
tfm__scheduler_counts tfm__scheduler_get_counts(const tfm__scheduler *scheduler);

#endif
