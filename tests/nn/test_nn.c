/* Layers of nn.h against the paper's formulas in double precision, at odd sizes, pre- and post-norm; and incremental
 * decoding against the whole sequence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/nn.h"
#include "tfm/ops.h"

enum { B = 3, T = 5, S = 7, N = 2, E = 30, HEADS = 5, F = 17, LAYERS = 2 };
static const double TOLERANCE = 2e-5;
static harness_random source = {1}; /* of all numbers, in all tests */

/* ---- Host memory, freed after each test ------------------------------------------------------------ */

static void *taken[1024];
static size_t taken_count;

static void *take(int64_t count, size_t size) {
    assert_true(taken_count < sizeof(taken) / sizeof(taken[0]));
    void *block = calloc((size_t)count, size);
    assert_non_null(block);
    return taken[taken_count++] = block;
}

static int drop_taken(void **state) {
    (void)state;
    while (taken_count > 0)
        free(taken[--taken_count]);
    return 0;
}

static float *host_of(tfm_tensor x) {
    assert_true(taken_count < sizeof(taken) / sizeof(taken[0]));
    float *host = harness_floats(x);
    taken[taken_count++] = host;
    return host;
}

/* ---- The oracle: all arrays are [rows * width] ----------------------------------------------------- */

static double activated(double x, tfm_activation activation) {
    switch (activation) {
    case TFM_NO_ACTIVATION:
        return x;
    case TFM_RELU:
        return x > 0 ? x : 0;
    case TFM_GELU:
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    case TFM_GELU_TANH:
        return x * 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    default:
        return x / (1 + exp(-x));
    }
}

static double *dense(const tfm_dense *layer, const double *x, int64_t rows, tfm_activation activation) {
    const int64_t outputs = layer->weight.value.dims[0], inputs = layer->weight.value.dims[1];
    const float *weight = host_of(layer->weight.value);
    const float *bias = layer->bias.value.buffer ? host_of(layer->bias.value) : take(outputs, sizeof(float));
    double *y = take(rows * outputs, sizeof(*y));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < outputs; n++) {
            double sum = bias[n];
            for (int64_t k = 0; k < inputs; k++)
                sum += x[r * inputs + k] * weight[n * inputs + k];
            y[r * outputs + n] = activated(sum, activation);
        }
    return y;
}

static double *norm(const tfm_norm *layer, const double *x, int64_t rows) {
    const float *gamma = host_of(layer->gamma.value), *beta = host_of(layer->beta.value);
    double *y = take(rows * E, sizeof(*y));
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < E; i++)
            mean += x[r * E + i] / E;
        for (int i = 0; i < E; i++)
            variance += pow(x[r * E + i] - mean, 2) / E;
        for (int i = 0; i < E; i++)
            y[r * E + i] = (x[r * E + i] - mean) / sqrt(variance + layer->epsilon) * gamma[i] + beta[i];
    }
    return y;
}

static double *sum_of(const double *a, const double *b, int64_t rows) {
    double *y = take(rows * E, sizeof(*y));
    for (int64_t i = 0; i < rows * E; i++)
        y[i] = a[i] + b[i];
    return y;
}

/* NULL lengths: all keys are visible; NULL sources: sequence b reads memory b. weights, if not NULL, gets the softmax
 * (batch, HEADS, targets, length). */
typedef struct mask {
    bool causal;
    const int32_t *lengths, *sources;
    double *weights;
} mask;

/* x (batch, targets, E) over memory (memories, length, E). */
static double *multi_head(const tfm_multi_head *layer, const double *x, int64_t batch, int64_t targets,
                          const double *memory, int64_t memories, int64_t length, mask m) {
    const int width = E / HEADS;
    const double *q = dense(&layer->query, x, batch * targets, TFM_NO_ACTIVATION);
    const double *k = dense(&layer->key, memory, memories * length, TFM_NO_ACTIVATION);
    const double *v = dense(&layer->value, memory, memories * length, TFM_NO_ACTIVATION);
    double *mixed = take(batch * targets * E, sizeof(*mixed)), *weight = take(length, sizeof(*weight));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < targets; t++)
            for (int h = 0; h < HEADS; h++) {
                const int64_t from = m.sources ? m.sources[b] : b;
                const int64_t seen = m.causal ? t + 1 : m.lengths ? m.lengths[from] : length;
                double sum = 0;
                for (int64_t j = 0; j < seen; j++) {
                    double dot = 0;
                    for (int d = 0; d < width; d++)
                        dot += q[(b * targets + t) * E + h * width + d] * k[(from * length + j) * E + h * width + d];
                    sum += weight[j] = exp(dot / sqrt(width));
                }
                for (int64_t j = 0; j < seen && m.weights; j++)
                    m.weights[((b * HEADS + h) * targets + t) * length + j] = weight[j] / sum;
                for (int64_t j = 0; j < seen; j++)
                    for (int d = 0; d < width; d++)
                        mixed[(b * targets + t) * E + h * width + d] +=
                            weight[j] / sum * v[(from * length + j) * E + h * width + d];
            }
    return dense(&layer->out, mixed, batch * targets, TFM_NO_ACTIVATION);
}

