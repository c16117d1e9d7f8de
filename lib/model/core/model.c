/* Opens, describes and frees models. */
#include <math.h>
#include <string.h>
#include "base/hub/hub.h"
#include "model/adapters/adapter.h"
#include "model/weights/shortlist.h"
#include "model/multi_device/fleet.h"
#include "model/core/model_tokenizer.h"

/* The directory's shortlist, if it has one. */
static tfm_status open_shortlist(tfm__shortlist **out, const tfm__family_files *files, const tfm__arch *arch) {
    const tfm__stack_arch *e = &arch->encoder, *d = &arch->decoder;
    return files->shortlist ? tfm__shortlist_open(out, files->shortlist, e->stored_vocabulary, d->stored_vocabulary,
                                                  files->shared_vocabulary)
                            : TFM_OK;
}

static bool precision_known(const char *what, const tfm_model_options *options) {
    const tfm_precision given[] = {options ? options->precision : 0, options ? options->kv_precision : 0};
    for (int i = 0; i < 2; i++)
        if (given[i] < TFM_PRECISION_AUTO || given[i] > TFM_PRECISION_BF16) {
            tfm__fail(TFM_ERROR_ARGUMENT, "%s: unknown precision %d", what, (int)given[i]);
            return false;
        }
    if (!options || options->activation_precision == TFM_PRECISION_AUTO ||
        options->activation_precision == TFM_PRECISION_FP32)
        return true;
    tfm__fail(TFM_ERROR_ARGUMENT, "%s: activations have the precision auto or fp32, not %d", what,
              (int)options->activation_precision);
    return false;
}

/* The dtype of a KV cache, for weights of `parameters` numbers in `bytes`. `half`: 16-bit weights have a cache of their
 * dtype on this device. */
static tfm_dtype kv_dtype_of(const tfm_model_options *options, const tfm__arch *arch, uint64_t parameters,
                             uint64_t bytes, bool half) {
    const bool rounds = options->activation_precision != TFM_PRECISION_FP32;
    const bool weights16 = options->precision == TFM_PRECISION_FP16 || options->precision == TFM_PRECISION_BF16;
    /* Quantized: at most 8 bits, and a scale for each group of them. Without RoPE, sequences are admitted to running
     * batches (may_join in search.c), which a 16-bit cache prevents. */
    const bool quantized = arch->encoder.layers == 0 && arch->decoder.rotary.width && 2 * bytes < 3 * parameters;
    const tfm_precision own = rounds && half && weights16 ? options->precision
                              : rounds && quantized       ? TFM_PRECISION_FP16
                                                          : TFM_PRECISION_FP32;
    switch (options->kv_precision == TFM_PRECISION_AUTO ? own : options->kv_precision) {
    case TFM_PRECISION_FP16:
        return TFM_F16;
    case TFM_PRECISION_BF16:
        return TFM_BF16;
    case TFM_PRECISION_INT8:
        return TFM_I8;
    default:
        return TFM_F32;
    }
}

