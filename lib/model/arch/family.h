/* A model family: how its files map to tfm__arch. One file per family, and one line in family.c. */
#ifndef TFM_LIB_FAMILY_H
#define TFM_LIB_FAMILY_H

#include <jansson.h>
#include "base/base.h"
#include "model/arch/arch.h"
#include "model/decode/generation_rules.h"
#include "model/weights/packed_tensors.h"
#include "tfm/model.h"

/* `quant_method` in the quantization_config that tfm_model_quantize writes. */
#define TFM__QUANT_METHOD "tfm"

/* Role of a parameter. */
typedef enum tfm__role {
    TFM__NO_ROLE,
    /* Embedding tables, (V, E) each. */
    TFM__SHARED_EMBEDDING, /* stored name if the next three are one table */
    TFM__SOURCE_EMBEDDING,
    TFM__TARGET_EMBEDDING,
    TFM__OUTPUT_PROJECTION,
    TFM__OUTPUT_BIAS, /* (V) or (1, V) in files; `weight` is a second name, which wins */
    /* Heads. */
    TFM__MLM_DENSE,
    TFM__MLM_NORM,
    TFM__CLASSIFIER_DENSE,
    TFM__CLASSIFIER_NORM,
    TFM__CLASSIFIER_OUT, /* (C, E) */
    /* Stacks. */
    TFM__POSITIONS,
    TFM__TOKEN_TYPES,
    TFM__RELATIVE_BIAS, /* (buckets, H); the name in the first layer, or in each layer */
    TFM__EMBEDDING_NORM,
    TFM__EMBEDDING_DENSE, /* (E, e) if the embedding is narrower than the stack */
    TFM__FINAL_NORM,
    TFM__OUTPUT_DENSE, /* (e, E) if the output is as narrow */
    /* Blocks. */
    TFM__SELF_QUERY,
    TFM__SELF_KEY,
    TFM__SELF_VALUE,
    TFM__SELF_OUT,
    TFM__SSRU_INPUT, /* recurrent stacks, instead of the four above */
    TFM__SSRU_FORGET,
    TFM__SELF_NORM,
    TFM__SELF_NORM_PARALLEL, /* TFM__SELF_NORM if parallel sub-layers have separate norms and it has another name */
    TFM__SELF_QUERY_NORM,
    TFM__SELF_KEY_NORM,
    TFM__SELF_NORM_AFTER,
    TFM__CROSS_QUERY,
    TFM__CROSS_KEY,
    TFM__CROSS_VALUE,
    TFM__CROSS_OUT,
    TFM__CROSS_NORM,
    TFM__GATE,
    TFM__UP,
    TFM__UP_UNGATED, /* TFM__UP of layers without a gate, if it has another name */
    TFM__DOWN,
    TFM__FEED_FORWARD_NORM,
    TFM__FEED_FORWARD_NORM_PARALLEL, /* the same for TFM__FEED_FORWARD_NORM */
    TFM__FEED_FORWARD_NORM_AFTER,
    TFM__ROLES
} tfm__role;

/* Storage of a role. The first `#` in a name is the layer's number, a second one the number within its group or the
 * head's number. Roles with the same name are parts of one tensor, concatenated along the outputs in the order of the
 * roles. */
typedef struct tfm__naming {
    const char *weight, *bias; /* a norm's gamma and beta; NULL: none */
    bool transposed;           /* matrices: stored (inputs, outputs) */
} tfm__naming;

/* Weight and bias of a matrix, gamma and beta of a norm. */
#define TFM__WEIGHT_AND_BIAS(stem)                                                                                     \
    { .weight = stem ".weight", .bias = stem ".bias" }
/* A matrix, table or norm without a bias. */
#define TFM__WEIGHT_ONLY(stem)                                                                                         \
    { .weight = stem ".weight" }

/* Key of decoder-only models that became encoders: attention without a causal mask. */
#define TFM__BIDIRECTIONAL_KEY "use_bidirectional_attention"

/* A number of groups of a fused QKV tensor: one for each KV head. */
enum { TFM__QKV_BY_HEAD = -1 };

struct tfm__family;
struct tfm__encoder_kind;
struct tfm__decoder_kind;

/* Configuration files of a model. */
typedef struct tfm__config_files {
    const struct tfm__family *family;
    json_t *config, *generation; /* generation: NULL if the directory has none */
    json_t *outer;               /* the object that contains `config` (multimodal.h), or NULL */
    char *config_path, *generation_path;
} tfm__config_files;

