/* Attention, where work-items run side by side and a head has few queries, or is not what attention_tiled.cl takes:
 *
 *     y_i = sum_s p_is v_s,   p_is = 2^(z_is - max_s z_is) / sum_s 2^(...),   z_is = log2(e) score of query i and key s
 *     log_sum_i = log sum_s e^(score_is) = log(2) (max_s z_is + log2 sum_s 2^(...))
 *
 * over the keys s that query i sees, by the online softmax ("Online normalizer calculation for softmax", Milakov and
 * Gimelshein 2018): keys come in tiles, and what was summed under an older maximum is scaled down to the new one.
 *
 * Letters, parameters, what a query sees, and dropout are explained in attention_parts.cl. A work-group of TFM_GROUP
 * items takes QUERIES queries that share keys. For the scores an item has a key and all QUERIES of them; for the sums
 * it has a column of v, or, where v is narrower than the group, a column and one of PARTS shares of the keys.
 *
 * With SPLIT several work-groups share the keys of such queries, as a step of decoding has few queries and many keys
 * ("Flash-Decoding for long-context inference", Dao et al. 2023): each makes the sums over its span of keys, under its
 * own maximum, and attention_join adds them up in the order of the spans. */
#include "attention_parts.cl"

#ifndef QUERIES
#define QUERIES 1
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define TILE (TFM_GROUP < 32 ? 32 : TFM_GROUP) /* keys per step */
/* The columns of v rounded up to a power of two, as far as the group reaches. */
#if DV <= 8 || TFM_GROUP <= 8
#define SPAN (TFM_GROUP < 8 ? TFM_GROUP : 8)
#elif DV <= 16 || TFM_GROUP <= 16
#define SPAN 16
#elif DV <= 32 || TFM_GROUP <= 32
#define SPAN 32
#elif DV <= 64 || TFM_GROUP <= 64
#define SPAN 64
#else
#define SPAN TFM_GROUP
#endif
#define PARTS (TFM_GROUP / SPAN)
#define COLUMNS ((DV + SPAN - 1) / SPAN) /* of one item */
/* Columns whose sums an item has at a time; for more, scores are computed anew. */
#define MOST (16 / QUERIES)
#define OWN (COLUMNS < MOST ? COLUMNS : MOST)
#define AHEAD (QUERIES == 1 ? 16 : 4) /* numbers of a key that are read at a time */

/* Inlined for certain: where these stayed calls, PoCL 3.1 would share one scratch among work-groups. */
#define INLINED static inline __attribute__((always_inline))

