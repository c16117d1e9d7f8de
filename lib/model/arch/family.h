/* A family of models: how its files say what tfm__arch says. One file a family, and one line in family.c. */
#ifndef TFM_LIB_FAMILY_H
#define TFM_LIB_FAMILY_H

#include <jansson.h>
#include "base/base.h"
#include "model/arch/arch.h"
#include "model/decode/generation_rules.h"
#include "tfm/model.h"

/* `quant_method` in the quantization_config of a directory that tfm_model_quantize wrote. */
#define TFM__QUANT_METHOD "tfm"

/* What a parameter does in the model. */
typedef enum tfm__role {
    TFM__NO_ROLE,
    /* The tables: (V, E) each. */
    TFM__SHARED_EMBEDDING, /* the name under which all of the next three are stored where they are one table */
    TFM__SOURCE_EMBEDDING,
    TFM__TARGET_EMBEDDING,
    TFM__OUTPUT_PROJECTION,
    TFM__OUTPUT_BIAS, /* (V) or (1, V) in files; `weight` is a second name, which counts where files have both */
    /* Of heads. */
    TFM__MLM_DENSE,
    TFM__MLM_NORM,
    TFM__CLASSIFIER_DENSE,
    TFM__CLASSIFIER_NORM,
    TFM__CLASSIFIER_OUT, /* (C, E) */
    /* Of a stack. */
    TFM__POSITIONS,
    TFM__TOKEN_TYPES,
    TFM__RELATIVE_BIAS, /* (buckets, H), with the name that it has in the first layer, or of each layer */
    TFM__EMBEDDING_NORM,
    TFM__EMBEDDING_DENSE, /* (E, e), where the embedding is narrower than the stack */
    TFM__FINAL_NORM,
    TFM__OUTPUT_DENSE, /* (e, E), where what the stack gives is as narrow */
    /* Of a block. */
    TFM__SELF_QUERY,
    TFM__SELF_KEY,
    TFM__SELF_VALUE,
    TFM__SELF_OUT,
    TFM__SSRU_INPUT, /* in recurrent stacks, in the place of the four before */
    TFM__SSRU_FORGET,
    TFM__SELF_NORM,
    TFM__SELF_NORM_PARALLEL, /* TFM__SELF_NORM where sub-layers in parallel have a norm each, if the name is another */
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
    TFM__UP_UNGATED, /* TFM__UP of layers without a gate, where the family has another name for it then */
    TFM__DOWN,
    TFM__FEED_FORWARD_NORM,
    TFM__FEED_FORWARD_NORM_PARALLEL, /* the same of TFM__FEED_FORWARD_NORM */
    TFM__FEED_FORWARD_NORM_AFTER,
    TFM__ROLES
} tfm__role;

/* How one role is stored. Names may hold a `#`, which stands for the layer's number, and a second one for that within
 * its group, or for the head's. Roles of one name are parts of
 * one tensor, one after the other along the outputs, in the order of the roles, which is that of the walk. */
typedef struct tfm__naming {
    const char *weight, *bias; /* a norm's gamma and beta; NULL: the family has none */
    bool transposed;           /* matrices: stored (inputs, outputs) */
} tfm__naming;

/* Weight and bias of a matrix, gamma and beta of a norm. */
#define TFM__WEIGHT_AND_BIAS(stem)                                                                                     \
    { .weight = stem ".weight", .bias = stem ".bias" }
/* A matrix, table or norm without a bias. */
#define TFM__WEIGHT_ONLY(stem)                                                                                         \
    { .weight = stem ".weight" }

struct tfm__family;
struct tfm__encoder_kind;
struct tfm__decoder_kind;

/* The files that say what a model is. */
typedef struct tfm__config_files {
    const struct tfm__family *family;
    json_t *config, *generation; /* generation: NULL where the directory has none */
    json_t *outer;               /* what `config` is the text's part of (multimodal.h), or NULL */
    char *config_path, *generation_path;
} tfm__config_files;

