/* config.json of language models with a decoder alone, to an arch and back. Keys, and the meaning of absent ones, are
 * those of the configurations of Hugging Face's transformers. */
#include "model/family/decoder.h"
#include <math.h>
#include <string.h>

/* ---- Sizes and layout ----------------------------------------------------------------------------------------- */

static tfm_status read_sizes(tfm__stack_arch *s, const tfm__decoder_kind *kind, const tfm__config_files *from) {
    const tfm__int_key sizes[] = {
        {"hidden_size", &s->width, TFM__MAX_WIDTH},          {"intermediate_size", &s->feed_forward, TFM__MAX_WIDTH},
        {"num_hidden_layers", &s->layers, TFM__MAX_LAYERS},  {"num_attention_heads", &s->heads, 1024},
        {"num_key_value_heads", &s->kv_heads, 1024},         {"max_position_embeddings", &s->max_positions, 1 << 30},
        {"vocab_size", &s->vocabulary, TFM__MAX_VOCABULARY},
    };
    const tfm_status status = tfm__read_ints(from, sizes, TFM__COUNT(sizes));
    if (status != TFM_OK)
        return status;
    if (s->kv_heads == 0 || json_is_null(json_object_get(from->config, "num_key_value_heads")))
        s->kv_heads = s->heads;
    if (s->heads % s->kv_heads != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `num_key_value_heads` is %d; it must divide `num_attention_heads`, %d",
                         from->config_path, s->kv_heads, s->heads);
    const tfm__found own = tfm__network_key(from, "head_dim");
    const bool counted = !own.value && kind->head_width == 0; /* what is left over, most families leave unused */
    if (counted && (s->width < s->heads || (kind->whole_heads && s->width % s->heads != 0)))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `num_attention_heads` is %d; it must divide `hidden_size`, which is %d",
                         from->config_path, s->heads, s->width);
    s->head_width = kind->head_width ? kind->head_width : s->width / s->heads;
    return tfm__read_int(&s->head_width, own, "head_dim", 1, 1024);
}

static tfm_status read_flags(tfm__arch *arch, const tfm__decoder_kind *kind, const tfm__config_files *from) {
    static const char *const others[] = {"use_bidirectional_attention", NULL};
    tfm__stack_arch *s = &arch->decoder;
    bool attention = kind->biased, inputs = kind->input_biases;
    tfm_status status = tfm__refuse_keys(from, others);
    if (status == TFM_OK && kind->refused)
        status = tfm__refuse_keys(from, kind->refused);
    arch->tied_output = kind->tied;
    s->feed_forward_biases = kind->biased;
    s->parallel = kind->parallel;
    const tfm__bool_key flags[] = {
        {"tie_word_embeddings", &arch->tied_output},
        {kind->attention_biases ? kind->attention_biases : "", &attention},
        {kind->input_bias_key ? kind->input_bias_key : "", &inputs},
        {kind->mlp_biases ? kind->mlp_biases : "", &s->feed_forward_biases},
        {kind->parallel_key ? kind->parallel_key : "", &s->parallel},
        {kind->head_norms_key ? kind->head_norms_key : "", &s->head_norms},
    };
    if (status == TFM_OK)
        status = tfm__read_bools(from, flags, TFM__COUNT(flags));
    s->input_biases = attention || inputs;
    s->output_biases = attention;
    s->own_head_norms = s->head_norms && kind->own_head_norms;
    s->one_norm = s->parallel && kind->parallel_norm;
    return status;
}

/* A number that caps, or 0: null is none, and an absent key is the kind's own. */
static tfm_status read_cap(float *out, const tfm__config_files *from, const char *key, double fallback) {
    double cap = json_is_null(json_object_get(from->config, key)) ? 0 : fallback;
    const tfm_status status = tfm__read_number(&cap, tfm__network_key(from, key), key, 1e-3, 1e6);
    *out = (float)cap;
    return status;
}

static const char SCORE_CAP[] = "attn_logit_softcapping";

