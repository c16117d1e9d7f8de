/* Attention backwards, from y, dy and the log sums that the forward kept. With z_is the score of query i and key s
 * before soft cap and mask, w_is = e^(score - log_sum_i) its weight, and f_is its factor of dropout, 1 without:
 *
 *     dv_s = sum_i f_is w_is dy_i,   e_is = w_is (f_is dy_i . v_s - dy_i . y_i) (1 - tanh^2(z_is / cap)),
 *     dq_i = scale sum_s e_is k_s,   dk_s = scale sum_i e_is q_i
 *
 * ("FlashAttention", Dao et al. 2022, algorithm 4.) Since y_i = sum_s f_is w_is v_s, the gradient of w_is is
 * g_is = f_is dy_i . v_s, and what the softmax takes off it, sum_s w_is g_is, is dy_i . y_i, dropout or not.
 *
 * Weights are made again, a tile of keys by a few queries at a time, so nothing quadratic in length is in memory. dq,
 * dk and dv are added to.
 *
 * Layout: a work-group has all queries and keys of one (b, key head), so that nobody else writes what it does, and the
 * order of additions is fixed; dq, dk and dv share no memory. Parameters, letters and dropout as in
 * attention_parts.cl. */
#include "attention_parts.cl"

#define BACKWARD_PARAMETERS                                                                                            \
    TFM_TENSOR(float, dq), TFM_TENSOR(float, dk), TFM_TENSOR(float, dv), TFM_INPUT(float, y), TFM_INPUT(float, dy),    \
        TFM_INPUT(float, log_sum), const long items, const float scale, const float cap, ATTENTION_PARAMETERS

#if DROPS
#define DROPPED(x, at) (factor at * (x))
#else
#define DROPPED(x, at) (x)
#endif

/* A score is at most the log of the sum. But where a mask takes 10^9 off all of a query's scores, both are rounded to
 * tens, and a difference above 0 would be an infinite weight. NaN stays. */
#define BELOW(T, x) select((x), (T)(0.0f), (x) > (T)(0.0f))

/* Some queries in a row of those that share keys. Those that do not exist are the last one again, and see nothing. */
#define MOST_ROWS 8
typedef struct query_rows {
    long at[MOST_ROWS], sum[MOST_ROWS], mask[MOST_ROWS]; /* which query of all, which log sum, which row of the mask */
    int begin[MOST_ROWS], end[MOST_ROWS];                /* sees begin <= s < end */
    int count;                                           /* of those that exist */
    int some_begin, some_end;                            /* keys that any of them sees */
} query_rows;

/* NAME: N queries from query t of head h on, of which `left` are left. */
#define DEFINE_ROWS_AT(NAME, N)                                                                                        \
    static inline query_rows NAME(const attention_shape a, const shared_keys keys, const long b, long h, long t,       \
                                  const long left) {                                                                   \
        query_rows rows;                                                                                               \
        rows.count = (int)min(left, (long)(N));                                                                        \
        rows.some_begin = INT_MAX;                                                                                     \
        rows.some_end = 0;                                                                                             \
        _Pragma("unroll") for (int r = 0; r < (N); r++) {                                                              \
            const int real = r < rows.count;                                                                           \
            rows.at[r] = query_at(a, b, t, h);                                                                         \
            rows.sum[r] = (b * a.heads + h) * a.targets + t;                                                           \
            rows.mask[r] = mask_row(a, b, t, h);                                                                       \
            rows.begin[r] = seen_from(keys, (int)t);                                                                   \
            rows.end[r] = real ? seen_to(keys, (int)t) : 0;                                                            \
            if (rows.begin[r] < rows.end[r]) {                                                                         \
                rows.some_begin = min(rows.some_begin, rows.begin[r]);                                                 \
                rows.some_end = max(rows.some_end, rows.end[r]);                                                       \
            }                                                                                                          \
            t += r + 1 < rows.count;                                                                                   \
            h += t == a.targets;                                                                                       \
            t = t == a.targets ? 0 : t;                                                                                \
        }                                                                                                              \
        return rows;                                                                                                   \
    }

#if TFM_WIDTH > 1
#include "attention_vectors.cl"

/* A tile has KEYS vectors of keys, which the host gives, 1 or 2, and queries meet it by as many as leave registers for
 * the sums of each with each: so a number that is read of a query is multiplied KEYS times, and one of a key for all
 * queries. Queries come in chunks, and all tiles go by a chunk, which stays in the second cache. */
