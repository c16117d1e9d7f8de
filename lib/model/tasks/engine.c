/* The decode engine: texts and requests around the scheduler of token sequences. */
#include <math.h>
#include <string.h>
#include "model/decode/scheduler.h"
#include "model/tasks/batch.h"
#include "model/tasks/generate_scheduled.h"
#include "model/tasks/prompts.h"
#include "ops/attention/kv_quantize.h"

enum { DEFAULT_SEQUENCES = 32, MEMORY_PART = 8 };

typedef struct request request;

/* One text of a request. */
typedef struct text {
    request *request;
    int rank;
    tfm__sequence *sequence; /* NULL: not submitted, or ended */
    tfm__incremental_detokenizer detokenizer;
    int32_t *ids;     /* [count] */
    float *log_probs; /* [count] */
    size_t count, room;
} text;

struct request {
    request *next;
    tfm_engine *engine;
    uint64_t number;
    tfm_generate_options options;
    double length_penalty;
    size_t prompt_tokens;
    tfm_generation_fn done;
    void *user;
    int count, left; /* texts, and unfinished ones */
    bool reporting;  /* in a callback: freed after it */
    text texts[];
};

struct tfm_engine {
    tfm_model *model; /* retained */
    tfm__scheduler *scheduler;
    request *requests;
    uint64_t numbers;  /* submitted so far */
    tfm_status status; /* a failure in a callback */
};

/* ---- Creation ------------------------------------------------------------------------------------------ */

/* Slots that take a part of the device's memory, enough for one text of any length. */
static int64_t default_slots(const tfm_model *model, int sequences) {
    const tfm__stack_arch *arch = &model->arch.decoder;
    const uint64_t slot = 2 *
                          (uint64_t)(arch->layers * arch->kv_heads * tfm__kv_span(model->kv_dtype, arch->head_width)) *
                          tfm_dtype_size(model->kv_dtype);
    const int64_t fit = (int64_t)(tfm_context_device(model->ctx)->memory_bytes / MEMORY_PART / (slot ? slot : 1));
    const int64_t one = model->info.max_positions + 1, all = one * sequences;
    return fit < one ? one : fit < all ? fit : all;
}

tfm_status tfm_engine_open(tfm_engine **out, tfm_model *model, const tfm_engine_options *options) {
    static const tfm_engine_options defaults;
    const tfm_engine_options *o = options ? options : &defaults;
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("engine_open", out, model) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(o))
        return tfm__fail(TFM_ERROR_ARGUMENT, "engine_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (o->max_sequences < 0 || o->max_cache_tokens < 0 || o->prefill_tokens < 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "engine_open: max_sequences %d, max_cache_tokens %lld and prefill_tokens "
                         "%d must be positive, or 0 for the default",
                         o->max_sequences, (long long)o->max_cache_tokens, o->prefill_tokens);
    if (tfm__batches_are_parallel(model))
        return tfm__fail(TFM_ERROR_ARGUMENT, "engine_open: the model was opened on several devices: open it on one");
    tfm_status status = tfm__model_needs(model, "engine_open", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT);
    if (status == TFM_OK)
        status = tfm__context_ready(model->ctx, "engine_open");
    if (status != TFM_OK)
        return status;
    tfm_engine *e = tfm__alloc(1, sizeof(*e));
    if (!e)
        return TFM_ERROR_MEMORY;
    const int sequences = o->max_sequences ? o->max_sequences : DEFAULT_SEQUENCES;
    *e = (tfm_engine){.model = tfm__model_retain(model)};
    status = tfm__scheduler_new(
        &e->scheduler, model,
        &(tfm__scheduler_options){.sequences = sequences,
                                  .slots = o->max_cache_tokens ? o->max_cache_tokens : default_slots(model, sequences),
                                  .prefill_tokens = o->prefill_tokens});
    if (status != TFM_OK)
        tfm_engine_free(&e);
    *out = e;
    return status;
}

static void request_free(request *r) {
    for (int i = 0; i < r->count; i++) {
        tfm__incremental_detokenizer_free(&r->texts[i].detokenizer);
        free(r->texts[i].ids);
        free(r->texts[i].log_probs);
    }
    free(r);
}

/* Unlinks and frees a request whose texts have ended. */
static void remove_request(request *r) {
    request **at = &r->engine->requests;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    request_free(r);
}

void tfm_engine_free(tfm_engine **pointer) {
    tfm_engine *e = pointer ? *pointer : NULL;
    if (!e)
        return;
    *pointer = NULL;
    tfm__scheduler_free(e->scheduler);
    while (e->requests) {
        request *r = e->requests;
        e->requests = r->next;
        request_free(r);
    }
    tfm_model_free(&e->model);
    free(e);
}

