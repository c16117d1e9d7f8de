/* Updates: forward and backward of batches, a step of Adam; and evaluations. A batch that the device has no
 * room for is run in pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/trainer.h"

static void set_training(tfm_model *model, tfm_training *training) {
    model->training = training;
    for (int i = 0; i < model->config.encoder_layers; i++)
        model->encoder[i].training = model->encoder[i].feed_forward.training = training;
    for (int i = 0; i < model->config.decoder_layers; i++)
        model->decoder[i].training = model->decoder[i].feed_forward.training = training;
}

/* ---- A piece of a batch ---- */

/* So many rows, as wide as their longest; of a whole batch, as wide as that. */
typedef struct piece {
    const tfm_pairs *batch;
    int64_t first, count, source_width, target_width;
} piece;

/* One upload: sources (B, S), decoder input (B, T), targets (B, T), source lengths (B). */
typedef struct upload {
    tfm_tensor sources, inputs, targets, lengths;
} upload;

/* What is added up over pieces. */
typedef struct sums {
    tfm_tensor loss, nll; /* (1) */
    uint64_t source_tokens, target_tokens;
} sums;

static tfm_status check_pairs(const tfm_trainer *t, const tfm_pairs *b) {
    const int64_t most = t->model->config.max_positions;
    if (b->count < 1 || b->source_width < 1 || b->target_width < 1 || b->source_width > most ||
        b->target_width > most)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "trainer: a batch of %lld pairs, %lld and %lld wide: at least one pair is "
                         "needed, and widths from 1 to %lld, the model's positions",
                         (long long)b->count, (long long)b->source_width, (long long)b->target_width,
                         (long long)most);
    for (int64_t i = 0; i < b->count; i++)
        if (b->source_lengths[i] < 1 || b->source_lengths[i] > b->source_width || b->target_lengths[i] < 1 ||
            b->target_lengths[i] > b->target_width)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "trainer: pair %lld has lengths %d and %d in a batch %lld and %lld wide",
                             (long long)i + 1, (int)b->source_lengths[i], (int)b->target_lengths[i],
                             (long long)b->source_width, (long long)b->target_width);
    return TFM_OK;
}

static int64_t longest(const int32_t *lengths, int64_t first, int64_t count) {
    int64_t most = 0;
    for (int64_t i = first; i < first + count; i++)
        most = lengths[i] > most ? lengths[i] : most;
    return most;
}

static piece cut(const tfm_pairs *b, int64_t first, int64_t rows) {
    piece p = {b, first, b->count - first < rows ? b->count - first : rows, b->source_width, b->target_width};
    if (p.count < b->count) {
        p.source_width = longest(b->source_lengths, first, p.count);
        p.target_width = longest(b->target_lengths, first, p.count);
    }
    return p;
}

static void view(tfm_context *ctx, tfm_tensor *out, tfm_tensor all, int64_t *at, int rank,
                 const int64_t *dims) {
    const int64_t count = dims[0] * (rank == 2 ? dims[1] : 1);
    tfm_tensor_rows(ctx, out, all, *at, count);
    tfm_tensor_reshape(ctx, out, *out, rank, dims);
    *at += count;
}

/* Padding: the source's is any id, behind its length; the input's likewise; targets that do not count are -1.
 */
static void fill_in(int32_t *host, const tfm__config *config, const piece *p, sums *s) {
    const tfm_pairs *b = p->batch;
    const int64_t n = p->count, width = p->source_width, w = p->target_width;
    int32_t *input = host + n * width, *target = input + n * w, *lengths = target + n * w;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = p->first + i;
        const int32_t *sources = b->sources + row * b->source_width,
                      *targets = b->targets + row * b->target_width;
        const int32_t source_length = b->source_lengths[row], length = b->target_lengths[row];
        for (int64_t k = 0; k < width; k++)
            host[i * width + k] = k < source_length ? sources[k] : config->pad_id;
        for (int64_t k = 0; k < w; k++) {
            input[i * w + k] = k == 0 ? config->start_id : k < length ? targets[k - 1] : config->pad_id;
            target[i * w + k] = k < length ? targets[k] : -1;
        }
        lengths[i] = source_length;
        s->source_tokens += (uint64_t)source_length;
        s->target_tokens += (uint64_t)length;
    }
}

