/* Reads config.json of decoder-only models into an arch, by the family's table (decoder.h). Keys and defaults are those
 * of the configurations in Hugging Face's transformers. */
#include "model/arch/decoder.h"
#include <math.h>
#include <string.h>

/* ---- Sizes and layout ----------------------------------------------------------------------------------------- */

void tfm__decoder_sizes(tfm__decoder_size out[TFM__DECODER_SIZES], const tfm__decoder_kind *k, tfm__stack_arch *s) {
    const tfm__decoder_size all[TFM__DECODER_SIZES] = {
        {k->width_key, "hidden_size", &s->width, TFM__MAX_WIDTH},
        {k->feed_forward_key, "intermediate_size", &s->feed_forward, TFM__MAX_WIDTH},
        {k->layers_key, "num_hidden_layers", &s->layers, TFM__MAX_LAYERS},
        {k->heads_key, "num_attention_heads", &s->heads, 1024},
        {k->kv_heads_key, "num_key_value_heads", &s->kv_heads, 1024},
        {k->positions_key, "max_position_embeddings", &s->max_positions, 1 << 30},
    };
    memcpy(out, all, sizeof(all));
}

static tfm_status check_kv_heads(const tfm__decoder_kind *k, const tfm__stack_arch *s, const tfm__config_files *from) {
    static const char usual[] = "num_key_value_heads";
    int given = s->heads;
    const tfm_status status = tfm__read_int(&given, tfm__network_key(from, usual), usual, 1, 1024);
    if (status == TFM_OK && !tfm__has_key(k->kv_heads_key) && given != s->heads)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %d; this family does not support grouped-query attention",
                         from->config_path, usual, given);
    if (status == TFM_OK && s->heads % s->kv_heads != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `%s`, %d", from->config_path,
                         tfm__key_or(k->kv_heads_key, usual), s->kv_heads,
                         tfm__key_or(k->heads_key, "num_attention_heads"), s->heads);
    return status;
}

static tfm_status read_head_width(tfm__stack_arch *s, const tfm__decoder_kind *k, const tfm__config_files *from) {
    const tfm__config_value own = k->no_head_width ? (tfm__config_value){0} : tfm__network_key(from, "head_dim");
    const bool counted = !own.value && k->head_width == 0; /* most families do not use the remainder */
    if (counted && (s->width < s->heads || (k->whole_heads && s->width % s->heads != 0)))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `%s`, which is %d", from->config_path,
                         tfm__key_or(k->heads_key, "num_attention_heads"), s->heads,
                         tfm__key_or(k->width_key, "hidden_size"), s->width);
    if (from->family->qkv_groups > 1 && s->width % from->family->qkv_groups != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must be divisible by %d", from->config_path,
                         tfm__key_or(k->width_key, "hidden_size"), s->width, from->family->qkv_groups);
    s->head_width = k->head_width ? k->head_width : s->width / s->heads;
    return tfm__read_int(&s->head_width, own, "head_dim", 1, 1024);
}

static tfm_status read_sizes(tfm__stack_arch *s, const tfm__decoder_kind *k, const tfm__config_files *from) {
    const char *const kv_key = tfm__key_or(k->kv_heads_key, "num_key_value_heads");
    const tfm__int_key vocabulary = {"vocab_size", &s->vocabulary, TFM__MAX_VOCABULARY};
    tfm__decoder_size sizes[TFM__DECODER_SIZES];
    tfm__decoder_sizes(sizes, k, s);
    tfm_status status = tfm__read_ints(from, &vocabulary, 1);
    for (size_t i = 0; i < TFM__DECODER_SIZES && status == TFM_OK; i++) {
        const tfm__int_key keys[] = {{tfm__key_or(sizes[i].own, sizes[i].usual), sizes[i].value, sizes[i].high},
                                     {sizes[i].usual, sizes[i].value, sizes[i].high}};
        if (tfm__has_key(sizes[i].own))
            status = tfm__read_ints(from, keys, 2);
    }
    if (status != TFM_OK)
        return status;
    if (s->feed_forward == 0)
        s->feed_forward = 4 * s->width;
    if (s->kv_heads == 0 || json_is_null(json_object_get(from->config, kv_key)))
        s->kv_heads = s->heads;
    status = check_kv_heads(k, s, from);
    return status == TFM_OK ? read_head_width(s, k, from) : status;
}

