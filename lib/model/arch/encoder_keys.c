#include "model/arch/encoder_keys.h"
#include <string.h>
#include "model/arch/rope.h"

tfm_status tfm__read_sizes(const tfm__size_key *keys, size_t count, const tfm__config_files *from) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        *keys[i].value = keys[i].fallback;
        status = tfm__read_ints(from, &(tfm__int_key){keys[i].key, keys[i].value, keys[i].high}, 1);
    }
    return status;
}

tfm_status tfm__check_heads(const tfm__config_files *from, const char *key, int heads, const char *width_key,
                            int width) {
    return width % heads == 0 ? TFM_OK
                              : tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `%s`, which is %d",
                                          from->config_path, key, heads, width_key, width);
}

tfm_status tfm__check_encoder(const tfm__config_files *from, const char *positions) {
    static const char *const OTHERS[] = {"is_decoder", "add_cross_attention", NULL};
    const tfm_status status = tfm__refuse_keys(from, OTHERS);
    if (status != TFM_OK)
        return status;
    const tfm__config_value found = tfm__network_key(from, "position_embedding_type");
    const char *type = json_string_value(found.value);
    if (found.value && !(type && strcmp(type, positions) == 0))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `position_embedding_type` is %s, which is not supported: only \"%s\" is", found.path,
                         TFM__VALUE_TEXT(found.value), positions);
    return TFM_OK;
}

tfm_status tfm__read_epsilon(float *out, const tfm__config_files *from, const char *key) {
    double value = (double)*out;
    const tfm_status status = tfm__read_number(&value, tfm__network_key(from, key), key, 1e-30, 1);
    *out = (float)value;
    return status;
}

tfm_status tfm__read_padding(tfm__generation_rules *rules, const tfm__config_files *from, int pad, int vocabulary) {
    rules->pad_id = pad < vocabulary ? pad : 0;
    const tfm_status status =
        tfm__read_int(&rules->pad_id, tfm__network_key(from, "pad_token_id"), "pad_token_id", 0, vocabulary - 1);
    rules->eos_id = rules->start_id = rules->pad_id;
    rules->forced_bos_id = rules->forced_eos_id = -1;
    return status;
}

/* `id2label`, else `num_labels`, else 2. */
static tfm_status read_class_count(int *out, const tfm__config_files *from) {
    const tfm__config_value labels = tfm__network_key(from, "id2label");
    *out = 2;
    if (labels.value && json_object_size(labels.value) > 0 && json_object_size(labels.value) <= TFM__MAX_WIDTH) {
        *out = (int)json_object_size(labels.value);
        return TFM_OK;
    }
    if (labels.value)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `id2label` is %s; an object with a name for each class is needed",
                         labels.path, TFM__VALUE_TEXT(labels.value));
    return tfm__read_int(out, tfm__network_key(from, "num_labels"), "num_labels", 1, TFM__MAX_WIDTH);
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

tfm_status tfm__read_encoder_head(tfm__arch *arch, const tfm__config_files *from) {
    const char *name = json_string_value(json_array_get(tfm__network_key(from, "architectures").value, 0));
    tfm__head_arch *head = &arch->head;
    head->kind = !name                                                                 ? TFM__NO_HEAD
                 : ends_with(name, "ForMaskedLM") || ends_with(name, "ForPreTraining") ? TFM__MLM_HEAD
                 : ends_with(name, "ForSequenceClassification")                        ? TFM__CLASSIFICATION_HEAD
                                                                                       : TFM__NO_HEAD;
    arch->headless = head->kind != TFM__MLM_HEAD;
    arch->tied_embeddings = true;
    tfm_status status =
        tfm__read_bool(&arch->tied_embeddings, tfm__network_key(from, "tie_word_embeddings"), "tie_word_embeddings");
    if (status == TFM_OK && head->kind == TFM__CLASSIFICATION_HEAD)
        status = read_class_count(&head->classes, from);
    return status;
}

