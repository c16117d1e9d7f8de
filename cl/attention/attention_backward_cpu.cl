/* Backward pass of attention on CPU-style devices: a work-group is one work-item with vectors of TFM_WIDTH floats.
 * attention_backward.cl has the formulas and the layout. */
#include "attention_common.cl"
#include "attention_backward_common.cl"
#include "attention_vectors.cl"

/* Blocks of QUERIES queries meet tiles of TILE keys in five matrix multiplications, each with ROWS x SIDES vectors of
 * accumulators in registers (see attention_cpu.cl). Two multiply a query's scalars by vectors of keys, for weights and
 * their gradients. The others accumulate rows of queries for each key, or of keys for each query. Those rows are packed
 * contiguously: their sources are mostly a power of two apart and would map to one cache set. Queries come in chunks
 * that stay in L2 while all tiles pass. Wide heads take smaller tiles and blocks, to fit a thread's stack. */
#if TFM_WIDTH == 16
#define ROWS 8
#define SIDES 2
#else
#define ROWS 4
#define SIDES 3
#endif
#if DK + DV > 256
#define PARTS 1
#define QUERIES 32
#else
#define PARTS 2
#define QUERIES 64
#endif
#define PART (SIDES * W) /* keys */
#define TILE (PARTS * PART)
#define CHUNK 256
#define BLOCK 4 /* of random numbers for dropout */
#define INLINED static inline __attribute__((always_inline))
DEFINE_ROWS_AT(queries_at, ROWS)

/* Keys and values: a component of PART of them in SIDES vectors, zeros beyond the last component; and the keys again,
 * row by row. */
typedef struct tile {
    tfm_vec k[PARTS][KEY_VECTORS * W][SIDES], v[PARTS][VALUE_VECTORS * W][SIDES];
    tfm_vec plain[TILE][KEY_VECTORS + 1];
    int s, count;
} tile;

/* Queries and their output gradients, zeros for a query without visible keys; and per tile: f w, and e. */
typedef struct block {
    tfm_vec q[QUERIES][KEY_VECTORS + 1], dy[QUERIES][VALUE_VECTORS + 1];
    tfm_vec w[QUERIES][TILE / W], e[QUERIES][TILE / W];
    int first[PARTS], last[PARTS]; /* queries outside of first .. last - 1 see no key of this part */
} block;

/* Keys s .. s + count - 1; those beyond are zeros, up to whole vectors. */
static inline void tile_pack(tile *to, const kv_view keys, const int s, const int count) {
    to->s = s;
    to->count = count;
    for (int j = 0; j < count; j += W) {
        const int part = j / PART, side = j % PART / W;
        tfm_vec t[W];
        for (int c = 0; c < KEY_VECTORS; c++) {
#pragma unroll
            for (int i = 0; i < W; i++)
                to->plain[j + i][c] = t[i] =
                    j + i < count ? load_key(keys.k + (s + j + i) * keys.k_step, c) : (tfm_vec)(0.0f);
            transpose(t);
#pragma unroll
            for (int i = 0; i < W; i++)
                to->k[part][c * W + i][side] = t[i];
        }
        for (int c = 0; c < VALUE_VECTORS; c++) {
#pragma unroll
            for (int i = 0; i < W; i++)
                t[i] = j + i < count ? load_value(keys.v + (s + j + i) * keys.v_step, c) : (tfm_vec)(0.0f);
            transpose(t);
#pragma unroll
            for (int i = 0; i < W; i++)
                to->v[part][c * W + i][side] = t[i];
        }
    }
}

/* Memory of an item's queries and gradients. */
typedef struct tensors {
    __global const float *q, *dy, *lse;
    float scale, cap;
#if DROPOUT
    tfm_dropout_rng drops;
    long drop_block; /* random-number block of the first query */
#endif
} tensors;

/* The queries of a block, `groups` times ROWS. */
static inline void block_pack(block *to, const tensors *all, const query_rows *rows, const int groups) {
    for (int i = 0; i < groups * ROWS; i++) {
        const query_rows *own = &rows[i / ROWS];
        const int sees = own->begin[i % ROWS] < own->end[i % ROWS];
        for (int c = 0; c < KEY_VECTORS; c++)
            to->q[i][c] = sees ? load_key(all->q + own->at[i % ROWS] * DK, c) : (tfm_vec)(0.0f);
        for (int c = 0; c < VALUE_VECTORS; c++)
            to->dy[i][c] = sees ? load_value(all->dy + own->at[i % ROWS] * DV, c) : (tfm_vec)(0.0f);
    }
}