static tfm_status send(tfm_trainer *t, upload *u, const piece *p, sums *sent) {
    const int64_t n = p->count, s = p->source_width, w = p->target_width, total = n * (s + 2 * w + 1);
    int32_t *host = tfm__alloc((size_t)total, sizeof(*host));
    if (!host)
        return tfm__context_fail(t->ctx, TFM_ERROR_MEMORY, "trainer: out of host memory");
    fill_in(host, &t->model->config, p, sent);
    tfm_tensor all = {0};
    int64_t at = 0;
    tfm_tensor_new(t->ctx, &all, TFM_I32, 1, &total);
    tfm_tensor_write(t->ctx, all, host);
    free(host);
    view(t->ctx, &u->sources, all, &at, 2, (int64_t[]){n, s});
    view(t->ctx, &u->inputs, all, &at, 2, (int64_t[]){n, w});
    view(t->ctx, &u->targets, all, &at, 2, (int64_t[]){n, w});
    view(t->ctx, &u->lengths, all, &at, 1, &n);
    return tfm_context_status(t->ctx);
}

/* loss and nll (1) each: sums over the batch's targets. */
static tfm_status forward(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const upload *u, float smoothing,
                          float scale) {
    tfm_model *model = t->model;
    tfm_context *ctx = t->ctx;
    tfm_tensor encoded = {0}, hidden = {0}, normed = {0};
    tfm_scope_open(ctx);
    tfm_model_encode(model, &encoded, u->sources, u->lengths);
    tfm__model_decode_hidden(model, &hidden, u->inputs, encoded, u->lengths, NULL);
    if (model->decoder_norm.gamma.value.buffer)
        tfm_norm_forward(ctx, &normed, NULL, &model->decoder_norm, hidden, (tfm_tensor){0});
    tfm_linear_cross_entropy(ctx, loss, nll, normed.buffer ? normed : hidden, model->output,
                             model->logits_bias, u->targets,
                             &(tfm_cross_entropy_options){.smoothing = smoothing, .scale = scale});
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){loss, nll});
}

static tfm_status add_to(tfm_context *ctx, tfm_tensor *sum, tfm_tensor x) {
    if (sum->buffer)
        return tfm_add(ctx, sum, *sum, x);
    *sum = x;
    return tfm_context_status(ctx);
}

/* What is done with every piece: an update's forward and backward, or an evaluation's forward. */
typedef struct pass {
    bool learn;
    int64_t number; /* of the update */
    float smoothing, scale;
} pass;

static tfm_status run_piece(tfm_trainer *t, sums *s, const piece *p, const pass *of) {
    tfm_context *ctx = t->ctx;
    upload u = {0};
    tfm_tensor loss = {0}, nll = {0};
    send(t, &u, p, s);
    if (of->learn) {
        tfm_tape_start(ctx);
        tfm_tape_watch(ctx, t->value, t->gradient);
    }
    forward(t, &loss, &nll, &u, of->smoothing, of->scale);
    if (of->learn)
        tfm_backward(ctx, loss, (tfm_tensor){0});
    add_to(ctx, &s->loss, loss);
    return add_to(ctx, &s->nll, nll);
}

/* ---- Batches, in pieces that fit ---- */

/* What a row takes grows with its tokens: attention never holds its weights. */
static int64_t tokens_of(const tfm_pairs *b) {
    return b->source_width + b->target_width;
}

/* Of the batch at a time: pieces of one size. */
static int64_t rows_of(const tfm_trainer *t, const tfm_pairs *b) {
    if (t->room == 0)
        return b->count;
    const int64_t most = t->room / tokens_of(b) > 1 ? t->room / tokens_of(b) : 1,
                  pieces = (b->count + most - 1) / most;
    return (b->count + pieces - 1) / pieces;
}

/* Streams of an update's draws: no two updates share one. */
static uint64_t first_stream(int64_t update) {
    return (uint64_t)update << 24;
}

/* One attempt. *last is the piece that it came to, *largest the tokens of the largest. A size that has not
 * been run before is waited for: some drivers tell only then that there is no room. */
