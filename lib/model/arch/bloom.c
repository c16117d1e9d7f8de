/* BLOOM ("BLOOM: A 176B-Parameter Open-Access Multilingual Language Model", BigScience 2022): GPT-2 with ALiBi, a norm
 * over the embedding, and fused QKV tensors, interleaved by head. Keys and defaults are those of BloomConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind KIND = {.width_key = "n_embed",
                                       .feed_forward_key = "",
                                       .layers_key = "n_layer",
                                       .heads_key = "n_head",
                                       .kv_heads_key = "",
                                       .positions_key = "seq_length",
                                       .width = 64,
                                       .layers = 2,
                                       .heads = 8,
                                       .whole_heads = true,
                                       .no_head_width = true,
                                       .max_positions = 2048,
                                       .vocabulary = 250880,
                                       .epsilon = 1e-5,
                                       .epsilon_key = "layer_norm_epsilon",
                                       .layer_norms = true,
                                       .embedding_norm = true,
                                       .tied = true,
                                       .activation = TFM_GELU_TANH,
                                       .ungated = true,
                                       .biased = true,
                                       .alibi = true,
                                       .refused =
                                           (const char *const[]){"apply_residual_connection_post_layernorm", NULL}};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("transformer.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("transformer.word_embeddings_layernorm"),
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("transformer.ln_f"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_KEY] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_OUT] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.dense"),
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.input_layernorm"),
    [TFM__UP] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.dense_h_to_4h"),
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.dense_4h_to_h"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.post_attention_layernorm"),
};

const tfm__family tfm__family_bloom = {
    .name = "bloom",
    .types = (const char *const[]){"bloom", NULL},
    .classes = (const char *const[]){"Bloom", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    .qkv_groups = TFM__QKV_BY_HEAD,
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = DECODER,
};
