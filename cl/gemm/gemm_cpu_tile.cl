/* A tile of c for CPU-style devices: TFM_ROWS x TFM_PANEL sums that stay in registers along K. Shared by
 * gemm_cpu_packed.cl and gemm_cpu_tn.cl, which define the layout of a:
 *
 *     A_SPACE          the address space of a
 *     A_LINE(i, rows)  the line that row i of a tile reads, with `rows` existing rows
 *     A_ROW, A_STEP    strides between lines, and between elements of a line
 *     B_LINE           row stride of a panel of b
 *
 * and include gemm_epilogue.cl and half_load.cl before it: b may be fp16 or bf16, converted in registers.
 *
 * gemm_cpu_pack.cl has the layout of a panel, which the inner loop reads in one stream. Build options: see
 * gemm_epilogue.cl; gemm_cpu_tn also gets TFM_TILES, the number of tiles of a strip. */
static inline tfm_vec first_stored(__global const load_t *from, int count) {
    float part[TFM_WIDTH];
    for (int x = 0; x < TFM_WIDTH; x++)
        part[x] = x < count ? load_as_float(from + x) : 0.0f;
    return tfm_load(part);
}

/* Vector j of row S of b, with row stride LINE, or of its first columns; and of a panel. */
#define LOAD_WHOLE(S, LINE, j) load_as_float_vec(b + (long)(S) * (LINE) + (j)*TFM_WIDTH)
#define LOAD_PART(S, LINE, j) first_stored(b + (long)(S) * (LINE) + (j)*TFM_WIDTH, out->width - (j)*TFM_WIDTH)
#if PANEL_BF16
#define LOAD_PANEL(S, LINE, j)                                                                                         \
    one_of_pairs((__global const uint *)b + (long)((S) / 2) * (LINE) + (j)*TFM_WIDTH, (S) % 2)
static inline tfm_vec one_of_pairs(__global const uint *pairs, int second) {
    return tfm_as_float_vec(tfm_load(pairs) << (second ? 0u : 16u) & 0xffff0000u);
}
#else
#define LOAD_PANEL LOAD_WHOLE
#endif
#define STEP_OF_K(R, P, S, LINE, LOAD)                                                                                 \
    {                                                                                                                  \
        tfm_vec line[TFM_VECTORS];                                                                                     \
        _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) line[j] = LOAD(S, LINE, j);                            \
        _Pragma("unroll") for (int i = 0; i < R; i++) {                                                                \
            const tfm_vec x = (tfm_vec)(row[i][(S)*A_STEP]);                                                           \
            _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) part[P][i][j] =                                    \
                tfm_fma(x, line[j], part[P][i][j]);                                                                    \
        }                                                                                                              \
    }

/* NAME: R x TFM_PANEL of c, from rows of a at `a`, A_ROW apart, and TFM_PANEL columns of b at `b`, with row stride
 * LINE, loaded by LOAD. out->rows of the R rows exist: the others read the last one and are not stored. With few rows
 * the FMA latency would stall the sums: each has P accumulators, for K steps P apart. */
#define DEFINE_TILE(NAME, R, P, LINE, LOAD)                                                                            \
    static void NAME(const tile_out *out, A_SPACE const float *a, __global const load_t *b, int k) {                   \
        A_SPACE const float *row[R];                                                                                   \
        _Pragma("unroll") for (int i = 0; i < R; i++) row[i] = a + A_LINE(i, out->rows) * A_ROW;                       \
        tfm_vec part[P][R][TFM_VECTORS], sum[R][TFM_VECTORS];                                                          \
        _Pragma("unroll") for (int p = 0; p < P; p++) _Pragma("unroll") for (int i = 0; i < R; i++)                    \
            _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) part[p][i][j] = (tfm_vec)(0.0f);                   \
        int first = 0;                                                                                                 \
        for (; first + P <= k; first += P)                                                                             \
            _Pragma("unroll") for (int p = 0; p < P; p++) {                                                            \
                STEP_OF_K(R, p, first + p, LINE, LOAD)                                                                 \
            }                                                                                                          \
        for (; first < k; first++) {                                                                                   \
            STEP_OF_K(R, 0, first, LINE, LOAD)                                                                         \
        }                                                                                                              \
        _Pragma("unroll") for (int i = 0; i < R; i++) _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++)          \
            sum[i][j] = part[0][i][j];                                                                                 \
        UNROLL                                                                                                         \
        for (int p = 1; p < P; p++)                                                                                    \
            _Pragma("unroll") for (int i = 0; i < R; i++) _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++)      \
                sum[i][j] += part[p][i][j];                                                                            \
        FINISH_TILE(R, out, sum)                                                                                       \
    }

DEFINE_TILE(tile, TFM_ROWS, 1, B_LINE, LOAD_PANEL)
DEFINE_TILE(part_tile, TFM_PART_ROWS, 1, B_LINE, LOAD_PANEL)
#define RUN_TILE(out, a, b, k)                                                                                         \
    if ((out)->rows > TFM_PART_ROWS)                                                                                   \
        tile(out, a, b, k);                                                                                            \
    else                                                                                                               \
        part_tile(out, a, b, k);
