/* Floats that become numbers of the dtype that the host says: NARROW is a number of enum tfm_dtype, 0 F32, 1 F16, 2
 * BF16.
 *
 *     narrow                    is the type that they lie in memory as
 *     narrow_store(v, p)        writes one
 *     narrow_store_vec(v, p)    TFM_WIDTH, to anywhere
 *
 * Numbers are rounded to the nearest, and ties to even. F16 is written by vstore_half_rte, which every device of
 * OpenCL 1.2 has. BF16 is the upper half of a float: adding 0x7fff and the lowest bit kept rounds; a NaN is made quiet
 * instead, since the addition could carry it to infinity.
 *
 * With SATURATES a finite number that fp16 does not reach becomes the largest that it has, as where engines round
 * (mma.cl says why); infinity and NaN stay. */
#ifndef NARROW
#define NARROW 0
#endif
#ifndef SATURATES
#define SATURATES 0
#endif

#if NARROW == 0
typedef float narrow;
#define narrow_store(v, p) (*(p) = (v))
#define narrow_store_vec(v, p) tfm_store(v, p)

#elif NARROW == 1
typedef ushort narrow;
#define NARROW_HALF(p) ((__global half *)(p))
#if SATURATES
static inline float narrow_reached(const float v) {
    return fabs(v) < INFINITY ? clamp(v, -65504.0f, 65504.0f) : v; /* NaN is not below infinity */
}
#if TFM_WIDTH > 1
static inline tfm_vec narrow_reached_vec(const tfm_vec v) {
    return select(v, clamp(v, (tfm_vec)(-65504.0f), (tfm_vec)(65504.0f)), fabs(v) < INFINITY);
}
#endif
#else
#define narrow_reached(v) (v)
#define narrow_reached_vec(v) (v)
#endif
#define narrow_store(v, p) vstore_half_rte(narrow_reached(v), 0, NARROW_HALF(p))
#if TFM_WIDTH == 1
#define narrow_store_vec(v, p) narrow_store(v, p)
#elif defined(TFM_FOURS)
#define narrow_store_vec(v, p) vstorea_half4_rte(narrow_reached_vec(v), 0, NARROW_HALF(p))
#else
#define narrow_store_vec(v, p) TFM_CAT(TFM_CAT(vstore_half, TFM_WIDTH), _rte)(narrow_reached_vec(v), 0, NARROW_HALF(p))
#endif

#else
typedef ushort narrow;
#define NARROW_BITS(u) ((((u)&0x7fffffffu) > 0x7f800000u ? (u) | 0x400000u : (u) + 0x7fffu + ((u) >> 16 & 1u)) >> 16)
static inline ushort narrow_bits(const uint u) {
    return (ushort)NARROW_BITS(u);
}
#define narrow_store(v, p) (*(p) = narrow_bits(as_uint(v)))
#if TFM_WIDTH == 1
#define narrow_store_vec(v, p) narrow_store(v, p)
#else
static inline TFM_CAT(ushort, TFM_WIDTH) narrow_bits_vec(const tfm_uvec u) {
    return TFM_CAT(convert_ushort, TFM_WIDTH)(NARROW_BITS(u));
}
#define narrow_store_vec(v, p) tfm_store(narrow_bits_vec(TFM_CAT(as_uint, TFM_WIDTH)(v)), p)
#endif
#endif
