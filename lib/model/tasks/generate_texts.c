/* Text generation: prompts are encoded, batched, continued, and emitted in order. */
#include <math.h>
#include <string.h>
#include "model/decode/decode_loop.h"
#include "model/tasks/batch.h"
#include "model/tasks/generate_scheduled.h"
#include "model/tasks/prompts.h"

/* Tokens of a batch, including new ones. */
enum { BATCH_TOKENS = 16384 };

/* State of a text. */
typedef struct text {
    tfm__incremental_detokenizer detokenizer;
    size_t at, reported; /* tokens of the running batch, and tokens handled in total: a batch may restart */
    bool ended;          /* by a stop string or a callback, at the last token handled */
    bool refused;        /* on_piece returned false; it is not called again */
    tfm_hypothesis hypothesis;
    tfm_finish_reason end;
} text;

typedef struct job {
    tfm_model *model;
    const tfm_prompt *prompts;
    size_t count;
    const tfm_generate_options *options;
    tfm__generate_params rules;
    tfm_generation_fn emit;
    void *user;
    tfm__line *lines; /* [count]: prompts */
    text *texts;      /* [count * n_best] */
    size_t emitted;
    tfm_generate_stats *spent; /* [count]: statistics of a batch, at its first prompt; others 0 */
    tfm__cancellation cancellation;
    bool shared; /* the call runs on several devices */
} job;

/* A running batch. */
typedef struct running {
    job *job;
    tfm__line *const *batch;
    tfm_status status; /* of its callbacks */
} running;

/* ---- Prompts ------------------------------------------------------------------------------------------- */

static tfm_status reject(const job *j, tfm__line *line, tfm_status status, const char *saved_message) {
    const tfm_text_options options = {.reject = j->options->reject, .reject_user = j->options->reject_user};
    return tfm__line_reject(line, "", &options, status, saved_message);
}

static tfm_status read_prompts(job *j) {
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    j->lines = tfm__alloc(j->count, sizeof(*j->lines));
    tfm_status status = j->lines ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < j->count && status == TFM_OK; i++) {
        tfm__line *line = &j->lines[i];
        line->index = line->line = i;
        status = tfm__prompt_read(j->model, &line->ids, &line->count, &j->prompts[i]);
        if (status == TFM_OK)
            status = tfm__prompt_check(j->model, "the prompt ", line->ids, line->count);
        if (status == TFM_ERROR_INPUT || (status == TFM_ERROR_ARGUMENT && j->options->reject))
            status = reject(j, line, status, saved_message);
        line->cost = line->count + (size_t)(j->rules.beam_size * j->rules.copies) *
                                       (size_t)tfm__generate_limit(&j->rules, j->model, line->count);
    }
    return status;
}

/* ---- Texts --------------------------------------------------------------------------------------------- */

/* Calls back with the text's next piece. */
static void emit_piece(const job *j, text *t, size_t prompt, int best, bool ended) {
    if (j->options->on_text && !t->refused)
        t->refused = !tfm__incremental_detokenizer_emit(&t->detokenizer, ended, j->options->on_text,
                                                        j->options->on_text_user, prompt, best);
}

/* Handles a new token of a running batch. */
static bool stream_token(void *user, size_t number, int32_t id) {
    running *r = user;
    job *j = r->job;
    const size_t copies = (size_t)j->rules.copies, prompt = r->batch[number / copies]->index;
    const int best = (int)(number % copies);
    text *t = &j->texts[prompt * (size_t)j->rules.n_best + (size_t)best];
    if (++t->at <= t->reported)
        return t->at < t->reported || !t->ended;
    t->reported = t->at;
    if (j->options->on_token && !j->options->on_token(j->options->on_token_user, prompt, best, id))
        t->ended = true;
    if (j->model->tokenizer && r->status == TFM_OK)
        r->status = tfm__incremental_detokenizer_push(&t->detokenizer, id);
    emit_piece(j, t, prompt, best, false);
    t->ended = t->ended || t->refused || t->detokenizer.stopped || r->status != TFM_OK;
    return !t->ended;
}

/* Detokenizes a result that was not streamed. */
static tfm_status detokenize(const job *j, text *t) {
    tfm_status status = TFM_OK;
    if (!j->model->tokenizer)
        return TFM_OK;
    if (t->refused) { /* the text ends with the last piece reported */
        t->detokenizer.bytes = t->detokenizer.emitted_bytes;
        t->detokenizer.text[t->detokenizer.bytes] = 0;
        return TFM_OK;
    }
    for (int i = 0; t->reported == 0 && i < t->hypothesis.tokens && status == TFM_OK; i++)
        status = tfm__incremental_detokenizer_push(&t->detokenizer, t->hypothesis.ids[i]);
    return status == TFM_OK ? tfm__incremental_detokenizer_finish(&t->detokenizer) : status;
}

