/* Opens fleets, and models on all devices of a fleet. It is above the tasks; worker_pool.c runs a call on the
 * devices. */
#include "model/multi_device/fleet.h"
#include <stdio.h>
#include <string.h>
#include "base/hub/hub.h"
#include "model/adapters/adapter.h"
#include "model/tasks/embedder.h"

#define MAX_WORKERS 16

/* ---- Fleets ---------------------------------------------------------------------------------------------------- */

static tfm_status fleet_make(tfm_fleet **out, size_t count) {
    tfm_fleet *fleet = *out = tfm__alloc(1, sizeof(*fleet));
    if (!fleet)
        return TFM_ERROR_MEMORY;
    atomic_init(&fleet->refcount, 1);
    pthread_mutex_init(&fleet->building, NULL);
    fleet->members = tfm__alloc(count, sizeof(*fleet->members));
    fleet->backoffs = tfm__alloc(count, sizeof(*fleet->backoffs));
    for (size_t i = 0; i < count && fleet->members; i++)
        fleet->members[i].reason = "";
    fleet->count = fleet->members ? count : 0;
    return fleet->members && fleet->backoffs ? TFM_OK : TFM_ERROR_MEMORY;
}

void tfm_fleet_free(tfm_fleet **pointer) {
    tfm_fleet *fleet = pointer ? *pointer : NULL;
    if (!fleet)
        return;
    *pointer = NULL;
    if (atomic_fetch_sub(&fleet->refcount, 1) > 1)
        return;
    for (size_t i = 0; i < fleet->count; i++) {
        tfm_fleet_member *m = &fleet->members[i];
        if (m->reason[0])
            free((char *)(uintptr_t)m->reason);
        if (fleet->on_build && m->context)
            tfm__context_clear_on_build(m->context); /* a model may keep the context */
        tfm_context_free(&m->context);
    }
    pthread_mutex_destroy(&fleet->building);
    free(fleet->members);
    free(fleet->backoffs);
    free(fleet);
}

static size_t count_left(const tfm_fleet *fleet) {
    size_t left = 0;
    for (size_t i = 0; i < fleet->count - fleet->spare; i++)
        left += !fleet->members[i].dropped;
    return left;
}

/* Several devices may build at the same time. */
static void build(void *user, int count, double seconds) {
    tfm_fleet *fleet = user;
    pthread_mutex_lock(&fleet->building);
    fleet->on_build(fleet->on_build_user, count, seconds);
    pthread_mutex_unlock(&fleet->building);
}

/* Opens a context per member: on these `count` devices, or without any on the named one, cycling if there are more
 * members. */
static tfm_status open_all(tfm_fleet *fleet, const tfm__device *devices, size_t count, const char *name) {
    tfm_status status = TFM_OK;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t i = 0; i < fleet->count - fleet->spare && status == TFM_OK; i++) {
        const tfm_context_options how = {
            .device = name, .on_build = fleet->on_build ? build : NULL, .on_build_user = fleet};
        status = devices ? tfm__context_open_on(&fleet->members[i].context, devices, i % count, &how)
                         : tfm_context_open(&fleet->members[i].context, &how);
        if (tfm__fleet_may_drop(status) && count_left(fleet) > 1) {
            tfm__fleet_drop(fleet, i, tfm_error_message());
            tfm__fleet_log_dropped(fleet, i);
            tfm__error_restore(saved_message);
            status = TFM_OK;
        }
    }
    return status;
}

tfm_status tfm_fleet_open(tfm_fleet **out, const tfm_fleet_options *options) {
    static const tfm_fleet_options defaults;
    if (TFM__NEEDS("fleet_open", out) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = NULL;
    options = options ? options : &defaults;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "fleet_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (options->workers < 0 || options->workers > MAX_WORKERS)
        return tfm__fail(TFM_ERROR_ARGUMENT, "fleet_open: %d workers on each device: give 1 to %d", options->workers,
                         MAX_WORKERS);
    tfm__device *devices = NULL;
    size_t count = 1;
    tfm_status status = TFM_OK;
    if (tfm__devices_is_list(options->devices))
        status = tfm__devices_choose(&devices, &count, options->devices);
    if (status == TFM_OK)
        status = fleet_make(out, count * (size_t)(options->workers ? options->workers : count == 1 ? 2 : 1));
    if (status == TFM_OK) {
        (*out)->spare = count == 1 && options->workers == 0;
        (*out)->on_build = options->on_build;
        (*out)->on_build_user = options->on_build_user;
        status = open_all(*out, devices, count, options->devices);
    }
    free(devices);
    if (status != TFM_OK)
        tfm_fleet_free(out);
    return status;
}

tfm_status tfm_fleet_new(tfm_fleet **out, tfm_context *const *contexts, size_t count) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("fleet_new", out, contexts) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "fleet_new: a fleet has at least one context");
    for (size_t i = 0; i < count; i++) {
        if (!contexts[i])
            return tfm__fail(TFM_ERROR_ARGUMENT, "fleet_new: contexts[%zu] is NULL", i);
        for (size_t k = 0; k < i; k++)
            if (contexts[k] == contexts[i])
                return tfm__fail(TFM_ERROR_ARGUMENT,
                                 "fleet_new: contexts[%zu] and contexts[%zu] are the same: open a context for each", k,
                                 i);
    }
    const tfm_status status = fleet_make(out, count);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        (*out)->members[i].context = tfm_context_retain(contexts[i]);
    if (status != TFM_OK)
        tfm_fleet_free(out);
    return status;
}

