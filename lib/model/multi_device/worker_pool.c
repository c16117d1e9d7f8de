/* Runs a call on all devices of a fleet: one thread per device takes lines (chunk_scheduler.c) and processes them; only
 * the calling thread calls back. One lock protects all shared state except results: each line's result is written by
 * one thread only. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "dev/pocl/cpu_partition.h"
#include "model/multi_device/fleet.h"

/* Interval of should_continue calls in seconds. */
#define POLL_INTERVAL 0.01

/* Lines with results. */
typedef struct ready {
    tfm__line *const *batch;
    size_t n;
} ready;

typedef struct worker_pool {
    struct tfm__replicas *replicas;
    const tfm__batch_work *work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tfm__chunk_scheduler scheduler;
    ready *ready; /* [lines]: in the order of completion */
    size_t ready_count, delivered;
    bool ended;        /* no new work */
    bool muted;        /* no further callbacks */
    double poll_at;    /* time of the next should_continue call */
    tfm_status status; /* reason */
    char message[TFM__MESSAGE_MAX];
} worker_pool;

typedef struct worker {
    worker_pool *pool;
    size_t member;
    pthread_t thread;
    bool started; /* a thread was started */
    ready first;  /* its first chunk; n is 0 for none */
} worker;

/* ---- Device threads -------------------------------------------------------------------------------------------- */

static void end(worker_pool *c, tfm_status status, const char *message) {
    if (!c->ended) {
        c->status = status;
        snprintf(c->message, sizeof(c->message), "%s", message);
    }
    c->ended = true;
}

/* Waits for lines; meanwhile others may use its CPU cores. False: no more lines for this device. */
static bool next(worker_pool *c, size_t member, tfm__line *const **batch, size_t *n) {
    while (!c->ended && !c->scheduler.excluded[member] && !tfm__chunk_scheduler_finished(&c->scheduler)) {
        if (tfm__chunk_scheduler_next(&c->scheduler, member, tfm__seconds(), batch, n))
            return true;
        tfm__cpu_partition_share(c->replicas->models[member]->ctx, false);
        pthread_cond_wait(&c->changed, &c->lock);
    }
    return false;
}

static void succeed(worker_pool *c, size_t member, tfm__line *const *batch, size_t n, double seconds) {
    tfm_fleet_member *m = &c->replicas->fleet->members[member];
    tfm__chunk_scheduler_complete(&c->scheduler, member, seconds);
    m->lines += n;
    m->seconds += seconds;
    tfm__fleet_reset_backoff(c->replicas->fleet, member);
    c->ready[c->ready_count++] = (ready){batch, n};
}

/* Excludes the device, and returns its lines to the others; if it is the last one, the call fails. True: log it after
 * unlocking, since a log callback may be slow. */
static bool fail(worker_pool *c, size_t member, tfm_status status) {
    bool last = true;
    for (size_t i = 0; i < c->scheduler.members; i++)
        last = last && (i == member || c->scheduler.excluded[i]);
    const bool dropped = tfm__fleet_may_drop(status) && !last;
    if (!c->ended && !dropped)
        end(c, status, tfm_error_message());
    if (dropped)
        tfm__fleet_drop_from_call(c->replicas->fleet, member, status);
    tfm__chunk_scheduler_drop(&c->scheduler, member);
    return dropped;
}

