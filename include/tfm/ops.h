/* Ops on tensors. Each call checks its arguments, enqueues work on the device and returns without waiting for it. Calls
 * that wait are tfm_tensor_read and tfm_tensor_write; tfm_sinusoid, tfm_rotary_tables and tfm_param_quantize, which do
 * their work on the host; and the first call that needs a kernel, which builds it and may try whether it is right.
 *
 * Outputs come first. An empty output, whose buffer is NULL, is made in the current scope; one that is not empty must
 * have the right dtype and dims, and is written in place. Inputs stay the caller's. All ops take F32 unless they say
 * otherwise. One thread at a time may use a context and its tensors. An op returns the context's status, which keeps
 * the first failure, so a chain of calls needs only one check at its end:
 *
 *     tfm_tensor hidden = {0}, y = {0};
 *     tfm_linear(ctx, &hidden, x, &fc1, fc1_bias, TFM_RELU);
 *     tfm_linear(ctx, &y, hidden, &fc2, fc2_bias, TFM_NO_ACTIVATION);
 *     if (tfm_context_status(ctx) != TFM_OK)
 *         fprintf(stderr, "%s\n", tfm_context_error(ctx));
 *
 * Tensors without elements, of which a dim is 0, are taken where they make sense: by the pointwise ops (tfm_activate,
 * tfm_glu, tfm_add, tfm_where and the functions of one and of two numbers), by reductions, tfm_cumsum, tfm_onehot,
 * tfm_cast, tfm_dropout, the softmaxes, and by what only moves elements (tfm_permute, tfm_concat, tfm_slice, the
 * gathers, tfm_tensor_reshape). All other ops refuse them with a sentence.
 *
 * A shape that does not fit is TFM_ERROR_ARGUMENT with op and shapes in the sentence. Letters: B batch, T target,
 * S source, H heads, D head width, E model width, V vocabulary. */
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
    float alpha;               /* What the product is multiplied by. 0 means 1. */
    bool accumulate;           /* Adds to c, which must then be given; not together with bias or activation. */
    tfm_tensor bias;           /* (N), added to every row; may contain -inf. Empty for none. */
    tfm_activation activation; /* Is applied last. */
    uint64_t reserved[8];      /* Must be 0: room for later fields. */
} tfm_gemm_options;

/* Multiplies matrices: c (..., M, N) = activation(alpha a b + bias), where a is (..., M, K) and b is (..., K, N). The
 * leading dimensions of a, b and c are a batch and must be equal; a `b` of rank 2 is shared by the batch. `options` may
 * be NULL. */
TFM_API tfm_status tfm_gemm(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_tensor b,
                            const tfm_gemm_options *options);

/* A linear layer: y (..., N) = activation(x weight^T + bias), where x is (..., K), weight is (N, K), and bias is (N) or
 * empty. The call keeps the weight's packed copy in `weight` for the next call. A weight may be F16 or BF16, as
 * tfm_cast makes it, or bytes with scales, as tfm_param_quantize makes them: such layers have no backward pass. */
TFM_API tfm_status tfm_linear(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_param *weight, tfm_tensor bias,
                              tfm_activation activation);

/* Turns a weight (N, K) from F32 into bytes, once and for all: each row is kept as a scale and numbers of -127 to 127,
 * so `param` then takes a quarter of the memory, and tfm_linear with it multiplies whole numbers: each row of x becomes
 * such numbers too, by a step of its own. Such a layer has no backward pass. K is at most 131072. A number that is not
 * finite is TFM_ERROR_ARGUMENT. Waits for the device. */
TFM_API tfm_status tfm_param_quantize(tfm_context *ctx, tfm_param *param);

/* ---- Providers: who multiplies ----
 *
 * tfm_gemm and tfm_linear take the provider that suits device and shape. To compare them, or to hold on to one:
 *
 *     const char *why;
 *     for (size_t i = 0; tfm_gemm_provider(i); i++)
 *         if (tfm_gemm_with(ctx, tfm_gemm_provider(i), &why, &c, a, b, NULL) == TFM_OK && why)
 *             printf("%s declined: %s\n", tfm_gemm_provider(i), why); */

/* The name of a provider, counted from 0: "cpu-skinny", "cpu-bf16", "cpu-bf16x3", "cpu-packed", "gpu-skinny",
 * "gpu-tiled", "reference", "gpu-mma", "clblast" or "int8". The order says nothing of their speed. NULL after the last.
 * The strings are static. */
