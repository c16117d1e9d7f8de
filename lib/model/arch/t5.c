/* T5, T5 v1.1, Flan-T5, MADLAD, mT5 and UMT5, in the layouts of Hugging Face's T5ForConditionalGeneration,
 * MT5ForConditionalGeneration and UMT5ForConditionalGeneration ("Exploring the Limits of Transfer Learning with a
 * Unified Text-to-Text Transformer", Raffel et al. 2020; "UniMax", Chung et al. 2023: UMT5 has a relative position bias
 * in each layer). Keys and defaults are those of T5Config, MT5Config and UMT5Config. */
#include <math.h>
#include <string.h>
#include "model/arch/encoder_keys.h"
#include "model/arch/seq2seq.h"

/* No key limits the length, since positions are relative. Memory does: a stack stores its bias for every pair of
 * positions. */
enum { MAX_POSITIONS = 1 << 15 };

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* When hidden states are scaled before the output projection. */
typedef enum scaling { BY_KEYS, NEVER } scaling;

typedef struct config {
    scaling scaling;
    int d_model, d_kv, d_ff, layers, decoder_layers, heads, buckets, most, vocab_size;
    double epsilon;
    bool gated, bias_each; /* gated feed-forward layers; a position bias in every layer */
    tfm_activation activation;
} config;

/* Common names are read after the family's, as in transformers; the decoder's number of layers defaults to the
 * encoder's value read before. */
static tfm_status read_sizes(config *c, const tfm__config_files *from) {
    int encoder_layers = 0;
    const struct {
        const char *key;
        int *value, low, high;
    } sizes[] = {
        {"d_model", &c->d_model, 1, TFM__MAX_WIDTH},
        {"hidden_size", &c->d_model, 1, TFM__MAX_WIDTH},
        {"d_kv", &c->d_kv, 1, TFM__MAX_WIDTH / 1024},
        {"head_dim", &c->d_kv, 1, TFM__MAX_WIDTH / 1024},
        {"d_ff", &c->d_ff, 1, TFM__MAX_WIDTH},
        {"num_layers", &c->layers, 1, TFM__MAX_LAYERS},
        {"num_hidden_layers", &encoder_layers, 1, TFM__MAX_LAYERS},
        {"num_decoder_layers", &c->decoder_layers, 1, TFM__MAX_LAYERS},
        {"num_heads", &c->heads, 1, 1024},
        {"num_attention_heads", &c->heads, 1, 1024},
        {"relative_attention_num_buckets", &c->buckets, 4, TFM__MAX_WIDTH},
        {"relative_attention_max_distance", &c->most, 1, TFM__MAX_WIDTH},
        {"vocab_size", &c->vocab_size, 1, TFM__MAX_VOCABULARY},
    };
    for (size_t i = 0; i < TFM__COUNT(sizes); i++) {
        const tfm_status status = tfm__read_int(sizes[i].value, tfm__network_key(from, sizes[i].key), sizes[i].key,
                                                sizes[i].low, sizes[i].high);
        if (status != TFM_OK)
            return status;
    }
    c->decoder_layers = c->decoder_layers ? c->decoder_layers : c->layers;
    c->layers = encoder_layers ? encoder_layers : c->layers;
    if (c->most <= c->buckets / 2)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `relative_attention_max_distance` is %d; more than half of "
                         "`relative_attention_num_buckets`, which is %d, is needed",
                         from->config_path, c->most, c->buckets);
    return tfm__read_number(&c->epsilon, tfm__network_key(from, "layer_norm_epsilon"), "layer_norm_epsilon", 0, 1);
}

