/* LLaMA and the families that are built like it, in the layouts of Hugging Face's transformers: what each has of its
 * own, and the names of its tensors. */
#include "model/family/decoder.h"

static const tfm__decoder_kind llama = {.type = "llama",
                                        .class_name = "Llama",
                                        .width = 4096,
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

/* Of either name: a Mistral whose configuration has `layer_types` is a Ministral to transformers. */
#define MISTRAL(name, class)                                                                                           \
    {                                                                                                                  \
        .type = name, .class_name = class, .width = 4096, .feed_forward = 14336, .layers = 32, .heads = 32,            \
        .kv_heads = 8, .max_positions = 131072, .vocabulary = 32000, .epsilon = 1e-6, .activation_key = "hidden_act",  \
        .activation = TFM_SILU, .windows = TFM__WINDOW_LISTED, .window = 4096, .theta = 10000                          \
    }

static const tfm__decoder_kind mistral = MISTRAL("mistral", "Mistral");
static const tfm__decoder_kind ministral = MISTRAL("ministral", "Ministral");

static const tfm__decoder_kind qwen2 = {.type = "qwen2",
                                        .class_name = "Qwen2",
                                        .width = 4096,
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

static const tfm__decoder_kind qwen3 = {.type = "qwen3",
                                        .class_name = "Qwen3",
                                        .width = 4096,
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

static const tfm__decoder_kind smollm3 = {.type = "smollm3",
                                          .class_name = "SmolLM3",
                                          .width = 2048,
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
                                          .windows = TFM__WINDOW_IF_UNTURNED,
                                          .theta = 2000000};

static const tfm__decoder_kind phi3 = {.type = "phi3",
                                       .class_name = "Phi3",
                                       .width = 3072,
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
                                       .long_only = true,
                                       .original = 4096};

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_TABLES};

static const tfm__naming NAMES[TFM__ROLES] = {
    TFM__DECODER_NAMES,
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

/* Its matrices are stored together: queries, keys and values; gate and the other half. */
static const tfm__naming PHI3_NAMES[TFM__ROLES] = {
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false},
    [TFM__SELF_QUERY] = TFM__DECODER_PAIR("self_attn.qkv_proj"),
    [TFM__SELF_KEY] = TFM__DECODER_PAIR("self_attn.qkv_proj"),
    [TFM__SELF_VALUE] = TFM__DECODER_PAIR("self_attn.qkv_proj"),
    [TFM__SELF_OUT] = TFM__DECODER_PAIR("self_attn.o_proj"),
    [TFM__SELF_NORM] = TFM__DECODER_NORM("input_layernorm"),
    [TFM__GATE] = TFM__DECODER_PAIR("mlp.gate_up_proj"),
    [TFM__UP] = TFM__DECODER_PAIR("mlp.gate_up_proj"),
    [TFM__DOWN] = TFM__DECODER_PAIR("mlp.down_proj"),
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

TFM__DECODER_FAMILY(llama, "Llama", TABLES, NAMES);
TFM__DECODER_FAMILY(mistral, "Mistral", TABLES, NAMES);
TFM__DECODER_FAMILY(ministral, "Ministral", TABLES, NAMES);
TFM__DECODER_FAMILY(qwen2, "Qwen2", TABLES, NAMES);
TFM__DECODER_FAMILY(qwen3, "Qwen3", TABLES, NAMES);
TFM__DECODER_FAMILY(smollm3, "SmolLM3", TABLES, NAMES);
TFM__DECODER_FAMILY(phi3, "Phi3", TABLES, PHI3_NAMES);
