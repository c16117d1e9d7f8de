/* GEMM for WIDE devices: c (B, M, N) = activation(alpha a b + addend), b packed in panels; the addend is a bias, or c itself.
 *
 * A panel is TFM_PANEL = TFM_VECTORS * TFM_WIDTH columns of b, laid out [K][TFM_PANEL], so that the inner
 * loop reads it in one stream; the last panel is filled up with zeros. A work-group is one item; it computes
 * TFM_ROWS x TFM_PANEL of c in registers. Rows of a are read where they lie: packing them too gained nothing
 * on AVX-512 and costs a pass. A transposed a, whose rows are far apart, is packed by gemm_pack_a, in tiles of
 * TFM_ROWS laid out [K][TFM_ROWS].
 *
 * Given by the host: TFM_ROWS, TFM_HALF_ROWS (their half), TFM_VECTORS, TFM_ACTIVATION, and TFM_A_TRANSPOSED if a
 * is (B, K, M), TFM_A_PACKED if it is packed. TFM_ROWS and its half are none of 1, 2, 4, 8, which gemm_small defines. */
#ifndef TFM_ROWS
#define TFM_ROWS 12
#endif
#ifndef TFM_VECTORS
#define TFM_VECTORS 2
#endif
#ifndef TFM_HALF_ROWS
#define TFM_HALF_ROWS 6
#endif
#define TFM_PANEL (TFM_VECTORS * TFM_WIDTH)

/* Row i of a tile of which `rows` exist, what lies between rows, and element s of a row. */
#if defined(TFM_A_PACKED)
#define A_ROW(m, k) 1
#define A_LINE(i, rows) (i)
#define A_AT(row, s) row[(s) * (long)TFM_ROWS]
#elif defined(TFM_A_TRANSPOSED)
#define A_ROW(m, k) 1
#define A_LINE(i, rows) min(i, (rows) - 1)
#define A_AT(row, s) row[(s) * (long)m]
#else
#define A_ROW(m, k) (k)
#define A_LINE(i, rows) min(i, (rows) - 1)
#define A_AT(row, s) row[s]
#endif

/* packed (B, ceil(N / TFM_PANEL), K, TFM_PANEL) from b with b[z][i][j] at z b_batch + i b_row + j b_column.
 * Grid: panels x blocks of `block` rows x B. */
TFM_KERNEL void gemm_pack(TFM_TENSOR(float, packed), TFM_INPUT(float, b), const long n, const long k,
                          const long block, const long b_batch, const long b_row, const long b_column) {
    const long panel = get_global_id(0), z = get_global_id(2);
    const long first = get_global_id(1) * block, last = min(first + block, k);
    const long panels = get_global_size(0), column = panel * TFM_PANEL;
    const int width = (int)min((long)TFM_PANEL, n - column);
    __global float *to = TFM_AT(packed) + (z * panels + panel) * k * TFM_PANEL;
    __global const float *from = TFM_AT(b) + z * b_batch + column * b_column;
    if (width == TFM_PANEL && b_column == 1) {
        for (long i = first; i < last; i++)
            for (int j = 0; j < TFM_VECTORS; j++)
                tfm_store(tfm_load(from + i * b_row + j * TFM_WIDTH), to + i * TFM_PANEL + j * TFM_WIDTH);
        return;
    }
    for (long i = first; i < last; i++)
        for (int j = 0; j < TFM_PANEL; j++)
            to[i * TFM_PANEL + j] = j < width ? from[i * b_row + j * b_column] : 0.0f;
}

/* packed (B, ceil(M / TFM_ROWS), K, TFM_ROWS) from a (B, K, M). Grid: tiles x blocks of `block` of K x B. What a
 * vector stores too much the next one overwrites, but for the last. */
TFM_KERNEL void gemm_pack_a(TFM_TENSOR(float, packed), TFM_INPUT(float, a), const long m, const long k,
                            const long block) {
    const long tile = get_global_id(0), z = get_global_id(2), tiles = get_global_size(0);
    const long first = get_global_id(1) * block, last = min(first + block, k), column = tile * TFM_ROWS;
    const int width = (int)min((long)TFM_ROWS, m - column);
    const int whole = column + (TFM_ROWS + TFM_WIDTH - 1) / TFM_WIDTH * TFM_WIDTH <= m;
    __global float *to = TFM_AT(packed) + (z * tiles + tile) * k * TFM_ROWS;
    __global const float *from = TFM_AT(a) + z * k * m + column;
    for (long s = first; s < last; s++) {
        if (whole && s + TFM_WIDTH < last)
            for (int i = 0; i < TFM_ROWS; i += TFM_WIDTH)
                tfm_store(tfm_load(from + s * m + i), to + s * TFM_ROWS + i);
        else
            for (int i = 0; i < TFM_ROWS; i++)
                to[s * TFM_ROWS + i] = i < width ? from[s * m + i] : 0.0f;
    }
}

