/* Updates: forward and backward of batches, a step of Adam; and evaluations. A batch that the device has no
 * room for is run in pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/trainer.h"

/* ---- A piece of a batch ---- */

/* Some rows of a batch, as wide as the longest of them, or all of them, as wide as the batch. */
typedef struct piece {
    const tfm_pairs *batch;
    int64_t first, count, source_width, target_width;
} piece;

/* What is sent to the device at once: sources (B, S), the decoder's input (B, T), targets (B, T) and the lengths of the
 * sources (B). */
typedef struct upload {
    tfm_tensor sources, inputs, targets, lengths;
} upload;

/* What is added up over pieces. */
typedef struct sums {
    tfm_tensor loss, nll; /* (1) */
    uint64_t source_tokens, target_tokens;
} sums;

static tfm_status check_pairs(const tfm_trainer *t, const char *call, const tfm_pairs *b) {
    const tfm__arch *arch = &t->model->arch;
    const int64_t most = arch->encoder.max_positions < arch->decoder.max_positions ? arch->encoder.max_positions
                                                                                   : arch->decoder.max_positions;
    if (b->count < 1 || b->source_width < 1 || b->target_width < 1 || b->source_width > most || b->target_width > most)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "%s: a batch of %lld pairs, %lld and %lld wide: at least one pair is needed, and widths from "
                         "1 to %lld, the model's positions",
                         call, (long long)b->count, (long long)b->source_width, (long long)b->target_width,
                         (long long)most);
    const void *const arrays[] = {b->sources, b->targets, b->source_lengths, b->target_lengths};
    if (tfm__needs(call, "batch.sources, batch.targets, batch.source_lengths, batch.target_lengths", TFM__COUNT(arrays),
                   arrays) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    for (int64_t i = 0; i < b->count; i++)
        if (b->source_lengths[i] < 1 || b->source_lengths[i] > b->source_width || b->target_lengths[i] < 1 ||
            b->target_lengths[i] > b->target_width)
            return tfm__fail(TFM_ERROR_ARGUMENT, "%s: pair %lld has lengths %d and %d in a batch %lld and %lld wide",
                             call, (long long)i + 1, (int)b->source_lengths[i], (int)b->target_lengths[i],
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

static void view(tfm_context *ctx, tfm_tensor *out, tfm_tensor all, int64_t *at, int rank, const int64_t *dims) {
    const int64_t count = dims[0] * (rank == 2 ? dims[1] : 1);
    tfm_tensor_rows(ctx, out, all, *at, count);
    tfm_tensor_reshape(ctx, out, *out, rank, dims);
    *at += count;
}

/* Pads the arrays. After their lengths, sources and inputs have the padding id, and targets -1, which does not count.
 */
static void fill_in(int32_t *host, const tfm__rules *rules, const piece *p, sums *s) {
    const tfm_pairs *b = p->batch;
    const int64_t n = p->count, width = p->source_width, w = p->target_width;
    int32_t *input = host + n * width, *target = input + n * w, *lengths = target + n * w;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = p->first + i;
        const int32_t *sources = b->sources + row * b->source_width, *targets = b->targets + row * b->target_width;
        const int32_t source_length = b->source_lengths[row], length = b->target_lengths[row];
        tfm__ids_pad(host + i * width, width, sources, (size_t)source_length, 0, 0, rules->pad_id);
        tfm__ids_pad(input + i * w, w, targets, (size_t)length, 1, rules->start_id, rules->pad_id);
        tfm__ids_pad(target + i * w, w, targets, (size_t)length, 0, 0, -1);
        lengths[i] = source_length;
        s->source_tokens += (uint64_t)source_length;
        s->target_tokens += (uint64_t)length;
    }
}

static tfm_status send(tfm_trainer *t, upload *u, const piece *p, sums *sent) {
    const int64_t n = p->count, s = p->source_width, w = p->target_width, total = n * (s + 2 * w + 1);
    int32_t *host = tfm__alloc((size_t)total, sizeof(*host));
    if (!host)
        return tfm__context_fail(t->ctx, TFM_ERROR_MEMORY, "update: out of host memory");
    fill_in(host, &t->model->rules, p, sent);
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

/* Runs the model over a piece. loss and nll are (1) each, sums over its targets. */
static tfm_status forward(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const upload *u, float smoothing,
                          float scale) {
    tfm_model *model = t->model;
    tfm_context *ctx = t->ctx;
    tfm_tensor encoded = {0}, hidden = {0}, scaled = {0};
    tfm_scope_open(ctx);
    tfm_model_encode(model, &encoded, u->sources, u->lengths);
    tfm__model_decode_hidden(model, &hidden, u->inputs, encoded, u->lengths, NULL);
    tfm__model_scale_output(model, &scaled, hidden);
    tfm_linear_cross_entropy(ctx, loss, nll, scaled, model->output, model->logits_bias, u->targets,
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
    int64_t number; /* The number of the update. */
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

/* The tokens of one row. What a row takes of the memory grows with them, since attention never holds its weights. */
static int64_t tokens_of(const tfm_pairs *b) {
    return b->source_width + b->target_width;
}

/* Returns how many rows of the batch are run at a time. The pieces of a batch have one size. */
static int64_t rows_of(const tfm_trainer *t, const tfm_pairs *b) {
    if (t->room == 0)
        return b->count;
    const int64_t most = t->room / tokens_of(b) > 1 ? t->room / tokens_of(b) : 1,
                  pieces = tfm__divide_up(b->count, most);
    return tfm__divide_up(b->count, pieces);
}

/* Returns the first stream of an update's draws. No two updates share a stream. */
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
        tfm__model_set_training(t->model, &t->training);
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
    tfm__model_set_training(t->model, NULL);
    if (tfm_context_status(ctx) == TFM_OK && *largest > t->proven && tfm_context_finish(ctx) != TFM_OK)
        *last = widest;
    return tfm_context_status(ctx);
}

/* Puts the context back to where it was before, with the tape stopped, and makes its error this thread's sentence. */
static tfm_status abandon(tfm_trainer *t, int depth, const char *what, const char *advice) {
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
                 "%s: a batch of %lld pairs, %lld and %lld tokens wide, does not fit into the device's "
                 "memory: such "
                 "batches are run in pieces from now on, with the same result to rounding",
                 what, (long long)b->count, (long long)b->source_width, (long long)b->target_width);
    t->told = true;
    return true;
}

/* Runs all batches, in pieces where they do not fit. If all goes well, a scope is left open that has the sums. */
static tfm_status run_fitting(tfm_trainer *t, sums *s, const tfm_pairs *batches, size_t count, const pass *of,
                              const char *what) {
    const int depth = tfm__scope_depth(t->ctx);
    const int64_t room = t->room;
    if (tfm__context_ready(t->ctx, what) != TFM_OK)
        return tfm_context_status(t->ctx);
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
                     (int)last.batch->source_lengths[last.first], (int)last.batch->target_lengths[last.first]);
        status = abandon(t, depth, what, advice);
        if (status == TFM_ERROR_AGAIN)
            continue;
        if (status != TFM_ERROR_MEMORY || !last.batch || !make_smaller(t, last.batch, what)) {
            t->room = room;
            return status;
        }
    }
}

