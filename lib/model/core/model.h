/* The model, shared by the files of lib/model. */
#ifndef TFM_LIB_MODEL_H
#define TFM_LIB_MODEL_H

#include <stdatomic.h>
#include "dev/dev.h"
#include "model/core/param_roles.h"
#include "ops/gemm/argmax_int8.h"
#include "tfm/model.h"

/* Tables that roles may share: source embedding, target embedding, output projection. */
enum { TFM__TABLES = 3 };

/* RoPE tables for the positions so far; they grow. */
typedef struct tfm__rope_table {
    tfm_tensor cosines, sines; /* (P, R/2) */
    int64_t length;            /* sequence length they are valid for, if frequencies depend on it; else 0 */
} tfm__rope_table;

/* Parameters of a stack, as tfm__stack_arch describes them. */
typedef struct tfm__stack {
    tfm_param *table;            /* (V, E): one of the model's tables */
    tfm_tensor positions;        /* (P, E): sinusoids that are added to the embedding, or empty */
    tfm_param learned_positions; /* (offset + P, E): learned positions instead, or empty */
    tfm_param token_types;       /* (types, E): row 0 is added to every embedding */
    tfm_param *relative;         /* [layers], or [1] if shared: (buckets, H), relative position bias; or NULL */
    tfm__rope_table rope[2];     /* of global and of TFM__LOCAL_LAYER layers; no parameters */
    tfm_norm embedding_norm;     /* norm over the embedding; no parameters if absent */
    tfm_dense embedding_dense;   /* (E, e): embedding projection, or empty */
    tfm_norm final_norm;         /* norm after the last block; no parameters if absent */
    tfm_dense output_dense;      /* (e, E): output projection of the stack, or empty */
    tfm_block *blocks;           /* [layers] */
} tfm__stack;

/* Parameters of a head (tfm__head_arch). */
typedef struct tfm__head {
    tfm_dense dense; /* (E, E) */
    tfm_norm norm;
    tfm_dense out; /* (C, E): classes; masked tokens use the model's output projection */
} tfm__head;

/* How class logits become scores. */
typedef enum tfm__scores {
    TFM__SOFTMAX_SCORES, /* single-label */
    TFM__SIGMOID_SCORES, /* multi-label */
    TFM__RAW_SCORES,     /* unchanged */
} tfm__scores;

/* A parameter with another name in the weight file. */
typedef struct tfm__tensor_alias {
    char *name, *in_file;
} tfm__tensor_alias;

/* Class names and scores from config.json, and the settings of a cross-encoder (classes.c). */
typedef struct tfm__classes {
    char **names; /* [C]; NULL for a model without classes */
    int count;
    tfm__scores scores;
    tfm__scores rerank;    /* of a cross-encoder; TFM__SOFTMAX_SCORES: an unsupported activation */
    int max_tokens;        /* the tokenizer's limit; 0: none */
    bool has_tokens;       /* of a language model that reranks: modules.json names its tokens */
    bool other_splade;     /* modules.json has another pooling or activation than SPLADE's */
    int true_id, false_id; /* false_id: -1 if there is none */
} tfm__classes;

struct tfm_model {
    atomic_int refcount; /* owners: the caller that opened it, and its trainers */
    tfm_context *ctx;    /* retained by the model */
    const tfm__family *family;
    tfm__arch arch;
    tfm__generation_rules rules;
    json_t
        *generation; /* generation_config.json of its directory, including keys that `rules` does not have; or NULL */
    tfm_tokenizer *tokenizer;
    struct tfm__token_trie *trie; /* of the vocabulary, once a grammar was given */
    tfm_model_info info;

    const char *low_precision; /* dtype of the weights, such as "int8" or "fp16": the model can then neither be
                                  trained nor saved. NULL: F32 */
    tfm_dtype kv_dtype;        /* dtype of the KV cache and of the cross-attention keys and values: F32, F16 or BF16; or
                                  I8, with the latter in F32 */
    tfm_param tables[TFM__TABLES]; /* embedding tables; unused ones are empty */
    tfm_param *output;             /* (V, E): the table used by the output projection, or NULL */
    tfm__stack encoder, decoder;
    tfm__head head;
    tfm__classes classes;   /* class names of the head */
    bool stored_positions;  /* positions were read from the file, and are saved */
    tfm_tensor logits_bias; /* (V): bias of the output projection. Empty without a projection, as are the next two */
    tfm_tensor search_bias; /* (V): the same, but -inf at tokens that are never generated */
    tfm_tensor score_bias;  /* (V): logits_bias, but -inf at padding */
    tfm__int8_screen output_int8;      /* int8 output projection, created by the first search that uses it */
    bool no_greedy_int8;               /* disabled: does not fit into memory, or was not faster */
    struct tfm__shortlist *shortlist;  /* NULL: the whole vocabulary */
    tfm__tensor_alias *tensor_aliases; /* NULL: none */
    size_t tensor_alias_count;
    uint64_t identity;              /* identity of the first weight file; 0 for a new model */
    tfm_dropout_state *training;    /* dropout; owned by the trainer, NULL outside of training */
    bool recompute;                 /* activation checkpointing */
    bool has_trainer;               /* parameters are in the trainer's flat buffer */
    struct tfm__replicas *replicas; /* replicas on the other devices of a fleet (fleet.h), or NULL */
    void (*free_replicas)(struct tfm__replicas **replicas); /* set with `replicas` */
    bool changed; /* may differ from its directory, so no further replica can be opened from there */
};

