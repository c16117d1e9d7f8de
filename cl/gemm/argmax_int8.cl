/* Argmax of each row of w x + bias, screened in int8: an entry differs from its int8 approximation by at most a bound,
 * so only entries whose upper bound exceeds the largest lower bound are computed in fp32.
 *
 * Row j of w (V, K) is scales[j] times int8, w^, plus an error; x is a scale times integers, x^, plus an error. By
 * Cauchy and Schwarz
 *
 *     |w x - w^ x^| = |(w - w^) x + w^ (x - x^)| <= |w - w^| |x| + |w^| |x - x^|
 *
 * The two norms of w are stored with it, those of x are computed here. Both are summed in scaled steps, so that no
 * square overflows, and are at least MIN_BOUND, so that no bound is 0 times infinity. */
#include "int8_common.cl"

#define W TFM_WIDTH
#define MAX_BLOCKS 256
#define MIN_BOUND 1.2e-38f

static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return select(a, b, b > a); /* a where b is NaN */
}

/* Norm of a row's quantization error, and of its quantized values, in units of the scale. */
typedef struct norms {
    float residual, kept, whole;
} norms;

/* The norms of x (K), in units of 1 / inverse, with |x| as `whole`. Writes the quantized row to `to` if not null. */
static inline norms norms_of(__global char *to, __global const float *x, const int k, const float inverse) {
    norms all = {0.0f, 0.0f, 0.0f};
    tfm_vec residual = (tfm_vec)(0.0f), kept = residual, whole = residual;
    int i = 0;
    for (; i + W <= k; i += W) {
        const tfm_vec v = tfm_load(x + i), rounded = tfm_fma(v, (tfm_vec)(inverse), (tfm_vec)(TFM_ROUND_MAGIC));
        const tfm_vec approx = rounded - TFM_ROUND_MAGIC, rest = tfm_fma(v, (tfm_vec)(inverse), -approx);
        if (to)
            TFM_CAT(vstore, W)(TFM_CAT(convert_char, W)(tfm_as_int_vec(rounded) - 0x4B400000), 0, to + i);
        residual = tfm_fma(rest, rest, residual);
        kept = tfm_fma(approx, approx, kept);
        whole = tfm_fma(v * inverse, v * inverse, whole);
    }
    for (; i < k; i++) {
        const int approx = QUANTIZE_ONE(x[i]);
        const float rest = tfm_fma(x[i], inverse, -(float)approx);
        if (to)
            to[i] = (char)approx;
        all.residual = tfm_fma(rest, rest, all.residual);
        all.kept = tfm_fma((float)approx, (float)approx, all.kept);
        all.whole = tfm_fma(x[i] * inverse, x[i] * inverse, all.whole);
    }
    all.residual = sqrt(all.residual + tfm_vec_sum(residual));
    all.kept = sqrt(all.kept + tfm_vec_sum(kept));
    all.whole = sqrt(all.whole + tfm_vec_sum(whole));
    return all;
}

/* Rounding allowance: of the sums above, and, in SLACK, of fp32 sums and of the scaling of int8 sums. */
#define UP 1.001f
#define SLACK 1e-5f

/* q (V, K), scales (V) and bounds (2, V) of w (V, K): |w - w^| and |w^|. A row with a non-finite number has infinite
 * bounds. Layout: one work-item a row. */
TFM_KERNEL void argmax_int8_quantize(TFM_TENSOR(char, q), TFM_TENSOR(float, scales), TFM_TENSOR(float, bounds),
                                     TFM_INPUT(float, w), const long n, const long k) {
    const long row = TFM_ROW();
    if (row >= n)
        return;
    __global const float *from = TFM_AT(w) + row * k;
    const int largest = row_abs_max_bits(from, (int)k), finite = largest < 0x7f800000;
    float inverse;
    const float step = quantization_scale(largest, &inverse);
    const norms of = norms_of(TFM_AT(q) + row * k, from, (int)k, finite ? inverse : 0.0f);
    const float residual =
        inverse != 0.0f ? step * (UP * of.residual + SLACK * of.kept) : sqrt((float)k) * as_float(largest);
    TFM_AT(scales)[row] = finite ? step : 0.0f;
    TFM_AT(bounds)[row] = finite ? fmax(residual, MIN_BOUND) : INFINITY;
    TFM_AT(bounds)[n + row] = finite ? fmax(step * UP * of.kept, MIN_BOUND) : INFINITY;
}

/* Dot product of a row of w with x. */
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

/* W entries from i on; entries from `end` on are `filler`. */
static inline tfm_vec load_some(__global const float *x, const int i, const int end, const float filler) {
    if (i + W <= end)
        return tfm_load(x + i);
    float part[W];
    for (int p = 0; p < W; p++)
        part[p] = i + p < end ? x[i + p] : filler;
    return tfm_load(part);
}

/* Bounds of a row's entries: approx (N) is the int8 approximation. */
typedef struct row_bounds {
    __global const float *approx, *residual, *kept;
    float whole, left;
} row_bounds;

/* Bounds of the approximation error of W entries from i on. */
static inline tfm_vec error_at(const row_bounds *r, const int i) {
    return tfm_fma(tfm_load(r->residual + i), (tfm_vec)(r->whole), tfm_load(r->kept + i) * r->left);
}
static inline tfm_vec error_some(const row_bounds *r, const int i, const int end) {
    return tfm_fma(load_some(r->residual, i, end, 0.0f), (tfm_vec)(r->whole),
                   load_some(r->kept, i, end, 0.0f) * r->left);
}

