/* Going on with prompts, as ids. */
#ifndef TFM_LIB_DECODE_LOOP_H
#define TFM_LIB_DECODE_LOOP_H

#include "model/decode/prefill.h"

/* The rules that texts are written by: what the caller asks for, or else the directory, or else the header says. */
typedef struct tfm__generate_params {
    int beam_size;
    int n_best; /* hypotheses of each prompt */
    int copies; /* searches for each prompt: n_best where tokens are drawn, else 1 */
    int64_t max_new_tokens;
    int64_t max_length; /* of prompt and text, where the directory alone says how long; else 0 */
    int64_t min_length; /* the same of the fewest tokens */
    double length_penalty;
    bool skip_scores;
    tfm__sampling_params sampling;
} tfm__generate_params;
/* Checks the options, at the door of a call, whose model must be one that goes on with texts, on a context that has not
 * failed. */
tfm_status tfm__generate_params_of(const tfm_model *model, tfm__generate_params *out,
                                   const tfm_generate_options *options);

/* Says why a prompt of so many tokens cannot be gone on with, with `what` before it, or that it can. */
tfm_status tfm__prompt_check(const tfm_model *model, const char *what, const int32_t *ids, size_t count);

/* The most tokens that may follow a prompt of so many. */
int64_t tfm__generate_limit(const tfm__generate_params *rules, const tfm_model *model, size_t prompt_tokens);

/* Whether prompts of different lengths cannot share a batch, since the model turns by other rates in longer texts. */
bool tfm__generate_unbatched(const tfm_model *model);

/* Is told of each token of text `text`, which is prompt * copies + k, as soon as the host knows it; false ends it. */
typedef struct tfm__streamer {
    bool (*on_token)(void *user, size_t text, int32_t id);
    void *user;
} tfm__streamer;

/* What is asked before each step, and counted. All may be NULL. */
typedef struct tfm__generate_run {
    const tfm__streamer *streamer; /* needs a beam of 1 */
    bool (*should_continue)(void *user);
    void *should_continue_user;
    tfm_generate_stats *stats;
} tfm__generate_run;

void tfm__generate_stats_add(tfm_generate_stats *to, const tfm_generate_stats *more);

/* The prompts of one batch, all of which have been checked. */
typedef struct tfm__generate_input {
    const int32_t *const *ids; /* [count] */
    const size_t *counts;      /* [count] */
    const uint64_t *numbers;   /* [count]: whose random numbers they have */
    size_t count;
} tfm__generate_input;

/* Writes for one batch: n_best hypotheses for each prompt into out->items, which the caller has made. `ended`
 * [count * n_best] gets why each of them ended; it may be NULL. */
tfm_status tfm__generate_batch(tfm_model *model, tfm_hypotheses *out, tfm_finish_reason *ended,
                               const tfm__generate_input *input, const tfm__generate_params *rules,
                               const tfm__generate_run *run);

#endif