/* ---- Callbacks of the scheduler ------------------------------------------------------------------------ */

static bool push(text *t, int32_t id, float log_prob) {
    if (t->count == t->room) {
        const size_t room = t->room ? 2 * t->room : 64;
        int32_t *ids = realloc(t->ids, room * sizeof(*ids));
        t->ids = ids ? ids : t->ids;
        float *log_probs = ids ? realloc(t->log_probs, room * sizeof(*log_probs)) : NULL;
        t->log_probs = log_probs ? log_probs : t->log_probs;
        if (!log_probs)
            return false;
        t->room = room;
    }
    t->ids[t->count] = id;
    t->log_probs[t->count++] = log_prob;
    return true;
}

/* Whether the request still runs after a callback, which may have cancelled it. */
static bool still_runs(text *t) {
    t->request->reporting = false;
    return t->request->left > 0;
}

static bool on_token(void *user, int32_t id, const tfm_token_log_probs *log_probs) {
    text *t = user;
    request *r = t->request;
    tfm_engine *e = r->engine;
    bool more = true;
    if (!push(t, id, log_probs->log_prob)) {
        e->status = tfm__fail(TFM_ERROR_MEMORY, "engine: out of host memory for a text");
        return false;
    }
    r->reporting = true;
    if (r->options.on_log_probs)
        r->options.on_log_probs(r->options.on_log_probs_user, (size_t)r->number, t->rank, id, log_probs);
    if (r->left > 0 && r->options.on_token)
        more = r->options.on_token(r->options.on_token_user, (size_t)r->number, t->rank, id);
    if (r->left > 0 && e->model->tokenizer && e->status == TFM_OK)
        e->status = tfm__incremental_detokenizer_push(&t->detokenizer, id);
    if (r->left > 0 && r->options.on_text &&
        !tfm__incremental_detokenizer_emit(&t->detokenizer, false, r->options.on_text, r->options.on_text_user,
                                           (size_t)r->number, t->rank)) {
        t->detokenizer.bytes = t->detokenizer.emitted_bytes; /* the text ends with this part */
        t->detokenizer.text[t->detokenizer.bytes] = 0;
        t->detokenizer.stopped = true;
    }
    more = more && !t->detokenizer.stopped && e->status == TFM_OK;
    if (still_runs(t))
        return more;
    remove_request(r);
    return true; /* it was cancelled */
}

static void finish(text *t, tfm_finish_reason reason, size_t cached) {
    request *r = t->request;
    tfm_engine *e = r->engine;
    const bool scored = !r->options.skip_scores;
    double log_prob = 0;
    if (e->model->tokenizer && e->status == TFM_OK)
        e->status = tfm__incremental_detokenizer_finish(&t->detokenizer);
    if (r->options.on_text && !t->detokenizer.stopped)
        tfm__incremental_detokenizer_emit(&t->detokenizer, true, r->options.on_text, r->options.on_text_user,
                                          (size_t)r->number, t->rank);
    if (r->left == 0) /* the callback has cancelled it */
        return;
    for (size_t i = 0; i < t->count && scored; i++)
        log_prob += (double)t->log_probs[i];
    const char **names = tfm__token_names(e->model, TFM_TARGET, t->ids, t->count);
    if (!names) {
        e->status = TFM_ERROR_MEMORY;
        return;
    }
    r->done(r->user, &(tfm_generation){.prompt = (size_t)r->number,
                                       .rank = t->rank,
                                       .text = t->detokenizer.text ? t->detokenizer.text : "",
                                       .score = log_prob / pow((double)(t->count ? t->count : 1), r->length_penalty),
                                       .log_prob = log_prob,
                                       .prompt_tokens = r->prompt_tokens,
                                       .cached_tokens = cached,
                                       .tokens = {.count = t->count, .ids = t->ids, .tokens = names},
                                       .log_probs = t->log_probs,
                                       .finish_reason = t->detokenizer.stopped ? TFM_FINISH_STOP : reason});
    free(names);
}

