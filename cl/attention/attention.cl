/* Attention of GPU-style devices, for heads with few queries and heads that attention_tiled.cl does not support:
 *
 *     y_i = sum_s p_is v_s,   p_is = 2^(z_is - max_s z_is) / sum_s 2^(...),   z_is = log2(e) score of query i and key s
 *     lse_i = log sum_s e^(score_is) = log(2) (max_s z_is + log2 sum_s 2^(...))
 *
 * over the keys s visible to query i, by online softmax ("Online normalizer calculation for softmax", Milakov and
 * Gimelshein 2018): keys come in tiles, and sums under an older maximum are rescaled to the new one.
 *
 * attention_common.cl defines letters, parameters, visibility and dropout. A work-group of TFM_GROUP items processes
 * QUERIES queries that share keys. For the scores an item takes a key and all QUERIES queries; for the sums a column of
 * v or, if v is narrower than the group, a column and one of PARTS shares of the keys.
 *
 * SPLIT is split-KV: several work-groups share the keys, for decode steps with few queries and many keys
 * ("Flash-Decoding for long-context inference", Dao et al. 2023). Each computes the sums of its span of keys under its
 * own maximum, and attention_combine adds them in the order of the spans. */
#include "attention_common.cl"

#ifndef QUERIES
#define QUERIES 1
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define TILE (TFM_GROUP < 32 ? 32 : TFM_GROUP) /* keys per step */
/* The columns of v rounded up to a power of two, limited by the group. */
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
/* Columns that an item sums at a time; for more, scores are recomputed. */
#define MOST (16 / QUERIES)
#define OWN (COLUMNS < MOST ? COLUMNS : MOST)
#define AHEAD (QUERIES == 1 ? 16 : 4) /* elements of a key per load */

/* Force-inlined: as function calls, PoCL 3.1 would share one scratch among work-groups. */
#define INLINED static inline __attribute__((always_inline))

/* Maxima of `values` (QUERIES, TILE) over the tile to out[query]; all items must call this. */
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

/* Sums `v` over the items whose lanes are equal modulo `stride`, a power of two; every item gets its sum. */
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

