/* The trainer of one device: the model's parameters in one piece, with gradients and moments. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "train/trainer.h"
#include "train/batch_split.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/gemm/gemm.h"

/* ---- Parameters in one piece ---- */

typedef struct layout {
    tfm_trainer *trainer;
    bool decayed;       /* Whether this pass is over the parameters that decay, or over the others. */
    tfm_tensor *places; /* Where each parameter goes, to be filled in. NULL: parameters are only counted. */
    tfm_param **frozen; /* Those that stay where they are, to be filled in, or NULL likewise. */
    int64_t at;
} layout;

static bool is_decayed(const tfm__parameter *p) {
    return p->kind == TFM__MATRIX || p->kind == TFM__EMBEDDING;
}

/* The longest pattern: names are not as long. */
enum { MOST_PATTERN = 512 };

/* The next of the patterns, which commas divide; false after the last. One that is too long is no name's. */
static bool next_pattern(char one[MOST_PATTERN], const char **patterns) {
    const size_t length = strcspn(*patterns, ",");
    if (!**patterns)
        return false;
    snprintf(one, MOST_PATTERN, "%.*s", length < MOST_PATTERN ? (int)length : 0, *patterns);
    *patterns += length + ((*patterns)[length] == ',');
    return true;
}

/* Whether one of the patterns is this name. */
static bool matches(const char *patterns, const char *name) {
    char one[MOST_PATTERN];
    while (next_pattern(one, &patterns))
        if (fnmatch(one, name, 0) == 0)
            return true;
    return false;
}

/* The same of a parameter, by the name that it is saved with or that of the file that it came from. */
static bool is_meant(const char *patterns, const tfm_model *model, const tfm__parameter *p) {
    return matches(patterns, p->name) || matches(patterns, tfm__model_name_in_file(model, p->name));
}

typedef struct search {
    const tfm_model *model;
    const char *pattern;
    bool found;
    char example[MOST_PATTERN]; /* the last name that there is */
} search;

static tfm_status look(void *user, const tfm__parameter *p) {
    search *s = user;
    s->found |= is_meant(s->pattern, s->model, p);
    snprintf(s->example, sizeof(s->example), "%s", tfm__model_name_in_file(s->model, p->name));
    return TFM_OK;
}

/* A pattern that is nobody's is a mistake, whatever the others are: what it was meant for would be trained. */
static tfm_status check_patterns(const tfm_trainer *t) {
    char one[MOST_PATTERN];
    for (const char *at = t->options.freeze; at && next_pattern(one, &at);) {
        search s = {.model = t->model, .pattern = one};
        const tfm_status status = tfm__params_visit(t->model->family, &t->model->arch, t->model, look, &s);
        if (status != TFM_OK)
            return status;
        if (!s.found)
            return tfm__fail(TFM_ERROR_ARGUMENT,
                             "trainer_new: no parameter has a name as in freeze, \"%s\"%s%s; there is %s, for example",
                             t->options.freeze, strcmp(one, t->options.freeze) ? ": none is like " : "",
                             strcmp(one, t->options.freeze) ? one : "", s.example);
    }
    return TFM_OK;
}

bool tfm__trainer_freezes(const tfm_model *model, const tfm_trainer_options *options, const tfm__parameter *p) {
    return options && options->freeze && is_meant(options->freeze, model, p);
}

/* Copies a parameter to its place, a view of the one tensor for all. */
static tfm_status place(void *user, const tfm__parameter *p) {
    layout *l = user;
    tfm_trainer *t = l->trainer;
    tfm_context *ctx = t->ctx;
    const int64_t count = p->dims[0] * (p->rank == 2 ? p->dims[1] : 1);
    if (is_decayed(p) != l->decayed)
        return TFM_OK;
    if (tfm__trainer_freezes(t->model, &t->options, p)) {
        if (l->frozen)
            l->frozen[t->frozen] = p->param;
        t->frozen++;
        return TFM_OK;
    }
    if (l->places) {
        tfm_tensor *view = &l->places[t->param_count];
        tfm_tensor_rows(ctx, view, t->value, l->at, count);
        tfm_tensor_reshape(ctx, view, *view, p->rank, p->dims);
        tfm__tensor_copy(ctx, *view, p->param->value);
        t->params[t->param_count] = p->param;
    }
    t->param_count++;
    l->at += tfm__ceil_div(count, TFM__ALIGNED) * TFM__ALIGNED;
    return tfm_context_status(ctx);
}

