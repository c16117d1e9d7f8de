/* Selftest of attention in its supported forms. */
#include <math.h>
#include <stdlib.h>
#include "ops/elementwise/dropout.h"
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

/* The forms of tfm_attention: B, N, T, S, H, Hk, dk, dv, past, and the optional inputs. */
static const struct form {
    int64_t B, N, T, S, H, Hk, dk, dv, past;
    bool causal, lengths, rows, sources, heads_first, mask; /* a mask is (H, 1, S), added */
    double soft_cap;
    int64_t window; /* window on either side; 0: no window */
    float drops;    /* dropout rate */
} FORMS[] = {
    {.B = 2, .N = 2, .T = 5, .S = 37, .H = 3, .Hk = 3, .dk = 17, .dv = 9},
    {.B = 3, .N = 3, .T = 9, .S = 12, .H = 2, .Hk = 2, .dk = 32, .dv = 32, .past = 3, .causal = true, .lengths = true},
    {.B = 2, .N = 2, .T = 7, .S = 21, .H = 4, .Hk = 2, .dk = 16, .dv = 16, .lengths = true, .heads_first = true},
    {.B = 5, .N = 5, .T = 1, .S = 11, .H = 2, .Hk = 2, .dk = 32, .dv = 32, .rows = true},
    {.B = 6, .N = 2, .T = 1, .S = 13, .H = 2, .Hk = 2, .dk = 32, .dv = 32, .lengths = true, .sources = true},
    {.B = 2,
     .N = 2,
     .T = 9,
     .S = 37,
     .H = 4,
     .Hk = 2,
     .dk = 16,
     .dv = 16,
     .past = 20,
     .mask = true,
     .soft_cap = 1.5,
     .window = 5},
    {.B = 2, .N = 2, .T = 9, .S = 37, .H = 4, .Hk = 2, .dk = 16, .dv = 16, .drops = 0.3f},
    {.B = 2, .N = 2, .T = 40, .S = 37, .H = 2, .Hk = 1, .dk = 16, .dv = 20, .past = -3, .causal = true},
    {.B = 2, .N = 2, .T = 20, .S = 37, .H = 4, .Hk = 2, .dk = 20, .dv = 16, .past = 17, .causal = true, .rows = true},
    {.B = 1, .N = 1, .T = 1, .S = 1100, .H = 4, .Hk = 2, .dk = 32, .dv = 32}, /* split-KV: several work-groups share the
                                                                                 keys */
};

enum { POOL_ROWS = 40 }; /* of a KV cache that kv_indices points into */

static tfm_dropout_options dropout_of(const struct form *f) {
    return (tfm_dropout_options){.rate = f->drops, .seed = 0x123456789abcdefull, .stream = 0x700000005ull};
}

typedef struct attention_data {
    float *q, *k, *v, *mask;
    int32_t *lengths, *rows, *sources;
} attention_data;

/* Offset of the key or value of width d of query head h. */
static const float *key_at(const struct form *f, const attention_data *a, const float *base, int64_t b, int64_t h,
                           int64_t s, int64_t d) {
    int64_t head = h / (f->H / f->Hk), sequence = f->sources ? a->sources[b] : b;
    if (f->heads_first)
        return base + ((sequence * f->Hk + head) * f->S + s) * d;
    int64_t row = f->rows ? a->rows[b * f->S + s] : sequence * f->S + s;
    return base + (row * f->Hk + head) * d;
}

/* Dropout factor of a weight: cl/attention/attention_common.cl. */
static double kept(const struct form *f, int64_t b, int64_t h, int64_t t, int64_t s) {
    const tfm_dropout_options dropout = dropout_of(f);
    const int64_t group = f->H / f->Hk, query = h % group * f->T + t;
    const int64_t block = (b * f->Hk + h / group) * ((group * f->T + 3) / 4) + query / 4;
    const uint32_t number = tfm__check_philox(&dropout, (uint32_t)s, (uint32_t)block, (int)(query % 4));
    return number < tfm__dropout_threshold(&dropout) ? 0 : 1 / (1 - (double)dropout.rate);
}

