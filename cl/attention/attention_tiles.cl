/* Attention tiles for GPU-style devices: QUERIES queries of one head by KEYS keys, ROWS by 4 for each item. Elements of
 * q, k and v needed by several items go through local memory with coalesced loads; an item's sums stay in its
 * registers, so every private array is indexed by constants once loops are unrolled. Included after
 * attention_common.cl.
 *
 * Build options: ROWS, 4 or 8, and QUERIES and KEYS, powers of two with a product of 4 ROWS TFM_GROUP. More rows take
 * more registers and less local-memory bandwidth per multiplication. Q_RESIDENT: local memory holds all columns of the
 * queries; ITEMS: items of a work-group if not TFM_GROUP; PAGED: kv_indices has the rows of keys. Head widths are
 * multiples of 4. All items of a work-group must call functions with barriers. */
#ifdef ITEMS
#undef TFM_GROUP
#define TFM_GROUP ITEMS
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef WOVEN
#define WOVEN (ROWS == 8)
#endif
#ifndef Q_RESIDENT
#define Q_RESIDENT 0
#endif
#ifndef PAGED
#define PAGED 0
#endif

/* Force-inlined: as function calls, PoCL 3.1 would lose their barriers. */
#define INLINED static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("nounroll") /* registers are full of sums: no prefetching of later steps */

/* An item's rows are SETS sets of four neighbors, and the next set is half of all rows further, against bank
 * conflicts. ROW_STEP is from its first row to row r, of `all` rows of a tile. */
#define SETS (ROWS / 4)
#define ROW_STEP(r, all) ((r) / 4 * ((all) / SETS) + (r) % 4)
#define SET_BLOCKS (QUERIES / ROWS) /* in groups of four queries, from one set to the next */

/* Items along the keys of a tile. The first set of an item's queries begins at 4 QUERY_LANE; a set shares a Philox
 * block for dropout. Its keys are every KEY_ITEMS-th from KEY_LANE on, against bank conflicts. */
#define KEY_ITEMS (KEYS / 4)
#define KEY_LANE(lane) ACROSS(lane, KEY_ITEMS)
#define QUERY_LANE(lane) DOWN(lane, KEY_ITEMS)

/* Position of item `lane` in rows of `items`. WOVEN alternates neighbors between two rows. NVIDIA's local memory
 * serves vectors to half a warp at a time if each item reads the same as the next or the next but one, else to a
 * quarter. Woven, the next item has the same keys, and the next but one the same queries. */
#if WOVEN
#define ACROSS(lane, items) ((lane) / 2 % (items))
#define DOWN(lane, items) ((lane) / (2 * (items)) * 2 + (lane) % 2)
#else
#define ACROSS(lane, items) ((lane) % (items))
#define DOWN(lane, items) ((lane) / (items))
#endif
/* Stride in groups of four between the keys' rows of weights, padded against bank conflicts. */
#define WEIGHTS_STEP (QUERIES / 4 + 1 + WOVEN)

/* Columns of both operands staged at a time, in groups of four, and their storage. The row stride is an odd number of
 * groups, which spreads rows over the banks. */
#define STAGED (Q_RESIDENT ? KEYS : QUERIES + KEYS)
#define MAX_COLUMNS (STAGED > 96 ? 4 : 8)
#define COLUMNS_OF(width4) ((width4) % 8 ? 4 : MAX_COLUMNS)
#define STAGE (STAGED * (MAX_COLUMNS + 1))
/* All columns of resident queries, zero-padded, and the stride between queries. */
#define WHOLE_OF(width4) (((width4) + 3) / 4 * 4)
#define WHOLE_STEP(width4) (WHOLE_OF(width4) + 1)

/* The item's number, a work-group value, and zero, read back from local memory, where item 0 has written them before a
 * barrier. Otherwise compilers keep values derived from the first two, such as addresses, in registers across all
 * loops; and registers are full of sums. */
#define LANE(fixed) (((int)get_local_id(0) + (fixed)[0]) & (TFM_GROUP - 1))
#define PLACE(fixed) ((fixed)[1])
#define NONE(fixed) ((uint)(fixed)[0])

/* 2^x, x <= 0, with few registers: see the prelude. */
INLINED float tile_exp2(const float x) {
    TFM_EXP_BODY(float, , x + TFM_ROUND_MAGIC, x - n)
    return x < -126.0f ? 0.0f : p;
}

/* Rows before the first exist only if a Philox block begins there. */
#if DROPOUT
#define LOW(x, low) max(x, low)
#else
#define LOW(x, low) (x)
#endif

/* Rows of a tensor: row i begins at `from` + i `step`. Rows outside low <= i < high (at least one) are clamped to the
 * nearest of those; their weights are 0. With `places`, row i is at from + places[i] step, or, if that is negative, the
 * first row. */
