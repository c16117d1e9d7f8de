/* Where a work-group of the tile kernels stands: shared by gemm_tiled.cl and gemm_engine.cl, which define TILE_M,
 * TILE_N and INDEX before. Groups, in one dimension: the tiles of c in bands of BAND rows of tiles, for the caches'
 * sake; of each matrix of the batch; of each of `parts` cuts of K into chunks, whose sums go to `c` one after the
 * other. */
#define BAND 8

/* Declares the matrix z of the batch, the part, the tile's first row and column in c, and how many it has of them. */
#define GEMM_PLACE                                                                                                     \
    const int tiles_m = (int)((m + TILE_M - 1) / TILE_M), tiles_n = (int)((n + TILE_N - 1) / TILE_N);                  \
    const long group = (long)get_group_id(0), tiles = (long)tiles_m * tiles_n, z = group / tiles % batch;              \
    const long part = group / tiles / batch;                                                                           \
    const int tile = (int)(group % tiles), band = tile / (BAND * tiles_n), in_band = tile % (BAND * tiles_n);          \
    const int band_rows = min(BAND, tiles_m - band * BAND);                                                            \
    const INDEX row = (INDEX)(band * BAND + in_band % band_rows) * TILE_M;                                             \
    const INDEX column = (INDEX)(in_band / band_rows) * TILE_N;                                                        \
    const int rows = (int)min((INDEX)TILE_M, (INDEX)m - row), columns = (int)min((INDEX)TILE_N, (INDEX)n - column);
