/* GEMM for CPU-style devices: c (B, M, N) = activation(alpha a b + addend), b packed in panels (gemm_cpu_tile.cl); the
 * addend is a bias, or c itself. A work-group is one item. Rows of a are read in place: packing them too gained nothing
 * on AVX-512 and costs a pass. gemm_cpu_tn.cl handles a transposed a, whose rows are far apart. */
#define A_SPACE __global
#define A_LINE(i, rows) min(i, (rows)-1)
#define A_ROW (long)k
#define A_STEP 1
#define B_LINE TFM_PANEL
#include "gemm_epilogue.cl"
#include "half_load.cl"
#define PANEL_BF16 (LOAD_DTYPE == 2)
#include "gemm_cpu_pack.cl"
#include "gemm_cpu_tile.cl"

/* packed (B, ceil(N / TFM_PANEL), panels of gemm_cpu_pack.cl) from b with b[z][i][j] at z b_batch + i b_row + j
 * b_column. Grid: panels x blocks of `block` rows x B. */
TFM_KERNEL void gemm_cpu_pack(TFM_TENSOR(load_t, packed), TFM_INPUT(load_t, b), const long n, const long k,
                              const long block, const long b_batch, const long b_row, const long b_column) {
    const long panel = get_global_id(0), z = get_global_id(2);
    const long first = get_global_id(1) * block, last = min(first + block, PANEL_DEPTH(k));
    const long panels = get_global_size(0), column = panel * TFM_PANEL;
    const int width = (int)min((long)TFM_PANEL, n - column);
    __global load_t *to = TFM_AT(packed) + (z * panels + panel) * PANEL_DEPTH(k) * TFM_PANEL;
    __global const load_t *from = TFM_AT(b) + z * b_batch + column * b_column;
#if PANEL_BF16
    for (long i = first; i < last; i++) {
        __global load_t *pairs = to + i / 2 * 2 * TFM_PANEL + i % 2;
        for (int j = 0; j < TFM_PANEL; j++)
            pairs[2 * j] = i < k && j < width ? from[i * b_row + j * b_column] : 0;
    }
#else
    if (width == TFM_PANEL && b_column == 1) {
        for (long i = first; i < last; i++)
            for (int j = 0; j < TFM_VECTORS; j++)
                tfm_store(tfm_load(from + i * b_row + j * TFM_WIDTH), to + i * TFM_PANEL + j * TFM_WIDTH);
        return;
    }
    for (long i = first; i < last; i++)
        for (int j = 0; j < TFM_PANEL; j++)
            to[i * TFM_PANEL + j] = j < width ? from[i * b_row + j * b_column] : 0;
#endif
}

/* Kernel parameters: packed as from gemm_cpu_pack, one copy for the whole batch if b_batch is 0. With `joined`, a
 * grouped GEMM with one a (M, K) instead of a batch: c (M, n) with `packed` and `addend`, c1 (M, n1) and c2 (M, n2)
 * with theirs, whose addends are biases. has_addend has a bit for each. */
#define GEMM_PARAMETERS                                                                                                \
    TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(load_t, packed), TFM_INPUT(float, addend),                    \
        TFM_TENSOR(float, c1), TFM_INPUT(load_t, packed1), TFM_INPUT(float, addend1), TFM_TENSOR(float, c2),           \
        TFM_INPUT(load_t, packed2), TFM_INPUT(float, addend2), const long m, const long n, const long n1,              \
        const long n2, const long k, const long group, const long joined, const long b_batch, const long addend_batch, \
        const long addend_row, const long has_addend, const float alpha, const float min_value

/* The GEMM of the current item. */
typedef struct gemm_args {
    __global float *c;
    __global const float *a, *addend; /* addend: or 0 */
    __global const load_t *packed;
    long n;
} gemm_args;

