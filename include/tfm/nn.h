/* Layers of the Transformer ("Attention Is All You Need", section 3): structs of parameters, and a forward for each.
 *
 * A layer's parameters are plain fields: fill them with tensors from tfm_tensor_new (outside any scope), free them with
 * the layer's _free. Forwards work in a scope of their own, keep only their result, and follow the rules of ops.h:
 * outputs first, made in the current scope if empty; sticky status. Shapes: B sequences of T (target) or S (source)
 * positions, width E. */
#ifndef TFM_NN_H
#define TFM_NN_H

#include "ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where training drops something ("Attention Is All You Need", section 5.4). */
typedef enum tfm_drop {
    TFM_DROP_RESIDUAL,   /* each sub-layer's result, before it is added, and the embeddings */
    TFM_DROP_ATTENTION,  /* attention's weights */
    TFM_DROP_ACTIVATION, /* the feed-forward's inner activations */
    TFM_DROPS
} tfm_drop;

/* One struct serves all layers of a model; each draw takes the next stream. */
typedef struct tfm_training {
    float rates[TFM_DROPS];
    uint64_t seed;
    uint64_t stream; /* of the next draw: set it before a forward pass, from the number of the update */
} tfm_training;

/* The next draw, for an op that takes it: `out`, filled. NULL where `training` is NULL or the rate 0. */
TFM_API const tfm_dropout_options *tfm_training_draw(tfm_training *training, tfm_drop where, tfm_dropout_options *out);

/* y = x weight^T + bias: weight (N, K), bias (N) or empty. */
typedef struct tfm_dense {
    tfm_param weight;
    tfm_param bias;
} tfm_dense;

/* Layer normalisation over E: gamma, beta (E); empty ones are 1 and 0. */
typedef struct tfm_norm {
    tfm_param gamma;
    tfm_param beta;
    float epsilon;
} tfm_norm;

/* Multi-head attention, section 3.2.2: four projections (E, E). */
typedef struct tfm_multi_head {
    tfm_dense query, key, value, out;
    int heads;
} tfm_multi_head;

/* Position-wise feed-forward, section 3.3: up (F, E), down (E, F). */
typedef struct tfm_feed_forward {
    tfm_dense up, down;
    tfm_activation activation;
    tfm_training *training; /* borrowed, as in the blocks below */
} tfm_feed_forward;

typedef struct tfm_encoder_block {
    tfm_multi_head attention;
    tfm_norm attention_norm;
    tfm_feed_forward feed_forward;
    tfm_norm feed_forward_norm;
    bool pre_norm;          /* x + f(norm(x)) instead of the paper's norm(x + f(x)) */
    tfm_training *training; /* borrowed; NULL: nothing is dropped */
} tfm_encoder_block;

typedef struct tfm_decoder_block {
    tfm_multi_head attention; /* over the target, causal */
    tfm_norm attention_norm;
    tfm_multi_head cross; /* over the encoder's output */
    tfm_norm cross_norm;
    tfm_feed_forward feed_forward;
    tfm_norm feed_forward_norm;
    bool pre_norm;
    tfm_training *training;
} tfm_decoder_block;

/* Projected keys and values of one attention layer. */
typedef struct tfm_keys_values {
    tfm_tensor keys;
    tfm_tensor values;
} tfm_keys_values;

/* Keys and values of the positions decoded so far, as a log: a step appends one row per live sequence, and nothing that
 * was written ever moves. A sequence knows its past by a table of row numbers, so beams that share a past share its
 * rows, reordering beams reorders only the table, and sequences may leave the batch at any step. */
typedef struct tfm_kv_cache {
    int layers;
    int64_t width;         /* E */
    int64_t rows;          /* rows written */
    int64_t capacity;      /* rows that there is memory for; doubled when needed */
    tfm_keys_values *logs; /* [layers], each (capacity, E) */
} tfm_kv_cache;

