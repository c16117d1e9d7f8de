/* Block-quantized linear layers of CPUs with int16 dot products: included by quant_linear.cl, after
 * quant_linear_cpu.cl. Each 32 numbers of x are 16-bit integers times one scale, in the order of the weights' pairs, so
 * a lane multiplies a pair of codes by a broadcast pair of x, and sums of a group are exact integers:
 *
 *     vpdpwssd   two products added to a lane
 *     vpmaddwd   two products; the addition is separate
 *
 * The result of a row does not depend on the number of rows. The host validates the kernel against fp32 activations. */
#define MAX_NUMBERS 32768 /* of x, in quant_linear_int16_few */
#define AHEAD 1024        /* words of w that it requests before their use */

#if defined(__AVX512VL__) && (defined(__AVX512VNNI__) || defined(TFM_HAS_AVX512VNNI)) && TFM_WIDTH >= 8
#define VPDPWSSD "vpdpwssd %2, %1, %0"
#define VECTOR "v"
#elif defined(__AVX2__) && (defined(__AVXVNNI__) || defined(TFM_HAS_AVXVNNI)) && TFM_WIDTH == 8
#define VPDPWSSD "%{vex%} vpdpwssd %2, %1, %0"
#define VECTOR "x"
#endif

/* Otherwise the compiler adds several products first, and moves sums to memory for lack of registers. */
#define KEEP_ORDER(registers, sum) __asm__("" : "+" registers(sum))

/* sum + the products of both 16-bit fields of x and w, which are signed. */
static inline tfm_ivec add_pairs(tfm_ivec sum, const tfm_ivec x, const tfm_uvec w) {
#if defined(VPDPWSSD)
    __asm__(VPDPWSSD : "+" VECTOR(sum) : VECTOR(x), VECTOR(w));
    return sum;
#elif TFM_WIDTH == 8 && defined(__AVX2__)
    typedef short words __attribute__((vector_size(32)));
    sum += __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(x, words), __builtin_astype(w, words)), int8);
    KEEP_ORDER("x", sum);
    return sum;
#elif TFM_WIDTH == 16 && defined(__AVX512BW__)
    typedef short words __attribute__((vector_size(64)));
    sum += __builtin_astype(__builtin_ia32_pmaddwd512(__builtin_astype(x, words), __builtin_astype(w, words)), int16);
    KEEP_ORDER("v", sum);
    return sum;
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

/* What a group of weights adds to the results of a row. Both kernels have the same order of operations. */
static inline void add_group(tfm_vec *part, tfm_vec *less, const tfm_vec factor, const tfm_vec min_factor,
                             const tfm_ivec sum, const float scale, const group_term term) {
    const tfm_vec number = TFM_CAT(convert_float, TFM_WIDTH)(sum);
#if SUPER
    *part = tfm_fma(factor * (tfm_vec)(scale), number, *part);
#else
    *part = BLOCK == 32 ? (tfm_vec)(scale)*number : tfm_fma((tfm_vec)(scale), number, *part);
#endif
#if MINIMUM && SUPER
    *less = tfm_fma(min_factor, (tfm_vec)(term), *less);
#elif MINIMUM
    *less += (tfm_vec)(term);
#endif
}

#if INT16 == 1
/* Codes of pair p, times 1, 16 or 256 in PLACES sums, where leaving them in their place saves a shift: the sum of 32
 * still fits 32 bits. The upper fields of 16 bits need no mask. */
#if LOW == 4 && !HIGH && !CODEBOOK
#define PLACES 3
#define PLACE(p) ((p) % 4 % 3)
#define PLACED_CODES(low, high, p)                                                                                     \
    ((p) % 4 == 3 ? UPPER_FIELDS((low)[(p) / 4]) : (low)[(p) / 4] & FIELDS(4) << (p) % 4 * 4)
#elif LOW == 8
#define PLACES 1
#define PLACE(p) 0
#define PLACED_CODES(low, high, p) ((p) % 2 ? UPPER_FIELDS((low)[(p) / 2]) : (low)[(p) / 2] & FIELDS(8))
#else
#define PLACES 1
#define PLACE(p) 0
#define PLACED_CODES(low, high, p) code_lanes(PAIR_CODES(low, high, p))
#endif
#if TFM_WIDTH == 16
typedef ushort fields __attribute__((ext_vector_type(32)));
#else
typedef TFM_CAT(ushort, 16) fields;
#endif
#define UPPER_FIELDS(word) __builtin_astype(__builtin_astype(word, fields) >> (fields)(16 - LOW), tfm_uvec)

