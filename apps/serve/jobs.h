/* Jobs: what one request asks, and what it gets (jobs.c). */
#ifndef TFM_SERVE_JOBS_H
#define TFM_SERVE_JOBS_H

#include <microhttpd.h>
#include "serve/models.h"

typedef struct server server;
typedef struct serve_job serve_job;

/* The most texts that a prompt may have written, and the most weights of alignments that a job may have. */
enum { SERVE_TEXTS = 16, SERVE_WEIGHTS = 1 << 20 };

/* What the model made of a segment. */
typedef struct serve_result {
    char **texts;   /* [n_best], NULL where there are no more */
    json_t *detail; /* tokens and alignment, where they were asked for */
    size_t source_tokens, target_tokens;
    const char *finish[SERVE_TEXTS]; /* why each generated text ended: static */
} serve_result;

/* Pieces of jobs whose keys are equal go into one batch. */
typedef struct serve_batch_key {
    serve_model *model;
    serve_task task; /* a language model has two */
    int n_best, layer, head;
    bool split, detail, keep; /* keep: texts have placeholders */
    int max_new_tokens;
    uint64_t alone; /* not 0: a number of this job's alone */
} serve_batch_key;

typedef struct serve_client {
    char name[72];         /* an address, or a key by its number */
    uint64_t virtual_time; /* work that it was given so far, from the server's clock on; who has least is next */
    uint64_t clock;        /* the virtual time of its job that was served last: where its next job begins */
    size_t waiting;
    struct serve_client *next;
} serve_client;

typedef enum serve_state { SERVE_WAITING, SERVE_DONE } serve_state;
/* Why a job is not worked on any more: nobody waits for it, it took too long, or the server ends. */
typedef enum serve_stop { SERVE_RUNNING, SERVE_CLIENT_CLOSED, SERVE_TIMED_OUT, SERVE_SHUTTING_DOWN } serve_stop;

struct serve_job {
    serve_batch_key key;
    cli_segment *segments; /* [count] */
    serve_result *results;
    size_t count, texts;  /* segments, and texts of the request that they belong to */
    serve_model **models; /* [texts], where they have several: key.model is then that of the next segment */
    float *vectors;       /* [count][width], of embeddings */
    int width;
    char *prompt_name;             /* of embeddings: which prompt of the directory; NULL: its default */
    tfm_generate_options generate; /* of generation; stops are the job's own */
    char **stops;
    int32_t **ids; /* [count]: the tokens of prompts, [id_counts[i]] each; NULL: segments are encoded by the worker */
    size_t *id_counts;
    int32_t *stop_ids; /* [stop_id_count]: tokens that end a text besides the model's own */
    size_t stop_id_count;
    bool tells_usage; /* in the last event of a stream */
    char id[40];      /* of a generation, as its answer names it */
    bool chat;
    int64_t created;
    int answer_code; /* the status of a failure; 0: none */
    char *failure;   /* its sentence */
    int retry_after;
    size_t weights; /* of alignments, so far */
    /* Under the server's lock: */
    serve_client *client;
    serve_state state;
    size_t taken, done, in_work; /* segments */
    const serve_worker *with;    /* who works on it, while in_work is not 0: one at a time */
    uint64_t number, virtual_time;
    double arrived, began, ended;
    atomic_int stop;                   /* a serve_stop; the first reason stays */
    struct MHD_Connection *connection; /* NULL: it has left, and the worker frees the job */
    bool suspended;
    int fd;
    serve_job *next;
    struct serve_stream *stream; /* of server-sent events, else NULL; it has set these: */
    /* The index-th text has grown. A worker calls it, without the lock. */
    void (*on_text)(serve_job *job, int index, const char *text);
    void (*on_done)(serve_job *job); /* the job is done: under the lock, before its connection goes on */
    void (*on_free)(serve_job *job);
    json_t *source; /* owns the texts of the segments */
    void *markup;   /* documents of HTML, or NULL (markup.h) */
};

/* A segment of a job in a batch. */
typedef struct serve_batch_item {
    serve_job *job;
    size_t segment;
    uint64_t cost; /* in tokens, about */
} serve_batch_item;

/* Whether somebody still waits for a batch, and not for too long. */
bool serve_batch_is_wanted(const serve_batch_item *items, size_t count);
/* A job of `count` segments; NULL without memory. */
serve_job *serve_job_new(size_t count);
void serve_job_free(serve_job *job);
/* Keeps the first failure of a job, and its sentence. */
void serve_job_fail(serve_job *job, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Says that a job is not to be worked on any more; false where that was said before. */
bool serve_job_stop(serve_job *job, serve_stop why);
serve_stop serve_job_stopped(const serve_job *job);
/* Fails a job that was stopped before it was done, for the reason that it has. One that nobody waits for does not. */
void serve_job_fail_stopped(const server *s, serve_job *job);

#endif
