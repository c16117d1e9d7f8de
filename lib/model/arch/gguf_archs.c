/* Architectures of GGUF files: names, layouts, and tensor names by role. Facts are those of the package gguf
 * (gguf.constants, gguf.tensor_mapping) and of llama.cpp's converters. */
#include <stdio.h>
#include <string.h>
#include "model/arch/gguf_arch.h"

/* ---- Tensor names --------------------------------------------------------------------------------------------- */

static const tfm__naming COMMON[TFM__ROLES] = {
    [TFM__SHARED_EMBEDDING] = TFM__WEIGHT_ONLY("token_embd"),
    [TFM__SOURCE_EMBEDDING] = TFM__WEIGHT_ONLY("token_embd"),
    [TFM__TARGET_EMBEDDING] = TFM__WEIGHT_ONLY("token_embd"),
    [TFM__OUTPUT_PROJECTION] = TFM__WEIGHT_ONLY("output"),
    [TFM__OUTPUT_BIAS] = {.bias = "output.bias"},
};

/* `q`, `o`: attention matrices are called attn_`q` and attn_`o`. */
#define STACK(prefix, out)                                                                                             \
    [TFM__FINAL_NORM] = TFM__WEIGHT_AND_BIAS(prefix "output_norm"),                                                    \
    [TFM__SELF_QUERY] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.attn_q"),                                                   \
    [TFM__SELF_KEY] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.attn_k"),                                                     \
    [TFM__SELF_VALUE] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.attn_v"),                                                   \
    [TFM__SELF_OUT] = TFM__WEIGHT_AND_BIAS(prefix "blk.#." out),                                                       \
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.attn_norm"),                                                 \
    [TFM__GATE] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.ffn_gate"),                                                       \
    [TFM__UP] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.ffn_up"),                                                           \
    [TFM__DOWN] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.ffn_down"),                                                       \
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_AND_BIAS(prefix "blk.#.ffn_norm")

static const tfm__naming USUAL[TFM__ROLES] = {
    STACK("", "attn_output"),
    [TFM__POSITIONS] = TFM__WEIGHT_ONLY("position_embd"),
    [TFM__TOKEN_TYPES] = TFM__WEIGHT_ONLY("token_types"),
    [TFM__EMBEDDING_NORM] = TFM__WEIGHT_AND_BIAS("token_embd_norm"),
    [TFM__SELF_QUERY_NORM] = TFM__WEIGHT_AND_BIAS("blk.#.attn_q_norm"),
    [TFM__SELF_KEY_NORM] = TFM__WEIGHT_AND_BIAS("blk.#.attn_k_norm"),
    [TFM__SELF_NORM_AFTER] = TFM__WEIGHT_ONLY("blk.#.post_attention_norm"),
    [TFM__FEED_FORWARD_NORM_AFTER] = TFM__WEIGHT_ONLY("blk.#.post_ffw_norm"),
};

/* The 40B form has two norms before the parallel sub-layers. */
static const tfm__naming FALCON[TFM__ROLES] = {
    [TFM__SELF_NORM_PARALLEL] = TFM__WEIGHT_AND_BIAS("blk.#.attn_norm_2"),
    [TFM__FEED_FORWARD_NORM_PARALLEL] = TFM__WEIGHT_AND_BIAS("blk.#.attn_norm"),
};

