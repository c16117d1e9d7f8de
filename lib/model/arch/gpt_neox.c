/* GPT-NeoX and Pythia ("GPT-NeoX-20B", Black et al. 2022): layer norms, parallel sub-layers, partial RoPE, and fused
 * QKV tensors, interleaved by head. Keys and defaults are those of GPTNeoXConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind KIND = {.width = 6144,
                                       .feed_forward = 24576,
                                       .layers = 44,
                                       .heads = 64,
                                       .whole_heads = true,
                                       .no_head_width = true,
                                       .kv_heads_key = "",
                                       .max_positions = 2048,
                                       .vocabulary = 50432,
                                       .epsilon = 1e-5,
                                       .epsilon_key = "layer_norm_eps",
                                       .layer_norms = true,
                                       .activation_key = "hidden_act",
                                       .activation = TFM_GELU,
                                       .ungated = true,
                                       .biased = true,
                                       .attention_biases = "attention_bias",
                                       .parallel = true,
                                       .parallel_key = "use_parallel_residual",
                                       .theta = 10000,
                                       .theta_key = "rotary_emb_base",
                                       .partial = 0.25,
                                       .rounded = true,
                                       .partial_key = "rotary_pct"};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = {"gpt_neox.embed_in.weight", NULL, false},
    [TFM__OUTPUT_PROJECTION] = {"embed_out.weight", NULL, false},
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("gpt_neox.final_layer_norm"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.attention.query_key_value"),
    [TFM__SELF_KEY] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.attention.query_key_value"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.attention.query_key_value"),
    [TFM__SELF_OUT] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.attention.dense"),
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.input_layernorm"),
    [TFM__UP] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.mlp.dense_h_to_4h"),
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.mlp.dense_4h_to_h"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_AND_BIAS("gpt_neox.layers.#.post_attention_layernorm"),
};

const tfm__family tfm__family_gpt_neox = {
    .name = "gpt_neox",
    .types = (const char *const[]){"gpt_neox", NULL},
    .classes = (const char *const[]){"GPTNeoX", NULL},
    .prefixes = (const char *const[]){"gpt_neox.", NULL},
    .ignored = (const char *const[]){".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq", NULL},
    .legacy_names = (const char *const[]){"embed_out.weight", "lm_head.weight", NULL},
    .qkv_groups = TFM__QKV_BY_HEAD,
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = DECODER,
};
