/* Matrix cores: one instruction by which the lanes of a warp, wave or sub-group multiply two small matrices of 16-bit
 * numbers and accumulate in fp32, D (MMA_M, MMA_N) = A (MMA_M, MMA_K) B (MMA_K, MMA_N) + D. Each lane holds a fragment
 * of each matrix in registers: words of two neighbors along K, the first in the low half, and accumulators of one
 * float. This text has the fragment layouts, the instructions, and an emulation in plain OpenCL C.
 *
 * Build options: MMA_KIND, a number of enum tfm__mma, and MMA_DTYPE, one of enum tfm_dtype: 1 F16, 2 BF16. With
 * TFM_HAS_MMA the instruction is used, else the emulation, with which devices without matrix cores test everything
 * except the instruction. */
#ifndef MMA_KIND
#define MMA_KIND 1
#define MMA_DTYPE 1
#endif

/* Fragment layout of a lane: A_ROW and A_K are the row and the first of two columns of A in its word w, B_COLUMN and
 * B_K the column and the first of two rows of B, D_ROW and D_COLUMN the position of its accumulator i. A_RUN words of
 * A, and B_RUN of B, are consecutive along K. The inverse, for the emulation: lane and word of an element of A or B,
 * and lane and accumulator of one of D. */
#if MMA_KIND == 1
/* NVIDIA sm_80 and later: "Matrix Fragments for mma.m16n8k16 with floating point type" in NVIDIA's PTX ISA. */
#define LANES 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 16
#define A_WORDS 4
#define B_WORDS 2
#define ACCUMULATORS 4
#define A_RUN 1
#define B_RUN 1
#define A_ROW(lane, w) ((lane) / 4 + (w) % 2 * 8)
#define A_K(lane, w) ((lane) % 4 * 2 + (w) / 2 * 8)
#define B_COLUMN(lane, w) ((lane) / 4)
#define B_K(lane, w) ((lane) % 4 * 2 + (w)*8)
#define D_ROW(lane, i) ((lane) / 4 + (i) / 2 * 8)
#define D_COLUMN(lane, i) ((lane) % 4 * 2 + (i) % 2)
#define A_LANE(row, k, lane) ((row) % 8 * 4 + (k) % 8 / 2)
#define A_WORD(row, k) ((row) / 8 + (k) / 8 * 2)
#define B_LANE(column, k, lane) ((column)*4 + (k) % 8 / 2)
#define B_WORD(k) ((k) / 8)
#define D_LANE(row, column) ((row) % 8 * 4 + (column) / 2)
#define D_SUM(row, column) ((row) / 8 * 2 + (column) % 2)
#elif MMA_KIND == 2
/* NVIDIA sm_75, F16 only: "Matrix Fragments for mma.m16n8k8" there. */
#define LANES 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 8
#define A_WORDS 2
#define B_WORDS 1
#define ACCUMULATORS 4
#define A_RUN 1
#define B_RUN 1
#define A_ROW(lane, w) ((lane) / 4 + (w)*8)
#define A_K(lane, w) ((lane) % 4 * 2)
#define B_COLUMN(lane, w) ((lane) / 4)
#define B_K(lane, w) ((lane) % 4 * 2)
#define D_ROW(lane, i) ((lane) / 4 + (i) / 2 * 8)
#define D_COLUMN(lane, i) ((lane) % 4 * 2 + (i) % 2)
#define A_LANE(row, k, lane) ((row) % 8 * 4 + (k) / 2)
#define A_WORD(row, k) ((row) / 8)
#define B_LANE(column, k, lane) ((column)*4 + (k) / 2)
#define B_WORD(k) 0
#define D_LANE(row, column) ((row) % 8 * 4 + (column) / 2)
#define D_SUM(row, column) ((row) / 8 * 2 + (column) % 2)
#elif MMA_KIND == 3
/* AMD RDNA 3, waves of 32: "How to accelerate AI applications on RDNA 3 using WMMA", gpuopen.com, and the RDNA3 ISA
 * guide on WMMA. Lanes 16 to 31 hold copies of A and B: each half of the wave has the inputs of its sums. */
