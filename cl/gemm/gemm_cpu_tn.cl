/* GEMM with a transposed, for CPU-style devices: c (B, M, N) = activation(alpha a^T b + addend) with a (B, K, M), and b
 * packed in panels (gemm_cpu_tile.cl) or, if N is a multiple of panels, unpacked. Computes weight gradients, where a
 * and b are gradient and input of thousands of rows: c may be small and K large, so K is split, and other work-items
 * add the partial sums.
 *
 * An item computes a strip of STRIP rows of c. It takes a block of STEPS rows of a at a time: the strip's columns of
 * the block are packed to private memory, tile by tile as [STEPS][TFM_ROWS], and reused for all panels; a panel's block
 * of b is reused for all tiles. The sums of a block are added to the previous blocks' sums in c. */
#define A_SPACE __private
#define A_LINE(i, rows) (i)
#define A_ROW 1
#define A_STEP TFM_ROWS
#define B_LINE out->b_line
#include "gemm_epilogue.cl"
#include "half_load.cl"
#define PANEL_BF16 (LOAD_DTYPE == 2)
#include "gemm_cpu_pack.cl"
#include "gemm_cpu_tile.cl"

#ifndef TFM_TILES
#define TFM_TILES 4
#endif
#ifndef TFM_STEPS
#define TFM_STEPS 256
#endif
#define STRIP (TFM_TILES * TFM_ROWS)
/* Vectors that hold a line of a tile. The next line overwrites the excess of the last one. */
#define LINE_VECTORS ((TFM_ROWS + TFM_WIDTH - 1) / TFM_WIDTH)
#define TILE_FLOATS (TFM_STEPS * TFM_ROWS + TFM_WIDTH)

/* Fills `tiles` tiles from the rows of a at `from`, m apart, with `columns` floats of the strip each. sums += the sum
 * of those rows, block by block for accuracy. Vectors reach into the next row; the last ones of a, `left` floats before
 * its end, stay inside. */
static void strip_take(float *strip, float *sums, __global const float *from, long m, long left, int tiles, int steps,
                       int columns) {
    tfm_vec sum[TFM_TILES][LINE_VECTORS];
#pragma unroll
    for (int t = 0; t < TFM_TILES; t++)
#pragma unroll
        for (int j = 0; j < LINE_VECTORS; j++)
            sum[t][j] = (tfm_vec)(0.0f);
    for (int s = 0; s < steps; s++, from += m, left -= m)
#pragma unroll
        for (int t = 0; t < TFM_TILES; t++)
            if (t < tiles)
#pragma unroll
                for (int j = 0; j < LINE_VECTORS; j++) {
                    const int at = t * TFM_ROWS + j * TFM_WIDTH;
                    const tfm_vec v =
                        left >= STRIP + TFM_WIDTH ? tfm_load(from + at) : first_floats(from + at, columns - at);
                    tfm_store(v, strip + t * TILE_FLOATS + s * TFM_ROWS + j * TFM_WIDTH);
                    sum[t][j] += v;
                }
                /* All are read before the first is stored, because they overlap. */
#pragma unroll
    for (int t = 0; t < TFM_TILES; t++)
#pragma unroll
        for (int j = 0; j < LINE_VECTORS; j++)
            sum[t][j] += tfm_load(sums + t * TFM_ROWS + j * TFM_WIDTH);
#pragma unroll
    for (int t = 0; t < TFM_TILES; t++)
#pragma unroll
        for (int j = 0; j < LINE_VECTORS; j++)
            tfm_store(sum[t][j], sums + t * TFM_ROWS + j * TFM_WIDTH);
}

/* c (B parts, M, N): sums over `chunk` rows of a and b each. a_sums (B parts, M): null, or the column sums of a over
 * them, a bias gradient; accumulated if `add_sums`. b's matrices, panels and rows have strides b_batch, b_panel and
 * b_line.
 * Grid: ceil(M / STRIP) x groups of `group` panels x B parts. */
TFM_KERNEL void gemm_cpu_tn(TFM_TENSOR(float, c), TFM_TENSOR(float, a_sums), TFM_INPUT(float, a), TFM_INPUT(float, b),
                            TFM_INPUT(float, addend), const long m, const long n, const long k, const long group,
                            const long chunk, const long split_k, const long b_batch, const long b_panel,
                            const long b_line, const long addend_batch, const long addend_row, const long has_addend,
                            const long add_sums, const float alpha, const float min_value) {
    float strip[TFM_TILES * TILE_FLOATS], sums[STRIP + TFM_WIDTH];
    const long row = get_global_id(0) * STRIP, part = get_global_id(2), z = part / split_k;
    const long begin = part % split_k * chunk, end = min(begin + chunk, k);
    const long first_panel = get_global_id(1) * group;
    const long last_panel = min(first_panel + group, (n + TFM_PANEL - 1) / TFM_PANEL);
    const int columns = (int)min((long)STRIP, m - row), tiles = (columns + TFM_ROWS - 1) / TFM_ROWS;
    for (int i = 0; i < STRIP + TFM_WIDTH; i++)
        sums[i] = 0.0f;
    for (long first = begin; first < end; first += TFM_STEPS) {
        const int steps = (int)min((long)TFM_STEPS, end - first);
        const long left = (k - first) * m - row;
        strip_take(strip, sums, TFM_AT(a) + (z * k + first) * m + row, m, left, tiles, steps, columns);
        for (long panel = first_panel; panel < last_panel; panel++)
            for (int t = 0; t < tiles; t++) {
                const long at = row + t * TFM_ROWS, column = panel * TFM_PANEL;
                __global float *to = TFM_AT(c) + (part * m + at) * n + column;
                const tile_out out = {
                    to,
                    first > begin ? to
                    : has_addend  ? TFM_AT(addend) + z * addend_batch + at * addend_row + column
                                  : 0,
                    n,
                    first > begin ? n : addend_row,
                    b_line,
                    min(TFM_ROWS, columns - t * TFM_ROWS),
                    (int)min((long)TFM_PANEL, n - column),
                    alpha,
                    first + steps < end ? -INFINITY : min_value,
                };
                __global const float *line = TFM_AT(b) + z * b_batch + panel * b_panel + first * b_line;
                RUN_TILE(&out, strip + t * TILE_FLOATS, line, steps)
            }
    }
    if (a_sums != 0 && first_panel == 0)
        for (int i = 0; i < columns; i++) {
            __global float *to = TFM_AT(a_sums) + part * m + row + i;
            *to = add_sums ? *to + sums[i] : sums[i];
        }
}
