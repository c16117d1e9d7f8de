/* Decoder-only models. A family is a table of keys, defaults and flags, and a table of tensor names: config.json is
 * read and written by them. */
#ifndef TFM_LIB_DECODER_H
#define TFM_LIB_DECODER_H

#include "model/arch/rope.h"

/* How a kind says which layers see a window alone. */
typedef enum tfm__window_keys {
    TFM__WINDOW_NOWHERE,
    TFM__WINDOW_EVERYWHERE, /* `sliding_window` is for all layers; null: for none */
    TFM__WINDOW_LISTED,     /* `layer_types`, or `sliding_window` is for all layers */
    TFM__WINDOW_FROM_LAYER, /* if `use_sliding_window`: `layer_types`, or layers from `max_window_layers` on */
    TFM__WINDOW_IF_NO_ROPE, /* `layer_types`, or if `use_sliding_window` those that do not turn (`no_rope_layers`) */
    TFM__WINDOW_BY_PATTERN, /* `layer_types`, or all but every so-manieth */
} tfm__window_keys;

/* What one `model_type` has of its own, and its defaults. Of keys, NULL is LLaMA's name, and "" says that there is
 * none. Where a family has a name of its own for a size, LLaMA's is read as well, and wins, as in transformers. */
typedef struct tfm__decoder_kind {
    const char *width_key, *feed_forward_key, *layers_key, *heads_key, *kv_heads_key, *positions_key;
    int width, layers, heads; /* defaults */
    int feed_forward;         /* 0: four times the width */
    int kv_heads;             /* 0: as many as heads */
    int head_width;           /* 0: width / heads, */
    bool whole_heads;         /* which must have no rest then */
    bool no_head_width;       /* there is no `head_dim` */
    int max_positions, vocabulary;
    double epsilon;
    const char *epsilon_key; /* NULL: "rms_norm_eps" */
    bool layer_norms;        /* norms are layer norms, else root mean square norms */
    bool no_betas;           /* layer norms have none */
    bool embedding_norm;     /* there is a norm over the embedding */
    bool tied;
    const char *activation_key; /* NULL: none */
    tfm_activation activation;
    bool ungated;                              /* the feed-forward layers have no gate */
    bool input_biases;                         /* queries, keys and values have biases in all models */
    bool mlp_biased;                           /* the feed-forward layers have, */
    bool biased;                               /* all matrices have biases, unless a key says otherwise */
    const char *attention_biases, *mlp_biases; /* keys; NULL: it is as the two above say */
    const char *input_bias_key;                /* a key of the biases of queries, keys and values; NULL: none */
    bool head_norms, joint_head_norms;
    const char *head_norms_key; /* a key that says whether there are such; NULL: none, */
    bool own_head_norms;      /* one for each head, then: a tensor (H, D), or one each where names have a second `#` */
    bool parallel;            /* both sub-layers read the block's input, */
    const char *parallel_key; /* unless this key says otherwise; NULL: none */
    bool parallel_norm;       /* those in parallel read it through the same norm */
    bool multipliers;         /* Granite's keys, which scale embeddings, scores, sub-layers and logits */
    tfm__window_keys windows;
    int window, pattern;         /* defaults; 0: none */
    bool alibi;                  /* ALiBi in the place of a rotary embedding, */
    double theta, local_theta;   /* local_theta 0: layers with a window turn as the others do */
    bool interleaved;            /* pairs of the rotary embedding are neighbours */
    const char *rotary_size_key; /* tfm__rope_spec's size_key: the number of columns */
    int rotary_size;             /* its default */
    bool fixed_rope;             /* tfm__rope_spec's fixed */
    const char *theta_key;       /* NULL: "rope_theta" */
    double partial;              /* the default of `partial_rotary_factor`; 0: the key is not obeyed */
    const char *partial_key;     /* tfm__rope_spec's */
    bool rounded;                /* tfm__rope_spec's */
    bool longrope_only;          /* tfm__rope_spec's */
    int original;                /* tfm__rope_spec's */
    bool gemma;                  /* gammas are stored less 1, and the embedding is scaled */
    bool sandwich_norm;          /* norms stand around the sub-layers, scores are scaled by a key and capped */
    bool post_sublayer_norm;     /* norms stand on the results of the sub-layers */
    double score_cap, logit_cap; /* defaults */
    const char *logit_scale_key; /* what logits are multiplied by; NULL: nothing, */
    double logit_scale;          /* its default */
    const char *const *refused;  /* further keys that must be absent or false, NULL last; or NULL */
    /* What keys say that no field above does, after all others but the rotary embedding's; the same to config.json: not
     * 0 without memory. NULL: nothing. */
    tfm_status (*read_more)(tfm__arch *arch, const tfm__config_files *from);
    int (*write_more)(json_t *out, const tfm__arch *arch);
} tfm__decoder_kind;