/* z[r]: dot products of row r (`step` vectors between rows) with the first `sides` vectors of keys. */
INLINED void multiply(const int sides, const int width, const tfm_vec *rows, const int step, const tfm_vec (*k)[SIDES],
                      tfm_vec (*z)[SIDES]) {
    tfm_vec sum[ROWS][SIDES];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            sum[r][x] = 0.0f;
    for (int d = 0; d < width; d++) {
        tfm_vec key[SIDES];
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            if (x < sides)
                key[x] = k[d][x];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const tfm_vec number = ((const float *)(rows + r * step))[d];
#pragma unroll
            for (int x = 0; x < SIDES; x++)
                if (x < sides)
                    sum[r][x] = tfm_fma(number, key[x], sum[r][x]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < SIDES; x++)
            z[r][x] = sum[r][x];
}

INLINED void multiply_both(const int sides, const block *all, const int first, const tile *keys, const int part,
                           tfm_vec (*z)[SIDES], tfm_vec (*e)[SIDES]) {
    multiply(sides, DK, all->q[first], KEY_VECTORS + 1, keys->k[part], z);
    multiply(sides, DV, all->dy[first], VALUE_VECTORS + 1, keys->v[part], e);
}

/* Weights and their gradients for ROWS queries and a part of a tile: from `first` of the block on, and from `query` of
 * all that share keys. own[r] is dy . y. */
static inline void weigh(block *to, const int first, const tile *keys, const int part, const attention_shape shape,
                         const query_rows *rows, const tensors *all, const float *own, const long query) {
    tfm_vec z[ROWS][SIDES], e[ROWS][SIDES];
    const int s = keys->s + part * PART, count = keys->count - part * PART;
    if (count > (SIDES - 1) * W)
        multiply_both(SIDES, to, first, keys, part, z, e);
    else if (SIDES > 2 && count > W)
        multiply_both(2, to, first, keys, part, z, e);
    else
        multiply_both(1, to, first, keys, part, z, e);
    const tfm_vec lanes = tfm_lane_index(); /* relative to s: floats cannot distinguish all positions */
#if DROPOUT
    tfm_vec factor[ROWS][SIDES];
#pragma unroll
    for (int x = 0; x < SIDES; x++)
        for (int i = 0; i < ROWS / BLOCK; i++) {
            tfm_uvec numbers[BLOCK];
            dropout_words_vec(numbers, all->drops, all->drop_block + query / BLOCK + i, s + x * W);
            for (int r = 0; r < BLOCK; r++)
                factor[BLOCK * i + r][x] =
                    select((tfm_vec)(all->drops.dropout_scale), (tfm_vec)(0.0f), numbers[r] < all->drops.threshold);
        }
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int x = 0; x < SIDES; x++) {
            const tfm_vec at = lanes + (float)(x * W);
            tfm_vec score = z[r][x] * all->scale, slope = (tfm_vec)(all->scale);
#if SCORE_MOD
            if (all->cap > 0.0f) {
                const tfm_vec bend = tanh(score / all->cap);
                score = all->cap * bend;
                slope *= 1.0f - bend * bend;
            }
            if (shape.mask_kind != 0) {
                const tfm_vec m = mask_columns(shape, rows->mask[r], s + x * W);
                score = select(score + m, m, m == -INFINITY);
            }
#endif
            /* Larger ones are rounding errors: see BELOW. */
            const tfm_vec below = (score - all->lse[rows->sum[r]]) * LOG2_E;
            const tfm_vec w = exp2_down(
                select(BELOW(tfm_vec, below), (tfm_vec)(-INFINITY),
                       at < (float)(rows->begin[r] - s) || at >= (float)(rows->end[r] - s) || score == -INFINITY));
            to->w[first + r][part * SIDES + x] = DROPPED(w, [r][x]);
            to->e[first + r][part * SIDES + x] =
                select(w * (DROPPED(e[r][x], [r][x]) - own[r]) * slope, (tfm_vec)(0.0f), w == 0.0f);
        }
}

/* All weights and their gradients of a block (`groups` times ROWS queries from `query` on) and a tile. Returns 0 if no
 * query sees any key of it. */
