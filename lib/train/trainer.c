/* The trainer: parameters in one piece, and one update after the other. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "train/trainer.h"

tfm_trainer_options tfm_trainer_defaults(void) {
    return (tfm_trainer_options){
        .dropout = 0.1f,
        .smoothing = 0.1f,
        .schedule = TFM_INVERSE_SQRT,
        .rate = 1 / sqrt(512.0 * 4000.0),
        .warmup = 4000,
        .updates = 100000,
        .beta1 = 0.9,
        .beta2 = 0.98,
        .epsilon = 1e-9,
    };
}

double tfm_trainer_rate(const tfm_trainer_options *o, int64_t update) {
    const double t = (double)update, w = (double)(o->warmup > 1 ? o->warmup : 1), end = (double)o->updates;
    if (t < w)
        return o->rate * t / w;
    const double left = end > w ? fmax(0, fmin(1, (end - t) / (end - w))) : 0;
    switch (o->schedule) {
    case TFM_LINEAR:
        return o->rate * left;
    case TFM_COSINE:
        return o->rate * 0.5 * (1 - cos(left * 3.14159265358979323846));
    case TFM_CONSTANT:
        return o->rate;
    default:
        return o->rate * sqrt(w / t);
    }
}

/* ---- Parameters in one piece ---- */

/* Each begins at a multiple of this many floats. */
enum { ALIGNED = 64 };

typedef struct layout {
    tfm_trainer *trainer;
    bool decayed; /* of which kind this pass is */
    bool move;    /* else count */
    int64_t at;
} layout;

static bool is_decayed(const tfm__parameter *p) {
    return p->kind == TFM__MATRIX || p->kind == TFM__TABLE;
}

/* The value is copied to its place; a view of the piece takes its. */
static tfm_status place(void *user, const tfm__parameter *p) {
    layout *l = user;
    tfm_trainer *t = l->trainer;
    tfm_context *ctx = t->ctx;
    const int64_t count = p->dims[0] * (p->rank == 2 ? p->dims[1] : 1);
    if (is_decayed(p) != l->decayed)
        return TFM_OK;
    if (l->move) {
        tfm_tensor view = {0};
        tfm_tensor_rows(ctx, &view, t->value, l->at, count);
        tfm_tensor_reshape(ctx, &view, view, p->rank, p->dims);
        tfm__tensor_copy(ctx, view, p->param->value);
        tfm_param_free(ctx, p->param);
        p->param->value = view;
        t->params[t->param_count++] = p->param;
    } else {
        t->param_count++;
    }
    l->at += (count + ALIGNED - 1) / ALIGNED * ALIGNED;
    return tfm_context_status(ctx);
}

/* Matrices and tables first: those are what decays. */
static tfm_status walk_all(tfm_trainer *t, bool move) {
    layout l = {.trainer = t, .move = move};
    tfm_status status = TFM_OK;
    t->param_count = 0;
    for (int pass = 0; pass < 2 && status == TFM_OK; pass++) {
        l.decayed = pass == 0;
        status = tfm__model_walk_tables(t->model, place, &l);
        if (status == TFM_OK)
            status = tfm__model_walk(t->model, place, &l);
        if (pass == 0)
            t->decayed = l.at;
    }
    t->count = l.at;
    return status;
}

static tfm_status new_piece(tfm_trainer *t, tfm_tensor *out) {
    const float zero = 0;
    if (tfm__tensor_new_lasting(t->ctx, out, TFM_F32, 1, &t->count) != TFM_OK)
        return tfm_context_status(t->ctx);
    return tfm__tensor_fill(t->ctx, *out, &zero);
}

static tfm_status lay_out(tfm_trainer *t) {
    tfm_tensor *const pieces[] = {&t->value, &t->gradient, &t->m, &t->v};
    tfm_status status = walk_all(t, false);
    for (size_t i = 0; i < TFM_COUNT(pieces) && status == TFM_OK; i++)
        status = new_piece(t, pieces[i]);
    if (status != TFM_OK)
        return status;
    t->params = tfm__alloc(t->param_count, sizeof(tfm_param *));
    return t->params ? walk_all(t, true) : TFM_ERROR_MEMORY;
}

/* ---- Life ---- */