#define LANES 32
#define MMA_M 16
#define MMA_N 16
#define MMA_K 16
#define A_WORDS 8
#define B_WORDS 8
#define ACCUMULATORS 8
#define A_RUN 4
#define B_RUN 4
#define A_ROW(lane, w) ((lane) % 16)
#define A_K(lane, w) ((w)*2)
#define B_COLUMN(lane, w) ((lane) % 16)
#define B_K(lane, w) ((w)*2)
#define D_ROW(lane, i) ((i)*2 + (lane) / 16)
#define D_COLUMN(lane, i) ((lane) % 16)
#define A_LANE(row, k, lane) ((row) + (lane) / 16 * 16)
#define A_WORD(row, k) ((k) / 2)
#define B_LANE(column, k, lane) ((column) + (lane) / 16 * 16)
#define B_WORD(k) ((k) / 2)
#define D_LANE(row, column) ((column) + (row) % 2 * 16)
#define D_SUM(row, column) ((row) / 2)
#elif MMA_KIND == 4
/* AMD CDNA, waves of 64: the instruction set guides of MI100 and MI200, and AMD's matrix instruction calculator,
 * v_mfma_f32_16x16x16_f16 and v_mfma_f32_16x16x16_bf16_1k. */
#define LANES 64
#define MMA_M 16
#define MMA_N 16
#define MMA_K 16
#define A_WORDS 2
#define B_WORDS 2
#define ACCUMULATORS 4
#define A_RUN 2
#define B_RUN 2
#define A_ROW(lane, w) ((lane) % 16)
#define A_K(lane, w) ((lane) / 16 * 4 + (w)*2)
#define B_COLUMN(lane, w) ((lane) % 16)
#define B_K(lane, w) ((lane) / 16 * 4 + (w)*2)
#define D_ROW(lane, i) ((lane) / 16 * 4 + (i))
#define D_COLUMN(lane, i) ((lane) % 16)
#define A_LANE(row, k, lane) ((row) + (k) / 4 * 16)
#define A_WORD(row, k) ((k) % 4 / 2)
#define B_LANE(column, k, lane) ((column) + (k) / 4 * 16)
#define B_WORD(k) ((k) % 4 / 2)
#define D_LANE(row, column) ((column) + (row) / 4 * 16)
#define D_SUM(row, column) ((row) % 4)
#elif MMA_KIND == 5 || MMA_KIND == 6
/* Intel Xe: cl_intel_subgroup_matrix_multiply_accumulate, whose text has a functional implementation. A lane has one
 * column of B and D, and of each row of A a share of K: two numbers in sub-groups of 8 (5: DG2), and one in sub-groups
 * of 16 (6: PVC and later), here half of the word that it shares with its neighbor. */
#define LANES (MMA_KIND == 5 ? 8 : 16)
#define MMA_M 8
#define MMA_N LANES
#define MMA_K 16
#define A_WORDS 8
#define B_WORDS 8
#define ACCUMULATORS 8
#define A_RUN 1
#define B_RUN 4
#define A_ROW(lane, w) (w)
#define A_K(lane, w) ((lane)*16 / LANES / 2 * 2)
#define B_COLUMN(lane, w) (lane)
#define B_K(lane, w) ((w)*2)
#define D_ROW(lane, i) (i)
#define D_COLUMN(lane, i) (lane)
#define A_LANE(row, k, lane) ((k)*LANES / 16)
#define A_WORD(row, k) (row)
#define B_LANE(column, k, lane) (column)
#define B_WORD(k) ((k) / 2)
#define D_LANE(row, column) (column)
#define D_SUM(row, column) (row)
#else
#error "MMA_KIND is not a number of enum tfm__mma"
#endif

#ifdef TFM_HAS_MMA
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__)
#error "this processor does not have the GPU instruction"
#endif
#if MMA_KIND >= 3
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
/* Fragments must be registers, so every loop over them is unrolled. */
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

/* Intel's compiler does not unroll a long loop with activations in it, which would put the accumulators in memory.
 * There the loop stays rolled: with MMA_ROLLED, accumulators are moved to fixed positions in every iteration. */
#if MMA_KIND >= 5
#define MMA_ROLLED 1
#define MMA_UNROLL_TILES
#else
#define MMA_ROLLED 0
#define MMA_UNROLL_TILES UNROLLED
#endif

/* Kernel attributes, and an item's number in its group, a row of whole warps or waves: MMA_ITEM % LANES is its lane.
 * NVIDIA's and AMD's are consecutive in a group; Intel's sub-group functions give the number. */
#if defined(TFM_HAS_MMA) && MMA_KIND >= 5
#define MMA_KERNEL __attribute__((intel_reqd_sub_group_size(LANES)))
#define MMA_ITEM ((int)(get_sub_group_id() * LANES + get_sub_group_local_id()))
#else
#define MMA_KERNEL
#define MMA_ITEM ((int)get_local_id(0))
#endif