static tfm_status read_numbers(tfm__arch *arch, const tfm__decoder_kind *kind, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    const char *const small = kind->epsilon_key ? kind->epsilon_key : "rms_norm_eps";
    double epsilon = kind->epsilon, scalar = 256;
    tfm_status status = tfm__read_number(&epsilon, tfm__network_key(from, small), small, 0, 1);
    s->epsilon = (float)epsilon;
    if (!kind->around || status != TFM_OK)
        return status;
    static const char key[] = "query_pre_attn_scalar";
    status = tfm__read_number(&scalar, tfm__network_key(from, key), key, 1e-3, 1e9);
    s->score_scale = (float)(1 / sqrt(scalar));
    if (status == TFM_OK)
        status = read_cap(&s->score_cap, from, SCORE_CAP, kind->score_cap);
    /* Gemma 3 has the key, and transformers does not look at it. */
    if (status == TFM_OK && s->score_cap != 0 && kind->score_cap == 0) {
        tfm__log(TFM_LOG_WARNING, "%s: `%s` is %g; models of the family %s are run without it, as in transformers",
                 from->config_path, SCORE_CAP, (double)s->score_cap, kind->type);
        s->score_cap = 0;
    }
    return status == TFM_OK ? read_cap(&arch->logit_cap, from, "final_logit_softcapping", kind->logit_cap) : status;
}

/* Granite's: each is 1 where it is absent. */
static tfm_status read_multipliers(tfm__arch *arch, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    double embedding = 1, score = 1, residual = 1, logits = 1;
    const struct {
        const char *key;
        double *value;
    } all[] = {{"embedding_multiplier", &embedding},
               {"attention_multiplier", &score},
               {"residual_multiplier", &residual},
               {"logits_scaling", &logits}};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(all) && status == TFM_OK; i++)
        status = tfm__read_number(all[i].value, tfm__network_key(from, all[i].key), all[i].key, 1e-6, 1e6);
    s->embedding_scale = (float)embedding;
    s->score_scale = (float)score;
    s->residual_scale = residual == 1 ? 0 : (float)residual;
    arch->output_scale = logits == 1 ? 0 : (float)(1 / logits);
    return status;
}

/* ---- Which layer does what ------------------------------------------------------------------------------------ */

/* `no_rope_layers` has a 1 for each layer that turns; without it, every so-manieth does not. */
static tfm_status read_unturned(tfm__stack_arch *s, const tfm__config_files *from) {
    static const char key[] = "no_rope_layers", every[] = "no_rope_layer_interval";
    const tfm__found found = tfm__network_key(from, key);
    int interval = 4;
    const tfm_status status = tfm__read_int(&interval, tfm__network_key(from, every), every, 1, 1 << 30);
    if (status != TFM_OK)
        return status;
    if (found.value && (!json_is_array(found.value) || json_array_size(found.value) < (size_t)s->layers))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a list of 0 and 1, one for each of %d layers, is needed",
                         found.path, key, TFM__VALUE_TEXT(found.value), s->layers);
    for (int i = 0; i < s->layers; i++) {
        int turns = (i + 1) % interval != 0;
        const tfm_status one =
            tfm__read_int(&turns, (tfm__found){json_array_get(found.value, (size_t)i), found.path}, key, 0, 1);
        if (one != TFM_OK)
            return one;
        s->layer[i] |= turns ? 0 : TFM__UNTURNED_LAYER;
    }
    return TFM_OK;
}

/* Layer by layer, as `layer_types` says. */
static tfm_status read_layer_types(tfm__stack_arch *s, tfm__found found) {
    if (!json_is_array(found.value) || json_array_size(found.value) != (size_t)s->layers)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `layer_types` is %s; a list of words, one for each of %d layers, is needed", found.path,
                         TFM__VALUE_TEXT(found.value), s->layers);
    for (int i = 0; i < s->layers; i++) {
        const json_t *value = json_array_get(found.value, (size_t)i);
        const char *name = json_string_value(value);
        if (!name || (strcmp(name, "full_attention") != 0 && strcmp(name, "attention") != 0 &&
                      strcmp(name, "sliding_attention") != 0))
            return tfm__fail(name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                             "%s: `layer_types` has %s; \"full_attention\" and \"sliding_attention\" are run",
                             found.path, TFM__VALUE_TEXT(value));
        s->layer[i] |= strcmp(name, "sliding_attention") == 0 ? TFM__LOCAL_LAYER : 0;
    }
    return TFM_OK;
}