static double *feed_forward(const tfm_feed_forward *layer, const double *x, int64_t rows) {
    return dense(&layer->down, dense(&layer->up, x, rows, layer->activation), rows, TFM_NO_ACTIVATION);
}

/* Input and output of a sub-layer: norm(x + f(x)), or x + f(norm(x)). */
static const double *entrance(const tfm_norm *own, const double *x, int64_t rows, bool pre_norm) {
    return pre_norm ? norm(own, x, rows) : x;
}
static const double *exit_of(const tfm_norm *own, const double *x, const double *y, int64_t rows, bool pre_norm) {
    return pre_norm ? sum_of(x, y, rows) : norm(own, sum_of(x, y, rows), rows);
}

static const double *encoder_block(const tfm_block *block, const double *x, const int32_t *lengths, double *weights) {
    const bool pre = block->norm_placement == TFM_NORM_PRE;
    const double *in = entrance(&block->attention_norm, x, B * S, pre);
    const double *y = multi_head(&block->attention, in, B, S, in, B, S, (mask){.lengths = lengths, .weights = weights});
    x = exit_of(&block->attention_norm, x, y, B * S, pre);
    y = feed_forward(&block->feed_forward, entrance(&block->feed_forward_norm, x, B * S, pre), B * S);
    return exit_of(&block->feed_forward_norm, x, y, B * S, pre);
}

static const double *decoder_block(const tfm_block *block, const double *x, const double *encoded, int64_t memories,
                                   const int32_t *lengths, const int32_t *sources, double *self_weights,
                                   double *cross_weights) {
    const bool pre = block->norm_placement == TFM_NORM_PRE;
    const double *in = entrance(&block->attention_norm, x, B * T, pre);
    const double *y =
        multi_head(&block->attention, in, B, T, in, B, T, (mask){.causal = true, .weights = self_weights});
    x = exit_of(&block->attention_norm, x, y, B * T, pre);
    in = entrance(&block->cross_attention_norm, x, B * T, pre);
    y = multi_head(&block->cross_attention, in, B, T, encoded, memories, S,
                   (mask){.lengths = lengths, .sources = sources, .weights = cross_weights});
    x = exit_of(&block->cross_attention_norm, x, y, B * T, pre);
    y = feed_forward(&block->feed_forward, entrance(&block->feed_forward_norm, x, B * T, pre), B * T);
    return exit_of(&block->feed_forward_norm, x, y, B * T, pre);
}

/* ---- Random layers and inputs ---------------------------------------------------------------------- */

static tfm_param make_param(int rank, const int64_t *dims, float scale, float shift) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    float *host = take(count, sizeof(*host));
    harness_fill(&source, host, (size_t)count, scale);
    for (int64_t i = 0; i < count; i++)
        host[i] += shift;
    return (tfm_param){.value = harness_tensor(TFM_F32, rank, dims, host)};
}

static tfm_dense make_dense(int64_t outputs, int64_t inputs) {
    return (tfm_dense){.weight = make_param(2, (int64_t[]){outputs, inputs}, 0.25f, 0),
                       .bias = make_param(1, &outputs, 0.5f, 0)};
}

static tfm_norm make_norm(void) {
    return (tfm_norm){.gamma = make_param(1, (int64_t[]){E}, 0.2f, 1),
                      .beta = make_param(1, (int64_t[]){E}, 0.5f, 0),
                      .epsilon = 0.05f}; /* large enough to matter */
}

static tfm_multi_head make_multi_head(void) {
    return (tfm_multi_head){.query = make_dense(E, E),
                            .key = make_dense(E, E),
                            .value = make_dense(E, E),
                            .out = make_dense(E, E),
                            .heads = HEADS};
}