/* A word of two numbers, each rounded to nearest, ties to even. A finite number beyond fp16's range becomes its largest
 * number: an infinity from a finite layer would turn a whole sentence into NaN at the next norm or softmax, while the
 * saturated result is close enough for most models. Infinity and NaN stay. bf16 has the range of fp32, except within
 * half a step of its largest number. */
#if MMA_DTYPE == 1
#define FP16_MAX 65504.0f
static inline float mma_saturate(const float x) {
    return fabs(x) < INFINITY ? clamp(x, -FP16_MAX, FP16_MAX) : x; /* NaN compares false */
}
static inline uint mma_pack2(const float first, const float second) {
    const float low = mma_saturate(first), high = mma_saturate(second);
#if defined(TFM_HAS_MMA) && MMA_KIND <= 2
    uint word;
    __asm("{\n\t.reg .b16 low, high;\n\tcvt.rn.f16.f32 low, %1;\n\tcvt.rn.f16.f32 high, %2;\n\t"
          "mov.b32 %0, {low, high};\n\t}"
          : "=r"(word)
          : "f"(low), "f"(high));
    return word;
#elif defined(TFM_HAS_MMA)
    return as_uint((half2)((half)low, (half)high));
#else
    ushort pair[2];
    vstore_half_rte(low, 0, (half *)pair);
    vstore_half_rte(high, 1, (half *)pair);
    return pair[0] | (uint)pair[1] << 16;
#endif
}
#else
static inline uint mma_bf16_round(const uint u) {
    return (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : u + 0x7fffu + (u >> 16 & 1u); /* NaN stays NaN */
}
static inline uint mma_pack2(const float low, const float high) {
#if defined(TFM_HAS_MMA) && MMA_KIND == 1
    uint word;
    __asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(low), "f"(high));
    return word;
#else
    return mma_bf16_round(as_uint(low)) >> 16 | (mma_bf16_round(as_uint(high)) & 0xffff0000u);
#endif
}
#endif

/* A lane's fragment from a tile in local memory, whose lines, `line` words apart, are rows of A or columns of B. */
static inline void mma_load_words(uint *to, __local const uint *from, const int run) {
    if (run == 4) {
        const uint4 words = *(__local const uint4 *)from;
        to[0] = words.x;
        to[1] = words.y;
        to[2] = words.z;
        to[3] = words.w;
    } else if (run == 2) {
        const uint2 words = *(__local const uint2 *)from;
        to[0] = words.x;
        to[1] = words.y;
    } else {
        to[0] = *from;
    }
}
static inline void mma_load_a(uint *a, __local const uint *tile, const int line, const int lane) {
    UNROLLED
    for (int w = 0; w < A_WORDS; w += A_RUN)
        mma_load_words(a + w, tile + A_ROW(lane, w) * line + A_K(lane, w) / 2, A_RUN);
}
static inline void mma_load_b(uint *b, __local const uint *tile, const int line, const int lane) {
    UNROLLED
    for (int w = 0; w < B_WORDS; w += B_RUN)
        mma_load_words(b + w, tile + B_COLUMN(lane, w) * line + B_K(lane, w) / 2, B_RUN);
}

/* d += a b, by all lanes of the warp together. MMA_SCRATCH(items) declares its scratch in a kernel, passed to functions
 * as `__local uint *mma_exchange`. */
