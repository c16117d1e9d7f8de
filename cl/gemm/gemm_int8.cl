/* Linear layers with int8 weights: c (M, N) = activation(x w^T + bias). Row j of w is scales[j] times the int8 q[j],
 * and row i of x is quantized here to row_scales[i] times integers of -127 to 127. So sums are exact 32-bit integers,
 * each scaled once:
 *
 *     c[i][j] = activation(row_scales[i] scales[j] sum over k of a[i][k] q[j][k] + bias[j])
 *
 * A row of x with a non-finite element gives NaN. Rows with a largest absolute value below 1e-30 count as zeros.
 *
 * The reference kernels run on every device. CPU-style devices have tiles of rows x 4 columns, with sums in registers
 * along K; a vector of sums holds parts of one sum. The dot product of two vectors depends on the CPU, as known from
 * the compiler or the host:
 *
 *     vpdpbusd   4 products a lane, unsigned by signed bytes: a is stored with 128 added, and 128 times the sum of
 *                a weight's row (`row_sums`, from the host) is subtracted
 *     vpmaddwd   2 products a lane, of 16 bits: the bytes are sign-extended, those of x once for all columns.
 *                vpmaddubsw takes bytes, but saturates at 16 bits, and needs two multiplies for 32 products too
 *     sdot       4 products a lane, of signed bytes
 *     tdpbusd    AMX, for many rows: 16 rows of 64 unsigned bytes by 16 columns, in 16 cycles. It takes the numbers
 *                of vpdpbusd in the same packed layout
 *
 * The host validates them against the reference kernels before their first use. K is below 2^17, so no sum overflows.
 *
 * Build options: TFM_ACTIVATION; PLAIN: only the reference kernels; TILES, 1 if the processor has tdpbusd and the
 * system permits it. */
#ifndef TILES
#define TILES 0
#endif
#if TILES
#include "amx.cl"
#endif

/* Few rows: limits of rows and of row length that an item keeps private copies of. */
#ifndef MAX_ROWS
#define MAX_ROWS 8
#endif
#ifndef MAX_DEPTH
#define MAX_DEPTH 4096
#endif

#include "int8_common.cl"

#define ROUNDED(v) (tfm_as_int_vec(tfm_fma(v, (tfm_vec)(inverse), (tfm_vec)(TFM_ROUND_MAGIC))) - 0x4B400000)

/* ---- Reference kernels ---- */

/* a (M, PADDED_K(K)) and row_scales (M) of x (M, K). Layout: TFM_GROUP items share a row. */
TFM_KERNEL void int8_quantize_rows_reference(TFM_TENSOR(char, a), TFM_TENSOR(float, row_scales), TFM_INPUT(float, x),
                                             const long m, const long k) {
    TFM_SCRATCH
    const long row = TFM_ROW();
    if (row >= m)
        return;
    __global const float *from = TFM_AT(x) + row * k;
    __global char *to = TFM_AT(a) + row * PADDED_K(k);
    float largest = 0, inverse;
    int odd = 0; /* non-finite values, which a maximum of floats would drop */
    for (long i = TFM_LOCAL_ID(); i < k; i += TFM_GROUP) {
        largest = fmax(largest, fabs(from[i]));
        odd |= (as_int(from[i]) & 0x7fffffff) >= 0x7f800000;
    }
    largest = tfm_group_max(largest);
    const float any = tfm_group_max((float)odd);
    const float step = quantization_scale(any > 0 ? 0x7f800000 : as_int(largest), &inverse);
    for (long i = TFM_LOCAL_ID(); i < PADDED_K(k); i += TFM_GROUP)
        to[i] = i < k && inverse != 0 ? (char)QUANTIZE_ONE(from[i]) : 0;
    if (TFM_LOCAL_ID() == 0)
        TFM_AT(row_scales)[row] = step;
}

