/* What flows through the blocks of a stack, from sub-layer to sub-layer and from block to block. */
#ifndef TFM_LIB_RESIDUAL_H
#define TFM_LIB_RESIDUAL_H

#include "ops/gemm/fused_linear.h"
#include "tfm/nn.h"

/* The sum of the last sub-layer's input and output, and its norm, are made when the next layer reads them: where a
 * device has a kernel for that, in the same launch. Whoever takes x itself settles the residual first. */
typedef struct tfm__residual {
    tfm_tensor x;                /* (B, T, E): the residual, before `pending` */
    tfm_tensor pending;          /* (B, T, E): what the last sub-layer gave; empty: x is whole */
    const tfm_norm *post_norm;   /* the norm of that sum, where the sub-layer's norm stands after it; else NULL */
    tfm_dropout_state *training; /* drops from `pending` before it joins; NULL: nothing */
} tfm__residual;

/* y_i = activation(layer_i(input)) for each of `count` layers, three at most: `before` is the norm that stands before
 * them, and NULL where x itself is what they read. The y_i are made in the current scope if they are empty; so is what
 * becomes of the residual's x. */
tfm_status tfm__residual_linear(tfm_context *ctx, tfm__residual *residual, const tfm_norm *before, int count,
                                const tfm__fused_output *layers, tfm_activation activation);
/* y = up(input) activation(gate(input)), of the two layers that are given; the results by themselves are not made. */
tfm_status tfm__residual_linear_gated(tfm_context *ctx, tfm_tensor *y, tfm__residual *residual, const tfm_norm *before,
                                      const tfm__fused_output *up_and_gate, tfm_activation activation);
/* A dense layer, as tfm__residual_linear takes it. */
static inline tfm__fused_output tfm__fused_dense(tfm_tensor *y, tfm_dense *layer) {
    return (tfm__fused_output){y, &layer->weight, layer->bias.value};
}

/* *out gets the residual's x when nothing is left to be added, in the current scope if it is empty. */
tfm_status tfm__residual_materialize(tfm_context *ctx, tfm_tensor *out, tfm__residual *residual);

/* Runs a block on the residual. What the residual holds afterwards lies in the current scope. The weights of attention
 * are made where they are not NULL. */
tfm_status tfm__block_run(tfm_context *ctx, tfm__residual *residual, tfm_tensor *self_weights,
                          tfm_tensor *cross_weights, tfm_block *block, const tfm_block_inputs *memory);

/* Writes the block's keys and values of what is in the residual into the log, and does nothing else: what the last
 * block of a step has to do whose result nobody wants. The residual stays as it is. */
tfm_status tfm__block_write_kv(tfm_context *ctx, const tfm__residual *s, tfm_block *block,
                               const tfm_block_inputs *memory);

/* y = out(attention(queries, memory)): multi-head attention after its queries' projection (layers.c). */
tfm_status tfm__multi_head_attend(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor queries,
                                  tfm_kv memory, const tfm_attention_options *options);
/* y = down(hidden), after what training drops of it (layers.c). */
tfm_status tfm__feed_forward_down(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor hidden);

#endif