static tfm_feed_forward make_feed_forward(tfm_activation activation) {
    return (tfm_feed_forward){.up = make_dense(F, E), .down = make_dense(E, F), .activation = activation};
}

static tfm_block make_encoder_block(bool pre_norm) {
    return (tfm_block){.attention = make_multi_head(),
                       .attention_norm = make_norm(),
                       .feed_forward = make_feed_forward(TFM_GELU),
                       .feed_forward_norm = make_norm(),
                       .norm_placement = pre_norm ? TFM_NORM_PRE : TFM_NORM_POST};
}

static tfm_block make_decoder_block(bool pre_norm) {
    return (tfm_block){.attention = make_multi_head(),
                       .attention_norm = make_norm(),
                       .cross_attention = make_multi_head(),
                       .cross_attention_norm = make_norm(),
                       .feed_forward = make_feed_forward(TFM_SILU),
                       .feed_forward_norm = make_norm(),
                       .causal = true,
                       .norm_placement = pre_norm ? TFM_NORM_PRE : TFM_NORM_POST};
}

/* Numbers on the host and on the device: (batch, length, E). */
typedef struct input {
    float *host;
    double *wide;
    tfm_tensor device;
} input;

static input input_of(float *host, int64_t batch, int64_t length) {
    input x = {.host = host, .wide = take(batch * length * E, sizeof(double))};
    for (int64_t i = 0; i < batch * length * E; i++)
        x.wide[i] = host[i];
    x.device = HARNESS_TENSOR(TFM_F32, host, batch, length, E);
    return x;
}

static input make_input(int64_t batch, int64_t length) {
    float *host = take(batch * length * E, sizeof(*host));
    harness_fill(&source, host, (size_t)(batch * length * E), 1);
    return input_of(host, batch, length);
}

/* An input is unchanged, and so are its guards. */
static void check_input(const input *x) {
    assert_memory_equal(host_of(x->device), x->host, tfm_tensor_count(x->device) * sizeof(float));
    harness_guards(x->device);
}

static void check_output(tfm_tensor y, const double *want, const char *what) {
    harness_close(host_of(y), want, tfm_tensor_count(y), TOLERANCE, what);
}

/* ---- Small layers ---------------------------------------------------------------------------------- */

static void test_dense_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (int biased = 0; biased < 2; biased++) {
        tfm_dense layer = make_dense(F, E);
        input x = make_input(B, T);
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, B, T, F);
        if (!biased)
            tfm_param_free(ctx, &layer.bias);
        harness_ok(tfm_dense_forward(ctx, &y, &layer, x.device, TFM_GELU_TANH));
        check_output(y, dense(&layer, x.wide, B * T, TFM_GELU_TANH), "dense");
        harness_guards(y);
        check_input(&x);
        tfm_dense_free(ctx, &layer);
        assert_null(layer.weight.value.buffer);
    }
}

static void test_norm_with_residual_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_norm layer = make_norm();
    input x = make_input(B, T), residual = make_input(B, T);
    tfm_tensor y = {0}, sum = {0}, alone = {0};
    harness_ok(tfm_norm_forward(ctx, &y, &sum, &layer, x.device, residual.device));
    harness_ok(tfm_norm_forward(ctx, &alone, NULL, &layer, x.device, (tfm_tensor){0}));
    const double *added = sum_of(x.wide, residual.wide, B * T);
    check_output(sum, added, "the sum");
    check_output(y, norm(&layer, added, B * T), "norm of a sum");
    check_output(alone, norm(&layer, x.wide, B * T), "norm");
    check_input(&x);
    check_input(&residual);
    tfm_norm_free(ctx, &layer);
}

static void test_feed_forward_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    static const tfm_activation activations[] = {TFM_RELU, TFM_GELU, TFM_GELU_TANH, TFM_SILU};
    for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++) {
        tfm_feed_forward layer = make_feed_forward(activations[i]);
        input x = make_input(B, T);
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, B, T, E);
        harness_ok(tfm_feed_forward_forward(ctx, &y, &layer, x.device));
        check_output(y, feed_forward(&layer, x.wide, B * T), "feed-forward");
        harness_guards(y);
        check_input(&x);
        tfm_feed_forward_free(ctx, &layer);
    }
}

static const int32_t LENGTHS[] = {4, 7, 1}, SOURCES[] = {0, 0, 1};

