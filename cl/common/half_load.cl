/* Numbers that are read as floats and lie in memory as the host says: STORED is a number of enum tfm_dtype, 0 F32, 1
 * F16, 2 BF16. Of those of 16 bits
 *
 *     stored               is the type that they lie in memory as
 *     stored_load(p)       one of them
 *     stored_load4(p)      four, the first of which lies at a multiple of four
 *     stored_load_vec(p)   TFM_WIDTH, from anywhere
 *
 * F16 needs no cl_khr_fp16: vload_half is of every device. PoCL's takes it that vectors are aligned, which nobody said,
 * so where several are read they are copied first, and CPUs with an instruction for it are given that. BF16 is the
 * upper half of a float. */
#ifndef STORED
#define STORED 0
#endif

#if STORED == 0
typedef float stored;
#define stored_load(p) (*(p))
#define stored_load4(p) (*(__global const float4 *)(p))
#define stored_load_vec(p) tfm_load(p)

#elif STORED == 1
typedef ushort stored;
#define STORED_HALF(p) ((__global const half *)(p))
#define stored_load(p) vload_half(0, STORED_HALF(p))
#define stored_load4(p) vload_half4(0, STORED_HALF(p))
#if TFM_WIDTH == 1
#define stored_load_vec(p) stored_load(p)
#elif defined(TFM_FOURS)
#define stored_load_vec(p) vloada_half4(0, STORED_HALF(p))
#elif TFM_WIDTH == 8 && defined(__F16C__)
typedef short stored_halves __attribute__((vector_size(16)));
#define stored_load_vec(p)                                                                                             \
    __builtin_astype(__builtin_ia32_vcvtph2ps256(__builtin_astype(tfm_load(p), stored_halves)), float8)
#elif TFM_WIDTH == 16 && defined(__AVX512F__)
typedef short stored_halves __attribute__((vector_size(32)));
typedef float stored_floats __attribute__((vector_size(64)));
#define stored_load_vec(p)                                                                                             \
    __builtin_astype(__builtin_ia32_vcvtph2ps512_mask(__builtin_astype(tfm_load(p), stored_halves),                    \
                                                      __builtin_astype((float16)0, stored_floats), (ushort)0xffff, 4), \
                     float16)
#else
static inline tfm_vec stored_load_vec(__global const ushort *p) {
    const TFM_CAT(ushort, TFM_WIDTH) bits = tfm_load(p); /* a vector of one's own is aligned */
    return TFM_CAT(vload_half, TFM_WIDTH)(0, (const half *)&bits);
}
#endif

#else
typedef ushort stored;
#define stored_load(p) as_float((uint)(*(p)) << 16)
#define stored_load4(p) as_float4(convert_uint4(*(__global const ushort4 *)(p)) << 16)
#if TFM_WIDTH == 1
#define stored_load_vec(p) stored_load(p)
#else
#define stored_load_vec(p) tfm_as_float_vec(TFM_CAT(convert_uint, TFM_WIDTH)(tfm_load(p)) << 16)
#endif
#endif
