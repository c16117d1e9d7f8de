/* Data-parallel training on a fleet: a trainer per device, which form an in-process group (local_process_group.c). The
 * public calls of a trainer on one or several devices begin here: new, update, save, free. */
#include <string.h>
#include "model/multi_device/fleet.h"
#include "model/tasks/batch.h"
#include "train/process_group.h"
#include "train/local_process_group.h"

/* ---- Updates --------------------------------------------------------------------------------------------------- */

typedef struct update_job {
    tfm_batch *batches;         /* all, grouped by rank */
    size_t *counts;             /* [count]: batches per rank */
    tfm_update_report *reports; /* [count] */
} update_job;

static tfm_status update_rank(void *user, tfm_trainer *t, size_t rank) {
    const update_job *u = user;
    size_t at = 0;
    for (size_t i = 0; i < rank; i++)
        at += u->counts[i];
    return tfm__trainer_update_rank(t, &u->reports[rank], u->batches + at, u->counts[rank]);
}

/* Splits the batches: round-robin, or by the shares. */
static tfm_status split_batches(update_job *u, const struct tfm__local_group *group, const tfm_batch *batches,
                                size_t count) {
    const size_t members = group->count;
    const double *shares = tfm_trainer_balance(group->trainers[0]);
    tfm_status status = TFM_OK;
    size_t at = 0;
    for (size_t rank = 0; rank < members && shares && status == TFM_OK; rank++) {
        status = tfm_batches_split(u->batches + at, &u->counts[rank], batches, count, shares, (int)members, (int)rank);
        at += u->counts[rank];
    }
    for (size_t rank = 0; rank < members && !shares; rank++)
        for (size_t i = rank; i < count; i += members) {
            u->batches[at++] = batches[i];
            u->counts[rank]++;
        }
    return status;
}

static tfm_status update_local_group(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches,
                                     size_t count) {
    struct tfm__local_group *group = t->local_group;
    update_job u = {.batches = tfm__alloc(count * group->count, sizeof(*u.batches)), /* parts of each, per rank */
                    .counts = tfm__alloc(group->count, sizeof(*u.counts)),
                    .reports = tfm__alloc(group->count, sizeof(*u.reports))};
    tfm_status status = u.batches && u.counts && u.reports ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        const tfm__generation_rules *rules = &t->model->rules; /* tfm_model_set_target_language may have changed them */
        for (size_t i = 1; i < group->count; i++) {
            group->trainers[i]->model->rules.start_id = rules->start_id;
            group->trainers[i]->model->rules.forced_bos_id = rules->forced_bos_id;
        }
        status = split_batches(&u, group, batches, count);
        if (status == TFM_OK)
            status = tfm__local_group_run(group, update_rank, &u);
        if (report && u.reports[0].update > 0) /* an update was made */
            *report = u.reports[0];
    }
    free(u.batches);
    free(u.counts);
    free(u.reports);
    return status;
}

