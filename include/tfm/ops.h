/* Tensor ops. Each call checks its arguments, enqueues work on the device and returns without waiting. Only these calls
 * wait: tfm_tensor_read and tfm_tensor_write; tfm_sinusoid, tfm_rotary_tables and tfm_param_quantize, which compute on
 * the host; and the first call of a kernel, which builds and may validate it.
 *
 * Outputs come first. An empty output (buffer NULL) is allocated in the current scope; any other must have the right
 * dtype and dims, and is written in place. The caller keeps ownership of the inputs. All ops take F32 unless documented
 * otherwise. One thread at a time may use a context and its tensors. An op returns the context's status, which keeps
 * the first failure, so a chain of calls needs only one check at its end:
 *
 *     tfm_tensor hidden = {0}, y = {0};
 *     tfm_linear(ctx, &hidden, x, &fc1, fc1_bias, TFM_RELU);
 *     tfm_linear(ctx, &y, hidden, &fc2, fc2_bias, TFM_NO_ACTIVATION);
 *     if (tfm_context_status(ctx) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_context_error(ctx));
 *
 * Tensors without elements (a dim is 0) are accepted by the pointwise ops (tfm_activate, tfm_prelu, tfm_glu, tfm_add,
 * tfm_where and the functions of one and of two numbers), by reductions, tfm_cumsum, tfm_onehot, tfm_cast, tfm_dropout,
 * the softmaxes, and by ops that only move elements (tfm_permute, tfm_concat, tfm_slice, the gathers,
 * tfm_tensor_reshape). All other ops refuse them.
 *
 * A shape mismatch is TFM_ERROR_ARGUMENT, with the op and the shapes in the message. Letters: B batch, T target, S
 * source, H heads, D head width, E model width, V vocabulary. */
#ifndef TFM_OPS_H
#define TFM_OPS_H

#include "tensor.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfm_gemm_options {
    bool transpose_a;          /* a is (..., K, M). */
    bool transpose_b;          /* b is (..., N, K). */
    float alpha;               /* The scale of a b. 0 means 1. */
    bool accumulate;           /* Adds to c, which must be given; not together with bias or activation. */
    tfm_tensor bias;           /* (N), added to every row; may contain -inf. Empty for none. */
    tfm_activation activation; /* Applied last. */
    uint64_t reserved[8];      /* Must be 0. */
} tfm_gemm_options;

/* GEMM: c (..., M, N) = activation(alpha a b + bias), where a is (..., M, K) and b is (..., K, N). The leading
 * dimensions are a batch and must be equal; a `b` of rank 2 is shared by the batch. `options` may be NULL. */
TFM_API tfm_status tfm_gemm(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_tensor b,
                            const tfm_gemm_options *options);

/* A linear layer: y (..., N) = activation(x weight^T + bias), where x is (..., K), weight is (N, K), and bias is (N) or
 * empty. The call caches the packed weight in `weight`. The weight may be F16 or BF16 (tfm_cast), or int8 with scales
 * (tfm_param_quantize), without a backward pass. */
TFM_API tfm_status tfm_linear(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_param *weight, tfm_tensor bias,
                              tfm_activation activation);

/* Quantizes an F32 weight (N, K) to int8 in place: each row becomes a scale and integers from -127 to 127, in a quarter
 * of the memory. tfm_linear then quantizes each row of x likewise and multiplies integers. Such a layer has no backward
 * pass. K is at most 131072. A number that is not finite is TFM_ERROR_ARGUMENT. Waits for the device. */
TFM_API tfm_status tfm_param_quantize(tfm_context *ctx, tfm_param *param);

/* ---- GEMM providers ----
 *
 * tfm_gemm and tfm_linear select the provider by device and shape. To compare providers, or to force one:
 *
 *     const char *why;
 *     for (size_t i = 0; tfm_gemm_provider(i); i++)
 *         if (tfm_gemm_with(ctx, tfm_gemm_provider(i), &why, &c, a, b, NULL) == TFM_OK && why)
 *             printf("%s declined: %s\n", tfm_gemm_provider(i), why); */

/* The name of a provider, counted from 0: "cpu-skinny", "cpu-bf16", "cpu-bf16x3", "cpu-packed", "gpu-skinny",
 * "gpu-tiled", "reference", "gpu-mma", "clblast" or "int8". The order does not imply speed. NULL after the last. The
 * strings are static. */
