/* The queue of jobs: limits, fair scheduling, and removal of abandoned jobs. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* ---- Clients, under the lock ----------------------------------------------------------------------------------- */

static serve_client *client_named(server *s, const char *name) {
    serve_client **at = &s->clients, *unused = NULL;
    for (; *at && strcmp((*at)->name, name) != 0; at = &(*at)->next)
        if ((*at)->waiting == 0)
            unused = *at;
    serve_client *client = *at;
    if (!client && unused) { /* bounds clients by jobs */
        client = unused;
        snprintf(client->name, sizeof(client->name), "%s", name);
    } else if (!client) {
        client = calloc(1, sizeof(*client));
        if (!client)
            return NULL;
        snprintf(client->name, sizeof(client->name), "%s", name);
        *at = client;
    }
    if (client->waiting == 0)
        client->virtual_time = s->clock; /* idle time gives no credit */
    return client;
}

/* ---- Enqueue --------------------------------------------------------------------------------------------------- */

/* Retry-After in seconds: waiting work at the measured speed. */
static int retry_after(const server *s) {
    const double lines = (double)atomic_load(&s->counters.lines),
                 work = 1e-6 * (double)atomic_load(&s->counters.work_micros);
    const double seconds = lines > 0 ? (double)s->waiting * work / lines : 1;
    return seconds < 1 ? 1 : seconds > 60 ? 60 : (int)seconds;
}

static bool refuse(server *s, serve_job *job, int code, const char *why) {
    job->retry_after = retry_after(s);
    serve_job_fail(job, code, "%s: try again in %d s", why, job->retry_after);
    atomic_fetch_add(&s->counters.refused, 1);
    return false;
}

static bool admit(server *s, serve_job *job, const char *name) {
    const serve_limits *limits = &s->options->limits;
    if (s->draining)
        return refuse(s, job, MHD_HTTP_SERVICE_UNAVAILABLE, "The server is going down");
    if (s->waiting + job->count > (size_t)limits->queue)
        return refuse(s, job, MHD_HTTP_SERVICE_UNAVAILABLE, "The queue is full");
    job->client = client_named(s, name);
    if (!job->client) {
        serve_job_fail(job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
        return false;
    }
    if (job->client->waiting + job->count > (size_t)limits->client)
        return refuse(s, job, MHD_HTTP_TOO_MANY_REQUESTS, "Slowdown: too many of your lines wait already");
    return true;
}

bool serve_queue_add(server *s, serve_job *job, struct MHD_Connection *connection, const char *client) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_lock(&s->lock);
    const bool in = admit(s, job, client);
    if (in) {
        job->connection = connection;
        job->fd = info ? info->connect_fd : -1;
        job->number = ++s->numbers;
        job->virtual_time = job->client->clock;
        job->arrived = cli_seconds();
        job->client->waiting += job->count;
        s->waiting += job->count;
        *s->last = job;
        s->last = &job->next;
        MHD_suspend_connection(connection);
        job->suspended = true;
        pthread_cond_broadcast(&s->work); /* not every worker may have the model */
    }
    pthread_mutex_unlock(&s->lock);
    return in;
}

/* ---- Dequeue, under the lock ----------------------------------------------------------------------------------- */

static void remove_job(server *s, serve_job *job) {
    serve_job **at = &s->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
    s->last = &s->first;
    while (*s->last)
        s->last = &(*s->last)->next;
    job->next = NULL;
}

void serve_queue_stop_waiting(server *s, serve_job *job, size_t segments) {
    job->client->waiting -= segments;
    s->waiting -= segments;
}

void serve_queue_complete(server *s, serve_job *job, serve_worker *by) {
    serve_queue_stop_waiting(s, job, job->count - job->taken);
    job->taken = job->count;
    remove_job(s, job);
    if (by)
        by->completed++;
    job->state = SERVE_DONE;
    job->ended = cli_seconds();
    serve_histogram_observe(&s->counters.waits, (job->began > 0 ? job->began : job->ended) - job->arrived);
    if (!job->connection) {
        serve_job_free(job);
        return;
    }
    if (job->on_done)
        job->on_done(job);
    if (job->suspended) {
        job->suspended = false;
        MHD_resume_connection(job->connection);
    }
}

/* ---- The watch ------------------------------------------------------------------------------------------------- */

void serve_queue_expire(server *s) {
    const double now = cli_seconds();
    pthread_mutex_lock(&s->lock);
    for (serve_job *job = s->first, *next; job; job = next) {
        next = job->next;
        if (serve_peer_closed(job->fd))
            serve_job_stop(job, SERVE_CLIENT_CLOSED);
        if (now - job->arrived > s->options->limits.seconds && serve_job_stop(job, SERVE_TIMED_OUT)) {
            job->retry_after = retry_after(s);
            atomic_fetch_add(&s->counters.expired, 1);
        }
        if (job->in_work > 0 || !serve_job_stopped(job))
            continue;
        if (serve_job_stopped(job) == SERVE_CLIENT_CLOSED)
            atomic_fetch_add(&s->counters.dropped, 1);
        serve_job_fail_stopped(s, job);
        serve_queue_complete(s, job, NULL);
    }
    pthread_mutex_unlock(&s->lock);
}

void serve_queue_detach(server *s, serve_job *job) {
    pthread_mutex_lock(&s->lock);
    if (job->state == SERVE_DONE || job->number == 0) { /* done, or never queued */
        serve_job_free(job);
    } else {
        job->connection = NULL;
        job->fd = -1;
        job->suspended = false;
        serve_job_stop(job, SERVE_CLIENT_CLOSED);
        if (job->in_work == 0)
            serve_queue_complete(s, job, NULL);
    }
    pthread_mutex_unlock(&s->lock);
}

void serve_queue_set_workers(server *s, serve_model *model, int workers) {
    pthread_mutex_lock(&s->lock);
    model->workers = workers;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

size_t serve_queue_waiting(server *s) {
    pthread_mutex_lock(&s->lock);
    size_t jobs = 0;
    for (const serve_job *job = s->first; job; job = job->next)
        jobs++;
    pthread_mutex_unlock(&s->lock);
    return jobs;
}

bool serve_queue_is_full(server *s) {
    pthread_mutex_lock(&s->lock);
    const bool full = s->waiting >= (size_t)s->options->limits.queue;
    pthread_mutex_unlock(&s->lock);
    return full;
}

void serve_queue_count_lines(server *s, size_t *counts) {
    pthread_mutex_lock(&s->lock);
    for (const serve_job *job = s->first; job; job = job->next)
        for (size_t i = job->taken; i < job->count; i++)
            counts[(job->models ? job->models[job->segments[i].of] : job->key.model)->index]++;
    pthread_mutex_unlock(&s->lock);
}
