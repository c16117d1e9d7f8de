/* GGUF metadata as config.json of a family. Sizes have LLaMA's keys, which all families read; what metadata do not say
 * is taken from the tensors that the file has. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/arch/decoder.h"
#include "model/arch/gguf_arch.h"

/* ---- Keys ---------------------------------------------------------------------------------------------- */

static bool has(const tfm__gguf_source *s, const char *tensor) {
    return tfm__gguf_tensor_find(s->gguf, tensor) != NULL;
}

static void set_flag(tfm__gguf_source *s, const char *key, bool value) {
    if (key)
        tfm__gguf_set(s, key, json_boolean(value));
}

/* Copies a number if the file has it. */
static void copy_number(tfm__gguf_source *s, const char *key, const char *config) {
    double value;
    if (tfm__gguf_read_number(s, key, &value))
        tfm__gguf_set(s, config, json_real(value));
}

static void copy_int(tfm__gguf_source *s, const char *key, const char *config, bool needed) {
    int64_t value;
    if (tfm__gguf_read_int(s, key, &value))
        tfm__gguf_set(s, config, json_integer((json_int_t)value));
    else if (needed && s->status == TFM_OK)
        s->status = tfm__fail(TFM_ERROR_FORMAT, "%s has no `%s.%s`: it is incomplete, use another file", s->path,
                              s->arch->name, key);
}

/* The first dimension of a tensor; 0 if there is none. */
static int64_t rows_of(const tfm__gguf_source *s, const char *name) {
    const tfm__gguf_tensor *t = tfm__gguf_tensor_find(s->gguf, name);
    return !t ? 0 : t->rank > 1 ? t->dims[t->rank - 2] : 1;
}

/* ---- All families ------------------------------------------------------------------------------------- */

static void set_sizes(tfm__gguf_source *s, const char *feed_forward_key) {
    const int64_t vocabulary = rows_of(s, "token_embd.weight");
    copy_int(s, "block_count", "num_hidden_layers", true);
    copy_int(s, "embedding_length", "hidden_size", true);
    copy_int(s, "attention.head_count", "num_attention_heads", true);
    copy_int(s, "context_length", "max_position_embeddings", true);
    if (feed_forward_key && *feed_forward_key)
        copy_int(s, "feed_forward_length", feed_forward_key, true);
    if (vocabulary)
        tfm__gguf_set(s, "vocab_size", json_integer((json_int_t)vocabulary));
    else if (s->status == TFM_OK)
        s->status = tfm__fail(TFM_ERROR_FORMAT,
                              "%s has no tensor token_embd.weight: it is a vocabulary or a part of a "
                              "model, use the whole model",
                              s->path);
}

static void set_epsilon(tfm__gguf_source *s, const char *key) {
    double value;
    if (tfm__gguf_read_number(s, "attention.layer_norm_rms_epsilon", &value) ||
        tfm__gguf_read_number(s, "attention.layer_norm_epsilon", &value))
        tfm__gguf_set(s, key, json_real(value));
    else
        copy_int(s, "attention.layer_norm_epsilon", key, true);
}

static void set_class(tfm__gguf_source *s, const tfm__family *family) {
    const char *base = *s->arch->class_end ? family->classes[0] : "T5ForConditionalGeneration";
    char name[64];
    snprintf(name, sizeof(name), "%s%s", strcmp(family->name, "t5") == 0 && *s->arch->class_end ? "T5" : base,
             s->arch->class_end);
    tfm__gguf_set(s, "architectures", json_pack("[s]", name));
    tfm__gguf_set(s, "model_type", json_string(family->name));
}

/* ---- Decoder-only families with a table --------------------------------------------------------------- */