TFM_API const char *tfm_gemm_provider(size_t index);

/* The name of the provider that tfm_gemm selects on this device for (m, k) by (k, n), without a batch and transposes.
 * m, n and k are at least 1. The string is static. NULL after a failure. */
TFM_API const char *tfm_gemm_select(tfm_context *ctx, int64_t m, int64_t n, int64_t k);

/* tfm_gemm and tfm_linear with the named provider; NULL selects it automatically. *declined is NULL if the provider
 * ran. Otherwise it is a static string with the reason; then nothing was computed, though an empty output was
 * allocated, and the context's status does not change. TFM_ERROR_ARGUMENT for an unknown name, and for an int8 weight,
 * which only tfm_linear takes. */
TFM_API tfm_status tfm_gemm_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *c,
                                 tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);
TFM_API tfm_status tfm_linear_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *y,
                                   tfm_tensor x, tfm_param *weight, tfm_tensor bias, tfm_activation activation);

/* y (..., N) is the softmax of x over the last dimension. A row of only -inf gives zeros. y may be x. */
TFM_API tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* y (..., N) = x - log sum exp x over the last dimension. A row of only -inf gives -inf. y may be x. */
TFM_API tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* The same over dimension `axis` of x. A negative axis counts from the end: -1 is the last dimension. */
TFM_API tfm_status tfm_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);
TFM_API tfm_status tfm_log_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);

/* Dropout. The same options give the same mask on the same device, so a backward pass can repeat the forward pass. */
typedef struct tfm_dropout_options {
    float rate;      /* The probability of each element to become 0, below 1. The others are divided by 1 - rate. */
    uint64_t seed;   /* Seeds the random numbers. */
    uint64_t stream; /* The stream of the seed. Use a different one for each call. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_dropout_options;

/* y is x with randomly chosen elements set to 0 and the others scaled up ("Dropout: A Simple Way to Prevent Neural
 * Networks from Overfitting", Srivastava et al. 2014). The mask is sampled by Philox4x32-10 from seed, stream, row and
 * column. x may have any dims, and y may be x. `dropout` may be NULL for none. */
TFM_API tfm_status tfm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_dropout_options *dropout);
/* The same, with the mask if `mask` is not NULL: U8 with x's dims, 1 for kept elements, else 0. The mask carries no
 * gradient. */
TFM_API tfm_status tfm_dropout_masked(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mask, tfm_tensor x,
                                      const tfm_dropout_options *dropout);

/* y (..., E) = (s - mean s) / sqrt(var s + epsilon) * gamma + beta over the last dimension, where s = x + residual
 * ("Layer Normalization", Ba et al. 2016). The variance is biased. residual has the dims of x or is empty. gamma and
 * beta are (E); empty, they stand for 1 and 0. If `sum` is not NULL, it receives s, the next residual of a pre-norm
 * block. y and sum may be x or residual. */
TFM_API tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                                 tfm_tensor gamma, tfm_tensor beta, float epsilon);
/* The same with s = x + dropout(branch), for training ("Attention Is All You Need", section 5.4). branch has the dims
 * of x. `dropout` may be NULL for none. */
TFM_API tfm_status tfm_layernorm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x,
                                         tfm_tensor branch, tfm_tensor gamma, tfm_tensor beta, float epsilon,
                                         const tfm_dropout_options *dropout);
/* The same without a residual, over the trailing dimensions of x from `axis` on together. A negative axis counts from
 * the end. gamma and beta have those trailing dims of x or are empty. `mean` and `inv_std` may each be NULL; otherwise
 * they receive the mean and 1 / sqrt(var + epsilon), with the dims of x, except 1 from `axis` on. y may be x. */
TFM_API tfm_status tfm_layernorm_axes(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mean, tfm_tensor *inv_std,
                                      tfm_tensor x, tfm_tensor gamma, tfm_tensor beta, int axis, float epsilon);

/* y = s / sqrt(mean s^2 + epsilon) * gamma over the trailing dimensions from `axis` on, where s = x + residual ("Root
 * Mean Square Layer Normalization", Zhang and Sennrich 2019). A negative axis counts from the end. residual has the
 * dims of x or is empty. gamma has those trailing dims of x; empty, it stands for 1. If `sum` is not NULL, it receives
 * s. y and sum may be x or residual. */
TFM_API tfm_status tfm_rmsnorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                               tfm_tensor gamma, int axis, float epsilon);

