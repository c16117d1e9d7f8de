/* Stores fp32 as the dtype STORE_DTYPE, a number of enum tfm_dtype: 0 F32, 1 F16, 2 BF16.
 *
 *     store_t                       the storage type
 *     store_from_float(v, p)        one element
 *     store_from_float_vec(v, p)    TFM_WIDTH, at any alignment
 *
 * Rounds to nearest, ties to even. F16 uses vstore_half_rte, part of OpenCL 1.2. BF16 is the upper half of a float:
 * adding 0x7fff plus the lowest kept bit rounds; a NaN is made quiet instead, since the addition could carry it to
 * infinity.
 *
 * With SATURATE a finite number beyond fp16's range becomes its largest number, as with matrix cores (mma.cl says why);
 * infinity and NaN stay. */
#ifndef STORE_DTYPE
#define STORE_DTYPE 0
#endif
#ifndef SATURATE
#define SATURATE 0
#endif

#if STORE_DTYPE == 0
typedef float store_t;
#define store_from_float(v, p) (*(p) = (v))
#define store_from_float_vec(v, p) tfm_store(v, p)

#elif STORE_DTYPE == 1
typedef ushort store_t;
#define STORE_HALF_PTR(p) ((__global half *)(p))
#if SATURATE
static inline float fp16_saturate(const float v) {
    return fabs(v) < INFINITY ? clamp(v, -65504.0f, 65504.0f) : v; /* NaN compares false */
}
#if TFM_WIDTH > 1
static inline tfm_vec fp16_saturate_vec(const tfm_vec v) {
    return select(v, clamp(v, (tfm_vec)(-65504.0f), (tfm_vec)(65504.0f)), fabs(v) < INFINITY);
}
#endif
#else
#define fp16_saturate(v) (v)
#define fp16_saturate_vec(v) (v)
#endif
#define store_from_float(v, p) vstore_half_rte(fp16_saturate(v), 0, STORE_HALF_PTR(p))
#if TFM_WIDTH == 1
#define store_from_float_vec(v, p) store_from_float(v, p)
#elif defined(TFM_VEC4)
#define store_from_float_vec(v, p) vstorea_half4_rte(fp16_saturate_vec(v), 0, STORE_HALF_PTR(p))
#else
#define store_from_float_vec(v, p)                                                                                     \
    TFM_CAT(TFM_CAT(vstore_half, TFM_WIDTH), _rte)(fp16_saturate_vec(v), 0, STORE_HALF_PTR(p))
#endif

#else
typedef ushort store_t;
#define BF16_ROUND_BITS(u)                                                                                             \
    ((((u)&0x7fffffffu) > 0x7f800000u ? (u) | 0x400000u : (u) + 0x7fffu + ((u) >> 16 & 1u)) >> 16)
static inline ushort bf16_round_bits(const uint u) {
    return (ushort)BF16_ROUND_BITS(u);
}
#define store_from_float(v, p) (*(p) = bf16_round_bits(as_uint(v)))
#if TFM_WIDTH == 1
#define store_from_float_vec(v, p) store_from_float(v, p)
#else
static inline TFM_CAT(ushort, TFM_WIDTH) bf16_round_bits_vec(const tfm_uvec u) {
    return TFM_CAT(convert_ushort, TFM_WIDTH)(BF16_ROUND_BITS(u));
}
#define store_from_float_vec(v, p) tfm_store(bf16_round_bits_vec(TFM_CAT(as_uint, TFM_WIDTH)(v)), p)
#endif
#endif
