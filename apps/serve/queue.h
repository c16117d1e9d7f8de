/* The queue of jobs (queue.c), batches of their segments (batching.c), and the workers (worker.c, work_*.c). */
#ifndef TFM_SERVE_QUEUE_H
#define TFM_SERVE_QUEUE_H

#include <pthread.h>
#include "serve/jobs.h"

enum { SERVE_BATCH = 1024 };

/* One that works on batches. */
struct serve_worker {
    server *server;
    int number; /* from 0: its instance */
    pthread_t thread;
    size_t left; /* under the lock: segments of its batch that are not done; 0: it is free, or soon will be */
    size_t completed, answered_last; /* under the lock: requests, by this batch so far and by the last one */
    serve_batch_key key;             /* of the batch at hand */
    uint64_t batch_tokens;           /* of it, those included that joined it */
    uint64_t live_tokens;            /* of what it is still at */
    double since;                    /* when the batch was begun */
    double full_since;               /* when more waited than may be worked on at a time; 0: never */
    uint64_t full_done;              /* the tokens that were done by then */
    double accounted;                /* up to when its time is counted */
    serve_batch_item *items;         /* [count]: of it; their jobs are NULL once they are done */
    size_t count, room;
};

/* ---- The queue (queue.c, batching.c) ----------------------------------------------------------------------------- */

/* Puts a job into the queue and suspends its connection. Returns false where a limit forbids that; the job has
 * failed then. Called from the handler of the connection. */
bool serve_queue_add(server *s, serve_job *job, struct MHD_Connection *connection, const char *client);
/* Under the lock: some segments of a job wait no more; a job is over, by a worker or NULL, so its connection goes on,
 * or it is freed where that has left. */
void serve_queue_stop_waiting(server *s, serve_job *job, size_t segments);
void serve_queue_complete(server *s, serve_job *job, serve_worker *by);
/* Waits for work and takes a batch of it: segments of one key, in fair turns between clients, and between the requests
 * of one client. False: the server ends. */
bool serve_queue_take(serve_worker *w);
/* Takes one more segment of the batch's key, where its turn has come, the batch has room and others need not wait for
 * the worker; it is the last of the worker's items then. */
bool serve_queue_take_more(serve_worker *w);
/* Less of a batch of texts that are read is no use to a device: the work would be in handing it out. */
enum { LEAST_TOKENS = 256 };
/* The most tokens that one of several devices is given at a time of the worker's batch, so that all get some of one
 * that is large: `least` at least, and at most as many as the options say, `tokens`, unless they are 0 and so say
 * nothing. `tokens` where there is one device. */
int serve_queue_micro_batch_tokens(const serve_worker *w, int tokens, int least);
/* Says how long the model worked on the worker's batch. */
void serve_queue_record_time(const serve_worker *w, serve_model *model, double seconds);
/* Says how many workers may have a model from now on. */
void serve_queue_set_workers(server *s, serve_model *model, int workers);
/* Says that a batch is over. What is complete goes on to its answer; where the batch was `cut`, what was stopped fails.
 */
void serve_queue_finish(serve_worker *w, bool cut);
/* Gives back a batch that has not been begun: the worker has no instance at the model from now on, and those before it
 * do the work. */
void serve_queue_return(serve_worker *w, serve_model *model);
/* Says that a segment is done: a job that is complete by it does not wait for its batch. It may be freed then. */
void serve_queue_segment_done(serve_worker *w, serve_batch_item *item);
/* Fails what has waited too long, and drops what nobody waits for any more. */
void serve_queue_expire(server *s);
/* The request of a job is over; the job is freed now, or by the worker when it is done with it. */
void serve_queue_detach(server *s, serve_job *job);
size_t serve_queue_waiting(server *s);

/* ---- Workers (worker.c, work_*.c) ---------------------------------------------------------------------------- */

void *serve_worker_run(void *worker);
/* Each works on one batch, and fails the jobs whose segments cannot be worked on. Pieces may join a translation. */
tfm_status serve_work_translate(serve_worker *w, serve_model *model);
tfm_status serve_work_embed(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count);
tfm_status serve_work_generate(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count);

#endif
