/* What families' blocks differ in, each option alone and all together, against formulas in double precision: norms
 * around sub-layers, on their results or none, parallel sub-layers, norms of heads, rotation, windows, biases of
 * scores, their scale and cap, gates, grouped keys. And a sequence that comes in pieces, over the log of keys and
 * values, against the whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/nn.h"

enum { B = 2, T = 7, E = 20, HEADS = 4, KV_HEADS = 2, D = 6, R = 4, F = 11 };
static harness_random numbers = {7};

/* ---- Random blocks --------------------------------------------------------------------------------- */

typedef struct options {
    const char *name;
    tfm_norm_placement place;
    tfm_norm_kind kind;
    bool unnormed, head_norms, joint, own, rope, window, causal, biased, gated, parallel;
    float scale, cap, residual;
} options;

static tfm_param param(int64_t rows, int64_t columns, float scale, float shift) {
    const int64_t dims[] = {rows, columns}, count = rows * (columns ? columns : 1);
    float *host = calloc((size_t)count, sizeof(*host));
    assert_non_null(host);
    harness_fill(&numbers, host, (size_t)count, scale);
    for (int64_t i = 0; i < count; i++)
        host[i] += shift;
    const tfm_param made = {.value = harness_tensor(TFM_F32, columns ? 2 : 1, dims, host)};
    free(host);
    return made;
}

static tfm_dense dense(int64_t outputs, int64_t inputs) {
    return (tfm_dense){param(outputs, inputs, 0.3f, 0), param(outputs, 0, 0.3f, 0)};
}

static tfm_norm norm(int64_t width, tfm_norm_kind kind) {
    tfm_norm made = {.gamma = param(width, 0, 0.3f, 1), .epsilon = 0.05f, .kind = kind};
    if (kind == TFM_NORM_LAYER)
        made.beta = param(width, 0, 0.3f, 0);
    return made;
}

/* Of each of `heads` heads. */
static tfm_norm norm_of_heads(const options *o, int heads) {
    return o->own ? (tfm_norm){.gamma = param(heads, D, 0.3f, 1), .epsilon = 0.05f, .kind = TFM_NORM_LAYER}
                  : norm(o->joint ? heads * D : D, TFM_NORM_RMS);
}

static tfm_block block_of(const options *o) {
    tfm_block block = {.attention = {dense(HEADS * D, E), dense(KV_HEADS * D, E), dense(KV_HEADS * D, E),
                                     dense(E, HEADS * D), .heads = HEADS, .kv_heads = KV_HEADS, .scale = o->scale,
                                     .soft_cap = o->cap},
                       .attention_norm = o->unnormed ? (tfm_norm){.kind = TFM_NORM_NONE} : norm(E, o->kind),
                       .feed_forward = {.up = dense(F, E), .down = dense(E, F), .activation = TFM_SILU},
                       .feed_forward_norm = norm(E, o->kind),
                       .causal = o->causal,
                       .window = o->window,
                       .window_left = 2,
                       .window_right = o->causal ? 0 : 1,
                       .norm_placement = o->place,
                       .parallel_residual = o->parallel,
                       .residual_scale = o->residual};
    if (o->gated)
        block.feed_forward.gate = dense(F, E);
    if (o->head_norms) {
        block.attention.query_norm = norm_of_heads(o, HEADS);
        block.attention.key_norm = norm_of_heads(o, KV_HEADS);
    }
    if (o->place == TFM_NORM_SANDWICH) {
        block.attention_post_norm = norm(E, o->kind);
        block.feed_forward_post_norm = norm(E, o->kind);
    }
    return block;
}

/* ---- The oracle: one token's row at a time --------------------------------------------------------- */

static void dense_row(const tfm_dense *layer, double *y, const double *x) {
    const int64_t outputs = layer->weight.value.dims[0], inputs = layer->weight.value.dims[1];
    float *w = harness_floats(layer->weight.value), *bias = harness_floats(layer->bias.value);
    for (int64_t n = 0; n < outputs; n++) {
        y[n] = (double)bias[n];
        for (int64_t k = 0; k < inputs; k++)
            y[n] += (double)w[n * inputs + k] * x[k];
    }
    free(w);
    free(bias);
}

/* y = norm(x) over `width` columns, with one row of gammas; y may be x. */
static void norm_by(const tfm_norm *layer, int row, double *y, const double *x, int width) {
    double mean = 0, square = 0;
    if (layer->kind == TFM_NORM_NONE) {
        memmove(y, x, (size_t)width * sizeof(*y));
        return;
    }
    float *gamma = harness_floats(layer->gamma.value);
    float *beta = layer->beta.value.buffer ? harness_floats(layer->beta.value) : NULL;
    for (int i = 0; i < width && layer->kind == TFM_NORM_LAYER; i++)
        mean += x[i] / width;
    for (int i = 0; i < width; i++)
        square += (x[i] - mean) * (x[i] - mean) / width;
    for (int i = 0; i < width; i++)
        y[i] = (x[i] - mean) / sqrt(square + (double)layer->epsilon) * (double)gamma[row * width + i] +
               (beta ? (double)beta[i] : 0);
    free(gamma);
    free(beta);
}

