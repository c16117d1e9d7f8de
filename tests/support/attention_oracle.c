#include "support/attention_oracle.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/selftest/selftest.h"
#include "support/kv_int8.h"

void *attention_take(int64_t count, size_t size) {
    void *block = calloc((size_t)(count ? count : 1), size);
    assert_non_null(block);
    return block;
}

size_t attention_count(const attention_case *c) {
    return (size_t)(c->batch * c->targets * c->heads * c->value_width);
}

int64_t attention_query_index(const attention_case *c, int64_t b, int64_t t, int64_t h) {
    return c->heads_first ? (b * c->heads + h) * c->targets + t : (b * c->targets + t) * c->heads + h;
}

static int64_t source_of(const attention_problem *p, int64_t b) {
    return p->c.beams ? p->sources[b] : b;
}

int64_t attention_key_index(const attention_problem *p, int64_t b, int64_t j, int64_t h) {
    const attention_case *c = &p->c;
    if (c->paged)
        return p->rows[b * c->length + j] * c->kv_heads + h;
    const int64_t n = source_of(p, b);
    return c->heads_first ? (n * c->kv_heads + h) * c->length + j : (n * c->length + j) * c->kv_heads + h;
}

/* Whether key j of query sequence b exists. */
static bool exists(const attention_problem *p, int64_t b, int64_t j) {
    const int32_t row = p->rows[b * p->c.length + j];
    return !p->c.paged || (row >= 0 && row < p->pool);
}

/* ---- What is seen ---- */

static int64_t mask_count(const attention_case *c) {
    int64_t count = 1;
    for (int i = 0; i < c->mask_rank; i++)
        count *= c->mask_dims[i];
    return count;
}

/* The additive mask. */
static double mask_at(const attention_problem *p, int64_t b, int64_t h, int64_t t, int64_t j) {
    const attention_case *c = &p->c;
    const int64_t place[] = {b, h, t, j};
    int64_t at = 0;
    for (int i = 0; i < c->mask_rank; i++) {
        const int64_t dim = c->mask_dims[i], x = dim == 1 ? 0 : place[4 - c->mask_rank + i];
        if (x >= dim)
            return -INFINITY;
        at = at * dim + x;
    }
    return c->masked ? (double)p->mask[at] : 0;
}

static bool sees(const attention_problem *p, int64_t b, int64_t h, int64_t t, int64_t j) {
    const attention_case *c = &p->c;
    const int64_t length = c->padded ? p->lengths[source_of(p, b)] : c->length;
    const int64_t at = t + (c->causal_bottom_right ? length - c->targets : c->past);
    return j < length && exists(p, b, j) && (!c->causal || j <= at) &&
           (!c->window || c->before < 0 || j >= at - c->before) && (!c->window || c->after < 0 || j <= at + c->after) &&
           mask_at(p, b, h, t, j) != -INFINITY;
}

/* ---- The problem ---- */

static tfm_dtype q_dtype(const attention_case *c) {
    return c->wide_q || c->numbers == TFM_I8 ? TFM_F32 : c->numbers;
}

