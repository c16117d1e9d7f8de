/* GEMM on matrix cores: as gemm_gpu_tiled.cl, with operands rounded to 16 bits on their way to local memory, and tiles
 * multiplied by the instruction of mma.cl. Sums are fp32, with the same epilogue.
 *
 * A work-group computes TILE_M x TILE_N of c in steps of TILE_K along K. Each of its waves (warps, sub-groups) computes
 * WAVE_M x WAVE_N of that, in fragments of the instruction's size, with sums in registers. Local memory holds rows of a
 * and columns of b, along K, as words of two numbers. The next tile is loaded from global memory to registers while the
 * current one is multiplied.
 *
 * TRANSPOSE_A, TRANSPOSE_B, LOAD_WIDTH and INDEX are those of gemm_gpu_tiled.cl, and so are the arguments and the grid,
 * of ITEMS items a group. The host has the tile sizes (lib/ops/gemm/gemm_mma_plan.c). b may be stored in the
 * instruction's 16-bit dtype (LOAD_DTYPE is MMA_DTYPE then), and is copied to local memory unchanged. */
#ifndef TILE_M
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define WAVE_M 32
#define WAVE_N 32
#define LOAD_WIDTH 1
#define INDEX long
#define TRANSPOSE_A 0
#define TRANSPOSE_B 0
#endif
#ifndef LOAD_DTYPE
#define LOAD_DTYPE 0
#endif
#include "tile_swizzle.cl"
#include "mma.cl"
#if LOAD_DTYPE && LOAD_DTYPE != MMA_DTYPE
#error "b must be stored in MMA_DTYPE or F32"
#endif

#define WAVES_N (TILE_N / WAVE_N)
#define ITEMS (TILE_M / WAVE_M * WAVES_N * LANES)
#define PIECES_M (WAVE_M / MMA_M)
#define PIECES_N (WAVE_N / MMA_N)
/* Row stride in words in local memory: padded by four against bank conflicts. */
#define LINE (TILE_K / 2 + 4)

#if LOAD_WIDTH == 4
typedef float4 unit;
#else
typedef float unit;
#endif
#if LOAD_DTYPE
typedef ushort b_stored;
#if LOAD_WIDTH == 4
typedef ushort4 b_unit;
#else
typedef ushort b_unit;
#endif
#define B_WORD_OF(low, high) ((uint)(low) | (uint)(high) << 16)
#else
typedef float b_stored;
typedef unit b_unit;
#define B_WORD_OF mma_pack2
#endif
#define LOAD_A(from) (*(__global const unit *)(from))
#define LOAD_B(from) (*(__global const b_unit *)(from))

/* Load units of an item: if the operand's rows are along K and are loaded in vectors of four, one unit an iteration,
 * which is two words; else two units of neighbors along K, which give a word for each of their floats. LINES: the
 * operand's rows are across K. Then SPAN items read neighboring units, and the next ones other steps, which share a
 * line of local memory. */
#define LINES_A TRANSPOSE_A
#define LINES_B (!TRANSPOSE_B)
#define UNITS(lines) (LOAD_WIDTH == 4 && !(lines) ? 1 : 2)
#define ROUNDS(lines, tile) ((tile)*TILE_K / LOAD_WIDTH / UNITS(lines) / ITEMS)
#define ACROSS (TILE_K / (LOAD_WIDTH == 4 ? 4 : 2))
#define SPAN(tile) ((tile) / LOAD_WIDTH < 8 ? (tile) / LOAD_WIDTH : 8)
#define BLOCK(tile) (SPAN(tile) * (TILE_K / 2))
/* Row or column of the tile and step of an item's first unit, and the offsets of the u-th iteration's units. */
#define ALONG(lines, tile) ((lines) ? (id % SPAN(tile) + id / BLOCK(tile) * SPAN(tile)) * LOAD_WIDTH : id / ACROSS)
#define STEP(lines, tile) ((lines) ? id / SPAN(tile) % (TILE_K / 2) * 2 : id % ACROSS * (TILE_K / ACROSS))
#define OVER(lines, tile, u) ((lines) ? (u)*ITEMS / BLOCK(tile) * SPAN(tile) * LOAD_WIDTH : (u)*ITEMS / ACROSS)
#define LATER(lines, tile, u) ((lines) ? (u)*ITEMS % BLOCK(tile) / SPAN(tile) * 2 : 0)

