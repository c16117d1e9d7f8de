/* Tiles of attention, for devices whose work-items run side by side: QUERIES queries of one head by KEYS keys, of which
 * an item has ROWS by 4. What two items or more need of q, k and v comes through local memory, read from global memory
 * by neighbours side by side; whatever an item sums up stays in its registers, so that every private array is indexed
 * by constants once loops are unrolled. This text is included after attention_common.cl.
 *
 * The host gives ROWS, 4 or 8, and QUERIES and KEYS, powers of two of which the product is 4 ROWS TFM_GROUP. More rows
 * take more registers, and read less of local memory for each product. Q_RESIDENT says that local memory holds all
 * columns of the queries; ITEMS, of how many items a work-group is where it is not of TFM_GROUP; and PAGED, that a
 * table says in which row a key is. Heads' widths are multiples of 4. All functions with barriers must be met by all
 * items of a work-group.
 */
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

/* Inlined for certain: where these stayed calls, PoCL 3.1 would lose their barriers. */
#define INLINED static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#define LOOP _Pragma("nounroll") /* sums fill the registers: loads of later steps would have no room */

/* An item's rows are SETS sets of four neighbours; the next set is a half of all rows further, so that items side by
 * side read rows that are not in one bank. ROW_STEP is from its first row to row r, of `all` that a tile has. */
#define SETS (ROWS / 4)
#define ROW_STEP(r, all) ((r) / 4 * ((all) / SETS) + (r) % 4)
#define SET_BLOCKS (QUERIES / ROWS) /* of four queries, from one set to the next */

/* Items along the keys of a tile. The first set of an item's queries begins at 4 QUERY_LANE; those of a set share a
 * block of dropout's numbers. Its keys are every KEY_ITEMS-th from KEY_LANE on, so that neighbours read rows that are
 * not in one bank. */
#define KEY_ITEMS (KEYS / 4)
#define KEY_LANE(lane) ACROSS(lane, KEY_ITEMS)
#define QUERY_LANE(lane) DOWN(lane, KEY_ITEMS)

/* Where item number `lane` is in rows of `items`. If WOVEN, neighbours are in two rows by turns. NVIDIA's local memory
 * brings vectors to half a warp at a time where each item reads what the next or the next but one reads, else to a
 * quarter. So woven, the next has the same keys, and the next but one the same queries. */
#if WOVEN
#define ACROSS(lane, items) ((lane) / 2 % (items))
#define DOWN(lane, items) ((lane) / (2 * (items)) * 2 + (lane) % 2)
#else
#define ACROSS(lane, items) ((lane) % (items))
#define DOWN(lane, items) ((lane) / (items))
#endif
/* In fours, from one key's weights of all queries to the next's: what items side by side write is not in one bank. */
#define WEIGHTS_STEP (QUERIES / 4 + 1 + WOVEN)

/* Columns of both that are in local memory at a time, in fours, and the room for them. A row is an odd number of fours
 * from the next, which spreads rows over the banks. */
#define STAGED (Q_RESIDENT ? KEYS : QUERIES + KEYS)
#define MAX_COLUMNS (STAGED > 96 ? 4 : 8)
#define COLUMNS_OF(width4) ((width4) % 8 ? 4 : MAX_COLUMNS)
#define STAGE (STAGED * (MAX_COLUMNS + 1))
/* All columns of resident queries, zeros after the last, and from one query to the next. */
#define WHOLE_OF(width4) (((width4) + 3) / 4 * 4)
#define WHOLE_STEP(width4) (WHOLE_OF(width4) + 1)

/* The number of an item, a place of the work-group, and nothing, out of local memory, where item 0 has written 0 and
 * the place before a barrier. Otherwise compilers keep in registers, over all loops, whatever follows from the first
 * two, such as addresses; and registers are full of sums. */
#define LANE(fixed) (((int)get_local_id(0) + (fixed)[0]) & (TFM_GROUP - 1))
#define PLACE(fixed) ((fixed)[1])
#define NONE(fixed) ((uint)(fixed)[0])

/* 2^x, x <= 0, in few registers: the prelude says how. */
INLINED float tile_exp2(const float x) {
    TFM_EXP_BODY(float, , x + TFM_ROUND_MAGIC, x - n)
    return x < -126.0f ? 0.0f : p;
}

/* Rows before the first are only where a block of dropout's numbers begins there. */
#if DROPOUT
#define LOW(x, low) max(x, low)
#else
#define LOW(x, low) (x)
#endif

/* Rows of a tensor: row i begins at `from` + i `step`, and those outside low <= i < high, of which there is one at
 * least, are read as the nearest of those. Whatever sums them up has weights of 0 for them. Where there are `places`,
 * row i is at from + places[i] step, or none if that is negative, for which the first of all is read. */
typedef struct tile_rows {
    __global const void *from;
    uint step; /* bytes; of all rows together they fit as well */
    int low, high;
    int asking;                /* numbers are q's, which need not be of the keys' dtype */
    __local const int *places; /* NULL: each row is where its number says */
} tile_rows;

/* Whether the rows have places: no compiler need find out that there is no table. */
#define PLACED(rows) (PAGED && (rows).places != 0)

/* Columns column .. column + columns - 1, in fours, of rows first .. first + count - 1; columns from width4 on are
 * zeros. Loads are unconditional, so that many are under way at a time. What comes back is 0, or NaN where the item has
 * read a number that is not finite. */
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
        __global const uchar *p = (__global const uchar *)rows.from + ((uint)at * rows.step + (uint)from * 4 * size);
        const float4 x = rows.asking ? Q_LOAD4((__global const q_type *)p) : KV_LOAD4((__global const kv_type *)p);
        strange += x - x;
        if (fours % TFM_GROUP == 0 || lane + i * TFM_GROUP < fours)
            to[r * stride + c] = whole || column + c < width4 ? x : (float4)(0.0f);
    }
    return strange.x + strange.y + strange.z + strange.w;
}