/* The name of this parameter in the model's file: `name` if it is equal there, or there is no file. Valid as long as
 * `name` and the model. */
const char *tfm__model_name_in_file(const tfm_model *model, const char *name);

/* Adds a reference; the owner calls tfm_model_free. Returns the model. */
tfm_model *tfm__model_retain(tfm_model *model);

/* Creates a model without parameter values, with the blocks and tables of its arch (model.c). */
tfm_status tfm__model_new(tfm_model **out, tfm_context *ctx, const tfm__family *family, const tfm__arch *arch,
                          const tfm__generation_rules *rules);
/* Assigns tables to roles, by the ties of the model's arch. */
void tfm__model_set_tables(tfm_model *model);
/* Fills the three biases from the values of logits_bias. Overwrites `bias`. */
tfm_status tfm__model_set_biases(tfm_model *model, float *bias);
/* Requirements of a call: TFM_ERROR_ARGUMENT if the model lacks one. `what` is the name of the call. */
enum {
    TFM__NEEDS_ENCODER = 1,
    TFM__NEEDS_DECODER = 2,
    TFM__NEEDS_OUTPUT = 4,
    TFM__NEEDS_MLM_HEAD = 8,    /* masked-token head */
    TFM__NEEDS_CLASSIFIER = 16, /* classification head */
};
tfm_status tfm__model_needs(const tfm_model *model, const char *what, int parts);
/* Checks kv_precision and ctx_size against the model (model_info.c); `options` may be NULL. */
tfm_status tfm__model_check_options(const char *dir, const tfm__family *family, const tfm__arch *arch,
                                    const tfm_model_options *options);
/* Fills the description of a model with this many parameters, their size on the device, and the KV cache dtype. */
void tfm__model_describe_arch(tfm_model_info *info, const tfm__family *family, const tfm__arch *arch,
                              const tfm__generation_rules *rules, uint64_t parameters, uint64_t bytes,
                              tfm_dtype kv_dtype);
/* Adds file kind, types, and the dtype of the largest tensor, as static strings. */
void tfm__model_describe_file(tfm_model_info *info, const tfm__weights *file);

/* ---- Heads of encoder-only models (heads.c) ---- */

/* Creates the head of the arch, without parameter values. */
void tfm__head_new(tfm__head *head, const tfm__arch *arch);
void tfm__head_free(tfm_context *ctx, tfm__head *head);
/* ---- Classes (classes.c) ---- */

/* Reads `count` class names from config.json; missing names are LABEL_0 and so on. 0: of a model with an output
 * projection instead. Free *out by tfm__classes_free, also after a failure. */
tfm_status tfm__classes_read(tfm__classes *out, const char *dir, int count);
void tfm__classes_free(tfm__classes *classes);

/* ---- Forward passes (forward.c) ---- */

/* Sets the dropout of all parts, and activation checkpointing (`recompute`). NULL: no training. */
void tfm__model_set_training(tfm_model *model, tfm_dropout_state *training, bool recompute);

/* Receives the attention weights of a forward pass, layer by layer. */
typedef struct tfm__observer {
    tfm_attention_fn on_weights;
    /* Returns whether to compute a layer's weights; NULL: all layers. */
    bool (*wants)(void *user, tfm_attention_kind kind, int layer);
    void *user;
    bool stopped; /* `on_weights` returned false: the remaining layers are skipped */
} tfm__observer;

/* tfm_model_encode with an observer; NULL: no weights are computed. If the observer stops the pass, `encoded` stays
 * empty. */
tfm_status tfm__model_encode_observed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths,
                                      tfm__observer *observer);
/* tfm_model_encode with token types (B, T) I32. Empty: zeros; a model without a token type table ignores them. */
tfm_status tfm__model_encode_typed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                   tfm_tensor lengths);
/* The decoder without its output projection: hidden (B, T, tfm__stack_output_width), after the final norm and
 * projection if present. `observer` as above. */
tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__observer *observer);

/* Creates an empty KV cache of the decoder, of the model's kv_dtype. Free it as a tfm_kv_cache. */
tfm_status tfm__model_kv_cache_new(const tfm_model *model, tfm_kv_cache *out, int64_t capacity);
/* Projects the encoder's output to the cross-attention keys and values of each decoder layer: cross [layers], of the
 * model's kv_dtype, in the current scope. */