/* Whether a layer sees a window alone where no list says so. `flagged` is `use_sliding_window`. */
static bool is_local(const tfm__stack_arch *s, const tfm__decoder_kind *kind, int layer, int first, int pattern,
                     bool flagged) {
    switch (kind->windows) {
    case TFM__WINDOW_EVERYWHERE:
    case TFM__WINDOW_LISTED:
        return s->window > 0;
    case TFM__WINDOW_FROM_LAYER:
        return s->window > 0 && layer >= first;
    case TFM__WINDOW_IF_UNTURNED:
        return s->window > 0 && flagged && (s->layer[layer] & TFM__UNTURNED_LAYER);
    case TFM__WINDOW_BY_PATTERN:
        return (layer + 1) % pattern != 0;
    default:
        return false;
    }
}

static tfm_status read_windows(tfm__stack_arch *s, const tfm__decoder_kind *kind, const tfm__config_files *from) {
    const tfm__found listed = tfm__network_key(from, "layer_types");
    const bool by_flag = kind->windows == TFM__WINDOW_FROM_LAYER || kind->windows == TFM__WINDOW_IF_UNTURNED;
    const bool none = json_is_null(json_object_get(from->config, "sliding_window"));
    bool flagged = false, local = false;
    int first = 28, pattern = kind->pattern ? kind->pattern : 1;
    if (kind->windows == TFM__WINDOW_NOWHERE)
        return TFM_OK;
    s->window = none ? 0 : kind->window;
    tfm_status status =
        tfm__read_int(&s->window, tfm__network_key(from, "sliding_window"), "sliding_window", 1, 1 << 30);
    if (by_flag && status == TFM_OK)
        status = tfm__read_bool(&flagged, tfm__network_key(from, "use_sliding_window"), "use_sliding_window");
    if (kind->windows == TFM__WINDOW_FROM_LAYER && status == TFM_OK)
        status = tfm__read_int(&first, tfm__network_key(from, "max_window_layers"), "max_window_layers", 0, 1 << 30);
    if (kind->local_theta != 0 && status == TFM_OK)
        status = tfm__read_int(&pattern, tfm__network_key(from, "sliding_window_pattern"), "sliding_window_pattern", 1,
                               1 << 30);
    if (kind->windows == TFM__WINDOW_FROM_LAYER && !flagged)
        s->window = 0;
    /* In a model of pictures and text transformers takes the kind by its name, and a Mistral has no list. */
    const bool named = kind->windows == TFM__WINDOW_EVERYWHERE || (kind->windows == TFM__WINDOW_LISTED && from->outer);
    if (listed.value && !named)
        status = status == TFM_OK ? read_layer_types(s, listed) : status;
    else
        for (int i = 0; i < s->layers; i++)
            s->layer[i] |= is_local(s, kind, i, first, pattern, flagged) ? TFM__LOCAL_LAYER : 0;
    for (int i = 0; i < s->layers; i++)
        local |= s->layer[i] & TFM__LOCAL_LAYER;
    if (status == TFM_OK && local && s->window == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: there are layers with a window, and no `sliding_window`%s",
                         from->config_path, by_flag ? " with `use_sliding_window`" : "");
    return status;
}

static tfm_status read_rotation(tfm__stack_arch *s, const tfm__decoder_kind *kind, const tfm__config_files *from) {
    const int positions = s->max_positions;
    const bool both = kind->local_theta != 0;
    const tfm__rope whole = {.layers = both ? "full_attention" : NULL,
                             .theta_key = kind->theta_key ? kind->theta_key : "rope_theta",
                             .theta = kind->theta,
                             .part_key = kind->part_key,
                             .rounded = kind->rounded,
                             .partial = kind->partial != 0 ? kind->partial : 1,
                             .whole = kind->partial == 0,
                             .scaled = true,
                             .long_only = kind->long_only,
                             .original = kind->original};
    const tfm__rope local = {.layers = "sliding_attention",
                             .theta_key = "rope_local_base_freq",
                             .theta = kind->local_theta,
                             .partial = 1,
                             .whole = true};
    s->max_positions = 1;
    tfm_status status = tfm__read_rope(&s->rotary, s, positions, from, &whole);
    s->local_rotary = s->rotary;
    if (status == TFM_OK && both) {
        s->local_rotary = (tfm__rotary_arch){0};
        status = tfm__read_rope(&s->local_rotary, s, positions, from, &local);
    }
    return status;
}

