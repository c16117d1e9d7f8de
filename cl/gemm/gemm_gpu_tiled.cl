/* Register-tiled GEMM for GPU-style devices: c (B, M, N) = activation(alpha a b + addend); the addend is a bias, or c
 * itself.
 *
 * A work-group computes TILE_M x TILE_N of c in steps of TILE_K along K, with operands staged in local memory, a line
 * of the tile for each step. An item holds ITEM_M x ITEM_N sums in registers: quads of four neighboring rows and
 * columns, read from local memory as vectors, LY quads of rows and LX quads of columns apart, so that neighboring
 * items read neighboring vectors. The next tile is loaded from global memory to registers while the current one is
 * multiplied.
 *
 * Build options: TRANSPOSE_A and TRANSPOSE_B: a is (M, K), transposed (K, M); b (K, N), transposed (N, K). LOAD_WIDTH
 * is 4 if every row of a and b is aligned to four floats, so that vectors are loaded, else 1; STORE_VEC4 is 1 if c is
 * written so too. INDEX is int if no element is beyond 2^31, else long.
 *
 * Layout: LX x LY = TILE_N / ITEM_N x TILE_M / ITEM_M items in one dimension. Groups, in one dimension too: see
 * tile_swizzle.cl; gemm_splitk_reduce adds the splits' sums. The host has the tile sizes
 * (lib/ops/gemm/gemm_gpu_tiled.c). b may be fp16 or bf16 (half_load.cl). */
#include "half_load.cl"
#include "tile_swizzle.cl"
#define LX (TILE_N / ITEM_N)
#define LY (TILE_M / ITEM_M)
#define ITEMS (LX * LY)
/* Steps between branches: with more, compilers hold more of local memory in registers than there are. And the address
 * of unit u: offsets in the index type take fewer registers on Intel, and more on AMD. */
#ifdef cl_intel_required_subgroup_size /* 128 registers for 8 x 4 sums */
#define UNROLL 2
#define UNIT_AT(from, u) ((from) + ((u)*stride + at))
#else
#define UNROLL (ITEM_M * ITEM_N > 32 ? 2 : 4)
#define UNIT_AT(from, u) ((from) + (u)*stride + at)
#endif
/* Row stride in local memory: padded by four floats against bank conflicts. */
#define A_LINE (TILE_M + 4)
#define B_LINE (TILE_N + 4)

#if LOAD_WIDTH == 4
typedef float4 unit;
#define stored_unit load_as_float4
#else
typedef float unit;
#define stored_unit load_as_float
#endif
#define UNITS_A (TILE_M * TILE_K / LOAD_WIDTH / ITEMS)
#define UNITS_B (TILE_N * TILE_K / LOAD_WIDTH / ITEMS)

/* Load units in the order of the operand's memory. An item's first one is at row or column ALONG of the tile and step
 * STEP; from one unit to the next, the step grows by STEPS if rows of the operand are steps, else the row or column by
 * OVER. */
#define ALONG(lines, tile) ((lines) ? id % ((tile) / LOAD_WIDTH) * LOAD_WIDTH : id / (TILE_K / LOAD_WIDTH))
#define STEP(lines, tile) ((lines) ? id / ((tile) / LOAD_WIDTH) : id % (TILE_K / LOAD_WIDTH) * LOAD_WIDTH)
#define STEPS(lines, tile) ((lines) ? ITEMS / ((tile) / LOAD_WIDTH) : 0)
#define OVER(lines) ((lines) ? 0 : ITEMS / (TILE_K / LOAD_WIDTH))
#define LINES_A TRANSPOSE_A
#define LINES_B (!TRANSPOSE_B)

/* Stores a unit to a tile: along its line, or across LOAD_WIDTH lines. */
static inline void put_along(__local float *line, const unit v) {
#if LOAD_WIDTH == 4
    *(__local float4 *)line = v;
#else
    *line = v;
#endif
}

static inline void put_across(__local float *first, const int line, const unit v) {
#if LOAD_WIDTH == 4
    first[0] = v.x;
    first[line] = v.y;
    first[2 * line] = v.z;
    first[3 * line] = v.w;
#else
    *first = v;
#endif
}

/* Intel's compiler interleaves all result rows, and all steps, and spills: there the loops over rows and over steps
 * stay rolled, with sums moved to fixed positions in each iteration. Items of two rows do not need that. */
#if defined(cl_intel_required_subgroup_size) && ITEM_M > 2
#define ROLLED 1
#define TURNS TFM_TRIP_COUNT
#define EACH_WRITTEN _Pragma("nounroll")
#else
#define ROLLED 0
#define TURNS(n, none) (n)
#define EACH_WRITTEN _Pragma("unroll")
#endif