TFM_API const char *tfm_gemm_provider(size_t index);

/* The name of the provider that tfm_gemm takes on this device for a product of m x k by k x n, without a batch and
 * without transposes. m, n and k are at least 1. The string is static. The result is NULL after a failure. */
TFM_API const char *tfm_gemm_select(tfm_context *ctx, int64_t m, int64_t n, int64_t k);

/* These are tfm_gemm and tfm_linear by the provider of this name and no other. NULL for `provider` takes the one that
 * the library chooses. *declined is NULL if the provider ran. Otherwise it is half a sentence, a static string, that
 * says why the provider cannot; then nothing was computed, though an empty output was made, and the context stays as it
 * is. A name that no provider has is TFM_ERROR_ARGUMENT, and so is a weight of bytes, which tfm_linear alone takes. */
TFM_API tfm_status tfm_gemm_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *c,
                                 tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);
TFM_API tfm_status tfm_linear_with(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *y,
                                   tfm_tensor x, tfm_param *weight, tfm_tensor bias, tfm_activation activation);

/* y (..., N) is the softmax of x over the last dimension. A row that holds -inf alone gives zeros. y may be x. */
TFM_API tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* y (..., N) = x - log sum exp x over the last dimension. A row that holds -inf alone gives -inf. y may be x. */
TFM_API tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* These do the same over dimension `axis` of x. A negative axis counts from the end: -1 is the last dimension. */
TFM_API tfm_status tfm_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);
TFM_API tfm_status tfm_log_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);

/* What dropout draws. The same options draw the same on the same device, so a backward pass can repeat the forward
 * pass. */
typedef struct tfm_dropout_options {
    float rate;           /* The chance of each element to become 0, below 1. The others are divided by 1 - rate. */
    uint64_t seed;        /* Seeds the draw. */
    uint64_t stream;      /* Which draw of the seed it is. Take another one for each call. */
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_dropout_options;

/* y is x with some elements set to 0 and the others made larger ("Dropout: A Simple Way to Prevent Neural Networks from
 * Overfitting", Srivastava et al. 2014). Which ones is drawn by Philox4x32-10 from seed, stream, row and column. x may
 * have any dims, and y may be x. `dropout` may be NULL, which drops nothing. */
TFM_API tfm_status tfm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_dropout_options *dropout);
/* Does the same. If `mask` is not NULL, it also gets what was drawn: it is U8 with x's dims, 1 where the element stayed
 * and 0 elsewhere. The mask carries no gradient. */
TFM_API tfm_status tfm_dropout_masked(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mask, tfm_tensor x,
                                      const tfm_dropout_options *dropout);

/* y (..., E) = (s - mean s) / sqrt(var s + epsilon) * gamma + beta over the last dimension, where s = x + residual
 * ("Layer Normalization", Ba et al. 2016). The variance is the biased one. residual has the dims of x or is empty.
 * gamma and beta are (E); empty, they stand for 1 and 0. If `sum` is not NULL, it also gets s, which is the next
 * residual of a pre-norm block. y and sum may be x or residual. */
TFM_API tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                                 tfm_tensor gamma, tfm_tensor beta, float epsilon);
/* Does the same with s = x + dropout(branch), as in training ("Attention Is All You Need", section 5.4). branch has the
 * dims of x. `dropout` may be NULL, which drops nothing. */
TFM_API tfm_status tfm_layernorm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x,
                                         tfm_tensor branch, tfm_tensor gamma, tfm_tensor beta, float epsilon,
                                         const tfm_dropout_options *dropout);
/* Does the same without a residual, over the trailing dimensions of x from `axis` on, all of them together. A negative
 * axis counts from the end. gamma and beta have those trailing dims of x or are empty. `mean` and `inv_std` may each be
 * NULL; otherwise they get the mean and 1 / sqrt(var + epsilon), with the dims of x, but 1 from `axis` on. y may be x.
 */
TFM_API tfm_status tfm_layernorm_axes(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mean, tfm_tensor *inv_std,
                                      tfm_tensor x, tfm_tensor gamma, tfm_tensor beta, int axis, float epsilon);

