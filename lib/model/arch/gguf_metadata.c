/* Writes the metadata of a model: the reverse of gguf_config.c and gguf_rope.c. What they cannot express is found when
 * the file is read again (model/core/gguf_export.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/arch/decoder.h"
#include "model/arch/gguf_arch.h"
#include "ops/quant/quant_format.h"

/* "llama.KEY"; valid until the next call. */
static const char *key_of(char out[96], const tfm__gguf_arch *a, const char *key) {
    snprintf(out, 96, "%s.%s", a->name, key);
    return out;
}

#define KEY(key) key_of((char[96]){0}, a, key)

static void add_int(tfm__gguf_writer *w, const tfm__gguf_arch *a, const char *key, int64_t value) {
    tfm__gguf_add_u32(w, KEY(key), (uint32_t)value);
}

static void add_number(tfm__gguf_writer *w, const tfm__gguf_arch *a, const char *key, float value) {
    if (value != 0)
        tfm__gguf_add_f32(w, KEY(key), value);
}

/* The quotient of the usual frequency and that of the pair. */
static void factors_of(float *out, const tfm__rotary_arch *r, const double *inv_freq) {
    for (int i = 0; i < r->width / 2; i++)
        out[i] = (float)(1 / pow(r->config.theta, 2.0 * i / r->freq_dim) / inv_freq[i]);
}

size_t tfm__gguf_rope_tensors(tfm__gguf_rope_tensor out[2], const tfm__arch *arch) {
    const tfm__rotary_arch *r = &arch->decoder.rotary;
    const tfm__rope_config *f = &r->config;
    const size_t bytes = (size_t)r->width / 2 * sizeof(float);
    const bool same = memcmp(f->short_factor, f->long_factor, bytes) == 0 && f->attention_factor == 1;
    if (r->width == 0 || (f->type != TFM__ROPE_LLAMA3 && f->type != TFM__ROPE_LONGROPE))
        return 0;
    out[0].name = "rope_freqs.weight";
    if (f->type == TFM__ROPE_LLAMA3)
        factors_of(out[0].factors, r, r->inv_freq);
    else
        memcpy(out[0].factors, f->short_factor, bytes);
    if (f->type == TFM__ROPE_LLAMA3 || same)
        return 1;
    out[0].name = "rope_factors_short.weight";
    out[1].name = "rope_factors_long.weight";
    memcpy(out[1].factors, f->long_factor, bytes);
    return 2;
}

static void write_rope(tfm__gguf_writer *w, const tfm__gguf_arch *a, const tfm__family *family,
                       const tfm__stack_arch *s) {
    const tfm__rope_config *f = &s->rotary.config;
    const bool yarn = f->type == TFM__ROPE_YARN, longrope = f->type == TFM__ROPE_LONGROPE;
    if (s->rotary.width == 0)
        return;
    add_int(w, a, "rope.dimension_count", s->rotary.freq_dim);
    add_number(w, a, "rope.freq_base", (float)f->theta);
    if (family->decoder_kind && family->decoder_kind->local_theta != 0)
        add_number(w, a, "rope.freq_base_swa", (float)s->local_rotary.config.theta);
    if (yarn || longrope || (family->decoder_kind && family->decoder_kind->original))
        add_int(w, a, "rope.scaling.original_context_length", f->original);
    if (longrope)
        add_number(w, a, "rope.scaling.attn_factor", s->rotary.scale);
    if (!yarn && f->type != TFM__ROPE_LINEAR)
        return;
    tfm__gguf_add_string(w, KEY("rope.scaling.type"), yarn ? "yarn" : "linear");
    add_number(w, a, "rope.scaling.factor", (float)f->factor);
    add_number(w, a, "rope.scaling.yarn_attn_factor", (float)f->attention_factor);
    add_number(w, a, "rope.scaling.yarn_beta_fast", (float)f->beta_fast);
    add_number(w, a, "rope.scaling.yarn_beta_slow", (float)f->beta_slow);
}

static void write_windows(tfm__gguf_writer *w, const tfm__gguf_arch *a, const tfm__stack_arch *s) {
    unsigned char local[TFM__MAX_LAYERS];
    int count = 0;
    for (int i = 0; i < s->layers; i++)
        count += local[i] = (s->layer[i] & TFM__LOCAL_LAYER) != 0;
    if (count == 0)
        return;
    add_int(w, a, "attention.sliding_window", s->window);
    if (count < s->layers)
        tfm__gguf_add_numbers(w, KEY("attention.sliding_window_pattern"), TFM__GGUF_BOOL, local, (size_t)s->layers,
                              (size_t)s->layers);
}

/* Sizes of the stack that names them: the encoder, or the decoder of a decoder-only model. */
static void write_sizes(tfm__gguf_writer *w, const tfm__gguf_arch *a, const tfm__arch *arch) {
    const tfm__stack_arch *s = arch->encoder.layers ? &arch->encoder : &arch->decoder;
    const bool t5 = s->relative.buckets > 0;
    add_int(w, a, "vocab_size", s->vocabulary);
    add_int(w, a, "context_length", s->rotary.width ? s->rotary.config.positions : t5 ? 512 : s->max_positions);
    add_int(w, a, "embedding_length", s->width);
    add_int(w, a, "block_count", s->layers);
    add_int(w, a, "feed_forward_length", s->feed_forward);
    add_int(w, a, "attention.head_count", s->heads);
    add_int(w, a, "attention.head_count_kv", s->kv_heads);
    add_int(w, a, "attention.key_length", s->head_width);
    add_int(w, a, "attention.value_length", s->head_width);
    if (s->norm == TFM_NORM_RMS)
        tfm__gguf_add_f32(w, KEY("attention.layer_norm_rms_epsilon"), s->epsilon);
    if (s->norm != TFM_NORM_RMS || t5)
        tfm__gguf_add_f32(w, KEY("attention.layer_norm_epsilon"), s->epsilon);
    if (t5)
        add_int(w, a, "attention.relative_buckets_count", s->relative.buckets);
    if (t5 && arch->decoder.layers)
        add_int(w, a, "decoder_block_count", arch->decoder.layers);
}

