/* log p of given translations, by teacher forcing: one pass of the decoder over whole targets. */
#include <math.h>
#include "model/batch.h"

typedef struct scores {
    double *log_prob; /* [count] */
    size_t *tokens;
} scores;

/* Pads one side of a batch: `shift` 1 puts the start token in front and leaves the last one out, as the decoder reads. */
static tfm_status upload_ids(tfm_model *model, tfm_tensor *out, tfm__line *const *batch, const tfm__line *lines, size_t n,
                             int64_t width, int shift) {
    int32_t *ids = tfm__alloc(n * (size_t)width, sizeof(*ids));
    if (!ids)
        return tfm__context_fail(model->ctx, TFM_ERROR_MEMORY, "score: out of host memory");
    for (size_t i = 0; i < n; i++) {
        const tfm__line *line = &lines[batch[i]->index];
        for (int64_t k = 0; k < width; k++) {
            int64_t from = k - shift;
            ids[(int64_t)i * width + k] = from < 0                       ? model->config.start_id
                                          : from < (int64_t)line->count ? line->ids[from]
                                                                         : model->config.pad_id;
        }
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

/* log p of each target token, (n * width) on the host. */
static tfm_status token_log_probs(tfm_model *model, float *out, tfm_tensor hidden, tfm_tensor targets) {
    tfm_context *ctx = model->ctx;
    const int64_t rows = (int64_t)tfm_tensor_count(targets), vocabulary = model->config.decoder_vocab_size;
    const int64_t chunk = 2048; /* rows of logits in memory at a time */
    tfm_tensor flat = {0}, flat_targets = {0};
    tfm_tensor_reshape(ctx, &flat, hidden, 2, (int64_t[]){rows, model->config.d_model});
    tfm_tensor_reshape(ctx, &flat_targets, targets, 1, &rows);
    for (int64_t first = 0; first < rows && tfm_context_status(ctx) == TFM_OK; first += chunk) {
        int64_t count = rows - first < chunk ? rows - first : chunk;
        tfm_tensor x = {0}, y = {0}, logits = {0}, best = {0}, index = {0}, log_sum = {0}, picked = {0};
        tfm_scope_open(ctx);
        tfm_tensor_rows(ctx, &x, flat, first, count);
        tfm_tensor_rows(ctx, &y, flat_targets, first, count);
        tfm__model_logits(model, &logits, x, model->search_bias);
        tfm_topk(ctx, &best, &index, &log_sum, logits, 1);
        tfm_tensor_new(ctx, &picked, TFM_F32, 1, &count);
        const size_t group = (size_t)tfm__context_row(ctx)->group;
        tfm__launch(ctx, tfm__kernel_get(ctx, "beam", "token_log_prob", ""),
                    TFM_GRID_1D(((size_t)count + group - 1) / group * group, group),
                    TFM_ARGS(TFM_T_AS("out", picked), TFM_T(logits), TFM_T(log_sum), TFM_T_AS("targets", y),
                             TFM_I_AS("rows", count), TFM_I(vocabulary)));
        tfm_tensor_read(ctx, out + first, picked);
        tfm_scope_close(ctx, 0, NULL);
    }
    return tfm_context_status(ctx);
}

static tfm_status score_batch(tfm_model *model, scores *out, tfm__line *const *batch, const tfm__line *sources,
                              const tfm__line *targets, size_t n) {
    tfm_context *ctx = model->ctx;
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
    upload_ids(model, &source_ids, batch, sources, n, source_width, 0);
    upload_ids(model, &input, batch, targets, n, width, 1);
    upload_ids(model, &target, batch, targets, n, width, 0);
    tfm_tensor_new(ctx, &lengths, TFM_I32, 1, &count);
    tfm_tensor_write(ctx, lengths, host_lengths);
    tfm_model_encode(model, &encoded, source_ids, lengths);
    tfm__model_decode_hidden(model, &hidden, input, encoded, lengths);
    tfm_status status = token_log_probs(model, picked, hidden, target);
    tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++) {
        size_t index = batch[i]->index;
        out->log_prob[index] = 0;
        out->tokens[index] = targets[index].count;
        for (size_t k = 0; k < targets[index].count; k++)
            out->log_prob[index] += (double)picked[i * (size_t)width + k];
    }
    free(host_lengths);
    free(picked);
    return status;
}

/* An empty side is a sentence of EOS alone here: its probability is a fair question. */
static tfm_status only_eos(const tfm_model *model, tfm__line *lines, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (lines[i].ids || lines[i].rejected)
            continue;
        lines[i].ids = tfm__alloc(1, sizeof(*lines[i].ids));
        if (!lines[i].ids)
            return TFM_ERROR_MEMORY;
        lines[i].ids[0] = model->config.eos_id;
        lines[i].count = 1;
    }
    return TFM_OK;
}

/* A pair with one bad side has nothing to score. */
static void drop_pairs(tfm__line *sources, tfm__line *targets, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (sources[i].rejected || targets[i].rejected) {
            free(sources[i].ids);
            sources[i].ids = NULL;
        }
    }
}

static tfm_status score_all(tfm_model *model, scores *out, tfm__line *sources, tfm__line *targets, size_t count,
                            const tfm_search_options *options) {
    tfm__line **order = NULL;
    size_t ordered = 0;
    tfm__batch_limit limit = tfm__batch_limits(model, options ? options->batch_tokens : 0, 1);
    tfm_status status = only_eos(model, sources, count);
    if (status == TFM_OK)
        status = only_eos(model, targets, count);
    drop_pairs(sources, targets, count);
    if (status == TFM_OK)
        status = tfm__batch_order(&order, &ordered, sources, count);
    for (size_t first = 0, n; first < ordered && status == TFM_OK; first += n) {
        n = tfm__batch_next(order, first, ordered, limit);
        status = score_batch(model, out, order + first, sources, targets, n);
        for (size_t i = first; i < first + n && status == TFM_OK && options && options->stats; i++) {
            options->stats->sentences++;
            options->stats->source_tokens += order[i]->count;
            options->stats->target_tokens += targets[order[i]->index].count;
        }
    }
    free(order);
    return status;
}

tfm_status tfm_score(tfm_model *model, const char *const *sources, const char *const *targets, size_t count,
                     const tfm_search_options *options, tfm_score_fn emit, void *user) {
    tfm__line *source_lines = NULL, *target_lines = NULL;
    scores out = {tfm__alloc(count, sizeof(double)), tfm__alloc(count, sizeof(size_t))};
    double start = tfm__seconds();
    tfm_status status = out.log_prob && out.tokens ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        out.log_prob[i] = NAN;
    if (status == TFM_OK)
        status = tfm__lines_encode(model, &source_lines, sources, count, TFM_SOURCE, options);
    if (status == TFM_OK)
        status = tfm__lines_encode(model, &target_lines, targets, count, TFM_TARGET, options);
    if (status == TFM_OK)
        status = score_all(model, &out, source_lines, target_lines, count, options);
    if (status == TFM_OK && options && options->stats)
        options->stats->seconds += tfm__seconds() - start;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        if (!emit(user, i, out.log_prob[i], out.tokens[i]))
            status = tfm__fail(TFM_ERROR_CANCELLED, "scoring was stopped at line %zu", i + 1);
    tfm__lines_free(&source_lines, count);
    tfm__lines_free(&target_lines, count);
    free(out.log_prob);
    free(out.tokens);
    return status;
}
