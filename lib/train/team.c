/* Training on all devices of a fleet: each has a trainer, which is a rank, and a thread in each call that they make
 * together. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "model/fleet.h"
#include "train/ranks.h"
#include "train/team.h"

typedef struct seat {
    struct tfm__team *team;
    int rank;
    pthread_t thread;
    tfm_status status; /* what its last call came to, */
    char message[TFM__MESSAGE];
} seat;

struct tfm__team {
    size_t count;
    tfm_trainer **trainers; /* [count]; the first is the caller's and owns this */
    struct tfm__mates *mates;
    seat *seats;       /* [count] */
    const void **sent; /* [count]: what each rank says at the moment */
    pthread_barrier_t barrier;
    pthread_mutex_t begin; /* held while threads are started: none is to wait for one that never comes */
    bool cut;              /* not all could be started: nobody hears anybody */
    tfm_status (*call)(void *user, tfm_trainer *t, size_t who);
    void *user;
};

/* ---- How they talk --------------------------------------------------------------------------------------------- */

static bool exchange(void *user, void *in, const void *out, size_t bytes) {
    const seat *s = user;
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
    const seat *s = user;
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

/* ---- Calls that they make together ----------------------------------------------------------------------------- */

static void make_call(seat *s) {
    struct tfm__team *team = s->team;
    s->status = team->call(team->user, team->trainers[s->rank], (size_t)s->rank);
    if (s->status != TFM_OK)
        snprintf(s->message, sizeof(s->message), "%s", tfm_error_message());
}

static void *sit(void *user) {
    seat *s = user;
    pthread_mutex_lock(&s->team->begin);
    pthread_mutex_unlock(&s->team->begin);
    make_call(s);
    return NULL;
}

/* Of those that failed by themselves the first. Where others did not, it is told by its device. */
static tfm_status judge(const struct tfm__team *team) {
    const seat *first = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < team->count; i++) {
        const seat *s = &team->seats[i];
        const bool own = s->status != TFM_OK && s->status != TFM_ERROR_CANCELLED;
        failed += own;
        if (own && failed == 1)
            first = s;
    }
    for (size_t i = 0; !first && i < team->count; i++)
        first = team->seats[i].status != TFM_OK ? &team->seats[i] : first;
    if (!first)
        return TFM_OK;
    if (failed == team->count)
        tfm__error_restore(first->message);
    else
        tfm__fail(first->status, "device %d of the %zu that train, %s: %s", first->rank + 1, team->count,
                  tfm_context_device(team->trainers[first->rank]->ctx)->name, first->message);
    return first->status;
}

/* Has each trainer make the call: the first on this thread, the others on threads of their own. */
static tfm_status together(struct tfm__team *team, tfm_status (*call)(void *user, tfm_trainer *t, size_t who),
                           void *user) {
    sigset_t before;
    size_t started = 1;
    int error = 0;
    team->call = call;
    team->user = user;
    tfm__signals_block(&before);
    pthread_mutex_lock(&team->begin);
    for (size_t i = 1; i < team->count && !error; i++) {
        error = pthread_create(&team->seats[i].thread, NULL, sit, &team->seats[i]);
        started += error == 0;
    }
    team->cut = error != 0;
    pthread_mutex_unlock(&team->begin);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    make_call(&team->seats[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(team->seats[i].thread, NULL);
    if (error)
        return tfm__fail(TFM_ERROR_MEMORY, "no thread can be started for a device: %s", strerror(error));
    return judge(team);
}

typedef struct updating {
    tfm_pairs *batches;         /* all, those of one rank after those of another */
    size_t *counts;             /* [count]: how many each has */
    tfm_update_report *reports; /* [count] */
} updating;

static tfm_status update_one(void *user, tfm_trainer *t, size_t who) {
    const updating *u = user;
    size_t at = 0;
    for (size_t i = 0; i < who; i++)
        at += u->counts[i];
    return tfm__update_share(t, &u->reports[who], u->batches + at, u->counts[who]);
}

/* Deals the batches: in turn, or in shares. */
static tfm_status deal(updating *u, const struct tfm__team *team, const tfm_pairs *batches, size_t count) {
    const size_t members = team->count;
    const double *shares = tfm_trainer_shares(team->trainers[0]);
    tfm_status status = TFM_OK;
    size_t at = 0;
    for (size_t who = 0; who < members && shares && status == TFM_OK; who++) {
        status = tfm_pairs_deal(u->batches + at, &u->counts[who], batches, count, shares, (int)members, (int)who);
        at += u->counts[who];
    }
    for (size_t who = 0; who < members && !shares; who++)
        for (size_t i = who; i < count; i += members) {
            u->batches[at++] = batches[i];
            u->counts[who]++;
        }
    return status;
}

tfm_status tfm__team_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count) {
    struct tfm__team *team = t->team;
    updating u = {.batches = tfm__alloc(count * team->count, sizeof(*u.batches)), /* each may have a part of each */
                  .counts = tfm__alloc(team->count, sizeof(*u.counts)),
                  .reports = tfm__alloc(team->count, sizeof(*u.reports))};
    tfm_status status = u.batches && u.counts && u.reports ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        const tfm__rules *rules = &t->model->rules; /* what tfm_model_set_target_language may have changed */
        for (size_t i = 1; i < team->count; i++) {
            team->trainers[i]->model->rules.start_id = rules->start_id;
            team->trainers[i]->model->rules.forced_bos_id = rules->forced_bos_id;
        }
        status = deal(&u, team, batches, count);
        if (status == TFM_OK)
            status = together(team, update_one, &u);
        if (report && u.reports[0].update > 0) /* it came to one */
            *report = u.reports[0];
    }
    free(u.batches);
    free(u.counts);
    free(u.reports);
    return status;
}

