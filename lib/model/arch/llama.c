/* LLaMA and similar families: Granite is LLaMA with four multipliers ("Granite 3.0 Language Models", IBM 2024), OLMo 2
 * has norms after the sub-layers and QK norms over all heads ("2 OLMo 2 Furious", OLMo team 2024). Keys and defaults
 * are those of their configurations in Hugging Face's transformers. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind llama = {.width = 4096,
                                        .feed_forward = 11008,
                                        .layers = 32,
                                        .heads = 32,
                                        .whole_heads = true,
                                        .max_positions = 2048,
                                        .vocabulary = 32000,
                                        .epsilon = 1e-6,
                                        .activation_key = "hidden_act",
                                        .activation = TFM_SILU,
                                        .attention_biases = "attention_bias",
                                        .mlp_biases = "mlp_bias",
                                        .theta = 10000};

/* transformers treats a Mistral configuration with `layer_types` as Ministral. */
static const tfm__decoder_kind mistral = {.width = 4096,
                                          .feed_forward = 14336,
                                          .layers = 32,
                                          .heads = 32,
                                          .kv_heads = 8,
                                          .max_positions = 131072,
                                          .vocabulary = 32000,
                                          .epsilon = 1e-6,
                                          .activation_key = "hidden_act",
                                          .activation = TFM_SILU,
                                          .windows = TFM__WINDOW_LISTED,
                                          .window = 4096,
                                          .theta = 10000};

static const tfm__decoder_kind qwen2 = {.width = 4096,
                                        .feed_forward = 22016,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 32,
                                        .max_positions = 32768,
                                        .vocabulary = 151936,
                                        .epsilon = 1e-6,
                                        .activation_key = "hidden_act",
                                        .activation = TFM_SILU,
                                        .input_biases = true,
                                        .windows = TFM__WINDOW_FROM_LAYER,
                                        .window = 4096,
                                        .theta = 10000};

static const tfm__decoder_kind qwen3 = {.width = 4096,
                                        .feed_forward = 22016,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 32,
                                        .head_width = 128,
                                        .max_positions = 32768,
                                        .vocabulary = 151936,
                                        .epsilon = 1e-6,
                                        .activation_key = "hidden_act",
                                        .activation = TFM_SILU,
                                        .attention_biases = "attention_bias",
                                        .head_norms = true,
                                        .windows = TFM__WINDOW_FROM_LAYER,
                                        .window = 4096,
                                        .theta = 10000};

static const tfm__decoder_kind smollm3 = {.width = 2048,
                                          .feed_forward = 11008,
                                          .layers = 36,
                                          .heads = 16,
                                          .kv_heads = 4,
                                          .max_positions = 32768,
                                          .vocabulary = 128256,
                                          .epsilon = 1e-6,
                                          .tied = true,
                                          .activation_key = "hidden_act",
                                          .activation = TFM_SILU,
                                          .attention_biases = "attention_bias",
                                          .mlp_biases = "mlp_bias",
                                          .windows = TFM__WINDOW_IF_NO_ROPE,
                                          .theta = 2000000};

static const tfm__decoder_kind phi3 = {.width = 3072,
                                       .feed_forward = 8192,
                                       .layers = 32,
                                       .heads = 32,
                                       .max_positions = 4096,
                                       .vocabulary = 32064,
                                       .epsilon = 1e-5,
                                       .activation_key = "hidden_act",
                                       .activation = TFM_SILU,
                                       .windows = TFM__WINDOW_EVERYWHERE,
                                       .theta = 10000,
                                       .partial = 1,
                                       .rounded = true,
                                       .longrope_only = true,
                                       .original = 4096};

static const tfm__decoder_kind granite = {.width = 4096,
                                          .feed_forward = 11008,
                                          .layers = 32,
                                          .heads = 32,
                                          .max_positions = 2048,
                                          .vocabulary = 32000,
                                          .epsilon = 1e-6,
                                          .activation_key = "hidden_act",
                                          .activation = TFM_SILU,
                                          .attention_biases = "attention_bias",
                                          .mlp_biases = "mlp_bias",
                                          .multipliers = true,
                                          .theta = 10000};

static const tfm__decoder_kind olmo2 = {.width = 4096,
                                        .feed_forward = 11008,
                                        .layers = 32,
                                        .heads = 32,
                                        .max_positions = 2048,
                                        .vocabulary = 50304,
                                        .epsilon = 1e-5,
                                        .activation_key = "hidden_act",
                                        .activation = TFM_SILU,
                                        .attention_biases = "attention_bias",
                                        .head_norms = true,
                                        .joint_head_norms = true,
                                        .post_sublayer_norm = true,
                                        .theta = 10000};

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_EMBEDDINGS};

static const tfm__naming NAMES[TFM__ROLES] = {
    TFM__DECODER_NAMES,
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

/* Fused matrices: QKV; gate and up. */
static const tfm__naming PHI3_NAMES[TFM__ROLES] = {
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false},
    [TFM__SELF_QUERY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.qkv_proj"),
    [TFM__SELF_KEY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.qkv_proj"),
    [TFM__SELF_VALUE] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.qkv_proj"),
    [TFM__SELF_OUT] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.o_proj"),
    [TFM__SELF_NORM] = TFM__DECODER_NORM("input_layernorm"),
    [TFM__GATE] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.gate_up_proj"),
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.gate_up_proj"),
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.down_proj"),
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

/* Norms follow the sub-layers. */
static const tfm__naming OLMO2[TFM__ROLES] = {
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false},
    [TFM__SELF_QUERY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.q_proj"),
    [TFM__SELF_KEY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.k_proj"),
    [TFM__SELF_VALUE] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.v_proj"),
    [TFM__SELF_OUT] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.o_proj"),
    [TFM__SELF_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_NORM("self_attn.q_norm"),
    [TFM__SELF_KEY_NORM] = TFM__DECODER_NORM("self_attn.k_norm"),
    [TFM__GATE] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.gate_proj"),
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.up_proj"),
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.down_proj"),
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_feedforward_layernorm"),
};

TFM__DECODER_FAMILY(llama, "Llama", llama, TABLES, NAMES);
TFM__DECODER_FAMILY(mistral, "Mistral", mistral, TABLES, NAMES);
TFM__DECODER_FAMILY(ministral, "Ministral", mistral, TABLES, NAMES);
TFM__DECODER_FAMILY(qwen2, "Qwen2", qwen2, TABLES, NAMES);
TFM__DECODER_FAMILY(qwen3, "Qwen3", qwen3, TABLES, NAMES);
TFM__DECODER_FAMILY(smollm3, "SmolLM3", smollm3, TABLES, NAMES);
TFM__DECODER_FAMILY(phi3, "Phi3", phi3, TABLES, PHI3_NAMES);
TFM__DECODER_FAMILY(granite, "Granite", granite, TABLES, NAMES);
TFM__DECODER_FAMILY(olmo2, "Olmo2", olmo2, TABLES, OLMO2);
