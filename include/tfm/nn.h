/* Transformer layers ("Attention Is All You Need", section 3): structs of parameters, and a forward call for each.
 *
 *     tfm_feed_forward layer = {.activation = TFM_RELU};
 *     tfm_tensor_new(ctx, &layer.up.weight.value, TFM_F32, 2, (int64_t[]){2048, 512});
 *     tfm_tensor_new(ctx, &layer.down.weight.value, TFM_F32, 2, (int64_t[]){512, 2048});
 *     tfm_feed_forward_forward(ctx, &y, &layer, x);
 *     tfm_feed_forward_free(ctx, &layer);
 *
 * Parameters are plain fields: F32 tensors made by tfm_tensor_new outside any scope, freed with the layer's _free call,
 * which does nothing for NULL. Forward calls run in an internal scope and keep only their results. They follow the
 * rules of ops.h: outputs come first and are allocated in the current scope if empty, and the status is the context's.
 * Shapes: B sequences of T (target) or S (source) positions of width E. One thread at a time may use a layer, its
 * context and the objects on it. */
#ifndef TFM_NN_H
#define TFM_NN_H

#include "tensor.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The dropout sites of training ("Attention Is All You Need", section 5.4). */
typedef enum tfm_dropout_site {
    TFM_DROPOUT_RESIDUAL,   /* On the result of each sub-layer, before it is added, and on the embeddings. */
    TFM_DROPOUT_ATTENTION,  /* On the weights of attention. */
    TFM_DROPOUT_ACTIVATION, /* On the inner activations of the feed-forward layers. */
    TFM_DROPOUT_SITES       /* The number of sites. */
} tfm_dropout_site;

/* The dropout state of a model, shared by its layers. Each use takes the next random stream. */
typedef struct tfm_dropout_state {
    float rates[TFM_DROPOUT_SITES]; /* Dropout probability of each site, from 0 to below 1. */
    uint64_t seed;                  /* Seeds all dropout masks. */
    uint64_t stream;                /* The next stream. Set it before each forward pass, so that no two share one. */
} tfm_dropout_state;

/* Fills *out with the next stream, for an op with dropout, and returns `out`. Returns NULL (no dropout) if `state` is
 * NULL or the rate is 0. */
TFM_API const tfm_dropout_options *tfm_dropout_next(tfm_dropout_state *state, tfm_dropout_options *out,
                                                    tfm_dropout_site site);

/* A linear layer: y = x weight^T + bias. */
typedef struct tfm_dense {
    tfm_param weight; /* (N, K). */
    tfm_param bias;   /* (N), or empty for none. */
} tfm_dense;

/* The kind of normalization. */
typedef enum tfm_norm_kind {
    TFM_NORM_LAYER, /* LayerNorm: tfm_layernorm. */
    TFM_NORM_RMS,   /* RMSNorm: tfm_rmsnorm, without beta. */
    TFM_NORM_NONE,  /* None: y = x, plus the residual if there is one. */
} tfm_norm_kind;

/* Normalization over the last dimension. */
typedef struct tfm_norm {
    tfm_param gamma; /* (E): the scale; empty stands for ones. */
    tfm_param beta;  /* (E): the offset; empty stands for zeros. */
    float epsilon;   /* Added to the variance or the mean square. */
    tfm_norm_kind kind;
} tfm_norm;

/* Multi-head attention, section 3.2.2, with H query heads and Hk KV heads (grouped-query attention if Hk < H). D is the
 * head width; in the paper D = E / H and Hk = H. */
typedef struct tfm_multi_head {
    tfm_dense query, key, value, out; /* The projections, with weights (H D, E), (Hk D, E), (Hk D, E) and (E, H D). */
    int heads;                        /* H, the number of heads. */
    int kv_heads;                     /* Hk, the number of KV heads, a divisor of H; 0 means H. */
    /* QK norms, applied after the projection and before RoPE ("Scaling Vision Transformers to 22 Billion Parameters",
     * Dehghani et al. 2023): (D) for each head; or (H D) and (Hk D) over all heads together; or (H, D) and (Hk, D) with
     * a row for each head and without beta. None if gamma is empty. A block applies them in self-attention only;
     * cross-attention and the tfm_multi_head calls ignore them. */
    tfm_norm query_norm, key_norm;
    float scale;    /* The scale of q k^T; 0 means 1/sqrt(D), or the scale in the options of a call. */
    float soft_cap; /* Soft capping: soft_cap tanh(score / soft_cap); 0 leaves it to the options of a call. */
} tfm_multi_head;

/* An SSRU, the recurrent layer in place of self-attention in some decoders ("From Research to Production and Back:
 * Ludicrously Fast Neural Machine Translation", Kim et al. 2019). See tfm_ssru. */
typedef struct tfm_ssru_cell {
    tfm_dense input, forget; /* Weights (E, E) of the input projection and the forget gate. */
} tfm_ssru_cell;

