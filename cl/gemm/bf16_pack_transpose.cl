/* Packs pairs of neighbors along K from fp32 in either layout: rounded to bf16, or split into bf16 parts. Included by
 * gemm_cpu_bf16_pack.cl and gemm_cpu_bf16x3.cl after bf16_pack.cl. */

#define DEPTH (2 * TFM_WIDTH) /* numbers along K of a block of TFM_WIDTH x TFM_WIDTH pairs */

/* Lines of pairs, part after part. */
#define LINES (SPLIT * TFM_WIDTH)
#define SHARE(lines, q) ((lines) + (q)*TFM_WIDTH)

/* Line i: pairs of the lanes of x and y, x first along K. Returns the result of split_words. */
static inline tfm_ivec pairs_of(tfm_uvec *lines, const int i, const tfm_vec x, const tfm_vec y) {
    tfm_uvec first[SPLIT], second[SPLIT];
    const tfm_ivec nonfinite = split_words(first, x) | split_words(second, y);
#pragma unroll
    for (int q = 0; q < SPLIT; q++)
        SHARE(lines, q)[i] = first[q] | second[q] << 16;
    return nonfinite;
}

/* Line i: DEPTH consecutive numbers along K. */
static inline tfm_ivec pairs_at(tfm_uvec *lines, const int i, __global const float *from) {
    tfm_uvec x[SPLIT], y[SPLIT];
    const tfm_ivec nonfinite = split_words(x, tfm_load(from)) | split_words(y, tfm_load(from + TFM_WIDTH));
#pragma unroll
    for (int q = 0; q < SPLIT; q++) {
        tfm_uvec pairs;
        pairs.lo = x[q].even | x[q].odd << 16;
        pairs.hi = y[q].even | y[q].odd << 16;
        SHARE(lines, q)[i] = pairs;
    }
    return nonfinite;
}

/* Swaps lane j of line i with lane i of line j. A round moves the highest bit of the line index to the lowest of the
 * lane index, and the lanes' highest to the lines' lowest. */
static inline void transpose_block(tfm_uvec *lines) {
#pragma unroll
    for (int digit = 1; digit < TFM_WIDTH; digit *= 2) {
        tfm_uvec next[TFM_WIDTH];
#pragma unroll
        for (int i = 0; i < TFM_WIDTH / 2; i++) {
            next[2 * i].even = lines[i].lo;
            next[2 * i].odd = lines[i + TFM_WIDTH / 2].lo;
            next[2 * i + 1].even = lines[i].hi;
            next[2 * i + 1].odd = lines[i + TFM_WIDTH / 2].hi;
        }
#pragma unroll
        for (int i = 0; i < TFM_WIDTH; i++)
            lines[i] = next[i];
    }
}

/* A matrix of `depth` x `width` elements; element (p, x), p along K, is at p * along + x * across. */
typedef struct matrix {
    __global const float *from;
    long along, across, depth, width;
} matrix;

static inline float number_at(const matrix *a, const long p, const long x) {
    return p < a->depth && x < a->width ? a->from[p * a->along + x * a->across] : 0.0f;
}

/* Lines of pairs across K, element by element: line i has pairs (p + 2 i, p + 2 i + 1) of columns x .. x + TFM_WIDTH -
 * 1, with zeros beyond the matrix. Returns whether a number is non-finite. */
static uint take_singly(tfm_uvec *lines, const matrix *a, const long p, const long x) {
    uint part[LINES * TFM_WIDTH], nonfinite = 0; /* lines that are indexed by a variable would be in memory */
    for (int i = 0; i < TFM_WIDTH; i++)
        for (int j = 0; j < TFM_WIDTH; j++) {
            ushort first[SPLIT], second[SPLIT];
            nonfinite |= split_number(first, number_at(a, p + 2 * i, x + j));
            nonfinite |= split_number(second, number_at(a, p + 2 * i + 1, x + j));
#pragma unroll
            for (int q = 0; q < SPLIT; q++)
                part[(q * TFM_WIDTH + i) * TFM_WIDTH + j] = first[q] | (uint)second[q] << 16;
        }
#pragma unroll
    for (int i = 0; i < LINES; i++)
        lines[i] = tfm_load(part + i * TFM_WIDTH);
    return nonfinite;
}

/* The same, with the fastest loads. */
static inline uint take_across(tfm_uvec *lines, const matrix *a, const long p, const long x) {
    tfm_ivec nonfinite = 0;
    if (p + DEPTH > a->depth || x + TFM_WIDTH > a->width)
        return take_singly(lines, a, p, x);
    if (a->across == 1) {
#pragma unroll
        for (int i = 0; i < TFM_WIDTH; i++) {
            __global const float *row = a->from + (p + 2 * i) * a->along + x;
            nonfinite |= pairs_of(lines, i, tfm_load(row), tfm_load(row + a->along));
        }
    } else {
#pragma unroll
        for (int i = 0; i < TFM_WIDTH; i++)
            nonfinite |= pairs_at(lines, i, a->from + (x + i) * a->across + p);
#pragma unroll
        for (int q = 0; q < SPLIT; q++)
            transpose_block(SHARE(lines, q));
    }
    return SPLIT > 1 && any(nonfinite) ? take_singly(lines, a, p, x) : 0;
}
