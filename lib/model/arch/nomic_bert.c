/* Post-norm encoders with RoPE and gated feed-forward layers: NomicBERT ("Nomic Embed", Nussbaum et al. 2024) and GTE
 * ("mGTE", Zhang et al. 2024). Keys and defaults are those of NomicBertConfig and GteConfig in transformers, and of the
 * files that were published with their own code before: NomicBERT with GPT-2's keys, and GTE as "new". */
#include <math.h>
#include <string.h>
#include "model/arch/encoder_keys.h"
#include "model/arch/rope.h"

#define BASE_SIZE .gated = true, .width = 768, .layers = 12, .heads = 12, .feed_forward = 3072

static const tfm__rope_spec NOMIC_ROPE = {
    .theta_key = "rope_theta", .theta = 1000, .partial = 1, .whole = true, .scaled = true};
static const tfm__rope_spec GPT2_KEYS_ROPE = {
    .theta_key = "rotary_emb_base", .partial_key = "rotary_emb_fraction", .theta = 10000, .partial = 1};
static const tfm__rope_spec GTE_ROPE = {
    .theta_key = "rope_theta", .theta = 160000, .partial = 1, .whole = true, .scaled = true};
static const tfm__rope_spec NEW_ROPE = {.theta_key = "rope_theta", .theta = 10000, .partial = 1, .whole = true};

static const tfm__encoder_kind NOMIC_KIND = {
    BASE_SIZE,          .vocabulary = 30528, .max_positions = 2048, .activation = TFM_SILU, .biases = TFM__NO_BIASES,
    .rope = &NOMIC_ROPE};
static const tfm__encoder_kind GPT2_KEYS_KIND = {BASE_SIZE,
                                                 .width_key = "n_embd",
                                                 .layers_key = "n_layer",
                                                 .heads_key = "n_head",
                                                 .feed_forward_key = "n_inner",
                                                 .positions_key = "n_positions",
                                                 .epsilon_key = "layer_norm_epsilon",
                                                 .vocabulary = 30528,
                                                 .max_positions = 2048,
                                                 .activation = TFM_SILU,
                                                 .biases = TFM__NO_BIASES,
                                                 .rope = &GPT2_KEYS_ROPE};
static const tfm__encoder_kind GTE_KIND = {BASE_SIZE,
                                           .vocabulary = 250048,
                                           .pad = 1,
                                           .max_positions = 8192,
                                           .token_types = 1,
                                           .activation = TFM_GELU,
                                           .mlm_activation = TFM_GELU,
                                           .biases = TFM__NO_GATE_BIASES,
                                           .rope = &GTE_ROPE};
static const tfm__encoder_kind NEW_KIND = {BASE_SIZE,
                                           .vocabulary = 30528,
                                           .max_positions = 2048,
                                           .activation = TFM_GELU,
                                           .mlm_activation = TFM_GELU,
                                           .biases = TFM__NO_GATE_BIASES,
                                           .rope = &NEW_ROPE};

/* ---- NomicBERT ------------------------------------------------------------------------------------------ */

static tfm_status read_nomic(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const char *const OTHERS[] = {
        "prenorm",       "use_rms_norm", "parallel_block", "causal", "rotary_emb_interleaved", "rotary_emb_scale_base",
        "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",   NULL};
    const tfm__config_value activation = tfm__network_key(from, "activation_function");
    const char *name = json_string_value(activation.value);
    if (!tfm__network_key(from, "n_embd").value)
        return tfm__encoder_read_as(arch, rules, from, &NOMIC_KIND);
    if (name && strcmp(name, "swiglu") != 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `activation_function` is \"%s\"; only \"swiglu\" is supported",
                         activation.path, name);
    const tfm_status status = tfm__refuse_keys(from, OTHERS);
    return status == TFM_OK ? tfm__encoder_read_as(arch, rules, from, &GPT2_KEYS_KIND) : status;
}

#define NOMIC_BLOCK(name) TFM__WEIGHT_AND_BIAS("nomic_bert.encoder.layers.#." name)

