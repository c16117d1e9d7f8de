/* Fused attention against softmax(scale q k^T) v in double precision: shapes, masks, layouts, shared and
 * paged keys. What must not be seen (padding, later keys, unused pool rows) is NaN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "tfm/ops.h"

typedef struct shape {
    int64_t batch, targets, length, heads, kv_heads, key_width, value_width;
    bool heads_first, causal, padded, paged;
    int64_t past,
        beams; /* beams: so many query sequences in a row read one of keys, by `sources`; 0: none given */
    float scale, spread; /* spread: of q, 0 means 1 */
    double tolerance;    /* 0 means 3e-6 */
} shape;

/* Everything on the host, in the layouts that the op takes. */
typedef struct problem {
    shape s;
    int64_t sequences, pool; /* N; rows of the pool */
    float *q, *k, *v;
    int32_t *lengths, *sources, *rows;
} problem;

static void *take(int64_t count, size_t size) {
    void *block = calloc((size_t)(count ? count : 1), size);
    assert_non_null(block);
    return block;
}

static int64_t query_index(const shape *s, int64_t b, int64_t t, int64_t h) {
    return s->heads_first ? (b * s->heads + h) * s->targets + t : (b * s->targets + t) * s->heads + h;
}

/* Which (dk) or (dv) vector of k and v is key j of head h for query sequence b. */
static int64_t key_index(const problem *p, int64_t b, int64_t j, int64_t h) {
    const shape *s = &p->s;
    if (s->paged)
        return p->rows[b * s->length + j] * s->kv_heads + h;
    const int64_t n = s->beams ? p->sources[b] : b;
    return s->heads_first ? (n * s->kv_heads + h) * s->length + j : (n * s->length + j) * s->kv_heads + h;
}

static int64_t visible(const problem *p, int64_t b, int64_t t) {
    const shape *s = &p->s;
    int64_t limit = s->padded ? p->lengths[s->beams ? p->sources[b] : b] : s->length;
    return s->causal && t + s->past + 1 < limit ? t + s->past + 1 : limit;
}

static problem make(const shape *s, harness_random *random) {
    problem p = {.s = *s, .sequences = s->beams ? (s->batch + s->beams - 1) / s->beams : s->batch};
    p.pool = s->paged ? s->batch * s->length + 3 : p.sequences * s->length;
    const int64_t keys = p.pool * s->kv_heads, nk = keys * s->key_width, nv = keys * s->value_width;
    const int64_t nq = s->batch * s->targets * s->heads * s->key_width;
    p.q = take(nq, sizeof(float));
    p.k = take(nk, sizeof(float));
    p.v = take(nv, sizeof(float));
    p.lengths = take(p.sequences, sizeof(int32_t));
    p.sources = take(s->batch, sizeof(int32_t));
    p.rows = take(s->batch * s->length, sizeof(int32_t));
    harness_fill(random, p.q, (size_t)nq, s->spread != 0 ? s->spread : 1);
    for (int64_t i = 0; i < p.sequences; i++) /* one empty, one whole, and what lies between */
        p.lengths[i] = i == 1   ? 0
                       : i == 0 ? (int32_t)s->length
                                : (int32_t)harness_range(random, 0, s->length);
    for (int64_t b = 0; b < s->batch; b++)
        p.sources[b] = s->beams ? (int32_t)(p.sequences - 1 - b / s->beams) : 0;
    for (int64_t i = 0; i < s->batch * s->length; i++)
        p.rows[i] = (int32_t)((i * 7 + 5) % p.pool); /* beams may share rows */
    for (int64_t i = 0; i < nk; i++)
        p.k[i] = NAN;
    for (int64_t i = 0; i < nv; i++)
        p.v[i] = NAN;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t j = 0; j < s->length; j++)
            for (int64_t h = 0; h < s->kv_heads; h++)
                if (j < visible(&p, b, s->targets - 1)) {
                    const int64_t at = key_index(&p, b, j, h);
                    harness_fill(random, p.k + at * s->key_width, (size_t)s->key_width, 1);
                    harness_fill(random, p.v + at * s->value_width, (size_t)s->value_width, 1);
                }
    return p;
}

