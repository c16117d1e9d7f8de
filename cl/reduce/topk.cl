/* The k largest of each row of x (rows, n): values and indices (rows, k), in descending order; of equal ones the lower
 * index comes first. If requested, lse (rows) is the log-sum-exp of the row. NaN counts as -inf. If fewer than k
 * entries are above -inf, entries at -inf follow by index.
 *
 * Both kernels keep the maximum of disjoint shares of the row, take the best of those k times, and search that share's
 * next one: the best entry that is smaller, or equal at a higher index, so no entry must be marked as taken. */

#ifdef I32
/* ---- Integers: a work-group for a row, whose items search the next entry together, k times ---- */

/* The index with the larger value, or of equal ones the lower; -1 is none. */
static inline int better_of(__global const int *x, const int a, const int b) {
    if (a < 0 || b < 0)
        return max(a, b);
    return x[b] > x[a] || (x[b] == x[a] && b < a) ? b : a;
}

TFM_KERNEL void topk_i32(TFM_TENSOR(int, values), TFM_TENSOR(int, indices), TFM_INPUT(int, x), const long rows,
                         const long n, const long k) {
#if TFM_GROUP > 1
    __local int best[TFM_GROUP];
#endif
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const int *in = TFM_AT(x) + row * n;
    const int lane = (int)TFM_LOCAL_ID(), count = (int)n;
    int last = -1;
    for (long turn = 0; turn < k; turn++) {
        int found = -1;
        for (int i = lane; i < count; i += TFM_GROUP)
            if (last < 0 || in[i] < in[last] || (in[i] == in[last] && i > last))
                found = better_of(in, found, i);
#if TFM_GROUP > 1
        barrier(CLK_LOCAL_MEM_FENCE);
        best[lane] = found;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = TFM_GROUP / 2; half_size > 0; half_size /= 2) {
            if (lane < half_size)
                best[lane] = better_of(in, best[lane], best[lane + half_size]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        found = best[0];
#endif
        last = found;
        if (lane == 0) {
            TFM_AT(values)[row * k + turn] = in[found];
            TFM_AT(indices)[row * k + turn] = found;
        }
    }
}
#else

/* Fills entries from `found` on with the entries at -inf, by index. */
static inline void fill_neg_infinity(__global float *values, __global int *indices, __global const float *x, long found,
                                     const long k, const long n) {
    for (long i = 0; i < n && found < k; i++)
        if (!(x[i] > -INFINITY)) {
            values[found] = -INFINITY;
            indices[found++] = (int)i;
        }
}

#include "topk_parts.cl"

#if TFM_WIDTH > 1
/* ---- CPU-style devices: one work-item per row; a share is one lane of one block of the row ---- */

#define W TFM_WIDTH
#define MAX_BLOCKS 256

/* The larger of a and b; a where b is NaN. */
static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return select(a, b, b > a);
}

/* x + 1.5 * 2^23 has round(x) in its low bits: rint() and a conversion are many instructions on some CPUs. */
#define ROUND_MAGIC 12582912.0f

/* e^x for x <= 0, 0 for NaN and -inf: 2^n by the exponent, n = round(x log2 e), times the minimax polynomial
 * of 2^f, |f| <= 1/2 (relative error 2.5e-9, 2^0 = 1). */
static inline tfm_vec exp_nonpos(const tfm_vec x) {
    const tfm_vec z = larger((tfm_vec)(-127.0f), x * 1.44269504f), t = z + ROUND_MAGIC, f = z - (t - ROUND_MAGIC);
    tfm_vec p = tfm_fma(f, (tfm_vec)(1.5461444707e-04f), (tfm_vec)(1.3400428178e-03f));
    p = tfm_fma(p, f, (tfm_vec)(9.6180566785e-03f));
    p = tfm_fma(p, f, (tfm_vec)(5.5503272267e-02f));
    p = tfm_fma(p, f, (tfm_vec)(2.4022650922e-01f));
    p = tfm_fma(p, f, (tfm_vec)(6.9314720670e-01f));
    p = tfm_fma(p, f, (tfm_vec)(1.0f));
    return TFM_CAT(as_float, TFM_WIDTH)(TFM_CAT(as_int, TFM_WIDTH)(p) + (TFM_CAT(as_int, TFM_WIDTH)(t) << 23));
}

/* The shift before exp: 0 if nothing is above -inf, since -inf - -inf would be NaN. */
static inline tfm_vec shift_of(const tfm_vec maximum) {
    return select(maximum, (tfm_vec)(0.0f), maximum == -INFINITY);
}

/* Vector number i of a row of n; -inf beyond its end. */
static inline tfm_vec load_row(__global const float *x, const long i, const long n) {
    if ((i + 1) * W <= n)
        return tfm_load(x + i * W);
    float part[W];
#pragma unroll
    for (int j = 0; j < W; j++)
        part[j] = i * W + j < n ? x[i * W + j] : -INFINITY;
    return tfm_load(part);
}

