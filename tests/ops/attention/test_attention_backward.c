/* Backward pass of attention: GQA, causal, padding, windows, soft cap, masks, both layouts. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/attention_oracle.h"
#include "dev/device/context_internal.h"
#include "support/gradient.h"
#include "ops/ops.h"

enum { Q, K, V };

typedef struct attention {
    int64_t batch, targets, length, heads, kv_heads, dk, dv;
    bool heads_first, causal, padded, windowed, causal_bottom_right;
    float cap;
    tfm_dropout_options dropout;
    tfm_dtype mask; /* I32: none */
    const int32_t *lengths;
    const float *mask_values; /* (T, S) */
    const double *factors;    /* dropout mask (B, H, T, S), precomputed for speed; or NULL */
} attention;

static int64_t query_at(const attention *a, int64_t b, int64_t t, int64_t h) {
    return a->heads_first ? (b * a->heads + h) * a->targets + t : (b * a->targets + t) * a->heads + h;
}

static int64_t key_at(const attention *a, int64_t b, int64_t s, int64_t h) {
    return a->heads_first ? (b * a->kv_heads + h) * a->length + s : (b * a->length + s) * a->kv_heads + h;
}

static bool sees(const attention *a, int64_t b, int64_t t, int64_t s) {
    const int64_t visible = a->padded ? a->lengths[b] : a->length,
                  at = t + (a->causal_bottom_right ? visible - a->targets : 0);
    return s < visible && (!a->causal || s <= at) && (!a->windowed || (s >= at - 2 && s <= at + 1)) &&
           (a->mask == TFM_I32 || a->mask_values[t * a->length + s] != -INFINITY);
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const attention *a = c->user;
    double *w = malloc((size_t)a->length * sizeof(double));
    assert_non_null(w);
    memset(y, 0, c->count * sizeof(*y));
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t t = 0; t < a->targets; t++) {
                const int64_t q = query_at(a, b, t, h), group = h / (a->heads / a->kv_heads);
                double sum = 0;
                for (int64_t s = 0; s < a->length; s++) {
                    double z = 0;
                    for (int64_t d = 0; d < a->dk; d++)
                        z += inputs[Q][q * a->dk + d] * inputs[K][key_at(a, b, s, group) * a->dk + d];
                    z /= sqrt((double)a->dk);
                    z = a->cap > 0 ? a->cap * tanh(z / a->cap) : z;
                    z += a->mask == TFM_F32 ? a->mask_values[t * a->length + s] : 0;
                    w[s] = sees(a, b, t, s) ? exp(z) : 0;
                    sum += w[s];
                }
                const double *factors =
                    a->factors ? a->factors + ((b * a->heads + h) * a->targets + t) * a->length : NULL;
                for (int64_t s = 0; s < a->length && sum > 0; s++) {
                    const double kept = (factors ? factors[s] : 1) * w[s] / sum;
                    for (int64_t d = 0; d < a->dv; d++)
                        y[q * a->dv + d] += kept * inputs[V][key_at(a, b, s, group) * a->dv + d];
                }
            }
    free(w);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const attention *a = c->user;
    tfm_attention_options o = {.heads = a->heads_first ? 0 : (int)a->heads,
                               .kv_heads = (int)a->kv_heads,
                               .causal = a->causal,
                               .soft_cap = a->cap,
                               .causal_bottom_right = a->causal_bottom_right,
                               .window = a->windowed,
                               .window_left = 2,
                               .window_right = 1,
                               .dropout = &a->dropout};
    if (a->padded)
        o.lengths = HARNESS_TENSOR(TFM_I32, a->lengths, a->batch);
    if (a->mask == TFM_F32)
        o.mask = HARNESS_TENSOR(TFM_F32, a->mask_values, a->targets, a->length);
    if (a->mask == TFM_U8) {
        unsigned char *bytes = malloc((size_t)(a->targets * a->length));
        assert_non_null(bytes);
        for (int64_t i = 0; i < a->targets * a->length; i++)
            bytes[i] = a->mask_values[i] != -INFINITY;
        harness_ok(tfm_tensor_new(ctx, &o.mask, TFM_U8, 2, (int64_t[]){a->targets, a->length}));
        harness_ok(tfm_tensor_write(ctx, o.mask, bytes));
        free(bytes);
    }
    return tfm_attention(ctx, y, inputs[Q], inputs[K], inputs[V], &o);
}

