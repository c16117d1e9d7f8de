/* In front of every kernel text: types, tensors as parameters, reductions, vendor quirks.
 *
 * Given by the host: TFM_WIDE or TFM_SIMT, TFM_WIDTH (floats per vector), TFM_GROUP (work-items per row), TFM_CHUNK
 * (elements per work-item of an elementwise kernel), TFM_FMA.
 * A WIDE device runs work-groups of one item and vectorises what the item says in float16 or float8; a SIMT device
 * runs TFM_GROUP items a row, each on scalars. One kernel text serves both: loops step by TFM_GROUP * TFM_WIDTH. */

#ifndef TFM_WIDTH
#define TFM_WIDTH 1
#endif
#ifndef TFM_GROUP
#define TFM_GROUP 1
#endif
#ifndef TFM_CHUNK
#define TFM_CHUNK 1
#endif

/* A tensor is a buffer and an offset in elements; TFM_AT(x) is its first element. */
#define TFM_TENSOR(type, name) __global type *name, const long name##_offset
#define TFM_INPUT(type, name) __global const type *name, const long name##_offset
#define TFM_AT(name) (name + name##_offset)

#define TFM_CAT_(a, b) a##b
#define TFM_CAT(a, b) TFM_CAT_(a, b)

/* tfm_vec: TFM_WIDTH floats; tfm_load and tfm_store take any alignment. */
#if TFM_WIDTH == 1
typedef float tfm_vec;
typedef int tfm_ivec;
typedef uint tfm_uvec;
#define tfm_load(p) (*(p))
#define tfm_store(v, p) (*(p) = (v))
#define tfm_convert_int(v) convert_int(v)
#else
typedef TFM_CAT(float, TFM_WIDTH) tfm_vec;
typedef TFM_CAT(int, TFM_WIDTH) tfm_ivec;
typedef TFM_CAT(uint, TFM_WIDTH) tfm_uvec;
#define tfm_load(p) TFM_CAT(vload, TFM_WIDTH)(0, p)
#define tfm_store(v, p) TFM_CAT(vstore, TFM_WIDTH)(v, 0, p)
#define tfm_convert_int(v) TFM_CAT(convert_int, TFM_WIDTH)(v)
#endif

/* One instruction where the device has it, two where fma() would be a slow call. */
#ifdef TFM_FMA
#define tfm_fma(a, b, c) fma(a, b, c)
#else
#define tfm_fma(a, b, c) ((a) * (b) + (c))
#endif

/* Horizontal sums and maxima of one vector. */
#if TFM_WIDTH == 1
static inline float tfm_vec_sum(tfm_vec v) { return v; }
static inline float tfm_vec_max(tfm_vec v) { return v; }
#else
static inline float tfm_sum2(float2 v) { return v.x + v.y; }
static inline float tfm_sum4(float4 v) { return tfm_sum2(v.lo + v.hi); }
static inline float tfm_sum8(float8 v) { return tfm_sum4(v.lo + v.hi); }
static inline float tfm_sum16(float16 v) { return tfm_sum8(v.lo + v.hi); }
static inline float tfm_max2(float2 v) { return fmax(v.x, v.y); }
static inline float tfm_max4(float4 v) { return tfm_max2(fmax(v.lo, v.hi)); }
static inline float tfm_max8(float8 v) { return tfm_max4(fmax(v.lo, v.hi)); }
static inline float tfm_max16(float16 v) { return tfm_max8(fmax(v.lo, v.hi)); }
static inline float tfm_vec_sum(tfm_vec v) { return TFM_CAT(tfm_sum, TFM_WIDTH)(v); }
static inline float tfm_vec_max(tfm_vec v) { return TFM_CAT(tfm_max, TFM_WIDTH)(v); }
#endif

/* Reductions over the work-group that shares a row. TFM_SCRATCH declares the local memory a kernel needs for them;
 * with one item a row they cost nothing. Every item gets the result. */
#if TFM_GROUP == 1
#define TFM_SCRATCH
#define TFM_SCRATCH_ARG 0
#define tfm_group_sum(v) (v)
#define tfm_group_max(v) (v)
#else
#define TFM_SCRATCH __local float tfm_scratch[TFM_GROUP];
/* Inlined for certain: where it stayed a call, PoCL 3.1 would share one scratch among work-groups that run side by side. */
static inline __attribute__((always_inline)) float tfm_group_reduce(float v, __local float *scratch, int is_max) {
    const int id = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE); /* the last reduction's readers are done */
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

