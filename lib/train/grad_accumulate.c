/* Forward and backward of batches. A batch that the device has no room for is run in pieces. */
#include <stdio.h>
#include "train/grad_accumulate.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/autograd/tape.h"

/* ---- A piece of a batch ---- */

/* Runs the model over a piece. loss and nll are (1) each, sums over its targets. */
static tfm_status forward(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const tfm__upload *u, float smoothing,
                          float scale) {
    tfm_model *model = t->model;
    tfm_context *ctx = t->ctx;
    tfm_tensor encoded = {0}, hidden = {0}, scaled = {0};
    tfm_scope_open(ctx);
    if (u->sources.buffer)
        tfm_model_encode(model, &encoded, u->sources, u->lengths);
    tfm__model_decode_hidden(model, &hidden, u->inputs, encoded, u->lengths, NULL);
    tfm__model_scale_output(model, &scaled, hidden);
    const tfm_cross_entropy_options entropy = {.smoothing = smoothing, .scale = scale, .cap = model->arch.logit_cap};
    tfm_linear_cross_entropy(ctx, loss, nll, scaled, model->output, tfm__model_inner_bias(model, model->logits_bias),
                             u->targets, &entropy);
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){loss, nll});
}

static tfm_status add_to(tfm_context *ctx, tfm_tensor *sum, tfm_tensor x) {
    if (sum->buffer)
        return tfm_add(ctx, sum, *sum, x);
    *sum = x;
    return tfm_context_status(ctx);
}

static tfm_status run_piece(tfm_trainer *t, tfm__sums *s, const tfm__micro_batch *p, const tfm__pass *of) {
    tfm_context *ctx = t->ctx;
    tfm__upload u = {0};
    tfm_tensor loss = {0}, nll = {0};
    tfm__micro_batch_upload(t, &u, p, &s->sent);
    if (of->learn) {
        tfm_tape_start(ctx);
        tfm_tape_watch(ctx, t->value, t->gradient);
        if (of->last && tfm__ranks_several(t))
            tfm__wire_listen(t);
    }
    forward(t, &loss, &nll, &u, of->smoothing, of->scale);
    if (of->learn)
        tfm_backward(ctx, loss, (tfm_tensor){0});
    add_to(ctx, &s->loss, loss);
    return add_to(ctx, &s->nll, nll);
}

/* ---- Batches, in pieces that fit ---- */

/* The tokens of one row. What a row takes of the memory grows with them, since attention never holds its weights. */
static int64_t tokens_of(const tfm_pairs *b) {
    return b->source_width + b->target_width;
}

/* Returns how many rows of the batch are run at a time. The pieces of a batch have one size. */
static int64_t rows_of(const tfm_trainer *t, const tfm_pairs *b) {
    if (t->room == 0)
        return b->count;
    const int64_t most = t->room / tokens_of(b) > 1 ? t->room / tokens_of(b) : 1,
                  pieces = tfm__ceil_div(b->count, most);
    return tfm__ceil_div(b->count, pieces);
}

/* Returns the first stream of an update's draws. No two updates share a stream. */
static uint64_t first_stream(int64_t update) {
    return (uint64_t)update << 24;
}

/* Sets the stream that a piece of a rank's batch draws from. It is the one that it would have if one rank ran the
 * batches of all, in pieces or not; the streams of later pieces come after all of those. How many draws a piece takes
 * is seen from one, once. */
static void set_stream(tfm_trainer *t, const tfm__micro_batch *p, const tfm__pass *of, size_t batch, uint64_t number) {
    const float *rates = t->training.rates;
    const uint64_t first = first_stream(of->number), place = batch * (uint64_t)t->ranks.world + (uint64_t)t->ranks.rank;
    bool drops = false;
    for (int i = 0; i < TFM_DROPS; i++)
        drops = drops || rates[i] > 0;
    if (drops && !t->draws_known) {
        tfm__upload u = {0};
        tfm__sent sent = {0};
        tfm_tensor loss = {0}, nll = {0};
        t->training.stream = 0;
        tfm__micro_batch_upload(t, &u, p, &sent);
        t->draws_known = forward(t, &loss, &nll, &u, of->smoothing, of->scale) == TFM_OK;
        t->draws = t->training.stream;
    }
    t->training.stream = first + t->draws * (number * of->batches + place);
}

/* One attempt. *last is the piece that it came to, *largest the tokens of the largest. A size that has not
 * been run before is waited for: some drivers tell only then that there is no room. */