static const tfm__naming NOMIC[TFM__ROLES] = {
    [TFM__TOKEN_TYPES] = TFM__WEIGHT_ONLY("nomic_bert.embeddings.token_type_embeddings"),
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("nomic_bert.emb_ln"),
    [TFM__SELF_QUERY] = NOMIC_BLOCK("attn.Wqkv"),
    [TFM__SELF_KEY] = NOMIC_BLOCK("attn.Wqkv"),
    [TFM__SELF_VALUE] = NOMIC_BLOCK("attn.Wqkv"),
    [TFM__SELF_OUT] = NOMIC_BLOCK("attn.out_proj"),
    [TFM__SELF_NORM] = NOMIC_BLOCK("norm1"),
    [TFM__GATE] = NOMIC_BLOCK("mlp.fc12"),
    [TFM__UP] = NOMIC_BLOCK("mlp.fc11"),
    [TFM__DOWN] = NOMIC_BLOCK("mlp.fc2"),
    [TFM__FEED_FORWARD_NORM] = NOMIC_BLOCK("norm2"),
};

static const tfm__naming NOMIC_COMMON[TFM__ROLES] = {
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("nomic_bert.embeddings.word_embeddings"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("cls.predictions.decoder"),
    [TFM__OUTPUT_BIAS] = {"cls.predictions.decoder.bias", "cls.predictions.bias", false},
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("cls.predictions.transform.dense"),
    [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("cls.predictions.transform.layer_norm"),
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS("nomic_bert.pooler.dense"),
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier"),
};

const tfm__family tfm__family_nomic_bert = {
    .name = "nomic_bert",
    .types = (const char *const[]){"nomic_bert", NULL},
    .classes = (const char *const[]){"NomicBert", NULL},
    .prefixes = (const char *const[]){"nomic_bert.", NULL},
    .ignored =
        (const char *const[]){"pooler.dense.weight", "pooler.dense.bias", "inv_freq", "cls.", "classifier.", NULL},
    .read = read_nomic,
    .common = NOMIC_COMMON,
    .encoder = NOMIC,
};

/* ---- GTE ---------------------------------------------------------------------------------------------------- */

static tfm_status read_gte(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    return tfm__encoder_read_as(arch, rules, from, &GTE_KIND);
}

/* `rope_scaling` of type "ntk", in effect at all lengths: the base is multiplied by the factor s, and frequencies of R
 * columns are divided by s^(2/R) (kexue.fm/archives/9706). */
static tfm_status scale_by_ntk(tfm__rotary_arch *r, const tfm__config_files *from) {
    const tfm__config_value scaling = tfm__network_key(from, "rope_scaling");
    const json_t *type = json_object_get(scaling.value, "type"), *mixed = json_object_get(scaling.value, "mixed_b");
    double factor = 1;
    if (!scaling.value)
        return TFM_OK;
    if (!json_is_string(type) || strcmp(json_string_value(type), "ntk") != 0 || (mixed && !json_is_null(mixed)))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: `rope_scaling` is %s; only the type \"ntk\" without `mixed_b` is supported", scaling.path,
                         TFM__VALUE_TEXT(type));
    const tfm_status status = tfm__read_number(
        &factor, (tfm__config_value){json_object_get(scaling.value, "factor"), scaling.path}, "factor", 1, 1e6);
    for (int i = 0; i < r->width / 2; i++)
        r->inv_freq[i] = 1 / (pow(r->config.theta * factor, 2.0 * i / r->freq_dim) * pow(factor, 2.0 / r->width));
    return status;
}

static tfm_status read_new(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from) {
    static const char *const OTHERS[] = {"logn_attention_scale", "logn_attention_clip1", NULL};
    const tfm__config_value norm = tfm__network_key(from, "layer_norm_type");
    const char *name = json_string_value(norm.value);
    tfm_status status = tfm__refuse_keys(from, OTHERS);
    if (norm.value && !(name && strcmp(name, "layer_norm") == 0))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `layer_norm_type` is %s; only \"layer_norm\" is supported",
                         norm.path, TFM__VALUE_TEXT(norm.value));
    if (status == TFM_OK)
        status = tfm__encoder_read_as(arch, rules, from, &NEW_KIND);
    return status == TFM_OK ? scale_by_ntk(&arch->encoder.rotary, from) : status;
}

