/* What a model consists of, and what the files of lib/model share of it. */
#ifndef TFM_LIB_MODEL_H
#define TFM_LIB_MODEL_H

#include <stdatomic.h>
#include "dev/dev.h"
#include "model/core/param_roles.h"
#include "ops/gemm/argmax_int8.h"
#include "tfm/model.h"

/* A parameter that several roles may share: the source embedding, the target embedding, the output projection. */
enum { TFM__TABLES = 3 };

/* What queries and keys turn by at the positions so far; it grows. */
typedef struct tfm__rope_table {
    tfm_tensor cosines, sines; /* (P, R/2) */
    int64_t length;            /* Of the texts that they are for, where rates depend on it; else 0. */
} tfm__rope_table;

/* One stack's parameters; tfm__stack_arch says which of them it has. */
typedef struct tfm__stack {
    tfm_param *table;            /* (V, E): one of the model's tables. */
    tfm_tensor positions;        /* (P, E): sinusoids that are added to the embedding at each position; or empty. */
    tfm_param learned_positions; /* (offset + P, E): learned positions in their place; or empty. */
    tfm_param token_types;       /* (types, E): its first row is added to every embedding. */
    tfm_param *relative;         /* [layers] or, where all layers share it, [1]: (buckets, H), the bias of scores by
                                    distance; or NULL. */
    tfm__rope_table rope[2];     /* Of the layers, and of those with TFM__LOCAL_LAYER. No parameters. */
    tfm_norm embedding_norm;     /* The norm over the embedding, without parameters if the stack has none. */
    tfm_dense embedding_dense;   /* (E, e): what widens the embedding; or empty. */
    tfm_norm final_norm;         /* The norm after the last block, without parameters if the stack has none. */
    tfm_dense output_dense;      /* (e, E): what makes its result narrow again; or empty. */
    tfm_block *blocks;           /* [layers]: the blocks, first to last. */
} tfm__stack;

/* What tfm__head_arch describes. */
typedef struct tfm__head {
    tfm_dense dense; /* (E, E). */
    tfm_norm norm;
    tfm_dense out; /* (C, E): of classes. Words have the output projection. */
} tfm__head;

/* How the logits of classes become scores. */
typedef enum tfm__scores {
    TFM__SOFTMAX_SCORES, /* One class is true. */
    TFM__SIGMOID_SCORES, /* Each may be true. */
    TFM__RAW_SCORES,     /* They are scores as they are. */
} tfm__scores;

/* A parameter that the file of weights calls otherwise than tfm does. */
typedef struct tfm__tensor_alias {
    char *name, *in_file;
} tfm__tensor_alias;

/* What config.json says of the classes of a model (heads.c). */
typedef struct tfm__classes {
    char **names; /* [C]; NULL for a model that has no classes. */
    int count;
    tfm__scores scores;
} tfm__classes;

struct tfm_model {
    atomic_int refcount; /* How many own it: who opened it, and its trainers. */
    tfm_context *ctx;    /* The model keeps it alive. */
    const tfm__family *family;
    tfm__arch arch;
    tfm__generation_rules rules;
    json_t *generation; /* Its directory's generation_config.json, of which `rules` is what is known; or NULL. */
    tfm_tokenizer *tokenizer;
    tfm_model_info info;

    const char *low_precision; /* What its matrices are, "bytes", "fp16" or "bf16": then it can neither be trained nor
                          saved. NULL where they are F32. */
    tfm_dtype kv_dtype; /* What keys and values of the past, and of an encoded source, are kept as: F32, F16 or BF16. */
    tfm_param tables[TFM__TABLES]; /* The embedding tables. Those that no role uses are empty. */
    tfm_param *output;             /* (V, E): the one of the tables that the output projection uses, or NULL. */
    tfm__stack encoder, decoder;
    tfm__head head;
    tfm__classes classes;   /* What the head's classes are called. */
    bool stored_positions;  /* The positions were read from the file, and are written when the model is saved. */
    tfm_tensor logits_bias; /* (V): the bias of the output projection. Empty, as the next two, without a projection. */
    tfm_tensor search_bias; /* (V): the same, but -inf at ids that are never written. */
    tfm_tensor score_bias;  /* (V): the same as logits_bias, but -inf at the padding, which no text has. */
    tfm__int8_screen output_int8;     /* Of the output projection, made by the first search that wants it. */
    bool no_greedy_int8;              /* No search wants it any more: it does not fit into memory, or has not helped. */
    struct tfm__shortlist *shortlist; /* What may be written for which words; NULL: everything. */
    tfm__tensor_alias *tensor_aliases; /* Those that its file has; NULL: none. */
    size_t tensor_alias_count;
    uint64_t identity;           /* Of the file of its first weights; 0 for a new model. */
    tfm_dropout_state *training; /* What is dropped out. It belongs to the trainer; NULL outside of training. */
    bool recompute;              /* The backward pass runs each block once more, of which only what it read is kept. */
    bool has_trainer;            /* Its parameters lie in the one piece of a trainer's. */
    struct tfm__replicas *replicas; /* The same model on the other devices of a fleet (fleet.h); NULL: it is alone. */
    void (*free_replicas)(struct tfm__replicas **replicas); /* Set with `replicas`. */
    bool changed; /* It may differ from its directory, so that no further replica can be opened from that. */
};

