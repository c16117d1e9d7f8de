/* Ops: eager and coarse. Each call checks shapes, enqueues and returns; what waits is tfm_tensor_read and
 * tfm_tensor_write, and the first call of a kernel, which builds it.
 *
 * Outputs come first. An output whose buffer is NULL is made in the current scope; one that is given must have the
 * right dtype and dims and is written in place. Inputs are borrowed. All ops take F32 unless they say otherwise.
 * Status: an op returns the context's sticky status, so a chain of calls may be checked once at its end:
 *
 *     tfm_tensor hidden = {0}, y = {0};
 *     tfm_linear(ctx, &hidden, x, &fc1, fc1_bias, TFM_RELU);
 *     tfm_linear(ctx, &y, hidden, &fc2, fc2_bias, TFM_NO_ACTIVATION);
 *     if (tfm_context_status(ctx) != TFM_OK) ...
 *
 * A shape that does not fit is TFM_ERROR_ARGUMENT with op and shapes in the sentence. Letters: B batch, T target,
 * S source, H heads, D head width, E model width, V vocabulary. */
#ifndef TFM_OPS_H
#define TFM_OPS_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tfm_activation {
    TFM_NO_ACTIVATION,
    TFM_RELU,
    TFM_GELU,      /* x Phi(x), by the error function */
    TFM_GELU_TANH, /* its tanh approximation */
    TFM_SILU,      /* x sigmoid(x), also called swish */
} tfm_activation;

typedef struct tfm_gemm_options {
    bool transpose_a;          /* a is (..., K, M) */
    bool transpose_b;          /* b is (..., N, K) */
    float alpha;               /* 0 means 1 */
    bool accumulate;           /* c += alpha a b: c must be given, and neither bias nor activation */
    tfm_tensor bias;           /* (N), added to every row; may hold -inf; optional */
    tfm_activation activation; /* applied last */
} tfm_gemm_options;

/* c (..., M, N) = activation(alpha a b + bias), a (..., M, K), b (..., K, N). Leading dimensions of a, b and c are a
 * batch and must be equal; a `b` of rank 2 is shared by the batch. `options` may be NULL. */
TFM_API tfm_status tfm_gemm(tfm_context *ctx, tfm_tensor *c, tfm_tensor a, tfm_tensor b, const tfm_gemm_options *options);

/* y (..., N) = activation(x weight^T + bias): x (..., K), weight (N, K), bias (N) or empty. Keeps the weight's packed
 * copy in `weight` for the next call. */
TFM_API tfm_status tfm_linear(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_param *weight, tfm_tensor bias,
                              tfm_activation activation);

/* ---- Providers: who multiplies ----
 *
 * tfm_gemm and tfm_linear take the provider that suits device and shape. To compare them, or to hold on to one:
 *
 *     const char *why;
 *     for (size_t i = 0; tfm_gemm_provider(i); i++)
 *         if (tfm_gemm_by(ctx, tfm_gemm_provider(i), &why, &c, a, b, NULL) == TFM_OK && why)
 *             printf("%s declined: %s\n", tfm_gemm_provider(i), why); */

/* The name of a provider, counted from 0, best for few rows first: "small", "packed", "plain", "clblast". NULL behind the
 * last. Static. */
TFM_API const char *tfm_gemm_provider(size_t index);

/* The provider that tfm_gemm takes on this device for m x n x k, no batch and no transposes; static. NULL after a
 * failure. */
TFM_API const char *tfm_gemm_chosen(tfm_context *ctx, int64_t m, int64_t n, int64_t k);

/* tfm_gemm and tfm_linear by this provider and no other; NULL: the chosen one. *declined is NULL if it ran, else half a
 * sentence that says why it cannot, static: then nothing was computed, and the context stays as it is. A name that no
 * provider has is TFM_ERROR_ARGUMENT. */
TFM_API tfm_status tfm_gemm_by(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *c, tfm_tensor a,
                               tfm_tensor b, const tfm_gemm_options *options);
