/* Block-quantized linear layers of CPUs with int16 dot products: included by quant_linear.cl, after
 * quant_linear_cpu.cl. Each 32 numbers of x are 16-bit integers times one scale, in the order of the weights' pairs, so
 * a lane multiplies a pair of codes by a broadcast pair of x, and sums of a group are exact integers:
 *
 *     vpdpwssd   two products added to a lane
 *     vpmaddwd   two products; the addition is separate
 *
 * The result of a row does not depend on the number of rows. The host validates the kernel against fp32 activations. */
#define MAX_NUMBERS 32768 /* of x, in quant_linear_int16_few */

#if defined(__AVX512VL__) && (defined(__AVX512VNNI__) || defined(TFM_HAS_AVX512VNNI)) && TFM_WIDTH >= 8
#define VPDPWSSD "vpdpwssd %2, %1, %0"
#define VECTOR "v"
#elif defined(__AVX2__) && (defined(__AVXVNNI__) || defined(TFM_HAS_AVXVNNI)) && TFM_WIDTH == 8
#define VPDPWSSD "%{vex%} vpdpwssd %2, %1, %0"
#define VECTOR "x"
#endif

/* sum + the products of both 16-bit fields of x and w, which are signed. */
static inline tfm_ivec add_pairs(tfm_ivec sum, const tfm_ivec x, const tfm_uvec w) {
#if defined(VPDPWSSD)
    __asm__(VPDPWSSD : "+" VECTOR(sum) : VECTOR(x), VECTOR(w));
    return sum;
#elif TFM_WIDTH == 8 && defined(__AVX2__)
    typedef short words __attribute__((vector_size(32)));
    return sum +
           __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(x, words), __builtin_astype(w, words)), int8);
#elif TFM_WIDTH == 16 && defined(__AVX512BW__)
    typedef short words __attribute__((vector_size(64)));
    return sum +
           __builtin_astype(__builtin_ia32_pmaddwd512(__builtin_astype(x, words), __builtin_astype(w, words)), int16);
#else
    const tfm_ivec v = tfm_as_int_vec(w);
    return sum + (x << 16 >> 16) * (v << 16 >> 16) + (x >> 16) * (v >> 16);
#endif
}