static tfm_status check_options(const tfm_trainer_options *o) {
    const float rates[] = {o->dropout, o->attention_dropout, o->activation_dropout, o->smoothing};
    bool good = o->warmup >= 0 && o->rate >= 0 && isfinite(o->rate);
    for (size_t i = 0; i < TFM_COUNT(rates); i++)
        good &= rates[i] >= 0 && rates[i] < 1;
    return good ? TFM_OK
                : tfm__fail(TFM_ERROR_ARGUMENT,
                            "trainer: dropout %g, %g, %g, smoothing %g, rate %g, warmup %lld: shares "
                            "must lie in [0, 1), the others not be negative",
                            (double)o->dropout, (double)o->attention_dropout, (double)o->activation_dropout,
                            (double)o->smoothing, o->rate, (long long)o->warmup);
}

static void set_training(tfm_model *model, tfm_training *training) {
    model->training = training;
    for (int i = 0; i < model->config.encoder_layers; i++)
        model->encoder[i].training = model->encoder[i].feed_forward.training = training;
    for (int i = 0; i < model->config.decoder_layers; i++)
        model->decoder[i].training = model->decoder[i].feed_forward.training = training;
}

tfm_status tfm_trainer_open(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options) {
    *out = NULL;
    tfm_status status = check_options(options);
    if (status != TFM_OK)
        return status;
    if (!model->config.static_positions)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "trainer: the model's positions are learned: only sinusoids are trained on");
    if (tfm_context_status(model->ctx) != TFM_OK)
        return tfm__fail(tfm_context_status(model->ctx), "trainer: the context has failed before: %s",
                         tfm_context_error(model->ctx));
    tfm_trainer *t = tfm__alloc(1, sizeof(*t));
    if (!t)
        return TFM_ERROR_MEMORY;
    t->ctx = model->ctx;
    t->model = model;
    t->options = *options;
    t->training = (tfm_training){.rates = {[TFM_DROP_RESIDUAL] = options->dropout,
                                           [TFM_DROP_ATTENTION] = options->attention_dropout,
                                           [TFM_DROP_ACTIVATION] = options->activation_dropout},
                                 .seed = options->seed};
    status = lay_out(t);
    if (status != TFM_OK) {
        tfm_trainer_free(&t);
        return status;
    }
    tfm__pool_trim(t->ctx); /* where the parameters were */
    *out = t;
    return TFM_OK;
}

void tfm_trainer_free(tfm_trainer **pointer) {
    tfm_trainer *t = pointer ? *pointer : NULL;
    if (!t)
        return;
    *pointer = NULL;
    tfm_tensor_free(t->ctx, &t->gradient);
    tfm_tensor_free(t->ctx, &t->m);
    tfm_tensor_free(t->ctx, &t->v);
    if (t->param_count == 0 || !t->params) /* the model has not moved in */
        tfm_tensor_free(t->ctx, &t->value);
    free(t->params);
    free(t->note);
    free(t);
}

int64_t tfm_trainer_updates(const tfm_trainer *trainer) {
    return trainer->update;
}

/* ---- A batch ---- */

/* One upload: sources (B, S), decoder input (B, T), targets (B, T), source lengths (B). */
typedef struct upload {
    tfm_tensor sources, inputs, targets, lengths;
    uint64_t source_tokens, target_tokens;
} upload;

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

static void view(tfm_context *ctx, tfm_tensor *out, tfm_tensor all, int64_t *at, int rank,
                 const int64_t *dims) {
    const int64_t count = dims[0] * (rank == 2 ? dims[1] : 1);
    tfm_tensor_rows(ctx, out, all, *at, count);
    tfm_tensor_reshape(ctx, out, *out, rank, dims);
    *at += count;
}

/* Padding: the source's is any id, behind its length; the input's likewise; targets that do not count are -1.
 */
