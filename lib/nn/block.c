/* The block of all encoders and decoders: sub-layers with residual connections ("Attention Is All You Need",
 * section 3.1).
 *
 * Post-norm, as in the paper:  x <- norm(x + f(x)).
 * Pre-norm:                    x <- x + f(norm(x)); the sum and the next sub-layer's norm are one op.
 * Sandwich norm:               x <- x + after(f(norm(x))).
 * Post-sub-layer norm:         x <- x + norm(f(x)).
 * Parallel:                    x <- x + f(norm(x)) + g(norm'(x)), for the two sub-layers f and g. */
#include "nn/residual.h"
#include "ops/attention/kv_quantize.h"
#include "ops/embedding/rotary.h"

/* y = norm(x), x (B, T, H, D), gamma (H, D). */
static void norm_per_head(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_norm *norm) {
    const tfm_norm bare = {.epsilon = norm->epsilon, .kind = norm->kind};
    tfm_tensor normed = {0};
    tfm_norm_forward(ctx, &normed, NULL, &bare, x, (tfm_tensor){0});
    tfm_mul(ctx, y, normed, norm->gamma.value);
}

/* QK norm of x (B, T, H D), per head or over all heads, if the layer has one. If `out` is not NULL, no RoPE follows,
 * and the result is *out, with the lifetime of *out. */
static tfm_tensor qk_norm(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int heads, const tfm_norm *norm) {
    tfm_tensor by_head = {0}, normed = {0}, whole = {0};
    if (!norm->gamma.value.buffer)
        return x;
    const bool each = norm->gamma.value.rank == 2;
    const int64_t parts = !each && norm->gamma.value.dims[0] == x.dims[2] ? 1 : heads;
    const int64_t dims[] = {x.dims[0], x.dims[1], parts, x.dims[2] / parts};
    tfm_tensor_reshape(ctx, &by_head, x, 4, dims);
    if (out && out->buffer && !tfm__is_half(*out))
        tfm_tensor_reshape(ctx, &normed, *out, 4, dims);
    if (each)
        norm_per_head(ctx, &normed, by_head, norm);
    else
        tfm_norm_forward(ctx, &normed, NULL, norm, by_head, (tfm_tensor){0});
    tfm_tensor_reshape(ctx, &whole, normed, 3, x.dims);
    if (out && tfm__is_half(*out))
        tfm__cast_saturating(ctx, *out, whole);
    else if (out)
        *out = whole;
    return whole;
}

/* Applies RoPE to keys and, unless NULL, to queries. */
static void apply_rotary(tfm_context *ctx, tfm_tensor *queries, tfm_tensor raw_queries, tfm_tensor *keys,
                         tfm_tensor raw_keys, const tfm_multi_head *layer, const tfm_block_inputs *memory) {
    const int kv_heads = layer->kv_heads ? layer->kv_heads : layer->heads;
    const tfm_rotary_options options = {.heads = kv_heads,
                                        .interleaved = memory->interleaved,
                                        .positions = memory->positions,
                                        .first = memory->position};
    tfm_tensor rotated = {0};
    if (queries) {
        tfm__rotary_pair(ctx, queries, raw_queries, layer->heads, keys, raw_keys, memory->cosines, memory->sines,
                         &options);
    } else if (tfm__is_half(*keys)) {
        tfm_rotary(ctx, &rotated, raw_keys, memory->cosines, memory->sines, &options);
        tfm__cast_saturating(ctx, *keys, rotated);
    } else {
        tfm_rotary(ctx, keys, raw_keys, memory->cosines, memory->sines, &options);
    }
}

/* Computes keys, values and (unless NULL) queries of the residual, (B, T, ...) each. Cached ones are written into the
 * KV cache. */
