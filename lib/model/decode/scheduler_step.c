/* Steps of the scheduler on the device: chunks of prompts, and one token for each row. */
#include "model/decode/scheduler_step.h"
#include <string.h>
#include "ops/ops.h"
#include "ops/reduce/sample.h"

static tfm_status make_position_bias(tfm__scheduler *s) {
    tfm_context *ctx = s->model->ctx;
    tfm_tensor bias = {0};
    tfm_scope_open(ctx);
    tfm__model_position_bias(s->model, &bias, s->model->info.max_positions);
    if (bias.buffer) {
        tfm__tensor_new_persistent(ctx, &s->position_bias, bias.dtype, bias.rank, bias.dims);
        tfm__tensor_copy(ctx, s->position_bias, bias);
    }
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__scheduler_step_begin(tfm__scheduler *s) {
    tfm_context *ctx = s->model->ctx;
    const int64_t rows = tfm__scheduler_most_rows(s);
    const int depth = tfm__scope_depth(ctx);
    tfm_status status;
    for (int i = 0; i < 2; i++)
        tfm__tensor_new_persistent(ctx, &s->tokens[i], TFM_I32, 1, &rows);
    do
        status = make_position_bias(s);
    while (tfm__context_retry(ctx, depth, status));
    return status;
}

void tfm__scheduler_step_end(tfm__scheduler *s) {
    tfm_context *ctx = s->model->ctx;
    for (int i = 0; i < 2; i++) {
        tfm__flight_free(s, &s->flights[i]);
        tfm_tensor_free(ctx, &s->tokens[i]);
    }
    tfm_tensor_free(ctx, &s->position_bias);
    tfm__logit_edits_free(&s->edits);
}

/* A tensor of host data in the current scope. */
static tfm_tensor upload(tfm_context *ctx, tfm_dtype dtype, const void *host, int rank, int64_t rows, int64_t columns) {
    tfm_tensor x = {0};
    tfm_tensor_new(ctx, &x, dtype, rank, (int64_t[]){rows, columns});
    tfm_tensor_write(ctx, x, host);
    return x;
}

/* ---- Prompts ------------------------------------------------------------------------------------------- */

static tfm_status run_chunk(tfm__scheduler *s, const int32_t *ids, const int32_t *slots, int64_t first, int64_t tokens,
                            int64_t length) {
    tfm_context *ctx = s->model->ctx;
    tfm_scope_open(ctx);
    tfm__model_step(s->model, NULL, upload(ctx, TFM_I32, ids, 2, 1, tokens),
                    &(tfm__decode_step){.cache = &s->pool.cache,
                                        .position_bias = s->position_bias,
                                        .block_table = upload(ctx, TFM_I32, slots, 2, 1, first + tokens),
                                        .slot = s->pool.cache.slots,
                                        .position = first,
                                        .length = length},
                    (tfm_tensor){0});
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__scheduler_prefill(tfm__scheduler *s, tfm__kv_run *run, int64_t tokens) {
    tfm_context *ctx = s->model->ctx;
    const int depth = tfm__scope_depth(ctx);
    const int64_t first = run->cached, slot = s->pool.cache.slots;
    tfm_status status = TFM_OK;
    if (!tfm__kv_pool_append(&s->pool, run, slot, tokens))
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    do
        status = run_chunk(s, run->ids + first, run->slots, first, tokens, run->count);
    while (tfm__context_retry(ctx, depth, status));
    s->pool.cache.slots = slot + tokens;
    run->length = run->count;
    return status;
}

/* ---- New tokens ---------------------------------------------------------------------------------------- */

/* Inputs of a step on the host. */
typedef struct step_inputs {
    int64_t rows, columns;
    int32_t *tokens;      /* [2][rows]: the token; and its place in the tokens of the step before and these ones */
    int32_t *lengths;     /* [rows] */
    int32_t *positions;   /* [rows] */
    int32_t *block_table; /* [rows][columns] */
    float *settings;      /* [rows][TFM__SAMPLE_SETTINGS] */
    int32_t *numbers;     /* [rows][TFM__SAMPLE_NUMBERS] */
    bool ahead;           /* some tokens are those of the step before */
    bool scored;          /* some sequence wants log p */
    int64_t top;          /* most probable tokens that some sequence wants */
} step_inputs;

static bool inputs_alloc(step_inputs *in, const tfm__flight *flight) {
    const size_t rows = (size_t)flight->count;
    *in = (step_inputs){.rows = flight->count};
    for (size_t i = 0; i < rows; i++) {
        const int64_t columns = flight->rows[i]->run->cached + flight->rows[i]->drafts + 1;
        in->columns = columns > in->columns ? columns : in->columns;
    }
    in->tokens = tfm__alloc(2 * rows, sizeof(*in->tokens));
    in->lengths = tfm__alloc(rows, sizeof(*in->lengths));
    in->positions = tfm__alloc(rows, sizeof(*in->positions));
    in->block_table = tfm__alloc(rows * (size_t)in->columns, sizeof(*in->block_table));
    in->settings = tfm__alloc(rows * TFM__SAMPLE_SETTINGS, sizeof(*in->settings));
    in->numbers = tfm__alloc(rows * TFM__SAMPLE_NUMBERS, sizeof(*in->numbers));
    return in->tokens && in->lengths && in->positions && in->block_table && in->settings && in->numbers;
}

static void inputs_free(step_inputs *in) {
    void *all[] = {in->tokens, in->lengths, in->positions, in->block_table, in->settings, in->numbers};
    for (size_t i = 0; i < TFM__COUNT(all); i++)
        free(all[i]);
}

/* Row r of the step, for the token after draft `draft` of a sequence; 0: after its newest token. */
static void fill_row(tfm__scheduler *s, step_inputs *in, int64_t r, tfm__sequence *q, int64_t draft,
                     const tfm__flight *before) {
    const tfm__kv_run *run = q->run;
    const tfm__sequence_request *request = &q->request;
    const tfm__sampling_params *sampling = &request->params.sampling;
    tfm_sample_options options = sampling->sample_options;
    options.step = (uint64_t)(q->made + q->flights + draft);
    const int64_t cached = run->cached, past = cached + draft;
    int32_t *slots = in->block_table + r * in->columns;
    in->lengths[r] = (int32_t)(past + 1);
    in->positions[r] = (int32_t)past;
    memcpy(slots, run->slots, (size_t)cached * sizeof(*slots));
    for (int64_t k = cached; k < in->columns; k++)
        slots[k] = k > past ? 0 : (int32_t)(s->pool.cache.slots + r - (past - k));
    in->tokens[r] = q->flights == 0 ? run->ids[past] : 0;
    in->tokens[in->rows + r] = (int32_t)(before->count + r);
    for (int64_t k = 0; q->flights > 0 && k < before->count; k++)
        if (before->rows[k] == q) {
            in->tokens[in->rows + r] = (int32_t)k;
            in->ahead = true;
        }
    in->scored = in->scored || !request->params.skip_scores;
    in->top = request->params.top_log_probs > in->top ? request->params.top_log_probs : in->top;
    tfm__sample_row(in->settings + r * TFM__SAMPLE_SETTINGS, in->numbers + r * TFM__SAMPLE_NUMBERS,
                    sampling->do_sample ? &options : NULL, request->stream);
    tfm__logit_edits_add(&s->edits, r, s->model->arch.decoder.vocabulary, &s->model->rules, &request->params, run->ids,
                         run->count + q->flights + draft, q->prompt);
}

/* tokens (R): those of the host, or of the step before. */
static tfm_tensor input_tokens(tfm__scheduler *s, const step_inputs *in, const tfm__flight *before, int newest) {
    tfm_context *ctx = s->model->ctx;
    const tfm_tensor own = upload(ctx, TFM_I32, in->tokens, 1, in->rows, 0);
    tfm_tensor all = {0}, head = {0}, tail = {0}, old = {0}, tokens = {0};
    if (!in->ahead)
        return own;
    const int64_t count = before->count + in->rows;
    tfm_tensor_new(ctx, &all, TFM_I32, 1, &count);
    tfm_tensor_rows(ctx, &head, all, 0, before->count);
    tfm_tensor_rows(ctx, &tail, all, before->count, in->rows);
    tfm_tensor_rows(ctx, &old, s->tokens[newest], 0, before->count);
    tfm__tensor_copy(ctx, head, old);
    tfm__tensor_copy(ctx, tail, own);
    tfm_gather(ctx, &tokens, all, upload(ctx, TFM_I32, in->tokens + in->rows, 1, in->rows, 0));
    return tokens;
}

/* log_probs (R): log p of the ids under the model's logits. */
static void score(tfm_context *ctx, tfm_tensor *log_probs, tfm_tensor logits, tfm_tensor lse, tfm_tensor ids) {
    const int64_t rows = logits.dims[0];
    const size_t group = (size_t)tfm__context_tuning(ctx)->group;
    tfm_tensor_new(ctx, log_probs, TFM_F32, 1, &rows);
    tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "token_log_prob", ""),
                TFM__GRID_1D(((size_t)rows + group - 1) / group * group, group),
                TFM__ARGS(TFM__T_AS("out", *log_probs), TFM__T(logits), TFM__T(lse), TFM__T_AS("targets", ids),
                          TFM__I(rows), TFM__I_AS("vocabulary", logits.dims[1])));
}

