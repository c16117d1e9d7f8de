/* GEMM by matrix engines that have the copies of matrix_copies.cl: what gemm_engine.cl computes, of operands that lie
 * in 16 bits in global memory, so that nothing passes through registers on its way to local memory. An operand of
 * floats is rounded beforehand, by gemm_ring_round.
 *
 * A work-group computes TILE_M x TILE_N of c in steps of TILE_K of the inner dimension; each of its waves WAVE_M x
 * WAVE_N of that. Local memory holds STAGES tiles of both operands, a ring: while the products of one are added up, the
 * next ones are on their way. Lines of a tile are those of global memory, in chunks of 8 numbers: along the inner
 * dimension, or, of operands whose lines are across, TILE_K lines, which are turned as fragments are read. The chunks
 * of a line are in an order of its own, so that 8 lines' chunks of one place lie in different banks.
 *
 * Lines in global memory have whole chunks, with zeros after the end. TURNED_A, TURNED_B, INDEX, the arguments and the
 * grid, of ITEMS items a group, are those of gemm_engine.cl. The host gives the sizes (lib/ops/gemm_engine.c). */
#ifndef TILE_M
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define WAVE_M 32
#define WAVE_N 32
#define STAGES 3
#define INDEX long
#define TURNED_A 0
#define TURNED_B 0
#endif
#include "gemm_place.cl"
#include "matrix_engine.cl"
#define WAVES_N (TILE_N / WAVE_N)
#define ITEMS (TILE_M / WAVE_M * WAVES_N * LANES)
#include "matrix_copies.cl"

#define PIECES_M (WAVE_M / ENGINE_M)
#define PIECES_N (WAVE_N / ENGINE_N)
#define STEPS (TILE_K / ENGINE_K)
#if STEPS % 2 || PIECES_N % 2
#error "fragments of steps alternate, and those of b are read by two"
#endif

/* Of an operand whose lines are across, or not: chunks of a line; bytes from a tile's beginning to a chunk of a line;
 * rounds of copies, each of ITEMS chunks. */
#define CHUNKS(across, tile) ((across) ? (tile) / 8 : TILE_K / 8)
#define ORDER(line, chunks) ((chunks) >= 8 ? (line)&7 : (line) / (8 / (chunks)) & ((chunks)-1))
#define PLACE(line, chunk, chunks) (((line) * (chunks) + ((chunk) ^ ORDER(line, chunks))) * 16)
#define ROUNDS(tile) ((tile) * (TILE_K / 8) / ITEMS)
#define BYTES(tile) ((tile)*TILE_K * 2)
#define STAGE (BYTES(TILE_M) + BYTES(TILE_N))
#define ACROSS_A TURNED_A
#define ACROSS_B (!TURNED_B)
/* Lines between two rounds' chunks of an item. */
#define APART(across, tile) (ITEMS / CHUNKS(across, tile))

/* Numbers of a line with whole chunks. */
#define WHOLE(line) (((INDEX)(line) + 7) / 8 * 8)

/* Places of fragments: those of 16 x 16 numbers that begin at row or column `first` and at step 0. Lanes say the first
 * of 8 rows of one of 4 matrices: LOW of them are the upper two and then the lower two, and the other way round. Those
 * of other pieces and steps are constants away, but for the order of chunks. */
#define LOW(lane) ((lane) % 16)
#define LOW_CHUNK(lane) ((lane) / 16)
#define HIGH(lane) ((lane) % 8 + (lane) / 16 * 8)
#define HIGH_CHUNK(lane) ((lane) / 8 % 2)
#define KINDS(across, wave) ((across) ? (wave) / 16 : STEPS)
#define KIND(across, piece, step) ((across) ? (piece) : (step))
#define AWAY(across, tile, piece, step)                                                                                \
    ((across) ? (step)*16 * CHUNKS(1, tile) * 16 : (piece)*16 * CHUNKS(0, tile) * 16)