/* Stores the two units, or the one, to a tile; `word` packs two of their numbers. */
#if LOAD_WIDTH == 4
#define PUT_TWO(to, first, second, word)                                                                               \
    (to)[0] = word((first).x, (second).x);                                                                             \
    (to)[LINE] = word((first).y, (second).y);                                                                          \
    (to)[2 * LINE] = word((first).z, (second).z);                                                                      \
    (to)[3 * LINE] = word((first).w, (second).w);
#define PUT_WHOLE(to, all, word) *(__local uint2 *)(to) = (uint2)(word((all).x, (all).y), word((all).z, (all).w));
#else
#define PUT_TWO(to, first, second, word) (to)[0] = word(first, second);
#define PUT_WHOLE(to, all, word)
#endif

/* Loads an item's units of a tile, from `from` + `at` on; zeros beyond `left` steps in both operands, since 0 times an
 * arbitrary value may be NaN. `row`, `column`, `step`: strides. */
INLINED void fetch_a(unit (*next)[UNITS(LINES_A)], __global const float *from, const INDEX at, const INDEX row,
                     const INDEX step, const int steps, const int along, const int left, const int rows) {
    UNROLLED
    for (int u = 0; u < ROUNDS(LINES_A, TILE_M); u++)
        UNROLLED
    for (int h = 0; h < UNITS(LINES_A); h++)
        next[u][h] = steps + LATER(LINES_A, TILE_M, u) + h < left && along + OVER(LINES_A, TILE_M, u) < rows
                         ? LOAD_A(from + at + OVER(LINES_A, TILE_M, u) * row + (LATER(LINES_A, TILE_M, u) + h) * step)
                         : (unit)(0.0f);
}

INLINED void fetch_b(b_unit (*next)[UNITS(LINES_B)], __global const b_stored *from, const INDEX at, const INDEX column,
                     const INDEX step, const int steps, const int along, const int left, const int columns) {
    UNROLLED
    for (int u = 0; u < ROUNDS(LINES_B, TILE_N); u++)
        UNROLLED
    for (int h = 0; h < UNITS(LINES_B); h++)
        next[u][h] =
            steps + LATER(LINES_B, TILE_N, u) + h < left && along + OVER(LINES_B, TILE_N, u) < columns
                ? LOAD_B(from + at + OVER(LINES_B, TILE_N, u) * column + (LATER(LINES_B, TILE_N, u) + h) * step)
                : (b_unit)(0);
}

/* Stores units to a tile in local memory, as words of two numbers. Operands differ in the type of a unit and in `word`.
 */