TFM_API tfm_status tfm_linear_by(tfm_context *ctx, const char *provider, const char **declined, tfm_tensor *y,
                                 tfm_tensor x, tfm_param *weight, tfm_tensor bias, tfm_activation activation);

/* y (..., N) = softmax of x over the last dimension. A row of -inf alone gives zeros. y may be x. */
TFM_API tfm_status tfm_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* y (..., N) = x - log sum exp x over the last dimension; a row of -inf alone gives -inf. y may be x. */
TFM_API tfm_status tfm_log_softmax(tfm_context *ctx, tfm_tensor *y, tfm_tensor x);
/* The same two over dimension `axis` of x; a negative one counts from the end, -1 is the last. */
TFM_API tfm_status tfm_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);
TFM_API tfm_status tfm_log_softmax_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, int axis);

/* What dropout draws: the same options draw the same, on the same device, so a backward pass repeats its forward. Count
 * `stream` up from call to call. */
typedef struct tfm_dropout_options {
    float rate;      /* the chance of an element to become 0, less than 1; the others are divided by 1 - rate */
    uint64_t seed;
    uint64_t stream;
} tfm_dropout_options;

/* y = x, some elements 0 and the others larger ("Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
 * Srivastava et al. 2014), drawn by Philox4x32-10 from seed, stream, row and column. Any dims. y may be x. `dropout` may
 * be NULL for none. */
TFM_API tfm_status tfm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_dropout_options *dropout);

/* y (..., E) = (s - mean s) / sqrt(var s + epsilon) * gamma + beta over the last dimension, s = x + residual ("Layer
 * Normalization", Ba et al. 2016; biased variance). residual: same dims as x, or empty. gamma, beta: (E) or empty for
 * 1 and 0. sum: if not NULL also gets s (the next residual of a pre-norm block). y and sum may be x or residual. */
TFM_API tfm_status tfm_layernorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                                 tfm_tensor gamma, tfm_tensor beta, float epsilon);
/* The same with s = x + dropout(branch), as in training ("Attention Is All You Need", section 5.4). branch: same dims as
 * x. `dropout` may be NULL for none. */
TFM_API tfm_status tfm_layernorm_dropout(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x,
                                         tfm_tensor branch, tfm_tensor gamma, tfm_tensor beta, float epsilon,
                                         const tfm_dropout_options *dropout);
/* The same without a residual over the trailing dimensions of x from `axis` on, all of them together; a negative axis
 * counts from the end. gamma, beta: those trailing dims of x, or empty. mean, inv_std: if not NULL also get the mean
 * and 1 / sqrt(var + epsilon), with x's dims but 1 from `axis` on. y may be x. */
TFM_API tfm_status tfm_layernorm_axes(tfm_context *ctx, tfm_tensor *y, tfm_tensor *mean, tfm_tensor *inv_std,
                                      tfm_tensor x, tfm_tensor gamma, tfm_tensor beta, int axis, float epsilon);

/* y = s / sqrt(mean s^2 + epsilon) * gamma over the trailing dimensions from `axis` on (negative: from the end),
 * s = x + residual ("Root Mean Square Layer Normalization", Zhang and Sennrich 2019). residual: same dims as x, or empty.
 * gamma: those trailing dims of x, or empty for 1. sum: if not NULL also gets s. y and sum may be x or residual. */
TFM_API tfm_status tfm_rmsnorm(tfm_context *ctx, tfm_tensor *y, tfm_tensor *sum, tfm_tensor x, tfm_tensor residual,
                               tfm_tensor gamma, int axis, float epsilon);

/* y = activation(x), any dims. y may be x. */
TFM_API tfm_status tfm_activate(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_activation activation);

typedef enum tfm_glu_layout {
    TFM_GLU_GATE_FIRST, /* the gate in the first half of each row: the paper */
    TFM_GLU_GATE_LAST,  /* in the second half */
} tfm_glu_layout;

/* y = activation(gate) * x: GEGLU with TFM_GELU, SwiGLU with TFM_SILU, ReGLU with TFM_RELU, bilinear with none ("GLU
 * Variants Improve Transformer", Shazeer 2020). With a gate of x's dims y has them too, and may be x or gate; `layout`
 * is then not looked at. With an empty gate x is (..., 2E), one product with both matrices, and y (..., E). */
