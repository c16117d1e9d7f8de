/* Batching: the segments of the queue that a worker takes together, and the completion of their jobs. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "serve/server.h"

/* Estimated bytes per token; and milliseconds to wait for clients just answered, to batch their next sentences. */
enum { BYTES_PER_TOKEN = 3, DEFAULT_BATCH_TOKENS = 4096, RETURN_MS = 2 };
/* Seconds per batch, to bound the waiting time of later requests; but at least this fraction of the maximum tokens,
 * since smaller batches are slow. */
static const double BATCH_SECONDS = 0.5;
/* Seconds after which no segment is admitted to a batch, so that it ends and its time is measured. */
static const double JOIN_SECONDS = 5;
enum { LEAST_PART = 16, UNKNOWN_PART = 4 };

/* Whether a worker generates texts by an engine, which admits requests with any options at any time. */
static bool has_engine(const server *s, const serve_batch_key *key) {
    return key->task == SERVE_GENERATE && s->devices < 2 && !atomic_load(&key->model->no_engine);
}

/* `engine`: the batch is of an engine. */
static bool same_key(bool engine, const serve_batch_key *a, const serve_batch_key *b) {
    if (engine)
        return a->model == b->model && a->task == b->task;
    return a->model == b->model && a->task == b->task && a->n_best == b->n_best && a->layer == b->layer &&
           a->head == b->head && a->split == b->split && a->detail == b->detail && a->keep == b->keep &&
           a->max_new_tokens == b->max_new_tokens && a->raw_scores == b->raw_scores && a->token_ids == b->token_ids &&
           a->sparse == b->sparse && a->query == b->query && a->alone == b->alone;
}

static bool before(const serve_job *a, const serve_job *b) {
    if (a->client->virtual_time != b->client->virtual_time)
        return a->client->virtual_time < b->client->virtual_time;
    return a->virtual_time != b->virtual_time ? a->virtual_time < b->virtual_time : a->number < b->number;
}

/* Whether a worker may take a segment of the job: it has an instance of the model, and no other worker has the job. */
static bool may_take(const serve_worker *w, const serve_job *job) {
    return w->number < job->key.model->workers && (job->in_work == 0 || job->with == w);
}

/* The next client of this worker. */
static serve_job *next_job(const serve_worker *w, const serve_batch_key *key) {
    serve_job *best = NULL;
    for (serve_job *job = w->server->first; job; job = job->next)
        if (job->taken < job->count && may_take(w, job) && !job->answer_code && !serve_job_stopped(job) &&
            (!key || same_key(w->engine, key, &job->key)) && (!best || before(job, best)))
            best = job;
    return best;
}

/* Whether all workers with lower numbers are busy: they have priority, so that one worker does all if possible. */
static bool is_needed(const serve_worker *w) {
    for (int i = 0; i < w->number; i++)
        if (w->server->workers[i].left == 0)
            return false;
    return true;
}

/* Estimated tokens of a job's next segment: for generation including the new tokens of each text. */
static uint64_t cost_of(const serve_job *job) {
    const size_t query = job->queries ? strlen(job->queries[job->taken]) : 0;
    const uint64_t read = job->key.token_ids ? job->id_counts[job->taken]
                                             : 1 + (query + job->segments[job->taken].bytes) / BYTES_PER_TOKEN;
    return job->key.max_new_tokens > 0 ? (read + (uint64_t)job->key.max_new_tokens) * (uint64_t)job->key.n_best : read;
}

/* Sets the model of the next segment, if a job has several. */
static void next_model(serve_job *job) {
    if (job->models && job->taken < job->count)
        job->key.model = job->models[job->segments[job->taken].of];
}

static void take_segment(const serve_worker *w, serve_job *job, serve_batch_item *item) {
    server *s = w->server;
    const uint64_t cost = cost_of(job);
    *item = (serve_batch_item){job, job->taken++, cost};
    next_model(job);
    job->in_work++;
    job->with = w;
    job->virtual_time += cost;
    if (job->virtual_time > job->client->clock)
        job->client->clock = job->virtual_time;
    job->client->virtual_time += cost;
    if (job->client->virtual_time > s->clock)
        s->clock = job->client->virtual_time;
    serve_queue_stop_waiting(s, job, 1);
    if (job->began == 0)
        job->began = cli_seconds();
}

/* Waits briefly for clients just answered, to batch their next sentences with the waiting ones. A single client never
 * waits. */