size_t tfm_fleet_count(const tfm_fleet *fleet) {
    return !fleet ? 0 : fleet->spare && !fleet->members[1].context ? 1 : fleet->count;
}

const tfm_fleet_member *tfm_fleet_get_member(const tfm_fleet *fleet, size_t index) {
    return index < tfm_fleet_count(fleet) ? &fleet->members[index] : NULL;
}

/* ---- Models ---------------------------------------------------------------------------------------------------- */

static size_t adapter_count(const tfm__open_options *o) {
    return o->embedders ? o->embedder_options.adapter_count : o->model_options.adapter_count;
}

static void free_replicas(struct tfm__replicas **pointer) {
    struct tfm__replicas *replicas = *pointer;
    *pointer = NULL;
    if (!replicas)
        return;
    for (size_t i = 0; replicas->models && i < replicas->fleet->count; i++)
        if (!replicas->joined || i != replicas->lead)
            tfm_model_free(&replicas->models[i]);
    for (int k = 0; k < TFM__BATCH_KINDS; k++)
        free(replicas->throughputs[k]);
    free(replicas->models);
    free(replicas->how.dir);
    tfm__adapters_free(&replicas->how.adapters, adapter_count(&replicas->how));
    tfm_fleet_free(&replicas->fleet);
    free(replicas);
}

static tfm_status replicas_new(struct tfm__replicas **out, tfm_fleet *fleet) {
    struct tfm__replicas *replicas = *out = tfm__alloc(1, sizeof(*replicas));
    if (!replicas)
        return TFM_ERROR_MEMORY;
    replicas->fleet = fleet;
    atomic_fetch_add(&fleet->refcount, 1);
    replicas->models = tfm__alloc(fleet->count, sizeof(*replicas->models));
    bool made = replicas->models != NULL;
    for (int k = 0; k < TFM__BATCH_KINDS; k++) {
        replicas->throughputs[k] = tfm__alloc(fleet->count, sizeof(*replicas->throughputs[k]));
        made = made && replicas->throughputs[k];
    }
    if (made)
        return TFM_OK;
    free_replicas(out);
    return TFM_ERROR_MEMORY;
}

/* Opens the model or embedder of device `member`. The first one opens the tokenizer, shared by all. */
static tfm_status open_on(tfm__open_options *o, tfm_model **out, tfm_context *ctx, size_t member) {
    if (o->shape)
        return tfm_model_new(out, ctx, o->shape);
    if (!o->embedders)
        return tfm_model_open(out, ctx, o->dir, &o->model_options);
    const tfm_status status = tfm_embedder_open(&o->embedders[member], ctx, o->dir, &o->embedder_options);
    *out = status == TFM_OK ? tfm__model_retain(o->embedders[member]->model) : NULL;
    return status;
}

/* Opens models on all available devices. *lead is the first. */
static tfm_status open_models(struct tfm__replicas *replicas, tfm_model **lead, size_t *member) {
    tfm_fleet *fleet = replicas->fleet;
    tfm__open_options *o = &replicas->how;
    tfm_status status = TFM_OK;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t i = 0; i < fleet->count && status == TFM_OK; i++) {
        const bool later = fleet->spare && i == 1 && *lead;
        if (fleet->members[i].dropped || !fleet->members[i].context || later)
            continue;
        status = open_on(o, &replicas->models[i], fleet->members[i].context, i);
        if (tfm__fleet_may_drop(status) && count_left(fleet) > 1) {
            tfm__fleet_drop(fleet, i, tfm_error_message());
            tfm__fleet_log_dropped(fleet, i);
            tfm__error_restore(saved_message);
            status = TFM_OK;
        } else if (status == TFM_OK && !*lead) {
            *lead = replicas->models[i];
            *member = i;
            o->model_options.no_tokenizer = o->embedder_options.no_tokenizer = true;
        }
    }
    return status;
}

