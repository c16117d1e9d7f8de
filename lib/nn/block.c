/* The block of every encoder and decoder: sub-layers joined by residual connections ("Attention Is All You Need",
 * section 3.1).
 *
 * Post-norm, the paper's:  x <- norm(x + f(x)).
 * Pre-norm:                x <- x + f(norm(x)); the sum and the next sub-layer's norm are one op. */
#include "nn/stream.h"

/* Attention over the block's own input: a whole one, or one step whose keys and values join the log. */
static void attend_self(tfm_context *ctx, tfm_tensor *mixed, tfm_tensor *weights, tfm_block *block, tfm__stream *s,
                        const tfm_norm *before, const tfm_block_memory *memory) {
    tfm_dropout_options draw;
    tfm_multi_head *layer = &block->attention;
    tfm_attention_options options = {.scores = weights};
    tfm_tensor queries = {0}, keys = {0}, values = {0};
    tfm_keys_values own = memory->log;
    const bool step = memory->rows.buffer != NULL;
    if (step) { /* (B, 1, Hk D) of a log that has no time axis */
        const int64_t dims[] = {memory->fresh.keys.dims[0], 1, memory->fresh.keys.dims[1]};
        options.rows = memory->rows;
        tfm_tensor_reshape(ctx, &keys, memory->fresh.keys, 3, dims);
        tfm_tensor_reshape(ctx, &values, memory->fresh.values, 3, dims);
    } else {
        options.causal = block->causal;
        options.lengths = memory->lengths;
    }
    const tfm__linear_output layers[] = {tfm__reads(&queries, &layer->query), tfm__reads(&keys, &layer->key),
                                         tfm__reads(&values, &layer->value)};
    tfm__stream_read(ctx, s, before, 3, layers, TFM_NO_ACTIVATION);
    if (!step)
        own = (tfm_keys_values){keys, values};
    options.dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw);
    tfm__multi_head_mix(ctx, mixed, layer, queries, own, &options);
    tfm_tensor_free(ctx, &queries);
    if (!step) {
        tfm_tensor_free(ctx, &keys);
        tfm_tensor_free(ctx, &values);
    }
}

static void attend_cross(tfm_context *ctx, tfm_tensor *crossed, tfm_tensor *weights, tfm_block *block, tfm__stream *s,
                         const tfm_norm *before, const tfm_block_memory *memory) {
    tfm_dropout_options draw;
    tfm_tensor queries = {0};
    const tfm__linear_output query = tfm__reads(&queries, &block->cross.query);
    tfm__stream_read(ctx, s, before, 1, &query, TFM_NO_ACTIVATION);
    const tfm_attention_options options = {.lengths = memory->cross_lengths,
                                           .sources = memory->cross_sources,
                                           .scores = weights,
                                           .dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw)};
    tfm__multi_head_mix(ctx, crossed, &block->cross, queries, memory->cross, &options);
    tfm_tensor_free(ctx, &queries);
}

static void feed(tfm_context *ctx, tfm_tensor *fed, tfm_block *block, tfm__stream *s, const tfm_norm *before) {
    tfm_feed_forward *layer = &block->feed_forward;
    const bool gated = layer->gate.weight.value.buffer != NULL;
    tfm_tensor up = {0}, gate = {0};
    const tfm__linear_output layers[] = {tfm__reads(&up, &layer->up), tfm__reads(&gate, &layer->gate)};
    tfm__stream_read(ctx, s, before, gated ? 2 : 1, layers, gated ? TFM_NO_ACTIVATION : layer->activation);
    tfm__feed_forward_end(ctx, fed, layer, up, gate);
    tfm_tensor_free(ctx, &up);
    tfm_tensor_free(ctx, &gate);
}

/* What a sub-layer gave joins the stream when that is read. */
static void give(tfm__stream *s, tfm_tensor y, const tfm_norm *own, const tfm_block *block) {
    s->added = y;
    s->after = block->norm_place == TFM_NORM_BEFORE ? NULL : own;
    s->training = block->training;
}

tfm_status tfm__block_run(tfm_context *ctx, tfm__stream *s, tfm_tensor *self_weights, tfm_tensor *cross_weights,
                          tfm_block *block, const tfm_block_memory *memory) {
    static const tfm_block_memory none;
    const bool cross = block->cross.query.weight.value.buffer != NULL, pre = block->norm_place == TFM_NORM_BEFORE;
    tfm_tensor mixed = {0}, crossed = {0}, fed = {0}; /* (B, T, E) */
    if (cross_weights && !cross)
        return tfm__op_refuse(ctx, "block", "the weights of a cross-attention are asked for, and it has none");
    memory = memory ? memory : &none;
    tfm_scope_open(ctx);
    attend_self(ctx, &mixed, self_weights, block, s, pre ? &block->attention_norm : NULL, memory);
    give(s, mixed, &block->attention_norm, block);
    if (cross) {
        attend_cross(ctx, &crossed, cross_weights, block, s, pre ? &block->cross_norm : NULL, memory);
        give(s, crossed, &block->cross_norm, block);
    }
    feed(ctx, &fed, block, s, pre ? &block->feed_forward_norm : NULL);
    give(s, fed, &block->feed_forward_norm, block);
    return tfm_scope_close(ctx, 4, (tfm_tensor *[]){&s->x, &s->added, self_weights, cross_weights});
}

tfm_status tfm_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_block *block, tfm_tensor x,
                             const tfm_block_memory *memory) {
    return tfm_block_attend(ctx, y, NULL, NULL, block, x, memory);
}

tfm_status tfm_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights, tfm_tensor *cross_weights,
                            tfm_block *block, tfm_tensor x, const tfm_block_memory *memory) {
    if (TFM__NEEDS_ON(ctx, "block_attend", y, block) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__stream stream = {.x = x};
    tfm_scope_open(ctx);
    tfm__block_run(ctx, &stream, self_weights, cross_weights, block, memory);
    tfm__stream_settle(ctx, y, &stream);
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, self_weights, cross_weights}); /* NULL is none */
}

void tfm_block_free(tfm_context *ctx, tfm_block *block) {
    if (!block)
        return;
    tfm_multi_head_free(ctx, &block->attention);
    tfm_norm_free(ctx, &block->attention_norm);
    tfm_multi_head_free(ctx, &block->cross);
    tfm_norm_free(ctx, &block->cross_norm);
    tfm_feed_forward_free(ctx, &block->feed_forward);
    tfm_norm_free(ctx, &block->feed_forward_norm);
}