tfm_status tfm__model_project_cross_kv(tfm_model *model, tfm_kv *cross, tfm_tensor encoded);
/* A decoding step for R rows of T tokens each: cache slots and attention inputs. */
typedef struct tfm__decode_step {
    tfm_kv_cache *cache; /* with room for R T slots from `slot` on */
    const tfm_kv
        *cross; /* [layers]: cross-attention keys and values of the N encoded sequences; NULL without an encoder */
    tfm_tensor cross_lengths;     /* (N): their lengths */
    tfm_tensor sources;           /* (R): encoded sequence of each row */
    tfm_tensor block_table;       /* (R, position + T): cache slots of each row's past, then its own */
    tfm_param *output;            /* (K, E): shortlisted rows of the output projection; NULL: all */
    tfm_tensor *projection_input; /* receives the input of the output projection (R, E), in the current scope; no logits
                                     are computed. NULL: logits */
    tfm_tensor position_bias;     /* from tfm__model_position_bias; may be empty */
    int64_t slot;                 /* cache slot of the first row's first token; the others follow row by row */
    int64_t position;             /* position of the first new tokens */
    int64_t length;               /* length known so far, including this step and later tokens; 0: position + T */
    /* If rows have different positions (one token per step): positions (R, 1) I32, each <= `position`; mask (R, 1, 1,
     * position + 1), added to the scores of the slots in `block_table`, -inf for slots of other rows. Empty: all rows
     * are at `position`. */
    tfm_tensor positions, mask;
    /* (R) I32 (one token per step): valid slots of each row of `block_table`. Empty: all. */
    tfm_tensor lengths;
} tfm__decode_step;
/* Whether keys cached for sequences of `from` tokens are valid for `to` tokens. If not (RoPE frequencies depend on the
 * length), recompute the sequence from its beginning, with its new `length` in each step. */
bool tfm__model_rope_matches(const tfm_model *model, int64_t from, int64_t to);
/* Whether the keys of a prefix, cached by a sequence of `from` tokens, are those of a sequence of `to` tokens: equal
 * RoPE frequencies in all of its steps. */
bool tfm__model_rope_reusable(const tfm_model *model, int64_t from, int64_t to);
/* Creates the position bias for steps of one token at positions below `positions`: (H, positions), or one block per
 * layer if each has its own. *out stays empty if the decoder has none. */
tfm_status tfm__model_position_bias(tfm_model *model, tfm_tensor *out, int64_t positions);
/* Logits (R, V) of the tokens after `ids` (R, T), with `bias` (V); or (R, K) with `output` and `bias` (K); none with
 * `projection_input`. `logits` NULL: only the KV cache is filled. */
tfm_status tfm__model_step(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, const tfm__decode_step *step,
                           tfm_tensor bias);

/* Input of the decoder's first block: embedding plus positions, and the norm if present. */
tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position);
/* The input of the output projection: hidden (..., E), scaled if the arch says so. */
tfm_status tfm__model_scale_output(tfm_model *model, tfm_tensor *out, tfm_tensor hidden);
/* The bias that the output projection adds: none if logits are soft-capped afterwards. */
tfm_tensor tfm__model_inner_bias(const tfm_model *model, tfm_tensor bias);
/* Output projection: logits (..., V) of hidden (..., E), with `bias` (V). */
tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor hidden, tfm_tensor bias);

/* Fills one row of a batch: `shift` times `start`, then the first count - shift ids, then `pad` up to the width. The
 * decoder's input has a shift of 1. */
static inline void tfm__ids_pad(int32_t *out, int64_t width, const int32_t *ids, size_t count, int64_t shift,
                                int32_t start, int32_t pad) {
    for (int64_t k = 0; k < width; k++)
        out[k] = k >= (int64_t)count ? pad : k < shift ? start : ids[k - shift];
}

/* ---- Search parameters (decode/search_params.c) ---- */

/* Search parameters: the caller's, else the directory's, else the paper's. */
typedef struct tfm__search_params {
    int beam_size, n_best;
    bool skip_scores;
    tfm_length_norm length_norm;
    double length_penalty;
    int max_length; /* maximum number of generated tokens; 0: source tokens + 50 */
} tfm__search_params;
tfm_status tfm__search_params_of(tfm__search_params *out, const tfm_model *model, const tfm_search_options *options);

/* The maximum length of a translation of this many source tokens. The directory's limit applies if it is lower, for
 * families that search as transformers does. */
int64_t tfm__search_limit(const tfm__search_params *rules, const tfm_model *model, size_t source_tokens);

/* Checks that a translation of at most `limit` tokens can start with these ids and continue; sets a message if not. */
tfm_status tfm__search_check_prefix(const tfm__generation_rules *rules, const int32_t *ids, size_t count,
                                    int64_t limit);

/* Frees the members of a hypothesis and zeroes it. */
void tfm__hypothesis_clear(tfm_hypothesis *hypothesis);

#endif
