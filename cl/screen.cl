/* The largest entry of each row of products w x + bias, by products of bytes: an entry is within a bound of what bytes
 * make of it, so only those whose bound reaches above what another one certainly has are multiplied in floats.
 *
 * Row j of w (V, K) is scales[j] times bytes, w^, and what they miss; x is a step times whole numbers, x^, and what
 * they miss. By Cauchy and Schwarz
 *
 *     |w x - w^ x^| = |(w - w^) x + w^ (x - x^)| <= |w - w^| |x| + |w^| |x - x^|
 *
 * The two norms of w are kept with it, those of x are made here. */
#include "int8_numbers.cl"

#define W TFM_WIDTH
#define MOST_BLOCKS 256

static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return select(a, b, b > a); /* a where b is NaN */
}

/* q (V, K), scales (V) and bounds (2, V) of w (V, K): |w - w^|, with something for the rounding of sums, and |w^|. A
 * row with a number that is not finite has infinite bounds. Layout: one work-item a row. */
TFM_KERNEL void screen_bytes(TFM_TENSOR(char, q), TFM_TENSOR(float, scales), TFM_TENSOR(float, bounds),
                             TFM_INPUT(float, w), const long n, const long k) {
    const long row = TFM_ROW();
    if (row >= n)
        return;
    __global const float *from = TFM_AT(w) + row * k;
    __global char *to = TFM_AT(q) + row * k;
    tfm_ivec most = 0;
    int largest = 0, i = 0;
    for (; i + W <= (int)k; i += W)
        most = max(most, tfm_as_int_vec(tfm_load(from + i)) & 0x7fffffff);
    for (int p = 0; p < W; p++)
        largest = max(largest, ((const int *)&most)[p]);
    for (; i < (int)k; i++)
        largest = max(largest, as_int(from[i]) & 0x7fffffff);
    float inverse, step = step_of(largest, &inverse), missed = 0.0f, kept = 0.0f;
    step = largest >= 0x7f800000 ? 0.0f : step;
    tfm_vec missed_lanes = (tfm_vec)(0.0f), kept_lanes = missed_lanes;
    for (i = 0; i + W <= (int)k; i += W) {
        const tfm_vec v = tfm_load(from + i), rounded = tfm_fma(v, (tfm_vec)(inverse), (tfm_vec)(TFM_ROUNDER));
        const tfm_vec near = (rounded - TFM_ROUNDER) * step, rest = v - near;
        TFM_CAT(vstore, W)(TFM_CAT(convert_char, W)(tfm_as_int_vec(rounded) - 0x4B400000), 0, to + i);
        missed_lanes = tfm_fma(rest, rest, missed_lanes);
        kept_lanes = tfm_fma(near, near, kept_lanes);
    }
    for (; i < (int)k; i++) {
        const int whole = ROUNDED_ONE(from[i]);
        const float near = (float)whole * step, rest = from[i] - near;
        to[i] = (char)whole;
        missed = tfm_fma(rest, rest, missed);
        kept = tfm_fma(near, near, kept);
    }
    missed = sqrt(missed + tfm_vec_sum(missed_lanes));
    kept = sqrt(kept + tfm_vec_sum(kept_lanes));
    TFM_AT(scales)[row] = step;
    TFM_AT(bounds)[row] = largest >= 0x7f800000 ? INFINITY : 1.001f * missed + 1e-5f * kept;
    TFM_AT(bounds)[n + row] = largest >= 0x7f800000 ? INFINITY : 1.001f * kept;
}

/* |x| and |x - x^|, with something for the rounding of sums. */
static inline void norms_of(__global const float *x, const int k, float *whole, float *missed) {
    tfm_ivec most = 0;
    int largest = 0, i = 0;
    for (; i + W <= k; i += W)
        most = max(most, tfm_as_int_vec(tfm_load(x + i)) & 0x7fffffff);
    for (int p = 0; p < W; p++)
        largest = max(largest, ((const int *)&most)[p]);
    for (; i < k; i++)
        largest = max(largest, as_int(x[i]) & 0x7fffffff);
    float inverse, all = 0.0f, left = 0.0f;
    const float step = step_of(largest, &inverse);
    tfm_vec all_lanes = (tfm_vec)(0.0f), left_lanes = all_lanes;
    for (i = 0; i + W <= k; i += W) {
        const tfm_vec v = tfm_load(x + i);
        const tfm_vec rest = v - (tfm_fma(v, (tfm_vec)(inverse), (tfm_vec)(TFM_ROUNDER)) - TFM_ROUNDER) * step;
        all_lanes = tfm_fma(v, v, all_lanes);
        left_lanes = tfm_fma(rest, rest, left_lanes);
    }
    for (; i < k; i++) {
        const float rest = x[i] - (float)ROUNDED_ONE(x[i]) * step;
        all = tfm_fma(x[i], x[i], all);
        left = tfm_fma(rest, rest, left);
    }
    *whole = 1.001f * sqrt(all + tfm_vec_sum(all_lanes));
    *missed = 1.001f * sqrt(left + tfm_vec_sum(left_lanes));
}

/* w x of a row. */
static inline float product_of(__global const float *w, __global const float *x, const int k) {
    tfm_vec a = (tfm_vec)(0.0f), b = a, c = a, d = a;
    int i = 0;
    for (; i + 4 * W <= k; i += 4 * W) {
        a = tfm_fma(tfm_load(w + i), tfm_load(x + i), a);
        b = tfm_fma(tfm_load(w + i + W), tfm_load(x + i + W), b);
        c = tfm_fma(tfm_load(w + i + 2 * W), tfm_load(x + i + 2 * W), c);
        d = tfm_fma(tfm_load(w + i + 3 * W), tfm_load(x + i + 3 * W), d);
    }
    for (; i + W <= k; i += W)
        a = tfm_fma(tfm_load(w + i), tfm_load(x + i), a);
    float sum = tfm_vec_sum((a + b) + (c + d));
    for (; i < k; i++)
        sum = tfm_fma(w[i], x[i], sum);
    return sum;
}