/* An empty cache with room for `capacity` rows. It outlives the scope that it is made in: free it, after a failure too. */
TFM_API tfm_status tfm_kv_cache_new(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity);
/* Forgets all rows and keeps the memory. */
TFM_API void tfm_kv_cache_clear(tfm_kv_cache *cache);
/* Makes room for `count` more rows. A larger log replaces the old one: views of that are stale. After a failure the
 * cache is as it was. */
TFM_API tfm_status tfm_kv_cache_reserve(tfm_context *ctx, tfm_kv_cache *cache, int64_t count);
TFM_API void tfm_kv_cache_free(tfm_context *ctx, tfm_kv_cache *cache);

/* y (..., N) = activation(x weight^T + bias), x (..., K). */
TFM_API tfm_status tfm_dense_forward(tfm_context *ctx, tfm_tensor *y, tfm_dense *layer, tfm_tensor x,
                                     tfm_activation activation);
TFM_API void tfm_dense_free(tfm_context *ctx, tfm_dense *layer);

/* y = norm(x + residual), and *sum = x + residual if sum is not NULL; residual may be empty. */
TFM_API tfm_status tfm_norm_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, const tfm_norm *layer, tfm_tensor x,
                                    tfm_tensor residual);
TFM_API void tfm_norm_free(tfm_context *ctx, tfm_norm *layer);

/* keys and values (..., E) of `memory` (..., E): once per source sentence, for all steps of its decoding. */
TFM_API tfm_status tfm_multi_head_project(tfm_context *ctx, tfm_keys_values *out, tfm_multi_head *layer,
                                          tfm_tensor memory);
/* y (B, T, E): queries from x (B, T, E) over keys and values that are there already. `options` as for tfm_attention;
 * its heads are the layer's. */
TFM_API tfm_status tfm_multi_head_forward(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor x,
                                          tfm_keys_values memory, const tfm_attention_options *options);
TFM_API void tfm_multi_head_free(tfm_context *ctx, tfm_multi_head *layer);

/* y (..., E) = down(activation(up(x))). */
TFM_API tfm_status tfm_feed_forward_forward(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor x);
TFM_API void tfm_feed_forward_free(tfm_context *ctx, tfm_feed_forward *layer);

/* y (B, S, E) from x (B, S, E); lengths (B) I32 or empty. */
TFM_API tfm_status tfm_encoder_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_encoder_block *block, tfm_tensor x,
                                             tfm_tensor lengths);
/* The same, and weights (B, H, S, S): what its attention gives each position, a row for each that looks. */
TFM_API tfm_status tfm_encoder_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *weights,
                                            tfm_encoder_block *block, tfm_tensor x, tfm_tensor lengths);
TFM_API void tfm_encoder_block_free(tfm_context *ctx, tfm_encoder_block *block);

/* What a decoder block attends to besides its input. */
typedef struct tfm_decoder_memory {
    tfm_keys_values cross; /* (N, S, E) each, from tfm_multi_head_project on the encoder's output */
    tfm_tensor lengths;    /* (N) I32 or empty */
    tfm_tensor sources;    /* (B) I32: which of the N target sequence b translates; empty: b itself, N = B */
    /* For one step with a cache, x (B, 1, E): where this block's new keys and values go, (B, E) each; the whole log, and
     * the rows of each sequence's past in it, (B, past + 1) I32, the new row last. All empty: x is a whole target. */
    tfm_keys_values fresh;
    tfm_keys_values log;
    tfm_tensor rows;
} tfm_decoder_memory;

/* y (B, T, E) from x (B, T, E), causal. */
TFM_API tfm_status tfm_decoder_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_decoder_block *block, tfm_tensor x,
                                             const tfm_decoder_memory *memory);
/* The same, and the weights of its two attentions: over the target, self_weights (B, H, T, T), zero above the diagonal,
 * and over the source, cross_weights (B, H, T, S). Either may be NULL. */
TFM_API tfm_status tfm_decoder_block_attend(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights,
                                            tfm_tensor *cross_weights, tfm_decoder_block *block, tfm_tensor x,
                                            const tfm_decoder_memory *memory);
TFM_API void tfm_decoder_block_free(tfm_context *ctx, tfm_decoder_block *block);

#ifdef __cplusplus
}
#endif
#endif