/* values and tokens (R, parts): the largest entry of each part of each row, and its index, the lower of equal ones;
 * -inf and 0 if none is above -inf, and NaN if x, or a row of w that might be the largest, is not finite. With
 * `accumulate` they already hold earlier entries' results, and get the joint ones. *verified is incremented by the
 * number of entries computed in fp32.
 *
 * approx (R, N): int8 approximations of entries first_entry .. first_entry + N - 1, with the bias, and -inf for
 * excluded ones; x (R, K); w (V, K); bias (V), or null; bounds (2, V) from argmax_int8_quantize. Layout: one work-item
 * for a part of `length` entries of a row. */
TFM_KERNEL void argmax_int8_verify(TFM_TENSOR(float, values), TFM_TENSOR(int, tokens), TFM_TENSOR(int, verified),
                                   TFM_INPUT(float, approx), TFM_INPUT(float, x), TFM_INPUT(float, w),
                                   TFM_INPUT(float, bias), TFM_INPUT(float, bounds), const long rows, const long n,
                                   const long k, const long vocabulary, const long first_entry, const long accumulate,
                                   const long parts, const long length) {
    const long place = TFM_ROW(), row = place / parts, first = (place - row * parts) * length;
    if (row >= rows)
        return;
    __global const float *from = TFM_AT(x) + row * k;
    row_bounds r = {.approx = TFM_AT(approx) + row * n,
                    .residual = TFM_AT(bounds) + first_entry,
                    .kept = TFM_AT(bounds) + vocabulary + first_entry};
    const int largest = row_abs_max_bits(from, (int)k);
    float inverse;
    const float step = quantization_scale(largest, &inverse);
    const norms of = norms_of(0, from, (int)k, inverse);
    const int finite = largest < 0x7f800000;
    const float few = sqrt((float)k) * as_float(largest); /* if no number is quantized, the error is all of x */
    r.whole = fmax(inverse != 0.0f ? step * UP * of.whole : few, MIN_BOUND);
    r.left = fmax(inverse != 0.0f ? step * UP * of.residual : few, MIN_BOUND);
    const int begin = (int)first, end = (int)min(first + length, n), vectors = max((end - begin + W - 1) / W, 0);
    const int each = max(16, (vectors + MAX_BLOCKS - 1) / MAX_BLOCKS), blocks = (vectors + each - 1) / each;
    float best = !finite ? NAN : accumulate ? TFM_AT(values)[place] : -INFINITY;
    int where = accumulate ? TFM_AT(tokens)[place] : 0, count = 0;
    tfm_vec most[MAX_BLOCKS], certain = (tfm_vec)(best);
    for (int b = 0; b < blocks; b++) {
        const int last = min(begin + (b + 1) * each * W, end);
        int i = begin + b * each * W;
        tfm_vec upper = (tfm_vec)(-INFINITY), upper_too = upper, certain_too = upper;
        for (; i + 2 * W <= last; i += 2 * W) { /* two chains hide the latency of a maximum */
            const tfm_vec v = tfm_load(r.approx + i), u = tfm_load(r.approx + i + W);
            const tfm_vec v_spread = error_at(&r, i), u_spread = error_at(&r, i + W);
            certain = larger(certain, v - v_spread);
            certain_too = larger(certain_too, u - u_spread);
            upper = larger(upper, v + v_spread);
            upper_too = larger(upper_too, u + u_spread);
        }
        for (; i < last; i += W) {
            const tfm_vec v = load_some(r.approx, i, last, -INFINITY), spread = error_some(&r, i, last);
            certain = larger(certain, v - spread);
            upper = larger(upper, v + spread);
        }
        certain = larger(certain, certain_too);
        most[b] = larger(upper, upper_too);
    }
    /* Lower bound of the largest entry: from the bounds, then from the verified entries. */
    float least = tfm_vec_max(certain);
    for (int b = 0; finite && b < blocks; b++) {
        const float highest = tfm_vec_max(most[b]);
        if (!(highest >= least) || highest == -INFINITY)
            continue;
        const int last = min(begin + (b + 1) * each * W, end);
        for (int i = begin + b * each * W; i < last; i += W) {
            const tfm_vec v = load_some(r.approx, i, last, -INFINITY), upper = v + error_some(&r, i, last);
            if (!(tfm_vec_max(upper) >= least))
                continue;
            for (int p = 0; p < W; p++) {
                if (!(((const float *)&upper)[p] >= least) || ((const float *)&v)[p] == -INFINITY)
                    continue;
                const long entry = first_entry + i + p;
                const float value =
                    product_of(TFM_AT(w) + entry * k, from, (int)k) + (bias ? TFM_AT(bias)[entry] : 0.0f);
                const int takes = value > best || isnan(value);
                count++;
                where = takes ? (int)entry : where;
                best = takes ? value : best; /* NaN stays */
                least = best > least ? best : least;
            }
        }
    }
    TFM_AT(values)[place] = best;
    TFM_AT(tokens)[place] = where;
    atomic_add(TFM_AT(verified), min(count, (int)(n / 16) + 1)); /* no more information, and the sum stays in range */
}

/* values and tokens (R): the best of each row's parts. Layout: one work-item a row. */
TFM_KERNEL void argmax_int8_merge(TFM_TENSOR(float, values), TFM_TENSOR(int, tokens), TFM_INPUT(float, found),
                                  TFM_INPUT(int, indices), const long rows, const long parts) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    long best = row * parts;
    for (long i = best + 1; i < (row + 1) * parts; i++)
        best = TFM_AT(found)[i] > TFM_AT(found)[best] || isnan(TFM_AT(found)[i]) ? i : best;
    TFM_AT(values)[row] = TFM_AT(found)[best];
    TFM_AT(tokens)[row] = TFM_AT(indices)[best];
}
