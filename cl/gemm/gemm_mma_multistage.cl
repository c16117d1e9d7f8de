/* Multistage GEMM on matrix cores with the asynchronous copies of async_copy.cl: as gemm_mma.cl, for operands of 16
 * bits in global memory, which go to local memory without passing through registers. gemm_mma_round rounds fp32
 * operands beforehand.
 *
 * A work-group computes TILE_M x TILE_N of c in steps of TILE_K along K; each of its warps WAVE_M x WAVE_N of that.
 * Local memory is a ring buffer of STAGES tiles of both operands: the next ones are copied while one is multiplied.
 * Lines of a tile are those of global memory, in chunks of 8 numbers: along K or, for operands whose lines are across
 * K, TILE_K lines, which are transposed by the fragment loads. The chunks of a line are swizzled, so that 8 lines'
 * chunks of one column lie in different banks.
 *
 * Lines in global memory have whole chunks, zero-padded at the end. TRANSPOSE_A, TRANSPOSE_B, INDEX, the arguments and
 * the grid, of ITEMS items a group, are those of gemm_mma.cl. The host has the tile sizes
 * (lib/ops/gemm/gemm_mma_plan.c). */
#ifndef TILE_M
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define WAVE_M 32
#define WAVE_N 32
#define STAGES 3
#define INDEX long
#define TRANSPOSE_A 0
#define TRANSPOSE_B 0
#endif
#include "tile_swizzle.cl"
#include "mma.cl"
#define WAVES_N (TILE_N / WAVE_N)
#define ITEMS (TILE_M / WAVE_M * WAVES_N * LANES)
#include "async_copy.cl"

#define PIECES_M (WAVE_M / MMA_M)
#define PIECES_N (WAVE_N / MMA_N)
#define STEPS (TILE_K / MMA_K)
#if STEPS % 2 || PIECES_N % 2
#error "fragments of steps alternate, and those of b are read by two"
#endif

/* For an operand whose lines are across K, or not: chunks of a line; byte offset of a chunk of a line in a tile; copy
 * iterations, each of ITEMS chunks. */
#define CHUNKS(across, tile) ((across) ? (tile) / 8 : TILE_K / 8)
#define ORDER(line, chunks) ((chunks) >= 8 ? (line)&7 : (line) / (8 / (chunks)) & ((chunks)-1))
#define PLACE(line, chunk, chunks) (((line) * (chunks) + ((chunk) ^ ORDER(line, chunks))) * 16)
#define ROUNDS(tile) ((tile) * (TILE_K / 8) / ITEMS)
#define BYTES(tile) ((tile)*TILE_K * 2)
#define STAGE (BYTES(TILE_M) + BYTES(TILE_N))
#define ACROSS_A TRANSPOSE_A
#define ACROSS_B (!TRANSPOSE_B)
/* Lines between an item's chunks of two iterations. */
#define APART(across, tile) (ITEMS / CHUNKS(across, tile))

/* Numbers of a line, padded to whole chunks. */
#define WHOLE(line) (((INDEX)(line) + 7) / 8 * 8)

/* Fragment addresses: of the 16 x 16 numbers from row or column `first` and step 0 on. Each lane gives the address of
 * one of the first 8 rows of one of 4 matrices: with LOW the upper two and then the lower two, else the other order.
 * Other fragments and steps are constant offsets away, except for the swizzle. */
#define LOW(lane) ((lane) % 16)
#define LOW_CHUNK(lane) ((lane) / 16)
#define HIGH(lane) ((lane) % 8 + (lane) / 16 * 8)
#define HIGH_CHUNK(lane) ((lane) / 8 % 2)
#define KINDS(across, wave) ((across) ? (wave) / 16 : STEPS)
#define KIND(across, chunk, step) ((across) ? (chunk) : (step))
#define AWAY(across, tile, chunk, step)                                                                                \
    ((across) ? (step)*16 * CHUNKS(1, tile) * 16 : (chunk)*16 * CHUNKS(0, tile) * 16)

/* fp32 to 16 bits: `lines` of `line` numbers each. One item converts a chunk. */
__kernel void gemm_mma_round(TFM_TENSOR(ushort, rounded), TFM_INPUT(float, from), const long lines, const long line) {
    const INDEX chunks = ((INDEX)line + 7) / 8, i = (INDEX)get_global_id(0);
    if (i >= (INDEX)lines * chunks)
        return;
    const INDEX row = i / chunks, at = (i - row * chunks) * 8;
    __global const float *x = TFM_AT(from) + row * (INDEX)line + at;
    float4 low = (float4)(0.0f), high = (float4)(0.0f);
    if (line % 4 == 0 && from_offset % 4 == 0) {
        low = *(__global const float4 *)x;
        if (at + 4 < line)
            high = *((__global const float4 *)x + 1);
    } else {
        const int left = (int)min((INDEX)8, (INDEX)line - at);
        low.x = x[0];
        low.y = left > 1 ? x[1] : 0.0f;
        low.z = left > 2 ? x[2] : 0.0f;
        low.w = left > 3 ? x[3] : 0.0f;
        high.x = left > 4 ? x[4] : 0.0f;
        high.y = left > 5 ? x[5] : 0.0f;
        high.z = left > 6 ? x[6] : 0.0f;
        high.w = left > 7 ? x[7] : 0.0f;
    }
    *((__global uint4 *)TFM_AT(rounded) + i) =
        (uint4)(mma_pack2(low.x, low.y), mma_pack2(low.z, low.w), mma_pack2(high.x, high.y), mma_pack2(high.z, high.w));
}

