/* Layers of the Transformer ("Attention Is All You Need", section 3): structs of parameters, and a forward call for
 * each.
 *
 *     tfm_feed_forward layer = {.activation = TFM_RELU};
 *     tfm_tensor_new(ctx, &layer.up.weight.value, TFM_F32, 2, (int64_t[]){2048, 512});
 *     tfm_tensor_new(ctx, &layer.down.weight.value, TFM_F32, 2, (int64_t[]){512, 2048});
 *     tfm_feed_forward_forward(ctx, &y, &layer, x);
 *     tfm_feed_forward_free(ctx, &layer);
 *
 * The parameters of a layer are plain fields. Fill them with F32 tensors that tfm_tensor_new makes outside any scope,
 * and free them with the layer's _free call, which does nothing for NULL. Forward calls work in a scope of their own
 * and keep only their results. They follow the rules of ops.h: outputs come first and are made in the current scope if
 * they are empty, and the status is the context's. In the shapes below there are B sequences of T (target) or S
 * (source) positions of width E. One thread at a time may use a layer, its context and what is made on it. */
#ifndef TFM_NN_H
#define TFM_NN_H

#include "tensor.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where training applies dropout ("Attention Is All You Need", section 5.4). */
typedef enum tfm_dropout_site {
    TFM_DROPOUT_RESIDUAL,   /* On the result of each sub-layer, before it is added, and on the embeddings. */
    TFM_DROPOUT_ATTENTION,  /* On the weights of attention. */
    TFM_DROPOUT_ACTIVATION, /* On the inner activations of the feed-forward layers. */
    TFM_DROPOUT_SITES       /* The number of these places. */
} tfm_dropout_site;

/* What training drops. One struct serves all layers of a model, and each draw takes the next stream of random numbers.
 */
typedef struct tfm_dropout_state {
    float rates[TFM_DROPOUT_SITES]; /* The share of elements that become 0 at each place, from 0 to below 1. */
    uint64_t seed;                  /* Seeds all draws. */
    uint64_t stream; /* The stream of the next draw. Set it before each forward pass, so that no two share one. */
} tfm_dropout_state;

/* Fills *out with the next draw, for an op that takes one, and returns `out`. Returns NULL if `state` is NULL or if
 * the rate is 0: then nothing is dropped. */
TFM_API const tfm_dropout_options *tfm_dropout_next(tfm_dropout_state *state, tfm_dropout_options *out,
                                                    tfm_dropout_site site);

/* A linear layer: y = x weight^T + bias. */
typedef struct tfm_dense {
    tfm_param weight; /* (N, K). */
    tfm_param bias;   /* (N), or empty for none. */
} tfm_dense;

/* Which normalisation a layer does. */
typedef enum tfm_norm_kind {
    TFM_NORM_LAYER, /* Layer normalisation: tfm_layernorm. */
    TFM_NORM_RMS,   /* Root mean square normalisation: tfm_rmsnorm, which has no beta. */
    TFM_NORM_NONE,  /* None: y is x, with the residual added if there is one. */
} tfm_norm_kind;

/* Normalisation over the last dimension. */
typedef struct tfm_norm {
    tfm_param gamma;    /* (E): what the normalised values are multiplied by; empty stands for ones. */
    tfm_param beta;     /* (E): what is then added; empty stands for zeros. */
    float epsilon;      /* What is added to the variance or to the mean square. */
    tfm_norm_kind kind; /* Which normalisation it is. */
} tfm_norm;

/* Multi-head attention, section 3.2.2. D is the width of a head; in the paper D = E / H and Hk = H. */
typedef struct tfm_multi_head {
    tfm_dense query, key, value, out; /* The projections, with weights (H D, E), (Hk D, E), (Hk D, E) and (E, H D). */
    int heads;                        /* H, the number of heads. */
    int kv_heads;                     /* Hk, the heads of keys and values, a divisor of H; 0 means H. */
    /* Norms (D) of each head of the queries and of the keys, after the projection and before they turn ("Scaling Vision
     * Transformers to 22 Billion Parameters", Dehghani et al. 2023), or (H D) and (Hk D) of all heads together, or (H,
     * D) and (Hk, D) with a row for each head and without beta. None where gamma is empty. A block applies them in the
     * attention over its own input; cross-attention and the calls for this layer by itself leave them aside. */
    tfm_norm query_norm, key_norm;
    float scale;    /* What q k^T is multiplied by; 0 means 1/sqrt(D), or what the options of a call say. */
    float soft_cap; /* Scores s become soft_cap tanh(s / soft_cap); 0 leaves that to the options of a call, too. */
} tfm_multi_head;

/* An SSRU ("From Research to Production and Back: Ludicrously Fast Neural Machine Translation", Kim et al. 2019), which
 * stands in some decoders where others attend to what they have written: a cell for each column takes in a part of each
 * new input and forgets as much, and what is above 0 in it is the result. */
typedef struct tfm_ssru_cell {
    tfm_dense input, forget; /* Weights (E, E) each: what is new, and how much of the old stays. */
} tfm_ssru_cell;