#ifndef KEYS
#define KEYS 1
#endif
#if TFM_WIDTH == 8
#define QUERIES 4
#else
#define QUERIES 8
#endif
#define CHUNK 256
#define BLOCK 4 /* of dropout's numbers */
#define EACH_KEY _Pragma("unroll") for (int j = 0; j < W; j++)
#define EACH_PART _Pragma("unroll") for (int p = 0; p < KEYS; p++)
#define EACH_QUERY _Pragma("unroll") for (int r = 0; r < QUERIES; r++)
DEFINE_ROWS_AT(queries_at, QUERIES)

/* KEYS W keys and values, a component of all of them in KEYS vectors, and the sums of their gradients. Components
 * after the last are zeros. And the keys once more, one after the other: where they come from they lie a power of two
 * apart for the most part, which is one place in a cache for all of them. */
typedef struct tile {
    tfm_vec k[KEY_VECTORS * W * KEYS], v[VALUE_VECTORS * W * KEYS];
    tfm_vec dk[KEY_VECTORS * W * KEYS], dv[VALUE_VECTORS * W * KEYS];
    tfm_vec plain[KEYS * W][KEY_VECTORS];
} tile;

/* Keys s .. s + count - 1; those after them are zeros, whatever lies there. */
static inline void tile_pack(tile *to, const shared_keys keys, const int s, const int count) {
    for (int c = 0; c < KEY_VECTORS; c++)
        for (int p = 0; p < KEYS; p++) {
            tfm_vec t[W];
            EACH_KEY
                to->plain[p * W + j][c] = t[j] =
                    p * W + j < count ? load_key(keys.k + (s + p * W + j) * keys.k_step, c) : (tfm_vec)(0.0f);
            transpose(t);
            EACH_KEY {
                to->k[(c * W + j) * KEYS + p] = t[j];
                to->dk[(c * W + j) * KEYS + p] = 0.0f;
            }
        }
    for (int c = 0; c < VALUE_VECTORS; c++)
        for (int p = 0; p < KEYS; p++) {
            tfm_vec t[W];
            EACH_KEY
                t[j] = p * W + j < count ? load_value(keys.v + (s + p * W + j) * keys.v_step, c) : (tfm_vec)(0.0f);
            transpose(t);
            EACH_KEY {
                to->v[(c * W + j) * KEYS + p] = t[j];
                to->dv[(c * W + j) * KEYS + p] = 0.0f;
            }
        }
}

static inline void tile_add(const tile *from, __global float *dk, __global float *dv, const shared_keys keys,
                            const int s, const int count) {
    for (int c = 0; c < KEY_VECTORS; c++)
        for (int p = 0; p < KEYS; p++) {
            tfm_vec t[W];
            EACH_KEY
                t[j] = from->dk[(c * W + j) * KEYS + p];
            transpose(t);
            for (int j = 0; j < W && p * W + j < count; j++) {
                __global float *k = dk + (s + p * W + j) * keys.k_step;
                store_key(load_key(k, c) + t[j], k, c);
            }
        }
    for (int c = 0; c < VALUE_VECTORS; c++)
        for (int p = 0; p < KEYS; p++) {
            tfm_vec t[W];
            EACH_KEY
                t[j] = from->dv[(c * W + j) * KEYS + p];
            transpose(t);
            for (int j = 0; j < W && p * W + j < count; j++) {
                __global float *v = dv + (s + p * W + j) * keys.v_step;
                store_value(load_value(v, c) + t[j], v, c);
            }
        }
}

/* What an item's queries and gradients lie in. */
typedef struct tensors {
    __global const float *q, *dy, *log_sum;
    __global float *dq;
    float scale, cap;
} tensors;