static void wait_for_returns(serve_worker *w) {
    server *s = w->server;
    struct timespec until;
    if (w->answered_last < 2 || s->ending)
        return;
    for (size_t seen = 0; seen != s->waiting && s->waiting < w->answered_last;) {
        seen = s->waiting;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += RETURN_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        while (s->waiting < w->answered_last && pthread_cond_timedwait(&s->work, &s->lock, &until) == 0)
            ;
    }
}

/* Maximum tokens of a model's next batch. Not for generation, where larger batches are not slower. */
static uint64_t budget_of(const server *s, const serve_model *model) {
    const uint64_t most =
        (uint64_t)s->devices *
        (uint64_t)(s->options->text.batch_tokens ? s->options->text.batch_tokens : DEFAULT_BATCH_TOKENS);
    if (model->task == SERVE_GENERATE)
        return most;
    const double timely = model->pace > 0 ? model->pace * BATCH_SECONDS : (double)(most / UNKNOWN_PART);
    return timely >= (double)most ? most : timely < (double)(most / LEAST_PART) ? most / LEAST_PART : (uint64_t)timely;
}

int serve_queue_micro_batch_tokens(const serve_worker *w, int tokens, int least) {
    const uint64_t devices = w->server->devices, all = w->batch_tokens;
    const uint64_t even = (all + devices - 1) / devices, part = even > (uint64_t)least ? even : (uint64_t)least;
    return devices < 2 || (tokens > 0 && (uint64_t)tokens < part) || part > INT_MAX ? tokens : (int)part;
}

void serve_queue_record_time(const serve_worker *w, serve_model *model, double seconds) {
    const bool later = w->full_since > w->since; /* it became full by admitted segments */
    const double tokens = (double)(later ? w->batch_tokens - w->full_done : w->batch_tokens);
    const double time = later ? cli_seconds() - w->full_since : seconds;
    const double pace = tokens / (time > 1e-6 ? time : 1e-6);
    /* A batch that was not full may be too small for a measurement. */
    pthread_mutex_lock(&w->server->lock);
    if (w->full_since > 0 || pace > model->pace)
        model->pace = pace;
    pthread_mutex_unlock(&w->server->lock);
}

/* Grows the items by one. */
static bool reserve_item(serve_worker *w) {
    if (w->count < w->room)
        return true;
    const size_t room = w->room ? 2 * w->room : SERVE_BATCH;
    serve_batch_item *larger = realloc(w->items, room * sizeof(*larger));
    if (!larger)
        return false;
    w->items = larger;
    w->room = room;
    return true;
}

static void add_segment(serve_worker *w, serve_job *job, uint64_t cost) {
    take_segment(w, job, &w->items[w->count++]);
    w->batch_tokens += cost;
    w->live_tokens += cost;
    w->texts += (size_t)job->key.n_best;
    w->left++;
}

/* Whether a batch has no room for a segment of the job, of this cost. */
static bool is_full(const serve_worker *w, uint64_t tokens, uint64_t cost, const serve_job *job) {
    return w->engine ? w->texts > 0 && w->texts + (size_t)job->key.n_best > SERVE_SEQUENCES
                     : tokens + cost > budget_of(w->server, w->key.model);
}

/* Waits until the worker is needed, under the lock, and unloads unused models meanwhile. */
static void wait_for_work(const serve_worker *w) {
    server *s = w->server;
    while (!s->ending && !(is_needed(w) && next_job(w, NULL))) {
        const double seconds = serve_models_idle_in(w);
        struct timespec until;
        if (seconds <= 0) {
            pthread_mutex_unlock(&s->lock);
            serve_models_unload_idle(w);
            pthread_mutex_lock(&s->lock);
        } else if (isinf(seconds)) {
            pthread_cond_wait(&s->work, &s->lock);
        } else {
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += (time_t)seconds + 1;
            pthread_cond_timedwait(&s->work, &s->lock, &until);
        }
    }
}

