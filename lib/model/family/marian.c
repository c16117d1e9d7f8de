/* The Marian family (OPUS-MT), in the layout of Hugging Face's MarianMTModel: its config.json, the names of its
 * tensors. Keys and the defaults of absent ones are those of MarianConfig. */
#include <math.h>
#include <string.h>
#include "model/family/config_keys.h"

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* config.json's own words. */
typedef struct config {
    int d_model, encoder_layers, decoder_layers, encoder_heads, decoder_heads, encoder_ffn, decoder_ffn;
    int vocab_size, decoder_vocab_size, max_positions, extra_positions;
    bool normalize_before, normalize_embedding, add_final_layer_norm, static_positions, scale_embedding, share, tie;
    tfm_activation activation;
} config;

static tfm_status read_sizes(config *out, const tfm__config_files *from) {
    const struct {
        const char *key;
        int *value;
        int fallback, high;
    } sizes[] = {
        {"d_model", &out->d_model, 1024, TFM__MAX_WIDTH},
        {"encoder_layers", &out->encoder_layers, 12, TFM__MAX_LAYERS},
        {"decoder_layers", &out->decoder_layers, 12, TFM__MAX_LAYERS},
        {"encoder_attention_heads", &out->encoder_heads, 16, 1024},
        {"decoder_attention_heads", &out->decoder_heads, 16, 1024},
        {"encoder_ffn_dim", &out->encoder_ffn, 4096, TFM__MAX_WIDTH},
        {"decoder_ffn_dim", &out->decoder_ffn, 4096, TFM__MAX_WIDTH},
        {"vocab_size", &out->vocab_size, 58101, TFM__MAX_VOCABULARY},
        {"decoder_vocab_size", &out->decoder_vocab_size, 0, TFM__MAX_VOCABULARY},
        {"max_position_embeddings", &out->max_positions, 1024, TFM__MAX_WIDTH},
    };
    for (size_t i = 0; i < TFM__COUNT(sizes); i++) {
        *sizes[i].value = sizes[i].fallback;
        tfm_status status =
            tfm__read_int(sizes[i].value, tfm__network_key(from, sizes[i].key), sizes[i].key, 1, sizes[i].high);
        if (status != TFM_OK)
            return status;
    }
    /* A shared table has one size: Hugging Face, too, looks at vocab_size alone then. */
    if (out->share || !out->decoder_vocab_size)
        out->decoder_vocab_size = out->vocab_size;
    for (int side = 0; side < 2; side++) {
        int heads = side ? out->decoder_heads : out->encoder_heads;
        if (out->d_model % heads != 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `d_model`, which is %d",
                             from->config_path, side ? "decoder_attention_heads" : "encoder_attention_heads", heads,
                             out->d_model);
    }
    return TFM_OK;
}

/* The family knows sinusoids and a learned table, which `static_position_embeddings` chooses between. A key that asks
 * for anything else belongs to a model with other arithmetic, whose text would be wrong. */
