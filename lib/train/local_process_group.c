/* In-process ranks: a thread for each trainer in each call that they make together. */
#include "train/local_process_group.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "model/multi_device/fleet.h"

/* ---- Communication --------------------------------------------------------------------------------------------- */

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    const tfm__team_rank *s = user;
    struct tfm__team *team = s->team;
    if (team->cut)
        return false;
    team->sent[s->rank] = out;
    pthread_barrier_wait(&team->barrier);
    for (size_t i = 0; i < team->count; i++)
        memcpy((char *)in + i * bytes, (const char *)team->sent[i] + (size_t)s->rank * bytes, bytes);
    pthread_barrier_wait(&team->barrier); /* until then `out` stays as it is */
    return true;
}

static bool gather(void *user, void *all, const void *own, size_t bytes) {
    const tfm__team_rank *s = user;
    struct tfm__team *team = s->team;
    if (team->cut)
        return false;
    team->sent[s->rank] = own;
    pthread_barrier_wait(&team->barrier);
    for (size_t i = 0; i < team->count; i++)
        memcpy((char *)all + i * bytes, team->sent[i], bytes);
    pthread_barrier_wait(&team->barrier);
    return true;
}

void tfm__team_connect(tfm_ranks *ranks, struct tfm__team *team, size_t who) {
    team->ranks[who].team = team;
    team->ranks[who].rank = (int)who;
    *ranks = (tfm_ranks){(int)who, (int)team->count, exchange, gather, &team->ranks[who]};
}

/* ---- Calls that they make together ----------------------------------------------------------------------------- */

static void make_call(tfm__team_rank *s) {
    struct tfm__team *team = s->team;
    s->status = team->call(team->user, team->trainers[s->rank], (size_t)s->rank);
    if (s->status != TFM_OK)
        snprintf(s->message, sizeof(s->message), "%s", tfm_error_message());
}

static void *sit(void *user) {
    tfm__team_rank *s = user;
    pthread_mutex_lock(&s->team->begin);
    pthread_mutex_unlock(&s->team->begin);
    make_call(s);
    return NULL;
}

/* Of those that failed by themselves the first. Where others did not, it is told by its device. */
static tfm_status judge(const struct tfm__team *team) {
    const tfm__team_rank *first = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < team->count; i++) {
        const tfm__team_rank *s = &team->ranks[i];
        const bool own = s->status != TFM_OK && s->status != TFM_ERROR_CANCELLED;
        failed += own;
        if (own && failed == 1)
            first = s;
    }
    for (size_t i = 0; !first && i < team->count; i++)
        first = team->ranks[i].status != TFM_OK ? &team->ranks[i] : first;
    if (!first)
        return TFM_OK;
    if (failed == team->count)
        tfm__error_restore(first->message);
    else
        tfm__fail(first->status, "device %d of the %zu that train, %s: %s", first->rank + 1, team->count,
                  tfm_context_device(team->trainers[first->rank]->ctx)->name, first->message);
    return first->status;
}

tfm_status tfm__team_run(struct tfm__team *team, tfm_status (*call)(void *user, tfm_trainer *t, size_t who),
                         void *user) {
    sigset_t before;
    size_t started = 1;
    int error = 0;
    team->call = call;
    team->user = user;
    tfm__signals_block(&before);
    pthread_mutex_lock(&team->begin);
    for (size_t i = 1; i < team->count && !error; i++) {
        error = pthread_create(&team->ranks[i].thread, NULL, sit, &team->ranks[i]);
        started += error == 0;
    }
    team->cut = error != 0;
    pthread_mutex_unlock(&team->begin);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    make_call(&team->ranks[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(team->ranks[i].thread, NULL);
    if (error)
        return tfm__fail(TFM_ERROR_MEMORY, "no thread can be started for a device: %s", strerror(error));
    return judge(team);
}

/* ---- Life ------------------------------------------------------------------------------------------------------ */

tfm_trainer *tfm__team_member(tfm_trainer *t, size_t i) {
    return t->team ? t->team->trainers[i] : t;
}

size_t tfm__team_count(const tfm_trainer *t) {
    return t->team ? t->team->count : 1;
}

void tfm__team_free(struct tfm__team *team) {
    if (!team)
        return;
    pthread_barrier_destroy(&team->barrier);
    pthread_mutex_destroy(&team->begin);
    free(team->trainers);
    free(team->ranks);
    free(team->sent);
    free(team);
}

tfm_status tfm__team_new(struct tfm__team **out, size_t count) {
    struct tfm__team *team = tfm__alloc(1, sizeof(*team));
    *out = NULL;
    if (!team)
        return TFM_ERROR_MEMORY;
    team->count = count;
    team->trainers = tfm__alloc(count, sizeof(*team->trainers));
    team->ranks = tfm__alloc(count, sizeof(*team->ranks));
    team->sent = tfm__alloc(count, sizeof(*team->sent));
    pthread_mutex_init(&team->begin, NULL);
    pthread_barrier_init(&team->barrier, NULL, (unsigned)count);
    if (team->trainers && team->ranks && team->sent) {
        *out = team;
        return TFM_OK;
    }
    tfm__team_free(team);
    return TFM_ERROR_MEMORY;
}
