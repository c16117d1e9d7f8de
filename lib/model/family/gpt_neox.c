/* GPT-NeoX and Pythia ("GPT-NeoX-20B", Black et al. 2022): layer norms, both sub-layers beside each other, heads that
 * turn in part, and queries, keys and values in one tensor, head by head. Keys and the defaults of absent ones are
 * those of GPTNeoXConfig. */
#include "model/family/decoder.h"

static const tfm__decoder_kind KIND = {.type = "gpt_neox",
                                       .class_name = "GPTNeoX",
                                       .width = 6144,
                                       .feed_forward = 24576,
                                       .layers = 44,
                                       .heads = 64,
                                       .whole_heads = true,
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
                                       .part_key = "rotary_pct"};

static tfm_status read(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {
    const tfm_status status = tfm__decoder_read_config(&KIND, arch, rules, from);
    if (status == TFM_OK && arch->decoder.kv_heads != arch->decoder.heads)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `num_key_value_heads` is %d; in this family each head has its own",
                         from->config_path, arch->decoder.kv_heads);
    return status;
}

#define PAIR(stem)                                                                                                     \
    { "gpt_neox." stem ".weight", "gpt_neox." stem ".bias", false }

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_TABLE] = {"gpt_neox.embed_in.weight", NULL, false},
    [TFM__OUTPUT_TABLE] = {"embed_out.weight", NULL, false},
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = PAIR("final_layer_norm"),
    [TFM__SELF_QUERY] = PAIR("layers.#.attention.query_key_value"),
    [TFM__SELF_KEY] = PAIR("layers.#.attention.query_key_value"),
    [TFM__SELF_VALUE] = PAIR("layers.#.attention.query_key_value"),
    [TFM__SELF_OUT] = PAIR("layers.#.attention.dense"),
    [TFM__SELF_NORM] = PAIR("layers.#.input_layernorm"),
    [TFM__UP] = PAIR("layers.#.mlp.dense_h_to_4h"),
    [TFM__DOWN] = PAIR("layers.#.mlp.dense_4h_to_h"),
    [TFM__FEED_FORWARD_NORM] = PAIR("layers.#.post_attention_layernorm"),
};

const tfm__family tfm__family_gpt_neox = {
    .name = "gpt_neox",
    .types = (const char *const[]){"gpt_neox", NULL},
    .classes = (const char *const[]){"GPTNeoX", NULL},
    .prefixes = (const char *const[]){"gpt_neox.", NULL},
    .ignored = (const char *const[]){".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq", NULL},
    .respelled = (const char *const[]){"embed_out.weight", "lm_head.weight", NULL},
    .by_head = true,
    .read = read,
    .common = COMMON,
    .decoder = DECODER,
};
