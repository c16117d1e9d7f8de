/* Epilogue of CPU tiles: shared by gemm_cpu_tile.cl, gemm_cpu_bf16.cl and gemm_cpu_amx.cl. A tile is TFM_ROWS rows of c
 * by TFM_PANEL columns, and its sums stay in registers along K.
 *
 * Build options: TFM_ROWS, TFM_PART_ROWS (rows of the tile at the lower edge), TFM_VECTORS and TFM_ACTIVATION. */
#ifndef TFM_ROWS
#define TFM_ROWS 12
#endif
#ifndef TFM_PART_ROWS
#define TFM_PART_ROWS 8
#endif
#ifndef TFM_VECTORS
#define TFM_VECTORS 2
#endif
#define TFM_PANEL (TFM_VECTORS * TFM_WIDTH)

/* Destination of a tile: rows x width of c exist; the addend is a bias (addend_row 0) or c itself; and b's row stride,
 * for texts that use it as B_LINE. */
typedef struct tile_out {
    __global float *c;
    __global const float *addend; /* or 0 */
    long n, addend_row, b_line;
    int rows, width;
    float alpha, min_value;
} tile_out;

/* activation(alpha sum + addend), at least `least`: 0 for ReLU, -inf otherwise, so that one program serves the two
 * cheap activations. NaN stays NaN. */
static inline tfm_vec finished(const tile_out *out, tfm_vec sum, tfm_vec addend) {
    tfm_vec v = tfm_fma((tfm_vec)(out->alpha), sum, addend);
    v = v < (tfm_vec)(out->min_value) ? (tfm_vec)(out->min_value) : v;
    return tfm_activate_vec(v);
}

/* A vector of `count` floats of `from`, zero-padded. */
static inline tfm_vec first_floats(__global const float *from, int count) {
    float part[TFM_WIDTH];
    for (int x = 0; x < TFM_WIDTH; x++)
        part[x] = x < count ? from[x] : 0.0f;
    return tfm_load(part);
}

/* Epilogue of a tile that crosses the right edge of c, or has an activation too long to be unrolled. */
static void store_tile(const tile_out *out, const tfm_vec *sums) {
    for (int j = 0; j < TFM_VECTORS && j * TFM_WIDTH < out->width; j++) {
        const int columns = min(out->width - j * TFM_WIDTH, TFM_WIDTH);
#pragma unroll 1
        for (int i = 0; i < out->rows; i++) {
            __global float *to = out->c + i * out->n + j * TFM_WIDTH;
            __global const float *more = out->addend + i * out->addend_row + j * TFM_WIDTH;
            const tfm_vec sum = sums[i * TFM_VECTORS + j];
            if (columns == TFM_WIDTH) {
                tfm_store(finished(out, sum, out->addend ? tfm_load(more) : (tfm_vec)(0.0f)), to);
                continue;
            }
            float part[TFM_WIDTH];
            tfm_store(finished(out, sum, first_floats(more, out->addend ? columns : 0)), part);
            for (int x = 0; x < columns; x++)
                to[x] = part[x];
        }
    }
}

#define UNROLL _Pragma("unroll")

/* Epilogue of R rows of sums, sum[R][TFM_VECTORS], in registers: `sums` is a second array, because an array that is
 * indexed by a variable would be in memory. */
#define FINISH_TILE(R, out, sum)                                                                                       \
    if ((out)->width == TFM_PANEL && TFM_ACTIVATION <= 1) {                                                            \
        _Pragma("unroll") for (int i = 0; i < R; i++) if (i < (out)->rows)                                             \
            _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) {                                                  \
            __global const float *more = (out)->addend + i * (out)->addend_row + j * TFM_WIDTH;                        \
            const tfm_vec add = (out)->addend ? tfm_load(more) : (tfm_vec)(0.0f);                                      \
            tfm_store(finished(out, sum[i][j], add), (out)->c + i * (out)->n + j * TFM_WIDTH);                         \
        }                                                                                                              \
    } else {                                                                                                           \
        tfm_vec sums[R * TFM_VECTORS];                                                                                 \
        _Pragma("unroll") for (int i = 0; i < R; i++) _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++)          \
            sums[i * TFM_VECTORS + j] = sum[i][j];                                                                     \
        store_tile(out, sums);                                                                                         \
    }
