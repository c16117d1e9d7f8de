/* OPT in the layout of Hugging Face's OPTForCausalLM. Keys and defaults are those of OPTConfig. */
#include "model/arch/config_keys.h"

static tfm_status read_sizes(tfm__stack_arch *s, const tfm__config_files *from) {
    const tfm__int_key sizes[] = {
        {"hidden_size", &s->width, TFM__MAX_WIDTH},
        {"num_hidden_layers", &s->layers, TFM__MAX_LAYERS},
        {"num_attention_heads", &s->heads, 1024},
        {"ffn_dim", &s->feed_forward, TFM__MAX_WIDTH},
        {"max_position_embeddings", &s->max_positions, TFM__MAX_WIDTH},
        {"vocab_size", &s->vocabulary, TFM__MAX_VOCABULARY},
    };
    tfm_status status = tfm__read_ints(from, sizes, TFM__COUNT(sizes));
    int embedded = s->width;
    if (status == TFM_OK)
        status = tfm__read_int(&embedded, tfm__network_key(from, "word_embed_proj_dim"), "word_embed_proj_dim", 1,
                               TFM__MAX_WIDTH);
    s->projected = embedded != s->width;
    s->narrow_width = s->projected ? embedded : 0;
    if (status == TFM_OK && s->width % s->heads != 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `num_attention_heads` is %d; it must divide `hidden_size`, %d",
                         from->config_path, s->heads, s->width);
    s->kv_heads = s->heads;
    s->head_width = s->width / s->heads;
    return status;
}

static tfm_status read(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    *s = (tfm__stack_arch){.layers = 12,
                           .width = 768,
                           .heads = 12,
                           .feed_forward = 3072,
                           .activation = TFM_RELU,
                           .causal = true,
                           .norm = TFM_NORM_LAYER,
                           .epsilon = 1e-5f, /* torch.nn.LayerNorm's default; there is no key */
                           .norm_biases = true,
                           .vocabulary = 50272,
                           .embedding_scale = 1,
                           .positions = TFM__LEARNED_POSITIONS,
                           .position_offset = 2,
                           .max_positions = 2048};
    bool before = true, no_final_norm = false, biases = true, affine = true;
    arch->tied_embeddings = true;
    const tfm__bool_key flags[] = {
        {"do_layer_norm_before", &before},
        {"_remove_final_layer_norm", &no_final_norm},
        {"enable_bias", &biases},
        {"layer_norm_elementwise_affine", &affine},
        {"tie_word_embeddings", &arch->tied_embeddings},
    };
    tfm_status status = read_sizes(s, from);
    if (status == TFM_OK)
        status = tfm__read_bools(from, flags, TFM__COUNT(flags));
    if (status == TFM_OK)
        status = tfm__check_attention_span(from, false, s->max_positions);
    if (status == TFM_OK)
        status = tfm__read_activation(&s->activation, from, "activation_function");
    if (status == TFM_OK)
        status = tfm__read_head(&arch->headless, from, "ForCausalLM", arch->tied_embeddings);
    s->norm_placement = before ? TFM_NORM_PRE : TFM_NORM_POST;
    s->final_norm = before && !no_final_norm;
    s->plain_norms = !affine;
    s->input_biases = s->output_biases = s->feed_forward_biases = biases;
    return status != TFM_OK ? status : tfm__read_decoder_only_rules(rules, from, s->vocabulary);
}

static json_t *write(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *s = &arch->decoder;
    const bool before = s->norm_placement == TFM_NORM_PRE;
    json_t *out =
        json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b}", "architectures",
                  arch->headless ? "OPTModel" : "OPTForCausalLM", "model_type", family->name, "activation_function",
                  tfm__activation_name(s->activation), "hidden_size", s->width, "word_embed_proj_dim",
                  tfm__stack_embedding_width(s), "num_hidden_layers", s->layers, "num_attention_heads", s->heads,
                  "ffn_dim", s->feed_forward, "max_position_embeddings", s->max_positions, "vocab_size", s->vocabulary,
                  "do_layer_norm_before", (int)before, "_remove_final_layer_norm", (int)(before && !s->final_norm),
                  "enable_bias", (int)s->input_biases, "layer_norm_elementwise_affine", (int)!s->plain_norms,
                  "tie_word_embeddings", (int)arch->tied_embeddings);
    if (out && !tfm__write_decoder_only_ids(out, rules)) {
        json_decref(out);
        out = NULL;
    }
    return out;
}

#define PAIR(stem)                                                                                                     \
    { "model.decoder." stem ".weight", "model.decoder." stem ".bias", false }

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__POSITIONS] = {"model.decoder.embed_positions.weight", NULL, false},
    [TFM__EMBEDDING_DENSE] = {"model.decoder.project_in.weight", NULL, false},
    [TFM__FINAL_NORM] = PAIR("final_layer_norm"),
    [TFM__OUTPUT_DENSE] = {"model.decoder.project_out.weight", NULL, false},
    [TFM__SELF_QUERY] = PAIR("layers.#.self_attn.q_proj"),
    [TFM__SELF_KEY] = PAIR("layers.#.self_attn.k_proj"),
    [TFM__SELF_VALUE] = PAIR("layers.#.self_attn.v_proj"),
    [TFM__SELF_OUT] = PAIR("layers.#.self_attn.out_proj"),
    [TFM__SELF_NORM] = PAIR("layers.#.self_attn_layer_norm"),
    [TFM__UP] = PAIR("layers.#.fc1"),
    [TFM__DOWN] = PAIR("layers.#.fc2"),
    [TFM__FEED_FORWARD_NORM] = PAIR("layers.#.final_layer_norm"),
};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = {"model.decoder.embed_tokens.weight", NULL, false},
    [TFM__OUTPUT_PROJECTION] = {"lm_head.weight", NULL, false},
};

const tfm__family tfm__family_opt = {
    .name = "opt",
    .types = (const char *const[]){"opt", NULL},
    .classes = (const char *const[]){"OPT", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .read = read,
    .write = write,
    .common = COMMON,
    .decoder = DECODER,
};
