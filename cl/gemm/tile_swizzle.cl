/* Shared by gemm_gpu_tiled.cl, gemm_mma.cl and gemm_mma_multistage.cl, which define TILE_M, TILE_N and INDEX before.
 * Groups, in one dimension: tiles of c in bands of BAND tile rows, for cache reuse; for each matrix of the batch; for
 * each of `split_k` chunks of K, whose partial sums are stored one after the other in `c`. */
#define BAND 8

/* Force-inlined: sums must stay in registers. */
#define INLINED static inline __attribute__((always_inline))

/* The tile of c that a work-group computes. */
typedef struct output_tile {
    long z, part;      /* matrix of the batch, and K split */
    INDEX row, column; /* its origin in c, and its valid rows and columns */
    int rows, columns;
} output_tile;

INLINED output_tile output_tile_of(const long batch, const long m, const long n) {
    const int tiles_m = (int)((m + TILE_M - 1) / TILE_M), tiles_n = (int)((n + TILE_N - 1) / TILE_N);
    const long group = (long)get_group_id(0), tiles = (long)tiles_m * tiles_n;
    const int tile = (int)(group % tiles), band = tile / (BAND * tiles_n), in_band = tile % (BAND * tiles_n);
    const int band_rows = min(BAND, tiles_m - band * BAND);
    output_tile t;
    t.z = group / tiles % batch;
    t.part = group / tiles / batch;
    t.row = (INDEX)(band * BAND + in_band % band_rows) * TILE_M;
    t.column = (INDEX)(in_band / band_rows) * TILE_N;
    t.rows = (int)min((INDEX)TILE_M, (INDEX)m - t.row);
    t.columns = (int)min((INDEX)TILE_N, (INDEX)n - t.column);
    return t;
}

/* Epilogue: destination and post-processing of sums. */
typedef struct tile_epilogue {
    __global float *c;            /* of this matrix and split, rows of n */
    __global const float *addend; /* of this matrix, if has_addend */
    INDEX n, addend_row;
    int has_addend, whole; /* partial sums are stored unchanged */
    float alpha;
} tile_epilogue;

/* Declares it as `out`, from a kernel's parameters. */
#define TILE_EPILOGUE(tile)                                                                                            \
    const tile_epilogue out = {TFM_AT(c) +                                                                             \
                                   ((INDEX)(tile).part * (INDEX)batch + (INDEX)(tile).z) * (INDEX)m * (INDEX)n,        \
                               TFM_AT(addend) + (INDEX)(tile).z * (INDEX)addend_batch,                                 \
                               (INDEX)n,                                                                               \
                               (INDEX)addend_row,                                                                      \
                               has_addend != 0,                                                                        \
                               split_k == 1,                                                                           \
                               alpha};

/* The element of c in row y and column x, from its sum. */
INLINED float epilogue_of(const tile_epilogue out, const float sum, const INDEX y, const INDEX x) {
    const float add = out.has_addend ? out.addend[y * out.addend_row + x] : 0.0f;
    return out.whole ? tfm_activate(tfm_fma(out.alpha, sum, add)) : sum;
}
