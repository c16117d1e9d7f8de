/* Served models: their metadata, and the instances of workers (models.c, serve_instances.c, serve_reload.c, chat.c). */
#ifndef TFM_SERVE_MODELS_H
#define TFM_SERVE_MODELS_H

#include <jansson.h>
#include <stdatomic.h>
#include "cli/chat_model.h"
#include "serve/serve_histogram.h"
#include "tfm/engine.h"
#include "tfm/rerank.h"

struct serve_options;
typedef struct serve_worker serve_worker;
typedef struct server server;

/* Tasks of jobs; a model's own is not SERVE_RERANK. */
typedef enum serve_task { SERVE_TRANSLATE, SERVE_EMBED, SERVE_GENERATE, SERVE_RERANK } serve_task;

enum { SERVE_CODE = 32, SERVE_WORKERS = 4 };

/* A model instance of one worker; only atomic members are shared. */
typedef struct serve_instance {
    tfm_fleet *fleet; /* the devices that share batches; NULL: not loaded */
    tfm_model *model; /* the embedder's, of an encoder */
    tfm_embedder *embedder;
    tfm_engine *engine; /* of a decoder-only model that has generated text, on one device */
    atomic_bool loaded;
    atomic_ullong memory; /* peak device memory while loaded */
    double used_at;       /* end of its last batch */
} serve_instance;

/* Metrics of a model. Steps and their texts, latencies and cached tokens are of decoder-only models. */
typedef struct serve_model_counters {
    atomic_ullong source_tokens, target_tokens, cached_tokens, steps, step_texts, drafted_tokens, accepted_tokens;
    serve_histogram first_token, inter_token;
} serve_model_counters;

typedef struct serve_model {
    char name[64];
    size_t index; /* in the list of models */
    const char *dir;
    serve_task task;
    char source[SERVE_CODE], target[SERVE_CODE]; /* of a translator */
    bool says_source, says_target;               /* the model has an input for the language */
    tfm_tokenizer *tokenizer;                    /* of a decoder-only model: prompts are encoded before queueing */
    cli_chat_model chat;                         /* of a decoder-only model */
    int positions, vocabulary;                   /* of embeddings and decoder-only models */
    int width;                                   /* of its embeddings; 0: none */
    bool token_vectors;                          /* embeddings are a vector for each token */
    tfm_rerank_kind rerank;                      /* how it reranks */
    atomic_bool opened;                          /* it was loaded once */
    atomic_bool no_engine;                       /* of a decoder-only model: its generation rules need tfm_generate */
    uint64_t bytes;                              /* estimated device memory */
    serve_model_counters *counters;              /* kept when the model is opened again */
    serve_instance instances[SERVE_WORKERS];
    uint64_t used;            /* batch count at its last use, with one worker */
    atomic_int users;         /* jobs and workers; a replaced model without one is freed */
    struct serve_model *next; /* of the replaced ones */
    /* Under the server's lock: */
    int workers; /* maximum workers: 1 until it is loaded */
    double pace; /* tokens per second of its last full batch; 0: none yet */
} serve_model;

/* Models are replaced when they are opened again, under the server's lock and between two callbacks of HTTP. */
typedef struct serve_models {
    serve_model **items;
    serve_model_counters *counters; /* [count] */
    serve_model *replaced;          /* under the server's lock: still used by jobs or workers */
    size_t count;
    uint64_t clock;
} serve_models;

/* Reads each directory, without a device. CLI_OK, or another code after a message; freed in any case. */
int serve_models_read(serve_models *models, const struct serve_options *options, const cli_syntax *syntax);
void serve_models_free(serve_models *models);
/* Reads the directory of --model `index`. CLI_OK, or another code after a message; *out is freed in any case. */
int serve_model_read(serve_model **out, serve_models *models, size_t index, const struct serve_options *options);
void serve_model_free(serve_model *model);
tfm_model_options serve_model_options(const serve_model *model, const struct serve_options *options);
/* The model of an index, with one more user, until serve_model_release. */
serve_model *serve_model_hold(server *s, size_t index);
static inline void serve_model_release(serve_model *model) {
    atomic_fetch_sub(&model->users, 1);
}
/* Opens all models and the file of keys again (SIGHUP). One that fails stays, with a message. */
void serve_reload(server *s);
/* Frees replaced models that are not used any more. */
void serve_models_free_replaced(server *s);
/* The translation model of a pair; the model of a name; NULL if there is none. */
serve_model *serve_model_pair(const serve_models *models, const char *source, const char *target);
serve_model *serve_model_named(const serve_models *models, const char *name);
/* Number of workers with an instance, and their device memory. */
int serve_model_loaded(serve_model *model);
unsigned long long serve_model_memory(serve_model *model);
/* Loads a model for this worker, and unloads others if memory is limited (with one worker). */
tfm_status serve_model_acquire(const serve_worker *w, serve_model *model);
/* Opens the weights on the device or devices. */
tfm_status serve_model_open(server *s, serve_model *model, serve_instance *instance);
void serve_model_unload(serve_instance *instance);
/* Seconds until a model of this worker has been unused for too long; INFINITY: none will be. Unloads such models. */
double serve_models_idle_in(const serve_worker *w);
void serve_models_unload_idle(const serve_worker *w);
/* Devices of an instance: names of working ones, whether one has failed permanently, time for building kernels, and
 * memory. */
void serve_instance_name(char *out, size_t bytes, const serve_instance *instance);
bool serve_instance_failed(const serve_instance *instance);
double serve_instance_build_seconds(const serve_instance *instance);
unsigned long long serve_instance_memory(const serve_instance *instance);

/* Whether a model has a chat template (chat.c). */
bool serve_has_chat(const serve_model *model);

#endif