TFM_API tfm_status tfm_glu(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor gate, tfm_activation activation,
                           tfm_glu_layout layout);

/* y = a + b. Dims broadcast as in NumPy: aligned at the last, a dim of 1 (or a missing one) repeats. y may be a or b if
 * that has y's dims. */
TFM_API tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* y (..., E) = scale table[ids] + positions[p]: table (V, E), ids (..., T) I32 in [0, V). positions (P, E) or empty;
 * p = first + index within the last dimension of ids, and first + T <= P. An id outside the table gives a row of NaN
 * rather than a read outside it. */
TFM_API tfm_status tfm_embedding(tfm_context *ctx, tfm_tensor *y, tfm_tensor table, tfm_tensor ids, float scale,
                                 tfm_tensor positions, int64_t first);

typedef enum tfm_sinusoid_layout {
    TFM_SINUSOID_INTERLEAVED, /* sin in even columns, cos in odd ones: the paper, section 3.5 */
    TFM_SINUSOID_SPLIT,       /* sin in the first ceil(E/2) columns, cos in the others: Marian */
} tfm_sinusoid_layout;

/* table (P, E) with PE(p, 2i) = sin(p / 10000^(2i/E)), PE(p, 2i+1) = cos of the same ("Attention Is All You Need",
 * section 3.5). P and E from dims of `table` if given, else from the arguments. Computed in double precision. */
TFM_API tfm_status tfm_sinusoid(tfm_context *ctx, tfm_tensor *table, int64_t positions, int64_t width,
                                tfm_sinusoid_layout layout);

typedef struct tfm_rotary_options {
    int heads;            /* H; needed for 3-D x, else 0 */
    bool interleaved;     /* pairs are (0, 1), (2, 3), ...; otherwise (0, R/2), (1, R/2 + 1), ... */
    tfm_tensor positions; /* (B, T) I32 in [0, P): the row of the tables for each token; empty: first + t */
    int64_t first;        /* position of the first token, where there is a past */
} tfm_rotary_options;

/* Rotary position embedding ("RoFormer", Su et al. 2021): each pair (a, b) of a head's first R columns becomes
 * (a cos - b sin, a sin + b cos), the columns from R on stay. x (B, T, H D) or (B, H, T, D), y like x and may be x.
 * cosines, sines (P, R/2), a row a position; or (B, T, R/2), a row a token, without positions. R <= D. A position
 * outside the tables gives a head of NaN rather than a read outside them. `options` may be NULL for 4-D x. */
TFM_API tfm_status tfm_rotary(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor cosines, tfm_tensor sines,
                              const tfm_rotary_options *options);

/* The tables for it: cosines, sines (P, R/2) of p / base^(2i/R). P and R are the arguments; base 0 means 10000. Computed
 * in double precision. */
TFM_API tfm_status tfm_rotary_tables(tfm_context *ctx, tfm_tensor *cosines, tfm_tensor *sines, int64_t positions,
                                     int64_t width, float base);

/* Where the scores of attention may be looked at, in natural units. */
typedef enum tfm_attention_stage {
    TFM_ATTENTION_WEIGHTS, /* after the softmax: what values are multiplied by; zeros for a query that sees nothing */
    TFM_ATTENTION_PRODUCT, /* scale q k^T, of every key that there is, seen or not */
    TFM_ATTENTION_CAPPED,  /* after the soft cap, which is the same without one */
    TFM_ATTENTION_MASKED,  /* after the mask; -inf where a query does not see a key */
} tfm_attention_stage;

/* What a query sees: all keys, but for those that one of lengths, causal, window and mask hides. A key that a query
 * does not see changes nothing of its y, NaN though it be; in the backward pass NaN and infinities do harm, but for those
 * behind the lengths. */
