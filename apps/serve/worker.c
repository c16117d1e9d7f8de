/* Workers: the threads that use the device. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* A failed batch fails its requests. Server-side errors, such as a model that cannot be loaded, are printed to standard
 * error and not sent to clients. After a device failure the model is reloaded for the next batch. */
static void fail_all(serve_instance *instance, const serve_batch_item *items, size_t count, tfm_status status,
                     bool loaded) {
    const bool asked_wrongly =
        loaded && (status == TFM_ERROR_ARGUMENT || status == TFM_ERROR_INPUT || status == TFM_ERROR_UNSUPPORTED);
    const int code = status == TFM_ERROR_MEMORY ? MHD_HTTP_SERVICE_UNAVAILABLE
                     : asked_wrongly            ? MHD_HTTP_BAD_REQUEST
                                                : MHD_HTTP_INTERNAL_SERVER_ERROR;
    const char *sentence = asked_wrongly                ? tfm_error_message()
                           : status == TFM_ERROR_MEMORY ? "The server has not enough memory for this: try again later"
                                                        : "The model or the device failed";
    if (!asked_wrongly)
        cli_fail_library();
    for (size_t i = 0; i < count; i++) {
        if (!items[i].job)
            continue;
        items[i].job->retry_after = status == TFM_ERROR_MEMORY ? 1 : 0;
        serve_job_fail(items[i].job, code, "%s", sentence);
    }
    if (serve_instance_failed(instance))
        serve_model_unload(instance);
}

static void run_batch(serve_worker *w) {
    server *s = w->server;
    const size_t count = w->count;
    serve_model *model = w->key.model;
    serve_instance *instance = &model->instances[w->number];
    atomic_fetch_add(&model->users, 1); /* its jobs may be freed before the batch ends */
    tfm_status status = serve_model_acquire(w, model);
    const bool loaded = status == TFM_OK;
    if (!loaded && w->number > 0) { /* worker 0 has it loaded, and answers */
        cli_fail_library();
        serve_queue_return(w, model);
        serve_model_release(model);
        return;
    }
    const double start = cli_seconds(), built = serve_instance_build_seconds(instance);
    if (loaded) {
        pthread_mutex_lock(&s->lock);
        serve_instance_name(s->device, sizeof(s->device), instance);
        pthread_mutex_unlock(&s->lock);
    }
    if (loaded)
        status = w->key.task == SERVE_TRANSLATE ? serve_work_translate(w, model)
                 : w->key.task == SERVE_EMBED   ? serve_work_embed(w, model, w->items, count)
                 : w->key.task == SERVE_RERANK  ? serve_work_rerank(w, model, w->items, count)
                 : w->engine                    ? serve_work_engine(w, model)
                                                : serve_work_generate(w, model, w->items, count);
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED)
        fail_all(instance, w->items, w->count, status, loaded);
    if (instance->fleet)
        atomic_store(&instance->memory, serve_instance_memory(instance));
    instance->used_at = cli_seconds();
    const double building =
        instance->fleet ? serve_instance_build_seconds(instance) - built : 0; /* kernels are built once */
    atomic_fetch_add(&s->counters.batches, 1);
    const double seconds = cli_seconds() - start - building;
    const double counted = w->accounted - w->since, rest = seconds - counted;
    atomic_fetch_add(&s->counters.work_micros, (unsigned long long)(rest > 0 ? 1e6 * rest : 0));
    if (status == TFM_OK && !w->engine)
        serve_queue_record_time(w, model, seconds);
    serve_queue_finish(w, status == TFM_ERROR_CANCELLED);
    serve_model_release(model);
}

/* Opens all models. Others than the first worker open theirs when they are needed. */
static void preload(const serve_worker *w) {
    server *s = w->server;
    for (size_t i = 0; i < s->models.count && !s->draining; i++) {
        serve_model *m = serve_model_hold(s, i);
        if (serve_model_acquire(w, m) != TFM_OK)
            cli_fail_library();
        serve_model_release(m);
    }
}

void *serve_worker_run(void *user) {
    serve_worker *w = user;
    if (w->server->options->preload && w->number == 0)
        preload(w);
    while (serve_queue_take(w))
        run_batch(w);
    free(w->items);
    for (size_t i = 0; i < w->server->models.count; i++)
        serve_model_unload(&w->server->models.items[i]->instances[w->number]);
    return NULL;
}