/* Makes the checks of tfm_model_open in the same order, so that both report the same error for a damaged directory. */
static tfm_status read_dir_info(tfm_model_info *out, const char *dir, const tfm_model_options *options) {
    const tfm__family *family = NULL;
    tfm__arch arch;
    tfm_tokenizer *tokenizer = NULL;
    tfm__family_files files = {0};
    tfm__shortlist *list = NULL;
    uint64_t parameters = 0, bytes = 0;
    *out = (tfm_model_info){0};
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_read_info: %s", TFM__RESERVED_SET_MESSAGE);
    if (!precision_known("model_read_info", options))
        return TFM_ERROR_ARGUMENT;
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules)); /* too large for a thread's stack */
    const tfm_model_options defaults = {0};
    tfm_status status = rules ? tfm__family_open(&family, &arch, rules, &files, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__model_check_options(dir, family, &arch, options);
    if (status == TFM_OK && !(options && options->no_tokenizer))
        status = tfm__model_tokenizer_open(&tokenizer, family, &arch, rules, dir);
    if (status == TFM_OK)
        status = tfm__family_open_weights(&files, dir);
    if (status == TFM_OK && options)
        status = tfm__adapters_apply(&files, family, &arch, options->adapters, options->adapter_count, false);
    if (status == TFM_OK)
        status = tfm__model_load(&parameters, &bytes, files.stored ? files.stored : family, &arch, files.weights, NULL,
                                 options);
    if (status == TFM_OK)
        status = open_shortlist(&list, &files, &arch);
    if (status == TFM_OK) {
        tfm__model_describe_arch(out, family, &arch, rules, parameters, bytes,
                                 kv_dtype_of(options ? options : &defaults, &arch, parameters, bytes, false));
        tfm__model_describe_file(out, files.weights);
        out->max_positions = options && options->ctx_size ? options->ctx_size : out->max_positions;
        out->has_shortlist = list != NULL;
    }
    tfm__shortlist_free(&list);
    tfm__family_files_free(&files);
    tfm_tokenizer_free(&tokenizer);
    free(rules);
    return status;
}