static void project_qkv(tfm_context *ctx, tfm_tensor *queries, tfm_kv *own, tfm_block *block, tfm__residual *s,
                        const tfm_norm *before, const tfm_block_inputs *memory) {
    tfm_multi_head *layer = &block->attention;
    const int kv_heads = layer->kv_heads ? layer->kv_heads : layer->heads;
    const bool rotated = memory->cosines.buffer != NULL;
    const bool transforms_queries = queries && (rotated || layer->query_norm.gamma.value.buffer);
    const bool transforms_keys = rotated || layer->key_norm.gamma.value.buffer;
    const bool cached = memory->kv_indices.buffer != NULL, int8 = cached && memory->new_kv.keys.dtype == TFM_I8;
    tfm_tensor raw_queries = {0}, raw_keys = {0};
    if (cached && !int8) { /* (B, T, Hk D) of a KV cache without a time axis */
        const int64_t dims[] = {s->x.dims[0], s->x.dims[1], memory->new_kv.keys.dims[1]};
        tfm_tensor_reshape(ctx, &own->keys, memory->new_kv.keys, 3, dims);
        tfm_tensor_reshape(ctx, &own->values, memory->new_kv.values, 3, dims);
    }
    tfm_tensor *const to_queries = transforms_queries ? &raw_queries : queries;
    tfm_tensor *const to_keys = transforms_keys ? &raw_keys : &own->keys;
    const tfm__fused_output layers[] = {tfm__fused_dense(to_queries, &layer->query),
                                        tfm__fused_dense(to_keys, &layer->key),
                                        tfm__fused_dense(&own->values, &layer->value)};
    const int skipped = queries ? 0 : 1;
    tfm__residual_linear(ctx, s, before, 3 - skipped, layers + skipped, TFM_NO_ACTIVATION);
    if (transforms_queries)
        raw_queries = qk_norm(ctx, rotated ? NULL : queries, raw_queries, layer->heads, &layer->query_norm);
    if (transforms_keys)
        raw_keys = qk_norm(ctx, rotated ? NULL : &own->keys, raw_keys, kv_heads, &layer->key_norm);
    if (rotated)
        apply_rotary(ctx, queries, raw_queries, &own->keys, raw_keys, layer, memory);
    if (int8)
        tfm__kv_quantize(ctx, memory->new_kv.keys, memory->new_kv.values, own->keys, own->values, kv_heads);
}

/* Self-attention: over a whole input, or decoding steps whose keys and values are appended to the KV cache. */
static void self_attention(tfm_context *ctx, tfm_tensor *mixed, tfm_tensor *weights, tfm_block *block, tfm__residual *s,
                           const tfm_norm *before, const tfm_block_inputs *memory) {
    tfm_dropout_options draw;
    const bool step = memory->kv_indices.buffer != NULL;
    const bool padded = step && memory->lengths.buffer != NULL;
    const int64_t targets = s->x.rank == 3 ? s->x.dims[1] : 1;
    const int64_t past = step && !padded ? memory->kv_indices.dims[1] - targets : 0;
    tfm_attention_options options = {.lengths = memory->lengths,
                                     .scores = weights,
                                     .causal = block->causal && (!step || targets > 1),
                                     .past = past,
                                     .causal_bottom_right = padded,
                                     .window =
                                         block->window && (!step || padded || past + targets > block->window_left + 1),
                                     .window_left = block->window_left,
                                     .window_right = block->window_right,
                                     .mask = memory->attention_bias,
                                     .kv_indices = memory->kv_indices};
    tfm_tensor queries = {0};
    tfm_kv own = {{0}, {0}};
    tfm_scope_open(ctx);
    project_qkv(ctx, &queries, &own, block, s, before, memory);
    options.dropout = tfm_dropout_next(block->dropout, &draw, TFM_DROPOUT_ATTENTION);
    tfm__multi_head_attend(ctx, mixed, &block->attention, queries, step ? memory->cache_kv : own, &options);
    tfm_scope_close(ctx, 4, (tfm_tensor *[]){mixed, weights, &s->x, &s->pending});
}

/* SSRU recurrence: a whole input from zero state, or one step from the parent's cell state in the KV cache. */
static void ssru_recurrence(tfm_context *ctx, tfm_tensor *mixed, tfm_block *block, tfm__residual *s,
                            const tfm_norm *before, const tfm_block_inputs *memory) {
    const bool step = memory->kv_indices.buffer != NULL;
    tfm_tensor fresh = {0}, forget = {0}, cells = {0};
    tfm_scope_open(ctx);
    const tfm__fused_output layers[] = {tfm__fused_dense(&fresh, &block->ssru.input),
                                        tfm__fused_dense(&forget, &block->ssru.forget)};
    if (step) /* more than one step is refused */
        tfm_tensor_reshape(ctx, &cells, memory->new_kv.keys, 3, (int64_t[]){s->x.dims[0], 1, s->x.dims[2]});
    tfm__residual_linear(ctx, s, before, 2, layers, TFM_NO_ACTIVATION);
    tfm_ssru(ctx, mixed, &cells, fresh, forget, memory->cache_kv.keys, memory->kv_indices);
    tfm_scope_close(ctx, 3, (tfm_tensor *[]){mixed, &s->x, &s->pending});
}