typedef struct tfm__family {
    const char *name;           /* name in `tfm info`; written as `model_type` */
    const char *const *types;   /* `model_type`s of config.json, NULL-terminated */
    const char *const *classes; /* prefixes of the classes in `architectures`, NULL-terminated */
    const char *const
        *prefixes; /* NULL-terminated, or NULL. Prefixes of names, absent in files of models saved without their head */
    const char *const *ignored; /* NULL-terminated, or NULL. Suffixes of stored tensors that are no parameters; with a
                                   `.` at the end: prefixes */
    const char *const
        *legacy_names;   /* pairs, NULL-terminated, or NULL. Suffixes of names, and their form in old files */
    bool keeps_shared;   /* a table shared by both stacks has a separate name in files, with any output projection */
    bool output_by_file; /* only the file, not a key, says whether the output has its own table */
    int first_layer;     /* number of the first layer in names */
    bool row_vectors;    /* vectors are stored (1, size) */
    bool qk_interleaved; /* rows of query and key projections: the halves of each head are stored interleaved */
    bool whole_gammas;   /* gammas are stored complete, whatever the arch's gamma_offset */
    int qkv_groups;      /* fused QKV: rows are in this many groups, each with queries, keys and values; 0: one group */
    bool values_before_keys; /* order within a group */
    bool up_before_gate;     /* order within their shared tensor */
    tfm_status (*read)(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);
    /* Returns a new config.json, or NULL if out of memory. NULL: saving is not supported. */
    json_t *(*write)(const struct tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules);
    /* Returns a new config.json of a new model with these sizes, for `read`, or NULL if out of memory. NULL: not
     * supported. */
    json_t *(*describe)(const struct tfm__family *family, const tfm_model_shape *shape);
    /* Checks whether a tokenizer fits the model; sizes are compared for all families. NULL: no further check. */
    tfm_status (*check_tokenizer)(const tfm_tokenizer *tokenizer, const tfm__generation_rules *rules, const char *dir);
    /* Family of directories whose class ends in "EncoderModel" (the encoder alone), or with TFM__BIDIRECTIONAL_KEY.
     * NULL: this family. */
    const struct tfm__family *encoder_only;
    const struct tfm__encoder_kind *encoder_kind; /* for tfm__encoder_read; NULL: the family has another `read` */
    const struct tfm__decoder_kind *decoder_kind; /* for tfm__decoder_read_config and tfm__decoder_write_config */
    const tfm__naming *common;                    /* [TFM__ROLES]: tables, output bias, heads */
    const tfm__naming *encoder, *decoder;         /* [TFM__ROLES]; NULL: the family has no such stack */
} tfm__family;

extern const tfm__family tfm__family_marian;
extern const tfm__family tfm__family_bart, tfm__family_mbart, tfm__family_pegasus;
extern const tfm__family tfm__family_m2m100;
extern const tfm__family tfm__family_t5, tfm__family_mt5, tfm__family_umt5;
extern const tfm__family tfm__family_gpt2;
extern const tfm__family tfm__family_opt;
extern const tfm__family tfm__family_llama, tfm__family_mistral, tfm__family_ministral, tfm__family_qwen2,
    tfm__family_qwen3, tfm__family_smollm3, tfm__family_phi3;
extern const tfm__family tfm__family_gpt_neox, tfm__family_phi, tfm__family_starcoder2, tfm__family_stablelm,
    tfm__family_granite, tfm__family_olmo2, tfm__family_cohere;
extern const tfm__family tfm__family_gptj, tfm__family_codegen, tfm__family_falcon, tfm__family_bloom, tfm__family_mpt;
extern const tfm__family tfm__family_gemma, tfm__family_gemma2, tfm__family_gemma3_text;
extern const tfm__family tfm__family_bert, tfm__family_roberta, tfm__family_distilbert, tfm__family_mpnet,
    tfm__family_modernbert, tfm__family_electra, tfm__family_albert, tfm__family_nomic_bert, tfm__family_gte,
    tfm__family_gte_new;

/* The family of a `model_type`, or NULL. */
const tfm__family *tfm__family_find(const char *type);

/* Further results of reading a directory. Zero-initialize it. */
typedef struct tfm__family_files {
    struct tfm__weights
        *weights; /* already open if the configuration is inside the weight file; NULL: see tfm__family_open_weights */
    tfm__packing packing;       /* of the weights, from quantization_config */
    char *shortlist;            /* path of a shortlist, or NULL */
    bool shared_vocabulary;     /* source and target share a vocabulary */
    struct tfm__family *stored; /* the family with the names of the weight file; NULL: the family's own. For free() */
    json_t *generation;         /* generation_config.json unchanged; NULL if there is none */
} tfm__family_files;

void tfm__family_files_free(tfm__family_files *files);

/* Opens files->weights from the directory unless they are open, with packed matrices as one tensor each. */
tfm_status tfm__family_open_weights(tfm__family_files *files, const char *dir);

/* tfm__family_read, and opens the members of `files`. The caller frees `files`, also on failure. */
tfm_status tfm__family_open(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                            tfm__family_files *files, const char *dir);

/* Reads config.json and generation_config.json, or a Marian model if there is no config.json. An unknown family or an
 * unsupported feature is TFM_ERROR_UNSUPPORTED; a wrong type or value is TFM_ERROR_FORMAT with file, key, value and
 * allowed values; a missing config.json is TFM_ERROR_IO. Unknown keys are ignored. */
tfm_status tfm__family_read(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules, const char *dir);

#endif
