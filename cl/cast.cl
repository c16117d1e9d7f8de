/* y is x in another dtype, on n elements. -DFROM and -DTO are numbers of enum tfm_dtype: 0 F32, 1 F16, 2 BF16.
 *
 * Numbers are rounded to the nearest, and ties to even. F16 is written by vstore_half_rte, which every device of
 * OpenCL 1.2 has. BF16 is the upper half of a float: adding 0x7fff and the lowest bit kept rounds; a
 * NaN is made quiet instead, since the addition could carry it to infinity.
 *
 * Layout: a work-item takes TFM_CHUNK elements. */

#if TFM_WIDTH == 1
typedef uint uvec;
typedef ushort svec;
#define vstore_halves vstore_half_rte
#define as_uints as_uint
#define to_ushorts convert_ushort
#else
typedef TFM_CAT(uint, TFM_WIDTH) uvec;
typedef TFM_CAT(ushort, TFM_WIDTH) svec;
#define vstore_halves TFM_CAT(TFM_CAT(vstore_half, TFM_WIDTH), _rte)
#define as_uints TFM_CAT(as_uint, TFM_WIDTH)
#define to_ushorts TFM_CAT(convert_ushort, TFM_WIDTH)
#endif

#define BF16_NARROW(u) (((u) + 0x7fffu + (((u) >> 16) & 1u)) >> 16)
#define BF16_QUIET(u) (((u) >> 16) | 0x40u)
#define IS_NAN(u) (((u)&0x7fffffffu) > 0x7f800000u)

#define STORED FROM
#include "stored.cl"

#if TO == 0
#define TO_TYPE float
#define STORE(v, p) tfm_store(v, p)
#define STORE1(v, p) (*(p) = (v))
#elif TO == 1
#define TO_TYPE half
#define STORE(v, p) vstore_halves(v, 0, p)
#define STORE1(v, p) vstore_half_rte(v, 0, p)
#else
#define TO_TYPE ushort
#define STORE(v, p) tfm_store(to_ushorts(narrow(as_uints(v))), p)
#define STORE1(v, p) (*(p) = (ushort)narrow1(as_uint(v)))
static inline uvec narrow(const uvec u) {
    return IS_NAN(u) ? BF16_QUIET(u) : BF16_NARROW(u);
}
static inline uint narrow1(const uint u) {
    return IS_NAN(u) ? BF16_QUIET(u) : BF16_NARROW(u);
}
#endif

TFM_KERNEL void cast(TFM_TENSOR(TO_TYPE, y), TFM_INPUT(stored, x), const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const stored *in = TFM_AT(x);
    __global TO_TYPE *out = TFM_AT(y);
    for (; i + TFM_WIDTH <= end; i += TFM_WIDTH)
        STORE(stored_load_vec(in + i), out + i);
    for (; i < end; i++)
        STORE1(stored_load(in + i), out + i);
}
