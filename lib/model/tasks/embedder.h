/* An embedder: an encoder, and the steps from what it gives to vectors. */
#ifndef TFM_LIB_EMBEDDER_H
#define TFM_LIB_EMBEDDER_H

#include <jansson.h>
#include "model/core/model.h"
#include "tfm/embed.h"

/* What is done with vectors after the pooling. */
typedef enum tfm__embed_step_kind {
    TFM__STEP_DENSE,
    TFM__STEP_NORM,      /* Layer normalisation. */
    TFM__STEP_NORMALIZE, /* They are made 1 long. */
} tfm__embed_step_kind;

typedef struct tfm__embed_step {
    tfm__embed_step_kind kind;
    int width; /* Of what it gives. */
    tfm_dense dense;
    tfm_activation activation;
    bool tanh, sigmoid; /* In the place of the activation. */
    tfm_norm norm;      /* Of TFM__STEP_NORMALIZE too: gamma is 1/sqrt(W) everywhere. */
} tfm__embed_step;

enum { TFM__MAX_EMBED_STEPS = 16 };

struct tfm_embedder {
    tfm_model *model;
    tfm_context *ctx; /* the model's; NULL: the directory is read, and nothing put on a device */
    int encoder_width, encoder_positions;
    tfm_embedder_options options;
    tfm_pooling poolings[TFM_POOLINGS]; /* Their vectors stand one after another. */
    int pooling_count;
    tfm__embed_step steps[TFM__MAX_EMBED_STEPS];
    int step_count;
    bool skip_prompt; /* The tokens of a prompt are left out of the pooling. */
    json_t *prompts;  /* Names and texts, or NULL. */
    char *default_prompt;
    tfm_embedder_info info;
    tfm_embedder *
        *replicas; /* [replica_count]: those on the other devices of a fleet, or NULL for one that is not there */
    size_t replica_count;
};

/* The embedder on whose device the model `on` lies: `embedder`, or one of its replicas. */
tfm_embedder *tfm__embedder_on(tfm_embedder *embedder, const tfm_model *on);

/* Reads what a directory says besides its encoder, of which *out has context and sizes, and obeys its options. `dir` is
 * the whole one. */
tfm_status tfm__modules_read(tfm_embedder *out, const char *dir);

/* The directory of the encoder: `dir` itself, or that of a module within it. New, freed with free(). */
tfm_status tfm__modules_encoder_dir(char **out, const char *dir);

/* The config files of such a directory (embed_config.c). A JSON object whose file may be absent: *out stays NULL. */
tfm_status tfm__embed_load_optional(json_t **out, const char *dir, const char *name);
/* A value of config that must be this word or absent; `path` is for the sentence. */
tfm_status tfm__embed_check_word(const json_t *config, const char *path, const char *key, const char *word);
/* max_tokens and lower_case, from the files of sentence_bert_config.json's kind or else the tokenizer's. */
tfm_status tfm__embed_read_limits(tfm_embedder *e, const char *encoder);
tfm_status tfm__embed_read_prompts(tfm_embedder *e, const char *dir);

/* tfm_embed_ids with token types (B, T), or empty. */
tfm_status tfm__embed_batch(tfm_embedder *embedder, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor types,
                            tfm_tensor lengths, int64_t skipped);

#endif