/* Layout: one work-item for TFM_CHUNK elements of c. */
TFM_KERNEL void gemm_int8_reference(TFM_TENSOR(float, c), TFM_INPUT(char, a), TFM_INPUT(float, row_scales),
                                    TFM_INPUT(char, q), TFM_INPUT(float, scales), TFM_INPUT(float, bias), const long m,
                                    const long n, const long k, const long has_bias) {
    const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, m * n);
    for (long e = first; e < end; e++) {
        const long i = e / n, j = e - i * n;
        __global const char *x = TFM_AT(a) + i * PADDED_K(k), *w = TFM_AT(q) + j * k;
        int sum = 0;
        int p = 0;
        for (; p + 8 <= (int)k; p += 8) { /* llvmpipe ends a loop after 65,535 iterations */
            const int8 v = convert_int8(vload8(0, x + p)) * convert_int8(vload8(0, w + p));
            const int4 u = v.lo + v.hi;
            sum += u.x + u.y + u.z + u.w;
        }
        for (; p < (int)k; p++)
            sum += x[p] * w[p];
        const float scale = TFM_AT(row_scales)[i] * TFM_AT(scales)[j];
        TFM_AT(c)[e] = tfm_activate(tfm_fma((float)sum, scale, has_bias ? TFM_AT(bias)[j] : 0.0f));
    }
}

#if defined(TFM_CLASS_CPU) && !defined(PLAIN)

/* ---- Dot products of the CPU ---- */

typedef struct __attribute__((packed)) unaligned_bytes {
    char16 all;
} unaligned_bytes;
typedef struct __attribute__((packed)) unaligned_shorts {
    short16 all;
} unaligned_shorts;
typedef struct __attribute__((packed)) unaligned_ints {
    tfm_ivec all;
} unaligned_ints;
#define LOAD(SPACE, TYPE, p) (((SPACE const TYPE *)(p))->all)

/* A compiler may target an older CPU, as Debian's PoCL does: then the host reports the features, and inline assembly is
 * compiled anyway. */
#if defined(__AVX512VL__) && (defined(__AVX512VNNI__) || defined(TFM_HAS_AVX512VNNI)) && TFM_WIDTH >= 8
#define VPDPBUSD "vpdpbusd %2, %1, %0"
#define VECTOR "v"
#elif defined(__AVX2__) && (defined(__AVXVNNI__) || defined(TFM_HAS_AVXVNNI)) && TFM_WIDTH == 8
#define VPDPBUSD "%{vex%} vpdpbusd %2, %1, %0"
#define VECTOR "x"
#endif

#if TILES && !(defined(VPDPBUSD) && TFM_WIDTH == 16)
#error AMX tiles need the packed layout of vpdpbusd
#endif

/* number: an element of a row of x. line: a vector of STEP of them; weights: the same of w. part_sums reduces four
 * vectors of `sums` to four sums. */
#ifdef VPDPBUSD
#define STEP (4 * TFM_WIDTH)
#define OFFSET 128
typedef char number;
typedef tfm_ivec line, weights, sums;
#define NUMBERS(v) (TFM_CAT(convert_char, TFM_WIDTH)(v) ^ (char)(-128))
#define LOAD_LINE(SPACE, p) LOAD(SPACE, unaligned_ints, p)
#define LOAD_WEIGHTS(SPACE, p) LOAD(SPACE, unaligned_ints, p)
static inline sums add_dot_products(sums sum, line x, weights w) {
    __asm__(VPDPBUSD : "+" VECTOR(sum) : VECTOR(x), VECTOR(w));
    return sum;
}
#elif TFM_WIDTH == 4 && defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define STEP 16
#define OFFSET 0
typedef char number;
typedef char16 line, weights;
typedef int4 sums;
#define NUMBERS(v) TFM_CAT(convert_char, TFM_WIDTH)(v)
#define LOAD_LINE(SPACE, p) LOAD(SPACE, unaligned_bytes, p)
#define LOAD_WEIGHTS(SPACE, p) LOAD(SPACE, unaligned_bytes, p)
static inline sums add_dot_products(sums sum, line x, weights w) {
    __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
}
#else
#define STEP 16
#define OFFSET 0
typedef short number;
typedef short16 line, weights;
typedef int8 sums;
#define NUMBERS(v) TFM_CAT(convert_short, TFM_WIDTH)(v)
#define LOAD_LINE(SPACE, p) LOAD(SPACE, unaligned_shorts, p)
#define LOAD_WEIGHTS(SPACE, p) convert_short16(LOAD(SPACE, unaligned_bytes, p))
#ifdef __AVX2__
typedef short words __attribute__((vector_size(32)));
static inline sums add_dot_products(sums sum, line x, weights w) {
    return sum +
           __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(x, words), __builtin_astype(w, words)), int8);
}
#else
static inline sums add_dot_products(sums sum, line x, weights w) {
    return sum + convert_int8(x.even) * convert_int8(w.even) + convert_int8(x.odd) * convert_int8(w.odd);
}
#endif
#endif