void tfm__decoder_flags(tfm__decoder_flag_list *out, const tfm__decoder_kind *k, tfm__arch *arch) {
    tfm__stack_arch *s = &arch->decoder;
    const tfm__bool_key all[TFM__DECODER_FLAGS] = {
        {"tie_word_embeddings", &arch->tied_embeddings},
        {k->attention_biases, &out->attention},
        {k->input_bias_key, &out->inputs},
        {k->mlp_biases, &s->feed_forward_biases},
        {k->parallel_key, &s->parallel},
        {k->head_norms_key, &s->head_norms},
    };
    memcpy(out->keys, all, sizeof(all));
}

static tfm_status read_flags(tfm__arch *arch, const tfm__decoder_kind *k, const tfm__config_files *from) {
    static const char *const others[] = {TFM__BIDIRECTIONAL_KEY, NULL};
    tfm__stack_arch *s = &arch->decoder;
    tfm__decoder_flag_list f = {.attention = k->biased, .inputs = k->input_biases};
    tfm_status status = from->family->encoder ? TFM_OK : tfm__refuse_keys(from, others);
    if (status == TFM_OK && k->refused)
        status = tfm__refuse_keys(from, k->refused);
    arch->tied_embeddings = k->tied;
    s->feed_forward_biases = k->biased || k->mlp_biased;
    s->parallel = k->parallel;
    tfm__decoder_flags(&f, k, arch);
    for (size_t i = 0; i < TFM__DECODER_FLAGS && status == TFM_OK; i++)
        if (f.keys[i].key)
            status = tfm__read_bools(from, &f.keys[i], 1);
    s->input_biases = f.attention || f.inputs;
    s->output_biases = f.attention;
    s->own_head_norms = s->head_norms && k->own_head_norms;
    s->shared_norm = s->parallel && k->parallel_norm;
    return status;
}

/* A soft cap, or 0 for null; the family's default if the key is absent. */
static tfm_status read_cap(float *out, const tfm__config_files *from, const char *key, double fallback) {
    double cap = json_is_null(json_object_get(from->config, key)) ? 0 : fallback;
    const tfm_status status = tfm__read_number(&cap, tfm__network_key(from, key), key, 1e-3, 1e6);
    *out = (float)cap;
    return status;
}

static tfm_status read_numbers(tfm__arch *arch, const tfm__decoder_kind *k, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    const char *const small = tfm__key_or(k->epsilon_key, "rms_norm_eps"), *const logits = k->logit_scale_key;
    double epsilon = k->epsilon, scalar = 256, scale = k->logit_scale;
    tfm_status status = tfm__read_number(&epsilon, tfm__network_key(from, small), small, 0, 1);
    s->epsilon = (float)epsilon;
    if (logits && status == TFM_OK) {
        status = tfm__read_number(&scale, tfm__network_key(from, logits), logits, 1e-6, 1e6);
        arch->output_scale = scale == 1 ? 0 : (float)scale;
    }
    if (!k->sandwich_norm || status != TFM_OK)
        return status;
    static const char key[] = "query_pre_attn_scalar";
    status = tfm__read_number(&scalar, tfm__network_key(from, key), key, 1e-3, 1e9);
    s->score_scale = (float)(1 / sqrt(scalar));
    if (status == TFM_OK)
        status = read_cap(&s->score_cap, from, TFM__SCORE_CAP, k->score_cap);
    /* Gemma 3 has the key, but transformers ignores it. */
    if (status == TFM_OK && s->score_cap != 0 && k->score_cap == 0) {
        tfm__log(TFM_LOG_WARNING, "%s: `%s` is %g; the family %s ignores it, as in transformers", from->config_path,
                 TFM__SCORE_CAP, (double)s->score_cap, from->family->name);
        s->score_cap = 0;
    }
    return status == TFM_OK ? read_cap(&arch->logit_cap, from, "final_logit_softcapping", k->logit_cap) : status;
}

