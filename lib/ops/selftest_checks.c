/* The selftest's checks: an op, what it should give, and the judge. A new op gets a function here and a line
 * in the table at the end. */
#include <math.h>
#include "ops/gemm.h"
#include "ops/selftest.h"

static double activated(double x, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return x > 0 ? x : 0;
    case TFM_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case TFM_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case TFM_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

/* c = relu(a b^T + bias), so that both copies of b and the epilogue are met. */
static void gemm_shape(tfm__check *c, const char **declined, int64_t m, int64_t n, int64_t k) {
    float *a, *b, *bias;
    tfm_tensor y = {0}, ta = FLOATS(a, m, k), tb = FLOATS(b, n, k);
    tfm_gemm_options options = {.transpose_b = true, .bias = FLOATS(bias, n), .activation = TFM_RELU};
    double *want = WANTED(m * n);
    if (!tfm__check_ready(c) ||
        tfm__gemm_with(c->ctx, tfm__gemm_all[c->number], declined, &y, ta, tb, &options) != TFM_OK ||
        *declined)
        return;
    for (int64_t i = 0; i < m * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)a[i / n * k + p] * (double)b[i % n * k + p];
        want[i] = activated(sum, TFM_RELU);
    }
    tfm__check_judge(c, y, want);
}

static void check_gemm(tfm__check *c) {
    static const int64_t shapes[][3] = {{1, 65, 33}, {5, 97, 130}, {37, 65, 100}};
    const char *declined = NULL;
    size_t ran = 0;
    for (size_t i = 0; i < TFM_COUNT(shapes) && tfm__check_ready(c); i++) {
        gemm_shape(c, &declined, shapes[i][0], shapes[i][1], shapes[i][2]);
        ran += !declined;
    }
    if (ran == 0)
        c->why = declined;
}

static void check_linear(tfm__check *c) {
    const int64_t rows = 15, k = 33, n = 65;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tx = FLOATS(x, 3, 5, k), tw = FLOATS(w, n, k), tb = FLOATS(bias, n);
    double *want = WANTED(rows * n);
    weight.value = tw;
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)x[i / n * k + p] * (double)w[i % n * k + p];
        want[i] = activated(sum, TFM_SILU);
    }
    tfm_linear(c->ctx, &y, tx, &weight, tb, TFM_SILU);
    tfm__check_judge(c, y, want);
    tfm_param_free(c->ctx, &weight);
}

static void check_softmax(tfm__check *c) {
    const int64_t rows = 5, n = 65;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, n);
    double *want = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[r * n + i]);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = c->number ? (double)x[r * n + i] - log(sum) : exp((double)x[r * n + i]) / sum;
    }
    if (c->number)
        tfm_log_softmax(c->ctx, &y, tx);
    else
        tfm_softmax(c->ctx, &y, tx);
    tfm__check_judge(c, y, want);
}

/* Over the middle dimension. */
static void check_softmax_axis(tfm__check *c) {
    const int64_t n = 17, inner = 37, rows = 3;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, n, inner);
    double *want = WANTED(rows * n * inner);
    for (int64_t k = 0; tfm__check_ready(c) && k < rows * inner; k++) {
        const int64_t at = k / inner * n * inner + k % inner;
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)x[at + i * inner]);
        for (int64_t i = 0; i < n; i++)
            want[at + i * inner] = exp((double)x[at + i * inner]) / sum;
    }
    tfm_softmax_axis(c->ctx, &y, tx, 1);
    tfm__check_judge(c, y, want);
}

static void check_layernorm(tfm__check *c) {
    const int64_t rows = 3, n = 65;
    const float epsilon = 1e-5f;
    float *x, *residual, *gamma, *beta;
    tfm_tensor y = {0}, sum = {0}, tx = FLOATS(x, rows, n), tr = FLOATS(residual, rows, n),
               tg = FLOATS(gamma, n), tb = FLOATS(beta, n);
    double *want = WANTED(rows * n), *want_sum = WANTED(rows * n);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double mean = 0, variance = 0, *s = want_sum + r * n;
        for (int64_t i = 0; i < n; i++)
            mean += (s[i] = (double)x[r * n + i] + (double)residual[r * n + i]) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (s[i] - mean) * (s[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] =
                (s[i] - mean) / sqrt(variance + (double)epsilon) * (double)gamma[i] + (double)beta[i];
    }
    tfm_layernorm(c->ctx, &y, &sum, tx, tr, tg, tb, epsilon);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, sum, want_sum);
}

