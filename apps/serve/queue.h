/* The queue of jobs (queue.c), batches of their segments (serve_batching.c), and the workers (worker.c, work_*.c). */
#ifndef TFM_SERVE_QUEUE_H
#define TFM_SERVE_QUEUE_H

#include <pthread.h>
#include "serve/jobs.h"

/* Maximum segments of a batch at first; segments that an engine runs together; and all segments of such a batch, after
 * which it ends. */
enum { SERVE_BATCH = 1024, SERVE_SEQUENCES = 32, SERVE_ENGINE_BATCH = 65536 };

/* A worker thread. */
struct serve_worker {
    server *server;
    int number; /* from 0: its instance */
    pthread_t thread;
    size_t left;                     /* under the lock: unfinished segments of its batch; 0: free, or soon */
    size_t completed, answered_last; /* under the lock: requests completed by this and answered by the last batch */
    serve_batch_key key;             /* of the current batch */
    uint64_t batch_tokens;           /* of it, including admitted segments */
    uint64_t live_tokens;            /* of unfinished segments */
    double since;                    /* start of the batch */
    double full_since;               /* when the batch became full; 0: never */
    uint64_t full_done;              /* tokens done by then */
    double accounted;                /* end of the counted time */
    serve_batch_item *items;         /* [count]; job is NULL once done */
    size_t count, room;
};

/* ---- The queue (queue.c, serve_batching.c) ----------------------------------------------------------------------- */

/* Enqueues a job and suspends its connection. Returns false, with a failed job, if a limit is exceeded. Called from the
 * handler of the connection. */
bool serve_queue_add(server *s, serve_job *job, struct MHD_Connection *connection, const char *client);
/* Under the lock: segments of a job no longer wait; a job is finished, by a worker or NULL: its connection resumes, or
 * it is freed if the client has left. */
void serve_queue_stop_waiting(server *s, serve_job *job, size_t segments);
void serve_queue_complete(server *s, serve_job *job, serve_worker *by);
/* Waits for work and takes a batch: segments of one key, fairly between clients and between requests of a client.
 * False: shutdown. */
bool serve_queue_take(serve_worker *w);
/* Admits one more segment of the batch's key, if it is next, the batch has room and no other key waits for the worker;
 * it becomes the last of the worker's items. */
bool serve_queue_take_more(serve_worker *w);
/* Minimum tokens per device: below, scheduling costs more than it gains. */
enum { LEAST_TOKENS = 256 };
/* Whether a worker generates texts by an engine, which admits requests with any options at any time. */
bool serve_queue_has_engine(const server *s, const serve_batch_key *key);
/* Maximum tokens per device of the worker's batch, so that all devices get a part of a large one: at least `least`, at
 * most `tokens` of the options unless 0. `tokens` for a single device. */
int serve_queue_micro_batch_tokens(const serve_worker *w, int tokens, int least);
/* Records the time of the worker's batch. */
void serve_queue_record_time(const serve_worker *w, serve_model *model, double seconds);
/* Sets the maximum number of workers of a model. */
void serve_queue_set_workers(server *s, serve_model *model, int workers);
/* Ends a batch: complete jobs are answered; if the batch was `cut`, stopped jobs fail. */
void serve_queue_finish(serve_worker *w, bool cut);
/* Returns an unstarted batch to the queue: the worker has no instance of the model any more, and other workers take it.
 */
void serve_queue_return(serve_worker *w, serve_model *model);
/* Finishes a segment: a job completed by it is answered before the batch ends, and may be freed. */
void serve_queue_segment_done(serve_worker *w, serve_batch_item *item);
/* Fails jobs that have waited too long, and drops jobs of disconnected clients. */
void serve_queue_expire(server *s);
/* The request of a job has ended; the job is freed now, or later by its worker. */
void serve_queue_detach(server *s, serve_job *job);
size_t serve_queue_waiting(server *s);

/* ---- Workers (worker.c, work_*.c) ---------------------------------------------------------------------------- */

void *serve_worker_run(void *worker);
/* Each runs one batch, and fails jobs with bad segments. Segments may be admitted to running translations and texts. */
tfm_status serve_work_translate(serve_worker *w, serve_model *model);
tfm_status serve_work_embed(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count);
tfm_status serve_work_generate(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count);
tfm_status serve_work_engine(serve_worker *w, serve_model *model);
/* Keeps a generated text of a segment. False without memory. */
bool serve_generate_keep(server *s, const serve_batch_item *item, const tfm_generation *g);
/* Whether a token is no stop token of the request. */
bool serve_generate_goes_on(const serve_job *job, int32_t id);

#endif