/* ---- An update ---- */

/* Makes one step of Adam. *begun becomes true as soon as parameters may have been written. */
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
            TFM_ERROR_NUMERIC,
            "update %lld: the loss is %g and the gradient's norm %g: the parameters are those of the update "
            "before; try a lower learning rate, a longer warm-up, or clipping",
            (long long)report->update, report->loss, report->gradient_norm);
    return TFM_OK;
}

tfm_status tfm_trainer_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches, size_t count) {
    if (TFM__NEEDS("trainer_update", t, batches) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_context *ctx = t->ctx;
    tfm_update_report own = {.update = t->update + 1, .rate = tfm_trainer_rate(&t->options, t->update + 1)};
    tfm_status status = count > 0 ? TFM_OK : tfm__fail(TFM_ERROR_ARGUMENT, "trainer_update: an update needs a batch");
    uint64_t tokens = 0;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = check_pairs(t, "trainer_update", &batches[i]);
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
    bool begun = false;
    do {
        if ((status = run_fitting(t, &s, batches, count, &learn, what)) != TFM_OK)
            return status;
        norm = (tfm_tensor){0};
        tfm_l2_norm(ctx, &norm, t->gradient);
        status = step(t, &begun, norm, own.rate);
        if (status != TFM_OK && !begun)
            status = abandon(t, depth, what, "");
    } while (status == TFM_ERROR_AGAIN && !begun);
    if (status != TFM_OK && !begun)
        return status;
    own.source_tokens = s.source_tokens;
    own.target_tokens = s.target_tokens;
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
    if (TFM__NEEDS("trainer_evaluate", t, nll, tokens, batch) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    const int depth = tfm__scope_depth(t->ctx);
    const pass look = {.scale = 1};
    sums s;
    float value = 0;
    tfm_status status = check_pairs(t, "trainer_evaluate", batch);
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