/* y = s / sqrt(mean s^2 + epsilon) * gamma over the trailing dimensions from `axis` on, where s = x + residual ("Root
 * Mean Square Layer Normalization", Zhang and Sennrich 2019). A negative axis counts from the end. residual has the
 * dims of x or is empty. gamma has those trailing dims of x; empty, it stands for 1. If `sum` is not NULL, it also gets
 * s. y and sum may be x or residual. */
TFM_API tfm_status tfm_rmsnorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                               tfm_tensor gamma, int axis, float epsilon);

/* y = activation(x), element by element. x may have any dims, and y may be x. */
TFM_API tfm_status tfm_activate(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_activation activation);

/* ---- Functions of one number ----
 *
 * Each computes y = f(x), element by element. x may have any dims, also without elements, and y may be x. NaN gives
 * NaN, and so does what a function has no value for, such as the root of -1. Infinities and zeros give what IEEE 754
 * and ONNX say. Where a function has a corner its slope is that of one of the two sides, except for tfm_abs. All have a
 * backward pass. */
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
/* y = min(max(x, low), high). If low > high, y is high everywhere. An infinite bound does not limit anything. The slope
 * is 1 within the bounds and on them. A bound that is NaN is refused. */
TFM_API tfm_status tfm_clip(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, float low, float high);

typedef enum tfm_glu_layout {
    TFM_GLU_GATE_FIRST, /* The gate is the first half of each row, as in the paper. */
    TFM_GLU_GATE_LAST,  /* The gate is the second half. */
} tfm_glu_layout;

/* y = activation(gate) * x. That is GEGLU with TFM_GELU, SwiGLU with TFM_SILU, ReGLU with TFM_RELU, and bilinear with
 * TFM_NO_ACTIVATION ("GLU Variants Improve Transformer", Shazeer 2020). If a gate is given, it must have the dims of x;
 * y then has them too and may be x or gate, and `layout` changes nothing. With an empty gate, x is (..., 2E), the
 * result of one product with both matrices, and y is (..., E). */
TFM_API tfm_status tfm_glu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor gate, tfm_activation activation,
                           tfm_glu_layout layout);

/* y = a + b. The dims broadcast as in NumPy: they are aligned at the last one, and a dim that is 1 or missing repeats.
 * a and b are both F32 or both I32, and y is of the same dtype; the sums of integers wrap. y may be a or b if that has
 * y's dims. */
TFM_API tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* ---- Functions of two numbers ----
 *
 * Each computes y = f(a, b), element by element, and the dims broadcast as in tfm_add. a and b are of one dtype, F32 or
 * I32, and y is of the same. y may be a or b if that has y's dims. For F32 all have a backward pass. NaN and infinities
 * are treated as IEEE 754 and ONNX say. Integers wrap. */
