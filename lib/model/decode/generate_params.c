/* Generation parameters: the caller's options, checked, with defaults from the directory. */
#include <math.h>
#include "model/decode/decode_loop.h"

enum { DEFAULT_MAX_NEW_TOKENS = 256 };

/* The option if given, else the directory's value; 0: neither. */
static double either(double option, double stored) {
    return option != 0 ? option : stored;
}

static tfm_status check_sampling(const tfm_generate_options *o, const tfm__sampling_params *c) {
    const struct {
        const char *name;
        double value, low, high;
    } numbers[] = {
        {"temperature", (double)c->sample_options.temperature, 0, 1e6},
        {"top_k", c->sample_options.top_k, 0, INT32_MAX},
        {"top_p", (double)c->sample_options.top_p, 0, 1},
        {"min_p", (double)c->sample_options.min_p, 0, 1},
        {"repetition_penalty", (double)c->repetition_penalty, 0, 1e6},
        {"min_new_tokens", (double)c->min_new_tokens, 0, INT32_MAX},
    };
    for (size_t i = 0; i < TFM__COUNT(numbers); i++)
        if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high))
            return tfm__fail(TFM_ERROR_ARGUMENT, "generate: %s is %g: give %g to %g", numbers[i].name, numbers[i].value,
                             numbers[i].low, numbers[i].high);
    if (!o->sample && (o->temperature != 0 || o->top_k != 0 || o->top_p != 0 || o->min_p != 0))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "generate: temperature, top_k, top_p and min_p apply to sampling only: set `sample`");
    return TFM_OK;
}

static tfm_status check_beam(const tfm_generate_options *o, const tfm__generate_params *r) {
    if (r->beam_size < 1 || r->beam_size > TFM_MAX_BEAM_SIZE)
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: beam_size is %d: give 1 to %d", r->beam_size,
                         TFM_MAX_BEAM_SIZE);
    if (r->n_best < 1)
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: n-best is %d: give at least 1", r->n_best);
    if (o->sample && r->beam_size > 1)
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: a beam of %d cannot be combined with `sample`", r->beam_size);
    if (!o->sample && r->n_best > r->beam_size)
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "generate: n-best is %d, more than the beam of %d: give a smaller n-best, a larger beam, or set `sample`",
            r->n_best, r->beam_size);
    if (r->beam_size > 1 && (o->on_token || o->on_text || o->stop_string_count > 0))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "generate: with a beam of %d, texts are complete only at the end: stop strings and callbacks "
                         "for tokens and pieces require a beam of 1",
                         r->beam_size);
    if (!(fabs(r->length_penalty) <= 10)) /* lp(n) must fit a float; NaN fails too */
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: length_penalty is %g%s: give -10 to 10", r->length_penalty,
                         o->has_length_penalty ? "" : ", by the length_penalty of the model's directory");
    return TFM_OK;
}

static tfm_status check_scheduled(const tfm_model *model, const tfm_generate_options *o, tfm__generate_params *r) {
    const struct {
        const char *name;
        double value, most;
    } numbers[] = {{"presence_penalty", fabs((double)o->presence_penalty), 100},
                   {"frequency_penalty", fabs((double)o->frequency_penalty), 100},
                   {"top_log_probs", o->top_log_probs, TFM__MAX_TOP},
                   {"prompt_lookup_num_tokens", (unsigned)o->prompt_lookup_num_tokens, TFM__MAX_DRAFTS}};
    const int vocabulary = model->arch.decoder.vocabulary;
    for (size_t i = 0; i < TFM__COUNT(numbers); i++)
        if (!(numbers[i].value <= numbers[i].most))
            return tfm__fail(TFM_ERROR_ARGUMENT, "generate: %s is out of range: give at most %g", numbers[i].name,
                             numbers[i].most);
    if (o->top_log_probs < 0 || (o->top_log_probs > 0 && !o->on_log_probs) ||
        (o->logit_bias_count > 0 && !o->logit_bias) || (o->stop_id_count > 0 && !o->stop_ids))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "generate: top_log_probs is %d, and logit_bias %p of %zu: top_log_probs must be >= 0 and needs "
            "on_log_probs, and neither logit_bias nor stop_ids may be NULL",
            o->top_log_probs, (const void *)o->logit_bias, o->logit_bias_count);
    for (size_t i = 0; i < o->logit_bias_count; i++)
        if (o->logit_bias[i].id < 0 || o->logit_bias[i].id >= vocabulary ||
            !(isfinite(o->logit_bias[i].bias) || o->logit_bias[i].bias == -INFINITY))
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "generate: logit_bias %zu is %g for the id %d: give a finite one or -infinity, and an id "
                             "from 0 to %d",
                             i + 1, (double)o->logit_bias[i].bias, (int)o->logit_bias[i].id, vocabulary - 1);
    for (size_t i = 0; i < o->stop_id_count; i++)
        if (o->stop_ids[i] < 0 || o->stop_ids[i] >= vocabulary)
            return tfm__fail(TFM_ERROR_ARGUMENT, "generate: stop_ids %zu is %d: give an id from 0 to %d", i + 1,
                             (int)o->stop_ids[i], vocabulary - 1);
    r->scheduled = o->presence_penalty != 0 || o->frequency_penalty != 0 || o->logit_bias_count > 0 ||
                   o->on_log_probs || o->grammar || o->stop_id_count > 0 || o->prompt_lookup_num_tokens > 0;
    if (r->scheduled && (r->beam_size > 1 || o->prompt_cache))
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "generate: presence_penalty, frequency_penalty, logit_bias, on_log_probs, grammar, stop_ids and "
            "prompt_lookup_num_tokens require %s",
            r->beam_size > 1 ? "a beam of 1" : "no prompt cache");
    return TFM_OK;
}