const char *const tfm__decoder_multipliers[] = {"embedding_multiplier", "attention_multiplier", "residual_multiplier",
                                                "logits_scaling"};

/* Each defaults to 1. */
static tfm_status read_multipliers(tfm__arch *arch, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    double value[TFM__DECODER_MULTIPLIERS] = {1, 1, 1, 1};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__DECODER_MULTIPLIERS && status == TFM_OK; i++)
        status = tfm__read_number(&value[i], tfm__network_key(from, tfm__decoder_multipliers[i]),
                                  tfm__decoder_multipliers[i], 1e-6, 1e6);
    s->embedding_scale = (float)value[0];
    s->score_scale = (float)value[1];
    s->residual_scale = value[2] == 1 ? 0 : (float)value[2];
    arch->output_scale = value[3] == 1 ? 0 : (float)(1 / value[3]);
    return status;
}

/* ---- Layer types ------------------------------------------------------------------------------------ */

/* `no_rope_layers` has a 1 for each layer with RoPE; the default is every n-th layer without. */
static tfm_status read_no_rope_layers(tfm__stack_arch *s, const tfm__config_files *from) {
    static const char key[] = "no_rope_layers", every[] = "no_rope_layer_interval";
    const tfm__config_value found = tfm__network_key(from, key);
    int interval = 4;
    const tfm_status status = tfm__read_int(&interval, tfm__network_key(from, every), every, 1, 1 << 30);
    if (status != TFM_OK)
        return status;
    if (found.value && (!json_is_array(found.value) || json_array_size(found.value) < (size_t)s->layers))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; a list of 0 and 1, one for each of %d layers, is needed",
                         found.path, key, TFM__VALUE_TEXT(found.value), s->layers);
    for (int i = 0; i < s->layers; i++) {
        int has_rope = (i + 1) % interval != 0;
        const tfm_status one = tfm__read_int(
            &has_rope, (tfm__config_value){json_array_get(found.value, (size_t)i), found.path}, key, 0, 1);
        if (one != TFM_OK)
            return one;
        s->layer[i] |= has_rope ? 0 : TFM__NO_ROPE_LAYER;
    }
    return TFM_OK;
}

/* One entry of `layer_types` per layer. */
static tfm_status read_layer_types(tfm__stack_arch *s, tfm__config_value found) {
    if (!json_is_array(found.value) || json_array_size(found.value) != (size_t)s->layers)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `layer_types` is %s; a list of strings, one for each of %d layers, is needed", found.path,
                         TFM__VALUE_TEXT(found.value), s->layers);
    for (int i = 0; i < s->layers; i++) {
        const json_t *value = json_array_get(found.value, (size_t)i);
        const char *name = json_string_value(value);
        if (!name || (strcmp(name, "full_attention") != 0 && strcmp(name, "attention") != 0 &&
                      strcmp(name, "sliding_attention") != 0))
            return tfm__fail(name ? TFM_ERROR_UNSUPPORTED : TFM_ERROR_FORMAT,
                             "%s: `layer_types` has %s; \"full_attention\" and \"sliding_attention\" are supported",
                             found.path, TFM__VALUE_TEXT(value));
        s->layer[i] |= strcmp(name, "sliding_attention") == 0 ? TFM__LOCAL_LAYER : 0;
    }
    return TFM_OK;
}