/* The maxima of the lanes of vectors first .. end - 1. */
static inline tfm_vec block_maxima(__global const float *x, const long first, const long end, const long n) {
    tfm_vec a = (tfm_vec)(-INFINITY), b = a, c = a, d = a; /* four chains hide the latency of a maximum */
    long i = first;
    for (; i + 4 <= end && (i + 4) * W <= n; i += 4) {
        a = larger(a, tfm_load(x + i * W));
        b = larger(b, tfm_load(x + (i + 1) * W));
        c = larger(c, tfm_load(x + (i + 2) * W));
        d = larger(d, tfm_load(x + (i + 3) * W));
    }
    for (; i < end; i++)
        a = larger(a, load_row(x, i, n));
    return larger(larger(a, b), larger(c, d));
}

static inline tfm_vec block_exps(__global const float *x, const long first, const long end, const long n,
                                 const tfm_vec shift) {
    tfm_vec sum = (tfm_vec)(0.0f);
    long i = first;
    for (; i < end && (i + 1) * W <= n; i++)
        sum += exp_nonpos(tfm_load(x + i * W) - shift);
    if (i < end)
        sum += exp_nonpos(load_row(x, i, n) - shift);
    return sum;
}

/* The first index in the block, counted from its start, with value `value` and after `after`. */
static inline float block_find(__global const float *x, const long first, const long end, const long n,
                               const float value, const float after) {
    const float nowhere = 3.0e38f;
    tfm_vec place = tfm_lane_index(), lowest = (tfm_vec)(nowhere);
    for (long i = first; i < end; i++, place += (float)W)
        lowest = fmin(lowest, select((tfm_vec)(nowhere), place, load_row(x, i, n) == value && place > after));
    return -tfm_vec_max(-lowest);
}

/* The maxima of the block's lanes over the entries after `value` at `after`. */
static inline tfm_vec block_rest(__global const float *x, const long first, const long end, const long n,
                                 const float value, const float after) {
    tfm_vec place = tfm_lane_index(), best = (tfm_vec)(-INFINITY);
    for (long i = first; i < end; i++, place += (float)W) {
        const tfm_vec v = load_row(x, i, n);
        best = larger(best, select((tfm_vec)(-INFINITY), v, v < value || (v == value && place > after)));
    }
    return best;
}

TFM_KERNEL void topk_cpu(TFM_TENSOR(float, values), TFM_TENSOR(int, indices), TFM_TENSOR(float, lse),
                         TFM_INPUT(float, x), const long rows, const long n, const long k, const long summed) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *in = TFM_AT(x) + row * n;
    __global float *value_out = TFM_AT(values) + row * k;
    __global int *index_out = TFM_AT(indices) + row * k;
    const long vectors = (n + W - 1) / W, per_block = max(4L, (vectors + MAX_BLOCKS - 1) / MAX_BLOCKS);
    const int blocks = (int)((vectors + per_block - 1) / per_block);
    tfm_vec best[MAX_BLOCKS], maximum = (tfm_vec)(-INFINITY), sum = (tfm_vec)(0.0f);
    for (int b = 0; b < blocks; b++) {
        const long first = b * per_block, end = min(first + per_block, vectors);
        best[b] = block_maxima(in, first, end, n);
        if (summed) { /* each lane by its current maximum */
            const tfm_vec reached = larger(maximum, best[b]), shift = shift_of(reached);
            sum = sum * exp_nonpos(maximum - shift) + block_exps(in, first, end, n, shift);
            maximum = reached;
        }
    }
    if (summed) {
        const float highest = tfm_vec_max(maximum);
        const tfm_vec shift = shift_of((tfm_vec)(highest));
        TFM_AT(lse)[row] = log_sum_of(highest, tfm_vec_sum(sum * exp_nonpos(maximum - shift)));
    }
    float last_value = 0.0f, last_place = -1.0f;
    int last_block = -1;
    for (long found = 0; found < k; found++) {
        tfm_vec top = best[0], where = (tfm_vec)(0.0f);
        for (int b = 1; b < blocks; b++) {
            where = select(where, (tfm_vec)((float)b), best[b] > top);
            top = larger(top, best[b]);
        }
        const float value = tfm_vec_max(top);
        if (value == -INFINITY) {
            fill_neg_infinity(value_out, index_out, in, found, k, n);
            return;
        }
        const int block = (int)-tfm_vec_max(select((tfm_vec)(-3.0e38f), -where, top == value));
        const long first = block * per_block, end = min(first + per_block, vectors);
        const float place =
            block_find(in, first, end, n, value, block == last_block && value == last_value ? last_place : -1.0f);
        value_out[found] = value;
        index_out[found] = (int)(first * W + (long)place);
        best[block] = block_rest(in, first, end, n, value, place);
        last_value = value;
        last_place = place;
        last_block = block;
    }
}

