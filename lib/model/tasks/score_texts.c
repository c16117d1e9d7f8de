/* Scores texts with a language model: log p of each token given the previous ones. */
#include <math.h>
#include <string.h>
#include "model/tasks/score.h"

/* A text longer than the model's positions is scored in windows with an overlap of one half. The model reads all tokens
 * of a window except the last; all except the first are scored, unless they were scored in the previous window. */
typedef struct job {
    tfm_model *model;
    int32_t **ids;    /* [count]: of the texts; ~id: a token that is not scored */
    double *log_prob; /* [count] */
    size_t *tokens;   /* [count] */
    double *sums;     /* [window_count]: sum of scored log p */
    tfm__line *lines; /* [window_count]: windows; ids belong to the texts */
    size_t *skipped;  /* [window_count]: tokens scored in the previous window */
    size_t window_count, window_room, skipped_room;
    tfm_search_stats stats;
} job;

/* ---- Texts to windows ---- */

static tfm_status add_window(job *j, size_t line, size_t at, size_t count, size_t skipped) {
    const size_t i = j->window_count;
    tfm_status status = tfm__grow(&j->lines, &j->window_room, i + 1, sizeof(*j->lines));
    if (status == TFM_OK)
        status = tfm__grow(&j->skipped, &j->skipped_room, i + 1, sizeof(*j->skipped));
    if (status != TFM_OK)
        return status;
    j->lines[i] = (tfm__line){.index = i, .line = line, .ids = j->ids[line] + at, .count = count, .cost = count - 1};
    j->skipped[i] = skipped;
    j->window_count++;
    return TFM_OK;
}

/* Adds all windows of a text. */
static tfm_status add_windows(job *j, size_t line, size_t tokens) {
    const size_t most = (size_t)j->model->info.max_positions, targets = tokens - 1;
    tfm_status status = TFM_OK;
    for (size_t done = 0; done < targets && status == TFM_OK;) {
        const size_t at = done > 0 ? done - most / 2 : 0, end = at + most < targets ? at + most : targets;
        status = add_window(j, line, at, end - at + 1, done - at);
        done = end;
    }
    return status;
}

/* Whether token k of a window is scored. */
static bool is_scored(const job *j, const tfm__line *w, size_t k) {
    return k > j->skipped[w->index] && w->ids[k] >= 0;
}

/* Ids as in generation: the tokenizer's, and for an empty text BOS; `add_bos` prepends BOS, `ends` appends EOS. The
 * first id has no context and is not scored. */
static tfm_status encode(job *j, size_t *count, size_t line, const char *text, size_t bytes,
                         const tfm_text_options *o) {
    const tfm__generation_rules *rules = &j->model->rules;
    int32_t *ids = NULL;
    size_t n = 0, used = 0;
    if (o->chat)
        return tfm_chat_encode_example(o->chat, &j->ids[line], count, j->model->tokenizer, text, bytes);
    tfm_status status = tfm_tokenizer_encode(j->model->tokenizer, &ids, &n, TFM_TARGET, text, bytes);
    if (status != TFM_OK)
        return status;
    int32_t *all = j->ids[line] = tfm__alloc(n + 2, sizeof(*all));
    if (all && rules->start_id >= 0 && (n == 0 || (o->add_bos && ids[0] != rules->start_id)))
        all[used++] = rules->start_id;
    if (all)
        memcpy(all + used, ids, n * sizeof(*ids));
    used += n;
    if (all && o->score_eos && rules->eos_id >= 0 && (n == 0 || all[used - 1] != rules->eos_id))
        all[used++] = rules->eos_id;
    tfm_ids_free(&ids);
    *count = used;
    return all ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status encode_all(job *j, const char *const *texts, size_t count, const tfm_text_options *o) {
    tfm_status status = TFM_OK;
    char saved_message[TFM__MESSAGE_MAX];
    tfm__error_save(saved_message);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        size_t tokens = 0;
        tfm__line line = {.index = i, .line = i};
        status = encode(j, &tokens, i, texts[i], o->line_bytes ? o->line_bytes[i] : strlen(texts[i]), o);
        if (status == TFM_ERROR_INPUT)
            status = tfm__line_reject(&line, "", o, status, saved_message);
        else if (status == TFM_OK && tokens > 1)
            status = add_windows(j, i, tokens);
    }
    return status;
}

/* ---- Windows to scores ---- */

static tfm_status send(tfm_context *ctx, tfm_tensor *out, tfm__line *const *batch, size_t n, int64_t width, int shift) {
    int32_t *ids = tfm__alloc(n * (size_t)width, sizeof(*ids));
    if (!ids)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "score: out of host memory");
    for (size_t i = 0; i < n; i++)
        tfm__ids_pad(ids + (int64_t)i * width, width, batch[i]->ids + shift, batch[i]->count - 1, 0, 0, 0);
    for (size_t i = 0; i < n * (size_t)width; i++)
        ids[i] = ids[i] < 0 ? ~ids[i] : ids[i];
    tfm_tensor_new(ctx, out, TFM_I32, 2, (int64_t[]){(int64_t)n, width});
    tfm_tensor_write(ctx, *out, ids);
    free(ids);
    return tfm_context_status(ctx);
}