typedef struct tile_rows {
    __global const void *from;
    uint step; /* in bytes; all rows together fit too */
    int low, high;
    int asking;                /* elements are q's, whose dtype may differ from the keys' */
    __local const int *places; /* NULL: row i is at index i */
} tile_rows;

/* Whether rows have places: a compile-time constant. */
#define PLACED(rows) (PAGED && (rows).places != 0)

/* Stages columns column .. column + columns - 1, in groups of four, of rows first .. first + count - 1; columns from
 * width4 on are zeros. Loads are unconditional, so many are in flight. Returns 0, or NaN if the item has read a
 * non-finite number. */
INLINED float stage_rows(const int lane, __local float4 *to, const int stride, const tile_rows rows, const int first,
                         const int count, const int column, const int columns, const int width4) {
    const int fours = count * columns;
    float4 strange = 0.0f;
#pragma unroll
    for (int i = 0; i < (fours + TFM_GROUP - 1) / TFM_GROUP; i++) {
        const int even = TFM_GROUP % columns == 0; /* then the column is the same in each step */
        const int r = even ? lane / columns + i * (TFM_GROUP / columns) : (lane + i * TFM_GROUP) / columns;
        const int c = even ? lane % columns : (lane + i * TFM_GROUP) % columns;
        const int each = fours % TFM_GROUP == 0 ? r : min(r, count - 1);
        const int at = PLACED(rows) ? max(rows.places[first + each], 0) : min(LOW(first + r, rows.low), rows.high - 1);
        const int whole = width4 % columns == 0, from = whole ? column + c : min(column + c, width4 - 1);
        const uint size = rows.asking ? sizeof(q_type) : sizeof(kv_type);
        __global const uchar *row = (__global const uchar *)rows.from + (uint)at * rows.step,
                             *p = row + (uint)from * 4 * size;
        const float4 x = rows.asking ? Q_LOAD4((__global const q_type *)p)
                                     : KV_LOAD4((__global const kv_type *)p) *
                                           KV_SCALE((__global const kv_type *)row, 4 * width4, 4 * from);
        strange += x - x;
        if (fours % TFM_GROUP == 0 || lane + i * TFM_GROUP < fours)
            to[r * stride + c] = whole || column + c < width4 ? x : (float4)(0.0f);
    }
    return strange.x + strange.y + strange.z + strange.w;
}

/* In the order of columns, independent of the tile. */
#define DOT4(sum, a, b)                                                                                                \
    sum = tfm_fma((a).x, (b).x, sum);                                                                                  \
    sum = tfm_fma((a).y, (b).y, sum);                                                                                  \
    sum = tfm_fma((a).z, (b).z, sum);                                                                                  \
    sum = tfm_fma((a).w, (b).w, sum);

/* sum[4 r + j] = dot product of the item's query r from t on and its key j from s on. Queries are in local memory
 * (`kept`) if Q_RESIDENT; else they are loaded. */
INLINED void tile_qk(__local const int *fixed, float *sum, __local float4 *stage, __local const float4 *kept,
                     const tile_rows queries, const int t, const tile_rows keys, const int s, const int width4) {
    const int columns = COLUMNS_OF(width4), stride = columns + 1, step = Q_RESIDENT ? WHOLE_STEP(width4) : stride;
#pragma unroll
    for (int i = 0; i < 4 * ROWS; i++)
        sum[i] = 0.0f;
    LOOP
    for (int column = 0; column < width4; column += columns) {
        barrier(CLK_LOCAL_MEM_FENCE); /* earlier contents have been read */
        if (!Q_RESIDENT)
            stage_rows(LANE(fixed), stage, stride, queries, t, QUERIES, column, columns, width4);
        stage_rows(LANE(fixed), stage + (STAGED - KEYS) * stride, stride, keys, s, KEYS, column, columns, width4);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int lane = LANE(fixed);
        __local const float4 *q = (Q_RESIDENT ? kept + column : stage) + 4 * QUERY_LANE(lane) * step;
        __local const float4 *k = stage + (STAGED - KEYS + KEY_LANE(lane)) * stride;
        LOOP
        for (int c = 0; c < columns; c++) {
            float4 y[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                y[j] = k[j * KEY_ITEMS * stride + c];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float4 x = q[ROW_STEP(r, QUERIES) * step + c];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    DOT4(sum[4 * r + j], x, y[j])
                }
            }
        }
    }
}

/* Accumulators of a work-group for `owned` rows by width4 columns in groups of four: an item has ROWS rows, the first
 * set from 4 OWN_ROW on, by OWN_COLUMNS columns, every OWN_ITEMS-th from OWN_COLUMN on. Columns beyond the last are
 * copies of the last. */
