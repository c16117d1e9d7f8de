/* What products share that round a to bf16 for an instruction of the processor: gemm_dots.cl and gemm_amx.cl.
 *
 * They include gemm_out.cl, narrow.cl for NARROW 2 and gemm_panel.cl before it. The host gives EMULATED where the
 * instruction is to be done by others, for tests, and what gemm_out.cl takes. */
#ifdef EMULATED
#define ROUND_VEC(v, p) narrow_store_vec(v, p)
static inline tfm_uvec rounded_words(const tfm_vec v) {
    return NARROW_BITS(TFM_CAT(as_uint, TFM_WIDTH)(v));
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

/* Pairs of a row of a, and what lies between two rows: an odd number of lines of 16, since rows that lie a power of two
 * apart would drive each other out of the first cache. The host has the same. */
#define PAIRS(k) (((k) + 1) / 2)
#define ROW_PAIRS(k) ((((PAIRS(k) + 15) / 16) | 1) * 16)

/* `count` numbers at `from`, rounded, and zeros up to a multiple of PAIRED_DEPTH. */
#define DEFINE_ROUND_ROW(NAME, SPACE)                                                                                  \
    static inline void NAME(SPACE narrow *to, __global const float *from, const int count) {                           \
        int p = 0;                                                                                                     \
        for (; p + TFM_WIDTH <= count; p += TFM_WIDTH)                                                                 \
            ROUND_VEC(tfm_load(from + p), to + p);                                                                     \
        for (; p < count; p++)                                                                                         \
            narrow_store(from[p], to + p);                                                                             \
        for (; p < PANEL_DEPTH(count); p++)                                                                            \
            to[p] = 0;                                                                                                 \
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