/* One query's output row (dv): softmax of the scaled scores over the visible keys, times the values. */
static void attend(double *out, const struct form *f, const attention_data *a, const float *q, int64_t b, int64_t h,
                   int64_t t) {
    int64_t visible = f->lengths ? a->lengths[f->sources ? a->sources[b] : b] : f->S;
    double total = 0;
    for (int64_t s = 0; s < visible && (!f->causal || s <= t + f->past); s++) {
        if (f->window && llabs(t + f->past - s) > f->window)
            continue;
        const float *k = key_at(f, a, a->k, b, h, s, f->dk), *v = key_at(f, a, a->v, b, h, s, f->dv);
        double score = 0, weight;
        for (int64_t d = 0; d < f->dk; d++)
            score += (double)q[d] * (double)k[d];
        score /= sqrt((double)f->dk);
        score = f->soft_cap > 0 ? f->soft_cap * tanh(score / f->soft_cap) : score;
        total += weight = exp(score + (f->mask ? (double)a->mask[h * f->S + s] : 0));
        for (int64_t d = 0; d < f->dv; d++)
            out[d] += weight * kept(f, b, h, t, s) * (double)v[d];
    }
    for (int64_t d = 0; d < f->dv && total > 0; d++)
        out[d] /= total;
}

static void check(tfm__check *c) {
    const struct form *f = &FORMS[c->number];
    attention_data a = {0};
    tfm_tensor y = {0}, q, k, v;
    const tfm_dropout_options dropout = dropout_of(f);
    tfm_attention_options options = {.heads = f->heads_first ? 0 : (int)f->H,
                                     .kv_heads = (int)f->Hk,
                                     .causal = f->causal,
                                     .past = f->past,
                                     .soft_cap = (float)f->soft_cap,
                                     .window = f->window > 0,
                                     .window_left = f->window,
                                     .window_right = f->window,
                                     .dropout = &dropout};
    if (f->heads_first) {
        q = RANDOM_FLOATS(a.q, f->B, f->H, f->T, f->dk);
        k = RANDOM_FLOATS(a.k, f->N, f->Hk, f->S, f->dk);
        v = RANDOM_FLOATS(a.v, f->N, f->Hk, f->S, f->dv);
    } else {
        q = RANDOM_FLOATS(a.q, f->B, f->T, f->H * f->dk);
        k = f->rows ? RANDOM_FLOATS(a.k, POOL_ROWS, f->Hk * f->dk) : RANDOM_FLOATS(a.k, f->N, f->S, f->Hk * f->dk);
        v = f->rows ? RANDOM_FLOATS(a.v, POOL_ROWS, f->Hk * f->dv) : RANDOM_FLOATS(a.v, f->N, f->S, f->Hk * f->dv);
    }
    if (f->lengths) /* a length of 0 is allowed: its rows are zero */
        options.lengths = RANDOM_INTS(a.lengths, (int)f->S + 1, f->N);
    if (f->rows)
        options.kv_indices = RANDOM_INTS(a.rows, POOL_ROWS, f->B, f->S);
    if (f->sources)
        options.kv_batch = RANDOM_INTS(a.sources, (int)f->N, f->B);
    if (f->mask)
        options.mask = RANDOM_FLOATS(a.mask, f->H, 1, f->S);
    double *want = EXPECTED(f->B * f->H * f->T * f->dv);
    for (int64_t i = 0; tfm__check_ready(c) && i < f->B * f->H * f->T; i++) { /* in the layout of q */
        int64_t b = i / (f->H * f->T), h = f->heads_first ? i / f->T % f->H : i % f->H;
        attend(want + i * f->dv, f, &a, a.q + i * f->dk, b, h, f->heads_first ? i % f->T : i / f->H % f->T);
    }
    tfm_attention(c->ctx, &y, q, k, v, &options);
    tfm__check_compare(c, y, want);
}

enum { BACKWARD_T = 70, BACKWARD_S = 66, BACKWARD_D = 32, BACKWARD_H = 2 };
/* Operands of the backward pass, (rows, H * D), and its expected gradients. */
struct backward {
    float *q, *k, *v, *dy;
    double *dq, *dk, *dv;
    double *weights, *means; /* of a row: S attention weights, D means of v */
};
/* Adds the gradients of row `t` of head `h`. With weights P and Y = P V: dV = P^T dY and dS = P (dY V^T - dY Y), where
 * dY Y is one dot product a row; dQ and dK are dS K and dS^T Q, scaled. */
