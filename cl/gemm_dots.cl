/* GEMM for WIDE devices whose processor multiplies numbers of bf16: c (M, N) = activation(alpha a b + addend), where b
 * is stored in bf16, in the panels of gemm_packed.cl, and a is rounded to bf16 as well. One instruction multiplies two
 * pairs in each lane and adds both products to a sum of fp32, twice as much as one for fp32 does; denormal numbers
 * count as zeros to it. Two rows of a panel are put together lane by lane as they are read, so that the panels are
 * those that other kernels read.
 *
 * The host gives EMULATED where the instruction is to be done by others, for tests, and what gemm_out.cl takes. */
#define NARROW 2
#include "gemm_out.cl"
#include "narrow.cl"

/* Pairs of a row of a, and what lies between two rows: an odd number of lines of 16, since rows that lie a power of two
 * apart would drive each other out of the first cache. The host has the same. */
#define PAIRS(k) (((k) + 1) / 2)
#define ROW_PAIRS(k) ((((PAIRS(k) + 15) / 16) | 1) * 16)

#ifdef EMULATED
#define ROUND_VEC(v, p) narrow_store_vec(v, p)
#else
#define ROUND_VEC(v, p) tfm_store(rounded_by_one(v), p)
static inline ushort16 rounded_by_one(const float16 v) {
    ushort16 out;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(out) : "v"(v));
    return out;
}
#endif

/* a, rounded: (M, 2 ROW_PAIRS(K)), where the last element of an odd K has a 0 beside it. Grid: items of `rows` rows
 * each. */
TFM_KERNEL void gemm_dots_round(TFM_TENSOR(narrow, rounded), TFM_INPUT(float, a), const long m, const long k,
                                const long rows) {
    const long first = get_global_id(0) * rows, last = min(first + rows, m);
    for (long i = first; i < last; i++) {
        __global const float *from = TFM_AT(a) + i * k;
        __global narrow *to = TFM_AT(rounded) + i * 2 * ROW_PAIRS(k);
        long p = 0;
        for (; p + TFM_WIDTH <= k; p += TFM_WIDTH)
            ROUND_VEC(tfm_load(from + p), to + p);
        for (; p < k; p++)
            narrow_store(from[p], to + p);
        if (k % 2)
            to[k] = 0;
    }
}

/* sum, and in each lane the two products of x and w. */
#ifdef EMULATED
#define FLOATS TFM_CAT(as_float, TFM_WIDTH)
static inline tfm_vec add_dots(tfm_vec sum, tfm_uvec x, tfm_uvec w) {
    sum = tfm_fma(FLOATS(x & 0xffff0000u), FLOATS(w & 0xffff0000u), sum);
    return tfm_fma(FLOATS(x << 16), FLOATS(w << 16), sum);
}
#else
static inline tfm_vec add_dots(tfm_vec sum, tfm_uvec x, tfm_uvec w) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
}
#endif

/* Two rows of a panel: vector j of them has a number of each in a lane. */
#if TFM_WIDTH == 16 && TFM_VECTORS == 2
typedef ushort line __attribute__((ext_vector_type(32)));
typedef struct __attribute__((packed)) loose_line {
    line all;
} loose_line;
#define LOAD_LINE(p) (((__global const loose_line *)(p))->all)
#define PAIR_LINES(pairs, first, second)                                                                               \
    {                                                                                                                  \
        const line a_ = first, b_ = second;                                                                            \
        pairs[0] =                                                                                                     \
            __builtin_astype(__builtin_shufflevector(a_, b_, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,   \
                                                     8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47),    \
                             uint16);                                                                                  \
        pairs[1] = __builtin_astype(__builtin_shufflevector(a_, b_, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,    \
                                                            22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60,    \
                                                            29, 61, 30, 62, 31, 63),                                   \
                                    uint16);                                                                           \
    }
#define FIND_PAIRS(pairs, at) PAIR_LINES(pairs, LOAD_LINE(at), LOAD_LINE((at) + TFM_PANEL))
#define FIND_LAST(pairs, at) PAIR_LINES(pairs, LOAD_LINE(at), (line)(0))
#else
#define WIDENED(p) TFM_CAT(convert_uint, TFM_WIDTH)(tfm_load(p))
#define FIND_PAIRS(pairs, at)                                                                                          \
    EACH_VECTOR                                                                                                        \
        pairs[j] = WIDENED((at) + j * TFM_WIDTH) | WIDENED((at) + TFM_PANEL + j * TFM_WIDTH) << 16;
#define FIND_LAST(pairs, at)                                                                                           \
    EACH_VECTOR                                                                                                        \
        pairs[j] = WIDENED((at) + j * TFM_WIDTH);
#endif

#define STEP_OF_PAIRS(R, s)                                                                                            \
    EACH_ROW (R) {                                                                                                     \
        const tfm_uvec x = (tfm_uvec)(row[i][s]);                                                                      \
        EACH_VECTOR                                                                                                    \
            sum[i][j] = add_dots(sum[i][j], x, pairs[j]);                                                              \
    }

/* NAME: R x TFM_PANEL of c, from rows of pairs at `a` and a panel at `b`. Of the R rows out->rows exist: the others
 * read the last one and are not stored. */
#define DEFINE_DOTS(NAME, R)                                                                                           \
    static void NAME(const tile_out *out, __global const uint *a, __global const narrow *b, int k) {                   \
        __global const uint *row[R];                                                                                   \
        EACH_ROW (R)                                                                                                   \
            row[i] = a + (long)min(i, out->rows - 1) * ROW_PAIRS(k);                                                   \
        tfm_vec sum[R][TFM_VECTORS];                                                                                   \
        tfm_uvec pairs[TFM_VECTORS];                                                                                   \
        EACH_ROW (R)                                                                                                   \
            EACH_VECTOR                                                                                                \
                sum[i][j] = (tfm_vec)(0.0f);                                                                           \
        for (int s = 0; s < k / 2; s++) {                                                                              \
            FIND_PAIRS(pairs, b + 2 * (long)s * TFM_PANEL)                                                             \
            STEP_OF_PAIRS(R, s)                                                                                        \
        }                                                                                                              \
        if (k % 2) {                                                                                                   \
            FIND_LAST(pairs, b + (long)(k - 1) * TFM_PANEL)                                                            \
            STEP_OF_PAIRS(R, k / 2)                                                                                    \
        }                                                                                                              \
        FINISH_TILE(R, out, sum)                                                                                       \
    }
DEFINE_DOTS(dots, TFM_ROWS)
DEFINE_DOTS(part_dots, TFM_PART_ROWS)

/* a: as gemm_dots_round makes it; packed: as gemm_pack does. Grid: ceil(M / TFM_ROWS) x groups of `group` panels. */
TFM_KERNEL void gemm_dots(TFM_TENSOR(float, c), TFM_INPUT(uint, a), TFM_INPUT(narrow, packed), TFM_INPUT(float, addend),
                          const long m, const long n, const long k, const long group, const long addend_row,
                          const long has_addend, const float alpha, const float least) {
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
                              least};
        if (out.rows > TFM_PART_ROWS)
            dots(&out, TFM_AT(a) + row * ROW_PAIRS(k), TFM_AT(packed) + panel * k * TFM_PANEL, (int)k);
        else
            part_dots(&out, TFM_AT(a) + row * ROW_PAIRS(k), TFM_AT(packed) + panel * k * TFM_PANEL, (int)k);
    }
}