static inline int block_weights(block *to, const tile *keys, const attention_shape shape, const query_rows *rows,
                                const int groups, const tensors *all, const float *own, const long query) {
    int some = 0;
    for (int i = 0; i < groups; i++)
        some |= rows[i].some_begin < keys->s + keys->count && rows[i].some_end > keys->s;
    if (!some)
        return 0;
    block_pack(to, all, rows, groups);
    for (int part = 0; part * PART < keys->count; part++) {
        const int s = keys->s + part * PART;
        to->first[part] = QUERIES;
        to->last[part] = 0;
        for (int i = 0; i < groups; i++) {
            if (rows[i].some_begin >= s + PART || rows[i].some_end <= s) {
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int x = 0; x < SIDES; x++)
                        to->w[i * ROWS + r][part * SIDES + x] = to->e[i * ROWS + r][part * SIDES + x] = 0.0f;
                continue;
            }
            to->first[part] = min(to->first[part], i * ROWS);
            to->last[part] = (i + 1) * ROWS;
            weigh(to, i * ROWS, keys, part, shape, &rows[i], all, own + i * ROWS, query + i * ROWS);
        }
    }
    return 1;
}

/* `vectors` vectors of ROWS rows at to[r], `real` of them real: += sum_i weight[i along + r across] from[i], with
 * `step` vectors between rows of `from`. They are the vectors from c on of each row. */
