/* The trainer's life: schedules, and parameters in one piece. */
#include <math.h>
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
    if (t < w || (t <= w && end <= w)) /* the peak, too, where nothing follows it */
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
    bool decayed;       /* of which kind this pass is */
    tfm_tensor *places; /* of each parameter, to be filled in; NULL: only count */
    int64_t at;
} layout;

static bool is_decayed(const tfm__parameter *p) {
    return p->kind == TFM__MATRIX || p->kind == TFM__TABLE;
}

/* A copy of the value in its place, a view of the piece. */
static tfm_status place(void *user, const tfm__parameter *p) {
    layout *l = user;
    tfm_trainer *t = l->trainer;
    tfm_context *ctx = t->ctx;
    const int64_t count = p->dims[0] * (p->rank == 2 ? p->dims[1] : 1);
    if (is_decayed(p) != l->decayed)
        return TFM_OK;
    if (l->places) {
        tfm_tensor *view = &l->places[t->param_count];
        tfm_tensor_rows(ctx, view, t->value, l->at, count);
        tfm_tensor_reshape(ctx, view, *view, p->rank, p->dims);
        tfm__tensor_copy(ctx, *view, p->param->value);
        t->params[t->param_count] = p->param;
    }
    t->param_count++;
    l->at += (count + ALIGNED - 1) / ALIGNED * ALIGNED;
    return tfm_context_status(ctx);
}

/* Matrices and tables first: those are what decays. */
static tfm_status walk_all(tfm_trainer *t, tfm_tensor *places) {
    layout l = {.trainer = t, .places = places};
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

/* The model's parameters move when all copies are made: those of a model that had a trainer before lie in one block, which
 * is gone with the first. Where that fails the model is as it was. */
static tfm_status move_in(tfm_trainer *t) {
    tfm_tensor *places = tfm__alloc(t->param_count, sizeof(*places));
    t->params = tfm__alloc(t->param_count, sizeof(tfm_param *));
    tfm_status status = places && t->params ? walk_all(t, places) : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->param_count && status == TFM_OK; i++) {
        tfm_param_free(t->ctx, t->params[i]);
        t->params[i]->value = places[i];
    }
    t->moved_in = status == TFM_OK;
    free(places);
    return status;
}

static tfm_status lay_out(tfm_trainer *t) {
    tfm_tensor *const pieces[] = {&t->value, &t->gradient, &t->m, &t->v};
    tfm_status status = walk_all(t, NULL);
    for (size_t i = 0; i < TFM_COUNT(pieces) && status == TFM_OK; i++)
        status = new_piece(t, pieces[i]);
    return status == TFM_OK ? move_in(t) : status;
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
    if (!t->moved_in)
        tfm_tensor_free(t->ctx, &t->value);
    free(t->params);
    free(t->note);
    free(t);
}

int64_t tfm_trainer_updates(const tfm_trainer *trainer) {
    return trainer->update;
}
