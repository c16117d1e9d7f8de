/* MPT ("Introducing MPT-7B", MosaicML 2023): ALiBi, layer norms without betas, no biases. Keys and defaults are those
 * of MptConfig; as in transformers, all models have ALiBi and an inner width of 4 * width. */
#include <string.h>
#include "model/arch/decoder.h"

static const char CONFIG[] = "attn_config", SCALE[] = "softmax_scale";

/* `attn_config` is a nested object. */
static tfm_status read_attention(tfm__arch *arch, const tfm__config_files *from) {
    static const char *const refused[] = {"clip_qkv", "qk_ln", "prefix_lm", NULL};
    const tfm__config_value found = tfm__network_key(from, CONFIG);
    const tfm__config_files inner = {.config = (json_t *)found.value, .config_path = from->config_path};
    double scale = 0;
    bool alibi = true;
    if (!found.value)
        return TFM_OK;
    if (!json_is_object(found.value))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` is %s; an object is needed", found.path, CONFIG,
                         TFM__VALUE_TEXT(found.value));
    const tfm__config_value type = tfm__network_key(&inner, "attn_type");
    const char *name = json_string_value(type.value);
    tfm_status status = tfm__refuse_keys(&inner, refused);
    if (status == TFM_OK)
        status = tfm__read_bool(&alibi, tfm__network_key(&inner, "alibi"), "alibi");
    if (status == TFM_OK && (!alibi || (type.value && !(name && strcmp(name, "multihead_attention") == 0))))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `%s` is %s; only multi-head attention with ALiBi is supported",
                         found.path, CONFIG, TFM__VALUE_TEXT(found.value));
    if (status == TFM_OK)
        status = tfm__read_number(&scale, tfm__network_key(&inner, SCALE), SCALE, 1e-6, 1e6);
    arch->decoder.score_scale = (float)scale;
    return status;
}

static int write_attention(json_t *out, const tfm__arch *arch) {
    const float scale = arch->decoder.score_scale;
    return json_object_set_new(
        out, CONFIG,
        json_pack("{s:b, s:o}", "alibi", 1, SCALE, scale == 0 ? json_null() : json_real(tfm__short_number(scale))));
}

static const tfm__decoder_kind KIND = {.width_key = "d_model",
                                       .feed_forward_key = "",
                                       .layers_key = "n_layers",
                                       .heads_key = "n_heads",
                                       .kv_heads_key = "",
                                       .positions_key = "max_seq_len",
                                       .width = 2048,
                                       .layers = 24,
                                       .heads = 16,
                                       .whole_heads = true,
                                       .no_head_width = true,
                                       .max_positions = 2048,
                                       .vocabulary = 50368,
                                       .epsilon = 1e-5,
                                       .epsilon_key = "layer_norm_epsilon",
                                       .layer_norms = true,
                                       .no_betas = true,
                                       .tied = true,
                                       .activation = TFM_GELU,
                                       .ungated = true,
                                       .alibi = true,
                                       .refused = (const char *const[]){"logit_scale", NULL},
                                       .read_more = read_attention,
                                       .write_more = write_attention};

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("transformer.wte"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head"),
};

static const tfm__naming DECODER[TFM__ROLES] = {
    [TFM__FINAL_NORM] = TFM__WEIGHT_ONLY("transformer.norm_f"),
    [TFM__SELF_QUERY] = TFM__WEIGHT_ONLY("transformer.blocks.#.attn.Wqkv"),
    [TFM__SELF_KEY] = TFM__WEIGHT_ONLY("transformer.blocks.#.attn.Wqkv"),
    [TFM__SELF_VALUE] = TFM__WEIGHT_ONLY("transformer.blocks.#.attn.Wqkv"),
    [TFM__SELF_OUT] = TFM__WEIGHT_ONLY("transformer.blocks.#.attn.out_proj"),
    [TFM__SELF_NORM] = TFM__WEIGHT_ONLY("transformer.blocks.#.norm_1"),
    [TFM__UP] = TFM__WEIGHT_ONLY("transformer.blocks.#.ffn.up_proj"),
    [TFM__DOWN] = TFM__WEIGHT_ONLY("transformer.blocks.#.ffn.down_proj"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_ONLY("transformer.blocks.#.norm_2"),
};

const tfm__family tfm__family_mpt = {
    .name = "mpt",
    .types = (const char *const[]){"mpt", NULL},
    .classes = (const char *const[]){"Mpt", NULL},
    .prefixes = (const char *const[]){"transformer.", NULL},
    TFM__DECODER_CALLS,
    .decoder_kind = &KIND,
    .common = COMMON,
    .decoder = DECODER,
};