/* y = activation(x), element by element. x may have any dims, and y may be x. */
TFM_API tfm_status tfm_activate(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_activation activation);

/* y (..., N) = x where x > 0, else slope * x ("Delving Deep into Rectifiers", He et al. 2015).
 * slope is (N). y may be x. */
TFM_API tfm_status tfm_prelu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor slope);

/* ---- Unary functions ----
 *
 * Each computes y = f(x), element by element. x may have any dims, also without elements, and y may be x. NaN, and
 * arguments outside the domain such as the root of -1, give NaN. Infinities and zeros follow IEEE 754 and ONNX. The
 * derivative at a kink is that of one of the two sides, except for tfm_abs. All have a backward pass. */
TFM_API tfm_status tfm_neg(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);        /* -x */
TFM_API tfm_status tfm_abs(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);        /* |x|, with the slope 0 at 0 */
TFM_API tfm_status tfm_sqrt(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);       /* the square root */
TFM_API tfm_status tfm_reciprocal(tfm_context *ctx, tfm_tensor *y, tfm_tensor x); /* 1 / x */
TFM_API tfm_status tfm_exp(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);        /* e^x */
TFM_API tfm_status tfm_log(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);        /* the natural logarithm */
TFM_API tfm_status tfm_erf(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);        /* the error function */
TFM_API tfm_status tfm_sigmoid(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);    /* 1 / (1 + e^-x) */
TFM_API tfm_status tfm_tanh(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);       /* the hyperbolic tangent */

/* y = x min(max(x / 6 + 1/2, 0), 1) ("Searching for MobileNetV3", Howard et al. 2019). It is 0 at minus infinity. */
TFM_API tfm_status tfm_hardswish(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* y = min(max(alpha x + beta, 0), 1). */
TFM_API tfm_status tfm_hard_sigmoid(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, float alpha, float beta);
/* y = min(max(x, low), high). If low > high, y is high everywhere. Infinite bounds are allowed. The derivative is 1
 * within the bounds and on them. A NaN bound is refused. */
TFM_API tfm_status tfm_clip(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, float low, float high);

typedef enum tfm_glu_layout {
    TFM_GLU_GATE_FIRST, /* The gate is the first half of each row, as in the paper. */
    TFM_GLU_GATE_LAST,  /* The gate is the second half. */
} tfm_glu_layout;

/* y = activation(gate) * x: GEGLU with TFM_GELU, SwiGLU with TFM_SILU, ReGLU with TFM_RELU, and bilinear with
 * TFM_NO_ACTIVATION ("GLU Variants Improve Transformer", Shazeer 2020). A gate has the dims of x; y then has them too
 * and may be x or gate, and `layout` is ignored. With an empty gate, x is (..., 2E), the result of one GEMM with both
 * matrices concatenated, and y is (..., E). */
TFM_API tfm_status tfm_glu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor gate, tfm_activation activation,
                           tfm_glu_layout layout);

/* y = a + b, with NumPy broadcasting. a and b are both F32 or both I32, and y is of the same dtype; integer sums wrap.
 * y may be a or b if that has y's dims. */
TFM_API tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* ---- Binary functions ----
 *
 * Each computes y = f(a, b), element by element, and the dims broadcast as in tfm_add. a and b are of one dtype, F32 or
 * I32, and y is of the same. y may be a or b if that has y's dims. For F32 all have a backward pass. NaN and infinities
 * follow IEEE 754 and ONNX. Integers wrap. */