/* The position-wise feed-forward layer, section 3.3. */
typedef struct tfm_feed_forward {
    tfm_dense up, down;         /* Weights (F, E) and (E, F), where F is the inner width. */
    tfm_activation activation;  /* The activation between them. */
    tfm_dropout_state *dropout; /* Dropout in training; NULL for none. Not owned by the layer. */
    /* The gate, with a weight (F, E): the inner activations are then activation(gate(x)) up(x) ("GLU Variants Improve
     * Transformer", Shazeer 2020). Empty for none. */
    tfm_dense gate;
} tfm_feed_forward;

/* The placement of norms in a block. Blocks with cross-attention support the first two only. */
typedef enum tfm_norm_placement {
    TFM_NORM_POST,          /* norm(x + f(x)): the paper's post-norm. */
    TFM_NORM_PRE,           /* x + f(norm(x)): pre-norm. */
    TFM_NORM_SANDWICH,      /* x + post(f(norm(x))): norms before and after each sub-layer. */
    TFM_NORM_POST_SUBLAYER, /* x + norm(f(x)): a norm after each sub-layer only. */
} tfm_norm_placement;

/* One layer of an encoder or decoder: self-attention, optional cross-attention, and feed-forward, each with a norm and
 * a residual connection. */
typedef struct tfm_block {
    tfm_multi_head attention;
    tfm_ssru_cell ssru; /* Replaces self-attention if its weights are not empty. */
    tfm_norm attention_norm;
    tfm_multi_head
        cross_attention; /* Cross-attention over an encoder's output; none if cross_attention.query.weight is empty. */
    tfm_norm cross_attention_norm;
    tfm_feed_forward feed_forward;
    tfm_norm feed_forward_norm;
    /* With TFM_NORM_SANDWICH, the norms after self-attention and after the feed-forward layer. */
    tfm_norm attention_post_norm, feed_forward_post_norm;
    bool causal; /* Causal self-attention, as in a decoder. */
    bool window; /* Sliding-window self-attention: this many positions before and after; negative: no limit. */
    int64_t window_left, window_right;
    tfm_norm_placement norm_placement;
    /* Parallel attention f and feed-forward g, each with its own norm: x + f(norm(x)) + g(norm(x)) ("GPT-J-6B", Wang
     * and Komatsuzaki 2021). For pre-norm blocks without cross-attention. */
    bool parallel_residual;
    bool shared_norm;     /* With `parallel_residual`: both use attention_norm, and there is no feed_forward_norm. */
    float residual_scale; /* Multiplies the results of sub-layers before the residual addition; 0 means 1. Must be 1
                             with cross-attention. */
    tfm_dropout_state *dropout; /* Dropout in training; NULL for none. Not owned by the block. */
} tfm_block;

/* The projected keys and values of one attention layer; in a KV cache also I8, (..., Hk TFM_KV_INT8_SPAN(D)). */
typedef struct tfm_kv {
    tfm_tensor keys;   /* (..., Hk D). */
    tfm_tensor values; /* (..., Hk D). */
} tfm_kv;

/* A KV cache for incremental decoding. Each step appends one slot for each active sequence, and slots never move. A
 * table of slot indices (tfm_block_inputs.kv_indices) lists the slots of each sequence. Beams with a common prefix
 * share its slots, reordering beams only reorders the table, and a sequence may leave the batch at any step. */
typedef struct tfm_kv_cache {
    int layers;
    int64_t width;    /* Hk D, or for I8 Hk TFM_KV_INT8_SPAN(D): the width of a slot. */
    int64_t slots;    /* Slots in use. */
    int64_t capacity; /* Allocated slots; at least doubled when it grows, */
    int64_t limit;    /* except that doubling stops at this capacity; 0: no limit. */
    tfm_kv *kv;       /* [layers]: the cache of each layer, (capacity, width). */
} tfm_kv_cache;

/* Makes an empty cache with `capacity` slots. It outlives the current scope. Free it with tfm_kv_cache_free, also if
 * this call fails. */
TFM_API tfm_status tfm_kv_cache_new(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity);
/* The same with a dtype: F32 as above, or F16 or BF16 in half the memory, to which blocks round the keys and values
 * they write, as tfm_multi_head_project does. Or I8 in about a quarter, with a `width` of Hk TFM_KV_INT8_SPAN(D):
 * blocks quantize each 32 columns of a head with a scale. SSRU cells are F32. */
TFM_API tfm_status tfm_kv_cache_new_dtype(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width,
                                          int64_t capacity, tfm_dtype dtype);
/* Frees all slots and keeps the memory. */
TFM_API void tfm_kv_cache_clear(tfm_kv_cache *cache);
/* Reserves `count` more slots. This may reallocate the cache; ops then refuse views of the old memory. After a failure
 * the cache is unchanged. */
TFM_API tfm_status tfm_kv_cache_reserve(tfm_context *ctx, tfm_kv_cache *cache, int64_t count);
/* Frees the cache and zeroes the struct. Does nothing for NULL. Like all calls here, _free calls count as a use of the
 * context: one thread at a time. */
TFM_API void tfm_kv_cache_free(tfm_context *ctx, tfm_kv_cache *cache);

