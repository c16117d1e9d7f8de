/* StarCoder 2 ("StarCoder 2 and The Stack v2", Lozhkov et al. 2024) and StableLM ("Stable LM 2 1.6B", Bellagente et al.
 * 2024): LLaMA with layer norms; StarCoder 2 has biases and no gates, StableLM has partial RoPE. Keys and defaults are
 * those of Starcoder2Config and StableLmConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind starcoder2 = {.width = 3072,
                                             .feed_forward = 12288,
                                             .layers = 30,
                                             .heads = 24,
                                             .kv_heads = 2,
                                             .max_positions = 4096,
                                             .vocabulary = 49152,
                                             .epsilon = 1e-5,
                                             .epsilon_key = "norm_epsilon",
                                             .layer_norms = true,
                                             .tied = true,
                                             .activation_key = "hidden_act",
                                             .activation = TFM_GELU_TANH,
                                             .ungated = true,
                                             .biased = true,
                                             .attention_biases = "use_bias",
                                             .mlp_biases = "use_bias",
                                             .windows = TFM__WINDOW_EVERYWHERE,
                                             .theta = 10000};

static const tfm__decoder_kind stablelm = {.width = 2560,
                                           .feed_forward = 6912,
                                           .layers = 32,
                                           .heads = 32,
                                           .kv_heads = 32,
                                           .whole_heads = true,
                                           .max_positions = 4096,
                                           .vocabulary = 50304,
                                           .epsilon = 1e-5,
                                           .epsilon_key = "layer_norm_eps",
                                           .layer_norms = true,
                                           .activation_key = "hidden_act",
                                           .activation = TFM_SILU,
                                           .input_bias_key = "use_qkv_bias",
                                           .head_norms_key = "qk_layernorm",
                                           .own_head_norms = true,
                                           .parallel_key = "use_parallel_residual",
                                           .parallel_norm = true,
                                           .theta = 10000,
                                           .partial = 0.25};

#define COMMON_NAMES                                                                                                   \
    [TFM__FINAL_NORM] = {"model.norm.weight", "model.norm.bias", false},                                               \
    [TFM__SELF_QUERY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.q_proj"),                                              \
    [TFM__SELF_KEY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.k_proj"),                                                \
    [TFM__SELF_VALUE] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.v_proj"),                                              \
    [TFM__SELF_OUT] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.o_proj"),                                                \
    [TFM__SELF_NORM] = TFM__DECODER_WEIGHT_AND_BIAS("input_layernorm"),                                                \
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_WEIGHT_AND_BIAS("post_attention_layernorm")

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_EMBEDDINGS};

static const tfm__naming STARCODER2[TFM__ROLES] = {
    COMMON_NAMES,
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.c_fc"),
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.c_proj"),
};

static const tfm__naming STABLELM[TFM__ROLES] = {
    COMMON_NAMES,
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_NORM("self_attn.q_layernorm.norms.#"),
    [TFM__SELF_KEY_NORM] = TFM__DECODER_NORM("self_attn.k_layernorm.norms.#"),
    [TFM__GATE] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.gate_proj"),
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.up_proj"),
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.down_proj"),
};

TFM__DECODER_FAMILY(starcoder2, "Starcoder2", starcoder2, TABLES, STARCODER2);
TFM__DECODER_FAMILY(stablelm, "StableLm", stablelm, TABLES, STABLELM);
