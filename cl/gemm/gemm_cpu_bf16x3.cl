/* fp32 GEMM on AMX tiles of bf16: c (M, N) = activation(alpha a b + addend). Each float of a and b is the sum of three
 * bf16 parts (bf16_pack.cl); of the nine partial products of two floats, the six within fp32 precision are added, and
 * the rest is at most 2^-24 of the result. So only sums are rounded, as with fp32 instructions: six tile instructions
 * take 96 cycles for the work of 512 vector ones. Denormals are treated as zeros, and a part below 2^-126 is lost.
 * Blocks with infinite or NaN numbers are multiplied in fp32, from the sums of the parts.
 *
 * An item has some rows and some columns of c, and splits its inputs itself: the parts of b, for a group of panels and
 * a chunk of K, go to its scratch, which stays in its core's L2 while its rows pass.
 *
 * Build options: those of bf16_pack.cl, with panels of 32 columns in vectors of 16, and TRANSPOSE_A if a is (K, M). */
#define STORE_DTYPE 2
#define SPLIT 3
#include "gemm_epilogue.cl"
#include "half_store.cl"
#define PANEL_BF16 1
#include "gemm_cpu_pack.cl"
#include "bf16_pack.cl"
#include "bf16_pack_transpose.cl"
#include "bf16_blocks.cl"
#ifndef EMULATED
#include "amx.cl"
#endif

#if TFM_WIDTH != 16 || TFM_VECTORS != 2
#error a panel must have two vectors of 16 columns
#endif

/* Rows of a block of sums; K steps of 32 numbers in a chunk; and panels processed together, equal to the host's
 * (gemm_cpu_bf16x3.c). */
#define BLOCK 32
#define K_CHUNK 16
#define PANELS 8
/* Row stride of pairs in words, an odd number of cache lines against cache conflicts; strides between two parts of a
 * block's rows; sizes of a panel, and of the scratch. */
#define LINE_WORDS ((K_CHUNK + 1) * 16)
#define A_APART (BLOCK * LINE_WORDS)
#define B_APART (K_CHUNK * 16 * TFM_PANEL)
#define PANEL_WORDS (SPLIT * B_APART)
#define SCRATCH (PANELS * PANEL_WORDS)

/* For K shorter than a chunk: the number of panels that fit in the space of one, and the offset of panel i of a group.
 */
#define FIT(steps) ((steps) > 0 && (steps) < K_CHUNK ? K_CHUNK / (int)(steps) : 1)
#define PANEL_AT(i, fit) ((i) / (fit)*PANEL_WORDS + (i) % (fit) * (B_APART / (fit)))

/* sums (BLOCK, TFM_PANEL), `rows` of them valid, = a b in fp32, from the sums of the parts. */
static void add_floats(tfm_vec *sums, const uint *a, __global const uint *b, const int steps, const int rows) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < TFM_VECTORS; j++) {
            tfm_vec sum = (tfm_vec)(0.0f);
            for (int s = 0; s < steps * 16; s++) {
                float first = 0.0f, second = 0.0f;
                tfm_vec upper = (tfm_vec)(0.0f), lower = (tfm_vec)(0.0f);
                for (int q = SPLIT - 1; q >= 0; q--) {
                    const uint x = a[q * A_APART + i * LINE_WORDS + s];
                    const tfm_uvec w = tfm_load(b + q * B_APART + s * TFM_PANEL + j * TFM_WIDTH);
                    first += as_float(x << 16);
                    second += as_float(x & 0xffff0000u);
                    lower += FLOATS(w << 16);
                    upper += FLOATS(w & 0xffff0000u);
                }
                sum = tfm_fma((tfm_vec)(first), lower, sum);
                sum = tfm_fma((tfm_vec)(second), upper, sum);
            }
            sums[i * TFM_VECTORS + j] = sum;
        }
}

#ifdef EMULATED
#define AMX_CONFIGURE()
#define AMX_RELEASE()
#define TILES 0
#define add_tiles(from, from_row, to, to_row, a, b, steps)
#define FETCH_READ(p)
#define FETCH_WRITTEN(p)
#else
#define TILES 1
#define FETCH_READ(p) __asm__ volatile("prefetcht1 (%0)" : : "r"(p))
#define FETCH_WRITTEN(p) __asm__ volatile("prefetchw (%0)" : : "r"(p))
/* Loads the tiles of one part of a and one of b; multiplies the last loaded ones. */
#define LOAD_A(share) "tileloadd %c" share "(%0,%1), %%tmm4\n tileloadd %c" share "+%c5(%0,%1), %%tmm5\n"
#define LOAD_B(share) "tileloadd %c" share "(%6,%7), %%tmm6\n tileloadd %c" share "+64(%6,%7), %%tmm7\n"
#define MULTIPLY                                                                                                       \
    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"                                            \
    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"

/* to (BLOCK, TFM_PANEL) = from + a b; from may be 0, for zeros. Rows of both have the given stride in bytes. Parts are
 * loaded in an order in which consecutive products share one, the largest product last. */
