/* Forward and backward of batches with gradient accumulation. A batch that does not fit into memory is run in
 * micro-batches. */
#include <stdio.h>
#include "train/grad_accumulate.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/autograd/tape.h"

/* ---- Micro-batches ---- */

/* Runs the model on a micro-batch. loss and nll are (1) each, sums over its targets. */
static tfm_status forward(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const tfm__device_batch *u,
                          float smoothing, float scale) {
    tfm_model *model = t->model;
    tfm_context *ctx = t->ctx;
    tfm_tensor encoded = {0}, hidden = {0}, scaled = {0};
    tfm_scope_open(ctx);
    if (u->sources.buffer)
        tfm_model_encode(model, &encoded, u->sources, u->lengths);
    tfm__model_decode_hidden(model, &hidden, u->inputs, encoded, u->lengths, NULL);
    tfm__model_scale_output(model, &scaled, hidden);
    const tfm_cross_entropy_options entropy = {
        .label_smoothing = smoothing, .scale = scale, .soft_cap = model->arch.logit_cap};
    tfm_linear_cross_entropy(ctx, loss, nll, scaled, model->output, tfm__model_inner_bias(model, model->logits_bias),
                             u->targets, &entropy);
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){loss, nll});
}

static tfm_status accumulate(tfm_context *ctx, tfm_tensor *sum, tfm_tensor x) {
    if (sum->buffer)
        return tfm_add(ctx, sum, *sum, x);
    *sum = x;
    return tfm_context_status(ctx);
}

static tfm_status run_micro_batch(tfm_trainer *t, tfm__loss_sums *s, const tfm__micro_batch *p,
                                  const tfm__pass_options *options) {
    tfm_context *ctx = t->ctx;
    tfm__device_batch u = {0};
    tfm_tensor loss = {0}, nll = {0};
    tfm__micro_batch_upload(t, &u, p, &s->tokens);
    if (options->training) {
        tfm_tape_start(ctx);
        tfm_tape_watch(ctx, t->value, t->gradient);
        if (options->last_micro_batch && tfm__process_group_active(t))
            tfm__allreduce_prepare_backward(t);
    }
    forward(t, &loss, &nll, &u, options->smoothing, options->scale);
    if (options->training)
        tfm_backward(ctx, loss, (tfm_tensor){0});
    accumulate(ctx, &s->loss, loss);
    return accumulate(ctx, &s->nll, nll);
}

/* ---- Gradient accumulation ---- */

/* Tokens of a row. Memory is proportional to them, since attention weights are not stored. */
static int64_t row_tokens(const tfm_batch *b) {
    return b->source_width + b->target_width;
}

/* Rows per micro-batch, equal for all micro-batches of a batch. */
static int64_t micro_batch_rows(const tfm_trainer *t, const tfm_batch *b) {
    if (t->micro_batch_tokens == 0)
        return b->count;
    const int64_t most = t->micro_batch_tokens / row_tokens(b) > 1 ? t->micro_batch_tokens / row_tokens(b) : 1,
                  pieces = tfm__ceil_div(b->count, most);
    return tfm__ceil_div(b->count, pieces);
}

/* The first random stream of an update. No two updates share a stream. */
static uint64_t update_stream(int64_t update) {
    return (uint64_t)update << 24;
}

/* Sets the random stream of a micro-batch: the one it has when one rank runs all batches, split or not; the streams of
 * later micro-batches follow. The streams per micro-batch are measured once. */
static void set_rng_stream(tfm_trainer *t, const tfm__micro_batch *p, const tfm__pass_options *options, size_t batch,
                           uint64_t number) {
    const float *rates = t->dropout_state.rates;
    const uint64_t first = update_stream(options->update),
                   place = batch * (uint64_t)t->group.world_size + (uint64_t)t->group.rank;
    bool drops = false;
    for (int i = 0; i < TFM_DROPOUT_SITES; i++)
        drops = drops || rates[i] > 0;
    if (drops && !t->streams_known) {
        tfm__device_batch u = {0};
        tfm__token_counts sent = {0};
        tfm_tensor loss = {0}, nll = {0};
        t->dropout_state.stream = 0;
        tfm__micro_batch_upload(t, &u, p, &sent);
        t->streams_known = forward(t, &loss, &nll, &u, options->smoothing, options->scale) == TFM_OK;
        t->streams_per_micro_batch = t->dropout_state.stream;
    }
    t->dropout_state.stream = first + t->streams_per_micro_batch * (number * options->max_batches + place);
}

/* One attempt. *last is the last micro-batch run, *largest the most tokens of one. Waits after each new largest size:
 * some drivers report a lack of memory only then. */