/* Rounds to a narrower dtype and back. */
static void narrow(float *host, int64_t count, tfm_dtype dtype) {
    tfm_context *ctx = harness_context();
    tfm_tensor wide = {0}, less = {0}, back = {0};
    if (dtype == TFM_F32 || dtype == TFM_I8)
        return;
    harness_ok(tfm_scope_open(ctx));
    harness_ok(tfm_tensor_new(ctx, &wide, TFM_F32, 1, &count));
    harness_ok(tfm_tensor_write(ctx, wide, host));
    harness_ok(tfm_cast(ctx, &less, wide, dtype));
    harness_ok(tfm_cast(ctx, &back, less, TFM_F32));
    harness_ok(tfm_tensor_read(ctx, host, back));
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

/* Multiples of 1/8, exact in all dtypes, and sometimes -inf. */
static void make_mask(attention_problem *p, harness_random *random) {
    const int64_t count = mask_count(&p->c);
    p->mask = attention_take(count, sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        const bool hidden = harness_range(random, 0, 3) == 0;
        p->mask[i] = hidden ? -INFINITY : p->c.mask == TFM_U8 ? 0 : (float)harness_range(random, -32, 32) / 8;
    }
}

/* Random numbers for visible elements, NaN for the rest. */
static void make_keys(attention_problem *p, harness_random *random) {
    const attention_case *c = &p->c;
    const int64_t keys = p->pool * c->kv_heads, nk = keys * c->key_width, nv = keys * c->value_width;
    p->k = attention_take(nk, sizeof(float));
    p->v = attention_take(nv, sizeof(float));
    for (int64_t i = 0; i < nk; i++)
        p->k[i] = NAN;
    for (int64_t i = 0; i < nv; i++)
        p->v[i] = NAN;
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->heads; h++)
            for (int64_t j = 0; j < c->length; j++) {
                if (!exists(p, b, j))
                    continue;
                const int64_t at = attention_key_index(p, b, j, h / (c->heads / c->kv_heads));
                for (int64_t t = c->targets - 1; t >= 0 && isnan(p->k[at * c->key_width]); t--)
                    if (sees(p, b, h, t, j)) {
                        harness_fill(random, p->k + at * c->key_width, (size_t)c->key_width, 1);
                        harness_fill(random, p->v + at * c->value_width, (size_t)c->value_width, 1);
                    }
            }
    p->int8_k = c->numbers == TFM_I8 ? kv_int8_round(p->k, keys, c->key_width) : NULL;
    p->int8_v = c->numbers == TFM_I8 ? kv_int8_round(p->v, keys, c->value_width) : NULL;
    narrow(p->k, nk, c->numbers);
    narrow(p->v, nv, c->numbers);
}

attention_problem attention_make(const attention_case *c) {
    harness_random random = {(uint64_t)(c->batch * 131 + c->targets * 17 + c->length * 7 + c->key_width)};
    attention_problem p = {.c = *c, .sequences = c->beams ? (c->batch + c->beams - 1) / c->beams : c->batch};
    p.pool = c->paged ? c->batch * c->length + 3 : p.sequences * c->length;
    const int64_t nq = c->batch * c->targets * c->heads * c->key_width;
    p.q = attention_take(nq, sizeof(float));
    p.lengths = attention_take(p.sequences, sizeof(int32_t));
    p.sources = attention_take(c->batch, sizeof(int32_t));
    p.rows = attention_take(c->batch * c->length, sizeof(int32_t));
    harness_fill(&random, p.q, (size_t)nq, c->spread != 0 ? c->spread : 1);
    narrow(p.q, nq, q_dtype(c));
    for (int64_t i = 0; i < p.sequences; i++) /* one empty, one full, others between */
        p.lengths[i] = i == 1 ? 0 : i == 0 ? (int32_t)c->length : (int32_t)harness_range(&random, 0, c->length);
    for (int64_t b = 0; b < c->batch; b++)
        p.sources[b] = c->beams ? (int32_t)(p.sequences - 1 - b / c->beams) : 0;
    for (int64_t i = 0; i < c->batch * c->length; i++)
        p.rows[i] = c->holes && i % 5 == 3 ? (int32_t)(i % 2 ? -1 - i : p.pool + i)
                                           : (int32_t)((i * 7 + 5) % p.pool); /* beams may share rows */
    if (c->masked)
        make_mask(&p, &random);
    make_keys(&p, &random);
    return p;
}

void attention_drop(attention_problem *p) {
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->int8_k);
    free(p->int8_v);
    free(p->mask);
    free(p->lengths);
    free(p->sources);
    free(p->rows);
}

/* ---- The oracle ---- */