/* Whether a layer has a sliding window if no list says so. `flagged` is `use_sliding_window`. */
static bool is_local(const tfm__stack_arch *s, const tfm__decoder_kind *k, int layer, int first, int pattern,
                     bool flagged) {
    switch (k->windows) {
    case TFM__WINDOW_EVERYWHERE:
    case TFM__WINDOW_LISTED:
        return s->window > 0;
    case TFM__WINDOW_FROM_LAYER:
        return s->window > 0 && layer >= first;
    case TFM__WINDOW_IF_NO_ROPE:
        return s->window > 0 && flagged && (s->layer[layer] & TFM__NO_ROPE_LAYER);
    case TFM__WINDOW_BY_PATTERN:
        return (layer + 1) % pattern != 0;
    default:
        return false;
    }
}

static tfm_status read_windows(tfm__stack_arch *s, const tfm__decoder_kind *k, const tfm__config_files *from) {
    const tfm__config_value listed = tfm__network_key(from, "layer_types");
    const bool by_flag = k->windows == TFM__WINDOW_FROM_LAYER || k->windows == TFM__WINDOW_IF_NO_ROPE;
    const bool none = json_is_null(json_object_get(from->config, "sliding_window"));
    bool flagged = false, local = false;
    int first = 28, pattern = k->pattern ? k->pattern : 1;
    if (k->windows == TFM__WINDOW_NOWHERE)
        return TFM_OK;
    s->window = none ? 0 : k->window;
    tfm_status status =
        tfm__read_int(&s->window, tfm__network_key(from, "sliding_window"), "sliding_window", 1, 1 << 30);
    if (by_flag && status == TFM_OK)
        status = tfm__read_bool(&flagged, tfm__network_key(from, "use_sliding_window"), "use_sliding_window");
    if (k->windows == TFM__WINDOW_FROM_LAYER && status == TFM_OK)
        status = tfm__read_int(&first, tfm__network_key(from, "max_window_layers"), "max_window_layers", 0, 1 << 30);
    if (k->local_theta != 0 && status == TFM_OK)
        status = tfm__read_int(&pattern, tfm__network_key(from, "sliding_window_pattern"), "sliding_window_pattern", 1,
                               1 << 30);
    if (k->windows == TFM__WINDOW_FROM_LAYER && !flagged)
        s->window = 0;
    /* in a multimodal model transformers uses `model_type`, and a Mistral has no list */
    const bool named = k->windows == TFM__WINDOW_EVERYWHERE || (k->windows == TFM__WINDOW_LISTED && from->outer);
    if (listed.value && !named)
        status = status == TFM_OK ? read_layer_types(s, listed) : status;
    else
        for (int i = 0; i < s->layers; i++)
            s->layer[i] |= is_local(s, k, i, first, pattern, flagged) ? TFM__LOCAL_LAYER : 0;
    for (int i = 0; i < s->layers; i++)
        local |= s->layer[i] & TFM__LOCAL_LAYER;
    if (status == TFM_OK && local && s->window == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: there are layers with a window, and no `sliding_window`%s",
                         from->config_path, by_flag ? " with `use_sliding_window`" : "");
    return status;
}