/* Freed by the caller; NULL without dropout. */
static double *factors_of(const attention *a) {
    if (a->dropout.rate == 0)
        return NULL;
    double *factors = malloc((size_t)(a->batch * a->heads * a->targets * a->length) * sizeof(double)), *to = factors;
    assert_non_null(factors);
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t t = 0; t < a->targets; t++)
                for (int64_t s = 0; s < a->length; s++)
                    *to++ = attention_factor(&a->dropout, a->heads, a->kv_heads, a->targets, b, h, t, s);
    return factors;
}

static void check(harness_random *random, attention a) {
    static int number;
    if (harness_left_out(&number, 8))
        return;
    const int64_t queries = a.batch * a.targets * a.heads, keys = a.batch * a.length * a.kv_heads;
    const size_t sizes[] = {(size_t)(queries * a.dk), (size_t)(keys * a.dk), (size_t)(keys * a.dv),
                            (size_t)(a.targets * a.length)};
    float *host[4];
    int32_t lengths[8];
    for (int i = 0; i < 4; i++) {
        host[i] = malloc(sizes[i] * sizeof(float));
        assert_non_null(host[i]);
        harness_fill(random, host[i], sizes[i], 1);
    }
    for (int64_t i = 0; i < a.targets * a.length; i++)
        host[3][i] = harness_range(random, 0, 3) == 0 ? -INFINITY : host[3][i];
    for (int64_t b = 0; b < a.batch; b++) /* the last query attends to no key */
        lengths[b] = (int32_t)(b == a.batch - 1 && a.batch > 2 ? 0 : harness_range(random, 1, a.length));
    a.lengths = lengths;
    a.mask_values = host[3];
    double *factors = factors_of(&a);
    a.factors = factors;
    gradient_case c = {.name = "attention",
                       .oracle = oracle,
                       .run = run,
                       .user = &a,
                       .count = (size_t)(queries * a.dv),
                       .tolerance = 5e-6};
    for (int i = 0; i < 3; i++) {
        const int64_t n = i == Q ? a.targets : a.length, heads = i == Q ? a.heads : a.kv_heads,
                      width = i == V ? a.dv : a.dk;
        c.inputs[i] = a.heads_first ? (gradient_input){4, {a.batch, heads, n, width}, host[i], false}
                                    : (gradient_input){3, {a.batch, n, heads * width}, host[i], false};
    }
    gradient_check(&c);
    free(factors);
    for (int i = 0; i < 4; i++)
        free(host[i]);
}

#define PLAIN .mask = TFM_I32

static void test_attention_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {1};
    check(&random, (attention){1, 1, 1, 1, 1, 32, 32, PLAIN});
    check(&random, (attention){2, 3, 17, 2, 2, 32, 32, PLAIN});
    check(&random, (attention){2, 17, 3, 2, 2, 32, 32, PLAIN, .heads_first = true});
    check(&random, (attention){1, 33, 65, 1, 1, 32, 32, PLAIN});
    check(&random, (attention){2, 6, 20, 4, 2, 17, 5, PLAIN});
    check(&random, (attention){2, 6, 20, 6, 1, 17, 5, PLAIN, .heads_first = true});
    check(&random, (attention){1, 2, 3, 1, 1, 600, 3, PLAIN}); /* too large for the stack */
}

static void test_masked_attention_gradients_match_oracle(void **state) {
    (void)state;
    harness_random random = {2};
    check(&random, (attention){2, 20, 20, 2, 2, 32, 32, PLAIN, .causal = true});
    check(&random, (attention){3, 9, 20, 2, 2, 32, 32, PLAIN, .padded = true});
    check(&random,
          (attention){3, 9, 20, 2, 1, 32, 32, PLAIN, .padded = true, .causal = true, .causal_bottom_right = true});
    check(&random, (attention){2, 20, 20, 2, 2, 32, 32, PLAIN, .windowed = true, .heads_first = true});
}

static void test_capped_and_biased_score_gradients_match_oracle(void **state) {
    (void)state;
    harness_random random = {3};
    check(&random, (attention){2, 9, 20, 2, 2, 32, 32, PLAIN, .cap = 1.5f});
    check(&random, (attention){2, 9, 20, 2, 2, 32, 32, .mask = TFM_F32, .cap = 1.5f, .causal = true});
    check(&random, (attention){2, 9, 37, 2, 2, 32, 32, .mask = TFM_U8, .heads_first = true});
}

