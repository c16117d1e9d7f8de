/* GPT-J ("GPT-J-6B", Wang and Komatsuzaki 2021): parallel sub-layers after one norm, and interleaved RoPE; and CodeGen
 * ("CodeGen: An Open Large Language Model for Code", Nijkamp et al. 2022): GPT-J with a fused QKV tensor, stored as the
 * four parts of its training, each with queries, values and keys. Keys and defaults are those of GPTJConfig and
 * CodeGenConfig. */
#include "model/arch/decoder.h"

static const tfm__decoder_kind KIND = {.width_key = "n_embd",
                                       .feed_forward_key = "n_inner",
                                       .layers_key = "n_layer",
                                       .heads_key = "n_head",
                                       .kv_heads_key = "",
                                       .positions_key = "n_positions",
                                       .width = 4096,
                                       .layers = 28,
                                       .heads = 16,
                                       .whole_heads = true,
                                       .no_head_width = true,
                                       .max_positions = 2048,
                                       .vocabulary = 50400,
                                       .epsilon = 1e-5,
                                       .epsilon_key = "layer_norm_epsilon",
                                       .layer_norms = true,
                                       .activation_key = "activation_function",
                                       .activation = TFM_GELU_TANH,
                                       .ungated = true,
                                       .mlp_biased = true,
                                       .parallel = true,
                                       .parallel_norm = true,
                                       .theta = 10000,
                                       .interleaved = true,
                                       .partial = 1,
                                       .rotary_size_key = "rotary_dim",
                                       .rotary_size = 64,
                                       .fixed_rope = true};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("transformer.wte"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
    [TFM__OUTPUT_BIAS] = {NULL, "lm_head.bias", false},
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("transformer.ln_f"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_ONLY("transformer.h.#.attn.q_proj"),
    [TFM__SELF_KEY] = TFM__WEIGHT_ONLY("transformer.h.#.attn.k_proj"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_ONLY("transformer.h.#.attn.v_proj"),
    [TFM__SELF_OUT] = TFM__WEIGHT_ONLY("transformer.h.#.attn.out_proj"),
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.ln_1"),
    [TFM__UP] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.fc_in"),
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.fc_out"),
};

const tfm__family tfm__family_gptj = {
    .name = "gptj",
    .types = (const char *const[]){"gptj", NULL},
    .classes = (const char *const[]){"GPTJ", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    .ignored = (const char *const[]){".attn.bias", ".attn.masked_bias", ".attn.embed_positions", NULL},
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = DECODER,
};

static const tfm__naming CODEGEN_DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("transformer.ln_f"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_ONLY("transformer.h.#.attn.qkv_proj"),
    [TFM__SELF_KEY] = TFM__WEIGHT_ONLY("transformer.h.#.attn.qkv_proj"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_ONLY("transformer.h.#.attn.qkv_proj"),
    [TFM__SELF_OUT] = TFM__WEIGHT_ONLY("transformer.h.#.attn.out_proj"),
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.ln_1"),
    [TFM__UP] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.fc_in"),
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.fc_out"),
};

const tfm__family tfm__family_codegen = {
    .name = "codegen",
    .types = (const char *const[]){"codegen", NULL},
    .classes = (const char *const[]){"CodeGen", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    .ignored = (const char *const[]){".attn.causal_mask", NULL},
    .qkv_groups = 4,
    .values_before_keys = true,
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = CODEGEN_DECODER,
};