#else
/* ---- GPU-style devices: a work-group per row ---- */

#include "topk_share.cl"

#ifndef SPLIT
TFM_KERNEL void topk_gpu(TFM_TENSOR(float, values), TFM_TENSOR(int, indices), TFM_TENSOR(float, lse),
                         TFM_INPUT(float, x), const long rows, const long n, const long k, const long summed) {
    TFM_SCRATCH
    __local float best[TFM_GROUP];
    __local int where[TFM_GROUP];
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global float *value_out = TFM_AT(values) + row * k;
    __global int *index_out = TFM_AT(indices) + row * k;
    float highest, own;
    const row_span s = row_span_of(x, x_offset + row * n, 0, n);
    const long found = select_topk(&highest, &own, value_out, index_out, s, k, summed != 0, best, where);
    if (found < k && TFM_LOCAL_ID() == 0)
        fill_neg_infinity(value_out, index_out, TFM_AT(x) + row * n, found, k, n);
    if (summed) {
        const float sum = tfm_group_sum(own);
        if (TFM_LOCAL_ID() == 0)
            TFM_AT(lse)[row] = log_sum_of(highest, sum);
    }
}

#else
/* ---- Long rows: a work-group for each of `parts` parts of `length` entries, a multiple of TFM_GROUP ----
 *
 * values and indices (rows, parts, k) get the best of each part, -inf and -1 if it has no more above -inf, and
 * max_and_sum (rows, parts, 2) its maximum and the sum of e^(x - maximum). */
TFM_KERNEL void topk_split(TFM_TENSOR(float, values), TFM_TENSOR(int, indices), TFM_TENSOR(float, max_and_sum),
                           TFM_INPUT(float, x), const long rows, const long n, const long k, const long parts,
                           const long length) {
    TFM_SCRATCH
    __local float best[TFM_GROUP];
    __local int where[TFM_GROUP];
    const long place = TFM_ROW(), row = place / parts, first = (place - row * parts) * length;
    if (row >= rows)
        return;
    __global float *value_out = TFM_AT(values) + place * k;
    __global int *index_out = TFM_AT(indices) + place * k;
    float highest, own;
    const row_span s = row_span_of(x, x_offset + row * n, first, min(first + length, n));
    const long found = select_topk(&highest, &own, value_out, index_out, s, k, 1, best, where);
    for (long i = found + TFM_LOCAL_ID(); i < k; i += TFM_GROUP) {
        value_out[i] = -INFINITY;
        index_out[i] = -1;
    }
    const float sum = tfm_group_sum(own);
    if (TFM_LOCAL_ID() == 0) {
        TFM_AT(max_and_sum)[place * 2] = highest;
        TFM_AT(max_and_sum)[place * 2 + 1] = sum;
    }
}

/* A work-group per row: merges the results of topk_split. No loop iteration exits early: PoCL 3.1 would never reach the
 * barriers after it. */
TFM_KERNEL void topk_merge(TFM_TENSOR(float, values), TFM_TENSOR(int, indices), TFM_TENSOR(float, lse),
                           TFM_INPUT(float, found_values), TFM_INPUT(int, found_indices), TFM_INPUT(float, max_and_sum),
                           TFM_INPUT(float, x), const long rows, const long n, const long k, const long parts,
                           const long summed) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    const int lists = (int)parts, most = (int)k, all = lists * most;
    if (row >= rows)
        return;
    __global const float *list = TFM_AT(found_values) + row * all;
    __global const int *places = TFM_AT(found_indices) + row * all;
    __global float *value_out = TFM_AT(values) + row * k;
    __global int *index_out = TFM_AT(indices) + row * k;
    float mine = 0.0f;
    for (int e = (int)TFM_LOCAL_ID(); e < all; e += TFM_GROUP) {
        const float value = list[e];
        const int place = places[e];
        const int rank = value > -INFINITY ? rank_in_parts(list, places, lists, most, value, place) : most;
        mine += value > -INFINITY ? 1.0f : 0.0f;
        if (rank < most) {
            value_out[rank] = value;
            index_out[rank] = place;
        }
    }
    const long found = (long)tfm_group_sum(mine);
    if (found < k && TFM_LOCAL_ID() == 0)
        fill_neg_infinity(value_out, index_out, TFM_AT(x) + row * n, found, k, n);
    if (summed && TFM_LOCAL_ID() == 0)
        TFM_AT(lse)[row] = parts_log_sum(TFM_AT(max_and_sum) + row * parts * 2, lists);
}
#endif
#endif
#endif
