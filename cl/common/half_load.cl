/* Loads as fp32 from the storage dtype LOAD_DTYPE, a number of enum tfm_dtype: 0 F32, 1 F16, 2 BF16.
 *
 *     load_t                 the storage type
 *     load_as_float(p)       one element
 *     load_as_float4(p)      four, aligned to four elements
 *     load_as_float_vec(p)   TFM_WIDTH, at any alignment
 *
 * F16 needs no cl_khr_fp16: every device has vload_half. PoCL's vload_half assumes aligned vectors, so several elements
 * are copied first; CPUs with a conversion instruction use that. BF16 is the upper half of a float. */
#ifndef LOAD_DTYPE
#define LOAD_DTYPE 0
#endif

#if LOAD_DTYPE == 0
typedef float load_t;
#define load_as_float(p) (*(p))
#define load_as_float4(p) (*(__global const float4 *)(p))
#define load_as_float_vec(p) tfm_load(p)

#elif LOAD_DTYPE == 1
typedef ushort load_t;
#define LOAD_HALF_PTR(p) ((__global const half *)(p))
#define load_as_float(p) vload_half(0, LOAD_HALF_PTR(p))
#define load_as_float4(p) vload_half4(0, LOAD_HALF_PTR(p))
#if TFM_WIDTH == 1
#define load_as_float_vec(p) load_as_float(p)
#elif defined(TFM_VEC4)
#define load_as_float_vec(p) vloada_half4(0, LOAD_HALF_PTR(p))
#elif TFM_WIDTH == 8 && defined(__F16C__)
#define LOAD_BY_INSTRUCTION
typedef short load_half_bits __attribute__((vector_size(16)));
#define load_as_float_vec(p)                                                                                           \
    __builtin_astype(__builtin_ia32_vcvtph2ps256(__builtin_astype(tfm_load(p), load_half_bits)), float8)
#elif TFM_WIDTH == 16 && defined(__AVX512F__)
#define LOAD_BY_INSTRUCTION
typedef short load_half_bits __attribute__((vector_size(32)));
typedef float load_float_bits __attribute__((vector_size(64)));
#define load_as_float_vec(p)                                                                                           \
    __builtin_astype(__builtin_ia32_vcvtph2ps512_mask(__builtin_astype(tfm_load(p), load_half_bits),                   \
                                                      __builtin_astype((float16)0, load_float_bits), (ushort)0xffff,   \
                                                      4),                                                              \
                     float16)
#else
static inline tfm_vec load_as_float_vec(__global const ushort *p) {
    const TFM_CAT(ushort, TFM_WIDTH) bits = tfm_load(p); /* a private vector is aligned */
    return TFM_CAT(vload_half, TFM_WIDTH)(0, (const half *)&bits);
}
#endif

#else
typedef ushort load_t;
#define load_as_float(p) as_float((uint)(*(p)) << 16)
#define load_as_float4(p) as_float4(convert_uint4(*(__global const ushort4 *)(p)) << 16)
#if TFM_WIDTH == 1
#define load_as_float_vec(p) load_as_float(p)
#else
#define load_as_float_vec(p) tfm_as_float_vec(TFM_CAT(convert_uint, TFM_WIDTH)(tfm_load(p)) << 16)
#endif
#endif
