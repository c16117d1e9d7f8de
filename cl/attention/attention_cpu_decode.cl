/* Attention of the queries of one token on CPU-style devices: for decode, and for heads too wide for attention_cpu.cl,
 * with the same formulas. attention_common.cl defines letters, parameters, visibility and dropout. */
#include "attention_common.cl"
#define LOAD_DTYPE KV_DTYPE
#include "half_load.cl"
#include "attention_vectors.cl"

#ifndef QUERIES
#define QUERIES 1 /* of one work-item */
#endif
/* Register block of the weighted sums: queries by vectors of columns. */
#define ROWS (QUERIES < 4 ? QUERIES : 4)
#if QUERIES == 1
#define COLUMNS 8
#elif TFM_WIDTH == 16
#define COLUMNS 4
#else
#define COLUMNS 2
#endif
#define FEW_KEYS 64 /* with so few keys, all heads fit a cache, and memory order is the best */
#define FETCHED 512 /* limit of prefetched elements of a row */

/* Lane i of the result is the sum of t[i]'s lanes. Overwrites t. The first two steps stay within four lanes, so each
 * is one instruction; even and odd lanes would not. */
static inline tfm_vec sum_each(tfm_vec *t) {
#if TFM_WIDTH == 4
#define LOW(a, b) (tfm_vec)(a.s0, b.s0, a.s1, b.s1)
#define HIGH(a, b) (tfm_vec)(a.s2, b.s2, a.s3, b.s3)
#define LOW2(a, b) (tfm_vec)(a.s01, b.s01)
#define HIGH2(a, b) (tfm_vec)(a.s23, b.s23)
#elif TFM_WIDTH == 8
#define LOW(a, b) (tfm_vec)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5)
#define HIGH(a, b) (tfm_vec)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7)
#define LOW2(a, b) (tfm_vec)(a.s01, b.s01, a.s45, b.s45)
#define HIGH2(a, b) (tfm_vec)(a.s23, b.s23, a.s67, b.s67)
#else
#define LOW(a, b)                                                                                                      \
    (tfm_vec)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5, a.s8, b.s8, a.s9, b.s9, a.sc, b.sc, a.sd, b.sd)
#define HIGH(a, b)                                                                                                     \
    (tfm_vec)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7, a.sa, b.sa, a.sb, b.sb, a.se, b.se, a.sf, b.sf)
#define LOW2(a, b) (tfm_vec)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define HIGH2(a, b) (tfm_vec)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#endif
#pragma unroll
    for (int i = 0; i < W / 2; i++)
        t[i] = LOW(t[2 * i], t[2 * i + 1]) + HIGH(t[2 * i], t[2 * i + 1]);
#pragma unroll
    for (int i = 0; i < W / 4; i++)
        t[i] = LOW2(t[2 * i], t[2 * i + 1]) + HIGH2(t[2 * i], t[2 * i + 1]);
#if TFM_WIDTH == 8
    return (tfm_vec)(t[0].lo, t[1].lo) + (tfm_vec)(t[0].hi, t[1].hi);
#elif TFM_WIDTH == 16
#define PARTS(a, b) (tfm_vec)(a.s0123, a.s89ab, b.s0123, b.s89ab) + (tfm_vec)(a.s4567, a.scdef, b.s4567, b.scdef)
    const tfm_vec low = PARTS(t[0], t[1]), high = PARTS(t[2], t[3]);
    return PARTS(low, high);
#else
    return t[0];
#endif
}

/* Prefetches the keys and values of one head if they are few: those of a batch are in no nearby cache when needed, and
 * too short for hardware prefetching. */
static inline void fetch_few(const kv_view keys) {
    for (int j = 0; j < keys.visible && keys.visible <= FEW_KEYS; j++) {
        const int row = max(key_row(keys, j), 0);
        fetch(keys.k + row * keys.k_step, min(DK, FETCHED));
        fetch(keys.v + row * keys.v_step, min(DV, FETCHED));
    }
}

/* W keys from s on, of which `count` are there, and their values. */
typedef struct tile {
    __global const kv_type *k[W], *v[W];
    float bias[W]; /* -inf where there is no key */
    int hidden;    /* whether that is so anywhere */
} tile;

static inline void tile_find(tile *to, const kv_view keys, const int s, const int count) {
    to->hidden = count < W;
    /* Unrolled: compilers would vectorize a loop with masked loads, slow where a masked address is invalid. */
#pragma unroll
    for (int j = 0; j < W; j++) {
        const int row = j < count ? key_row(keys, s + j) : -1;
        to->bias[j] = row < 0 ? -INFINITY : 0.0f;
        to->k[j] = keys.k + max(row, 0) * keys.k_step;
        to->v[j] = keys.v + max(row, 0) * keys.v_step;
        to->hidden |= row < 0;
    }
}

