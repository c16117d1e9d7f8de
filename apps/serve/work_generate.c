/* Text generation of a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

typedef struct batch {
    server *server;
    const serve_batch_item *items;
    size_t count;
    double *last; /* [count][n_best]: times of their last tokens */
    bool out_of_memory;
} batch;

static const char *finish_of(tfm_finish_reason end) {
    return end == TFM_FINISH_LENGTH ? "length" : "stop";
}

bool serve_generate_keep(const serve_batch_item *item, const tfm_generation *g) {
    serve_job *job = item->job;
    serve_model_counters *counters = job->key.model->counters;
    serve_result *r = &job->results[item->segment];
    if (!r->texts)
        r->texts = calloc((size_t)job->key.n_best, sizeof(*r->texts));
    if (!r->texts || !(r->texts[g->rank] = strdup(g->text)))
        return false;
    r->finish[g->rank] = finish_of(g->finish_reason);
    r->log_prob[g->rank] = g->log_prob / (double)(g->tokens.count ? g->tokens.count : 1);
    r->source_tokens = g->prompt_tokens;
    r->cached_tokens = g->rank == 0 ? g->cached_tokens : r->cached_tokens;
    r->target_tokens += g->tokens.count;
    atomic_fetch_add(&counters->source_tokens, g->rank == 0 ? g->prompt_tokens : 0);
    atomic_fetch_add(&counters->cached_tokens, g->rank == 0 ? g->cached_tokens : 0);
    atomic_fetch_add(&counters->target_tokens, g->tokens.count);
    return true;
}

static bool on_generation(void *user, const tfm_generation *g) {
    batch *b = user;
    b->out_of_memory |= !serve_generate_keep(&b->items[g->prompt], g);
    return !b->out_of_memory;
}

static bool on_piece(void *user, size_t prompt, int best, const char *segment) {
    const batch *b = user;
    const serve_batch_item *item = &b->items[prompt];
    if (serve_job_stopped(item->job)) {
        serve_job_fail_stopped(b->server, item->job); /* the batch continues if other clients wait for it */
        return false;
    }
    if (item->job->on_text && *segment)
        item->job->on_text(item->job, (int)item->segment * item->job->key.n_best + best, segment);
    return true;
}

bool serve_generate_token(serve_job *job, int32_t id, double *last) {
    serve_model_counters *counters = job->key.model->counters;
    const double now = cli_seconds();
    serve_histogram_observe(*last > 0 ? &counters->inter_token : &counters->first_token,
                            now - (*last > 0 ? *last : job->arrived));
    *last = now;
    for (size_t i = 0; i < job->stop_id_count; i++)
        if (job->stop_ids[i] == id)
            return false;
    return true;
}

static void on_log_probs(void *user, size_t prompt, int best, int32_t id, const tfm_token_log_probs *log_probs) {
    const batch *b = user;
    serve_logprobs_add(&b->items[prompt], best, id, log_probs);
}

static bool on_token(void *user, size_t prompt, int best, int32_t id) {
    const batch *b = user;
    serve_job *job = b->items[prompt].job;
    return serve_generate_token(job, id, &b->last[prompt * (size_t)job->key.n_best + (size_t)best]);
}

static bool on_reject(void *user, size_t prompt, const char *message) {
    const batch *b = user;
    serve_job_fail(b->items[prompt].job, MHD_HTTP_BAD_REQUEST, "prompt %zu: %s", b->items[prompt].segment, message);
    return true;
}

static bool should_continue(void *user) {
    const batch *b = user;
    return serve_batch_is_wanted(b->items, b->count);
}

tfm_status serve_work_generate(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count) {
    batch b = {.server = w->server, .items = items, .count = count};
    tfm_prompt *prompts = calloc(count, sizeof(*prompts));
    b.last = calloc(count * (size_t)items[0].job->key.n_best, sizeof(*b.last));
    if (!prompts || !b.last) {
        free(prompts);
        free(b.last);
        return TFM_ERROR_MEMORY;
    }
    for (size_t i = 0; i < count; i++) {
        const serve_job *job = items[i].job;
        prompts[i] = (tfm_prompt){.ids = job->ids[items[i].segment], .count = job->id_counts[items[i].segment]};
    }
    tfm_generate_options options =
        items[0].job->generate; /* equal for all: jobs with sampling or stop strings are not batched */
    options.skip_scores = items[0].job->choices == items[0].job->key.n_best;
    options.on_log_probs = items[0].job->logprobs ? on_log_probs : NULL;
    options.on_log_probs_user = &b;
    options.first_prompt = items[0].segment;
    options.prompt_lookup_num_tokens = 0;  /* only an engine has drafts */
    bool streams = w->server->devices < 2; /* several devices share a batch only without a callback per token */
    for (size_t i = 0; i < count; i++)
        streams |= items[i].job->stream != NULL || items[i].job->stop_id_count > 0;
    options.on_token = streams ? on_token : NULL;
    options.on_token_user = &b;
    options.on_text = streams ? on_piece : NULL;
    options.on_text_user = &b;
    if (!streams)
        options.batch_tokens = serve_queue_micro_batch_tokens(w, options.batch_tokens, 1);
    options.reject = on_reject;
    options.reject_user = &b;
    options.should_continue = should_continue;
    options.should_continue_user = &b;
    const tfm_status status =
        tfm_generate(model->instances[w->number].model, prompts, count, &options, on_generation, &b);
    for (size_t i = 0; i < count && b.out_of_memory; i++)
        serve_job_fail(items[i].job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the text");
    for (size_t i = 0; i < count && !streams; i++) /* without callbacks, check for disconnected clients now */
        serve_job_fail_stopped(b.server, items[i].job);
    free(prompts);
    free(b.last);
    return b.out_of_memory ? TFM_OK : status;
}