/* The position-wise feed-forward layer, section 3.3. */
typedef struct tfm_feed_forward {
    tfm_dense up, down;         /* Weights (F, E) and (E, F), where F is the inner width. */
    tfm_activation activation;  /* What stands between the two. */
    tfm_dropout_state *dropout; /* What training drops; NULL drops nothing. The layer does not own it. */
    /* A weight (F, E), with which the inner activations are activation(gate(x)) up(x) ("GLU Variants Improve
     * Transformer", Shazeer 2020). Empty for none. */
    tfm_dense gate;
} tfm_feed_forward;

/* Where a block normalises. A cross-attention goes with the first two alone. */
typedef enum tfm_norm_placement {
    TFM_NORM_POST,          /* norm(x + f(x)): the paper's post-norm. */
    TFM_NORM_PRE,           /* x + f(norm(x)): pre-norm. */
    TFM_NORM_SANDWICH,      /* x + after(f(norm(x))): a norm before each sub-layer, and another on its result. */
    TFM_NORM_POST_SUBLAYER, /* x + norm(f(x)): a norm on the result of each sub-layer alone. */
} tfm_norm_placement;

/* One layer of an encoder or of a decoder: attention over its own input, cross-attention if there is any, and
 * feed-forward. Each of them has a norm, and a residual connection around it. */
typedef struct tfm_block {
    tfm_multi_head attention; /* The attention over the block's input. */
    tfm_ssru_cell ssru;       /* Stands in its place where its weights are not empty. */
    tfm_norm attention_norm;  /* Its norm. */
    tfm_multi_head
        cross_attention; /* The attention over an encoder's output; none if cross_attention.query.weight is empty. */
    tfm_norm cross_attention_norm; /* Its norm. */
    tfm_feed_forward feed_forward; /* The feed-forward layer. */
    tfm_norm feed_forward_norm;    /* Its norm. */
    /* With TFM_NORM_SANDWICH, the norms on the results of the attention over the input, and of the feed-forward layer.
     */
    tfm_norm attention_post_norm, feed_forward_post_norm;
    bool causal; /* No position sees later ones, as in a decoder. */
    bool window; /* A position of the input sees only this many before its own and after it; negative: all. */
    int64_t window_left, window_right;
    tfm_norm_placement norm_placement; /* Where all its norms stand. */
    /* The feed-forward layer g reads the same x as the attention f, each through its own norm, and x + f(norm(x)) +
     * g(norm(x)) is the result ("GPT-J-6B", Wang and Komatsuzaki 2021). For a pre-norm block without cross-attention.
     */
    bool parallel_residual;
    bool shared_norm;     /* With `parallel_residual`: both read x through attention_norm, and there is no
                             feed_forward_norm. */
    float residual_scale; /* What the results of sub-layers are multiplied by before they are added; 0 means 1, which it
                             must be where there is a cross-attention. */
    tfm_dropout_state *dropout; /* What training drops; NULL drops nothing. The block does not own it. */
} tfm_block;

/* The projected keys and values of one attention layer. */
typedef struct tfm_kv {
    tfm_tensor keys;   /* (..., Hk D). */
    tfm_tensor values; /* (..., Hk D). */
} tfm_kv;

/* The keys and values of all positions decoded so far, kept as a log: each step appends one row for each sequence that
 * is not over, and rows never move. A table of row numbers says which rows are the past of a sequence. So beams with a
 * common past share its rows, reordering beams reorders only the table, and a sequence may leave the batch at any step.
 */
typedef struct tfm_kv_cache {
    int layers;       /* The number of attention layers. */
    int64_t width;    /* Hk D, the width of a row of keys and of values. */
    int64_t slots;    /* How many rows are written. */
    int64_t capacity; /* How many rows there is memory for; it is at least doubled when more are needed. */
    tfm_kv *kv;       /* [layers]: the keys and values of each layer, (capacity, width). */
} tfm_kv_cache;

/* Makes an empty cache with room for `capacity` rows. It outlives the scope that it is made in. Free it with
 * tfm_kv_cache_free, also if this call fails. */
TFM_API tfm_status tfm_kv_cache_new(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width, int64_t capacity);
/* Does the same for keys and values that are kept as `dtype`: F32 as above, or F16 or BF16 in half the memory, to which
 * blocks round what they write, as tfm_multi_head_project does. The cells of an SSRU are F32. */
TFM_API tfm_status tfm_kv_cache_new_dtype(tfm_context *ctx, tfm_kv_cache *out, int layers, int64_t width,
                                          int64_t capacity, tfm_dtype dtype);
/* Forgets all rows and keeps the memory. */
TFM_API void tfm_kv_cache_clear(tfm_kv_cache *cache);
/* Makes room for `count` more rows. A larger log may replace the old one, and views of the old one are then refused by
 * ops. After a failure the cache is as it was. */
TFM_API tfm_status tfm_kv_cache_reserve(tfm_context *ctx, tfm_kv_cache *cache, int64_t count);
/* Frees the memory of the cache and fills the struct with zeros. Does nothing for NULL. Like every call here, those
 * that free count as a use of the context: one thread at a time. */
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

