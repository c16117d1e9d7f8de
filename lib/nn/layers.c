/* Layers: linear, norm, feed-forward, multi-head attention. */
#include "nn/residual.h"

const tfm_dropout_options *tfm_dropout_next(tfm_dropout_state *state, tfm_dropout_options *out, tfm_dropout_site site) {
    if (!state || !out || (unsigned)site >= TFM_DROPOUT_SITES || state->rates[site] == 0.0f)
        return NULL;
    *out = (tfm_dropout_options){.rate = state->rates[site], .seed = state->seed, .stream = state->stream++};
    return out;
}

tfm_status tfm_dense_forward(tfm_context *ctx, tfm_tensor *y, tfm_dense *layer, tfm_tensor x,
                             tfm_activation activation) {
    if (TFM__NEEDS_ON(ctx, "dense_forward", y, layer) != TFM_OK)
        return tfm_context_status(ctx);
    return tfm_linear(ctx, y, x, &layer->weight, layer->bias.value, activation);
}

void tfm_dense_free(tfm_context *ctx, tfm_dense *layer) {
    if (!layer)
        return;
    tfm_param_free(ctx, &layer->weight);
    tfm_param_free(ctx, &layer->bias);
}

/* y = *sum = x + residual. Without a residual it copies, since y may outlive x. */
static tfm_status identity_norm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual) {
    tfm_tensor *const outputs[] = {y, sum};
    for (int i = 0; i < 2; i++)
        if (outputs[i] && residual.buffer)
            tfm_add(ctx, outputs[i], x, residual);
        else if (outputs[i])
            tfm_activate(ctx, outputs[i], x, TFM_NO_ACTIVATION);
    return tfm_context_status(ctx);
}

tfm_status tfm_norm_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, const tfm_norm *layer, tfm_tensor x,
                            tfm_tensor residual) {
    if (TFM__NEEDS_ON(ctx, "norm_forward", y, layer) != TFM_OK)
        return tfm_context_status(ctx);
    if (layer->kind == TFM_NORM_NONE)
        return identity_norm(ctx, y, sum, x, residual);
    if (layer->kind == TFM_NORM_RMS)
        return tfm_rmsnorm(ctx, y, sum, x, residual, layer->gamma.value, -1, layer->epsilon);
    return tfm_layernorm(ctx, y, sum, x, residual, layer->gamma.value, layer->beta.value, layer->epsilon);
}

void tfm_norm_free(tfm_context *ctx, tfm_norm *layer) {
    if (!layer)
        return;
    tfm_param_free(ctx, &layer->gamma);
    tfm_param_free(ctx, &layer->beta);
}

tfm_status tfm__feed_forward_down(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor hidden) {
    tfm_tensor dropped = {0}; /* (..., F) */
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_dropout_next(layer->dropout, &draw, TFM_DROPOUT_ACTIVATION);
    tfm_scope_open(ctx);
    if (dropout)
        tfm_dropout(ctx, &dropped, hidden, dropout);
    tfm_dense_forward(ctx, y, &layer->down, dropout ? dropped : hidden, TFM_NO_ACTIVATION);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){y});
}

tfm_status tfm_feed_forward_forward(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor x) {
    if (TFM__NEEDS_ON(ctx, "feed_forward_forward", y, layer) != TFM_OK)
        return tfm_context_status(ctx);
    const bool gated = layer->gate.weight.value.buffer != NULL;
    tfm_tensor hidden = {0};
    tfm_scope_open(ctx);
    if (gated)
        tfm__fused_linear_gated(ctx, &(tfm__fused_input){.x = x}, &hidden, tfm__fused_dense(NULL, &layer->up),
                                tfm__fused_dense(NULL, &layer->gate), layer->activation);
    else
        tfm_dense_forward(ctx, &hidden, &layer->up, x, layer->activation);
    tfm__feed_forward_down(ctx, y, layer, hidden);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){y});
}