/* dq of `count` queries, += e k: C vectors of it at a time. */
#define DEFINE_ADD_DQ(NAME, C)                                                                                         \
    static inline void NAME(const tensors *all, const tile *keys, const int count, const query_rows *rows,             \
                            const tfm_vec(*e)[KEYS], const int c) {                                                    \
        tfm_vec sum[QUERIES][C];                                                                                       \
        EACH_QUERY                                                                                                     \
        _Pragma("unroll") for (int i = 0; i < C; i++) sum[r][i] = load_key(all->dq + rows->at[r] * DK, c + i);         \
        for (int j = 0; j < count; j++) {                                                                              \
            tfm_vec k[C];                                                                                              \
            _Pragma("unroll") for (int i = 0; i < C; i++) k[i] = keys->plain[j][c + i];                                \
            EACH_QUERY                                                                                                 \
            _Pragma("unroll") for (int i = 0; i < C; i++) sum[r][i] =                                                  \
                tfm_fma((tfm_vec)(((const float *)e[r])[j]), k[i], sum[r][i]);                                         \
        }                                                                                                              \
        for (int r = 0; r < rows->count; r++)                                                                          \
            _Pragma("unroll") for (int i = 0; i < C; i++) store_key(sum[r][i], all->dq + rows->at[r] * DK, c + i);     \
    }
DEFINE_ADD_DQ(add_dq, 1)
DEFINE_ADD_DQ(add_dq_twice, 2)

/* QUERIES queries and a tile of keys; `factor` is dropout's, and own[r] is dy . y. */
static inline void rows_meet_tile(tile *keys, const attention_shape shape, const int s, const int count,
                                  const query_rows *rows, const tfm_vec (*factor)[KEYS], const float *own,
                                  const tensors *all) {
    tfm_vec z[QUERIES][KEYS], e[QUERIES][KEYS];
    __global const float *qs[QUERIES], *dys[QUERIES];
    EACH_QUERY {
        qs[r] = all->q + rows->at[r] * DK;
        dys[r] = all->dy + rows->at[r] * DV;
        EACH_PART
            z[r][p] = e[r][p] = 0.0f;
    }
    for (int d = 0; d < DK; d++)
        EACH_QUERY {
            const tfm_vec x = (tfm_vec)(qs[r][d]);
            EACH_PART
                z[r][p] = tfm_fma(x, keys->k[d * KEYS + p], z[r][p]);
        }
    for (int d = 0; d < DV; d++)
        EACH_QUERY {
            const tfm_vec x = (tfm_vec)(dys[r][d]);
            EACH_PART
                e[r][p] = tfm_fma(x, keys->v[d * KEYS + p], e[r][p]);
        }
    const tfm_vec lanes = tfm_lanes(); /* from s on: floats do not tell all positions apart */
    EACH_QUERY
    EACH_PART {
        const tfm_vec at = lanes + (float)(p * W);
        tfm_vec score = z[r][p] * all->scale, slope = (tfm_vec)(all->scale);
#if SCORED
        if (all->cap > 0.0f) {
            const tfm_vec bend = tanh(score / all->cap);
            score = all->cap * bend;
            slope *= 1.0f - bend * bend;
        }
        if (shape.mask_kind != 0) {
            const tfm_vec m = mask_columns(shape, rows->mask[r], s + p * W);
            score = select(score + m, m, m == -INFINITY);
        }
#endif
        /* None is above but by rounding: see BELOW. */
        const tfm_vec below = (score - all->log_sum[rows->sum[r]]) * LOG2_E;
        const tfm_vec w = exp2_down(
            select(BELOW(tfm_vec, below), (tfm_vec)(-INFINITY),
                   at < (float)(rows->begin[r] - s) || at >= (float)(rows->end[r] - s) || score == -INFINITY));
        z[r][p] = DROPPED(w, [r][p]);
        e[r][p] = select(w * (DROPPED(e[r][p], [r][p]) - own[r]) * slope, (tfm_vec)(0.0f), w == 0.0f);
    }
    for (int d = 0; d < DV; d++) {
        tfm_vec sum[KEYS];
        EACH_PART
            sum[p] = keys->dv[d * KEYS + p];
        EACH_QUERY {
            const tfm_vec x = (tfm_vec)(dys[r][d]);
            EACH_PART
                sum[p] = tfm_fma(x, z[r][p], sum[p]);
        }
        EACH_PART
            keys->dv[d * KEYS + p] = sum[p];
    }
    for (int d = 0; d < DK; d++) {
        tfm_vec sum[KEYS];
        EACH_PART
            sum[p] = keys->dk[d * KEYS + p];
        EACH_QUERY {
            const tfm_vec x = (tfm_vec)(qs[r][d]);
            EACH_PART
                sum[p] = tfm_fma(x, e[r][p], sum[p]);
        }
        EACH_PART
            keys->dk[d * KEYS + p] = sum[p];
    }
    int c = 0;
    for (; c + 2 <= KEY_VECTORS; c += 2)
        add_dq_twice(all, keys, count, rows, (const tfm_vec(*)[KEYS])e, c);
    if (c < KEY_VECTORS)
        add_dq(all, keys, count, rows, (const tfm_vec(*)[KEYS])e, c);
}