bool tfm__sequence_ends(const tfm__scheduler *s, const tfm__sequence *q, int32_t id) {
    const tfm__generate_params *params = &q->request.params;
    bool ends = tfm__generation_is_eos(&s->model->rules, id);
    for (size_t i = 0; i < params->stop_id_count; i++)
        ends = ends || params->stop_ids[i] == id;
    return ends;
}

static void allow(uint32_t *bits, int32_t id, bool allowed) {
    if (id >= 0)
        bits[id / 32] = (bits[id / 32] & ~(UINT32_C(1) << id % 32)) | (uint32_t)allowed << id % 32;
}

/* Masks of the rows with a grammar. An end token is allowed where the text is complete. */
static void mask_rows(tfm__scheduler *s, const tfm__flight *flight, int64_t rows) {
    const tfm__generation_rules *rules = &s->model->rules;
    const int64_t vocabulary = s->model->arch.decoder.vocabulary;
    for (int64_t r = 0; r < rows; r++) {
        tfm__matcher *matcher = flight->rows[r]->matcher;
        uint32_t *bits = matcher ? tfm__logit_edits_mask(&s->edits, r, vocabulary) : NULL;
        if (!bits)
            continue;
        if (tfm__matcher_mask(matcher, bits) != TFM_OK) { /* the text ends here */
            tfm__log(TFM_LOG_WARNING, "a text ends before it is complete: %s", tfm_error_message());
            memset(bits, 0, (size_t)tfm__ceil_div(vocabulary, 32) * sizeof(*bits));
        }
        allow(bits, rules->eos_id, tfm__matcher_may_end(matcher));
        for (int i = 0; i < rules->eos_id_count; i++)
            allow(bits, rules->eos_ids[i], tfm__matcher_may_end(matcher));
        const tfm__generate_params *params = &flight->rows[r]->request.params;
        for (size_t i = 0; i < params->stop_id_count; i++)
            allow(bits, params->stop_ids[i], tfm__matcher_may_end(matcher));
    }
}