/* One query's scores at all keys, after the soft cap and before the mask; `product`: without the cap. */
static void score(double *out, const attention_problem *p, int64_t b, int64_t h, int64_t t, bool product) {
    const attention_case *c = &p->c;
    const double scale = c->scale != 0 ? (double)c->scale : 1 / sqrt((double)c->key_width);
    const float *q = p->q + attention_query_index(c, b, t, h) * c->key_width;
    for (int64_t j = 0; j < c->length; j++) {
        out[j] = 0;
        if (!exists(p, b, j))
            continue;
        const float *k = p->k + attention_key_index(p, b, j, h / (c->heads / c->kv_heads)) * c->key_width;
        for (int64_t d = 0; d < c->key_width; d++)
            out[j] += scale * q[d] * k[d];
        if (c->soft_cap > 0 && !product)
            out[j] = (double)c->soft_cap * tanh(out[j] / (double)c->soft_cap);
    }
}

/* Softmax; returns log sum e^score. */
static double softmax(double *z, int64_t count) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < count; j++)
        most = fmax(most, z[j]);
    for (int64_t j = 0; j < count; j++)
        sum += z[j] = most == -INFINITY ? 0 : exp(z[j] - most);
    for (int64_t j = 0; j < count; j++)
        z[j] = sum > 0 ? z[j] / sum : 0;
    return most + log(sum);
}

/* Queries that share keys are numbered head by head; four in a row use the words of one random block per key j. */
double attention_factor(const tfm_dropout_options *dropout, int64_t heads, int64_t kv_heads, int64_t targets, int64_t b,
                        int64_t h, int64_t t, int64_t j) {
    if (dropout->rate == 0)
        return 1;
    const int64_t sharing = heads / kv_heads * targets, query = h % (heads / kv_heads) * targets + t;
    const int64_t block = (b * kv_heads + h / (heads / kv_heads)) * ((sharing + 3) / 4) + query / 4;
    const double share =
        (double)tfm__check_philox(dropout, (uint32_t)j, (uint32_t)block, (int)(query % 4)) / 4294967296.0;
    return share < (double)dropout->rate ? 0 : 1 / (1 - (double)dropout->rate);
}

static void attend(attention_wanted *w, const attention_problem *p, double *z, int64_t b, int64_t h, int64_t t) {
    const attention_case *c = &p->c;
    const int64_t row = (b * c->heads + h) * c->targets + t;
    double *y = w->y + attention_query_index(c, b, t, h) * c->value_width, *shown = w->scores + row * c->length;
    score(z, p, b, h, t, c->stage == TFM_ATTENTION_QK);
    if (c->scored && (c->stage == TFM_ATTENTION_QK || c->stage == TFM_ATTENTION_CAPPED))
        memcpy(shown, z, (size_t)c->length * sizeof(*z));
    score(z, p, b, h, t, false);
    for (int64_t j = 0; j < c->length; j++)
        z[j] = sees(p, b, h, t, j) ? z[j] + mask_at(p, b, h, t, j) : -INFINITY;
    if (c->scored && c->stage == TFM_ATTENTION_MASKED)
        memcpy(shown, z, (size_t)c->length * sizeof(*z));
    const double lse = softmax(z, c->length);
    if (c->summed)
        w->lse[row] = lse;
    if (c->scored && c->stage == TFM_ATTENTION_WEIGHTS)
        memcpy(shown, z, (size_t)c->length * sizeof(*z));
    for (int64_t j = 0; j < c->length; j++) {
        if (!sees(p, b, h, t, j))
            continue;
        const double kept = z[j] * attention_factor(&c->dropout, c->heads, c->kv_heads, c->targets, b, h, t, j);
        const float *v = p->v + attention_key_index(p, b, j, h / (c->heads / c->kv_heads)) * c->value_width;
        for (int64_t d = 0; d < c->value_width; d++)
            y[d] += kept * v[d];
    }
}