typedef struct tfm_attention_options {
    int heads;          /* H; needed for 3-D inputs, else 0 */
    int kv_heads;       /* Hk, a divisor of H; 0 means H */
    float scale;        /* 0 means 1/sqrt(dk) */
    float soft_cap;     /* c: scores become c tanh(score / c), before the mask; 0: none */
    bool causal;        /* query i sees keys j <= i + past */
    int64_t past;       /* keys that come before the first query; negative: the first queries come before the first key */
    bool at_end;        /* each sequence's last query stands at its last key: its past is its length (or S) - T. past is 0 */
    bool window;        /* query i sees keys i + past - before <= j <= i + past + after, so only itself where these are 0; */
    int64_t before;     /* a negative one is no limit on its side */
    int64_t after;
    tfm_tensor mask;    /* broadcast to (B, H, T, S) as in NumPy, of rank 1 to 4. F32, F16 or BF16: added to the scores, and
                           -inf hides; U8: 0 hides. If its last dim is neither 1 nor S but less, the keys behind are hidden.
                           Empty: none */
    tfm_tensor lengths; /* (N) I32: keys visible in each sequence, the rest is padding; empty: all S */
    tfm_tensor rows;    /* (B, S) I32: key s of sequence b is row rows[b, s] of k (R, Hk dk) and of v (R, Hk dv): a cache
                           shared by beams is read where it lies; empty: k and v are (B, S, ...) themselves */
    tfm_tensor sources; /* (B) I32: query sequence b reads key and length sequence sources[b] of the N that k, v and
                           lengths hold (beams of one source share it); empty: b itself, and N = B */
    tfm_tensor *scores; /* if not NULL also gets the scores (B, H, T, S) F32 of `stage`, by kernels of their own that are
                           slower than the rest */
    tfm_attention_stage stage;
    tfm_tensor *log_sum; /* if not NULL also gets log sum_s e^score (B, H, T) F32 of what each query sees, after soft cap and
                            mask; -inf where it sees nothing */
    const tfm_dropout_options *dropout; /* of the weights, in training: y gets those that are left over 1 - rate, as drawn from
                                           seed, stream, b, h, t and s, on every device alike. `scores` and `log_sum` are of
                                           all weights. NULL: none */
} tfm_attention_options;

/* y = dropout(softmax(mask + soft cap(scale q k^T))) v, fused: no T x S matrix in memory. q (B, T, H dk), k (N, S, Hk dk),
 * v (N, S, Hk dv), y (B, T, H dv); or all 4-D: q (B, H, T, dk), k (N, Hk, S, dk), v (N, Hk, S, dv), y (B, H, T, dv). With
 * `rows`, k is (R, Hk dk) and v (R, Hk dv). N is B unless `sources` says otherwise. T and S are less than 2^29. q, k and v
 * are of one dtype, F32, F16 or BF16, and sums are in fp32; y is F32, or, if a y of their dtype is given, rounded to that. A
 * query that sees nothing gives zeros. `options` may be NULL for 4-D inputs. "Attention Is All You Need", section 3.2; the
 * order of soft cap and mask is that of ONNX's Attention. */
TFM_API tfm_status tfm_attention(tfm_context *ctx, tfm_tensor *y, tfm_tensor q, tfm_tensor k, tfm_tensor v,
                                 const tfm_attention_options *options);

/* ---- Classical attention of sequence-to-sequence models ----
 *
 * Scores, weights and context one by one; with TFM_NO_ACTIVATION projections and keys projected once for all steps:
 *
 *     tfm_score_additive(ctx, &weights, wq, uk, v);   or tfm_score_general, or a score of your own
 *     tfm_align(ctx, &weights, weights, &(tfm_align_options){.lengths = lengths});
 *     tfm_gemm(ctx, &context, weights, values, NULL);   (B, T, S) by (B, S, dv) */

/* scores (B, T, S) = sum_a v[a] tanh(q[b, t, a] + k[b, s, a]): q (B, T, A), k (B, S, A), the projections Wq and Uk with
 * their biases, v (A). No (B, T, S, A) in memory. "Neural Machine Translation by Jointly Learning to Align and
 * Translate", Bahdanau et al. 2015, A.1.2; "concat" in Luong et al. 2015. Has no backward pass. */
