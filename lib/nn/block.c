/* The block of every encoder and decoder: sub-layers joined by residual connections ("Attention Is All You Need",
 * section 3.1).
 *
 * Post-norm, the paper's:  x <- norm(x + f(x)).
 * Pre-norm:                x <- x + f(norm(x)); the sum and the next sub-layer's norm are one op. */
#include "ops/ops.h"
#include "tfm/nn.h"

/* What a block carries from sub-layer to sub-layer. */
typedef struct stream {
    tfm_tensor x;     /* (B, T, E): the residual */
    tfm_tensor input; /* (B, T, E): what the next sub-layer reads: x itself, or norm(x) when pre-norm */
} stream;

/* The block's start: pre-norm reads norm(x). */
static stream enter(tfm_context *ctx, tfm_tensor x, const tfm_norm *norm, tfm_norm_place place) {
    stream s = {x, x};
    if (place == TFM_NORM_BEFORE) {
        s.input = (tfm_tensor){0};
        tfm_norm_forward(ctx, &s.input, NULL, norm, x, (tfm_tensor){0});
    }
    return s;
}

/* norm(x + dropout(y)), and the sum. */
static void add_norm(tfm_context *ctx, tfm_tensor *out, tfm_tensor *sum, const tfm_norm *norm, tfm_tensor x,
                     tfm_tensor y, tfm_training *training) {
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_training_draw(training, TFM_DROP_RESIDUAL, &draw);
    tfm_tensor dropped = {0};
    if (norm->kind == TFM_NORM_LAYER) {
        tfm_layernorm_dropout(ctx, out, sum, x, y, norm->gamma.value, norm->beta.value, norm->epsilon, dropout);
        return;
    }
    if (dropout)
        tfm_dropout(ctx, &dropped, y, dropout);
    tfm_norm_forward(ctx, out, sum, norm, x, dropout ? dropped : y);
}

/* After a sub-layer gave `y`. `own` is that sub-layer's norm (post-norm), `next` the following one's
 * (pre-norm). */
static stream join(tfm_context *ctx, stream s, tfm_tensor y, const tfm_norm *own, const tfm_norm *next,
                   tfm_norm_place place, tfm_training *training) {
    stream out = {{0}, {0}};
    if (place == TFM_NORM_BEFORE) {
        add_norm(ctx, &out.input, &out.x, next, s.x, y, training);
    } else {
        add_norm(ctx, &out.x, NULL, own, s.x, y, training);
        out.input = out.x;
    }
    return out;
}

/* The block's end: there is no next norm in it. */
static void leave(tfm_context *ctx, tfm_tensor *out, stream s, tfm_tensor y, const tfm_norm *own, tfm_norm_place place,
                  tfm_training *training) {
    tfm_tensor dropped = {0};
    tfm_dropout_options draw;
    if (place != TFM_NORM_BEFORE) {
        add_norm(ctx, out, NULL, own, s.x, y, training);
        return;
    }
    const tfm_dropout_options *dropout = tfm_training_draw(training, TFM_DROP_RESIDUAL, &draw);
    if (dropout)
        tfm_dropout(ctx, &dropped, y, dropout);
    tfm_add(ctx, out, s.x, dropout ? dropped : y);
}

/* Attention over the block's own input: a whole one, or one step whose keys and values join the log. */
static void attend_self(tfm_context *ctx, tfm_tensor *mixed, tfm_tensor *weights, tfm_block *block, tfm_tensor input,
                        const tfm_block_memory *memory) {
    tfm_dropout_options draw;
    tfm_attention_options options = {.scores = weights,
                                     .dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw)};
    if (!memory->rows.buffer) {
        tfm_keys_values own = {{0}, {0}};
        options.causal = block->causal;
        options.lengths = memory->lengths;
        tfm_multi_head_project(ctx, &own, &block->attention, input);
        tfm_multi_head_forward(ctx, mixed, &block->attention, input, own, &options);
        return;
    }
    tfm_keys_values fresh = memory->fresh;
    tfm_tensor step = {0}; /* (B, E): the log has no time axis */
    options.rows = memory->rows;
    tfm_tensor_reshape(ctx, &step, input, 2, (int64_t[]){input.dims[0], input.dims[2]});
    tfm_multi_head_project(ctx, &fresh, &block->attention, step);
    tfm_multi_head_forward(ctx, mixed, &block->attention, input, memory->log, &options);
}

static void attend_cross(tfm_context *ctx, tfm_tensor *crossed, tfm_tensor *weights, tfm_block *block, tfm_tensor input,
                         const tfm_block_memory *memory) {
    tfm_dropout_options draw;
    tfm_multi_head_forward(
        ctx, crossed, &block->cross, input, memory->cross,
        &(tfm_attention_options){.lengths = memory->cross_lengths,
                                 .sources = memory->cross_sources,
                                 .scores = weights,
                                 .dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw)});
}

tfm_status tfm_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_block *block, tfm_tensor x,
                             const tfm_block_memory *memory) {
    return tfm_block_attend(ctx, y, NULL, NULL, block, x, memory);
}

tfm_status tfm_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights, tfm_tensor *cross_weights,
                            tfm_block *block, tfm_tensor x, const tfm_block_memory *memory) {
    static const tfm_block_memory none;
    if (TFM__NEEDS_ON(ctx, "block_attend", y, block) != TFM_OK)
        return tfm_context_status(ctx);
    const bool cross = block->cross.query.weight.value.buffer != NULL;
    const tfm_norm_place place = block->norm_place;
    const tfm_norm *last = &block->feed_forward_norm, *middle = cross ? &block->cross_norm : last;
    tfm_tensor mixed = {0}, crossed = {0}, fed = {0}; /* (B, T, E) */
    if (cross_weights && !cross)
        return tfm__op_refuse(ctx, "block", "the weights of a cross-attention are asked for, and it has none");
    memory = memory ? memory : &none;
    tfm_scope_open(ctx);
    stream s = enter(ctx, x, &block->attention_norm, place);
    attend_self(ctx, &mixed, self_weights, block, s.input, memory);
    s = join(ctx, s, mixed, &block->attention_norm, middle, place, block->training);
    if (cross) {
        attend_cross(ctx, &crossed, cross_weights, block, s.input, memory);
        s = join(ctx, s, crossed, middle, last, place, block->training);
    }
    tfm_feed_forward_forward(ctx, &fed, &block->feed_forward, s.input);
    leave(ctx, y, s, fed, last, place, block->training);
    tfm_tensor unused = {0};
    return tfm_scope_close(
        ctx, 3, (tfm_tensor *[]){y, self_weights ? self_weights : &unused, cross_weights ? cross_weights : &unused});
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