/* Returns the width of a head. */
static int64_t set_heads(tfm__gguf_source *s, const tfm__decoder_kind *k) {
    int64_t width = 0, heads = 1, own = 0, values = 0;
    tfm__gguf_read_int(s, "embedding_length", &width);
    tfm__gguf_read_int(s, "attention.head_count", &heads);
    copy_int(s, "attention.head_count_kv", "num_key_value_heads", false);
    const int64_t usual = heads > 0 ? width / heads : 0;
    if (!tfm__gguf_read_int(s, "attention.key_length", &own))
        own = usual;
    if (tfm__gguf_read_int(s, "attention.value_length", &values) && values != own)
        tfm__gguf_refuse(s, "%s: keys have %lld columns per head and values %lld, which is not supported", s->path,
                         (long long)own, (long long)values);
    if (k->no_head_width && own != usual)
        tfm__gguf_refuse(s, "%s: heads have %lld columns; this family supports %lld, the width divided by the heads",
                         s->path, (long long)own, (long long)usual);
    else if (!k->no_head_width && (own != usual || k->head_width))
        tfm__gguf_set(s, "head_dim", json_integer((json_int_t)own));
    return own;
}

/* Flags by the tensors that exist. */
static void set_flags(tfm__gguf_source *s, const tfm__decoder_kind *k) {
    const bool inputs = has(s, "blk.0.attn_q.bias") || has(s, "blk.0.attn_qkv.bias");
    const tfm__gguf_value *parallel = tfm__gguf_read_value(s, "use_parallel_residual");
    bool together = !has(s, "blk.0.ffn_norm.weight");
    set_flag(s, "tie_word_embeddings", !has(s, "output.weight"));
    set_flag(s, k->attention_biases, k->input_biases ? has(s, "blk.0.attn_output.bias") : inputs);
    set_flag(s, k->input_bias_key, inputs);
    set_flag(s, k->mlp_biases, has(s, "blk.0.ffn_up.bias") || has(s, "blk.0.ffn_down.bias"));
    set_flag(s, k->head_norms_key, has(s, "blk.0.attn_q_norm.weight"));
    if (!k->parallel_norm && k->parallel) /* GPT-NeoX has both norms in both forms */
        tfm__gguf_bool(&together, parallel, 0);
    set_flag(s, k->parallel_key, together);
}

/* `attention.sliding_window_pattern`: a flag per layer, or every n-th layer is global. */
static void set_pattern(tfm__gguf_source *s, const tfm__gguf_value *pattern, bool none) {
    int64_t layers = 0, every = 0;
    tfm__gguf_read_int(s, "block_count", &layers);
    if (!none && pattern && !pattern->is_array && tfm__gguf_i64(&every, pattern, 0)) {
        if (every < 1)
            tfm__gguf_wrong_kind(s, "attention.sliding_window_pattern", "positive integer");
    } else if (!none && pattern && pattern->count != (size_t)layers) {
        tfm__gguf_wrong_kind(s, "attention.sliding_window_pattern", "list with one flag per layer");
    } else if (!none && !pattern) {
        return;
    }
    json_t *types = json_array();
    for (int64_t i = 0; i < layers && i < TFM__MAX_LAYERS; i++) {
        bool local = every > 0 && (i + 1) % every != 0;
        int64_t number = 0;
        if (!none && every == 0 && !tfm__gguf_bool(&local, pattern, (size_t)i) &&
            tfm__gguf_i64(&number, pattern, (size_t)i))
            local = number != 0;
        json_array_append_new(types, json_string(local ? "sliding_attention" : "full_attention"));
    }
    tfm__gguf_set(s, "layer_types", types);
}

