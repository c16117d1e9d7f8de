/* ModernBERT ("Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder", Warner et al. 2024): pre-norm except
 * before the first attention, RoPE, and sliding-window layers with different RoPE frequencies. Keys and defaults are
 * those of ModernBertConfig. */
#include <string.h>
#include "model/arch/encoder_keys.h"
#include "model/arch/rope.h"

/* ---- Layers ---------------------------------------------------------------------------------------- */

static const tfm__rope_spec GLOBAL = {.layers = "full_attention",
                                      .theta_key = "global_rope_theta",
                                      .theta = 160000,
                                      .partial = 1,
                                      .whole = true,
                                      .scaled = true};
static const tfm__rope_spec LOCAL = {.layers = "sliding_attention",
                                     .theta_key = "local_rope_theta",
                                     .theta = 10000,
                                     .partial = 1,
                                     .whole = true,
                                     .scaled = true};

/* Sliding-window layers: `layer_types`, or all except every n-th. */
static tfm_status read_layers(tfm__stack_arch *stack, const tfm__config_files *from) {
    const tfm__config_value types = tfm__network_key(from, "layer_types");
    int every = 3;
    tfm_status status = tfm__read_int(&every, tfm__network_key(from, "global_attn_every_n_layers"),
                                      "global_attn_every_n_layers", 1, TFM__MAX_LAYERS);
    if (status == TFM_OK && types.value && json_array_size(types.value) != (size_t)stack->layers)
        status = tfm__fail(TFM_ERROR_FORMAT, "%s: `layer_types` has not one entry for each of the %d layers",
                           types.path, stack->layers);
    for (int i = 0; i < stack->layers && status == TFM_OK; i++) {
        const json_t *type = json_array_get(types.value, (size_t)i);
        const char *name = !types.value              ? i % every ? "sliding_attention" : "full_attention"
                           : json_string_value(type) ? json_string_value(type)
                                                     : "";
        if (strcmp(name, "sliding_attention") == 0)
            stack->layer[i] |= TFM__LOCAL_LAYER;
        else if (strcmp(name, "full_attention") != 0 && strcmp(name, "attention") != 0)
            status = tfm__fail(TFM_ERROR_UNSUPPORTED,
                               "%s: `layer_types` has %s; \"full_attention\" and \"sliding_attention\" are supported",
                               types.path, TFM__VALUE_TEXT(type));
    }
    stack->layer[0] |= TFM__NO_NORM_LAYER;
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

static tfm_status read_sizes(tfm__stack_arch *out, const tfm__config_files *from) {
    const tfm__size_key sizes[] = {
        {"vocab_size", &out->vocabulary, 50368, TFM__MAX_VOCABULARY},
        {"hidden_size", &out->width, 768, TFM__MAX_WIDTH},
        {"num_hidden_layers", &out->layers, 22, TFM__MAX_LAYERS},
        {"num_attention_heads", &out->heads, 12, 1024},
        {"intermediate_size", &out->feed_forward, 1152, TFM__MAX_WIDTH},
        {"max_position_embeddings", &out->max_positions, 8192, TFM__MAX_WIDTH},
        {"local_attention", &out->window, 128, TFM__MAX_WIDTH},
    };
    /* half of the window; wins if a file has both, as in transformers */
    const tfm__config_value half = tfm__network_key(from, "sliding_window");
    int side = 0;
    tfm_status status = tfm__read_sizes(sizes, TFM__COUNT(sizes), from);
    if (status == TFM_OK)
        status = tfm__read_int(&side, half, "sliding_window", 0, TFM__MAX_WIDTH);
    if (half.value)
        out->window = 2 * side;
    if (status == TFM_OK)
        status = tfm__check_heads(from, "num_attention_heads", out->heads, "hidden_size", out->width);
    if (status != TFM_OK)
        return status;
    out->kv_heads = out->heads;
    out->head_width = out->width / out->heads;
    if (out->head_width % 2 || out->head_width > 2 * TFM__MAX_ROTARY_PAIRS)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `hidden_size` / `num_attention_heads` is %d; RoPE needs an even number up to %d",
                         from->config_path, out->head_width, 2 * TFM__MAX_ROTARY_PAIRS);
    return TFM_OK;
}