static inline void add_tiles(const ulong from, const long from_row, const ulong to, const long to_row, const uint *a,
                             __global const uint *b, const int steps) {
    if (from)
        __asm__ volatile("tileloadd (%0,%2), %%tmm0\n tileloadd 64(%0,%2), %%tmm1\n"
                         "tileloadd (%1,%2), %%tmm2\n tileloadd 64(%1,%2), %%tmm3"
                         :
                         : "r"(from), "r"(from + 16 * from_row), "r"(from_row)
                         : "memory");
    else
        __asm__ volatile("tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3" : : : "memory");
    for (int s = 0; s < steps; s++)
        __asm__ volatile(LOAD_A("4") LOAD_B("8") MULTIPLY LOAD_A("3") MULTIPLY LOAD_B("9") MULTIPLY LOAD_A("2")
                             MULTIPLY LOAD_B("10") MULTIPLY LOAD_B("8") MULTIPLY
                         :
                         : "r"(a + 16 * s), "r"(4L * LINE_WORDS), "i"(0), "i"(4 * A_APART), "i"(8 * A_APART),
                           "i"(16 * 4 * LINE_WORDS), "r"(b + 16 * TFM_PANEL * s), "r"(4L * TFM_PANEL), "i"(0),
                           "i"(4 * B_APART), "i"(8 * B_APART)
                         : "memory");
    __asm__ volatile("tilestored %%tmm0, (%0,%2)\n tilestored %%tmm1, 64(%0,%2)\n"
                     "tilestored %%tmm2, (%1,%2)\n tilestored %%tmm3, 64(%1,%2)"
                     :
                     : "r"(to), "r"(to + 16 * to_row), "r"(to_row)
                     : "memory");
}
#endif

/* Invariants of an item's blocks. */
typedef struct gemm_args {
    __global float *c;
    __global const float *a, *b;
    __global const float *addend; /* or 0 */
    __global uint *scratch;
    long m, n, k, b_panel, b_row, b_column, b_width, addend_row;
    float alpha, min_value;
    bool stream; /* c is written with non-temporal stores */
} gemm_args;

/* Splits panels first .. last - 1 of K steps s .. s + steps - 1 into the scratch, and notes the panels with non-finite
 * numbers. */
static void split_panels(uint *nonfinite, const gemm_args *p, const long first, const long last, const long s,
                         const int steps, const int fit) {
    for (long panel = first; panel < last; panel++) {
        const long width = min(p->b_width - panel * TFM_PANEL, (long)TFM_PANEL);
        const matrix from = {p->b + panel * p->b_panel, p->b_row, p->b_column, p->k, width};
        __global uint *to = p->scratch + PANEL_AT((int)(panel - first), fit);
        uint found = 0;
        for (int step = 0; step < steps; step++)
            for (int j = 0; j < TFM_VECTORS; j++) {
                tfm_uvec lines[LINES];
                found |= take_across(lines, &from, (s + step) * DEPTH, j * TFM_WIDTH);
#pragma unroll
                for (int q = 0; q < SPLIT; q++)
#pragma unroll
                    for (int i = 0; i < TFM_WIDTH; i++)
                        tfm_store(SHARE(lines, q)[i], to + q * B_APART + (step * 16 + i) * TFM_PANEL + j * TFM_WIDTH);
            }
        nonfinite[panel - first] = found;
    }
}

/* Splits rows row .. row + there - 1 of a; returns whether a number is non-finite. */
#ifdef TRANSPOSE_A
static uint split_rows(uint *to, const gemm_args *p, const long row, const int there, const long s, const int steps) {
    const matrix from = {p->a, p->m, 1, p->k, p->m};
    uint nonfinite = 0;
    for (int step = 0; step < steps; step++)
        for (int x = 0; x < there; x += TFM_WIDTH) {
            tfm_uvec lines[LINES];
            nonfinite |= take_across(lines, &from, (s + step) * DEPTH, row + x);
#pragma unroll
            for (int q = 0; q < SPLIT; q++) {
                transpose_block(SHARE(lines, q));
#pragma unroll
                for (int i = 0; i < TFM_WIDTH; i++)
                    tfm_store(SHARE(lines, q)[i], to + q * A_APART + (x + i) * LINE_WORDS + step * 16);
            }
        }
    return nonfinite;
}
#else
DEFINE_ROUND_ROW(split_row, __private)
static uint split_rows(uint *to, const gemm_args *p, const long row, const int there, const long s, const int steps) {
    const long begin = s * DEPTH;
    const int count = (int)min((long)steps * DEPTH, p->k - begin);
    uint nonfinite = 0;
    for (int i = 0; i < there; i++)
        nonfinite |= split_row((store_t *)(to + i * LINE_WORDS), 2 * A_APART, p->a + (row + i) * p->k + begin, count);
    return nonfinite;
}
#endif