/* Items of few rows have pairs of them, or one. */
#if ITEM_M >= 4
#define HIGH 4
typedef float4 rows_type;
#elif ITEM_M == 2
#define HIGH 2
typedef float2 rows_type;
#endif

/* Row and column of the tile for an item's i-th row and j-th column. */
#define QUAD_ROW(i) (y * HIGH + (i) / HIGH * HIGH * LY + (i) % HIGH)
#define QUAD_COLUMN(j) (x * 4 + (j) / 4 * 4 * LX + (j) % 4)

/* Loads an item's units of a tile, from `from` + `at` on; zeros beyond `left` steps in both operands, since 0 times an
 * arbitrary value may be NaN. `stride` is between units. */
INLINED void fetch_a(unit *next, __global const float *from, const INDEX at, const INDEX stride, const int step,
                     const int along, const int left, const int rows) {
#pragma unroll
    for (int u = 0; u < UNITS_A; u++)
        next[u] = step + u * STEPS(LINES_A, TILE_M) < left && along + u * OVER(LINES_A) < rows
                      ? *(__global const unit *)UNIT_AT(from, u)
                      : (unit)(0.0f);
}

INLINED void fetch_b(unit *next, __global const load_t *from, const INDEX at, const INDEX stride, const int step,
                     const int along, const int left, const int columns) {
#pragma unroll
    for (int u = 0; u < UNITS_B; u++)
        next[u] = step + u * STEPS(LINES_B, TILE_N) < left && along + u * OVER(LINES_B) < columns
                      ? stored_unit(UNIT_AT(from, u))
                      : (unit)(0.0f);
}

INLINED void put_a(__local float *to, const unit *next) {
#pragma unroll
    for (int u = 0; u < UNITS_A; u++) {
        if (TRANSPOSE_A)
            put_along(to + u * STEPS(LINES_A, TILE_M) * A_LINE, next[u]);
        else
            put_across(to + u * OVER(LINES_A), A_LINE, next[u]);
    }
}

INLINED void put_b(__local float *to, const unit *next) {
#pragma unroll
    for (int u = 0; u < UNITS_B; u++) {
        if (TRANSPOSE_B)
            put_across(to + u * OVER(LINES_B), B_LINE, next[u]);
        else
            put_along(to + u * STEPS(LINES_B, TILE_N) * B_LINE, next[u]);
    }
}

/* sum += the matrix product of a tile in local memory. */
INLINED void multiply_accumulate(float (*sum)[ITEM_N], __local const float *a_tile, __local const float *b_tile,
                                 const int x, const int y, const int none) {
#pragma unroll UNROLL
    for (int s = 0; s < TURNS(TILE_K, none); s++) {
        float over[ITEM_M];
#pragma unroll
        for (int i = 0; i < ITEM_M; i += HIGH) {
            const rows_type quad = *(__local const rows_type *)(a_tile + s * A_LINE + QUAD_ROW(i));
            over[i] = quad.x;
            over[i + 1] = quad.y;
#if HIGH == 4
            over[i + 2] = quad.z;
            over[i + 3] = quad.w;
#endif
        }
#pragma unroll
        for (int j = 0; j < ITEM_N; j += 4) {
            const float4 quad = *(__local const float4 *)(b_tile + s * B_LINE + QUAD_COLUMN(j));
#pragma unroll
            for (int i = 0; i < ITEM_M; i++) {
                sum[i][j] = tfm_fma(over[i], quad.x, sum[i][j]);
                sum[i][j + 1] = tfm_fma(over[i], quad.y, sum[i][j + 1]);
                sum[i][j + 2] = tfm_fma(over[i], quad.z, sum[i][j + 2]);
                sum[i][j + 3] = tfm_fma(over[i], quad.w, sum[i][j + 3]);
            }
        }
    }
}

