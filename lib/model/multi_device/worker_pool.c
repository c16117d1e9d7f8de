/* One call on all devices of a fleet: a thread for each device, which takes lines (chunk_scheduler.c) and works on
 * them, and the thread that made the call, which alone calls back. Everything that two of them see is under one lock,
 * but for the results: each line's lie in a place of their own, which the thread that works on it has for itself. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "dev/pocl/cpu_partition.h"
#include "model/multi_device/fleet.h"

/* How often the caller is asked whether to go on, in seconds. */
#define ASK_EVERY 0.01

/* Lines whose results are there. */
typedef struct ready {
    tfm__line *const *batch;
    size_t n;
} ready;

typedef struct crew {
    struct tfm__mates *mates;
    const tfm__batch_work *work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tfm__deal deal;
    ready *ready; /* [lines]: in the order in which they came to be */
    size_t ready_count, told;
    bool ended;        /* nothing more is to be begun */
    bool deaf;         /* the caller is to hear of nothing more */
    double ask_at;     /* when the caller is asked next */
    tfm_status status; /* why */
    char message[TFM__MESSAGE_MAX];
} crew;

typedef struct seat {
    crew *crew;
    size_t who;
    pthread_t thread;
    bool taken;  /* there is a thread */
    ready first; /* the piece that it begins with; n is 0 for none */
} seat;

/* ---- On the threads of the devices ----------------------------------------------------------------------------- */

static void end(crew *c, tfm_status status, const char *message) {
    if (!c->ended) {
        c->status = status;
        snprintf(c->message, sizeof(c->message), "%s", message);
    }
    c->ended = true;
}

/* Waits for lines, while others that share a CPU with it may have its cores. False: there will be none for this
 * device. */
static bool next(crew *c, size_t who, tfm__line *const **batch, size_t *n) {
    while (!c->ended && !c->deal.out[who] && !tfm__deal_over(&c->deal)) {
        if (tfm__deal_take(&c->deal, who, tfm__seconds(), batch, n))
            return true;
        tfm__cpu_partition_share(c->mates->models[who]->ctx, false);
        pthread_cond_wait(&c->changed, &c->lock);
    }
    return false;
}

static void succeed(crew *c, size_t who, tfm__line *const *batch, size_t n, double seconds) {
    tfm_fleet_member *m = &c->mates->fleet->members[who];
    tfm__deal_done(&c->deal, who, seconds);
    m->lines += n;
    m->seconds += seconds;
    tfm__fleet_worked(c->mates->fleet, who);
    c->ready[c->ready_count++] = (ready){batch, n};
}

/* The device is left out, and what it worked on goes to the others; or it is the last, and the call fails. True: it is
 * to be said, once there is no lock, as who hears it may take his time. */
static bool fail(crew *c, size_t who, tfm_status status) {
    bool last = true;
    for (size_t i = 0; i < c->deal.members; i++)
        last = last && (i == who || c->deal.out[i]);
    const bool dropped = tfm__fleet_may_drop(status) && !last;
    if (!c->ended && !dropped)
        end(c, status, tfm_error_message());
    if (dropped)
        tfm__fleet_drop_from_call(c->mates->fleet, who, status);
    tfm__deal_drop(&c->deal, who);
    return dropped;
}