tfm_status tfm__decoder_read_config(const tfm__decoder_kind *kind, tfm__arch *arch, tfm__rules *rules,
                                    const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    *s = (tfm__stack_arch){.layers = kind->layers,
                           .width = kind->width,
                           .heads = kind->heads,
                           .kv_heads = kind->kv_heads,
                           .feed_forward = kind->feed_forward,
                           .activation = kind->activation,
                           .gated = !kind->ungated,
                           .causal = true,
                           .norm = kind->layer_norms ? TFM_NORM_LAYER : TFM_NORM_RMS,
                           .norm_biases = kind->layer_norms,
                           .norm_place = kind->around       ? TFM_NORM_AROUND
                                         : kind->on_results ? TFM_NORM_RESULT
                                                            : TFM_NORM_BEFORE,
                           .gamma_offset = kind->gemma ? 1 : 0,
                           .head_norms = kind->head_norms,
                           .joint_head_norms = kind->joint_head_norms,
                           .final_norm = true,
                           .vocabulary = kind->vocabulary,
                           .embedding_scale = 1,
                           .max_positions = kind->max_positions};
    tfm_status status = read_sizes(s, kind, from);
    if (status == TFM_OK)
        status = tfm__check_sight(from, kind->windows != TFM__WINDOW_NOWHERE, s->max_positions);
    if (status == TFM_OK)
        status = read_flags(arch, kind, from);
    if (status == TFM_OK)
        status = read_numbers(arch, kind, from);
    if (status == TFM_OK)
        status = tfm__read_activation(&s->activation, from, kind->activation_key);
    if (status == TFM_OK && kind->windows == TFM__WINDOW_IF_UNTURNED)
        status = read_unturned(s, from);
    if (status == TFM_OK)
        status = read_windows(s, kind, from);
    if (status == TFM_OK)
        status = read_rotation(s, kind, from);
    if (status == TFM_OK)
        status = tfm__read_head(&arch->headless, from, "ForCausalLM", arch->tied_output);
    s->embedding_scale = kind->gemma ? sqrtf((float)s->width) : 1;
    if (status == TFM_OK && kind->multipliers)
        status = read_multipliers(arch, from);
    /* The first models' files say "gelu", and mean what they were trained with. */
    const char *name = kind->gemma ? json_string_value(tfm__network_key(from, kind->activation_key).value) : NULL;
    if (!kind->around && name && strcmp(name, "gelu") == 0) /* other names of that are what they say */
        s->activation = TFM_GELU_TANH;
    return status != TFM_OK ? status : tfm__read_prompted_rules(rules, from, s->vocabulary);
}

/* ---- Writing -------------------------------------------------------------------------------------------------- */

static int set(json_t *out, const char *key, json_t *value) {
    return json_object_set_new(out, key, value);
}

static json_t *cap_json(float cap) {
    return cap != 0 ? json_real(tfm__short_number(cap)) : json_null();
}

/* The words of `layer_types`, or of `no_rope_layers`. */
static json_t *layers_json(const tfm__stack_arch *s, bool turns) {
    json_t *list = json_array();
    for (int i = 0; i < s->layers; i++)
        json_array_append_new(
            list, turns ? json_integer(s->layer[i] & TFM__UNTURNED_LAYER ? 0 : 1)
                        : json_string(s->layer[i] & TFM__LOCAL_LAYER ? "sliding_attention" : "full_attention"));
    return list;
}

/* Whether some layers see a window and others do not. */
static bool is_mixed(const tfm__stack_arch *s) {
    bool mixed = false;
    for (int i = 1; i < s->layers; i++)
        mixed |= (s->layer[i] & TFM__LOCAL_LAYER) != (s->layer[0] & TFM__LOCAL_LAYER);
    return mixed;
}

static int write_windows(json_t *out, const tfm__decoder_kind *kind, const tfm__stack_arch *s) {
    int bad = 0;
    if (kind->windows == TFM__WINDOW_NOWHERE)
        return 0;
    bad |= set(out, "sliding_window", s->window ? json_integer(s->window) : json_null());
    if (kind->windows == TFM__WINDOW_FROM_LAYER || kind->windows == TFM__WINDOW_IF_UNTURNED)
        bad |= set(out, "use_sliding_window", json_boolean(s->window > 0));
    if (kind->windows == TFM__WINDOW_LISTED ? is_mixed(s) : kind->windows != TFM__WINDOW_EVERYWHERE)
        bad |= set(out, "layer_types", layers_json(s, false));
    if (kind->windows == TFM__WINDOW_IF_UNTURNED)
        bad |= set(out, "no_rope_layers", layers_json(s, true));
    return bad;
}

