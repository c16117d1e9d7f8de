/* Jobs: the work of one request, and its results (jobs.c). */
#ifndef TFM_SERVE_JOBS_H
#define TFM_SERVE_JOBS_H

#include <microhttpd.h>
#include "serve/answer_parts.h"
#include "serve/models.h"

typedef struct serve_job serve_job;
typedef struct serve_grammar serve_grammar;

/* Maximum texts per prompt, and maximum alignment weights per job. */
enum { SERVE_TEXTS = 16, SERVE_WEIGHTS = 1 << 20 };

/* The results of a segment. */
typedef struct serve_result {
    char **texts;   /* [n_best], NULL after the last */
    json_t *detail; /* tokens and alignment, if requested; a sparse embedding */
    size_t source_tokens, target_tokens;
    size_t cached_tokens;            /* source tokens found in the KV cache */
    const char *finish[SERVE_TEXTS]; /* finish reason of each generated text, static */
    double log_prob[SERVE_TEXTS];    /* mean log p of its tokens, if there are more texts than choices */
    json_t *logprobs[SERVE_TEXTS];   /* entries of its tokens, if requested (openai_logprobs.c) */
    size_t streamed[SERVE_TEXTS];    /* entries in events so far */
    float *vectors;                  /* [vector_count][width], of each token */
    size_t vector_count;
} serve_result;

/* Segments with equal keys are batched. */
typedef struct serve_batch_key {
    serve_model *model;
    serve_task task; /* a decoder-only model has two */
    int n_best, layer, head;
    bool split, detail, keep; /* keep: texts have placeholders */
    bool token_ids;           /* of embeddings: of ids, not texts */
    bool sparse, query;       /* of embeddings */
    bool raw_scores;          /* of reranking: without the model's activation */
    int max_new_tokens;
    uint64_t alone; /* not 0: a unique number, the job is not batched with others */
} serve_batch_key;

typedef struct serve_client {
    char name[72];         /* an address, or a key by its number */
    uint64_t virtual_time; /* work received so far, from the server's clock on; the least is next */
    uint64_t clock;        /* the virtual time of its last served job, the start of its next */
    size_t waiting;
    struct serve_client *next;
} serve_client;

typedef enum serve_state { SERVE_WAITING, SERVE_DONE } serve_state;
/* Why a job was stopped: the client left, timeout, or shutdown. */
typedef enum serve_stop { SERVE_RUNNING, SERVE_CLIENT_CLOSED, SERVE_TIMED_OUT, SERVE_SHUTTING_DOWN } serve_stop;

/* An answer of /v1/responses, and its stream (responses_events.c). */
typedef struct serve_response {
    json_t *head;     /* the fields that repeat the request; NULL: a job of another path */
    const char *open; /* the part of a chat's message whose item is being streamed; NULL: none */
    char *text;       /* of that item so far */
    size_t bytes, room;
    int items, events; /* numbers of items begun, and of events */
    /* Adds an event; takes ownership of it. Under the server's lock. */
    void (*emit)(serve_job *job, const char *name, json_t *event);
} serve_response;

struct serve_job {
    serve_batch_key key;
    cli_segment *segments; /* [count] */
    serve_result *results;
    size_t count, texts;  /* numbers of segments, and of the request's texts */
    serve_model **models; /* [texts], if there are several: key.model is then the next segment's */
    float *vectors;       /* [count][width], of embeddings */
    int width;
    int dimensions;                /* of embeddings in the reply */
    const char **queries;          /* [count], of reranking, in `source`; the segments are the documents */
    float *scores;                 /* [count], of reranking */
    int top_n;                     /* results of a ranking */
    bool lists, returns_texts;     /* the reply is a list; it has the documents */
    char *prompt_name;             /* of embeddings: the prompt's name; NULL: the default */
    tfm_generate_options generate; /* of generation; stops and biases are the job's own */
    char **stops;
    tfm_logit_bias *biases;
    serve_grammar *grammar;    /* or NULL */
    const char *grammar_field; /* of the request, static */
    bool logprobs;
    bool echo;     /* texts begin with their prompts, which are the segments' */
    int choices;   /* texts of each prompt that are returned: the best of key.n_best */
    int32_t **ids; /* [count]: token ids of prompts or inputs, [id_counts[i]] each; NULL: the worker encodes segments */
    size_t *id_counts;
    int32_t *stop_ids; /* [stop_id_count]: stop tokens besides the model's own */
    size_t stop_id_count;
    bool tells_usage; /* usage in the last event of a stream */
    char id[40];      /* of a generation, for its reply */
    bool chat;
    answer_format format; /* of a chat; owns the tools */
    serve_response response;
    int64_t created;
    int answer_code; /* the status of a failure; 0: none */
    char *failure;   /* its message */
    int retry_after;
    size_t weights; /* of alignments, so far */
    /* Under the server's lock: */
    serve_client *client;
    serve_state state;
    size_t taken, done, in_work; /* segments */
    const serve_worker *with;    /* its worker, while in_work is not 0: one at a time */
    uint64_t number, virtual_time;
    double arrived, began, ended;
    atomic_int stop;                   /* a serve_stop; the first reason wins */
    struct MHD_Connection *connection; /* NULL: disconnected, and the worker frees the job */
    bool suspended;
    int fd;
    serve_job *next;
    struct serve_stream *stream; /* of server-sent events, else NULL; it sets the following */
    /* The index-th text has grown. Called by a worker, without the lock. */
    void (*on_text)(serve_job *job, int index, const char *text);
    void (*on_done)(serve_job *job); /* the job is done: under the lock, before its connection resumes */
    void (*on_free)(serve_job *job);
    json_t *source;                   /* owns the texts of the segments */
    const struct document_kind *kind; /* the format of the document */
    void *document;                   /* NULL: texts (document.h) */
};

/* A segment of a job in a batch. */
typedef struct serve_batch_item {
    serve_job *job;
    size_t segment;
    uint64_t cost; /* estimate, in tokens */
} serve_batch_item;

/* Whether a job of the batch still has a client and time left. */
bool serve_batch_is_wanted(const serve_batch_item *items, size_t count);
/* Ends the use of a request's grammar, which may be NULL (openai_grammar.c). Any thread. */
void serve_grammar_release(serve_grammar *grammar);
/* A job of `count` segments; NULL without memory. */
serve_job *serve_job_new(size_t count);
void serve_job_free(serve_job *job);
/* Sets the model, or models of the texts if they differ, and uses them until the job is freed. False without memory. */
bool serve_job_set_models(serve_job *job, serve_model *const *models, size_t count);
/* Sets the failure of a job, unless it has one. */
void serve_job_fail(serve_job *job, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Stops a job; false if it was stopped before. */
bool serve_job_stop(serve_job *job, serve_stop why);
serve_stop serve_job_stopped(const serve_job *job);
/* Fails a stopped job with its reason, unless the client has left. */
void serve_job_fail_stopped(const server *s, serve_job *job);

#endif