tfm_status tfm_trainer_update(tfm_trainer *t, tfm_update_report *report, const tfm_batch *batches, size_t count) {
    if (TFM__NEEDS("trainer_update", t) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (t->local_group && TFM__NEEDS("trainer_update", batches) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (t->local_group)
        return update_local_group(t, report, batches, count);
    if (tfm__process_group_active(t))
        return tfm__trainer_update_rank(t, report, batches, count);
    if (t->sharded)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer_update: the trainer has moments of one rank of %d, by `shard_optimizer`, but no "
                         "process group is set",
                         t->bucket_layout.world);
    return TFM__NEEDS("trainer_update", batches) == TFM_OK ? tfm__trainer_update_single(t, report, batches, count)
                                                           : TFM_ERROR_ARGUMENT;
}

/* ---- Checkpoints ----------------------------------------------------------------------------------------------- */

typedef struct save_job {
    const tfm_data *data;
    const char *path;
} save_job;

static tfm_status save_rank(void *user, tfm_trainer *t, size_t rank) {
    const save_job *s = user;
    return tfm__trainer_save_rank(t, rank == 0 ? s->data : NULL, s->path);
}

tfm_status tfm_trainer_save(tfm_trainer *t, const tfm_data *data, const char *path) {
    if (TFM__NEEDS("trainer_save", t, path) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return t->local_group && t->sharded ? tfm__local_group_run(t->local_group, save_rank, &(save_job){data, path})
                                        : tfm__trainer_save_rank(t, data, path);
}

/* ---- New and free ---------------------------------------------------------------------------------------------- */

/* Whether two devices certainly compute bit-identical steps. */
static bool same_device(const tfm_context *a, const tfm_context *b) {
    const tfm_device_info *one = tfm_context_device(a), *other = tfm_context_device(b);
    return strcmp(one->platform, other->platform) == 0 && strcmp(one->driver, other->driver) == 0 &&
           strcmp(one->vendor, other->vendor) == 0 && strcmp(tfm_context_variant(a), tfm_context_variant(b)) == 0;
}

/* Collects the models that train, the caller's first, and whether their devices are identical. */
static bool collect_models(tfm_model **models, const struct tfm__replicas *replicas) {
    size_t count = 0;
    bool same = true;
    models[count++] = replicas->models[replicas->lead];
    for (size_t i = 0; i < replicas->fleet->count; i++)
        if (i != replicas->lead && tfm__replicas_has(replicas, i))
            models[count++] = replicas->models[i];
    for (size_t i = 1; i < count; i++)
        same = same && same_device(models[0]->ctx, models[i]->ctx);
    return same;
}

static tfm_status make_trainers(struct tfm__local_group *group, tfm_model *const *models, tfm_trainer_options options) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < group->count && status == TFM_OK; i++) {
        tfm_process_group ranks;
        tfm__local_group_connect(&ranks, group, i);
        options.process_group = &ranks;
        status = tfm__trainer_make(&group->trainers[i], models[i], &options);
        if (status == TFM_OK)
            group->trainers[i]->is_replica = i > 0;
    }
    return status;
}

/* Creates trainers of the model and its replicas; the first owns the others. Until it is freed, other calls of the
 * model use only its own device. */
static tfm_status new_on_fleet(tfm_trainer **first, tfm_model *model, const tfm_trainer_options *options) {
    struct tfm__replicas *replicas = model->replicas;
    struct tfm__local_group *group = NULL;
    *first = NULL;
    if (options->process_group)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: the model lies on several devices, which form their own "
                                             "group: a rank has one device");
    if (!tfm__replicas_has(replicas, replicas->lead))
        return tfm__fail(TFM_ERROR_DEVICE, "trainer_new: the first device of the model has failed: %s",
                         replicas->fleet->members[replicas->lead].reason);
    tfm_model **models = tfm__alloc(replicas->fleet->count, sizeof(tfm_model *));
    tfm_status status = models ? tfm__local_group_new(&group, tfm__replicas_count(replicas)) : TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        tfm_trainer_options o = *options;
        o.shard_optimizer =
            !collect_models(models, replicas) || o.shard_optimizer; /* one device makes the step for all */
        status = make_trainers(group, models, o);
    }
    free(models);
    if (status == TFM_OK) {
        *first = group->trainers[0];
        (*first)->local_group = group;
        group->replicas = replicas;
        model->replicas = NULL;
        return TFM_OK;
    }
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t i = 0; group && i < group->count; i++)
        if (group->trainers[i])
            tfm__trainer_destroy(group->trainers[i]);
    tfm__local_group_free(group);
    tfm__error_restore(saved_message);
    return status;
}

tfm_status tfm_trainer_new(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options) {
    TFM__CLEAR_OUT(out);
    if (!out || !model)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: %s is NULL", out ? "model" : "out");
    const tfm_trainer_options o = tfm__trainer_defaults(options);
    tfm_status status = tfm__trainer_check(&o);
    if (status != TFM_OK)
        return status;
    status = tfm__model_needs(model, "trainer_new", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status != TFM_OK)
        return status;
    if (model->low_precision)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "trainer_new: the model's weights are %s, which cannot be trained: train the "
                         "model before quantization",
                         model->low_precision);
    if (o.freeze && !*o.freeze)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: freeze is empty: give patterns of parameter names, or none");
    model->changed = true;
    return tfm__batches_are_parallel(model) ? new_on_fleet(out, model, &o) : tfm__trainer_make(out, model, &o);
}

void tfm_trainer_free(tfm_trainer **pointer) {
    tfm_trainer *t = pointer ? *pointer : NULL;
    if (!t)
        return;
    *pointer = NULL;
    if (t->local_group) {
        t->model->replicas = t->local_group->replicas;
        for (size_t i = 1; i < t->local_group->count; i++)
            tfm__trainer_destroy(t->local_group->trainers[i]);
        tfm__local_group_free(t->local_group);
    }
    tfm__trainer_destroy(t);
}
