/* Attention for wide devices: one work-item a work-group, vectors of TFM_WIDTH floats. Letters and the
 * meaning of a "query" that shares keys as in attention.cl:
 *
 *     y_i = sum_s p_is v_s,   p_is = 2^(z_is - max_s z_is) / sum_s 2^(...),   z_is = scale log2(e) q_i . k_s
 *
 * over the keys s < limit_i, by the online softmax ("Online normalizer calculation for softmax", Milakov and
 * Gimelshein 2018): keys come in tiles, and what was summed under an older maximum is scaled down to the new
 * one. Given by the host: DK, DV the widths of a key and a value. */

#define W TFM_WIDTH
#define TILE (2 * W) /* keys per step of attention_block */
#define KEY_VECTORS ((DK + W - 1) / W)
#define VALUE_VECTORS ((DV + W - 1) / W)
#if TFM_WIDTH == 16
#define MOST_ROWS 8 /* queries in registers at a time: 2 * 8 sums of 32 registers */
#else
#define MOST_ROWS 4
#endif
/* Sums of one query stay in registers only where the loops over them are unrolled early. */
#if KEY_VECTORS <= 8 && VALUE_VECTORS <= 8
#define UNROLL_VECTORS _Pragma("unroll")
#else
#define UNROLL_VECTORS
#endif
#ifndef QUERIES
#define QUERIES 64 /* of one work-item of attention_block */
#endif

/* The larger of a and b; a where either is NaN. */
static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return select(a, b, b > a);
}

/* x + 1.5 * 2^23 has round(x) in its low bits: rint() and a conversion are many instructions on some CPUs. */
#define ROUNDER 12582912.0f

/* 2^x for x <= 0: 2^n by the exponent, n = round x, times the minimax polynomial of 2^f, |f| <= 1/2 (relative
 * error 1.8e-7 with 2^0 = 1). Below -126 denormal or 0, 0 at -inf. NaN stays. */
static inline tfm_vec exp2_down(tfm_vec x) {
    const tfm_vec c = larger(x, (tfm_vec)(-127.0f)), t = c + ROUNDER, f = c - (t - ROUNDER);
    tfm_vec p = tfm_fma(f, (tfm_vec)(1.3337413716e-03f), (tfm_vec)(9.6681666653e-03f));
    p = tfm_fma(p, f, (tfm_vec)(5.5504904886e-02f));
    p = tfm_fma(p, f, (tfm_vec)(2.4022303031e-01f));
    p = tfm_fma(p, f, (tfm_vec)(6.9314713614e-01f));
    p = tfm_fma(p, f, (tfm_vec)(1.0f));
    return TFM_CAT(as_float,
                   TFM_WIDTH)(TFM_CAT(as_int, TFM_WIDTH)(p) + (TFM_CAT(as_int, TFM_WIDTH)(t) << 23));
}