#define OWN_ITEMS(owned) (ROWS * TFM_GROUP / (owned))
#define OWN_ROW(lane, owned) DOWN(lane, OWN_ITEMS(owned))
#define OWN_COLUMN(lane, owned) ACROSS(lane, OWN_ITEMS(owned))
#define OWN_COLUMNS(owned, width4) (((width4) + OWN_ITEMS(owned) - 1) / OWN_ITEMS(owned))

/* Rows that fit the stage at a time. */
#define CHUNK_OF(count, width4)                                                                                        \
    ((count) * (width4) <= STAGE       ? (count)                                                                       \
     : (count) / 2 * (width4) <= STAGE ? (count) / 2                                                                   \
     : (count) / 4 * (width4) <= STAGE ? (count) / 4                                                                   \
     : (count) / 8 * (width4) <= STAGE ? (count) / 8                                                                   \
                                       : (count) / 16)

/* One row of weights, with the item's first set at `own`, times one staged row. If `guarded`, weights of -0 mark
 * invisible keys, which must not contribute even NaN. */
INLINED void row_accumulate(const int lane, float4 *sum, __local const float4 *own, __local const float4 *row,
                            const int owned, const int width4, const int guarded) {
    const int columns = OWN_COLUMNS(owned, width4);
    float weight[ROWS];
#pragma unroll
    for (int i = 0; i < SETS; i++) {
        const float4 w = own[i * (owned / ROWS)];
        weight[4 * i] = w.x;
        weight[4 * i + 1] = w.y;
        weight[4 * i + 2] = w.z;
        weight[4 * i + 3] = w.w;
    }
#pragma unroll
    for (int n = 0; n < columns; n++) {
        const int c = OWN_COLUMN(lane, owned) + n * OWN_ITEMS(owned);
        const float4 x = row[width4 % OWN_ITEMS(owned) ? min(c, width4 - 1) : c];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 more = tfm_fma((float4)(weight[r]), x, sum[r * columns + n]);
            sum[r * columns + n] = guarded && as_uint(weight[r]) == 0x80000000u ? sum[r * columns + n] : more;
        }
    }
}

/* sum += weights (rows weights_step apart, of the owned rows) times rows first .. first + count - 1. The weights may be
 * written just before, and overwritten after the next barrier. If `marked`, -0 marks invisible keys, and fixed[2] goes
 * from 0 to the rows of a chunk once a non-finite value was read: then each weight is checked. It is a count instead of
 * a flag, because a compiler that knew that one of two loops runs would give each its own accumulators. */
INLINED void tile_accumulate(__local int *fixed, float4 *sum, __local float4 *stage, __local const float4 *weights,
                             const int weights_step, const int owned, const tile_rows rows, const int first,
                             const int count, const int width4, const int marked) {
    const int chunk = CHUNK_OF(count, width4);
    LOOP
    for (int begin = 0; begin < count; begin += chunk) {
        barrier(CLK_LOCAL_MEM_FENCE);
        const float strange = stage_rows(LANE(fixed), stage, width4, rows, first + begin, chunk, 0, width4, width4);
        if (marked && strange != 0.0f)
            atomic_or(fixed + 2, chunk);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int lane = LANE(fixed);
        __local const float4 *own = weights + begin * weights_step + OWN_ROW(lane, owned);
        const int plain = chunk - (marked ? fixed[2] : 0); /* rows whose weights need no check */
        LOOP
        for (int i = 0; i < plain; i += SETS) { /* a chunk has an even number of rows */
#pragma unroll
            for (int n = 0; n < SETS; n++)
                row_accumulate(lane, sum, own + (i + n) * weights_step, stage + (i + n) * width4, owned, width4, 0);
        }
        LOOP
        for (int i = plain; marked && i < chunk; i++)
            row_accumulate(lane, sum, own + i * weights_step, stage + i * width4, owned, width4, 1);
    }
}

/* Queries that must be in one item because they share a Philox block: tiles begin at multiples of that, up to three
 * queries before the first of a head. */
#if DROPOUT
#define TOGETHER 4
#else
#define TOGETHER 1
#endif

/* Keys and values of a (b, key head); of one tile's keys only if they have places. */
#define BYTES(n) ((uint)(n) * (uint)sizeof(kv_type))
INLINED tile_rows keys_of(const kv_view keys, __local const int *places) {
    return (tile_rows){keys.k, BYTES(keys.k_step), 0, keys.visible, 0, places};
}

INLINED tile_rows values_of(const kv_view keys, __local const int *places) {
    return (tile_rows){keys.v, BYTES(keys.v_step), 0, keys.visible, 0, places};
}

/* Whether a query of this head, existing or not, sees a key. */
INLINED int is_visible(const attention_shape a, const kv_view keys, const int t, const int s) {
    const int exists = ((TOGETHER == 1) | (t >= 0)) & (t < (int)a.targets) & (s < keys.visible);
    return exists & (s >= t + keys.from) & (s < t + keys.to);
}