static void norm_row(const tfm_norm *layer, double *y, const double *x, int width) {
    norm_by(layer, 0, y, x, width);
}

static double angle_of(int64_t position, int pair) {
    return (double)position * (pair ? 0.3 : 1.1);
}

/* Heads of one token, after QK norm and RoPE. */
static void place(const options *o, double *x, int heads, const tfm_norm *own, int64_t position) {
    if (o->head_norms && o->joint)
        norm_row(own, x, x, heads * D);
    for (int h = 0; h < heads; h++, x += D) {
        if (o->head_norms && !o->joint)
            norm_by(own, o->own ? h : 0, x, x, D);
        for (int i = 0; i < R / 2 && o->rope; i++) {
            const double a = x[i], b = x[R / 2 + i], c = cos(angle_of(position, i)), s = sin(angle_of(position, i));
            x[i] = a * c - b * s;
            x[R / 2 + i] = a * s + b * c;
        }
    }
}

static double bias_of(const options *o, int head, int64_t t, int64_t s) {
    return o->biased ? 0.25 * (head + 1) * sin((double)(3 * t - 2 * s + head)) : 0;
}

/* Adds a sub-layer's result to its residual *x. */
static void join(const options *o, double *x, double *y, const tfm_norm *own, const tfm_norm *after) {
    if (o->place == TFM_NORM_SANDWICH || o->place == TFM_NORM_POST_SUBLAYER)
        norm_row(o->place == TFM_NORM_SANDWICH ? after : own, y, y, E);
    for (int i = 0; i < E; i++)
        x[i] += (o->residual != 0 ? (double)o->residual : 1) * y[i];
    if (o->place == TFM_NORM_POST)
        norm_row(own, x, x, E);
}

/* Attention of one sequence: mixed[t] from queries, keys and values. */
static void attend(const options *o, const tfm_block *block, double mixed[T][HEADS * D], double q[T][HEADS * D],
                   double k[T][KV_HEADS * D], double v[T][KV_HEADS * D]) {
    const double scale = o->scale != 0 ? (double)o->scale : 1 / sqrt(D), cap = (double)o->cap;
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++) {
            const int kv = h / (HEADS / KV_HEADS);
            double weight[T] = {0}, sum = 0;
            for (int s = 0; s < T; s++) {
                const bool hidden =
                    (o->causal && s > t) || (o->window && (s < t - block->window_left || s > t + block->window_right));
                double score = 0;
                for (int d = 0; d < D; d++)
                    score += scale * q[t][h * D + d] * k[s][kv * D + d];
                score = (cap != 0 ? cap * tanh(score / cap) : score) + bias_of(o, h, t, s);
                weight[s] = hidden ? 0 : exp(score);
                sum += weight[s];
            }
            for (int d = 0; d < D; d++) {
                mixed[t][h * D + d] = 0;
                for (int s = 0; s < T; s++)
                    mixed[t][h * D + d] += weight[s] / sum * v[s][kv * D + d];
            }
        }
}

/* The block over one sequence, in place. */
static void run(const options *o, const tfm_block *block, double x[T][E]) {
    double q[T][HEADS * D], k[T][KV_HEADS * D], v[T][KV_HEADS * D], mixed[T][HEADS * D], in[E], y[E], up[F], gate[F];
    const bool reads_norm = o->place == TFM_NORM_PRE || o->place == TFM_NORM_SANDWICH;
    for (int t = 0; t < T; t++) {
        norm_row(reads_norm ? &block->attention_norm : &(tfm_norm){.kind = TFM_NORM_NONE}, in, x[t], E);
        dense_row(&block->attention.query, q[t], in);
        dense_row(&block->attention.key, k[t], in);
        dense_row(&block->attention.value, v[t], in);
        place(o, q[t], HEADS, &block->attention.query_norm, t);
        place(o, k[t], KV_HEADS, &block->attention.key_norm, t);
    }
    attend(o, block, mixed, q, k, v);
    for (int t = 0; t < T; t++) {
        double before[E];
        memcpy(before, x[t], sizeof(before));
        dense_row(&block->attention.out, y, mixed[t]);
        join(o, x[t], y, &block->attention_norm, &block->attention_post_norm);
        norm_row(reads_norm ? &block->feed_forward_norm : &(tfm_norm){.kind = TFM_NORM_NONE}, in,
                 o->parallel ? before : x[t], E);
        dense_row(&block->feed_forward.up, up, in);
        if (o->gated)
            dense_row(&block->feed_forward.gate, gate, in);
        for (int i = 0; i < F; i++) {
            const double a = o->gated ? gate[i] : up[i], silu = a / (1 + exp(-a));
            up[i] = o->gated ? silu * up[i] : silu;
        }
        dense_row(&block->feed_forward.down, y, up);
        join(o, x[t], y, &block->feed_forward_norm, &block->feed_forward_post_norm);
    }
}

