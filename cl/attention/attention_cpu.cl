/* Attention on CPU-style devices: a work-group is one work-item with vectors of TFM_WIDTH floats. attention_common.cl
 * defines letters, parameters, visibility and dropout.
 *
 *     y_i = sum_s p_is v_s,   p_is = 2^(z_is - max_s z_is) / sum_s 2^(...),   z_is = log2(e) score of query i and key s
 *     lse_i = log sum_s e^(score_is) = log(2) (max_s z_is + log2 sum_s 2^(...))
 *
 * over the keys s visible to query i, by online softmax ("Online normalizer calculation for softmax", Milakov and
 * Gimelshein 2018): keys come in tiles, and sums under an older maximum are rescaled to the new one. */
#include "attention_common.cl"
#define LOAD_DTYPE KV_DTYPE
#include "half_load.cl"
#include "attention_vectors.cl"

/* Register block: queries by vectors of keys or of value columns, 8 x 2 accumulators of 32 registers, or 4 x 3 of 16.
 * An FMA takes four cycles and two start per cycle, so 4 x 2 would only just suffice and stall on any delay. */
#if TFM_WIDTH == 16
#define MAX_ROWS 8
#define SIDES 2
#else
#define MAX_ROWS 4
#define SIDES 3
#endif
#define TILE (SIDES * W) /* keys per step */
#ifndef QUERIES
#define QUERIES 64 /* of one work-item */
#endif
#define BLOCKS (QUERIES / MAX_ROWS + 1)

/* Lane r of the result is the maximum of t[r]'s lanes, r < MAX_ROWS. Overwrites t. */
static inline tfm_vec max_each(tfm_vec *t) {
#pragma unroll
    for (int count = MAX_ROWS; count > 1; count /= 2) {
#pragma unroll
        for (int i = 0; i < count / 2; i++)
            t[i] = larger((tfm_vec)(t[2 * i].even, t[2 * i + 1].even), (tfm_vec)(t[2 * i].odd, t[2 * i + 1].odd));
    }
    tfm_vec m = t[0];
#pragma unroll
    for (int parts = W / MAX_ROWS; parts > 1; parts /= 2)
        m = larger((tfm_vec)(m.even, m.even), (tfm_vec)(m.odd, m.odd));
    return m;
}

/* A tile of keys, transposed so that a vector holds one component of W keys, and its values packed contiguously: their
 * sources are mostly a power of two apart and would map to one cache set. */
typedef struct tile {
    tfm_vec k[KEY_VECTORS * W][SIDES];
    tfm_vec v[TILE][VALUE_VECTORS];
    tfm_vec bias[SIDES]; /* -inf if no query sees the key */
    int row[TILE];
    int whole;  /* whether all keys are visible */
    int finite; /* whether all values are finite; -1: unknown */
} tile;

/* A work-item's per-query state between tiles. */
typedef struct state {
    tfm_vec sum[QUERIES + MAX_ROWS][VALUE_VECTORS];
    tfm_vec total[QUERIES + MAX_ROWS];
    tfm_vec q[QUERIES + MAX_ROWS][KEY_VECTORS]; /* times scale log2(e) */
    tfm_vec maximum[BLOCKS];                    /* of each block of rows, a lane a row */
    long at[QUERIES];                           /* index of the query */
#if SCORE_MOD
    long mask[QUERIES + MAX_ROWS]; /* its row of the mask */
#endif
#if DROPOUT
    tfm_dropout_rng drops;
    long drop_block; /* the first query's */
#endif
    int begin[QUERIES + MAX_ROWS], limit[QUERIES + MAX_ROWS]; /* visible keys begin <= s < limit; none: both 0 */
    /* Per block: the keys visible to any of its queries, and those visible to all. */
    int some_begin[BLOCKS], some_limit[BLOCKS], all_begin[BLOCKS], all_limit[BLOCKS];
} state;

/* Keys s .. s + count - 1; those beyond are invisible copies of the last one. */
static inline void tile_pack(tile *to, const kv_view keys, const int s, const int count) {
    float *bias = (float *)to->bias;
    to->whole = count == TILE;
    to->finite = -1;
    for (int j = 0; j < TILE; j++) {
        const int row = key_row(keys, s + min(j, count - 1));
        to->row[j] = max(row, 0);
        bias[j] = row < 0 || j >= count ? -INFINITY : 0.0f;
        to->whole &= row >= 0;
    }
    for (int side = 0; side < TILE && side < count; side += W)
        for (int c = 0; c < KEY_VECTORS; c++) {
            tfm_vec t[W];
#pragma unroll
            for (int j = 0; j < W; j++)
                t[j] = scaled_key(keys.k + to->row[side + j] * keys.k_step, c);
            transpose(t);
#pragma unroll
            for (int j = 0; j < W; j++)
                to->k[c * W + j][side / W] = t[j];
        }
    for (int j = 0; j < count; j++)
        for (int c = 0; c < VALUE_VECTORS; c++)
            to->v[j][c] = scaled_value(keys.v + to->row[j] * keys.v_step, c);
}

