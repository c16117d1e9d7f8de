/* Going on with the prompts of a batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

typedef struct batch {
    server *server;
    const serve_unit *units;
    size_t count;
    bool starved;
} batch;

static const char *finish_of(tfm_generation_end end) {
    return end == TFM_CUT ? "length" : "stop";
}

static bool on_generation(void *user, const tfm_generation *g) {
    batch *b = user;
    const serve_unit *unit = &b->units[g->prompt];
    serve_job *job = unit->job;
    serve_result *r = &job->results[unit->piece];
    if (!r->texts)
        r->texts = calloc((size_t)job->key.n_best, sizeof(*r->texts));
    if (!r->texts || !(r->texts[g->best] = strdup(g->text))) {
        b->starved = true;
        return false;
    }
    r->finish[g->best] = finish_of(g->end);
    r->source_tokens = g->prompt_tokens;
    r->target_tokens += g->tokens.count;
    atomic_fetch_add(&b->server->counts.source_tokens, g->best == 0 ? g->prompt_tokens : 0);
    atomic_fetch_add(&b->server->counts.target_tokens, g->tokens.count);
    return true;
}

static bool on_piece(void *user, size_t prompt, int best, const char *piece) {
    const batch *b = user;
    const serve_unit *unit = &b->units[prompt];
    if (serve_job_stopped(unit->job)) {
        serve_job_cut(b->server, unit->job); /* others may still wait for the batch, which is not cut off then */
        return false;
    }
    if (unit->job->on_piece && *piece)
        unit->job->on_piece(unit->job, (int)unit->piece * unit->job->key.n_best + best, piece);
    return true;
}

/* The ends that a request has besides the model's. */
static bool on_token(void *user, size_t prompt, int best, int32_t id) {
    const batch *b = user;
    const serve_job *job = b->units[prompt].job;
    (void)best;
    for (size_t i = 0; i < job->stop_id_count; i++)
        if (job->stop_ids[i] == id)
            return false;
    return true;
}

static bool on_reject(void *user, size_t prompt, const char *message) {
    const batch *b = user;
    serve_job_fail(b->units[prompt].job, MHD_HTTP_BAD_REQUEST, "prompt %zu: %s", b->units[prompt].piece, message);
    return true;
}

static bool go_on(void *user) {
    const batch *b = user;
    return serve_wanted(b->units, b->count);
}

tfm_status serve_work_generate(serve_worker *w, serve_model *model, const serve_unit *units, size_t count) {
    batch b = {.server = w->server, .units = units, .count = count};
    tfm_prompt *prompts = calloc(count, sizeof(*prompts));
    if (!prompts)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const serve_job *job = units[i].job;
        prompts[i] = (tfm_prompt){.ids = job->ids[units[i].piece], .count = job->id_counts[units[i].piece]};
    }
    tfm_generate_options options = units[0].job->generate; /* equal for all: who draws or stops is alone */
    options.unscored = true;
    bool streams = w->server->devices < 2, stops = false; /* devices share a batch unless a callback hears its tokens */
    for (size_t i = 0; i < count; i++) {
        stops |= units[i].job->stop_id_count > 0;
        streams |= units[i].job->stream != NULL || stops;
    }
    options.on_token = stops ? on_token : NULL;
    options.on_token_user = &b;
    options.on_piece = streams ? on_piece : NULL;
    options.on_piece_user = &b;
    if (!streams)
        options.batch_tokens = serve_queue_part(w, options.batch_tokens, 1);
    options.reject = on_reject;
    options.reject_user = &b;
    options.go_on = go_on;
    options.go_on_user = &b;
    const tfm_status status = tfm_generate(model->seats[w->number].model, prompts, count, &options, on_generation, &b);
    for (size_t i = 0; i < count && b.starved; i++)
        serve_job_fail(units[i].job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the text");
    for (size_t i = 0; i < count && !streams; i++) /* nobody was asked about each of them meanwhile */
        serve_job_cut(b.server, units[i].job);
    free(prompts);
    return b.starved ? TFM_OK : status;
}
