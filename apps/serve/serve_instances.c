/* Instances of served models: loading and unloading. */
#include <math.h>
#include "serve/server.h"

/* Embeddings have no KV cache, and translations no context size. */
tfm_model_options serve_model_options(const serve_model *m, const serve_options *o) {
    tfm_model_options how = {.ctx_size = m->task == SERVE_GENERATE ? o->ctx_size : 0};
    cli_set_precision(&how, o->precision);
    if (m->task == SERVE_EMBED)
        how.kv_precision = TFM_PRECISION_AUTO;
    return how;
}

serve_model *serve_model_hold(server *s, size_t index) {
    pthread_mutex_lock(&s->lock);
    serve_model *model = s->models.items[index];
    atomic_fetch_add(&model->users, 1);
    pthread_mutex_unlock(&s->lock);
    return model;
}

void serve_model_unload(serve_instance *instance) {
    tfm_engine_free(&instance->engine);
    if (instance->embedder)
        instance->model = NULL; /* the embedder's */
    tfm_model_free(&instance->model);
    tfm_embedder_free(&instance->embedder);
    tfm_fleet_free(&instance->fleet);
    atomic_store(&instance->loaded, false);
}

void serve_instance_name(char *out, size_t bytes, const serve_instance *instance) {
    const tfm_fleet_member *member;
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)) && used < bytes; i++)
        if (!member->dropped)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
                                     tfm_context_device(member->context)->name);
}

bool serve_instance_failed(const serve_instance *instance) {
    const tfm_fleet_member *member;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)); i++)
        if (!member->dropped && tfm_context_status(member->context) != TFM_OK)
            return true;
    return false;
}

double serve_instance_build_seconds(const serve_instance *instance) {
    return cli_build_seconds(instance->fleet);
}

unsigned long long serve_instance_memory(const serve_instance *instance) {
    const tfm_fleet_member *member;
    unsigned long long all = 0;
    for (size_t i = 0; (member = tfm_fleet_get_member(instance->fleet, i)); i++)
        all += member->context ? tfm_context_peak_memory(member->context) : 0;
    return all;
}

int serve_model_loaded(serve_model *model) {
    int workers = 0;
    for (int i = 0; i < SERVE_WORKERS; i++)
        workers += atomic_load(&model->instances[i].loaded);
    return workers;
}

unsigned long long serve_model_memory(serve_model *model) {
    unsigned long long all = 0;
    for (int i = 0; i < SERVE_WORKERS; i++)
        all += atomic_load(&model->instances[i].loaded) ? atomic_load(&model->instances[i].memory) : 0;
    return all;
}

/* Seconds until the model has been unused for too long. */
static double idle_in(const serve_worker *w, const serve_model *model) {
    const serve_instance *instance = &model->instances[w->number];
    const int limit = w->server->options->limits.idle_seconds;
    return limit && instance->fleet ? instance->used_at + limit - cli_seconds() : (double)INFINITY;
}

double serve_models_idle_in(const serve_worker *w) {
    double least = (double)INFINITY;
    for (size_t i = 0; i < w->server->models.count; i++)
        least = fmin(least, idle_in(w, w->server->models.items[i]));
    return least;
}

void serve_models_unload_idle(const serve_worker *w) {
    for (size_t i = 0; i < w->server->models.count; i++) {
        serve_model *m = serve_model_hold(w->server, i);
        if (idle_in(w, m) <= 0) {
            serve_model_unload(&m->instances[w->number]);
            if (!serve_model_loaded(m))
                atomic_fetch_add(&w->server->counters.drops, 1);
        }
        serve_model_release(m);
    }
}

/* The least recently used model, held, that the model needs the memory of; NULL: there is enough. */
static serve_model *oldest_beyond(server *s, const serve_model *model, uint64_t limit) {
    uint64_t held = model->bytes;
    serve_model *oldest = NULL;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->models.count; i++) {
        serve_model *m = s->models.items[i];
        if (!m->instances[0].fleet || m == model)
            continue;
        held += m->bytes;
        oldest = !oldest || m->used < oldest->used ? m : oldest;
    }
    if (oldest && held > limit)
        atomic_fetch_add(&oldest->users, 1);
    pthread_mutex_unlock(&s->lock);
    return held > limit ? oldest : NULL;
}

/* Unloads the least recently used models until there is enough memory. */
static void make_room(server *s, const serve_model *model) {
    const uint64_t limit = (uint64_t)s->options->limits.memory << 20;
    serve_model *oldest;
    while (limit > 0 && (oldest = oldest_beyond(s, model, limit))) {
        serve_model_unload(&oldest->instances[0]);
        serve_model_release(oldest);
        atomic_fetch_add(&s->counters.drops, 1);
    }
}

tfm_status serve_model_acquire(const serve_worker *w, serve_model *model) {
    server *s = w->server;
    serve_instance *instance = &model->instances[w->number];
    if (s->options->limits.memory) /* with a memory limit there is one worker */
        model->used = ++s->models.clock;
    if (instance->fleet)
        return TFM_OK;
    make_room(s, model);
    return serve_model_open(s, model, instance);
}

tfm_status serve_model_open(server *s, serve_model *model, serve_instance *instance) {
    const bool several = s->devices > 1;
    const tfm_model_options how = serve_model_options(model, s->options);
    tfm_status status = cli_open_fleet(&instance->fleet, s->options->device, several ? s->options->workers : 1);
    if (status == TFM_OK && model->width > 0) { /* a decoder-only model also generates text */
        status = tfm_fleet_open_embedder(&instance->embedder, instance->fleet, model->dir,
                                         &(tfm_embedder_options){.precision = how.precision,
                                                                 .activation_precision = how.activation_precision,
                                                                 .kv_precision = how.kv_precision,
                                                                 .ctx_size = how.ctx_size});
        instance->model = status == TFM_OK ? tfm_embedder_model(instance->embedder) : NULL;
    } else if (status == TFM_OK) {
        status = tfm_fleet_open_model(&instance->model, instance->fleet, model->dir, &how);
    }
    cli_progress(NULL);
    if (status != TFM_OK) {
        serve_model_unload(instance);
        return status;
    }
    if (!serve_model_loaded(model))
        atomic_fetch_add(&s->counters.loads, 1);
    instance->used_at = cli_seconds();
    atomic_store(&instance->loaded, true);
    atomic_store(&model->opened, true);
    const int usual = model->task == SERVE_GENERATE ? 1 : tfm_model_workers(instance->model); /* a batch of all texts */
    const int workers = s->options->workers ? s->options->workers : usual;
    serve_queue_set_workers(s, model, several ? 1 : workers);
    return TFM_OK;
}