/* ---- The table-driven reader ---- */

static tfm_status read_encoder_sizes(tfm__stack_arch *s, const tfm__encoder_kind *k, const tfm__config_files *from) {
    const tfm__size_key sizes[] = {
        {"vocab_size", &s->vocabulary, k->vocabulary, TFM__MAX_VOCABULARY},
        {tfm__key_or(k->width_key, "hidden_size"), &s->width, k->width, TFM__MAX_WIDTH},
        {tfm__key_or(k->layers_key, "num_hidden_layers"), &s->layers, k->layers, TFM__MAX_LAYERS},
        {tfm__key_or(k->heads_key, "num_attention_heads"), &s->heads, k->heads, 1024},
        {tfm__key_or(k->feed_forward_key, "intermediate_size"), &s->feed_forward, k->feed_forward, TFM__MAX_WIDTH},
        {tfm__key_or(k->positions_key, "max_position_embeddings"), &s->max_positions,
         k->max_positions ? k->max_positions : 512, TFM__MAX_WIDTH},
    };
    const tfm__size_key buckets = {"relative_attention_num_buckets", &s->relative.buckets, 32, TFM__MAX_WIDTH};
    const tfm__int_key common[] = {
        {"hidden_size", &s->width, TFM__MAX_WIDTH},
        {"num_hidden_layers", &s->layers, TFM__MAX_LAYERS},
        {"num_attention_heads", &s->heads, 1024},
    };
    tfm_status status = tfm__read_sizes(sizes, TFM__COUNT(sizes), from);
    s->token_types = k->no_token_types ? 0 : k->token_types ? k->token_types : 2;
    if (status == TFM_OK && !k->no_token_types)
        status = tfm__read_int(&s->token_types, tfm__network_key(from, "type_vocab_size"), "type_vocab_size",
                               k->rope ? 0 : 1, TFM__MAX_WIDTH);
    if (status == TFM_OK && k->relative)
        status = tfm__read_sizes(&buckets, 1, from);
    if (status == TFM_OK && k->common_keys)
        status = tfm__read_ints(from, common, TFM__COUNT(common));
    if (status == TFM_OK)
        status = tfm__check_heads(from, tfm__key_or(k->heads_key, "num_attention_heads"), s->heads,
                                  tfm__key_or(k->width_key, "hidden_size"), s->width);
    s->kv_heads = s->heads;
    s->head_width = status == TFM_OK ? s->width / s->heads : 0;
    return status;
}

/* The embedding width, and its projection. */
static tfm_status read_narrow(tfm__stack_arch *s, const tfm__encoder_kind *k, const tfm__config_files *from) {
    static const char key[] = "embedding_size";
    int width = 128;
    if (!k->narrow)
        return TFM_OK;
    const tfm_status status = tfm__read_int(&width, tfm__network_key(from, key), key, 1, TFM__MAX_WIDTH);
    s->narrow_width = width != s->width || k->always_projected ? width : 0;
    return status;
}

static tfm_status check_buckets(const tfm__stack_arch *s, const tfm__config_files *from) {
    return s->relative.buckets >= s->relative.used
               ? TFM_OK
               : tfm__fail(TFM_ERROR_FORMAT,
                           "%s: `relative_attention_num_buckets` is %d; the family uses %d of them, so it must be that "
                           "or more",
                           from->config_path, s->relative.buckets, s->relative.used);
}

/* Rows of the position table up to the padding's belong to no position. */
static tfm_status skip_positions(tfm__stack_arch *s, int pad, const tfm__config_files *from) {
    s->position_offset = pad + 1;
    s->skips = TFM__SKIPS_TO_ROW;
    s->skipped_id = pad;
    if (s->max_positions <= s->position_offset)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `max_position_embeddings` is %d, and positions begin after `pad_token_id`, which is %d: "
                         "none is left",
                         from->config_path, s->max_positions, pad);
    s->max_positions -= s->position_offset;
    return TFM_OK;
}