static void drop(problem *p) {
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->lengths);
    free(p->sources);
    free(p->rows);
}

/* y, and if `scores` is not NULL the scores of that stage, too. */
static double *oracle_scores(const problem *p, double *scores, tfm_attention_stage stage) {
    const shape *s = &p->s;
    const double scale = s->scale != 0 ? s->scale : 1 / sqrt((double)s->key_width);
    double *y = take(s->batch * s->targets * s->heads * s->value_width, sizeof(double));
    double *weight = take(s->length, sizeof(double));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t t = 0; t < s->targets; t++)
            for (int64_t h = 0; h < s->heads; h++) {
                const int64_t query = query_index(s, b, t, h), limit = visible(p, b, t),
                              kv = h / (s->heads / s->kv_heads);
                double most = -INFINITY, sum = 0;
                for (int64_t j = 0; j < limit; j++) {
                    const float *q = p->q + query * s->key_width,
                                *k = p->k + key_index(p, b, j, kv) * s->key_width;
                    weight[j] = 0;
                    for (int64_t d = 0; d < s->key_width; d++)
                        weight[j] += scale * q[d] * k[d];
                    most = fmax(most, weight[j]);
                }
                for (int64_t j = 0; j < limit; j++)
                    sum += weight[j] = exp(weight[j] - most);
                for (int64_t j = 0; j < limit; j++)
                    for (int64_t d = 0; d < s->value_width; d++)
                        y[query * s->value_width + d] +=
                            weight[j] / sum * p->v[key_index(p, b, j, kv) * s->value_width + d];
                for (int64_t j = 0; scores && j < s->length; j++) {
                    double z = 0;
                    for (int64_t d = 0; d < s->key_width; d++)
                        z += scale * p->q[query * s->key_width + d] *
                             p->k[key_index(p, b, j, kv) * s->key_width + d];
                    if (stage == TFM_ATTENTION_WEIGHTS)
                        z = j < limit ? weight[j] / sum : 0;
                    else if (stage == TFM_ATTENTION_MASKED && j >= limit)
                        z = -INFINITY;
                    scores[((b * s->heads + h) * s->targets + t) * s->length + j] = z;
                }
            }
    free(weight);
    return y;
}

static double *oracle(const problem *p) {
    return oracle_scores(p, NULL, TFM_ATTENTION_WEIGHTS);
}

/* Runs the op between guards; the result is the caller's. So is *scores, of the stage, unless it is NULL. */
static float *run_scores(const problem *p, float **scores, tfm_attention_stage stage) {
    const shape *s = &p->s;
    tfm_context *ctx = harness_context();
    tfm_attention_options options = {.heads = s->heads_first ? 0 : (int)s->heads,
                                     .scale = s->scale,
                                     .kv_heads = s->kv_heads != s->heads ? (int)s->kv_heads : 0,
                                     .causal = s->causal,
                                     .past = s->past};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor q, k, v, y;
    if (s->heads_first) {
        q = HARNESS_TENSOR(TFM_F32, p->q, s->batch, s->heads, s->targets, s->key_width);
        k = HARNESS_TENSOR(TFM_F32, p->k, p->sequences, s->kv_heads, s->length, s->key_width);
        v = HARNESS_TENSOR(TFM_F32, p->v, p->sequences, s->kv_heads, s->length, s->value_width);
        y = HARNESS_TENSOR(TFM_F32, NULL, s->batch, s->heads, s->targets, s->value_width);
    } else {
        q = HARNESS_TENSOR(TFM_F32, p->q, s->batch, s->targets, s->heads * s->key_width);
        k = HARNESS_TENSOR(TFM_F32, p->k, p->sequences, s->length, s->kv_heads * s->key_width);
        v = HARNESS_TENSOR(TFM_F32, p->v, p->sequences, s->length, s->kv_heads * s->value_width);
        y = HARNESS_TENSOR(TFM_F32, NULL, s->batch, s->targets, s->heads * s->value_width);
    }
    if (s->paged) {
        k = HARNESS_TENSOR(TFM_F32, p->k, p->pool, s->kv_heads * s->key_width);
        v = HARNESS_TENSOR(TFM_F32, p->v, p->pool, s->kv_heads * s->value_width);
        options.rows = HARNESS_TENSOR(TFM_I32, p->rows, s->batch, s->length);
    }
    if (s->padded)
        options.lengths = HARNESS_TENSOR(TFM_I32, p->lengths, p->sequences);
    if (s->beams)
        options.sources = HARNESS_TENSOR(TFM_I32, p->sources, s->batch);
    tfm_tensor z = HARNESS_TENSOR(TFM_F32, NULL, s->batch, s->heads, s->targets, s->length);
    options.scores = scores ? &z : NULL;
    options.stage = stage;
    harness_ok(tfm_attention(ctx, &y, q, k, v, &options));
    float *got = harness_floats(y);
    if (scores)
        *scores = harness_floats(z);
    harness_guards(y);
    harness_guards(z);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return got;
}

