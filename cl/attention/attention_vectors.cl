/* Shared by attention's kernels for CPU-style devices: vector loads of TFM_WIDTH elements, and score post-processing.
 * Included after attention_common.cl. */

#define W TFM_WIDTH
#define KEY_VECTORS ((DK + W - 1) / W)
#define VALUE_VECTORS ((DV + W - 1) / W)
/* A query's sums stay in registers only if the loops over them are unrolled early. */
#if KEY_VECTORS <= 8 && VALUE_VECTORS <= 8
#define UNROLL_VECTORS _Pragma("unroll")
#else
#define UNROLL_VECTORS
#endif

/* ---- Vector loads ---- */

/* A vector at any alignment. The equivalent vload goes through memory two or four elements at a time. */
#if KV_DTYPE == 0
typedef struct __attribute__((packed)) unaligned_numbers {
    tfm_vec all;
} unaligned_numbers;
#elif KV_DTYPE == 5
typedef struct __attribute__((packed)) unaligned_numbers {
    TFM_CAT(char, TFM_WIDTH) all;
} unaligned_numbers;
#else
typedef struct __attribute__((packed)) unaligned_numbers {
    TFM_CAT(ushort, TFM_WIDTH) all;
} unaligned_numbers;
typedef TFM_CAT(uint, TFM_WIDTH) words;
#define as_words TFM_CAT(as_uint, TFM_WIDTH)
#define as_floats TFM_CAT(as_float, TFM_WIDTH)
#define to_words TFM_CAT(convert_uint, TFM_WIDTH)
#endif

static inline tfm_vec load(__global const kv_type *p) {
    const unaligned_numbers from = *(__global const unaligned_numbers *)p;
#if KV_DTYPE == 0
    return from.all;
#elif KV_DTYPE == 1 && defined(LOAD_BY_INSTRUCTION)
    return load_as_float_vec((__global const ushort *)p);
#elif KV_DTYPE == 1
    /* Exponent and fraction shifted to their place in a float give the number times 2^-112, denormals too; infinity and
     * NaN get a float's exponent back. vload_half converts lane by lane. */
    const words u = to_words(from.all), size = (u & 0x7fffu) << 13;
    const words finite = as_words(as_floats(size) * 0x1p112f);
    return as_floats(select(finite, size | 0x7f800000u, size >= 0x7c00u << 13) | (u & 0x8000u) << 16);
#elif KV_DTYPE == 2
    return as_floats(to_words(from.all) << 16);
#else
    return TFM_CAT(convert_float, TFM_WIDTH)(TFM_CAT(convert_int, TFM_WIDTH)(from.all));
#endif
}

/* Prefetches `count` elements from p on. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define FETCH(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#endif
#endif
static inline void fetch(__global const kv_type *p, const int count) {
#ifdef FETCH
    for (int i = 0; i < count; i += 64 / (int)sizeof(kv_type))
        FETCH(p + i);
#endif
}

/* Keys and values of long texts are not cached when needed, and too far apart for hardware prefetching. So part `part`
 * of `parts` of keys s .. end - 1 is prefetched while the previous tile is processed. */
static inline void fetch_ahead(const kv_view keys, const int s, const int end, const int part, const int parts) {
    for (int j = s + part; j < end; j += parts) {
        const int row = max(key_row(keys, j), 0);
        fetch(keys.k + row * keys.k_step, DK);
        fetch(keys.v + row * keys.v_step, DV);
    }
}

/* The first `count` < W elements at p, then zeros: nothing is read beyond them. */
static inline tfm_vec load_some(__global const kv_type *p, const int count) {
    float part[W];
#pragma unroll
    for (int i = 0; i < W; i++)
        part[i] = i < count ? KV_LOAD(p, i) : 0.0f;
    return tfm_load(part);
}

static inline tfm_vec load_key(__global const kv_type *p, const int vector) {
    return DK % W == 0 || (vector + 1) * W <= DK ? load(p + vector * W) : load_some(p + vector * W, DK % W);
}

static inline tfm_vec load_value(__global const kv_type *p, const int vector) {
    return DV % W == 0 || (vector + 1) * W <= DV ? load(p + vector * W) : load_some(p + vector * W, DV % W);
}

static inline tfm_vec scaled_key(__global const kv_type *p, const int vector) {
    return load_key(p, vector) * KV_SCALE(p, DK, vector * W);
}

static inline tfm_vec scaled_value(__global const kv_type *p, const int vector) {
    return load_value(p, vector) * KV_SCALE(p, DV, vector * W);
}

typedef struct __attribute__((packed)) unaligned_floats {
    tfm_vec all;
} unaligned_floats;

/* Vector `vector` of a row of `columns` floats, then zeros. */
static inline tfm_vec load_floats(__global const float *p, const int vector, const int columns) {
    float part[W];
    if (columns % W == 0 || (vector + 1) * W <= columns)
        return tfm_load(p + vector * W);
#pragma unroll
    for (int i = 0; i < W; i++)
        part[i] = i < columns % W ? p[vector * W + i] : 0.0f;
    return tfm_load(part);
}

/* Of a query. */
#if Q_DTYPE == KV_DTYPE
#define load_q(p) load(p)
#define load_query(p, vector) load_key(p, vector)
#else
#define load_q(p) tfm_load(p)
#define load_query(p, vector) load_floats(p, vector, DK)
#endif

