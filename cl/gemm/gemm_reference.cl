/* Reference GEMM for every device: c (B, M, N) = activation(alpha a b + addend), any strides of a, b and the addend,
 * which is a bias, or c itself.
 *
 * A work-group computes TILE_M x TILE_N of c, in steps of TILE_K along K that are staged in local memory; each item
 * holds ITEM_M x ITEM_N of it. Items own every LY-th row and every LX-th column, so that neighbors access neighboring
 * words of local memory and of c. Work-group: LX x LY = TILE_N / ITEM_N x TILE_M / ITEM_M, down to 1 x 1. Grid: tiles
 * of N x tiles of M x B, the last two in loops if they exceed the grid. The host has the tile sizes
 * (lib/ops/gemm/gemm_reference.c). b may be fp16 or bf16 (half_load.cl). */
#include "half_load.cl"
#ifndef TILE_M /* as the gemm_epilogue program is built, for any group and few registers */
#define TILE_M 4
#define TILE_N 4
#define TILE_K 16
#define ITEM_M 4
#define ITEM_N 4
#endif
#define LX (TILE_N / ITEM_N)
#define LY (TILE_M / ITEM_M)
#define ITEMS (LX * LY)

__kernel __attribute__((reqd_work_group_size(LX, LY, 1))) void
gemm_reference(TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(load_t, b), TFM_INPUT(float, addend),
               const long batch, const long m, const long n, const long k, const long a_batch, const long a_row,
               const long a_column, const long b_batch, const long b_row, const long b_column, const long addend_batch,
               const long addend_row, const long has_addend, const float alpha) {
    __local float a_tile[TILE_K][TILE_M + 1]; /* + 1: against bank conflicts */
    __local float b_tile[TILE_K][TILE_N + 1];
    const int x = get_local_id(0), y = get_local_id(1), id = y * LX + x;
    const long column = (long)get_group_id(0) * TILE_N;
    const long row_step = (long)get_num_groups(1) * TILE_M;
    const int columns = (int)min((long)TILE_N, n - column);
    /* Both loops in one, over (z, row): the same number of iterations for all items of a group, because of the barriers
     * inside. */
    const long rows_each = (m + row_step - 1) / row_step;
    const long turns = rows_each * ((batch + get_num_groups(2) - 1) / get_num_groups(2));
    for (long turn = 0; turn < turns; turn++) {
        const long z = get_group_id(2) + turn / rows_each * get_num_groups(2);
        const long row = (long)get_group_id(1) * TILE_M + turn % rows_each * row_step;
        if (z >= batch || row >= m)
            continue;
        const int rows = (int)min((long)TILE_M, m - row);
        __global const float *from_a = TFM_AT(a) + z * a_batch + row * a_row;
        __global const load_t *from_b = TFM_AT(b) + z * b_batch + column * b_column;
        float sum[ITEM_M][ITEM_N];
#pragma unroll
        for (int i = 0; i < ITEM_M; i++)
#pragma unroll
            for (int j = 0; j < ITEM_N; j++)
                sum[i][j] = 0.0f;
        for (long start = 0; start < k; start += TILE_K) {
            const int depth = (int)min((long)TILE_K, k - start);
            /* Neighboring items read neighboring words: along the stride of 1. */
            for (int e = id; e < TILE_M * TILE_K; e += ITEMS) {
                const int i = a_column == 1 ? e / TILE_K : e % TILE_M;
                const int s = a_column == 1 ? e % TILE_K : e / TILE_M;
                a_tile[s][i] = i < rows && s < depth ? from_a[i * a_row + (start + s) * a_column] : 0.0f;
            }
            for (int e = id; e < TILE_N * TILE_K; e += ITEMS) {
                const int j = b_row == 1 ? e / TILE_K : e % TILE_N;
                const int s = b_row == 1 ? e % TILE_K : e / TILE_N;
                b_tile[s][j] =
                    j < columns && s < depth ? load_as_float(from_b + (start + s) * b_row + j * b_column) : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int s = 0; s < TILE_K; s++) {
                float left[ITEM_M], right[ITEM_N];
#pragma unroll
                for (int i = 0; i < ITEM_M; i++)
                    left[i] = a_tile[s][y + i * LY];
#pragma unroll
                for (int j = 0; j < ITEM_N; j++)
                    right[j] = b_tile[s][x + j * LX];
#pragma unroll
                for (int i = 0; i < ITEM_M; i++)
#pragma unroll
                    for (int j = 0; j < ITEM_N; j++)
                        sum[i][j] = tfm_fma(left[i], right[j], sum[i][j]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll
        for (int i = 0; i < ITEM_M; i++)
#pragma unroll
            for (int j = 0; j < ITEM_N; j++) {
                const int r = y + i * LY, q = x + j * LX;
                if (r < rows && q < columns) {
                    const long more = z * addend_batch + (row + r) * addend_row + column + q;
                    const float add = has_addend ? TFM_AT(addend)[more] : 0.0f;
                    const long at = (z * m + row + r) * n + column + q;
                    TFM_AT(c)[at] = tfm_activate(tfm_fma(alpha, sum[i][j], add));
                }
            }
    }
}

/* c (R, N) = activation(c + bias) in place, after a GEMM without epilogue. Grid: tfm__element_grid. */
TFM_KERNEL void gemm_epilogue(TFM_TENSOR(float, c), TFM_INPUT(float, bias), const long count, const long n,
                              const long has_bias) {
    const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, count);
    for (long i = first; i < end; i++) {
        const float add = has_bias ? TFM_AT(bias)[i % n] : 0.0f;
        TFM_AT(c)[i] = tfm_activate(TFM_AT(c)[i] + add);
    }
}