/* y (..., N) = activation(x weight^T + bias), x (..., K). */
TFM_API tfm_status tfm_dense_forward(tfm_context *ctx, tfm_tensor *y, tfm_dense *layer, tfm_tensor x,
                                     tfm_activation activation);
/* Frees the layer's parameters. */
TFM_API void tfm_dense_free(tfm_context *ctx, tfm_dense *layer);

/* y = norm(x + residual), and *sum = x + residual if `sum` is not NULL. `residual` may be empty. */
TFM_API tfm_status tfm_norm_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, const tfm_norm *layer,
                                    tfm_tensor x, tfm_tensor residual);
/* Frees the layer's parameters. */
TFM_API void tfm_norm_free(tfm_context *ctx, tfm_norm *layer);

/* Projects `memory` (..., E) to keys and values (..., Hk D), once for a source sentence; all decoding steps use the
 * result. Keys and values allocated beforehand as F16 or BF16 keep that dtype: rounded to nearest, with F16 saturating
 * at its largest number; without a backward pass. */
TFM_API tfm_status tfm_multi_head_project(tfm_context *ctx, tfm_kv *out, tfm_multi_head *layer, tfm_tensor memory);
/* y (B, T, E): projects x (B, T, E) to queries, attends over keys and values of tfm_multi_head_project, and projects
 * the result. `options` are those of tfm_attention and may be NULL; the numbers of heads are the layer's. */
TFM_API tfm_status tfm_multi_head_forward(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor x,
                                          tfm_kv memory, const tfm_attention_options *options);
/* Frees the layer's parameters. */
TFM_API void tfm_multi_head_free(tfm_context *ctx, tfm_multi_head *layer);

/* y (B, T, E) from x (B, T, E), and the cell states after each step in *cells. `initial` and `kv_indices` are those of
 * tfm_ssru. */
TFM_API tfm_status tfm_ssru_cell_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_ssru_cell *layer,
                                         tfm_tensor x, tfm_tensor initial, tfm_tensor kv_indices);
/* Frees the layer's parameters. */
TFM_API void tfm_ssru_cell_free(tfm_context *ctx, tfm_ssru_cell *layer);

/* y (..., E) = down(activation(up(x))), or down(activation(gate(x)) up(x)) if there is a gate. */
TFM_API tfm_status tfm_feed_forward_forward(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor x);
/* Frees the layer's parameters. */
TFM_API void tfm_feed_forward_free(tfm_context *ctx, tfm_feed_forward *layer);

/* Inputs of a block other than x. All may be empty, except `cross_kv` in a block with cross-attention. */
typedef struct tfm_block_inputs {
    tfm_tensor lengths;        /* (B) I32: the length of each sequence of x, the rest is padding; empty for all T. With
                                  `kv_indices`: the number of slots of each sequence; empty for all. */
    tfm_kv cross_kv;           /* (N, S, Hk D) each: tfm_multi_head_project of the encoder's output. */
    tfm_tensor cross_lengths;  /* (N) I32: the source length of each; empty for all S. */
    tfm_tensor cross_kv_batch; /* (B) I32: the source of each sequence among the N; empty means its own, and N is B. */
    /* Added to the scores of self-attention: tfm_attention_options.mask. Empty for none. */
    tfm_tensor attention_bias;
    /* (P, R/2) each: the RoPE tables of self-attention (tfm_rotary), from `position` on. Empty for no RoPE. */
    tfm_tensor cosines, sines;
    bool interleaved; /* As in tfm_rotary_options. */
    int64_t position;
    tfm_tensor positions; /* (B, T) I32: the position of each token instead of those from `position` on; or empty. */

    /* The next three are for incremental decoding, where x (B, T, E) continues a sequence; usually T is 1. All are
     * empty if x has whole sequences. */

    tfm_kv new_kv;   /* (B T, Hk D) each: the cache slots for the block's new keys and values. */
    tfm_kv cache_kv; /* (slots, Hk D) each: the whole cache of this layer. With an SSRU, T is 1, and `keys` are its cell
                        states, (slots, E). */
    tfm_tensor kv_indices; /* (B, past + T) I32: the cache slots of each sequence, the new ones last. If T is 1 it may
                              be wider; `lengths` then has the number of valid entries of each row. */
} tfm_block_inputs;

/* Computes y (B, T, E) from x (B, T, E). `inputs` may be NULL for a block without cross-attention. */
TFM_API tfm_status tfm_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_block *block, tfm_tensor x,
                                     const tfm_block_inputs *inputs);
/* The same with the attention weights: rows are queries, columns are keys. self_weights (B, H, T, T) is zero above the
 * diagonal if the block is causal; cross_weights (B, H, T, S) is over the encoder's output. Either may be NULL;
 * cross_weights must be NULL without cross-attention, and self_weights with an SSRU. */
TFM_API tfm_status tfm_block_forward_with_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights,
                                                    tfm_tensor *cross_weights, tfm_block *block, tfm_tensor x,
                                                    const tfm_block_inputs *inputs);
/* Frees the block's parameters. */
TFM_API void tfm_block_free(tfm_context *ctx, tfm_block *block);

#ifdef __cplusplus
}
#endif
#endif
