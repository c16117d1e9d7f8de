/* Keys and names shared by Marian, BART and M2M-100. */
#include "model/arch/seq2seq.h"
#include <math.h>
#include <string.h>

/* ---- Reading ---- */

tfm_status tfm__seq2seq_check_class(const tfm__config_files *from) {
    const tfm__config_value found = tfm__network_key(from, "architectures");
    const char *name = json_string_value(json_array_get(found.value, 0));
    const char *purpose = name ? strstr(name, "For") : NULL, *part = name ? strstr(name, "coderModel") : NULL;
    if (!part && (!purpose || strcmp(purpose, "ForConditionalGeneration") == 0))
        return TFM_OK;
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s: `architectures` has \"%.100s\", which is not an encoder-decoder with a head: supported are "
                     "classes of this type that end in \"ForConditionalGeneration\", \"MTModel\" or \"Model\"",
                     found.path, name);
}

static tfm_status check_heads(const tfm__seq2seq *c, const tfm__config_files *from) {
    for (int side = 0; side < 2; side++) {
        const int heads = side ? c->decoder_heads : c->encoder_heads;
        if (c->d_model % heads != 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %d; it must divide `d_model`, which is %d",
                             from->config_path, side ? "decoder_attention_heads" : "encoder_attention_heads", heads,
                             c->d_model);
    }
    return TFM_OK;
}

tfm_status tfm__seq2seq_read(tfm__seq2seq *c, const tfm__config_files *from) {
    const struct {
        const char *key;
        int *value, high;
    } sizes[] = {
        {"d_model", &c->d_model, TFM__MAX_WIDTH},
        {"hidden_size", &c->d_model, TFM__MAX_WIDTH}, /* the common names come last, as in transformers */
        {"encoder_layers", &c->encoder_layers, TFM__MAX_LAYERS},
        {"num_hidden_layers", &c->encoder_layers, TFM__MAX_LAYERS},
        {"decoder_layers", &c->decoder_layers, TFM__MAX_LAYERS},
        {"encoder_attention_heads", &c->encoder_heads, 1024},
        {"num_attention_heads", &c->encoder_heads, 1024},
        {"decoder_attention_heads", &c->decoder_heads, 1024},
        {"encoder_ffn_dim", &c->encoder_ffn, TFM__MAX_WIDTH},
        {"decoder_ffn_dim", &c->decoder_ffn, TFM__MAX_WIDTH},
        {"vocab_size", &c->vocab_size, TFM__MAX_VOCABULARY},
        {"max_position_embeddings", &c->max_positions, TFM__MAX_WIDTH},
    };
    const struct {
        const char *key;
        bool *value;
    } flags[] = {{"scale_embedding", &c->scale_embedding}, {"tie_word_embeddings", &c->tie}};
    tfm_status status = tfm__seq2seq_check_class(from);
    for (size_t i = 0; i < TFM__COUNT(sizes) && status == TFM_OK; i++)
        status = tfm__read_int(sizes[i].value, tfm__network_key(from, sizes[i].key), sizes[i].key, 1, sizes[i].high);
    for (size_t i = 0; i < TFM__COUNT(flags) && status == TFM_OK; i++)
        status = tfm__read_bool(flags[i].value, tfm__network_key(from, flags[i].key), flags[i].key);
    if (status == TFM_OK)
        status = tfm__check_attention_span(from, false, c->max_positions);
    if (status == TFM_OK)
        status = tfm__read_activation(&c->activation, from, "activation_function");
    return status == TFM_OK ? check_heads(c, from) : status;
}

tfm__stack_arch tfm__seq2seq_stack(const tfm__seq2seq *c, bool decoder) {
    const int heads = decoder ? c->decoder_heads : c->encoder_heads;
    return (tfm__stack_arch){
        .layers = decoder ? c->decoder_layers : c->encoder_layers,
        .width = c->d_model,
        .heads = heads,
        .kv_heads = heads,
        .head_width = c->d_model / heads,
        .feed_forward = decoder ? c->decoder_ffn : c->encoder_ffn,
        .activation = c->activation,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .causal = decoder,
        .cross = decoder,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_placement = TFM_NORM_POST,
        .epsilon = 1e-5f, /* torch.nn.LayerNorm's default; these families have no key for it */
        .vocabulary = c->vocab_size,
        .embedding_scale = c->scale_embedding ? sqrtf((float)c->d_model) : 1,
        .max_positions = c->max_positions,
    };
}

/* ---- Writing ---- */

json_t *tfm__seq2seq_write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *e = &arch->encoder, *d = &arch->decoder;
    return json_pack(
        "{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:i, s:i, s:i}", "architectures",
        family->classes[0], "model_type", family->name, "activation_function", tfm__activation_name(e->activation),
        "d_model", e->width, "encoder_layers", e->layers, "decoder_layers", d->layers, "encoder_attention_heads",
        e->heads, "decoder_attention_heads", d->heads, "encoder_ffn_dim", e->feed_forward, "decoder_ffn_dim",
        d->feed_forward, "max_position_embeddings", e->max_positions, "vocab_size", e->vocabulary, "scale_embedding",
        (int)(e->embedding_scale != 1), "tie_word_embeddings", (int)arch->tied_embeddings, "is_encoder_decoder", 1,
        "pad_token_id", rules->pad_id, "eos_token_id", rules->eos_id, "decoder_start_token_id", rules->start_id);
}

/* ---- Names ---- */

const tfm__naming tfm__seq2seq_encoder[TFM__ROLES] = {TFM__SEQ2SEQ_STACK("encoder")};

const tfm__naming tfm__seq2seq_decoder[TFM__ROLES] = {
    TFM__SEQ2SEQ_STACK("decoder"),
    [TFM__CROSS_QUERY] = TFM__SEQ2SEQ_BLOCK("decoder", "encoder_attn.q_proj"),
    [TFM__CROSS_KEY] = TFM__SEQ2SEQ_BLOCK("decoder", "encoder_attn.k_proj"),
    [TFM__CROSS_VALUE] = TFM__SEQ2SEQ_BLOCK("decoder", "encoder_attn.v_proj"),
    [TFM__CROSS_OUT] = TFM__SEQ2SEQ_BLOCK("decoder", "encoder_attn.out_proj"),
    [TFM__CROSS_NORM] = TFM__SEQ2SEQ_BLOCK("decoder", "encoder_attn_layer_norm"),
};

const tfm__naming tfm__seq2seq_common[TFM__ROLES] = {
    [TFM__SHARED_EMBEDDING] = TFM__WEIGHT_ONLY("model.shared"),
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("model.encoder.embed_tokens"),
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("model.decoder.embed_tokens"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
    [TFM__OUTPUT_BIAS] = {.bias = "final_logits_bias"},
};

const char *const tfm__seq2seq_prefixes[] = {"model.", NULL};
const char *const tfm__seq2seq_ignored[] = {"embed_positions.weights", NULL};
