/* The scheduler: which sequences run in a step. scheduler_step.c runs the model. */
#include <string.h>
#include "model/decode/scheduler_step.h"
#include "ops/ops.h"
#include "text/tokenizer.h"

enum { FIRST_DRAFTS = 3 }; /* of a sequence; doubled while all are accepted */

/* ---- Creation ------------------------------------------------------------------------------------------ */

tfm_status tfm__scheduler_new(tfm__scheduler **out, tfm_model *model, const tfm__scheduler_options *options) {
    tfm__scheduler *s = *out = NULL;
    if (model->arch.encoder.layers || model->arch.decoder.recurrent)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "continuous batching of generated texts needs a decoder-only model, "
                         "not one of the family %s",
                         model->family->name);
    if ((int64_t)options->sequences * model->arch.decoder.vocabulary > INT32_MAX)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "continuous batching of %d sequences with a vocabulary of %d: their logits "
                         "are more than 2^31: allow fewer sequences",
                         options->sequences, model->arch.decoder.vocabulary);
    s = *out = tfm__alloc(1, sizeof(*s));
    if (!s)
        return TFM_ERROR_MEMORY;
    *s = (tfm__scheduler){.model = model, .options = *options};
    tfm_status status = tfm__kv_pool_begin(&s->pool, model, options->slots);
    if (!s->pool.shares) /* RoPE frequencies depend on the length of the sequence: no two in one step */
        s->options.sequences = 1;
    const size_t rows = (size_t)tfm__scheduler_most_rows(s);
    s->live = tfm__alloc(rows, sizeof(tfm__sequence *));
    for (int i = 0; i < 2; i++) {
        s->flights[i].rows = tfm__alloc(rows, sizeof(tfm__sequence *));
        if (!s->flights[i].rows)
            status = TFM_ERROR_MEMORY;
    }
    if (status == TFM_OK && s->live)
        status = tfm__scheduler_step_begin(s);
    return s->live ? status : TFM_ERROR_MEMORY;
}

void tfm__scheduler_free(tfm__scheduler *s) {
    if (!s)
        return;
    for (tfm__sequence *q = s->sequences, *next; q; q = next) {
        next = q->next;
        tfm__matcher_free(&q->matcher);
        free(q);
    }
    tfm__scheduler_step_end(s);
    tfm__kv_pool_free(&s->pool);
    free(s->flights[0].rows);
    free(s->flights[1].rows);
    free(s->live);
    free(s);
}