/* Whether 0 times each of the tile's values is 0. Computed at first use. */
static inline int tile_finite(tile *keys, const int count) {
    if (keys->finite < 0) {
        tfm_vec zeros = 0.0f;
        for (int j = 0; j < count; j++)
            for (int c = 0; c < VALUE_VECTORS; c++)
                zeros = tfm_fma((tfm_vec)(0.0f), keys->v[j][c], zeros);
        keys->finite = tfm_vec_sum(zeros) == 0.0f;
    }
    return keys->finite;
}

/* Force-inlined, because compilers prefer calls to copies. */
#define INLINED static inline __attribute__((always_inline))
/* A loop with a literal bound is unrolled before R is known, so its arrays stay in registers. */
#define EACH_ROW                                                                                                       \
    for (int r = 0; r < MAX_ROWS; r++)                                                                                 \
        if (r < R)

#define EACH_SIDE(count)                                                                                               \
    for (int x = 0; x < SIDES; x++)                                                                                    \
        if (x < count)

/* Adds the weighted values of `vectors` vectors of columns from `c` on, for R queries. `careful`: negative weights mark
 * keys that must not contribute. */
INLINED void add_values(const int R, const int vectors, const int c, state *st, const int first, const tile *keys,
                        const tfm_vec (*weight)[SIDES], const float *shrink, const int count, const int careful) {
    tfm_vec sum[MAX_ROWS][SIDES];
#pragma unroll
    EACH_ROW {
#pragma unroll
        EACH_SIDE (vectors)
            sum[r][x] = st->sum[first + r][c + x] * shrink[r];
    }
    for (int j = 0; j < count; j++) {
        tfm_vec value[SIDES];
#pragma unroll
        EACH_SIDE (vectors)
            value[x] = keys->v[j][c + x];
        if (careful) {
#pragma unroll
            EACH_ROW {
                if (!(((const float *)weight[r])[j] < 0.0f)) /* NaN is visible */
#pragma unroll
                    EACH_SIDE (vectors)
                        sum[r][x] = tfm_fma((tfm_vec)(((const float *)weight[r])[j]), value[x], sum[r][x]);
            }
        } else {
#pragma unroll
            EACH_ROW {
#pragma unroll
                EACH_SIDE (vectors)
                    sum[r][x] = tfm_fma((tfm_vec)(((const float *)weight[r])[j]), value[x], sum[r][x]);
            }
        }
    }
#pragma unroll
    EACH_ROW {
#pragma unroll
        EACH_SIDE (vectors)
            st->sum[first + r][c + x] = sum[r][x];
    }
}

/* Column vectors are processed SIDES at a time. With SIDES 3, a single remainder and the previous three make two pairs:
 * 7 are 3, 2 and 2; 8 are 3, 3 and 2. */
#define ALONE (VALUE_VECTORS % SIDES == 1 && SIDES > 2 && VALUE_VECTORS > 1)
#define IN_SIDES (VALUE_VECTORS / SIDES * SIDES - (ALONE ? SIDES : 0))
#define IN_PAIRS ((VALUE_VECTORS - IN_SIDES) / 2 * 2)

#if DROPOUT
/* Drops weights of R queries from `first` on and keys s .. s + count - 1. */
INLINED void drop_weights(const int R, tfm_vec (*weight)[SIDES], const state *st, const int first, const int s,
                          const int count) {
    for (int side = 0; side * W < count; side++)
#pragma unroll
        for (int block = 0; block < MAX_ROWS / 4; block++)
            if (block * 4 < R) {
                tfm_uvec numbers[4];
                dropout_words_vec(numbers, st->drops, st->drop_block + first / 4 + block, s + side * W);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int r = block * 4 + i;
                    weight[r][side] = select(weight[r][side], (tfm_vec)(0.0f), numbers[i] < st->drops.threshold);
                }
            }
}
#endif

