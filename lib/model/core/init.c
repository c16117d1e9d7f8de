/* New models: parameters with their initial distributions. */
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "model/arch/config_keys.h"
#include "model/core/model.h"
#include "ops/ops.h"

/* The limit of config.json, so that a saved model can be opened. */
enum { MAX_HEADS = 1024 };

static tfm_status check_choices(const tfm_model_shape *s) {
    if ((unsigned)s->activation >= TFM_ACTIVATIONS || (unsigned)s->init > TFM_INIT_KAIMING)
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_new: activation %d, init %d: unknown value", (int)s->activation,
                         (int)s->init);
    return s->heads <= MAX_HEADS
               ? TFM_OK
               : tfm__fail(TFM_ERROR_ARGUMENT, "model_new: %d heads exceed the limit of %d", s->heads, MAX_HEADS);
}

static tfm_status check_shape(const tfm_model_shape *s) {
    const int target = s->target_vocab_size ? s->target_vocab_size : s->source_vocab_size;
    const int ids[] = {s->pad_id, s->eos_id, s->start_id}, most = 1 << 20, words = 1 << 24;
    bool good = s->width > 0 && s->width <= most && s->heads > 0 && s->width % s->heads == 0 && s->encoder_layers > 0 &&
                s->decoder_layers > 0 && s->encoder_layers <= 1024 && s->decoder_layers <= 1024 && s->ffn_dim > 0 &&
                s->ffn_dim <= most && s->source_vocab_size > 0 && s->source_vocab_size <= words && target > 0 &&
                target <= words && s->max_positions > 0 && s->max_positions <= most;
    for (size_t i = 0; i < TFM__COUNT(ids); i++)
        good &= ids[i] >= 0 && ids[i] < target && ids[i] < s->source_vocab_size;
    if (good && s->kv_heads != 0 && s->kv_heads != s->heads)
        return tfm__fail(
            TFM_ERROR_ARGUMENT,
            "model_new: kv_heads is %d of %d heads: encoder-decoders do not support grouped-query attention",
            s->kv_heads, s->heads);
    if (good)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_ARGUMENT,
                     "model_new: width %d, %d heads, %d and %d layers, feed-forward %d, vocabularies %d and %d, %d "
                     "positions, ids %d, %d, %d: all must be positive, heads divide the width, ids lie in both "
                     "vocabularies",
                     s->width, s->heads, s->encoder_layers, s->decoder_layers, s->ffn_dim, s->source_vocab_size, target,
                     s->max_positions, s->pad_id, s->eos_id, s->start_id);
}

static tfm_status check_decoder(const tfm_model_shape *s) {
    const int most = 1 << 20, words = TFM__MAX_VOCABULARY, ids[] = {s->eos_id, s->start_id};
    bool good = s->width > 0 && s->width <= most && s->heads > 0 && s->width % s->heads == 0 && s->kv_heads >= 0 &&
                (s->kv_heads == 0 || s->heads % s->kv_heads == 0) && s->encoder_layers == 0 && s->decoder_layers > 0 &&
                s->decoder_layers <= TFM__MAX_LAYERS && s->ffn_dim > 0 && s->ffn_dim <= most &&
                s->source_vocab_size > 0 && s->source_vocab_size <= words && s->target_vocab_size == 0 &&
                s->max_positions > 0 && s->max_positions <= most && s->pad_id >= -1 && s->pad_id < s->source_vocab_size;
    for (size_t i = 0; i < TFM__COUNT(ids); i++)
        good &= ids[i] >= 0 && ids[i] < s->source_vocab_size;
    if (good)
        return TFM_OK;
    return tfm__fail(
        TFM_ERROR_ARGUMENT,
        "model_new: a language model of width %d, %d heads, %d KV heads, %d layers after an encoder of %d, "
        "feed-forward %d, vocabularies %d and %d, %d positions, ids %d, %d, %d: sizes must be positive, heads divide "
        "the width and each other, ids lie in the vocabulary, and the encoder and the second vocabulary be 0",
        s->width, s->heads, s->kv_heads, s->decoder_layers, s->encoder_layers, s->ffn_dim, s->source_vocab_size,
        s->target_vocab_size, s->max_positions, s->pad_id, s->eos_id, s->start_id);
}

