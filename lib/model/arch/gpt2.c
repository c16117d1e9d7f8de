/* GPT-2 in the layout of Hugging Face's GPT2LMHeadModel: config.json and tensor names. Keys and defaults are those of
 * GPT2Config. */
#include "model/arch/config_keys.h"

/* ---- Reading ------------------------------------------------------------------------------------------ */

static tfm_status read_sizes(tfm__stack_arch *s, const tfm__config_files *from) {
    const tfm__int_key sizes[] = {
        {"n_embd", &s->width, TFM__MAX_WIDTH},
        {"n_layer", &s->layers, TFM__MAX_LAYERS},
        {"n_head", &s->heads, 1024},
        {"n_positions", &s->max_positions, TFM__MAX_WIDTH},
        {"vocab_size", &s->vocabulary, TFM__MAX_VOCABULARY},
        /* the common names, which win if a file has both, as in transformers */
        {"hidden_size", &s->width, TFM__MAX_WIDTH},
        {"num_hidden_layers", &s->layers, TFM__MAX_LAYERS},
        {"num_attention_heads", &s->heads, 1024},
        {"max_position_embeddings", &s->max_positions, TFM__MAX_WIDTH},
    };
    const tfm_status status = tfm__read_ints(from, sizes, TFM__COUNT(sizes));
    if (status != TFM_OK)
        return status;
    if (s->width % s->heads != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `n_head` is %d; it must divide `n_embd`, which is %d",
                         from->config_path, s->heads, s->width);
    s->kv_heads = s->heads;
    s->head_width = s->width / s->heads;
    s->feed_forward = 4 * s->width;
    return tfm__read_int(&s->feed_forward, tfm__network_key(from, "n_inner"), "n_inner", 1, 4 * TFM__MAX_WIDTH);
}

static tfm_status read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const char *const others[] = {"add_cross_attention", NULL};
    tfm__stack_arch *s = &arch->decoder;
    *s = (tfm__stack_arch){.layers = 12,
                           .width = 768,
                           .heads = 12,
                           .activation = TFM_GELU_TANH,
                           .input_biases = true,
                           .output_biases = true,
                           .feed_forward_biases = true,
                           .causal = true,
                           .norm = TFM_NORM_LAYER,
                           .norm_placement = TFM_NORM_PRE,
                           .norm_biases = true,
                           .final_norm = true,
                           .vocabulary = 50257,
                           .embedding_scale = 1,
                           .positions = TFM__LEARNED_POSITIONS,
                           .max_positions = 1024};
    bool scaled = true;
    double epsilon = 1e-5;
    arch->tied_embeddings = true;
    const tfm__bool_key flags[] = {
        {"scale_attn_weights", &scaled},
        {"scale_attn_by_inverse_layer_idx", &s->scale_by_inverse_layer},
        {"tie_word_embeddings", &arch->tied_embeddings},
    };
    tfm_status status = tfm__refuse_keys(from, others);
    if (status == TFM_OK)
        status = read_sizes(s, from);
    if (status == TFM_OK)
        status = tfm__read_bools(from, flags, TFM__COUNT(flags));
    if (status == TFM_OK)
        status = tfm__check_attention_span(from, false, s->max_positions);
    if (status == TFM_OK)
        status = tfm__read_activation(&s->activation, from, "activation_function");
    if (status == TFM_OK)
        status = tfm__read_number(&epsilon, tfm__network_key(from, "layer_norm_epsilon"), "layer_norm_epsilon", 0, 1);
    if (status == TFM_OK)
        status = tfm__read_head(&arch->headless, from, "LMHeadModel", arch->tied_embeddings);
    s->epsilon = (float)epsilon;
    s->score_scale = scaled ? 0 : 1;
    return status != TFM_OK ? status : tfm__read_decoder_only_rules(rules, from, s->vocabulary);
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static json_t *write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *s = &arch->decoder;
    json_t *out = json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:b, s:b}", "architectures",
                            arch->headless ? "GPT2Model" : "GPT2LMHeadModel", "model_type", family->name,
                            "activation_function", tfm__activation_name(s->activation), "n_embd", s->width, "n_layer",
                            s->layers, "n_head", s->heads, "n_inner", s->feed_forward, "n_positions", s->max_positions,
                            "vocab_size", s->vocabulary, "layer_norm_epsilon", tfm__short_number(s->epsilon),
                            "scale_attn_weights", (int)(s->score_scale == 0), "scale_attn_by_inverse_layer_idx",
                            (int)s->scale_by_inverse_layer, "tie_word_embeddings", (int)arch->tied_embeddings);
    if (out && !tfm__write_decoder_only_ids(out, rules)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* ---- New models --------------------------------------------------------------------------------------- */

static json_t *describe(const tfm__family *family, const tfm_model_shape *s) {
    json_t *out = json_pack("{s:s, s:s?, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type", family->name,
                            "activation_function", s->activation ? tfm__activation_name(s->activation) : NULL, "n_embd",
                            s->width, "n_layer", s->decoder_layers, "n_head", s->heads, "n_inner", s->ffn_dim,
                            "n_positions", s->max_positions, "vocab_size", s->source_vocab_size);
    if (out && !tfm__write_shape_ids(out, s)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* ---- Names -------------------------------------------------------------------------------------------- */

/* Matrices are stored (inputs, outputs): the checkpoints' "Conv1D". */
#define MATRIX(name)                                                                                                   \
    { "transformer.h.#." name ".weight", "transformer.h.#." name ".bias", true }
#define NORM(stem)                                                                                                     \
    { "transformer." stem ".weight", "transformer." stem ".bias", false }

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__POSITIONS] = {"transformer.wpe.weight", NULL, false},
    [TFM__FINAL_NORM] = NORM("ln_f"),
    [TFM__SELF_QUERY] = MATRIX("attn.c_attn"),
    [TFM__SELF_KEY] = MATRIX("attn.c_attn"),
    [TFM__SELF_VALUE] = MATRIX("attn.c_attn"),
    [TFM__SELF_OUT] = MATRIX("attn.c_proj"),
    [TFM__SELF_NORM] = NORM("h.#.ln_1"),
    [TFM__UP] = MATRIX("mlp.c_fc"),
    [TFM__DOWN] = MATRIX("mlp.c_proj"),
    [TFM__FEED_FORWARD_NORM] = NORM("h.#.ln_2"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = {"transformer.wte.weight", NULL, false},
    [TFM__OUTPUT_PROJECTION] = {"lm_head.weight", NULL, false},
};

const tfm__family tfm__family_gpt2 = {
    .name = "gpt2",
    .types = (const char *const[]){"gpt2", NULL},
    .classes = (const char *const[]){"GPT2", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    .ignored = (const char *const[]){".attn.bias", ".attn.masked_bias", NULL}, /* causal masks */
    .read = read,
    .write = write,
    .describe = describe,
    .common = COMMON,
    .decoder = DECODER,
};