/* Declares GEMM number z_: a matrix of the batch, or one of the group. */
#define GEMM_ARGS(p)                                                                                                   \
    gemm_args p = {TFM_AT(c), TFM_AT(a), (has_addend & 1) != 0 ? TFM_AT(addend) : 0, TFM_AT(packed), n};               \
    if (joined && z_ == 1) {                                                                                           \
        p.c = TFM_AT(c1);                                                                                              \
        p.addend = (has_addend & 2) != 0 ? TFM_AT(addend1) : 0;                                                        \
        p.packed = TFM_AT(packed1);                                                                                    \
        p.n = n1;                                                                                                      \
    } else if (joined && z_ == 2) {                                                                                    \
        p.c = TFM_AT(c2);                                                                                              \
        p.addend = (has_addend & 4) != 0 ? TFM_AT(addend2) : 0;                                                        \
        p.packed = TFM_AT(packed2);                                                                                    \
        p.n = n2;                                                                                                      \
    } else if (!joined) {                                                                                              \
        p.c += z_ * m * n;                                                                                             \
        p.a += z_ * m * k;                                                                                             \
        p.addend = p.addend ? p.addend + z_ * addend_batch : 0;                                                        \
        p.packed += z_ * b_batch;                                                                                      \
    }

/* The tile at (row, column) of GEMM p. */
#define TILE_OUT(p, row, column, rows)                                                                                 \
    {                                                                                                                  \
        (p).c + (row) * (p).n + (column), (p).addend ? (p).addend + (row)*addend_row + (column) : 0, (p).n,            \
            addend_row, (p).n, rows, (int)min((long)TFM_PANEL, (p).n - (column)), alpha, min_value                     \
    }

/* An item computes `group` panels of its rows, which are cached after the first. */
#define EACH_PANEL(p, panel)                                                                                           \
    const long z_ = get_global_id(2), first_ = get_global_id(1) * group;                                               \
    GEMM_ARGS(p)                                                                                                       \
    const long panels_ = (p.n + TFM_PANEL - 1) / TFM_PANEL;                                                            \
    for (long panel = first_; panel < min(first_ + group, panels_); panel++)

/* Grid: ceil(M / TFM_ROWS) x groups of panels x B. Row tiles come first, so that neighbors share panels in the cache.
 */
TFM_KERNEL void gemm_cpu_packed(GEMM_PARAMETERS) {
    const long row = get_global_id(0) * TFM_ROWS;
    EACH_PANEL (p, panel) {
        const tile_out out = TILE_OUT(p, row, panel * TFM_PANEL, (int)min((long)TFM_ROWS, m - row));
        RUN_TILE(&out, p.a + row * k, p.packed + panel * PANEL_DEPTH(k) * TFM_PANEL, (int)k)
    }
}

/* For M <= 8, as in decode: bound by reading b once. Grid: 1 x groups of panels x B. */
#define DEFINE_TILES(NAME, LINE, LOAD)                                                                                 \
    DEFINE_TILE(NAME##_1, 1, 4, LINE, LOAD)                                                                            \
    DEFINE_TILE(NAME##_2, 2, 2, LINE, LOAD)                                                                            \
    DEFINE_TILE(NAME##_4, 4, 1, LINE, LOAD)                                                                            \
    DEFINE_TILE(NAME##_8, 8, 1, LINE, LOAD)                                                                            \
    static void NAME(const tile_out *out, __global const float *a, __global const load_t *b, int k) {                  \
        if (out->rows == 1)                                                                                            \
            NAME##_1(out, a, b, k);                                                                                    \
        else if (out->rows == 2)                                                                                       \
            NAME##_2(out, a, b, k);                                                                                    \
        else if (out->rows <= 4)                                                                                       \
            NAME##_4(out, a, b, k);                                                                                    \
        else                                                                                                           \
            NAME##_8(out, a, b, k);                                                                                    \
    }
DEFINE_TILES(small, TFM_PANEL, LOAD_PANEL)
TFM_KERNEL void gemm_cpu_skinny(GEMM_PARAMETERS) {
    EACH_PANEL (p, panel) {
        const tile_out out = TILE_OUT(p, 0, panel * TFM_PANEL, (int)m);
        small(&out, p.a, p.packed + panel * PANEL_DEPTH(k) * TFM_PANEL, (int)k);
    }
}

/* The same for a b (B, K, N) that is used once, so packing does not pay: `packed` is b itself. */
DEFINE_TILES(loose, out->b_line, LOAD_WHOLE)
DEFINE_TILES(loose_edge, out->b_line, LOAD_PART)
TFM_KERNEL void gemm_cpu_skinny_unpacked(GEMM_PARAMETERS) {
    EACH_PANEL (p, panel) {
        const long column = panel * TFM_PANEL;
        const tile_out out = TILE_OUT(p, 0, column, (int)m);
        if (out.width == TFM_PANEL)
            loose(&out, p.a, p.packed + column, (int)k);
        else
            loose_edge(&out, p.a, p.packed + column, (int)k);
    }
}