static void check_layernorm_axes(tfm__check *c) {
    const int64_t rows = 3, n = 5 * 17;
    const float epsilon = 1e-5f;
    float *x, *gamma, *beta;
    tfm_tensor y = {0}, mean = {0}, inv_std = {0}, tx = FLOATS(x, rows, 5, 17), tg = FLOATS(gamma, 5, 17),
               tb = FLOATS(beta, 5, 17);
    double *want = WANTED(rows * n), *want_mean = WANTED(rows), *want_inverse = WANTED(rows);
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        double variance = 0;
        for (int64_t i = 0; i < n; i++)
            want_mean[r] += (double)x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow((double)x[r * n + i] - want_mean[r], 2) / (double)n;
        want_inverse[r] = 1 / sqrt(variance + (double)epsilon);
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = ((double)x[r * n + i] - want_mean[r]) * want_inverse[r] * (double)gamma[i] +
                              (double)beta[i];
    }
    tfm_layernorm_axes(c->ctx, &y, &mean, &inv_std, tx, tg, tb, 1, epsilon);
    tfm__check_judge(c, y, want);
    tfm__check_judge(c, mean, want_mean);
    tfm__check_judge(c, inv_std, want_inverse);
}

static void check_activate(tfm__check *c) {
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, 3, 333);
    double *want = WANTED(999);
    for (int64_t i = 0; tfm__check_ready(c) && i < 999; i++)
        want[i] = activated((double)x[i], (tfm_activation)c->number);
    tfm_activate(c->ctx, &y, tx, (tfm_activation)c->number);
    tfm__check_judge(c, y, want);
}

static void check_add(tfm__check *c) {
    float *a, *b;
    tfm_tensor y = {0}, ta = FLOATS(a, 17, 65), tb = FLOATS(b, 17, 65);
    double *want = WANTED(17 * 65);
    for (int64_t i = 0; tfm__check_ready(c) && i < 17 * 65; i++)
        want[i] = (double)a[i] + (double)b[i];
    tfm_add(c->ctx, &y, ta, tb);
    tfm__check_judge(c, y, want);
}

static void check_embedding(tfm__check *c) {
    const int64_t vocabulary = 29, sequences = 3, length = 5, width = 17, first = 2;
    float *table, *positions;
    int32_t *ids;
    tfm_tensor y = {0}, tt = FLOATS(table, vocabulary, width), tp = FLOATS(positions, first + length, width),
               ti = INTS(ids, (int)vocabulary, sequences, length);
    double *want = WANTED(sequences * length * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < sequences * length * width; i++) {
        int64_t token = i / width, position = first + token % length;
        want[i] = 1.5 * (double)table[ids[token] * width + i % width] +
                  (double)positions[position * width + i % width];
    }
    tfm_embedding(c->ctx, &y, tt, ti, 1.5f, tp, first);
    tfm__check_judge(c, y, want);
}

static void check_sinusoid(tfm__check *c) {
    const int64_t positions = 33, width = 18, half = width / 2;
    tfm_tensor table = {0};
    double *want = WANTED(positions * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < positions * width; i++) {
        int64_t column = i % width;
        bool split = c->number == TFM_SINUSOID_SPLIT, sine = split ? column < half : column % 2 == 0;
        int64_t pair = split ? column % half : column / 2;
        double angle = (double)(i / width) / pow(10000, 2 * (double)pair / (double)width);
        want[i] = sine ? sin(angle) : cos(angle);
    }
    tfm_sinusoid(c->ctx, &table, positions, width, (tfm_sinusoid_layout)c->number);
    tfm__check_judge(c, table, want);
}

static void check_gather(tfm__check *c) {
    const int64_t rows = 9, n = 21, width = 17;
    float *x;
    int32_t *indices;
    tfm_tensor y = {0}, tx = FLOATS(x, rows, width),
               ti = INTS(indices, (int)rows + 2, n); /* two lie outside */
    double *want = WANTED(n * width);
    for (int64_t i = 0; tfm__check_ready(c) && i < n * width; i++)
        want[i] = indices[i / width] < rows ? (double)x[indices[i / width] * width + i % width] : 0;
    tfm_gather(c->ctx, &y, tx, ti);
    tfm__check_judge(c, y, want);
}

/* To a half and back: exactly the nearest, ties to even. */
static void check_cast(tfm__check *c) {
    const tfm_dtype dtype = c->number == TFM_BF16 ? TFM_BF16 : TFM_F16;
    const int bits = dtype == TFM_BF16 ? 8 : 11, smallest = dtype == TFM_BF16 ? -133 : -24;
    float *x;
    tfm_tensor half = {0}, y = {0}, tx = FLOATS(x, 333);
    double *want = WANTED(333);
    for (int64_t i = 0; tfm__check_ready(c) && i < 333; i++) {
        int exponent, unit;
        frexp((double)x[i], &exponent);
        unit = exponent - bits > smallest ? exponent - bits : smallest;
        want[i] = ldexp(rint(ldexp((double)x[i], -unit)), unit);
    }
    tfm_cast(c->ctx, &half, tx, dtype);
    tfm_cast(c->ctx, &y, half, TFM_F32);
    tfm__check_judge(c, y, want);
    c->error = c->error > 0 ? INFINITY : 0;
}

