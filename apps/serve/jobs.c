/* Jobs: the work of one request, and its results. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "documents/document.h"
#include "serve/server.h"

serve_job *serve_job_new(size_t count) {
    serve_job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    job->segments = calloc(count ? count : 1, sizeof(*job->segments));
    job->results = calloc(count ? count : 1, sizeof(*job->results));
    job->count = count;
    job->key.n_best = 1;
    job->fd = -1;
    if (!job->segments || !job->results)
        serve_job_free(job), job = NULL;
    return job;
}

bool serve_job_set_models(serve_job *job, serve_model *const *models, size_t count) {
    job->key.model = models[0];
    for (size_t i = 1; i < count && !job->models; i++) {
        if (models[i] == models[0])
            continue;
        if (!(job->models = malloc(count * sizeof(serve_model *)))) {
            job->key.model = NULL;
            return false;
        }
        memcpy(job->models, models, count * sizeof(serve_model *));
        job->texts = count;
    }
    for (size_t i = 0; i < (job->models ? count : 1); i++)
        atomic_fetch_add(&models[i]->users, 1);
    return true;
}

void serve_job_free(serve_job *job) {
    if (!job)
        return;
    for (size_t i = 0; job->models && i < job->texts; i++)
        serve_model_release(job->models[i]);
    if (!job->models && job->key.model)
        serve_model_release(job->key.model);
    for (size_t i = 0; job->results && i < job->count; i++) {
        for (int best = 0; job->results[i].texts && best < job->key.n_best; best++)
            free(job->results[i].texts[best]);
        for (int best = 0; best < job->key.n_best; best++)
            json_decref(job->results[i].logprobs[best]);
        free(job->results[i].texts);
        free(job->results[i].vectors);
        json_decref(job->results[i].detail);
    }
    for (size_t i = 0; i < job->generate.stop_string_count; i++)
        free(job->stops[i]);
    for (size_t i = 0; job->ids && i < job->count; i++)
        tfm_ids_free(&job->ids[i]);
    free(job->ids);
    free(job->id_counts);
    free(job->stop_ids);
    free(job->biases);
    serve_grammar_release(job->grammar);
    free(job->prompt_name);
    free(job->stops);
    free(job->results);
    free(job->segments);
    free(job->models);
    free(job->vectors);
    free(job->queries);
    free(job->scores);
    free(job->failure);
    json_decref(job->source);
    json_decref(job->format.tools);
    json_decref(job->response.head);
    free(job->response.text);
    if (job->on_free)
        job->on_free(job);
    if (job->document)
        job->kind->free(job->document);
    free(job);
}

void serve_job_fail(serve_job *job, int code, const char *format, ...) {
    char sentence[1024];
    va_list args;
    if (job->answer_code)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    job->failure = strdup(sentence);
    job->answer_code = code;
}

bool serve_job_stop(serve_job *job, serve_stop why) {
    int none = SERVE_RUNNING;
    return atomic_compare_exchange_strong(&job->stop, &none, (int)why);
}

serve_stop serve_job_stopped(const serve_job *job) {
    return (serve_stop)atomic_load(&job->stop);
}

void serve_job_fail_stopped(const server *s, serve_job *job) {
    const serve_stop why = serve_job_stopped(job);
    if (why == SERVE_SHUTTING_DOWN)
        serve_job_fail(job, MHD_HTTP_SERVICE_UNAVAILABLE, "The server is going down");
    else if (why == SERVE_TIMED_OUT && job->taken == 0)
        serve_job_fail(job, MHD_HTTP_SERVICE_UNAVAILABLE, "The request has waited for %d s: try again in %d s",
                       s->options->limits.seconds, job->retry_after);
    else if (why == SERVE_TIMED_OUT)
        serve_job_fail(job, MHD_HTTP_SERVICE_UNAVAILABLE, "The request took longer than %d s: try again later",
                       s->options->limits.seconds);
}

bool serve_batch_is_wanted(const serve_batch_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (items[i].job && !serve_job_stopped(items[i].job))
            return true;
    return false;
}