tfm_status tfm_model_read_info(tfm_model_info *out, const char *dir, const tfm_model_options *options) {
    char *path = NULL;
    if (TFM__NEEDS("model_read_info", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = (tfm_model_info){0};
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status == TFM_OK)
        status = read_dir_info(out, path, options);
    free(path);
    return status;
}

static tfm_block block_of(const tfm__stack_arch *arch, int layer) {
    const unsigned bits = arch->layer[layer];
    const float scale = arch->score_scale != 0 ? arch->score_scale : 1 / sqrtf((float)arch->head_width);
    const tfm_norm norm = {.epsilon = arch->epsilon, .kind = arch->norm}, none = {.kind = TFM_NORM_NONE};
    const tfm_multi_head heads = {.heads = arch->heads,
                                  .kv_heads = arch->kv_heads,
                                  .query_norm = norm,
                                  .key_norm = norm,
                                  .scale =
                                      arch->scale_by_inverse_layer ? scale / (float)(layer + 1) : arch->score_scale,
                                  .soft_cap = arch->score_cap};
    return (tfm_block){
        .attention = heads,
        .attention_norm = bits & TFM__NO_NORM_LAYER ? none : norm,
        .cross_attention = heads,
        .cross_attention_norm = norm,
        .feed_forward = {.activation = arch->activation},
        .feed_forward_norm = norm,
        .attention_post_norm = norm,
        .feed_forward_post_norm = norm,
        .causal = arch->causal,
        .window = bits & TFM__LOCAL_LAYER,
        .window_left = arch->causal ? arch->window - 1 : arch->window / 2,
        .window_right = arch->causal ? 0 : arch->window / 2,
        .norm_placement = arch->norm_placement,
        .parallel_residual = arch->parallel,
        .shared_norm = arch->shared_norm,
        .residual_scale = arch->residual_scale,
    };
}

/* Creates a stack's blocks and norms by its arch. */
static tfm_status new_stack(tfm__stack *stack, const tfm__stack_arch *arch) {
    if (arch->layers == 0)
        return TFM_OK;
    stack->blocks = tfm__alloc((size_t)arch->layers, sizeof(*stack->blocks));
    if (arch->relative.buckets)
        stack->relative = tfm__alloc((size_t)tfm__position_bias_tables(arch), sizeof(*stack->relative));
    if (!stack->blocks || (arch->relative.buckets && !stack->relative))
        return TFM_ERROR_MEMORY;
    stack->embedding_norm = stack->final_norm = (tfm_norm){.epsilon = arch->epsilon, .kind = arch->norm};
    for (int i = 0; i < arch->layers; i++)
        stack->blocks[i] = block_of(arch, i);
    return TFM_OK;
}

tfm_status tfm__model_new(tfm_model **out, tfm_context *ctx, const tfm__family *family, const tfm__arch *arch,
                          const tfm__generation_rules *rules) {
    tfm_model *model = *out = tfm__alloc(1, sizeof(*model));
    if (!model)
        return TFM_ERROR_MEMORY;
    atomic_init(&model->refcount, 1);
    model->ctx = tfm_context_retain(ctx);
    model->family = family;
    model->arch = *arch;
    model->rules = *rules;
    tfm__model_set_tables(model);
    tfm__model_describe_arch(&model->info, family, arch, rules, 0, 0, TFM_F32);
    tfm_status status = new_stack(&model->encoder, &arch->encoder);
    if (status == TFM_OK)
        status = new_stack(&model->decoder, &arch->decoder);
    tfm__head_new(&model->head, arch);
    if (status != TFM_OK)
        tfm_model_free(out);
    return status;
}

/* The identity of the first file, and of the adapters. */
static uint64_t identity_of(const tfm__weights *file, bool adapted) {
    const size_t count = tfm__weights_count(file);
    uint64_t identity = count > 0 ? tfm__weights_at(file, 0)->identity : 0;
    for (size_t i = 1; i < count && adapted; i++)
        identity = tfm__hash64(&tfm__weights_at(file, i)->identity, sizeof(identity), identity);
    return identity;
}

static tfm_status load_weights(tfm_model *model, tfm__family_files *files, const char *dir,
                               const tfm_model_options *options) {
    uint64_t parameters = 0, bytes = 0;
    tfm_status status = tfm__family_open_weights(files, dir);
    if (status == TFM_OK)
        status =
            tfm__adapters_apply(files, model->family, &model->arch, options->adapters, options->adapter_count, false);
    if (status == TFM_OK)
        status = tfm__model_load(&parameters, &bytes, files->stored ? files->stored : model->family, &model->arch,
                                 files->weights, model, options);
    if (status == TFM_OK)
        model->identity = identity_of(files->weights, options->adapter_count > 0);
    model->kv_dtype = kv_dtype_of(options, &model->arch, parameters, bytes, tfm__context_tuning(model->ctx)->kv_half);
    if (status == TFM_OK)
        status = open_shortlist(&model->shortlist, files, &model->arch);
    if (status == TFM_OK) {
        tfm__model_describe_arch(&model->info, model->family, &model->arch, &model->rules, parameters, bytes,
                                 model->kv_dtype);
        tfm__model_describe_file(&model->info, files->weights);
        model->info.max_positions = options->ctx_size ? options->ctx_size : model->info.max_positions;
        model->info.has_shortlist = model->shortlist != NULL;
    }
    return status;
}

static tfm_status open_dir(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *given) {
    const tfm_model_options defaults = {0}, *const options = given ? given : &defaults;
    const tfm__family *family = NULL;
    tfm__arch arch;
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules)); /* too large for a thread's stack */
    tfm__family_files files = {0};
    tfm__tokenizer_opening opening;
    const int depth = tfm__scope_depth(ctx);
    tfm_status status = rules ? tfm__family_open(&family, &arch, rules, &files, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__model_check_options(dir, family, &arch, options);
    if (status == TFM_OK)
        status = tfm__model_new(out, ctx, family, &arch, rules);
    free(rules);
    if (status == TFM_OK)
        (*out)->generation = json_incref(files.generation);
    const bool reads = status == TFM_OK && !options->no_tokenizer;
    if (reads)
        tfm__tokenizer_open_begin(&opening, dir);
    if (status == TFM_OK)
        status = load_weights(*out, &files, dir, options);
    if (reads)
        status = tfm__model_tokenizer_end(*out, &opening, status, dir, depth);
    const bool classifies = status == TFM_OK && (*out)->arch.head.kind == TFM__CLASSIFICATION_HEAD;
    if (status == TFM_OK && (classifies || (reads && !arch.headless && !(arch.encoder.layers && arch.decoder.layers))))
        status = tfm__classes_read(&(*out)->classes, dir, classifies ? (*out)->arch.head.classes : 0);
    tfm__family_files_free(&files);
    if (status != TFM_OK)
        tfm_model_free(out);
    return status;
}