static void test_multi_head_attention_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_multi_head layer = make_multi_head();
    input x = make_input(B, T), own = make_input(B, S), shared = make_input(N, S);
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, B), few = HARNESS_TENSOR(TFM_I32, LENGTHS, N);
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, SOURCES, B);
    struct {
        const char *what;
        const input *memory;
        int64_t memories, length;
        tfm_attention_options options;
        mask mask;
    } cases[] = {
        {"all", &own, B, S, {0}, {0}},
        {"lengths", &own, B, S, {.lengths = lengths}, {.lengths = LENGTHS}},
        {"causal", &x, B, T, {.causal = true}, {.causal = true}},
        {"sources", &shared, N, S, {.kv_batch = sources, .lengths = few}, {.lengths = LENGTHS, .sources = SOURCES}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tfm_kv memory = {{0}, {0}};
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, B, T, E);
        harness_ok(tfm_multi_head_project(ctx, &memory, &layer, cases[i].memory->device));
        harness_ok(tfm_multi_head_forward(ctx, &y, &layer, x.device, memory, i ? &cases[i].options : NULL));
        tfm_tensor again = {0}, scores = {0}, lse = {0}; /* additional outputs belong to the caller */
        cases[i].options.scores = &scores;
        cases[i].options.lse = &lse;
        harness_ok(tfm_multi_head_forward(ctx, &again, &layer, x.device, memory, &cases[i].options));
        free(harness_floats(scores));
        free(harness_floats(lse));
        check_output(
            y,
            multi_head(&layer, x.wide, B, T, cases[i].memory->wide, cases[i].memories, cases[i].length, cases[i].mask),
            cases[i].what);
        harness_guards(y);
        check_input(&x);
    }
    tfm_multi_head_free(ctx, &layer);
}

/* ---- Blocks ---------------------------------------------------------------------------------------- */

static void test_encoder_block_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, B);
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        tfm_block block = make_encoder_block(pre_norm);
        input x = make_input(B, S);
        tfm_tensor all = {0}, padded = HARNESS_TENSOR(TFM_F32, NULL, B, S, E);
        harness_ok(tfm_block_forward(ctx, &all, &block, x.device, NULL));
        harness_ok(tfm_block_forward(ctx, &padded, &block, x.device, &(tfm_block_inputs){.lengths = lengths}));
        check_output(all, encoder_block(&block, x.wide, NULL, NULL), "encoder block");
        check_output(padded, encoder_block(&block, x.wide, LENGTHS, NULL), "encoder block with lengths");
        harness_guards(padded);
        check_input(&x);
        tfm_block_free(ctx, &block);
    }
}

static void test_decoder_block_matches_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (int pre_norm = 0; pre_norm < 2; pre_norm++)
        for (int shared = 0; shared < 2; shared++) {
            const int64_t memories = shared ? N : B;
            tfm_block block = make_decoder_block(pre_norm);
            input x = make_input(B, T), encoded = make_input(memories, S);
            tfm_block_inputs memory = {.cross_lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, memories)};
            tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, B, T, E);
            if (shared)
                memory.cross_kv_batch = HARNESS_TENSOR(TFM_I32, SOURCES, B);
            harness_ok(tfm_multi_head_project(ctx, &memory.cross_kv, &block.cross_attention, encoded.device));
            harness_ok(tfm_block_forward(ctx, &y, &block, x.device, &memory));
            check_output(
                y, decoder_block(&block, x.wide, encoded.wide, memories, LENGTHS, shared ? SOURCES : NULL, NULL, NULL),
                shared ? "decoder block with sources" : "decoder block");
            harness_guards(y);
            check_input(&x);
            tfm_block_free(ctx, &block);
        }
}

/* Attention weights of a block; requesting them does not change its output. */
static void test_encoder_attention_weights_match(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, B);
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        tfm_block block = make_encoder_block(pre_norm);
        input x = make_input(B, S);
        double *want = take((int64_t)B * HEADS * S * S, sizeof(*want));
        tfm_tensor y = {0}, fresh = {0}, given = HARNESS_TENSOR(TFM_F32, NULL, B, HEADS, S, S);
        const double *output = encoder_block(&block, x.wide, LENGTHS, want);
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_block_forward_with_attention(ctx, &y, &given, NULL, &block, x.device,
                                                    &(tfm_block_inputs){.lengths = lengths}));
        check_output(y, output, "encoder block with its weights");
        check_output(given, want, "the weights of an encoder block");
        harness_guards(given);
        harness_ok(tfm_block_forward_with_attention(ctx, &y, &fresh, NULL, &block, x.device,
                                                    &(tfm_block_inputs){.lengths = lengths}));
        check_output(fresh, want, "fresh weights of an encoder block");
        check_input(&x);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        tfm_block_free(ctx, &block);
    }
}

