/* Writes config.json of a decoder-only model, or of the shape of a new one, by the family's table (decoder.h). */
#include <math.h>
#include <stdlib.h>
#include "model/arch/decoder.h"

static int set(json_t *out, const char *key, json_t *value) {
    return json_object_set_new(out, key, value);
}

static json_t *cap_json(float cap) {
    return cap != 0 ? json_real(tfm__short_number(cap)) : json_null();
}

/* The value of `no_rope_layers` if `rope`, else of `layer_types`. */
static json_t *layers_json(const tfm__stack_arch *s, bool rope) {
    json_t *list = json_array();
    for (int i = 0; i < s->layers; i++)
        json_array_append_new(
            list, rope ? json_integer(s->layer[i] & TFM__NO_ROPE_LAYER ? 0 : 1)
                       : json_string(s->layer[i] & TFM__LOCAL_LAYER ? "sliding_attention" : "full_attention"));
    return list;
}

/* Whether only some layers have a sliding window. */
static bool is_mixed(const tfm__stack_arch *s) {
    bool mixed = false;
    for (int i = 1; i < s->layers; i++)
        mixed |= (s->layer[i] & TFM__LOCAL_LAYER) != (s->layer[0] & TFM__LOCAL_LAYER);
    return mixed;
}

static int write_windows(json_t *out, const tfm__decoder_kind *k, const tfm__stack_arch *s) {
    int bad = 0;
    if (k->windows == TFM__WINDOW_NOWHERE)
        return 0;
    bad |= set(out, "sliding_window", s->window ? json_integer(s->window) : json_null());
    if (k->windows == TFM__WINDOW_FROM_LAYER || k->windows == TFM__WINDOW_IF_NO_ROPE)
        bad |= set(out, "use_sliding_window", json_boolean(s->window > 0));
    if (k->windows == TFM__WINDOW_LISTED ? is_mixed(s) : k->windows != TFM__WINDOW_EVERYWHERE)
        bad |= set(out, "layer_types", layers_json(s, false));
    if (k->windows == TFM__WINDOW_IF_NO_ROPE)
        bad |= set(out, "no_rope_layers", layers_json(s, true));
    return bad;
}

/* Writes keys that old and new versions read, except if layers have two kinds of RoPE: only the new format supports
 * that for all scalings. */
static int write_rope_keys(json_t *out, const tfm__decoder_kind *k, const tfm__stack_arch *s) {
    const tfm__rope_config *form = &s->rotary.config;
    int bad = 0;
    if (k->alibi)
        return 0;
    if (k->local_theta != 0)
        return set(out, "rope_parameters",
                   json_pack("{s:o, s:o}", "full_attention", tfm__write_rope(&s->rotary), "sliding_attention",
                             tfm__write_rope(&s->local_rotary)));
    if (k->rotary_size_key)
        bad |= set(out, k->rotary_size_key, json_integer(s->rotary.freq_dim));
    if (k->fixed_rope)
        return bad;
    bad |= set(out, tfm__key_or(k->theta_key, "rope_theta"), json_real(form->theta));
    if (form->partial != 1 || (k->partial != 0 && k->partial != 1))
        bad |= set(out, tfm__key_or(k->partial_key, "partial_rotary_factor"), json_real(form->partial));
    if (form->type != TFM__ROPE_DEFAULT)
        bad |= set(out, "rope_scaling", tfm__write_rope(&s->rotary));
    if (k->original != 0)
        bad |= set(out, "original_max_position_embeddings", json_integer(form->original));
    return bad;
}

static int write_sizes(json_t *out, const tfm__decoder_kind *k, tfm__stack_arch *s) {
    tfm__decoder_size sizes[TFM__DECODER_SIZES];
    int bad = set(out, "vocab_size", json_integer(s->vocabulary));
    s->max_positions = k->alibi ? s->max_positions : s->rotary.config.positions;
    tfm__decoder_sizes(sizes, k, s);
    for (size_t i = 0; i < TFM__DECODER_SIZES; i++)
        if (tfm__has_key(sizes[i].own))
            bad |= set(out, tfm__key_or(sizes[i].own, sizes[i].usual), json_integer(*sizes[i].value));
    return k->no_head_width ? bad : bad | set(out, "head_dim", json_integer(s->head_width));
}

static int write_flags(json_t *out, const tfm__decoder_kind *k, tfm__arch *arch) {
    tfm__decoder_flag_list f = {.attention = arch->decoder.output_biases, .inputs = arch->decoder.input_biases};
    int bad = 0;
    tfm__decoder_flags(&f, k, arch);
    for (size_t i = 0; i < TFM__DECODER_FLAGS; i++)
        if (f.keys[i].key)
            bad |= set(out, f.keys[i].key, json_boolean(*f.keys[i].value));
    return bad;
}