/* ---- Both ------------------------------------------------------------------------------------------ */

/* RoPE tables, and the bias (H, rows, columns) of queries from `first` on. */
static void set_places(const options *o, tfm_block_inputs *memory, int64_t first, int64_t rows, int64_t columns) {
    float cosines[T * R / 2], sines[T * R / 2], bias[HEADS * T * T];
    for (int i = 0; i < T * R / 2; i++) {
        cosines[i] = (float)cos(angle_of(i / (R / 2), i % (R / 2)));
        sines[i] = (float)sin(angle_of(i / (R / 2), i % (R / 2)));
    }
    for (int64_t i = 0; i < HEADS * rows * columns; i++)
        bias[i] = (float)bias_of(o, (int)(i / (rows * columns)), first + i / columns % rows, i % columns);
    if (o->rope) {
        memory->cosines = HARNESS_TENSOR(TFM_F32, cosines, T, R / 2);
        memory->sines = HARNESS_TENSOR(TFM_F32, sines, T, R / 2);
        memory->position = first;
    }
    if (o->biased)
        memory->attention_bias = HARNESS_TENSOR(TFM_F32, bias, HEADS, rows, columns);
}

/* The same in chunks of 3, 1, 2 and 1 tokens. */
static void run_pieces(const options *o, tfm_block *block, const float *x, const double *want) {
    static const int PIECES[] = {3, 1, 2, 1};
    tfm_context *ctx = harness_context();
    tfm_kv_cache cache = {0};
    int32_t rows[B][T];
    int first = 0;
    harness_ok(tfm_kv_cache_new(ctx, &cache, 1, KV_HEADS * D, B * T));
    for (size_t i = 0; i < sizeof(PIECES) / sizeof(PIECES[0]); first += PIECES[i++]) {
        const int count = PIECES[i];
        float part[B * T * E];
        double expected[B * T * E];
        int32_t table[B * T];
        for (int b = 0; b < B; b++) {
            for (int t = 0; t < count; t++)
                rows[b][first + t] = (int32_t)cache.slots + b * count + t;
            memcpy(part + b * count * E, x + (b * T + first) * E, (size_t)(count * E) * sizeof(*x));
            memcpy(expected + b * count * E, want + (b * T + first) * E, (size_t)(count * E) * sizeof(*want));
            memcpy(table + b * (first + count), rows[b], (size_t)(first + count) * sizeof(*table));
        }
        tfm_tensor y = {0};
        tfm_scope_open(ctx);
        tfm_block_inputs memory = {.cache_kv = cache.kv[0],
                                   .kv_indices = HARNESS_TENSOR(TFM_I32, table, B, first + count)};
        set_places(o, &memory, first, count, first + count);
        harness_ok(tfm_tensor_rows(ctx, &memory.new_kv.keys, memory.cache_kv.keys, cache.slots, B * count));
        harness_ok(tfm_tensor_rows(ctx, &memory.new_kv.values, memory.cache_kv.values, cache.slots, B * count));
        harness_ok(tfm_block_forward(ctx, &y, block, HARNESS_TENSOR(TFM_F32, part, B, count, E), &memory));
        float *got = harness_floats(y);
        harness_close(got, expected, (size_t)(B * count * E), 3e-5, "a piece");
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        cache.slots += B * count;
    }
    tfm_kv_cache_free(ctx, &cache);
}

static void check(const options *o) {
    tfm_context *ctx = harness_context();
    float x[B * T * E];
    double want[B * T * E];
    tfm_block block = block_of(o);
    tfm_block_inputs memory = {.lengths = {0}};
    tfm_tensor y = {0};
    harness_fill(&numbers, x, B * T * E, 1);
    for (int i = 0; i < B * T * E; i++)
        want[i] = (double)x[i];
    for (int b = 0; b < B; b++)
        run(o, &block, (double(*)[E])(want + b * T * E));
    tfm_scope_open(ctx);
    set_places(o, &memory, 0, T, T);
    harness_ok(tfm_block_forward(ctx, &y, &block, HARNESS_TENSOR(TFM_F32, x, B, T, E), &memory));
    float *got = harness_floats(y);
    harness_close(got, want, B * T * E, 3e-5, o->name);
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    if (o->causal)
        run_pieces(o, &block, x, want);
    tfm_block_free(ctx, &block);
}