/* Rows of a tile: with four columns they leave registers for the operands. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILE_ROWS 4
#else
#define TILE_ROWS 3
#endif

static inline int4 quarter16(int16 v) {
    const int8 half_sum = v.lo + v.hi;
    return half_sum.lo + half_sum.hi;
}
static inline int4 quarter8(int8 v) {
    return v.lo + v.hi;
}
static inline int4 quarter4(int4 v) {
    return v;
}
#if STEP == 64
#define QUARTER quarter16
#elif TFM_WIDTH == 4 && defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define QUARTER quarter4
#else
#define QUARTER quarter8
#endif
static inline int4 part_sums(sums a, sums b, sums c, sums d) {
    const int4 w = QUARTER(a), x = QUARTER(b), y = QUARTER(c), z = QUARTER(d);
    const int4 u = (int4)(w.even, x.even) + (int4)(w.odd, x.odd), v = (int4)(y.even, z.even) + (int4)(y.odd, z.odd);
    return (int4)(u.even, v.even) + (int4)(u.odd, v.odd);
}

/* ---- Quantization of x ---- */

#define DEFINE_QUANTIZE_ROW(NAME, SPACE)                                                                               \
    static float NAME(SPACE number *to, __global const float *x, int k) {                                              \
        float inverse;                                                                                                 \
        const float step = quantization_scale(row_abs_max_bits(x, k), &inverse);                                       \
        int i = 0;                                                                                                     \
        for (; inverse != 0 && i + TFM_WIDTH <= k; i += TFM_WIDTH)                                                     \
            tfm_store(NUMBERS(ROUNDED(tfm_load(x + i))), to + i);                                                      \
        float rest[TFM_WIDTH];                                                                                         \
        for (; i < PADDED_K(k); i += TFM_WIDTH) {                                                                      \
            for (int p = 0; p < TFM_WIDTH; p++)                                                                        \
                rest[p] = i + p < k && inverse != 0 ? x[i + p] : 0.0f;                                                 \
            tfm_store(NUMBERS(ROUNDED(tfm_load(rest))), to + i);                                                       \
        }                                                                                                              \
        return step;                                                                                                   \
    }
DEFINE_QUANTIZE_ROW(quantize_row, __global)
DEFINE_QUANTIZE_ROW(quantize_row_private, __private)

/* a (M, PADDED_K(K)) and row_scales (M) of x (M, K). Grid: items of `rows` rows each. */
TFM_KERNEL void int8_quantize_rows(TFM_TENSOR(number, a), TFM_TENSOR(float, row_scales), TFM_INPUT(float, x),
                                   const long m, const long k, const long rows) {
    const long first = get_global_id(0) * rows, last = min(first + rows, m);
    for (long i = first; i < last; i++)
        TFM_AT(row_scales)[i] = quantize_row(TFM_AT(a) + i * PADDED_K(k), TFM_AT(x) + i * k, (int)k);
}

/* out (N): the sums of w's rows, if `a` has an offset. Layout: one work-item a row. */
TFM_KERNEL void int8_row_sums(TFM_TENSOR(int, out), TFM_INPUT(char, q), const long n, const long k) {
    const long row = TFM_ROW();
    int sum = 0;
    if (!OFFSET || row >= n)
        return;
    for (long i = 0; i < k; i++)
        sum += TFM_AT(q)[row * k + i];
    TFM_AT(out)[row] = sum;
}

/* ---- Tiles ---- */

/* Inputs and destination of a tile. */
typedef struct gemm_args {
    __global float *c;
    __global const char *q;
    __global const float *scales, *bias; /* bias may be 0 */
    __global const int *row_sums;
    long n;
    int k;
    float min_value;
} gemm_args;

#define UNROLL _Pragma("unroll")

/* STEP bytes, `count` of them valid. */
static inline weights last_weights(__global const char *q, int count) {
    char part[STEP];
    for (int i = 0; i < STEP; i++)
        part[i] = i < count ? q[i] : 0;
    return LOAD_WEIGHTS(__private, part);
}