static tfm_status send(tfm_trainer *t, upload *u, const tfm_pairs *b) {
    const tfm__config *config = &t->model->config;
    const int64_t n = b->count, s = b->source_width, w = b->target_width, total = n * (s + 2 * w + 1);
    int32_t *host = tfm__alloc((size_t)total, sizeof(*host));
    if (!host)
        return tfm__context_fail(t->ctx, TFM_ERROR_MEMORY, "trainer: out of host memory");
    int32_t *input = host + n * s, *target = input + n * w;
    for (int64_t i = 0; i < n; i++) {
        const int32_t source_length = b->source_lengths[i], length = b->target_lengths[i];
        for (int64_t k = 0; k < s; k++)
            host[i * s + k] = k < source_length ? b->sources[i * s + k] : config->pad_id;
        for (int64_t k = 0; k < w; k++) {
            input[i * w + k] = k == 0       ? config->start_id
                               : k < length ? b->targets[i * w + k - 1]
                                            : config->pad_id;
            target[i * w + k] = k < length ? b->targets[i * w + k] : -1;
        }
        host[n * (s + 2 * w) + i] = source_length;
        u->source_tokens += (uint64_t)source_length;
        u->target_tokens += (uint64_t)length;
    }
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

/* ---- An update ---- */

/* Streams of an update's draws: no two updates share one. */
static uint64_t first_stream(int64_t update) {
    return (uint64_t)update << 24;
}

static tfm_status add_to(tfm_context *ctx, tfm_tensor *sum, tfm_tensor x) {
    if (sum->buffer)
        return tfm_add(ctx, sum, *sum, x);
    *sum = x;
    return tfm_context_status(ctx);
}

/* Forward and backward of one batch: gradients, loss and nll are added up. */
static tfm_status run_batch(tfm_trainer *t, tfm_tensor *loss, tfm_tensor *nll, const upload *u, float scale) {
    tfm_tensor one = {0}, one_nll = {0};
    tfm_tape_start(t->ctx);
    tfm_tape_watch(t->ctx, t->value, t->gradient);
    forward(t, &one, &one_nll, u, t->options.smoothing, scale);
    tfm_backward(t->ctx, one, (tfm_tensor){0});
    add_to(t->ctx, loss, one);
    return add_to(t->ctx, nll, one_nll);
}

static tfm_status step(tfm_trainer *t, tfm_tensor norm, double rate) {
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
        tfm_adam(ctx, p[0], p[1], p[2], p[3], &adam);
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

/* With the gradients at zero and the tape off, whatever happened. */
static tfm_status abandon(tfm_trainer *t, int depth) {
    const tfm_status status = tfm_context_status(t->ctx);
    const float zero = 0;
    char sentence[1024];
    snprintf(sentence, sizeof(sentence), "%s", tfm_context_error(t->ctx));
    tfm_tape_stop(t->ctx);
    tfm__context_recover(t->ctx, depth);
    tfm__tensor_fill(t->ctx, t->gradient, &zero);
    return tfm__fail(status, "update %lld: %s", (long long)t->update + 1, sentence);
}

tfm_status tfm_trainer_update(tfm_trainer *t, tfm_update_report *report, const tfm_pairs *batches,
                              size_t count) {
    tfm_context *ctx = t->ctx;
    tfm_update_report own = {.update = t->update + 1, .rate = tfm_trainer_rate(&t->options, t->update + 1)};
    uint64_t tokens = 0;
    for (size_t i = 0; i < count; i++) {
        tfm_status status = check_pairs(t, &batches[i]);
        if (status != TFM_OK)
            return status;
        for (int64_t k = 0; k < batches[i].count; k++)
            tokens += (uint64_t)batches[i].target_lengths[k];
    }
    if (count == 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer: an update needs a batch");
    const int depth = tfm__scope_depth(ctx);
    tfm_tensor loss = {0}, nll = {0}, norm = {0};
    t->training.stream = first_stream(own.update);
    set_training(t->model, &t->training);
    tfm_scope_open(ctx);
    for (size_t i = 0; i < count && tfm_context_status(ctx) == TFM_OK; i++) {
        upload u = {0};
        send(t, &u, &batches[i]);
        run_batch(t, &loss, &nll, &u, (float)(1 / (double)tokens));
        own.source_tokens += u.source_tokens;
        own.target_tokens += u.target_tokens;
    }
    set_training(t->model, NULL);
    tfm_l2_norm(ctx, &norm, t->gradient);
    if (step(t, norm, own.rate) != TFM_OK)
        return abandon(t, depth);
    t->update++;
    tfm_status status = report ? report_on(t, &own, loss, nll, norm) : TFM_OK;
    if (tfm_context_status(ctx) != TFM_OK)
        return abandon(t, depth);
    if (report)
        *report = own;
    tfm_status closed = tfm_scope_close(ctx, 0, NULL);
    return status == TFM_OK ? closed : status;
}

tfm_status tfm_trainer_evaluate(tfm_trainer *t, double *nll, uint64_t *tokens, const tfm_pairs *batch) {
    tfm_context *ctx = t->ctx;
    upload u = {0};
    tfm_tensor loss = {0}, sum = {0};
    float value = 0;
    tfm_status status = check_pairs(t, batch);
    if (status != TFM_OK)
        return status;
    tfm_scope_open(ctx);
    send(t, &u, batch);
    forward(t, &loss, &sum, &u, 0, 1);
    tfm_tensor_read(ctx, &value, sum);
    status = tfm_scope_close(ctx, 0, NULL);
    *nll = (double)value;
    *tokens = u.target_tokens;
    return status;
}