#define DEFINE_PUT(NAME, TYPE, lines, tile, word)                                                                      \
    INLINED void NAME(__local uint *to, TYPE(*next)[UNITS(lines)]) {                                                   \
        UNROLLED                                                                                                       \
        for (int u = 0; u < ROUNDS(lines, tile); u++) {                                                                \
            __local uint *at = to + OVER(lines, tile, u) * LINE + LATER(lines, tile, u) / 2;                           \
            if (UNITS(lines) == 2) {                                                                                   \
                PUT_TWO(at, next[u][0], next[u][UNITS(lines) - 1], word)                                               \
            } else {                                                                                                   \
                PUT_WHOLE(at, next[u][0], word)                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_PUT(put_a, unit, LINES_A, TILE_M, mma_pack2)
DEFINE_PUT(put_b, b_unit, LINES_B, TILE_N, B_WORD_OF)

/* sum += the matrix product of a tile, from the wave's first row of a and column of b on. */
INLINED void multiply_accumulate(float (*sum)[PIECES_N][ACCUMULATORS], __local const uint *a_tile,
                                 __local const uint *b_tile, const int lane, __local uint *mma_exchange) {
    UNROLLED
    for (int s = 0; s < TILE_K; s += MMA_K) {
        uint over[PIECES_N][B_WORDS];
        UNROLLED
        for (int j = 0; j < PIECES_N; j++)
            mma_load_b(over[j], b_tile + j * MMA_N * LINE + s / 2, LINE, lane);
        UNROLLED
        for (int i = 0; i < PIECES_M; i++) {
            uint down[A_WORDS];
            mma_load_a(down, a_tile + i * MMA_M * LINE + s / 2, LINE, lane);
            UNROLLED
            for (int j = 0; j < PIECES_N; j++)
                mma_sync(sum[i][j], down, over[j], lane);
        }
    }
}

__kernel MMA_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_mma(TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(b_stored, b), TFM_INPUT(float, addend), const long batch,
         const long m, const long n, const long k, const long split_k, const long chunk, const long b_batch,
         const long addend_batch, const long addend_row, const long has_addend, const float alpha) {
    __local uint a_tile[TILE_M * LINE] __attribute__((aligned(16)));
    __local uint b_tile[TILE_N * LINE] __attribute__((aligned(16)));
    MMA_SCRATCH(ITEMS)
    const int id = MMA_ITEM, lane = id % LANES, wave = id / LANES;
    const int wave_row = wave / WAVES_N * WAVE_M, wave_column = wave % WAVES_N * WAVE_N;
    const output_tile tile = output_tile_of(batch, m, n);

    const INDEX first = (INDEX)(tile.part * chunk), stop = (INDEX)min(tile.part * chunk + chunk, k);
    const INDEX a_step = TRANSPOSE_A ? (INDEX)m : 1, b_step = TRANSPOSE_B ? 1 : (INDEX)n;
    const INDEX a_row = TRANSPOSE_A ? 1 : (INDEX)k, b_column = TRANSPOSE_B ? (INDEX)k : 1;
    const int a_along = ALONG(LINES_A, TILE_M), b_along = ALONG(LINES_B, TILE_N);
    const int steps_a = STEP(LINES_A, TILE_M), steps_b = STEP(LINES_B, TILE_N);
    __global const float *from_a = TFM_AT(a) + (INDEX)tile.z * (INDEX)m * (INDEX)k + tile.row * a_row + first * a_step;
    __global const b_stored *from_b =
        TFM_AT(b) + (INDEX)tile.z * (INDEX)b_batch + tile.column * b_column + first * b_step;
    const INDEX a_at = a_along * a_row + steps_a * a_step, b_at = b_along * b_column + steps_b * b_step;
    __local uint *to_a = a_tile + a_along * LINE + steps_a / 2;
    __local uint *to_b = b_tile + b_along * LINE + steps_b / 2;

    float sum[PIECES_M][PIECES_N][ACCUMULATORS];
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        UNROLLED
    for (int s = 0; s < ACCUMULATORS; s++)
        sum[i][j][s] = 0.0f;

    unit next_a[ROUNDS(LINES_A, TILE_M)][UNITS(LINES_A)];
    b_unit next_b[ROUNDS(LINES_B, TILE_N)][UNITS(LINES_B)];
    int left = (int)(stop - first);
    fetch_a(next_a, from_a, a_at, a_row, a_step, steps_a, a_along, left, tile.rows);
    fetch_b(next_b, from_b, b_at, b_column, b_step, steps_b, b_along, left, tile.columns);
    for (; left > 0; left -= TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the previous tile has been read */
        put_a(to_a, next_a);
        put_b(to_b, next_b);
        barrier(CLK_LOCAL_MEM_FENCE);
        from_a += TILE_K * a_step;
        from_b += TILE_K * b_step;
        fetch_a(next_a, from_a, a_at, a_row, a_step, steps_a, a_along, left - TILE_K, tile.rows);
        fetch_b(next_b, from_b, b_at, b_column, b_step, steps_b, b_along, left - TILE_K, tile.columns);
        multiply_accumulate(sum, a_tile + wave_row * LINE, b_tile + wave_column * LINE, lane, mma_exchange);
    }

    TILE_EPILOGUE(tile)
    MMA_UNROLL_TILES
    for (int i = 0; i < PIECES_M; i++)
        MMA_UNROLL_TILES
    for (int j = 0; j < PIECES_N; j++) {
        UNROLLED
        for (int s = 0; s < ACCUMULATORS; s++) {
            const int down = wave_row + i * MMA_M + D_ROW(lane, s);
            const int over = wave_column + j * MMA_N + D_COLUMN(lane, s);
            if (down < tile.rows && over < tile.columns) {
                const INDEX y = tile.row + down, x = tile.column + over;
                out.c[y * out.n + x] = epilogue_of(out, MMA_ROLLED ? sum[0][0][s] : sum[i][j][s], y, x);
            }
        }
        /* Moves the next fragment's sums to the position of the first. */
        UNROLLED
        for (int s = 0; s < (MMA_ROLLED ? (PIECES_M * PIECES_N - 1) * ACCUMULATORS : 0); s++)
            sum[s / ACCUMULATORS / PIECES_N][s / ACCUMULATORS % PIECES_N][s % ACCUMULATORS] =
                sum[(s / ACCUMULATORS + 1) / PIECES_N][(s / ACCUMULATORS + 1) % PIECES_N][s % ACCUMULATORS];
    }
}