static void cross_attention(tfm_context *ctx, tfm_tensor *crossed, tfm_tensor *weights, tfm_block *block,
                            tfm__residual *s, const tfm_norm *before, const tfm_block_inputs *memory) {
    tfm_dropout_options draw;
    tfm_tensor queries = {0};
    const tfm__fused_output query = tfm__fused_dense(&queries, &block->cross_attention.query);
    tfm__residual_linear(ctx, s, before, 1, &query, TFM_NO_ACTIVATION);
    const tfm_attention_options options = {.lengths = memory->cross_lengths,
                                           .kv_batch = memory->cross_kv_batch,
                                           .scores = weights,
                                           .dropout = tfm_dropout_next(block->dropout, &draw, TFM_DROPOUT_ATTENTION)};
    tfm__multi_head_attend(ctx, crossed, &block->cross_attention, queries, memory->cross_kv, &options);
    tfm_tensor_free(ctx, &queries);
}

static void feed_forward(tfm_context *ctx, tfm_tensor *ffn_out, tfm_block *block, tfm__residual *s,
                         const tfm_norm *before) {
    tfm_feed_forward *layer = &block->feed_forward;
    tfm_tensor hidden = {0};
    const tfm__fused_output layers[] = {tfm__fused_dense(&hidden, &layer->up), tfm__fused_dense(NULL, &layer->gate)};
    if (layer->gate.weight.value.buffer)
        tfm__residual_linear_gated(ctx, &hidden, s, before, layers, layer->activation);
    else
        tfm__residual_linear(ctx, s, before, 1, layers, layer->activation);
    tfm__feed_forward_down(ctx, ffn_out, layer, hidden);
    tfm_tensor_free(ctx, &hidden);
}

/* The norm before a sub-layer's first matrices, or NULL. */
static const tfm_norm *pre_norm_of(const tfm_block *block, const tfm_norm *own) {
    const bool before = block->norm_placement == TFM_NORM_PRE || block->norm_placement == TFM_NORM_SANDWICH;
    return before && own->kind != TFM_NORM_NONE ? own : NULL;
}

/* Defers adding a sub-layer's output until the residual is read. */
static void defer_residual(tfm__residual *s, tfm_tensor y, const tfm_norm *own, const tfm_block *block) {
    s->pending = y;
    s->post_norm = block->norm_placement == TFM_NORM_POST ? own : NULL;
    s->training = block->dropout;
}

static bool has_output_norm(const tfm_block *block) {
    return block->norm_placement == TFM_NORM_SANDWICH || block->norm_placement == TFM_NORM_POST_SUBLAYER;
}

static bool has_residual_scale(const tfm_block *block) {
    return block->residual_scale != 0 && block->residual_scale != 1;
}