TFM_API tfm_status tfm_sub(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b); /* a - b */
TFM_API tfm_status tfm_mul(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b); /* a b */
/* y = a / b. Integer quotients round towards zero; an integer divided by 0 gives 0. */
TFM_API tfm_status tfm_div(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* y = a^b, F32 only. The derivative by b is 0 where a is 0 and b is not negative, and NaN where a is negative. */
TFM_API tfm_status tfm_pow(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* y is the smaller, or the larger, of a and b. It is NaN if either is NaN. Where a and b are equal, each gets half of
 * the gradient. */
TFM_API tfm_status tfm_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* y, which is U8, is 1 where a is equal to b, less than b, or either, and 0 elsewhere. The dims broadcast as in
 * tfm_add. a and b are of one dtype, F32, I32 or U8. No comparison with NaN is true. These are step functions without a
 * gradient. For "greater", swap a and b in tfm_less. */
TFM_API tfm_status tfm_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_less(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_less_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* Logical functions, in the same way. a and b are U8; nonzero is true. For "not a", call tfm_equal with a and 0. */
TFM_API tfm_status tfm_and(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_or(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_xor(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* y is a where `condition` (U8) is not 0, and b elsewhere. The dims of all three broadcast as in tfm_add. a, b and y
 * have the same dtype, any. y may be a or b if that has y's dims. An element that is not selected has no effect, even
 * if it is NaN, and its gradient is 0. */
TFM_API tfm_status tfm_where(tfm_context *ctx, tfm_tensor *y, tfm_tensor condition, tfm_tensor a, tfm_tensor b);

/* ---- Reductions ----
 *
 * y is the sum, mean, maximum or minimum of x over the `axis_count` dimensions in `axes`. A negative one counts from
 * the end, and each may be named once. If none is named, all are reduced. With keep_dims, reduced dims become 1.
 * Otherwise they are removed, and if none is left, y is (1). y may not share memory with x. Sums are in fp32, in an
 * order that depends on the dims and on the device's tuning alone. Over no elements the sum is 0, the mean NaN, the
 * maximum minus infinity and the minimum infinity. NaN gives NaN. Ties for the maximum or minimum share the gradient
 * equally. */
TFM_API tfm_status tfm_reduce_sum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);
TFM_API tfm_status tfm_reduce_mean(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                   bool keep_dims);
TFM_API tfm_status tfm_reduce_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);
TFM_API tfm_status tfm_reduce_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);

/* y is the cumulative sum of x, F32 or I32, along dimension `axis`: y[r] = x[0] + ... + x[r]. `exclusive` excludes
 * x[r]. `reverse` starts at the end. A negative axis counts from the end. Integer sums wrap; the order of float sums
 * depends only on the dims and the device's tuning. y may not share memory with x. */
TFM_API tfm_status tfm_cumsum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis, bool exclusive, bool reverse);

/* The recurrence of SSRU cells ("From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
 * Kim et al. 2019), for each column: c_t = s(f_t) c_(t-1) + (1 - s(f_t)) x_t and y_t = max(c_t, 0), where s is the
 * sigmoid. x, forget, y and *cells, the c_t, are (B, T, E). The initial state is zeros if `initial` (N, E) is empty,
 * else each sequence's own row of it. With `kv_indices` (B, K) I32, which lists each sequence's cache slots with the
 * new one last, it is row kv_indices[b][K - 2], or zeros if K is 1; *cells may then be slots of the same cache that no
 * sequence starts from. An index outside `initial` gives NaN. y may be x or forget. There is no gradient of `initial`.
 */
TFM_API tfm_status tfm_ssru(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_tensor x, tfm_tensor forget,
                            tfm_tensor initial, tfm_tensor kv_indices);

/* One-hot encoding of `indices` (I32) with `depth` >= 1: `on` at the index and `off` elsewhere, along a new dimension
 * `axis` of y. A negative axis or index counts from the end; an index outside [-depth, depth) gives `off` everywhere.
 */
TFM_API tfm_status tfm_onehot(tfm_context *ctx, tfm_tensor *y, tfm_tensor indices, int64_t depth, int axis, float off,
                              float on);

/* y (..., T, E) = scale table[ids] + positions[p], where table is (V, E) and ids is (..., T) I32 in [0, V). positions
 * is (P, E) or empty. p is `first` plus the index within the last dimension of ids, and first + T <= P. An id outside
 * the table gives a row of NaN. The table may be F16 or BF16, and y is F32; there is then no gradient of the table or
 * of positions. */
TFM_API tfm_status tfm_embedding(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                                 tfm_tensor positions, int64_t first);

/* Pools each sequence of x (B, T, E) to y (B, E), over its tokens from `first` (counted from 0) to its length. lengths
 * (B) I32; empty for all T. A sequence without such tokens gives zeros, with TFM_POOL_CLS its token 0, if it has one.
 * No backward pass. */
TFM_API tfm_status tfm_pool(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor lengths, tfm_pooling pooling,
                            int64_t first);

/* Sinusoidal position table (P, E): PE(p, 2i) = sin(p / 10000^(2i/E)) and PE(p, 2i+1) = cos of the same ("Attention Is
 * All You Need", section 3.5). P and E are the dims of `table`, or if that is empty `positions` and `width`. Computed
 * in double precision. */
TFM_API tfm_status tfm_sinusoid(tfm_context *ctx, tfm_tensor *table, int64_t positions, int64_t width,
                                tfm_sinusoid_layout layout);

typedef struct tfm_rotary_options {
    int heads;        /* H, for a 3-D x; 0 for a 4-D x. */
    bool interleaved; /* Pairs are columns (0, 1), (2, 3) and so on (GPT-J); otherwise (0, R/2), (1, R/2 + 1) and so on
                         (GPT-NeoX). */
    tfm_tensor positions; /* (B, T) I32 in [0, P): the row of the tables for each token. Empty means first + t. */
    int64_t first;        /* The position of the first token. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_rotary_options;

/* RoPE, rotary position embedding ("RoFormer", Su et al. 2021): each pair (a, b) of a head's first R columns becomes (a
 * cos - b sin, a sin + b cos), and the other columns are copied. x is (B, T, H D) or (B, H, T, D). y has the dims of x
 * and may be x. cosines and sines are (P, R/2) with a row for each position, or (B, T, R/2) with a row for each token
 * and then without `positions`. R <= D. A position outside the tables gives NaN. `options` may be NULL for a 4-D x. */
TFM_API tfm_status tfm_rotary(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor cosines, tfm_tensor sines,
                              const tfm_rotary_options *options);

/* The RoPE tables: cosines and sines, both (P, R/2), of p / base^(2i/R). P is `positions`, and the even R is `width`. A
 * base of 0 means 10000. Computed in double precision. */
TFM_API tfm_status tfm_rotary_tables(tfm_context *ctx, tfm_tensor *cosines, tfm_tensor *sines, int64_t positions,
                                     int64_t width, float base);

/* The stages of attention scores that can be returned. */
typedef enum tfm_attention_stage {
    TFM_ATTENTION_WEIGHTS, /* After the softmax. Zeros for a query without visible keys. */
    TFM_ATTENTION_QK,      /* scale q k^T, also of hidden keys. */
    TFM_ATTENTION_CAPPED,  /* After the soft cap; the same as TFM_ATTENTION_QK without one. */
    TFM_ATTENTION_MASKED,  /* After the mask: -inf for hidden keys. */
} tfm_attention_stage;

/* Attention options. A query sees all keys except those hidden by lengths, causal, window or mask. A hidden key has no
 * effect on y, even if it is NaN. In the backward pass, hidden NaN and infinities do have an effect, except after the
 * lengths. */
typedef struct tfm_attention_options {
    int heads;      /* H, for 3-D inputs; 0 for 4-D inputs. */
    int kv_heads;   /* Hk, the number of KV heads, a divisor of H. 0 means H, or the dim of 4-D k and v. */
    float scale;    /* The scale of q k^T. 0 means 1/sqrt(dk). */
    float soft_cap; /* c: scores become c tanh(score / c) before the mask. 0 means none. */
    bool causal;    /* Query i sees only the keys j <= i + past. */
    int64_t past;   /* The number of keys before the first query; negative if queries come before the first key. */
    bool causal_bottom_right; /* Aligns the last query of each sequence with its last key: past = length (or S) - T. The
                                 field `past` must then be 0. */
    bool window;              /* Query i sees only the keys i + past - window_left <= j <= i + past + window_right. */
    int64_t window_left;      /* Keys before the query; negative means no limit. */
    int64_t window_right;     /* Keys after the query; negative means no limit. */
    /* Broadcast to (B, H, T, S) as in NumPy, of rank 1 to 4. F32, F16 or BF16 is added to the scores (-inf hides a
     * key); a 0 of U8 hides a key. If the last dim is neither 1 nor S but less, the keys after it are hidden. Empty for
     * no mask. */
    tfm_tensor mask;
    /* (N) I32: the number of keys of each sequence; the rest is padding. Empty for all S. */
    tfm_tensor lengths;
    /* (B, S) I32 block table: key s of sequence b is row kv_indices[b, s] of k (R, Hk dk) and of v (R, Hk dv), so that
     * beams share a KV cache without copies. Empty: k and v are (B, S, ...). */
    tfm_tensor kv_indices;
    /* (B) I32: query sequence b reads the keys and the length of sequence kv_batch[b] of N, so that beams of one source
     * share them. Empty: its own, and N is B. */
    tfm_tensor kv_batch;
    /* If not NULL, receives the scores (B, H, T, S) F32 of `stage`, computed by slower kernels. */
    tfm_tensor *scores;
    /* The stage of `scores`. */
    tfm_attention_stage stage;
    /* If not NULL, receives the log-sum-exp (B, H, T) F32 of the scores over visible keys, after soft cap and mask;
     * -inf without visible keys. */
    tfm_tensor *lse;
    /* Dropout of attention weights in training: kept ones are divided by 1 - rate. The mask is sampled from seed,
     * stream, b, h, t and s, in the same way on every device. `scores` and `lse` are without dropout. NULL for none. */
    const tfm_dropout_options *dropout;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_attention_options;

/* Bytes of a head of D columns in an int8 KV cache: for each 32 columns a scale in bf16, padded to a multiple of four;
 * then D integers of -127 to 127, padded in the same way. Column i is scale i / 32 times integer i. */
#define TFM_KV_INT8_SPAN(D) ((((D) + 31) / 32 + 1) / 2 * 4 + ((D) + 3) / 4 * 4)

/* y = dropout(softmax(mask + soft cap(scale q k^T))) v ("Attention Is All You Need", section 3.2; the order of soft cap
 * and mask is that of ONNX's Attention). Fused: no T x S matrix in memory. Either q is (B, T, H dk), k is (N, S, Hk
 * dk), v is (N, S, Hk dv) and y is (B, T, H dv); or all are 4-D: q is (B, H, T, dk), k is (N, Hk, S, dk), v is (N, Hk,
 * S, dv) and y is (B, H, T, dv). With `kv_indices`, k is (R, Hk dk) and v is (R, Hk dv). N is B unless `kv_batch` says
 * otherwise. T and S are less than 2^29, and dk + dv is at most 65536. q, k and v are of one dtype, F32, F16 or BF16,
 * or q is F32 and k and v have the same other dtype; accumulation is fp32. k and v may also be I8 with heads of
 * TFM_KV_INT8_SPAN(dk) in place of dk and dv, as a block writes them into an int8 KV cache; dv is dk then, and they
 * begin at multiples of four bytes. y is F32, or rounded to the dtype of q if a
 * y of that dtype is given. A query without visible keys gives zeros. `options` may be NULL for 4-D inputs. */
TFM_API tfm_status tfm_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                                 const tfm_attention_options *options);

/* ---- Classical attention of sequence-to-sequence models ----
 *
 * Scores, weights and context are computed by separate calls. Queries and keys are projected by tfm_linear with
 * TFM_NO_ACTIVATION, the keys once for all steps:
 *
 *     tfm_tensor scores = {0}, weights = {0}, seen = {0};
 *     tfm_score_additive(ctx, &scores, wq, uk, v);
 *     tfm_align(ctx, &weights, scores, &(tfm_align_options){.lengths = lengths});
 *     tfm_gemm(ctx, &seen, weights, values, NULL);
 *
 * tfm_score_general or the caller's own score may replace tfm_score_additive. The last call is a GEMM of (B, T, S) and
 * (B, S, dv). */

/* scores (B, T, S) = sum_a v[a] tanh(q[b, t, a] + k[b, s, a]), where q (B, T, A) and k (B, S, A) are the projections Wq
 * and Uk of queries and keys with their biases, and v is (A). No (B, T, S, A) tensor in memory. Source: "Neural Machine
 * Translation by Jointly Learning to Align and Translate", Bahdanau et al. 2015, A.1.2; called "concat" in Luong et al.
 * 2015. No backward pass. */
TFM_API tfm_status tfm_score_additive(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_tensor k, tfm_tensor v);

/* scores (B, T, S) = (weight q) . k, where q is (B, T, dq), k is (B, S, dk), and weight is (dk, dq), the transpose of
 * the paper's W in q^T W k. `weight` may be NULL: then the scores are dot products, and dq = dk. Not scaled. The call
 * caches the packed weight in `weight`. Source: "Effective Approaches to Attention-based Neural Machine Translation",
 * Luong et al. 2015, section 3.1. */
TFM_API tfm_status tfm_score_general(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_param *weight,
                                     tfm_tensor k);

typedef struct tfm_align_options {
    tfm_tensor lengths; /* (B) I32: the number of keys of each sequence; the rest is padding. Empty for all S. */
    int64_t window;     /* D: query t sees only keys s with |p - s| <= D. 0 means global attention, without `past` and
                           `centers`. */
    int64_t past;       /* p = t + past, without centers: the paper's local-m. Not negative. */
    /* (B, T) F32: p of each query, the paper's local-p. Weights are multiplied by exp(-(s - p)^2 / (2 (D/2)^2)); NaN
     * gives NaN. Empty for t + past. */
    tfm_tensor centers;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_align_options;

/* weights (B, T, S) is the softmax of scores (B, T, S) over visible keys, and 0 elsewhere (Luong et al. 2015, sections
 * 3.1 and 3.2). S <= 2^24. A query without visible keys gives zeros. weights may be scores. `options` may be NULL. */
TFM_API tfm_status tfm_align(tfm_context *ctx, tfm_tensor *weights, tfm_tensor scores,
                             const tfm_align_options *options);

/* Finds the k largest elements of each row of x (R, N), which is F32 or I32. Values (R, k), of the same dtype, and
 * indices (R, k) I32 are in descending order, ties by the lower index. 1 <= k <= min(N, 64). `lse` may be NULL;
 * otherwise, for F32 only, it receives the log-sum-exp of each row (R). NaN counts as -inf. */
TFM_API tfm_status tfm_topk(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *lse, tfm_tensor x,
                            int k);

typedef struct tfm_sample_options {
    float temperature; /* Divides the logits. 0 means 1. */
    int top_k;         /* Keeps the k largest. 0 means all. */
    float top_p;   /* Of those, keeps the smallest set of most probable tokens with total probability >= p. 0 means 1,
                      all. */
    float min_p;   /* Of those, keeps tokens with at least this fraction of the largest probability. 0 means all. */
    uint64_t seed; /* Equal seeds and steps give the same samples on every device, except for rounding. */
    uint64_t step; /* The step in the seed's stream. Increment it from token to token. */
    uint64_t reserved[8]; /* Must be 0. */
} tfm_sample_options;

/* Samples one index of each row of logits (R, V), V <= 2^24, from softmax(logits / temperature), restricted by top-k,
 * top-p ("The Curious Case of Neural Text Degeneration", Holtzman et al. 2020) and min-p ("Turning Up the Heat", Nguyen
 * et al. 2024). ids (R) I32 receives the indices. Among equal logits, top-k and top-p keep lower indices first. NaN
 * counts as -inf. A row without anything above -inf gives -1. If `probabilities` is not NULL, it receives the
 * probability of each sampled index, (R). The random number of row r is Philox4x32-10 of the counter (step, r) and the
 * key `seed` ("Parallel Random Numbers: As Easy as 1, 2, 3", Salmon et al. 2011). `options` may be NULL. */
TFM_API tfm_status tfm_sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                              const tfm_sample_options *options);

/* y (n, ...) = x[indices], the rows of x (R, ...) at `indices` (n) I32. x is of any 4-byte dtype. An index out of range
 * gives a row of zeros. */
TFM_API tfm_status tfm_gather(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices);

/* y (A..., I..., C...) is x (A..., n, C...) at the indices (I...) I32 of dimension `axis`. A negative axis counts from
 * the end. Otherwise as tfm_gather, which is axis 0 with one-dimensional indices. */
TFM_API tfm_status tfm_gather_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis);

/* y has the elements of x at the indices (I32) along dimension `axis`: with axis 1 of three, y[i, j, k] = x[i,
 * indices[i, j, k], k]. A negative axis counts from the end. x is of any 4-byte dtype. indices has as many dims as x,
 * none of them larger than that of x except the one of the axis, and y has the dims of indices. A negative index counts
 * from the end; one outside [-n, n) gives 0, where n is the dim of the axis. y may not share memory with an input. */
TFM_API tfm_status tfm_gather_elements(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis);

/* y is x with permuted dimensions, as NumPy's transpose: y.dims[i] = x.dims[axes[i]]. axes is a permutation of 0 ..
 * rank - 1. x may be of any dtype. y may not share memory with x. */
TFM_API tfm_status tfm_permute(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes);

/* y is the concatenation of `count` >= 1 inputs along `axis`. A negative axis counts from the end. The other dims of
 * the inputs and their dtypes, any, must be equal. y may not share memory with an input. */
TFM_API tfm_status tfm_concat(tfm_context *ctx, tfm_tensor *y, size_t count, const tfm_tensor *inputs, int axis);

/* A range of a dimension, as Python's start:end:step. A negative start or end counts from the dimension's end; both are
 * then clamped. A step of 0 means 1. A negative step goes backwards, and with an `end` of INT64_MIN includes the first
 * element. */
typedef struct tfm_range {
    int64_t start, end, step;
} tfm_range;

/* The whole dimension. */
#define TFM_WHOLE ((tfm_range){0, INT64_MAX, 1})

/* y = x[range, range, ...], with one range for each dimension of x. An empty range gives a dim of 0. x may be of any
 * dtype. y may not share memory with x. Rows of the first dimension need no copy: see tfm_tensor_rows. */
TFM_API tfm_status tfm_slice(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_range *ranges);

/* y is x as `dtype`. Both are F32, F16 or BF16, and numbers are rounded to the nearest, ties to even. x may have any
 * dims. y may not share memory with x. */
TFM_API tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype);

typedef struct tfm_cross_entropy_options {
    float label_smoothing; /* The share s of each target spread over all V: q_i = (1 - s) [i = target] + s / V. */
    float scale;           /* The scale of the gradient, in training 1 / the tokens of the update. 0 means 1. */
    int64_t chunk;         /* tfm_linear_cross_entropy only: the rows of logits in memory at a time. 0 is automatic. */
    float soft_cap;        /* Soft capping of logits l: cap tanh(l / cap) (Gemma 2). 0 for none. */
    uint64_t reserved[7];  /* Must be 0. */
} tfm_cross_entropy_options;

/* loss (1) is the sum over rows of the cross-entropy of logits (..., V) with targets (...) I32, with label smoothing
 * ("Rethinking the Inception Architecture for Computer Vision", Szegedy et al. 2016, section 7). A row with a target
 * outside [0, V) is ignored. If `nll` is not NULL, it receives the sum of -log p of the targets (1), for perplexity,
 * without a gradient. `options` may be NULL. */
TFM_API tfm_status tfm_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor logits,
                                     tfm_tensor targets, const tfm_cross_entropy_options *options);

