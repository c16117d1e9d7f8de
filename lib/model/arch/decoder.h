/* Decoder-only models. A family is a table of config keys, defaults and flags, and a table of tensor names; both
 * reading and writing of config.json use them. */
#ifndef TFM_LIB_DECODER_H
#define TFM_LIB_DECODER_H

#include "model/arch/rope.h"

/* Which layers have a sliding window. */
typedef enum tfm__window_keys {
    TFM__WINDOW_NOWHERE,
    TFM__WINDOW_EVERYWHERE, /* `sliding_window` applies to all layers; null: to none */
    TFM__WINDOW_LISTED,     /* `layer_types`, or `sliding_window` applies to all layers */
    TFM__WINDOW_FROM_LAYER, /* if `use_sliding_window`: `layer_types`, or layers from `max_window_layers` on */
    TFM__WINDOW_IF_NO_ROPE, /* `layer_types`, or if `use_sliding_window` the layers without RoPE (`no_rope_layers`) */
    TFM__WINDOW_BY_PATTERN, /* `layer_types`, or all layers except every n-th */
} tfm__window_keys;

/* Properties and defaults of one `model_type`. For keys, NULL is LLaMA's name, "" means that there is no key. If a
 * family has another name for a size, LLaMA's is read as well, and wins, as in transformers. */
typedef struct tfm__decoder_kind {
    const char *width_key, *feed_forward_key, *layers_key, *heads_key, *kv_heads_key, *positions_key;
    int width, layers, heads; /* defaults */
    int feed_forward;         /* 0: 4 * width */
    int kv_heads;             /* 0: heads */
    int head_width;           /* 0: width / heads, */
    bool whole_heads;         /* with remainder 0 */
    bool no_head_width;       /* there is no `head_dim` */
    int max_positions, vocabulary;
    double epsilon;
    const char *epsilon_key; /* NULL: "rms_norm_eps" */
    bool layer_norms;        /* layer norms, else RMS norms */
    bool no_betas;           /* layer norms have no beta */
    bool embedding_norm;     /* norm over the embedding */
    bool tied;
    const char *activation_key; /* NULL: none */
    tfm_activation activation;
    bool ungated;                              /* feed-forward layers have no gate */
    bool input_biases;                         /* query, key and value projections always have biases */
    bool mlp_biased;                           /* feed-forward layers have biases */
    bool biased;                               /* all matrices have biases, unless a key says otherwise */
    const char *attention_biases, *mlp_biases; /* keys; NULL: as the two flags above say */
    const char *input_bias_key;                /* key for biases of query, key and value projections; NULL: none */
    bool head_norms, joint_head_norms;
    const char *head_norms_key; /* key that enables QK norm; NULL: none, */
    bool own_head_norms; /* with one norm per head: a tensor (H, D), or one tensor each if names have a second `#` */
    bool parallel;       /* parallel attention and feed-forward, */
    const char *parallel_key; /* unless this key says otherwise; NULL: no key */
    bool parallel_norm;       /* parallel sub-layers share one norm */
    bool multipliers;         /* Granite's keys: factors of embedding, scores, sub-layers and logits */
    tfm__window_keys windows;
    int window, pattern;         /* defaults; 0: none */
    bool alibi;                  /* ALiBi instead of RoPE */
    double theta, local_theta;   /* local_theta 0: local layers use the same RoPE frequencies */
    bool interleaved;            /* interleaved RoPE */
    const char *rotary_size_key; /* tfm__rope_spec.size_key: number of rotated columns */
    int rotary_size;             /* its default */
    bool fixed_rope;             /* tfm__rope_spec.fixed */
    const char *theta_key;       /* NULL: "rope_theta" */
    double partial;              /* default of `partial_rotary_factor`; 0: the key is ignored */
    const char *partial_key;     /* see tfm__rope_spec */
    bool rounded;                /* see tfm__rope_spec */
    bool longrope_only;          /* see tfm__rope_spec */
    int original;                /* see tfm__rope_spec */
    bool gemma;                  /* gammas are stored minus 1, and the embedding is scaled */
    bool sandwich_norm;          /* sandwich norms; scores are scaled by a key and soft-capped */
    bool post_sublayer_norm;     /* norms after the sub-layers, before the residual is added */
    double score_cap, logit_cap; /* defaults */
    const char *logit_scale_key; /* key of the factor of logits; NULL: none, */
    double logit_scale;          /* its default */
    const char *const *refused;  /* further keys that must be absent or false, NULL-terminated, or NULL */
    /* Reads or writes the keys that no field above describes. Reading runs after all other keys except RoPE's; writing
     * returns nonzero if out of memory. NULL: no such keys. */
    tfm_status (*read_more)(tfm__arch *arch, const tfm__config_files *from);
    int (*write_more)(json_t *out, const tfm__arch *arch);
} tfm__decoder_kind;

/* `read`, `write` and `describe` of a family with a decoder_kind. The class written is the first one plus "ForCausalLM"
 * or "Model". */
tfm_status tfm__decoder_read_config(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);
json_t *tfm__decoder_write_config(const tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules);
json_t *tfm__decoder_new_config(const tfm__family *family, const tfm_model_shape *shape);
#define TFM__DECODER_CALLS                                                                                             \
    .read = tfm__decoder_read_config, .write = tfm__decoder_write_config, .describe = tfm__decoder_new_config

/* ---- Shared by reading and writing ---- */

/* Sizes and their keys: the family's and LLaMA's. */
enum { TFM__DECODER_SIZES = 6 };
typedef struct tfm__decoder_size {
    const char *own, *usual;
    int *value, high;
} tfm__decoder_size;
void tfm__decoder_sizes(tfm__decoder_size out[TFM__DECODER_SIZES], const tfm__decoder_kind *k, tfm__stack_arch *s);
static inline bool tfm__has_key(const char *own) {
    return !own || *own;
}

/* Flags and their keys; NULL: the family has no such key. */
enum { TFM__DECODER_FLAGS = 6 };
typedef struct tfm__decoder_flag_list {
    bool attention, inputs; /* biases of all four attention matrices, and of the first three */
    tfm__bool_key keys[TFM__DECODER_FLAGS];
} tfm__decoder_flag_list;
void tfm__decoder_flags(tfm__decoder_flag_list *out, const tfm__decoder_kind *k, tfm__arch *arch);

/* Granite's factors of embedding, scores and sub-layers; logits are divided by theirs. */
enum { TFM__DECODER_MULTIPLIERS = 4 };
extern const char *const tfm__decoder_multipliers[TFM__DECODER_MULTIPLIERS];
#define TFM__SCORE_CAP "attn_logit_softcapping"

/* ---- Families ---- */

/* Names shared by all families. */
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

/* A family of this `model_type` with the name prefix "model.". */
#define TFM__DECODER_MEMBERS(id, class, kind, table_names, names)                                                      \
    .name = #id, .types = (const char *const[]){#id, NULL}, .classes = (const char *const[]){class, NULL},             \
    .prefixes = (const char *const[]){"model.", NULL}, .ignored = (const char *const[]){".rotary_emb.inv_freq", NULL}, \
    TFM__DECODER_CALLS, .decoder_kind = &kind, .common = table_names, .decoder = names
#define TFM__DECODER_FAMILY(id, class, kind, table_names, names)                                                       \
    const tfm__family tfm__family_##id = {TFM__DECODER_MEMBERS(id, class, kind, table_names, names)}

#endif