/* Opens the second worker of a device, if the fleet may choose the number of workers and the model is small. */
static void open_spare(const tfm_model *model) {
    struct tfm__replicas *replicas = model->replicas;
    if (replicas->closed || model->changed || !replicas->fleet->spare || replicas->models[1] ||
        replicas->fleet->members[1].dropped || tfm_model_workers(model) < 2)
        return;
    tfm_fleet *fleet = replicas->fleet;
    tfm_fleet_member *spare = &fleet->members[1];
    char index[32], saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    snprintf(index, sizeof(index), "%d", tfm_context_device(model->ctx)->index);
    tfm_status status = TFM_OK;
    if (!spare->context)
        status = tfm_context_open(&spare->context, &(tfm_context_options){.device = index,
                                                                          .on_build = fleet->on_build ? build : NULL,
                                                                          .on_build_user = fleet});
    if (status == TFM_OK)
        status = open_on(&replicas->how, &replicas->models[1], spare->context, 1);
    if (status == TFM_OK && replicas->models[1]->identity != model->identity)
        status = tfm__fail(TFM_ERROR_IO, "%s has other weights than when the model was opened", replicas->how.dir);
    if (status == TFM_OK) { /* tfm_model_set_target_language may have changed it */
        replicas->models[1]->rules.start_id = model->rules.start_id;
        replicas->models[1]->rules.forced_bos_id = model->rules.forced_bos_id;
    }
    if (status != TFM_OK) { /* the first worker continues alone */
        tfm__log(TFM_LOG_INFO, "a second worker cannot be opened: %s", tfm_error_message());
        tfm_model_free(&replicas->models[1]);
        if (replicas->how.embedders)
            tfm_embedder_free(&replicas->how.embedders[1]);
        if (fleet->members[0].dropped) /* it is the last one, also for other models */
            replicas->closed = true;
        else
            tfm__fleet_drop(fleet, 1, tfm_error_message());
        tfm__error_restore(saved_message);
    }
}

/* Opens a directory or makes a new model on all devices, and joins the models: *lead owns the replicas. */
static tfm_status open_replicas(tfm_model **lead, size_t *member, tfm_fleet *fleet, const tfm__open_options *how) {
    struct tfm__replicas *replicas;
    *lead = NULL;
    *member = 0;
    tfm_status status = replicas_new(&replicas, fleet);
    if (status != TFM_OK)
        return status;
    replicas->how = *how;
    replicas->how.dir = NULL;
    if (how->dir)
        status = tfm__hub_resolve(&replicas->how.dir, how->dir);
    if (status == TFM_OK) /* a later replica needs them, too */
        status = tfm__adapters_copy(&replicas->how.adapters,
                                    how->embedders ? how->embedder_options.adapters : how->model_options.adapters,
                                    adapter_count(how));
    replicas->how.model_options.adapters = replicas->how.embedder_options.adapters = replicas->how.adapters;
    if (status == TFM_OK)
        status = open_models(replicas, lead, member);
    replicas->closed = how->shape != NULL;
    replicas->how.shape = NULL; /* the caller's */
    if (status == TFM_OK) {     /* with or without replicas: the contexts call on_build through the fleet */
        replicas->lead = *member;
        replicas->joined = true;
        replicas->open_spare = open_spare;
        (*lead)->replicas = replicas;
        (*lead)->free_replicas = free_replicas;
        return TFM_OK;
    }
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    free_replicas(&replicas);
    tfm__error_restore(saved_message);
    *lead = NULL;
    return status;
}

tfm_status tfm_fleet_open_model(tfm_model **out, tfm_fleet *fleet, const char *dir, const tfm_model_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("fleet_open_model", out, fleet, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    size_t member;
    const tfm__open_options o = {.dir = (char *)(uintptr_t)dir,
                                 .model_options = options ? *options : (tfm_model_options){0}};
    return open_replicas(out, &member, fleet, &o);
}

tfm_status tfm_fleet_new_model(tfm_model **out, tfm_fleet *fleet, const tfm_model_shape *shape) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("fleet_new_model", out, fleet, shape) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    size_t member;
    return open_replicas(out, &member, fleet, &(tfm__open_options){.shape = shape});
}

tfm_status tfm_fleet_open_embedder(tfm_embedder **out, tfm_fleet *fleet, const char *dir,
                                   const tfm_embedder_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("fleet_open_embedder", out, fleet, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm__open_options o = {.dir = (char *)(uintptr_t)dir,
                           .embedder_options = options ? *options : (tfm_embedder_options){0},
                           .embedders = tfm__alloc(fleet->count, sizeof(*o.embedders))};
    if (!o.embedders)
        return TFM_ERROR_MEMORY;
    tfm_model *lead;
    size_t member;
    const tfm_status status = open_replicas(&lead, &member, fleet, &o);
    if (status == TFM_OK) {
        *out = o.embedders[member];
        o.embedders[member] = NULL;
        (*out)->replicas = o.embedders;
        (*out)->replica_count = fleet->count;
        tfm_model_free(&lead); /* the embedder holds a reference too */
        return TFM_OK;
    }
    for (size_t i = 0; i < fleet->count; i++)
        tfm_embedder_free(&o.embedders[i]);
    free(o.embedders);
    return status;
}
