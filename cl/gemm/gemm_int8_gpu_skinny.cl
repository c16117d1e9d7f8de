/* Linear layers of few rows with int8 weights, as in decode, on GPU-style devices: c (M, N) = activation(x w^T + bias),
 * quantized as in cl/gemm/gemm_int8.cl, bound by reading w.
 *
 * With DEPTH 0 the rows of x are quantized beforehand: a and row_scales. Else each work-group quantizes its rows
 * itself, in local memory of DEPTH bytes a row, which is cheaper than another launch; DEPTH is a multiple of K_PADDING,
 * and at least PADDED_K(K).
 *
 * Layout: as cl/gemm/gemm_gpu_skinny.cl. TEAMS teams of LANES work-items; a team has ROWS rows and 4 columns: its items
 * read 16 consecutive bytes each of a row, coalesced, and add up partial sums, which are reduced in local memory.
 * SLICED_K teams share the same columns, as there. Groups in one dimension: all column blocks for the first ROWS rows,
 * and so on. */
#include "int8_common.cl"
#include "dp4a.cl"
#ifndef ROWS
#define ROWS 8
#define DEPTH 0
#endif
#ifndef SLICED_K
#define SLICED_K 1
#endif
#define LANES 32
#define TEAMS 4
#define ITEMS (LANES * TEAMS)
#define COLUMNS (4 * TEAMS / SLICED_K)
#define SUMS (ROWS * 4)

/* Local memory: the items' sums, a line of ITEMS for each of SUMS, padded by one against bank conflicts; before that
 * the quantized rows. */
#define SUMS_LINE (ITEMS + 1)
#define LAST (SLICED_K > 1 ? SLICED_K : LANES) /* sums left to add for a row and column at the end */
#define WORDS (ROWS * DEPTH / 4)
#define INTS (SUMS * SUMS_LINE > WORDS ? SUMS * SUMS_LINE : WORDS)

/* The sum of `count` elements. */
static inline int line_sum(__local const int *from, const int count) {
    int sum = 0;
    for (int l = 0; l < count; l++)
        sum += from[l];
    return sum;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_int8_gpu_skinny(TFM_TENSOR(float, c), TFM_INPUT(float, x), TFM_INPUT(char, a), TFM_INPUT(float, row_scales),
                     TFM_INPUT(char, q), TFM_INPUT(float, scales), TFM_INPUT(float, bias), const long m, const long n,
                     const long k, const long has_bias) {
    __local int local_ints[INTS] __attribute__((aligned(16)));
    const int id = (int)get_local_id(0), lane = id % LANES, team = id / LANES;
    const int width = (int)n, depth = (int)k, blocks = (width + COLUMNS - 1) / COLUMNS;
    const int block = (int)(get_group_id(0) % blocks), row = (int)(get_group_id(0) / blocks) * ROWS;
    const int rows = min(ROWS, (int)m - row);

#if DEPTH
    __local int most[ITEMS];
    __local float own_scales[ROWS];
    for (int turn = 0; turn < (ROWS + TEAMS - 1) / TEAMS; turn++) { /* a row for each team */
        const int r = turn * TEAMS + team;
        __global const float *from = TFM_AT(x) + (long)(row + min(r, rows - 1)) * depth;
        int bits = 0;
        float inverse;
        for (int s = lane * 4; s < depth; s += LANES * 4)
            bits = max(bits, abs_max_bits(load_floats4(from + s, depth - s)));
        const float step = quantization_scale(team_max(bits, most, id, LANES), &inverse);
        if (r < ROWS) {
            for (int s = lane * 4; s < PADDED_K(depth); s += LANES * 4)
                local_ints[(r * DEPTH + s) / 4] = quantize4(load_floats4(from + s, depth - s), inverse);
            if (lane == 0)
                own_scales[r] = step;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#define X(r, s) (*(__local const int4 *)(local_ints + ((r)*DEPTH + (s)) / 4))
#define ROW_SCALE(r) own_scales[r]
#else
    __global const char *in = TFM_AT(a) + (long)row * PADDED_K(depth);
    __global const float *in_scales = TFM_AT(row_scales) + row;
#define X(r, s) (*(__global const int4 *)(in + min(r, rows - 1) * PADDED_K(depth) + (s)))
#define ROW_SCALE(r) in_scales[r]
#endif

    /* Rows and columns beyond the last are copies of the last, and are not stored. */
    __global const char *line[4];
    int acc[SUMS];
#pragma unroll
    for (int j = 0; j < 4; j++)
        line[j] = TFM_AT(q) + (long)min(block * COLUMNS + team / SLICED_K * 4 + j, width - 1) * depth;
#pragma unroll
    for (int e = 0; e < SUMS; e++)
        acc[e] = 0;
    for (int s = (team % SLICED_K * LANES + lane) * 16; s < depth; s += SLICED_K * LANES * 16) {
        const int4 w0 = load_bytes16(line[0] + s, depth - s), w1 = load_bytes16(line[1] + s, depth - s);
        const int4 w2 = load_bytes16(line[2] + s, depth - s), w3 = load_bytes16(line[3] + s, depth - s);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int4 v = X(r, s);
            acc[r * 4] = dp4a_x4(v, w0, acc[r * 4]);
            acc[r * 4 + 1] = dp4a_x4(v, w1, acc[r * 4 + 1]);
            acc[r * 4 + 2] = dp4a_x4(v, w2, acc[r * 4 + 2]);
            acc[r * 4 + 3] = dp4a_x4(v, w3, acc[r * 4 + 3]);
        }
    }

    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int e = 0; e < SUMS; e++)
        local_ints[e * SUMS_LINE + id] = acc[e];
    barrier(CLK_LOCAL_MEM_FENCE);
#if SLICED_K > 1
    const int mine = id % SUMS * SUMS_LINE, its = id / SUMS;
    const int team_total = id < SUMS * TEAMS ? line_sum(local_ints + mine + its * LANES, LANES) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < SUMS * TEAMS)
        local_ints[mine + its] = team_total;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    for (int e = id; e < rows * COLUMNS; e += ITEMS) {
        const int r = e / COLUMNS, j = e % COLUMNS, column = block * COLUMNS + j;
        if (column >= width)
            continue;
        const int sum = line_sum(local_ints + (r * 4 + j % 4) * SUMS_LINE + j / 4 * LAST, LAST);
        const float scale = ROW_SCALE(r) * TFM_AT(scales)[column];
        TFM_AT(c)
        [(long)(row + r) * width + column] =
            tfm_activate(tfm_fma((float)sum, scale, has_bias ? TFM_AT(bias)[column] : 0.0f));
    }
}
