/* RoPE keys of GGUF metadata. Scalings that files hold as a table of factors become "longrope", which has one. */
#include <math.h>
#include <string.h>
#include "model/arch/decoder.h"
#include "model/arch/gguf_arch.h"
#include "ops/quant/quant_format.h"

/* The factors of a tensor, as a list; NULL if the file has no such tensor. */
static json_t *factors_of(tfm__gguf_source *s, const char *name) {
    const tfm__gguf_tensor *t = tfm__gguf_tensor_find(s->gguf, name);
    float values[TFM__MAX_ROTARY_PAIRS];
    if (!t)
        return NULL;
    if (t->type != TFM__QUANT_F32 || t->count > TFM__MAX_ROTARY_PAIRS) {
        tfm__gguf_refuse(s, "%s: tensor %s has %zu numbers of type %s; at most %d of type F32 are supported", s->path,
                         name, t->count, tfm__gguf_type_get(t->type)->name, TFM__MAX_ROTARY_PAIRS);
        return NULL;
    }
    memcpy(values, t->data, t->bytes);
    json_t *list = json_array();
    for (size_t i = 0; i < t->count; i++)
        json_array_append_new(list, json_real((double)values[i]));
    return list;
}

/* Long and short factors of Phi 3, or the factors of Llama 3.1, which hold at all lengths. */
static json_t *table_scaling(tfm__gguf_source *s, int64_t original) {
    json_t *all = factors_of(s, "rope_freqs.weight");
    json_t *small = all ? json_incref(all) : factors_of(s, "rope_factors_short.weight");
    json_t *large = all ? all : factors_of(s, "rope_factors_long.weight");
    double attention = 0;
    if (!small || !large) {
        json_decref(small);
        json_decref(large);
        return NULL;
    }
    json_t *out = json_pack("{s:s, s:o, s:o, s:I}", "rope_type", "longrope", "short_factor", small, "long_factor",
                            large, "original_max_position_embeddings", (json_int_t)original);
    if (all)
        json_object_set_new(out, "attention_factor", json_real(1));
    else if (tfm__gguf_read_number(s, "rope.scaling.attn_factor", &attention) && attention > 0)
        json_object_set_new(out, "attention_factor", json_real(attention));
    return out;
}

/* A scaling that metadata describe; NULL: none. llama.cpp's default type is linear. */
static json_t *key_scaling(tfm__gguf_source *s, int64_t original) {
    static const struct {
        const char *key, *config;
    } yarn[] = {{"rope.scaling.yarn_attn_factor", "attention_factor"},
                {"rope.scaling.yarn_beta_fast", "beta_fast"},
                {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    const tfm__gguf_value *type = tfm__gguf_read_value(s, "rope.scaling.type");
    double factor = 0, value;
    if (!tfm__gguf_read_number(s, "rope.scaling.factor", &factor))
        tfm__gguf_read_number(s, "rope.scale_linear", &factor);
    const bool is_yarn = tfm__gguf_is(type, 0, "yarn");
    if (type && !is_yarn && !tfm__gguf_is(type, 0, "linear") && !tfm__gguf_is(type, 0, "none") &&
        !tfm__gguf_is(type, 0, "longrope")) {
        tfm__gguf_refuse(s, "%s: `rope.scaling.type` is none of \"none\", \"linear\", \"yarn\" and \"longrope\"",
                         s->path);
        return NULL;
    }
    if (!(factor > 0) || factor == 1 || (type && !is_yarn && !tfm__gguf_is(type, 0, "linear")))
        return NULL;
    json_t *out = json_pack("{s:s, s:f}", "rope_type", is_yarn ? "yarn" : "linear", "factor", factor);
    if (is_yarn)
        json_object_set_new(out, "original_max_position_embeddings", json_integer((json_int_t)original));
    for (size_t i = 0; is_yarn && i < TFM__COUNT(yarn); i++)
        if (tfm__gguf_read_number(s, yarn[i].key, &value))
            json_object_set_new(out, yarn[i].config, json_real(value));
    return out;
}

/* The share of rotated columns, whose product with the head's width is rounded down to `count`. */
static double share_of(int64_t count, int64_t width) {
    double share = (double)count / (double)width;
    while ((int64_t)((double)width * share) < count)
        share = nextafter(share, 2);
    return share;
}

static void set_width(tfm__gguf_source *s, const tfm__decoder_kind *k, int64_t head_width) {
    int64_t count = head_width; /* llama.cpp's default */
    tfm__gguf_read_int(s, "rope.dimension_count", &count);
    if (count < 1 || count > head_width || (count != head_width && k->partial == 0 && !k->rotary_size_key))
        tfm__gguf_refuse(s, "%s: `%s.rope.dimension_count` is %lld, and heads have %lld columns: not supported",
                         s->path, s->arch->name, (long long)count, (long long)head_width);
    else if (k->rotary_size_key)
        tfm__gguf_set(s, k->rotary_size_key, json_integer((json_int_t)count));
    else if (k->partial != 0)
        tfm__gguf_set(s, tfm__key_or(k->partial_key, "partial_rotary_factor"), json_real(share_of(count, head_width)));
}

void tfm__gguf_rope(tfm__gguf_source *s, const tfm__decoder_kind *k, int64_t head_width) {
    int64_t original = 0, positions = 1;
    double theta = 10000, local = k->local_theta; /* llama.cpp's default */
    if (k->alibi || s->status != TFM_OK)
        return;
    set_width(s, k, head_width);
    if (k->fixed_rope)
        return;
    tfm__gguf_read_number(s, "rope.freq_base", &theta);
    tfm__gguf_set(s, tfm__key_or(k->theta_key, "rope_theta"), json_real(theta));
    if (local != 0) {
        tfm__gguf_read_number(s, "rope.freq_base_swa", &local);
        tfm__gguf_set(s, "rope_local_base_freq", json_real(local));
    }
    tfm__gguf_read_int(s, "context_length", &positions);
    const bool given = tfm__gguf_read_int(s, "rope.scaling.original_context_length", &original);
    if (given && k->original)
        tfm__gguf_set(s, "original_max_position_embeddings", json_integer((json_int_t)original));
    json_t *scaling = table_scaling(s, given ? original : positions);
    if (!scaling)
        scaling = key_scaling(s, given ? original : positions);
    if (scaling)
        tfm__gguf_set(s, "rope_scaling", scaling);
}