static inline tfm_vec lanes(void) {
    float index[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        index[i] = i;
    return tfm_load(index);
}

/* A vector at any float. vload and vstore, which say the same, go through memory in pieces of two or four. */
typedef struct __attribute__((packed)) loose_vector {
    tfm_vec all;
} loose_vector;

static inline tfm_vec load(__global const float *p) {
    return ((__global const loose_vector *)p)->all;
}

/* The first `count` < W floats at p, then zeros: nothing is read behind them. */
static inline tfm_vec load_some(__global const float *p, const int count) {
    float part[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        part[i] = i < count ? p[i] : 0.0f;
    return tfm_load(part);
}

static inline tfm_vec load_key(__global const float *p, const int vector) {
    return (vector + 1) * W <= DK ? load(p + vector * W) : load_some(p + vector * W, DK % W);
}

static inline tfm_vec load_value(__global const float *p, const int vector) {
    return (vector + 1) * W <= DV ? load(p + vector * W) : load_some(p + vector * W, DV % W);
}

static inline void store_value(tfm_vec value, __global float *p, const int vector) {
    if ((vector + 1) * W <= DV) {
        ((__global loose_vector *)(p + vector * W))->all = value;
    } else {
        for (int i = 0; i < DV % W; i++)
            p[vector * W + i] = ((const float *)&value)[i];
    }
}

/* t[i] lane j becomes t[j] lane i: each stage rotates the bits of (i, j) by one, log2 W swap i and j. By
 * halves first: the compiler would fetch the even lanes of a vector in memory one by one. */
static inline void transpose(tfm_vec *t) {
#pragma unroll
    for (int stage = W; stage > 1; stage /= 2) {
        tfm_vec u[W];
#pragma unroll
        for (int i = 0; i < W / 2; i++) {
            u[2 * i].even = t[i].lo;
            u[2 * i].odd = t[i + W / 2].lo;
            u[2 * i + 1].even = t[i].hi;
            u[2 * i + 1].odd = t[i + W / 2].hi;
        }
#pragma unroll
        for (int i = 0; i < W; i++)
            t[i] = u[i];
    }
}

/* Lane i of the result is the sum of t[i]'s lanes. Overwrites t. */
static inline tfm_vec sum_each(tfm_vec *t) {
#pragma unroll
    for (int count = W; count > 1; count /= 2) {
#pragma unroll
        for (int i = 0; i < count / 2; i++)
            t[i] = (tfm_vec)(t[2 * i].even, t[2 * i + 1].even) + (tfm_vec)(t[2 * i].odd, t[2 * i + 1].odd);
    }
    return t[0];
}

/* Lane r of the result is the maximum of t[r]'s lanes, r < MOST_ROWS. Overwrites t. */
static inline tfm_vec max_each(tfm_vec *t) {
#pragma unroll
    for (int count = MOST_ROWS; count > 1; count /= 2) {
#pragma unroll
        for (int i = 0; i < count / 2; i++)
            t[i] = larger((tfm_vec)(t[2 * i].even, t[2 * i + 1].even),
                          (tfm_vec)(t[2 * i].odd, t[2 * i + 1].odd));
    }
    tfm_vec m = t[0];
#pragma unroll
    for (int parts = W / MOST_ROWS; parts > 1; parts /= 2)
        m = larger((tfm_vec)(m.even, m.even), (tfm_vec)(m.odd, m.odd));
    return m;
}

/* ---- Where things lie ---- */

#define ATTENTION_SHAPE                                                                                      \
    const long targets, const long length, const long heads, const long kv_heads, const long past,           \
        const long heads_first, const long sequences, const long padded, const long mapped, const long pool

/* The keys and values that the work-item's queries share. */
typedef struct shared_keys {
    __global const float *k, *v; /* of key 0, or of pool row 0 */
    long k_step, v_step;
    __global const int *rows; /* NULL: key s is row s */
    int pool;
    int visible; /* keys in this sequence */
} shared_keys;

/* Those of query sequence b: rows are its own, keys and length those of its source. No such source: nothing
 * visible. */
static inline shared_keys keys_at(__global const float *k, __global const float *v,
                                  __global const int *lengths, __global const int *sources,
                                  __global const int *rows, const long b, const long kv_head,
                                  const long length, const long kv_heads, const long heads_first,
                                  const long sequences, const long padded, const long mapped,
                                  const long pool) {
    shared_keys keys;
    const int source = mapped ? sources[b] : (int)b, known = source >= 0 && source < (int)sequences;
    const long paged = pool >= 0, side = heads_first && !paged, n = known ? source : 0;
    const long first = paged  ? kv_head
                       : side ? (n * kv_heads + kv_head) * length
                              : n * length * kv_heads + kv_head;
    keys.k = k + first * DK;
    keys.v = v + first * DV;
    keys.k_step = side ? DK : kv_heads * DK;
    keys.v_step = side ? DV : kv_heads * DV;
    keys.rows = paged ? rows + b * length : 0;
    keys.pool = (int)pool;
    keys.visible = !known ? 0 : padded ? clamp(lengths[n], 0, (int)length) : (int)length;
    return keys;
}

/* The pool row of key s; -1, an invisible key, if it lies outside the pool. */
static inline int key_row(const shared_keys keys, const int s) {
    const int row = keys.rows ? keys.rows[s] : s;
    return keys.rows && (row < 0 || row >= keys.pool) ? -1 : row;
}

/* Where query (b, t, h) lies among all: heads_first is (B, H, T), else (B, T, H). */
static inline long query_at(const long b, const long t, const long h, const long targets, const long heads,
                            const long heads_first) {
    return heads_first ? (b * heads + h) * targets + t : (b * targets + t) * heads + h;
}

/* ---- One query: decoding ---- */

/* One work-item per query. W keys per step: W dot products in vectors over dk, their lanes summed all at
 * once, one exponential for the W of them, then W weighted values. */
TFM_KERNEL void attention_query(TFM_TENSOR(float, y), TFM_INPUT(float, q), TFM_INPUT(float, k),
                                TFM_INPUT(float, v), TFM_INPUT(int, lengths), TFM_INPUT(int, sources),
                                TFM_INPUT(int, key_rows), ATTENTION_SHAPE, const float scale,
                                const long items) {
    const long item = TFM_ROW(), queries = heads / kv_heads * targets;
    /* Where neighbours in b may share keys, eight in a row for one head, which then lies in the first cache;
     * else all heads of one b in a row, which lie side by side. */
    const long row = mapped ? 8 : 1, b = item / (row * kv_heads * queries) * row + item % row;
    const long kv_head = item / row % kv_heads, i = item / (row * kv_heads) % queries;
    if (b >= items)
        return;
    const shared_keys keys =
        keys_at(TFM_AT(k), TFM_AT(v), TFM_AT(lengths), TFM_AT(sources), TFM_AT(key_rows), b, kv_head, length,
                kv_heads, heads_first, sequences, padded, mapped, pool);
    const long t = i % targets, h = kv_head * (heads / kv_heads) + i / targets;
    const long query = query_at(b, t, h, targets, heads, heads_first);
    const int limit = (int)min((long)keys.visible, t + past + 1);
    __global const float *qp = TFM_AT(q) + query * DK;
    tfm_vec qs[KEY_VECTORS], sum[VALUE_VECTORS];
    float maximum = -INFINITY;
    tfm_vec total = 0.0f;
    UNROLL_VECTORS
    for (int c = 0; c < KEY_VECTORS; c++)
        qs[c] = load_key(qp, c) * scale;
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        sum[c] = 0.0f;
    for (int s = 0; s < limit; s += W) {
        const int count = min(limit - s, W);
        int rows[W];
        tfm_vec part[W], bias;
#pragma unroll
        for (int j = 0; j < W; j++) {
            const int known = j < count ? key_row(keys, s + j) : -1;
            ((float *)&bias)[j] = known < 0 ? -INFINITY : 0.0f;
            rows[j] = known;
        }
#pragma unroll
        for (int j = 0; j < W; j++) {
            __global const float *kp = keys.k + max(rows[j], 0) * keys.k_step;
            tfm_vec dot_product = 0.0f;
            UNROLL_VECTORS
            for (int c = 0; c < KEY_VECTORS; c++)
                dot_product = tfm_fma(qs[c], load_key(kp, c), dot_product);
            part[j] = dot_product;
        }
        tfm_vec z = sum_each(part);
        z = select(z, bias, bias < 0.0f);
        const float reached = fmax(maximum, tfm_vec_max(z)), base = reached == -INFINITY ? 0.0f : reached;
        const tfm_vec p = exp2_down(z - base), shrink = exp2_down((tfm_vec)(maximum - base));
        maximum = reached;
        total = tfm_fma(total, shrink, p);
        UNROLL_VECTORS
        for (int c = 0; c < VALUE_VECTORS; c++)
            sum[c] *= shrink;
        for (int j = 0; j < count; j++) {
            if (rows[j] < 0)
                continue;
            __global const float *vp = keys.v + rows[j] * keys.v_step;
            UNROLL_VECTORS
            for (int c = 0; c < VALUE_VECTORS; c++)
                sum[c] = tfm_fma((tfm_vec)(((const float *)&p)[j]), load_value(vp, c), sum[c]);
        }
    }
    const float all = tfm_vec_sum(total), inverse = all == 0.0f ? 0.0f : 1.0f / all;
    UNROLL_VECTORS
    for (int c = 0; c < VALUE_VECTORS; c++)
        store_value(sum[c] * inverse, TFM_AT(y) + query * DV, c);
}

/* ---- Many queries ---- */

/* A tile of keys: transposed, so that a vector holds one component of W keys. */
typedef struct tile {
    tfm_vec k[KEY_VECTORS * W][2];
    tfm_vec tail[TILE]; /* the last, incomplete vector of each value */
    tfm_vec bias[2];    /* -inf where nobody sees the key */
    int row[TILE];
} tile;

/* What a work-item knows of its queries between tiles. */
typedef struct state {
    tfm_vec sum[QUERIES + MOST_ROWS][VALUE_VECTORS];
    tfm_vec total[QUERIES + MOST_ROWS];
    tfm_vec q[QUERIES + MOST_ROWS][KEY_VECTORS]; /* times scale log2(e) */
    tfm_vec maximum[QUERIES / MOST_ROWS + 1];    /* of each block of rows, a lane a row */
    long at[QUERIES];                            /* which query of all */
    int limit[QUERIES + MOST_ROWS]; /* sees keys below it; 0 for the rows that only fill a block */
} state;

/* Keys s .. s + count - 1; those behind are copies of the last one, invisible. Returns whether all are
 * visible. */
static inline int tile_pack(tile *to, const shared_keys keys, const int s, const int count) {
    int whole = count == TILE;
    float *bias = (float *)to->bias;
    for (int j = 0; j < TILE; j++) {
        const int row = key_row(keys, s + min(j, count - 1));
        to->row[j] = max(row, 0);
        bias[j] = row < 0 || j >= count ? -INFINITY : 0.0f;
        whole &= row >= 0;
    }
    for (int side = 0; side < TILE && side < count; side += W)
        for (int c = 0; c < KEY_VECTORS; c++) {
            tfm_vec t[W];
#pragma unroll
            for (int j = 0; j < W; j++)
                t[j] = load_key(keys.k + to->row[side + j] * keys.k_step, c);
            transpose(t);
#pragma unroll
            for (int j = 0; j < W; j++)
                to->k[c * W + j][side / W] = t[j];
        }
    if (DV % W)
        for (int j = 0; j < count; j++)
            to->tail[j] = load_value(keys.v + to->row[j] * keys.v_step, VALUE_VECTORS - 1);
    return whole;
}

/* Adds the weighted values of `vectors` vectors of columns from `c` on, for R queries. */
/* The compiler would rather call these than have them twice. */
#define INLINED static inline __attribute__((always_inline))
/* A loop to a literal bound is unrolled before R is known, so that its arrays stay in registers. */
#define EACH_ROW                                                                                             \
    for (int r = 0; r < MOST_ROWS; r++)                                                                      \
        if (r < R)

INLINED void add_values(const int R, const int vectors, const int c, state *st, const int first,
                        const tile *keys, __global const float *v, const long v_step,
                        const tfm_vec (*weight)[2], const float *shrink, const int s, const int count,
                        const int masked) {
    tfm_vec sum[MOST_ROWS][2];
#pragma unroll
    EACH_ROW {
#pragma unroll
        for (int x = 0; x < 2; x++)
            if (x < vectors)
                sum[r][x] = st->sum[first + r][c + x] * shrink[r];
    }
    for (int j = 0; j < count; j++) {
        __global const float *vp = v + keys->row[j] * v_step;
        tfm_vec value[2];
#pragma unroll
        for (int x = 0; x < 2; x++)
            if (x < vectors)
                value[x] = DV % W && c + x == VALUE_VECTORS - 1 ? keys->tail[j] : load(vp + (c + x) * W);
        if (masked) { /* what a query does not see must not touch it, NaN included */
            if (((const float *)keys->bias)[j] < 0.0f)
                continue;
#pragma unroll
            EACH_ROW {
                if (s + j < st->limit[first + r])
#pragma unroll
                    for (int x = 0; x < 2; x++)
                        if (x < vectors)
                            sum[r][x] =
                                tfm_fma((tfm_vec)(((const float *)weight[r])[j]), value[x], sum[r][x]);
            }
        } else {
#pragma unroll
            EACH_ROW {
#pragma unroll
                for (int x = 0; x < 2; x++)
                    if (x < vectors)
                        sum[r][x] = tfm_fma((tfm_vec)(((const float *)weight[r])[j]), value[x], sum[r][x]);
            }
        }
    }
#pragma unroll
    EACH_ROW {
#pragma unroll
        for (int x = 0; x < 2; x++)
            if (x < vectors)
                st->sum[first + r][c + x] = sum[r][x];
    }
}

/* R queries from `first` on, a multiple of MOST_ROWS, meet one tile of keys. R is a constant where this is
 * inlined. */
INLINED void attend(const int R, state *st, const int first, const tile *keys, __global const float *v,
                    const long v_step, const int s, const int count, const int masked) {
    tfm_vec z[MOST_ROWS][2], weight[MOST_ROWS][2], highest[MOST_ROWS];
#pragma unroll
    EACH_ROW {
        z[r][0] = z[r][1] = 0.0f;
    }
    if (count > W)
        for (int d = 0; d < DK; d++) {
            const tfm_vec k0 = keys->k[d][0], k1 = keys->k[d][1];
#pragma unroll
            EACH_ROW {
                const float q = ((const float *)st->q[first + r])[d];
                z[r][0] = tfm_fma((tfm_vec)(q), k0, z[r][0]);
                z[r][1] = tfm_fma((tfm_vec)(q), k1, z[r][1]);
            }
        }
    else
        for (int d = 0; d < DK; d++) {
            const tfm_vec k0 = keys->k[d][0];
#pragma unroll
            EACH_ROW {
                z[r][0] = tfm_fma((tfm_vec)(((const float *)st->q[first + r])[d]), k0, z[r][0]);
            }
        }
    if (masked) {
        const tfm_vec b0 = keys->bias[0], b1 = keys->bias[1];
        const tfm_vec at = lanes() + (float)s;
#pragma unroll
        EACH_ROW {
            const tfm_vec limit = (float)st->limit[first + r];
            z[r][0] = select(z[r][0], (tfm_vec)(-INFINITY), b0 < 0.0f || at >= limit);
            z[r][1] = select(z[r][1], (tfm_vec)(-INFINITY), b1 < 0.0f || at + (float)W >= limit);
        }
    }
#pragma unroll
    for (int r = 0; r < MOST_ROWS; r++)
        highest[r] = r < R ? larger(z[r][0], z[r][1]) : (tfm_vec)(-INFINITY);
    const tfm_vec before = st->maximum[first / MOST_ROWS], reached = larger(before, max_each(highest));
    const tfm_vec base = select(reached, (tfm_vec)(0.0f), reached == -INFINITY),
                  shrink = exp2_down(before - base);
    st->maximum[first / MOST_ROWS] = reached;
#pragma unroll
    EACH_ROW {
        const float b = ((const float *)&base)[r], f = ((const float *)&shrink)[r];
        weight[r][0] = exp2_down(z[r][0] - b);
        weight[r][1] = exp2_down(z[r][1] - b);
        st->total[first + r] = tfm_fma(st->total[first + r], (tfm_vec)(f), weight[r][0] + weight[r][1]);
    }
    for (int c = 0; c + 2 <= VALUE_VECTORS; c += 2)
        add_values(R, 2, c, st, first, keys, v, v_step, weight, (const float *)&shrink, s, count, masked);
    if (VALUE_VECTORS % 2)
        add_values(R, 1, VALUE_VECTORS - 1, st, first, keys, v, v_step, weight, (const float *)&shrink, s,
                   count, masked);
}

static inline int block_masked(const state *st, const int first, const int rows, const int s) {
    int masked = 0;
    for (int r = first; r < min(first + MOST_ROWS, rows); r++)
        masked |= st->limit[r] < s + TILE;
    return masked;
}

/* One work-item per QUERIES queries that share keys: each tile of keys is transposed once for all of them,
 * and meets them in blocks of up to MOST_ROWS. */
TFM_KERNEL void attention_block(TFM_TENSOR(float, y), TFM_INPUT(float, q), TFM_INPUT(float, k),
                                TFM_INPUT(float, v), TFM_INPUT(int, lengths), TFM_INPUT(int, sources),
                                TFM_INPUT(int, key_rows), ATTENTION_SHAPE, const float scale,
                                const long items) {
    const long item = TFM_ROW(), queries = heads / kv_heads * targets;
    const long blocks = (queries + QUERIES - 1) / QUERIES;
    if (item >= items)
        return;
    const long kv_head = item % kv_heads, block = item / kv_heads % blocks, b = item / (kv_heads * blocks);
    const shared_keys keys =
        keys_at(TFM_AT(k), TFM_AT(v), TFM_AT(lengths), TFM_AT(sources), TFM_AT(key_rows), b, kv_head, length,
                kv_heads, heads_first, sequences, padded, mapped, pool);
    const long begin = block * QUERIES;
    const int rows = (int)min((long)QUERIES, queries - begin);
    state st;
    tile packed;
    int furthest = 0;
    long t = begin % targets, h = kv_head * (heads / kv_heads) + begin / targets;
    for (int r = 0; r < (rows + MOST_ROWS - 1) / MOST_ROWS * MOST_ROWS; r++) {
        const int real = r < rows;
        if (real)
            st.at[r] = query_at(b, t, h, targets, heads, heads_first);
        for (int c = 0; c < KEY_VECTORS; c++)
            st.q[r][c] = real ? load_key(TFM_AT(q) + st.at[r] * DK, c) * scale : (tfm_vec)(0.0f);
        for (int c = 0; c < VALUE_VECTORS; c++)
            st.sum[r][c] = 0.0f;
        st.total[r] = 0.0f;
        st.limit[r] = real ? (int)min((long)keys.visible, t + past + 1) : 0;
        furthest = max(furthest, st.limit[r]);
        t++;
        h += t == targets;
        t = t == targets ? 0 : t;
    }
    for (int r = 0; r <= rows / MOST_ROWS; r++)
        st.maximum[r] = -INFINITY;
    for (int s = 0; s < furthest; s += TILE) {
        const int count = min(furthest - s, TILE), whole = tile_pack(&packed, keys, s, count);
        int first = 0;
        for (; first + MOST_ROWS / 2 < rows; first += MOST_ROWS)
            attend(MOST_ROWS, &st, first, &packed, keys.v, keys.v_step, s, count,
                   !whole || block_masked(&st, first, rows, s));
        if (first < rows)
            attend(MOST_ROWS / 2, &st, first, &packed, keys.v, keys.v_step, s, count,
                   !whole || block_masked(&st, first, rows, s));
    }
    for (int r = 0; r < rows; r++) {
        const float all = tfm_vec_sum(st.total[r]), inverse = all == 0.0f ? 0.0f : 1.0f / all;
        for (int c = 0; c < VALUE_VECTORS; c++)
            store_value(st.sum[r][c] * inverse, TFM_AT(y) + st.at[r] * DV, c);
    }
}