static float *run(const problem *p) {
    return run_scores(p, NULL, TFM_ATTENTION_WEIGHTS);
}

static void check(shape s) {
    harness_random random = {(uint64_t)(s.batch * 131 + s.targets * 17 + s.length * 7 + s.key_width)};
    problem p = make(&s, &random);
    char what[200];
    snprintf(what, sizeof(what), "B %d T %d S %d H %d/%d d %d/%d%s%s%s%s past %d beams %d", (int)s.batch,
             (int)s.targets, (int)s.length, (int)s.heads, (int)s.kv_heads, (int)s.key_width,
             (int)s.value_width, s.heads_first ? " heads first" : "", s.causal ? " causal" : "",
             s.padded ? " padded" : "", s.paged ? " paged" : "", (int)s.past, (int)s.beams);
    double *want = oracle(&p);
    float *got = run(&p);
    harness_close(got, want, (size_t)(s.batch * s.targets * s.heads * s.value_width),
                  s.tolerance != 0 ? s.tolerance : 3e-6, what);
    free(got);
    free(want);
    drop(&p);
}

/* Every kind of call at once, in both layouts. */
static void check_kinds(shape s) {
    for (int kind = 0; kind < 8; kind++) {
        s.heads_first = kind & 1;
        s.causal = kind & 2;
        s.padded = kind & 4;
        check(s);
    }
}

static void test_shapes(void **state) {
    (void)state;
    const int64_t targets[] = {1, 3, 17, 65}, lengths[] = {1, 3, 17, 65},
                  widths[] = {1, 3, 8, 17, 32, 64, 65};
    for (size_t i = 0; i < (harness_slow() ? 2 : 4); i++)
        for (size_t j = 0; j < 4; j++)
            for (size_t k = 2; k < (harness_slow() ? 4 : 6); k++)
                check((shape){.batch = 3,
                              .targets = targets[i],
                              .length = lengths[j],
                              .heads = 2,
                              .kv_heads = 2,
                              .key_width = widths[k],
                              .value_width = widths[k],
                              .causal = (i + j) % 2,
                              .padded = (j + k) % 2,
                              .heads_first = (i + k) % 2,
                              .past = (int64_t)k - 2});
    for (size_t k = 0; k < 7; k++)
        for (int64_t t = 1; t < 3; t++)
            check((shape){.batch = 2,
                          .targets = t,
                          .length = 19,
                          .heads = 2,
                          .kv_heads = 2,
                          .key_width = widths[k],
                          .value_width = widths[6 - k]});
}