static tfm_status run_batches(tfm_trainer *t, sums *s, const tfm_pairs *batches, size_t count, const pass *of,
                              piece *last, int64_t *largest) {
    tfm_context *ctx = t->ctx;
    piece widest = {0};
    *s = (sums){0};
    *largest = 0;
    if (of->learn) {
        if (t->dirty)
            tfm__tensor_fill(ctx, t->gradient, &(float){0});
        t->dirty = true;
        t->training.stream = first_stream(of->number);
        set_training(t->model, &t->training);
    }
    for (size_t i = 0; i < count; i++) {
        const tfm_pairs *b = &batches[i];
        const int64_t rows = rows_of(t, b);
        for (int64_t first = 0; first < b->count && tfm_context_status(ctx) == TFM_OK; first += rows) {
            *last = cut(b, first, rows);
            if (rows * tokens_of(b) > *largest) {
                *largest = rows * tokens_of(b);
                widest = *last;
            }
            run_piece(t, s, last, of);
        }
    }
    set_training(t->model, NULL);
    if (tfm_context_status(ctx) == TFM_OK && *largest > t->proven && tfm_context_finish(ctx) != TFM_OK)
        *last = widest;
    return tfm_context_status(ctx);
}

/* The context as it was before, with the tape off, and its error as this thread's sentence. */
static tfm_status abandon(tfm_trainer *t, int depth, const char *what, const char *advice) {
    const tfm_status status = tfm_context_status(t->ctx);
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "%s", tfm_context_error(t->ctx));
    tfm_tape_stop(t->ctx);
    tfm__context_recover(t->ctx, depth);
    return tfm__fail(status, "%s: %s%s", what, sentence, advice);
}

/* After a failure: half of what did not fit. False where that was one pair at a time. */
static bool make_smaller(tfm_trainer *t, const tfm_pairs *b, const char *what) {
    const int64_t rows = rows_of(t, b);
    if (rows < 2)
        return false;
    t->room = (rows + 1) / 2 * tokens_of(b);
    if (!t->told)
        tfm__log(TFM_LOG_WARNING,
                 "%s: a batch of %lld pairs, %lld and %lld tokens wide, does not fit into the device's "
                 "memory: such "
                 "batches are run in pieces from now on, with the same result to rounding",
                 what, (long long)b->count, (long long)b->source_width, (long long)b->target_width);
    t->told = true;
    return true;
}

/* All batches, in pieces where they do not fit. If all went well, in a scope that is open then. */
static tfm_status run_fitting(tfm_trainer *t, sums *s, const tfm_pairs *batches, size_t count, const pass *of,
                              const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    const int64_t room = t->room;
    if (tfm_context_status(t->ctx) != TFM_OK)
        return tfm__fail(tfm_context_status(t->ctx), "%s: the context has failed before: %s", what,
                         tfm_context_error(t->ctx));
    for (;;) {
        piece last = {0};
        int64_t largest;
        char advice[256] = "";
        tfm_scope_open(t->ctx);
        tfm_status status = run_batches(t, s, batches, count, of, &last, &largest);
        if (status == TFM_OK) {
            t->proven = largest > t->proven ? largest : t->proven;
            return TFM_OK;
        }
        const bool alone = status == TFM_ERROR_MEMORY && last.batch && rows_of(t, last.batch) == 1;
        if (alone)
            snprintf(advice, sizeof(advice),
                     "; a pair of %d and %d tokens does not fit even alone: leave such pairs out, or take a "
                     "smaller "
                     "model",
                     (int)last.batch->source_lengths[last.first],
                     (int)last.batch->target_lengths[last.first]);
        status = abandon(t, depth, what, advice);
        if (status != TFM_ERROR_MEMORY || !last.batch || !make_smaller(t, last.batch, what)) {
            t->room = room;
            return status;
        }
    }
}

/* ---- An update ---- */