/* What the file that the model was opened from calls the parameter of this name: `name` itself where it is called the
 * same there, or there was none. Valid as long as that and the model. */
const char *tfm__model_name_in_file(const tfm_model *model, const char *name);

/* Adds an owner, who calls tfm_model_free in the end. Returns the model. */
tfm_model *tfm__model_retain(tfm_model *model);

/* Makes a model without parameters, with the blocks and tables that its arch describes (model.c). */
tfm_status tfm__model_new(tfm_model **out, tfm_context *ctx, const tfm__family *family, const tfm__arch *arch,
                          const tfm__generation_rules *rules);
/* Sets which table has which role, as the ties of the model's arch say. */
void tfm__model_set_tables(tfm_model *model);
/* Makes the three biases from the values of the first one. `bias` is used as working memory and changes. */
tfm_status tfm__model_set_biases(tfm_model *model, float *bias);
/* Refuses what a model without an encoder, a decoder or an output projection cannot do: TFM_ERROR_ARGUMENT. `what` is
 * the name of the call. */
enum {
    TFM__NEEDS_ENCODER = 1,
    TFM__NEEDS_DECODER = 2,
    TFM__NEEDS_OUTPUT = 4,
    TFM__NEEDS_MLM_HEAD = 8,    /* The head that tells masked words. */
    TFM__NEEDS_CLASSIFIER = 16, /* The head that tells classes. */
};
tfm_status tfm__model_needs(const tfm_model *model, const char *what, int parts);
/* Fills in what is known of a model that has so many parameters, of so many bytes on the device, and keeps keys and
 * values as `kv_dtype`. */
void tfm__model_describe_arch(tfm_model_info *info, const tfm__family *family, const tfm__arch *arch,
                              const tfm__generation_rules *rules, uint64_t parameters, uint64_t bytes,
                              tfm_dtype kv_dtype);

/* ---- What stands after an encoder (heads.c) ---- */

/* Makes the head that the arch describes, without parameters. */
void tfm__head_new(tfm__head *head, const tfm__arch *arch);
void tfm__head_free(tfm_context *ctx, tfm__head *head);
/* Reads the names of `count` classes from a directory's config.json; those that it does not name are LABEL_0 and so on.
 * What *out has is freed by tfm__classes_free, also after a failure. */
tfm_status tfm__classes_read(tfm__classes *out, const char *dir, int count);
void tfm__classes_free(tfm__classes *classes);

/* ---- Forward passes (forward.c) ---- */

/* Sets what all parts of the model drop out from now on, and whether the tape keeps of a block only what it reads.
 * NULL stands for no training at all. */
void tfm__model_set_training(tfm_model *model, tfm_dropout_state *training, bool recompute);

/* An observer is shown the attention weights of a forward pass, layer by layer. */
typedef struct tfm__observer {
    tfm_attention_fn on_weights;
    /* Says whether the observer wants a layer's weights; others are not made. NULL wants all. */
    bool (*wants)(void *user, tfm_attention_kind kind, int layer);
    void *user;
    bool stopped; /* Whether `on_weights` has returned false. No further layer is run then. */
} tfm__observer;

/* Does what tfm_model_encode does, and shows it to an observer. If that is NULL, no weights are made. If the observer
 * stops the pass, `encoded` stays empty. */
tfm_status tfm__model_encode_observed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths,
                                      tfm__observer *observer);
/* Does what tfm_model_encode does with token types (B, T) I32 of each id. Empty stands for zeros; a model without such
 * a table leaves them aside. */
tfm_status tfm__model_encode_typed(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                   tfm_tensor lengths);
/* Runs the decoder without its output projection: hidden (B, T, tfm__stack_output_width) is what comes after the norm
 * and the matrix at its end, or after its last block if it has neither. `observer` is as above. */
tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__observer *observer);

/* Makes an empty log of the decoder's keys and values, of the dtype that the model keeps them as. Free it as a
 * tfm_kv_cache. */
tfm_status tfm__model_kv_cache_new(const tfm_model *model, tfm_kv_cache *out, int64_t capacity);
/* Projects what the encoder gave to the keys and values of each of the decoder's layers, cross [layers], kept as that
 * dtype in the current scope. */
tfm_status tfm__model_project_cross_kv(tfm_model *model, tfm_kv *cross, tfm_tensor encoded);
/* One step of the decoder for R rows of T tokens each: their places in the log of keys and values, and what they attend
 * to. */
