/* Prefix of every kernel text: types, tensor parameters, reductions, and workarounds for driver bugs.
 *
 * Build options: TFM_CLASS_CPU or TFM_CLASS_GPU, TFM_WIDTH (floats per vector), TFM_GROUP (work-items per row),
 * TFM_CHUNK (elements per work-item of an elementwise kernel), and TFM_FMA if fma() is fast. CPU-style devices run
 * work-groups of one item with vectors of float16 or float8; GPU-style devices run TFM_GROUP items a row, on scalars.
 * One kernel text serves both: loops step by TFM_GROUP * TFM_WIDTH. */

#ifndef TFM_WIDTH
#define TFM_WIDTH 1
#endif
#ifndef TFM_GROUP
#define TFM_GROUP 1
#endif
#ifndef TFM_CHUNK
#define TFM_CHUNK 1
#endif
/* TFM_VEC4: an elementwise kernel of a GPU-style device whose tensors are aligned to four elements. An item moves four
 * at once, because fewer, wider requests use memory better. All vectors are aligned then. */
#ifdef TFM_VEC4
#undef TFM_WIDTH
#undef TFM_CHUNK
#define TFM_WIDTH 4
#define TFM_CHUNK 4
/* Applies a scalar function to each element of a vector, so that results equal those of scalar kernels to the last
 * digit. */
#define TFM_MAP_VEC4(f, v) ((tfm_vec)(f((v).x), f((v).y), f((v).z), f((v).w)))
#endif

/* A tensor is a buffer and an offset in elements; TFM_AT(x) is its first element. */
#define TFM_TENSOR(type, name) __global type *name, const long name##_offset
#define TFM_INPUT(type, name) __global const type *name, const long name##_offset
#define TFM_AT(name) (name + name##_offset)

#define TFM_CAT_(a, b) a##b
#define TFM_CAT(a, b) TFM_CAT_(a, b)