/* *begun: whether anything has been written. */
static tfm_status step(tfm_trainer *t, bool *begun, tfm_tensor norm, double rate) {
    tfm_context *ctx = t->ctx;
    const tfm_trainer_options *o = &t->options;
    const int64_t bounds[] = {0, t->decayed, t->count};
    tfm_adam_options adam = {.rate = rate,
                             .beta1 = o->beta1,
                             .beta2 = o->beta2,
                             .epsilon = o->epsilon,
                             .step = t->update + 1,
                             .clip = o->clip,
                             .norm = norm};
    const tfm_tensor all[] = {t->value, t->gradient, t->m, t->v};
    const int parts = o->decay > 0 ? 2 : 1;
    for (int part = 0; part < parts; part++) {
        tfm_tensor p[4];
        const int64_t begin = bounds[part], end = parts == 1 ? t->count : bounds[part + 1];
        for (int i = 0; i < 4; i++)
            tfm_tensor_rows(ctx, &p[i], all[i], begin, end - begin);
        adam.decay = part == 0 ? o->decay : 0;
        *begun |= tfm_adam(ctx, p[0], p[1], p[2], p[3], &adam) == TFM_OK;
    }
    for (size_t i = 0; i < t->param_count; i++)
        t->params[i]->version++;
    return tfm_context_status(ctx);
}

static tfm_status report_on(tfm_trainer *t, tfm_update_report *report, tfm_tensor loss, tfm_tensor nll,
                            tfm_tensor norm) {
    float values[3] = {0};
    const tfm_tensor parts[] = {loss, nll, norm};
    for (int i = 0; i < 3; i++)
        tfm_tensor_read(t->ctx, &values[i], parts[i]);
    if (tfm_context_status(t->ctx) != TFM_OK)
        return tfm_context_status(t->ctx);
    report->loss = (double)values[0] / (double)report->target_tokens;
    report->nll = (double)values[1] / (double)report->target_tokens;
    report->gradient_norm = (double)values[2];
    if (!isfinite(report->loss) || !isfinite(report->gradient_norm))
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "update %lld: the loss is %g and the gradient's norm %g: the parameters are those of the update "
            "before; try a lower learning rate, a longer warm-up, or clipping",
            (long long)report->update, report->loss, report->gradient_norm);
    return TFM_OK;
}

tfm_status tfm_trainer_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches,
                              size_t count) {
    tfm_context *ctx = t->ctx;
    tfm_update_report own = {.update = t->update + 1, .rate = tfm_trainer_rate(&t->options, t->update + 1)};
    tfm_status status =
        count > 0 ? TFM_OK : tfm__fail(TFM_ERROR_ARGUMENT, "trainer: an update needs a batch");
    uint64_t tokens = 0;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = check_pairs(t, &batches[i]);
        for (int64_t k = 0; k < batches[i].count && status == TFM_OK; k++)
            tokens += (uint64_t)batches[i].target_lengths[k];
    }
    if (status != TFM_OK)
        return status;
    const int depth = tfm__scope_depth(ctx);
    const pass learn = {true, own.update, t->options.smoothing, (float)(1 / (double)tokens)};
    char what[64];
    sums s;
    tfm_tensor norm = {0};
    snprintf(what, sizeof(what), "update %lld", (long long)own.update);
    if ((status = run_fitting(t, &s, batches, count, &learn, what)) != TFM_OK)
        return status;
    bool begun = false;
    own.source_tokens = s.source_tokens;
    own.target_tokens = s.target_tokens;
    tfm_l2_norm(ctx, &norm, t->gradient);
    if (step(t, &begun, norm, own.rate) != TFM_OK && !begun)
        return abandon(t, depth, what, "");
    t->update++;
    status = report ? report_on(t, &own, s.loss, s.nll, norm) : TFM_OK;
    if (tfm_context_status(ctx) != TFM_OK)
        return abandon(t, depth, what, "; the parameters may be spoiled: load the last checkpoint");
    t->dirty = false; /* the step has zeroed it */
    if (report)
        *report = own;
    tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

tfm_status tfm_trainer_evaluate(tfm_trainer *t, double *nll, uint64_t *tokens, const tfm_pairs *batch) {
    const int depth = tfm__scope_depth(t->ctx);
    const pass look = {.scale = 1};
    sums s;
    float value = 0;
    tfm_status status = check_pairs(t, batch);
    if (status == TFM_OK)
        status = run_fitting(t, &s, batch, 1, &look, "evaluation");
    if (status != TFM_OK)
        return status;
    if (tfm_tensor_read(t->ctx, &value, s.nll) != TFM_OK)
        return abandon(t, depth, "evaluation", "");
    *nll = (double)value;
    *tokens = s.target_tokens;
    return tfm_scope_close(t->ctx, 0, NULL);
}