static void test_kinds(void **state) {
    (void)state;
    check_kinds((shape){.batch = 4,
                        .targets = 5,
                        .length = 40,
                        .heads = 4,
                        .kv_heads = 2,
                        .key_width = 16,
                        .value_width = 24,
                        .past = 3});
    if (harness_slow())
        return;
    check_kinds((shape){.batch = 4,
                        .targets = 1,
                        .length = 37,
                        .heads = 4,
                        .kv_heads = 4,
                        .key_width = 32,
                        .value_width = 32,
                        .past = 20});
    check_kinds((shape){.batch = 3,
                        .targets = 9,
                        .length = 9,
                        .heads = 6,
                        .kv_heads = 1,
                        .key_width = 5,
                        .value_width = 70,
                        .scale = 0.3F});
    check_kinds((shape){.batch = 1,
                        .targets = 200,
                        .length = 170,
                        .heads = 2,
                        .kv_heads = 1,
                        .key_width = 64,
                        .value_width = 64,
                        .past = 11});
    check_kinds((shape){.batch = 2,
                        .targets = 20,
                        .length = 33,
                        .heads = 1,
                        .kv_heads = 1,
                        .key_width = 1000,
                        .value_width = 3});
    check_kinds((shape){.batch = 2,
                        .targets = 6,
                        .length = 33,
                        .heads = 1,
                        .kv_heads = 1,
                        .key_width = 3,
                        .value_width = 1100});
}

/* The calls of a decoder: own keys in a paged cache, keys of the source shared by beams. */
static void test_decoding(void **state) {
    (void)state;
    for (int64_t length = 1; length < 70; length += harness_slow() ? 31 : 8)
        for (int64_t kv_heads = 4; kv_heads > 0; kv_heads -= 3)
            for (int kind = 0; kind < 4; kind++) {
                shape s = {.batch = 10,
                           .targets = 1,
                           .length = length,
                           .heads = 4,
                           .kv_heads = kv_heads,
                           .key_width = 32,
                           .value_width = 32,
                           .padded = kind & 1,
                           .heads_first = kind & 2};
                s.beams = 4;
                check(s);
                s.paged = true;
                s.padded = false;
                check(s);
                s.beams = 0;
                s.targets = 3;
                s.padded = kind & 1;
                s.causal = true;
                s.past = length - 3 > 0 ? length - 3 : 0;
                check(s);
            }
}

/* Scores far apart: only the largest counts, and no exponential leaves the range. A score of 400 has five
 * places before the point, of seven. */
static void test_extremes(void **state) {
    (void)state;
    for (int64_t targets = 1; targets < 7; targets += 5) {
        check((shape){.batch = 2,
                      .targets = targets,
                      .length = 50,
                      .heads = 2,
                      .kv_heads = 2,
                      .key_width = 16,
                      .value_width = 16,
                      .scale = 1,
                      .spread = 100,
                      .tolerance = 3e-4});
        check((shape){.batch = 2,
                      .targets = targets,
                      .length = 50,
                      .heads = 2,
                      .kv_heads = 2,
                      .key_width = 16,
                      .value_width = 16,
                      .scale = 1e-6F});
    }
}

/* The scores at each stage, for queries of one length or another. */
static void test_scores(void **state) {
    (void)state;
    for (int kind = 0; kind < 16; kind++) {
        const tfm_attention_stage stage = (tfm_attention_stage)(kind % 4);
        const shape s = {.batch = 3,
                         .targets = 7,
                         .length = kind & 4 ? 19 : 3,
                         .heads = 4,
                         .kv_heads = 2,
                         .key_width = kind & 4 ? 16 : 5,
                         .value_width = 24,
                         .heads_first = kind & 8,
                         .causal = kind & 4,
                         .padded = true,
                         .past = 4,
                         .paged = kind >= 12};
        harness_random random = {(uint64_t)kind};
        problem p = make(&s, &random);
        const int64_t count = s.batch * s.heads * s.targets * s.length;
        double *want = take(count, sizeof(*want)), *want_y = oracle_scores(&p, want, stage);
        float *got, *y = run_scores(&p, &got, stage);
        for (int64_t i = 0; i < count; i++)
            if (isnan(want[i])) {
                assert_true(isnan(got[i]));
                got[i] = 0;
                want[i] = 0;
            }
        harness_close(got, want, (size_t)count, 3e-6, "scores");
        harness_close(y, want_y, (size_t)(s.batch * s.targets * s.heads * s.value_width), 3e-6, "y beside scores");
        free(got);
        free(want);
        free(y);
        free(want_y);
        drop(&p);
    }
}

