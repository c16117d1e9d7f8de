/* Text generation by an engine: requests are admitted between its steps. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* A segment in the engine. */
typedef struct running {
    struct running *next;
    struct batch *batch;
    size_t item;      /* of the worker */
    uint64_t request; /* of the engine */
    int left;         /* texts that have not ended */
    double last[];    /* times of their last tokens */
} running;

typedef struct batch {
    serve_worker *worker;
    serve_model *model;
    tfm_engine *engine;
    running *first;
    size_t submitted; /* items */
    tfm_engine_stats stats;
} batch;

static serve_batch_item *item_of(const running *t) {
    return &t->batch->worker->items[t->item];
}

/* Unlinks and frees a segment, and answers its job if that is complete. */
static void finish(running *t) {
    running **at = &t->batch->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    serve_queue_segment_done(t->batch->worker, item_of(t));
    free(t);
}

static void on_log_probs(void *user, size_t request, int rank, int32_t id, const tfm_token_log_probs *log_probs) {
    (void)request;
    serve_logprobs_add(item_of(user), rank, id, log_probs);
}

static bool on_token(void *user, size_t request, int rank, int32_t id) {
    running *t = user;
    (void)request;
    return serve_generate_token(item_of(t)->job, id, &t->last[rank]);
}

static bool on_text(void *user, size_t request, int rank, const char *part) {
    const running *t = user;
    const serve_batch_item *item = item_of(t);
    (void)request;
    if (item->job->on_text && *part)
        item->job->on_text(item->job, (int)item->segment * item->job->key.n_best + rank, part);
    return true;
}

static bool on_end(void *user, const tfm_generation *g) {
    running *t = user;
    const serve_batch_item *item = item_of(t);
    if (!serve_generate_keep(item, g))
        serve_job_fail(item->job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the text");
    if (--t->left == 0)
        finish(t);
    return true;
}

/* Submits the next item. If the engine does not support the model's generation rules, the items of this batch run one
 * by one. */
static tfm_status submit(batch *b) {
    serve_worker *w = b->worker;
    const size_t at = b->submitted++;
    const serve_batch_item *item = &w->items[at];
    serve_job *job = item->job;
    const tfm_prompt prompt = {.ids = job->ids[item->segment], .count = job->id_counts[item->segment]};
    tfm_generate_options options = job->generate;
    running *t = calloc(1, sizeof(*t) + (size_t)job->key.n_best * sizeof(double));
    if (!t)
        return TFM_ERROR_MEMORY;
    *t = (running){.next = b->first, .batch = b, .item = at, .left = job->key.n_best};
    b->first = t;
    options.stop_ids = job->stop_ids;
    options.stop_id_count = job->stop_id_count;
    options.skip_scores = job->choices == job->key.n_best;
    options.on_log_probs = job->logprobs ? on_log_probs : NULL;
    options.on_log_probs_user = t;
    options.first_prompt = item->segment;
    options.on_token = on_token;
    options.on_token_user = t;
    options.on_text = job->on_text ? on_text : NULL;
    options.on_text_user = t;
    tfm_status status = tfm_engine_submit(b->engine, &t->request, &prompt, &options, on_end, t);
    if (status == TFM_OK)
        return TFM_OK;
    if (status == TFM_ERROR_UNSUPPORTED && !job->grammar) { /* which may be what is refused */
        const char *field = serve_engine_field(job);
        atomic_store(&b->model->no_engine, true); /* from the next batch on */
        if (field) {
            serve_job_fail(job, MHD_HTTP_BAD_REQUEST,
                           "Invalid request: %s is not supported " SERVE_NO_ENGINE ": leave it out", field);
            finish(t);
            return TFM_OK;
        }
        status = serve_work_generate(w, b->model, item, 1);
        if (status == TFM_ERROR_CANCELLED)
            serve_job_fail_stopped(w->server, job);
        if (status == TFM_OK || status == TFM_ERROR_CANCELLED) {
            finish(t);
            return TFM_OK;
        }
    }
    if (status != TFM_ERROR_ARGUMENT && status != TFM_ERROR_INPUT && status != TFM_ERROR_UNSUPPORTED)
        return status;
    serve_job_fail(job, MHD_HTTP_BAD_REQUEST, "%s", tfm_error_message());
    finish(t);
    return TFM_OK;
}

/* Ends the segments of jobs without a client, or out of time. */
static void drop_stopped(batch *b) {
    for (running *t = b->first, *next; t; t = next) {
        next = t->next;
        serve_job *job = item_of(t)->job;
        if (!serve_job_stopped(job))
            continue;
        tfm_engine_cancel(b->engine, t->request);
        serve_job_fail_stopped(b->worker->server, job);
        finish(t);
    }
}

static void count_step(batch *b) {
    const tfm_engine_stats before = b->stats;
    b->stats = tfm_engine_get_stats(b->engine);
    serve_model_counters *c = b->model->counters;
    const uint64_t accepted = b->stats.accepted_tokens - before.accepted_tokens;
    atomic_fetch_add(&c->steps, b->stats.steps - before.steps);
    atomic_fetch_add(&c->step_texts, b->stats.new_tokens - before.new_tokens - accepted);
    atomic_fetch_add(&c->drafted_tokens, b->stats.drafted_tokens - before.drafted_tokens);
    atomic_fetch_add(&c->accepted_tokens, accepted);
}

tfm_status serve_work_engine(serve_worker *w, serve_model *model) {
    serve_instance *instance = &model->instances[w->number];
    batch b = {.worker = w, .model = model};
    tfm_status status = TFM_OK;
    if (!instance->engine)
        status = tfm_engine_open(&instance->engine, instance->model,
                                 &(tfm_engine_options){.max_sequences = SERVE_SEQUENCES});
    b.engine = instance->engine;
    if (status == TFM_OK)
        b.stats = tfm_engine_get_stats(b.engine);
    for (bool more = true; more && status == TFM_OK;) {
        while (status == TFM_OK && (b.submitted < w->count || serve_queue_take_more(w)))
            status = submit(&b);
        drop_stopped(&b);
        if (status == TFM_OK)
            status = tfm_engine_step(b.engine, &more);
        if (status == TFM_OK)
            count_step(&b);
    }
    for (running *t = b.first, *next; t; t = next) { /* after a failure */
        next = t->next;
        free(t);
    }
    if (status != TFM_OK)
        tfm_engine_free(&instance->engine);
    return status;
}