typedef struct tfm__decode_step {
    tfm_kv_cache *cache;          /* The log. It has room for R T rows from `slot` on. */
    const tfm_kv *cross;          /* [layers]: keys and values of the N encoded sequences; NULL without an encoder. */
    tfm_tensor cross_lengths;     /* (N): the lengths of these sequences. */
    tfm_tensor sources;           /* (R): which of the N sequences each row reads. */
    tfm_tensor block_table;       /* (R, position + T): where in the log each row's past lies, its own places last. */
    tfm_param *output;            /* (K, E): the rows of the output projection that are wanted; NULL: all. */
    tfm_tensor *projection_input; /* Gets what the output projection reads (R, E), in the current scope; then no logits
                         are made. NULL: they are. */
    tfm_tensor position_bias;     /* What tfm__model_position_bias gave, or empty where that gives nothing. */
    int64_t slot;                 /* The place in the log of the first row's first token; others follow row by row. */
    int64_t position;             /* The position of the first tokens that are read. */
    int64_t length; /* How long the text is that is known by now, this step's tokens and later ones; 0: position + T. */
    /* Where rows stand at different positions, in steps of one token: (R, 1) I32, none above `position`; and (R, 1, 1,
     * position + 1), what is added to the scores of the places in `block_table`, so -inf at those that are none of the
     * row's. Empty where all stand at `position`. */
    tfm_tensor positions, mask;
    /* (R) I32, in steps of one token: how many places of each row's line in `block_table` count. Empty: all. */
    tfm_tensor lengths;
} tfm__decode_step;
/* Whether keys that were made for texts of `from` tokens serve for texts of `to` tokens. Where they do not, since a
 * model turns by other rates in longer texts, a text that grows over that border must be run again from its beginning,
 * with its new `length` in each step. */
bool tfm__model_rope_matches(const tfm_model *model, int64_t from, int64_t to);
/* Makes the bias of scores by distance for steps of one token at positions below `positions`: (H, positions), or of
 * layer after layer where each has its own. Leaves *out empty where the decoder has none. */
tfm_status tfm__model_position_bias(tfm_model *model, tfm_tensor *out, int64_t positions);
/* Makes logits (R, V) of the tokens after `ids` (R, T), with `bias` (V), or with `output` (R, K) and `bias` (K); none
 * where the step has `projection_input`. NULL for `logits`: only the log is wanted. */
tfm_status tfm__model_step(tfm_model *model, tfm_tensor *logits, tfm_tensor ids, const tfm__decode_step *step,
                           tfm_tensor bias);

/* Makes what the decoder's first block reads: embedding plus positions, and the norm over it if there is one. */
tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position);
/* What the output projection reads of hidden (..., E): it, or it scaled, where the arch says so. */
tfm_status tfm__model_scale_output(tfm_model *model, tfm_tensor *out, tfm_tensor hidden);
/* What the output projection adds itself of a bias: nothing where logits are capped afterwards. */
tfm_tensor tfm__model_inner_bias(const tfm_model *model, tfm_tensor bias);
/* Does the output projection: logits (..., V) of hidden (..., E), with `bias` (V). */
tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor hidden, tfm_tensor bias);

/* Fills in one row of a batch: `count` ids, of which the last `shift` are left out for as many `start` before the
 * first, and then `pad` up to the width. The decoder reads its target with a shift of 1. */
static inline void tfm__ids_pad(int32_t *out, int64_t width, const int32_t *ids, size_t count, int64_t shift,
                                int32_t start, int32_t pad) {
    for (int64_t k = 0; k < width; k++)
        out[k] = k >= (int64_t)count ? pad : k < shift ? start : ids[k - shift];
}

/* ---- Search's rules (generate/search_rules.c) ---- */

/* The rules that a search follows: what the caller asks for, or else the directory, or else the paper. */
typedef struct tfm__search_params {
    int beam_size, n_best;
    bool skip_scores;
    tfm_length_norm length_norm;
    double length_penalty;
    int max_length; /* The most tokens to write; 0 stands for source tokens + 50. */
} tfm__search_params;
tfm_status tfm__search_params_of(tfm__search_params *out, const tfm_model *model, const tfm_search_options *options);

/* Returns the most tokens that the translation of so many source tokens may have. What the directory says of it counts
 * for families that search as transformers does, where it is less. */
int64_t tfm__search_limit(const tfm__search_params *rules, const tfm_model *model, size_t source_tokens);

/* Checks that a translation of at most `limit` tokens can begin with these ids and go on; a sentence says why not. */
tfm_status tfm__search_check_prefix(const tfm__generation_rules *rules, const int32_t *ids, size_t count,
                                    int64_t limit);

/* Frees what a hypothesis points to, and makes it empty. */
void tfm__hypothesis_clear(tfm_hypothesis *hypothesis);

#endif