static tfm__stack_arch stack_of(const tfm_model_shape *s, int layers, int vocabulary) {
    return (tfm__stack_arch){
        .layers = layers,
        .width = s->width,
        .heads = s->heads,
        .kv_heads = s->heads,
        .head_width = s->width / s->heads,
        .feed_forward = s->ffn_dim,
        .activation = s->activation,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_placement = s->pre_norm ? TFM_NORM_PRE : TFM_NORM_POST,
        .epsilon = 1e-5f,
        .final_norm = s->pre_norm, /* pre-norm needs a norm after the last block */
        .vocabulary = vocabulary,
        .embedding_scale = sqrtf((float)s->width),
        .positions = TFM__SINUSOIDS,
        .sinusoids = TFM_SINUSOID_SPLIT,
        .max_positions = s->max_positions,
    };
}

static tfm__arch arch_of(const tfm_model_shape *s) {
    const int target = s->target_vocab_size ? s->target_vocab_size : s->source_vocab_size;
    tfm__arch arch = {.encoder = stack_of(s, s->encoder_layers, s->source_vocab_size),
                      .decoder = stack_of(s, s->decoder_layers, target),
                      .shared_tables = s->target_vocab_size == 0,
                      .tied_embeddings = true};
    arch.decoder.causal = arch.decoder.cross = true;
    return arch;
}

static void fill_rules(tfm__generation_rules *rules, const tfm_model_shape *s) {
    rules->pad_id = rules->suppress_ids[0] = s->pad_id;
    rules->eos_id = s->eos_id;
    rules->start_id = s->start_id;
    rules->forced_bos_id = rules->forced_eos_id = -1;
    rules->suppress_id_count = s->pad_id != s->eos_id;
}

/* The arch that the family reads from a config.json with these sizes. */
static tfm_status read_described(tfm__arch *arch, tfm__generation_rules *rules, const tfm__family *family,
                                 const tfm_model_shape *s) {
    char name[] = "model_new";
    tfm__config_files from = {
        .family = family, .config = family->describe(family, s), .config_path = name, .generation_path = name};
    *arch = (tfm__arch){0};
    tfm_status status =
        from.config ? family->read(arch, rules, &from) : tfm__fail(TFM_ERROR_MEMORY, "model_new: out of host memory");
    if (status == TFM_ERROR_FORMAT) /* the values are those of the caller's shape */
        status = TFM_ERROR_ARGUMENT;
    if (status == TFM_OK && s->kv_heads > 0 && arch->decoder.kv_heads != s->kv_heads)
        status =
            tfm__fail(TFM_ERROR_ARGUMENT,
                      "model_new: kv_heads is %d of %d heads: the family %s does not support grouped-query attention",
                      s->kv_heads, s->heads, family->name);
    json_decref(from.config);
    return status;
}

typedef struct initializer {
    tfm_model *model;
    tfm_init init;
    uint64_t seed, stream, parameters;
} initializer;

/* Standard deviation or bound of a matrix (outputs, inputs). */
static double init_scale(tfm_init init, const tfm__parameter *p) {
    const double outputs = (double)p->dims[0], inputs = (double)p->dims[1];
    if (p->kind == TFM__EMBEDDING)
        return 1 / sqrt(inputs);
    return init == TFM_INIT_GAUSSIAN  ? 0.02
           : init == TFM_INIT_KAIMING ? sqrt(2 / inputs)
                                      : sqrt(6 / (inputs + outputs));
}