TFM_API tfm_status tfm_score_additive(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_tensor k, tfm_tensor v);

/* scores (B, T, S) = (weight q) . k: q (B, T, dq), k (B, S, dk), weight (dk, dq), the transpose of the paper's W in
 * q^T W k; without a weight (NULL) the dot product, dq = dk. Not scaled. Keeps the weight's packed copy in `weight`.
 * "Effective Approaches to Attention-based Neural Machine Translation", Luong et al. 2015, section 3.1. */
TFM_API tfm_status tfm_score_general(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_param *weight, tfm_tensor k);

typedef struct tfm_align_options {
    tfm_tensor lengths; /* (B) I32: keys of each sequence, the rest is padding; empty: all S */
    int64_t window;     /* D: query t sees keys s with |p - s| <= D; 0: all, global attention */
    int64_t past;       /* p = t + past: local-m */
    tfm_tensor centers; /* (B, T) F32: p of each query, local-p: the weights are then multiplied by
                           exp(-(s - p)^2 / (2 (D/2)^2)); a NaN gives NaN; empty: t + past */
} tfm_align_options;

/* weights (B, T, S) = softmax of scores (B, T, S) over the keys that a query sees, zeros elsewhere; S <= 2^24. A query
 * that sees nothing gives zeros. weights may be scores. `options` may be NULL. Luong et al. 2015, sections 3.1 and 3.2. */
TFM_API tfm_status tfm_align(tfm_context *ctx, tfm_tensor *weights, tfm_tensor scores, const tfm_align_options *options);

/* The k largest of each row, largest first, equal ones by lower index: x (R, N) to values (R, k) F32 and indices
 * (R, k) I32, 1 <= k <= min(N, 64). log_sum: if not NULL, (R), log sum exp of the row. NaN counts as -inf. */
TFM_API tfm_status tfm_topk(tfm_context *ctx, tfm_tensor *values, tfm_tensor *indices, tfm_tensor *log_sum, tfm_tensor x,
                            int k);

typedef struct tfm_sample_options {
    float temperature; /* logits are divided by it; 0 means 1 */
    int top_k;         /* only the k largest may be drawn; 0: all */
    float top_p;       /* of those, only the fewest largest whose probabilities add up to p; 0 means 1: all */
    uint64_t seed;     /* equal seeds and steps draw equally, on every device but for roundings */
    uint64_t step;     /* which draw of the seed's stream: count it up from token to token */
} tfm_sample_options;

/* Draws one index of each row of logits (R, V), V <= 2^24, from softmax(logits / temperature) within top k and top p
 * ("The Curious Case of Neural Text Degeneration", Holtzman et al. 2020): ids (R) I32. Of equal logits the ones with
 * lower indices stay within; NaN counts as -inf; a row with nothing above -inf gives -1. probabilities: if not NULL, (R),
 * the chance that the drawn one had. Row r's random number is Philox4x32-10 of counter (step, r) and key seed ("Parallel
 * Random Numbers: As Easy as 1, 2, 3", Salmon et al. 2011). `options` may be NULL. */
TFM_API tfm_status tfm_sample(tfm_context *ctx, tfm_tensor *ids, tfm_tensor *probabilities, tfm_tensor logits,
                              const tfm_sample_options *options);

/* y (n, ...) = x[indices]: rows of x (R, ...) of any 4-byte dtype, indices (n) I32. An index outside gives zeros. */
TFM_API tfm_status tfm_gather(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices);

/* y (A..., I..., C...) = x (A..., n, C...) at the indices I32 (I...) of dimension `axis`; a negative axis counts from the
 * end. For the rest as tfm_gather, which it is for axis 0 and indices of one dimension. */
TFM_API tfm_status tfm_gather_axis(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices, int axis);

/* y = x with its dimensions in another order, NumPy's transpose: y.dims[i] = x.dims[axes[i]], axes a permutation of
 * 0 .. rank - 1. Any dtype. y may not share memory with x. */
TFM_API tfm_status tfm_permute(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes);

/* y = the `count` inputs one behind the other along `axis` (negative: from the end), whose other dims and dtypes must be
 * equal. Any dtype. y may not share memory with an input. */