static void *worker_main(void *user) {
    worker *s = user;
    worker_pool *c = s->pool;
    tfm_model *on = c->replicas->models[s->member];
    tfm__line *const *batch = s->first.batch;
    size_t n = s->first.n;
    const bool shares = tfm_model_workers(on) > 1;
    pthread_mutex_lock(&c->lock);
    for (bool some = n > 0 && !c->ended; some || next(c, s->member, &batch, &n); some = false) {
        pthread_mutex_unlock(&c->lock);
        tfm__cpu_partition_share(on->ctx, shares);
        const double start = tfm__seconds(), built = tfm_context_build_seconds(on->ctx);
        const tfm_status status = tfm__batch_run_split(on, batch, n, c->work);
        const double seconds = tfm__seconds() - start - (tfm_context_build_seconds(on->ctx) - built);
        pthread_mutex_lock(&c->lock);
        bool dropped = false;
        if (status == TFM_OK)
            succeed(c, s->member, batch, n, seconds);
        else
            dropped = fail(c, s->member, status);
        pthread_cond_broadcast(&c->changed);
        if (dropped) {
            pthread_mutex_unlock(&c->lock);
            tfm__fleet_log_dropped(c->replicas->fleet, s->member);
            tfm__cpu_partition_share(on->ctx, false);
            return NULL;
        }
    }
    pthread_mutex_unlock(&c->lock);
    tfm__cpu_partition_share(on->ctx, false);
    return NULL;
}

/* ---- Calling thread -------------------------------------------------------------------------------------------- */

void tfm__signals_block(sigset_t *before) {
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t most;
    sigfillset(&most);
    for (size_t i = 0; i < TFM__COUNT(FAULTS); i++)
        sigdelset(&most, FAULTS[i]);
    pthread_sigmask(SIG_SETMASK, &most, before);
}

/* Starts a thread per available device. The first chunks are assigned before any thread runs: they wait for the
 * lock. */
static tfm_status start(worker_pool *c, worker *workers) {
    sigset_t before;
    size_t started = 0;
    int error = 0;
    tfm__signals_block(&before);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->scheduler.members; i++)
        c->scheduler.excluded[i] = !tfm__replicas_has(c->replicas, i);
    for (size_t i = 0; i < c->scheduler.members; i++) {
        workers[i] = (worker){.pool = c, .member = i, .started = !c->scheduler.excluded[i]};
        if (!tfm__chunk_scheduler_next(&c->scheduler, i, tfm__seconds(), &workers[i].first.batch, &workers[i].first.n))
            workers[i].first.n = 0;
    }
    for (size_t i = 0; i < c->scheduler.members; i++) {
        if (!workers[i].started)
            continue;
        error = pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]);
        workers[i].started = error == 0;
        started += workers[i].started;
        if (error)
            tfm__chunk_scheduler_drop(&c->scheduler, i);
    }
    pthread_mutex_unlock(&c->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started > 0 ? TFM_OK
                       : tfm__fail(TFM_ERROR_MEMORY, "no thread can be started for a device: %s", strerror(error));
}

/* Calls back with finished lines, without the lock. */
static void deliver_ready(worker_pool *c, const tfm_text_options *options, uint64_t *done, uint64_t total) {
    tfm_status status = TFM_OK;
    while (status == TFM_OK && !c->muted && c->delivered < c->ready_count) {
        const ready r = c->ready[c->delivered++];
        pthread_mutex_unlock(&c->lock);
        if (c->work->done)
            status = c->work->done(c->work->user, r.batch, r.n);
        *done += tfm__batch_tokens(r.batch, r.n);
        if (status == TFM_OK)
            status = tfm__batches_report(options, *done, total);
        pthread_mutex_lock(&c->lock);
    }
    if (status != TFM_OK) {
        c->muted = true;
        end(c, status, tfm_error_message());
    }
}

/* Calls should_continue. */
static void poll_caller(worker_pool *c) {
    const tfm__cancellation *cancellation = c->work->cancellation;
    pthread_mutex_unlock(&c->lock);
    const bool should_continue = cancellation->should_continue(cancellation->user);
    pthread_mutex_lock(&c->lock);
    if (!should_continue) {
        tfm__fail(TFM_ERROR_CANCELLED, "the call was stopped by its should_continue");
        end(c, TFM_ERROR_CANCELLED, tfm_error_message());
        c->muted = true;
    }
}