/* Fused linear and cross-entropy, for logits = x weight^T + bias, where x is (..., E), weight is (V, E), and bias is
 * (V) or empty. The logits and their gradient are never all in memory at once. While the tape records, this call
 * computes the gradients: weight and bias must themselves be watched, and their gradients are added before tfm_backward
 * is called. The gradient of this loss must therefore be 1, as if tfm_backward receives the loss, or a sum of it and
 * others, and no dy; a backward pass with another gradient is refused. options->scale scales the gradients. */
TFM_API tfm_status tfm_linear_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor x,
                                            tfm_param *weight, tfm_tensor bias, tfm_tensor targets,
                                            const tfm_cross_entropy_options *options);

/* norm (1) = sqrt(sum x^2) over all elements of x, of any dims. No backward pass. */
TFM_API tfm_status tfm_l2_norm(tfm_context *ctx, tfm_tensor *norm, tfm_tensor x);

typedef struct tfm_adam_options {
    double learning_rate;
    double beta1, beta2;  /* The decay rates of the moments; 0.9 and 0.98 in the paper. */
    double epsilon;       /* Added to the root of the second moment; 1e-9 in the paper. Above 0 as a float. */
    double weight_decay;  /* Decoupled weight decay: x -= learning_rate weight_decay x. */
    int64_t step;         /* The number t of the step, from 1. */
    double max_grad_norm; /* Gradient clipping: the maximum of `grad_norm`. 0 for none. */
    /* (1): the norm of all gradients (tfm_l2_norm). If it is not finite, x, m and v do not change. May be empty without
     * clipping. */
    tfm_tensor grad_norm;
    uint64_t reserved[8]; /* Must be 0. */
} tfm_adam_options;

/* One step of Adam on x, or of AdamW with a weight decay ("Adam: A Method for Stochastic Optimization", Kingma and Ba
 * 2015; "Decoupled Weight Decay Regularization", Loshchilov and Hutter 2019). gradient and both moments, m and v, have
 * the size of x. The moments are zeros before the first step, and the call zeroes the gradient for the next. The caller
 * increments the version of each tfm_param with its value in x. `options` may not be NULL. */
TFM_API tfm_status tfm_adam(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient, tfm_tensor m, tfm_tensor v,
                            const tfm_adam_options *options);

/* Measures the fp32 peak of the device in operations per second, with multiply-adds in registers, for comparison with a
 * GEMM. Takes about a second. */
TFM_API tfm_status tfm_measure_peak_flops(tfm_context *ctx, double *flops);

#ifdef __cplusplus
}
#endif
#endif