static const tfm__naming OLMO2[TFM__ROLES] = {
    [TFM__SELF_NORM] = TFM__WEIGHT_ONLY("blk.#.post_attention_norm"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_ONLY("blk.#.post_ffw_norm"),
};

static const tfm__naming BERT[TFM__ROLES] = {
    [TFM__SELF_NORM] = TFM__WEIGHT_AND_BIAS("blk.#.attn_output_norm"),
    [TFM__FEED_FORWARD_NORM] = TFM__WEIGHT_AND_BIAS("blk.#.layer_output_norm"),
};

static const tfm__naming T5_ENCODER[TFM__ROLES] = {
    STACK("enc.", "attn_o"),
    [TFM__RELATIVE_BIAS] = TFM__WEIGHT_ONLY("enc.blk.#.attn_rel_b"),
};

static const tfm__naming T5_DECODER[TFM__ROLES] = {
    STACK("dec.", "attn_o"),
    [TFM__RELATIVE_BIAS] = TFM__WEIGHT_ONLY("dec.blk.#.attn_rel_b"),
    [TFM__CROSS_QUERY] = TFM__WEIGHT_ONLY("dec.blk.#.cross_attn_q"),
    [TFM__CROSS_KEY] = TFM__WEIGHT_ONLY("dec.blk.#.cross_attn_k"),
    [TFM__CROSS_VALUE] = TFM__WEIGHT_ONLY("dec.blk.#.cross_attn_v"),
    [TFM__CROSS_OUT] = TFM__WEIGHT_ONLY("dec.blk.#.cross_attn_o"),
    [TFM__CROSS_NORM] = TFM__WEIGHT_ONLY("dec.blk.#.cross_attn_norm"),
};

/* ---- Architectures -------------------------------------------------------------------------------------------- */

#define LM .class_end = "ForCausalLM"
#define T5_KEYS .feed_forward_key = "d_ff", .epsilon_key = "layer_norm_epsilon", .encoder = T5_ENCODER

static const tfm__gguf_arch ARCHS[] = {
    {"llama", "llama", .qk_interleaved = true, LM},
    {"qwen2", "qwen2", LM},
    {"qwen3", "qwen3", LM},
    {"gemma", "gemma", .whole_gammas = true, LM},
    {"gemma2", "gemma2", .whole_gammas = true, LM},
    {"gemma3", "gemma3_text", .whole_gammas = true, LM},
    {"phi2", "phi", LM},
    {"phi3", "phi3", LM},
    {"gpt2", "gpt2", .class_end = "LMHeadModel", .feed_forward_key = "n_inner", .epsilon_key = "layer_norm_epsilon"},
    {"gptneox", "gpt_neox", LM},
    {"gptj", "gptj", LM},
    {"falcon", "falcon", LM, .decoder = FALCON},
    {"bloom", "bloom", LM},
    {"mpt", "mpt", LM},
    {"command-r", "cohere", LM},
    {"starcoder2", "starcoder2", LM},
    {"stablelm", "stablelm", LM},
    {"granite", "granite", .qk_interleaved = true, LM},
    {"olmo2", "olmo2", LM, .decoder = OLMO2},
    {"smollm3", "smollm3", .qk_interleaved = true, LM},
    {"bert", "bert", .class_end = "Model", .feed_forward_key = "intermediate_size", .epsilon_key = "layer_norm_eps",
     .encoder = BERT},
    {"nomic-bert", "nomic_bert", .class_end = "Model", .feed_forward_key = "intermediate_size",
     .epsilon_key = "layer_norm_eps", .encoder = BERT},
    {"t5", "t5", .class_end = "", T5_KEYS, .decoder = T5_DECODER},
    {"t5encoder", "t5", .class_end = "EncoderModel", T5_KEYS},
};

/* LLaMA with a window. */
static const tfm__gguf_arch MISTRAL = {"llama", "mistral", .qk_interleaved = true, LM};

const tfm__gguf_arch *tfm__gguf_arch_at(size_t i) {
    return i < TFM__COUNT(ARCHS) ? &ARCHS[i] : NULL;
}

/* Text of a message: at most 40 bytes of printable ASCII. */
static const char *printable(char out[41], tfm__gguf_text text) {
    const size_t length = text.bytes < 40 ? text.bytes : 40;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(text.data[i] > 0x20 && text.data[i] < 0x7f ? text.data[i] : '?');
    out[length] = 0;
    return out;
}

static tfm_status refuse(tfm__gguf_text name, const char *path) {
    char known[512], text[41];
    size_t used = 0;
    for (size_t i = 0; i < TFM__COUNT(ARCHS) && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", ARCHS[i].name);
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: the GGUF architecture `%s` is not supported; supported are %s", path,
                     printable(text, name), known);
}

tfm_status tfm__gguf_arch_find(const tfm__gguf_arch **out, const tfm__gguf *gguf) {
    const tfm__gguf_value *value = tfm__gguf_find(gguf, "general.architecture");
    const char *path = tfm__gguf_path(gguf, 0);
    tfm__gguf_text name;
    uint64_t experts = 0, window = 0;
    char key[64];
    *out = NULL;
    if (!tfm__gguf_string(&name, value, 0))
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no `general.architecture`: it is not a language model", path);
    for (size_t i = 0; i < TFM__COUNT(ARCHS); i++)
        if (tfm__gguf_is(value, 0, ARCHS[i].name))
            *out = &ARCHS[i];
    if (!*out)
        return refuse(name, path);
    snprintf(key, sizeof(key), "%s.expert_count", (*out)->name);
    if (tfm__gguf_u64(&experts, tfm__gguf_find(gguf, key), 0) && experts > 0)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s is a mixture of %llu experts (`%s`), which is not supported: use a model without", path,
                         (unsigned long long)experts, key);
    snprintf(key, sizeof(key), "%s.attention.sliding_window", (*out)->name);
    if (*out == &ARCHS[0] && tfm__gguf_u64(&window, tfm__gguf_find(gguf, key), 0) && window > 0)
        *out = &MISTRAL;
    return TFM_OK;
}

tfm_status tfm__gguf_arch_of(const tfm__gguf_arch **out, const tfm__family *family, const tfm__arch *arch,
                             const char *dir) {
    const bool mistral = strcmp(family->name, "mistral") == 0 || strcmp(family->name, "ministral") == 0;
    const bool alone = arch->encoder.layers > 0 && arch->decoder.layers == 0;
    const bool headless = arch->headless && !alone;
    *out = mistral ? &MISTRAL : NULL;
    for (size_t i = 0; i < TFM__COUNT(ARCHS) && !mistral; i++)
        if (strcmp(ARCHS[i].model_type, family->name) == 0 &&
            (strcmp(family->name, "t5") != 0 || (strcmp(ARCHS[i].name, "t5encoder") == 0) == alone))
            *out = &ARCHS[i];
    if (*out && !headless)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s cannot be written as GGUF: %s%s", dir,
                     headless ? "it has no output projection, and is of the family "
                              : "there is no architecture for the family ",
                     family->name);
}

const tfm__naming *tfm__gguf_naming(const tfm__gguf_arch *arch, bool decoder, tfm__role role) {
    const tfm__naming *own = role < TFM__POSITIONS ? arch->common : decoder ? arch->decoder : arch->encoder;
    if (own && (own[role].weight || own[role].bias))
        return &own[role];
    return role < TFM__POSITIONS ? &COMMON[role] : &USUAL[role];
}
