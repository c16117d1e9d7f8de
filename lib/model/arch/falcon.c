/* Falcon ("The Falcon Series of Open Language Models", Almazrouei et al. 2023): parallel sub-layers, multi-query or
 * grouped-query attention, fused QKV tensors grouped by KV head. The 7B form has one norm, the 40B form
 * (`new_decoder_architecture`) two. Keys and defaults are those of FalconConfig. */
#include "model/arch/decoder.h"

static const char NEW[] = "new_decoder_architecture", MULTI_QUERY[] = "multi_query",
                  NORMS[] = "num_ln_in_parallel_attn";

static tfm_status read_form(tfm__arch *arch, const tfm__config_files *from) {
    tfm__stack_arch *s = &arch->decoder;
    bool newer = false, multi_query = true;
    int norms = 2;
    const tfm__bool_key keys[] = {{NEW, &newer}, {MULTI_QUERY, &multi_query}};
    tfm_status status = tfm__read_bools(from, keys, TFM__COUNT(keys));
    if (status == TFM_OK)
        status = tfm__read_int(&norms, tfm__network_key(from, NORMS), NORMS, 1, 2);
    if (status == TFM_OK && newer && !s->parallel)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `parallel_attn` is false with `%s`: use a model without it",
                         from->config_path, NEW);
    s->kv_heads = newer ? s->kv_heads : multi_query ? 1 : s->heads;
    s->shared_norm = newer ? norms == 1 : s->parallel;
    return status;
}

static int write_form(json_t *out, const tfm__arch *arch) {
    const tfm__stack_arch *s = &arch->decoder;
    const bool newer = s->parallel && (!s->shared_norm || (s->kv_heads != 1 && s->kv_heads != s->heads));
    int bad = json_object_set_new(out, NEW, json_boolean(newer));
    bad |= json_object_set_new(out, MULTI_QUERY, json_boolean(s->kv_heads == 1));
    return newer ? bad | json_object_set_new(out, NORMS, json_integer(s->shared_norm ? 1 : 2)) : bad;
}

static const tfm__decoder_kind KIND = {.feed_forward_key = "ffn_hidden_size",
                                       .kv_heads_key = "num_kv_heads",
                                       .width = 4544,
                                       .layers = 32,
                                       .heads = 71,
                                       .whole_heads = true,
                                       .no_head_width = true,
                                       .max_positions = 2048,
                                       .vocabulary = 65024,
                                       .epsilon = 1e-5,
                                       .epsilon_key = "layer_norm_epsilon",
                                       .layer_norms = true,
                                       .tied = true,
                                       .activation_key = "activation",
                                       .activation = TFM_GELU,
                                       .ungated = true,
                                       .attention_biases = "bias",
                                       .mlp_biases = "bias",
                                       .parallel = true,
                                       .parallel_key = "parallel_attn",
                                       .theta = 10000,
                                       .refused = (const char *const[]){"alibi", NULL},
                                       .read_more = read_form,
                                       .write_more = write_form};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("transformer.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS("transformer.ln_f"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_KEY] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.query_key_value"),
    [TFM__SELF_OUT] = TFM__WEIGHT_AND_BIAS("transformer.h.#.self_attention.dense"),
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.input_layernorm"),
    [TFM__SELF_NORM_PARALLEL] = TFM__WEIGHT_AND_BIAS("transformer.h.#.ln_attn"),
    [TFM__UP] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.dense_h_to_4h"),
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS("transformer.h.#.mlp.dense_4h_to_h"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_AND_BIAS("transformer.h.#.post_attention_layernorm"),
    [TFM__FEED_FORWARD_NORM_PARALLEL] = TFM__WEIGHT_AND_BIAS("transformer.h.#.ln_mlp"),
};

const tfm__family tfm__family_falcon = {
    .name = "falcon",
    .types = (const char *const[]){"falcon", NULL},
    .classes = (const char *const[]){"Falcon", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL},
    .qkv_groups = TFM__QKV_BY_HEAD,
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = DECODER,
};