/* Prefetches the block's destination, and part j of `count` of the next block's rows, while tiles are multiplied. */
static inline void fetch(const gemm_args *p, const long row, const long end, const long panel, const int j,
                         const int count, const long s, const int steps) {
    __global float *c = p->c + row * p->n + panel * TFM_PANEL;
    const int rows = (int)min((long)BLOCK, end - row);
    for (int i = 0; i < rows && !p->stream; i++) {
        FETCH_WRITTEN(c + i * p->n);
        FETCH_WRITTEN(c + i * p->n + TFM_WIDTH);
    }
#ifndef TRANSPOSE_A
    for (int i = j; i < BLOCK && row + BLOCK + i < end; i += count)
        for (int x = 0; x < steps; x++) {
            __global const float *from = p->a + (row + BLOCK + i) * p->k + (s + x) * DEPTH;
            FETCH_READ(from);
            FETCH_READ(from + TFM_WIDTH);
        }
#endif
}

/* Block (row, panel): c = or += a chunk of K, with the parts in a and b. c has the sums of earlier chunks. */
static inline void add_block(const gemm_args *p, const uint *a, __global const uint *b, const long row, const int there,
                             const long panel, const int steps, const int begins, const int ends,
                             const uint nonfinite) {
    tfm_vec sums[BLOCK * TFM_VECTORS];
    const long column = panel * TFM_PANEL;
    const int width = (int)min((long)TFM_PANEL, p->n - column);
    __global float *to = p->c + row * p->n + column;
    __global const float *more = !begins ? to : p->addend ? p->addend + row * p->addend_row + column : 0;
    const long more_row = begins ? p->addend_row : p->n;
    tile_out out = {to, more, p->n, more_row, p->n, there, width, p->alpha, p->min_value};
    if (TILES && !nonfinite && there == BLOCK && width == TFM_PANEL && p->alpha == 1.0f) {
        /* The addend goes through the tiles, and so does c, unless an epilogue follows. */
        const int as_it_is = !ends | ((TFM_ACTIVATION <= 1) & (p->min_value == -INFINITY) & !p->stream);
        add_tiles((ulong)more, 4 * more_row, as_it_is ? (ulong)to : (ulong)sums,
                  4 * (as_it_is ? p->n : (long)TFM_PANEL), a, b, steps);
        if (as_it_is)
            return;
        out.addend = 0;
    } else if (TILES && !nonfinite) {
        add_tiles(0, 0, (ulong)sums, 4 * TFM_PANEL, a, b, steps);
    } else {
        add_floats(sums, a, b, steps, there);
    }
    if (ends)
        store_block(&out, sums, p->stream);
    else
        keep_block(&out, sums);
}

/* Grid: rows in items of `rows` x panels in items of `group`. scratch: SCRATCH words for each. Element (p, x) of panel
 * i of b is at i b_panel + p b_row + x b_column, one of the last two is 1, and b has b_width columns. */
TFM_KERNEL void gemm_cpu_bf16x3(TFM_TENSOR(float, c), TFM_INPUT(float, a), TFM_INPUT(float, b),
                                TFM_INPUT(float, addend), TFM_TENSOR(uint, scratch), const long m, const long n,
                                const long k, const long rows, const long group, const long b_panel, const long b_row,
                                const long b_column, const long b_width, const long addend_row, const long has_addend,
                                const float alpha, const float min_value) {
    const long item = get_global_id(0) + get_global_id(1) * get_global_size(0), steps = PANEL_STEPS(k);
    const long row = get_global_id(0) * rows, end = min(row + rows, m), panels = (n + TFM_PANEL - 1) / TFM_PANEL;
    const long first = get_global_id(1) * group, last = min(first + group, panels);
    const gemm_args p = {TFM_AT(c),
                         TFM_AT(a),
                         TFM_AT(b),
                         has_addend ? TFM_AT(addend) : 0,
                         TFM_AT(scratch) + item * SCRATCH,
                         m,
                         n,
                         k,
                         b_panel,
                         b_row,
                         b_column,
                         b_width,
                         addend_row,
                         alpha,
                         min_value,
                         TFM_ACTIVATION <= 1 && steps <= K_CHUNK && streams_c(TFM_AT(c), m, n)};
    uint a_shares[SPLIT * A_APART], nonfinite[PANELS * K_CHUNK];
    const int fit = FIT(steps);
    AMX_CONFIGURE();
    for (long panel = first; panel < last; panel += PANELS * fit)
        for (long s = 0; s < steps; s += K_CHUNK) {
            const int some = (int)min((long)K_CHUNK, steps - s), count = (int)min((long)PANELS * fit, last - panel);
            split_panels(nonfinite, &p, panel, panel + count, s, some, fit);
            for (long i = row; i < end; i += BLOCK) {
                const int there = (int)min((long)BLOCK, end - i);
                const uint odd = split_rows(a_shares, &p, i, there, s, some);
                for (int j = 0; j < count; j++) {
                    fetch(&p, i, end, panel + j, j, count, s, some);
                    add_block(&p, a_shares, p.scratch + PANEL_AT(j, fit), i, there, panel + j, some, s == 0,
                              s + some == steps, odd | nonfinite[j]);
                }
            }
        }
    if (p.stream)
        FENCE();
    AMX_RELEASE();
}