/* Requests a chunk of a tile from memory. */
#define CHUNK_WORDS (TILE_WORDS / (BLOCK / 32))
static inline void request(__global const uint *chunk) {
#ifdef __x86_64__
#pragma unroll
    for (int i = 0; i < CHUNK_WORDS; i += 16)
        __asm__ volatile("prefetcht0 (%0)" : : "r"(chunk + i));
#endif
}

/* Rows `row` .. `row` + rows - 1, ROWS at most, of a row block; q, scales and terms begin at the first of them. Both
 * vectors of weights read the same broadcasts of x. */
static void row_block(const target *t, const long block, const long row, const int rows, const int *q,
                      const float *scales, const group_term *terms, const int k) {
    __global const uint *tile = t->w + block * (k / BLOCK) * TILE_WORDS;
    const int *pairs[ROWS];
    const float *scale[ROWS];
    const group_term *term[ROWS];
    tfm_vec total[ROWS][2], part[ROWS][2], less[ROWS][2];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int at = i == 0 ? 0 : min(i, rows - 1);
        pairs[i] = q + at * (k / 2);
        scale[i] = scales + at * (k / 32);
        term[i] = terms + at * (k / GROUP);
        total[i][0] = total[i][1] = 0.0f;
    }
    for (int b = 0; b < k / BLOCK; b++, tile += TILE_WORDS) {
#pragma unroll
        for (int e = 0; e < 2 * ROWS; e++)
            part[e / 2][e % 2] = less[e / 2][e % 2] = 0.0f;
        for (int chunk = 0; chunk < BLOCK / 32; chunk++) {
            tfm_uvec low[2][LOW], high[2][HIGH + 1];
            request(tile + AHEAD + chunk * CHUNK_WORDS);
#pragma unroll
            for (int h = 0; h < 32 / GROUP; h++) {
                tfm_ivec sum[ROWS][2][PLACES];
#pragma unroll
                for (int i = 0; i < ROWS; i++)
#pragma unroll
                    for (int e = 0; e < 2 * PLACES; e++)
                        sum[i][e % 2][e / 2] = MINIMUM || e > 1 ? (tfm_ivec)(0) : (tfm_ivec)((int)term[i][h]);
#pragma unroll
                for (int p = 0; p < PAIRS; p++)
#pragma unroll
                    for (int v = 0; v < 2; v++) {
                        if (h == 0) /* late, because there are few registers */
                            load_words(low[v], high[v], tile, chunk, v, PAIR(p, 0));
                        const tfm_uvec codes = PLACED_CODES(low[v], high[v], PAIR(p, h));
#pragma unroll
                        for (int i = 0; i < ROWS; i++)
                            sum[i][v][PLACE(PAIR(p, h))] =
                                add_pairs(sum[i][v][PLACE(PAIR(p, h))], (tfm_ivec)(pairs[i][PAIR(p, h)]), codes);
                    }
#pragma unroll
                for (int e = 0; e < 2 * ROWS; e++) {
                    const int i = e / 2, v = e % 2, g = chunk * (32 / GROUP) + h;
                    tfm_ivec whole = sum[i][v][0];
                    if (PLACES == 3)
                        whole += (sum[i][v][PLACES / 2] >> 4) + (sum[i][v][PLACES - 1] >> 8);
                    add_group(&part[i][v], &less[i][v], SUPER ? scale_lanes(tile, g, v) : (tfm_vec)(0.0f),
                              SUPER && MINIMUM ? min_lanes(tile, g, v) : (tfm_vec)(0.0f), whole, *scale[i], term[i][h]);
                }
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                pairs[i] += 16;
                scale[i]++;
                term[i] += 32 / GROUP;
            }
        }
#pragma unroll
        for (int e = 0; e < 2 * ROWS; e++) {
            tfm_vec *to = &total[e / 2][e % 2];
            *to = tfm_fma(number_lanes(tile, e % 2), part[e / 2][e % 2], *to);
            if (MINIMUM)
                *to = tfm_fma(-number_lanes(tile + AT_MIN, e % 2), less[e / 2][e % 2], *to);
        }
    }
#pragma unroll
    for (int e = 0; e < 2 * ROWS; e++)
        if (e / 2 < rows)
            finish(t, row + e / 2, block, e % 2, total[e / 2][e % 2]);
}

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

#endif