static void *sit(void *user) {
    seat *s = user;
    crew *c = s->crew;
    tfm_model *on = c->mates->models[s->who];
    tfm__line *const *batch = s->first.batch;
    size_t n = s->first.n;
    const bool shares = tfm_model_workers(on) > 1;
    pthread_mutex_lock(&c->lock);
    for (bool some = n > 0 && !c->ended; some || next(c, s->who, &batch, &n); some = false) {
        pthread_mutex_unlock(&c->lock);
        tfm__cpu_partition_share(on->ctx, shares);
        const double start = tfm__seconds(), built = tfm_context_build_seconds(on->ctx);
        const tfm_status status = tfm__batch_fit(on, batch, n, c->work);
        const double seconds = tfm__seconds() - start - (tfm_context_build_seconds(on->ctx) - built);
        pthread_mutex_lock(&c->lock);
        bool dropped = false;
        if (status == TFM_OK)
            succeed(c, s->who, batch, n, seconds);
        else
            dropped = fail(c, s->who, status);
        pthread_cond_broadcast(&c->changed);
        if (dropped) {
            pthread_mutex_unlock(&c->lock);
            tfm__fleet_say_dropped(c->mates->fleet, s->who);
            tfm__cpu_partition_share(on->ctx, false);
            return NULL;
        }
    }
    pthread_mutex_unlock(&c->lock);
    tfm__cpu_partition_share(on->ctx, false);
    return NULL;
}

/* ---- On the caller's thread ------------------------------------------------------------------------------------ */

void tfm__signals_block(sigset_t *before) {
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    sigset_t most;
    sigfillset(&most);
    for (size_t i = 0; i < TFM__COUNT(FAULTS); i++)
        sigdelset(&most, FAULTS[i]);
    pthread_sigmask(SIG_SETMASK, &most, before);
}

/* Starts a thread for each device that has not failed, whose first pieces are dealt before any begins: they wait for
 * the lock. */
static tfm_status start(crew *c, seat *seats) {
    sigset_t before;
    size_t started = 0;
    int error = 0;
    tfm__signals_block(&before);
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->deal.members; i++)
        c->deal.out[i] = !tfm__mates_has(c->mates, i);
    for (size_t i = 0; i < c->deal.members; i++) {
        seats[i] = (seat){.crew = c, .who = i, .taken = !c->deal.out[i]};
        if (!tfm__deal_take(&c->deal, i, tfm__seconds(), &seats[i].first.batch, &seats[i].first.n))
            seats[i].first.n = 0;
    }
    for (size_t i = 0; i < c->deal.members; i++) {
        if (!seats[i].taken)
            continue;
        error = pthread_create(&seats[i].thread, NULL, sit, &seats[i]);
        seats[i].taken = error == 0;
        started += seats[i].taken;
        if (error)
            tfm__deal_drop(&c->deal, i);
    }
    pthread_mutex_unlock(&c->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started > 0 ? TFM_OK
                       : tfm__fail(TFM_ERROR_MEMORY, "no thread can be started for a device: %s", strerror(error));
}

/* Calls back for what is ready, without the lock. */
static void tell_ready(crew *c, const tfm_text_options *options, uint64_t *done, uint64_t total) {
    tfm_status status = TFM_OK;
    while (status == TFM_OK && !c->deaf && c->told < c->ready_count) {
        const ready r = c->ready[c->told++];
        pthread_mutex_unlock(&c->lock);
        if (c->work->done)
            status = c->work->done(c->work->user, r.batch, r.n);
        *done += tfm__batch_tokens(r.batch, r.n);
        if (status == TFM_OK)
            status = tfm__batches_tell(options, *done, total);
        pthread_mutex_lock(&c->lock);
    }
    if (status != TFM_OK) {
        c->deaf = true;
        end(c, status, tfm_error_message());
    }
}

/* Asks the caller whether to go on. */
static void ask(crew *c) {
    const tfm__halt *halt = c->work->halt;
    pthread_mutex_unlock(&c->lock);
    const bool go_on = halt->go_on(halt->user);
    pthread_mutex_lock(&c->lock);
    if (!go_on) {
        tfm__fail(TFM_ERROR_CANCELLED, "the call was stopped by its go_on");
        end(c, TFM_ERROR_CANCELLED, tfm_error_message());
        c->deaf = true;
    }
}

/* Waits until something has changed, or it is this time. */
static void wait_until(crew *c, double at) {
    const double seconds = at - tfm__seconds();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const double fine = (double)until.tv_nsec + 1e9 * (seconds > 0 ? seconds : 0) + 1;
    until.tv_sec += (time_t)(fine / 1e9);
    until.tv_nsec = (long)fmod(fine, 1e9);
    pthread_cond_timedwait(&c->changed, &c->lock, &until);
}