/* Codes of a codebook become its values plus 128: OFFSET_16 is their offset. */
#if CODEBOOK
#define OFFSET_16 128
__constant uchar code_bytes[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static inline tfm_uvec code_lanes(const tfm_uvec codes) {
#if TFM_WIDTH == 8 && defined(__AVX2__)
    typedef char bytes __attribute__((vector_size(32)));
    const uint8 table =
        (uint8)(0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5, 0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5);
    return __builtin_astype(
        __builtin_ia32_pshufb256(__builtin_astype(table, bytes), __builtin_astype(codes | 0x80008000u, bytes)), uint8);
#else
    uint v[TFM_WIDTH];
    for (int j = 0; j < TFM_WIDTH; j++) {
        const uint pair = ((const uint *)&codes)[j];
        v[j] = code_bytes[pair & 15] | (uint)code_bytes[pair >> 16] << 16;
    }
    return tfm_load(v);
#endif
}
#else
#define OFFSET_16 OFFSET
#define code_lanes(codes) (codes)
#endif

/* What the sum of a group of x gives: with an offset, the integer to add; with a minimum, the sum itself. */
#if MINIMUM
typedef float group_term;
#define GROUP_TERM(sum, scale) ((scale) * (float)(sum))
#else
typedef int group_term;
#define GROUP_TERM(sum, scale) (-OFFSET_16 * (sum))
#endif

#if TFM_WIDTH == 16
#define REDUCE4(f, v) f(f((v).lo.lo, (v).lo.hi), f((v).hi.lo, (v).hi.hi))
#define SHORTS(v, i) convert_short16((v)[i])
#define ADD(a, b) ((a) + (b))
#elif TFM_WIDTH == 8
#define REDUCE4(f, v) f((v).lo, (v).hi)
#define SHORTS(v, i) (short16)(convert_short8((v)[2 * (i)]), convert_short8((v)[2 * (i) + 1]))
#define ADD(a, b) ((a) + (b))
#endif
static inline int lanes_max(const tfm_ivec v) {
    const int4 u = REDUCE4(max, v);
    return max(max(u.x, u.y), max(u.z, u.w));
}
static inline int lanes_sum(const tfm_ivec v) {
    const int4 u = REDUCE4(ADD, v);
    return u.x + u.y + u.z + u.w;
}

/* A row of x as pairs q (k / 2), a scale of each 32, and the term of each group. A part with a non-finite number has
 * the scale NaN. */
#define VECTORS (32 / TFM_WIDTH)
#define DEFINE_QUANTIZE(NAME, SPACE)                                                                                   \
    static void NAME(SPACE int *q, SPACE float *scales, SPACE group_term *terms, __global const float *x, int k) {     \
        for (int c = 0; c < k / 32; c++, x += 32) {                                                                    \
            tfm_ivec v[VECTORS], most = 0;                                                                             \
            _Pragma("unroll") for (int i = 0; i < VECTORS; i++) most =                                                 \
                max(most, tfm_as_int_vec(tfm_load(x + i * TFM_WIDTH)) & 0x7fffffff);                                   \
            const int bits = lanes_max(most), counts = bits < 0x7f800000 && as_float(bits) > 1e-30f;                   \
            const float inverse = counts ? 32767.0f / as_float(bits) : 0.0f, scale = bits >= 0x7f800000 ? NAN          \
                                                                                     : counts                          \
                                                                                         ? as_float(bits) / 32767.0f   \
                                                                                         : 0.0f;                       \
            _Pragma("unroll") for (int i = 0; i < VECTORS; i++) v[i] =                                                 \
                tfm_as_int_vec(tfm_fma(tfm_load(x + i * TFM_WIDTH), (tfm_vec)(inverse), (tfm_vec)(TFM_ROUND_MAGIC))) - \
                0x4B400000;                                                                                            \
            const short16 a = SHORTS(v, 0), b = SHORTS(v, 1);                                                          \
            vstore8(as_int8(__builtin_shufflevector(a, b, 0, 2, 16, 18, 1, 3, 17, 19, 4, 6, 20, 22, 5, 7, 21, 23)),    \
                    2 * c, q);                                                                                         \
            vstore8(                                                                                                   \
                as_int8(__builtin_shufflevector(a, b, 8, 10, 24, 26, 9, 11, 25, 27, 12, 14, 28, 30, 13, 15, 29, 31)),  \
                2 * c + 1, q);                                                                                         \
            scales[c] = scale;                                                                                         \
            int sums[2];                                                                                               \
            sums[0] = lanes_sum(VECTORS == 4 ? v[0] + v[1] : v[0]);                                                    \
            sums[1] = lanes_sum(VECTORS == 4 ? v[VECTORS - 2] + v[VECTORS - 1] : v[1]);                                \
            if (GROUP == 16) {                                                                                         \
                terms[2 * c] = GROUP_TERM(sums[0], scale);                                                             \
                terms[2 * c + 1] = GROUP_TERM(sums[1], scale);                                                         \
            } else {                                                                                                   \
                terms[c] = GROUP_TERM(sums[0] + sums[1], scale);                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }
#if INT16 == 1
DEFINE_QUANTIZE(quantize, __private)
#else
DEFINE_QUANTIZE(quantize, __global)
#endif

/* Rows `row` .. `row` + rows - 1, ROWS at most, of a row block; q, scales and terms begin at the first of them. */
#define DEFINE_BLOCK(NAME, SPACE)                                                                                      \
    static void NAME(const target *t, const long block, const long row, const int rows, SPACE const int *q,            \
                     SPACE const float *scales, SPACE const group_term *terms, const int k) {                          \
        __global const uint *tile = t->w + block * (k / BLOCK) * TILE_WORDS;                                           \
        tfm_vec total[ROWS], part[ROWS], less[ROWS];                                                                   \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++) total[i] = 0.0f;                                              \
        for (int at = 0; at < k; at += BLOCK, tile += TILE_WORDS) {                                                    \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++) part[i] = less[i] = 0.0f;                                 \
            for (int chunk = 0; chunk < BLOCK / 32; chunk++) {                                                         \
                tfm_uvec low[LOW], high[HIGH + 1];                                                                     \
                _Pragma("unroll") for (int j = 0; j < LOW; j++) low[j] =                                               \
                    tfm_load(LOW_WORDS(tile, chunk) + j * TILE_ROWS);                                                  \
                _Pragma("unroll") for (int j = 0; j < HIGH; j++) high[j] =                                             \
                    tfm_load(HIGH_WORDS(tile, chunk) + j * TILE_ROWS);                                                 \
                const int c = at / 32 + chunk;                                                                         \
                _Pragma("unroll") for (int h = 0; h < 32 / GROUP; h++) {                                               \
                    const int g = c * (32 / GROUP) + h;                                                                \
                    tfm_ivec sum[ROWS];                                                                                \
                    _Pragma("unroll") for (int i = 0; i < ROWS; i++) sum[i] =                                          \
                        MINIMUM ? 0 : (tfm_ivec)((int)terms[min(i, rows - 1) * (k / GROUP) + g]);                      \
                    _Pragma("unroll") for (int p = 0; p < PAIRS; p++) {                                                \
                        const tfm_uvec codes = code_lanes(PAIR_CODES(low, high, PAIR(p, h)));                          \
                        _Pragma("unroll") for (int i = 0; i < ROWS; i++) sum[i] =                                      \
                            add_pairs(sum[i], (tfm_ivec)(q[min(i, rows - 1) * (k / 2) + c * 16 + PAIR(p, h)]), codes); \
                    }                                                                                                  \
                    _Pragma("unroll") for (int i = 0; i < ROWS; i++) {                                                 \
                        const tfm_vec scale = scales[min(i, rows - 1) * (k / 32) + c],                                 \
                                      v = TFM_CAT(convert_float, TFM_WIDTH)(sum[i]);                                   \
                        if (SUPER)                                                                                     \
                            part[i] = tfm_fma(scale_lanes(tile, chunk * (32 / GROUP) + h) * scale, v, part[i]);        \
                        else                                                                                           \
                            part[i] = BLOCK == 32 ? scale * v : tfm_fma(scale, v, part[i]);                            \
                        const tfm_vec term = (float)terms[min(i, rows - 1) * (k / GROUP) + g];                         \
                        if (MINIMUM && SUPER)                                                                          \
                            less[i] = tfm_fma(min_lanes(tile, chunk * (32 / GROUP) + h), term, less[i]);               \
                        else if (MINIMUM)                                                                              \
                            less[i] += term;                                                                           \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++) {                                                         \
                total[i] = tfm_fma(number_lanes(tile), part[i], total[i]);                                             \
                if (MINIMUM)                                                                                           \
                    total[i] = tfm_fma(-number_lanes(tile + AT_MIN), less[i], total[i]);                               \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++) if (i < rows) finish(t, row + i, block, total[i]);            \
    }
#if INT16 == 1
DEFINE_BLOCK(row_block, __private)

/* Few rows, as in decode, bound by reading w: each item quantizes x itself, because another launch takes longer. At
 * most MAX_NUMBERS numbers of x. Grid: groups of `blocks` row blocks. */
TFM_KERNEL void quant_linear_int16_few(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(float, x), const long k, const long m,
                                       const long blocks) {
    FIND_TARGET((long)get_global_id(0));
    const int depth = (int)k, count = (int)m;
    const long end = min((t.at + 1) * blocks, (t.n + TILE_ROWS - 1) / TILE_ROWS);
    int q[MAX_NUMBERS / 2];
    float scales[MAX_NUMBERS / 32];
    group_term terms[MAX_NUMBERS / GROUP];
    for (int i = 0; i < count; i++)
        quantize(q + i * (depth / 2), scales + i * (depth / 32), terms + i * (depth / GROUP), TFM_AT(x) + i * k, depth);
    for (long block = t.at * blocks; block < end; block++)
        for (int i = 0; i < count; i += ROWS)
            row_block(&t, block, i, min(count - i, ROWS), q + i * (depth / 2), scales + i * (depth / 32),
                      terms + i * (depth / GROUP), depth);
}

#else
DEFINE_BLOCK(row_block, __global)

/* x as integers, for quant_linear_int16. Grid: groups of `rows` rows. */
TFM_KERNEL void quant_linear_quantize(TFM_TENSOR(int, q), TFM_TENSOR(float, scales), TFM_TENSOR(group_term, terms),
                                      TFM_INPUT(float, x), const long k, const long m, const long rows) {
    const long first = get_global_id(0) * rows, last = min(first + rows, m);
    for (long i = first; i < last; i++)
        quantize(TFM_AT(q) + i * (k / 2), TFM_AT(scales) + i * (k / 32), TFM_AT(terms) + i * (k / GROUP),
                 TFM_AT(x) + i * k, (int)k);
}

/* Grid: groups of `blocks` row blocks x groups of `rows` rows of x. */
TFM_KERNEL void quant_linear_int16(OUTPUT(0), OUTPUT(1), OUTPUT(2), TFM_INPUT(int, q), TFM_INPUT(float, scales),
                                   TFM_INPUT(group_term, terms), const long k, const long m, const long blocks,
                                   const long rows) {
    FIND_TARGET((long)get_global_id(0));
    const long first = get_global_id(1) * rows, last = min(first + rows, m);
    const long end = min((t.at + 1) * blocks, (t.n + TILE_ROWS - 1) / TILE_ROWS);
    for (long block = t.at * blocks; block < end; block++)
        for (long i = first; i < last; i += ROWS)
            row_block(&t, block, i, (int)min(last - i, (long)ROWS), TFM_AT(q) + i * (k / 2),
                      TFM_AT(scales) + i * (k / 32), TFM_AT(terms) + i * (k / GROUP), (int)k);
}
#endif
