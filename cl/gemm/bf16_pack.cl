/* Rounds or splits a to bf16 for processor instructions: shared by gemm_cpu_bf16.cl and gemm_cpu_amx.cl.
 *
 * They include gemm_epilogue.cl, half_store.cl for STORE_DTYPE 2 and gemm_cpu_pack.cl before it. Build options:
 * EMULATED, for tests, replaces the instruction by others; those of gemm_epilogue.cl; and SPLIT, 1 to round numbers, 3
 * to split each into three: the rounded number, its rounded remainder, and the rest. A float has 24 bits, a bf16 has 8
 * and a sign, so the sum of the three is the float, unless the last would be below 2^-126. */
#ifndef SPLIT
#define SPLIT 1
#endif
#ifdef EMULATED
#define ROUND_VEC(v, p) store_from_float_vec(v, p)
static inline tfm_uvec rounded_words(const tfm_vec v) {
    return BF16_ROUND_BITS(TFM_CAT(as_uint, TFM_WIDTH)(v));
}
#else
#define ROUND_VEC(v, p) tfm_store(rounded_by_one(v), p)
static inline ushort16 rounded_by_one(const float16 v) {
    ushort16 out;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(out) : "v"(v));
    return out;
}
/* The same in the lower halves of words. */
static inline tfm_uvec rounded_words(const tfm_vec v) {
    return convert_uint16(rounded_by_one(v));
}
#endif

#define FLOATS TFM_CAT(as_float, TFM_WIDTH)

/* The three bf16 parts of v, in the lower halves of words. Returns -1 in lanes with a number that is, or would round
 * to, infinity or NaN: the parts are invalid there, and split_number must be used. */
static inline tfm_ivec split_words(tfm_uvec *w, const tfm_vec v) {
    w[0] = rounded_words(v);
#if SPLIT == 1
    return 0;
#else
    const tfm_vec rest = v - FLOATS(w[0] << 16);
    w[1] = rounded_words(rest);
    w[2] = rounded_words(rest - FLOATS(w[1] << 16));
    return (w[0] & 0x7f80u) == 0x7f80u;
#endif
}

/* The three bf16 parts of one number; they add up to it even if it is infinite or NaN, but may not be multiplied
 * separately: then returns 1. */
static inline uint split_number(ushort *w, const float v) {
    w[0] = bf16_round_bits(as_uint(v));
#if SPLIT == 1
    return 0;
#else
    const uint nonfinite = (w[0] & 0x7f80) == 0x7f80, finite = fabs(v) < INFINITY;
    w[0] -= (w[0] & 0x7fff) == 0x7f80 && finite;
    const float rest = finite ? v - as_float((uint)w[0] << 16) : 0.0f;
    w[1] = bf16_round_bits(as_uint(rest));
    w[2] = bf16_round_bits(as_uint(rest - as_float((uint)w[1] << 16)));
    return nonfinite;
#endif
}

/* Pairs of a row of a, and the row stride: an odd number of cache lines (16 words), against cache conflicts of
 * power-of-two strides. The host has the same. */
#define PAIRS(k) (((k) + 1) / 2)
#define ROW_PAIRS(k) ((((PAIRS(k) + 15) / 16) | 1) * 16)

/* `count` numbers at `from`, rounded, zero-padded to a multiple of PAIRED_DEPTH; or the three parts of each, `apart`
 * numbers from one another: then returns whether one is non-finite, as split_number does. */
#if SPLIT == 1
#define DEFINE_ROUND_ROW(NAME, SPACE)                                                                                  \
    static inline uint NAME(SPACE store_t *to, const long apart, __global const float *from, const int count) {        \
        int p = 0;                                                                                                     \
        for (; p + TFM_WIDTH <= count; p += TFM_WIDTH)                                                                 \
            ROUND_VEC(tfm_load(from + p), to + p);                                                                     \
        for (; p < count; p++)                                                                                         \
            store_from_float(from[p], to + p);                                                                         \
        for (; p < PANEL_DEPTH(count); p++)                                                                            \
            to[p] = 0;                                                                                                 \
        return 0;                                                                                                      \
    }
#else
#define DEFINE_ROUND_ROW(NAME, SPACE)                                                                                  \
    static inline uint NAME(SPACE store_t *to, const long apart, __global const float *from, const int count) {        \
        tfm_ivec lanes = 0;                                                                                            \
        int p = 0;                                                                                                     \
        for (; p + TFM_WIDTH <= count; p += TFM_WIDTH) {                                                               \
            tfm_uvec w[SPLIT];                                                                                         \
            lanes |= split_words(w, tfm_load(from + p));                                                               \
            _Pragma("unroll") for (int q = 0; q < SPLIT; q++)                                                          \
                tfm_store(TFM_CAT(convert_ushort, TFM_WIDTH)(w[q]), to + q * apart + p);                               \
        }                                                                                                              \
        uint nonfinite = any(lanes);                                                                                   \
        for (p = nonfinite ? 0 : p; p < PANEL_DEPTH(count); p++) {                                                     \
            ushort w[SPLIT];                                                                                           \
            nonfinite |= split_number(w, p < count ? from[p] : 0.0f);                                                  \
            _Pragma("unroll") for (int q = 0; q < SPLIT; q++) to[q * apart + p] = w[q];                                \
        }                                                                                                              \
        return nonfinite;                                                                                              \
    }
#endif

/* sum plus, in each lane, the two products of x and w. */
#ifdef EMULATED
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
