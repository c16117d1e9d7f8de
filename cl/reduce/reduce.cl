/* Sum, maximum and minimum of x (outer, rows, inner) over its middle dimension, in an order that depends only on the
 * shape and the device's tuning. `function` is 0 for the sum, 1 for the maximum, 2 for the minimum, and 3 for the
 * number of elements equal to `extremum` (outer, inner). NaN propagates.
 *
 * Long reductions take several launches of the same kernel: first over `chunk` rows each, to (outer, chunks, inner),
 * then over the chunks. The last one divides the result by `divisor`. */
static inline float identity_of(const int function) {
    return function == 1 ? -INFINITY : function == 2 ? INFINITY : 0.0f;
}

static inline float combine(const int function, const float a, const float b) {
    if (function == 1)
        return a > b || a != a ? a : b;
    if (function == 2)
        return a < b || a != a ? a : b;
    return a + b;
}

/* The same for TFM_WIDTH elements. */
static inline tfm_vec combine_vec(const int function, const tfm_vec a, const tfm_vec b) {
    if (function == 1)
        return ((a > b) | (a != a)) ? a : b;
    if (function == 2)
        return ((a < b) | (a != a)) ? a : b;
    return a + b;
}

static inline tfm_vec count_or_value_vec(const int function, const tfm_vec x, const tfm_vec extremum) {
    const tfm_vec one = (tfm_vec)(1.0f), none = (tfm_vec)(0.0f);
    return function < 3 ? x : ((x == extremum) | ((x != x) & (extremum != extremum))) ? one : none;
}

static inline float count_or_value(const int function, const float x, const float extremum) {
    return function < 3 ? x : x == extremum || (x != x && extremum != extremum) ? 1.0f : 0.0f;
}

/* sum / divisor. GPU division may be off by two ulps (NVIDIA's mean of 41 ones is not one), so the remainder is divided
 * too. */
#ifdef TFM_CLASS_CPU
#define quotient(sum, divisor) ((sum) / (divisor))
#else
static inline float quotient(const float sum, const float divisor) {
    const float q = sum / divisor;
    const float better = fma(fma(-q, divisor, sum), 1.0f / divisor, q);
    return q == 0.0f || divisor == 1.0f || !isfinite(better) ? q : better;
}
#endif

/* Over the items of a work-group. As in the prelude: force-inlined, and without early exit. */
#if TFM_GROUP == 1
#define REDUCE_SCRATCH
#define REDUCE_GROUP(function, v) (v)
#else
#define REDUCE_SCRATCH __local float reduce_scratch[TFM_GROUP];
#define REDUCE_GROUP(function, v) reduce_group(function, v, reduce_scratch)
static inline __attribute__((always_inline)) float reduce_group(const int function, const float v,
                                                                __local float *scratch) {
    const int id = get_local_id(0);
    scratch[id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = TFM_GROUP / 2; half_size > 0; half_size /= 2) {
        if (id < half_size)
            scratch[id] = combine(function, scratch[id], scratch[id + half_size]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}
#endif

/* The reduction for inner = 1. Layout: a work-group takes a chunk of a row, over which its items step together; each
 * item has TFM_WIDTH partial results, so that a CPU-style device uses vectors. */
TFM_KERNEL void reduce_rows(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(float, extremum), const long function,
                            const long rows, const long chunk, const long chunks, const long items,
                            const float divisor) {
    REDUCE_SCRATCH
    const int f = (int)function;
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const long o = item / chunks, begin = item % chunks * chunk, end = min(begin + chunk, rows);
    __global const float *in = TFM_AT(x) + o * rows;
    const float top = f == 3 ? TFM_AT(extremum)[o] : 0.0f;
    tfm_vec part = (tfm_vec)(identity_of(f));
    float result = identity_of(f);
    long r = begin + TFM_LOCAL_ID() * TFM_WIDTH;
    for (; r + TFM_WIDTH <= end; r += TFM_GROUP * TFM_WIDTH)
        part = combine_vec(f, part, count_or_value_vec(f, tfm_load(in + r), (tfm_vec)(top)));
    for (; r < end; r++) /* remainder of this item's last vector */
        result = combine(f, result, count_or_value(f, in[r], top));
#if TFM_WIDTH == 1
    result = combine(f, result, part);
#else
    for (int i = 0; i < TFM_WIDTH; i++)
        result = combine(f, result, ((float *)&part)[i]);
#endif
    result = REDUCE_GROUP(f, result);
    if (TFM_LOCAL_ID() == 0)
        TFM_AT(y)[item] = quotient(result, divisor);
}

/* The reduction for inner > 1. Layout: a work-item takes TFM_WIDTH adjacent columns of one chunk. */
TFM_KERNEL void reduce_columns(TFM_TENSOR(float, y), TFM_INPUT(float, x), TFM_INPUT(float, extremum),
                               const long function, const long rows, const long inner, const long blocks,
                               const long chunk, const long chunks, const long items, const float divisor) {
    const int f = (int)function;
    const long item = TFM_ROW();
    if (item >= items)
        return;
    const long first = TFM_COLUMN(item % blocks), c = item / blocks % chunks;
    const long o = item / blocks / chunks, begin = c * chunk, end = min(begin + chunk, rows);
    __global const float *in = TFM_AT(x) + o * rows * inner, *top = TFM_AT(extremum) + o * inner;
    __global float *out = TFM_AT(y) + (o * chunks + c) * inner;
    if (first + TFM_WIDTH <= inner) {
        const tfm_vec tops = f == 3 ? tfm_load(top + first) : (tfm_vec)(0.0f);
        tfm_vec part = (tfm_vec)(identity_of(f));
        for (long r = begin; r < end; r++)
            part = combine_vec(f, part, count_or_value_vec(f, tfm_load(in + r * inner + first), tops));
        tfm_store(quotient(part, divisor), out + first);
        return;
    }
    for (long column = first; column < inner; column++) { /* fewer than a vector: one by one */
        float part = identity_of(f);
        for (long r = begin; r < end; r++)
            part = combine(f, part, count_or_value(f, in[r * inner + column], f == 3 ? top[column] : 0.0f));
        out[column] = quotient(part, divisor);
    }
}

/* dx (outer, rows, inner) = dy (outer, inner) / divisor. For a maximum or a minimum y, only where x is y, divided by
 * `ties`, the number of such elements, and 0 elsewhere. Accumulated if `add` is not 0.
 *
 * Layout: a work-item takes TFM_CHUNK of the n elements of dx, in runs along which dy advances or repeats. */
TFM_KERNEL void reduce_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, x), TFM_INPUT(float, y),
                                TFM_INPUT(float, ties), const long function, const long n, const long rows,
                                const long inner, const float divisor, const long add) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n), period = inner == 1 ? rows : inner;
    __global float *out = TFM_AT(dx);
    while (i < end) {
        const long line = i / period, from = i - line * period, run = min(period - from, end - i);
        const long place = inner == 1 ? line : line / rows * inner + from;
        for (long k = 0; k < run; k++) {
            const long at = inner == 1 ? place : place + k;
            float d = TFM_AT(dy)[at] / divisor;
            if (function != 0)
                d = count_or_value(3, TFM_AT(x)[i + k], TFM_AT(y)[at]) != 0.0f ? d / TFM_AT(ties)[at] : 0.0f;
            out[i + k] = add ? out[i + k] + d : d;
        }
        i += run;
    }
}
