/* Writes generation rules: generation_config.json, and the special ids of config.json. */
#include "model/arch/config_keys.h"

/* One EOS id is a number, several are a list. */
static json_t *write_ends(const tfm__generation_rules *r) {
    json_t *ends = r->eos_id_count > 1 ? json_array() : r->eos_id >= 0 ? json_integer(r->eos_id) : json_null();
    for (int i = 0; r->eos_id_count > 1 && i < r->eos_id_count; i++)
        json_array_append_new(ends, json_integer(r->eos_ids[i]));
    return ends;
}

/* Special ids of a decoder-only model, if set. */
bool tfm__write_decoder_only_ids(json_t *out, const tfm__generation_rules *r) {
    const struct {
        const char *key;
        int id;
    } others[] = {{"bos_token_id", r->start_id}, {"pad_token_id", r->pad_id}};
    bool good = true;
    for (size_t i = 0; i < TFM__COUNT(others); i++)
        good = json_object_set_new(out, others[i].key, others[i].id >= 0 ? json_integer(others[i].id) : json_null()) ==
                   0 &&
               good;
    return json_object_set_new(out, "eos_token_id", write_ends(r)) == 0 && good;
}

bool tfm__write_shape_ids(json_t *out, const tfm_model_shape *s) {
    return json_object_set_new(out, "eos_token_id", json_integer(s->eos_id)) == 0 &&
           json_object_set_new(out, "bos_token_id", json_integer(s->start_id)) == 0 &&
           json_object_set_new(out, "pad_token_id", s->pad_id >= 0 ? json_integer(s->pad_id) : json_null()) == 0;
}

/* Special ids of a translation model, in generation_config.json. */
static bool write_translated_ids(json_t *out, const tfm__generation_rules *r) {
    return json_object_set_new(out, "decoder_start_token_id", json_integer(r->start_id)) == 0 &&
           json_object_set_new(out, "eos_token_id", write_ends(r)) == 0 &&
           json_object_set_new(out, "pad_token_id", json_integer(r->pad_id)) == 0;
}

/* Ids and search parameters of generation_config.json, without suppressed tokens; NULL if out of memory. */
static json_t *write_ids(const tfm__generation_rules *r, int max_length) {
    const int most = r->sampling.max_length || r->decoder_only ? r->sampling.max_length : max_length;
    const int beams = r->num_beams || r->decoder_only ? r->num_beams : 4;
    json_t *root = json_object();
    if (!root || !(r->decoder_only ? tfm__write_decoder_only_ids(root, r) : write_translated_ids(root, r))) {
        json_decref(root);
        return NULL;
    }
    if (most)
        json_object_set_new(root, "max_length", json_integer(most));
    if (beams)
        json_object_set_new(root, "num_beams", json_integer(beams));
    return root;
}

/* Suppressed tokens. transformers refuses empty lists. */
static void write_forbidden(json_t *root, const tfm__generation_rules *r) {
    if (r->suppress_id_count + r->bad_word_count > 0)
        json_object_set_new(root, "bad_words_ids", json_array());
    for (int i = 0; i < r->suppress_id_count; i++)
        json_array_append_new(json_object_get(root, "bad_words_ids"), json_pack("[i]", r->suppress_ids[i]));
    for (int i = 0; i < r->bad_word_count; i++) {
        json_t *word = json_array();
        for (int k = r->bad_words[i]; k < r->bad_words[i + 1]; k++)
            json_array_append_new(word, json_integer(r->bad_word_ids[k]));
        json_array_append_new(json_object_get(root, "bad_words_ids"), word);
    }
    if (r->begin_suppress_count > 0)
        json_object_set_new(root, "begin_suppress_tokens", json_array());
    for (int i = 0; i < r->begin_suppress_count; i++)
        json_array_append_new(json_object_get(root, "begin_suppress_tokens"), json_integer(r->begin_suppress_ids[i]));
}

static void write_sequence_bias(json_t *root, const tfm__generation_rules *r) {
    json_t *list = json_array();
    for (int i = 0; i < r->sequence_bias_count; i++) {
        json_t *ids = json_array();
        for (int k = r->sequence_bias_starts[i]; k < r->sequence_bias_starts[i + 1]; k++)
            json_array_append_new(ids, json_integer(r->sequence_bias_ids[k]));
        json_array_append_new(list, json_pack("[o, f]", ids, tfm__short_number(r->bias[i])));
    }
    if (r->sequence_bias_count > 0)
        json_object_set(root, "sequence_bias", list);
    json_decref(list);
}

/* Sampling defaults, if set. */
static void write_sampling_defaults(json_t *root, const tfm__generation_rules *r) {
    const tfm__sampling_defaults *p = &r->sampling;
    const struct {
        const char *key;
        int value;
    } counts[] = {{"max_new_tokens", p->max_new_tokens},
                  {"min_new_tokens", p->min_new_tokens},
                  {"min_length", p->min_length},
                  {"encoder_no_repeat_ngram_size", p->encoder_no_repeat_ngram},
                  {"top_k", p->top_k},
                  {"no_repeat_ngram_size", r->no_repeat_ngram}};
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"temperature", p->temperature},
                   {"top_p", p->top_p},
                   {"min_p", p->min_p},
                   {"repetition_penalty", p->repetition_penalty},
                   {"encoder_repetition_penalty", p->encoder_repetition_penalty}};
    for (size_t i = 0; i < TFM__COUNT(counts); i++)
        if (counts[i].value)
            json_object_set_new(root, counts[i].key, json_integer(counts[i].value));
    for (size_t i = 0; i < TFM__COUNT(numbers); i++)
        if (numbers[i].value != 0)
            json_object_set_new(root, numbers[i].key, json_real(numbers[i].value));
    if (p->length_decay != 0)
        json_object_set_new(root, "exponential_decay_length_penalty",
                            json_pack("[i, f]", p->length_decay_from, p->length_decay));
    if (r->renormalize_logits)
        json_object_set_new(root, "renormalize_logits", json_true());
    if (p->early_stopping != TFM__EARLY_DEFAULT)
        json_object_set_new(root, "early_stopping",
                            p->early_stopping == TFM__EARLY_NEVER ? json_string("never") : json_true());
    if (r->has_length_penalty)
        json_object_set_new(root, "length_penalty", json_real(r->length_penalty));
}

json_t *tfm__write_generation_rules(const tfm__generation_rules *r, int max_length) {
    json_t *root = write_ids(r, max_length);
    if (!root)
        return NULL;
    write_forbidden(root, r);
    write_sequence_bias(root, r);
    write_sampling_defaults(root, r);
    if (r->forced_bos_id >= 0)
        json_object_set_new(root, "forced_bos_token_id", json_integer(r->forced_bos_id));
    if (r->forced_eos_id >= 0)
        json_object_set_new(root, "forced_eos_token_id", json_integer(r->forced_eos_id));
    return root;
}

json_t *tfm__merge_generation_rules(const tfm__generation_rules *r, const json_t *own) {
    json_t *root = json_deep_copy(own);
    bool good = root && (r->decoder_only ? tfm__write_decoder_only_ids(root, r) : write_translated_ids(root, r));
    if (good && r->forced_bos_id >= 0)
        good = json_object_set_new(root, "forced_bos_token_id", json_integer(r->forced_bos_id)) == 0;
    if (!good) {
        json_decref(root);
        return NULL;
    }
    json_object_del(root, "_from_model_config"); /* with this key, transformers may read config.json instead */
    return root;
}