/* In the spelling that old and new versions read, but where layers turn in two ways, which only the new one says for
 * all scalings. */
static int write_rotation(json_t *out, const tfm__decoder_kind *kind, const tfm__stack_arch *s) {
    const tfm__rope_form *form = &s->rotary.form;
    int bad = set(out, "max_position_embeddings", json_integer(form->positions));
    if (kind->local_theta != 0)
        return bad | set(out, "rope_parameters",
                         json_pack("{s:o, s:o}", "full_attention", tfm__write_rope(&s->rotary), "sliding_attention",
                                   tfm__write_rope(&s->local_rotary)));
    bad |= set(out, "rope_theta", json_real(form->theta));
    if (form->partial != 1)
        bad |= set(out, "partial_rotary_factor", json_real(form->partial));
    if (form->type != TFM__ROPE_DEFAULT)
        bad |= set(out, "rope_scaling", tfm__write_rope(&s->rotary));
    if (kind->original != 0)
        bad |= set(out, "original_max_position_embeddings", json_integer(form->original));
    return bad;
}

static int write_layout(json_t *out, const tfm__decoder_kind *kind, const tfm__arch *arch) {
    const tfm__stack_arch *s = &arch->decoder;
    const bool exact = kind->gemma && !kind->around && s->activation == TFM_GELU; /* "gelu" means the other one */
    int bad = set(out, kind->activation_key, json_string(exact ? "gelu_python" : tfm__activation_name(s->activation)));
    if (kind->attention_biases)
        bad |= set(out, kind->attention_biases, json_boolean(s->output_biases));
    if (kind->mlp_biases)
        bad |= set(out, kind->mlp_biases, json_boolean(s->feed_forward_biases));
    if (!kind->around)
        return bad;
    const double scalar = 1 / ((double)s->score_scale * s->score_scale), whole = round(scalar);
    bad |= set(out, "query_pre_attn_scalar",
               (float)(1 / sqrt(whole)) == s->score_scale ? json_integer((json_int_t)whole) : json_real(scalar));
    bad |= set(out, SCORE_CAP, cap_json(s->score_cap));
    return bad | set(out, "final_logit_softcapping", cap_json(arch->logit_cap));
}

json_t *tfm__decoder_write(const tfm__decoder_kind *kind, const tfm__arch *arch, const tfm__rules *rules) {
    const tfm__stack_arch *s = &arch->decoder;
    char class_name[64];
    snprintf(class_name, sizeof(class_name), "%s%s", kind->class_name, arch->headless ? "Model" : "ForCausalLM");
    json_t *out = json_pack("{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b}", "architectures", class_name,
                            "model_type", kind->type, "vocab_size", s->vocabulary, "hidden_size", s->width,
                            "intermediate_size", s->feed_forward, "num_hidden_layers", s->layers, "num_attention_heads",
                            s->heads, "num_key_value_heads", s->kv_heads, "head_dim", s->head_width, "rms_norm_eps",
                            tfm__short_number(s->epsilon), "tie_word_embeddings", (int)arch->tied_output);
    if (out && (write_windows(out, kind, s) | write_rotation(out, kind, s) | write_layout(out, kind, arch) |
                !tfm__write_prompted_ids(out, rules))) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* ---- New models ----------------------------------------------------------------------------------------------- */

json_t *tfm__decoder_describe(const tfm__decoder_kind *kind, const tfm_model_shape *s) {
    json_t *out = json_pack(
        "{s:s, s:s?, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "model_type", kind->type, kind->activation_key,
        s->activation ? tfm__activation_name(s->activation) : NULL, "hidden_size", s->width, "intermediate_size",
        s->feed_forward, "num_hidden_layers", s->decoder_layers, "num_attention_heads", s->heads, "num_key_value_heads",
        s->kv_heads ? s->kv_heads : s->heads, "head_dim", s->width / s->heads, "max_position_embeddings",
        s->max_positions, "vocab_size", s->source_vocabulary, "tie_word_embeddings", 1);
    if (out && !tfm__write_shape_ids(out, s)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}