static tfm_status params_of(tfm__generate_params *out, const tfm_model *model, const tfm_generate_options *options) {
    const tfm__generation_rules *rules = &model->rules;
    const tfm__sampling_defaults *stored = &rules->sampling;
    const tfm_generate_options *o = options;
    if (o->max_new_tokens < 0 || o->batch_tokens < 0 || (o->stop_string_count > 0 && !o->stop_strings))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "generate: max_new_tokens is %d, batch_tokens %d, and stop_strings %p of %zu: they must be >= "
                         "0, and stop_strings must not be NULL",
                         o->max_new_tokens, o->batch_tokens, (const void *)o->stop_strings, o->stop_string_count);
    tfm__sampling_params sampling = tfm__sampling_params_of(rules);
    sampling.do_sample = o->sample;
    sampling.sample_options =
        (tfm_sample_options){.temperature = (float)either((double)o->temperature, stored->temperature),
                             .top_k = o->top_k ? o->top_k : stored->top_k,
                             .top_p = (float)either((double)o->top_p, stored->top_p),
                             .min_p = (float)either((double)o->min_p, stored->min_p),
                             .seed = o->seed};
    if (o->repetition_penalty != 0)
        sampling.repetition_penalty = o->repetition_penalty == 1 ? 0 : o->repetition_penalty;
    sampling.min_new_tokens = o->min_new_tokens ? o->min_new_tokens : sampling.min_new_tokens;
    *out = (tfm__generate_params){.beam_size = o->beam_size ? o->beam_size : 1,
                                  .n_best = o->n_best ? o->n_best : 1,
                                  .copies = o->sample && o->n_best > 1 ? o->n_best : 1,
                                  .max_new_tokens = o->max_new_tokens ? o->max_new_tokens : stored->max_new_tokens,
                                  .length_penalty = o->has_length_penalty       ? o->length_penalty
                                                    : rules->has_length_penalty ? rules->length_penalty
                                                                                : 1,
                                  .min_length = sampling.min_new_tokens == 0 ? stored->min_length : 0,
                                  .skip_scores = o->skip_scores && !o->on_log_probs,
                                  .sampling = sampling,
                                  .presence_penalty = o->presence_penalty,
                                  .frequency_penalty = o->frequency_penalty,
                                  .logit_bias = o->logit_bias,
                                  .logit_bias_count = o->logit_bias_count,
                                  .top_log_probs = o->top_log_probs,
                                  .grammar = o->grammar,
                                  .stop_ids = o->stop_ids,
                                  .stop_id_count = o->stop_id_count,
                                  .prompt_lookup = o->prompt_lookup_num_tokens};
    out->max_length = out->max_new_tokens == 0 ? stored->max_length : 0;
    out->max_new_tokens = out->max_new_tokens ? out->max_new_tokens : DEFAULT_MAX_NEW_TOKENS;
    tfm_status status = check_sampling(o, &out->sampling);
    if (status == TFM_OK)
        status = check_beam(o, out);
    return status == TFM_OK ? check_scheduled(model, o, out) : status;
}

tfm_status tfm__generate_params_of(const tfm_model *model, tfm__generate_params *out,
                                   const tfm_generate_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "generate: %s", TFM__RESERVED_SET_MESSAGE);
    tfm_status status = tfm__context_ready(model->ctx, "generate");
    if (status == TFM_OK)
        status = tfm__model_needs(model, "generate", TFM__NEEDS_DECODER);
    if (status == TFM_OK && model->arch.encoder.layers)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "generate: the model, of the family %s, is an encoder-decoder: translate with it, or use a "
                         "decoder-only model",
                         model->family->name);
    if (status == TFM_OK)
        status = tfm__model_needs(model, "generate", TFM__NEEDS_OUTPUT);
    return status == TFM_OK ? params_of(out, model, options) : status;
}

/* Longer texts use other RoPE frequencies; 0: no limit. */
static int64_t rope_switch_length(const tfm_model *model) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    return arch->rotary.switch_length ? arch->rotary.switch_length : arch->local_rotary.switch_length;
}

bool tfm__generate_unbatched(const tfm_model *model) {
    return rope_switch_length(model) != 0;
}

int64_t tfm__generate_limit(const tfm__generate_params *rules, const tfm_model *model, size_t prompt_tokens) {
    const int64_t tokens = (int64_t)prompt_tokens;
    const int64_t room = model->info.max_positions - tokens + 1; /* the last token is not fed back */
    int64_t limit = rules->max_new_tokens < room ? rules->max_new_tokens : room;
    if (rules->max_length > 0 && rules->max_length - tokens < limit)
        limit = rules->max_length - tokens;
    return limit > 1 ? limit : 1;
}

tfm_status tfm__prompt_check(const tfm_model *model, const char *what, const int32_t *ids, size_t count) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    if (count == 0)
        return tfm__fail(TFM_ERROR_INPUT, "%shas no tokens, and the model has no BOS token", what);
    if (count > (size_t)model->info.max_positions && model->info.max_positions < arch->max_positions)
        return tfm__fail(TFM_ERROR_INPUT,
                         "%shas %zu tokens, and the context has %d: shorten it, or give a larger context size", what,
                         count, model->info.max_positions);
    if (count > (size_t)arch->max_positions)
        return tfm__fail(TFM_ERROR_INPUT, "%shas %zu tokens, and the model has %d positions: shorten it", what, count,
                         arch->max_positions);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= arch->vocabulary)
            return tfm__fail(TFM_ERROR_ARGUMENT, "%shas the id %d; the vocabulary has %d", what, (int)ids[i],
                             arch->vocabulary);
    return TFM_OK;
}
