/* int8 GEMM helpers of GPU-style devices: loads of packed int8 (four neighbors along K in a word), quantization, and
 * four-way dot products.
 *
 * Build options: LOAD_WIDTH, 16 if every int8 row is aligned to 16 bytes and has a multiple of 16, and fp32 rows are
 * aligned to four elements, so that vectors are loaded; else 1. DP4A, a number of enum tfm__dp4a, selects the device's
 * dot-product instruction, used if TFM_HAS_DP4A is defined; else plain OpenCL C with equal results, since sums are
 * integers. int8_common.cl comes before. */
#ifndef LOAD_WIDTH
#define LOAD_WIDTH 1
#endif
#ifndef DP4A
#define DP4A 0
#endif

#ifdef TFM_HAS_DP4A
#define HAS_DP4A DP4A
#else
#define HAS_DP4A 0
#endif

#if HAS_DP4A > 0 && HAS_DP4A < 4 && (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__))
#error "this processor does not have the GPU instruction"
#endif
#if HAS_DP4A == 4 && !defined(TFM_HAS_INT_DOT)
#error "the device has no cl_khr_integer_dot_product"
#endif

/* sum + dot product of the four bytes of a with those of b. */
static inline int dp4a(const int a, const int b, const int sum) {
#if HAS_DP4A == 1 /* NVIDIA from sm_61 on: dp4a in its PTX ISA */
    int out;
    __asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
    return out;
#elif HAS_DP4A == 2 /* AMD: v_dot4_i32_i8 of gfx906, gfx908 and later of that line, gfx1011, gfx1012 and gfx103x */
    return __builtin_amdgcn_sdot4(a, b, sum, false);
#elif HAS_DP4A == 3 /* AMD from gfx11 on: v_dot4_i32_iu8 */
    return __builtin_amdgcn_sudot4(true, a, true, b, sum, false);
#elif HAS_DP4A == 4
    return sum + dot_4x8packed_ss_int(as_uint(a), as_uint(b));
#else
    const char4 x = as_char4(a), y = as_char4(b);
    return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
#endif
}

/* The same for four words each. */
static inline int dp4a_x4(const int4 a, const int4 b, const int sum) {
    return dp4a(a.w, b.w, dp4a(a.z, b.z, dp4a(a.y, b.y, dp4a(a.x, b.x, sum))));
}

/* 16 bytes, `left` of them valid; the others are zeros. */
static inline int4 load_bytes16(__global const char *from, const int left) {
#if LOAD_WIDTH == 16
    return left > 0 ? *(__global const int4 *)from : (int4)(0);
#else
    int word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        word[i] = 0;
#pragma unroll
        for (int j = 0; j < 4; j++)
            word[i] |= i * 4 + j < left ? (from[i * 4 + j] & 255) << 8 * j : 0;
    }
    return (int4)(word[0], word[1], word[2], word[3]);
#endif
}

/* Four floats, `left` of them valid; the others are zeros. */
static inline float4 load_floats4(__global const float *from, const int left) {
#if LOAD_WIDTH == 16
    return left > 0 ? *(__global const float4 *)from : (float4)(0.0f);
#else
    return (float4)(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f,
                    left > 3 ? from[3] : 0.0f);
#endif
}

/* The bits of the largest absolute value: non-finite values compare as larger than all others. */
static inline int abs_max_bits(const float4 v) {
    const int4 bits = as_int4(v) & 0x7fffffff;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

/* Four quantized numbers. A row without an inverse scale may have non-finite values. */
static inline int quantize4(const float4 v, const float inverse) {
    const int4 whole = (int4)(QUANTIZE_ONE(v.x), QUANTIZE_ONE(v.y), QUANTIZE_ONE(v.z), QUANTIZE_ONE(v.w));
    return inverse != 0.0f ? as_int(convert_char4(whole)) : 0;
}

/* The largest v of each team of `team` consecutive items, a power of two. Force-inlined, as tfm_group_reduce. */
static inline __attribute__((always_inline)) int team_max(const int v, __local int *most, const int id,
                                                          const int team) {
    barrier(CLK_LOCAL_MEM_FENCE); /* the previous value has been read */
    most[id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = team / 2; half_size > 0; half_size /= 2) {
        if (id % team < half_size)
            most[id] = max(most[id], most[id + half_size]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return most[id / team * team];
}
