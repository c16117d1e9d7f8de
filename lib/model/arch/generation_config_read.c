/* Reads generation rules from generation_config.json and config.json. */
#include <limits.h>
#include <math.h>
#include <string.h>
#include "model/arch/config_keys.h"

/* ---- Suppressed tokens -------------------------------------------------------------------------------- */

/* Adds a word of `bad_words_ids`; false: the table is full. */
static bool add_bad_word(tfm__generation_rules *out, const json_t *word) {
    const size_t count = json_array_size(word);
    const int first = (int)json_integer_value(json_array_get(word, 0)), used = out->bad_words[out->bad_word_count];
    if (count == 1 && out->suppress_id_count < TFM__MAX_SUPPRESS_IDS) {
        out->suppress_ids[out->suppress_id_count++] = first;
        return true;
    }
    if (count == 1 || out->bad_word_count == TFM__MAX_BAD_WORDS || count > (size_t)(TFM__MAX_BAD_WORD_IDS - used))
        return false;
    for (size_t i = 0; i < count; i++)
        out->bad_word_ids[used + (int)i] = (int)json_integer_value(json_array_get(word, i));
    out->bad_words[++out->bad_word_count] = used + (int)count;
    return true;
}

/* `bad_words_ids` is a list of lists. EOS alone stays allowed, as in Hugging Face. */
static tfm_status read_bad_words(tfm__generation_rules *out, const tfm__config_files *from, int vocabulary) {
    tfm__config_value key = tfm__generation_key(from, "bad_words_ids");
    if (key.value && !json_is_array(key.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `bad_words_ids` is %s; a list of lists of ids is allowed", key.path,
                         TFM__VALUE_TEXT(key.value));
    size_t index, left_out = 0;
    const json_t *first = NULL;
    json_t *word;
    json_array_foreach((json_t *)(uintptr_t)key.value, index, word) {
        if (!json_is_array(word) || json_array_size(word) == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `bad_words_ids` holds %s; a list of ids is needed", key.path,
                             TFM__VALUE_TEXT(word));
        int id = 0;
        for (size_t i = 0; i < json_array_size(word); i++) {
            tfm__config_value item = {json_array_get(word, i), key.path};
            tfm_status status = tfm__read_int(&id, item, "bad_words_ids", 0, vocabulary - 1);
            if (status != TFM_OK)
                return status;
        }
        if (json_array_size(word) == 1 && tfm__generation_is_eos(out, id))
            continue;
        if (!add_bad_word(out, word)) {
            first = first ? first : word;
            left_out++;
        }
    }
    if (left_out > 0)
        tfm__log(TFM_LOG_WARNING,
                 "%s: `bad_words_ids` has too many words: %zu of them are not suppressed, the first is %s; the limits "
                 "are %d single ids, and %d words of several ids with %d ids in all",
                 key.path, left_out, TFM__VALUE_TEXT(first), TFM__MAX_SUPPRESS_IDS, TFM__MAX_BAD_WORDS,
                 TFM__MAX_BAD_WORD_IDS);
    return TFM_OK;
}

/* A list of suppressed token ids. transformers ignores ids outside the vocabulary. */
static tfm_status read_suppressed(int *out, int *count, int most, const tfm__config_files *from, const char *key,
                                  int vocabulary) {
    const tfm__config_value found = tfm__generation_key(from, key);
    if (found.value && !json_is_array(found.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a list of ids is allowed", found.path, key,
                         TFM__VALUE_TEXT(found.value));
    for (size_t i = 0; i < json_array_size(found.value); i++) {
        int id = -1;
        const tfm__config_value item = {json_array_get(found.value, i), found.path};
        const tfm_status status = tfm__read_int(&id, item, key, INT_MIN, INT_MAX);
        if (status != TFM_OK)
            return status;
        if (id < 0 || id >= vocabulary)
            continue;
        if (*count == most)
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` has %zu ids; with those of `bad_words_ids`, %d at most are allowed", found.path,
                             key, json_array_size(found.value), most);
        out[(*count)++] = id;
    }
    return TFM_OK;
}

/* `sequence_bias`: a list of pairs: ids, and a bias for the last one if it follows the others. */
static tfm_status read_sequence_bias(tfm__generation_rules *out, const tfm__config_files *from, int vocabulary) {
    const tfm__config_value found = tfm__generation_key(from, "sequence_bias");
    size_t index, k;
    json_t *pair, *id;
    if (found.value && !json_is_array(found.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `sequence_bias` is %s; a list of pairs of ids and a number is allowed",
                         found.path, TFM__VALUE_TEXT(found.value));
    json_array_foreach((json_t *)(uintptr_t)found.value, index, pair) {
        const json_t *ids = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
        const int used = out->sequence_bias_starts[out->sequence_bias_count];
        if (json_array_size(pair) != 2 || json_array_size(ids) == 0 || !json_is_number(bias) ||
            !(fabs(json_number_value(bias)) < 1e30))
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `sequence_bias` holds %s; a list of ids and a number are needed",
                             found.path, TFM__VALUE_TEXT(pair));
        if (out->sequence_bias_count == TFM__MAX_SEQUENCE_BIAS ||
            json_array_size(ids) > (size_t)(TFM__MAX_SEQUENCE_BIAS_IDS - used))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `sequence_bias` has %zu words; the limits are %d words and %d ids in all", found.path,
                             json_array_size(found.value), TFM__MAX_SEQUENCE_BIAS, TFM__MAX_SEQUENCE_BIAS_IDS);
        json_array_foreach((json_t *)(uintptr_t)ids, k, id) {
            const tfm_status status =
                tfm__read_int(&out->sequence_bias_ids[used + (int)k], (tfm__config_value){id, found.path},
                              "sequence_bias", 0, vocabulary - 1);
            if (status != TFM_OK)
                return status;
        }
        out->bias[out->sequence_bias_count++] = (float)json_number_value(bias);
        out->sequence_bias_starts[out->sequence_bias_count] = used + (int)json_array_size(ids);
    }
    return TFM_OK;
}

/* All keys that suppress or penalize tokens. */
static tfm_status read_forbidden(tfm__generation_rules *out, const tfm__config_files *from, int vocabulary) {
    static const char repeat[] = "no_repeat_ngram_size", normal[] = "renormalize_logits";
    tfm_status status = read_bad_words(out, from, vocabulary);
    if (status == TFM_OK)
        status = read_suppressed(out->suppress_ids, &out->suppress_id_count, TFM__MAX_SUPPRESS_IDS, from,
                                 "suppress_tokens", vocabulary);
    if (status == TFM_OK)
        status = read_suppressed(out->begin_suppress_ids, &out->begin_suppress_count, TFM__MAX_BEGIN_SUPPRESS_IDS, from,
                                 "begin_suppress_tokens", vocabulary);
    if (status == TFM_OK)
        status = read_sequence_bias(out, from, vocabulary);
    if (status == TFM_OK)
        status = tfm__read_int(&out->no_repeat_ngram, tfm__generation_key(from, repeat), repeat, 0, INT_MAX);
    return status == TFM_OK ? tfm__read_bool(&out->renormalize_logits, tfm__generation_key(from, normal), normal)
                            : status;
}

/* ---- Search ------------------------------------------------------------------------------------------- */

/* Keys of Hugging Face's search that are not supported: a warning, unless the value disables the feature. Keys that
 * would change every token are refused. */
static tfm_status check_others(const tfm__config_files *from, bool decoder_only) {
    enum { NEVER, PROMPTED, TRANSLATED, REFUSED }; /* tasks that obey the key: text generation or translation */
    static const struct {
        const char *key;
        double nothing;
        int obeyed;
    } others[] = {{"guidance_scale", 1, REFUSED},
                  {"watermarking_config", 0, REFUSED},
                  {"do_sample", 0, PROMPTED},
                  {"forced_bos_token_id", -1, TRANSLATED},
                  {"num_beam_groups", 1, NEVER},
                  {"force_words_ids", 0, NEVER},
                  {"penalty_alpha", 0, NEVER},
                  {"stop_strings", 0, NEVER},
                  {"dola_layers", 0, NEVER},
                  {"typical_p", 1, NEVER},
                  {"epsilon_cutoff", 0, NEVER},
                  {"eta_cutoff", 0, NEVER},
                  {"top_h", 0, NEVER},
                  {"token_healing", 0, NEVER},
                  {"max_time", 0, NEVER},
                  {"num_return_sequences", 1, NEVER}};
    for (size_t i = 0; i < TFM__COUNT(others); i++) {
        tfm__config_value key = tfm__generation_key(from, others[i].key);
        const bool empty = json_is_false(key.value) || (json_is_array(key.value) && !json_array_size(key.value)) ||
                           (json_is_number(key.value) && json_number_value(key.value) == others[i].nothing);
        if (!key.value || empty || others[i].obeyed == (decoder_only ? PROMPTED : TRANSLATED))
            continue;
        if (others[i].obeyed == REFUSED)
            return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s, which is not supported: remove the key", key.path,
                             others[i].key, TFM__VALUE_TEXT(key.value));
        tfm__log(TFM_LOG_WARNING, "%s: `%s` is %s; it is ignored", key.path, others[i].key, TFM__VALUE_TEXT(key.value));
    }
    return TFM_OK;
}

/* false, true, or "never", as in transformers. */
static tfm_status read_early_stopping(tfm__sampling_defaults *out, const tfm__config_files *from) {
    const tfm__config_value found = tfm__generation_key(from, "early_stopping");
    const char *word = json_string_value(found.value);
    if (!found.value || json_is_false(found.value))
        return TFM_OK;
    if (!json_is_true(found.value) && !(word && strcmp(word, "never") == 0))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `early_stopping` is %s; true, false or \"never\" is allowed",
                         found.path, TFM__VALUE_TEXT(found.value));
    out->early_stopping = word ? TFM__EARLY_NEVER : TFM__EARLY_TRUE;
    return TFM_OK;
}

static tfm_status read_search(tfm__generation_rules *out, const tfm__config_files *from) {
    tfm_status status = check_others(from, out->decoder_only);
    if (status == TFM_OK)
        status = tfm__read_int(&out->num_beams, tfm__generation_key(from, "num_beams"), "num_beams", 1, 1024);
    if (status == TFM_OK)
        status = read_early_stopping(&out->sampling, from);
    if (status != TFM_OK)
        return status;
    tfm__config_value penalty = tfm__generation_key(from, "length_penalty");
    if (!penalty.value)
        return TFM_OK;
    double value = json_number_value(penalty.value);
    if (!json_is_number(penalty.value) || !isfinite(value) || fabs(value) > 100)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `length_penalty` is %s; a number from -100 to 100 is allowed",
                         penalty.path, TFM__VALUE_TEXT(penalty.value));
    out->has_length_penalty = true;
    out->length_penalty = value;
    return TFM_OK;
}

/* `exponential_decay_length_penalty`: number of tokens before the decay starts, and a factor. */
static tfm_status read_length_decay(tfm__sampling_defaults *out, const tfm__config_files *from) {
    static const char key[] = "exponential_decay_length_penalty";
    const tfm__config_value found = tfm__generation_key(from, key);
    if (!found.value)
        return TFM_OK;
    const json_t *start = json_array_get(found.value, 0), *factor = json_array_get(found.value, 1);
    if (json_array_size(found.value) != 2 || !json_is_integer(start) || !json_is_number(factor))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a list of a count and a factor is allowed", found.path, key,
                         TFM__VALUE_TEXT(found.value));
    const tfm_status status =
        tfm__read_int(&out->length_decay_from, (tfm__config_value){start, found.path}, key, 0, INT_MAX);
    return status == TFM_OK
               ? tfm__read_number(&out->length_decay, (tfm__config_value){factor, found.path}, key, 1e-6, 1e6)
               : status;
}

static tfm_status read_sampling_defaults(tfm__sampling_defaults *out, const tfm__config_files *from) {
    const struct {
        const char *key;
        int *value;
    } counts[] = {{"max_new_tokens", &out->max_new_tokens},
                  {"min_new_tokens", &out->min_new_tokens},
                  {"max_length", &out->max_length},
                  {"top_k", &out->top_k},
                  {"encoder_no_repeat_ngram_size", &out->encoder_no_repeat_ngram}};
    const struct {
        const char *key;
        double *value, high;
    } numbers[] = {{"temperature", &out->temperature, 1e6},
                   {"top_p", &out->top_p, 1},
                   {"min_p", &out->min_p, 1},
                   {"repetition_penalty", &out->repetition_penalty, 1e6},
                   {"encoder_repetition_penalty", &out->encoder_repetition_penalty, 1e6}};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(counts) && status == TFM_OK; i++) {
        const tfm__config_value found = tfm__generation_key(from, counts[i].key);
        if (counts[i].value == &out->top_k && json_is_integer(found.value) && json_integer_value(found.value) == -1)
            out->top_k = 0; /* some files mean all tokens */
        else
            status = tfm__read_int(counts[i].value, found, counts[i].key, 0, INT_MAX);
    }
    for (size_t i = 0; i < TFM__COUNT(numbers) && status == TFM_OK; i++)
        status = tfm__read_number(numbers[i].value, tfm__generation_key(from, numbers[i].key), numbers[i].key, 0,
                                  numbers[i].high);
    return status == TFM_OK ? read_length_decay(out, from) : status;
}

/* min_length counts the start token of a translation, which min_new_tokens does not; in text generation it counts the
 * prompt. */
static tfm_status read_min_length(tfm__sampling_defaults *out, const tfm__config_files *from, bool decoder_only) {
    int least = 0;
    const tfm_status status = tfm__read_int(&least, tfm__generation_key(from, "min_length"), "min_length", 0, INT_MAX);
    if (least > 0 && !tfm__generation_key(from, "min_new_tokens").value)
        *(decoder_only ? &out->min_length : &out->min_new_tokens) = decoder_only ? least : least - 1;
    return status;
}

tfm_status tfm__read_generation_rules(tfm__generation_rules *rules, const tfm__config_files *from,
                                      const tfm__id_defaults *defaults, int vocabulary, int smallest) {
    tfm_status status = tfm__read_token_ids(rules, from, defaults, smallest);
    if (status == TFM_OK && json_array_size(tfm__token_id_key(from, "eos_token_id").value) > 1)
        status = tfm__read_eos_ids(rules, tfm__token_id_key(from, "eos_token_id"), smallest);
    if (status == TFM_OK)
        status = read_sampling_defaults(&rules->sampling, from);
    if (status == TFM_OK)
        status = read_min_length(&rules->sampling, from, false);
    if (status == TFM_OK)
        status = read_forbidden(rules, from, vocabulary);
    return status == TFM_OK ? read_search(rules, from) : status;
}

tfm_status tfm__read_decoder_only_rules(tfm__generation_rules *rules, const tfm__config_files *from, int vocabulary) {
    tfm_status status = tfm__read_decoder_only_ids(rules, from, vocabulary);
    if (status == TFM_OK)
        status = read_sampling_defaults(&rules->sampling, from);
    if (status == TFM_OK)
        status = read_min_length(&rules->sampling, from, true);
    if (status == TFM_OK)
        status = read_forbidden(rules, from, vocabulary);
    return status == TFM_OK ? read_search(rules, from) : status;
}
