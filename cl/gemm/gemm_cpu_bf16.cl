/* GEMM on CPU-style devices with bf16 dot-product instructions: c (M, N) = activation(alpha a b + addend); b is bf16 or
 * rounded to it, in the panels of gemm_cpu_pack.cl, and a is rounded to bf16 as well. One instruction multiplies two
 * pairs in each lane and adds both to an fp32 sum, twice the work of an fp32 FMA; it treats denormals as zeros. */
#define STORE_DTYPE 2
#include "gemm_epilogue.cl"
#include "half_store.cl"
#define PANEL_BF16 1
#include "gemm_cpu_pack.cl"
#include "bf16_pack.cl"

/* a, rounded: (M, 2 ROW_PAIRS(K)), zero-padded to a multiple of PAIRED_DEPTH. Grid: items of `rows` rows each. */
DEFINE_ROUND_ROW(round_row, __global)
TFM_KERNEL void gemm_cpu_bf16_round(TFM_TENSOR(store_t, rounded), TFM_INPUT(float, a), const long m, const long k,
                                    const long rows) {
    const long first = get_global_id(0) * rows, last = min(first + rows, m);
    for (long i = first; i < last; i++)
        round_row(TFM_AT(rounded) + i * 2 * ROW_PAIRS(k), 0, TFM_AT(a) + i * k, (int)k);
}

/* NAME: R x TFM_PANEL of c, from rows of pairs at `a` and a panel at `b`. out->rows of the R rows exist: the others
 * read the last one and are not stored. */
#define DEFINE_DOTS(NAME, R)                                                                                           \
    static void NAME(const tile_out *out, __global const uint *a, __global const uint *b, int k) {                     \
        __global const uint *row[R];                                                                                   \
        _Pragma("unroll") for (int i = 0; i < R; i++) row[i] = a + (long)min(i, out->rows - 1) * ROW_PAIRS(k);         \
        tfm_vec sum[R][TFM_VECTORS];                                                                                   \
        _Pragma("unroll") for (int i = 0; i < R; i++) _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++)          \
            sum[i][j] = (tfm_vec)(0.0f);                                                                               \
        for (int s = 0; s < PAIRS(k); s++) {                                                                           \
            tfm_uvec pairs[TFM_VECTORS];                                                                               \
            _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) pairs[j] =                                         \
                tfm_load(b + (long)s * TFM_PANEL + j * TFM_WIDTH);                                                     \
            _Pragma("unroll") for (int i = 0; i < R; i++) {                                                            \
                const tfm_uvec x = (tfm_uvec)(row[i][s]);                                                              \
                _Pragma("unroll") for (int j = 0; j < TFM_VECTORS; j++) sum[i][j] = add_dots(sum[i][j], x, pairs[j]);  \
            }                                                                                                          \
        }                                                                                                              \
        FINISH_TILE(R, out, sum)                                                                                       \
    }
DEFINE_DOTS(dots, TFM_ROWS)
DEFINE_DOTS(part_dots, TFM_PART_ROWS)

/* a: from gemm_cpu_bf16_round or gemm_cpu_bf16_pack_at; packed: from gemm_cpu_pack or gemm_cpu_bf16_pack_b. Grid:
 * ceil(M / TFM_ROWS) x groups of `group` panels. */
TFM_KERNEL void gemm_cpu_bf16(TFM_TENSOR(float, c), TFM_INPUT(uint, a), TFM_INPUT(uint, packed),
                              TFM_INPUT(float, addend), const long m, const long n, const long k, const long group,
                              const long addend_row, const long has_addend, const float alpha, const float min_value) {
    const long row = get_global_id(0) * TFM_ROWS, panels = (n + TFM_PANEL - 1) / TFM_PANEL;
    const long first = get_global_id(1) * group;
    for (long panel = first; panel < min(first + group, panels); panel++) {
        const long column = panel * TFM_PANEL;
        const tile_out out = {TFM_AT(c) + row * n + column,
                              has_addend ? TFM_AT(addend) + row * addend_row + column : 0,
                              n,
                              addend_row,
                              n,
                              (int)min((long)TFM_ROWS, m - row),
                              (int)min((long)TFM_PANEL, n - column),
                              alpha,
                              min_value};
        if (out.rows > TFM_PART_ROWS)
            dots(&out, TFM_AT(a) + row * ROW_PAIRS(k), TFM_AT(packed) + panel * PANEL_DEPTH(k) / 2 * TFM_PANEL, (int)k);
        else
            part_dots(&out, TFM_AT(a) + row * ROW_PAIRS(k), TFM_AT(packed) + panel * PANEL_DEPTH(k) / 2 * TFM_PANEL,
                      (int)k);
    }
}