static tfm_status check_positions(const config *c, const tfm__config_files *from) {
    static const char *const TYPES[] = {"position_embedding_type", "position_embeddings_type"};
    static const char *const OTHERS[] = {"rope_scaling", "rope_parameters", "alibi"};
    for (size_t i = 0; i < TFM__COUNT(TYPES); i++) {
        const tfm__found found = tfm__network_key(from, TYPES[i]);
        const char *name = json_string_value(found.value);
        if (found.value && !(name && (strcmp(name, "absolute") == 0 ||
                                      strcmp(name, c->static_positions ? "sinusoidal" : "learned") == 0)))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` is %s, which tfm does not run: only \"absolute\" positions are known, so take a "
                             "model that has those",
                             found.path, TYPES[i], TFM__VALUE_TEXT(found.value));
    }
    for (size_t i = 0; i < TFM__COUNT(OTHERS); i++) {
        const tfm__found found = tfm__network_key(from, OTHERS[i]);
        if (found.value && !json_is_false(found.value))
            return tfm__fail(TFM_ERROR_UNSUPPORTED,
                             "%s: `%s` asks for positions that tfm does not run: take a model with absolute positions",
                             found.path, OTHERS[i]);
    }
    return TFM_OK;
}

static tfm_status read_layout(config *out, const tfm__config_files *from) {
    const struct {
        const char *key;
        bool *value;
        bool fallback;
    } flags[] = {
        {"normalize_before", &out->normalize_before, false},
        {"normalize_embedding", &out->normalize_embedding, false},
        {"add_final_layer_norm", &out->add_final_layer_norm, false},
        {"static_position_embeddings", &out->static_positions, true},
        {"scale_embedding", &out->scale_embedding, false},
        {"share_encoder_decoder_embeddings", &out->share, true},
        {"tie_word_embeddings", &out->tie, true},
    };
    for (size_t i = 0; i < TFM__COUNT(flags); i++) {
        *flags[i].value = flags[i].fallback;
        tfm_status status = tfm__read_bool(flags[i].value, tfm__network_key(from, flags[i].key), flags[i].key);
        if (status != TFM_OK)
            return status;
    }
    const tfm_status positions = check_positions(out, from);
    if (positions != TFM_OK)
        return positions;
    /* Converted models have their padding's id + 1 here, which means nothing where positions are computed. */
    out->extra_positions = out->static_positions ? 0 : 2;
    return out->static_positions ? TFM_OK
                                 : tfm__read_int(&out->extra_positions, tfm__network_key(from, "extra_pos_embeddings"),
                                                 "extra_pos_embeddings", 0, 1024);
}

/* What both stacks have in common. */
static tfm__stack_arch stack_of(const config *c, int layers, int heads, int feed_forward, int vocabulary) {
    return (tfm__stack_arch){
        .layers = layers,
        .width = c->d_model,
        .heads = heads,
        .kv_heads = heads,
        .head_width = c->d_model / heads,
        .feed_forward = feed_forward,
        .activation = c->activation,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_place = c->normalize_before ? TFM_NORM_BEFORE : TFM_NORM_AFTER,
        .epsilon = 1e-5f, /* torch.nn.LayerNorm's own; the family has no key for it */
        .embedding_norm = c->normalize_embedding,
        .final_norm = c->add_final_layer_norm,
        .vocabulary = vocabulary,
        .embedding_scale = c->scale_embedding ? sqrtf((float)c->d_model) : 1,
        .positions = c->static_positions ? TFM__SINUSOIDS : TFM__LEARNED_POSITIONS,
        .sinusoids = TFM_SINUSOID_SPLIT,
        .max_positions = c->max_positions,
        .position_offset = c->extra_positions,
    };
}

static tfm_status read(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    static const tfm__id_defaults ids = {.pad = 58100, .eos = 0, .start = 58100};
    config c = {.activation = TFM_GELU};
    tfm_status status = read_layout(&c, from);
    if (status == TFM_OK)
        status = read_sizes(&c, from);
    if (status == TFM_OK)
        status = tfm__read_activation(&c.activation, from, "activation_function");
    if (status != TFM_OK)
        return status;
    arch->encoder = stack_of(&c, c.encoder_layers, c.encoder_heads, c.encoder_ffn, c.vocab_size);
    arch->decoder = stack_of(&c, c.decoder_layers, c.decoder_heads, c.decoder_ffn, c.decoder_vocab_size);
    arch->decoder.causal = arch->decoder.cross = true;
    arch->shared_tables = c.share;
    arch->tied_output = c.tie;
    return tfm__read_rules(rules, from, &ids, c.decoder_vocab_size,
                           c.vocab_size < c.decoder_vocab_size ? c.vocab_size : c.decoder_vocab_size);
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static json_t *write(const tfm__arch *arch, const tfm__rules *rules) {
    const tfm__stack_arch *e = &arch->encoder, *d = &arch->decoder;
    return json_pack(
        "{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, "
        "s:i, s:i, s:i, s:i}",
        "architectures", "MarianMTModel", "model_type", "marian", "activation_function",
        tfm__activation_name(e->activation), "d_model", e->width, "encoder_layers", e->layers, "decoder_layers",
        d->layers, "encoder_attention_heads", e->heads, "decoder_attention_heads", d->heads, "encoder_ffn_dim",
        e->feed_forward, "decoder_ffn_dim", d->feed_forward, "max_position_embeddings", e->max_positions, "vocab_size",
        e->vocabulary, "decoder_vocab_size", d->vocabulary, "scale_embedding", (int)(e->embedding_scale != 1),
        "static_position_embeddings", (int)(e->positions == TFM__SINUSOIDS), "normalize_before",
        (int)(e->norm_place == TFM_NORM_BEFORE), "normalize_embedding", (int)e->embedding_norm, "add_final_layer_norm",
        (int)e->final_norm, "share_encoder_decoder_embeddings", (int)arch->shared_tables, "tie_word_embeddings",
        (int)arch->tied_output, "is_encoder_decoder", 1, "pad_token_id", rules->pad_id, "eos_token_id", rules->eos_id,
        "decoder_start_token_id", rules->start_id, "extra_pos_embeddings", e->position_offset);
}

/* ---- Tokenizer ---------------------------------------------------------------------------------------- */

/* vocab.json is made with the model, so that its special ids are the configuration's. */
static tfm_status check_tokenizer(const tfm_tokenizer *tokenizer, const tfm__rules *rules, const char *dir) {
    const tfm_tokenizer_info text = *tfm_tokenizer_get_info(tokenizer);
    /* The configuration's is what pads. A vocabulary of its own may have the target's elsewhere. */
    if (text.source_pad >= 0 && text.source_pad != rules->pad_id)
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "%s: <pad> is id %d in vocab.json, pad_token_id in the configuration is %d: they are not of one "
            "model",
            dir, text.source_pad, rules->pad_id);
    if (text.source_eos != rules->eos_id || text.target_eos != rules->eos_id)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: </s> is id %d in %s, eos_token_id in the configuration is %d: they are not of one model",
                         dir, text.source_eos != rules->eos_id ? text.source_eos : text.target_eos,
                         text.source_eos != rules->eos_id ? "vocab.json" : "target_vocab.json", rules->eos_id);
    return TFM_OK;
}

/* ---- Names -------------------------------------------------------------------------------------------- */

/* Weight and bias of a matrix, gamma and beta of a norm. */
#define PAIR(stem)                                                                                                     \
    { stem ".weight", stem ".bias", false }
#define TABLE(stem)                                                                                                    \
    { stem ".weight", NULL, false }
#define BLOCK(stack, name) PAIR("model." stack ".layers.#." name)
#define STACK(stack)                                                                                                   \
    [TFM__EMBEDDING_NORM] = PAIR("model." stack ".layernorm_embedding"),                                               \
    [TFM__FINAL_NORM] = PAIR("model." stack ".layer_norm"),                                                            \
    [TFM__POSITIONS] = TABLE("model." stack ".embed_positions"), [TFM__SELF_QUERY] = BLOCK(stack, "self_attn.q_proj"), \
    [TFM__SELF_KEY] = BLOCK(stack, "self_attn.k_proj"), [TFM__SELF_VALUE] = BLOCK(stack, "self_attn.v_proj"),          \
    [TFM__SELF_OUT] = BLOCK(stack, "self_attn.out_proj"), [TFM__SELF_NORM] = BLOCK(stack, "self_attn_layer_norm"),     \
    [TFM__UP] = BLOCK(stack, "fc1"), [TFM__DOWN] = BLOCK(stack, "fc2"),                                                \
    [TFM__FEED_FORWARD_NORM] = BLOCK(stack, "final_layer_norm")

static const tfm__naming ENCODER[TFM__ROLES] = {STACK("encoder")};

static const tfm__naming DECODER[TFM__ROLES] = {
    STACK("decoder"),
    [TFM__CROSS_QUERY] = BLOCK("decoder", "encoder_attn.q_proj"),
    [TFM__CROSS_KEY] = BLOCK("decoder", "encoder_attn.k_proj"),
    [TFM__CROSS_VALUE] = BLOCK("decoder", "encoder_attn.v_proj"),
    [TFM__CROSS_OUT] = BLOCK("decoder", "encoder_attn.out_proj"),
    [TFM__CROSS_NORM] = BLOCK("decoder", "encoder_attn_layer_norm"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SHARED_TABLE] = TABLE("model.shared"),
    [TFM__SOURCE_TABLE] = TABLE("model.encoder.embed_tokens"),
    [TFM__TARGET_TABLE] = TABLE("model.decoder.embed_tokens"),
    [TFM__OUTPUT_TABLE] = TABLE("lm_head"),
    [TFM__OUTPUT_BIAS] = {NULL, "final_logits_bias", false},
};

const tfm__family tfm__family_marian = {
    .name = "marian",
    .types = (const char *const[]){"marian", NULL},
    .classes = (const char *const[]){"Marian", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .read = read,
    .write = write,
    .check_tokenizer = check_tokenizer,
    .common = COMMON,
    .encoder = ENCODER,
    .decoder = DECODER,
};
