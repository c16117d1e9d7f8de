/* Attention, where work-items run side by side:
 *
 *     y_i = sum_s p_is v_s,   p_is = 2^(z_is - max_s z_is) / sum_s 2^(...),   z_is = scale log2(e) q_i . k_s
 *
 * over the keys s < limit_i, by the online softmax ("Online normalizer calculation for softmax", Milakov and
 * Gimelshein 2018): keys come in tiles, and what was summed under an older maximum is scaled down to the new
 * one.
 *
 * Letters: T targets, H heads, Hk key heads. H/Hk * T queries of a sequence share keys, and a work-group of
 * TFM_GROUP items takes QUERIES of them. For the scores an item has a key and all QUERIES of them; for the
 * sums it has a column of v, or, where v is narrower than the group, a column and one of PARTS shares of the
 * keys. Given by the host: DK, DV the widths of a key and a value, QUERIES. */

#ifndef QUERIES
#define QUERIES 1
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

/* Query i of those that share keys is target i % T of head Hk's i / T th one. Its index among all (b, t, h),
 * or (b, h, t) where heads come first. */
static inline long query_at(const long i, const long b, const long kv_head, const long targets,
                            const long heads, const long kv_heads, const long heads_first) {
    const long t = i % targets, h = kv_head * (heads / kv_heads) + i / targets;
    return heads_first ? (b * heads + h) * targets + t : (b * targets + t) * heads + h;
}

