/* Block-quantized linear layers of GPU-style devices: included by quant_linear.cl. */

#if !MANY
/* Few rows, ROWS of them from `first` on, as in decode. Layout: a work-group of SLICES x LANES items takes LANES rows
 * of w, all or part of a row block; an item takes one of them, and one of SLICES chunks of 32 weights at a time. Grid:
 * groups of LANES rows. */
#ifndef SLICES
#define SLICES 4
#endif
#ifndef LANES
#define LANES TILE_ROWS
#endif
__kernel __attribute__((reqd_work_group_size(SLICES * LANES, 1, 1))) void
quant_linear_few(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(float, x), const long k, const long first) {
    __local float parts[SLICES * ROWS * LANES];
    FIND_TARGET((long)get_group_id(0));
    const int id = (int)get_local_id(0), slice = id / LANES, chunks = (int)k / 32;
    const int lane = (int)(t.at % (TILE_ROWS / LANES)) * LANES + id % LANES;
    __global const uint *w = t.w + t.at / (TILE_ROWS / LANES) * (k / BLOCK) * TILE_WORDS;
    __global const float *from = TFM_AT(x) + first * k;
    float sum[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        sum[i] = 0.0f;
    for (int c = slice; c < chunks; c += SLICES) {
        const int chunk = c % (BLOCK / 32);
        __global const uint *tile = w + (long)(c / (BLOCK / 32)) * TILE_WORDS;
        uint low[LOW], high[HIGH + 1];
#pragma unroll
        for (int j = 0; j < LOW; j++)
            low[j] = LOW_WORDS(tile, chunk)[j * TILE_ROWS + lane];
#pragma unroll
        for (int j = 0; j < HIGH; j++)
            high[j] = HIGH_WORDS(tile, chunk)[j * TILE_ROWS + lane];
#pragma unroll
        for (int half_group = 0; half_group < 32 / GROUP; half_group++) {
            const int group = chunk * (32 / GROUP) + half_group;
            const float step = group_step(tile, lane, group), less = group_less(tile, lane, group);
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
                const uint codes = PAIR_CODES(low, high, PAIR(p, half_group));
                const float a = weight_of(codes & 0xffff, step, less), b = weight_of(codes >> 16, step, less);
                const int at_k = c * 32 + FIRST(PAIR(p, half_group));
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    sum[i] = tfm_fma(a, from[i * k + at_k], sum[i]);
                    sum[i] = tfm_fma(b, from[i * k + at_k + 2], sum[i]);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        parts[(slice * ROWS + i) * LANES + id % LANES] = sum[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = id; e < ROWS * LANES; e += SLICES * LANES) {
        float total = 0.0f;
        for (int s = 0; s < SLICES; s++)
            total += parts[s * ROWS * LANES + e];
        put(&t, first + e / LANES, t.at * LANES + e % LANES, total);
    }
}

#else
/* Many rows. Layout: a work-group of SIDE x SIDE items computes a tile of (4 SIDE) x (4 SIDE) outputs, an item 4 x 4 of
 * them, SIDE apart. Both inputs pass through local memory, 32 of k at a time. Grid: tiles of columns x tiles of rows.
 */
#ifndef SIDE
#define SIDE 16
#endif
#define TILE (4 * SIDE)
/* Numbers that an item loads of each input, 8 with groups of 256. In smaller groups their loops stay loops: unrolled,
 * they need more registers than a gfx1100 has. */
#define EACH (TILE * 32 / (SIDE * SIDE))
__kernel __attribute__((reqd_work_group_size(SIDE * SIDE, 1, 1))) void
quant_linear_many(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(float, x), const long k, const long m) {
    __local float ws[32 * TILE], xs[32 * (TILE + 1)];
    FIND_TARGET((long)get_group_id(0));
    const int id = (int)get_local_id(0), left = id % SIDE, top = id / SIDE;
    const long row = (long)get_group_id(1) * TILE, column = t.at * TILE;
    /* The part that this item loads: one row of w, EACH weights of 32; and rows of x. */
    const int own = id % TILE, part = id / TILE;
    const long wanted = column + own, own_column = wanted < t.n ? wanted : t.n - 1;
    const int lane = (int)(own_column % TILE_ROWS);
    __global const uint *w = t.w + own_column / TILE_ROWS * (k / BLOCK) * TILE_WORDS;
    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 16; i++)
        sum[i / 4][i % 4] = 0.0f;
    for (int c = 0; c < (int)k / 32; c++) {
        const int chunk = c % (BLOCK / 32);
        __global const uint *tile = w + (long)(c / (BLOCK / 32)) * TILE_WORDS;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (int j = 0; j < EACH / 2; j++) {
            /* Pairs of one parity belong to one group of 16. */
            const int p = part * (EACH / 2) + j, group = chunk * (32 / GROUP) + (GROUP == 16 ? p % 2 : 0);
            uint codes =
                LOW_WORDS(tile, chunk)[p / (16 / LOW) * TILE_ROWS + lane] >> p % (16 / LOW) * LOW & FIELDS(LOW);
#if HIGH
            codes |=
                (HIGH_WORDS(tile, chunk)[p / (16 / HIGH) * TILE_ROWS + lane] >> p % (16 / HIGH) * HIGH & FIELDS(HIGH))
                << LOW;
#endif
            const float step = group_step(tile, lane, group), less = group_less(tile, lane, group);
            ws[FIRST(p) * TILE + own] = weight_of(codes & 0xffff, step, less);
            ws[(FIRST(p) + 2) * TILE + own] = weight_of(codes >> 16, step, less);
        }
#pragma unroll 8
        for (int j = 0; j < EACH; j++) {
            const int e = j * SIDE * SIDE + id;
            const long at_row = row + e / 32 < m ? row + e / 32 : m - 1;
            xs[e % 32 * (TILE + 1) + e / 32] = TFM_AT(x)[at_row * k + c * 32 + e % 32];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < 32; s++) {
            float a[4], b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = xs[s * (TILE + 1) + top + i * SIDE];
                b[i] = ws[s * TILE + left + i * SIDE];
            }
#pragma unroll
            for (int i = 0; i < 16; i++)
                sum[i / 4][i % 4] = tfm_fma(a[i / 4], b[i % 4], sum[i / 4][i % 4]);
        }
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (row + top + i / 4 * SIDE < m)
            put(&t, row + top + i / 4 * SIDE, column + left + i % 4 * SIDE, sum[i / 4][i % 4]);
}
#endif
