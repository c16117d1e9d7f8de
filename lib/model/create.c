/* A model that has no directory yet: parameters by their initial distributions. */
#include <math.h>
#include <string.h>
#include "base/random.h"
#include "model/model.h"

static tfm_status check_shape(const tfm_model_shape *s) {
    const int target = s->target_vocabulary ? s->target_vocabulary : s->source_vocabulary;
    const int ids[] = {s->pad_id, s->eos_id, s->start_id}, most = 1 << 20, words = 1 << 24;
    bool good = s->width > 0 && s->width <= most && s->heads > 0 && s->width % s->heads == 0 &&
                s->encoder_layers > 0 && s->decoder_layers > 0 && s->encoder_layers <= 1024 &&
                s->decoder_layers <= 1024 && s->feed_forward > 0 && s->feed_forward <= most &&
                s->source_vocabulary > 0 && s->source_vocabulary <= words && target > 0 && target <= words &&
                s->max_positions > 0 && s->max_positions <= most;
    for (size_t i = 0; i < TFM_COUNT(ids); i++)
        good &= ids[i] >= 0 && ids[i] < target && ids[i] < s->source_vocabulary;
    if (good)
        return TFM_OK;
    return tfm__fail(
        TFM_ERROR_ARGUMENT,
        "model_create: width %d, %d heads, %d and %d layers, feed-forward %d, vocabularies %d and %d, %d "
        "positions, ids %d, %d, %d: all must be positive, heads divide the width, ids lie in both "
        "vocabularies",
        s->width, s->heads, s->encoder_layers, s->decoder_layers, s->feed_forward, s->source_vocabulary,
        target, s->max_positions, s->pad_id, s->eos_id, s->start_id);
}

static void fill_config(tfm__config *c, const tfm_model_shape *s) {
    *c = (tfm__config){
        .d_model = s->width,
        .encoder_layers = s->encoder_layers,
        .decoder_layers = s->decoder_layers,
        .encoder_heads = s->heads,
        .decoder_heads = s->heads,
        .encoder_ffn = s->feed_forward,
        .decoder_ffn = s->feed_forward,
        .vocab_size = s->source_vocabulary,
        .decoder_vocab_size = s->target_vocabulary ? s->target_vocabulary : s->source_vocabulary,
        .max_positions = s->max_positions,
        .activation = s->activation,
        .normalize_before = s->pre_norm,
        .add_final_layer_norm = s->pre_norm, /* else nothing would norm what leaves the last block */
        .static_positions = true,
        .scale_embedding = true,
        .share_embeddings = s->target_vocabulary == 0,
        .tie_embeddings = true,
        .pad_id = s->pad_id,
        .eos_id = s->eos_id,
        .start_id = s->start_id,
        .forced_bos_id = -1,
        .bad_id_count = s->pad_id != s->eos_id,
        .bad_ids = {s->pad_id},
    };
}

typedef struct maker {
    tfm_model *model;
    tfm_init init;
    uint64_t seed, stream;
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
        host[i] = drawn ? (float)(spread * (uniform ? 2 * tfm__random_uniform(&random) - 1
                                                    : tfm__random_normal(&random)))
                        : p->kind == TFM__GAMMA;
    tfm__tensor_new_lasting(ctx, &p->param->value, TFM_F32, p->rank, p->dims);
    tfm_tensor_write(ctx, p->param->value, host);
    free(host);
    k->model->info.parameters += (uint64_t)count;
    return tfm_context_status(ctx);
}

static tfm_status make_tables(tfm_model *model) {
    tfm_context *ctx = model->ctx;
    const tfm__config *config = &model->config;
    const int64_t positions[] = {config->max_positions, config->d_model}, size = config->decoder_vocab_size;
    tfm_tensor *const places[] = {&model->source_positions, &model->target_positions};
    for (int i = 0; i < 2; i++) {
        tfm__tensor_new_lasting(ctx, places[i], TFM_F32, 2, positions);
        tfm_sinusoid(ctx, places[i], 0, 0, TFM_SINUSOID_SPLIT);
    }
    float *bias = tfm__alloc((size_t)size, sizeof(*bias));
    if (!bias)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__model_set_biases(model, bias);
    free(bias);
    return status;
}

tfm_status tfm_model_create(tfm_model **out, tfm_context *ctx, const tfm_model_shape *shape) {
    *out = NULL;
    tfm_status status = check_shape(shape);
    if (status == TFM_OK && tfm_context_status(ctx) != TFM_OK)
        status = tfm__fail(tfm_context_status(ctx), "model_create: the context has failed before: %s",
                           tfm_context_error(ctx));
    tfm_model *model = status == TFM_OK ? tfm__alloc(1, sizeof(*model)) : NULL;
    if (!model)
        return status == TFM_OK ? TFM_ERROR_MEMORY : status;
    model->ctx = ctx;
    fill_config(&model->config, shape);
    tfm__model_describe_config(model);
    model->source = &model->tables[TFM__SOURCE_TABLE];
    model->target = shape->target_vocabulary ? &model->tables[TFM__TARGET_TABLE] : model->source;
    model->output = model->target;
    model->info.tied_output = true;
    model->encoder = tfm__alloc((size_t)shape->encoder_layers, sizeof(*model->encoder));
    model->decoder = tfm__alloc((size_t)shape->decoder_layers, sizeof(*model->decoder));
    maker k = {.model = model, .init = shape->init, .seed = shape->seed};
    status = model->encoder && model->decoder ? make_tables(model) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__model_walk_tables(model, make, &k);
    if (status == TFM_OK)
        status = tfm__model_walk(model, make, &k);
    tfm__model_describe_config(model);
    if (status != TFM_OK)
        tfm_model_free(&model);
    *out = model;
    return status;
}