/* `read`, `write` and `describe` of a family with a decoder_kind. Its first class, with "ForCausalLM" or "Model" after
 * it, is what is written. */
tfm_status tfm__decoder_read_config(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);
json_t *tfm__decoder_write_config(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules);
json_t *tfm__decoder_new_config(const tfm__family *family, const tfm_model_shape *shape);
#define TFM__DECODER_CALLS                                                                                             \
    .read = tfm__decoder_read_config, .write = tfm__decoder_write_config, .describe = tfm__decoder_new_config

/* ---- What reading and writing share ---- */

/* Sizes and their keys, the family's own and LLaMA's. */
enum { TFM__DECODER_SIZES = 6 };
typedef struct tfm__decoder_size {
    const char *own, *usual;
    int *value, high;
} tfm__decoder_size;
void tfm__decoder_sizes(tfm__decoder_size out[TFM__DECODER_SIZES], const tfm__decoder_kind *k, tfm__stack_arch *s);
static inline bool tfm__has_key(const char *own) {
    return !own || *own;
}

/* Flags and their keys; a key that the family has not is NULL. */
enum { TFM__DECODER_FLAGS = 6 };
typedef struct tfm__decoder_flag_list {
    bool attention, inputs; /* biases of all four matrices of an attention, and of the first three */
    tfm__bool_key keys[TFM__DECODER_FLAGS];
} tfm__decoder_flag_list;
void tfm__decoder_flags(tfm__decoder_flag_list *out, const tfm__decoder_kind *k, tfm__arch *arch);

/* Granite's keys: of the embedding, scores, sub-layers and logits, which are divided by theirs. */
enum { TFM__DECODER_MULTIPLIERS = 4 };
extern const char *const tfm__decoder_multipliers[TFM__DECODER_MULTIPLIERS];
#define TFM__SCORE_CAP "attn_logit_softcapping"

/* ---- Families ---- */

/* Names that all of them share. */
#define TFM__DECODER_WEIGHT_AND_BIAS(name)                                                                             \
    { "model.layers.#." name ".weight", "model.layers.#." name ".bias", false }
#define TFM__DECODER_NORM(name)                                                                                        \
    { "model.layers.#." name ".weight", NULL, false }
#define TFM__DECODER_NAMES                                                                                             \
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false},                                                            \
    [TFM__SELF_QUERY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.q_proj"),                                              \
    [TFM__SELF_KEY] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.k_proj"),                                                \
    [TFM__SELF_VALUE] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.v_proj"),                                              \
    [TFM__SELF_OUT] = TFM__DECODER_WEIGHT_AND_BIAS("self_attn.o_proj"),                                                \
    [TFM__SELF_NORM] = TFM__DECODER_NORM("input_layernorm"),                                                           \
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_NORM("self_attn.q_norm"),                                                    \
    [TFM__SELF_KEY_NORM] = TFM__DECODER_NORM("self_attn.k_norm"),                                                      \
    [TFM__GATE] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.gate_proj"),                                                       \
    [TFM__UP] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.up_proj"),                                                           \
    [TFM__DOWN] = TFM__DECODER_WEIGHT_AND_BIAS("mlp.down_proj")
#define TFM__DECODER_EMBEDDINGS                                                                                        \
    [TFM__TARGET_EMBEDDING] = {"model.embed_tokens.weight", NULL, false}, [TFM__OUTPUT_PROJECTION] = {                 \
                                                                              "lm_head.weight", NULL, false}

/* A family of this `model_type` whose names begin with "model.". */
#define TFM__DECODER_FAMILY(id, class, kind, table_names, names)                                                       \
    const tfm__family tfm__family_##id = {                                                                             \
        .name = #id,                                                                                                   \
        .types = (const char *const[]){#id, NULL},                                                                     \
        .classes = (const char *const[]){class, NULL},                                                                 \
        .prefixes = (const char *const[]){"model.", NULL},                                                             \
        .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL},                                                \
        TFM__DECODER_CALLS,                                                                                            \
        .decoder_kind = &kind,                                                                                         \
        .common = table_names,                                                                                         \
        .decoder = names,                                                                                              \
    }

#endif