/* Where a tile goes: rows x width of c are there, and what is added, a line of a bias (addend_row 0) or c itself. */
typedef struct tile_out {
    __global float *c;
    __global const float *addend; /* or 0 */
    long n, addend_row;
    int rows, width;
    float alpha, least;
} tile_out;

/* activation(alpha sum + addend), at least `least`: 0 for ReLU, -inf otherwise, so that one program serves the
 * two activations that cost nothing. NaN stays NaN. */
static inline tfm_vec finished(const tile_out *out, tfm_vec sum, tfm_vec addend) {
    tfm_vec v = tfm_fma((tfm_vec)(out->alpha), sum, addend);
    v = v < (tfm_vec)(out->least) ? (tfm_vec)(out->least) : v;
    return tfm_activate_vec(v);
}

/* A vector that begins with `count` floats of `from` and is 0 behind. */
static inline tfm_vec first_floats(__global const float *from, int count) {
    float part[TFM_WIDTH];
    for (int x = 0; x < TFM_WIDTH; x++)
        part[x] = x < count ? from[x] : 0.0f;
    return tfm_load(part);
}

/* A tile's way out where it hangs over the right edge of c, or has an activation too long to be unrolled. */
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
#define EACH_PART(P) UNROLL for (int p = 0; p < P; p++)
#define EACH_ROW(R) UNROLL for (int i = 0; i < R; i++)
#define EACH_VECTOR UNROLL for (int j = 0; j < TFM_VECTORS; j++)

#define LOAD_WHOLE(j) tfm_load(at + j * TFM_WIDTH)
#define LOAD_PART(j) first_floats(at + j * TFM_WIDTH, out->width - j * TFM_WIDTH)
#define STEP_OF_K(R, P, S, LINE, LOAD)                                                                       \
    {                                                                                                        \
        __global const float *at = b + (long)(S) * (LINE);                                                   \
        tfm_vec line[TFM_VECTORS];                                                                           \
        EACH_VECTOR line[j] = LOAD(j);                                                                       \
        EACH_ROW(R) {                                                                                        \
            const tfm_vec x = (tfm_vec)(A_AT(row[i], S));                                                    \
            EACH_VECTOR part[P][i][j] = tfm_fma(x, line[j], part[P][i][j]);                                  \
        }                                                                                                    \
    }

/* NAME: R x TFM_PANEL of c, from rows of a at `a` and TFM_PANEL columns of b at `b`, whose rows are LINE apart and read by
 * LOAD. Of the R rows out->rows exist: the others read the last one and are not stored. Few rows are too few sums to have a sum ready when it is wanted again: they have
 * P each, for steps of K that lie P apart. `sums` is a second array because one that is indexed by a variable would live
 * in memory, not in registers. */