/* Floats to 16 bits: `lines` of `line` numbers each. One item makes a chunk. */
__kernel void gemm_ring_round(TFM_TENSOR(ushort, rounded), TFM_INPUT(float, from), const long lines, const long line) {
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
    *((__global uint4 *)TFM_AT(rounded) + i) = (uint4)(engine_word(low.x, low.y), engine_word(low.z, low.w),
                                                       engine_word(high.x, high.y), engine_word(high.z, high.w));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_ring(TFM_TENSOR(float, c), TFM_INPUT(ushort, a), TFM_INPUT(ushort, b), TFM_INPUT(float, addend), const long batch,
          const long m, const long n, const long k, const long parts, const long chunk, const long b_batch,
          const long addend_batch, const long addend_row, const long has_addend, const float alpha) {
    /* NVIDIA's driver has 16 bytes of its own before a kernel's. A copy of 128 bytes that then lies across two lines of
     * local memory takes twice as long, and so did a whole product on an H100. */
    __local uint4 ring[STAGES * STAGE / 16] __attribute__((aligned(128)));
    ENGINE_SCRATCH(ITEMS)
    RING_SCRATCH
    const int id = (int)get_local_id(0), lane = id % LANES, wave = id / LANES;
    const int wave_row = wave / WAVES_N * WAVE_M, wave_column = wave % WAVES_N * WAVE_N;
    GEMM_PLACE

    /* The chunk and line of an item's first copy, and where they lie. */
    const INDEX first = (INDEX)(part * chunk), stop = (INDEX)min(part * chunk + chunk, k);
    const INDEX a_line = TURNED_A ? WHOLE(m) : WHOLE(k), b_line = TURNED_B ? WHOLE(k) : WHOLE(n);
    const int chunk_a = id % CHUNKS(ACROSS_A, TILE_M), line_a = id / CHUNKS(ACROSS_A, TILE_M);
    const int chunk_b = id % CHUNKS(ACROSS_B, TILE_N), line_b = id / CHUNKS(ACROSS_B, TILE_N);
    const int to_a = PLACE(line_a, chunk_a, CHUNKS(ACROSS_A, TILE_M));
    const int to_b = BYTES(TILE_M) + PLACE(line_b, chunk_b, CHUNKS(ACROSS_B, TILE_N));
    __global const ushort *from_a = TFM_AT(a) + (INDEX)z * (TURNED_A ? (INDEX)k : (INDEX)m) * a_line + chunk_a * 8 +
                                    (TURNED_A ? (first + line_a) * a_line + row : (row + line_a) * a_line + first);
    __global const ushort *from_b =
        TFM_AT(b) + (b_batch ? (INDEX)z * (TURNED_B ? (INDEX)n : (INDEX)k) * b_line : 0) + chunk_b * 8 +
        (TURNED_B ? (column + line_b) * b_line + first : (first + line_b) * b_line + column);

    int place_a[KINDS(ACROSS_A, WAVE_M)], place_b[KINDS(ACROSS_B, WAVE_N)];
    UNROLLED
    for (int i = 0; i < KINDS(ACROSS_A, WAVE_M); i++)
        place_a[i] = ACROSS_A ? PLACE(HIGH(lane), wave_row / 8 + i * 2 + HIGH_CHUNK(lane), CHUNKS(1, TILE_M))
                              : PLACE(wave_row + LOW(lane), i * 2 + LOW_CHUNK(lane), CHUNKS(0, TILE_M));
    UNROLLED
    for (int i = 0; i < KINDS(ACROSS_B, WAVE_N); i++)
        place_b[i] =
            BYTES(TILE_M) + (ACROSS_B ? PLACE(LOW(lane), wave_column / 8 + i * 2 + LOW_CHUNK(lane), CHUNKS(1, TILE_N))
                                      : PLACE(wave_column + HIGH(lane), i * 2 + HIGH_CHUNK(lane), CHUNKS(0, TILE_N)));

    float sum[PIECES_M][PIECES_N][SUMS];
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        UNROLLED
    for (int s = 0; s < SUMS; s++)
        sum[i][j][s] = 0.0f;

    /* `left` steps have not been asked for yet: zeros come after them, of both, since 0 times what is there may be
     * NaN. */
    int left = (int)(stop - first), written = 0, read = 0;
#define COPY(from, to, across, tile, line, at, lines, line_length)                                                     \
    UNROLLED                                                                                                           \
    for (int u = 0; u < ROUNDS(tile); u++)                                                                             \
        ring_copy(ring, written + (to) + u * ITEMS * 16, (from) + u * APART(across, tile) * (line_length),             \
                  (across) ? (line) + u * APART(across, tile) < left && (at)*8 < (lines)                               \
                           : (line) + u * APART(across, tile) < (lines) && (at)*8 < left);                             \
    (from) += (across) ? TILE_K * (line_length) : TILE_K;
#define COPY_TILE                                                                                                      \
    if (left > 0) {                                                                                                    \
        COPY(from_a, to_a, ACROSS_A, TILE_M, line_a, chunk_a, rows, a_line)                                            \
        COPY(from_b, to_b, ACROSS_B, TILE_N, line_b, chunk_b, columns, b_line)                                         \
    }                                                                                                                  \
    ring_group();                                                                                                      \
    left -= TILE_K;                                                                                                    \
    written = written == (STAGES - 1) * STAGE ? 0 : written + STAGE;
    /* Fragments of a step of the tile at `read`. */
    uint down[2][PIECES_M][A_WORDS], over[2][PIECES_N / 2][2 * B_WORDS];
#define READ(step)                                                                                                     \
    UNROLLED                                                                                                           \
    for (int i = 0; i < PIECES_M; i++)                                                                                 \
        ring_read(down[(step) % 2][i], ring,                                                                           \
                  read + place_a[KIND(ACROSS_A, i, step)] + AWAY(ACROSS_A, TILE_M, i, step), ACROSS_A, lane);          \
    UNROLLED                                                                                                           \
    for (int j = 0; j < PIECES_N / 2; j++)                                                                             \
        ring_read(over[(step) % 2][j], ring,                                                                           \
                  read + place_b[KIND(ACROSS_B, j, step)] + AWAY(ACROSS_B, TILE_N, j, step), ACROSS_B, lane);
    /* The oldest tile of the ring that was not read has come, of all items, and what was read before may be written
     * over. */
#define ARRIVE                                                                                                         \
    ring_wait(STAGES - 2);                                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);

    int tiles_left = (left + TILE_K - 1) / TILE_K;
    UNROLLED
    for (int s = 0; s < STAGES - 1; s++) {
        COPY_TILE
    }
    ARRIVE
    READ(0)
    for (; tiles_left > 0; tiles_left--) {
        UNROLLED
        for (int s = 0; s < STEPS; s++) {
            if (s < STEPS - 1) {
                READ(s + 1)
            } else { /* of the next tile, or after the last one of nothing that is used */
                ARRIVE
                read = read == (STAGES - 1) * STAGE ? 0 : read + STAGE;
                READ(0)
            }
            if (s == 0) {
                COPY_TILE
            }
            UNROLLED
            for (int i = 0; i < PIECES_M; i++)
                UNROLLED
            for (int j = 0; j < PIECES_N; j++)
                engine_multiply(sum[i][j], down[s % 2][i], over[s % 2][j / 2] + j % 2 * B_WORDS, lane);
        }
    }

    /* A part of a sum goes to its place as it is. Two sums are neighbours in c, and written at once where they can be.
     */
    const int whole = parts == 1;
    __global float *to = TFM_AT(c) + ((INDEX)part * (INDEX)batch + (INDEX)z) * (INDEX)m * (INDEX)n;
    __global const float *more = TFM_AT(addend) + (INDEX)z * (INDEX)addend_batch;
    const int by_two = n % 2 == 0 && c_offset % 2 == 0;
    UNROLLED
    for (int i = 0; i < PIECES_M; i++)
        UNROLLED
    for (int j = 0; j < PIECES_N; j++)
        UNROLLED
    for (int s = 0; s < SUMS; s += 2) {
        const int below = wave_row + i * ENGINE_M + D_ROW(lane, s);
        const int beside = wave_column + j * ENGINE_N + D_COLUMN(lane, s);
        if (below < rows && beside < columns) {
            const INDEX y = row + below, x = column + beside;
            const int two = beside + 1 < columns;
            float2 made = (float2)(sum[i][j][s], sum[i][j][s + 1]), add = (float2)(0.0f);
            if (has_addend) {
                add.x = more[y * (INDEX)addend_row + x];
                if (two)
                    add.y = more[y * (INDEX)addend_row + x + 1];
            }
            if (whole) {
                made.x = tfm_activate(tfm_fma(alpha, made.x, add.x));
                made.y = tfm_activate(tfm_fma(alpha, made.y, add.y));
            }
            __global float *at = to + y * (INDEX)n + x;
            if (by_two) {
                *(__global float2 *)at = made;
            } else {
                at[0] = made.x;
                if (two)
                    at[1] = made.y;
            }
        }
    }
}