/* ---- Emission ------------------------------------------------------------------------------------------ */

static tfm_status emit_text(const job *j, size_t prompt, int best) {
    const text *t = &j->texts[prompt * (size_t)j->rules.n_best + (size_t)best];
    const tfm_hypothesis *h = &t->hypothesis;
    const bool rejected = j->lines[prompt].rejected;
    tfm_generation g = {.prompt = prompt,
                        .rank = best,
                        .text = t->detokenizer.text ? t->detokenizer.text : "",
                        .score = rejected ? NAN : h->score,
                        .log_prob = rejected ? NAN : h->log_prob,
                        .prompt_tokens = j->lines[prompt].count,
                        .tokens = {.count = (size_t)h->tokens, .ids = h->ids},
                        .log_probs = h->log_probs,
                        .finish_reason = t->end};
    const char **names = tfm__token_names(j->model, TFM_TARGET, h->ids, (size_t)h->tokens);
    if (!names)
        return TFM_ERROR_MEMORY;
    g.tokens.tokens = names;
    const bool more = j->emit(j->user, &g);
    free(names);
    return more ? TFM_OK : tfm__fail(TFM_ERROR_CANCELLED, "generate: stopped at prompt %zu", prompt + 1);
}

static void clear(text *t) {
    tfm__incremental_detokenizer_free(&t->detokenizer);
    tfm__hypothesis_clear(&t->hypothesis);
}

/* Emits finished prompts, up to the first unfinished one. */
static tfm_status emit_done(job *j) {
    tfm_status status = TFM_OK;
    for (; j->emitted < j->count && status == TFM_OK; j->emitted++) {
        const size_t i = j->emitted;
        if (!j->lines[i].done && !j->lines[i].rejected)
            break;
        for (int best = 0; best < (j->lines[i].rejected ? 1 : j->rules.n_best) && status == TFM_OK; best++)
            status = emit_text(j, i, best);
        for (int best = 0; best < j->rules.n_best; best++)
            clear(&j->texts[i * (size_t)j->rules.n_best + (size_t)best]);
    }
    return status;
}

/* ---- Batches ------------------------------------------------------------------------------------------- */

/* Stores the results, completes the texts, and calls back. */
static tfm_status store_results(job *j, tfm__line *const *batch, tfm_hypotheses *found, const tfm_finish_reason *ended,
                                size_t n) {
    const size_t n_best = (size_t)j->rules.n_best;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < n * n_best && status == TFM_OK; i++) {
        const size_t prompt = batch[i / n_best]->index;
        text *t = &j->texts[prompt * n_best + i % n_best];
        tfm__hypothesis_clear(&t->hypothesis);
        t->hypothesis = found->items[i];
        found->items[i] = (tfm_hypothesis){0};
        t->end = ended[i];
        status = detokenize(j, t);
        if (t->detokenizer.stopped)
            t->end = TFM_FINISH_STOP; /* the stop string was in the remaining text */
        if (status == TFM_OK)
            emit_piece(j, t, prompt, (int)(i % n_best), true);
    }
    return status;
}

static tfm_status begin_texts(job *j, tfm__line *const *batch, size_t n) {
    const size_t n_best = (size_t)j->rules.n_best;
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < n * n_best && status == TFM_OK; i++) {
        const tfm__line *line = batch[i / n_best];
        j->spent[line->index] = (tfm_generate_stats){0};
        text *t = &j->texts[line->index * n_best + i % n_best];
        t->at = 0;
        if (!j->options->on_token && !j->options->on_text) { /* nothing was reported, so the text restarts too */
            t->reported = 0;
            t->ended = false;
        }
        if (t->reported > 0 || !j->model->tokenizer)
            continue;
        tfm__incremental_detokenizer_free(&t->detokenizer);
        status = tfm__incremental_detokenizer_begin(&t->detokenizer, j->model->tokenizer, j->options->stop_strings,
                                                    j->options->stop_string_count, line->ids, line->count);
    }
    return status;
}

