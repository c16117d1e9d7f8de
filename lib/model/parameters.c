/* The parameters of a model, by name and in order: the name map of Hugging Face's Marian checkpoints. */
#include <stdio.h>
#include "model/model.h"

typedef struct walker {
    tfm_model *model;
    tfm__parameter_fn each;
    void *user;
    tfm_status status;
} walker;

static void visit(walker *w, tfm_param *param, tfm__parameter_kind kind, int64_t rows, int64_t columns,
                  const char *prefix, const char *layer, const char *name) {
    char full[256];
    if (w->status != TFM_OK)
        return;
    snprintf(full, sizeof(full), "%s%s%s.%s", prefix, *layer ? "." : "", layer, name);
    w->status = w->each(w->user, &(tfm__parameter){param, full, kind, columns ? 2 : 1, {rows, columns}});
}

static void walk_dense(walker *w, tfm_dense *layer, int64_t outputs, int64_t inputs, const char *prefix,
                       const char *name) {
    visit(w, &layer->weight, TFM__MATRIX, outputs, inputs, prefix, name, "weight");
    visit(w, &layer->bias, TFM__BIAS, outputs, 0, prefix, name, "bias");
}

static void walk_norm(walker *w, tfm_norm *layer, const char *prefix, const char *name) {
    const int64_t width = w->model->config.d_model;
    layer->epsilon = 1e-5f; /* torch.nn.LayerNorm's own; the family has no key for it */
    visit(w, &layer->gamma, TFM__GAMMA, width, 0, prefix, name, "weight");
    visit(w, &layer->beta, TFM__BETA, width, 0, prefix, name, "bias");
}

static void walk_attention(walker *w, tfm_multi_head *layer, int heads, const char *prefix, const char *name) {
    const int64_t width = w->model->config.d_model;
    char path[192];
    snprintf(path, sizeof(path), "%s.%s", prefix, name);
    layer->heads = heads;
    walk_dense(w, &layer->query, width, width, path, "q_proj");
    walk_dense(w, &layer->key, width, width, path, "k_proj");
    walk_dense(w, &layer->value, width, width, path, "v_proj");
    walk_dense(w, &layer->out, width, width, path, "out_proj");
}

static void walk_feed_forward(walker *w, tfm_feed_forward *layer, int64_t inner, const char *prefix) {
    const int64_t width = w->model->config.d_model;
    layer->activation = w->model->config.activation;
    walk_dense(w, &layer->up, inner, width, prefix, "fc1");
    walk_dense(w, &layer->down, width, inner, prefix, "fc2");
}

static void walk_encoder_block(walker *w, tfm_encoder_block *block, int index) {
    const tfm__config *config = &w->model->config;
    char prefix[128];
    snprintf(prefix, sizeof(prefix), "model.encoder.layers.%d", index);
    block->pre_norm = config->normalize_before;
    walk_attention(w, &block->attention, config->encoder_heads, prefix, "self_attn");
    walk_norm(w, &block->attention_norm, prefix, "self_attn_layer_norm");
    walk_feed_forward(w, &block->feed_forward, config->encoder_ffn, prefix);
    walk_norm(w, &block->feed_forward_norm, prefix, "final_layer_norm");
}

static void walk_decoder_block(walker *w, tfm_decoder_block *block, int index) {
    const tfm__config *config = &w->model->config;
    char prefix[128];
    snprintf(prefix, sizeof(prefix), "model.decoder.layers.%d", index);
    block->pre_norm = config->normalize_before;
    walk_attention(w, &block->attention, config->decoder_heads, prefix, "self_attn");
    walk_norm(w, &block->attention_norm, prefix, "self_attn_layer_norm");
    walk_attention(w, &block->cross, config->decoder_heads, prefix, "encoder_attn");
    walk_norm(w, &block->cross_norm, prefix, "encoder_attn_layer_norm");
    walk_feed_forward(w, &block->feed_forward, config->decoder_ffn, prefix);
    walk_norm(w, &block->feed_forward_norm, prefix, "final_layer_norm");
}

tfm_status tfm__model_walk(tfm_model *model, tfm__parameter_fn each, void *user) {
    walker w = {model, each, user, TFM_OK};
    const tfm__config *config = &model->config;
    if (config->normalize_embedding) {
        walk_norm(&w, &model->source_norm, "model.encoder", "layernorm_embedding");
        walk_norm(&w, &model->target_norm, "model.decoder", "layernorm_embedding");
    }
    if (config->add_final_layer_norm) {
        walk_norm(&w, &model->encoder_norm, "model.encoder", "layer_norm");
        walk_norm(&w, &model->decoder_norm, "model.decoder", "layer_norm");
    }
    for (int i = 0; i < config->encoder_layers && w.status == TFM_OK; i++)
        walk_encoder_block(&w, &model->encoder[i], i);
    for (int i = 0; i < config->decoder_layers && w.status == TFM_OK; i++)
        walk_decoder_block(&w, &model->decoder[i], i);
    return w.status;
}

tfm_status tfm__model_walk_tables(tfm_model *model, tfm__parameter_fn each, void *user) {
    walker w = {model, each, user, TFM_OK};
    const tfm__config *config = &model->config;
    const int64_t width = config->d_model;
    const char *const source = config->share_embeddings ? "model.shared" : "model.encoder.embed_tokens";
    visit(&w, model->source, TFM__TABLE, config->vocab_size, width, source, "", "weight");
    if (model->target != model->source)
        visit(&w, model->target, TFM__TABLE, config->decoder_vocab_size, width, "model.decoder.embed_tokens", "",
              "weight");
    if (model->output != model->source && model->output != model->target)
        visit(&w, model->output, TFM__TABLE, config->decoder_vocab_size, width, "lm_head", "", "weight");
    return w.status;
}
