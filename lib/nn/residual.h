/* The residual stream through the blocks of a stack. */
#ifndef TFM_LIB_RESIDUAL_H
#define TFM_LIB_RESIDUAL_H

#include "ops/gemm/fused_linear.h"
#include "tfm/nn.h"

/* The sum of the last sub-layer's input and output, and its norm, are computed when the next layer reads them: if a
 * device has a fused kernel, in the same launch. Call tfm__residual_materialize before reading x. */
typedef struct tfm__residual {
    tfm_tensor x;                /* (B, T, E): the residual without `pending` */
    tfm_tensor pending;          /* (B, T, E): output of the last sub-layer; empty: x is complete */
    const tfm_norm *post_norm;   /* norm of that sum (post-norm); else NULL */
    tfm_dropout_state *training; /* dropout of `pending`; NULL: none */
} tfm__residual;

/* y_i = activation(layer_i(norm(x))) for `count` <= 3 layers; `before` is the norm, NULL for none. Empty y_i are
 * created in the current scope; so is the residual's new x. */
tfm_status tfm__residual_linear(tfm_context *ctx, tfm__residual *residual, const tfm_norm *before, int count,
                                const tfm__fused_output *layers, tfm_activation activation);
/* y = up(input) activation(gate(input)); the two factors are not stored. */
tfm_status tfm__residual_linear_gated(tfm_context *ctx, tfm_tensor *y, tfm__residual *residual, const tfm_norm *before,
                                      const tfm__fused_output *up_and_gate, tfm_activation activation);
/* A dense layer as an output of tfm__residual_linear. */
static inline tfm__fused_output tfm__fused_dense(tfm_tensor *y, tfm_dense *layer) {
    return (tfm__fused_output){y, &layer->weight, layer->bias.value};
}

/* *out gets the residual's x with all pending sums, in the current scope if it is empty. */
tfm_status tfm__residual_materialize(tfm_context *ctx, tfm_tensor *out, tfm__residual *residual);

/* Runs a block on the residual, whose tensors are then in the current scope. Attention weights are returned unless
 * NULL. */
tfm_status tfm__block_run(tfm_context *ctx, tfm__residual *residual, tfm_tensor *self_weights,
                          tfm_tensor *cross_weights, tfm_block *block, const tfm_block_inputs *memory);

/* Only writes the block's keys and values of the residual into the KV cache: enough for the last block if a step's
 * output is not needed. The residual stays unchanged. */
tfm_status tfm__block_write_kv(tfm_context *ctx, const tfm__residual *s, tfm_block *block,
                               const tfm_block_inputs *memory);

/* y = out(attention(queries, memory)): multi-head attention after the query projection (layers.c). */
tfm_status tfm__multi_head_attend(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor queries,
                                  tfm_kv memory, const tfm_attention_options *options);
/* y = down(dropout(hidden)) (layers.c). */
tfm_status tfm__feed_forward_down(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor hidden);

#endif