/* Waits for a change, or until `at`. */
static void wait_until(worker_pool *c, double at) {
    const double seconds = at - tfm__seconds();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const double fine = (double)until.tv_nsec + 1e9 * (seconds > 0 ? seconds : 0) + 1;
    until.tv_sec += (time_t)(fine / 1e9);
    until.tv_nsec = (long)fmod(fine, 1e9);
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

static void wait_for_change(worker_pool *c) {
    if (!c->work->cancellation || !c->work->cancellation->should_continue) {
        pthread_cond_wait(&c->changed, &c->lock);
        return;
    }
    const double now = tfm__seconds();
    if (now < c->poll_at) {
        wait_until(c, c->poll_at);
        return;
    }
    poll_caller(c);
    c->poll_at = now + POLL_INTERVAL;
}

/* Runs until all lines are finished, or the call has failed. */
static void run_callbacks(worker_pool *c, const tfm_text_options *options, uint64_t *done, uint64_t total) {
    pthread_mutex_lock(&c->lock);
    while (!c->ended) {
        deliver_ready(c, options, done, total);
        if (c->ended || (c->delivered == c->ready_count && tfm__chunk_scheduler_finished(&c->scheduler)))
            break;
        if (c->delivered == c->ready_count)
            wait_for_change(c);
    }
    c->ended = true;
    if (c->work->cancellation)
        atomic_store(&c->work->cancellation->cancelled, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static tfm_status run(worker_pool *c, worker *workers, tfm__line **order, size_t count,
                      const tfm_text_options *options) {
    const uint64_t total = tfm__batch_tokens(order, count);
    uint64_t done = 0;
    tfm_status status = tfm__batches_report(options, 0, total);
    if (status == TFM_OK)
        status = start(c, workers);
    if (status != TFM_OK)
        return status;
    run_callbacks(c, options, &done, total);
    for (size_t i = 0; i < c->scheduler.members; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    pthread_mutex_lock(&c->lock);
    deliver_ready(c, options, &done, total); /* results of the others at the time the last device failed */
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < c->scheduler.members; i++)
        tfm__log(TFM_LOG_INFO, "device %zu of the fleet has done %llu lines so far, in %.3f s", i + 1,
                 (unsigned long long)c->replicas->fleet->members[i].lines, c->replicas->fleet->members[i].seconds);
    if (c->status != TFM_OK)
        tfm__error_restore(c->message);
    return c->status;
}

/* Whether all available contexts are on one device and run the same kernels. */
static bool on_same_device(const struct tfm__replicas *replicas) {
    const tfm_context *first = NULL;
    for (size_t i = 0; i < replicas->fleet->count; i++) {
        if (!tfm__replicas_has(replicas, i))
            continue;
        const tfm_context *ctx = replicas->fleet->members[i].context;
        const int index = tfm_context_device(ctx)->index;
        first = first ? first : ctx;
        if (index < 0 ||
            index != tfm_context_device(first)->index || /* contexts of a caller's own device are not comparable */
            strcmp(tfm_context_variant(ctx), tfm_context_variant(first)) != 0)
            return false;
    }
    return true;
}

tfm_status tfm__worker_pool_run(tfm_model *model, tfm__line **order, size_t count, tfm__batch_limit limit,
                                const tfm_text_options *options, const tfm__batch_work *work) {
    struct tfm__replicas *replicas = model->replicas;
    const size_t members = replicas->fleet->count;
    worker_pool *c = tfm__alloc(1, sizeof(*c));
    worker *workers = tfm__alloc(members, sizeof(*workers));
    tfm_status status = c && workers ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        c->replicas = replicas;
        c->work = work;
        pthread_condattr_t steady; /* monotonic clock */
        pthread_condattr_init(&steady);
        pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->changed, &steady);
        pthread_condattr_destroy(&steady);
        c->ready = tfm__alloc(count, sizeof(*c->ready));
        status = tfm__chunk_scheduler_begin(&c->scheduler, order, count, limit, replicas->throughputs[work->kind],
                                            members, on_same_device(replicas));
        if (status == TFM_OK && c->ready)
            status = run(c, workers, order, count, options);
        else
            status = TFM_ERROR_MEMORY;
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->lock);
        tfm__chunk_scheduler_free(&c->scheduler);
        free(c->ready);
    }
    free(workers);
    free(c);
    return status;
}