#define GTE_BLOCK(model, name) TFM__WEIGHT_AND_BIAS(model ".encoder.layer.#." name)
#define GTE_ENCODER(model)                                                                                             \
    [TFM__TOKEN_TYPES] = TFM__WEIGHT_ONLY(model ".embeddings.token_type_embeddings"),                                  \
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS(model ".embeddings.LayerNorm"),                                       \
    [TFM__SELF_QUERY] = GTE_BLOCK(model, "attention.qkv_proj"),                                                        \
    [TFM__SELF_KEY] = GTE_BLOCK(model, "attention.qkv_proj"),                                                          \
    [TFM__SELF_VALUE] = GTE_BLOCK(model, "attention.qkv_proj"),                                                        \
    [TFM__SELF_OUT] = GTE_BLOCK(model, "attention.o_proj"), [TFM__SELF_NORM] = GTE_BLOCK(model, "attn_ln"),            \
    [TFM__GATE] = TFM__WEIGHT_ONLY(model ".encoder.layer.#.mlp.up_gate_proj"),                                         \
    [TFM__UP] = TFM__WEIGHT_ONLY(model ".encoder.layer.#.mlp.up_gate_proj"),                                           \
    [TFM__DOWN] = GTE_BLOCK(model, "mlp.down_proj"), [TFM__FEED_FORWARD_NORM] = GTE_BLOCK(model, "mlp_ln")
#define GTE_COMMON(model)                                                                                              \
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY(model ".embeddings.word_embeddings"),                                   \
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("lm_head.decoder"),                                                    \
    [TFM__OUTPUT_BIAS] = {NULL, "lm_head.decoder.bias", false},                                                        \
    [TFM__MLM_DENSE] = TFM__WEIGHT_AND_BIAS("lm_head.dense"), [TFM__MLM_NORM] = TFM__WEIGHT_AND_BIAS("lm_head.norm"),  \
    [TFM__CLASSIFIER_DENSE] = TFM__WEIGHT_AND_BIAS(model ".pooler.dense"),                                             \
    [TFM__CLASSIFIER_OUT] = TFM__WEIGHT_AND_BIAS("classifier")

static const tfm__naming GTE[TFM__ROLES] = {GTE_ENCODER("gte")};
static const tfm__naming GTE_OTHERS[TFM__ROLES] = {GTE_COMMON("gte")};
static const tfm__naming NEW[TFM__ROLES] = {GTE_ENCODER("new")};
static const tfm__naming NEW_OTHERS[TFM__ROLES] = {GTE_COMMON("new")};

#define GTE_IGNORED                                                                                                    \
    (const char *const[]) {                                                                                            \
        "pooler.dense.weight", "pooler.dense.bias", "inv_freq", "position_ids", "lm_head.", "classifier.", NULL        \
    }

const tfm__family tfm__family_gte = {
    .name = "gte",
    .types = (const char *const[]){"gte", NULL},
    .classes = (const char *const[]){"Gte", NULL},
    .prefixes = (const char *const[]){"gte.", NULL},
    .ignored = GTE_IGNORED,
    .up_before_gate = true,
    .read = read_gte,
    .common = GTE_OTHERS,
    .encoder = GTE,
};

const tfm__family tfm__family_gte_new = {
    .name = "new",
    .types = (const char *const[]){"new", NULL},
    .classes = (const char *const[]){"New", NULL},
    .prefixes = (const char *const[]){"new.", NULL},
    .ignored = GTE_IGNORED,
    .up_before_gate = true,
    .read = read_new,
    .common = NEW_OTHERS,
    .encoder = NEW,
};