void tfm_feed_forward_free(tfm_context *ctx, tfm_feed_forward *layer) {
    if (!layer)
        return;
    tfm_dense_free(ctx, &layer->up);
    tfm_dense_free(ctx, &layer->down);
    tfm_dense_free(ctx, &layer->gate);
}

tfm_status tfm_ssru_cell_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_ssru_cell *layer, tfm_tensor x,
                                 tfm_tensor initial, tfm_tensor kv_indices) {
    if (TFM__NEEDS_ON(ctx, "ssru_cell_forward", y, cells, layer) != TFM_OK)
        return tfm_context_status(ctx);
    tfm_tensor fresh = {0}, forget = {0}; /* (B, T, E) */
    tfm_scope_open(ctx);
    tfm_dense_forward(ctx, &fresh, &layer->input, x, TFM_NO_ACTIVATION);
    tfm_dense_forward(ctx, &forget, &layer->forget, x, TFM_NO_ACTIVATION);
    tfm_ssru(ctx, y, cells, fresh, forget, initial, kv_indices);
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){y, cells});
}

void tfm_ssru_cell_free(tfm_context *ctx, tfm_ssru_cell *layer) {
    if (!layer)
        return;
    tfm_dense_free(ctx, &layer->input);
    tfm_dense_free(ctx, &layer->forget);
}

tfm_status tfm_multi_head_project(tfm_context *ctx, tfm_kv *out, tfm_multi_head *layer, tfm_tensor memory) {
    if (TFM__NEEDS_ON(ctx, "multi_head_project", out, layer) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__fused_output layers[] = {tfm__fused_dense(&out->keys, &layer->key),
                                        tfm__fused_dense(&out->values, &layer->value)};
    return tfm__fused_linear(ctx, &(tfm__fused_input){.x = memory}, 2, layers, TFM_NO_ACTIVATION);
}

tfm_status tfm__multi_head_attend(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor queries,
                                  tfm_kv memory, const tfm_attention_options *options) {
    tfm_attention_options attention = options ? *options : (tfm_attention_options){0};
    attention.heads = layer->heads;
    attention.kv_heads = layer->kv_heads;
    attention.scale = layer->scale != 0 ? layer->scale : attention.scale;
    attention.soft_cap = layer->soft_cap != 0 ? layer->soft_cap : attention.soft_cap;
    tfm_tensor mixed = {0}; /* (B, T, H D) */
    tfm_scope_open(ctx);
    tfm_attention(ctx, &mixed, queries, memory.keys, memory.values, &attention);
    tfm_dense_forward(ctx, y, &layer->out, mixed, TFM_NO_ACTIVATION);
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, attention.scores, attention.lse}); /* NULL entries are skipped */
}

tfm_status tfm_multi_head_forward(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor x, tfm_kv memory,
                                  const tfm_attention_options *options) {
    if (TFM__NEEDS_ON(ctx, "multi_head_forward", y, layer) != TFM_OK ||
        TFM__OP_OPTIONS(ctx, "multi_head_forward", options) != TFM_OK)
        return tfm_context_status(ctx);
    tfm_tensor queries = {0}; /* (B, T, H D) */
    tfm_scope_open(ctx);
    tfm_dense_forward(ctx, &queries, &layer->query, x, TFM_NO_ACTIVATION);
    tfm__multi_head_attend(ctx, y, layer, queries, memory, options);
    return tfm_scope_close(ctx, 3,
                           (tfm_tensor *[]){y, options ? options->scores : NULL, options ? options->lse : NULL});
}

void tfm_multi_head_free(tfm_context *ctx, tfm_multi_head *layer) {
    if (!layer)
        return;
    tfm_dense_free(ctx, &layer->query);
    tfm_dense_free(ctx, &layer->key);
    tfm_dense_free(ctx, &layer->value);
    tfm_dense_free(ctx, &layer->out);
    tfm_norm_free(ctx, &layer->query_norm);
    tfm_norm_free(ctx, &layer->key_norm);
}