static tfm_status run_step(tfm__scheduler *s, const step_inputs *in, tfm__flight *flight, const tfm__flight *before,
                           int newest) {
    tfm_context *ctx = s->model->ctx;
    tfm_tensor logits = {0}, changed = {0}, best = {0}, first = {0}, lse = {0}, log_probs = {0}, ids = {0};
    const int64_t rows = in->rows;
    tfm_scope_open(ctx);
    tfm__decode_step step = {.cache = &s->pool.cache,
                             .position_bias = s->position_bias,
                             .block_table = upload(ctx, TFM_I32, in->block_table, 2, rows, in->columns),
                             .slot = s->pool.cache.slots,
                             .position = in->columns - 1,
                             .length = in->columns,
                             .positions = upload(ctx, TFM_I32, in->positions, 2, rows, 1),
                             .lengths = upload(ctx, TFM_I32, in->lengths, 1, rows, 0)};
    const tfm_tensor settings = upload(ctx, TFM_F32, in->settings, 2, rows, TFM__SAMPLE_SETTINGS),
                     numbers = upload(ctx, TFM_I32, in->numbers, 2, rows, TFM__SAMPLE_NUMBERS);
    tfm__megakernel_begin(ctx, rows);
    tfm__model_step(s->model, &logits, input_tokens(s, in, before, newest), &step, s->model->logits_bias);
    mask_rows(s, flight, rows); /* the device runs meanwhile */
    changed = logits;
    if (in->scored)
        tfm_topk(ctx, &best, &first, &lse, logits, in->top ? in->top : 1);
    if (in->scored && s->edits.count + s->edits.mask_count > 0) {
        changed = (tfm_tensor){0};
        tfm_tensor_new(ctx, &changed, TFM_F32, 2, logits.dims);
        tfm__tensor_copy(ctx, changed, logits);
    }
    tfm__logit_edits_apply(ctx, &s->edits, changed);
    tfm_tensor_rows(ctx, &ids, s->tokens[1 - newest], 0, rows);
    tfm__sample_rows(ctx, &ids, changed, settings, numbers);
    if (in->scored)
        score(ctx, &log_probs, logits, lse, ids);
    flight->top = in->top;
    const tfm_tensor results[TFM__READS] = {ids, log_probs, first, best, lse};
    for (int i = 0; i < TFM__READS; i++)
        if (i == TFM__READ_TOKENS || (i == TFM__READ_LOG_PROBS && in->scored) ||
            (i > TFM__READ_LOG_PROBS && in->top > 0))
            tfm__async_read_start(ctx, &flight->reads[i], results[i]);
    tfm__megakernel_end(ctx);
    return tfm_scope_close(ctx, 0, NULL);
}

