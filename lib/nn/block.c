/* Encoder and decoder blocks: sub-layers joined by residual connections ("Attention Is All You Need",
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
static stream enter(tfm_context *ctx, tfm_tensor x, const tfm_norm *norm, bool pre_norm) {
    stream s = {x, x};
    if (pre_norm) {
        s.input = (tfm_tensor){0};
        tfm_norm_forward(ctx, &s.input, NULL, norm, x, (tfm_tensor){0});
    }
    return s;
}

/* norm(x + dropout(y)), and the sum. */
static void add_norm(tfm_context *ctx, tfm_tensor *out, tfm_tensor *sum, const tfm_norm *norm, tfm_tensor x,
                     tfm_tensor y, tfm_training *training) {
    tfm_dropout_options draw;
    tfm_layernorm_dropout(ctx, out, sum, x, y, norm->gamma.value, norm->beta.value, norm->epsilon,
                          tfm_training_draw(training, TFM_DROP_RESIDUAL, &draw));
}

/* After a sub-layer gave `y`. `own` is that sub-layer's norm (post-norm), `next` the following one's
 * (pre-norm). */
static stream join(tfm_context *ctx, stream s, tfm_tensor y, const tfm_norm *own, const tfm_norm *next,
                   bool pre_norm, tfm_training *training) {
    stream out = {{0}, {0}};
    if (pre_norm) {
        add_norm(ctx, &out.input, &out.x, next, s.x, y, training);
    } else {
        add_norm(ctx, &out.x, NULL, own, s.x, y, training);
        out.input = out.x;
    }
    return out;
}

/* The block's end: there is no next norm in it. */
static void leave(tfm_context *ctx, tfm_tensor *out, stream s, tfm_tensor y, const tfm_norm *own,
                  bool pre_norm, tfm_training *training) {
    tfm_tensor dropped = {0};
    tfm_dropout_options draw;
    if (!pre_norm) {
        add_norm(ctx, out, NULL, own, s.x, y, training);
        return;
    }
    const tfm_dropout_options *dropout = tfm_training_draw(training, TFM_DROP_RESIDUAL, &draw);
    if (dropout)
        tfm_dropout(ctx, &dropped, y, dropout);
    tfm_add(ctx, out, s.x, dropout ? dropped : y);
}

/* The end of a block's scope: its result stays, and the weights that somebody wants. */
static tfm_status close_keeping(tfm_context *ctx, tfm_tensor *y, tfm_tensor *weights, tfm_tensor *more) {
    tfm_tensor none = {0};
    return tfm_scope_close(ctx, 3, (tfm_tensor *[]){y, weights ? weights : &none, more ? more : &none});
}

tfm_status tfm_encoder_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_encoder_block *block, tfm_tensor x,
                                     tfm_tensor lengths) {
    return tfm_encoder_block_attend(ctx, y, NULL, block, x, lengths);
}

tfm_status tfm_encoder_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *weights, tfm_encoder_block *block,
                                    tfm_tensor x, tfm_tensor lengths) {
    tfm_tensor mixed = {0}, fed = {0}; /* (B, S, E) */
    tfm_keys_values memory = {{0}, {0}};
    tfm_dropout_options draw;
    tfm_scope_open(ctx);
    stream s = enter(ctx, x, &block->attention_norm, block->pre_norm);
    tfm_multi_head_project(ctx, &memory, &block->attention, s.input);
    tfm_multi_head_forward(ctx, &mixed, &block->attention, s.input, memory,
                           &(tfm_attention_options){
                               .lengths = lengths,
                               .scores = weights,
                               .dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw)});
    s = join(ctx, s, mixed, &block->attention_norm, &block->feed_forward_norm, block->pre_norm,
             block->training);
    tfm_feed_forward_forward(ctx, &fed, &block->feed_forward, s.input);
    leave(ctx, y, s, fed, &block->feed_forward_norm, block->pre_norm, block->training);
    return close_keeping(ctx, y, weights, NULL);
}

void tfm_encoder_block_free(tfm_context *ctx, tfm_encoder_block *block) {
    tfm_multi_head_free(ctx, &block->attention);
    tfm_norm_free(ctx, &block->attention_norm);
    tfm_feed_forward_free(ctx, &block->feed_forward);
    tfm_norm_free(ctx, &block->feed_forward_norm);
}

/* Causal attention over the target: a whole one, or one step whose keys and values join the log. */
static void attend_target(tfm_context *ctx, tfm_tensor *mixed, tfm_tensor *weights, tfm_decoder_block *block,
                          tfm_tensor input, const tfm_decoder_memory *memory) {
    tfm_dropout_options draw;
    const tfm_dropout_options *dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw);
    if (!memory->rows.buffer) {
        tfm_keys_values own = {{0}, {0}};
        tfm_multi_head_project(ctx, &own, &block->attention, input);
        tfm_multi_head_forward(ctx, mixed, &block->attention, input, own,
                               &(tfm_attention_options){.causal = true, .scores = weights, .dropout = dropout});
        return;
    }
    tfm_keys_values fresh = memory->fresh;
    tfm_tensor step = {0}; /* (B, E): the log has no time axis */
    tfm_tensor_reshape(ctx, &step, input, 2, (int64_t[]){input.dims[0], input.dims[2]});
    tfm_multi_head_project(ctx, &fresh, &block->attention, step);
    tfm_multi_head_forward(ctx, mixed, &block->attention, input, memory->log,
                           &(tfm_attention_options){.rows = memory->rows, .scores = weights, .dropout = dropout});
}

tfm_status tfm_decoder_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_decoder_block *block, tfm_tensor x,
                                     const tfm_decoder_memory *memory) {
    return tfm_decoder_block_attend(ctx, y, NULL, NULL, block, x, memory);
}

tfm_status tfm_decoder_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights,
                                    tfm_tensor *cross_weights, tfm_decoder_block *block, tfm_tensor x,
                                    const tfm_decoder_memory *memory) {
    tfm_tensor mixed = {0}, crossed = {0}, fed = {0}; /* (B, T, E) */
    tfm_dropout_options draw;
    tfm_scope_open(ctx);
    stream s = enter(ctx, x, &block->attention_norm, block->pre_norm);
    attend_target(ctx, &mixed, self_weights, block, s.input, memory);
    s = join(ctx, s, mixed, &block->attention_norm, &block->cross_norm, block->pre_norm, block->training);
    tfm_multi_head_forward(ctx, &crossed, &block->cross, s.input, memory->cross,
                           &(tfm_attention_options){
                               .lengths = memory->lengths,
                               .sources = memory->sources,
                               .scores = cross_weights,
                               .dropout = tfm_training_draw(block->training, TFM_DROP_ATTENTION, &draw)});
    s = join(ctx, s, crossed, &block->cross_norm, &block->feed_forward_norm, block->pre_norm,
             block->training);
    tfm_feed_forward_forward(ctx, &fed, &block->feed_forward, s.input);
    leave(ctx, y, s, fed, &block->feed_forward_norm, block->pre_norm, block->training);
    return close_keeping(ctx, y, self_weights, cross_weights);
}

void tfm_decoder_block_free(tfm_context *ctx, tfm_decoder_block *block) {
    tfm_multi_head_free(ctx, &block->attention);
    tfm_norm_free(ctx, &block->attention_norm);
    tfm_multi_head_free(ctx, &block->cross);
    tfm_norm_free(ctx, &block->cross_norm);
    tfm_feed_forward_free(ctx, &block->feed_forward);
    tfm_norm_free(ctx, &block->feed_forward_norm);
}