/* "relu" or "gated-gelu": an activation, optionally with a gate. */
static tfm_status read_projection(config *c, const tfm__config_files *from) {
    static const char key[] = "feed_forward_proj", gate[] = "gated-";
    const tfm__config_value found = tfm__network_key(from, key);
    const char *name = json_string_value(found.value);
    if (!found.value)
        return TFM_OK;
    c->gated = name && strncmp(name, gate, strlen(gate)) == 0;
    const char *rest = !name ? "" : c->gated ? name + strlen(gate) : name;
    if (strcmp(rest, "gelu") == 0 && c->gated) /* the tanh approximation, as in T5Config */
        rest = "gelu_new";
    json_t *activation = json_string(rest);
    const tfm_status status =
        activation ? tfm__read_activation_value(&c->activation, (tfm__config_value){activation, found.path}, key)
                   : TFM_ERROR_MEMORY;
    json_decref(activation);
    return status;
}

/* transformers also writes keys derived from it, and trusts them when reading. */
static tfm_status read_feed_forward(config *c, const tfm__config_files *from) {
    tfm_status status = read_projection(c, from);
    if (status == TFM_OK)
        status = tfm__read_activation(&c->activation, from, "dense_act_fn");
    return status == TFM_OK ? tfm__read_bool(&c->gated, tfm__network_key(from, "is_gated_act"), "is_gated_act")
                            : status;
}

/* Whether hidden states are scaled before the output projection. Until transformers 5 that was `tie_word_embeddings`;
 * transformers 5 forces it to true and has a separate key for the scale. Whether the output has its own table is taken
 * from the file. mT5 never scales. */
static tfm_status read_scale(bool *scaled, scaling when, const tfm__config_files *from) {
    static const char *const keys[] = {"tie_word_embeddings", "scale_decoder_outputs"};
    tfm_status status = TFM_OK;
    *scaled = when != NEVER;
    for (size_t i = 0; i < TFM__COUNT(keys) && status == TFM_OK && when == BY_KEYS; i++)
        status = tfm__read_bool(scaled, tfm__network_key(from, keys[i]), keys[i]);
    if (when == BY_KEYS && json_is_null(json_object_get(from->config, keys[1]))) /* false in transformers */
        *scaled = false;
    return status;
}

static tfm__stack_arch stack_of(const config *c, bool decoder) {
    return (tfm__stack_arch){
        .layers = decoder ? c->decoder_layers : c->layers,
        .width = c->d_model,
        .heads = c->heads,
        .kv_heads = c->heads,
        .head_width = c->d_kv,
        .feed_forward = c->d_ff,
        .activation = c->activation,
        .gated = c->gated,
        .causal = decoder,
        .cross = decoder,
        .norm = TFM_NORM_RMS,
        .norm_placement = TFM_NORM_PRE,
        .epsilon = (float)c->epsilon,
        .final_norm = true,
        .final_dropout = true,
        .vocabulary = c->vocab_size,
        .embedding_scale = 1,
        .positions = TFM__NO_POSITIONS,
        .max_positions = MAX_POSITIONS,
        .relative = {.buckets = c->buckets, .max_distance = c->most, .per_layer = c->bias_each},
        .score_scale = 1,
    };
}

static tfm_status read_stacks(config *c, const tfm__config_files *from) {
    tfm_status status = read_sizes(c, from);
    if (status == TFM_OK)
        status = tfm__check_attention_span(from, false, MAX_POSITIONS);
    return status == TFM_OK ? read_feed_forward(c, from) : status;
}

/* The encoder alone, as in embedding models. */
static tfm_status read_alone(config c, tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    tfm_status status = read_stacks(&c, from);
    if (status != TFM_OK)
        return status;
    arch->encoder = stack_of(&c, false);
    arch->headless = arch->tied_embeddings = true;
    return tfm__read_padding(rules, from, 0, c.vocab_size);
}

static tfm_status read_with(config c, tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const tfm__id_defaults ids = {.pad = 0, .eos = 1, .start = 0};
    bool scaled = false;
    rules->hf_search = true;
    tfm_status status = tfm__seq2seq_check_class(from);
    if (status == TFM_OK)
        status = read_stacks(&c, from);
    if (status == TFM_OK)
        status = read_scale(&scaled, c.scaling, from);
    if (status != TFM_OK)
        return status;
    arch->encoder = stack_of(&c, false);
    arch->decoder = stack_of(&c, true);
    arch->shared_tables = arch->tied_embeddings = true;
    arch->output_scale = scaled ? (float)pow(c.d_model, -0.5) : 0;
    return tfm__read_generation_rules(rules, from, &ids, c.vocab_size, c.vocab_size);
}