static void test_decoder_attention_weights_match(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        tfm_block block = make_decoder_block(pre_norm);
        input x = make_input(B, T), encoded = make_input(N, S);
        double *self = take((int64_t)B * HEADS * T * T, sizeof(*self));
        double *cross = take((int64_t)B * HEADS * T * S, sizeof(*cross));
        const double *output = decoder_block(&block, x.wide, encoded.wide, N, LENGTHS, SOURCES, self, cross);
        tfm_block_inputs memory = {.cross_lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, N),
                                   .cross_kv_batch = HARNESS_TENSOR(TFM_I32, SOURCES, B)};
        tfm_tensor y = {0}, weights = {0}, over_source = HARNESS_TENSOR(TFM_F32, NULL, B, HEADS, T, S);
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_multi_head_project(ctx, &memory.cross_kv, &block.cross_attention, encoded.device));
        harness_ok(tfm_block_forward_with_attention(ctx, &y, &weights, &over_source, &block, x.device, &memory));
        check_output(y, output, "decoder block with its weights");
        check_output(weights, self, "the weights over the target");
        check_output(over_source, cross, "the weights over the source");
        harness_guards(over_source);
        over_source = (tfm_tensor){0};
        harness_ok(tfm_block_forward_with_attention(ctx, &y, NULL, &over_source, &block, x.device, &memory));
        check_output(over_source, cross, "the weights over the source alone");
        check_input(&x);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        tfm_block_free(ctx, &block);
    }
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

enum { TOGETHER = 2 }; /* common prefix of sequences 0 and 1 */

/* Two decoder blocks over N sources; the targets of B sequences decoded whole by the oracle. */
typedef struct decoder {
    tfm_block blocks[LAYERS];
    tfm_kv cross[LAYERS];
    input targets;
    const double *whole; /* (B, T, E) */
} decoder;

static decoder make_decoder(bool pre_norm) {
    tfm_context *ctx = harness_context();
    decoder d = {0};
    float *targets = take(B * T * E, sizeof(*targets));
    harness_fill(&source, targets, B * T * E, 1);
    memcpy(targets + T * E, targets, TOGETHER * E * sizeof(*targets));
    d.targets = input_of(targets, B, T);
    d.whole = d.targets.wide;
    input encoded = make_input(N, S);
    for (int i = 0; i < LAYERS; i++) {
        d.blocks[i] = make_decoder_block(pre_norm);
        harness_ok(tfm_multi_head_project(ctx, &d.cross[i], &d.blocks[i].cross_attention, encoded.device));
        d.whole = decoder_block(&d.blocks[i], d.whole, encoded.wide, N, LENGTHS, SOURCES, NULL, NULL);
    }
    return d;
}

/* One step of the live sequences `live`, with past `rows` (count, T) of the cache, including the new row. */
static void decode_step(decoder *d, tfm_kv_cache *cache, int t, int count, const int *live, int32_t *rows) {
    tfm_context *ctx = harness_context();
    float *x = take(count * E, sizeof(*x));
    int32_t *table = take(count * (t + 1), sizeof(*table)), *sources = take(count, sizeof(*sources));
    double *want = take(count * E, sizeof(*want));
    for (int i = 0; i < count; i++) {
        memcpy(x + i * E, d->targets.host + (live[i] * T + t) * E, E * sizeof(*x));
        memcpy(want + i * E, d->whole + (live[i] * T + t) * E, E * sizeof(*want));
        rows[live[i] * T + t] = (int32_t)(cache->slots + i);
        memcpy(table + i * (t + 1), rows + live[i] * T, (size_t)(t + 1) * sizeof(*table));
        sources[i] = SOURCES[live[i]];
    }
    tfm_scope_open(ctx);
    harness_ok(tfm_kv_cache_reserve(ctx, cache, count));
    assert_true(cache->capacity >= cache->slots + count);
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, x, count, 1, E);
    tfm_block_inputs memory = {.cross_lengths = HARNESS_TENSOR(TFM_I32, LENGTHS, N),
                               .cross_kv_batch = HARNESS_TENSOR(TFM_I32, sources, count),
                               .kv_indices = HARNESS_TENSOR(TFM_I32, table, count, t + 1)};
    for (int i = 0; i < LAYERS; i++) {
        tfm_tensor next = {0};
        memory.cross_kv = d->cross[i];
        memory.cache_kv = cache->kv[i];
        harness_ok(tfm_tensor_rows(ctx, &memory.new_kv.keys, memory.cache_kv.keys, cache->slots, count));
        harness_ok(tfm_tensor_rows(ctx, &memory.new_kv.values, memory.cache_kv.values, cache->slots, count));
        harness_ok(tfm_block_forward(ctx, &next, &d->blocks[i], y, &memory));
        y = next;
    }
    cache->slots += count;
    check_output(y, want, "a step");
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* All steps: first two sequences, then three, of which two share their past. */
static void decode_steps(decoder *d, tfm_kv_cache *cache) {
    int32_t rows[B * T];
    for (int t = 0; t < T; t++) {
        if (t < TOGETHER)
            decode_step(d, cache, t, 2, (const int[]){2, 0}, rows);
        else
            decode_step(d, cache, t, 3, (const int[]){1, 2, 0}, rows);
        if (t + 1 == TOGETHER)
            memcpy(rows + T, rows, TOGETHER * sizeof(*rows));
    }
    assert_int_equal(cache->slots, 2 * TOGETHER + 3 * (T - TOGETHER));
}

