/* Entry point of text generation for one batch of prompts. */
#include <stdio.h>
#include "model/decode/decode_loop.h"

/* Forwards tokens to the callback. A restarted batch reports only new tokens. */
typedef struct token_forwarder {
    const tfm_generate_options *options;
    size_t copies;
    size_t *at, *reported; /* [texts]: tokens in this run, and reported in total */
    bool *ended;           /* [texts]: the last token reported ended the text */
} token_forwarder;

static bool stream_token(void *user, size_t text, int32_t id) {
    token_forwarder *t = user;
    if (++t->at[text] <= t->reported[text])
        return t->at[text] < t->reported[text] || !t->ended[text];
    t->reported[text] = t->at[text];
    t->ended[text] = !t->options->on_token(t->options->on_token_user, text / t->copies, (int)(text % t->copies), id);
    return !t->ended[text];
}

static tfm_status run(tfm_model *model, tfm_hypotheses *out, const tfm__generate_input *input,
                      const tfm__generate_params *rules, const tfm_generate_options *options) {
    const size_t texts = input->count * (size_t)rules->copies;
    const int depth = tfm__scope_depth(model->ctx);
    token_forwarder forwarder = {.options = options, .copies = (size_t)rules->copies};
    const tfm__streamer streamer = {stream_token, &forwarder};
    tfm_generate_stats done = {0}; /* of one run: a restarted batch counts once */
    const tfm__generate_run how = {.streamer = options->on_token ? &streamer : NULL,
                                   .should_continue = options->should_continue,
                                   .should_continue_user = options->should_continue_user,
                                   .stats = options->stats ? &done : NULL,
                                   .prompt_cache = options->prompt_cache};
    forwarder.at = tfm__alloc(texts, sizeof(*forwarder.at));
    forwarder.reported = tfm__alloc(texts, sizeof(*forwarder.reported));
    forwarder.ended = tfm__alloc(texts, sizeof(*forwarder.ended));
    tfm_status status = forwarder.at && forwarder.reported && forwarder.ended ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        do {
            for (size_t i = 0; i < texts; i++)
                forwarder.at[i] = 0;
            done = (tfm_generate_stats){0};
            status = tfm__generate_batch(model, out, NULL, input, rules, &how);
        } while (tfm__context_retry(model->ctx, depth, status));
    if (status == TFM_OK && options->stats)
        tfm__generate_stats_add(options->stats, &done);
    free(forwarder.at);
    free(forwarder.reported);
    free(forwarder.ended);
    return status;
}

/* Checks the prompts and finds their beginnings. */
static tfm_status find_prompts(const tfm_model *model, const int32_t **at, uint64_t *numbers, const int32_t *ids,
                               const size_t *counts, size_t prompts, uint64_t first) {
    char what[64];
    for (size_t i = 0; i < prompts; ids += counts[i++]) {
        snprintf(what, sizeof(what), "generate: prompt %zu ", i + 1);
        const tfm_status status = tfm__prompt_check(model, what, ids, counts[i]);
        if (status != TFM_OK)
            return status;
        at[i] = ids;
        numbers[i] = first + i;
    }
    return TFM_OK;
}

tfm_status tfm_generate_ids(tfm_model *model, tfm_hypotheses *out, const int32_t *ids, const size_t *counts,
                            size_t prompts, const tfm_generate_options *options) {
    static const tfm_generate_options defaults;
    if (out)
        *out = (tfm_hypotheses){0};
    if (TFM__NEEDS("generate_ids", model, out, ids, counts) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__generate_params rules;
    options = options ? options : &defaults;
    tfm_status status = tfm__generate_params_of(model, &rules, options);
    if (status == TFM_OK)
        status = tfm__prompt_cache_check(model, options, prompts);
    if (status == TFM_OK && rules.scheduled)
        status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "generate_ids: penalties, logit_bias, on_log_probs and grammar need an engine: "
                           "use tfm_generate");
    if (status != TFM_OK || prompts == 0)
        return status;
    const int32_t **at = tfm__alloc(prompts, sizeof(*at));
    uint64_t *numbers = tfm__alloc(prompts, sizeof(*numbers));
    out->items = tfm__alloc(prompts * (size_t)rules.n_best, sizeof(*out->items));
    out->sentences = prompts;
    out->n_best = rules.n_best;
    status = at && numbers && out->items ? find_prompts(model, at, numbers, ids, counts, prompts, options->first_prompt)
                                         : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = run(model, out, &(tfm__generate_input){at, counts, numbers, prompts}, &rules, options);
    free(at);
    free(numbers);
    if (status != TFM_OK)
        tfm_hypotheses_free(out);
    return status;
}
