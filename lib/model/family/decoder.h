/* Language models with a decoder alone that turn: what LLaMA and GPT-NeoX began. They are alike but for what stands in
 * this table. */
#ifndef TFM_LIB_DECODER_H
#define TFM_LIB_DECODER_H

#include "model/family/rope.h"

/* How a kind says which layers see a window alone. */
typedef enum tfm__window_keys {
    TFM__WINDOW_NOWHERE,
    TFM__WINDOW_EVERYWHERE,  /* `sliding_window` is for all layers; null: for none */
    TFM__WINDOW_LISTED,      /* `layer_types`, or `sliding_window` is for all layers */
    TFM__WINDOW_FROM_LAYER,  /* if `use_sliding_window`: `layer_types`, or layers from `max_window_layers` on */
    TFM__WINDOW_IF_UNTURNED, /* `layer_types`, or if `use_sliding_window` those that do not turn (`no_rope_layers`) */
    TFM__WINDOW_BY_PATTERN,  /* `layer_types`, or all but every so-manieth */
} tfm__window_keys;

/* What one `model_type` has of its own, and its defaults. */
typedef struct tfm__decoder_kind {
    const char *type, *class_name; /* "llama", "Llama" */
    int width, feed_forward, layers, heads;
    int kv_heads;     /* 0: as many as heads */
    int head_width;   /* 0: width / heads, */
    bool whole_heads; /* which must have no rest then */
    int max_positions, vocabulary;
    double epsilon;
    const char *epsilon_key; /* NULL: "rms_norm_eps" */
    bool layer_norms;        /* norms are layer norms with betas, else root mean square norms */
    bool tied;
    const char *activation_key;
    tfm_activation activation;
    bool ungated;                              /* the feed-forward layers have no gate */
    bool input_biases;                         /* queries, keys and values have biases in all models */
    bool biased;                               /* all matrices have biases, unless a key says otherwise */
    const char *attention_biases, *mlp_biases; /* keys; NULL: it is as the two above say */
    const char *input_bias_key;                /* a key of the biases of queries, keys and values; NULL: none */
    bool head_norms, joint_head_norms;
    const char *head_norms_key; /* a key that says whether there are such; NULL: none, */
    bool own_head_norms;        /* one for each head, then */
    bool parallel;              /* both sub-layers read the block's input, */
    const char *parallel_key;   /* unless this key says otherwise; NULL: none */
    bool parallel_norm;         /* those in parallel read it through the same norm */
    bool multipliers;           /* Granite's keys, which scale embeddings, scores, sub-layers and logits */
    tfm__window_keys windows;
    int window, pattern;         /* defaults; 0: none */
    double theta, local_theta;   /* local_theta 0: layers with a window turn as the others do */
    const char *theta_key;       /* NULL: "rope_theta" */
    double partial;              /* the default of `partial_rotary_factor`; 0: the key is not obeyed */
    const char *part_key;        /* tfm__rope's */
    bool rounded;                /* tfm__rope's */
    bool long_only;              /* tfm__rope's */
    int original;                /* tfm__rope's */
    bool gemma;                  /* gammas are stored less 1, and the embedding is scaled */
    bool around;                 /* norms stand around the sub-layers, scores are scaled by a key and capped */
    bool on_results;             /* norms stand on the results of the sub-layers */
    double score_cap, logit_cap; /* defaults */
    const char *const *refused;  /* further keys that must be absent or false, NULL last; or NULL */
} tfm__decoder_kind;

tfm_status tfm__decoder_read_config(const tfm__decoder_kind *kind, tfm__arch *arch, tfm__rules *rules,
                                    const tfm__config_files *from);
json_t *tfm__decoder_describe(const tfm__decoder_kind *kind, const tfm_model_shape *shape);
json_t *tfm__decoder_write(const tfm__decoder_kind *kind, const tfm__arch *arch, const tfm__rules *rules);

/* Names that all of them share. */
#define TFM__DECODER_PAIR(name)                                                                                        \
    { "model.layers.#." name ".weight", "model.layers.#." name ".bias", false }
#define TFM__DECODER_NORM(name)                                                                                        \
    { "model.layers.#." name ".weight", NULL, false }
#define TFM__DECODER_NAMES                                                                                             \
    [TFM__FINAL_NORM] = {"model.norm.weight", NULL, false}, [TFM__SELF_QUERY] = TFM__DECODER_PAIR("self_attn.q_proj"), \
    [TFM__SELF_KEY] = TFM__DECODER_PAIR("self_attn.k_proj"),                                                           \
    [TFM__SELF_VALUE] = TFM__DECODER_PAIR("self_attn.v_proj"),                                                         \
    [TFM__SELF_OUT] = TFM__DECODER_PAIR("self_attn.o_proj"), [TFM__SELF_NORM] = TFM__DECODER_NORM("input_layernorm"),  \
    [TFM__SELF_QUERY_NORM] = TFM__DECODER_NORM("self_attn.q_norm"),                                                    \
    [TFM__SELF_KEY_NORM] = TFM__DECODER_NORM("self_attn.k_norm"), [TFM__GATE] = TFM__DECODER_PAIR("mlp.gate_proj"),    \
    [TFM__UP] = TFM__DECODER_PAIR("mlp.up_proj"), [TFM__DOWN] = TFM__DECODER_PAIR("mlp.down_proj")
#define TFM__DECODER_TABLES                                                                                            \
    [TFM__TARGET_TABLE] = {"model.embed_tokens.weight", NULL, false}, [TFM__OUTPUT_TABLE] = {"lm_head.weight", NULL,   \
                                                                                             false}

/* The family of the kind `id`, of which that is also the `model_type`. */
#define TFM__DECODER_FAMILY(id, class, table_names, names)                                                             \
    static tfm_status read_##id(tfm__arch *arch, tfm__rules *rules, const tfm__config_files *from) {                   \
        return tfm__decoder_read_config(&id, arch, rules, from);                                                       \
    }                                                                                                                  \
    static json_t *write_##id(const tfm__arch *arch, const tfm__rules *rules) {                                        \
        return tfm__decoder_write(&id, arch, rules);                                                                   \
    }                                                                                                                  \
    static json_t *describe_##id(const tfm_model_shape *shape) {                                                       \
        return tfm__decoder_describe(&id, shape);                                                                      \
    }                                                                                                                  \
    const tfm__family tfm__family_##id = {                                                                             \
        .name = #id,                                                                                                   \
        .types = (const char *const[]){#id, NULL},                                                                     \
        .classes = (const char *const[]){class, NULL},                                                                 \
        .prefixes = (const char *const[]){"model.", NULL},                                                             \
        .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL},                                                \
        .read = read_##id,                                                                                             \
        .write = write_##id,                                                                                           \
        .describe = describe_##id,                                                                                     \
        .common = table_names,                                                                                         \
        .decoder = names,                                                                                              \
    }

#endif