/* Attention does not know an order of keys: turning keys and values round together changes rounding only. */
static void test_permutation(void **state) {
    (void)state;
    for (int64_t targets = 1; targets < 12; targets += 10) {
        const shape s = {.batch = 2,
                         .targets = targets,
                         .length = 61,
                         .heads = 2,
                         .kv_heads = 2,
                         .key_width = 24,
                         .value_width = 32};
        harness_random random = {5};
        problem p = make(&s, &random);
        float *before = run(&p);
        for (int64_t n = 0; n < s.batch; n++)
            for (int64_t j = 0; j < s.length / 2; j++)
                for (int64_t i = 0; i < 2; i++) {
                    const int64_t width = s.kv_heads * (i ? s.value_width : s.key_width);
                    float *all = i ? p.v : p.k, *a = all + (n * s.length + j) * width;
                    float *b = all + (n * s.length + s.length - 1 - j) * width;
                    for (int64_t d = 0; d < width; d++) {
                        const float kept = a[d];
                        a[d] = b[d];
                        b[d] = kept;
                    }
                }
        float *after = run(&p);
        for (int64_t i = 0; i < s.batch * targets * s.heads * s.value_width; i++)
            assert_true(fabsf(before[i] - after[i]) < 2e-6F);
        free(before);
        free(after);
        drop(&p);
    }
}

/* Keys that come later than a query sees are nothing to it, even as NaN; nor are rows and sources that do not
 * exist. */
