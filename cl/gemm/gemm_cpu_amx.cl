/* GEMM on AMX tiles of bf16: c (M, N) = activation(alpha a b + addend); b is bf16 or rounded to it, in the panels of
 * gemm_cpu_pack.cl, and a is rounded to bf16 as well. One instruction multiplies 16 rows of 32 numbers by 32 rows of 16
 * and adds to 16 x 16 fp32 sums in 16 cycles, the work of 512 fp32 instructions. It treats denormals as zeros.
 *
 * All tiles are whole: panels and rows of a are zero-padded to a multiple of 32 numbers; missing rows are read from
 * other valid memory, and their sums are not stored.
 *
 * Build options: those of bf16_pack.cl, with panels of 32 columns in vectors of 16, and ROUNDED_A if a was transposed
 * and is already in rows of pairs. */
#define STORE_DTYPE 2
#include "gemm_epilogue.cl"
#include "half_store.cl"
#define PANEL_BF16 1
#include "gemm_cpu_pack.cl"
#include "bf16_pack.cl"
#include "bf16_blocks.cl"
#ifndef EMULATED
#include "amx.cl"
#endif

#if TFM_WIDTH != 16 || TFM_VECTORS != 2
#error a panel must have two vectors of 16 columns
#endif

/* Rows and columns of a block of sums; K steps of 32 numbers in a chunk; and the limit of panels processed together. 32
 * rounded rows of a chunk stay in L1 while panels pass, and 512 KiB of panels in L2 while rows pass. The next chunk
 * adds to the partial sums in c. */
#define BLOCK 32
#define K_CHUNK 16
#define PANELS 16
/* Row stride of pairs in words: an odd number of cache lines. */
#define LINE_WORDS ((K_CHUNK + 1) * 16)

#ifdef EMULATED
#define AMX_CONFIGURE()
#define AMX_RELEASE()
#define PREFETCH(p)
static void add_block(tfm_vec *sums, const uint *a, const long a_row, __global const uint *b, const int steps,
                      const int rows) {
    for (int i = 0; i < rows; i++) {
        const uint *x = a + i * a_row / 4;
        for (int j = 0; j < TFM_VECTORS; j++) {
            tfm_vec sum = (tfm_vec)(0.0f);
            for (int s = 0; s < steps * 16; s++)
                sum = add_dots(sum, (tfm_uvec)(x[s]), tfm_load(b + (long)s * TFM_PANEL + j * TFM_WIDTH));
            sums[i * TFM_VECTORS + j] = sum;
        }
    }
}
#else
#define PREFETCH(p) __asm__ volatile("prefetchw (%0)" : : "r"(p))
DEFINE_AMX_MATMUL(add_tiles, "tdpbf16ps", tfm_vec, __private, uint, __global, uint)
static inline void add_block(tfm_vec *sums, const uint *a, const long a_row, __global const uint *b, const int steps,
                             const int rows) {
    add_tiles(sums, a, a_row, b, steps, rows, 1);
}
#endif

/* Rows of a: `count` numbers of each from `first` on, zero-padded to a multiple of PAIRED_DEPTH. */
#ifdef ROUNDED_A
typedef uint number;
static inline void take_row(uint *to, __global const uint *a, const long row, const long k, const long first,
                            const int count) {
    __global const uint *from = a + row * ROW_PAIRS(k) + first / 2;
    for (int w = 0; w < (int)PANEL_DEPTH(count) / 2; w += TFM_WIDTH)
        tfm_store(tfm_load(from + w), to + w);
}
#else
typedef float number;
DEFINE_ROUND_ROW(round_row, __private)
static inline void take_row(uint *to, __global const float *a, const long row, const long k, const long first,
                            const int count) {
    round_row((store_t *)to, 0, a + row * k + first, count);
}
#endif

/* Invariants of an item's blocks. */
typedef struct gemm_args {
    __global float *c;
    __global const number *a;
    __global const float *addend; /* or 0 */
    __global const uint *packed;
    long n, k, addend_row;
    float alpha, min_value;
} gemm_args;

/* `there` rows from `row` on, of panels first .. last - 1: c = or += the K steps s .. s + K_CHUNK - 1. */
static void add_piece(const gemm_args *p, const long row, const int there, const long first, const long last,
                      const long s) {
    uint a[BLOCK * LINE_WORDS];
    tfm_vec sums[BLOCK * TFM_VECTORS];
    const long all = PANEL_STEPS(p->k), begin = s * PAIRED_DEPTH;
    const int steps = (int)min((long)K_CHUNK, all - s), count = (int)min((long)K_CHUNK * PAIRED_DEPTH, p->k - begin);
    for (int i = 0; i < there; i++)
        take_row(a + i * LINE_WORDS, p->a, row + i, p->k, begin, count);
    for (long panel = first; panel < last; panel++) {
        const long column = panel * TFM_PANEL;
        __global float *to = p->c + row * p->n + column;
        for (int i = 0; i < there; i++) { /* prefetched while sums are computed */
            PREFETCH(to + i * p->n);
            PREFETCH(to + i * p->n + TFM_WIDTH);
        }
        add_block(sums, a, 4 * LINE_WORDS, p->packed + (panel * all + s) * 16 * TFM_PANEL, steps, there);
        const tile_out out = {to,
                              s > 0       ? to
                              : p->addend ? p->addend + row * p->addend_row + column
                                          : 0,
                              p->n,
                              s > 0 ? p->n : p->addend_row,
                              p->n,
                              there,
                              (int)min((long)TFM_PANEL, p->n - column),
                              p->alpha,
                              p->min_value};
        if (s + steps < all)
            keep_block(&out, sums);
        else
            store_block(&out, sums, false);
    }
}

/* packed: from gemm_cpu_pack or gemm_cpu_bf16_pack_b. Grid: blocks of `rows` rows, a multiple of BLOCK, x groups of
 * `group` panels. */
TFM_KERNEL void gemm_cpu_amx(TFM_TENSOR(float, c), TFM_INPUT(number, a), TFM_INPUT(uint, packed),
                             TFM_INPUT(float, addend), const long m, const long n, const long k, const long group,
                             const long addend_row, const long has_addend, const float alpha, const float min_value,
                             const long rows) {
    const long row = get_global_id(0) * rows, end = min(row + rows, m), panels = (n + TFM_PANEL - 1) / TFM_PANEL;
    const long first = get_global_id(1) * group, last = min(first + group, panels);
    const gemm_args p = {TFM_AT(c), TFM_AT(a), has_addend ? TFM_AT(addend) : 0, TFM_AT(packed), n, k, addend_row,
                         alpha,     min_value};
    AMX_CONFIGURE();
    for (long panel = first; panel < last; panel += PANELS)
        for (long s = 0; s < PANEL_STEPS(k); s += K_CHUNK)
            for (long i = row; i < end; i += BLOCK)
                add_piece(&p, i, (int)min((long)BLOCK, end - i), panel, min(panel + PANELS, last), s);
    AMX_RELEASE();
}