/* Walks over all parameters, matrices and tables first, since those decay. */
static tfm_status walk_all(tfm_trainer *t, tfm_tensor *places, tfm_param **frozen) {
    layout l = {.trainer = t, .places = places, .frozen = frozen};
    tfm_status status = TFM_OK;
    t->param_count = t->frozen = 0;
    for (int pass = 0; pass < 2 && status == TFM_OK; pass++) {
        l.decayed = pass == 0;
        status = tfm__params_visit(t->model->family, &t->model->arch, t->model, place, &l);
        if (pass == 0)
            t->decayed = l.at;
    }
    t->count = l.at;
    return status;
}

static tfm_status new_piece(tfm_trainer *t, tfm_tensor *out, int64_t count) {
    const float zero = 0;
    if (tfm__tensor_new_persistent(t->ctx, out, TFM_F32, 1, &count) != TFM_OK)
        return tfm_context_status(t->ctx);
    return tfm__tensor_fill(t->ctx, *out, &zero);
}

/* Gives a frozen parameter a place of its own where it lies in one block with those that leave it. */
static tfm_status settle(tfm_trainer *t, tfm_param *frozen) {
    tfm_tensor own = {0};
    bool shared = false;
    for (size_t i = 0; i < t->param_count; i++)
        shared |= t->params[i]->value.buffer == frozen->value.buffer;
    if (!shared)
        return TFM_OK;
    const tfm_tensor old = frozen->value;
    tfm_status status = tfm__tensor_new_persistent(t->ctx, &own, TFM_F32, old.rank, old.dims);
    if (status == TFM_OK)
        status = tfm__tensor_copy(t->ctx, own, old);
    if (status == TFM_OK)
        frozen->value = own;
    return status;
}

/* The model's parameters move when all copies are made: those of a model that had a trainer before lie in one block,
 * which is gone with the first. Where that fails the model is as it was, but for the places of frozen ones. */
static tfm_status move_in(tfm_trainer *t) {
    tfm_tensor *places = tfm__alloc(t->param_count, sizeof(*places));
    tfm_param **frozen = tfm__alloc(t->frozen + 1, sizeof(*frozen));
    t->params = tfm__alloc(t->param_count, sizeof(tfm_param *));
    tfm_status status = places && frozen && t->params ? walk_all(t, places, frozen) : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->frozen && status == TFM_OK; i++)
        status = settle(t, frozen[i]);
    for (size_t i = 0; i < t->param_count && status == TFM_OK; i++) {
        tfm_param_free(t->ctx, t->params[i]);
        t->params[i]->value = places[i];
    }
    t->moved_in = status == TFM_OK;
    free(places);
    free(frozen);
    return status;
}

tfm_status tfm__trainer_cut(tfm_trainer *t, int64_t bucket) {
    tfm__wire_close(t);
    t->cuts.bucket = bucket;
    t->moments = t->sharded ? tfm__shard_room(&t->cuts, t->ranks.rank) : t->count;
    tfm_tensor_free(t->ctx, &t->m);
    tfm_tensor_free(t->ctx, &t->v);
    const tfm_status status = new_piece(t, &t->m, t->moments);
    return status == TFM_OK ? new_piece(t, &t->v, t->moments) : status;
}

