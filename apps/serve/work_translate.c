/* Translation of a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

/* Lines of the library correspond to the worker's items. */
typedef struct batch {
    serve_worker *worker;
    size_t given;
    int n_best;
    bool out_of_memory;
} batch;

/* The alignment weights of one sentence, unless its job exceeds the limit: marks of a document are then placed without
 * them; requested alignments are an error. False without memory. */
static bool keep_detail(serve_job *job, serve_result *r, const tfm_translation *t) {
    const size_t most = SERVE_WEIGHTS, count = t->source.count * t->target.count;
    if (!job->key.detail || !t->alignment || job->answer_code)
        return true;
    if (count <= most - job->weights) {
        job->weights += count;
        r->detail = cli_alignment_json(t);
        return r->detail != NULL;
    }
    if (!job->document)
        serve_job_fail(job, MHD_HTTP_CONTENT_TOO_LARGE,
                       "Invalid request: the alignments are more than %zu numbers: send fewer or shorter sentences",
                       most);
    return true;
}

/* Stores one hypothesis of a segment. False without memory. */
static bool keep(serve_job *job, serve_result *r, const tfm_translation *t) {
    if (!r->texts)
        r->texts = calloc((size_t)job->key.n_best, sizeof(*r->texts));
    if (!r->texts)
        return false;
    if (t->rank > 0 && (t->score == -INFINITY || isnan(t->score))) /* no more hypotheses */
        return true;
    r->texts[t->rank] = strdup(t->text);
    if (t->rank == 0) {
        r->source_tokens = t->source.count;
        r->target_tokens = t->target.count;
        if (!keep_detail(job, r, t))
            return false;
    }
    return r->texts[t->rank] != NULL;
}

/* The worker's items, then admitted ones. */
static bool next_segment(void *user, const char **line, size_t *bytes) {
    batch *b = user;
    serve_worker *w = b->worker;
    if (b->given == w->count && !serve_queue_take_more(w))
        return false;
    const serve_batch_item *item = &w->items[b->given++];
    *line = item->job->segments[item->segment].text;
    *bytes = item->job->segments[item->segment].bytes;
    return true;
}

static bool on_translation(void *user, const tfm_translation *t) {
    batch *b = user;
    serve_batch_item *item = &b->worker->items[t->line];
    serve_job *job = item->job;
    if (!job)
        return true;
    if (!keep(job, &job->results[item->segment], t)) {
        b->out_of_memory = true;
        return false;
    }
    serve_model_counters *counters = b->worker->key.model->counters;
    atomic_fetch_add(&counters->source_tokens, t->rank == 0 ? t->source.count : 0);
    atomic_fetch_add(&counters->target_tokens, t->rank == 0 ? t->target.count : 0);
    if (t->rank + 1 == b->n_best || isnan(t->score))
        serve_queue_segment_done(b->worker, item);
    return true;
}

static bool on_reject(void *user, size_t line, const char *message) {
    const batch *b = user;
    const serve_batch_item *item = &b->worker->items[line];
    const size_t of = item->job->segments[item->segment].of;
    if (item->job->texts > 1)
        serve_job_fail(item->job, MHD_HTTP_BAD_REQUEST, "Cannot translate text %zu: %s", of + 1, message);
    else
        serve_job_fail(item->job, MHD_HTTP_BAD_REQUEST, "Cannot translate text: %s", message);
    return true;
}

static bool should_continue(void *user) {
    const batch *b = user;
    return serve_batch_is_wanted(b->worker->items, b->worker->count);
}

tfm_status serve_work_translate(serve_worker *w, serve_model *model) {
    const server *s = w->server;
    tfm_model *on = model->instances[w->number].model;
    const serve_batch_key key = w->key;
    batch b = {.worker = w, .n_best = key.n_best};
    tfm_text_options text = s->options->text;
    tfm_search_options search = s->options->search;
    text.batch_tokens = serve_queue_micro_batch_tokens(w, text.batch_tokens, LEAST_TOKENS);
    text.split = key.split;
    text.language = key.split ? model->source : NULL;
    text.placeholders = key.keep ? s->options->placeholders : NULL;
    text.alignments = key.detail;
    text.alignment_layer = key.layer;
    text.alignment_head = key.head;
    text.source_language = model->says_source ? model->source : NULL;
    text.target_language = model->says_target ? model->target : NULL;
    text.reject = on_reject;
    text.reject_user = &b;
    search.n_best = key.n_best;
    if (key.n_best > (search.beam_size ? search.beam_size : tfm_model_get_info(on)->beam_size))
        search.beam_size = key.n_best;
    search.skip_scores = true;
    search.should_continue = should_continue;
    search.should_continue_user = &b;
    const tfm_status status = tfm_translate_stream(on, next_segment, &b, &text, &search, on_translation, &b);
    for (size_t i = 0; i < w->count && (b.out_of_memory || status == TFM_OK);
         i++) /* otherwise all are done, or have failed */
        if (w->items[i].job)
            serve_job_fail(w->items[i].job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the translation");
    return b.out_of_memory ? TFM_OK : status;
}
