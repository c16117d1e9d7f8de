/* Granite ("Granite 3.0 Language Models", IBM 2024): LLaMA with four multipliers; and OLMo 2 ("2 OLMo 2 Furious", OLMo
 * team 2024): LLaMA with norms on the results of its sub-layers, and over all queries and all keys. Keys and the
 * defaults of absent ones are those of GraniteConfig and Olmo2Config. */
#include "model/family/decoder.h"

static const tfm__decoder_kind granite = {.type = "granite",
                                          .class_name = "Granite",
                                          .width = 4096,
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

static const tfm__decoder_kind olmo2 = {.type = "olmo2",
                                        .class_name = "Olmo2",
                                        .width = 4096,
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
                                        .on_results = true,
                                        .theta = 10000};

static tfm_status read_granite(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return tfm__decoder_read_config(&granite, arch, rules, from);
}

static tfm_status read_olmo2(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    return tfm__decoder_read_config(&olmo2, arch, rules, from);
}

static const tfm__naming TABLES[TFM__ROLES] = {TFM__DECODER_TABLES};

static const tfm__naming GRANITE[TFM__ROLES] = {
    TFM__DECODER_NAMES,
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
};

static const tfm__naming OLMO2[TFM__ROLES] = {
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false},
    [TFM__SELF_QUERY] = TFM__DECODER_PAIR("self_attn.q_proj"),
    [TFM__SELF_KEY] = TFM__DECODER_PAIR("self_attn.k_proj"),
    [TFM__SELF_VALUE] = TFM__DECODER_PAIR("self_attn.v_proj"),
    [TFM__SELF_OUT] = TFM__DECODER_PAIR("self_attn.o_proj"),
    [TFM__SELF_NORM] = TFM__DECODER_NORM("post_attention_layernorm"),
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_NORM("self_attn.q_norm"),
    [TFM__SELF_KEY_NORM] = TFM__DECODER_NORM("self_attn.k_norm"),
    [TFM__GATE] = TFM__DECODER_PAIR("mlp.gate_proj"),
    [TFM__UP] = TFM__DECODER_PAIR("mlp.up_proj"),
    [TFM__DOWN] = TFM__DECODER_PAIR("mlp.down_proj"),
    [TFM__FEED_FORWARD_NORM] = TFM__DECODER_NORM("post_feedforward_layernorm"),
};

const tfm__family tfm__family_granite = {
    .name = "granite",
    .types = (const char *const[]){"granite", NULL},
    .classes = (const char *const[]){"Granite", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL},
    .read = read_granite,
    .common = TABLES,
    .decoder = GRANITE,
};

const tfm__family tfm__family_olmo2 = {
    .name = "olmo2",
    .types = (const char *const[]){"olmo2", NULL},
    .classes = (const char *const[]){"Olmo2", NULL},
    .prefixes = (const char *const[]){"model.", NULL},
    .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL},
    .read = read_olmo2,
    .common = TABLES,
    .decoder = OLMO2,
};