static tfm_status lay_out(tfm_trainer *t) {
    tfm_tensor *const pieces[] = {&t->value, &t->gradient};
    const tfm_ranks *ranks = t->options.ranks;
    tfm_status status = check_patterns(t);
    if (status == TFM_OK)
        status = walk_all(t, NULL, NULL);
    if (status == TFM_OK && t->param_count == 0)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: freeze is \"%s\", which leaves no parameter to train",
                           t->options.freeze);
    t->cuts = (tfm__cuts){.count = t->count, .decayed = t->decayed, .world = ranks ? ranks->world : 1};
    t->ranks.rank = ranks ? ranks->rank : 0;
    t->sharded = t->options.shard && t->cuts.world > 1;
    for (size_t i = 0; i < TFM__COUNT(pieces) && status == TFM_OK; i++)
        status = new_piece(t, pieces[i], t->count);
    if (status == TFM_OK)
        status = tfm__trainer_cut(t, TFM__BUCKET);
    if (status == TFM_OK)
        status = move_in(t);
    if (status == TFM_OK && t->cuts.world > 1)
        status = tfm_trainer_set_ranks(t, ranks);
    t->options.freeze = NULL; /* the caller's */
    t->options.ranks = NULL;
    return status;
}

/* ---- Life ---- */

/* A run that goes on in another precision than was asked for would be slow and nobody knew, so it does not begin. */
static tfm_status check_precision(tfm_context *ctx, tfm_dtype precision) {
    const char *why = precision != TFM_F32 ? tfm__gemm_half_declines(ctx, precision) : NULL;
    if (why && tfm_context_status(ctx) == TFM_OK)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "trainer_new: %s cannot train with products of %s, since %s: train in F32 there, or take "
                         "another device",
                         tfm_context_device(ctx)->name, tfm_dtype_name(precision), why);
    return tfm_context_status(ctx);
}

void tfm__trainer_destroy(tfm_trainer *t) {
    tfm_tensor_free(t->ctx, &t->gradient);
    tfm_tensor_free(t->ctx, &t->m);
    tfm_tensor_free(t->ctx, &t->v);
    if (!t->moved_in)
        tfm_tensor_free(t->ctx, &t->value);
    free(t->params);
    free(t->note);
    tfm__wire_close(t);
    tfm__dealing_end(t);
    t->model->has_trainer = false;
    tfm_model_free(&t->model);
    free(t);
}

tfm_status tfm__trainer_make(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options) {
    *out = NULL;
    if (tfm__context_ready(model->ctx, "trainer_new") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (model->has_trainer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: the model has a trainer already: free that one first, since "
                                             "each moves the parameters into a place of its own");
    const tfm_status precise = check_precision(model->ctx, options->precision);
    if (precise != TFM_OK)
        return precise;
    tfm_trainer *t = tfm__alloc(1, sizeof(*t));
    if (!t)
        return TFM_ERROR_MEMORY;
    t->ctx = model->ctx;
    t->model = tfm__model_retain(model);
    model->has_trainer = true;
    tfm__int8_screen_free(model->ctx, &model->output_int8); /* no search wants it until the parameters are left alone */
    model->no_greedy_int8 = false;
    t->options = *options;
    t->wire_dtype = options->wire;
    t->training = (tfm_training){.rates = {[TFM_DROP_RESIDUAL] = options->dropout,
                                           [TFM_DROP_ATTENTION] = options->attention_dropout,
                                           [TFM_DROP_ACTIVATION] = options->activation_dropout},
                                 .seed = options->seed};
    const tfm_status status = lay_out(t);
    if (status != TFM_OK) {
        tfm__trainer_destroy(t);
        return status;
    }
    tfm__pool_trim(t->ctx);         /* where the parameters were */
    tfm__pool_limit_unused(t->ctx); /* as tfm_trainer_memory says */
    *out = t;
    return TFM_OK;
}

int64_t tfm_trainer_updates(const tfm_trainer *trainer) {
    if (!trainer)
        return 0;
    return trainer->update;
}

tfm_wire_counts tfm_trainer_wire(const tfm_trainer *trainer) {
    if (!trainer)
        return (tfm_wire_counts){0};
    return trainer->counts;
}
