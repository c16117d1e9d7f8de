/* Search parameters: options, with defaults from the directory. */
#include <math.h>
#include "model/decode/search.h"

tfm_status tfm__search_params_of(tfm__search_params *out, const tfm_model *model, const tfm_search_options *options) {
    static const tfm_search_options none;
    const tfm__generation_rules *rules = &model->rules;
    if (!options)
        options = &none;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "search: %s", TFM__RESERVED_SET_MESSAGE);
    out->beam_size = options->beam_size ? options->beam_size : model->info.beam_size;
    out->n_best = options->n_best ? options->n_best : 1;
    out->skip_scores = options->skip_scores;
    out->length_norm = options->length_norm;
    out->max_length = options->max_length;
    if (options->has_length_penalty)
        out->length_penalty = options->length_penalty;
    else if (out->length_norm == TFM_LENGTH_NORM_HF)
        out->length_penalty = rules->has_length_penalty ? rules->length_penalty : 1.0;
    else
        out->length_penalty = 0.6;
    if (out->beam_size < 1 || out->beam_size > TFM_MAX_BEAM_SIZE)
        return tfm__fail(TFM_ERROR_ARGUMENT, "beam_size is %d%s: give 1 to %d", out->beam_size,
                         options->beam_size ? "" : ", by the num_beams of the model's directory", TFM_MAX_BEAM_SIZE);
    if (out->n_best < 1)
        return tfm__fail(TFM_ERROR_ARGUMENT, "n-best is %d: give at least 1", out->n_best);
    if (out->n_best > out->beam_size)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "n-best is %d, more than the beam of %d: give a smaller n-best or a larger beam", out->n_best,
                         out->beam_size);
    if (out->max_length < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "max length is %d: give at least 1", out->max_length);
    if (!(fabs(out->length_penalty) <= 10)) /* lp(n) must fit a float; NaN fails too */
        return tfm__fail(TFM_ERROR_ARGUMENT, "length_penalty is %g%s: give -10 to 10", out->length_penalty,
                         options->has_length_penalty ? "" : ", by the length_penalty of the model's directory");
    return TFM_OK;
}

float *tfm__search_penalty(const tfm__search_params *rules, int64_t longest) {
    float *penalty = tfm__alloc((size_t)longest + 1, sizeof(*penalty));
    for (int64_t n = 0; penalty && n <= longest; n++)
        penalty[n] =
            (float)(rules->length_norm == TFM_LENGTH_NORM_HF ? pow((double)(n ? n : 1), rules->length_penalty)
                                                             : pow((5.0 + (double)n) / 6, rules->length_penalty));
    return penalty;
}

/* The directory's length limit of a translation; max_length counts the start token, as in transformers. */
static int64_t stored_limit(const tfm_model *model) {
    const tfm__sampling_defaults *stored = &model->rules.sampling;
    if (!model->rules.hf_search || (stored->max_new_tokens == 0 && stored->max_length == 0))
        return INT64_MAX;
    const int64_t limit = stored->max_new_tokens ? stored->max_new_tokens : stored->max_length - 1;
    return limit > 1 ? limit : 1;
}

int64_t tfm__search_limit(const tfm__search_params *rules, const tfm_model *model, size_t source_tokens) {
    const int64_t positions = model->arch.decoder.max_positions;
    const int64_t limit = rules->max_length ? rules->max_length : (int64_t)source_tokens + 50;
    const int64_t most = rules->max_length || stored_limit(model) > positions ? positions : stored_limit(model);
    return limit < most ? limit : most;
}

tfm_status tfm__search_check_prefix(const tfm__generation_rules *rules, const int32_t *ids, size_t count,
                                    int64_t limit) {
    limit -= rules->forced_bos_id >= 0; /* it comes first */
    if (count > 0 && (int64_t)count >= limit)
        return tfm__fail(TFM_ERROR_INPUT,
                         "it has %zu tokens and its translation may have %lld: give a larger maximum length, where the "
                         "model's positions allow it",
                         count, (long long)limit);
    for (size_t i = 0; i < count; i++)
        if (tfm__generation_is_banned(rules, ids[i]))
            return tfm__fail(
                TFM_ERROR_INPUT,
                "it contains token %d, which this model never generates: it is padding, or among bad_words_ids",
                (int)ids[i]);
        else if (tfm__generation_completes_bad_word(rules, ids, i + 1))
            return tfm__fail(TFM_ERROR_INPUT,
                             "its token %d completes a word of bad_words_ids, which this model never generates",
                             (int)ids[i]);
    return TFM_OK;
}

tfm_status tfm__search_check_ids(const char *what, const int32_t *ids, size_t count, int vocabulary) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return tfm__fail(TFM_ERROR_ARGUMENT, "search: a %s id is %d, the vocabulary has %d", what, (int)ids[i],
                             vocabulary);
    return TFM_OK;
}

/* The directory's rules; *own is a copy with overrides from the options. */
tfm_status tfm__search_override_rules(const tfm__generation_rules **forced, tfm__generation_rules **own,
                                      const tfm_model *model, const tfm_search_options *options) {
    const bool first = options && options->has_forced_bos_id, start = options && options->has_decoder_start_id;
    const int32_t ids[] = {first ? options->forced_bos_id : 0, start ? options->decoder_start_id : 0};
    *forced = &model->rules;
    if (!first && !start)
        return TFM_OK;
    tfm_status status = tfm__search_check_ids("first", ids, 2, model->arch.decoder.vocabulary);
    if (status == TFM_OK && !(*own = tfm__alloc(1, sizeof(**own))))
        status = TFM_ERROR_MEMORY;
    if (status != TFM_OK)
        return status;
    **own = model->rules;
    if (first)
        (*own)->forced_bos_id = ids[0];
    if (start)
        (*own)->start_id = ids[1];
    *forced = *own;
    return TFM_OK;
}
