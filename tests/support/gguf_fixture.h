/* Writes a model directory of Hugging Face as a GGUF file, for tests. Names, keys and row orders are those of the
 * package gguf and of llama.cpp's converters, written down here a second time: nothing of lib/model/arch/gguf*.c is
 * used. */
#ifndef TFM_TESTS_GGUF_FIXTURE_H
#define TFM_TESTS_GGUF_FIXTURE_H

#include <math.h>
#include "base/json.h"
#include "model/core/quantized_params.h"
#include "support/gguf_scratch.h"

typedef struct gguf_fixture {
    gguf_builder b;
    const char *arch;
    const json_t *config;
    const tfm__weights *weights;
    int64_t heads, kv_heads, head_width, layers;
} gguf_fixture;

/* Names after and before the layer's number (`#`); `arch`: only there, before the entries for all. */
static const struct {
    const char *arch, *from, *to;
} GGUF_NAMES[] = {
    {"gemma2", "layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"gemma3", "layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"olmo2", "layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"t5", "encoder.final_layer_norm", "enc.output_norm"},
    {"t5", "decoder.final_layer_norm", "dec.output_norm"},
    {"", "encoder.final_layer_norm", "enc.output_norm"},
    {"", "embed_tokens", "token_embd"},
    {"", "wte", "token_embd"},
    {"", "embed_in", "token_embd"},
    {"", "word_embeddings", "token_embd"},
    {"", "embeddings.word_embeddings", "token_embd"},
    {"", "shared", "token_embd"},
    {"", "decoder.embed_tokens", "token_embd"},
    {"", "word_embeddings_layernorm", "token_embd_norm"},
    {"", "embeddings.LayerNorm", "token_embd_norm"},
    {"", "embeddings.position_embeddings", "position_embd"},
    {"", "embeddings.token_type_embeddings", "token_types"},
    {"", "wpe", "position_embd"},
    {"", "norm", "output_norm"},
    {"", "norm_f", "output_norm"},
    {"", "ln_f", "output_norm"},
    {"", "final_layernorm", "output_norm"},
    {"", "final_layer_norm", "output_norm"},
    {"", "lm_head", "output"},
    {"", "embed_out", "output"},
    {"", "layers.#.input_layernorm", "blk.#.attn_norm"},
    {"", "h.#.input_layernorm", "blk.#.attn_norm"},
    {"", "h.#.ln_1", "blk.#.attn_norm"},
    {"", "h.#.ln_2", "blk.#.ffn_norm"},
    {"", "h.#.ln_mlp", "blk.#.attn_norm"},
    {"", "h.#.ln_attn", "blk.#.attn_norm_2"},
    {"", "blocks.#.norm_1", "blk.#.attn_norm"},
    {"", "blocks.#.norm_2", "blk.#.ffn_norm"},
    {"", "layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"", "h.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"", "layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {"", "layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
    {"", "layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"", "layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"", "layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"", "layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {"", "layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"", "layers.#.self_attn.dense", "blk.#.attn_output"},
    {"", "layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"", "layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {"", "layers.#.self_attn.q_layernorm", "blk.#.attn_q_norm"},
    {"", "layers.#.self_attn.k_layernorm", "blk.#.attn_k_norm"},
    {"", "layers.#.attention.query_key_value", "blk.#.attn_qkv"},
    {"", "layers.#.attention.dense", "blk.#.attn_output"},
    {"", "h.#.self_attention.query_key_value", "blk.#.attn_qkv"},
    {"", "h.#.self_attention.dense", "blk.#.attn_output"},
    {"", "h.#.attn.c_attn", "blk.#.attn_qkv"},
    {"", "h.#.attn.c_proj", "blk.#.attn_output"},
    {"", "h.#.attn.q_proj", "blk.#.attn_q"},
    {"", "h.#.attn.k_proj", "blk.#.attn_k"},
    {"", "h.#.attn.v_proj", "blk.#.attn_v"},
    {"", "h.#.attn.out_proj", "blk.#.attn_output"},
    {"", "blocks.#.attn.Wqkv", "blk.#.attn_qkv"},
    {"", "blocks.#.attn.out_proj", "blk.#.attn_output"},
    {"", "layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"", "layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"", "layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
    {"", "layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"", "layers.#.mlp.fc1", "blk.#.ffn_up"},
    {"", "layers.#.mlp.fc2", "blk.#.ffn_down"},
    {"", "layers.#.mlp.c_fc", "blk.#.ffn_up"},
    {"", "layers.#.mlp.c_proj", "blk.#.ffn_down"},
    {"", "layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"", "layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
    {"", "h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"", "h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
    {"", "h.#.mlp.c_fc", "blk.#.ffn_up"},
    {"", "h.#.mlp.c_proj", "blk.#.ffn_down"},
    {"", "h.#.mlp.fc_in", "blk.#.ffn_up"},
    {"", "h.#.mlp.fc_out", "blk.#.ffn_down"},
    {"", "blocks.#.ffn.up_proj", "blk.#.ffn_up"},
    {"", "blocks.#.ffn.down_proj", "blk.#.ffn_down"},
    {"", "encoder.layer.#.attention.self.query", "blk.#.attn_q"},
    {"", "encoder.layer.#.attention.self.key", "blk.#.attn_k"},
    {"", "encoder.layer.#.attention.self.value", "blk.#.attn_v"},
    {"", "encoder.layer.#.attention.output.dense", "blk.#.attn_output"},
    {"", "encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm"},
    {"", "encoder.layer.#.intermediate.dense", "blk.#.ffn_up"},
    {"", "encoder.layer.#.output.dense", "blk.#.ffn_down"},
    {"", "encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm"},
    {"", "emb_ln", "token_embd_norm"},
    {"", "encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv"},
    {"", "encoder.layers.#.attn.out_proj", "blk.#.attn_output"},
    {"", "encoder.layers.#.norm1", "blk.#.attn_output_norm"},
    {"", "encoder.layers.#.norm2", "blk.#.layer_output_norm"},
    {"", "encoder.layers.#.mlp.fc11", "blk.#.ffn_up"},
    {"", "encoder.layers.#.mlp.fc12", "blk.#.ffn_gate"},
    {"", "encoder.layers.#.mlp.fc2", "blk.#.ffn_down"},
    {"", "encoder.block.#.layer.0.layer_norm", "enc.blk.#.attn_norm"},
    {"", "encoder.block.#.layer.0.SelfAttention.q", "enc.blk.#.attn_q"},
    {"", "encoder.block.#.layer.0.SelfAttention.k", "enc.blk.#.attn_k"},
    {"", "encoder.block.#.layer.0.SelfAttention.v", "enc.blk.#.attn_v"},
    {"", "encoder.block.#.layer.0.SelfAttention.o", "enc.blk.#.attn_o"},
    {"", "encoder.block.#.layer.0.SelfAttention.relative_attention_bias", "enc.blk.#.attn_rel_b"},
    {"", "encoder.block.#.layer.1.layer_norm", "enc.blk.#.ffn_norm"},
    {"", "encoder.block.#.layer.1.DenseReluDense.wi", "enc.blk.#.ffn_up"},
    {"", "encoder.block.#.layer.1.DenseReluDense.wi_0", "enc.blk.#.ffn_gate"},
    {"", "encoder.block.#.layer.1.DenseReluDense.wi_1", "enc.blk.#.ffn_up"},
    {"", "encoder.block.#.layer.1.DenseReluDense.wo", "enc.blk.#.ffn_down"},
    {"", "decoder.block.#.layer.0.layer_norm", "dec.blk.#.attn_norm"},
    {"", "decoder.block.#.layer.0.SelfAttention.q", "dec.blk.#.attn_q"},
    {"", "decoder.block.#.layer.0.SelfAttention.k", "dec.blk.#.attn_k"},
    {"", "decoder.block.#.layer.0.SelfAttention.v", "dec.blk.#.attn_v"},
    {"", "decoder.block.#.layer.0.SelfAttention.o", "dec.blk.#.attn_o"},
    {"", "decoder.block.#.layer.0.SelfAttention.relative_attention_bias", "dec.blk.#.attn_rel_b"},
    {"", "decoder.block.#.layer.1.layer_norm", "dec.blk.#.cross_attn_norm"},
    {"", "decoder.block.#.layer.1.EncDecAttention.q", "dec.blk.#.cross_attn_q"},
    {"", "decoder.block.#.layer.1.EncDecAttention.k", "dec.blk.#.cross_attn_k"},
    {"", "decoder.block.#.layer.1.EncDecAttention.v", "dec.blk.#.cross_attn_v"},
    {"", "decoder.block.#.layer.1.EncDecAttention.o", "dec.blk.#.cross_attn_o"},
    {"", "decoder.block.#.layer.2.layer_norm", "dec.blk.#.ffn_norm"},
    {"", "decoder.block.#.layer.2.DenseReluDense.wi", "dec.blk.#.ffn_up"},
    {"", "decoder.block.#.layer.2.DenseReluDense.wi_0", "dec.blk.#.ffn_gate"},
    {"", "decoder.block.#.layer.2.DenseReluDense.wi_1", "dec.blk.#.ffn_up"},
    {"", "decoder.block.#.layer.2.DenseReluDense.wo", "dec.blk.#.ffn_down"},
};

/* ---- Keys ---- */

/* The first key that config.json has. */
#define gguf_key(f, ...) gguf_first((f)->config, (const char *const[]){__VA_ARGS__, NULL})
static inline const json_t *gguf_first(const json_t *config, const char *const *keys) {
    const json_t *value = NULL;
    for (; *keys && (!value || json_is_null(value)); keys++)
        value = json_object_get(config, *keys);
    return json_is_null(value) ? NULL : value;
}

static inline const char *gguf_name(const gguf_fixture *f, const char *key) {
    static char names[4][96];
    static int next;
    next = (next + 1) % 4;
    snprintf(names[next], sizeof(names[next]), "%s.%s", f->arch, key);
    return names[next];
}

static inline void gguf_copy_int(gguf_fixture *f, const char *key, const json_t *value) {
    if (json_is_integer(value))
        gguf_add_u32(&f->b, gguf_name(f, key), (uint32_t)json_integer_value(value));
}

static inline void gguf_copy_number(gguf_fixture *f, const char *key, const json_t *value) {
    if (json_is_number(value))
        gguf_add_f32(&f->b, gguf_name(f, key), json_number_value(value));
}

/* RoPE: base frequencies, linear and YaRN scaling, and Llama 3's and Phi 3's factors as tensors. */
static inline void gguf_rope(gguf_fixture *f) {
    const json_t *now = json_object_get(f->config, "rope_parameters"), *old = gguf_key(f, "rope_scaling");
    const json_t *local = json_object_get(now, "sliding_attention");
    now = json_object_get(now, "full_attention") ? json_object_get(now, "full_attention") : now;
    const json_t *scaling = old ? old : now;
    const json_t *theta = json_object_get(now, "rope_theta");
    theta = theta ? theta : gguf_key(f, "rope_theta", "rotary_emb_base");
    const json_t *kind = json_object_get(scaling, "rope_type");
    const char *type = json_string_value(kind ? kind : json_object_get(scaling, "type"));
    const json_t *partial = json_object_get(now, "partial_rotary_factor");
    partial = partial ? partial : gguf_key(f, "partial_rotary_factor", "rotary_pct");
    gguf_copy_number(f, "rope.freq_base", theta);
    gguf_copy_number(f, "rope.freq_base_swa",
                     local ? json_object_get(local, "rope_theta") : gguf_key(f, "rope_local_base_freq"));
    const int64_t columns = gguf_key(f, "rotary_dim")
                                ? json_integer_value(gguf_key(f, "rotary_dim"))
                                : (int64_t)((double)f->head_width * (partial ? json_number_value(partial) : 1));
    gguf_add_u32(&f->b, gguf_name(f, "rope.dimension_count"), (uint32_t)columns);
    const json_t *original = json_object_get(scaling, "original_max_position_embeddings");
    gguf_copy_int(f, "rope.scaling.original_context_length",
                  original ? original : gguf_key(f, "original_max_position_embeddings"));
    if (type && (strcmp(type, "linear") == 0 || strcmp(type, "yarn") == 0)) {
        gguf_add_string(&f->b, gguf_name(f, "rope.scaling.type"), type);
        gguf_copy_number(f, "rope.scaling.factor", json_object_get(scaling, "factor"));
    }
    float factors[2][64];
    const int64_t pairs = columns / 2;
    if (type && strcmp(type, "llama3") == 0) {
        const double low = json_number_value(json_object_get(scaling, "low_freq_factor")),
                     high = json_number_value(json_object_get(scaling, "high_freq_factor")),
                     factor = json_number_value(json_object_get(scaling, "factor")),
                     length = json_number_value(original);
        for (int64_t i = 0; i < pairs; i++) {
            const double wave = 2 * acos(-1) * pow(json_number_value(theta), 2.0 * (double)i / (double)columns);
            const double smooth = (length / wave - low) / (high - low);
            factors[0][i] = (float)(wave < length / high  ? 1
                                    : wave > length / low ? factor
                                                          : 1 / ((1 - smooth) / factor + smooth));
        }
        gguf_add_tensor(&f->b, "rope_freqs.weight", 0, 1, &pairs, factors[0], 4 * (size_t)pairs);
    }
    static const char *const lists[] = {"short_factor", "long_factor"};
    for (int k = 0; type && strcmp(type, "longrope") == 0 && k < 2; k++) {
        for (int64_t i = 0; i < pairs; i++)
            factors[k][i] = (float)json_number_value(json_array_get(json_object_get(scaling, lists[k]), (size_t)i));
        gguf_add_tensor(&f->b, k ? "rope_factors_long.weight" : "rope_factors_short.weight", 0, 1, &pairs, factors[k],
                        4 * (size_t)pairs);
    }
}

static inline void gguf_windows(gguf_fixture *f) {
    const json_t *types = gguf_key(f, "layer_types"), *every = gguf_key(f, "sliding_window_pattern");
    gguf_copy_int(f, "attention.sliding_window", gguf_key(f, "sliding_window"));
    unsigned char local[64] = {0};
    for (int64_t i = 0; i < f->layers && (types || every); i++) {
        const char *name = json_string_value(json_array_get(types, (size_t)i));
        local[i] = name ? name[0] == 's' : (i + 1) % json_integer_value(every) != 0;
    }
    if ((types || every) && gguf_key(f, "sliding_window"))
        gguf_add_array(&f->b, gguf_name(f, "attention.sliding_window_pattern"), 7, (uint64_t)f->layers, local,
                       (size_t)f->layers);
}

static inline void gguf_keys(gguf_fixture *f) {
    const json_t *attention = gguf_key(f, "attn_config");
    const json_t *width = gguf_key(f, "hidden_size", "n_embd", "n_embed", "d_model"),
                 *heads = gguf_key(f, "num_attention_heads", "n_head", "n_heads", "num_heads"),
                 *layers = gguf_key(f, "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
                 *kv = gguf_key(f, "num_key_value_heads", "num_kv_heads"), *own = gguf_key(f, "head_dim", "d_kv"),
                 *inner = gguf_key(f, "intermediate_size", "n_inner", "ffn_hidden_size", "d_ff");
    f->heads = json_integer_value(heads);
    f->kv_heads = kv ? json_integer_value(kv) : f->heads;
    if (strcmp(f->arch, "falcon") == 0 && !json_is_true(gguf_key(f, "new_decoder_architecture")))
        f->kv_heads = json_is_true(gguf_key(f, "multi_query")) ? 1 : f->heads;
    f->head_width = own ? json_integer_value(own) : json_integer_value(width) / f->heads;
    f->layers = json_integer_value(layers);
    gguf_add_string(&f->b, "general.architecture", f->arch);
    gguf_copy_int(f, "block_count", layers);
    gguf_copy_int(f, "decoder_block_count", gguf_key(f, "num_decoder_layers"));
    gguf_copy_int(f, "embedding_length", width);
    gguf_copy_int(f, "attention.head_count", heads);
    gguf_add_u32(&f->b, gguf_name(f, "attention.head_count_kv"), (uint32_t)f->kv_heads);
    const json_t *context = gguf_key(f, "max_position_embeddings", "n_positions", "seq_length", "max_seq_len");
    gguf_add_u32(&f->b, gguf_name(f, "context_length"), context ? (uint32_t)json_integer_value(context) : 512);
    gguf_add_u32(&f->b, gguf_name(f, "feed_forward_length"),
                 (uint32_t)(inner ? json_integer_value(inner) : 4 * json_integer_value(width)));
    if (own)
        for (int i = 0; i < 2; i++)
            gguf_copy_int(f, i ? "attention.value_length" : "attention.key_length", own);
    const json_t *rms = gguf_key(f, "rms_norm_eps");
    const json_t *eps = gguf_key(f, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon");
    if (strncmp(f->arch, "t5", 2) == 0)
        rms = eps;
    gguf_copy_number(f, "attention.layer_norm_rms_epsilon", rms);
    gguf_copy_number(f, "attention.layer_norm_epsilon", eps);
    gguf_copy_int(f, "attention.relative_buckets_count", gguf_key(f, "relative_attention_num_buckets"));
    gguf_copy_int(f, "decoder_start_token_id", gguf_key(f, "decoder_start_token_id"));
    gguf_copy_number(f, "logit_scale", gguf_key(f, "logit_scale", "logits_scaling"));
    gguf_copy_number(f, "embedding_scale", gguf_key(f, "embedding_multiplier"));
    gguf_copy_number(f, "residual_scale", gguf_key(f, "residual_multiplier"));
    gguf_copy_number(f, "attention.scale", gguf_key(f, "attention_multiplier"));
    gguf_copy_number(f, "attn_logit_softcapping", gguf_key(f, "attn_logit_softcapping"));
    gguf_copy_number(f, "final_logit_softcapping", gguf_key(f, "final_logit_softcapping"));
    if (strcmp(f->arch, "bert") == 0)
        gguf_add_u32(&f->b, "bert.pooling_type", 2);
    if (attention)
        gguf_add_f32(&f->b, gguf_name(f, "attention.max_alibi_bias"), 8);
    if (gguf_key(f, "use_parallel_residual"))
        gguf_add_bool(&f->b, gguf_name(f, "use_parallel_residual"), json_is_true(gguf_key(f, "use_parallel_residual")));
    gguf_windows(f);
    if (strncmp(f->arch, "t5", 2) != 0 && strcmp(f->arch, "bert") != 0 && strcmp(f->arch, "gpt2") != 0)
        gguf_rope(f);
}

/* ---- Tensors ---- */

/* The GGUF name of `name`, or false for a tensor that GGUF does not have. *second: the number of a second `#`, or -1 */
static inline bool gguf_rename(const gguf_fixture *f, char *out, size_t size, const char *name) {
    static const char *const PREFIXES[] = {"model.", "transformer.", "gpt_neox.", "bert.", "roberta.", "nomic_bert."};
    char stem[256], number[16] = "";
    const char *end = strrchr(name, '.');
    for (size_t i = 0; i < TFM__COUNT(PREFIXES); i++)
        if (strncmp(name, PREFIXES[i], strlen(PREFIXES[i])) == 0)
            name += strlen(PREFIXES[i]);
    size_t used = 0;
    bool first = true;
    for (const char *at = name; at < end; at++) {
        const bool digit = *at >= '0' && *at <= '9' && at > name && at[-1] == '.' && first;
        const size_t length = digit ? strspn(at, "0123456789") : 0;
        if (digit && at[length] == '.') {
            snprintf(number, sizeof(number), "%.*s", (int)length, at);
            stem[used++] = '#';
            at += length - 1;
            first = false;
        } else {
            stem[used++] = *at;
        }
    }
    stem[used] = 0;
    for (size_t i = 0; i < TFM__COUNT(GGUF_NAMES); i++) {
        const char *to = GGUF_NAMES[i].to, *mark = strchr(to, '#');
        if (strcmp(GGUF_NAMES[i].from, stem) != 0 || (*GGUF_NAMES[i].arch && strcmp(GGUF_NAMES[i].arch, f->arch) != 0))
            continue;
        snprintf(out, size, mark ? "%.*s%s%s%s" : "%.*s%s%s%s", mark ? (int)(mark - to) : (int)strlen(to), to,
                 mark ? number : "", mark ? mark + 1 : "", end);
        return true;
    }
    return false;
}

static inline bool gguf_is(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

/* Row `i` of the GGUF tensor comes from this row of Hugging Face's. */
static inline int64_t gguf_row(const gguf_fixture *f, const char *name, int64_t i) {
    static const char *const INTERLEAVED[] = {"llama", "granite", "smollm3"};
    static const char *const BY_HEAD[] = {"falcon", "bloom", "gptneox"};
    const int64_t d = f->head_width, group = f->heads / f->kv_heads;
    for (size_t k = 0; k < TFM__COUNT(INTERLEAVED); k++)
        if (strcmp(f->arch, INTERLEAVED[k]) == 0 && (gguf_is(name, "attn_q.") || gguf_is(name, "attn_k.")))
            return i / d * d + (i % 2) * (d / 2) + i % d / 2;
    for (size_t k = 0; k < TFM__COUNT(BY_HEAD); k++)
        if (strcmp(f->arch, BY_HEAD[k]) == 0 && gguf_is(name, "attn_qkv.")) {
            const int64_t queries = f->heads * d, keys = f->kv_heads * d;
            if (i < queries)
                return i / (group * d) * (group + 2) * d + i % (group * d);
            const int64_t rest = (i - queries) % keys;
            return rest / d * (group + 2) * d + (group + (i - queries >= keys)) * d + rest % d;
        }
    return i;
}

/* The values, in the order of the file. */
static inline float *gguf_values(const gguf_fixture *f, const char *name, const tfm__stored_tensor *t, int64_t *dims) {
    const bool turned = strcmp(f->arch, "gpt2") == 0 && t->rank == 2 && gguf_is(name, "blk.");
    float *in = malloc(4 * t->count + 4), *out = malloc(4 * t->count + 4);
    assert_true(in && out);
    tfm__stored_to_floats(in, t, 0, t->count, 1);
    memcpy(dims, t->dims, sizeof(int64_t) * (size_t)t->rank);
    if (turned) {
        dims[0] = t->dims[1];
        dims[1] = t->dims[0];
    }
    const int64_t columns = t->rank == 2 ? dims[1] : 1, rows = (int64_t)t->count / columns;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++)
            out[i * columns + k] = in[turned ? k * rows + i : gguf_row(f, name, i) * columns + k];
    const bool plus = strncmp(f->arch, "gemma", 5) == 0 && gguf_is(name, "norm.weight");
    for (size_t i = 0; plus && i < t->count; i++)
        out[i] += 1;
    free(in);
    return out;
}

/* One norm per head becomes one tensor. */
static inline bool gguf_head_norm(gguf_fixture *f, const tfm__stored_tensor *t) {
    char name[256], stem[256];
    const char *mark = strstr(t->name, ".norms.");
    if (!mark)
        return false;
    if (strncmp(mark, ".norms.0.", 9) != 0)
        return true;
    const bool keys = gguf_is(t->name, "k_layernorm");
    const int64_t dims[] = {keys ? f->kv_heads : f->heads, f->head_width};
    float *all = malloc(4 * (size_t)(dims[0] * dims[1]));
    assert_non_null(all);
    for (int64_t i = 0; i < dims[0]; i++) {
        snprintf(name, sizeof(name), "%.*s.norms.%d.weight", (int)(mark - t->name), t->name, (int)i);
        tfm__stored_to_floats(all + i * dims[1], tfm__weights_find(f->weights, name), 0, (size_t)dims[1], 1);
    }
    snprintf(name, sizeof(name), "%.*s.weight", (int)(mark - t->name), t->name);
    assert_true(gguf_rename(f, stem, sizeof(stem), name));
    gguf_add_tensor(&f->b, stem, 0, 2, dims, all, 4 * (size_t)(dims[0] * dims[1]));
    free(all);
    return true;
}

/* Positions before the first one are not stored. */
static inline int64_t gguf_skipped(const gguf_fixture *f, const char *name) {
    const char *type = json_string_value(gguf_key(f, "model_type"));
    return strcmp(name, "position_embd.weight") == 0 && type && strstr(type, "roberta")
               ? json_integer_value(gguf_key(f, "pad_token_id")) + 1
               : 0;
}

/* Writes `dir` as scratch file `to`. */
static inline void gguf_fixture_write(const char *dir, const char *arch, const char *to) {
    gguf_fixture f = {.arch = arch};
    json_t *config = NULL;
    tfm__weights *weights = NULL;
    char *path = malloc(strlen(dir) + 16), name[256];
    bool embedding = false;
    assert_non_null(path);
    sprintf(path, "%s/config.json", dir);
    harness_ok(tfm__json_load(&config, path));
    harness_ok(tfm__weights_open_dir(&weights, dir));
    f.config = config;
    f.weights = weights;
    gguf_keys(&f);
    const bool untied = json_is_false(gguf_key(&f, "tie_word_embeddings")) || strncmp(arch, "t5", 2) == 0;
    for (size_t i = 0; i < tfm__weights_count(weights); i++) {
        const tfm__stored_tensor *t = tfm__weights_at(weights, i);
        int64_t dims[TFM_MAX_RANK];
        if (!t->usable || gguf_head_norm(&f, t) || !gguf_rename(&f, name, sizeof(name), t->name))
            continue;
        if ((strcmp(name, "output.weight") == 0 && !untied) || (embedding && strcmp(name, "token_embd.weight") == 0))
            continue;
        embedding |= strcmp(name, "token_embd.weight") == 0;
        float *values = gguf_values(&f, name, t, dims);
        const int64_t skipped = gguf_skipped(&f, name), columns = t->rank > 1 ? dims[1] : 1;
        dims[0] -= skipped;
        gguf_add_tensor(&f.b, name, 0, t->rank, dims, values + skipped * columns, 4 * (size_t)(dims[0] * columns));
        free(values);
    }
    gguf_write(&f.b, to);
    tfm__weights_free(&weights);
    json_decref(config);
    free(path);
}

#endif
