/* Text generation from token ids. */
#ifndef TFM_LIB_DECODE_LOOP_H
#define TFM_LIB_DECODE_LOOP_H

#include "model/decode/prompt_cache.h"

enum { TFM__MAX_TOP = 64 };    /* most probable tokens of a step: the limit of tfm_topk */
enum { TFM__MAX_DRAFTS = 15 }; /* of a sequence in a step */

/* Generation parameters: the caller's, else the directory's, else the defaults. */
typedef struct tfm__generate_params {
    int beam_size;
    int n_best; /* hypotheses per prompt */
    int copies; /* searches per prompt: n_best if sampling, else 1 */
    int64_t max_new_tokens;
    int64_t max_length; /* of prompt and text, if only the directory limits the length; else 0 */
    int64_t min_length; /* the same for the minimum */
    double length_penalty;
    bool skip_scores;
    tfm__sampling_params sampling;
    /* For the scheduler only. */
    float presence_penalty, frequency_penalty;
    const tfm_logit_bias *logit_bias; /* [logit_bias_count] */
    size_t logit_bias_count;
    int top_log_probs;
    const int32_t *stop_ids; /* [stop_id_count] */
    size_t stop_id_count;
    const tfm_grammar *grammar; /* read by tfm__scheduler_add only */
    int prompt_lookup;          /* maximum drafts of a step; 0: none */
    bool scheduled;             /* some option only the scheduler has */
} tfm__generate_params;
/* Checks the options of a call. The model must generate text, and its context must not have failed. */
tfm_status tfm__generate_params_of(const tfm_model *model, tfm__generate_params *out,
                                   const tfm_generate_options *options);

/* Checks whether a prompt of this length can be continued; the message begins with `what`. */
tfm_status tfm__prompt_check(const tfm_model *model, const char *what, const int32_t *ids, size_t count);

/* Maximum number of new tokens after a prompt of this length. */
int64_t tfm__generate_limit(const tfm__generate_params *rules, const tfm_model *model, size_t prompt_tokens);

/* Whether prompts of different lengths cannot share a batch, because RoPE frequencies depend on the length. */
bool tfm__generate_unbatched(const tfm_model *model);

/* Receives each token of text number `text` = prompt * copies + k, as soon as the host has it; returns false to end the
 * text. */
typedef struct tfm__streamer {
    bool (*on_token)(void *user, size_t text, int32_t id);
    void *user;
} tfm__streamer;

/* Cancellation, streaming and statistics. Members may be NULL. */
typedef struct tfm__generate_run {
    const tfm__streamer *streamer; /* requires a beam of 1 */
    bool (*should_continue)(void *user);
    void *should_continue_user;
    tfm_generate_stats *stats;
    tfm_prompt_cache *prompt_cache; /* checked (tfm__prompt_cache_check); requires one prompt and one copy */
} tfm__generate_run;

void tfm__generate_stats_add(tfm_generate_stats *to, const tfm_generate_stats *more);

/* Checked prompts of one batch. */
typedef struct tfm__generate_input {
    const int32_t *const *ids; /* [count] */
    const size_t *counts;      /* [count] */
    const uint64_t *numbers;   /* [count]: random number streams */
    size_t count;
} tfm__generate_input;

/* Generates n_best hypotheses per prompt into out->items, allocated by the caller. `ended` [count * n_best] receives
 * the finish reasons; it may be NULL. */
tfm_status tfm__generate_batch(tfm_model *model, tfm_hypotheses *out, tfm_finish_reason *ended,
                               const tfm__generate_input *input, const tfm__generate_params *rules,
                               const tfm__generate_run *run);

#endif
