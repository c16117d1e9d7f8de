/* Scores translations: log p by teacher forcing, one decoder pass over whole targets. */
#include <math.h>
#include "model/tasks/score.h"
#include "tfm/ops.h"

typedef struct job {
    tfm_model *model;
    tfm__line *sources, *targets; /* [count] */
    double *log_prob;             /* [count] */
    size_t *tokens;
    tfm_search_stats stats;
    tfm__language_choice languages;
} job;

/* Pads one side of a batch: `shift` 1 prepends the start token and drops the last one, as decoder input. */
static tfm_status upload_ids(const job *j, tfm_model *model, tfm_tensor *out, tfm__line *const *batch,
                             const tfm__line *lines, size_t n, int64_t width, int shift) {
    const int32_t start = j->languages.start >= 0 ? j->languages.start : model->rules.start_id;
    int32_t *ids = tfm__alloc(n * (size_t)width, sizeof(*ids));
    if (!ids)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "score: out of host memory");
    for (size_t i = 0; i < n; i++) {
        const tfm__line *line = &lines[batch[i]->index];
        tfm__ids_pad(ids + (int64_t)i * width, width, line->ids, line->count, shift, start, model->rules.pad_id);
    }
    tfm_tensor_new(model->ctx, out, TFM_I32, 2, (int64_t[]){(int64_t)n, width});
    tfm_tensor_write(model->ctx, *out, ids);
    free(ids);
    return tfm_context_status(model->ctx);
}

static int64_t widest(tfm__line *const *batch, const tfm__line *lines, size_t n) {
    size_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = lines[batch[i]->index].count > most ? lines[batch[i]->index].count : most;
    return (int64_t)most;
}

tfm_status tfm__token_log_probs(tfm_model *model, float *out, tfm_tensor hidden, tfm_tensor targets) {
    tfm_context *ctx = model->ctx;
    const int64_t rows = (int64_t)tfm_tensor_count(targets), vocabulary = model->arch.decoder.vocabulary;
    const size_t allowed = tfm__batch_limits(model, 0, 1).lines;
    const int64_t chunk = allowed < 2048 ? (int64_t)allowed : 2048; /* rows of logits in memory at a time */
    tfm_tensor flat = {0}, flat_targets = {0};
    tfm_tensor_reshape(ctx, &flat, hidden, 2, (int64_t[]){rows, tfm__stack_output_width(&model->arch.decoder)});
    tfm_tensor_reshape(ctx, &flat_targets, targets, 1, &rows);
    for (int64_t first = 0; first < rows && tfm_context_status(ctx) == TFM_OK; first += chunk) {
        int64_t count = rows - first < chunk ? rows - first : chunk;
        tfm_tensor x = {0}, y = {0}, logits = {0}, best = {0}, index = {0}, lse = {0}, picked = {0};
        tfm_scope_open(ctx);
        tfm_tensor_rows(ctx, &x, flat, first, count);
        tfm_tensor_rows(ctx, &y, flat_targets, first, count);
        tfm__model_logits(model, &logits, x, model->score_bias);
        tfm_topk(ctx, &best, &index, &lse, logits, 1);
        tfm_tensor_new(ctx, &picked, TFM_F32, 1, &count);
        const size_t group = (size_t)tfm__context_tuning(ctx)->group;
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "token_log_prob", ""),
                    TFM__GRID_1D(((size_t)count + group - 1) / group * group, group),
                    TFM__ARGS(TFM__T_AS("out", picked), TFM__T(logits), TFM__T(lse), TFM__T_AS("targets", y),
                              TFM__I_AS("rows", count), TFM__I(vocabulary)));
        tfm_tensor_read(ctx, out + first, picked);
        tfm_scope_close(ctx, 0, NULL);
    }
    return tfm_context_status(ctx);
}

/* Stores the sum of a pair's log p. */
static tfm_status keep_score(job *j, size_t index, const float *picked) {
    double sum = 0;
    for (size_t k = 0; k < j->targets[index].count; k++)
        sum += (double)picked[k];
    if (isnan(sum))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "line %zu: the model's probabilities are not finite: its weights are damaged", index + 1);
    j->log_prob[index] = sum;
    j->tokens[index] = j->targets[index].count;
    return TFM_OK;
}

static tfm_status count_batch(void *user, tfm__line *const *batch, size_t n) {
    job *j = user;
    for (size_t i = 0; i < n; i++) {
        j->stats.sentences++;
        j->stats.source_tokens += j->sources[batch[i]->index].count;
        j->stats.target_tokens += j->targets[batch[i]->index].count;
    }
    return TFM_OK;
}