/* Backward drops the weights that forward dropped, for any block size of queries. */
static void test_backward_drops_the_weights_that_forward_dropped(void **state) {
    (void)state;
    harness_random random = {4};
    const tfm_dropout_options drops[] = {{.rate = 0.1f, .seed = 7, .stream = 3},
                                         {.rate = 0.5f, .seed = 1ull << 40, .stream = 1ull << 33}};
    for (size_t i = harness_brief() ? 1 : 0; i < 2; i++) {
        check(&random, (attention){2, 17, 20, 2, 2, 32, 32, PLAIN, .dropout = drops[i]});
        check(&random, (attention){2, 6, 20, 4, 2, 17, 5, PLAIN, .dropout = drops[i], .causal = true});
        check(&random,
              (attention){3, 3, 37, 6, 1, 17, 5, PLAIN, .dropout = drops[i], .heads_first = true, .padded = true});
    }
    check(&random, (attention){1, 1, 1, 1, 1, 32, 32, PLAIN, .dropout = drops[1]});
    check(&random, (attention){1, 1, 33, 1, 1, 32, 32, PLAIN, .dropout = drops[1]});
    check(&random, (attention){2, 9, 20, 2, 2, 32, 32, .mask = TFM_F32, .cap = 1.5f, .dropout = drops[1]});
    check(&random, (attention){1, 5, 3, 1, 1, 600, 3, PLAIN, .dropout = drops[1]});
}

/* q, k and v are rows of one x; all, some or none of them the same. */
typedef struct shared {
    attention a; /* first, since the oracle and the call are checked by other cases */
    int64_t rows, first[3];
    bool between; /* x is a copy, so the tape computes its gradient */
} shared;

static void oracle_shared(const gradient_case *c, double *y, double *const *inputs) {
    const shared *s = c->user;
    double *parts[3];
    for (int i = Q; i <= V; i++)
        parts[i] = inputs[0] + s->first[i] * s->a.heads * s->a.dk;
    oracle(c, y, parts);
}

static tfm_status run_shared(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const shared *s = c->user;
    const int64_t count = s->a.batch * s->a.targets, dims[] = {s->a.batch, s->a.targets, s->a.heads * s->a.dk};
    tfm_tensor x = inputs[0], parts[3] = {{0}};
    if (s->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
    }
    for (int i = Q; i <= V; i++) {
        tfm_tensor_rows(ctx, &parts[i], x, s->first[i], count);
        tfm_tensor_reshape(ctx, &parts[i], parts[i], 3, dims);
    }
    return run(c, ctx, y, parts);
}

static void check_shared(harness_random *random, int64_t batch, int64_t targets, int64_t k, int64_t v) {
    const int64_t heads = 2, width = 17, last = k > v ? k : v;
    shared s = {.a = {batch, targets, targets, heads, heads, width, width, .mask = TFM_I32},
                .rows = last + batch * targets,
                .first = {0, k, v}};
    const size_t count = (size_t)(s.rows * heads * width);
    float *host = malloc(count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, count, 1);
    for (int between = 0; between < 2; between++) {
        s.between = between == 1;
        gradient_check(&(gradient_case){.name = "attention of one tensor",
                                        .inputs = {{2, {s.rows, heads * width}, host, false}},
                                        .oracle = oracle_shared,
                                        .run = run_shared,
                                        .user = &s,
                                        .count = (size_t)(batch * targets * heads * width),
                                        .tolerance = 5e-6,
                                        .repeats = 5});
    }
    free(host);
}

/* Gradients that share memory: fully, by separate rows, and q of one sequence with k and v of the one before. */
static void test_gradients_accumulate_in_shared_tensors(void **state) {
    (void)state;
    harness_random random = {5};
    check_shared(&random, 2, 9, 0, 0);
    check_shared(&random, 1, 33, 0, 1);
    if (harness_brief())
        return;
    check_shared(&random, 1, 1, 0, 0);
    check_shared(&random, 1, 9, 1, 0);
    check_shared(&random, 1, 9, 9, 10); /* q apart */
    check_shared(&random, 1, 9, 5, 10); /* k overlaps both, q and v do not overlap */
    check_shared(&random, 2, 5, 5, 5);
    check_shared(&random, 8, 9, 9, 9);
}