static void check_topk(tfm__check *c) {
    const int64_t rows = 3, n = 333;
    const int k = 8;
    float *x;
    tfm_tensor values = {0}, indices = {0}, log_sum = {0}, tx = FLOATS(x, rows, n);
    double *want = WANTED(rows * k), *want_sum = WANTED(rows);
    int32_t *order = tfm__check_block(c, (size_t)(rows * k), sizeof(*order));
    for (int64_t r = 0; tfm__check_ready(c) && r < rows; r++) {
        for (int64_t i = 0; i < n; i++)
            want_sum[r] += exp((double)x[r * n + i]);
        want_sum[r] = log(want_sum[r]);
        for (int64_t i = 0; i < n; i++) { /* how many are before it */
            int64_t rank = 0;
            for (int64_t j = 0; j < n; j++)
                rank += x[r * n + j] > x[r * n + i] || (x[r * n + j] == x[r * n + i] && j < i);
            if (rank < k) {
                want[r * k + rank] = (double)x[r * n + i];
                order[r * k + rank] = (int32_t)i;
            }
        }
    }
    tfm_topk(c->ctx, &values, &indices, &log_sum, tx, k);
    tfm__check_judge(c, values, want);
    tfm__check_judge(c, log_sum, want_sum);
    tfm__check_judge_ints(c, indices, order);
}

/* ---- Attention ----------------------------------------------------------------------------------------- */

/* The forms of tfm_attention: B, N, T, S, H, Hk, dk, dv, past, and what is given. */
static const struct form {
    int64_t B, N, T, S, H, Hk, dk, dv, past;
    bool causal, lengths, rows, sources, heads_first;
} FORMS[] = {
    {.B = 2, .N = 2, .T = 5, .S = 37, .H = 3, .Hk = 3, .dk = 17, .dv = 9},
    {.B = 3,
     .N = 3,
     .T = 9,
     .S = 12,
     .H = 2,
     .Hk = 2,
     .dk = 32,
     .dv = 32,
     .past = 3,
     .causal = true,
     .lengths = true},
    {.B = 2,
     .N = 2,
     .T = 7,
     .S = 21,
     .H = 4,
     .Hk = 2,
     .dk = 16,
     .dv = 16,
     .lengths = true,
     .heads_first = true},
    {.B = 5, .N = 5, .T = 1, .S = 11, .H = 2, .Hk = 2, .dk = 32, .dv = 32, .rows = true},
    {.B = 6, .N = 2, .T = 1, .S = 13, .H = 2, .Hk = 2, .dk = 32, .dv = 32, .lengths = true, .sources = true},
};

enum { POOL_ROWS = 40 }; /* of a key/value log that `rows` points into */

typedef struct attention_data {
    float *q, *k, *v;
    int32_t *lengths, *rows, *sources;
} attention_data;

/* Where query head h's key or value of width d lies. */
static const float *key_at(const struct form *f, const attention_data *a, const float *base, int64_t b,
                           int64_t h, int64_t s, int64_t d) {
    int64_t head = h / (f->H / f->Hk), sequence = f->sources ? a->sources[b] : b;
    if (f->heads_first)
        return base + ((sequence * f->Hk + head) * f->S + s) * d;
    int64_t row = f->rows ? a->rows[b * f->S + s] : sequence * f->S + s;
    return base + (row * f->Hk + head) * d;
}

/* One query's row of the result, dv wide: softmax of scaled products over what it sees, times the values. */
static void attend(double *out, const struct form *f, const attention_data *a, const float *q, int64_t b,
                   int64_t h, int64_t t) {
    int64_t visible = f->lengths ? a->lengths[f->sources ? a->sources[b] : b] : f->S;
    double total = 0;
    for (int64_t s = 0; s < visible && (!f->causal || s <= t + f->past); s++) {
        const float *k = key_at(f, a, a->k, b, h, s, f->dk), *v = key_at(f, a, a->v, b, h, s, f->dv);
        double score = 0, weight;
        for (int64_t d = 0; d < f->dk; d++)
            score += (double)q[d] * (double)k[d];
        total += weight = exp(score / sqrt((double)f->dk));
        for (int64_t d = 0; d < f->dv; d++)
            out[d] += weight * (double)v[d];
    }
    for (int64_t d = 0; d < f->dv && total > 0; d++)
        out[d] /= total;
}