/* z: the scores of R queries and the first `sides` vectors of a tile's keys. */
INLINED void make_scores(const int R, const int sides, const state *st, const int first, const tile *keys,
                         tfm_vec (*z)[SIDES]) {
    tfm_vec sum[MAX_ROWS][SIDES];
#pragma unroll
    EACH_ROW {
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            sum[r][x] = 0.0f;
    }
    for (int d = 0; d < DK; d++) {
        tfm_vec k[SIDES];
#pragma unroll
        EACH_SIDE (sides)
            k[x] = keys->k[d][x];
#pragma unroll
        EACH_ROW {
            const tfm_vec q = ((const float *)st->q[first + r])[d];
#pragma unroll
            EACH_SIDE (sides)
                sum[r][x] = tfm_fma(q, k[x], sum[r][x]);
        }
    }
#pragma unroll
    EACH_ROW {
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            z[r][x] = sum[r][x];
    }
}

/* Processes R queries from `first` on, a multiple of MAX_ROWS, with one tile of keys; masked: some keys are invisible
 * to some of them. R is a constant after inlining. */
INLINED void attend(const int R, const attention_shape shape, const float cap, state *st, const int first, tile *keys,
                    const int s, const int count, const int masked) {
    tfm_vec z[MAX_ROWS][SIDES], weight[MAX_ROWS][SIDES], highest[MAX_ROWS];
    if (count > (SIDES - 1) * W)
        make_scores(R, SIDES, st, first, keys, z);
    else if (SIDES > 2 && count > W)
        make_scores(R, 2, st, first, keys, z);
    else
        make_scores(R, 1, st, first, keys, z);
#if SCORE_MOD
#pragma unroll
    EACH_ROW {
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            z[r][x] = scored(shape, z[r][x], cap, st->mask[first + r], s + x * W);
    }
#endif
    if (masked) {
#pragma unroll
        for (int x = 0; x < SIDES; x++) {
            const tfm_vec hidden = keys->bias[x], lane = tfm_lane_index() + (float)(x * W);
#pragma unroll
            EACH_ROW {
                const tfm_vec begin = (float)(st->begin[first + r] - s), limit = (float)(st->limit[first + r] - s);
                z[r][x] = select(z[r][x], (tfm_vec)(-INFINITY), hidden < 0.0f || lane < begin || lane >= limit);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < MAX_ROWS; r++) {
        highest[r] = -INFINITY;
        if (r < R)
#pragma unroll
            for (int x = 0; x < SIDES; x++)
                highest[r] = larger(z[r][x], highest[r]);
    }
    const tfm_vec before = st->maximum[first / MAX_ROWS], reached = larger(before, max_each(highest));
    const tfm_vec base = select(reached, (tfm_vec)(0.0f), reached == -INFINITY), shrink = exp2_down(before - base);
    /* A weight of 0 hides its value, unless that is not finite. */
#if SCORE_MOD
    const int hides = masked || shape.mask_kind != 0;
#else
    const int hides = masked;
#endif
    const int careful = hides && !tile_finite(keys, count);
    st->maximum[first / MAX_ROWS] = reached;
#pragma unroll
    EACH_ROW {
        const float b = ((const float *)&base)[r], f = ((const float *)&shrink)[r];
        weight[r][0] = exp2_down(z[r][0] - b);
        tfm_vec all = tfm_fma(st->total[first + r], (tfm_vec)(f), weight[r][0]);
#pragma unroll
        for (int x = 1; x < SIDES; x++) {
            weight[r][x] = exp2_down(z[r][x] - b);
            all += weight[r][x];
        }
        st->total[first + r] = all;
    }
#if DROPOUT
    drop_weights(R, weight, st, first, s, count);
#endif
    if (careful) {
#pragma unroll
        EACH_ROW {
#pragma unroll
            for (int x = 0; x < SIDES; x++)
                weight[r][x] = select(weight[r][x], (tfm_vec)(-1.0f), z[r][x] == -INFINITY);
        }
    }
    const float *const scales = (const float *)&shrink;
    for (int c = 0; c < IN_SIDES; c += SIDES)
        add_values(R, SIDES, c, st, first, keys, weight, scales, count, careful);
    for (int c = IN_SIDES; SIDES > 2 && c < IN_SIDES + IN_PAIRS; c += 2)
        add_values(R, 2, c, st, first, keys, weight, scales, count, careful);
    if ((VALUE_VECTORS - IN_SIDES) % 2)
        add_values(R, 1, VALUE_VECTORS - 1, st, first, keys, weight, scales, count, careful);
}

/* Initializes query r in its block of the state; if it is not real, it pads the block's rows. */
static inline void state_begin(state *st, const attention_shape shape, const kv_view keys, const int r, const int real,
                               const long b, const long t, const long h, __global const q_type *q, const float scale) {
    const int block = r / MAX_ROWS, limit = real ? visible_end(keys, (int)t) : 0;
    const int begin = real ? min(visible_begin(keys, (int)t), limit) : 0;
    if (real)
        st->at[r] = query_at(shape, b, t, h);
    for (int c = 0; c < KEY_VECTORS; c++)
        st->q[r][c] = real ? load_query(q + st->at[r] * DK, c) * scale : (tfm_vec)(0.0f);
    for (int c = 0; c < VALUE_VECTORS; c++)
        st->sum[r][c] = 0.0f;
    st->total[r] = 0.0f;
    st->begin[r] = begin;
    st->limit[r] = limit;
#if SCORE_MOD
    st->mask[r] = real ? mask_row(shape, b, t, h) : 0;
#endif
    if (r % MAX_ROWS == 0) {
        st->maximum[block] = -INFINITY;
        st->some_begin[block] = INT_MAX;
        st->all_begin[block] = st->some_limit[block] = 0;
        st->all_limit[block] = INT_MAX;
    }
    if (real) {
        st->all_begin[block] = max(st->all_begin[block], begin);
        st->all_limit[block] = min(st->all_limit[block], limit);
    }
    if (begin < limit) {
        st->some_begin[block] = min(st->some_begin[block], begin);
        st->some_limit[block] = max(st->some_limit[block], limit);
    }
}

/* One work-item per QUERIES queries that share keys: each tile of keys is transposed once for all of them, and
 * processed in blocks of up to MAX_ROWS. Tiles and blocks without visible keys are skipped. */
TFM_KERNEL void attention_cpu(TFM_TENSOR(float, y), TFM_TENSOR(float, lse), const long write_lse, const long items,
                              const float scale, const float cap, ATTENTION_PARAMETERS) {
    const attention_shape shape = ATTENTION_SHAPE;
    const long item = TFM_ROW(), queries = layout.heads / layout.kv_heads * layout.targets;
    const long blocks = (queries + QUERIES - 1) / QUERIES;
    if (item >= items)
        return;
    const long kv_head = item % layout.kv_heads, block = item / layout.kv_heads % blocks,
               b = item / (layout.kv_heads * blocks);
    const kv_view keys = keys_at(shape, b, kv_head);
    const long begin = block * QUERIES;
    const int rows = (int)min((long)QUERIES, queries - begin);
    state st;
    tile packed;
#if DROPOUT
    st.drops = TFM_DROPOUT_RNG();
    st.drop_block = first_block(shape, b, kv_head) + begin / 4;
#endif
    long t = begin % layout.targets, h = kv_head * (layout.heads / layout.kv_heads) + begin / layout.targets;
    for (int r = 0; r < (rows + MAX_ROWS - 1) / MAX_ROWS * MAX_ROWS; r++) {
        state_begin(&st, shape, keys, r, r < rows, b, t, h, TFM_AT(q), scale);
        t++;
        h += t == layout.targets;
        t = t == layout.targets ? 0 : t;
    }
    int nearest = INT_MAX, furthest = 0;
    for (int i = 0; i * MAX_ROWS < rows; i++) {
        nearest = min(nearest, st.some_begin[i]);
        furthest = max(furthest, st.some_limit[i]);
    }
    /* Tiles begin at multiples of their size, so a query's sums do not depend on the queries that share its keys. */
    for (int s = nearest / TILE * TILE; s < furthest; s += TILE) {
        const int count = min(furthest - s, TILE);
        tile_pack(&packed, keys, s, count);
        for (int i = 0; i * MAX_ROWS < rows; i++) {
            fetch_ahead(keys, s + TILE, min(s + 2 * TILE, furthest), i, (rows + MAX_ROWS - 1) / MAX_ROWS);
            const int masked = !packed.whole || st.all_begin[i] > s || st.all_limit[i] < s + TILE;
            if (st.some_begin[i] >= s + TILE || st.some_limit[i] <= s)
                continue;
            if (i * MAX_ROWS + MAX_ROWS / 2 < rows)
                attend(MAX_ROWS, shape, cap, &st, i * MAX_ROWS, &packed, s, count, masked);
            else
                attend(MAX_ROWS / 2, shape, cap, &st, i * MAX_ROWS, &packed, s, count, masked);
        }
    }
    for (int r = 0; r < rows; r++) {
        const float all = tfm_vec_sum(st.total[r]), inverse = all == 0.0f ? 0.0f : KEPT(1.0f / all);
        for (int c = 0; c < VALUE_VECTORS; c++)
            store_value(st.sum[r][c] * inverse, TFM_AT(y) + st.at[r] * DV, c);
        if (write_lse) {
            const long row = begin + r, head = kv_head * (layout.heads / layout.kv_heads) + row / layout.targets;
            __global float *to = TFM_AT(lse) + (b * layout.heads + head) * layout.targets + row % layout.targets;
            *to = LN_2 * (((const float *)&st.maximum[r / MAX_ROWS])[r % MAX_ROWS] + log2(all));
        }
    }
}