static void on_end(void *user, tfm_finish_reason reason, int64_t cached) {
    text *t = user;
    request *r = t->request;
    t->sequence = NULL;
    r->reporting = true;
    finish(t, reason, cached > 0 ? (size_t)cached : 0);
    if (r->left > 0)
        r->left--;
    if (!still_runs(t))
        remove_request(r);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

static void cancel(request *r) {
    for (int i = 0; i < r->count; i++)
        if (r->texts[i].sequence) {
            tfm__scheduler_cancel(r->engine->scheduler, r->texts[i].sequence);
            r->texts[i].sequence = NULL;
        }
    r->left = 0;
    if (!r->reporting)
        remove_request(r);
}

void tfm_engine_cancel(tfm_engine *e, uint64_t number) {
    for (request *r = e ? e->requests : NULL; r; r = r->next)
        if (r->number == number) {
            cancel(r);
            return;
        }
}

static tfm_status begin_texts(request *r, const tfm__generate_params *params, const int32_t *ids) {
    tfm_engine *e = r->engine;
    tfm_status status = TFM_OK;
    for (int i = 0; i < r->count && status == TFM_OK; i++) {
        text *t = &r->texts[i];
        *t = (text){.request = r, .rank = i};
        if (e->model->tokenizer)
            status = tfm__incremental_detokenizer_begin(&t->detokenizer, e->model->tokenizer, r->options.stop_strings,
                                                        r->options.stop_string_count, ids, r->prompt_tokens);
        if (status != TFM_OK)
            break;
        status = tfm__scheduler_add(
            e->scheduler, &t->sequence,
            &(tfm__sequence_request){.ids = ids,
                                     .count = r->prompt_tokens,
                                     .params = *params,
                                     .stream = (uint32_t)(r->options.first_prompt * (uint64_t)r->count + (uint64_t)i),
                                     .on_token = on_token,
                                     .on_end = on_end,
                                     .user = t});
    }
    return status;
}

static tfm_status submit(tfm_engine *e, request **out, const tfm_prompt *prompt, const tfm_generate_options *options) {
    tfm__generate_params params;
    int32_t *ids = NULL;
    size_t count = 0;
    tfm_status status = tfm__generate_params_of(e->model, &params, options);
    if (status == TFM_OK && (params.beam_size > 1 || options->prompt_cache))
        status = tfm__fail(TFM_ERROR_UNSUPPORTED, "engine_submit: %s is not supported: use tfm_generate",
                           params.beam_size > 1 ? "beam search" : "a prompt cache");
    if (status == TFM_OK)
        status = tfm__prompts_check(e->model, prompt, 1, options);
    if (status == TFM_OK)
        status = tfm__prompt_read(e->model, &ids, &count, prompt);
    if (status == TFM_OK)
        status = tfm__prompt_check(e->model, "the prompt ", ids, count);
    request *r = status == TFM_OK ? tfm__alloc(1, sizeof(*r) + (size_t)params.n_best * sizeof(*r->texts)) : NULL;
    if (status == TFM_OK && !r)
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK) {
        *r = (request){.next = e->requests,
                       .engine = e,
                       .options = *options,
                       .length_penalty = params.length_penalty,
                       .prompt_tokens = count,
                       .count = params.n_best,
                       .left = params.n_best};
        e->requests = r;
        status = begin_texts(r, &params, ids);
        if (status != TFM_OK)
            cancel(r);
    }
    tfm_ids_free(&ids);
    *out = r;
    return status;
}

tfm_status tfm_engine_submit(tfm_engine *e, uint64_t *number, const tfm_prompt *prompt,
                             const tfm_generate_options *options, tfm_generation_fn done, void *user) {
    static const tfm_generate_options defaults;
    request *r = NULL;
    if (TFM__NEEDS("engine_submit", e, prompt, done ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const tfm_status status = submit(e, &r, prompt, options ? options : &defaults);
    if (status != TFM_OK)
        return status;
    r->number = e->numbers++;
    r->done = done;
    r->user = user;
    if (number)
        *number = r->number;
    return TFM_OK;
}

void tfm__engine_skip(tfm_engine *e) {
    e->numbers++;
}

tfm_status tfm_engine_step(tfm_engine *e, bool *more) {
    if (TFM__NEEDS("engine_step", e, more) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const tfm_status status = tfm__scheduler_step(e->scheduler, more);
    return status == TFM_OK ? e->status : status;
}

tfm_engine_stats tfm_engine_get_stats(const tfm_engine *e) {
    const tfm__scheduler_counts c = e ? tfm__scheduler_get_counts(e->scheduler) : (tfm__scheduler_counts){0};
    return (tfm_engine_stats){.waiting = c.waiting,
                              .running = c.running,
                              .steps = c.steps,
                              .new_tokens = c.tokens,
                              .prompt_tokens = c.prefilled,
                              .cached_tokens = c.cached,
                              .preemptions = c.preempted,
                              .cache_tokens = (uint64_t)c.slots,
                              .drafted_tokens = c.drafted,
                              .accepted_tokens = c.accepted};
}