static tfm_status run_batches(tfm_trainer *t, tfm__loss_sums *s, const tfm_batch *batches, size_t count,
                              const tfm__pass_options *options, tfm__micro_batch *last, int64_t *largest) {
    tfm_context *ctx = t->ctx;
    const tfm_dtype inputs = tfm__context_tuning(ctx)->gemm_input_dtype;
    tfm__micro_batch widest = {0};
    *s = (tfm__loss_sums){0};
    *largest = 0;
    if (options->training) {
        if (t->options.precision != TFM_F32)
            tfm__context_set_gemm_input_dtype(ctx, t->options.precision);
        if (t->dirty)
            tfm__tensor_fill(ctx, t->gradient, &(float){0});
        t->dirty = true;
        t->dropout_state.stream = update_stream(options->update);
        tfm__model_set_training(t->model, &t->dropout_state, t->options.gradient_checkpointing);
    }
    for (size_t i = 0; i < count; i++) {
        const tfm_batch *b = &batches[i];
        const int64_t rows = micro_batch_rows(t, b);
        for (int64_t first = 0; first < b->count && tfm_context_status(ctx) == TFM_OK; first += rows) {
            *last = tfm__micro_batch_slice(b, first, rows);
            if (options->training && tfm__process_group_active(t))
                set_rng_stream(t, last, options, i, (uint64_t)(first / rows));
            if (rows * row_tokens(b) > *largest) {
                *largest = rows * row_tokens(b);
                widest = *last;
            }
            tfm__pass_options micro = *options;
            micro.last_micro_batch = i + 1 == count && first + rows >= b->count;
            run_micro_batch(t, s, last, &micro);
        }
    }
    tfm__model_set_training(t->model, NULL, false);
    tfm__context_set_gemm_input_dtype(ctx, inputs);
    if (tfm_context_status(ctx) == TFM_OK && *largest > t->max_fitting_tokens && tfm_context_finish(ctx) != TFM_OK)
        *last = widest;
    return tfm_context_status(ctx);
}

tfm_status tfm__trainer_recover(tfm_trainer *t, int depth, const char *what, const char *advice) {
    const tfm_status status = tfm_context_status(t->ctx);
    char message[1024];
    snprintf(message, sizeof(message), "%s", tfm_context_error(t->ctx));
    tfm_tape_stop(t->ctx);
    tfm__context_recover(t->ctx, depth);
    return tfm__fail(status, "%s: %s%s", what, message, advice);
}

/* Halves the micro-batches after one did not fit. False if that was a single row. */
static bool halve_micro_batches(tfm_trainer *t, const tfm_batch *b, const char *what) {
    const int64_t rows = micro_batch_rows(t, b);
    if (rows < 2)
        return false;
    t->micro_batch_tokens = (rows + 1) / 2 * row_tokens(b);
    if (!t->warned)
        tfm__log(TFM_LOG_WARNING,
                 "%s: a batch of %lld rows of %lld tokens does not fit into the device's memory: such batches are run "
                 "in pieces from now on, with the same result to rounding",
                 what, (long long)b->count, (long long)row_tokens(b));
    t->warned = true;
    return true;
}

/* Advice if not even one row fits. */
static void single_row_advice(char *advice, size_t size, const tfm__micro_batch *last) {
    const tfm_batch *b = last->batch;
    const int target = (int)b->target_lengths[last->first];
    if (b->source_width > 0)
        snprintf(advice, size,
                 "; a pair of %d and %d tokens does not fit even alone: remove such pairs, or use a smaller model",
                 (int)b->source_lengths[last->first], target);
    else
        snprintf(advice, size, "; a text of %d tokens does not fit even alone: use shorter texts, or a smaller model",
                 target);
}

tfm_status tfm__run_micro_batches(tfm_trainer *t, tfm__loss_sums *s, const tfm_batch *batches, size_t count,
                                  const tfm__pass_options *options, const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    const int64_t room = t->micro_batch_tokens;
    char saved_message[TFM__MESSAGE_MAX]; /* the caller's error message, restored after a successful retry */
    tfm__error_save(saved_message);
    tfm__allreduce_reset(t);
    if (tfm__context_ready(t->ctx, what) != TFM_OK)
        return tfm_context_status(t->ctx);
    for (;;) {
        tfm__micro_batch last = {0};
        int64_t largest;
        char advice[256] = "";
        tfm_scope_open(t->ctx);
        tfm_status status = run_batches(t, s, batches, count, options, &last, &largest);
        if (status == TFM_OK) {
            t->max_fitting_tokens = largest > t->max_fitting_tokens ? largest : t->max_fitting_tokens;
            tfm__error_restore(saved_message);
            return TFM_OK;
        }
        const bool alone = status == TFM_ERROR_MEMORY && last.batch && micro_batch_rows(t, last.batch) == 1;
        if (alone)
            single_row_advice(advice, sizeof(advice), &last);
        tfm__allreduce_reset(t);
        status = tfm__trainer_recover(t, depth, what, advice);
        if (status == TFM_ERROR_AGAIN)
            continue;
        if (status != TFM_ERROR_MEMORY || !last.batch || !halve_micro_batches(t, last.batch, what)) {
            t->micro_batch_tokens = room;
            return status;
        }
    }
}