static const config T5_DEFAULTS = {.scaling = BY_KEYS,
                                   .d_model = 512,
                                   .d_kv = 64,
                                   .d_ff = 2048,
                                   .layers = 6,
                                   .heads = 8,
                                   .buckets = 32,
                                   .most = 128,
                                   .vocab_size = 32128,
                                   .epsilon = 1e-6,
                                   .activation = TFM_RELU};

static tfm_status read_t5(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_with(T5_DEFAULTS, arch, rules, from);
}

static tfm_status read_t5_alone(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_alone(T5_DEFAULTS, arch, rules, from);
}

/* Defaults of mT5 and UMT5. */
static config many_languages(scaling when, bool bias_each) {
    return (config){.scaling = when,
                    .d_model = 512,
                    .d_kv = 64,
                    .d_ff = 1024,
                    .layers = 8,
                    .heads = 6,
                    .buckets = 32,
                    .most = 128,
                    .vocab_size = 250112,
                    .epsilon = 1e-6,
                    .gated = true,
                    .bias_each = bias_each,
                    .activation = TFM_GELU_TANH};
}

static tfm_status read_mt5(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_with(many_languages(NEVER, false), arch, rules, from);
}

static tfm_status read_umt5(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_with(many_languages(BY_KEYS, true), arch, rules, from);
}

static tfm_status read_mt5_alone(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_alone(many_languages(NEVER, false), arch, rules, from);
}

static tfm_status read_umt5_alone(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return read_alone(many_languages(BY_KEYS, true), arch, rules, from);
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static json_t *write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *e = &arch->encoder, *d = &arch->decoder;
    /* with a gate, "gelu" means the tanh approximation */
    const char *name = !e->gated                        ? tfm__activation_name(e->activation)
                       : e->activation == TFM_GELU_TANH ? "gelu"
                       : e->activation == TFM_GELU      ? "gelu_python"
                                                        : tfm__activation_name(e->activation);
    char proj[64];
    snprintf(proj, sizeof(proj), "%s%s", e->gated ? "gated-" : "", name);
    return json_pack(
        "{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:b, s:b, s:i, s:i, s:i}",
        "architectures", family->classes[0], "model_type", family->name, "feed_forward_proj", proj, "d_model", e->width,
        "d_kv", e->head_width, "d_ff", e->feed_forward, "num_layers", e->layers, "num_decoder_layers", d->layers,
        "num_heads", e->heads, "relative_attention_num_buckets", e->relative.buckets, "relative_attention_max_distance",
        e->relative.max_distance, "vocab_size", e->vocabulary, "layer_norm_epsilon", tfm__short_number(e->epsilon),
        "tie_word_embeddings", (int)(arch->output_scale != 0), "scale_decoder_outputs", (int)(arch->output_scale != 0),
        "is_encoder_decoder", 1, "pad_token_id", rules->pad_id, "eos_token_id", rules->eos_id, "decoder_start_token_id",
        rules->start_id);
}

/* ---- Names -------------------------------------------------------------------------------------------- */

#define NAME(stack, rest)                                                                                              \
    { .weight = stack ".block.#.layer." rest ".weight" }
/* `number`: the layer with the position bias. */
#define STACK(stack, last, number)                                                                                     \
    [TFM__FINAL_NORM] = {.weight = stack ".final_layer_norm.weight"},                                                  \
    [TFM__RELATIVE_BIAS] = {.weight = stack ".block." number ".layer.0.SelfAttention.relative_attention_bias.weight"}, \
    [TFM__SELF_QUERY] = NAME(stack, "0.SelfAttention.q"), [TFM__SELF_KEY] = NAME(stack, "0.SelfAttention.k"),          \
    [TFM__SELF_VALUE] = NAME(stack, "0.SelfAttention.v"), [TFM__SELF_OUT] = NAME(stack, "0.SelfAttention.o"),          \
    [TFM__SELF_NORM] = NAME(stack, "0.layer_norm"), [TFM__GATE] = NAME(stack, last ".DenseReluDense.wi_0"),            \
    [TFM__UP] = NAME(stack, last ".DenseReluDense.wi_1"), [TFM__UP_UNGATED] = NAME(stack, last ".DenseReluDense.wi"),  \
    [TFM__DOWN] = NAME(stack, last ".DenseReluDense.wo"), [TFM__FEED_FORWARD_NORM] = NAME(stack, last ".layer_norm")