static tfm_status init_param(void *user, const tfm__parameter *p) {
    initializer *k = user;
    tfm_context *ctx = k->model->ctx;
    const int64_t count = p->dims[0] * (p->rank == 2 ? p->dims[1] : 1);
    float *host = tfm__alloc((size_t)count, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    const bool is_random = p->kind == TFM__MATRIX || p->kind == TFM__EMBEDDING;
    const bool uniform = p->kind == TFM__MATRIX && k->init == TFM_INIT_XAVIER;
    const double spread = is_random ? init_scale(k->init, p) : 0;
    tfm__random random = tfm__random_new(k->seed, k->stream++);
    for (int64_t i = 0; i < count; i++)
        host[i] = is_random
                      ? (float)(spread * (uniform ? 2 * tfm__random_uniform(&random) - 1 : tfm__random_normal(&random)))
                      : p->kind == TFM__GAMMA;
    tfm__tensor_new_persistent(ctx, &p->param->value, TFM_F32, p->rank, p->dims);
    tfm_tensor_write(ctx, p->param->value, host);
    free(host);
    k->parameters += (uint64_t)count;
    return tfm_context_status(ctx);
}

static tfm_status make_constants(tfm_model *model) {
    tfm_context *ctx = model->ctx;
    const tfm__stack_arch *arch = &model->arch.decoder;
    const int64_t positions[] = {arch->max_positions, arch->width};
    tfm_tensor *const places[] = {&model->encoder.positions, &model->decoder.positions};
    for (int i = 0; i < 2 && arch->positions == TFM__SINUSOIDS; i++) {
        tfm__tensor_new_persistent(ctx, places[i], TFM_F32, 2, positions);
        tfm_sinusoid(ctx, places[i], 0, 0, TFM_SINUSOID_SPLIT);
    }
    float *bias = tfm__alloc((size_t)arch->vocabulary, sizeof(*bias));
    if (!bias)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__model_set_biases(model, bias);
    free(bias);
    return status;
}

static tfm_status make_model(tfm_model **out, tfm_context *ctx, const tfm__family *family,
                             const tfm_model_shape *shape) {
    tfm__arch *arch = tfm__alloc(1, sizeof(*arch));
    tfm__generation_rules *rules = tfm__alloc(1, sizeof(*rules)); /* both are too large for a thread's stack */
    initializer k = {.init = shape->init, .seed = shape->seed};
    tfm_status status = arch && rules ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && family->describe) {
        status = read_described(arch, rules, family, shape);
    } else if (status == TFM_OK) {
        *arch = arch_of(shape);
        fill_rules(rules, shape);
    }
    if (status == TFM_OK)
        status = tfm__model_new(&k.model, ctx, family, arch, rules);
    if (status == TFM_OK)
        status = make_constants(k.model);
    if (status == TFM_OK)
        status = tfm__params_visit(family, arch, k.model, init_param, &k);
    if (status == TFM_OK)
        tfm__model_describe_arch(&k.model->info, family, arch, &k.model->rules, k.parameters, 4 * k.parameters,
                                 TFM_F32);
    else
        tfm_model_free(&k.model);
    free(arch);
    free(rules);
    *out = k.model;
    return status;
}

tfm_status tfm_model_new(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("model_new", out, ctx, shape) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(shape))
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_new: %s", TFM__RESERVED_SET_MESSAGE);
    const tfm__family *family = shape->family ? tfm__family_find(shape->family) : &tfm__family_marian;
    if (!family || (family != &tfm__family_marian && !family->describe))
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "model_new: the family \"%.100s\" does not support new models",
                         shape->family);
    tfm_status status = family->describe ? check_decoder(shape) : check_shape(shape);
    if (status == TFM_OK)
        status = check_choices(shape);
    if (status == TFM_OK)
        status = tfm__context_ready(ctx, "model_new");
    if (status != TFM_OK)
        return status;
    return make_model(out, ctx, family, shape);
}