/* More than one tile of queries and of keys, GQA, fully masked tiles, and widths that fill no vector. */
static void check_tiles(void) {
    harness_random random = {6};
    const tfm_dropout_options drops = {.rate = 0.3f, .seed = 5, .stream = 1};
    check(&random, (attention){1, 41, 70, 2, 1, 20, 48, PLAIN});
    check(&random, (attention){2, 38, 67, 2, 2, 16, 12, PLAIN, .causal = true, .heads_first = true});
    check(&random, (attention){1, 150, 150, 1, 1, 8, 4, PLAIN, .windowed = true});
    check(&random,
          (attention){2, 70, 9, 4, 2, 12, 16, PLAIN, .padded = true, .causal = true, .causal_bottom_right = true});
    check(&random, (attention){1, 37, 19, 2, 1, 132, 256, PLAIN, .causal = true});
    check(&random, (attention){1, 139, 150, 4, 2, 8, 16, PLAIN, .causal = true}); /* more queries than one CPU chunk */
    if (harness_brief())
        return;
    check(&random, (attention){1, 17, 40, 2, 2, 256, 256, PLAIN});
    check(&random, (attention){1, 18, 20, 2, 1, 200, 136, .mask = TFM_F32, .cap = 2, .dropout = drops});
    check(&random, (attention){1, 139, 150, 4, 2, 12, 16, PLAIN, .causal = true, .dropout = drops});
    check(&random, (attention){2, 39, 33, 6, 2, 16, 8, PLAIN, .dropout = drops, .heads_first = true});
    check(&random, (attention){3, 35, 66, 2, 2, 8, 16, .mask = TFM_U8, .cap = 2, .dropout = drops, .padded = true});
    check(&random, (attention){1, 5, 9, 2, 1, 128, 64, PLAIN, .causal = true});
    check(&random, (attention){1, 5, 9, 2, 1, 64, 128, .mask = TFM_F32, .cap = 2, .dropout = drops});
    check(&random, (attention){1, 5, 9, 1, 1, 100, 96, PLAIN});
}

/* One launch each, then one launch per tile. */
static void test_tiled_backward_launches_give_the_same_gradients(void **state) {
    (void)state;
    int64_t *most = &harness_context()->tuning.attention_max_launch_macs;
    const int64_t before = *most;
    check_tiles();
    *most = 1;
    check_tiles();
    *most = before;
}

static void test_attention_without_backward_pass_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 2, 1, 3, 4), k = HARNESS_TENSOR(TFM_F32, NULL, 2, 1, 5, 4), y = {0};
    tfm_tensor dq = HARNESS_TENSOR(TFM_F32, NULL, 2, 1, 3, 4);
    const int32_t none[2] = {0, 0};
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, none, 2);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, q, dq));
    harness_refused(tfm_attention(ctx, &y, q, k, k, &(tfm_attention_options){.kv_batch = sources}), TFM_ERROR_ARGUMENT,
                    "it has no backward pass");
    tfm_tape_stop(ctx);
}

/* A query that sees one key does not depend on its score: its gradient is exactly 0. Rounding errors would become full
 * Adam steps. */
static void test_single_key_gives_zero_score_gradient(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {9};
    const int64_t widths[] = {3, 33, 64};
    for (int i = 0; i < 3; i++) {
        const int64_t targets = 5, width = widths[i];
        float host[4][5 * 64], zeros[5 * 64] = {0};
        for (int k = 0; k < 4; k++)
            harness_fill(&random, host[k], 5 * 64, 1);
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor q = HARNESS_TENSOR(TFM_F32, host[0], 1, targets, width), y = {0},
                   k = HARNESS_TENSOR(TFM_F32, host[1], 1, 1, width), v = HARNESS_TENSOR(TFM_F32, host[2], 1, 1, width),
                   dy = HARNESS_TENSOR(TFM_F32, host[3], 1, targets, width),
                   dq = HARNESS_TENSOR(TFM_F32, zeros, 1, targets, width),
                   dk = HARNESS_TENSOR(TFM_F32, zeros, 1, 1, width);
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, q, dq));
        harness_ok(tfm_tape_watch(ctx, k, dk));
        harness_ok(tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.heads = 1}));
        harness_ok(tfm_backward(ctx, y, dy));
        float *query = harness_floats(dq), *key = harness_floats(dk);
        for (int64_t at = 0; at < targets * width; at++)
            if (query[at] != 0 || key[at % width] != 0)
                fail_msg("width %d: gradients %g of the query, %g of the key", (int)width, (double)query[at],
                         (double)key[at % width]);
        free(query);
        free(key);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* A mask that lowers all scores of a query so far that its weights are lost in rounding: with a zero gradient it counts
 * as fully masked, and other queries keep their gradients. */