attention_wanted attention_oracle(const attention_problem *p) {
    const attention_case *c = &p->c;
    const int64_t queries = c->batch * c->heads * c->targets;
    attention_wanted w = {.y = attention_take(queries * c->value_width, sizeof(double)),
                          .scores = attention_take(c->scored ? queries * c->length : 0, sizeof(double)),
                          .lse = attention_take(c->summed ? queries : 0, sizeof(double))};
    double *z = attention_take(c->length, sizeof(double));
    for (int64_t i = 0; i < queries; i++)
        attend(&w, p, z, i / (c->heads * c->targets), i / c->targets % c->heads, i % c->targets);
    free(z);
    return w;
}

/* ---- The op ---- */

/* A guarded tensor with the host's floats as `dtype`; for NULL, an output tensor. */
static tfm_tensor upload(tfm_dtype dtype, const float *host, int rank, const int64_t *dims) {
    tfm_context *ctx = harness_context();
    if (dtype == TFM_F32 || !host)
        return harness_tensor(dtype, rank, dims, host);
    tfm_tensor wide = harness_tensor(TFM_F32, rank, dims, host), less = {0};
    const size_t count = tfm_tensor_count(wide);
    void *bits = attention_take((int64_t)count, 2);
    if (dtype == TFM_U8) {
        for (size_t i = 0; i < count; i++)
            ((unsigned char *)bits)[i] =
                host[i] != -INFINITY ? (unsigned char)(1 + i % 255) : 0; /* any nonzero byte is visible */
    } else {
        harness_ok(tfm_cast(ctx, &less, wide, dtype));
        harness_ok(tfm_tensor_read(ctx, bits, less));
    }
    const tfm_tensor x = harness_tensor(dtype, rank, dims, bits);
    free(bits);
    return x;
}
#define UPLOAD(dtype, host, ...)                                                                                       \
    upload(dtype, host, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static float *download(tfm_tensor x) {
    tfm_tensor wide = {0};
    harness_guards(x);
    if (x.dtype == TFM_F32)
        return harness_floats(x);
    harness_ok(tfm_cast(harness_context(), &wide, x, TFM_F32));
    return harness_floats(wide);
}

static tfm_attention_options options_of(const attention_problem *p) {
    const attention_case *c = &p->c;
    tfm_attention_options options = {.heads = c->heads_first ? 0 : (int)c->heads,
                                     .kv_heads = c->kv_heads != c->heads ? (int)c->kv_heads : 0,
                                     .scale = c->scale,
                                     .soft_cap = c->soft_cap,
                                     .causal = c->causal,
                                     .past = c->past,
                                     .causal_bottom_right = c->causal_bottom_right,
                                     .window = c->window,
                                     .window_left = c->before,
                                     .window_right = c->after,
                                     .stage = c->stage,
                                     .dropout = c->dropout.rate > 0 ? &c->dropout : NULL};
    if (c->padded)
        options.lengths = HARNESS_TENSOR(TFM_I32, p->lengths, p->sequences);
    if (c->beams)
        options.kv_batch = HARNESS_TENSOR(TFM_I32, p->sources, c->batch);
    if (c->paged)
        options.kv_indices = HARNESS_TENSOR(TFM_I32, p->rows, c->batch, c->length);
    if (c->masked)
        options.mask = upload(c->mask, p->mask, c->mask_rank, c->mask_dims);
    return options;
}

/* Keys or values of that width. */
static tfm_tensor upload_heads(const attention_problem *p, const float *host, int64_t width) {
    const int64_t H = p->c.kv_heads, S = p->c.length, N = p->sequences;
    const int64_t apart[] = {N, H, S, width}, flat[] = {N, S, H * width}, rows[] = {p->pool, H * width};
    const int64_t *dims = p->c.paged ? rows : p->c.heads_first ? apart : flat;
    const int rank = p->c.paged ? 2 : p->c.heads_first ? 4 : 3;
    return p->c.numbers == TFM_I8 ? kv_int8_tensor(host == p->k ? p->int8_k : p->int8_v, width, rank, dims)
                                  : upload(p->c.numbers, host, rank, dims);
}

attention_got attention_run(const attention_problem *p) {
    const attention_case *c = &p->c;
    const tfm_dtype dtype = c->narrow ? q_dtype(c) : TFM_F32;
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_attention_options options = options_of(p);
    tfm_tensor q, y, scores = HARNESS_TENSOR(TFM_F32, NULL, c->batch, c->heads, c->targets, c->length);
    tfm_tensor lse = HARNESS_TENSOR(TFM_F32, NULL, c->batch, c->heads, c->targets);
    if (c->heads_first) {
        q = UPLOAD(q_dtype(c), p->q, c->batch, c->heads, c->targets, c->key_width);
        y = UPLOAD(dtype, NULL, c->batch, c->heads, c->targets, c->value_width);
    } else {
        q = UPLOAD(q_dtype(c), p->q, c->batch, c->targets, c->heads * c->key_width);
        y = UPLOAD(dtype, NULL, c->batch, c->targets, c->heads * c->value_width);
    }
    const tfm_tensor k = upload_heads(p, p->k, c->key_width), v = upload_heads(p, p->v, c->value_width);
    options.scores = c->scored ? &scores : NULL;
    options.lse = c->summed ? &lse : NULL;
    harness_ok(tfm_attention(ctx, &y, q, k, v, &options));
    attention_got got = {.y = download(y), .scores = download(scores), .lse = download(lse)};
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return got;
}

/* ---- Both ---- */

static void describe(char *what, size_t size, const attention_case *c) {
    snprintf(what, size,
             "B %d T %d S %d H %d/%d d %d/%d%s%s%s%s%s past %d beams %d cap %g window %d:%d mask %s %s%s drop %g",
             (int)c->batch, (int)c->targets, (int)c->length, (int)c->heads, (int)c->kv_heads, (int)c->key_width,
             (int)c->value_width, c->heads_first ? " heads first" : "", c->causal ? " causal" : "",
             c->padded ? " padded" : "",
             c->holes   ? " paged with holes"
             : c->paged ? " paged"
                        : "",
             c->causal_bottom_right ? " at end" : "", (int)c->past, (int)c->beams, (double)c->soft_cap,
             c->window ? (int)c->before : -1, c->window ? (int)c->after : -1,
             c->masked ? tfm_dtype_name(c->mask) : "none", tfm_dtype_name(c->numbers),
             c->wide_q   ? " except q"
             : c->narrow ? " to it"
                         : "",
             (double)c->dropout.rate);
}

void attention_check(attention_case c) {
    static int number;
    if (harness_left_out(&number, 4))
        return;
    char what[400], text[500];
    attention_problem p = attention_make(&c);
    attention_wanted want = attention_oracle(&p);
    harness_align((c.batch + c.length) % 2 == 0 ? 4 : 0);
    attention_got got = attention_run(&p);
    harness_align(0);
    const size_t queries = (size_t)(c.batch * c.heads * c.targets), scores = queries * (size_t)c.length;
    const double exact = c.tolerance != 0 ? c.tolerance : 3e-6;
    describe(what, sizeof(what), &c);
    harness_close(got.y, want.y, attention_count(&c),
                  !c.narrow || c.wide_q  ? exact
                  : c.numbers == TFM_F16 ? 2e-3
                                         : 1.6e-2,
                  what);
    snprintf(text, sizeof(text), "lse of %s", what);
    if (c.summed)
        harness_close(got.lse, want.lse, queries, exact, text);
    for (size_t i = 0; c.scored && i < scores; i++)
        if (isnan(want.scores[i])) { /* score of an invisible key */
            assert_true(isnan(got.scores[i]));
            want.scores[i] = got.scores[i] = 0;
        }
    snprintf(text, sizeof(text), "scores %d of %s", (int)c.stage, what);
    if (c.scored)
        harness_close(got.scores, want.scores, scores, exact, text);
    free(got.y);
    free(got.scores);
    free(got.lse);
    free(want.y);
    free(want.scores);
    free(want.lse);
    attention_drop(&p);
}