static void test_unseen(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const shape s = {.batch = 1,
                     .targets = 40,
                     .length = 40,
                     .heads = 1,
                     .kv_heads = 1,
                     .key_width = 16,
                     .value_width = 16,
                     .causal = true};
    harness_random random = {9};
    problem p = make(&s, &random);
    double *want = oracle(&p);
    for (int spoilt = 0; spoilt < 2; spoilt++) { /* a key, then a value: who sees it must say so */
        float *which = spoilt ? p.v + 20 * 16 + 3 : p.k + 20 * 16 + 3;
        const float kept = *which;
        *which = NAN;
        float *got = run(&p);
        harness_close(got, want, 20 * 16, 3e-6, "before the first NaN");
        for (int64_t t = 20; t < 40; t++)
            assert_true(isnan(got[t * 16 + 3]));
        free(got);
        *which = kept;
    }
    free(want);
    drop(&p);

    harness_ok(tfm_scope_open(ctx));
    const float ones[] = {1, 1, 2, 2, 4, 4};
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, ones, 3, 1, 2), pool = HARNESS_TENSOR(TFM_F32, ones, 3, 2),
               y = {0};
    tfm_tensor rows = HARNESS_TENSOR(TFM_I32, ((int32_t[]){0, -1, 3, 2, 1 << 30, -77}), 3, 2);
    harness_ok(tfm_attention(ctx, &y, q, pool, pool, &(tfm_attention_options){.heads = 1, .rows = rows}));
    float *got = harness_floats(y);
    harness_close(got, (double[]){1, 1, 4, 4, 0, 0}, 6, 1e-6, "rows outside the pool");
    free(got);
    int32_t late[80]; /* nothing in sight for tiles on end, then one key: its value is the answer */
    for (int i = 0; i < 80; i++)
        late[i] = i == 75 ? 1 : -1;
    tfm_tensor twice = HARNESS_TENSOR(TFM_F32, ones, 1, 3, 2), late_y = {0};
    tfm_tensor late_rows = HARNESS_TENSOR(TFM_I32, late, 1, 80);
    harness_ok(tfm_attention(ctx, &late_y, twice, pool, pool,
                             &(tfm_attention_options){.heads = 1, .rows = late_rows}));
    got = harness_floats(late_y);
    harness_close(got, (double[]){2, 2, 2, 2, 2, 2}, 6, 1e-6, "one row in the pool, late");
    free(got);
    tfm_tensor keys = HARNESS_TENSOR(TFM_F32, ones, 3, 1, 2), z = {0};
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, ((int32_t[]){3, 1, -1}), 3);
    harness_ok(
        tfm_attention(ctx, &z, q, keys, keys, &(tfm_attention_options){.heads = 1, .sources = sources}));
    got = harness_floats(z);
    harness_close(got, (double[]){0, 0, 2, 2, 0, 0}, 6, 1e-6, "sources that do not exist");
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* However many keys come before, and whatever length or source is given, the keys that there are are seen. */
static void test_limits(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int64_t pasts[] = {INT64_MAX, INT64_MAX - 1, INT32_MAX, 5};
    const float keys[] = {1, 1, 1, 1}, values[] = {1, 2, 3, 6};
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, keys, 1, 1, 4, 1), k = HARNESS_TENSOR(TFM_F32, keys, 1, 1, 4, 1);
    tfm_tensor v = HARNESS_TENSOR(TFM_F32, values, 1, 1, 4, 1);
    for (size_t i = 0; i < 4; i++) {
        tfm_tensor y = {0};
        harness_ok(tfm_attention(ctx, &y, q, k, v,
                                 &(tfm_attention_options){.causal = true, .past = pasts[i]}));
        float *got = harness_floats(y);
        harness_close(got, (double[]){3, 3, 3, 3}, 4, 1e-6, "many keys before");
        free(got);
    }
    tfm_tensor ones = HARNESS_TENSOR(TFM_F32, keys, 4, 1, 1, 1), y = {0};
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, ((int32_t[]){-1, INT32_MIN, 1, INT32_MAX}), 4);
    tfm_tensor sources = HARNESS_TENSOR(TFM_I32, ((int32_t[]){2, INT32_MIN, 3, INT32_MAX}), 4);
    tfm_tensor each = HARNESS_TENSOR(TFM_F32, values, 4, 1, 1, 1);
    harness_ok(tfm_attention(ctx, &y, ones, ones, each, &(tfm_attention_options){.lengths = lengths}));
    float *got = harness_floats(y);
    harness_close(got, (double[]){0, 0, 3, 6}, 4, 1e-6, "lengths out of range");
    free(got);
    harness_ok(tfm_attention(ctx, &y, ones, ones, each, &(tfm_attention_options){.sources = sources}));
    got = harness_floats(y);
    harness_close(got, (double[]){3, 0, 6, 0}, 4, 1e-6, "sources out of range");
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Heads far wider than any model's: right, or refused where the device has no room for them. */
static void test_very_wide(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    if (!harness_slow())
        check((shape){.batch = 1,
                      .targets = 5,
                      .length = 3,
                      .heads = 1,
                      .kv_heads = 1,
                      .key_width = 8,
                      .value_width = 20001});
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 8), k = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 8);
    tfm_tensor v = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 2, 131072), y = {0};
    harness_refused(tfm_attention(ctx, &y, q, k, v, NULL), TFM_ERROR_ARGUMENT, "at most 65536");
    harness_refused(tfm_attention(ctx, &y, v, v, k, NULL), TFM_ERROR_ARGUMENT, "at most 65536");
    float *ones = take(2 * 60000, sizeof(float));
    for (int i = 0; i < 2 * 60000; i++)
        ones[i] = 1;
    tfm_tensor wide = HARNESS_TENSOR(TFM_F32, ones, 1, 1, 2, 60000);
    tfm_tensor values = HARNESS_TENSOR(TFM_F32, ((float[]){1, 3}), 1, 1, 2, 1);
    const tfm_status status = tfm_attention(ctx, &y, wide, wide, values, NULL);
    if (status != TFM_OK) {
        harness_refused(status, TFM_ERROR_ARGUMENT, "bytes of local memory");
    } else {
        float *got = harness_floats(y);
        harness_close(got, (double[]){2, 2}, 2, 1e-6, "very wide keys");
        free(got);
    }
    free(ones);
}

