/* The inside of a model. */
#ifndef TFM_LIB_MODEL_H
#define TFM_LIB_MODEL_H

#include "model/config.h"
#include "model/safetensors.h"
#include "ops/ops.h"
#include "tfm/model.h"

/* A parameter that several roles may share: the source embedding, the target embedding, the output projection. */
enum { TFM__SOURCE_TABLE, TFM__TARGET_TABLE, TFM__OUTPUT_TABLE, TFM__TABLES };

struct tfm_model {
    tfm_context *ctx;
    tfm__config config;
    tfm_tokenizer *tokenizer;
    tfm_model_info info;

    tfm_param tables[TFM__TABLES];    /* (V, E) each; only the first of equal roles is filled */
    tfm_param *source, *target, *output;
    tfm_tensor source_positions;      /* (P, E) */
    tfm_tensor target_positions;
    bool stored_positions;            /* they came from the file, and go into one */
    tfm_norm source_norm, target_norm; /* of the embeddings; gamma empty: none */
    tfm_norm encoder_norm, decoder_norm; /* after the last block; gamma empty: none */
    tfm_tensor logits_bias;           /* (V) */
    tfm_tensor search_bias;           /* (V): the same with -inf at ids that are never generated */
    tfm_tensor score_bias;            /* (V): with -inf at the padding's alone, which no text has */
    tfm_encoder_block *encoder;
    tfm_decoder_block *decoder;
    tfm_training *training; /* borrowed; NULL outside of training */
};

/* Makes the three biases, of the first one's values, which change. */
tfm_status tfm__model_set_biases(tfm_model *model, float *bias);

/* One parameter, by the name that Hugging Face's Marian checkpoints have for it. */
typedef enum tfm__parameter_kind { TFM__MATRIX, TFM__BIAS, TFM__GAMMA, TFM__BETA, TFM__TABLE } tfm__parameter_kind;
typedef struct tfm__parameter {
    tfm_param *param;
    const char *name; /* borrowed for the call */
    tfm__parameter_kind kind;
    int rank;
    int64_t dims[2];
} tfm__parameter;

/* Calls `each` for every parameter of blocks and norms, in one order, until it fails; on the way it sets what the
 * configuration says of the layers: heads, activation, order of norms (parameters.c). */
typedef tfm_status (*tfm__parameter_fn)(void *user, const tfm__parameter *parameter);
tfm_status tfm__model_walk(tfm_model *model, tfm__parameter_fn each, void *user);

/* The same for the embedding tables, each once. */
tfm_status tfm__model_walk_tables(tfm_model *model, tfm__parameter_fn each, void *user);

/* The model's info from its configuration and what is known of its parameters (model.c). */
void tfm__model_describe_config(tfm_model *model);

/* Fills the model's parameters from its directory's weights (load.c). */
tfm_status tfm__model_load(tfm_model *model, const tfm__safetensors *file);

/* Which stored tensor plays a table's role, by the most specific name that is present; NULL with the sentence set. */
const tfm__stored *tfm__model_find_table(const tfm__safetensors *file, const tfm__config *config, int role);

/* The encoder's and decoder's entrance: embedding + positions, the norm over it if there is one (model.c). */
tfm_status tfm__model_embed_target(tfm_model *model, tfm_tensor *x, tfm_tensor ids, int64_t position);
/* The decoder's exit: logits (..., V) of x (..., E), with `bias` (V). */
tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor x, tfm_tensor bias);

/* Who is shown the attention weights of a forward pass, layer by layer, and whether he has seen enough. */
typedef struct tfm__watch {
    tfm_attention_fn see;
    void *user;
    bool stopped;
} tfm__watch;

/* tfm_model_encode under a watch; NULL: nobody's, and no weights are made. */
tfm_status tfm__model_encode_watched(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor lengths,
                                     tfm__watch *watch);
/* The decoder without its exit: hidden (B, T, E), before the final norm. `watch` may be NULL. */
tfm_status tfm__model_decode_hidden(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor encoded,
                                    tfm_tensor lengths, tfm__watch *watch);

/* A search's rules, resolved: the caller's wish, then the directory's, then the paper's. */
typedef struct tfm__search_rules {
    int beam, n_best;
    tfm_length_penalty form;
    double alpha;
    int max_length; /* 0: source tokens + 50 */
} tfm__search_rules;
tfm_status tfm__search_rules_of(tfm__search_rules *out, const tfm_model *model, const tfm_search_options *options);

/* The most tokens that the translation of so many may have. */
int64_t tfm__search_limit(const tfm__search_rules *rules, const tfm__config *config, size_t source_tokens);

/* Whether so many ids can begin a translation of at most `limit` tokens, and go on; a sentence says why not. */
tfm_status tfm__prefix_check(const tfm__config *config, const int32_t *ids, size_t count, int64_t limit);

/* A clock that only goes forward. */
double tfm__seconds(void);

#endif
