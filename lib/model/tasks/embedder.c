/* Embedders, and embeddings of ids. */
#include "base/hub/hub.h"
#include "model/tasks/embedder.h"
#include "tfm/ops.h"

/* ---- Opening ---- */

static tfm_status check_options(const char *what, const tfm_embedder_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: %s", what, TFM__RESERVED_SET_MESSAGE);
    if (options && options->has_pooling && (options->pooling < TFM_POOL_CLS || options->pooling >= TFM_POOLINGS))
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: unknown pooling %d", what, (int)options->pooling);
    if (options && options->has_pooling && options->no_pooling)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: has_pooling and no_pooling are given: give one of them", what);
    return TFM_OK;
}

/* Reads the directory, given its encoder's description. */
static tfm_status read_modules(tfm_embedder *e, const tfm_model_info *encoder, const char *dir) {
    if (encoder->encoder_layers > 0 && encoder->decoder_layers > 0)
        return tfm__fail(
            TFM_ERROR_UNSUPPORTED,
            "%s: the model, of the family %s, is an encoder-decoder: translate with it, or use an encoder-only or "
            "decoder-only model",
            dir, encoder->family);
    e->encoder_positions = encoder->max_positions;
    return tfm__modules_read(e, dir);
}

static tfm_model_options model_options(const tfm_embedder_options *o) {
    return (tfm_model_options){.no_tokenizer = o->no_tokenizer,
                               .precision = o->precision,
                               .activation_precision = o->activation_precision,
                               .kv_precision = o->kv_precision,
                               .ctx_size = o->ctx_size,
                               .adapters = o->adapters,
                               .adapter_count = o->adapter_count};
}

static tfm_status open_dir(tfm_embedder **out, tfm_context *ctx, const char *dir, const tfm_embedder_options *options) {
    tfm_embedder *e = tfm__alloc(1, sizeof(*e));
    char *encoder = NULL;
    if (!e)
        return TFM_ERROR_MEMORY;
    e->ctx = ctx;
    e->options = options ? *options : (tfm_embedder_options){0};
    const tfm_model_options how = model_options(&e->options);
    tfm_status status = tfm__modules_encoder_dir(&encoder, dir);
    if (status == TFM_OK)
        status = tfm_model_open(&e->model, ctx, encoder, &how);
    e->options.adapters = NULL; /* the caller's */
    free(encoder);
    if (status == TFM_OK) {
        e->encoder_width = tfm__stack_output_width(tfm__arch_output_stack(&e->model->arch));
        status = read_modules(e, &e->model->info, dir);
    }
    *out = e;
    if (status != TFM_OK)
        tfm_embedder_free(out);
    return status;
}

tfm_status tfm_embedder_open(tfm_embedder **out, tfm_context *ctx, const char *dir,
                             const tfm_embedder_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("embedder_open", out, ctx, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check_options("embedder_open", options);
    if (status != TFM_OK)
        return status;
    if (tfm__context_ready(ctx, "embedder_open") != TFM_OK)
        return tfm_context_status(ctx);
    const int depth = tfm__scope_depth(ctx);
    char *path = NULL;
    status = tfm__hub_resolve(&path, dir);
    if (status != TFM_OK)
        return status;
    do
        status = open_dir(out, ctx, path, options);
    while (tfm__context_retry(ctx, depth, status));
    free(path);
    return status;
}

/* Output width of the model in a directory: a decoder's may differ from its width. */
static tfm_status read_width(int *out, const tfm_model_info *info, const char *dir) {
    const tfm__family *family;
    tfm__arch arch;
    *out = info->width;
    if (info->encoder_layers > 0)
        return TFM_OK;
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules)); /* too large for a thread's stack */
    const tfm_status status = rules ? tfm__family_read(&family, &arch, rules, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        *out = tfm__stack_output_width(tfm__arch_output_stack(&arch));
    free(rules);
    return status;
}