static void check_attention(tfm__check *c) {
    const struct form *f = &FORMS[c->number];
    attention_data a = {0};
    tfm_tensor y = {0}, q, k, v;
    tfm_attention_options options = {.heads = f->heads_first ? 0 : (int)f->H,
                                     .kv_heads = (int)f->Hk,
                                     .causal = f->causal,
                                     .past = f->past};
    if (f->heads_first) {
        q = FLOATS(a.q, f->B, f->H, f->T, f->dk);
        k = FLOATS(a.k, f->N, f->Hk, f->S, f->dk);
        v = FLOATS(a.v, f->N, f->Hk, f->S, f->dv);
    } else {
        q = FLOATS(a.q, f->B, f->T, f->H * f->dk);
        k = f->rows ? FLOATS(a.k, POOL_ROWS, f->Hk * f->dk) : FLOATS(a.k, f->N, f->S, f->Hk * f->dk);
        v = f->rows ? FLOATS(a.v, POOL_ROWS, f->Hk * f->dv) : FLOATS(a.v, f->N, f->S, f->Hk * f->dv);
    }
    if (f->lengths) /* a length of 0 is among what may come: such a row gives zeros */
        options.lengths = INTS(a.lengths, (int)f->S + 1, f->N);
    if (f->rows)
        options.rows = INTS(a.rows, POOL_ROWS, f->B, f->S);
    if (f->sources)
        options.sources = INTS(a.sources, (int)f->N, f->B);
    double *want = WANTED(f->B * f->H * f->T * f->dv);
    for (int64_t i = 0; tfm__check_ready(c) && i < f->B * f->H * f->T; i++) { /* in q's own order */
        int64_t b = i / (f->H * f->T), h = f->heads_first ? i / f->T % f->H : i % f->H;
        attend(want + i * f->dv, f, &a, a.q + i * f->dk, b, h, f->heads_first ? i % f->T : i / f->H % f->T);
    }
    tfm_attention(c->ctx, &y, q, k, v, &options);
    tfm__check_judge(c, y, want);
}

const tfm__check_entry TFM__CHECKS[] = {
    {"gemm", "small", check_gemm, 0},
    {"gemm", "packed", check_gemm, 1},
    {"gemm", "plain", check_gemm, 2},
    {"gemm", "clblast", check_gemm, 3},
    {"linear", "silu", check_linear, 0},
    {"softmax", "", check_softmax, 0},
    {"log_softmax", "", check_softmax, 1},
    {"softmax", "columns", check_softmax_axis, 0},
    {"layernorm", "residual", check_layernorm, 0},
    {"layernorm", "axes, statistics", check_layernorm_axes, 0},
    {"rmsnorm", "residual", tfm__check_rmsnorm, 0},
    {"glu", "swiglu, halves", tfm__check_glu, 0},
    {"rotary", "split, partial", tfm__check_rotary, 0},
    {"rotary", "interleaved", tfm__check_rotary, 1},
    {"activate", "relu", check_activate, TFM_RELU},
    {"activate", "gelu", check_activate, TFM_GELU},
    {"activate", "gelu_tanh", check_activate, TFM_GELU_TANH},
    {"activate", "silu", check_activate, TFM_SILU},
    {"add", "", check_add, 0},
    {"add", "broadcast", tfm__check_add_broadcast, 0},
    {"permute", "", tfm__check_permute, 0},
    {"concat", "", tfm__check_concat, 0},
    {"slice", "backwards", tfm__check_slice, 0},
    {"embedding", "positions", check_embedding, 0},
    {"sinusoid", "interleaved", check_sinusoid, TFM_SINUSOID_INTERLEAVED},
    {"sinusoid", "split", check_sinusoid, TFM_SINUSOID_SPLIT},
    {"gather", "", check_gather, 0},
    {"gather", "axis 1", tfm__check_gather_axis, 0},
    {"cast", "f16", check_cast, TFM_F16},
    {"cast", "bf16", check_cast, TFM_BF16},
    {"attention", "dk != dv", check_attention, 0},
    {"attention", "causal, past, lengths", check_attention, 1},
    {"attention", "heads first, grouped", check_attention, 2},
    {"attention", "rows", check_attention, 3},
    {"attention", "sources", check_attention, 4},
    {"topk", "", check_topk, 0},
    {"sample", "top k", tfm__check_sample, 0},
    {"sample", "top p", tfm__check_sample, 1},
    {NULL, NULL, NULL, 0},
};
