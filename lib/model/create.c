/* A model that has no directory yet: parameters by their initial distributions. */
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "model/model.h"

static tfm_status check_shape(const tfm_model_shape *s) {
    const int target = s->target_vocabulary ? s->target_vocabulary : s->source_vocabulary;
    const int ids[] = {s->pad_id, s->eos_id, s->start_id}, most = 1 << 20, words = 1 << 24;
    bool good = s->width > 0 && s->width <= most && s->heads > 0 && s->width % s->heads == 0 && s->encoder_layers > 0 &&
                s->decoder_layers > 0 && s->encoder_layers <= 1024 && s->decoder_layers <= 1024 &&
                s->feed_forward > 0 && s->feed_forward <= most && s->source_vocabulary > 0 &&
                s->source_vocabulary <= words && target > 0 && target <= words && s->max_positions > 0 &&
                s->max_positions <= most;
    for (size_t i = 0; i < TFM__COUNT(ids); i++)
        good &= ids[i] >= 0 && ids[i] < target && ids[i] < s->source_vocabulary;
    if (good)
        return TFM_OK;
    return tfm__fail(TFM_ERROR_ARGUMENT,
                     "model_new: width %d, %d heads, %d and %d layers, feed-forward %d, vocabularies %d and %d, %d "
                     "positions, ids %d, %d, %d: all must be positive, heads divide the width, ids lie in both "
                     "vocabularies",
                     s->width, s->heads, s->encoder_layers, s->decoder_layers, s->feed_forward, s->source_vocabulary,
                     target, s->max_positions, s->pad_id, s->eos_id, s->start_id);
}

static tfm__stack_arch stack_of(const tfm_model_shape *s, int layers, int vocabulary) {
    return (tfm__stack_arch){
        .layers = layers,
        .width = s->width,
        .heads = s->heads,
        .kv_heads = s->heads,
        .head_width = s->width / s->heads,
        .feed_forward = s->feed_forward,
        .activation = s->activation,
        .input_biases = true,
        .output_biases = true,
        .feed_forward_biases = true,
        .norm = TFM_NORM_LAYER,
        .norm_biases = true,
        .norm_place = s->pre_norm ? TFM_NORM_BEFORE : TFM_NORM_AFTER,
        .epsilon = 1e-5f,
        .final_norm = s->pre_norm, /* else nothing would norm what leaves the last block */
        .vocabulary = vocabulary,
        .embedding_scale = sqrtf((float)s->width),
        .positions = TFM__SINUSOIDS,
        .sinusoids = TFM_SINUSOID_SPLIT,
        .max_positions = s->max_positions,
    };
}

static tfm__arch arch_of(const tfm_model_shape *s) {
    const int target = s->target_vocabulary ? s->target_vocabulary : s->source_vocabulary;
    tfm__arch arch = {.encoder = stack_of(s, s->encoder_layers, s->source_vocabulary),
                      .decoder = stack_of(s, s->decoder_layers, target),
                      .shared_tables = s->target_vocabulary == 0,
                      .tied_output = true};
    arch.decoder.causal = arch.decoder.cross = true;
    return arch;
}

/* New, or NULL without memory. */
static tfm__rules *rules_of(const tfm_model_shape *s) {
    tfm__rules *rules = tfm__alloc(1, sizeof(*rules));
    if (!rules)
        return NULL;
    rules->pad_id = rules->bad_ids[0] = s->pad_id;
    rules->eos_id = s->eos_id;
    rules->start_id = s->start_id;
    rules->forced_bos_id = rules->forced_eos_id = -1;
    rules->bad_id_count = s->pad_id != s->eos_id;
    return rules;
}

typedef struct maker {
    tfm_model *model;
    tfm_init init;
    uint64_t seed, stream, parameters;
} maker;

/* Deviation or bound of a matrix (outputs, inputs). */
static double spread_of(tfm_init init, const tfm__parameter *p) {
    const double outputs = (double)p->dims[0], inputs = (double)p->dims[1];
    if (p->kind == TFM__TABLE)
        return 1 / sqrt(inputs);
    return init == TFM_INIT_GAUSSIAN  ? 0.02
           : init == TFM_INIT_KAIMING ? sqrt(2 / inputs)
                                      : sqrt(6 / (inputs + outputs));
}

static tfm_status make(void *user, const tfm__parameter *p) {
    maker *k = user;
    tfm_context *ctx = k->model->ctx;
    const int64_t count = p->dims[0] * (p->rank == 2 ? p->dims[1] : 1);
    float *host = tfm__alloc((size_t)count, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    const bool drawn = p->kind == TFM__MATRIX || p->kind == TFM__TABLE;
    const bool uniform = p->kind == TFM__MATRIX && k->init == TFM_INIT_XAVIER;
    const double spread = drawn ? spread_of(k->init, p) : 0;
    tfm__random random = tfm__random_new(k->seed, k->stream++);
    for (int64_t i = 0; i < count; i++)
        host[i] = drawn
                      ? (float)(spread * (uniform ? 2 * tfm__random_uniform(&random) - 1 : tfm__random_normal(&random)))
                      : p->kind == TFM__GAMMA;
    tfm__tensor_new_lasting(ctx, &p->param->value, TFM_F32, p->rank, p->dims);
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
    for (int i = 0; i < 2; i++) {
        tfm__tensor_new_lasting(ctx, places[i], TFM_F32, 2, positions);
        tfm_sinusoid(ctx, places[i], 0, 0, TFM_SINUSOID_SPLIT);
    }
    float *bias = tfm__alloc((size_t)arch->vocabulary, sizeof(*bias));
    if (!bias)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__model_set_biases(model, bias);
    free(bias);
    return status;
}

tfm_status tfm_model_new(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape) {
    if (TFM__NEEDS("model_new", out, ctx, shape) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = NULL;
    if (TFM__UNKNOWN(shape))
        return tfm__fail(TFM_ERROR_ARGUMENT, "model_new: %s", TFM__UNKNOWN_OPTION);
    tfm_status status = check_shape(shape);
    if (status == TFM_OK)
        status = tfm__context_ready(ctx, "model_new");
    if (status != TFM_OK)
        return status;
    const tfm__arch arch = arch_of(shape);
    tfm__rules *rules = rules_of(shape);
    const tfm__family *family = &tfm__family_marian;
    maker k = {.init = shape->init, .seed = shape->seed};
    status = rules ? tfm__model_new(&k.model, ctx, family, &arch, rules) : TFM_ERROR_MEMORY;
    free(rules);
    if (status == TFM_OK)
        status = make_constants(k.model);
    if (status == TFM_OK)
        status = tfm__roles_walk(family, &arch, k.model, make, &k);
    if (status == TFM_OK)
        tfm__model_describe_arch(&k.model->info, family, &arch, &k.model->rules, k.parameters);
    else
        tfm_model_free(&k.model);
    *out = k.model;
    return status;
}
