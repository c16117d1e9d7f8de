/* An embedder: an encoder, pooling, and further layers. */
#ifndef TFM_LIB_EMBEDDER_H
#define TFM_LIB_EMBEDDER_H

#include <jansson.h>
#include "model/core/model.h"
#include "model/tasks/encode_lines.h"
#include "tfm/embed.h"

/* Steps after the pooling. */
typedef enum tfm__embed_step_kind {
    TFM__STEP_DENSE,
    TFM__STEP_NORM,      /* layer norm */
    TFM__STEP_NORMALIZE, /* L2 normalization */
} tfm__embed_step_kind;

typedef struct tfm__embed_step {
    tfm__embed_step_kind kind;
    int width; /* output width */
    tfm_dense dense;
    tfm_activation activation;
    bool tanh, sigmoid; /* instead of the activation */
    tfm_norm norm;      /* also for TFM__STEP_NORMALIZE: gamma is 1/sqrt(W) */
} tfm__embed_step;

enum { TFM__MAX_EMBED_STEPS = 16 };

/* Tokens of queries and documents of late interaction, by tfm_text_role (late_interaction.c). */
typedef struct tfm__late_interaction {
    char *prefix[2]; /* the token after the first; NULL: none */
    int length[2];   /* maximum tokens */
    bool expands;    /* queries are filled up with mask tokens */
    bool attends;    /* which are attended to */
    json_t *skipped; /* words: tokens of documents without a vector; NULL: none */
} tfm__late_interaction;

struct tfm_embedder {
    tfm_model *model;
    tfm_context *ctx; /* the model's; NULL: only read the directory */
    int encoder_width, encoder_positions;
    tfm_embedder_options options;
    tfm_pooling poolings[TFM_POOLINGS]; /* outputs are concatenated */
    int pooling_count;
    tfm__embed_step steps[TFM__MAX_EMBED_STEPS];
    int step_count;
    bool skip_prompt; /* tokens of a prompt are not pooled */
    bool by_token;    /* no pooling: steps apply to the vector of each token */
    tfm__late_interaction late;
    json_t *prompts; /* names and texts, or NULL */
    char *default_prompt;
    tfm_embedder_info info;
    tfm_embedder **replicas; /* [replica_count]: on the other devices of a fleet; NULL: not available */
    size_t replica_count;
};

/* The embedder on the device of the model `on`: `embedder` or one of its replicas. */
tfm_embedder *tfm__embedder_on(tfm_embedder *embedder, const tfm_model *on);

/* An encoder of lines for this embedder, with the prompt of the options, else the default one. */
tfm__line_encoder tfm__embedder_line_encoder(const tfm_embedder *embedder, const tfm_embed_options *options);

/* Reads the modules after the encoder; *out has context and sizes, and its options apply. `dir`: the whole
 * directory. */
tfm_status tfm__modules_read(tfm_embedder *out, const char *dir);
/* Frees what tfm__modules_read has set, also after a failure. */
void tfm__modules_free(tfm_embedder *embedder);

/* The encoder's directory: `dir`, or a module's folder. New, for free(). */
tfm_status tfm__modules_encoder_dir(char **out, const char *dir);

/* Whether the directory has modules with pooling. */
tfm_status tfm__modules_pool(bool *out, const char *dir);

/* Sets *out if `path` is a GGUF model whose metadata say how token vectors are pooled. */
tfm_status tfm__embed_read_gguf(tfm_pooling *out, const char *path);

/* Config files of the directory (embed_config.c). Loads an optional JSON object: *out stays NULL if the file is
 * absent. */
tfm_status tfm__embed_load_optional(json_t **out, const char *dir, const char *name);
/* A string of config that must be `word` or absent; `path` is for the message. */
tfm_status tfm__embed_check_word(const json_t *config, const char *path, const char *key, const char *word);
/* max_tokens and lower_case, from sentence_bert_config.json and its variants, else from the tokenizer. */
tfm_status tfm__embed_read_limits(tfm_embedder *e, const char *encoder);
/* `late`: of a model of late interaction. */
tfm_status tfm__embed_read_prompts(tfm_embedder *e, const char *dir, bool late);

/* Reads the settings of PyLate, with its defaults. */
tfm_status tfm__late_interaction_read(tfm_embedder *e, const char *dir);
void tfm__late_interaction_free(tfm_embedder *e);

/* tfm_embed_ids with token types (B, T), or empty. Without pooling: (B T, W). */
tfm_status tfm__embed_batch(tfm_embedder *embedder, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor types,
                            tfm_tensor lengths, int64_t skipped);

#endif