/* ---- Copies from global memory to the stages ---- */

/* An item's first copy of an operand's tile: its source, its byte offset in a tile, its line and chunk; and the
 * operand's number of lines in this tile, or of columns if lines are across K. */
typedef struct ring_source {
    __global const ushort *from;
    INDEX line_length;
    int to, line, chunk, lines;
} ring_source;

/* Copies the next tile of an operand to the stage `written`; zeros beyond `left` steps in both operands, since 0 times
 * an arbitrary value may be NaN. */
INLINED void copy_operand(__local uint4 *ring, ring_source *s, const int written, const int left, const int across,
                          const int tile) {
    UNROLLED
    for (int u = 0; u < ROUNDS(tile); u++)
        cp_async(ring, written + s->to + u * ITEMS * 16, s->from + u * APART(across, tile) * s->line_length,
                 across ? s->line + u * APART(across, tile) < left && s->chunk * 8 < s->lines
                        : s->line + u * APART(across, tile) < s->lines && s->chunk * 8 < left);
    s->from += across ? TILE_K * s->line_length : TILE_K;
}

/* The next stage of the ring buffer. */
INLINED int next_stage(const int at) {
    return at == (STAGES - 1) * STAGE ? 0 : at + STAGE;
}

INLINED void copy_tile(__local uint4 *ring, ring_source *a, ring_source *b, int *written, int *left) {
    if (*left > 0) {
        copy_operand(ring, a, *written, *left, ACROSS_A, TILE_M);
        copy_operand(ring, b, *written, *left, ACROSS_B, TILE_N);
    }
    cp_async_commit();
    *left -= TILE_K;
    *written = next_stage(*written);
}

