/* In-process ranks: each trainer has a thread in each collective call. */
#include "train/local_process_group.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "model/multi_device/fleet.h"

/* ---- Communication --------------------------------------------------------------------------------------------- */

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    const tfm__local_rank *s = user;
    struct tfm__local_group *group = s->local_group;
    if (group->broken)
        return false;
    group->send_buffers[s->rank] = out;
    pthread_barrier_wait(&group->barrier);
    for (size_t i = 0; i < group->count; i++)
        memcpy((char *)in + i * bytes, (const char *)group->send_buffers[i] + (size_t)s->rank * bytes, bytes);
    pthread_barrier_wait(&group->barrier); /* until then `out` stays valid */
    return true;
}

static bool gather(void *user, void *all, const void *own, size_t bytes) {
    const tfm__local_rank *s = user;
    struct tfm__local_group *group = s->local_group;
    if (group->broken)
        return false;
    group->send_buffers[s->rank] = own;
    pthread_barrier_wait(&group->barrier);
    for (size_t i = 0; i < group->count; i++)
        memcpy((char *)all + i * bytes, group->send_buffers[i], bytes);
    pthread_barrier_wait(&group->barrier);
    return true;
}

void tfm__local_group_connect(tfm_process_group *ranks, struct tfm__local_group *group, size_t rank) {
    group->ranks[rank].local_group = group;
    group->ranks[rank].rank = (int)rank;
    *ranks = (tfm_process_group){(int)rank, (int)group->count, exchange, gather, &group->ranks[rank]};
}

/* ---- Collective calls ------------------------------------------------------------------------------------------ */

static void run_call(tfm__local_rank *s) {
    struct tfm__local_group *group = s->local_group;
    s->status = group->call(group->user, group->trainers[s->rank], (size_t)s->rank);
    if (s->status != TFM_OK)
        snprintf(s->message, sizeof(s->message), "%s", tfm_error_message());
}

static void *rank_thread(void *user) {
    tfm__local_rank *s = user;
    pthread_mutex_lock(&s->local_group->start_lock);
    pthread_mutex_unlock(&s->local_group->start_lock);
    run_call(s);
    return NULL;
}

/* The first independent error (not CANCELLED). If only some devices failed, the message names the device. */
static tfm_status first_error(const struct tfm__local_group *group) {
    const tfm__local_rank *first = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < group->count; i++) {
        const tfm__local_rank *s = &group->ranks[i];
        const bool own = s->status != TFM_OK && s->status != TFM_ERROR_CANCELLED;
        failed += own;
        if (own && failed == 1)
            first = s;
    }
    for (size_t i = 0; !first && i < group->count; i++)
        first = group->ranks[i].status != TFM_OK ? &group->ranks[i] : first;
    if (!first)
        return TFM_OK;
    if (failed == group->count)
        tfm__error_restore(first->message);
    else
        tfm__fail(first->status, "device %d of %zu in training, %s: %s", first->rank + 1, group->count,
                  tfm_context_device(group->trainers[first->rank]->ctx)->name, first->message);
    return first->status;
}

tfm_status tfm__local_group_run(struct tfm__local_group *group,
                                tfm_status (*call)(void *user, tfm_trainer *t, size_t rank), void *user) {
    sigset_t before;
    size_t started = 1;
    int error = 0;
    group->call = call;
    group->user = user;
    tfm__signals_block(&before);
    pthread_mutex_lock(&group->start_lock);
    for (size_t i = 1; i < group->count && !error; i++) {
        error = pthread_create(&group->ranks[i].thread, NULL, rank_thread, &group->ranks[i]);
        started += error == 0;
    }
    group->broken = error != 0;
    pthread_mutex_unlock(&group->start_lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    run_call(&group->ranks[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(group->ranks[i].thread, NULL);
    if (error)
        return tfm__fail(TFM_ERROR_MEMORY, "no thread can be started for a device: %s", strerror(error));
    return first_error(group);
}

/* ---- Creation and release -------------------------------------------------------------------------------------- */

tfm_trainer *tfm__trainer_replica(tfm_trainer *t, size_t i) {
    return t->local_group ? t->local_group->trainers[i] : t;
}

size_t tfm__trainer_replica_count(const tfm_trainer *t) {
    return t->local_group ? t->local_group->count : 1;
}

void tfm__local_group_free(struct tfm__local_group *group) {
    if (!group)
        return;
    pthread_barrier_destroy(&group->barrier);
    pthread_mutex_destroy(&group->start_lock);
    free(group->trainers);
    free(group->ranks);
    free(group->send_buffers);
    free(group);
}

tfm_status tfm__local_group_new(struct tfm__local_group **out, size_t count) {
    struct tfm__local_group *group = tfm__alloc(1, sizeof(*group));
    *out = NULL;
    if (!group)
        return TFM_ERROR_MEMORY;
    group->count = count;
    group->trainers = tfm__alloc(count, sizeof(*group->trainers));
    group->ranks = tfm__alloc(count, sizeof(*group->ranks));
    group->send_buffers = tfm__alloc(count, sizeof(*group->send_buffers));
    pthread_mutex_init(&group->start_lock, NULL);
    pthread_barrier_init(&group->barrier, NULL, (unsigned)count);
    if (group->trainers && group->ranks && group->send_buffers) {
        *out = group;
        return TFM_OK;
    }
    tfm__local_group_free(group);
    return TFM_ERROR_MEMORY;
}
