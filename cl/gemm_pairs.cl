/* Operands of floats as gemm_dots.cl and gemm_amx.cl read them: rounded to bf16, in pairs of numbers that follow one
 * another along K. Training rounds so what is kept in fp32: weights on their way forward and back, and of a weight's
 * gradient both operands.
 *
 * The host gives what gemm_rounded.cl takes. */
#define NARROW 2
#include "gemm_out.cl"
#include "narrow.cl"
#define PANEL_BF16 1
#include "gemm_panel.cl"
#include "gemm_rounded.cl"

#define DEPTH (2 * TFM_WIDTH) /* numbers along K of a block of TFM_WIDTH x TFM_WIDTH pairs */
#define EACH_LINE                                                                                                      \
    UNROLL                                                                                                             \
    for (int i = 0; i < TFM_WIDTH; i++)

/* Pairs of the lanes of x and y, of which x comes first along K. */
static inline tfm_uvec pairs_of(const tfm_vec x, const tfm_vec y) {
    return rounded_words(x) | rounded_words(y) << 16;
}

/* DEPTH numbers that lie along K. */
static inline tfm_uvec pairs_at(__global const float *from) {
    const tfm_uvec x = rounded_words(tfm_load(from)), y = rounded_words(tfm_load(from + TFM_WIDTH));
    tfm_uvec pairs;
    pairs.lo = x.even | x.odd << 16;
    pairs.hi = y.even | y.odd << 16;
    return pairs;
}

/* Lane j of line i and lane i of line j change places. A round takes the highest digit of a line's number to the lowest
 * place of the lanes', and the lanes' highest to the lines' lowest. */
static inline void turn(tfm_uvec *lines) {
    UNROLL
    for (int digit = 1; digit < TFM_WIDTH; digit *= 2) {
        tfm_uvec next[TFM_WIDTH];
        UNROLL
        for (int i = 0; i < TFM_WIDTH / 2; i++) {
            next[2 * i].even = lines[i].lo;
            next[2 * i].odd = lines[i + TFM_WIDTH / 2].lo;
            next[2 * i + 1].even = lines[i].hi;
            next[2 * i + 1].odd = lines[i + TFM_WIDTH / 2].hi;
        }
        EACH_LINE
        lines[i] = next[i];
    }
}

/* A matrix whose element (p, x), p along K, lies at p * along + x * across; it has `depth` x `width` of them. */
typedef struct matrix {
    __global const float *from;
    long along, across, depth, width;
} matrix;

static inline uint bits_at(const matrix *a, const long p, const long x) {
    return p < a->depth && x < a->width ? narrow_bits(as_uint(a->from[p * a->along + x * a->across])) : 0;
}

/* Lines of pairs across K: line i has pairs (p + 2 i, p + 2 i + 1) of columns x .. x + TFM_WIDTH - 1, and zeros where
 * the matrix ends. */
static inline void take_across(tfm_uvec *lines, const matrix *a, const long p, const long x) {
    if (p + DEPTH > a->depth || x + TFM_WIDTH > a->width) {
        uint part[TFM_WIDTH * TFM_WIDTH]; /* lines that are indexed by a variable would live in memory */
        for (int i = 0; i < TFM_WIDTH; i++)
            for (int j = 0; j < TFM_WIDTH; j++)
                part[i * TFM_WIDTH + j] = bits_at(a, p + 2 * i, x + j) | bits_at(a, p + 2 * i + 1, x + j) << 16;
        EACH_LINE
        lines[i] = tfm_load(part + i * TFM_WIDTH);
    } else if (a->across == 1) {
        EACH_LINE {
            __global const float *row = a->from + (p + 2 * i) * a->along + x;
            lines[i] = pairs_of(tfm_load(row), tfm_load(row + a->along));
        }
    } else {
        EACH_LINE
        lines[i] = pairs_at(a->from + (x + i) * a->across + p);
        turn(lines);
    }
}

/* packed: the panels of gemm_panel.cl, from b with b[p][x] at p b_row + x b_column, one of which is 1. Grid: panels x
 * blocks of `block` rows, a multiple of PAIRED_DEPTH. */
TFM_KERNEL void gemm_pairs_panels(TFM_TENSOR(uint, packed), TFM_INPUT(float, b), const long n, const long k,
                                  const long block, const long b_row, const long b_column) {
    const long panel = get_global_id(0), first = get_global_id(1) * block, last = min(first + block, PANEL_DEPTH(k));
    const matrix from = {TFM_AT(b), b_row, b_column, k, n};
    __global uint *to = TFM_AT(packed) + panel * (PANEL_DEPTH(k) / 2) * TFM_PANEL;
    for (long p = first; p < last; p += DEPTH)
        for (int j = 0; j < TFM_VECTORS; j++) {
            tfm_uvec lines[TFM_WIDTH];
            take_across(lines, &from, p, panel * TFM_PANEL + j * TFM_WIDTH);
            EACH_LINE
            tfm_store(lines[i], to + (p / 2 + i) * TFM_PANEL + j * TFM_WIDTH);
        }
}

/* rounded: rows as gemm_dots_round leaves them, from a (K, M). Grid: ceil(M / TFM_PANEL) x blocks of `block` rows of a,
 * a multiple of PAIRED_DEPTH. */
TFM_KERNEL void gemm_pairs_turned(TFM_TENSOR(uint, rounded), TFM_INPUT(float, a), const long m, const long k,
                                  const long block) {
    const long row = get_global_id(0) * TFM_PANEL, first = get_global_id(1) * block;
    const long last = min(first + block, PANEL_DEPTH(k));
    const matrix from = {TFM_AT(a), m, 1, k, m};
    for (long p = first; p < last; p += DEPTH)
        for (long x = row; x < min(row + TFM_PANEL, m); x += TFM_WIDTH) {
            tfm_uvec lines[TFM_WIDTH];
            take_across(lines, &from, p, x);
            turn(lines);
            EACH_LINE
            if (x + i < m)
                tfm_store(lines[i], TFM_AT(rounded) + (x + i) * ROW_PAIRS(k) + p / 2);
        }
}