TFM_API tfm_status tfm_concat(tfm_context *ctx, tfm_tensor *y, size_t count, const tfm_tensor *inputs, int axis);

/* Part of a dimension, Python's start:end:step. A negative start or end counts from the dimension's end; both are then
 * brought into the dimension. step 0 means 1; a negative step walks backwards, and with an `end` of INT64_MIN to the
 * first element included. */
typedef struct tfm_range {
    int64_t start, end, step;
} tfm_range;
#define TFM_WHOLE ((tfm_range){0, INT64_MAX, 1})

/* y = x[range, range, ...], one range for each dimension of x; none may be empty. Any dtype. y may not share memory with
 * x. Rows of the first dimension need no copy: tfm_tensor_rows. */
TFM_API tfm_status tfm_slice(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const tfm_range *ranges);

/* y = x as another dtype among F32, F16, BF16; round to nearest even. Any dims. */
TFM_API tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype);

typedef struct tfm_cross_entropy_options {
    float smoothing; /* the share of each target that is spread over all V: q_i = (1 - s) [i = target] + s / V */
    float scale;     /* of the gradient; 0 means 1. Training has 1 / the tokens of the update */
    int64_t chunk;   /* rows whose logits are there at a time; 0: as many as are fast */
} tfm_cross_entropy_options;

/* loss (1) = the sum over rows of the cross-entropy of logits (..., V) with targets (...) I32, smoothed ("Rethinking the
 * Inception Architecture for Computer Vision", Szegedy et al. 2016, section 7). A row with a target outside [0, V) does
 * not count. nll: if not NULL, (1), the sum of -log p of the targets, of which perplexity is made; it has no gradient.
 * `options` may be NULL. */
TFM_API tfm_status tfm_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor logits,
                                     tfm_tensor targets, const tfm_cross_entropy_options *options);

/* The same of logits = x weight^T + bias: x (..., E), weight (V, E), bias (V) or empty; but the logits, or their gradient,
 * are never all in memory. While the tape records, the gradients are made at once: weight and bias must be watched
 * themselves, and theirs are added before tfm_backward is called. So the gradient of this loss must be 1, as where
 * tfm_backward is given the loss, or a sum with others, and no dy; a pass that comes by with another is refused. To scale
 * the gradients there is options->scale. */
TFM_API tfm_status tfm_linear_cross_entropy(tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor x,
                                            tfm_param *weight, tfm_tensor bias, tfm_tensor targets,
                                            const tfm_cross_entropy_options *options);

/* norm (1) = sqrt(sum x^2) over all of x, any dims. */
TFM_API tfm_status tfm_l2_norm(tfm_context *ctx, tfm_tensor *norm, tfm_tensor x);

typedef struct tfm_adam_options {
    double rate;         /* the learning rate of this step */
    double beta1, beta2; /* the paper's training has 0.9 and 0.98 */
    double epsilon;      /* and 1e-9; larger than 0 as a float */
    double decay;        /* of the weights, apart from the gradient: x -= rate decay x */
    int64_t step;        /* t, from 1 */
    double clip;         /* gradients are scaled so that `norm` becomes at most this; 0: never */
    tfm_tensor norm;     /* (1), of all gradients: tfm_l2_norm. If it is not finite, x, m and v stay as they are.
                            May be empty where nothing is clipped */
} tfm_adam_options;

/* One step of Adam, or AdamW with a decay, on x with its gradient and both moments m and v, all of one size and zero
 * before the first step; the gradient becomes 0 for the next ("Adam: A Method for Stochastic Optimization", Kingma and Ba
 * 2015; "Decoupled Weight Decay Regularization", Loshchilov and Hutter 2019). A tfm_param whose value lies in x gets
 * version + 1 by the caller. */
TFM_API tfm_status tfm_adam(tfm_context *ctx, tfm_tensor x, tfm_tensor gradient, tfm_tensor m, tfm_tensor v,
                            const tfm_adam_options *options);

#ifdef __cplusplus
}
#endif
#endif