typedef struct saving {
    const tfm_data *data;
    const char *path;
} saving;

static tfm_status save_one(void *user, tfm_trainer *t, size_t who) {
    const saving *s = user;
    return tfm__save_share(t, who == 0 ? s->data : NULL, s->path);
}

tfm_status tfm__team_save(tfm_trainer *t, const tfm_data *data, const char *path) {
    return together(t->team, save_one, &(saving){data, path});
}

/* ---- Life ------------------------------------------------------------------------------------------------------ */

tfm_trainer *tfm__team_member(tfm_trainer *t, size_t i) {
    return t->team ? t->team->trainers[i] : t;
}

size_t tfm__team_count(const tfm_trainer *t) {
    return t->team ? t->team->count : 1;
}

/* Whether two devices surely make the same step of the same numbers, to the bit. */
static bool alike(const tfm_context *a, const tfm_context *b) {
    const tfm_device_info *one = tfm_context_device(a), *other = tfm_context_device(b);
    return strcmp(one->platform, other->platform) == 0 && strcmp(one->driver, other->driver) == 0 &&
           strcmp(one->vendor, other->vendor) == 0 && strcmp(tfm_context_variant(a), tfm_context_variant(b)) == 0;
}

static void free_team(struct tfm__team *team) {
    if (!team)
        return;
    for (size_t i = 1; team->trainers && i < team->count; i++)
        tfm_trainer_free(&team->trainers[i]);
    pthread_barrier_destroy(&team->barrier);
    pthread_mutex_destroy(&team->begin);
    free(team->trainers);
    free(team->seats);
    free(team->sent);
    free(team);
}

static tfm_status new_team(struct tfm__team **out, size_t count) {
    struct tfm__team *team = tfm__alloc(1, sizeof(*team));
    *out = NULL;
    if (!team)
        return TFM_ERROR_MEMORY;
    team->count = count;
    team->trainers = tfm__alloc(count, sizeof(*team->trainers));
    team->seats = tfm__alloc(count, sizeof(*team->seats));
    team->sent = tfm__alloc(count, sizeof(*team->sent));
    pthread_mutex_init(&team->begin, NULL);
    pthread_barrier_init(&team->barrier, NULL, (unsigned)count);
    if (team->trainers && team->seats && team->sent) {
        *out = team;
        return TFM_OK;
    }
    free_team(team);
    return TFM_ERROR_MEMORY;
}

/* The models that train, the caller's first; then whether they are all alike. */
static bool order_models(tfm_model **models, const struct tfm__mates *mates) {
    size_t count = 0;
    bool same = true;
    models[count++] = mates->models[mates->lead];
    for (size_t i = 0; i < mates->fleet->count; i++)
        if (i != mates->lead && tfm__mates_has(mates, i))
            models[count++] = mates->models[i];
    for (size_t i = 1; i < count; i++)
        same = same && alike(models[0]->ctx, models[i]->ctx);
    return same;
}

static tfm_status make_trainers(struct tfm__team *team, tfm_model *const *models, tfm_trainer_options options) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < team->count && status == TFM_OK; i++) {
        const tfm_ranks ranks = {(int)i, (int)team->count, exchange, gather, &team->seats[i]};
        team->seats[i].team = team;
        team->seats[i].rank = (int)i;
        options.ranks = &ranks;
        status = tfm__trainer_make(&team->trainers[i], models[i], &options);
        if (status == TFM_OK)
            team->trainers[i]->follows = i > 0;
    }
    return status;
}

tfm_status tfm__team_new(tfm_trainer **first, tfm_model *model, const tfm_trainer_options *options) {
    struct tfm__mates *mates = model->mates;
    struct tfm__team *team = NULL;
    *first = NULL;
    if (options->ranks)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: the model lies on several devices, which share updates by "
                                             "themselves: a rank has one device");
    if (!tfm__mates_has(mates, mates->lead))
        return tfm__fail(TFM_ERROR_DEVICE, "trainer_new: the first device of the model has failed: %s",
                         mates->fleet->members[mates->lead].reason);
    tfm_model **models = tfm__alloc(mates->fleet->count, sizeof(tfm_model *));
    tfm_status status = models ? new_team(&team, tfm__mates_count(mates)) : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        tfm_trainer_options o = *options;
        o.shard = !order_models(models, mates) || o.shard; /* a step is made on one device, for all */
        status = make_trainers(team, models, o);
    }
    free(models);
    if (status == TFM_OK) {
        *first = team->trainers[0];
        (*first)->team = team;
        team->mates = mates;
        model->mates = NULL;
        return TFM_OK;
    }
    char kept[TFM__MESSAGE];
    tfm__error_keep(kept);
    if (team)
        tfm_trainer_free(&team->trainers[0]);
    free_team(team);
    tfm__error_restore(kept);
    return status;
}

void tfm__team_free(tfm_trainer *first) {
    if (!first->team)
        return;
    first->model->mates = first->team->mates;
    free_team(first->team);
    first->team = NULL;
}