static void test_block_options_match_double_precision(void **state) {
    static const options ALL[] = {
        {.name = "sandwich layer norms", .place = TFM_NORM_SANDWICH, .causal = true},
        {.name = "no norm before attention, a two-sided window",
         .place = TFM_NORM_PRE,
         .unnormed = true,
         .window = true,
         .gated = true},
        {.name = "QK norm, RoPE",
         .place = TFM_NORM_PRE,
         .kind = TFM_NORM_RMS,
         .head_norms = true,
         .rope = true,
         .causal = true},
        {.name = "QK norm", .place = TFM_NORM_POST, .head_norms = true, .causal = true},
        {.name = "a QK norm per head", .place = TFM_NORM_POST, .head_norms = true, .own = true, .causal = true},
        {.name = "a QK norm per head, RoPE",
         .place = TFM_NORM_PRE,
         .head_norms = true,
         .own = true,
         .rope = true,
         .causal = true},
        {.name = "relative position bias of an encoder", .place = TFM_NORM_POST, .biased = true, .scale = 1},
        {.name = "norms on sub-layer results, QK norm over all heads",
         .place = TFM_NORM_POST_SUBLAYER,
         .kind = TFM_NORM_RMS,
         .head_norms = true,
         .joint = true,
         .rope = true,
         .causal = true,
         .gated = true},
        {.name = "parallel sub-layers, scaled",
         .place = TFM_NORM_PRE,
         .causal = true,
         .parallel = true,
         .residual = 0.6f},
        {.name = "scaled", .place = TFM_NORM_PRE, .kind = TFM_NORM_RMS, .causal = true, .residual = 1.7f},
        {.name = "all",
         .place = TFM_NORM_SANDWICH,
         .kind = TFM_NORM_RMS,
         .head_norms = true,
         .rope = true,
         .window = true,
         .causal = true,
         .biased = true,
         .gated = true,
         .scale = 0.7f,
         .cap = 1.5f},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(ALL) / sizeof(ALL[0]); i++)
        check(&ALL[i]);
}

/* Without a norm y is the input plus the residual. */
static void test_norm_none_is_identity_with_residual(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_norm none = {.kind = TFM_NORM_NONE};
    float x[6], residual[6];
    double plain[6], joined[6];
    tfm_tensor y = {0}, z = {0}, sum = {0};
    harness_fill(&numbers, x, 6, 1);
    harness_fill(&numbers, residual, 6, 1);
    for (int i = 0; i < 6; i++) {
        plain[i] = (double)x[i];
        joined[i] = (double)x[i] + (double)residual[i];
    }
    tfm_scope_open(ctx);
    const tfm_tensor tx = HARNESS_TENSOR(TFM_F32, x, 2, 3), tr = HARNESS_TENSOR(TFM_F32, residual, 2, 3);
    harness_ok(tfm_norm_forward(ctx, &y, NULL, &none, tx, (tfm_tensor){0}));
    harness_ok(tfm_norm_forward(ctx, &z, &sum, &none, tx, tr));
    float *const got[] = {harness_floats(y), harness_floats(z), harness_floats(sum)};
    harness_close(got[0], plain, 6, 0, "no norm");
    harness_close(got[1], joined, 6, 1e-6, "no norm with a residual");
    harness_close(got[2], joined, 6, 1e-6, "its sum");
    for (int i = 0; i < 3; i++)
        free(got[i]);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Parallel sub-layers need pre-norms; cross-attention has no post-norm and no scale. */
static void test_block_rejects_incompatible_options(void **state) {
    (void)state;
    const options cases[] = {{.name = "post-norm", .place = TFM_NORM_POST, .parallel = true},
                             {.name = "sandwich", .place = TFM_NORM_SANDWICH},
                             {.name = "on sub-layer results", .place = TFM_NORM_POST_SUBLAYER},
                             {.name = "scaled", .place = TFM_NORM_PRE, .residual = 0.5f}};
    tfm_context *ctx = harness_context();
    for (int i = 0; i < 4; i++) {
        tfm_block block = block_of(&cases[i]);
        tfm_tensor y = {0};
        float x[B * T * E] = {0};
        if (i > 0)
            block.cross_attention.query.weight.value = block.attention.query.weight.value;
        const tfm_tensor input = HARNESS_TENSOR(TFM_F32, x, B, T, E);
        assert_int_equal(tfm_block_forward(ctx, &y, &block, input, NULL), TFM_ERROR_ARGUMENT);
        assert_non_null(strstr(tfm_error_message(), i > 0 ? "neither normalized nor scaled" : "parallel sub-layers"));
        tfm_context_clear_error(ctx);
        block.cross_attention = (tfm_multi_head){0};
        tfm_block_free(ctx, &block);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block_options_match_double_precision),
                                       cmocka_unit_test(test_norm_none_is_identity_with_residual),
                                       cmocka_unit_test(test_block_rejects_incompatible_options)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