static void set_windows(tfm__gguf_source *s, const tfm__decoder_kind *k) {
    int64_t window = 0;
    const bool given = tfm__gguf_read_int(s, "attention.sliding_window", &window) && window > 0;
    if (k->windows == TFM__WINDOW_NOWHERE) {
        if (given)
            tfm__gguf_refuse(s, "%s: `%s.attention.sliding_window` is %lld, which is not supported for this family",
                             s->path, s->arch->name, (long long)window);
        return;
    }
    if (given || k->windows != TFM__WINDOW_BY_PATTERN)
        tfm__gguf_set(s, "sliding_window", given ? json_integer((json_int_t)window) : json_null());
    if (given && (k->windows == TFM__WINDOW_FROM_LAYER || k->windows == TFM__WINDOW_IF_NO_ROPE)) {
        set_flag(s, "use_sliding_window", true);
        tfm__gguf_set(s, "max_window_layers", json_integer(0));
    }
    const tfm__gguf_value *pattern = tfm__gguf_read_value(s, "attention.sliding_window_pattern");
    if (k->windows == TFM__WINDOW_BY_PATTERN) /* Gemma 2 has a window if no key says so, Gemma 3 has none */
        set_pattern(s, pattern, !given && k->local_theta != 0);
    else if (given && k->windows != TFM__WINDOW_EVERYWHERE)
        set_pattern(s, pattern, false);
}

/* Factors, and Gemma's score scale: 1 / sqrt(head width), in the largest models 1 / sqrt(width / heads). */
static void set_numbers(tfm__gguf_source *s, const tfm__decoder_kind *k, int64_t head_width) {
    int64_t layers = 0, width = 0, heads = 1;
    double scale;
    set_epsilon(s, tfm__key_or(k->epsilon_key, "rms_norm_eps"));
    if (k->logit_scale_key)
        copy_number(s, "logit_scale", k->logit_scale_key);
    if (k->multipliers) {
        static const char *const keys[] = {"embedding_scale", "attention.scale", "residual_scale", "logit_scale"};
        for (size_t i = 0; i < TFM__COUNT(keys); i++)
            copy_number(s, keys[i], tfm__decoder_multipliers[i]);
        if (!json_object_get(s->out, tfm__decoder_multipliers[1]) && head_width > 0)
            tfm__gguf_set(s, tfm__decoder_multipliers[1], json_real(1 / sqrt((double)head_width)));
    }
    if (!k->sandwich_norm)
        return;
    tfm__gguf_read_int(s, "block_count", &layers);
    tfm__gguf_read_int(s, "embedding_length", &width);
    tfm__gguf_read_int(s, "attention.head_count", &heads);
    const bool largest = layers == (k->local_theta != 0 ? 62 : 46) && heads > 0;
    const double scalar = tfm__gguf_read_number(s, "attention.scale", &scale) && scale > 0 ? 1 / (scale * scale)
                          : largest                                                        ? (double)(width / heads)
                                                                                           : (double)head_width;
    tfm__gguf_set(s, "query_pre_attn_scalar", json_real(scalar));
    copy_number(s, "attn_logit_softcapping", TFM__SCORE_CAP);
    copy_number(s, "final_logit_softcapping", "final_logit_softcapping");
}

/* Falcon's form, by its tensors: the 40B form has two norms, the 11B form one norm and grouped queries. */
static void set_falcon(tfm__gguf_source *s) {
    int64_t heads = 1, kv_heads = 1;
    tfm__gguf_read_int(s, "attention.head_count", &heads);
    tfm__gguf_read_int(s, "attention.head_count_kv", &kv_heads);
    const bool two = has(s, "blk.0.attn_norm_2.weight");
    set_flag(s, "new_decoder_architecture", two || (kv_heads != 1 && kv_heads != heads));
    set_flag(s, "multi_query", kv_heads == 1);
    tfm__gguf_set(s, "num_ln_in_parallel_attn", json_integer(two ? 2 : 1));
}

static void set_mpt(tfm__gguf_source *s) {
    double bias = 8, clamp = 0;
    tfm__gguf_read_number(s, "attention.max_alibi_bias", &bias);
    tfm__gguf_read_number(s, "attention.clamp_kqv", &clamp);
    if (bias != 0 && bias != 8)
        tfm__gguf_refuse(s, "%s: `mpt.attention.max_alibi_bias` is %g; 8 is supported", s->path, bias);
    tfm__gguf_set(s, "attn_config",
                  json_pack("{s:b, s:o}", "alibi", bias != 0, "clip_qkv", clamp > 0 ? json_real(clamp) : json_false()));
}