/* All layers of a group share their tensors. */
static tfm_status read_groups(tfm__stack_arch *s, const tfm__config_files *from) {
    int groups = 1, inner = 1;
    const tfm__int_key keys[] = {{"num_hidden_groups", &groups, TFM__MAX_LAYERS}, {"inner_group_num", &inner, 8}};
    const tfm_status status = tfm__read_ints(from, keys, TFM__COUNT(keys));
    if (status == TFM_OK && (groups > s->layers || s->layers * inner > TFM__MAX_LAYERS))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `num_hidden_groups` is %d and `inner_group_num` %d, and there are %d layers: groups are "
                         "at most as many, and %d layers can be run",
                         from->config_path, groups, inner, s->layers, TFM__MAX_LAYERS);
    s->groups = groups;
    s->group_layers = inner;
    s->layers *= inner;
    return status;
}

static tfm_status read_encoder_stack(tfm__stack_arch *s, const tfm__encoder_kind *k, const tfm__config_files *from) {
    *s = (tfm__stack_arch){
        .activation = k->activation,
        .gated = k->gated,
        .input_biases = k->biases != TFM__NO_BIASES,
        .output_biases = k->biases != TFM__NO_BIASES,
        .feed_forward_biases = k->biases != TFM__NO_BIASES,
        .no_gate_biases = k->biases == TFM__NO_GATE_BIASES,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_placement = TFM_NORM_POST,
        .epsilon = 1e-12f,
        .embedding_norm = true,
        .embedding_scale = 1,
        .positions = k->rope ? TFM__NO_POSITIONS : TFM__LEARNED_POSITIONS,
        .relative = {.used = k->relative ? 32 : 0, .max_distance = k->relative ? 128 : 0},
    };
    tfm_status status = tfm__check_encoder(from, k->rope ? "rope" : "absolute");
    if (status == TFM_OK)
        status = read_encoder_sizes(s, k, from);
    if (status == TFM_OK)
        status = read_narrow(s, k, from);
    if (status == TFM_OK)
        status = tfm__read_activation(&s->activation, from, tfm__key_or(k->activation_key, "hidden_act"));
    if (status == TFM_OK && !k->fixed_epsilon)
        status = tfm__read_epsilon(&s->epsilon, from, tfm__key_or(k->epsilon_key, "layer_norm_eps"));
    if (status == TFM_OK && k->rope)
        status = tfm__read_rope(&s->rotary, s, s->max_positions, from, k->rope);
    return status == TFM_OK ? check_buckets(s, from) : status;
}

tfm_status tfm__encoder_read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return tfm__encoder_read_as(arch, rules, from, from->family->encoder_kind);
}

tfm_status tfm__encoder_read_as(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from,
                                const tfm__encoder_kind *k) {
    tfm__stack_arch *s = &arch->encoder;
    tfm__head_arch *head = &arch->head;
    tfm_status status = read_encoder_stack(s, k, from);
    if (status == TFM_OK)
        status = tfm__read_padding(rules, from, k->pad, s->vocabulary);
    if (status == TFM_OK && k->position_base != TFM__POSITIONS_FROM_0)
        status = skip_positions(s, k->position_base == TFM__POSITIONS_AFTER_PAD ? rules->pad_id : k->pad, from);
    if (status == TFM_OK)
        status = tfm__read_encoder_head(arch, from);
    if (status == TFM_OK && k->grouped)
        status = read_groups(s, from);
    const bool classes = head->kind == TFM__CLASSIFICATION_HEAD;
    const tfm_activation own = classes ? k->class_activation : k->mlm_activation;
    head->dense_bias = true;
    head->tanh = classes && own == TFM_NO_ACTIVATION;
    head->activation = own == TFM_NO_ACTIVATION ? s->activation : own;
    head->norm = head->kind == TFM__MLM_HEAD;
    return status;
}