#define DEFINE_TILE(NAME, R, P, LINE, LOAD)                                                                             \
    static void NAME(const tile_out *out, __global const float *a, __global const float *b,     \
                                  long m, int k) {                                                           \
        __global const float *row[R];                                                                        \
        EACH_ROW(R) row[i] = a + A_LINE(i, out->rows) * A_ROW(m, (long)k);                                   \
        tfm_vec part[P][R][TFM_VECTORS], sum[R][TFM_VECTORS];                                                \
        EACH_PART(P) EACH_ROW(R) EACH_VECTOR part[p][i][j] = (tfm_vec)(0.0f);                                \
        int first = 0;                                                                                       \
        for (; first + P <= k; first += P)                                                                   \
            EACH_PART(P) STEP_OF_K(R, p, first + p, LINE, LOAD)                                                        \
        for (; first < k; first++)                                                                           \
            STEP_OF_K(R, 0, first, LINE, LOAD)                                                                         \
        EACH_ROW(R) EACH_VECTOR sum[i][j] = part[0][i][j];                                                   \
        UNROLL for (int p = 1; p < P; p++) EACH_ROW(R) EACH_VECTOR sum[i][j] += part[p][i][j];               \
        if (out->width == TFM_PANEL && TFM_ACTIVATION <= 1) {                                                \
            EACH_ROW(R) if (i < out->rows) EACH_VECTOR {                                                     \
                __global const float *more = out->addend + i * out->addend_row + j * TFM_WIDTH;              \
                const tfm_vec add = out->addend ? tfm_load(more) : (tfm_vec)(0.0f);                          \
                tfm_store(finished(out, sum[i][j], add), out->c + i * out->n + j * TFM_WIDTH);               \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        tfm_vec sums[R * TFM_VECTORS];                                                                       \
        EACH_ROW(R) EACH_VECTOR sums[i * TFM_VECTORS + j] = sum[i][j];                                       \
        store_tile(out, sums);                                                                               \
    }

/* What both kernels take: packed as gemm_pack makes it, one copy for the whole batch where b_batch is 0. */
#define GEMM_PARAMETERS                                                                                      \
    TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(float, packed), TFM_INPUT(float, addend),           \
        const long m, const long n, const long k, const long b_batch, const long addend_batch,               \
        const long addend_row, const long has_addend, const float alpha, const float least

/* The tile at (row, column) of matrix z. */
#define TILE_OUT(row, column, z, rows)                                                                       \
    {                                                                                                        \
        TFM_AT(c) + ((z) * m + (row)) * n + (column),                                                        \
            has_addend ? TFM_AT(addend) + (z) * addend_batch + (row) * addend_row + (column) : 0, n,         \
            addend_row, rows, (int)min((long)TFM_PANEL, n - (column)), alpha, least                          \
    }

DEFINE_TILE(tile, TFM_ROWS, 1, TFM_PANEL, LOAD_WHOLE)
DEFINE_TILE(half_tile, TFM_HALF_ROWS, 1, TFM_PANEL, LOAD_WHOLE)

/* Grid: ceil(M / TFM_ROWS) x panels x B. Row tiles come first, so that neighbours share a panel in the cache.
 * A last tile of few rows runs on the half tile. */
TFM_KERNEL void gemm_packed(GEMM_PARAMETERS) {
    const long row = get_global_id(0) * TFM_ROWS, panel = get_global_id(1), z = get_global_id(2);
    const tile_out out = TILE_OUT(row, panel * TFM_PANEL, z, (int)min((long)TFM_ROWS, m - row));
#ifdef TFM_A_PACKED
    __global const float *from = TFM_AT(a) + (z * get_global_size(0) + get_global_id(0)) * k * TFM_ROWS;
#else
    __global const float *from = TFM_AT(a) + z * m * k + row * A_ROW(m, k);
#endif
    __global const float *line = TFM_AT(packed) + z * b_batch + panel * k * TFM_PANEL;
    if (out.rows > TFM_HALF_ROWS)
        tile(&out, from, line, m, (int)k);
    else
        half_tile(&out, from, line, m, (int)k);
}

/* For M <= 8, as when decoding: b is read once, and the time is the time of that. Grid: 1 x panels x B. */
#define DEFINE_TILES(NAME, LINE, LOAD)                                                                       \
    DEFINE_TILE(NAME##_1, 1, 4, LINE, LOAD)                                                                  \
    DEFINE_TILE(NAME##_2, 2, 2, LINE, LOAD)                                                                  \
    DEFINE_TILE(NAME##_4, 4, 1, LINE, LOAD)                                                                  \
    DEFINE_TILE(NAME##_8, 8, 1, LINE, LOAD)                                                                  \
    static void NAME(const tile_out *out, __global const float *a, __global const float *b, long m, int k) { \
        if (m == 1)                                                                                          \
            NAME##_1(out, a, b, m, k);                                                                       \
        else if (m == 2)                                                                                     \
            NAME##_2(out, a, b, m, k);                                                                       \
        else if (m <= 4)                                                                                     \
            NAME##_4(out, a, b, m, k);                                                                       \
        else                                                                                                 \
            NAME##_8(out, a, b, m, k);                                                                       \
    }
DEFINE_TILES(small, TFM_PANEL, LOAD_WHOLE)
TFM_KERNEL void gemm_small(GEMM_PARAMETERS) {
    const long panel = get_global_id(1), z = get_global_id(2);
    const tile_out out = TILE_OUT(0, panel * TFM_PANEL, z, (int)m);
    small(&out, TFM_AT(a) + z * m * k, TFM_AT(packed) + z * b_batch + panel * k * TFM_PANEL, m, (int)k);
}

/* The same where b (B, K, N) comes for this call alone and would be packed to be read once: `packed` is b as it is. */
DEFINE_TILES(loose, out->n, LOAD_WHOLE)
DEFINE_TILES(loose_edge, out->n, LOAD_PART)
TFM_KERNEL void gemm_small_loose(GEMM_PARAMETERS) {
    const long column = get_global_id(1) * TFM_PANEL, z = get_global_id(2);
    const tile_out out = TILE_OUT(0, column, z, (int)m);
    __global const float *from = TFM_AT(a) + z * m * k, *line = TFM_AT(packed) + z * b_batch + column;
    if (out.width == TFM_PANEL)
        loose(&out, from, line, m, (int)k);
    else
        loose_edge(&out, from, line, m, (int)k);
}