#define DEFINE_ADD(NAME, LOAD, STORE)                                                                                  \
    INLINED void NAME(const int vectors, const int c, __global float *const *to, const int real, const float *weight,  \
                      const int along, const int across, const tfm_vec *from, const int step, const int count) {       \
        tfm_vec sum[ROWS][SIDES];                                                                                      \
        _Pragma("unroll") for (int r = 0; r < ROWS; r++)                                                               \
            _Pragma("unroll") for (int x = 0; x < SIDES; x++) if (x < vectors) sum[r][x] = LOAD(to[r], c + x);         \
        for (int i = 0; i < count; i++) {                                                                              \
            tfm_vec row[SIDES];                                                                                        \
            _Pragma("unroll") for (int x = 0; x < SIDES; x++) if (x < vectors) row[x] = from[i * step + x];            \
            _Pragma("unroll") for (int r = 0; r < ROWS; r++) {                                                         \
                const tfm_vec number = weight[i * along + r * across];                                                 \
                _Pragma("unroll") for (int x = 0; x < SIDES; x++) if (x < vectors) sum[r][x] =                         \
                    tfm_fma(number, row[x], sum[r][x]);                                                                \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("unroll") for (int r = 0; r < ROWS; r++) if (r < real)                                                 \
            _Pragma("unroll") for (int x = 0; x < SIDES; x++) if (x < vectors) STORE(sum[r][x], to[r], c + x);         \
    }
DEFINE_ADD(add_to_key, load_key, store_key)
DEFINE_ADD(add_to_value, load_value, store_value)

/* `vectors` columns from c on of all gradients of a tile's values. */
INLINED void add_dv(const int vectors, const int c, const block *by, const tile *keys, __global float *dv,
                    const long row) {
    for (int j = 0; j < keys->count; j += ROWS) {
        const int first = by->first[j / PART], real = min(keys->count - j, ROWS);
        __global float *to[ROWS];
        if (first >= by->last[j / PART])
            continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            to[r] = dv + (keys->s + j + min(r, real - 1)) * row;
        add_to_value(vectors, c, to, real, (const float *)by->w[first] + j, TILE, 1, &by->dy[first][c],
                     VALUE_VECTORS + 1, by->last[j / PART] - first);
    }
}

/* The same for the tile's keys. */
INLINED void add_dk(const int vectors, const int c, const block *by, const tile *keys, __global float *dk,
                    const long row) {
    for (int j = 0; j < keys->count; j += ROWS) {
        const int first = by->first[j / PART], real = min(keys->count - j, ROWS);
        __global float *to[ROWS];
        if (first >= by->last[j / PART])
            continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            to[r] = dk + (keys->s + j + min(r, real - 1)) * row;
        add_to_key(vectors, c, to, real, (const float *)by->e[first] + j, TILE, 1, &by->q[first][c], KEY_VECTORS + 1,
                   by->last[j / PART] - first);
    }
}

/* The same for a block's queries. */
INLINED void add_dq(const int vectors, const int c, const block *by, const tile *keys, const query_rows *rows,
                    const int groups, __global float *dq) {
    for (int i = 0; i < groups; i++) {
        const int first = max(rows[i].some_begin - keys->s, 0), last = min(rows[i].some_end - keys->s, keys->count);
        __global float *to[ROWS];
        if (first >= last)
            continue;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            to[r] = dq + rows[i].at[r] * DK;
        add_to_key(vectors, c, to, rows[i].count, (const float *)by->e[i * ROWS] + first, 1, TILE,
                   &keys->plain[first][c], KEY_VECTORS + 1, last - first);
    }
}

/* CALL(vectors, c) for all of `total` vectors: SIDES at a time, but the last 4 as 2 and 2. */
#define EACH_COLUMNS(total, CALL)                                                                                      \
    {                                                                                                                  \
        int c = 0;                                                                                                     \
        for (; c + SIDES <= (total) && (SIDES == 2 || c + 4 != (total)); c += SIDES)                                   \
            CALL(SIDES, c);                                                                                            \
        for (; SIDES > 2 && c + 2 <= (total); c += 2)                                                                  \
            CALL(2, c);                                                                                                \
        if ((total) % SIDES == 1 && (SIDES == 2 || (total) == 1))                                                      \
            CALL(1, c);                                                                                                \
    }
#define ADD_DV(vectors, c) add_dv(vectors, c, &met, &keys, TFM_AT(dv) + value_first, near.v_step)
#define ADD_DK(vectors, c) add_dk(vectors, c, &met, &keys, TFM_AT(dk) + key_first, near.k_step)
#define ADD_DQ(vectors, c) add_dq(vectors, c, &met, &keys, rows, groups, TFM_AT(dq))

/* dy . y for each query of a group, in vectors and in the order of dy . v, because compilers may round scalar sums
 * differently: then a query with one visible key has a gradient of exactly 0 instead of rounding errors, which Adam
 * would turn into large steps. With dropout errors remain: y is rounded once more after its factor. */
static inline void add_own(float *own, const query_rows *rows, __global const float *dy, __global const float *y) {
    tfm_vec sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        sum[r] = 0.0f;
    for (int d = 0; d < DV; d++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[r] = tfm_fma((tfm_vec)(dy[rows->at[r] * DV + d]), (tfm_vec)(y[rows->at[r] * DV + d]), sum[r]);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        own[r] = sum[r].s0;
}

TFM_KERNEL void attention_backward_cpu(BACKWARD_PARAMETERS) {
    const long item = TFM_ROW(), kv_head = item % layout.kv_heads, b = item / layout.kv_heads;
    if (item >= items)
        return;
    const attention_shape shape = ATTENTION_SHAPE;
    const kv_view near = keys_at(shape, b, kv_head);
    const long key_first = near.k - shape.k, value_first = near.v - shape.v, group = layout.heads / layout.kv_heads;
    const long queries = group * layout.targets;
#if DROPOUT
    const tensors all = {
        TFM_AT(q), TFM_AT(dy), TFM_AT(lse), scale, cap, TFM_DROPOUT_RNG(), first_block(shape, b, kv_head)};
#else
    const tensors all = {TFM_AT(q), TFM_AT(dy), TFM_AT(lse), scale, cap};
#endif
    tile keys;
    block met;
    query_rows chunk[CHUNK / ROWS];
    float own[CHUNK];
    for (long first = 0; first < queries; first += CHUNK) {
        const int all_groups = (int)((min((long)CHUNK, queries - first) + ROWS - 1) / ROWS);
        int some_begin = INT_MAX, some_end = 0;
        for (int i = 0; i < all_groups; i++) {
            const long query = first + i * ROWS;
            chunk[i] = queries_at(shape, near, b, kv_head * group + query / layout.targets, query % layout.targets,
                                  queries - query);
            some_begin = min(some_begin, chunk[i].some_begin);
            some_end = max(some_end, chunk[i].some_end);
            add_own(own + i * ROWS, &chunk[i], TFM_AT(dy), TFM_AT(y));
        }
        for (int s = some_begin / TILE * TILE; s < some_end; s += TILE) {
            tile_pack(&keys, near, s, min(near.visible - s, TILE));
            for (int i = 0; i < all_groups; i += QUERIES / ROWS) {
                const query_rows *const rows = &chunk[i];
                const int groups = min(all_groups - i, QUERIES / ROWS);
                fetch_ahead(near, s + TILE, min(s + 2 * TILE, some_end), i * ROWS / QUERIES,
                            (all_groups * ROWS + QUERIES - 1) / QUERIES);
                if (!block_weights(&met, &keys, shape, rows, groups, &all, own + i * ROWS, first + i * ROWS))
                    continue;
                EACH_COLUMNS(VALUE_VECTORS, ADD_DV)
                EACH_COLUMNS(KEY_VECTORS, ADD_DK)
                EACH_COLUMNS(KEY_VECTORS, ADD_DQ)
            }
        }
    }
}