/* The activation of enum tfm_activation, given by the host as -DTFM_ACTIVATION=<its number>: tfm_activate(v) of
 * a float, tfm_activate_vec(v) of a tfm_vec. NaN stays NaN. */
#ifdef TFM_ACTIVATION
#if TFM_ACTIVATION == 0
#define TFM_ACTIVATION_BODY(T) return v;
#elif TFM_ACTIVATION == 1 /* relu */
#define TFM_ACTIVATION_BODY(T) return v < (T)(0.0f) ? (T)(0.0f) : v;
#elif TFM_ACTIVATION == 2
/* gelu: v Phi(v). The tail Phi(-z), z = |v|, is exp(-z^2/2 + q(z)); q, the smooth rest of log Phi(-z), is a
 * weighted least-squares fit on [0, 5], held beyond. |error| < 1.5e-7 for Phi; in the tail it is small
 * relatively, too, where 1 + erf(v) would cancel. One exp costs a third of the built-in erf on PoCL. */
#define TFM_ACTIVATION_BODY(T)                                       \
    const T z = fabs(v), s = fmin(z, (T)(5.0f));                     \
    T q = (T)(1.420368249682724e-07f);                               \
    q = tfm_fma(q, s, (T)(-3.300490789115429e-06f));                 \
    q = tfm_fma(q, s, (T)(3.083117553615011e-05f));                  \
    q = tfm_fma(q, s, (T)(-0.00012648457777686417f));                \
    q = tfm_fma(q, s, (T)(-0.00012297453940846026f));                \
    q = tfm_fma(q, s, (T)(0.0049470714293420315f));                  \
    q = tfm_fma(q, s, (T)(-0.036427464336156845f));                  \
    q = tfm_fma(q, s, (T)(0.1817147582769394f));                     \
    q = tfm_fma(q, s, (T)(-0.7978870272636414f));                    \
    q = tfm_fma(q, s, (T)(-0.6931471228599548f));                    \
    const T tail = exp(tfm_fma((T)(-0.5f) * z, z, q));               \
    return v * (v < (T)(0.0f) ? tail : (T)(1.0f) - tail);
#elif TFM_ACTIVATION == 3
/* gelu's tanh form, v (1 + tanh u) / 2 with u = sqrt(2/pi) (v + 0.044715 v^3), is v sigmoid(2u). */
#define TFM_ACTIVATION_BODY(T)                                                                 \
    const T u = v * tfm_fma((T)(0.07135481282f) * v, v, (T)(1.595769122f));                    \
    return v / ((T)(1.0f) + exp(-u));
#elif TFM_ACTIVATION == 4 /* silu */
#define TFM_ACTIVATION_BODY(T) return v / ((T)(1.0f) + exp(-v));
#else
#error "TFM_ACTIVATION is not a number of enum tfm_activation"
#endif
static inline float tfm_activate(float v) { TFM_ACTIVATION_BODY(float) }
static inline tfm_vec tfm_activate_vec(tfm_vec v) { TFM_ACTIVATION_BODY(tfm_vec) }
#endif

/* Random numbers that are a function of seed, stream, row and column, so that a backward pass draws what its forward drew
 * and nothing is stored: Philox4x32-10 ("Parallel Random Numbers: As Easy as 1, 2, 3", Salmon et al. 2011), of the key
 * `seed` and the counter (block, row, stream), a block being four words: those of columns TFM_WIDTH apart. A T is a uint,
 * or TFM_WIDTH of them. */
#define TFM_PHILOX(T, c0, c1, c2, c3, seed)                                                       \
    {                                                                                             \
        uint key0 = (uint)(seed), key1 = (uint)((seed) >> 32);                                    \
        for (int round = 0; round < 10; round++) {                                                \
            const T high0 = mul_hi((T)(0xD2511F53u), c0), low0 = (T)(0xD2511F53u) * c0;           \
            const T high1 = mul_hi((T)(0xCD9E8D57u), c2), low1 = (T)(0xCD9E8D57u) * c2;           \
            c0 = high1 ^ c1 ^ (T)(key0);                                                          \
            c1 = low1;                                                                            \
            c2 = high0 ^ c3 ^ (T)(key1);                                                          \
            c3 = low0;                                                                            \
            key0 += 0x9E3779B9u;                                                                  \
            key1 += 0xBB67AE85u;                                                                  \
        }                                                                                         \
    }

/* Dropout ("Dropout: A Simple Way to Prevent Neural Networks from Overfitting", Srivastava et al. 2014): the factor of an
 * element, 0 with a chance of threshold / 2^32, else `keep`. Given by the host as tfm_dropout's arguments. */