/* tfm_vec: TFM_WIDTH floats; tfm_load and tfm_store take any alignment, except with TFM_VEC4. */
#if TFM_WIDTH == 1
typedef float tfm_vec;
typedef int tfm_ivec;
typedef uint tfm_uvec;
#define tfm_load(p) (*(p))
#define tfm_store(v, p) (*(p) = (v))
#define tfm_convert_int(v) convert_int(v)
#define tfm_as_int_vec(v) as_int(v)
#define tfm_as_float_vec(v) as_float(v)
#else
typedef TFM_CAT(float, TFM_WIDTH) tfm_vec;
typedef TFM_CAT(int, TFM_WIDTH) tfm_ivec;
typedef TFM_CAT(uint, TFM_WIDTH) tfm_uvec;
/* Equivalent to vloadn and vstoren, which PoCL splits into three memory accesses, and NVIDIA's compiler into four. */
#ifdef TFM_VEC4
#define TFM_ALIGNMENT
#else
#define TFM_ALIGNMENT __attribute__((packed))
#endif
#define TFM_UNALIGNED(type, T)                                                                                         \
    typedef struct TFM_ALIGNMENT tfm_unaligned_##type {                                                                \
        T all;                                                                                                         \
    } tfm_unaligned_##type;                                                                                            \
    TFM_OVERLOADED T tfm_load(__global const type *p) {                                                                \
        return ((__global const tfm_unaligned_##type *)p)->all;                                                        \
    }                                                                                                                  \
    TFM_OVERLOADED T tfm_load(__private const type *p) {                                                               \
        return ((__private const tfm_unaligned_##type *)p)->all;                                                       \
    }                                                                                                                  \
    TFM_OVERLOADED void tfm_store(T v, __global type *p) {                                                             \
        ((__global tfm_unaligned_##type *)p)->all = v;                                                                 \
    }                                                                                                                  \
    TFM_OVERLOADED void tfm_store(T v, __private type *p) {                                                            \
        ((__private tfm_unaligned_##type *)p)->all = v;                                                                \
    }
#define TFM_OVERLOADED static inline __attribute__((overloadable))
TFM_UNALIGNED(float, tfm_vec)
TFM_UNALIGNED(int, tfm_ivec)
TFM_UNALIGNED(uint, tfm_uvec)
TFM_UNALIGNED(ushort, TFM_CAT(ushort, TFM_WIDTH))
TFM_UNALIGNED(short, TFM_CAT(short, TFM_WIDTH))
TFM_UNALIGNED(char, TFM_CAT(char, TFM_WIDTH))
#define tfm_convert_int(v) TFM_CAT(convert_int, TFM_WIDTH)(v)
#define tfm_as_int_vec(v) TFM_CAT(as_int, TFM_WIDTH)(v)
#define tfm_as_float_vec(v) TFM_CAT(as_float, TFM_WIDTH)(v)
#endif

#define tfm_as_int(v) as_int(v)
#define tfm_as_float(v) as_float(v)

/* One instruction if the device has it, two if fma() would be a slow call. */
#ifdef TFM_FMA
#define tfm_fma(a, b, c) fma(a, b, c)
#else
#define tfm_fma(a, b, c) ((a) * (b) + (c))
#endif

/* The index of each lane. */
static inline tfm_vec tfm_lane_index(void) {
    float index[TFM_WIDTH];
#pragma unroll
    for (int i = 0; i < TFM_WIDTH; i++)
        index[i] = i;
    return tfm_load(index);
}

/* Horizontal sums and maxima of one vector. */
#if TFM_WIDTH == 1
static inline float tfm_vec_sum(tfm_vec v) {
    return v;
}
static inline float tfm_vec_max(tfm_vec v) {
    return v;
}
#else
static inline float tfm_sum2(float2 v) {
    return v.x + v.y;
}
static inline float tfm_sum4(float4 v) {
    return tfm_sum2(v.lo + v.hi);
}
static inline float tfm_sum8(float8 v) {
    return tfm_sum4(v.lo + v.hi);
}
static inline float tfm_sum16(float16 v) {
    return tfm_sum8(v.lo + v.hi);
}
static inline float tfm_max2(float2 v) {
    return fmax(v.x, v.y);
}
static inline float tfm_max4(float4 v) {
    return tfm_max2(fmax(v.lo, v.hi));
}
static inline float tfm_max8(float8 v) {
    return tfm_max4(fmax(v.lo, v.hi));
}
static inline float tfm_max16(float16 v) {
    return tfm_max8(fmax(v.lo, v.hi));
}
static inline float tfm_vec_sum(tfm_vec v) {
    return TFM_CAT(tfm_sum, TFM_WIDTH)(v);
}
static inline float tfm_vec_max(tfm_vec v) {
    return TFM_CAT(tfm_max, TFM_WIDTH)(v);
}
#endif

/* Reductions over the work-group of a row. TFM_SCRATCH declares their local memory in a kernel; with one item a row
 * they are free. Every item gets the result. */
#if TFM_GROUP == 1
#define TFM_SCRATCH
#define TFM_SCRATCH_ARG 0
#define tfm_group_sum(v) (v)
#define tfm_group_max(v) (v)
#else
#define TFM_SCRATCH __local float tfm_scratch[TFM_GROUP];
/* Force-inlined: as a function call, PoCL 3.1 would share one scratch among concurrent work-groups. */
static inline __attribute__((always_inline)) float tfm_group_reduce(float v, __local float *scratch, int is_max) {
    const int id = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE); /* the previous reduction's result has been read */
    scratch[id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = TFM_GROUP / 2; half_size > 0; half_size /= 2) {
        if (id < half_size)
            scratch[id] = is_max ? fmax(scratch[id], scratch[id + half_size]) : scratch[id] + scratch[id + half_size];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}
#define tfm_group_sum(v) tfm_group_reduce(v, tfm_scratch, 0)
#define tfm_group_max(v) tfm_group_reduce(v, tfm_scratch, 1)
#endif

/* tfm_exp2_nonpos, tfm_exp_nonpos: 2^x and e^x for x <= 0, of a float, or with _vec of a tfm_vec; 0 below the smallest
 * normal float. tfm_exp2_unclamped: 2^x for -127.4 <= x <= 0. On CPU-style devices, whose exp() is a long call: 2^n by
 * the exponent, n = round x, times the minimax polynomial of 2^f, |f| <= 1/2 (relative error 1.8e-7, and 2^0 = 1). x +
 * 1.5 2^23 has round x in its low bits: rint() and a conversion are many instructions on some CPUs. */
#define TFM_ROUND_MAGIC 12582912.0f
#define TFM_EXP_BODY(T, V, ROUNDED, REST)                                                                              \
    const T t = ROUNDED, n = t - TFM_ROUND_MAGIC, f = REST;                                                            \
    T p = tfm_fma(f, (T)(1.3337413716e-03f), (T)(9.6681666653e-03f));                                                  \
    p = tfm_fma(p, f, (T)(5.5504904886e-02f));                                                                         \
    p = tfm_fma(p, f, (T)(2.4022303031e-01f));                                                                         \
    p = tfm_fma(p, f, (T)(6.9314713614e-01f));                                                                         \
    p = tfm_fma(p, f, (T)(1.0f));                                                                                      \
    p *= TFM_CAT(tfm_as_float, V)((TFM_CAT(tfm_as_int, V)(t) << 23) + 0x3f800000);
#ifdef TFM_CLASS_CPU
#define TFM_EXP2_UNCLAMPED(T, V) TFM_EXP_BODY(T, V, x + TFM_ROUND_MAGIC, x - n) return p;
#define TFM_EXP2(T, V) return x < (T)(-126.0f) ? (T)(0.0f) : TFM_CAT(tfm_exp2_unclamped, V)(x);
#define TFM_EXP(T, V)                                                                                                  \
    TFM_EXP_BODY(T, V, tfm_fma(x, (T)(1.44269502f), (T)(TFM_ROUND_MAGIC)),                                             \
                 tfm_fma(x, (T)(1.92596303e-08f), tfm_fma(x, (T)(1.44269502f), -n)))                                   \
    return x < (T)(-87.3365f) ? (T)(0.0f) : p;
#else
#define TFM_EXP2_UNCLAMPED(T, V) return exp2(x);
#define TFM_EXP2(T, V) return exp2(x);
#define TFM_EXP(T, V) return exp(x);
#endif
static inline float tfm_exp2_unclamped(const float x) {
    TFM_EXP2_UNCLAMPED(float, )
}
static inline tfm_vec tfm_exp2_unclamped_vec(const tfm_vec x) {
    TFM_EXP2_UNCLAMPED(tfm_vec, _vec)
}
static inline float tfm_exp2_nonpos(const float x) {
    TFM_EXP2(float, )
}
static inline tfm_vec tfm_exp2_nonpos_vec(const tfm_vec x) {
    TFM_EXP2(tfm_vec, _vec)
}
static inline float tfm_exp_nonpos(const float x) {
    TFM_EXP(float, )
}
static inline tfm_vec tfm_exp_nonpos_vec(const tfm_vec x) {
    TFM_EXP(tfm_vec, _vec)
}
/* 1 / (1 + e^-x), without the overflow of e^-x. */
#define TFM_SIGMOID(T, V, x) TFM_CAT(tfm_sigmoid, V)(x, TFM_CAT(tfm_exp_nonpos, V)(-fabs(x)))
static inline float tfm_sigmoid(const float x, const float e) {
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
static inline tfm_vec tfm_sigmoid_vec(const tfm_vec x, const tfm_vec e) {
    return (x < (tfm_vec)(0.0f) ? e : (tfm_vec)(1.0f)) / ((tfm_vec)(1.0f) + e);
}

/* The activation of enum tfm_activation, selected by -DTFM_ACTIVATION=<its number>: tfm_activate(v) of a float,
 * tfm_activate_vec(v) of a tfm_vec. NaN stays NaN. */
#ifdef TFM_ACTIVATION
#if TFM_ACTIVATION == 0
#define TFM_ACTIVATION_BODY(T, V) return v;
#elif TFM_ACTIVATION == 1 /* relu */
#define TFM_ACTIVATION_BODY(T, V) return v < (T)(0.0f) ? (T)(0.0f) : v;
#elif TFM_ACTIVATION == 2 || TFM_ACTIVATION == 13
/* gelu: v Phi(v) = max(v, 0) - |v| Phi(-|v|). log2 of Phi(-z), z >= 0, is smooth: this fit has an error of Phi below
 * 6.1e-8, and a relative error below 4.9e-6 down to z = 5 and 1% to the end, where 1 + erf(v) would cancel. At the
 * largest z it is -127, whose power of two is flushed to 0, so that inf gives inf and -inf 0. */
#define TFM_GELU_BODY(T, V)                                                                                            \
    const T a = fabs(v), z = a < (T)(13.0047f) ? a : (T)(13.0047f);                                                    \
    T q = tfm_fma((T)(5.03155295e-10f), z, (T)(-2.75353962e-08f));                                                     \
    q = tfm_fma(q, z, (T)(6.31676983e-07f));                                                                           \
    q = tfm_fma(q, z, (T)(-7.88324633e-06f));                                                                          \
    q = tfm_fma(q, z, (T)(5.70168122e-05f));                                                                           \
    q = tfm_fma(q, z, (T)(-0.000211504128f));                                                                          \
    q = tfm_fma(q, z, (T)(-0.000138802483f));                                                                          \
    q = tfm_fma(q, z, (T)(0.00710895192f));                                                                            \
    q = tfm_fma(q, z, (T)(-0.052543655f));                                                                             \
    q = tfm_fma(q, z, (T)(-0.459189862f));                                                                             \
    q = tfm_fma(q, z, (T)(-1.15110767f));                                                                              \
    q = tfm_fma(q, z, (T)(-0.99999994f));                                                                              \
    const T y = (v < (T)(0.0f) ? (T)(0.0f) : v) - z * TFM_CAT(tfm_exp2_unclamped, V)(q);
#if TFM_ACTIVATION == 2
#define TFM_ACTIVATION_BODY(T, V) TFM_GELU_BODY(T, V) return y;
#else /* gelu_10 */
#define TFM_ACTIVATION_BODY(T, V) TFM_GELU_BODY(T, V) return y > (T)(10.0f) ? (T)(10.0f) : y;
#endif
#elif TFM_ACTIVATION == 3
/* gelu's tanh form, v (1 + tanh u) / 2 with u = sqrt(2/pi) (v + 0.044715 v^3), is v sigmoid(2u). */
#define TFM_ACTIVATION_BODY(T, V)                                                                                      \
    const T u = v * tfm_fma((T)(0.07135481282f) * v, v, (T)(1.595769122f));                                            \
    return v * TFM_SIGMOID(T, V, u);
#elif TFM_ACTIVATION == 4 /* silu */
#define TFM_ACTIVATION_BODY(T, V) return v * TFM_SIGMOID(T, V, v);
#endif
#include "activations.cl"
static inline float tfm_activate(float v) {
    TFM_ACTIVATION_BODY(float, )
}
static inline tfm_vec tfm_activate_vec(tfm_vec v) {
#ifdef TFM_VEC4
    return TFM_MAP_VEC4(tfm_activate, v);
#else
    TFM_ACTIVATION_BODY(tfm_vec, _vec)
#endif
}

/* The derivative f'(v), for backward passes. For relu v may be y: both are positive or neither is. */
#if TFM_ACTIVATION == 0
#define TFM_ACTIVATION_GRAD_BODY(T, V) return (T)(1.0f);
#elif TFM_ACTIVATION == 1
#define TFM_ACTIVATION_GRAD_BODY(T, V) return v <= (T)(0.0f) ? (T)(0.0f) : (T)(1.0f);
#elif TFM_ACTIVATION == 2 || TFM_ACTIVATION == 13
/* gelu: Phi(v) + v phi(v), with Phi(v) = gelu(v) / v, except near 0, where it is 1/2 + v phi(0). */
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T density = (T)(0.3989422804f) * exp((T)(-0.5f) * v * v);                                                    \
    const T near = tfm_fma(v, (T)(0.3989422804f), (T)(0.5f));                                                          \
    const T rise = tfm_fma(v, density, fabs(v) < (T)(1e-4f) ? near : TFM_CAT(tfm_activate, V)(v) / v);                 \
    return TFM_ACTIVATION_GRAD_CAPPED(T, rise);
#if TFM_ACTIVATION == 2
#define TFM_ACTIVATION_GRAD_CAPPED(T, rise) rise
#else
#define TFM_ACTIVATION_GRAD_CAPPED(T, rise) v >= (T)(10.0f) ? (T)(0.0f) : rise
#endif
#elif TFM_ACTIVATION == 3 || TFM_ACTIVATION == 4
/* Derivative of v s(u), s the sigmoid of u = u(v): s + v u' s', with s' = s (1 - s) = e / (1 + e)^2 and e = e^-|u|,
 * because 1 - s would cancel. */
#define TFM_SIGMOID_GRAD(T, V, v, u, rise)                                                                             \
    const T e = TFM_CAT(tfm_exp_nonpos, V)(-fabs(u)), w = (T)(1.0f) / ((T)(1.0f) + e);                                 \
    return tfm_fma((v) * (rise), e * w * w, TFM_CAT(tfm_sigmoid, V)(u, e));
#if TFM_ACTIVATION == 3
/* For |v| > 100 it is 0 or 1; the general formula would give inf times 0. NaN stays. */
#define TFM_ACTIVATION_GRAD_BODY(T, V)                                                                                 \
    const T x = select(v, copysign((T)(100.0f), v), fabs(v) > (T)(100.0f));                                            \
    const T u = x * tfm_fma((T)(0.07135481282f) * x, x, (T)(1.595769122f));                                            \
    TFM_SIGMOID_GRAD(T, V, x, u, tfm_fma((T)(0.21406443846f) * x, x, (T)(1.595769122f)))
#else
#define TFM_ACTIVATION_GRAD_BODY(T, V) TFM_SIGMOID_GRAD(T, V, v, v, (T)(1.0f))
#endif
#endif
static inline float tfm_activation_grad(float v) {
    TFM_ACTIVATION_GRAD_BODY(float, )
}
static inline tfm_vec tfm_activation_grad_vec(tfm_vec v) {
#ifdef TFM_VEC4
    return TFM_MAP_VEC4(tfm_activation_grad, v);
#else
    TFM_ACTIVATION_GRAD_BODY(tfm_vec, _vec)
#endif
}
#endif

/* High and low words of m x. mul_hi of vectors is many instructions: two words at a time, as CPUs multiply, in either
 * order in memory. */
static inline __attribute__((overloadable)) void tfm_mulhilo(uint *high, uint *low, const uint m, const uint x) {
    *high = mul_hi(m, x);
    *low = m * x;
}
#if TFM_WIDTH > 1
#if TFM_WIDTH == 16
#define TFM_ULONGS 8
#elif TFM_WIDTH == 8
#define TFM_ULONGS 4
#else
#define TFM_ULONGS 2
#endif
static inline __attribute__((overloadable)) void tfm_mulhilo(tfm_uvec *high, tfm_uvec *low, const uint m,
                                                             const tfm_uvec x) {
    const TFM_CAT(ulong, TFM_ULONGS) pairs = TFM_CAT(as_ulong, TFM_ULONGS)(x), word = 0xFFFFFFFFul;
    *high = TFM_CAT(as_uint, TFM_WIDTH)((pairs & word) * m >> 32 | ((pairs >> 32) * m & ~word));
    *low = m * x;
}
#endif

/* Random numbers as a function of seed, stream, row and column, so that a backward pass reproduces the forward's
 * numbers without storing them: Philox4x32-10 ("Parallel Random Numbers: As Easy as 1, 2, 3", Salmon et al. 2011), with
 * the key `seed` and the counter (block, row, stream). A block is four words, of columns TFM_WIDTH apart. A T is a
 * uint, or TFM_WIDTH of them. */
#define TFM_PHILOX(T, c0, c1, c2, c3, seed)                                                                            \
    {                                                                                                                  \
        uint key0 = (uint)(seed), key1 = (uint)((seed) >> 32);                                                         \
        for (int round = 0; round < 10; round++) {                                                                     \
            T high0, low0, high1, low1;                                                                                \
            tfm_mulhilo(&high0, &low0, 0xD2511F53u, c0);                                                               \
            tfm_mulhilo(&high1, &low1, 0xCD9E8D57u, c2);                                                               \
            c0 = high1 ^ c1 ^ (T)(key0);                                                                               \
            c1 = low1;                                                                                                 \
            c2 = high0 ^ c3 ^ (T)(key1);                                                                               \
            c3 = low0;                                                                                                 \
            key0 += 0x9E3779B9u;                                                                                       \
            key1 += 0xBB67AE85u;                                                                                       \
        }                                                                                                              \
    }

/* Dropout ("Dropout: A Simple Way to Prevent Neural Networks from Overfitting", Srivastava et al. 2014): the factor of
 * an element, 0 with probability threshold / 2^32, else `dropout_scale`. The host passes tfm_dropout's arguments. */
typedef struct tfm_dropout_rng {
    ulong seed, stream;
    uint threshold;
    float dropout_scale;
} tfm_dropout_rng;
#define TFM_DROPOUT_PARAMETERS const long seed, const long stream, const long threshold, const float dropout_scale
#define TFM_DROPOUT_RNG() ((tfm_dropout_rng){(ulong)seed, (ulong)stream, (uint)threshold, dropout_scale})
/* Columns whose factors are computed at a time. */
#define TFM_DROPOUT_BLOCK (4 * TFM_WIDTH)

static inline float tfm_dropout_factor(const tfm_dropout_rng d, const long row, const long column) {
    uint c0 = (uint)(column / TFM_DROPOUT_BLOCK * TFM_WIDTH + column % TFM_WIDTH), c1 = (uint)row;
    uint c2 = (uint)d.stream, c3 = (uint)(d.stream >> 32);
    TFM_PHILOX(uint, c0, c1, c2, c3, d.seed)
    const int word = (int)(column / TFM_WIDTH % 4);
    return (word < 2 ? word == 0 ? c0 : c1 : word == 2 ? c2 : c3) < d.threshold ? 0.0f : d.dropout_scale;
}

/* The factors of columns column .. column + TFM_DROPOUT_BLOCK - 1, a multiple of that. */
static inline void tfm_dropout_factors(tfm_vec *factors, const tfm_dropout_rng d, const long row, const long column) {
#if TFM_WIDTH == 1
    uint c0 = (uint)(column / 4);
#else
    tfm_uvec c0 = (uint)(column / 4);
    for (int i = 0; i < TFM_WIDTH; i++)
        ((uint *)&c0)[i] += (uint)i;
#endif
    tfm_uvec c1 = (tfm_uvec)((uint)row), c2 = (tfm_uvec)((uint)d.stream), c3 = (tfm_uvec)((uint)(d.stream >> 32));
    TFM_PHILOX(tfm_uvec, c0, c1, c2, c3, d.seed)
    factors[0] = c0 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.dropout_scale);
    factors[1] = c1 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.dropout_scale);
    factors[2] = c2 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.dropout_scale);
    factors[3] = c3 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.dropout_scale);
}

/* The row of a kernel launched on tfm__row_grid, and this item's index in it. */
#define TFM_ROW() ((long)get_group_id(0) + (long)get_group_id(1) * (long)get_num_groups(0))
#define TFM_LOCAL_ID() ((long)get_local_id(0))
/* The items of a row step through its n elements together, first in vectors, then through the remainder:
 *     for (long i = TFM_LOCAL_ID() * TFM_WIDTH; i + TFM_WIDTH <= n; i += TFM_STEP) ... tfm_load(x + i)
 *     for (long i = TFM_TAIL(n) + TFM_LOCAL_ID(); i < n; i += TFM_GROUP) ... x[i]
 * Body macros take tfm_load and tfm_store for vectors, and these for single elements. */
#define TFM_STEP (TFM_GROUP * TFM_WIDTH)
#define TFM_TAIL(n) ((n) - (n) % TFM_WIDTH)
#define TFM_LOAD_ONE(p) (*(p))
#define TFM_STORE_ONE(v, p) (*(p) = (v))
/* The first of an item's TFM_WIDTH columns, in work-group `block` of tfm__column_blocks. */
#define TFM_COLUMN(block) (((block)*TFM_GROUP + TFM_LOCAL_ID()) * TFM_WIDTH)
/* The first element of a kernel launched on tfm__element_grid; it handles TFM_CHUNK of them, a multiple of TFM_WIDTH:
 *     const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, n);
 *     for (i = first; i + TFM_WIDTH <= end; i += TFM_WIDTH) ... vectors
 *     for (; i < end; i++) ... the tail */
#define TFM_ELEMENT() (((long)get_global_id(0) + (long)get_global_id(1) * (long)get_global_size(0)) * TFM_CHUNK)

/* Iteration over tensors with separate strides (lib/ops/layout/strided.h), passed by value. Elements are numbered in
 * row-major order of `dims`; tensor w has TFM_STRIDES(iter, w), 0 where it broadcasts. Kernels loop over runs along the
 * last dimension:
 *     tfm_run run;
 *     for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter)) {
 *         __global const float *in = TFM_AT(x) + tfm_run_offset(&run, TFM_STRIDES(iter, 1));
 *         for (long k = 0; k < run.count; k++) ... in[k * TFM_STRIDES(iter, 1)[TFM_ITER_LAST]], element run.first + k
 *     } */
/* One dimension: Mesa 22.3's rusticl gets the size of a struct argument with arrays of arrays wrong. */
#define TFM_STRIDES(iter, w) ((iter).strides + 5 * (w))
#define TFM_ITER_LAST 4
typedef struct tfm_iter {
    long n; /* the product of the dims */
    long dims[5], strides[4 * 5];
} tfm_iter;
typedef struct tfm_run {
    long first, count, end; /* `end` of the work-item's elements */
    long index[5];          /* of element `first` */
} tfm_run;
/* A pointer, not a result: inlined, a returned struct becomes LLVM's noalias scopes, which oclgrind does not know. */
static inline void tfm_run_first(tfm_run *run, const tfm_iter *iter, const long first, const long chunk) {
    const long last = iter->dims[4];
    run->first = first;
    run->count = 0;
    run->end = min(first + chunk, iter->n);
    for (int d = 0; d < TFM_ITER_LAST; d++)
        run->index[d] = 0;
    run->index[TFM_ITER_LAST] = first;
    if (first >= run->end)
        return;
    if (first >= last) { /* beyond the first run, often the only one: long divisions are slow */
        const long i3 = first / last, i2 = i3 / iter->dims[3], i1 = i2 / iter->dims[2];
        run->index[4] = first - i3 * last;
        run->index[3] = i3 % iter->dims[3];
        run->index[2] = i2 % iter->dims[2];
        run->index[1] = i1 % iter->dims[1];
        run->index[0] = i1 / iter->dims[1];
    }
    run->count = min(last - run->index[4], run->end - first);
}
static inline void tfm_run_next(tfm_run *run, const tfm_iter *iter) {
    run->first += run->count;
    run->count = min(iter->dims[4], run->end - run->first);
    run->index[4] = 0;
    if (++run->index[3] < iter->dims[3])
        return;
    run->index[3] = 0;
    if (++run->index[2] < iter->dims[2])
        return;
    run->index[2] = 0;
    if (++run->index[1] < iter->dims[1])
        return;
    run->index[1] = 0;
    run->index[0]++;
}
/* The offset of the run's first element for the given strides. */
static inline long tfm_run_offset(const tfm_run *run, const long *strides) {
    return run->index[0] * strides[0] + run->index[1] * strides[1] + run->index[2] * strides[2] +
           run->index[3] * strides[3] + run->index[4] * strides[4];
}

/* Attributes of all kernels: work-groups of TFM_GROUP items (1 on CPU-style devices). */
#define TFM_KERNEL __kernel __attribute__((reqd_work_group_size(TFM_GROUP, 1, 1)))

/* Trip count n of a loop that must not be unrolled; `none` is TFM_OPAQUE_ZERO of a parameter: 0, but unknown to
 * compilers. Intel's compiler unrolls loops with known or bounded trip counts despite pragmas, and then spills the
 * values that it keeps in registers for all iterations. The parameter is a long from 0 to 2^31. */
#ifdef cl_intel_required_subgroup_size
#define TFM_TRIP_COUNT(n, none) ((n) + (none))
#else
#define TFM_TRIP_COUNT(n, none) (n)
#endif
#define TFM_OPAQUE_ZERO(parameter) ((int)((parameter) >> 32))