/* Four results of row `row`, from `column` on; some columns may be over the edge. */
static inline void finish(const gemm_args *p, long row, long column, int4 total, float step) {
    const int there = (int)min(p->n - column, 4L);
    __global float *to = p->c + row * p->n + column;
#if OFFSET
    if (there == 4)
        total -= OFFSET * vload4(0, p->row_sums + column);
    else
        for (int j = 0; j < there; j++)
            ((int *)&total)[j] -= OFFSET * p->row_sums[column + j];
#endif
    if (there == 4) {
        const float4 scale = step * vload4(0, p->scales + column);
        const float4 add = p->bias ? vload4(0, p->bias + column) : (float4)(0.0f);
        const float4 v = tfm_fma(convert_float4(total), scale, add);
        vstore4(v < (float4)(p->min_value) ? (float4)(p->min_value) : v, 0, to);
        return;
    }
    for (int j = 0; j < there; j++) {
        const float v = tfm_fma((float)((const int *)&total)[j], step * p->scales[column + j],
                                p->bias ? p->bias[column + j] : 0.0f);
        to[j] = v < p->min_value ? p->min_value : v;
    }
}

/* With few rows, an item keeps the quantized rows in private memory and reads each weight once, so it is bound by the
 * weights: they are prefetched AHEAD bytes early, in the next four rows of the weight or further, which hardware
 * prefetching does not reach. */
#define AHEAD(k) max(2048, 4 * (k))
#define FETCH_AHEAD___global(p)
#if defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define FETCH_AHEAD___private(p) __builtin_prefetch((const void *)(size_t)(p), 0, 3)
#endif
#endif
#ifndef FETCH_AHEAD___private
#define FETCH_AHEAD___private(p)
#endif

/* NAME: rows row .. row + rows - 1, R at most, of columns column .. column + 3. Missing rows and columns read the last
 * one and are not stored. `a` is the first quantized row. */
#define DEFINE_TILE(NAME, SPACE, R)                                                                                    \
    static void NAME(const gemm_args *p, SPACE const number *a, SPACE const float *row_scales, long row, int rows,     \
                     long column) {                                                                                    \
        SPACE const number *from[R];                                                                                   \
        __global const char *w[4];                                                                                     \
        sums sum[R][4];                                                                                                \
        int s = 0;                                                                                                     \
        _Pragma("unroll") for (int i = 0; i < R; i++) from[i] = a + min(i, rows - 1) * PADDED_K(p->k);                 \
        _Pragma("unroll") for (int j = 0; j < 4; j++) w[j] = p->q + min(column + j, p->n - 1) * p->k;                  \
        _Pragma("unroll") for (int i = 0; i < R; i++) _Pragma("unroll") for (int j = 0; j < 4; j++) sum[i][j] = 0;     \
        for (; s + STEP <= p->k; s += STEP) {                                                                          \
            line x[R];                                                                                                 \
            _Pragma("unroll") for (int i = 0; i < R; i++) x[i] = LOAD_LINE(SPACE, from[i] + s);                        \
            _Pragma("unroll") for (int j = 0; j < 4; j++) {                                                            \
                const weights v = LOAD_WEIGHTS(__global, w[j] + s);                                                    \
                FETCH_AHEAD_##SPACE(w[j] + s + AHEAD(p->k));                                                           \
                _Pragma("unroll") for (int i = 0; i < R; i++) sum[i][j] = add_dot_products(sum[i][j], x[i], v);        \
            }                                                                                                          \
        }                                                                                                              \
        if (s < p->k)                                                                                                  \
            _Pragma("unroll") for (int j = 0; j < 4; j++) {                                                            \
                const weights v = last_weights(w[j] + s, p->k - s);                                                    \
                _Pragma("unroll") for (int i = 0; i < R; i++) sum[i][j] =                                              \
                    add_dot_products(sum[i][j], LOAD_LINE(SPACE, from[i] + s), v);                                     \
            }                                                                                                          \
        _Pragma("unroll") for (int i = 0; i < R; i++) if (i < rows)                                                    \
            finish(p, row + i, column, part_sums(sum[i][0], sum[i][1], sum[i][2], sum[i][3]), row_scales[i]);          \
    }

