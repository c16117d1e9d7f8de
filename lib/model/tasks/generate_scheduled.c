/* Text generation by an engine, for options that only the engine has: prompts are submitted together, and texts are
 * emitted in the order of the prompts. */
#include "model/tasks/generate_scheduled.h"
#include <math.h>
#include <string.h>
#include "model/tasks/batch.h"
#include "model/tasks/prompts.h"

/* A text that has ended, until it is emitted. */
typedef struct result {
    bool done;
    char *text;
    tfm_generation copy; /* with own ids and log_probs */
} result;

typedef struct call {
    tfm_model *model;
    const tfm_generate_options *options;
    tfm_generation_fn emit;
    void *user;
    tfm_engine *engine;
    result *results; /* [count * n_best] */
    size_t count, n_best, emitted;
    tfm_status status; /* of the callbacks */
} call;

static void *copy_of(const void *from, size_t bytes) {
    void *copy = tfm__alloc(bytes ? bytes : 1, 1);
    if (copy && bytes)
        memcpy(copy, from, bytes);
    return copy;
}

static void clear(result *r) {
    free(r->text);
    free((void *)r->copy.tokens.ids);
    free((void *)r->copy.log_probs);
    *r = (result){.done = r->done};
}

static tfm_status emit_text(call *c, result *r) {
    tfm_token_list *tokens = &r->copy.tokens;
    const char **names = tfm__token_names(c->model, TFM_TARGET, tokens->ids, tokens->count);
    if (!names)
        return TFM_ERROR_MEMORY;
    tokens->tokens = names;
    const bool more = c->emit(c->user, &r->copy);
    free(names);
    return more ? TFM_OK : tfm__fail(TFM_ERROR_CANCELLED, "generate: stopped at prompt %zu", r->copy.prompt + 1);
}

/* Emits the texts of prompts that have ended, up to the first other one. A rejected prompt has one. */
static void emit_done(call *c) {
    for (; c->emitted < c->count && c->status == TFM_OK; c->emitted++) {
        result *first = &c->results[c->emitted * c->n_best];
        size_t done = 0;
        while (done < c->n_best && first[done].done)
            done++;
        if (done < c->n_best)
            return;
        for (size_t k = 0; k < c->n_best; k++) {
            if (c->status == TFM_OK && first[k].text)
                c->status = emit_text(c, &first[k]);
            clear(&first[k]);
        }
    }
}

static bool on_done(void *user, const tfm_generation *g) {
    call *c = user;
    result *r = &c->results[g->prompt * c->n_best + (size_t)g->rank];
    r->copy = *g;
    r->copy.tokens.ids = copy_of(g->tokens.ids, g->tokens.count * sizeof(*g->tokens.ids));
    r->copy.log_probs = copy_of(g->log_probs, g->tokens.count * sizeof(*g->log_probs));
    r->copy.text = r->text = copy_of(g->text, strlen(g->text) + 1);
    r->done = true;
    if (!r->text || !r->copy.tokens.ids || !r->copy.log_probs)
        c->status = TFM_ERROR_MEMORY;
    if (c->options->stats)
        tfm__generate_stats_add(c->options->stats,
                                &(tfm_generate_stats){.prompts = g->rank == 0,
                                                      .prompt_tokens = g->rank ? 0 : g->prompt_tokens,
                                                      .cached_tokens = g->rank ? 0 : g->cached_tokens,
                                                      .new_tokens = g->tokens.count});
    emit_done(c);
    return true;
}

/* A rejected prompt has a text without tokens. */
static tfm_status reject(call *c, size_t prompt) {
    const tfm_generate_options *o = c->options;
    result *r = &c->results[prompt * c->n_best];
    if (!o->reject)
        return tfm__fail(TFM_ERROR_INPUT, "prompt %zu: %s", prompt + 1, tfm_error_message());
    if (!o->reject(o->reject_user, prompt, tfm_error_message()))
        return tfm__fail(TFM_ERROR_CANCELLED, "generate: stopped at prompt %zu", prompt + 1);
    r->copy = (tfm_generation){.prompt = prompt, .text = "", .score = NAN, .log_prob = NAN};
    r->text = copy_of("", 1);
    for (size_t k = 0; k < c->n_best; k++)
        r[k].done = true;
    tfm__engine_skip(c->engine);
    return r->text ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status run(call *c, const tfm_prompt *prompts) {
    const tfm_generate_options *o = c->options;
    tfm_generate_options options = *o;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < c->count && status == TFM_OK; i++) {
        options.first_prompt = o->first_prompt + i;
        status = tfm_engine_submit(c->engine, NULL, &prompts[i], &options, on_done, c);
        if (status == TFM_ERROR_INPUT || (status == TFM_ERROR_ARGUMENT && o->reject))
            status = reject(c, i);
    }
    const double begun = tfm__seconds();
    emit_done(c);
    for (bool more = true; more && status == TFM_OK && c->status == TFM_OK;) {
        if (o->should_continue && !o->should_continue(o->should_continue_user))
            return tfm__fail(TFM_ERROR_CANCELLED, "generate: cancelled");
        status = tfm_engine_step(c->engine, &more);
    }
    if (o->stats)
        o->stats->decode_seconds += tfm__seconds() - begun;
    return status == TFM_OK ? c->status : status;
}

tfm_status tfm__generate_scheduled(tfm_model *model, const tfm_prompt *prompts, size_t count,
                                   const tfm_generate_options *options, tfm_generation_fn emit, void *user) {
    call c = {.model = model,
              .options = options,
              .emit = emit,
              .user = user,
              .count = count,
              .n_best = options->n_best ? (size_t)options->n_best : 1};
    c.results = tfm__alloc(count * c.n_best, sizeof(*c.results));
    tfm_status status = c.results ? tfm_engine_open(&c.engine, model, NULL) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = run(&c, prompts);
    tfm_engine_free(&c.engine);
    for (size_t i = 0; c.results && i < count * c.n_best; i++)
        clear(&c.results[i]);
    free(c.results);
    return status;
}