static void add_gradients(const struct backward *b, int64_t t, int64_t h) {
    enum { S = BACKWARD_S, D = BACKWARD_D, H = BACKWARD_H };
    const double scale = 1 / sqrt((double)D);
    const int64_t row = (t * H + h) * D, last = t < S ? t : S - 1;
    const float *q = b->q + row, *dy = b->dy + row;
    double *weights = b->weights, *means = b->means, total = 0, mean = 0;
    for (int64_t s = 0; s <= last; s++) {
        weights[s] = 0;
        for (int64_t d = 0; d < D; d++)
            weights[s] += scale * (double)q[d] * (double)b->k[(s * H + h) * D + d];
        total += weights[s] = exp(weights[s]);
    }
    for (int64_t d = 0; d < D; d++)
        means[d] = 0;
    for (int64_t s = 0; s <= last; s++) {
        weights[s] /= total;
        for (int64_t d = 0; d < D; d++)
            means[d] += weights[s] * (double)b->v[(s * H + h) * D + d];
    }
    for (int64_t d = 0; d < D; d++)
        mean += means[d] * (double)dy[d];
    for (int64_t s = 0; s <= last; s++) {
        const int64_t at = (s * H + h) * D;
        double ds = -mean;
        for (int64_t d = 0; d < D; d++) {
            b->dv[at + d] += weights[s] * (double)dy[d];
            ds += (double)dy[d] * (double)b->v[at + d];
        }
        for (int64_t d = 0; d < D; d++) {
            b->dq[row + d] += scale * weights[s] * ds * (double)b->k[at + d];
            b->dk[at + d] += scale * weights[s] * ds * (double)q[d];
        }
    }
}
/* Gradients of q, k and v, which accumulate onto initial values. */
static void check_backward(tfm__check *c) {
    enum { T = BACKWARD_T, S = BACKWARD_S, D = BACKWARD_D, H = BACKWARD_H };
    struct backward b;
    const tfm_tensor tq = RANDOM_FLOATS(b.q, 1, T, H * D), tk = RANDOM_FLOATS(b.k, 1, S, H * D),
                     tv = RANDOM_FLOATS(b.v, 1, S, H * D), tdy = RANDOM_FLOATS(b.dy, 1, T, H * D);
    float *sum_q, *sum_k, *sum_v; /* initial gradient values */
    const tfm_tensor dq = RANDOM_FLOATS(sum_q, 1, T, H * D), dk = RANDOM_FLOATS(sum_k, 1, S, H * D),
                     dv = RANDOM_FLOATS(sum_v, 1, S, H * D);
    tfm_tensor y = {0};
    b.dq = EXPECTED(T * H * D), b.dk = EXPECTED(S * H * D), b.dv = EXPECTED(S * H * D);
    b.weights = EXPECTED(S), b.means = EXPECTED(D);
    if (!tfm__check_ready(c))
        return;
    for (int64_t i = 0; i < (int64_t)T * H * D; i++)
        b.dq[i] = (double)sum_q[i];
    for (int64_t i = 0; i < (int64_t)S * H * D; i++) {
        b.dk[i] = (double)sum_k[i];
        b.dv[i] = (double)sum_v[i];
    }
    for (int64_t i = 0; i < (int64_t)T * H; i++)
        add_gradients(&b, i / H, i % H);
    const tfm_attention_options options = {.heads = H, .causal = true};
    struct tfm__tape *aside = tfm__tape_push(c->ctx);
    if (tfm_context_status(c->ctx) != TFM_OK) /* the caller's tape is restored */
        return;
    tfm_tape_start(c->ctx);
    tfm_tape_watch(c->ctx, tq, dq);
    tfm_tape_watch(c->ctx, tk, dk);
    tfm_tape_watch(c->ctx, tv, dv);
    tfm_attention(c->ctx, &y, tq, tk, tv, &options);
    tfm_backward(c->ctx, y, tdy);
    tfm__tape_pop(c->ctx, aside);
    tfm__check_compare(c, dq, b.dq);
    tfm__check_compare(c, dk, b.dk);
    tfm__check_compare(c, dv, b.dv);
}

const tfm__check_entry tfm__selftest_attention[] = {
    {"attention", "dk != dv", check, 0},
    {"attention", "causal, past, lengths", check, 1},
    {"attention", "heads first, grouped", check, 2},
    {"attention", "rows", check, 3},
    {"attention", "sources", check, 4},
    {"attention", "mask, soft cap, window", check, 5},
    {"attention", "dropout", check, 6},
    {"attention", "many queries", check, 7},
    {"attention", "rows, many queries", check, 8},
    {"attention", "one query, many keys", check, 9},
    {"attention", "backward", check_backward, 0},
    {0},
};