/* Waits for the oldest unread stage, for all items; the previously read one may be overwritten then. */
INLINED void wait_for_tile(void) {
    cp_async_wait(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* ---- Fragments ---- */

/* Addresses of an item's fragments in a tile. */
typedef struct fragment_places {
    int a[KINDS(ACROSS_A, WAVE_M)], b[KINDS(ACROSS_B, WAVE_N)];
} fragment_places;

INLINED void find_fragments(fragment_places *places, const int wave_row, const int wave_column, const int lane) {
    UNROLLED
    for (int i = 0; i < KINDS(ACROSS_A, WAVE_M); i++)
        places->a[i] = ACROSS_A ? PLACE(HIGH(lane), wave_row / 8 + i * 2 + HIGH_CHUNK(lane), CHUNKS(1, TILE_M))
                                : PLACE(wave_row + LOW(lane), i * 2 + LOW_CHUNK(lane), CHUNKS(0, TILE_M));
    UNROLLED
    for (int i = 0; i < KINDS(ACROSS_B, WAVE_N); i++)
        places->b[i] =
            BYTES(TILE_M) + (ACROSS_B ? PLACE(LOW(lane), wave_column / 8 + i * 2 + LOW_CHUNK(lane), CHUNKS(1, TILE_N))
                                      : PLACE(wave_column + HIGH(lane), i * 2 + HIGH_CHUNK(lane), CHUNKS(0, TILE_N)));
}

/* The fragments of a step of the tile at `read`. */
INLINED void read_fragments(uint (*down)[A_WORDS], uint (*over)[2 * B_WORDS], __local const uint4 *ring, const int read,
                            const fragment_places *places, const int step, const int lane,
                            __local int *ldmatrix_offsets) {
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        ldmatrix_x4(down[i], ring, read + places->a[KIND(ACROSS_A, i, step)] + AWAY(ACROSS_A, TILE_M, i, step),
                    ACROSS_A, lane);
    UNROLLED
    for (int j = 0; j < PIECES_N / 2; j++)
        ldmatrix_x4(over[j], ring, read + places->b[KIND(ACROSS_B, j, step)] + AWAY(ACROSS_B, TILE_N, j, step),
                    ACROSS_B, lane);
}

INLINED void multiply_accumulate(float (*sum)[PIECES_N][ACCUMULATORS], uint (*down)[A_WORDS], uint (*over)[2 * B_WORDS],
                                 const int lane, __local uint *mma_exchange) {
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        mma_sync(sum[i][j], down[i], over[j / 2] + j % 2 * B_WORDS, lane);
}

/* Stores two sums of row y, columns x and x + 1; only the first if `two` is 0. */
INLINED void store_pair(const tile_epilogue out, const float first, const float second, const INDEX y, const INDEX x,
                        const int two, const int by_two) {
    __global float *to = out.c + y * out.n + x;
    const float made = epilogue_of(out, first, y, x), next = two ? epilogue_of(out, second, y, x + 1) : 0.0f;
    if (by_two) {
        *(__global float2 *)to = (float2)(made, next);
    } else {
        to[0] = made;
        if (two)
            to[1] = next;
    }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_mma_multistage(TFM_TENSOR(float, c), TFM_INPUT(ushort, a), TFM_INPUT(ushort, b), TFM_INPUT(float, addend),
                    const long batch, const long m, const long n, const long k, const long split_k, const long chunk,
                    const long b_batch, const long addend_batch, const long addend_row, const long has_addend,
                    const float alpha) {
    /* NVIDIA's driver reserves 16 bytes before a kernel's local memory. Copies of 128 bytes that cross a line of local
     * memory take twice as long, and so did a whole GEMM on an H100. */
    __local uint4 ring[STAGES * STAGE / 16] __attribute__((aligned(128)));
    MMA_SCRATCH(ITEMS)
    LDMATRIX_SCRATCH
    const int id = (int)get_local_id(0), lane = id % LANES, wave = id / LANES;
    const int wave_row = wave / WAVES_N * WAVE_M, wave_column = wave % WAVES_N * WAVE_N;
    const output_tile tile = output_tile_of(batch, m, n);

    const INDEX first = (INDEX)(tile.part * chunk), stop = (INDEX)min(tile.part * chunk + chunk, k);
    const INDEX a_line = TRANSPOSE_A ? WHOLE(m) : WHOLE(k), b_line = TRANSPOSE_B ? WHOLE(k) : WHOLE(n);
    const int chunk_a = id % CHUNKS(ACROSS_A, TILE_M), line_a = id / CHUNKS(ACROSS_A, TILE_M);
    const int chunk_b = id % CHUNKS(ACROSS_B, TILE_N), line_b = id / CHUNKS(ACROSS_B, TILE_N);
    ring_source source_a = {
        TFM_AT(a) + (INDEX)tile.z * (TRANSPOSE_A ? (INDEX)k : (INDEX)m) * a_line + chunk_a * 8 +
            (TRANSPOSE_A ? (first + line_a) * a_line + tile.row : (tile.row + line_a) * a_line + first),
        a_line,
        PLACE(line_a, chunk_a, CHUNKS(ACROSS_A, TILE_M)),
        line_a,
        chunk_a,
        tile.rows};
    ring_source source_b = {
        TFM_AT(b) + (b_batch ? (INDEX)tile.z * (TRANSPOSE_B ? (INDEX)n : (INDEX)k) * b_line : 0) + chunk_b * 8 +
            (TRANSPOSE_B ? (tile.column + line_b) * b_line + first : (first + line_b) * b_line + tile.column),
        b_line,
        BYTES(TILE_M) + PLACE(line_b, chunk_b, CHUNKS(ACROSS_B, TILE_N)),
        line_b,
        chunk_b,
        tile.columns};
    fragment_places places;
    find_fragments(&places, wave_row, wave_column, lane);

    float sum[PIECES_M][PIECES_N][ACCUMULATORS];
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        UNROLLED
    for (int s = 0; s < ACCUMULATORS; s++)
        sum[i][j][s] = 0.0f;

    /* `left` steps are not requested yet. Fragments of a step are loaded while those of the previous one are
     * multiplied. */
    int left = (int)(stop - first), written = 0, read = 0, tiles_left = (left + TILE_K - 1) / TILE_K;
    uint down[2][PIECES_M][A_WORDS], over[2][PIECES_N / 2][2 * B_WORDS];
    UNROLLED
    for (int s = 0; s < STAGES - 1; s++)
        copy_tile(ring, &source_a, &source_b, &written, &left);
    wait_for_tile();
    read_fragments(down[0], over[0], ring, read, &places, 0, lane, ldmatrix_offsets);
    for (; tiles_left > 0; tiles_left--) {
        UNROLLED
        for (int s = 0; s < STEPS; s++) {
            if (s == STEPS - 1) { /* of the next tile, or, after the last, unused */
                wait_for_tile();
                read = next_stage(read);
            }
            read_fragments(down[(s + 1) % 2], over[(s + 1) % 2], ring, read, &places, (s + 1) % STEPS, lane,
                           ldmatrix_offsets);
            if (s == 0)
                copy_tile(ring, &source_a, &source_b, &written, &left);
            multiply_accumulate(sum, down[s % 2], over[s % 2], lane, mma_exchange);
        }
    }

    TILE_EPILOGUE(tile)
    const int by_two = n % 2 == 0 && c_offset % 2 == 0;
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        UNROLLED
    for (int s = 0; s < ACCUMULATORS; s += 2) {
        const int y = wave_row + i * MMA_M + D_ROW(lane, s);
        const int x = wave_column + j * MMA_N + D_COLUMN(lane, s);
        if (y < tile.rows && x < tile.columns)
            store_pair(out, sum[i][j][s], sum[i][j][s + 1], tile.row + y, tile.column + x, x + 1 < tile.columns,
                       by_two);
    }
}