static void test_fully_masked_query_gradients_are_isolated(void **state) {
    (void)state;
    enum { KEYS = 9, WIDTH = 16, QUERIES = 3 };
    enum { LOWS = 400 };
    tfm_context *ctx = harness_context();
    harness_random random = {11};
    float host[4][KEYS * WIDTH], mask[QUERIES * KEYS], zeros[KEYS * WIDTH] = {0}, first[3][KEYS * WIDTH];
    for (int k = 0; k < 4; k++)
        harness_fill(&random, host[k], KEYS * WIDTH, 1);
    memset(host[3] + WIDTH, 0, WIDTH * sizeof(float)); /* dy of the query with the mask */
    for (int i = 0; i <= LOWS; i += harness_brief() ? 8 : 1) {
        const float low = i == 0      ? -INFINITY
                          : i == LOWS ? -FLT_MAX
                                      : -(1 + (float)(i % 7) / 7) * powf(10, 5 + 33 * (float)i / LOWS);
        for (int k = 0; k < QUERIES * KEYS; k++)
            mask[k] = k / KEYS == 1 ? low : 0;
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor in[] = {HARNESS_TENSOR(TFM_F32, host[0], 1, QUERIES, WIDTH),
                           HARNESS_TENSOR(TFM_F32, host[1], 1, KEYS, WIDTH),
                           HARNESS_TENSOR(TFM_F32, host[2], 1, KEYS, WIDTH)},
                   to[] = {HARNESS_TENSOR(TFM_F32, zeros, 1, QUERIES, WIDTH),
                           HARNESS_TENSOR(TFM_F32, zeros, 1, KEYS, WIDTH),
                           HARNESS_TENSOR(TFM_F32, zeros, 1, KEYS, WIDTH)},
                   dy = HARNESS_TENSOR(TFM_F32, host[3], 1, QUERIES, WIDTH), y = {0};
        const tfm_attention_options options = {.heads = 2, .mask = HARNESS_TENSOR(TFM_F32, mask, QUERIES, KEYS)};
        harness_ok(tfm_tape_start(ctx));
        for (int k = 0; k < 3; k++)
            harness_ok(tfm_tape_watch(ctx, in[k], to[k]));
        harness_ok(tfm_attention(ctx, &y, in[0], in[1], in[2], &options));
        harness_ok(tfm_backward(ctx, y, dy));
        for (int k = 0; k < 3; k++) {
            float *got = harness_floats(to[k]);
            const size_t count = tfm_tensor_count(to[k]);
            if (i == 0)
                memcpy(first[k], got, count * sizeof(float));
            for (size_t at = 0; at < count; at++)
                if (!(fabsf(got[at] - first[k][at]) <= 1e-6f))
                    fail_msg("mask %g: gradient %d is %g at %zu, without the query %g", (double)low, k, (double)got[at],
                             at, (double)first[k][at]);
            free(got);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* More keys than fp32 counts exactly: each gets its share of one query's gradient. */
static void test_more_keys_than_float_precision_get_gradients(void **state) {
    (void)state;
    const int64_t length = ((int64_t)1 << 24) + 2;
    const float one = 1, zero = 0;
    tfm_context *ctx = harness_context();
    tfm_tensor k = {0}, v = {0}, dv = {0}, y = {0}, last = {0};
    if (harness_slow() || harness_brief()) {
        printf("skipped: slow on this device\n");
        skip();
    }
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, &one, 1, 1, 1);
    harness_ok(tfm_scope_open(ctx));
    for (int i = 0; i < 3; i++) {
        tfm_tensor *const x[] = {&k, &v, &dv};
        harness_ok(tfm_tensor_new(ctx, x[i], TFM_F32, 3, (int64_t[]){1, length, 1}));
        harness_ok(tfm__tensor_fill(ctx, *x[i], i == 2 ? &zero : &one));
    }
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, v, dv));
    harness_ok(
        tfm_attention(ctx, &y, q, k, v, &(tfm_attention_options){.heads = 1, .causal = true, .past = length - 2}));
    harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
    tfm_tensor_reshape(ctx, &dv, dv, 1, &length);
    harness_ok(tfm_tensor_rows(ctx, &last, dv, length - 4, 4));
    float *got = harness_floats(last);
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)got[i] * (double)(length - 1) - 1) < 1e-3);
    assert_true(got[3] == 0); /* follows the query */
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    tfm_tensor_free(ctx, &q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_gradients_match_double_precision),
        cmocka_unit_test(test_masked_attention_gradients_match_oracle),
        cmocka_unit_test(test_capped_and_biased_score_gradients_match_oracle),
        cmocka_unit_test(test_tiled_backward_launches_give_the_same_gradients),
        cmocka_unit_test(test_backward_drops_the_weights_that_forward_dropped),
        cmocka_unit_test(test_gradients_accumulate_in_shared_tensors),
        cmocka_unit_test(test_single_key_gives_zero_score_gradient),
        cmocka_unit_test(test_attention_without_backward_pass_is_rejected),
        cmocka_unit_test(test_more_keys_than_float_precision_get_gradients),
        cmocka_unit_test(test_fully_masked_query_gradients_are_isolated),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