#define DECODER_STACK(number)                                                                                          \
    STACK("decoder", "2", number), [TFM__CROSS_QUERY] = NAME("decoder", "1.EncDecAttention.q"),                        \
                                   [TFM__CROSS_KEY] = NAME("decoder", "1.EncDecAttention.k"),                          \
                                   [TFM__CROSS_VALUE] = NAME("decoder", "1.EncDecAttention.v"),                        \
                                   [TFM__CROSS_OUT] = NAME("decoder", "1.EncDecAttention.o"),                          \
                                   [TFM__CROSS_NORM] = NAME("decoder", "1.layer_norm")

static const tfm__naming ENCODER[TFM__ROLES] = {STACK("encoder", "1", "0")};
static const tfm__naming DECODER[TFM__ROLES] = {DECODER_STACK("0")};
static const tfm__naming ENCODER_EACH[TFM__ROLES] = {STACK("encoder", "1", "#")};
static const tfm__naming DECODER_EACH[TFM__ROLES] = {DECODER_STACK("#")};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SHARED_EMBEDDING] = TFM__WEIGHT_ONLY("shared"),
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("encoder.embed_tokens"),
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("decoder.embed_tokens"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
};

/* A cross-attention bias that early T5 checkpoints store; no implementation reads it. */
static const char *const IGNORED[] = {"EncDecAttention.relative_attention_bias.weight", NULL};

#define T5_COMMON .ignored = IGNORED, .keeps_shared = true, .output_by_file = true, .common = COMMON

/* Files may have a decoder, which transformers ignores. */
#define ALONE(id, encoder_names)                                                                                       \
    static const tfm__family id##_alone = {                                                                            \
        .name = #id,                                                                                                   \
        .types = (const char *const[]){#id, NULL},                                                                     \
        .ignored = (const char *const[]){"decoder.", "lm_head.", NULL},                                                \
        .read = read_##id##_alone,                                                                                     \
        .output_by_file = true,                                                                                        \
        .common = COMMON,                                                                                              \
        .encoder = encoder_names,                                                                                      \
    }
ALONE(t5, ENCODER);
ALONE(mt5, ENCODER);
ALONE(umt5, ENCODER_EACH);

const tfm__family tfm__family_t5 = {
    .name = "t5",
    .types = (const char *const[]){"t5", NULL},
    .classes =
        (const char *const[]){"T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model", "T5EncoderModel", NULL},
    .read = read_t5,
    .encoder_only = &t5_alone,
    .write = write,
    .encoder = ENCODER,
    .decoder = DECODER,
    T5_COMMON,
};

const tfm__family tfm__family_mt5 = {
    .name = "mt5",
    .types = (const char *const[]){"mt5", NULL},
    .classes = (const char *const[]){"MT5ForConditionalGeneration", "MT5Model", "MT5EncoderModel", NULL},
    .read = read_mt5,
    .encoder_only = &mt5_alone,
    .write = write,
    .encoder = ENCODER,
    .decoder = DECODER,
    T5_COMMON,
};

const tfm__family tfm__family_umt5 = {
    .name = "umt5",
    .types = (const char *const[]){"umt5", NULL},
    .classes = (const char *const[]){"UMT5ForConditionalGeneration", "UMT5Model", "UMT5EncoderModel", NULL},
    .read = read_umt5,
    .encoder_only = &umt5_alone,
    .write = write,
    .encoder = ENCODER_EACH,
    .decoder = DECODER_EACH,
    T5_COMMON,
};