/* Gives a sequence its grammar. */
static tfm_status constrain(tfm__scheduler *s, tfm__sequence *q, const tfm_grammar *grammar) {
    const tfm_tokenizer *tokenizer = s->model->tokenizer;
    if (!tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer, which a grammar needs");
    q->needs_tokens = true;
    tfm_status status = TFM_OK;
    if (!s->model->trie) /* the same for all engines: a grammar keeps masks for each trie */
        status = tfm__tokenizer_token_trie(&s->model->trie, tokenizer, (size_t)s->model->arch.decoder.vocabulary);
    return status == TFM_OK ? tfm__matcher_new(&q->matcher, grammar, s->model->trie) : status;
}

tfm_status tfm__scheduler_add(tfm__scheduler *s, tfm__sequence **out, const tfm__sequence_request *request) {
    const int64_t limit = tfm__generate_limit(&request->params, s->model, request->count);
    *out = NULL;
    tfm_status status = tfm__logit_edits_check(&s->model->rules, &request->params);
    if (status != TFM_OK)
        return status;
    if ((int64_t)request->count + limit > s->pool.most)
        return tfm__fail(
            TFM_ERROR_INPUT,
            "the prompt has %zu tokens, and with %lld new ones it exceeds the %lld tokens of the KV cache: "
            "shorten it, or ask for fewer new tokens",
            request->count, (long long)limit, (long long)s->pool.most);
    tfm__sequence *q = tfm__alloc(1, sizeof(*q));
    if (!q)
        return TFM_ERROR_MEMORY;
    *q = (tfm__sequence){
        .request = *request, .prompt = (int64_t)request->count, .limit = limit, .found = -1, .next = s->sequences};
    q->width = request->params.prompt_lookup < FIRST_DRAFTS ? request->params.prompt_lookup : FIRST_DRAFTS;
    q->run = tfm__kv_pool_add(&s->pool, request->ids, request->count);
    q->needs_tokens = tfm__logit_edits_need_tokens(&s->model->rules, &request->params);
    status = !q->run ? TFM_ERROR_MEMORY : request->params.grammar ? constrain(s, q, request->params.grammar) : TFM_OK;
    if (status != TFM_OK) {
        if (q->run)
            tfm__kv_pool_retire(&s->pool, q->run);
        free(q);
        return status;
    }
    tfm__sequence **last = &s->waiting;
    while (*last)
        last = &(*last)->queue;
    *last = s->sequences = *out = q;
    return TFM_OK;
}

/* ---- Ends ---------------------------------------------------------------------------------------------- */

/* Frees an ended sequence once no step computes a token of it. */
static void release(tfm__scheduler *s, tfm__sequence *q) {
    if (!q->over || q->flights > 0)
        return;
    tfm__kv_pool_retire(&s->pool, q->run);
    tfm__sequence **at = &s->sequences;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    tfm__matcher_free(&q->matcher);
    free(q);
}

/* Takes a sequence out of the queue and the running ones. */
static void leave(tfm__scheduler *s, tfm__sequence *q) {
    tfm__sequence **at = &s->waiting;
    while (*at && *at != q)
        at = &(*at)->queue;
    if (*at)
        *at = q->queue;
    for (size_t i = 0; i < s->live_count; i++)
        if (s->live[i] == q) {
            memmove(s->live + i, s->live + i + 1, (s->live_count - i - 1) * sizeof(tfm__sequence *));
            s->live_count--;
        }
    s->full = false;
    q->over = true;
}

void tfm__scheduler_cancel(tfm__scheduler *s, tfm__sequence *q) {
    if (q->over)
        return;
    leave(s, q);
    if (!q->reporting)
        release(s, q);
}

static void end(tfm__scheduler *s, tfm__sequence *q, tfm_finish_reason reason) {
    leave(s, q);
    if (q->request.on_end)
        q->request.on_end(q->request.user, reason, q->found);
}

/* Adds a token to the text of a grammar. False if the grammar is too ambiguous to go further. */
static bool follows(tfm__scheduler *s, tfm__sequence *q, int32_t id) {
    const tfm_status status = tfm__matcher_accept(q->matcher, id);
    if (status == TFM_ERROR_INPUT)
        tfm__context_fail(s->model->ctx, TFM_ERROR_DEVICE, "scheduler: the device chose a token that was masked");
    else if (status != TFM_OK)
        tfm__log(TFM_LOG_WARNING, "a text ends before it is complete: %s", tfm_error_message());
    return status == TFM_OK;
}

/* Hands a token to its sequence. */
static void report(tfm__scheduler *s, tfm__sequence *q, int32_t id, const tfm_token_log_probs *log_probs) {
    const tfm__sequence_request *r = &q->request;
    bool more = true;
    if (id >= 0) { /* else all tokens were suppressed */
        if (!tfm__kv_run_push(q->run, id)) {
            tfm__context_fail(s->model->ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
            return;
        }
        q->made++;
        q->reporting = true;
        more = r->on_token(r->user, id, log_probs);
        q->reporting = false;
    }
    const bool ends = id < 0 || tfm__sequence_ends(s, q, id);
    const bool broken = q->matcher && (ends ? !tfm__matcher_may_end(q->matcher) : !q->over && !follows(s, q, id));
    if (q->over || (more && !ends && !broken && q->made < q->limit))
        return;
    end(s, q, !more ? TFM_FINISH_STOP : ends && !broken ? TFM_FINISH_EOS : TFM_FINISH_LENGTH);
}

/* Hands the tokens of rows [first, end) to their sequence: the first, and one after each draft that is the token before
 * it. */
static void report_rows(tfm__scheduler *s, const tfm__flight *flight, const int32_t *tokens, int64_t first,
                        int64_t end) {
    float log_probs[TFM__MAX_TOP];
    tfm__sequence *q = flight->rows[first];
    int64_t i = first;
    for (bool agrees = true; i < end && agrees && !q->over; i++) {
        const tfm_token_log_probs scores = tfm__flight_log_probs(flight, i, log_probs);
        agrees = i + 1 < end && q->run->ids[q->run->count] == tokens[i];
        report(s, q, tokens[i], &scores);
    }
    if (end - first > 1 && i > first) {
        tfm__sequence_judge(s, q, end - first - 1, i - first - 1);
        tfm__kv_pool_trim(&s->pool, q->run, q->run->count - 1);
    }
}

/* Waits for the tokens of a step, and hands them out. */
static tfm_status collect(tfm__scheduler *s, tfm__flight *flight) {
    const int32_t *tokens = flight->count > 0 ? tfm__flight_wait(s, flight) : NULL;
    for (int64_t i = 0, end; tokens && i < flight->count; i = end) {
        tfm__sequence *q = flight->rows[i];
        for (end = i + 1; end < flight->count && flight->rows[end] == q;)
            end++;
        q->flights--;
        report_rows(s, flight, tokens, i, end);
        release(s, q);
    }
    tfm__flight_free(s, flight);
    return tfm_context_status(s->model->ctx);
}

/* ---- Admission and preemption -------------------------------------------------------------------------- */

static void admit(tfm__scheduler *s) {
    while (s->waiting && s->live_count < (size_t)s->options.sequences && !s->full) {
        tfm__sequence *q = s->waiting;
        s->waiting = q->queue;
        q->queue = NULL;
        s->live[s->live_count++] = q;
        s->counts.admitted++;
    }
}

/* Makes room for `count` slots. The youngest sequences give theirs back, and are computed again later; one that does
 * not fit alone ends. *left: whether the sequence `by` is still running, and there is room; NULL for none. */
static tfm_status reserve(tfm__scheduler *s, int64_t count, const tfm__sequence *by, bool *left) {
    bool enough = false;
    *left = true;
    tfm_status status = tfm__kv_pool_reserve(&s->pool, count, &enough);
    while (status == TFM_OK && !enough && *left && s->live_count > 0) {
        tfm__sequence *q = s->live[s->live_count - 1];
        if (s->ahead && s->flights[s->newest].count > 0) { /* its tokens may end sequences: in the next step */
            *left = false;
            return TFM_OK;
        }
        *left = q != by;
        if (s->live_count == 1) { /* memory was available when it was accepted */
            end(s, q, TFM_FINISH_LENGTH);
            release(s, q);
            *left = false;
            return TFM_OK;
        }
        s->live_count--;
        tfm__kv_pool_drop(&s->pool, q->run);
        q->queue = s->waiting;
        s->waiting = q;
        s->full = true; /* until a sequence ends */
        s->counts.preempted++;
        if (*left)
            status = tfm__kv_pool_reserve(&s->pool, count, &enough);
    }
    return status;
}

/* Keys of other RoPE frequencies than the next step's are computed again. */
static void drop_other_frequencies(tfm__scheduler *s) {
    for (size_t i = 0; i < s->live_count && !s->pool.shares; i++) {
        tfm__kv_run *run = s->live[i]->run;
        if (run->cached > 0 && !tfm__model_rope_matches(s->model, run->length, run->count))
            tfm__kv_pool_drop(&s->pool, run);
    }
}

/* Takes a common prefix before the first token is computed. */
static void share(tfm__scheduler *s, tfm__sequence *q) {
    if (q->run->cached > 0 || q->flights > 0)
        return;
    tfm__kv_pool_share(&s->pool, q->run);
    s->counts.cached += q->found < 0 ? (uint64_t)q->run->cached : 0;
    q->found = q->found < 0 ? q->run->cached : q->found;
}

static tfm_status prefill(tfm__scheduler *s) {
    const int64_t all = tfm__scheduler_prefill_budget(s);
    int64_t budget = all;
    tfm_status status = TFM_OK;
    for (tfm__sequence *q; budget > 0 && status == TFM_OK && (q = tfm__scheduler_next_prompt(s, budget == all));) {
        bool left = true;
        share(s, q);
        if (!tfm__sequence_needs_prefill(q))
            continue;
        const int64_t half = budget == all && tfm__scheduler_next_prompt(s, false) != q ? (all + 1) / 2 : budget;
        const int64_t rest = q->run->count - 1 - q->run->cached,
                      part = rest < TFM__MOST_PREFILL ? rest : TFM__MOST_PREFILL;
        const int64_t tokens = part < half ? part : half;
        status = reserve(s, tokens, q, &left);
        if (status != TFM_OK || !left)
            return status;
        status = tfm__scheduler_prefill(s, q->run, tokens);
        budget -= tokens;
        s->counts.prefilled += (uint64_t)tokens;
    }
    return status;
}

/* ---- A step -------------------------------------------------------------------------------------------- */

/* Lists the rows of a step. Returns their number. */
static int64_t list_rows(const tfm__scheduler *s, tfm__sequence **rows) {
    int64_t count = 0;
    for (size_t i = 0; i < s->live_count; i++)
        for (int64_t k = 0; k <= s->live[i]->drafts && tfm__sequence_can_decode(s->live[i]); k++)
            rows[count++] = s->live[i];
    return count;
}

static tfm_status decode(tfm__scheduler *s, tfm__flight *flight, const tfm__flight *before) {
    bool left = true;
    flight->drafts = tfm__scheduler_draft(s);
    flight->count = list_rows(s, flight->rows);
    tfm_status status = flight->count > 0 ? reserve(s, flight->count, NULL, &left) : TFM_OK;
    flight->count = status == TFM_OK && left ? list_rows(s, flight->rows) : 0; /* fewer, if some were preempted */
    if (flight->count == 0)
        return status;
    status = tfm__scheduler_decode(s, flight, before);
    s->counts.steps++;
    s->counts.tokens += (uint64_t)(flight->count - flight->drafts);
    return status;
}

/* Whether a step may begin before the host knows the tokens of the step before it, so that a GPU computes while the
 * host handles them; not measured on a GPU yet. A CPU gains nothing, and would compute one row more for each sequence
 * that ends. */
static bool looks_ahead(const tfm__scheduler *s) {
    bool needs = !s->pool.shares || s->flights[s->newest].drafts > 0;
    if (s->options.lookahead ? s->options.lookahead < 0 : tfm__context_tuning(s->model->ctx)->class != TFM__CLASS_GPU)
        return false;
    for (size_t i = 0; i < s->live_count; i++)
        needs = needs || s->live[i]->needs_tokens || tfm__sequence_drafts(s, s->live[i]);
    return !needs;
}

tfm_status tfm__scheduler_step(tfm__scheduler *s, bool *more) {
    tfm__flight *before = &s->flights[s->newest], *next = &s->flights[1 - s->newest];
    tfm_status status = tfm__context_ready(s->model->ctx, "scheduler");
    const bool ahead = s->ahead = looks_ahead(s);
    if (status == TFM_OK && !ahead)
        status = collect(s, before);
    admit(s);
    drop_other_frequencies(s);
    if (status == TFM_OK)
        status = prefill(s);
    if (status == TFM_OK)
        status = decode(s, next, before);
    if (status == TFM_OK && ahead)
        status = collect(s, before);
    s->newest = 1 - s->newest;
    *more = s->live_count > 0 || s->waiting || next->count > 0;
    return status;
}

tfm__scheduler_counts tfm__scheduler_get_counts(const tfm__scheduler *s) {
    tfm__scheduler_counts counts = s->counts;
    counts.running = s->live_count;
    counts.waiting = 0;
    for (const tfm__sequence *q = s->waiting; q; q = q->queue)
        counts.waiting++;
    counts.slots = s->pool.used;
    return counts;
}
