/* Workers: the threads that use the device. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* A batch that failed fails its requests. What is the host's fault, as a model that cannot be loaded always is, is said
 * on standard error and not to clients. After a failure of the device the model is opened anew for the next one. */
static void fail_all(serve_seat *seat, const serve_unit *units, size_t count, tfm_status status, bool loaded) {
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
        if (!units[i].job)
            continue;
        units[i].job->retry_after = status == TFM_ERROR_MEMORY ? 1 : 0;
        serve_job_fail(units[i].job, code, "%s", sentence);
    }
    if (serve_seat_failed(seat))
        serve_model_drop(seat);
}

static void work_on(serve_worker *w) {
    server *s = w->server;
    const size_t count = w->count;
    serve_model *model = w->key.model;
    serve_seat *seat = &model->seats[w->number];
    tfm_status status = serve_model_need(w, model);
    const bool loaded = status == TFM_OK;
    if (!loaded && w->number > 0) { /* the first has it loaded, and answers */
        cli_fail_library();
        serve_queue_give_back(w, model);
        return;
    }
    const double start = cli_seconds(), built = serve_seat_built(seat);
    if (loaded) {
        pthread_mutex_lock(&s->lock);
        serve_seat_name(s->device, sizeof(s->device), seat);
        pthread_mutex_unlock(&s->lock);
    }
    if (loaded)
        status = w->key.task == SERVE_TRANSLATE ? serve_work_translate(w, model)
                 : w->key.task == SERVE_EMBED   ? serve_work_embed(w, model, w->units, count)
                                                : serve_work_generate(w, model, w->units, count);
    if (status != TFM_OK && status != TFM_ERROR_CANCELLED)
        fail_all(seat, w->units, w->count, status, loaded);
    if (seat->fleet)
        atomic_store(&seat->memory, serve_seat_memory(seat));
    const double building = seat->fleet ? serve_seat_built(seat) - built : 0; /* once for each kernel */
    atomic_fetch_add(&s->counts.batches, 1);
    const double seconds = cli_seconds() - start - building;
    const double counted = w->accounted - w->since, rest = seconds - counted;
    atomic_fetch_add(&s->counts.work_micros, (unsigned long long)(rest > 0 ? 1e6 * rest : 0));
    if (status == TFM_OK)
        serve_queue_worked(w, model, seconds);
    serve_queue_finish(w, status == TFM_ERROR_CANCELLED);
}

void *serve_work(void *user) {
    serve_worker *w = user;
    while (serve_queue_take(w))
        work_on(w);
    free(w->units);
    for (size_t i = 0; i < w->server->models.count; i++)
        serve_model_drop(&w->server->models.items[i].seats[w->number]);
    return NULL;
}