/* Stores an item's sums of row r of the tile to c. */
INLINED void store_row(const tile_epilogue out, const output_tile tile, const float *sum, const int r, const int x) {
#pragma unroll
    for (int j = 0; j < ITEM_N; j += 4) {
        if (QUAD_COLUMN(j) < tile.columns) { /* columns beyond may be the addend, and another item's output */
            float quad[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                quad[e] =
                    epilogue_of(out, sum[j + e], tile.row + r, tile.column + min(QUAD_COLUMN(j) + e, tile.columns - 1));
            __global float *to = out.c + (tile.row + r) * out.n + tile.column + QUAD_COLUMN(j);
#if STORE_VEC4
            *(__global float4 *)to = (float4)(quad[0], quad[1], quad[2], quad[3]);
#else
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (QUAD_COLUMN(j) + e < tile.columns)
                    to[e] = quad[e];
#endif
        }
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_gpu_tiled(TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(load_t, b), TFM_INPUT(float, addend),
               const long batch, const long m, const long n, const long k, const long split_k, const long chunk,
               const long b_batch, const long addend_batch, const long addend_row, const long has_addend,
               const float alpha) {
    __local float a_tile[TILE_K * A_LINE] __attribute__((aligned(16)));
    __local float b_tile[TILE_K * B_LINE] __attribute__((aligned(16)));
    const int id = (int)get_local_id(0), x = id % LX, y = id / LX;
    const int none = TFM_OPAQUE_ZERO(split_k);
    const output_tile tile = output_tile_of(batch, m, n);

    /* This item's units. Along a row of the operand, units beyond the last row or column of c read valid memory before
     * it, and their results are not stored. */
    const INDEX first = (INDEX)(tile.part * chunk), stop = (INDEX)min(tile.part * chunk + chunk, k);
    const INDEX a_step = TRANSPOSE_A ? (INDEX)m : 1, b_step = TRANSPOSE_B ? 1 : (INDEX)n;
    const INDEX a_row = TRANSPOSE_A ? 1 : (INDEX)k, b_column = TRANSPOSE_B ? (INDEX)k : 1;
    const int a_along = LINES_A ? min(ALONG(LINES_A, TILE_M), tile.rows - LOAD_WIDTH) : ALONG(LINES_A, TILE_M);
    const int b_along = LINES_B ? min(ALONG(LINES_B, TILE_N), tile.columns - LOAD_WIDTH) : ALONG(LINES_B, TILE_N);
    const int steps_a = STEP(LINES_A, TILE_M), steps_b = STEP(LINES_B, TILE_N);
    __global const float *from_a = TFM_AT(a) + (INDEX)tile.z * (INDEX)m * (INDEX)k + tile.row * a_row + first * a_step;
    __global const load_t *from_b =
        TFM_AT(b) + (INDEX)tile.z * (INDEX)b_batch + tile.column * b_column + first * b_step;
    const INDEX a_at = a_along * a_row + steps_a * a_step, b_at = b_along * b_column + steps_b * b_step;
    const INDEX a_stride = STEPS(LINES_A, TILE_M) * a_step + OVER(LINES_A) * a_row;
    const INDEX b_stride = STEPS(LINES_B, TILE_N) * b_step + OVER(LINES_B) * b_column;
    __local float *to_a = a_tile + steps_a * A_LINE + ALONG(LINES_A, TILE_M);
    __local float *to_b = b_tile + steps_b * B_LINE + ALONG(LINES_B, TILE_N);

    float sum[ITEM_M][ITEM_N];
#pragma unroll
    for (int i = 0; i < ITEM_M; i++)
#pragma unroll
        for (int j = 0; j < ITEM_N; j++)
            sum[i][j] = 0.0f;

    unit next_a[UNITS_A], next_b[UNITS_B];
    int left = (int)(stop - first);
    fetch_a(next_a, from_a, a_at, a_stride, steps_a, a_along, left, tile.rows);
    fetch_b(next_b, from_b, b_at, b_stride, steps_b, b_along, left, tile.columns);
    for (; left > 0; left -= TILE_K) {
        barrier(CLK_LOCAL_MEM_FENCE); /* the previous tile has been read */
        put_a(to_a, next_a);
        put_b(to_b, next_b);
        barrier(CLK_LOCAL_MEM_FENCE);
        from_a += TILE_K * a_step;
        from_b += TILE_K * b_step;
        fetch_a(next_a, from_a, a_at, a_stride, steps_a, a_along, left - TILE_K, tile.rows);
        fetch_b(next_b, from_b, b_at, b_stride, steps_b, b_along, left - TILE_K, tile.columns);
        multiply_accumulate(sum, a_tile, b_tile, x, y, none);
    }

    TILE_EPILOGUE(tile)
    EACH_WRITTEN
    for (int i = 0; i < TURNS(ITEM_M, none); i++) {
        if (QUAD_ROW(i) < tile.rows)
            store_row(out, tile, sum[ROLLED ? 0 : i], QUAD_ROW(i), x);
            /* Moves the next row's sums to the position of the first. */
#pragma unroll
        for (int e = 0; e < (ROLLED ? (ITEM_M - 1) * ITEM_N : 0); e++)
            sum[e / ITEM_N][e % ITEM_N] = sum[e / ITEM_N + 1][e % ITEM_N];
    }
}