bool serve_queue_take(serve_worker *w) {
    server *s = w->server;
    pthread_mutex_lock(&s->lock);
    wait_for_work(w);
    wait_for_returns(w);
    serve_job *job = s->ending ? NULL : next_job(w, NULL);
    const serve_batch_key key = w->key = job ? job->key : (serve_batch_key){0};
    w->engine = job && has_engine(s, &key);
    w->full_since = 0;
    w->batch_tokens = w->live_tokens = 0;
    w->count = w->left = w->texts = 0;
    w->since = w->accounted = cli_seconds();
    for (; job && w->count < SERVE_BATCH && reserve_item(w); job = next_job(w, &key)) {
        const uint64_t cost = cost_of(job);
        if (w->count > 0 && is_full(w, w->batch_tokens, cost, job)) {
            w->full_since = w->since;
            break;
        }
        if (serve_peer_closed(job->fd)) {
            serve_job_stop(job, SERVE_CLIENT_CLOSED);
            continue;
        }
        add_segment(w, job, cost);
    }
    const bool ending = s->ending;
    if (s->waiting > 0)
        pthread_cond_broadcast(&s->work); /* wake the next worker */
    pthread_mutex_unlock(&s->lock);
    return w->count > 0 || (!ending && serve_queue_take(w));
}

bool serve_queue_take_more(serve_worker *w) {
    server *s = w->server;
    const serve_batch_key key = w->key;
    const bool open = w->engine ? w->count < SERVE_ENGINE_BATCH : cli_seconds() - w->since < JOIN_SECONDS;
    bool came = false;
    pthread_mutex_lock(&s->lock);
    while (!came && !s->ending && open) {
        serve_job *job = next_job(w, NULL);
        if (!job || !same_key(w->engine, &job->key, &key)) /* others come first */
            break;
        const uint64_t cost = cost_of(job);
        const bool full = is_full(w, w->live_tokens, cost, job);
        if (full && w->full_since == 0) {
            w->full_since = cli_seconds();
            w->full_done = w->batch_tokens - w->live_tokens;
        }
        if (full || !reserve_item(w))
            break;
        if (serve_peer_closed(job->fd)) {
            serve_job_stop(job, SERVE_CLIENT_CLOSED);
            continue;
        }
        if (job->began == 0 && w->completed > 0)
            w->completed--; /* perhaps of a client just answered: do not wait for it */
        if (w->left == 0 && s->waiting > 1)
            pthread_cond_broadcast(&s->work); /* later workers may be needed now */
        add_segment(w, job, cost);
        atomic_fetch_add(&s->counters.admitted, 1);
        came = true;
    }
    pthread_mutex_unlock(&s->lock);
    return came;
}

/* Finishes, or cuts, one segment in work. The job may be complete, and freed. */
static void item_done(serve_worker *w, serve_job *job, bool cut) {
    const bool stopped = serve_job_stopped(job) != SERVE_RUNNING;
    job->in_work--;
    w->left -= w->left > 0;
    atomic_fetch_add(&w->server->counters.lines, 1);
    job->done += !(cut && stopped);
    if (job->in_work == 0 && job->taken < job->count)
        pthread_cond_broadcast(&w->server->work); /* another worker may continue it */
    if (job->in_work > 0 || !(job->done == job->count || job->answer_code || stopped))
        return;
    if (job->done < job->count)
        serve_job_fail_stopped(w->server, job);
    serve_queue_complete(w->server, job, w);
}

void serve_queue_segment_done(serve_worker *w, serve_batch_item *item) {
    serve_job *job = item->job;
    pthread_mutex_lock(&w->server->lock);
    item->job = NULL;
    w->live_tokens -= item->cost;
    w->texts -= (size_t)job->key.n_best;
    const double now = cli_seconds();
    atomic_fetch_add(&w->server->counters.work_micros, (unsigned long long)(1e6 * (now - w->accounted)));
    w->accounted = now;
    item_done(w, job, false);
    pthread_mutex_unlock(&w->server->lock);
}

void serve_queue_finish(serve_worker *w, bool cut) {
    pthread_mutex_lock(&w->server->lock);
    for (size_t i = 0; i < w->count; i++)
        if (w->items[i].job)
            item_done(w, w->items[i].job, cut);
    w->count = 0;
    w->answered_last = w->completed;
    w->completed = 0;
    w->left = 0;
    if (w->server->waiting > 0)
        pthread_cond_broadcast(&w->server->work); /* earlier workers have priority, and may sleep */
    pthread_mutex_unlock(&w->server->lock);
}

void serve_queue_return(serve_worker *w, serve_model *model) {
    server *s = w->server;
    pthread_mutex_lock(&s->lock);
    model->workers = model->workers < w->number ? model->workers : w->number;
    for (size_t i = 0; i < w->count; i++) { /* the last taken segments of each job */
        w->items[i].job->taken--;
        next_model(w->items[i].job);
        w->items[i].job->in_work--;
        w->items[i].job->client->waiting++;
        s->waiting++;
    }
    w->count = w->left = 0;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}