/* The maxima of `values` (QUERIES, TILE) over the tile to out[query]; all items must come here. */
static inline void tile_maxima(__local float *out, __local const float *values, __local float *scratch) {
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
static inline float lanes_sum(const float v, const int stride, __local float *scratch) {
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

/* z[i] += the products of QUERIES rows of q with one key. */
static inline void score_key(float *z, __local const float *q, __global const float *k) {
    int d = 0;
    for (; d + 4 <= DK; d += 4) {
        const float4 key = vload4(0, k + d);
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            const float4 query = vload4(0, q + i * DK + d);
            z[i] = tfm_fma(query.x, key.x, z[i]);
            z[i] = tfm_fma(query.y, key.y, z[i]);
            z[i] = tfm_fma(query.z, key.z, z[i]);
            z[i] = tfm_fma(query.w, key.w, z[i]);
        }
    }
    for (; d < DK; d++) {
#pragma unroll
        for (int i = 0; i < QUERIES; i++)
            z[i] = tfm_fma(q[i * DK + d], k[d], z[i]);
    }
}

/* y from q (B, T, H dk) or (B, H, T, dk), likewise k and v: heads_first. length is S; past is S or more where
 * attention is not causal; sequences is N, of k, v and lengths (N); sources (B) says which is b's, where
 * mapped; key_rows (B, S) says which of the `pool` rows of k and v a key is, unless pool is -1. A source or
 * row that is none is not seen. One work-group per QUERIES queries of one (b, kv_head). */
TFM_KERNEL void attention_group(TFM_TENSOR(float, y), TFM_INPUT(float, q), TFM_INPUT(float, k),
                                TFM_INPUT(float, v), TFM_INPUT(int, lengths), TFM_INPUT(int, sources),
                                TFM_INPUT(int, key_rows), const long targets, const long length,
                                const long heads, const long kv_heads, const long past,
                                const long heads_first, const long sequences, const long padded,
                                const long mapped, const long pool, const float scale, const long items) {
    __local float qs[QUERIES * DK], weight[QUERIES * TILE], scratch[QUERIES * TFM_GROUP];
    __local float reached[QUERIES];
    __local int row[TILE], limit[QUERIES];
    const long item = TFM_ROW(), queries = heads / kv_heads * targets;
    const long blocks = (queries + QUERIES - 1) / QUERIES;
    const int lane = get_local_id(0), column = lane % SPAN, part = lane / SPAN;
    __global float *out = TFM_AT(y);
    if (item >= items)
        return;
    const long kv_head = item % kv_heads, block = item / kv_heads % blocks, b = item / (kv_heads * blocks);
    /* As int: llvmpipe compiles a comparison of an int, widened to long, with 0 wrong. */
    const int source = mapped ? TFM_AT(sources)[b] : (int)b, known = source >= 0 && source < (int)sequences;
    const long paged = pool >= 0, side = heads_first && !paged, n = known ? source : 0;
    const long first = paged  ? kv_head
                       : side ? (n * kv_heads + kv_head) * length
                              : n * length * kv_heads + kv_head;
    const long step = side ? 1 : kv_heads;
    const int visible = !known ? 0 : padded ? clamp(TFM_AT(lengths)[n], 0, (int)length) : (int)length;

    for (int i = 0; i < QUERIES; i++) {
        const long index = block * QUERIES + i;
        const long at = query_at(min(index, queries - 1), b, kv_head, targets, heads, kv_heads, heads_first);
        for (int d = lane; d < DK; d += TFM_GROUP)
            qs[i * DK + d] = TFM_AT(q)[at * DK + d] * scale;
        if (lane == i % TFM_GROUP)
            limit[i] = index < queries ? (int)min((long)visible, index % targets + past + 1) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int furthest = 0;
    for (int i = 0; i < QUERIES; i++)
        furthest = max(furthest, limit[i]);

    /* Every item keeps the maxima for itself: shared ones, written behind a barrier, PoCL 3.1 loses. */
    float sum[QUERIES][COLUMNS], total[QUERIES], maximum[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        total[i] = 0.0f;
        maximum[i] = -INFINITY;
        for (int c = 0; c < COLUMNS; c++)
            sum[i][c] = 0.0f;
    }
    for (int s = 0; s < furthest; s += TILE) {
        const int count = min(furthest - s, TILE);
        for (int j = lane; j < TILE; j += TFM_GROUP) {
            float z[QUERIES];
            int at = -1;
            for (int i = 0; i < QUERIES; i++)
                z[i] = 0.0f;
            if (j < count) {
                at = paged ? TFM_AT(key_rows)[b * length + s + j] : s + j;
                at = paged && at >= pool ? -1 : at;
            }
            if (at >= 0)
                score_key(z, qs, TFM_AT(k) + (first + at * step) * DK);
            row[j] = at;
            for (int i = 0; i < QUERIES; i++)
                weight[i * TILE + j] = at >= 0 && s + j < limit[i] ? z[i] : -INFINITY;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        tile_maxima(reached, weight, scratch);
        for (int i = 0; i < QUERIES; i++) {
            const float highest = fmax(maximum[i], reached[i]), base = highest == -INFINITY ? 0.0f : highest;
            const float shrink = exp2(maximum[i] - base);
            maximum[i] = highest;
            total[i] *= shrink;
            for (int c = 0; c < COLUMNS; c++)
                sum[i][c] *= shrink;
            for (int j = lane; j < TILE; j += TFM_GROUP) {
                const float p = exp2(weight[i * TILE + j] - base);
                weight[i * TILE + j] = p;
                total[i] += p;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* weights written */
        for (int j = part; j < count; j += PARTS) {
            if (row[j] < 0)
                continue;
            __global const float *value = TFM_AT(v) + (first + row[j] * step) * DV;
            for (int c = 0; c < COLUMNS; c++) {
                const int at = column + c * SPAN;
                const float x = at < DV ? value[at] : 0.0f;
                /* What a query does not see must not touch it, NaN included. */
#pragma unroll
                for (int i = 0; i < QUERIES; i++)
                    if (s + j < limit[i])
                        sum[i][c] = tfm_fma(weight[i * TILE + j], x, sum[i][c]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the next tile overwrites rows and weights */
    }
    for (int i = 0; i < QUERIES; i++) {
        const float all = lanes_sum(total[i], 1, scratch), inverse = all == 0.0f ? 0.0f : 1.0f / all;
        const long index = block * QUERIES + i;
        for (int c = 0; c < COLUMNS; c++) {
            const float value = PARTS > 1 ? lanes_sum(sum[i][c], SPAN, scratch) : sum[i][c];
            const int at = column + c * SPAN;
            if (index < queries && part == 0 && at < DV)
                out[query_at(index, b, kv_head, targets, heads, kv_heads, heads_first) * DV + at] =
                    value * inverse;
        }
    }
}