/* The maxima of `values` (QUERIES, TILE) over the tile to out[query]; all items must come here. */
INLINED void tile_maxima(__local float *out, __local const float *values, __local float *scratch) {
    const int lane = get_local_id(0);
    for (int i = 0; i < QUERIES; i++) {
        float best = -INFINITY;
        for (int j = lane; j < TILE; j += TFM_GROUP)
            best = fmax(best, values[i * TILE + j]);
        scratch[i * TFM_GROUP + lane] = best;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = TFM_GROUP / 2; half_size > 0; half_size /= 2) {
        for (int e = lane; e < QUERIES * half_size; e += TFM_GROUP) {
            const int at = e / half_size * TFM_GROUP + e % half_size;
            scratch[at] = fmax(scratch[at], scratch[at + half_size]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = lane; i < QUERIES; i += TFM_GROUP)
        out[i] = scratch[i * TFM_GROUP];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Sums `v` over the items whose lane is equal modulo `stride`, a power of two; every item gets its sum. */
INLINED float lanes_sum(const float v, const int stride, __local float *scratch) {
    const int lane = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[lane] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = TFM_GROUP / 2; half_size >= stride && half_size > 0; half_size /= 2) {
        if (lane < half_size)
            scratch[lane] += scratch[lane + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[lane % stride];
}

/* z[i] += the products of QUERIES rows of q with four numbers of a key. */
static inline void score_four(float *z, __local const float *q, __global const number *k) {
    const float4 key = NUMBERS4(k);
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
#if DK % 4 == 0
        const float4 query = *(__local const float4 *)(q + i * DK);
#else
        const float4 query = vload4(0, q + i * DK);
#endif
        z[i] = tfm_fma(query.x, key.x, z[i]);
        z[i] = tfm_fma(query.y, key.y, z[i]);
        z[i] = tfm_fma(query.z, key.z, z[i]);
        z[i] = tfm_fma(query.w, key.w, z[i]);
    }
}

/* z[i] += the products of QUERIES rows of q with one key. `none` is 0 as TFM_TURNS wants it. */
static inline void score_key(float *z, __local const float *q, __global const number *k, const int none) {
    int d = 0;
#pragma unroll 1
    for (; d + AHEAD <= TFM_TURNS(DK, none); d += AHEAD) {
#pragma unroll
        for (int e = 0; e < AHEAD; e += 4)
            score_four(z, q + d + e, k + d + e);
    }
#pragma unroll 1
    for (; d + 4 <= DK; d += 4)
        score_four(z, q + d, k + d);
#pragma unroll 1
    for (; d < DK; d++) {
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
            z[i] = tfm_fma(q[i * DK + d], NUMBER(k, d), z[i]);
    }
}

#if DROPS
#define KEEPS(i, j) ((kept[j] & (1u << (i))) != 0)

/* Bit i is whether query `begin` + i keeps its weight of key s; begin is a multiple of QUERIES, which is 1 or of 4. */
static inline uint kept_by(const tfm_drops drops, const long first, const long begin, const int s) {
    uint bits = 0;
    for (int i = 0; i < QUERIES; i += 4) {
        const uint4 n = drop_numbers(drops, first + (begin + i) / 4, s);
        const int4 keeps = n >= (uint4)(drops.threshold);
        bits |= (uint)((keeps.x & 1) | (keeps.y & 2) | (keeps.z & 4) | (keeps.w & 8)) << i;
    }
    return QUERIES == 1 ? bits >> begin % 4 : bits;
}
#else
#define KEEPS(i, j) 1
#endif

#if SPLIT
/* y (spans, rows, DV) gets the sums, and log_sum (spans, rows, 2) the maximum that they are under and the sum of the
 * weights. A span has `span` keys, the last one all that are left. */
#define SPLIT_PARAMETERS const long spans, const long span, const long query_rows,
#else
#define SPLIT_PARAMETERS const long first_item,
#endif

/* One work-group per QUERIES queries of one (b, kv_head), and with SPLIT for each span of their keys. Without, a launch
 * begins at first_item and ends before `items`: long ones are split. */
TFM_KERNEL void attention_group(TFM_TENSOR(float, y), TFM_TENSOR(float, log_sum), const long summed, const long items,
                                const float scale, const float cap, SPLIT_PARAMETERS ATTENTION_PARAMETERS) {
    __local float qs[QUERIES * DK] __attribute__((aligned(16)));
    __local float weight[QUERIES * TILE], scratch[QUERIES * TFM_GROUP];
    __local float reached[QUERIES];
    __local int row[TILE], begin[QUERIES], limit[QUERIES];
    __local long masks[QUERIES], rows[QUERIES], sums[QUERIES]; /* where a query's mask, row of y and log_sum are */
#if DROPS
    __local uint kept[TILE]; /* bit i: query i keeps its weight of the key */
#endif
    const attention_shape shape = ATTENTION_SHAPE;
#if SPLIT
    const long turn = TFM_ROW(), own_span = turn / items, item = turn - own_span * items;
    if (own_span >= spans)
        return;
#else
    const long item = first_item + TFM_ROW();
    if (item >= items)
        return;
#endif
    const long queries = heads / kv_heads * targets;
    const long blocks = (queries + QUERIES - 1) / QUERIES;
    const int lane = get_local_id(0), column = lane % SPAN, part = lane / SPAN, none = TFM_NONE(targets);
    __global float *out = TFM_AT(y);
    const long kv_head = item % kv_heads, block = item / kv_heads % blocks, b = item / (kv_heads * blocks);
    const shared_keys keys = keys_at(shape, b, kv_head);

#pragma unroll 1
    for (int i = 0; i < QUERIES; i++) {
        const long index = min(block * QUERIES + i, queries - 1), t = index % targets;
        const long h = kv_head * (heads / kv_heads) + index / targets, at = query_at(shape, b, t, h);
        for (int d = lane; d < DK; d += TFM_GROUP)
            qs[i * DK + d] = Q_NUMBER(TFM_AT(q), at * DK + d) * scale;
        if (lane == i % TFM_GROUP) {
            limit[i] = block * QUERIES + i < queries ? seen_to(keys, (int)t) : 0;
            begin[i] = seen_from(keys, (int)t);
            masks[i] = mask_row(shape, b, t, h);
            rows[i] = at;
            sums[i] = (b * heads + h) * targets + t;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int nearest = INT_MAX, furthest = 0;
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        if (begin[i] < limit[i]) {
            nearest = min(nearest, begin[i]);
            furthest = max(furthest, limit[i]);
        }
#if SPLIT
    if (nearest < furthest) {
        nearest += (int)min(own_span * span, (long)(furthest - nearest));
        furthest = own_span + 1 < spans ? (int)min((long)furthest, nearest + span) : furthest;
    }
#endif

    for (int pass = 0; pass < COLUMNS; pass += OWN) {
        /* Every item keeps the maxima for itself: shared ones, written after a barrier, PoCL 3.1 loses. */
        float sum[QUERIES][OWN], total[QUERIES], maximum[QUERIES];
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            total[i] = 0.0f;
            maximum[i] = -INFINITY;
#pragma unroll
            for (int c = 0; c < OWN; c++)
                sum[i][c] = 0.0f;
        }
        /* `first` is 0, which compilers do not see: what is the same for all tiles would be in registers throughout. */
        for (int s = nearest; s < furthest; s += TILE) {
            const int count = min(furthest - s, TFM_TURNS(TILE, none)), first = s < 0;
            for (int j = lane; j < TILE; j += TFM_GROUP) {
                float z[QUERIES];
                const int at = j < count ? key_row(keys, s + j) : -1;
#pragma unroll
                for (int i = 0; i < QUERIES; i++)
                    z[i] = 0.0f;
                if (at >= 0)
                    score_key(z, qs + first, keys.k + at * keys.k_step, none);
                row[j] = at;
#if DROPS
                kept[j] = kept_by(TFM_DROPS(), first_block(shape, b, kv_head), block * QUERIES, s + j);
#endif
#pragma unroll
                for (int i = 0; i < QUERIES; i++) {
                    const int seen = at >= 0 && s + j >= begin[first + i] && s + j < limit[first + i];
                    weight[i * TILE + j] = seen ? key_scored(shape, z[i], cap, masks[first + i], s + j) : -INFINITY;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            tile_maxima(reached, weight, scratch);
#pragma unroll
            for (int i = 0; i < QUERIES; i++) {
                const float highest = fmax(maximum[i], reached[i]), base = highest == -INFINITY ? 0.0f : highest;
                const float shrink = exp2(maximum[i] - base);
                maximum[i] = highest;
                total[i] *= shrink;
#pragma unroll
                for (int c = 0; c < OWN; c++)
                    sum[i][c] *= shrink;
                for (int j = lane; j < TILE; j += TFM_GROUP) {
                    const float z = weight[i * TILE + j], p = exp2(z - base);
                    weight[i * TILE + j] = z == -INFINITY ? -1.0f : KEEPS(i, j) ? p : 0.0f; /* -1: hidden */
                    total[i] += z == -INFINITY ? 0.0f : p;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE); /* weights written */
            for (int j = part; j < count; j += PARTS) {
                if (row[j] < 0)
                    continue;
                __global const number *value = keys.v + row[j] * keys.v_step;
#pragma unroll
                for (int c = 0; c < OWN; c++) {
                    const int at = column + (pass + c) * SPAN;
                    const float x = at < DV ? NUMBER(value, at) : 0.0f;
                    /* What a query does not see must not touch it, NaN included; a weight of NaN is seen. */
#pragma unroll
                    for (int i = 0; i < QUERIES; i++)
                        if (!(weight[i * TILE + j] < 0.0f))
                            sum[i][c] = tfm_fma(weight[i * TILE + j], x, sum[i][c]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE); /* the next tile overwrites rows and weights */
        }
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            const float all = lanes_sum(total[i], 1, scratch);
#if SPLIT
            const float inverse = 1.0f;
            const long row_out = own_span * query_rows + rows[i];
#else
            const float inverse = all == 0.0f ? 0.0f : KEPT(1.0f / all);
            const long row_out = rows[i];
#endif
            const int exists = block * QUERIES + i < queries;
#pragma unroll
            for (int c = 0; c < OWN; c++) {
                const float value = PARTS > 1 ? lanes_sum(sum[i][c], SPAN, scratch) : sum[i][c];
                const int at = column + (pass + c) * SPAN;
                if (exists && part == 0 && at < DV)
                    out[row_out * DV + at] = value * inverse;
            }
#if SPLIT
            if (exists && lane == 0) {
                TFM_AT(log_sum)[row_out * 2] = maximum[i];
                TFM_AT(log_sum)[row_out * 2 + 1] = all;
            }
#else
            if (summed && exists && lane == 0)
                TFM_AT(log_sum)[sums[i]] = LN_2 * (maximum[i] + log2(all));
#endif
        }
    }
}

#if SPLIT
/* y (rows, DV) of the sums that attention_group has made over each span of keys: those under a lower maximum are scaled
 * down to the highest. n is the number of y's elements; an item takes TFM_CHUNK of them. */
TFM_KERNEL void attention_join(TFM_TENSOR(float, y), TFM_INPUT(float, span_sums), TFM_INPUT(float, tops), const long n,
                               const long spans, const long query_rows) {
    const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, n);
    for (long i = first; i < end; i++) {
        __global const float *top = TFM_AT(tops) + i / DV * 2;
        __global const float *from = TFM_AT(span_sums) + i;
        float highest = -INFINITY, total = 0.0f, sum = 0.0f;
        for (long s = 0; s < spans; s++)
            highest = fmax(highest, top[s * query_rows * 2]);
        const float base = highest == -INFINITY ? 0.0f : highest;
        for (long s = 0; s < spans; s++) {
            const float share = exp2(top[s * query_rows * 2] - base);
            total = tfm_fma(top[s * query_rows * 2 + 1], share, total);
            sum = tfm_fma(from[s * n], share, sum);
        }
        TFM_AT(y)[i] = total == 0.0f ? 0.0f : sum * (1.0f / total);
    }
}
#endif
