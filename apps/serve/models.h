/* What is served: models as directories say them, and as workers have them loaded (models.c, chat.c, chat_template.c).
 */
#ifndef TFM_SERVE_MODELS_H
#define TFM_SERVE_MODELS_H

#include <jansson.h>
#include <stdatomic.h>
#include "cli/cli.h"

struct serve_options;
typedef struct serve_worker serve_worker;

typedef enum serve_task { SERVE_TRANSLATE, SERVE_EMBED, SERVE_GENERATE } serve_task;

enum { SERVE_CODE = 32, SERVE_WORKERS = 4 };

/* The chat template of a directory (chat_template.c). */
typedef struct serve_chat {
    char *text; /* chat_template.jinja, or chat_template.json, or that of tokenizer_config.json; NULL: none */
    bool known; /* it is ChatML, as the following says */
    bool bos;   /* bos_token begins a prompt */
    bool tools; /* it has branches for tools, which are not run, and no other role than system, user, assistant */
    bool trims; /* messages lose the blanks around them */
    bool line;  /* a line end follows the marker that ends a message */
    bool after_assistant;        /* the assistant's turn begins after a message of the assistant, too */
    char *system;                /* the system message of a chat without one; NULL: none */
    char *eos_token, *bos_token; /* of tokenizer_config.json, or NULL */
} serve_chat;

/* A model as one worker has it loaded: that worker's alone, but for what is atomic. */
typedef struct serve_instance {
    tfm_fleet *fleet; /* of the devices, on which batches are worked on together; NULL: it is not loaded */
    tfm_model *model; /* the embedder's, of an encoder */
    tfm_embedder *embedder;
    atomic_bool loaded;
    atomic_ullong memory; /* what it took on the devices at most, while it was loaded */
} serve_instance;

typedef struct serve_model {
    char name[64];
    const char *dir;
    serve_task task;
    char source[SERVE_CODE], target[SERVE_CODE]; /* of a translator */
    bool says_source, says_target;               /* the model is told the language */
    serve_chat chat;
    tfm_tokenizer *tokenizer;  /* of a language model: requests are encoded before they wait */
    int positions, vocabulary; /* of a language model */
    int eos_id;                /* the first end of texts by its directory, or -1 */
    int32_t ends[2];           /* [end_count]: other tokens that end a turn of a chat */
    const char *end_texts[2];  /* [end_text_count]: stop strings that do, where they are no special tokens */
    int end_count, end_text_count;
    int width;      /* of its embeddings; 0: it computes none */
    uint64_t bytes; /* an estimate of what it takes on the device */
    serve_instance instances[SERVE_WORKERS];
    uint64_t used; /* a count of batches, where there is one worker: when it last worked */
    /* Under the server's lock: */
    int workers; /* how many may have it: 1 until it is loaded */
    double pace; /* tokens a second of its last full batch; 0: there was none */
} serve_model;

typedef struct serve_models {
    serve_model *items;
    size_t count;
    uint64_t clock;
} serve_models;

/* Reads what each directory says, without a device. CLI_OK, or another code after its sentence; freed in any case. */
int serve_models_read(serve_models *models, const struct serve_options *options, const cli_syntax *syntax);
void serve_models_free(serve_models *models);
/* The translator of a pair; the model of a name; NULL where there is none. */
serve_model *serve_model_pair(const serve_models *models, const char *source, const char *target);
serve_model *serve_model_named(const serve_models *models, const char *name);
/* How many workers have it loaded, and what it takes on the device. */
int serve_model_loaded(serve_model *model);
unsigned long long serve_model_memory(serve_model *model);
/* Has a model loaded for this worker, and others dropped for it if memory is limited: there is one worker then. */
tfm_status serve_model_acquire(const serve_worker *w, serve_model *model);
void serve_model_unload(serve_instance *instance);
/* Of the devices of an instance: the names of those that work, whether one of them has failed and would again, the time
 * that they took to build kernels, and their memory. */
void serve_instance_name(char *out, size_t bytes, const serve_instance *instance);
bool serve_instance_failed(const serve_instance *instance);
double serve_instance_build_seconds(const serve_instance *instance);
unsigned long long serve_instance_memory(const serve_instance *instance);

/* Reads the chat template of a directory: CLI_OK, or another code after its sentence; freed in any case. */
int serve_chat_read(serve_chat *chat, const char *dir);
void serve_chat_free(serve_chat *chat);
/* Finds what ends a turn: the tokenizer's eos_token and the template's marker (chat.c). */
void serve_chat_stop_tokens(serve_model *model);
/* Whether a model has a chat template that is run here (chat.c). */
bool serve_has_chat(const serve_model *model);

#endif
