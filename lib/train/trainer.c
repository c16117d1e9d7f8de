/* The trainer of one device: the model's parameters as one flat tensor, with gradients and moments. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "train/trainer.h"
#include "train/batch_split.h"
#include "train/process_group.h"
#include "train/allreduce.h"
#include "ops/gemm/gemm.h"

/* ---- Flat parameters ---- */

typedef struct layout {
    tfm_trainer *trainer;
    bool decayed;       /* Whether this pass is over parameters with weight decay, or over the others. */
    tfm_tensor *views;  /* Output: each parameter's view. NULL: only count. */
    tfm_param **frozen; /* Output: the frozen parameters, or NULL. */
    int64_t at;
} layout;

static bool is_decayed(const tfm__parameter *p) {
    return p->kind == TFM__MATRIX || p->kind == TFM__EMBEDDING;
}

/* The longest pattern; parameter names are shorter. */
enum { MAX_PATTERN = 512 };

/* The next of the comma-separated patterns; false after the last. A longer one matches nothing. */
static bool next_pattern(char one[MAX_PATTERN], const char **patterns) {
    const size_t length = strcspn(*patterns, ",");
    if (!**patterns)
        return false;
    snprintf(one, MAX_PATTERN, "%.*s", length < MAX_PATTERN ? (int)length : 0, *patterns);
    *patterns += length + ((*patterns)[length] == ',');
    return true;
}

/* Whether one of the patterns matches the name. */
static bool matches(const char *patterns, const char *name) {
    char one[MAX_PATTERN];
    while (next_pattern(one, &patterns))
        if (fnmatch(one, name, 0) == 0)
            return true;
    return false;
}

/* The same for a parameter, by its saved name or its name in the source file. */
static bool matches_param(const char *patterns, const tfm_model *model, const tfm__parameter *p) {
    return matches(patterns, p->name) || matches(patterns, tfm__model_name_in_file(model, p->name));
}

typedef struct pattern_search {
    const tfm_model *model;
    const char *pattern;
    bool found;
    char example[MAX_PATTERN]; /* the last name seen */
} pattern_search;

static tfm_status match_param(void *user, const tfm__parameter *p) {
    pattern_search *s = user;
    s->found |= matches_param(s->pattern, s->model, p);
    snprintf(s->example, sizeof(s->example), "%s", tfm__model_name_in_file(s->model, p->name));
    return TFM_OK;
}

/* A pattern without a match is an error: the intended parameters would be trained. */
static tfm_status check_patterns(const tfm_trainer *t) {
    char one[MAX_PATTERN];
    for (const char *at = t->options.freeze; at && next_pattern(one, &at);) {
        pattern_search s = {.model = t->model, .pattern = one};
        const tfm_status status = tfm__params_visit(t->model->family, &t->model->arch, t->model, match_param, &s);
        if (status != TFM_OK)
            return status;
        if (!s.found)
            return tfm__fail(
                TFM_ERROR_ARGUMENT,
                "trainer_new: no parameter matches \"%s\" in freeze, \"%s\": give patterns of names such as %s", one,
                t->options.freeze, s.example);
    }
    return TFM_OK;
}

bool tfm__trainer_freezes(const tfm_model *model, const tfm_trainer_options *options, const tfm__parameter *p) {
    return options && options->freeze && matches_param(options->freeze, model, p);
}

/* Copies a parameter to its place, a view of the flat tensor. */
static tfm_status place_param(void *user, const tfm__parameter *p) {
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
    if (l->views) {
        tfm_tensor *view = &l->views[t->param_count];
        tfm_tensor_rows(ctx, view, t->value, l->at, count);
        tfm_tensor_reshape(ctx, view, *view, p->rank, p->dims);
        tfm__tensor_copy(ctx, *view, p->param->value);
        t->params[t->param_count] = p->param;
    }
    t->param_count++;
    l->at += tfm__ceil_div(count, TFM__PARAM_ALIGN) * TFM__PARAM_ALIGN;
    return tfm_context_status(ctx);
}

/* Visits all parameters, matrices and embeddings first, since those have weight decay. */
static tfm_status layout_params(tfm_trainer *t, tfm_tensor *views, tfm_param **frozen) {
    layout l = {.trainer = t, .views = views, .frozen = frozen};
    tfm_status status = TFM_OK;
    t->param_count = t->frozen = 0;
    for (int pass = 0; pass < 2 && status == TFM_OK; pass++) {
        l.decayed = pass == 0;
        status = tfm__params_visit(t->model->family, &t->model->arch, t->model, place_param, &l);
        if (pass == 0)
            t->decayed = l.at;
    }
    t->count = l.at;
    return status;
}

static tfm_status new_flat_tensor(tfm_trainer *t, tfm_tensor *out, int64_t count) {
    const float zero = 0;
    if (tfm__tensor_new_persistent(t->ctx, out, TFM_F32, 1, &count) != TFM_OK)
        return tfm_context_status(t->ctx);
    return tfm__tensor_fill(t->ctx, *out, &zero);
}

/* Copies a frozen parameter out of a block that the trained ones leave. */
static tfm_status detach_frozen(tfm_trainer *t, tfm_param *frozen) {
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

/* The parameters move after all copies are made: those of a model with an earlier trainer share a block, which is freed
 * with the first. On failure the model is unchanged, except that frozen parameters may have moved. */
static tfm_status flatten_params(tfm_trainer *t) {
    tfm_tensor *views = tfm__alloc(t->param_count, sizeof(*views));
    tfm_param **frozen = tfm__alloc(t->frozen + 1, sizeof(*frozen));
    t->params = tfm__alloc(t->param_count, sizeof(tfm_param *));
    tfm_status status = views && frozen && t->params ? layout_params(t, views, frozen) : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < t->frozen && status == TFM_OK; i++)
        status = detach_frozen(t, frozen[i]);
    for (size_t i = 0; i < t->param_count && status == TFM_OK; i++) {
        tfm_param_free(t->ctx, t->params[i]);
        t->params[i]->value = views[i];
    }
    t->params_flattened = status == TFM_OK;
    free(views);
    free(frozen);
    return status;
}