TFM_KERNEL void attention_backward_wide(BACKWARD_PARAMETERS) {
    const long item = TFM_ROW(), kv_head = item % kv_heads, b = item / kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const shared_keys keys = keys_at(shape, b, kv_head);
    const long key_first = keys.k - shape.k, value_first = keys.v - shape.v, group = heads / kv_heads;
    const long queries = group * targets;
    const tensors all = {TFM_AT(q), TFM_AT(dy), TFM_AT(log_sum), TFM_AT(dq), scale, cap};
    tile packed;
    float own[CHUNK]; /* dy . y of each query of a chunk */
    for (long first = 0; first < queries; first += CHUNK) {
        const long last = min(first + CHUNK, queries);
        int some_begin = INT_MAX, some_end = 0;
        for (long i = first; i < last; i += QUERIES) {
            const query_rows rows = queries_at(shape, keys, b, kv_head * group + i / targets, i % targets, queries - i);
            tfm_vec sum[QUERIES];
            some_begin = min(some_begin, rows.some_begin);
            some_end = max(some_end, rows.some_end);
            /* In the order of dy . v, and by vectors as that is, since a compiler may round sums of single numbers in
             * another way: so a query which sees one key has a gradient of 0, not of rounding errors, of which Adam
             * would make large steps. With dropout they stay: y has been rounded once more, after its
             * factor. */
            EACH_QUERY
            sum[r] = 0.0f;
            for (int d = 0; d < DV; d++)
                EACH_QUERY
            sum[r] =
                tfm_fma((tfm_vec)(TFM_AT(dy)[rows.at[r] * DV + d]), (tfm_vec)(TFM_AT(y)[rows.at[r] * DV + d]), sum[r]);
            EACH_QUERY
            own[i - first + r] = sum[r].s0;
        }
        for (int s = some_begin / (KEYS * W) * (KEYS * W); s < some_end; s += KEYS * W) {
            const int count = min(keys.visible - s, KEYS * W);
            tile_pack(&packed, keys, s, count);
            for (long i = first; i < last; i += QUERIES) {
                const query_rows rows =
                    queries_at(shape, keys, b, kv_head * group + i / targets, i % targets, queries - i);
                fetch_ahead(keys, s + KEYS * W, min(s + 2 * KEYS * W, some_end), (int)(i - first) / QUERIES,
                            (int)(last - first + QUERIES - 1) / QUERIES);
                if (rows.some_begin >= s + count || rows.some_end <= s)
                    continue;
                tfm_vec factor[QUERIES][KEYS];
#if DROPS
                EACH_PART
                    for (int block = 0; block < QUERIES / BLOCK; block++) {
                        tfm_uvec numbers[BLOCK];
                        drop_numbers_vec(numbers, TFM_DROPS(), first_block(shape, b, kv_head) + i / BLOCK + block,
                                         s + p * W);
                        for (int r = 0; r < BLOCK; r++)
                            factor[BLOCK * block + r][p] =
                                select((tfm_vec)(keep), (tfm_vec)(0.0f), numbers[r] < (uint)threshold);
                    }
#endif
                rows_meet_tile(&packed, shape, s, count, &rows, (const tfm_vec(*)[KEYS])factor, own + i - first, &all);
            }
            tile_add(&packed, TFM_AT(dk) + key_first, TFM_AT(dv) + value_first, keys, s, count);
        }
    }
}
#endif

/* Queries of an item at a time: a block of dropout's numbers. */
#define ROWS 4
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)
DEFINE_ROWS_AT(rows_at, ROWS)

/* Loops over odd widths compilers unroll whole, since the rest of one unrolled in part has a length of its own, and
 * spill. */
#if DK % 4 == 0 && DV % 4 == 0
#define EACH_COLUMN
#else
#define EACH_COLUMN _Pragma("unroll 1")
#endif

/* Where work-items run side by side, but a head is too wide for the tiles of attention_backward_tiled.cl, or its width
 * no multiple of 4, or groups or local memory are small: an item has a key of the tile and ROWS queries at a time. For
 * dq the items share its columns instead, and the tile's e are in local memory. Also for heads too wide for a CPU
 * thread's stack, by groups of one. */