static tfm_status keep_scores(job *j, const tfm__line *w, const float *picked) {
    double sum = 0;
    for (size_t k = 1; k < w->count; k++)
        sum += is_scored(j, w, k) ? (double)picked[k - 1] : 0;
    if (isnan(sum))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "line %zu: the model's probabilities are not finite: its weights are damaged", w->line + 1);
    j->sums[w->index] = sum;
    return TFM_OK;
}

/* Sums the windows of each text. */
static void add_up(job *j) {
    for (size_t i = 0; i < j->window_count; i++) {
        const tfm__line *w = &j->lines[i];
        size_t tokens = 0;
        for (size_t k = 1; k < w->count; k++)
            tokens += is_scored(j, w, k);
        if (isnan(j->log_prob[w->line])) {
            j->log_prob[w->line] = 0;
            j->stats.sentences++;
        }
        j->log_prob[w->line] += j->sums[i];
        j->tokens[w->line] += tokens;
        j->stats.target_tokens += tokens;
    }
}

static tfm_status score_batch(void *user, tfm_model *on, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = on->ctx;
    size_t width = 0;
    for (size_t i = 0; i < n; i++)
        width = batch[i]->cost > width ? batch[i]->cost : width;
    float *picked = tfm__alloc(n * width, sizeof(*picked));
    tfm_tensor input = {0}, target = {0}, hidden = {0};
    if (!picked)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    send(ctx, &input, batch, n, (int64_t)width, 0);
    send(ctx, &target, batch, n, (int64_t)width, 1);
    tfm__model_decode_hidden(on, &hidden, input, (tfm_tensor){0}, (tfm_tensor){0}, NULL);
    tfm_status status = tfm__token_log_probs(on, picked, hidden, target);
    tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        status = keep_scores(j, batch[i], picked + i * width);
    free(picked);
    return status;
}

/* ---- Call ---- */

static tfm_status check(const tfm_model *model, const tfm_text_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "score_texts: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("score_texts", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (options->chat && (options->score_eos || options->add_bos))
        return tfm__fail(TFM_ERROR_ARGUMENT, "score_texts: with chat, neither score_eos nor add_bos can be set");
    if (tfm__context_ready(model->ctx, "score_texts") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "score_texts", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (model->arch.encoder.layers > 0)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "score_texts: the model, of the family %s, translates: its texts have sources (tfm_score)",
                         model->family->name);
    if (!model->tokenizer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "the model was opened without its tokenizer: it takes ids, not text");
    return TFM_OK;
}

static void free_job(job *j, size_t count) {
    for (size_t i = 0; j->ids && i < count; i++)
        free(j->ids[i]);
    free(j->ids);
    free(j->log_prob);
    free(j->tokens);
    free(j->lines);
    free(j->skipped);
    free(j->sums);
}

tfm_status tfm_score_texts(tfm_model *model, const char *const *texts, size_t count, const tfm_text_options *options,
                           tfm_score_fn emit, void *user) {
    static const tfm_text_options defaults;
    if (TFM__NEEDS("score_texts", model, texts, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("score_texts", "texts", texts, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    options = options ? options : &defaults;
    tfm_status status = check(model, options);
    if (status != TFM_OK)
        return status;
    job j = {.model = model,
             .ids = tfm__alloc(count, sizeof(*j.ids)),
             .log_prob = tfm__alloc(count, sizeof(*j.log_prob)),
             .tokens = tfm__alloc(count, sizeof(*j.tokens))};
    const double start = tfm__seconds();
    status = j.ids && j.log_prob && j.tokens ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        j.log_prob[i] = NAN;
    if (status == TFM_OK)
        status = encode_all(&j, texts, count, options);
    tfm__batch_limit limit = tfm__batch_limits(model, options->batch_tokens, 1);
    limit.lines = SIZE_MAX; /* logits are computed in chunks */
    limit.ahead = SIZE_MAX; /* there are no results before the end */
    if (status == TFM_OK && !(j.sums = tfm__alloc(j.window_count, sizeof(*j.sums))))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__batches_run(model, j.lines, j.window_count, limit, options,
                                  &(tfm__batch_work){.kind = TFM__BATCH_SCORE, .run = score_batch, .user = &j});
    if (status == TFM_OK)
        add_up(&j);
    j.stats.seconds = tfm__seconds() - start;
    if (status == TFM_OK && options->stats)
        tfm__stats_add(options->stats, &j.stats);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        if (!emit(user, i, j.log_prob[i], j.tokens[i]))
            status = tfm__fail(TFM_ERROR_CANCELLED, "scoring was stopped at line %zu", i + 1);
    free_job(&j, count);
    return status;
}