tfm_status tfm_model_open(tfm_model **out, tfm_context *ctx, const char *dir, const tfm_model_options *options) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("model_open", out, ctx, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_open: %s", TFM__RESERVED_SET_MESSAGE);
    if (!precision_known("model_open", options))
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(ctx, "model_open") != TFM_OK)
        return tfm_context_status(ctx);
    const int depth = tfm__scope_depth(ctx);
    char *path = NULL;
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status != TFM_OK)
        return status;
    do
        status = open_dir(out, ctx, path, options);
    while (tfm__context_retry(ctx, depth, status));
    free(path);
    return status;
}

static void free_stack(tfm_context *ctx, tfm__stack *stack, const tfm__stack_arch *arch) {
    tfm_tensor_free(ctx, &stack->positions);
    tfm_param_free(ctx, &stack->learned_positions);
    tfm_param_free(ctx, &stack->token_types);
    for (int i = 0; stack->relative && i < tfm__position_bias_tables(arch); i++)
        tfm_param_free(ctx, &stack->relative[i]);
    free(stack->relative);
    for (int k = 0; k < 2; k++) {
        tfm_tensor_free(ctx, &stack->rope[k].cosines);
        tfm_tensor_free(ctx, &stack->rope[k].sines);
    }
    tfm_norm_free(ctx, &stack->embedding_norm);
    tfm_dense_free(ctx, &stack->embedding_dense);
    tfm_norm_free(ctx, &stack->final_norm);
    tfm_dense_free(ctx, &stack->output_dense);
    for (int i = 0; stack->blocks && i < arch->layers; i++)
        tfm_block_free(ctx, &stack->blocks[i]);
    free(stack->blocks);
}

void tfm_model_free(tfm_model **pointer) {
    tfm_model *model = pointer ? *pointer : NULL;
    if (!model)
        return;
    *pointer = NULL;
    if (atomic_fetch_sub(&model->refcount, 1) > 1)
        return;
    tfm_context *ctx = model->ctx;
    if (model->replicas)
        model->free_replicas(&model->replicas);
    for (int i = 0; i < TFM__TABLES; i++)
        tfm_param_free(ctx, &model->tables[i]);
    tfm__int8_screen_free(ctx, &model->output_int8);
    tfm_tensor_free(ctx, &model->logits_bias);
    tfm_tensor_free(ctx, &model->search_bias);
    tfm_tensor_free(ctx, &model->score_bias);
    free_stack(ctx, &model->encoder, &model->arch.encoder);
    free_stack(ctx, &model->decoder, &model->arch.decoder);
    tfm__head_free(ctx, &model->head);
    tfm__classes_free(&model->classes);
    json_decref(model->generation);
    for (size_t i = 0; i < model->tensor_alias_count; i++) {
        free(model->tensor_aliases[i].name);
        free(model->tensor_aliases[i].in_file);
    }
    free(model->tensor_aliases);
    tfm_tokenizer_free(&model->tokenizer);
    tfm__token_trie_free(&model->trie);
    tfm__shortlist_free(&model->shortlist);
    free(model);
    tfm_context_free(&ctx);
}

tfm_model *tfm__model_retain(tfm_model *model) {
    atomic_fetch_add(&model->refcount, 1);
    return model;
}

const tfm_model_info *tfm_model_get_info(const tfm_model *model) {
    return model ? &model->info : NULL;
}

tfm_context *tfm_model_context(const tfm_model *model) {
    if (!model)
        return NULL;
    return model->ctx;
}

const tfm_tokenizer *tfm_model_tokenizer(const tfm_model *model) {
    if (!model)
        return NULL;
    return model->tokenizer;
}