/* Many sequences: more work-groups than one axis of a grid takes. */
static void test_many(void **state) {
    (void)state;
    if (harness_slow())
        return;
    check((shape){.batch = 9001,
                  .targets = 1,
                  .length = 3,
                  .heads = 4,
                  .kv_heads = 4,
                  .key_width = 8,
                  .value_width = 8});
    check((shape){.batch = 9001,
                  .targets = 2,
                  .length = 3,
                  .heads = 4,
                  .kv_heads = 4,
                  .key_width = 8,
                  .value_width = 8});
}

static void test_refusals(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status bad = TFM_ERROR_ARGUMENT;
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 12), k = HARNESS_TENSOR(TFM_F32, NULL, 2, 5, 12),
               y = {0};
    tfm_tensor longer = HARNESS_TENSOR(TFM_F32, NULL, 2, 6, 12),
               three = HARNESS_TENSOR(TFM_F32, NULL, 3, 5, 12);
    tfm_tensor flat = HARNESS_TENSOR(TFM_F32, NULL, 2, 12), apart = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 5, 3);
    tfm_tensor numbers = HARNESS_TENSOR(TFM_I32, NULL, 3), wrong = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 13);
    tfm_tensor pages = HARNESS_TENSOR(TFM_I32, NULL, 3, 5);
#define REFUSED(part, q_, k_, v_, ...)                                                                       \
    harness_refused(tfm_attention(ctx, &y, q_, k_, v_, &(tfm_attention_options){__VA_ARGS__}), bad, part)
    REFUSED("heads", q, k, k, .heads = 0);
    REFUSED("heads", q, k, k, .heads = 5);
    REFUSED("multiple", q, k, k, .heads = 4, .kv_heads = 3);
    REFUSED("rank", q, apart, apart, .heads = 4);
    REFUSED("rank", q, k, k, .heads = 4, .rows = pages);
    REFUSED("neither", flat, flat, flat, .heads = 4);
    REFUSED("length", q, k, longer, .heads = 4);
    REFUSED("same sequences", q, three, three, .heads = 4);
    REFUSED("lengths", q, k, k, .heads = 4, .lengths = numbers);
    REFUSED("sources", q, k, k, .heads = 4, .sources = numbers);
    REFUSED("rows", q, flat, flat, .heads = 4, .rows = pages);
    REFUSED("past", q, k, k, .heads = 4, .past = -1);
    REFUSED("dtype", q, k, k, .heads = 4, .lengths = flat);
    REFUSED("empty", q, (tfm_tensor){0}, k, .heads = 4);
    tfm_tensor scores = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 3, 6);
    REFUSED("result", q, k, k, .heads = 4, .scores = &scores);
    tfm_tensor all = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 5, 5), keys = all;
    keys.rank = 3;
    memcpy(keys.dims, (int64_t[]){2, 5, 12}, 3 * sizeof(int64_t));
    memcpy(all.dims, (int64_t[]){2, 4, 3, 5}, 4 * sizeof(int64_t));
    REFUSED("shares memory", q, keys, k, .heads = 4, .scores = &all);
    scores = (tfm_tensor){0};
    REFUSED("stage", q, k, k, .heads = 4, .scores = &scores, .stage = (tfm_attention_stage)4);
    y = wrong;
    REFUSED("output", q, k, k, .heads = 4);
#undef REFUSED
    harness_guards(wrong);
}

static void test_shared_memory(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor q = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 4, 8), far = HARNESS_TENSOR(TFM_F32, NULL, 1, 1, 4, 8);
    harness_refused(tfm_attention(ctx, &q, q, far, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, q, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, far, q, NULL), no, why);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_shapes),      cmocka_unit_test(test_kinds),    cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_unseen),   cmocka_unit_test(test_many),
        cmocka_unit_test(test_permutation), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_very_wide),
        cmocka_unit_test(test_shared_memory), cmocka_unit_test(test_scores),
    };
    return cmocka_run_group_tests_name("attention", all, harness_setup, harness_teardown);
}