/* Norm of a sub-layer's output, if the block has one there: `own`, or `after` for sandwich norms. Then the scale. */
static void norm_and_scale_output(tfm_context *ctx, tfm_tensor *y, const tfm_norm *own, const tfm_norm *after,
                                  const tfm_block *block) {
    tfm_tensor made = {0}, factor = {0};
    if (has_output_norm(block)) {
        tfm_norm_forward(ctx, &made, NULL, block->norm_placement == TFM_NORM_SANDWICH ? after : own, *y,
                         (tfm_tensor){0});
        tfm_tensor_free(ctx, y);
        *y = made;
    }
    if (!has_residual_scale(block))
        return;
    made = (tfm_tensor){0};
    tfm_tensor_new(ctx, &factor, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(ctx, factor, &block->residual_scale);
    tfm_mul(ctx, &made, *y, factor);
    tfm_tensor_free(ctx, &factor);
    tfm_tensor_free(ctx, y);
    *y = made;
}

/* Adds the output of the parallel sub-layer to *y. */
static void add_parallel(tfm_context *ctx, tfm_tensor *y, tfm_tensor *other) {
    tfm_tensor both = {0};
    tfm_add(ctx, &both, *other, *y);
    tfm_tensor_free(ctx, y);
    tfm_tensor_free(ctx, other);
    *y = both;
}

tfm_status tfm__block_run(tfm_context *ctx, tfm__residual *s, tfm_tensor *self_weights, tfm_tensor *cross_weights,
                          tfm_block *block, const tfm_block_inputs *memory) {
    static const tfm_block_inputs none;
    const bool cross = block->cross_attention.query.weight.value.buffer != NULL;
    tfm_tensor mixed = {0}, crossed = {0}, ffn_out = {0}; /* (B, T, E) */
    const bool recurrent = block->ssru.input.weight.value.buffer != NULL;
    const bool shared_norm = block->parallel_residual && block->shared_norm;
    const tfm_norm *const second = shared_norm ? &block->attention_norm : &block->feed_forward_norm;
    if (cross_weights && !cross)
        return tfm__op_error(ctx, "block",
                             "cross-attention weights are requested, but the block has no cross-attention");
    if (self_weights && recurrent)
        return tfm__op_error(ctx, "block", "self-attention weights are requested, but the block has an SSRU instead");
    if (block->parallel_residual && (cross || block->norm_placement != TFM_NORM_PRE))
        return tfm__op_error(ctx, "block", "parallel sub-layers require a pre-norm block without cross-attention");
    if (cross && (has_output_norm(block) || has_residual_scale(block)))
        return tfm__op_error(ctx, "block",
                             "a cross-attention's result is neither normalized nor scaled: norm_placement must be "
                             "TFM_NORM_POST or TFM_NORM_PRE, and residual_scale 0 or 1");
    memory = memory ? memory : &none;
    tfm_scope_open(ctx);
    if (recurrent)
        ssru_recurrence(ctx, &mixed, block, s, pre_norm_of(block, &block->attention_norm), memory);
    else
        self_attention(ctx, &mixed, self_weights, block, s, pre_norm_of(block, &block->attention_norm), memory);
    norm_and_scale_output(ctx, &mixed, &block->attention_norm, &block->attention_post_norm, block);
    if (!block->parallel_residual)
        defer_residual(s, mixed, &block->attention_norm, block);
    if (cross) {
        cross_attention(ctx, &crossed, cross_weights, block, s, pre_norm_of(block, &block->cross_attention_norm),
                        memory);
        defer_residual(s, crossed, &block->cross_attention_norm, block);
    }
    feed_forward(ctx, &ffn_out, block, s, pre_norm_of(block, second));
    norm_and_scale_output(ctx, &ffn_out, &block->feed_forward_norm, &block->feed_forward_post_norm, block);
    if (block->parallel_residual)
        add_parallel(ctx, &ffn_out, &mixed);
    defer_residual(s, ffn_out, &block->feed_forward_norm, block);
    return tfm_scope_close(ctx, 4, (tfm_tensor *[]){&s->x, &s->pending, self_weights, cross_weights});
}

tfm_status tfm__block_write_kv(tfm_context *ctx, const tfm__residual *s, tfm_block *block,
                               const tfm_block_inputs *memory) {
    tfm__residual read = *s;
    tfm_kv own = {{0}, {0}};
    tfm_scope_open(ctx);
    project_qkv(ctx, NULL, &own, block, &read, pre_norm_of(block, &block->attention_norm), memory);
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_block *block, tfm_tensor x,
                             const tfm_block_inputs *inputs) {
    return tfm_block_forward_with_attention(ctx, y, NULL, NULL, block, x, inputs);
}

tfm_status tfm_block_forward_with_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights,
                                            tfm_tensor *cross_weights, tfm_block *block, tfm_tensor x,
                                            const tfm_block_inputs *inputs) {
    if (TFM__NEEDS_ON(ctx, "block_attend", y, block) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__residual residual = {.x = x};
    tfm_scope_open(ctx);
    tfm__block_run(ctx, &residual, self_weights, cross_weights, block, inputs);
    tfm__residual_materialize(ctx, y, &residual);
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, self_weights, cross_weights}); /* NULL entries are skipped */
}

void tfm_block_free(tfm_context *ctx, tfm_block *block) {
    if (!block)
        return;
    tfm_multi_head_free(ctx, &block->attention);
    tfm_ssru_cell_free(ctx, &block->ssru);
    tfm_norm_free(ctx, &block->attention_norm);
    tfm_multi_head_free(ctx, &block->cross_attention);
    tfm_norm_free(ctx, &block->cross_attention_norm);
    tfm_feed_forward_free(ctx, &block->feed_forward);
    tfm_norm_free(ctx, &block->feed_forward_norm);
    tfm_norm_free(ctx, &block->attention_post_norm);
    tfm_norm_free(ctx, &block->feed_forward_post_norm);
}
