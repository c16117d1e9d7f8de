/* Phi 1, 1.5 and 2 ("Textbooks Are All You Need II", Li et al. 2023): parallel sub-layers after one norm, partial RoPE,
 * and biases everywhere, including the output projection. Keys and defaults are those of PhiConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind phi = {.width = 2048,
                                      .feed_forward = 8192,
                                      .layers = 24,
                                      .heads = 32,
                                      .max_positions = 2048,
                                      .vocabulary = 51200,
                                      .epsilon = 1e-5,
                                      .epsilon_key = "layer_norm_eps",
                                      .layer_norms = true,
                                      .activation_key = "hidden_act",
                                      .activation = TFM_GELU_TANH,
                                      .ungated = true,
                                      .biased = true,
                                      .head_norms_key = "qk_layernorm",
                                      .parallel = true,
                                      .parallel_norm = true,
                                      .theta = 10000,
                                      .partial = 0.5};

static const tfm__naming COMMON[TFM__ROLES] = {
    TFM__DECODER_EMBEDDINGS,
    [TFM__OUTPUT_BIAS] = {NULL, "lm_head.bias", false},
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = {"model.final_layernorm.weight", "model.final_layernorm.bias", false},
    [TFM__SELF_QUERY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.q_proj"),
    [TFM__SELF_KEY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.k_proj"),
    [TFM__SELF_VALUE] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.v_proj"),
    [TFM__SELF_OUT] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.dense"),
    [TFM__SELF_NORM] = TFM__DECODER_WEIGHT_AND_BIAS("input_layernorm"),
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.q_layernorm"),
    [TFM__SELF_KEY_NORM] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.k_layernorm"),
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.fc1"),
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.fc2"),
};

TFM__DECODER_FAMILY(phi, "Phi", phi, COMMON, DECODER);