/* Makes the checks of tfm_embedder_open in the same order. */
tfm_status tfm_embedder_read_info(tfm_embedder_info *out, tfm_model_info *encoder, const char *dir,
                                  const tfm_embedder_options *options) {
    if (TFM__NEEDS("embedder_read_info", out, encoder, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = (tfm_embedder_info){0};
    *encoder = (tfm_model_info){0};
    tfm_status status = check_options("embedder_read_info", options);
    if (status != TFM_OK)
        return status;
    tfm_embedder *e = tfm__alloc(1, sizeof(*e));
    char *path = NULL, *local = NULL;
    if (!e)
        return TFM_ERROR_MEMORY;
    e->options = options ? *options : (tfm_embedder_options){0};
    const tfm_model_options how = model_options(&e->options);
    status = tfm__hub_resolve(&local, dir);
    if (status == TFM_OK)
        status = tfm__modules_encoder_dir(&path, local);
    if (status == TFM_OK)
        status = tfm_model_read_info(encoder, path, &how);
    if (status == TFM_OK)
        status = read_width(&e->encoder_width, encoder, path);
    free(path);
    if (status == TFM_OK)
        status = read_modules(e, encoder, local);
    free(local);
    if (status == TFM_OK)
        *out = e->info;
    tfm_embedder_free(&e);
    return status;
}

void tfm_embedder_free(tfm_embedder **pointer) {
    tfm_embedder *e = pointer ? *pointer : NULL;
    if (!e)
        return;
    tfm__modules_free(e);
    tfm_model_free(&e->model);
    for (size_t i = 0; i < e->replica_count; i++)
        tfm_embedder_free(&e->replicas[i]);
    free(e->replicas);
    free(e);
    *pointer = NULL;
}

tfm_embedder *tfm__embedder_on(tfm_embedder *e, const tfm_model *on) {
    for (size_t i = 0; i < e->replica_count && e->model != on; i++)
        if (e->replicas[i] && e->replicas[i]->model == on)
            return e->replicas[i];
    return e;
}

const tfm_embedder_info *tfm_embedder_get_info(const tfm_embedder *e) {
    return e ? &e->info : NULL;
}

tfm_model *tfm_embedder_model(const tfm_embedder *e) {
    return e ? e->model : NULL;
}

const char *tfm_embedder_prompt(const tfm_embedder *e, const char *name) {
    name = e && !name ? e->default_prompt : name;
    return e && name ? json_string_value(json_object_get(e->prompts, name)) : NULL;
}

tfm__line_encoder tfm__embedder_line_encoder(const tfm_embedder *e, const tfm_embed_options *options) {
    const char *prompt = options->token_ids ? NULL : options->prompt ? options->prompt : tfm_embedder_prompt(e, NULL);
    return (tfm__line_encoder){.model = e->model,
                               .options = options,
                               .max_tokens = (size_t)e->info.max_tokens,
                               .prompt = prompt && *prompt ? prompt : NULL,
                               .lowercase = e->info.lower_case};
}

const char *tfm_embedder_prompt_name(const tfm_embedder *e, size_t index) {
    void *at = e ? json_object_iter(e->prompts) : NULL;
    while (at && index-- > 0)
        at = json_object_iter_next(e->prompts, at);
    return at ? json_object_iter_key(at) : NULL;
}

/* ---- On the device ---- */

/* *out (B, n E): the poolings' outputs, concatenated. */
static void pool_all(tfm_embedder *e, tfm_tensor *out, tfm_tensor hidden, tfm_tensor lengths, int64_t skipped) {
    tfm_context *ctx = e->model->ctx;
    tfm_tensor parts[TFM_POOLINGS] = {{0}};
    for (int i = 0; i < e->pooling_count; i++)
        tfm_pool(ctx, e->pooling_count == 1 ? out : &parts[i], hidden, lengths, e->poolings[i], skipped);
    if (e->pooling_count > 1)
        tfm_concat(ctx, out, (size_t)e->pooling_count, parts, 1);
}

static void take_step(tfm_context *ctx, tfm_tensor *out, tfm__embed_step *step, tfm_tensor x) {
    if (step->kind == TFM__STEP_DENSE)
        tfm_dense_forward(ctx, out, &step->dense, x, step->activation);
    else
        tfm_norm_forward(ctx, out, NULL, &step->norm, x, (tfm_tensor){0});
    if (step->tanh)
        tfm_tanh(ctx, out, *out);
    if (step->sigmoid)
        tfm_sigmoid(ctx, out, *out);
}

/* A decoder-only model runs with its causal mask. */
static void run_model(tfm_model *model, tfm_tensor *hidden, tfm_tensor ids, tfm_tensor types, tfm_tensor lengths) {
    if (model->arch.encoder.layers > 0)
        tfm__model_encode_typed(model, hidden, ids, types, lengths);
    else
        tfm__model_decode_hidden(model, hidden, ids, (tfm_tensor){0}, lengths, NULL);
}

tfm_status tfm__embed_batch(tfm_embedder *e, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor types, tfm_tensor lengths,
                            int64_t skipped) {
    tfm_context *ctx = e->model->ctx;
    tfm_tensor hidden = {0}, x = {0};
    tfm_scope_open(ctx);
    run_model(e->model, &hidden, ids, types, lengths);
    if (!e->by_token)
        pool_all(e, e->step_count ? &x : vectors, hidden, lengths, skipped);
    else if (tfm_context_status(ctx) == TFM_OK)
        tfm_tensor_reshape(ctx, e->step_count ? &x : vectors, hidden, 2,
                           (int64_t[]){hidden.dims[0] * hidden.dims[1], hidden.dims[2]});
    for (int i = 0; i < e->step_count; i++) {
        tfm_tensor next = {0};
        take_step(ctx, i + 1 < e->step_count ? &next : vectors, &e->steps[i], x);
        x = next;
    }
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){vectors});
}

tfm_status tfm_embed_ids(tfm_embedder *e, tfm_tensor *vectors, tfm_tensor ids, tfm_tensor lengths, int64_t skipped) {
    if (TFM__NEEDS("embed_ids", e, vectors) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (e->by_token)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "embed_ids: the model has no pooling: use tfm_embed_tokens");
    return tfm__embed_batch(e, vectors, ids, (tfm_tensor){0}, lengths, skipped);
}