TFM_API tfm_status tfm_sub(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b); /* a - b */
TFM_API tfm_status tfm_mul(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b); /* a b */
/* y = a / b. Quotients of integers are rounded towards zero, and an integer divided by 0 gives 0. */
TFM_API tfm_status tfm_div(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* y is a to the power b, of F32 only. The slope by b is 0 where a is 0 and b is not negative. Where a is negative that
 * slope is NaN. */
TFM_API tfm_status tfm_pow(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* y is the smaller, or the larger, of a and b. It is NaN if either is NaN. Where a and b are equal, each gets half of
 * the gradient. */
TFM_API tfm_status tfm_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* y, which is U8, is 1 where a is equal to b, less than b, or either, and 0 elsewhere. The dims broadcast as in
 * tfm_add. a and b are of one dtype, F32, I32 or U8. No comparison with NaN is true. These functions are steps, through
 * which no gradient passes. For "greater", call tfm_less with a and b the other way round. */
TFM_API tfm_status tfm_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_less(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_less_equal(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
/* These combine truth values in the same way. a and b are U8, and every number but 0 is true. For "not a", call
 * tfm_equal with a and 0. */
TFM_API tfm_status tfm_and(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_or(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
TFM_API tfm_status tfm_xor(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* y is a where `condition`, which is U8, is not 0, and b elsewhere. The dims of all three broadcast as in tfm_add. a
 * and b are of one dtype, which may be any, and y is of the same. y may be a or b if that has y's dims. An element that
 * is not chosen has no effect, even if it is NaN, and its gradient is 0. */
TFM_API tfm_status tfm_where(tfm_context *ctx, tfm_tensor *y, tfm_tensor condition, tfm_tensor a, tfm_tensor b);

/* ---- Over dimensions ----
 *
 * y is the sum, mean, maximum or minimum of x over the `axis_count` dimensions in `axes`. A negative one counts from
 * the end, and each may be named once. If none is named, all are reduced. With keep_dims y has x's dims, but 1 where
 * something was reduced. Without it those dims are left out, and if none is left, y is (1). y may not share memory with
 * x. Sums are in fp32, in an order that depends on the dims and on the device's tuning alone. Over no elements the sum
 * is 0, the mean NaN, the maximum minus infinity and the minimum infinity. NaN gives NaN. Where several elements are
 * the maximum or the minimum, each gets an equal share of the gradient. */
TFM_API tfm_status tfm_reduce_sum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);
TFM_API tfm_status tfm_reduce_mean(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                   bool keep_dims);
TFM_API tfm_status tfm_reduce_max(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);
TFM_API tfm_status tfm_reduce_min(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t axis_count,
                                  bool keep_dims);

/* y holds the running sums of x, F32 or I32, along dimension `axis`: y[r] = x[0] + ... + x[r]. With `exclusive` x[r]
 * itself is left out. With `reverse` the sums begin at the end. A negative axis counts from the end. Sums of integers
 * wrap; the order in which floats are added depends on the dims and on the device's tuning alone. y may not share
 * memory with x. */
TFM_API tfm_status tfm_cumsum(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis, bool exclusive, bool reverse);

/* The recurrence of SSRU cells ("From Research to Production and Back: Ludicrously Fast Neural Machine Translation",
 * Kim et al. 2019): c_t = s(f_t) c_(t-1) + (1 - s(f_t)) x_t and y_t = max(c_t, 0) for each column by itself, where s is
 * the sigmoid. x, forget, y and *cells, the c_t, are (B, T, E). What a sequence goes on from is zeros if `initial` (N,
 * E) is empty, else its own row of that, or with `kv_indices` (B, K) I32 row kv_indices[b][K - 2], and zeros if K is 1:
 * such rows are a sequence's past in a log, the place of its new cell last. Then *cells may be rows of the log that
 * nobody goes on from. A row that `initial` does not have gives NaN. y may be x or forget. No gradient of `initial` is
 * made. */
TFM_API tfm_status tfm_ssru(tfm_context *ctx, tfm_tensor *y, tfm_tensor *cells, tfm_tensor x, tfm_tensor forget,
                            tfm_tensor initial, tfm_tensor kv_indices);

/* y holds a vector of length `depth`, which is at least 1, for each of `indices`, which are I32: `on` at the index and
 * `off` elsewhere. The vectors lie along a new dimension `axis` of y; a negative axis counts from the end. An index
 * below 0 counts from the end too, and one that is not in [-depth, depth) gives `off` everywhere. */
TFM_API tfm_status tfm_onehot(tfm_context *ctx, tfm_tensor *y, tfm_tensor indices, int64_t depth, int axis, float off,
                              float on);

/* y (..., T, E) = scale table[ids] + positions[p], where table is (V, E) and ids is (..., T) I32 in [0, V). positions
 * is (P, E) or empty. p is `first` plus the index within the last dimension of ids, and first + T <= P. An id outside
 * the table gives a row of NaN rather than a read outside it. The table may be F16 or BF16, and y is F32; then no
 * gradient of the table or of positions may be asked for. */
TFM_API tfm_status tfm_embedding(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                                 tfm_tensor positions, int64_t first);

/* y (B, E) holds a vector for each sequence of x (B, T, E), pooled from its tokens from number `first` on, counted from
 * 0, to its length. lengths (B) I32 counts the tokens of each sequence; an empty one stands for all T. A sequence
 * without such tokens gives zeros, and with TFM_POOL_CLS its token 0, if it has one. It has no backward pass. */
TFM_API tfm_status tfm_pool(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor lengths, tfm_pooling pooling,
                            int64_t first);

/* table (P, E) gets PE(p, 2i) = sin(p / 10000^(2i/E)) and PE(p, 2i+1) = cos of the same ("Attention Is All You Need",
 * section 3.5). P and E are the dims of `table` if it is given; otherwise they are `positions` and `width`. The table
 * is computed in double precision. */
TFM_API tfm_status tfm_sinusoid(tfm_context *ctx, tfm_tensor *table, int64_t positions, int64_t width,
                                tfm_sinusoid_layout layout);

typedef struct tfm_rotary_options {
    int heads;        /* H, which a 3-D x needs; 0 for a 4-D x. */
    bool interleaved; /* Pairs are columns (0, 1), (2, 3) and so on; without this (0, R/2), (1, R/2 + 1) and so on. */
    tfm_tensor positions; /* (B, T) I32 in [0, P): the row of the tables for each token. Empty means first + t. */
    int64_t first;        /* The position of the first token, if others came before it. */
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_rotary_options;

/* Rotary position embedding ("RoFormer", Su et al. 2021): each pair (a, b) of a head's first R columns becomes
 * (a cos - b sin, a sin + b cos), and the columns from R on stay as they are. x is (B, T, H D) or (B, H, T, D). y has
 * the dims of x and may be x. cosines and sines are (P, R/2) with a row for each position; or they are (B, T, R/2) with
 * a row for each token, and then no positions may be given. R <= D. A position outside the tables gives a head of NaN
 * rather than a read outside them. `options` may be NULL for a 4-D x. */
TFM_API tfm_status tfm_rotary(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor cosines, tfm_tensor sines,
                              const tfm_rotary_options *options);

/* Makes the tables for tfm_rotary: cosines and sines, both (P, R/2), of p / base^(2i/R). P is `positions`, and R,
 * which is even, is `width`. A base of 0 means 10000. The tables are computed in double precision. */
TFM_API tfm_status tfm_rotary_tables(tfm_context *ctx, tfm_tensor *cosines, tfm_tensor *sines, int64_t positions,
                                     int64_t width, float base);

/* Where the scores of attention may be looked at, in natural units. */
typedef enum tfm_attention_stage {
    TFM_ATTENTION_WEIGHTS, /* After the softmax: what values are multiplied by. Zeros for a query that sees nothing. */
    TFM_ATTENTION_QK,      /* scale q k^T, of every key that there is, seen or not. */
    TFM_ATTENTION_CAPPED,  /* After the soft cap. Without one it is the same as the product. */
    TFM_ATTENTION_MASKED,  /* After the mask. It is -inf where a query does not see a key. */
} tfm_attention_stage;

/* What a query sees. It sees all keys except those that lengths, causal, window or mask hides. A hidden key has no
 * effect on the query's y, even if it is NaN. In the backward pass, hidden NaN and infinities do harm, except those
 * after the lengths. */
typedef struct tfm_attention_options {
    int heads;    /* H, which 3-D inputs need; 0 for 4-D inputs. */
    int kv_heads; /* Hk, the heads of k and v, a divisor of H. 0 means H, or with 4-D k and v as many as these have. */
    float scale;  /* What the product of q and k is multiplied by. 0 means 1/sqrt(dk). */
    float soft_cap; /* c: scores become c tanh(score / c) before the mask. 0 means none. */
    bool causal;    /* Query i sees only the keys j <= i + past. */
    int64_t past;   /* How many keys come before the first query. Negative if queries come before the first key. */
    bool causal_bottom_right; /* The last query of each sequence stands at its last key: its past is its length (or S) -
                    T. The field `past` must then be 0. */
    bool window;              /* Query i sees only the keys i + past - window_left <= j <= i + past + window_right. */
    int64_t window_left;      /* How far a window reaches back; a negative number means without limit. */
    int64_t window_right;     /* How far a window reaches on; a negative number means without limit. */
    /* Broadcast to (B, H, T, S) as in NumPy, of rank 1 to 4. F32, F16 or BF16 is added to the scores, so that -inf
     * hides a key; of U8, 0 hides a key. If the last dim is neither 1 nor S but less, the keys after it are hidden.
     * Empty for no mask. */
    tfm_tensor mask;
    /* (N) I32: how many keys each sequence has; the rest is padding. Empty for all S. */
    tfm_tensor lengths;
    /* (B, S) I32: key s of sequence b is row kv_indices[b, s] of k (R, Hk dk) and of v (R, Hk dv). So a cache that
     * beams share is read where it lies. Empty: k and v are (B, S, ...) themselves. */
    tfm_tensor kv_indices;
    /* (B) I32: query sequence b reads the keys and the length of sequence kv_batch[b] of N, so that beams of one source
     * share them. Empty: each reads its own, and N is B. */
    tfm_tensor kv_batch;
    /* If not NULL, it gets the scores (B, H, T, S) F32 of `stage`. Other and slower kernels compute them. */
    tfm_tensor *scores;
    /* Which scores. */
    tfm_attention_stage stage;
    /* If not NULL, it gets the log of the sum over s of e^score (B, H, T) F32 over what each query sees, after soft cap
     * and mask; -inf where a query sees nothing. */
    tfm_tensor *lse;
    /* Drops weights in training: those that stay are divided by 1 - rate. It is drawn from seed, stream, b, h, t and s,
     * in the same way on every device. `scores` and `lse` are of all weights. NULL drops nothing. */
    const tfm_dropout_options *dropout;
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_attention_options;

/* y = dropout(softmax(mask + soft cap(scale q k^T))) v ("Attention Is All You Need", section 3.2; the order of soft cap
 * and mask is that of ONNX's Attention). It is fused: there is no T x S matrix in memory. Either q is (B, T, H dk), k
 * is (N, S, Hk dk), v is (N, S, Hk dv) and y is (B, T, H dv); or all are 4-D: q is (B, H, T, dk), k is (N, Hk, S, dk),
 * v is (N, Hk, S, dv) and y is (B, H, T, dv). With `kv_indices`, k is (R, Hk dk) and v is (R, Hk dv). N is B unless
 * `kv_batch` says otherwise. T and S are less than 2^29, and dk + dv is at most 65536. q, k and v are of one dtype,
 * F32, F16 or BF16, or q is F32 and k and v are of another one of these; sums are in fp32. y is F32; but if a y of the
 * dtype of q is given, it is rounded to that. A query that sees nothing gives zeros. `options` may be NULL for 4-D
 * inputs. */
TFM_API tfm_status tfm_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                                 const tfm_attention_options *options);

/* ---- Classical attention of sequence-to-sequence models ----
 *
 * Here scores, weights and context are computed one by one. The queries and keys are projections, made by tfm_linear
 * with TFM_NO_ACTIVATION; keys are projected once for all steps:
 *
 *     tfm_tensor scores = {0}, weights = {0}, seen = {0};
 *     tfm_score_additive(ctx, &scores, wq, uk, v);
 *     tfm_align(ctx, &weights, scores, &(tfm_align_options){.lengths = lengths});
 *     tfm_gemm(ctx, &seen, weights, values, NULL);
 *
 * tfm_score_general or a score of your own may take the place of tfm_score_additive. The last call multiplies
 * (B, T, S) by (B, S, dv). */

/* scores (B, T, S) = sum_a v[a] tanh(q[b, t, a] + k[b, s, a]), where q (B, T, A) and k (B, S, A) are the projections Wq
 * and Uk of queries and keys with their biases, and v is (A). There is no tensor of (B, T, S, A) in memory. The formula
 * is that of "Neural Machine Translation by Jointly Learning to Align and Translate", Bahdanau et al. 2015, A.1.2, and
 * is called "concat" in Luong et al. 2015. It has no backward pass. */
TFM_API tfm_status tfm_score_additive(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_tensor k, tfm_tensor v);

/* scores (B, T, S) = (weight q) . k, where q is (B, T, dq), k is (B, S, dk), and weight is (dk, dq), the transpose of
 * the paper's W in q^T W k. `weight` may be NULL: then the scores are dot products, and dq = dk. They are not scaled.
 * The call keeps the weight's packed copy in `weight`. The formula is that of "Effective Approaches to Attention-based
 * Neural Machine Translation", Luong et al. 2015, section 3.1. */
TFM_API tfm_status tfm_score_general(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_param *weight,
                                     tfm_tensor k);

typedef struct tfm_align_options {
    tfm_tensor lengths; /* (B) I32: how many keys each sequence has; the rest is padding. Empty for all S. */
    int64_t window; /* D: query t sees only keys s with |p - s| <= D. 0 lets it see all: global attention, which takes
                       neither `past` nor `centers`. */
    int64_t past;   /* p = t + past, if there are no centers: local-m of the paper. Not negative. */
    /* (B, T) F32: p of each query, local-p of the paper. Weights are then multiplied by exp(-(s - p)^2 / (2 (D/2)^2)),
     * and a NaN gives NaN. Empty for t + past. */
    tfm_tensor centers;
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_align_options;

/* weights (B, T, S) is the softmax of scores (B, T, S) over the keys that a query sees, and 0 elsewhere (Luong et al.
 * 2015, sections 3.1 and 3.2). S <= 2^24. A query that sees nothing gives zeros. weights may be scores. `options` may
 * be NULL. */
TFM_API tfm_status tfm_align(tfm_context *ctx, tfm_tensor *weights, tfm_tensor scores,
                             const tfm_align_options *options);

/* Finds the k largest elements of each row of x (R, N), which is F32 or I32. Their values (R, k), of the same dtype,
 * and their indices (R, k) I32 come in order, the largest first and of equal ones the one with the lower index. 1 <= k
 * <= min(N, 64). If `lse` is not NULL, which needs an x of F32, it gets log sum exp of each row (R). NaN counts as
 * -inf. */
TFM_API tfm_status tfm_topk(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *lse, tfm_tensor x,
                            int k);

typedef struct tfm_sample_options {
    float temperature; /* What logits are divided by. 0 means 1. */
    int top_k;         /* Only the k largest may be drawn. 0 means all. */
    float top_p;       /* Of those, only the fewest largest whose probabilities add up to p. 0 means 1, which is all. */
    float min_p;       /* Of those, only what is at least so many times as probable as the likeliest. 0 means all. */
    uint64_t seed;     /* Equal seeds and steps draw the same on every device, except for rounding. */
    uint64_t step;     /* Which draw of the seed's stream it is. Count it up from token to token. */
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_sample_options;

/* Draws one index of each row of logits (R, V), V <= 2^24, from softmax(logits / temperature) within top k, top p ("The
 * Curious Case of Neural Text Degeneration", Holtzman et al. 2020) and min p ("Turning Up the Heat", Nguyen et al.
 * 2024), and puts them into ids (R) I32. Of equal logits the ones with lower indices stay within top k and top p. NaN
 * counts as -inf. A row with nothing above -inf gives -1. If `probabilities` is not NULL, it gets the chance that each
 * drawn index had, (R). The random number of row r is Philox4x32-10 of the counter (step, r) and the key `seed`
 * ("Parallel Random Numbers: As Easy as 1, 2, 3", Salmon et al. 2011). `options` may be NULL. */
TFM_API tfm_status tfm_sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                              const tfm_sample_options *options);

/* y (n, ...) = x[indices]: it holds those rows of x (R, ...) that `indices` (n) I32 name. x is of any 4-byte dtype. An
 * index that x does not have gives a row of zeros. */
TFM_API tfm_status tfm_gather(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices);

/* y (A..., I..., C...) is x (A..., n, C...) at the indices (I...) I32 of dimension `axis`. A negative axis counts from
 * the end. For the rest it is as tfm_gather, which is the same for axis 0 and indices of one dimension. */
TFM_API tfm_status tfm_gather_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis);

/* y holds the elements of x at the indices, which are I32, along dimension `axis`: with axis 1 of three,
 * y[i, j, k] = x[i, indices[i, j, k], k]. A negative axis counts from the end. x is of any 4-byte dtype. indices has as
 * many dims as x, none of them larger than that of x except the one of the axis, and y has the dims of indices. An
 * index below 0 counts from the end, and one that is not in [-n, n) gives 0, where n is the dim of the axis. y may not
 * share memory with an input. */
TFM_API tfm_status tfm_gather_elements(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis);

/* y is x with its dimensions in another order, as NumPy's transpose gives it: y.dims[i] = x.dims[axes[i]]. axes is a
 * permutation of 0 .. rank - 1. x may be of any dtype. y may not share memory with x. */
TFM_API tfm_status tfm_permute(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes);

/* y holds the `count` inputs, of which there is at least one, one after another along `axis`. A negative axis counts
 * from the end. The other dims of the inputs and their dtypes, which may be any, must be equal. y may not share memory
 * with an input. */
TFM_API tfm_status tfm_concat(tfm_context *ctx, tfm_tensor *y, size_t count, const tfm_tensor *inputs, int axis);

/* A part of a dimension, as Python's start:end:step. A negative start or end counts from the dimension's end; both are
 * then brought into the dimension. A step of 0 means 1. A negative step walks backwards, and with an `end` of INT64_MIN
 * as far as the first element, which is included. */
typedef struct tfm_range {
    int64_t start, end, step;
} tfm_range;

/* The range that is the whole of a dimension. */
#define TFM_WHOLE ((tfm_range){0, INT64_MAX, 1})

/* y = x[range, range, ...], with one range for each dimension of x. A range that holds nothing gives a dim of 0. x may
 * be of any dtype. y may not share memory with x. Rows of the first dimension need no copy: see tfm_tensor_rows. */
TFM_API tfm_status tfm_slice(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_range *ranges);

/* y is x as `dtype`. Both are F32, F16 or BF16, and numbers are rounded to the nearest, ties to even. x may have any
 * dims. y may not share memory with x. */
TFM_API tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype);

typedef struct tfm_cross_entropy_options {
    float
        label_smoothing; /* The share s of each target that is spread over all V: q_i = (1 - s) [i = target] + s / V. */
    float scale;         /* What the gradient is multiplied by, in training 1 / the tokens of the update. 0 means 1. */
    int64_t chunk;  /* Of tfm_linear_cross_entropy alone: how many rows of logits are in memory at a time. 0 means as
                       many as are fast. */
    float soft_cap; /* Logits l count as cap tanh(l / cap) (Gemma 2). 0: as they are. */
    uint64_t reserved[7]; /* Must be 0: room for later fields. */
} tfm_cross_entropy_options;

/* loss (1) is the sum over rows of the cross-entropy of logits (..., V) with targets (...) I32, smoothed as the options
 * say ("Rethinking the Inception Architecture for Computer Vision", Szegedy et al. 2016, section 7). A row with a
 * target outside [0, V) does not count. If `nll` is not NULL, it gets the sum of -log p of the targets (1), from which
 * perplexity is computed; it has no gradient. `options` may be NULL. */
TFM_API tfm_status tfm_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor logits,
                                     tfm_tensor targets, const tfm_cross_entropy_options *options);

/* Does the same for logits = x weight^T + bias, where x is (..., E), weight is (V, E), and bias is (V) or empty; but
 * the logits and their gradient are never all in memory at once. While the tape records, the call makes the gradients
 * at once: weight and bias must themselves be watched, and their gradients are added before tfm_backward is called. The
 * gradient of this loss must therefore be 1, as it is if tfm_backward is given the loss, or a sum of it and others, and
 * no dy; a backward pass that comes to it with another gradient is refused. options->scale scales the gradients. */
TFM_API tfm_status tfm_linear_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor x,
                                            tfm_param *weight, tfm_tensor bias, tfm_tensor targets,
                                            const tfm_cross_entropy_options *options);

/* norm (1) = sqrt(sum x^2) over all elements of x, which may have any dims. It has no backward pass. */
TFM_API tfm_status tfm_l2_norm(tfm_context *ctx, tfm_tensor *norm, tfm_tensor x);

typedef struct tfm_adam_options {
    double learning_rate; /* The learning rate of this step. */
    double beta1, beta2;  /* The decay rates of the moments; the paper has 0.9 and 0.98. */
    double epsilon;       /* What is added to the root of the second moment; the paper has 1e-9. Above 0 as a float. */
    double weight_decay;  /* Weight decay, apart from the gradient: x -= learning_rate weight_decay x. */
    int64_t step;         /* The number t of the step, from 1. */
    double max_grad_norm; /* Gradients are scaled down so that `grad_norm` is at most this. 0 never does so. */
    /* (1): the norm of all gradients, as tfm_l2_norm gives it. If it is not finite, x, m and v stay as they are. May be
     * empty if nothing is clipped. */
    tfm_tensor grad_norm;
    uint64_t reserved[8]; /* Must be 0: room for later fields. */
} tfm_adam_options;

/* Makes one step of Adam on x, or of AdamW if there is a decay ("Adam: A Method for Stochastic Optimization", Kingma
 * and Ba 2015; "Decoupled Weight Decay Regularization", Loshchilov and Hutter 2019). gradient and both moments, m and
 * v, are as large as x. The moments are zeros before the first step, and the call makes the gradient 0 for the next
 * step. The caller adds 1 to the version of each tfm_param whose value lies in x. `options` may not be NULL. */
TFM_API tfm_status tfm_adam(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient, tfm_tensor m, tfm_tensor v,
                            const tfm_adam_options *options);

/* Measures how many fp32 operations in a second the device does at most, in multiply-adds that never leave its
 * registers: the peak that a GEMM is compared with. Takes about a second. */
TFM_API tfm_status tfm_measure_peak_flops(tfm_context *ctx, double *flops);

#ifdef __cplusplus
}
#endif
#endif