/* Steps equal the whole pass, while the cache grows, and after it was cleared. */
static void test_decode_steps_equal_the_whole_as_cache_grows(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    for (int pre_norm = 0; pre_norm < 2; pre_norm++) {
        tfm_kv_cache cache;
        harness_ok(tfm_kv_cache_new(ctx, &cache, LAYERS, E, 3));
        for (int turn = 0; turn < 2; turn++) {
            decoder d = make_decoder(pre_norm);
            decode_steps(&d, &cache);
            const int64_t capacity = cache.capacity;
            tfm_kv_cache_clear(&cache);
            assert_int_equal(cache.slots, 0);
            assert_int_equal(cache.capacity, capacity);
            for (int i = 0; i < LAYERS; i++) {
                assert_int_equal(cache.kv[i].keys.dims[0], capacity);
                tfm_block_free(ctx, &d.blocks[i]);
                tfm_tensor_free(ctx, &d.cross[i].keys);
                tfm_tensor_free(ctx, &d.cross[i].values);
            }
        }
        tfm_kv_cache_free(ctx, &cache);
        assert_null(cache.kv);
    }
}

/* Cached data survives growth, which doubles the size, or more if requested. */
static void test_kv_cache_growth_keeps_its_content(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_kv_cache cache;
    float *host = take(3 * E + LAYERS, sizeof(*host)); /* each layer's starts one later */
    harness_fill(&source, host, 3 * E + LAYERS, 1);
    harness_ok(tfm_kv_cache_new(ctx, &cache, LAYERS, E, 3));
    for (int i = 0; i < LAYERS; i++) {
        harness_ok(tfm_tensor_write(ctx, cache.kv[i].keys, host + i));
        harness_ok(tfm_tensor_write(ctx, cache.kv[i].values, host));
    }
    harness_ok(tfm_kv_cache_reserve(ctx, &cache, 3));
    assert_int_equal(cache.capacity, 3);
    cache.slots = 2;
    harness_ok(tfm_kv_cache_reserve(ctx, &cache, 2));
    assert_int_equal(cache.capacity, 6);
    harness_ok(tfm_kv_cache_reserve(ctx, &cache, 99));
    assert_int_equal(cache.capacity, 101);
    for (int i = 0; i < LAYERS; i++) {
        assert_int_equal(cache.kv[i].values.dims[0], 101);
        assert_memory_equal(host_of(cache.kv[i].keys), host + i, 2 * E * sizeof(*host));
        assert_memory_equal(host_of(cache.kv[i].values), host, 2 * E * sizeof(*host));
    }
    tfm_kv_cache_free(ctx, &cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_dense_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_norm_with_residual_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_feed_forward_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_multi_head_attention_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_encoder_block_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_decoder_block_matches_double_precision, drop_taken),
        cmocka_unit_test_teardown(test_encoder_attention_weights_match, drop_taken),
        cmocka_unit_test_teardown(test_decoder_attention_weights_match, drop_taken),
        cmocka_unit_test_teardown(test_decode_steps_equal_the_whole_as_cache_grows, drop_taken),
        cmocka_unit_test_teardown(test_kv_cache_growth_keeps_its_content, drop_taken),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