static tfm_status score_batch(void *user, tfm_model *model, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = model->ctx;
    const tfm__line *sources = j->sources, *targets = j->targets;
    const int64_t source_width = widest(batch, sources, n), width = widest(batch, targets, n), count = (int64_t)n;
    int32_t *host_lengths = tfm__alloc(n, sizeof(*host_lengths));
    float *picked = tfm__alloc(n * (size_t)width, sizeof(*picked));
    tfm_tensor source_ids = {0}, input = {0}, target = {0}, lengths = {0}, encoded = {0}, hidden = {0};
    if (!host_lengths || !picked) {
        free(host_lengths);
        free(picked);
        return TFM_ERROR_MEMORY;
    }
    for (size_t i = 0; i < n; i++)
        host_lengths[i] = (int32_t)sources[batch[i]->index].count;
    tfm_scope_open(ctx);
    upload_ids(j, model, &source_ids, batch, sources, n, source_width, 0);
    upload_ids(j, model, &input, batch, targets, n, width, 1);
    upload_ids(j, model, &target, batch, targets, n, width, 0);
    tfm_tensor_new(ctx, &lengths, TFM_I32, 1, &count);
    tfm_tensor_write(ctx, lengths, host_lengths);
    tfm_model_encode(model, &encoded, source_ids, lengths);
    tfm__model_decode_hidden(model, &hidden, input, encoded, lengths, NULL);
    tfm_status status = tfm__token_log_probs(model, picked, hidden, target);
    tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        status = keep_score(j, batch[i]->index, picked + i * (size_t)width);
    free(host_lengths);
    free(picked);
    return status;
}

/* An empty side becomes EOS alone, which has a probability. */
static tfm_status only_eos(const tfm_model *model, tfm__line *lines, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (lines[i].ids || lines[i].rejected)
            continue;
        lines[i].ids = tfm__alloc(1, sizeof(*lines[i].ids));
        if (!lines[i].ids)
            return TFM_ERROR_MEMORY;
        lines[i].ids[0] = model->rules.eos_id;
        lines[i].count = 1;
    }
    return TFM_OK;
}

/* Excludes pairs with a bad side. A batch is as wide as the wider side of its pairs. */
static void make_pairs(tfm__line *sources, const tfm__line *targets, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (sources[i].rejected || targets[i].rejected)
            tfm_ids_free(&sources[i].ids);
        sources[i].cost = sources[i].count > targets[i].count ? sources[i].count : targets[i].count;
    }
}

static tfm_status encode_pairs(job *j, const char *const *sources, const char *const *targets, size_t count,
                               const tfm_text_options *options) {
    const tfm__text_batch source = {sources, options->line_bytes, NULL, count}, target = {targets, NULL, NULL, count};
    tfm_status status = tfm__language_choice_read(&j->languages, j->model, options);
    if (status == TFM_OK)
        status = tfm__lines_encode(j->model, &j->sources, &source, TFM_SOURCE, "", &j->languages, options);
    if (status == TFM_OK)
        status =
            tfm__lines_encode(j->model, &j->targets, &target, TFM_TARGET, "its translation: ", &j->languages, options);
    if (status == TFM_OK)
        status = only_eos(j->model, j->sources, count);
    if (status == TFM_OK)
        status = only_eos(j->model, j->targets, count);
    if (status == TFM_OK)
        make_pairs(j->sources, j->targets, count);
    return status;
}

tfm_status tfm_score(tfm_model *model, const char *const *sources, const char *const *targets, size_t count,
                     const tfm_text_options *options, tfm_score_fn emit, void *user) {
    if (TFM__NEEDS("score", model, sources, targets, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("score", "sources", sources, count) != TFM_OK ||
        tfm__needs_texts("score", "targets", targets, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    static const tfm_text_options defaults;
    options = options ? options : &defaults;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "score: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("score", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(model->ctx, "score") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "score", TFM__NEEDS_ENCODER | TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    job j = {
        .model = model, .log_prob = tfm__alloc(count, sizeof(double)), .tokens = tfm__alloc(count, sizeof(size_t))};
    double start = tfm__seconds();
    tfm_status status = j.log_prob && j.tokens ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        j.log_prob[i] = NAN;
    if (status == TFM_OK)
        status = encode_pairs(&j, sources, targets, count, options);
    tfm__batch_limit limit = tfm__batch_limits(model, options->batch_tokens, 1);
    limit.lines = SIZE_MAX; /* logits are computed in chunks */
    limit.ahead = SIZE_MAX; /* there are no results before the end */
    if (status == TFM_OK)
        status = tfm__batches_run(
            model, j.sources, count, limit, options,
            &(tfm__batch_work){.kind = TFM__BATCH_SCORE, .run = score_batch, .done = count_batch, .user = &j});
    j.stats.seconds = tfm__seconds() - start;
    if (status == TFM_OK && options->stats)
        tfm__stats_add(options->stats, &j.stats);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        if (!emit(user, i, j.log_prob[i], j.tokens[i]))
            status = tfm__fail(TFM_ERROR_CANCELLED, "scoring was stopped at line %zu", i + 1);
    tfm__lines_free(&j.sources, count);
    tfm__lines_free(&j.targets, count);
    tfm__language_choice_free(&j.languages);
    free(j.log_prob);
    free(j.tokens);
    return status;
}