#ifdef TFM_HAS_MMA
#define MMA_SCRATCH(items) __local uint *const mma_exchange = 0;
#define mma_sync(d, a, b, lane) mma_instruction(d, a, b, lane)
#if MMA_KIND <= 2
#if MMA_KIND == 1 && MMA_DTYPE == 1
#define MMA_PTX "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#elif MMA_KIND == 1
#define MMA_PTX "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define MMA_PTX "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
#endif
static inline void mma_instruction(float *d, const uint *a, const uint *b, const int lane) {
#if MMA_KIND == 1
    __asm volatile(MMA_PTX " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __asm volatile(MMA_PTX " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}
#elif MMA_KIND == 3
static inline void mma_instruction(float *d, const uint *a, const uint *b, const int lane) {
    const uint8 x = (uint8)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    const uint8 y = (uint8)(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
    float8 sums = (float8)(d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
#if MMA_DTYPE == 1
    sums = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(x), as_half16(y), sums);
#else
    sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(x), as_short16(y), sums);
#endif
    d[0] = sums.s0;
    d[1] = sums.s1;
    d[2] = sums.s2;
    d[3] = sums.s3;
    d[4] = sums.s4;
    d[5] = sums.s5;
    d[6] = sums.s6;
    d[7] = sums.s7;
}
#elif MMA_KIND == 4
static inline void mma_instruction(float *d, const uint *a, const uint *b, const int lane) {
    const uint2 x = (uint2)(a[0], a[1]), y = (uint2)(b[0], b[1]);
    float4 sums = (float4)(d[0], d[1], d[2], d[3]);
#if MMA_DTYPE == 1
    sums = __builtin_amdgcn_mfma_f32_16x16x16f16(as_half4(x), as_half4(y), sums, 0, 0, 0);
#else
    sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(as_short4(x), as_short4(y), sums, 0, 0, 0);
#endif
    d[0] = sums.x;
    d[1] = sums.y;
    d[2] = sums.z;
    d[3] = sums.w;
}
#else
#if MMA_KIND == 5
typedef int8 mma_a_words;
#define MMA_A_ELEMENT(i) ((int)a[i])
#else
typedef short8 mma_a_words;
#define MMA_A_ELEMENT(i) ((short)(a[i] >> lane % 2 * 16))
#endif
#if MMA_DTYPE == 1
#define MMA_INTEL_MAD intel_sub_group_f16_f16_matrix_mad_k16
#else
#define MMA_INTEL_MAD intel_sub_group_bf16_bf16_matrix_mad_k16
#endif
/* Compilers with the function may lack its declaration: Intel's of 2022 does. */
#ifndef cl_intel_subgroup_matrix_multiply_accumulate
float8 __attribute__((overloadable)) MMA_INTEL_MAD(mma_a_words a, int8 b, float8 sums);
#endif
static inline void mma_instruction(float *d, const uint *a, const uint *b, const int lane) {
    const mma_a_words x = (mma_a_words)(MMA_A_ELEMENT(0), MMA_A_ELEMENT(1), MMA_A_ELEMENT(2), MMA_A_ELEMENT(3),
                                        MMA_A_ELEMENT(4), MMA_A_ELEMENT(5), MMA_A_ELEMENT(6), MMA_A_ELEMENT(7));
    const uint8 y = (uint8)(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
    float8 sums = (float8)(d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
    sums = MMA_INTEL_MAD(x, as_int8(y), sums);
    d[0] = sums.s0;
    d[1] = sums.s1;
    d[2] = sums.s2;
    d[3] = sums.s3;
    d[4] = sums.s4;
    d[5] = sums.s5;
    d[6] = sums.s6;
    d[7] = sums.s7;
}
#endif
#else
/* The emulation: every lane publishes its words in local memory, and reads those of the other lanes. */
#define MMA_SCRATCH(items) __local uint mma_exchange[(items) * (A_WORDS + B_WORDS)];
#define mma_sync(d, a, b, lane) mma_emulate(d, a, b, lane, mma_exchange)
static inline float mma_element(const uint word, const int high) {
#if MMA_DTYPE == 1
    const ushort bits = (ushort)(high ? word >> 16 : word);
    return vload_half(0, (const half *)&bits);
#else
    return as_float(high ? word & 0xffff0000u : word << 16);
#endif
}
/* Force-inlined, as tfm_group_reduce of the prelude. */
static inline __attribute__((always_inline)) void mma_emulate(float *d, const uint *a, const uint *b, const int lane,
                                                              __local uint *open) {
    const int id = (int)get_local_id(0);
    __local uint *own = open + id * (A_WORDS + B_WORDS);
    __local const uint *wave = open + (id - lane) * (A_WORDS + B_WORDS);
    barrier(CLK_LOCAL_MEM_FENCE); /* published words have been read */
    for (int w = 0; w < A_WORDS; w++)
        own[w] = a[w];
    for (int w = 0; w < B_WORDS; w++)
        own[A_WORDS + w] = b[w];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < ACCUMULATORS; i++) {
        const int row = D_ROW(lane, i), column = D_COLUMN(lane, i);
        for (int k = 0; k < MMA_K && D_LANE(row, column) == lane; k++) {
            const uint x = wave[A_LANE(row, k, lane) * (A_WORDS + B_WORDS) + A_WORD(row, k)];
            const uint y = wave[B_LANE(column, k, lane) * (A_WORDS + B_WORDS) + A_WORDS + B_WORD(k)];
            float *sum = d + D_SUM(row, column);
            *sum = tfm_fma(mma_element(x, k % 2), mma_element(y, k % 2), *sum);
        }
    }
}
#endif