#define DEFINE_TILES(NAME, SPACE)                                                                                      \
    DEFINE_TILE(NAME##_1, SPACE, 1)                                                                                    \
    DEFINE_TILE(NAME##_2, SPACE, 2)                                                                                    \
    DEFINE_TILE(NAME##_most, SPACE, TILE_ROWS)                                                                         \
    static inline void NAME(const gemm_args *p, SPACE const number *a, SPACE const float *row_scales, long row,        \
                            int rows, long column) {                                                                   \
        if (rows == 1)                                                                                                 \
            NAME##_1(p, a, row_scales, row, rows, column);                                                             \
        else if (rows == 2)                                                                                            \
            NAME##_2(p, a, row_scales, row, rows, column);                                                             \
        else                                                                                                           \
            NAME##_most(p, a, row_scales, row, rows, column);                                                          \
    }
DEFINE_TILES(tile, __global)
DEFINE_TILES(own_tile, __private)

/* An expensive activation on the part of c that was just written: in vectors it is faster. */
static void activate_part(const gemm_args *p, long row, int rows, long column, long end) {
    if (TFM_ACTIVATION <= 1)
        return;
    for (int i = 0; i < rows; i++) {
        __global float *line_of_c = p->c + (row + i) * p->n;
        long j = column;
        for (; j + TFM_WIDTH <= end; j += TFM_WIDTH)
            tfm_store(tfm_activate_vec(tfm_load(line_of_c + j)), line_of_c + j);
        for (; j < end; j++)
            line_of_c[j] = tfm_activate(line_of_c[j]);
    }
}

#define GEMM_PARAMETERS                                                                                                \
    TFM_INPUT(char, q), TFM_INPUT(float, scales), TFM_INPUT(int, row_sums), TFM_INPUT(float, bias), const long m,      \
        const long n, const long k, const long has_bias, const float min_value
#define GEMM_ARGS()                                                                                                    \
    { TFM_AT(c), TFM_AT(q), TFM_AT(scales), has_bias ? TFM_AT(bias) : 0, TFM_AT(row_sums), n, (int)k, min_value }

/* Many rows, quantized by int8_quantize_rows. Grid: groups of `rows` rows x groups of `columns` columns, a multiple of
 * four: their weights stay in the cache while the rows pass. */
TFM_KERNEL void gemm_int8_cpu(TFM_TENSOR(float, c), TFM_INPUT(number, a), TFM_INPUT(float, row_scales), GEMM_PARAMETERS,
                              const long rows, const long columns) {
    const gemm_args p = GEMM_ARGS();
    const long row = get_global_id(0) * rows, end = min(row + rows, m);
    const long column = get_global_id(1) * columns, edge = min(column + columns, n);
    for (long i = row; i < end; i += TILE_ROWS) {
        const int there = (int)min(end - i, (long)TILE_ROWS);
        for (long j = column; j < edge; j += 4)
            tile(&p, TFM_AT(a) + i * PADDED_K(k), TFM_AT(row_scales) + i, i, there, j);
        activate_part(&p, i, there, column, edge);
    }
}

#include "gemm_int8_cpu.cl"

/* Few rows, at most MAX_ROWS of MAX_DEPTH, as in decode: bound by reading w. Each item quantizes x itself, because
 * another launch takes longer. Grid: groups of `columns` columns, a multiple of four. */
TFM_KERNEL void gemm_int8_cpu_skinny(TFM_TENSOR(float, c), TFM_INPUT(float, x), GEMM_PARAMETERS, const long columns) {
    const gemm_args p = GEMM_ARGS();
    const long column = get_global_id(0) * columns, edge = min(column + columns, n);
    number a[MAX_ROWS * MAX_DEPTH];
    float row_scales[MAX_ROWS];
    for (int i = 0; i < (int)m; i++)
        row_scales[i] = quantize_row_private(a + i * PADDED_K(p.k), TFM_AT(x) + i * k, (int)k);
    for (long j = column; j < edge; j += 4)
        for (int i = 0; i < (int)m; i += TILE_ROWS)
            own_tile(&p, a + i * PADDED_K(p.k), row_scales + i, i, min((int)m - i, TILE_ROWS), j);
    activate_part(&p, 0, (int)m, column, edge);
}
#endif