/* Vector `vector` of a row of DV, or of DK, floats. */
static inline void store_value(tfm_vec value, __global float *p, const int vector) {
    if (DV % W == 0 || (vector + 1) * W <= DV) {
        ((__global unaligned_floats *)(p + vector * W))->all = value;
    } else {
        for (int i = 0; i < DV % W; i++)
            p[vector * W + i] = ((const float *)&value)[i];
    }
}

static inline void store_key(tfm_vec value, __global float *p, const int vector) {
    if (DK % W == 0 || (vector + 1) * W <= DK) {
        ((__global unaligned_floats *)(p + vector * W))->all = value;
    } else {
        for (int i = 0; i < DK % W; i++)
            p[vector * W + i] = ((const float *)&value)[i];
    }
}

/* Transposes: t[i] lane j becomes t[j] lane i. Each stage rotates the bits of (i, j) by one, log2 W stages swap i and
 * j. By halves first: the compiler would load the even lanes of a vector in memory one by one. */
static inline void transpose(tfm_vec *t) {
#pragma unroll
    for (int stage = W; stage > 1; stage /= 2) {
        tfm_vec u[W];
#pragma unroll
        for (int i = 0; i < W / 2; i++) {
            u[2 * i].even = t[i].lo;
            u[2 * i].odd = t[i + W / 2].lo;
            u[2 * i + 1].even = t[i].hi;
            u[2 * i + 1].odd = t[i + W / 2].hi;
        }
#pragma unroll
        for (int i = 0; i < W; i++)
            t[i] = u[i];
    }
}

/* ---- Scores ---- */

/* The larger of a and b; a if either is NaN. */
static inline tfm_vec larger(const tfm_vec a, const tfm_vec b) {
    return select(a, b, b > a);
}

/* x + 1.5 * 2^23 has round(x) in its low bits: rint() and a conversion are many instructions on some CPUs. */
#define ROUNDER 12582912.0f

/* 2^x for x <= 0: 2^n by the exponent, n = round x, times the minimax polynomial of 2^f, |f| <= 1/2 (relative error
 * 1.8e-7 with 2^0 = 1). Below -126 denormal or 0, 0 at -inf. NaN stays. */
static inline tfm_vec exp2_down(tfm_vec x) {
    const tfm_vec c = larger(x, (tfm_vec)(-127.0f)), t = c + ROUNDER, f = c - (t - ROUNDER);
    tfm_vec p = tfm_fma(f, (tfm_vec)(1.3337413716e-03f), (tfm_vec)(9.6681666653e-03f));
    p = tfm_fma(p, f, (tfm_vec)(5.5504904886e-02f));
    p = tfm_fma(p, f, (tfm_vec)(2.4022303031e-01f));
    p = tfm_fma(p, f, (tfm_vec)(6.9314713614e-01f));
    p = tfm_fma(p, f, (tfm_vec)(1.0f));
    return TFM_CAT(as_float, TFM_WIDTH)(TFM_CAT(as_int, TFM_WIDTH)(p) + (TFM_CAT(as_int, TFM_WIDTH)(t) << 23));
}

#if DROPOUT
/* The random numbers of a block of queries with keys s .. s + W - 1: a vector for each of its four. */
static inline void dropout_words_vec(tfm_uvec *numbers, const tfm_dropout_rng d, const long block, const int s) {
    tfm_uvec c0 = (uint)s, c1 = (uint)block, c2 = (uint)d.stream, c3 = (uint)(d.stream >> 32);
    for (int i = 0; i < W; i++)
        ((uint *)&c0)[i] += (uint)i;
    TFM_PHILOX(tfm_uvec, c0, c1, c2, c3, d.seed)
    numbers[0] = c0;
    numbers[1] = c1;
    numbers[2] = c2;
    numbers[3] = c3;
}
#endif

#if SCORE_MOD
typedef struct __attribute__((packed)) unaligned_bytes {
    TFM_CAT(uchar, TFM_WIDTH) all;
} unaligned_bytes;

/* W mask columns of a row from key s on, unconverted; elements beyond the last column are not read. */
static inline tfm_vec mask_columns(const attention_shape a, const long row, const int s) {
    if (a.mask_s == 0)
        return (tfm_vec)(mask_at(a, row, 0));
    if (s + W > a.columns) {
        float part[W];
        for (int i = 0; i < W; i++)
            part[i] = s + i < a.columns ? mask_at(a, row, s + i) : 0.0f;
        return tfm_load(part);
    }
    if (a.mask_kind == 1)
        return ((__global const unaligned_floats *)((__global const float *)a.mask + row + s))->all;
    const tfm_ivec shown = TFM_CAT(convert_int, TFM_WIDTH)(((__global const unaligned_bytes *)(a.mask + row + s))->all);
    return select((tfm_vec)(0.0f), (tfm_vec)(-INFINITY), shown == 0);
}

/* Post-processes W scores from key s on: optional soft cap, then the mask. With a soft cap, z is scaled by 1/cap and
 * cap by log2(e); else z is. The lowest float of a mask stays finite, so that a row of them is not hidden. */
static inline tfm_vec scored(const attention_shape a, tfm_vec z, const float cap, const long row, const int s) {
    if (cap > 0.0f)
        z = cap * tanh(z);
    if (a.mask_kind != 0) {
        const tfm_vec m = mask_columns(a, row, s);
        z = select(z + larger(m * LOG2_E, (tfm_vec)(-FLT_MAX)), m, m == -INFINITY);
    }
    return z;
}
#endif