static tfm_status read_flags(tfm__stack_arch *out, tfm__head_arch *head, const tfm__config_files *from) {
    const struct {
        const char *key;
        bool *value;
    } flags[] = {
        {"attention_bias", &out->input_biases},
        {"mlp_bias", &out->feed_forward_biases},
        {"norm_bias", &out->norm_biases},
        {"classifier_bias", &head->dense_bias},
    };
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(flags) && status == TFM_OK; i++)
        status = tfm__read_bool(flags[i].value, tfm__network_key(from, flags[i].key), flags[i].key);
    out->output_biases = out->input_biases;
    return status;
}

static tfm_status read_head(tfm__arch *arch, const tfm__config_files *from) {
    tfm__head_arch *head = &arch->head;
    const tfm__config_value pooling = tfm__network_key(from, "classifier_pooling");
    const char *name = json_string_value(pooling.value);
    head->activation = TFM_GELU;
    head->norm = true;
    head->mean = name && strcmp(name, "mean") == 0;
    if (pooling.value && !head->mean && !(name && strcmp(name, "cls") == 0))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `classifier_pooling` is %s; \"cls\" and \"mean\" are supported",
                         pooling.path, TFM__VALUE_TEXT(pooling.value));
    const tfm_status status = tfm__read_encoder_head(arch, from);
    return status == TFM_OK ? tfm__read_activation(&head->activation, from, "classifier_activation") : status;
}

static tfm_status read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    tfm__stack_arch *stack = &arch->encoder;
    *stack = (tfm__stack_arch){
        .activation = TFM_GELU,
        .gated = true,
        .norm = TFM_NORM_LAYER,
        .norm_placement = TFM_NORM_PRE,
        .epsilon = 1e-5f,
        .embedding_norm = true,
        .final_norm = true,
        .embedding_scale = 1,
        .positions = TFM__NO_POSITIONS,
    };
    tfm_status status = read_sizes(stack, from);
    if (status == TFM_OK)
        status = read_flags(stack, &arch->head, from);
    if (status == TFM_OK)
        status = tfm__read_activation(&stack->activation, from, "hidden_activation");
    if (status == TFM_OK)
        status = tfm__read_epsilon(&stack->epsilon, from, "norm_eps");
    if (status == TFM_OK)
        status = read_layers(stack, from);
    const int positions = stack->max_positions;
    if (status == TFM_OK)
        status = tfm__read_rope(&stack->rotary, stack, positions, from, &GLOBAL);
    if (status == TFM_OK)
        status = tfm__read_rope(&stack->local_rotary, stack, positions, from, &LOCAL);
    if (status == TFM_OK)
        status = tfm__read_padding(rules, from, 50283, stack->vocabulary);
    return status == TFM_OK ? read_head(arch, from) : status;
}

/* ---- Names -------------------------------------------------------------------------------------------- */

#define BLOCK(name) TFM__WEIGHT_AND_BIAS("model.layers.#." name)

/* Fused QKV; gate and up are one tensor as well. */
static const tfm__naming ENCODER[TFM__ROLES] = {
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("model.embeddings.norm"),
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("model.final_norm"),
    [TFM__SELF_QUERY] = BLOCK("attn.Wqkv"),
    [TFM__SELF_KEY] = BLOCK("attn.Wqkv"),
    [TFM__SELF_VALUE] = BLOCK("attn.Wqkv"),
    [TFM__SELF_OUT] = BLOCK("attn.Wo"),
    [TFM__SELF_NORM] = BLOCK("attn_norm"),
    [TFM__GATE] = BLOCK("mlp.Wi"),
    [TFM__UP] = BLOCK("mlp.Wi"),
    [TFM__DOWN] = BLOCK("mlp.Wo"),
    [TFM__FEED_FORWARD_NORM] = BLOCK("mlp_norm"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("model.embeddings.tok_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("decoder"),
    [TFM__OUTPUT_BIAS] = {NULL, "decoder.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("head.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("head.norm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("head.dense"),
    [TFM__CLASSIFIER_NORM] = TFM__WEIGHT_AND_BIAS("head.norm"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier"),
};

const tfm__family tfm__family_modernbert = {
    .name = "modernbert",
    .types = (const char *const[]){"modernbert", NULL},
    .classes = (const char *const[]){"ModernBert", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .ignored = (const char *const[]){"inv_freq", "head.", "decoder.", "classifier.", "qa_outputs.", NULL},
    .read = read,
    .common = COMMON,
    .encoder = ENCODER,
};