static tfm_status run_batch(void *user, tfm_model *on, tfm__line *const *batch, size_t n) {
    job *j = user;
    running r = {j, batch, TFM_OK};
    const tfm_generate_options *o = j->options;
    const size_t texts = n * (size_t)j->rules.n_best;
    const tfm__streamer streamer = {stream_token, &r};
    const bool is_streamed = j->rules.beam_size == 1 && (o->on_token || o->on_text || o->stop_string_count > 0);
    tfm_generate_stats done = {0};
    const tfm__generate_run how = {.streamer = is_streamed ? &streamer : NULL,
                                   .should_continue = j->shared ? tfm__not_cancelled : o->should_continue,
                                   .should_continue_user = j->shared ? &j->cancellation : o->should_continue_user,
                                   .stats = o->stats ? &done : NULL,
                                   .prompt_cache = o->prompt_cache};
    tfm_hypotheses found = {.sentences = n, .n_best = j->rules.n_best};
    const int32_t **ids = tfm__alloc(n, sizeof(*ids));
    size_t *counts = tfm__alloc(n, sizeof(*counts));
    uint64_t *numbers = tfm__alloc(n, sizeof(*numbers));
    tfm_finish_reason *ended = tfm__alloc(texts, sizeof(*ended));
    found.items = tfm__alloc(texts, sizeof(*found.items));
    tfm_status status = ids && counts && numbers && ended && found.items ? begin_texts(j, batch, n) : TFM_ERROR_MEMORY;
    for (size_t i = 0; status == TFM_OK && i < n; i++) {
        ids[i] = batch[i]->ids;
        counts[i] = batch[i]->count;
        numbers[i] = o->first_prompt + batch[i]->index;
    }
    if (status == TFM_OK)
        status =
            tfm__generate_batch(on, &found, ended, &(tfm__generate_input){ids, counts, numbers, n}, &j->rules, &how);
    if (status == TFM_OK)
        status = r.status == TFM_OK ? store_results(j, batch, &found, ended, n) : r.status;
    if (status == TFM_OK)
        j->spent[batch[0]->index] = done;
    tfm_hypotheses_free(&found);
    free(ids);
    free(counts);
    free(numbers);
    free(ended);
    return status;
}

/* Counts a batch, and emits the prompts that are finished. */
static tfm_status batch_done(void *user, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_generate_stats *stats = j->options->stats;
    for (size_t i = 0; i < n; i++) {
        batch[i]->done = true;
        if (stats)
            tfm__generate_stats_add(stats, &j->spent[batch[i]->index]);
    }
    return emit_done(j);
}

static tfm_status run(job *j) {
    const tfm_text_options plain = {0};
    const int tokens = j->options->batch_tokens ? j->options->batch_tokens : BATCH_TOKENS;
    const int rows = j->rules.beam_size * j->rules.copies;
    const tfm__batch_work work = {.kind = TFM__BATCH_GENERATE,
                                  .run = run_batch,
                                  .done = batch_done,
                                  .user = j,
                                  .cancellation = &j->cancellation,
                                  .serial = j->options->on_token || j->options->on_text};
    j->cancellation.should_continue = j->options->should_continue;
    j->cancellation.user = j->options->should_continue_user;
    const tfm__batch_limit limit = tfm__batch_limits(j->model, tokens, rows);
    tfm_status status = read_prompts(j);
    if (status == TFM_OK && !work.serial)
        tfm__batches_open_spare(j->model, j->lines, j->count, limit);
    j->shared = tfm__batches_are_parallel(j->model) && !work.serial;
    j->spent = tfm__alloc(j->count, sizeof(*j->spent));
    j->texts = tfm__alloc(j->count * (size_t)j->rules.n_best, sizeof(*j->texts));
    if (status == TFM_OK && (!j->spent || !j->texts))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = emit_done(j); /* rejected prompts at the beginning */
    if (status == TFM_OK)
        status = tfm__batches_run(j->model, j->lines, j->count, limit, &plain, &work);
    if (status == TFM_OK)
        status = emit_done(j); /* rejected prompts at the end */
    for (size_t i = 0; j->texts && i < j->count * (size_t)j->rules.n_best; i++)
        clear(&j->texts[i]);
    tfm__lines_free(&j->lines, j->count);
    free(j->texts);
    free(j->spent);
    return status;
}

tfm_status tfm_generate(tfm_model *model, const tfm_prompt *prompts, size_t count, const tfm_generate_options *options,
                        tfm_generation_fn emit, void *user) {
    static const tfm_generate_options defaults;
    if (TFM__NEEDS("generate", model, prompts, emit ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    job j = {.model = model,
             .prompts = prompts,
             .count = count,
             .options = options ? options : &defaults,
             .emit = emit,
             .user = user};
    tfm_status status = tfm__generate_params_of(model, &j.rules, j.options);
    if (status == TFM_OK)
        status = tfm__prompts_check(model, prompts, count, j.options);
    if (status == TFM_OK)
        status = tfm__prompt_cache_check(model, j.options, count);
    if (status != TFM_OK || count == 0)
        return status;
    return j.rules.scheduled ? tfm__generate_scheduled(model, prompts, count, j.options, emit, user) : run(&j);
}