typedef struct tfm_drops {
    ulong seed, stream;
    uint threshold;
    float keep;
} tfm_drops;
#define TFM_DROPOUT_PARAMETERS const long seed, const long stream, const long threshold, const float keep
#define TFM_DROPS() ((tfm_drops){(ulong)seed, (ulong)stream, (uint)threshold, keep})
/* Columns whose factors come at a time. */
#define TFM_DROP_BLOCK (4 * TFM_WIDTH)

static inline float tfm_drop_factor(const tfm_drops d, const long row, const long column) {
    uint c0 = (uint)(column / TFM_DROP_BLOCK * TFM_WIDTH + column % TFM_WIDTH), c1 = (uint)row;
    uint c2 = (uint)d.stream, c3 = (uint)(d.stream >> 32);
    TFM_PHILOX(uint, c0, c1, c2, c3, d.seed)
    const int word = (int)(column / TFM_WIDTH % 4);
    return (word < 2 ? word == 0 ? c0 : c1 : word == 2 ? c2 : c3) < d.threshold ? 0.0f : d.keep;
}

/* The factors of columns column .. column + TFM_DROP_BLOCK - 1, a multiple of that. */
static inline void tfm_drop_factors(tfm_vec *factors, const tfm_drops d, const long row, const long column) {
#if TFM_WIDTH == 1
    uint c0 = (uint)(column / 4);
#else
    tfm_uvec c0 = (uint)(column / 4);
    for (int i = 0; i < TFM_WIDTH; i++)
        ((uint *)&c0)[i] += (uint)i;
#endif
    tfm_uvec c1 = (tfm_uvec)((uint)row), c2 = (tfm_uvec)((uint)d.stream), c3 = (tfm_uvec)((uint)(d.stream >> 32));
    TFM_PHILOX(tfm_uvec, c0, c1, c2, c3, d.seed)
    factors[0] = c0 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.keep);
    factors[1] = c1 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.keep);
    factors[2] = c2 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.keep);
    factors[3] = c3 < d.threshold ? (tfm_vec)(0.0f) : (tfm_vec)(d.keep);
}

/* The row of a kernel launched on tfm__row_grid, and this item's place in it. */
#define TFM_ROW() ((long)get_group_id(0) + (long)get_group_id(1) * (long)get_num_groups(0))
#define TFM_LANE() ((long)get_local_id(0))
/* The first element of a kernel launched on tfm__element_grid; it handles TFM_CHUNK of them, a multiple of TFM_WIDTH:
 *     const long first = TFM_ELEMENT(), end = min(first + TFM_CHUNK, n);
 *     for (i = first; i + TFM_WIDTH <= end; i += TFM_WIDTH) ... vectors
 *     for (; i < end; i++) ... the tail */
#define TFM_ELEMENT() (((long)get_global_id(0) + (long)get_global_id(1) * (long)get_global_size(0)) * TFM_CHUNK)

/* A place (i0, ..., i4) of a grid of dims d0 to d4, whose last dim kernels walk in runs: the i-th in row-major order is
 * found by division, and the beginning of the run after it by carrying. */
typedef struct tfm_place {
    long i0, i1, i2, i3, i4;
} tfm_place;
static inline tfm_place tfm_place_at(long i, long d1, long d2, long d3, long d4) {
    tfm_place p;
    const long i3 = i / d4, i2 = i3 / d3, i1 = i2 / d2;
    p.i4 = i - i3 * d4;
    p.i3 = i3 % d3;
    p.i2 = i2 % d2;
    p.i1 = i1 % d1;
    p.i0 = i1 / d1;
    return p;
}
static inline void tfm_place_next_run(tfm_place *p, long d1, long d2, long d3) {
    p->i4 = 0;
    if (++p->i3 < d3)
        return;
    p->i3 = 0;
    if (++p->i2 < d2)
        return;
    p->i2 = 0;
    if (++p->i1 < d1)
        return;
    p->i1 = 0;
    p->i0++;
}
/* Where it lies in a tensor of these strides. */
#define TFM_PLACE(p, s) ((p).i0 * s##0 + (p).i1 * s##1 + (p).i2 * s##2 + (p).i3 * s##3 + (p).i4 * s##4)

/* Both kinds of kernel run with work-groups of TFM_GROUP items (1 on wide devices). */
#define TFM_KERNEL __kernel __attribute__((reqd_work_group_size(TFM_GROUP, 1, 1)))