static tfm_status run_batches(tfm_trainer *t, tfm__sums *s, const tfm_pairs *batches, size_t count, const tfm__pass *of,
                              tfm__micro_batch *last, int64_t *largest) {
    tfm_context *ctx = t->ctx;
    const tfm_dtype inputs = tfm__context_tuning(ctx)->gemm_input_dtype;
    tfm__micro_batch widest = {0};
    *s = (tfm__sums){0};
    *largest = 0;
    if (of->learn) {
        if (t->options.precision != TFM_F32)
            tfm__context_set_gemm_input_dtype(ctx, t->options.precision);
        if (t->dirty)
            tfm__tensor_fill(ctx, t->gradient, &(float){0});
        t->dirty = true;
        t->training.stream = first_stream(of->number);
        tfm__model_set_training(t->model, &t->training, t->options.recompute);
    }
    for (size_t i = 0; i < count; i++) {
        const tfm_pairs *b = &batches[i];
        const int64_t rows = rows_of(t, b);
        for (int64_t first = 0; first < b->count && tfm_context_status(ctx) == TFM_OK; first += rows) {
            *last = tfm__micro_batch_slice(b, first, rows);
            if (of->learn && tfm__ranks_several(t))
                set_stream(t, last, of, i, (uint64_t)(first / rows));
            if (rows * tokens_of(b) > *largest) {
                *largest = rows * tokens_of(b);
                widest = *last;
            }
            tfm__pass piece = *of;
            piece.last = i + 1 == count && first + rows >= b->count;
            run_piece(t, s, last, &piece);
        }
    }
    tfm__model_set_training(t->model, NULL, false);
    tfm__context_set_gemm_input_dtype(ctx, inputs);
    if (tfm_context_status(ctx) == TFM_OK && *largest > t->proven && tfm_context_finish(ctx) != TFM_OK)
        *last = widest;
    return tfm_context_status(ctx);
}

tfm_status tfm__train_abandon(tfm_trainer *t, int depth, const char *what, const char *advice) {
    const tfm_status status = tfm_context_status(t->ctx);
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "%s", tfm_context_error(t->ctx));
    tfm_tape_stop(t->ctx);
    tfm__context_recover(t->ctx, depth);
    return tfm__fail(status, "%s: %s%s", what, sentence, advice);
}

/* Halves the pieces after one that did not fit. Returns false if that was a single pair. */
static bool make_smaller(tfm_trainer *t, const tfm_pairs *b, const char *what) {
    const int64_t rows = rows_of(t, b);
    if (rows < 2)
        return false;
    t->room = (rows + 1) / 2 * tokens_of(b);
    if (!t->told)
        tfm__log(TFM_LOG_WARNING,
                 "%s: a batch of %lld rows of %lld tokens does not fit into the device's memory: such batches are run "
                 "in pieces from now on, with the same result to rounding",
                 what, (long long)b->count, (long long)tokens_of(b));
    t->told = true;
    return true;
}

/* What to do where not one row fits. */
static void say_alone(char *advice, size_t size, const tfm__micro_batch *last) {
    const tfm_pairs *b = last->batch;
    const int target = (int)b->target_lengths[last->first];
    if (b->source_width > 0)
        snprintf(advice, size,
                 "; a pair of %d and %d tokens does not fit even alone: leave such pairs out, or take a smaller model",
                 (int)b->source_lengths[last->first], target);
    else
        snprintf(advice, size, "; a text of %d tokens does not fit even alone: take shorter ones, or a smaller model",
                 target);
}

tfm_status tfm__run_fitting(tfm_trainer *t, tfm__sums *s, const tfm_pairs *batches, size_t count, const tfm__pass *of,
                            const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    const int64_t room = t->room;
    char saved_message[TFM__MESSAGE_MAX]; /* the thread's sentence, which what is made again leaves as it was */
    tfm__error_save(saved_message);
    tfm__wire_forget(t);
    if (tfm__context_ready(t->ctx, what) != TFM_OK)
        return tfm_context_status(t->ctx);
    for (;;) {
        tfm__micro_batch last = {0};
        int64_t largest;
        char advice[256] = "";
        tfm_scope_open(t->ctx);
        tfm_status status = run_batches(t, s, batches, count, of, &last, &largest);
        if (status == TFM_OK) {
            t->proven = largest > t->proven ? largest : t->proven;
            tfm__error_restore(saved_message);
            return TFM_OK;
        }
        const bool alone = status == TFM_ERROR_MEMORY && last.batch && rows_of(t, last.batch) == 1;
        if (alone)
            say_alone(advice, sizeof(advice), &last);
        tfm__wire_forget(t);
        status = tfm__train_abandon(t, depth, what, advice);
        if (status == TFM_ERROR_AGAIN)
            continue;
        if (status != TFM_ERROR_MEMORY || !last.batch || !make_smaller(t, last.batch, what)) {
            t->room = room;
            return status;
        }
    }
}