static tfm_status read_rope_keys(tfm__stack_arch *s, const tfm__decoder_kind *k, const tfm__config_files *from) {
    const int positions = s->max_positions;
    const bool both = k->local_theta != 0;
    const tfm__rope_spec whole = {.layers = both ? "full_attention" : NULL,
                                  .theta_key = tfm__key_or(k->theta_key, "rope_theta"),
                                  .theta = k->theta,
                                  .partial_key = k->partial_key,
                                  .size_key = k->rotary_size_key,
                                  .size = k->rotary_size,
                                  .fixed = k->fixed_rope,
                                  .rounded = k->rounded,
                                  .partial = k->partial != 0 ? k->partial : 1,
                                  .whole = k->partial == 0,
                                  .scaled = true,
                                  .longrope_only = k->longrope_only,
                                  .original = k->original};
    const tfm__rope_spec local = {.layers = "sliding_attention",
                                  .theta_key = "rope_local_base_freq",
                                  .theta = k->local_theta,
                                  .partial = 1,
                                  .whole = true};
    s->alibi = k->alibi;
    if (k->alibi)
        return TFM_OK;
    s->max_positions = 1;
    tfm_status status = tfm__read_rope(&s->rotary, s, positions, from, &whole);
    s->rotary.interleaved = k->interleaved;
    s->local_rotary = s->rotary;
    if (status == TFM_OK && both) {
        s->local_rotary = (tfm__rotary_arch){0};
        status = tfm__read_rope(&s->local_rotary, s, positions, from, &local);
    }
    return status;
}

static tfm__stack_arch stack_of(const tfm__decoder_kind *k) {
    return (tfm__stack_arch){.layers = k->layers,
                             .width = k->width,
                             .heads = k->heads,
                             .kv_heads = k->kv_heads,
                             .feed_forward = k->feed_forward,
                             .activation = k->activation,
                             .gated = !k->ungated,
                             .causal = true,
                             .norm = k->layer_norms ? TFM_NORM_LAYER : TFM_NORM_RMS,
                             .norm_biases = k->layer_norms && !k->no_betas,
                             .norm_placement = k->sandwich_norm        ? TFM_NORM_SANDWICH
                                               : k->post_sublayer_norm ? TFM_NORM_POST_SUBLAYER
                                                                       : TFM_NORM_PRE,
                             .gamma_offset = k->gemma ? 1 : 0,
                             .head_norms = k->head_norms,
                             .joint_head_norms = k->joint_head_norms,
                             .embedding_norm = k->embedding_norm,
                             .final_norm = true,
                             .vocabulary = k->vocabulary,
                             .embedding_scale = 1,
                             .max_positions = k->max_positions};
}

/* The first models' files say "gelu" for the tanh approximation they were trained with; other names are taken
 * literally. */
static void correct_gemma(tfm__stack_arch *s, const tfm__decoder_kind *k, const tfm__config_files *from) {
    const char *name = json_string_value(tfm__network_key(from, k->activation_key).value);
    s->embedding_scale = sqrtf((float)s->width);
    if (!k->sandwich_norm && name && strcmp(name, "gelu") == 0)
        s->activation = TFM_GELU_TANH;
}

tfm_status tfm__decoder_read_config(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    const tfm__decoder_kind *k = from->family->decoder_kind;
    tfm__stack_arch *s = &arch->decoder;
    *s = stack_of(k);
    tfm_status status = read_sizes(s, k, from);
    if (status == TFM_OK)
        status = tfm__check_attention_span(from, k->windows != TFM__WINDOW_NOWHERE, s->max_positions);
    if (status == TFM_OK)
        status = read_flags(arch, k, from);
    if (status == TFM_OK)
        status = read_numbers(arch, k, from);
    if (status == TFM_OK && k->activation_key)
        status = tfm__read_activation(&s->activation, from, k->activation_key);
    if (status == TFM_OK && k->windows == TFM__WINDOW_IF_NO_ROPE)
        status = read_no_rope_layers(s, from);
    if (status == TFM_OK)
        status = read_windows(s, k, from);
    if (status == TFM_OK && k->multipliers)
        status = read_multipliers(arch, from);
    if (status == TFM_OK && k->read_more)
        status = k->read_more(arch, from);
    if (status == TFM_OK)
        status = read_rope_keys(s, k, from);
    if (status == TFM_OK)
        status = tfm__read_head(&arch->headless, from, "ForCausalLM", arch->tied_embeddings);
    if (k->gemma)
        correct_gemma(s, k, from);
    return status != TFM_OK ? status : tfm__read_decoder_only_rules(rules, from, s->vocabulary);
}