typedef struct tfm__family {
    const char *name;            /* what `tfm info` calls it, and what `write` writes as `model_type` */
    const char *const *types;    /* the `model_type`s of config.json that it runs, NULL last */
    const char *const *classes;  /* how the names in its `architectures` begin, NULL last */
    const char *const *prefixes; /* NULL last; or NULL. They are in front of names, and missing in files of models
                                    saved without their head */
    const char *const *ignored;  /* NULL last; or NULL. Stored tensors whose names end so are no parameters; with a `.`
                                    at the end, those whose names begin so */
    const char *const *legacy_names; /* pairs, NULL last; or NULL. Names that end as the first of a pair says are in old
                                     files as the second says */
    bool keeps_shared;   /* a table that both stacks share has its own name in files, whatever the output has */
    bool output_by_file; /* the file alone says whether the output has a table of its own, and no key */
    int first_layer;     /* the number of the first layer in names */
    bool row_vectors;    /* vectors are stored (1, size) */
    bool qkv_by_head;    /* queries, keys and values are one tensor: for each KV head its queries, its key, its value */
    tfm_status (*read)(tfm__arch *arch, tfm__generation_rules *rules, const tfm__config_files *from);
    /* config.json of such a model, new, or NULL without memory. NULL: such models are not saved. */
    json_t *(*write)(const struct tfm__family *family, const tfm__arch *arch, const tfm__generation_rules *rules);
    /* config.json of a new model of these sizes, for `read`; new, or NULL without memory. NULL: none are made so. */
    json_t *(*describe)(const struct tfm__family *family, const tfm_model_shape *shape);
    /* Whether a tokenizer goes with the model, besides the sizes, which are compared for all. NULL: nothing else is. */
    tfm_status (*check_tokenizer)(const tfm_tokenizer *tokenizer, const tfm__generation_rules *rules, const char *dir);
    /* What a directory is of whose class ends in "EncoderModel": it has the encoder alone. NULL: this family. */
    const struct tfm__family *encoder_only;
    const struct tfm__encoder_kind
        *encoder_kind; /* what tfm__encoder_read knows of the family; NULL: it has its own `read` */
    const struct tfm__decoder_kind
        *decoder_kind;                    /* the same for tfm__decoder_read_config and tfm__decoder_write_config */
    const tfm__naming *common;            /* [TFM__ROLES]: the tables, the output's bias, heads */
    const tfm__naming *encoder, *decoder; /* [TFM__ROLES]; NULL: such models have no such stack */
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
extern const tfm__family tfm__family_gptj, tfm__family_falcon, tfm__family_bloom, tfm__family_mpt;
extern const tfm__family tfm__family_gemma, tfm__family_gemma2, tfm__family_gemma3_text;
extern const tfm__family tfm__family_bert, tfm__family_roberta, tfm__family_distilbert, tfm__family_mpnet,
    tfm__family_modernbert, tfm__family_electra, tfm__family_albert;

/* The family of a `model_type`, or NULL. */
const tfm__family *tfm__family_find(const char *type);

/* What a directory's files gave besides. It starts as {0}. */
typedef struct tfm__family_files {
    struct tfm__weights *weights; /* already open, where the configuration is in them; NULL: tfm__weights_open_dir */
    char *shortlist;              /* the path of a shortlist, or NULL */
    bool shared_vocabulary;       /* both sides have one */
    json_t *generation;           /* generation_config.json as it is; NULL where there is none */
} tfm__family_files;

void tfm__family_files_free(tfm__family_files *files);

/* Does what tfm__family_read does, and opens what `files` has. Free that, also after a failure. */
tfm_status tfm__family_open(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules,
                            tfm__family_files *files, const char *dir);

/* Reads the directory's config.json and generation_config.json, or without a config.json what Marian itself has there.
 * A family that nobody has registered, or a feature that no kernel has, is TFM_ERROR_UNSUPPORTED; a key with a wrong
 * type or an impossible value is TFM_ERROR_FORMAT with file, key, value and what is allowed; a missing config.json is
 * TFM_ERROR_IO. What is not known is ignored. */
tfm_status tfm__family_read(const tfm__family **family, tfm__arch *arch, tfm__generation_rules *rules, const char *dir);

#endif
