/* A tile of c for WIDE devices: TFM_ROWS x TFM_PANEL sums that stay in registers while K goes by. gemm_packed.cl
 * and gemm_turned.cl share it; they differ in where a row of a lies:
 *
 *     A_SPACE          the address space of a
 *     A_LINE(i, rows)  the line that row i of a tile reads, of which `rows` exist
 *     A_ROW, A_STEP    what lies between two lines, and between two elements of one
 *     B_LINE           what lies between two rows of a panel of b
 *
 * and include stored.cl before it: b may be of 16 bits, and becomes floats in registers.
 *
 * A panel is TFM_PANEL = TFM_VECTORS * TFM_WIDTH columns of b, laid out [K][TFM_PANEL], so that the inner loop reads it
 * in one stream; the last panel is filled up with zeros.
 *
 * The host gives TFM_ROWS, TFM_PART_ROWS (the rows of the tile for what is left below), TFM_VECTORS, TFM_ACTIVATION,
 * and for gemm_turned TFM_TILES, the number of tiles of a strip. */
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

/* Where a tile goes: rows x width of c are there; what is added, a line of a bias (addend_row 0) or c itself; and b's
 * line, for those whose B_LINE it is. */
typedef struct tile_out {
    __global float *c;
    __global const float *addend; /* or 0 */
    long n, addend_row, b_line;
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

/* A vector that begins with `count` floats of `from` and is 0 after them. */
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

static inline tfm_vec first_stored(__global const stored *from, int count) {
    float part[TFM_WIDTH];
    for (int x = 0; x < TFM_WIDTH; x++)
        part[x] = x < count ? stored_load(from + x) : 0.0f;
    return tfm_load(part);
}

#define UNROLL _Pragma("unroll")
#define EACH_PART(P)                                                                                                   \
    UNROLL                                                                                                             \
    for (int p = 0; p < P; p++)
#define EACH_ROW(R)                                                                                                    \
    UNROLL                                                                                                             \
    for (int i = 0; i < R; i++)
#define EACH_VECTOR                                                                                                    \
    UNROLL                                                                                                             \
    for (int j = 0; j < TFM_VECTORS; j++)

#define LOAD_WHOLE(j) stored_load_vec(at + j * TFM_WIDTH)
#define LOAD_PART(j) first_stored(at + j * TFM_WIDTH, out->width - j * TFM_WIDTH)
#define STEP_OF_K(R, P, S, LINE, LOAD)                                                                                 \
    {                                                                                                                  \
        __global const stored *at = b + (long)(S) * (LINE);                                                            \
        tfm_vec line[TFM_VECTORS];                                                                                     \
        EACH_VECTOR                                                                                                    \
            line[j] = LOAD(j);                                                                                         \
        EACH_ROW (R) {                                                                                                 \
            const tfm_vec x = (tfm_vec)(row[i][(S)*A_STEP]);                                                           \
            EACH_VECTOR                                                                                                \
                part[P][i][j] = tfm_fma(x, line[j], part[P][i][j]);                                                    \
        }                                                                                                              \
    }

/* NAME: R x TFM_PANEL of c, from rows of a at `a`, A_ROW apart, and TFM_PANEL columns of b at `b`, whose rows are LINE
 * apart and read by LOAD. Of the R rows out->rows exist: the others read the last one and are not stored. Few rows
 * are too few sums to have a sum ready when it is wanted again: they have P each, for steps of K that lie P apart.
 * `sums` is a second array because one that is indexed by a variable would live in memory, not in registers. */
#define DEFINE_TILE(NAME, R, P, LINE, LOAD)                                                                            \
    static void NAME(const tile_out *out, A_SPACE const float *a, __global const stored *b, int k) {                   \
        A_SPACE const float *row[R];                                                                                   \
        EACH_ROW (R)                                                                                                   \
            row[i] = a + A_LINE(i, out->rows) * A_ROW;                                                                 \
        tfm_vec part[P][R][TFM_VECTORS], sum[R][TFM_VECTORS];                                                          \
        EACH_PART (P)                                                                                                  \
            EACH_ROW (R)                                                                                               \
                EACH_VECTOR                                                                                            \
                    part[p][i][j] = (tfm_vec)(0.0f);                                                                   \
        int first = 0;                                                                                                 \
        for (; first + P <= k; first += P)                                                                             \
            EACH_PART (P) {                                                                                            \
                STEP_OF_K(R, p, first + p, LINE, LOAD)                                                                 \
            }                                                                                                          \
        for (; first < k; first++) {                                                                                   \
            STEP_OF_K(R, 0, first, LINE, LOAD)                                                                         \
        }                                                                                                              \
        EACH_ROW (R)                                                                                                   \
            EACH_VECTOR                                                                                                \
                sum[i][j] = part[0][i][j];                                                                             \
        UNROLL                                                                                                         \
        for (int p = 1; p < P; p++)                                                                                    \
            EACH_ROW (R)                                                                                               \
                EACH_VECTOR                                                                                            \
                    sum[i][j] += part[p][i][j];                                                                        \
        if (out->width == TFM_PANEL && TFM_ACTIVATION <= 1) {                                                          \
            EACH_ROW (R)                                                                                               \
                if (i < out->rows)                                                                                     \
                    EACH_VECTOR {                                                                                      \
                        __global const float *more = out->addend + i * out->addend_row + j * TFM_WIDTH;                \
                        const tfm_vec add = out->addend ? tfm_load(more) : (tfm_vec)(0.0f);                            \
                        tfm_store(finished(out, sum[i][j], add), out->c + i * out->n + j * TFM_WIDTH);                 \
                    }                                                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        tfm_vec sums[R * TFM_VECTORS];                                                                                 \
        EACH_ROW (R)                                                                                                   \
            EACH_VECTOR                                                                                                \
                sums[i * TFM_VECTORS + j] = sum[i][j];                                                                 \
        store_tile(out, sums);                                                                                         \
    }

DEFINE_TILE(tile, TFM_ROWS, 1, B_LINE, LOAD_WHOLE)
DEFINE_TILE(part_tile, TFM_PART_ROWS, 1, B_LINE, LOAD_WHOLE)
#define RUN_TILE(out, a, b, k)                                                                                         \
    if ((out)->rows > TFM_PART_ROWS)                                                                                   \
        tile(out, a, b, k);                                                                                            \
    else                                                                                                               \
        part_tile(out, a, b, k);