static void wait_some(crew *c) {
    if (!c->work->halt || !c->work->halt->go_on) {
        pthread_cond_wait(&c->changed, &c->lock);
        return;
    }
    const double now = tfm__seconds();
    if (now < c->ask_at) {
        wait_until(c, c->ask_at);
        return;
    }
    ask(c);
    c->ask_at = now + ASK_EVERY;
}

/* Until all is done, or the call has failed. */
static void attend(crew *c, const tfm_text_options *options, uint64_t *done, uint64_t total) {
    pthread_mutex_lock(&c->lock);
    while (!c->ended) {
        tell_ready(c, options, done, total);
        if (c->ended || (c->told == c->ready_count && tfm__deal_over(&c->deal)))
            break;
        if (c->told == c->ready_count)
            wait_some(c);
    }
    c->ended = true;
    if (c->work->halt)
        atomic_store(&c->work->halt->halted, true);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static tfm_status run(crew *c, seat *seats, tfm__line **order, size_t count, const tfm_text_options *options) {
    const uint64_t total = tfm__batch_tokens(order, count);
    uint64_t done = 0;
    tfm_status status = tfm__batches_tell(options, 0, total);
    if (status == TFM_OK)
        status = start(c, seats);
    if (status != TFM_OK)
        return status;
    attend(c, options, &done, total);
    for (size_t i = 0; i < c->deal.members; i++)
        if (seats[i].taken)
            pthread_join(seats[i].thread, NULL);
    pthread_mutex_lock(&c->lock);
    tell_ready(c, options, &done, total); /* what others were at when the last device failed */
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < c->deal.members; i++)
        tfm__log(TFM_LOG_INFO, "device %zu of the fleet has done %llu lines so far, in %.3f s", i + 1,
                 (unsigned long long)c->mates->fleet->members[i].lines, c->mates->fleet->members[i].seconds);
    if (c->status != TFM_OK)
        tfm__error_restore(c->message);
    return c->status;
}

/* Whether all contexts that are left are on one device, and run the same kernels there. */
static bool alike(const struct tfm__mates *mates) {
    const tfm_context *first = NULL;
    for (size_t i = 0; i < mates->fleet->count; i++) {
        if (!tfm__mates_has(mates, i))
            continue;
        const tfm_context *ctx = mates->fleet->members[i].context;
        const int index = tfm_context_device(ctx)->index;
        first = first ? first : ctx;
        if (index < 0 || index != tfm_context_device(first)->index || /* a device of the caller's may be anything */
            strcmp(tfm_context_variant(ctx), tfm_context_variant(first)) != 0)
            return false;
    }
    return true;
}

tfm_status tfm__crew_run(tfm_model *model, tfm__line **order, size_t count, tfm__batch_limit limit,
                         const tfm_text_options *options, const tfm__batch_work *work) {
    struct tfm__mates *mates = model->mates;
    const size_t members = mates->fleet->count;
    crew *c = tfm__alloc(1, sizeof(*c));
    seat *seats = tfm__alloc(members, sizeof(*seats));
    tfm_status status = c && seats ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        c->mates = mates;
        c->work = work;
        pthread_condattr_t steady; /* a clock that nobody sets */
        pthread_condattr_init(&steady);
        pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->changed, &steady);
        pthread_condattr_destroy(&steady);
        c->ready = tfm__alloc(count, sizeof(*c->ready));
        status = tfm__deal_begin(&c->deal, order, count, limit, mates->paces[work->kind], members, alike(mates));
        if (status == TFM_OK && c->ready)
            status = run(c, seats, order, count, options);
        else
            status = TFM_ERROR_MEMORY;
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->lock);
        tfm__deal_free(&c->deal);
        free(c->ready);
    }
    free(seats);
    free(c);
    return status;
}