/* z[i] += dot products of QUERIES rows of q with the four elements of key k from d on. */
static inline void score_four(float *z, __local const float *q, __global const kv_type *k, const int d) {
    const float4 key = KV_LOAD4(k + d) * KV_SCALE(k, DK, d);
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

/* z[i] += dot products of QUERIES rows of q with one key. `none`: TFM_OPAQUE_ZERO for TFM_TRIP_COUNT. */
static inline void score_key(float *z, __local const float *q, __global const kv_type *k, const int none) {
    int d = 0;
#pragma unroll 1
    for (; d + AHEAD <= TFM_TRIP_COUNT(DK, none); d += AHEAD) {
#pragma unroll
        for (int e = 0; e < AHEAD; e += 4)
            score_four(z, q + d + e, k, d + e);
    }
#pragma unroll 1
    for (; d + 4 <= DK; d += 4)
        score_four(z, q + d, k, d);
#pragma unroll 1
    for (; d < DK; d++) {
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
            z[i] = tfm_fma(q[i * DK + d], KV_LOAD(k, d) * KV_SCALE(k, DK, d), z[i]);
    }
}

/* The queries of a work-group: `block`-th QUERIES of the `count` that share the keys of (b, kv_head). */
typedef struct query_group {
    long b, kv_head, block, count;
} query_group;

/* Local memory. For each query: q scaled, its visible keys begin .. limit - 1, and the offsets of its mask, row of y
 * and lse. For each key of a tile: weights (QUERIES, TILE), its row of k and v, and a dropout mask with bit i for query
 * i. `reached`: the queries' maxima over the tile. */
typedef struct group_memory {
    __local float *q, *weight, *reached, *scratch;
    __local int *begin, *limit, *row;
    __local long *masks, *rows, *sums;
    __local uint *kept;
} group_memory;

#if DROPOUT
#define KEEPS(kept, i, j) (((kept)[j] & (1u << (i))) != 0)
#define KEPT_MEMORY kept
#define GROUP_DROPS TFM_DROPOUT_RNG()

/* Dropout mask of key s: bit i is set if query `begin` + i keeps its weight. begin is a multiple of QUERIES, which is 1
 * or a multiple of 4. */
static inline uint kept_by(const tfm_dropout_rng drops, const long first, const long begin, const int s) {
    uint bits = 0;
    for (int i = 0; i < QUERIES; i += 4) {
        const uint4 n = dropout_words(drops, first + (begin + i) / 4, s);
        const int4 keeps = n >= (uint4)(drops.threshold);
        bits |= (uint)((keeps.x & 1) | (keeps.y & 2) | (keeps.z & 4) | (keeps.w & 8)) << i;
    }
    return QUERIES == 1 ? bits >> begin % 4 : bits;
}
#else
#define KEEPS(kept, i, j) 1
#define KEPT_MEMORY 0
#define GROUP_DROPS ((tfm_dropout_rng){0, 0, 0, 1.0f})
#endif

INLINED void load_queries(const group_memory l, __global const q_type *q, const attention_shape shape,
                          const kv_view keys, const query_group g, const float scale) {
    const int lane = get_local_id(0);
    const long targets = shape.targets;
#pragma unroll 1
    for (int i = 0; i < QUERIES; i++) {
        const long index = min(g.block * QUERIES + i, g.count - 1), t = index % targets;
        const long h = g.kv_head * (shape.heads / shape.kv_heads) + index / targets, at = query_at(shape, g.b, t, h);
        for (int d = lane; d < DK; d += TFM_GROUP)
            l.q[i * DK + d] = Q_LOAD(q, at * DK + d) * scale;
        if (lane == i % TFM_GROUP) {
            l.limit[i] = g.block * QUERIES + i < g.count ? visible_end(keys, (int)t) : 0;
            l.begin[i] = visible_begin(keys, (int)t);
            l.masks[i] = mask_row(shape, g.b, t, h);
            l.rows[i] = at;
            l.sums[i] = (g.b * shape.heads + h) * targets + t;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Scores of `count` keys from s on, -inf if invisible. `first` is 0 but opaque to compilers, which would otherwise keep
 * loop-invariant values in registers throughout. */
INLINED void score_tile(const group_memory l, const attention_shape shape, const kv_view keys, const query_group g,
                        const tfm_dropout_rng drops, const int s, const int count, const int none, const float cap) {
    const int first = s < 0;
    for (int j = get_local_id(0); j < TILE; j += TFM_GROUP) {
        float z[QUERIES];
        const int at = j < count ? key_row(keys, s + j) : -1;
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
            z[i] = 0.0f;
        if (at >= 0)
            score_key(z, l.q + first, keys.k + at * keys.k_step, none);
        l.row[j] = at;
#if DROPOUT
        l.kept[j] = kept_by(drops, first_block(shape, g.b, g.kv_head), g.block * QUERIES, s + j);
#endif
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            const int seen = at >= 0 && s + j >= l.begin[first + i] && s + j < l.limit[first + i];
            l.weight[i * TILE + j] = seen ? key_scored(shape, z[i], cap, l.masks[first + i], s + j) : -INFINITY;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Turns the scores of a tile into weights under the new maxima, and rescales the sums. A negative weight marks a key
 * that the query does not see. */
INLINED void softmax_update(const group_memory l, float (*sum)[OWN], float *total, float *maximum) {
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const float highest = fmax(maximum[i], l.reached[i]), base = highest == -INFINITY ? 0.0f : highest;
        const float shrink = exp2(maximum[i] - base);
        maximum[i] = highest;
        total[i] *= shrink;
#pragma unroll
        for (int c = 0; c < OWN; c++)
            sum[i][c] *= shrink;
        for (int j = get_local_id(0); j < TILE; j += TFM_GROUP) {
            const float z = l.weight[i * TILE + j], p = exp2(z - base);
            l.weight[i * TILE + j] = z == -INFINITY ? -1.0f : KEEPS(l.kept, i, j) ? p : 0.0f;
            total[i] += z == -INFINITY ? 0.0f : p;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* sum += weighted values of the tile's keys, for OWN columns from `column` on, SPAN apart. */
INLINED void accumulate_values(const group_memory l, const kv_view keys, float (*sum)[OWN], const int part,
                               const int count, const int column) {
    for (int j = part; j < count; j += PARTS) {
        if (l.row[j] < 0)
            continue;
        __global const kv_type *value = keys.v + l.row[j] * keys.v_step;
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            const int at = column + c * SPAN;
            const float x = at < DV ? KV_LOAD(value, at) * KV_SCALE(value, DV, at) : 0.0f;
            /* An invisible key must not contribute, not even NaN; a NaN weight must. */
#pragma unroll
            for (int i = 0; i < QUERIES; i++)
                if (!(l.weight[i * TILE + j] < 0.0f))
                    sum[i][c] = tfm_fma(l.weight[i * TILE + j], x, sum[i][c]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the next tile overwrites rows and weights */
}

/* Writes results of `there` queries to y and, if not NULL, lse. With SPLIT the sums are stored unnormalized, in rows
 * from `first_row` on, and lse gets the maximum and the sum of the weights. */
INLINED void store_results(const group_memory l, float (*sum)[OWN], const float *total, const float *maximum,
                           __global float *y, __global float *lse, const long there, const long first_row,
                           const int column, const float dropout_scale) {
    const int lane = get_local_id(0);
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const float all = lanes_sum(total[i], 1, l.scratch);
        const float inverse = SPLIT ? 1.0f : all == 0.0f ? 0.0f : KEPT(1.0f / all);
        const long row = first_row + l.rows[i];
#pragma unroll
        for (int c = 0; c < OWN; c++) {
            const float value = PARTS > 1 ? lanes_sum(sum[i][c], SPAN, l.scratch) : sum[i][c];
            const int at = column + c * SPAN;
            if (i < there && lane < SPAN && at < DV)
                y[row * DV + at] = value * inverse;
        }
        if (lse && i < there && lane == 0) {
#if SPLIT
            lse[row * 2] = maximum[i];
            lse[row * 2 + 1] = all;
#else
            lse[l.sums[i]] = LN_2 * (maximum[i] + log2(all));
#endif
        }
    }
}

#if SPLIT
/* y (spans, rows, DV) gets the unnormalized sums, and lse (spans, rows, 2) their maximum and the sum of the weights. A
 * span has `span` keys, the last one the rest. */
#define SPLIT_PARAMETERS const long num_splits, const long split_size, const long query_rows,
#else
#define SPLIT_PARAMETERS const long first_item,
#endif

/* One work-group per QUERIES queries of one (b, kv_head), and with SPLIT per span of their keys. Without SPLIT, a
 * launch covers first_item .. `items` - 1, because long launches are split. */
TFM_KERNEL void attention_gpu(TFM_TENSOR(float, y), TFM_TENSOR(float, lse), const long write_lse, const long items,
                              const float scale, const float cap, SPLIT_PARAMETERS ATTENTION_PARAMETERS) {
    __local float qs[QUERIES * DK] __attribute__((aligned(16)));
    __local float weight[QUERIES * TILE], scratch[QUERIES * TFM_GROUP];
    __local float reached[QUERIES];
    __local int row[TILE], begin[QUERIES], limit[QUERIES];
    __local long masks[QUERIES], rows[QUERIES], sums[QUERIES];
#if DROPOUT
    __local uint kept[TILE];
#endif
    const group_memory l = {qs, weight, reached, scratch, begin, limit, row, masks, rows, sums, KEPT_MEMORY};
    const attention_shape shape = ATTENTION_SHAPE;
#if SPLIT
    const long turn = TFM_ROW(), own_span = turn / items, item = turn - own_span * items;
    const long first_row = own_span * query_rows;
    if (own_span >= num_splits)
        return;
#else
    const long item = first_item + TFM_ROW(), first_row = 0;
    if (item >= items)
        return;
#endif
    const long queries = layout.heads / layout.kv_heads * layout.targets;
    const long blocks = (queries + QUERIES - 1) / QUERIES;
    const int lane = get_local_id(0), none = TFM_OPAQUE_ZERO(layout.targets);
    const query_group g = {item / (layout.kv_heads * blocks), item % layout.kv_heads, item / layout.kv_heads % blocks,
                           queries};
    const kv_view keys = keys_at(shape, g.b, g.kv_head);
    load_queries(l, TFM_AT(q), shape, keys, g, scale);

    int nearest = INT_MAX, furthest = 0;
#pragma unroll
    for (int i = 0; i < QUERIES; i++)
        if (begin[i] < limit[i]) {
            nearest = min(nearest, begin[i]);
            furthest = max(furthest, limit[i]);
        }
#if SPLIT
    if (nearest < furthest) {
        nearest += (int)min(own_span * split_size, (long)(furthest - nearest));
        furthest = own_span + 1 < num_splits ? (int)min((long)furthest, nearest + split_size) : furthest;
    }
#endif

    for (int pass = 0; pass < COLUMNS; pass += OWN) {
        /* Each item keeps a private copy of the maxima: PoCL 3.1 loses shared ones written after a barrier. */
        float sum[QUERIES][OWN], total[QUERIES], maximum[QUERIES];
        const int column = lane % SPAN + pass * SPAN;
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            total[i] = 0.0f;
            maximum[i] = -INFINITY;
#pragma unroll
            for (int c = 0; c < OWN; c++)
                sum[i][c] = 0.0f;
        }
        for (int s = nearest; s < furthest; s += TILE) {
            const int count = min(furthest - s, TFM_TRIP_COUNT(TILE, none));
            score_tile(l, shape, keys, g, GROUP_DROPS, s, count, none, cap);
            tile_maxima(reached, weight, scratch);
            softmax_update(l, sum, total, maximum);
            accumulate_values(l, keys, sum, lane / SPAN, count, column);
        }
        store_results(l, sum, total, maximum, TFM_AT(y), SPLIT || write_lse ? TFM_AT(lse) : 0,
                      queries - g.block * QUERIES, first_row, column, GROUP_DROPS.dropout_scale);
    }
}

#if SPLIT
/* y (rows, DV) from attention_gpu's sums of each span of keys, rescaled to the highest maximum. n is the number of y's
 * elements; an item processes TFM_CHUNK of them. */
TFM_KERNEL void attention_combine(TFM_TENSOR(float, y), TFM_INPUT(float, partial_y), TFM_INPUT(float, partial_lse),
                                  const long n, const long num_splits, const long query_rows) {
    const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, n);
    for (long i = first; i < end; i++) {
        __global const float *top = TFM_AT(partial_lse) + i / DV * 2;
        __global const float *from = TFM_AT(partial_y) + i;
        float highest = -INFINITY, total = 0.0f, sum = 0.0f;
        for (long s = 0; s < num_splits; s++)
            highest = fmax(highest, top[s * query_rows * 2]);
        const float base = highest == -INFINITY ? 0.0f : highest;
        for (long s = 0; s < num_splits; s++) {
            const float share = exp2(top[s * query_rows * 2] - base);
            total = tfm_fma(top[s * query_rows * 2 + 1], share, total);
            sum = tfm_fma(from[s * n], share, sum);
        }
        TFM_AT(y)[i] = total == 0.0f ? 0.0f : sum * (1.0f / total);
    }
}
#endif