static int write_numbers(json_t *out, const tfm__decoder_kind *k, const tfm__arch *arch) {
    const tfm__stack_arch *s = &arch->decoder;
    const float output = arch->output_scale == 0 ? 1 : arch->output_scale;
    const double multipliers[TFM__DECODER_MULTIPLIERS] = {
        tfm__short_number(s->embedding_scale), tfm__short_number(s->score_scale),
        s->residual_scale == 0 ? 1 : tfm__short_number(s->residual_scale), tfm__short_number(1 / output)};
    int bad = set(out, tfm__key_or(k->epsilon_key, "rms_norm_eps"), json_real(tfm__short_number(s->epsilon)));
    if (k->logit_scale_key)
        bad |= set(out, k->logit_scale_key, json_real(tfm__short_number(output)));
    for (size_t i = 0; i < TFM__DECODER_MULTIPLIERS && k->multipliers; i++)
        bad |= set(out, tfm__decoder_multipliers[i], json_real(multipliers[i]));
    return bad;
}

static int write_activation(json_t *out, const tfm__decoder_kind *k, const tfm__stack_arch *s) {
    const bool exact =
        k->gemma && !k->sandwich_norm && s->activation == TFM_GELU; /* "gelu" means the tanh approximation */
    return k->activation_key
               ? set(out, k->activation_key, json_string(exact ? "gelu_python" : tfm__activation_name(s->activation)))
               : 0;
}

/* Score scale and soft caps of Gemma 2. */
static int write_caps(json_t *out, const tfm__decoder_kind *k, const tfm__arch *arch) {
    const tfm__stack_arch *s = &arch->decoder;
    if (!k->sandwich_norm)
        return 0;
    const double scalar = 1 / ((double)s->score_scale * s->score_scale), whole = round(scalar);
    int bad = set(out, "query_pre_attn_scalar",
                  (float)(1 / sqrt(whole)) == s->score_scale ? json_integer((json_int_t)whole) : json_real(scalar));
    bad |= set(out, TFM__SCORE_CAP, cap_json(s->score_cap));
    return bad | set(out, "final_logit_softcapping", cap_json(arch->logit_cap));
}

json_t *tfm__decoder_write_config(const tfm__family *family, const tfm__arch *of, const tfm__generation_rules *rules) {
    const tfm__decoder_kind *k = family->decoder_kind;
    tfm__arch *arch = tfm__alloc(1, sizeof(*arch)); /* the key lists point into it */
    char class_name[64];
    if (!arch)
        return NULL;
    *arch = *of;
    snprintf(class_name, sizeof(class_name), "%s%s", family->classes[0], arch->headless ? "Model" : "ForCausalLM");
    json_t *out = json_pack("{s:[s], s:s}", "architectures", class_name, "model_type", family->name);
    tfm__stack_arch *s = &arch->decoder;
    if (out && (write_sizes(out, k, s) | write_flags(out, k, arch) | write_numbers(out, k, arch) |
                write_activation(out, k, s) | write_windows(out, k, s) | write_rope_keys(out, k, s) |
                write_caps(out, k, arch) | (k->write_more ? k->write_more(out, arch) : 0) |
                !tfm__write_decoder_only_ids(out, rules))) {
        json_decref(out);
        out = NULL;
    }
    free(arch);
    return out;
}

json_t *tfm__decoder_new_config(const tfm__family *family, const tfm_model_shape *shape) {
    const tfm__decoder_kind *k = family->decoder_kind;
    tfm__stack_arch *s = tfm__alloc(1, sizeof(*s));
    json_t *out = s ? json_pack("{s:s, s:b}", "model_type", family->name, "tie_word_embeddings", 1) : NULL;
    if (s) {
        s->width = shape->width;
        s->feed_forward = shape->ffn_dim;
        s->layers = shape->decoder_layers;
        s->heads = shape->heads;
        s->kv_heads = shape->kv_heads ? shape->kv_heads : shape->heads;
        s->head_width = shape->width / shape->heads;
        s->max_positions = s->rotary.config.positions = shape->max_positions;
        s->vocabulary = shape->source_vocab_size;
        s->activation = shape->activation;
    }
    if (out && (write_sizes(out, k, s) | (s->activation ? write_activation(out, k, s) : 0) |
                !tfm__write_shape_ids(out, shape))) {
        json_decref(out);
        out = NULL;
    }
    free(s);
    return out;
}