/* The draft of row r: the rows of a sequence are neighbors. */
static int64_t draft_of(const tfm__flight *flight, int64_t r) {
    int64_t draft = 0;
    while (draft < r && flight->rows[r - draft - 1] == flight->rows[r])
        draft++;
    return draft;
}

tfm_status tfm__scheduler_decode(tfm__scheduler *s, tfm__flight *flight, const tfm__flight *before) {
    tfm_context *ctx = s->model->ctx;
    const int depth = tfm__scope_depth(ctx);
    step_inputs in;
    tfm_status status = inputs_alloc(&in, flight) ? TFM_OK : TFM_ERROR_MEMORY;
    for (bool again = status == TFM_OK; again;) {
        s->edits.count = s->edits.mask_count = 0; /* of a try before */
        for (int64_t r = 0; r < in.rows; r++)
            fill_row(s, &in, r, flight->rows[r], draft_of(flight, r), before);
        status = run_step(s, &in, flight, before, s->newest);
        again = tfm__context_retry(ctx, depth, status);
        if (again)
            tfm__flight_free(s, flight);
        flight->count = in.rows;
    }
    const int64_t slot = s->pool.cache.slots;
    for (int64_t r = 0; r < in.rows && status == TFM_OK; r++) {
        if (!tfm__kv_pool_append(&s->pool, flight->rows[r]->run, slot + r, 1))
            status = TFM_ERROR_MEMORY;
        flight->rows[r]->run->length = flight->rows[r]->run->cached;
        flight->rows[r]->flights += draft_of(flight, r) == 0;
    }
    s->pool.cache.slots += in.rows;
    inputs_free(&in);
    if (status == TFM_ERROR_MEMORY)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "%s", tfm_error_message());
    return status;
}

const int32_t *tfm__flight_wait(tfm__scheduler *s, tfm__flight *flight) {
    for (int i = 0; i < TFM__READS; i++)
        flight->results[i] = flight->reads[i] ? tfm__async_read_wait(s->model->ctx, flight->reads[i]) : NULL;
    return tfm_context_status(s->model->ctx) == TFM_OK ? flight->results[TFM__READ_TOKENS] : NULL;
}

tfm_token_log_probs tfm__flight_log_probs(const tfm__flight *flight, int64_t i, float *log_probs) {
    const float *log_prob = flight->results[TFM__READ_LOG_PROBS], *logits = flight->results[TFM__READ_TOP_LOGITS],
                *lse = flight->results[TFM__READ_LSE];
    const int32_t *ids = flight->results[TFM__READ_TOP_IDS];
    const int count = flight->rows[i]->request.params.top_log_probs;
    for (int k = 0; k < count; k++)
        log_probs[k] = logits[i * flight->top + k] - lse[i];
    return (tfm_token_log_probs){.log_prob = log_prob ? log_prob[i] : 0,
                                 .count = (size_t)count,
                                 .ids = count > 0 ? ids + i * flight->top : NULL,
                                 .log_probs = log_probs};
}

void tfm__flight_free(tfm__scheduler *s, tfm__flight *flight) {
    for (int i = 0; i < TFM__READS; i++)
        tfm__async_read_free(s->model->ctx, &flight->reads[i]);
    flight->count = 0;
}