/* dots[r][j]: the products of query r and key j, whose sum is the score. Keys and values of the next tile, those before
 * `limit`, are prefetched meanwhile. */
static inline void tile_dots(tfm_vec (*dots)[W], const tile *now, const tfm_vec (*q)[KEY_VECTORS], const kv_view keys,
                             const int next, const int limit) {
    for (int j = 0; j < W; j++) {
        tfm_vec sum[QUERIES];
        if (next + j < limit) {
            const int row = max(key_row(keys, next + j), 0);
            fetch(keys.k + row * keys.k_step, min(DK, FETCHED));
            fetch(keys.v + row * keys.v_step, min(DV, FETCHED));
        }
#pragma unroll
        for (int r = 0; r < QUERIES; r++)
            sum[r] = 0.0f;
        UNROLL_VECTORS
        for (int c = 0; c < KEY_VECTORS; c++) {
            const tfm_vec key = scaled_key(now->k[j], c);
#pragma unroll
            for (int r = 0; r < QUERIES; r++)
                sum[r] = tfm_fma(q[r][c], key, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < QUERIES; r++)
            dots[r][j] = sum[r];
    }
}

/* A loop with a literal bound is unrolled before the number of rows is known, so its arrays stay in registers. */
#define EACH_ROW                                                                                                       \
    for (int r = 0; r < ROWS; r++)                                                                                     \
        if (first + r < QUERIES)
#define EACH_COLUMN                                                                                                    \
    for (int x = 0; x < COLUMNS; x++)                                                                                  \
        if (c + x < VALUE_VECTORS)

/* Adds `count` weighted values to the sums of ROWS queries from `first` on, for COLUMNS vectors from `c` on. `careful`:
 * negative weights mark keys that must not contribute. */
static inline void add_values(tfm_vec (*sums)[VALUE_VECTORS], const tile *now, const float (*weight)[W],
                              const float *shrink, const int first, const int c, const int count, const int careful) {
    tfm_vec sum[ROWS][COLUMNS];
#pragma unroll
    EACH_ROW {
#pragma unroll
        EACH_COLUMN
        sum[r][x] = sums[first + r][c + x] * shrink[first + r];
    }
    for (int j = 0; j < count; j++) {
        tfm_vec value[COLUMNS];
#pragma unroll
        EACH_COLUMN
        value[x] = scaled_value(now->v[j], c + x);
#pragma unroll
        EACH_ROW {
            const float w = weight[first + r][j];
            if (!careful || !(w < 0.0f)) /* NaN is visible */
#pragma unroll
                EACH_COLUMN
            sum[r][x] = tfm_fma((tfm_vec)(w), value[x], sum[r][x]);
        }
    }
#pragma unroll
    EACH_ROW {
#pragma unroll
        EACH_COLUMN
        sums[first + r][c + x] = sum[r][x];
    }
}

/* One work-item per QUERIES queries of one target that share keys, and per span of `span` keys if that is not 0: then
 * y and lse are the unnormalized sums of each span, and their maximum and total, for attention_cpu_combine. W keys per
 * step: W vector dot products over dk, one joint horizontal sum, one exponential for all W, then W weighted values. */
TFM_KERNEL void attention_cpu_decode(TFM_TENSOR(float, y), TFM_TENSOR(float, lse), const long write_lse,
                                     const long items, const float scale, const float cap, const long span,
                                     const long spans, ATTENTION_PARAMETERS) {
    const attention_shape shape = ATTENTION_SHAPE;
    const long item = TFM_ROW(), queries = layout.heads / layout.kv_heads * layout.targets,
               blocks = (queries + QUERIES - 1) / QUERIES;
    /* If neighbors in b share many keys, as beams do, eight of them run in a row for one head, which then stays in L1;
     * else all heads of one b in a row, which are contiguous. */
    const long row = layout.mapped && layout.length > FEW_KEYS && 2 * layout.sequences <= items ? 8 : 1,
               b = item / (row * layout.kv_heads * blocks * spans) * row + item % row;
    const long kv_head = item / row % layout.kv_heads, block = item / (row * layout.kv_heads) % blocks,
               part = item / (row * layout.kv_heads * blocks) % spans;
    if (b >= items)
        return;
    const kv_view keys = keys_at(shape, b, kv_head);
    if (row == 1 && block == 0 && spans == 1 && b + 1 < items)
        fetch_few(keys_at(shape, b + 1, kv_head));
    const long first = block * QUERIES, t = first % layout.targets,
               h = kv_head * (layout.heads / layout.kv_heads) + first / layout.targets;
    const int rows = (int)min((long)QUERIES, queries - first);
    tfm_vec q_scaled[QUERIES][KEY_VECTORS], sum[QUERIES][VALUE_VECTORS], total[QUERIES];
    float maximum[QUERIES];
    for (int r = 0; r < QUERIES; r++) {
        __global const q_type *from = TFM_AT(q) + query_at(shape, b, t, h + min(r, rows - 1)) * DK;
        for (int c = 0; c < KEY_VECTORS; c++)
            q_scaled[r][c] = load_query(from, c) * scale;
        for (int c = 0; c < VALUE_VECTORS; c++)
            sum[r][c] = 0.0f;
        total[r] = 0.0f;
        maximum[r] = -INFINITY;
    }
    int begin = visible_begin(keys, (int)t), limit = visible_end(keys, (int)t);
    if (span > 0) { /* spans begin at multiples of their size, so results do not depend on the batch */
        const int from = begin / (int)span * (int)span + (int)(part * span);
        begin = max(begin, from);
        limit = min(limit, from + (int)span);
    }
    for (int s = begin; s < limit; s += W) {
        const int count = min(limit - s, W);
        tile now;
        tfm_vec dots[QUERIES][W];
        float weight[QUERIES][W], shrink[QUERIES];
        tile_find(&now, keys, s, count);
        tile_dots(dots, &now, q_scaled, keys, s + W, limit);
        int careful = now.hidden;
        for (int r = 0; r < QUERIES; r++) {
            tfm_vec z = sum_each(dots[r]);
            const tfm_vec bias = tfm_load(now.bias);
#if SCORE_MOD
            z = scored(shape, z, cap, mask_row(shape, b, t, h + min(r, rows - 1)), s);
            careful |= shape.mask_kind != 0;
#endif
            z = select(z, bias, bias < 0.0f);
            const float reached = fmax(maximum[r], tfm_vec_max(z)), base = reached == -INFINITY ? 0.0f : reached;
            const tfm_vec p = exp2_down(z - base), less = exp2_down((tfm_vec)(maximum[r] - base));
            maximum[r] = reached;
            total[r] = tfm_fma(total[r], less, p);
            shrink[r] = ((const float *)&less)[0];
            tfm_vec kept = p;
#if DROPOUT
            tfm_uvec numbers[4];
            dropout_words_vec(numbers, TFM_DROPOUT_RNG(), first_block(shape, b, kv_head) + (first + r) / 4, s);
            kept = select(p, (tfm_vec)(0.0f), numbers[(first + r) % 4] < (uint)threshold);
#endif
            tfm_store(careful ? select(kept, (tfm_vec)(-1.0f), z == -INFINITY) : kept, weight[r]);
        }
        for (int first_row = 0; first_row < QUERIES; first_row += ROWS)
            for (int c = 0; c < VALUE_VECTORS; c += COLUMNS)
                add_values(sum, &now, weight, shrink, first_row, c, count, careful);
    }
    for (int r = 0; r < rows; r++) {
        const long query = query_at(shape, b, t, h + r),
                   at = span > 0 ? part * items * layout.heads * layout.targets + query : query;
        const float all = tfm_vec_sum(total[r]), inverse = span > 0 ? 1.0f : all == 0.0f ? 0.0f : KEPT(1.0f / all);
        for (int c = 0; c < VALUE_VECTORS; c++)
            store_value(sum[r][c] * inverse, TFM_AT(y) + at * DV, c);
        if (span > 0) {
            TFM_AT(lse)[2 * at] = maximum[r];
            TFM_AT(lse)[2 * at + 1] = all;
        } else if (write_lse) {
            TFM_AT(lse)[(b * layout.heads + h + r) * layout.targets + t] = LN_2 * (maximum[r] + log2(all));
        }
    }
}

/* y (rows, DV) from the sums of each span, rescaled to the highest maximum, in the order of the spans. */
TFM_KERNEL void attention_cpu_combine(TFM_TENSOR(float, y), TFM_INPUT(float, partial_y), TFM_INPUT(float, partial_lse),
                                      const long rows, const long spans) {
    const long row = TFM_ROW();
    if (row >= rows)
        return;
    __global const float *top = TFM_AT(partial_lse) + 2 * row, *from = TFM_AT(partial_y) + row * DV;
    float highest = -INFINITY, total = 0.0f;
    tfm_vec sum[VALUE_VECTORS];
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        sum[c] = 0.0f;
    for (long s = 0; s < spans; s++)
        highest = fmax(highest, top[2 * s * rows]);
    const float base = highest == -INFINITY ? 0.0f : highest;
    for (long s = 0; s < spans; s++) {
        if (top[2 * s * rows + 1] == 0.0f)
            continue;
        const tfm_vec share = exp2_down((tfm_vec)(top[2 * s * rows] - base));
        total = tfm_fma(top[2 * s * rows + 1], ((const float *)&share)[0], total);
        UNROLL_VECTORS
        for (int c = 0; c < VALUE_VECTORS; c++)
            sum[c] = tfm_fma(share, load_floats(from + s * rows * DV, c, DV), sum[c]);
    }
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        store_value(total == 0.0f ? (tfm_vec)(0.0f) : sum[c] * (1.0f / total), TFM_AT(y) + row * DV, c);
}