/* In the order of columns, whatever the tile. */
#define DOT4(sum, a, b)                                                                                                \
    sum = tfm_fma((a).x, (b).x, sum);                                                                                  \
    sum = tfm_fma((a).y, (b).y, sum);                                                                                  \
    sum = tfm_fma((a).z, (b).z, sum);                                                                                  \
    sum = tfm_fma((a).w, (b).w, sum);

/* sum[4 r + j] = the product of the item's query r from t on and its key j from s on. Queries are `kept` in local
 * memory if Q_RESIDENT; else they are read. */
INLINED void tile_qk(__local const int *fixed, float *sum, __local float4 *stage, __local const float4 *kept,
                     const tile_rows queries, const int t, const tile_rows keys, const int s, const int width4) {
    const int columns = COLUMNS_OF(width4), stride = columns + 1, step = Q_RESIDENT ? WHOLE_STEP(width4) : stride;
#pragma unroll
    for (int i = 0; i < 4 * ROWS; i++)
        sum[i] = 0.0f;
    LOOP
    for (int column = 0; column < width4; column += columns) {
        barrier(CLK_LOCAL_MEM_FENCE); /* what was there has been read */
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

/* Sums that a work-group has of `owned` rows by width4 columns in fours: an item's are ROWS rows, the first set of them
 * from 4 OWN_ROW on, by every OWN_ITEMS-th column from OWN_COLUMN on, OWN_COLUMNS of them. Columns after the last are
 * the last again. */
#define OWN_ITEMS(owned) (ROWS * TFM_GROUP / (owned))
#define OWN_ROW(lane, owned) DOWN(lane, OWN_ITEMS(owned))
#define OWN_COLUMN(lane, owned) ACROSS(lane, OWN_ITEMS(owned))
#define OWN_COLUMNS(owned, width4) (((width4) + OWN_ITEMS(owned) - 1) / OWN_ITEMS(owned))

/* Rows that fit the stage at a time. */
#define PIECE_OF(count, width4)                                                                                        \
    ((count) * (width4) <= STAGE       ? (count)                                                                       \
     : (count) / 2 * (width4) <= STAGE ? (count) / 2                                                                   \
     : (count) / 4 * (width4) <= STAGE ? (count) / 4                                                                   \
     : (count) / 8 * (width4) <= STAGE ? (count) / 8                                                                   \
                                       : (count) / 16)

/* One row of weights, of which the item's first set begins at `own`, with one of what is staged. Where `guarded`,
 * weights of -0 are of what is not seen, and must not touch the sums even where that is NaN. */
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

/* sum += the products of weights, of which row i, a weights_step from the one before, has those of owned rows, with
 * rows first .. first + count - 1. The weights may be written just before, and may be overwritten after the next
 * barrier. Where weights are `marked`, -0 is of what is not seen, and fixed[2] goes from 0 to the rows of a piece once
 * one was strange: then each is looked at. It is their number and no flag, since a compiler that knew that one of two
 * loops runs gave each its own sums. */
INLINED void tile_accumulate(__local int *fixed, float4 *sum, __local float4 *stage, __local const float4 *weights,
                             const int weights_step, const int owned, const tile_rows rows, const int first,
                             const int count, const int width4, const int marked) {
    const int piece = PIECE_OF(count, width4);
    LOOP
    for (int begin = 0; begin < count; begin += piece) {
        barrier(CLK_LOCAL_MEM_FENCE);
        const float strange = stage_rows(LANE(fixed), stage, width4, rows, first + begin, piece, 0, width4, width4);
        if (marked && strange != 0.0f)
            atomic_or(fixed + 2, piece);
        barrier(CLK_LOCAL_MEM_FENCE);
        const int lane = LANE(fixed);
        __local const float4 *own = weights + begin * weights_step + OWN_ROW(lane, owned);
        const int plain = piece - (marked ? fixed[2] : 0); /* rows whose weights need no look */
        LOOP
        for (int i = 0; i < plain; i += SETS) { /* a piece has an even number of rows */
#pragma unroll
            for (int n = 0; n < SETS; n++)
                row_accumulate(lane, sum, own + (i + n) * weights_step, stage + (i + n) * width4, owned, width4, 0);
        }
        LOOP
        for (int i = plain; marked && i < piece; i++)
            row_accumulate(lane, sum, own + i * weights_step, stage + i * width4, owned, width4, 1);
    }
}

/* Queries that must be in one item, which have one block of dropout's numbers: tiles begin at multiples of that, and so
 * up to three queries before the first of a head. */
#if DROPOUT
#define TOGETHER 4
#else
#define TOGETHER 1
#endif

/* Keys and values of a (b, key head); of a tile's keys alone where these have places. */
#define BYTES(n) ((uint)(n) * (uint)sizeof(kv_type))
INLINED tile_rows keys_of(const kv_view keys, __local const int *places) {
    return (tile_rows){keys.k, BYTES(keys.k_step), 0, keys.visible, 0, places};
}

INLINED tile_rows values_of(const kv_view keys, __local const int *places) {
    return (tile_rows){keys.v, BYTES(keys.v_step), 0, keys.visible, 0, places};
}

/* Whether a query of this head, which exists or not, sees a key. */
INLINED int is_visible(const attention_shape a, const kv_view keys, const int t, const int s) {
    const int exists = ((TOGETHER == 1) | (t >= 0)) & (t < (int)a.targets) & (s < keys.visible);
    return exists & (s >= t + keys.from) & (s < t + keys.to);
}