/* Projects `memory` (..., E) to keys and values (..., Hk D). A decoder needs this once for a source sentence and uses
 * the result in all its steps. Keys and values that are made beforehand as F16 or BF16 keep it so: rounded to the
 * nearest, and what F16 does not reach to the largest that it has; that has no backward pass. */
TFM_API tfm_status tfm_multi_head_project(tfm_context *ctx, tfm_kv *out, tfm_multi_head *layer, tfm_tensor memory);
/* y (B, T, E): projects queries from x (B, T, E), lets them attend over keys and values that tfm_multi_head_project
 * gave, and projects the result. `options` are those of tfm_attention and may be NULL; its numbers of heads are the
 * layer's. */
TFM_API tfm_status tfm_multi_head_forward(tfm_context *ctx, tfm_tensor *y, tfm_multi_head *layer, tfm_tensor x,
                                          tfm_kv memory, const tfm_attention_options *options);
/* Frees the layer's parameters. */
TFM_API void tfm_multi_head_free(tfm_context *ctx, tfm_multi_head *layer);

/* y (B, T, E) from x (B, T, E), and the cells after each step in *cells. `initial` and `kv_indices` are those of
 * tfm_ssru. */
TFM_API tfm_status tfm_ssru_cell_forward(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_ssru_cell *layer,
                                         tfm_tensor x, tfm_tensor initial, tfm_tensor kv_indices);
/* Frees the layer's parameters. */
TFM_API void tfm_ssru_cell_free(tfm_context *ctx, tfm_ssru_cell *layer);

/* y (..., E) = down(activation(up(x))), or down(activation(gate(x)) up(x)) if there is a gate. */
TFM_API tfm_status tfm_feed_forward_forward(tfm_context *ctx, tfm_tensor *y, tfm_feed_forward *layer, tfm_tensor x);
/* Frees the layer's parameters. */
TFM_API void tfm_feed_forward_free(tfm_context *ctx, tfm_feed_forward *layer);

/* What a block attends to. All of it may be empty, except for `cross_kv` in a block with cross-attention. */
typedef struct tfm_block_inputs {
    tfm_tensor lengths;        /* (B) I32: the length of each sequence of x, the rest is padding; empty for all T. With
                                  `kv_indices`: how many rows each sequence has; empty for all. */
    tfm_kv cross_kv;           /* (N, S, Hk D) each: what tfm_multi_head_project gives of the encoder's output. */
    tfm_tensor cross_lengths;  /* (N) I32: the length of each sequence of that; empty for all S. */
    tfm_tensor cross_kv_batch; /* (B) I32: which of the N each sequence attends to; empty for its own, and N is B. */
    /* Added to the scores of the attention over x: tfm_attention_options.mask. Empty adds nothing. */
    tfm_tensor attention_bias;
    /* (P, R/2) each: the rotary embedding of queries and keys of the attention over x (tfm_rotary), their first
     * position being `position`. Empty: there is none. */
    tfm_tensor cosines, sines;
    bool interleaved; /* As in tfm_rotary_options. */
    int64_t position;
    tfm_tensor positions; /* (B, T) I32: the position of each token, in place of those from `position` on; or empty. */

    /* The next three are for steps with a cache, where x (B, T, E) goes on with what came before: mostly T is 1. All
     * are empty if x has whole sequences. */

    tfm_kv new_kv;         /* (B T, Hk D) each: where the block's new keys and values are written, in the log. */
    tfm_kv cache_kv;       /* (rows, Hk D) each: the whole log of this layer. With an SSRU, T is 1, and its cells,
                                  (rows, E), are in the place of keys. */
    tfm_tensor kv_indices; /* (B, past + T) I32: the rows of each sequence's past in the log, the new rows last. Where T
                        is 1 it may have room for more, and then `lengths` says how many of a line count. */
} tfm_block_inputs;

/* Computes y (B, T, E) from x (B, T, E). `inputs` may be NULL for a block without cross-attention. */
TFM_API tfm_status tfm_block_forward(tfm_context *ctx, tfm_tensor *y, tfm_block *block, tfm_tensor x,
                                     const tfm_block_inputs *inputs);
/* Does the same, and gives the weights of its two attentions: a row for each position that looks, a column for each
 * that is looked at. self_weights (B, H, T, T) is over x itself, zero above the diagonal if the block is causal;
 * cross_weights (B, H, T, S) is over the encoder's output. Either may be NULL; cross_weights must be if there is no
 * cross-attention, and self_weights if an SSRU stands in the place of the attention over x. */
TFM_API tfm_status tfm_block_forward_with_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor *self_weights,
                                                    tfm_tensor *cross_weights, tfm_block *block, tfm_tensor x,
                                                    const tfm_block_inputs *inputs);
/* Frees the block's parameters. */
TFM_API void tfm_block_free(tfm_context *ctx, tfm_block *block);

#ifdef __cplusplus
}
#endif
#endif