/* W entries from i on, of which those from `end` on are `filler`. */
static inline tfm_vec load_some(__global const float *x, const int i, const int end, const float filler) {
    if (i + W <= end)
        return tfm_load(x + i);
    float part[W];
    for (int p = 0; p < W; p++)
        part[p] = i + p < end ? x[i + p] : filler;
    return tfm_load(part);
}

/* What a row's entries are bounded by: near (V) is what bytes make of them. */
typedef struct row_bounds {
    __global const float *near, *missed, *kept;
    float whole, left;
    int end;
} row_bounds;

/* How far entries may be from what bytes make of them: W of them, from i on. */
static inline tfm_vec spread_at(const row_bounds *r, const int i) {
    return tfm_fma(tfm_load(r->missed + i), (tfm_vec)(r->whole), tfm_load(r->kept + i) * r->left);
}
static inline tfm_vec spread_some(const row_bounds *r, const int i, const int end) {
    return tfm_fma(load_some(r->missed, i, end, 0.0f), (tfm_vec)(r->whole), load_some(r->kept, i, end, 0.0f) * r->left);
}

/* values, tokens and sums (R, parts), sums with two numbers each where there are several parts: the largest entry of
 * each part of each row, its index, the lower one of equal ones, and a normaliser with which its log p is 0: the same
 * again, or as topk.cl's tops. A part without an entry above -inf has -inf and 0.
 *
 * near (R, V): the entries by bytes, with the bias, and -inf where none may be chosen; x (R, K); w (V, K); bias (V), or
 * null; bounds (2, V) as screen_bytes makes them. Layout: one work-item a part of a row, of `length` entries. */
TFM_KERNEL void screen_best(TFM_TENSOR(float, values), TFM_TENSOR(int, tokens), TFM_TENSOR(float, sums),
                            TFM_INPUT(float, near), TFM_INPUT(float, x), TFM_INPUT(float, w), TFM_INPUT(float, bias),
                            TFM_INPUT(float, bounds), const long rows, const long n, const long k, const long parts,
                            const long length) {
    const long place = TFM_ROW(), row = place / parts, first = (place - row * parts) * length;
    if (row >= rows)
        return;
    __global const float *from = TFM_AT(x) + row * k;
    row_bounds r = {.near = TFM_AT(near) + row * n,
                    .missed = TFM_AT(bounds),
                    .kept = TFM_AT(bounds) + n,
                    .end = (int)min(first + length, n)};
    norms_of(from, (int)k, &r.whole, &r.left);
    const int begin = (int)first, vectors = max((r.end - begin + W - 1) / W, 0);
    const int each = max(16, (vectors + MOST_BLOCKS - 1) / MOST_BLOCKS), blocks = (vectors + each - 1) / each;
    tfm_vec most[MOST_BLOCKS], certain = (tfm_vec)(-INFINITY);
    for (int b = 0; b < blocks; b++) {
        const int last = min(begin + (b + 1) * each * W, r.end);
        int i = begin + b * each * W;
        tfm_vec upper = (tfm_vec)(-INFINITY), upper_too = upper, certain_too = upper;
        for (; i + 2 * W <= last; i += 2 * W) { /* two chains hide the latency of a maximum */
            const tfm_vec v = tfm_load(r.near + i), u = tfm_load(r.near + i + W);
            const tfm_vec v_spread = spread_at(&r, i), u_spread = spread_at(&r, i + W);
            certain = larger(certain, v - v_spread);
            certain_too = larger(certain_too, u - u_spread);
            upper = larger(upper, v + v_spread);
            upper_too = larger(upper_too, u + u_spread);
        }
        for (; i < last; i += W) {
            const tfm_vec v = load_some(r.near, i, last, -INFINITY), spread = spread_some(&r, i, last);
            certain = larger(certain, v - spread);
            upper = larger(upper, v + spread);
        }
        certain = larger(certain, certain_too);
        most[b] = larger(upper, upper_too);
    }
    /* From here on it is the largest that was multiplied in floats, once it is above that. */
    float reached = tfm_vec_max(certain), best = -INFINITY;
    int where = 0;
    for (int b = 0; b < blocks; b++) {
        if (!(tfm_vec_max(most[b]) >= reached) || tfm_vec_max(most[b]) == -INFINITY)
            continue;
        const int last = min(begin + (b + 1) * each * W, r.end);
        for (int i = begin + b * each * W; i < last; i += W) {
            const tfm_vec v = load_some(r.near, i, last, -INFINITY), upper = v + spread_some(&r, i, last);
            if (!(tfm_vec_max(upper) >= reached))
                continue;
            for (int p = 0; p < W; p++) {
                if (!(((const float *)&upper)[p] >= reached) || ((const float *)&v)[p] == -INFINITY)
                    continue;
                const float value =
                    product_of(TFM_AT(w) + (long)(i + p) * k, from, (int)k) + (bias ? TFM_AT(bias)[i + p] : 0.0f);
                where = value > best ? i + p : where;
                best = value > best ? value : best;
                reached = best > reached ? best : reached;
            }
        }
    }
    TFM_AT(values)[place] = best;
    TFM_AT(tokens)[place] = where;
    if (parts == 1) {
        TFM_AT(sums)[place] = best;
    } else {
        TFM_AT(sums)[2 * place] = best;
        TFM_AT(sums)[2 * place + 1] = 1.0f;
    }
}