/* Keys that only some architectures have. */
static void set_more(tfm__gguf_source *s) {
    const char *name = s->arch->name;
    bool flag = true;
    if (strcmp(name, "falcon") == 0)
        set_falcon(s);
    if (strcmp(name, "mpt") == 0)
        set_mpt(s);
    if (strcmp(name, "granite") == 0 && tfm__gguf_bool(&flag, tfm__gguf_read_value(s, "rope.scaling.finetuned"), 0) &&
        !flag)
        tfm__gguf_refuse(s, "%s: Granite without RoPE (`granite.rope.scaling.finetuned`) is not supported", s->path);
    if (tfm__gguf_bool(&flag, tfm__gguf_read_value(s, "attention.causal"), 0) && !flag)
        set_flag(s, "is_causal", false);
}

static void set_decoder(tfm__gguf_source *s, const tfm__decoder_kind *k) {
    set_sizes(s, k->feed_forward_key && !*k->feed_forward_key ? NULL : "intermediate_size");
    const int64_t head_width = set_heads(s, k);
    set_flags(s, k);
    set_windows(s, k);
    set_numbers(s, k, head_width);
    set_more(s);
    tfm__gguf_rope(s, k, head_width);
}

/* ---- Other families ----------------------------------------------------------------------------------- */

static void set_bert(tfm__gguf_source *s) {
    const int64_t positions = rows_of(s, "position_embd.weight"), types = rows_of(s, "token_types.weight");
    if (positions)
        tfm__gguf_set(s, "max_position_embeddings", json_integer((json_int_t)positions));
    if (types)
        tfm__gguf_set(s, "type_vocab_size", json_integer((json_int_t)types));
    else
        tfm__gguf_refuse(s,
                         "%s has no tensor token_types.weight, as files made from DistilBERT and MPNet: use the "
                         "directory with model.safetensors that it was made from",
                         s->path);
}

static void set_nomic_bert(tfm__gguf_source *s) {
    double theta = 0;
    if (tfm__gguf_read_number(s, "rope.freq_base", &theta))
        tfm__gguf_set(s, "rope_parameters", json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", theta));
    tfm__gguf_set(s, "type_vocab_size", json_integer((json_int_t)rows_of(s, "token_types.weight")));
}

static void set_t5(tfm__gguf_source *s) {
    int64_t layers = 0;
    tfm__gguf_read_int(s, "block_count", &layers);
    copy_int(s, "attention.key_length", "head_dim", true);
    copy_int(s, "attention.relative_buckets_count", "relative_attention_num_buckets", true);
    tfm__gguf_set(s, "num_decoder_layers", json_integer((json_int_t)layers));
    copy_int(s, "decoder_block_count", "num_decoder_layers", false);
    tfm__gguf_set(s, "feed_forward_proj", json_string(has(s, "enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu"));
    set_flag(s, "tie_word_embeddings", !has(s, "output.weight"));
}

tfm_status tfm__gguf_config(json_t **out, const tfm__gguf *gguf, const tfm__gguf_arch *arch,
                            const tfm__family *family) {
    tfm__gguf_source s = {.gguf = gguf, .arch = arch, .path = tfm__gguf_path(gguf, 0), .out = json_object()};
    *out = s.out;
    if (!s.out)
        return TFM_ERROR_MEMORY;
    set_class(&s, family);
    if (family->decoder_kind) {
        set_decoder(&s, family->decoder_kind);
    } else {
        set_sizes(&s, arch->feed_forward_key);
        set_epsilon(&s, arch->epsilon_key);
        if (family->decoder && !family->encoder)
            set_flag(&s, "tie_word_embeddings", !has(&s, "output.weight"));
        if (strcmp(arch->name, "bert") == 0)
            set_bert(&s);
        if (strcmp(arch->name, "nomic-bert") == 0)
            set_nomic_bert(&s);
        if (strncmp(arch->name, "t5", 2) == 0)
            set_t5(&s);
    }
    tfm__gguf_ids(&s);
    return s.status;
}