TFM_KERNEL void attention_backward_group(BACKWARD_PARAMETERS) {
    __local float shared_e[ROWS * TFM_GROUP];
    const long item = TFM_ROW(), kv_head = item % kv_heads, b = item / kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const shared_keys keys = keys_at(shape, b, kv_head);
    const long key_first = keys.k - shape.k, value_first = keys.v - shape.v, group = heads / kv_heads;
    const long queries = group * targets;
    const int lane = (int)TFM_LANE(), none = TFM_NONE(targets);
    for (int s = 0; s < keys.visible; s += TFM_GROUP) {
        const int count = min(keys.visible - s, TFM_TURNS(TFM_GROUP, none)), own_key = s + min(lane, count - 1);
        __global const float *kp = keys.k + own_key * keys.k_step, *vp = keys.v + own_key * keys.v_step;
        __global float *dkp = TFM_AT(dk) + key_first + own_key * keys.k_step;
        __global float *dvp = TFM_AT(dv) + value_first + own_key * keys.v_step;
        for (long i = 0; i < queries; i += ROWS) {
            float w[ROWS], e[ROWS];
            const query_rows rows = rows_at(shape, keys, b, kv_head * group + i / targets, i % targets, queries - i);
#if DROPS
            const uint4 numbers = drop_numbers(TFM_DROPS(), first_block(shape, b, kv_head) + i / ROWS, own_key);
            const float4 factors = select((float4)(keep), (float4)(0.0f), numbers < (uint4)((uint)threshold));
            float factor[ROWS];
            vstore4(factors, 0, factor);
#endif
            EACH_ROW {
                const int seen = lane < count && s + lane >= rows.begin[r] && s + lane < rows.end[r];
                float z = 0.0f, g = 0.0f, slope = scale;
                w[r] = e[r] = 0.0f;
                if (seen) {
                    __global const float *qp = TFM_AT(q) + rows.at[r] * DK, *yp = TFM_AT(y) + rows.at[r] * DV;
                    __global const float *dyp = TFM_AT(dy) + rows.at[r] * DV;
                    EACH_COLUMN for (int d = 0; d < TFM_TURNS(DK, none); d++) z = tfm_fma(qp[d], kp[d], z);
                    EACH_COLUMN for (int d = 0; d < TFM_TURNS(DV, none); d++) g =
                        tfm_fma(dyp[d], DROPPED(vp[d], [r]) - yp[d], g);
                    z *= scale;
                    if (cap > 0.0f) {
                        const float bend = tanh(z / cap);
                        z = cap * bend;
                        slope *= 1.0f - bend * bend;
                    }
                    const float m = mask_kind != 0 ? mask_at(shape, rows.mask[r], s + lane) : 0.0f;
                    z = m == -INFINITY ? m : z + m;
                    const float weight = z == -INFINITY ? 0.0f : exp(BELOW(float, z - TFM_AT(log_sum)[rows.sum[r]]));
                    w[r] = DROPPED(weight, [r]);
                    e[r] = weight == 0.0f ? 0.0f : weight * g * slope;
                }
            }
            if (lane < count) {
                EACH_COLUMN for (int d = 0; d < TFM_TURNS(DV, none); d++) {
                    float sum = dvp[d];
                    EACH_ROW
                        sum = tfm_fma(TFM_AT(dy)[rows.at[r] * DV + d], w[r], sum);
                    dvp[d] = sum;
                }
                EACH_COLUMN for (int d = 0; d < TFM_TURNS(DK, none); d++) {
                    float sum = dkp[d];
                    EACH_ROW
                        sum = tfm_fma(TFM_AT(q)[rows.at[r] * DK + d], e[r], sum);
                    dkp[d] = sum;
                }
            }
            EACH_ROW
                shared_e[r * TFM_GROUP + lane] = e[r];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int c = lane; c < rows.count * DK; c += TFM_GROUP) {
                const int own = c / DK, d = c % DK;
                long at = rows.at[0];
                EACH_ROW
                    at = r == own ? rows.at[r] : at; /* an array with an index from memory would be in memory */
                __global float *to = TFM_AT(dq) + at * DK + d;
                float sum = *to;
                for (int j = 0; j < count; j++)
                    sum = tfm_fma(shared_e[own * TFM_GROUP + j], keys.k[(s + j) * keys.k_step + d], sum);
                *to = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