tfm_status tfm__trainer_set_bucket_size(tfm_trainer *t, int64_t bucket) {
    tfm__allreduce_close(t);
    t->bucket_layout.bucket_size = bucket;
    t->moment_count = t->sharded ? tfm__shard_capacity(&t->bucket_layout, t->group.rank) : t->count;
    tfm_tensor_free(t->ctx, &t->m);
    tfm_tensor_free(t->ctx, &t->v);
    const tfm_status status = new_flat_tensor(t, &t->m, t->moment_count);
    return status == TFM_OK ? new_flat_tensor(t, &t->v, t->moment_count) : status;
}

static tfm_status build_layout(tfm_trainer *t) {
    tfm_tensor *const pieces[] = {&t->value, &t->gradient};
    const tfm_process_group *ranks = t->options.process_group;
    tfm_status status = check_patterns(t);
    if (status == TFM_OK)
        status = layout_params(t, NULL, NULL);
    if (status == TFM_OK && t->param_count == 0)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: freeze is \"%s\", which leaves no parameter to train",
                           t->options.freeze);
    t->bucket_layout =
        (tfm__bucket_layout){.count = t->count, .decayed = t->decayed, .world = ranks ? ranks->world_size : 1};
    t->group.rank = ranks ? ranks->rank : 0;
    t->sharded = t->options.shard_optimizer && t->bucket_layout.world > 1;
    for (size_t i = 0; i < TFM__COUNT(pieces) && status == TFM_OK; i++)
        status = new_flat_tensor(t, pieces[i], t->count);
    if (status == TFM_OK)
        status = tfm__trainer_set_bucket_size(t, TFM__BUCKET_SIZE);
    if (status == TFM_OK)
        status = flatten_params(t);
    if (status == TFM_OK && t->bucket_layout.world > 1)
        status = tfm_trainer_set_process_group(t, ranks);
    t->options.freeze = NULL; /* the caller's */
    t->options.process_group = NULL;
    return status;
}

/* ---- Creation and release ---- */

/* Fails instead of silently training slowly in another precision than requested. */
static tfm_status check_precision(tfm_context *ctx, tfm_dtype precision) {
    const char *why = precision != TFM_F32 ? tfm__gemm_half_declines(ctx, precision) : NULL;
    if (why && tfm_context_status(ctx) == TFM_OK)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "trainer_new: %s cannot train in %s, since %s: train in F32 there, or use "
                         "another device",
                         tfm_context_device(ctx)->name, tfm_dtype_name(precision), why);
    return tfm_context_status(ctx);
}

void tfm__trainer_destroy(tfm_trainer *t) {
    tfm_tensor_free(t->ctx, &t->gradient);
    tfm_tensor_free(t->ctx, &t->m);
    tfm_tensor_free(t->ctx, &t->v);
    if (!t->params_flattened)
        tfm_tensor_free(t->ctx, &t->value);
    free(t->params);
    free(t->note);
    tfm__allreduce_close(t);
    tfm__balance_free(t);
    t->model->has_trainer = false;
    tfm_model_free(&t->model);
    free(t);
}

tfm_status tfm__trainer_make(tfm_trainer **out, tfm_model *model, const tfm_trainer_options *options) {
    *out = NULL;
    if (tfm__context_ready(model->ctx, "trainer_new") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (model->has_trainer)
        return tfm__fail(TFM_ERROR_ARGUMENT, "trainer_new: the model already has a trainer, which owns the memory of "
                                             "its parameters: free that one first");
    const tfm_status precise = check_precision(model->ctx, options->precision);
    if (precise != TFM_OK)
        return precise;
    tfm_trainer *t = tfm__alloc(1, sizeof(*t));
    if (!t)
        return TFM_ERROR_MEMORY;
    t->ctx = model->ctx;
    t->model = tfm__model_retain(model);
    model->has_trainer = true;
    tfm__int8_screen_free(model->ctx, &model->output_int8); /* not needed until the parameters stop changing */
    model->no_greedy_int8 = false;
    t->options = *options;
    t->comm_dtype = options->comm_dtype;
    t->dropout_state = (tfm_dropout_state){.rates = {[TFM_DROPOUT_RESIDUAL] = options->dropout,
                                                     [TFM_DROPOUT_ATTENTION] = options->attention_dropout,
                                                     [TFM_DROPOUT_ACTIVATION] = options->activation_dropout},
                                           .seed = options->seed};
    const tfm_status status = build_layout(t);
    if (status != TFM_OK) {
        tfm__trainer_destroy(t);
        return status;
    }
    tfm__pool_trim(t->ctx);         /* frees the parameters' old memory */
    tfm__pool_limit_unused(t->ctx); /* matches tfm_trainer_estimate_memory */
    *out = t;
    return TFM_OK;
}

int64_t tfm_trainer_updates(const tfm_trainer *trainer) {
    if (!trainer)
        return 0;
    return trainer->update;
}

tfm_comm_stats tfm_trainer_comm_stats(const tfm_trainer *trainer) {
    if (!trainer)
        return (tfm_comm_stats){0};
    return trainer->comm_stats;
}