void tfm__gguf_metadata_write(tfm__gguf_writer *w, const tfm__gguf_arch *a, const tfm__family *family,
                              const tfm__arch *arch, const tfm__generation_rules *rules) {
    const tfm__stack_arch *s = &arch->decoder;
    const tfm__decoder_kind *k = family->decoder_kind;
    tfm__gguf_add_string(w, "general.architecture", a->name);
    write_sizes(w, a, arch);
    if (!s->layers) {
        tfm__gguf_add_bool(w, KEY("attention.causal"), false);
        write_rope(w, a, family, &arch->encoder);
        return;
    }
    if (arch->encoder.layers)
        add_int(w, a, "decoder_start_token_id", rules->start_id);
    if (!k)
        return;
    write_rope(w, a, family, s);
    write_windows(w, a, s);
    add_number(w, a, "attn_logit_softcapping", s->score_cap);
    add_number(w, a, "final_logit_softcapping", arch->logit_cap);
    if (k->multipliers) {
        add_number(w, a, "embedding_scale", s->embedding_scale);
        add_number(w, a, "attention.scale", s->score_scale);
        add_number(w, a, "residual_scale", s->residual_scale == 0 ? 1 : s->residual_scale);
        add_number(w, a, "logit_scale", arch->output_scale == 0 ? 1 : 1 / arch->output_scale);
    }
    if (k->logit_scale_key)
        add_number(w, a, "logit_scale", arch->output_scale == 0 ? 1 : arch->output_scale);
    if (k->parallel_key)
        tfm__gguf_add_bool(w, KEY("use_parallel_residual"), s->parallel);
    if (strcmp(a->name, "mpt") == 0)
        tfm__gguf_add_f32(w, KEY("attention.max_alibi_bias"), 8);
}

/* ---- Comparison ---- */

static bool same_rope(const tfm__rotary_arch *a, const tfm__rotary_arch *b) {
    bool same = a->width == b->width && a->interleaved == b->interleaved && fabsf(a->scale - b->scale) <= 1e-6f;
    const bool longer = a->config.type == TFM__ROPE_LONGROPE && b->config.type == TFM__ROPE_LONGROPE;
    for (int i = 0; same && i < a->width / 2; i++)
        same = fabs(a->inv_freq[i] - b->inv_freq[i]) <= 1e-6 * a->inv_freq[i] &&
               (!longer || fabs(a->inv_freq_long[i] - b->inv_freq_long[i]) <= 1e-6 * a->inv_freq_long[i]);
    return same && (!longer || a->switch_length == b->switch_length) &&
           (a->config.type == TFM__ROPE_DYNAMIC) == (b->config.type == TFM__ROPE_DYNAMIC);
}

/* The first property that differs, or NULL. */
static const char *stack_difference(const tfm__stack_arch *a, const tfm__stack_arch *b) {
#define SAME(field, name)                                                                                              \
    if (a->field != b->field)                                                                                          \
        return name;
    SAME(layers, "number of layers")
    SAME(width, "width")
    SAME(narrow_width, "embedding width")
    SAME(heads, "number of heads")
    SAME(kv_heads, "number of KV heads")
    SAME(head_width, "width of heads")
    SAME(feed_forward, "feed-forward width")
    SAME(activation, "activation")
    SAME(gated, "gate")
    SAME(input_biases, "biases of attention")
    SAME(output_biases, "biases of attention")
    SAME(feed_forward_biases, "biases of feed-forward layers")
    SAME(no_gate_biases, "biases of feed-forward layers")
    SAME(epsilon, "norm epsilon")
    SAME(head_norms, "QK norms")
    SAME(parallel, "parallel sub-layers")
    SAME(shared_norm, "norms")
    SAME(residual_scale, "residual multiplier")
    SAME(embedding_scale, "embedding multiplier")
    SAME(vocabulary, "vocabulary")
    SAME(token_types, "token types")
    SAME(position_offset, "offset of positions")
    SAME(relative.buckets, "relative position bias")
    SAME(relative.max_distance, "relative position bias")
    SAME(relative.per_layer, "relative position bias")
    SAME(score_scale, "scale of attention scores")
    SAME(scale_by_inverse_layer, "scale of attention scores")
    SAME(score_cap, "soft cap")
    SAME(window, "sliding window")
#undef SAME
    if (memcmp(a->layer, b->layer, (size_t)a->layers) != 0)
        return "types of layers";
    return same_rope(&a->rotary, &b->rotary) && same_rope(&a->local_rotary, &b->local_rotary) ? NULL : "RoPE";
}

const char *tfm__gguf_difference(const tfm__arch *a, const tfm__arch *b) {
    const char *encoder = stack_difference(&a->encoder, &b->encoder);
    return encoder                              ? encoder
           : a->output_scale != b->output_scale ? "scale of logits"
           : a->logit_cap != b->logit_cap       ? "soft cap"
                                                : stack_difference(&a->decoder, &b->decoder);
}
