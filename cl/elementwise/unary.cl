/* y = f(x) on n elements, one of the functions below, and dx = dy f'(x). `function` is the number of enum function in
 * lib/ops/elementwise/unary.c, p and q are the parameters of those that have some. f(NaN) is NaN, and so is f(x) where
 * f has no value, as the root of -1. The slopes of NaN are NaN too, but those that are constant in pieces: that of neg
 * is -1, that of clip 1, and that of hard_sigmoid p.
 *
 * One program holds all functions, so that a device compiles it once; which of them runs is chosen outside the loops.
 *
 * Layout: a work-item takes TFM_CHUNK elements. y may be x, and dx may be dy. */

/* (T) is float or tfm_vec, V the suffix of the prelude's functions for it. */
#define NEGATIVE(T, V, x) (-(x))
#define ABSOLUTE(T, V, x) fabs(x)
#define ROOT(T, V, x) sqrt(x)
#define INVERSE(T, V, x) ((T)(1.0f) / (x))
#define EXPONENTIAL(T, V, x) exp(x)
#define LOGARITHM(T, V, x) log(x)
#define ERROR_FUNCTION(T, V, x) erf(x)
#define SIGMOID(T, V, x) TFM_SIGMOID(T, V, x)
#define HYPERBOLIC(T, V, x) tanh(x)
/* In this order of comparisons NaN stays, and of p > q the result is q. */
#define BETWEEN(T, x, p, q) ((x) < (T)(p) ? (T)(p) : (x)) > (T)(q) ? (T)(q) : ((x) < (T)(p) ? (T)(p) : (x))
#define CLIPPED(T, V, x) (BETWEEN(T, x, p, q))
#define HARD_SIGMOID(T, V, x) (BETWEEN(T, tfm_fma((T)(p), x, (T)(q)), 0.0f, 1.0f))
#define HARD_SWISH(T, V, x)                                                                                            \
    ((x) <= (T)(-3.0f) ? (T)(0.0f) : (x) >= (T)(3.0f) ? (x) : (x) * (((x) + (T)(3.0f)) * (T)(1.0f / 6.0f)))

#define NEGATIVE_SLOPE(T, V, x) ((T)(-1.0f))
/* 0 and NaN are their own slopes: llvmpipe (Mesa 22.3) takes NaN times 0 for 0. */
#define ABSOLUTE_SLOPE(T, V, x) ((x) > (T)(0.0f) ? (T)(1.0f) : (x) < (T)(0.0f) ? (T)(-1.0f) : (x))
#define ROOT_SLOPE(T, V, x) ((T)(0.5f) / sqrt(x))
#define INVERSE_SLOPE(T, V, x) ((T)(-1.0f) / (x) / (x))
#define EXPONENTIAL_SLOPE(T, V, x) exp(x)
#define LOGARITHM_SLOPE(T, V, x) ((T)(1.0f) / (x))
#define ERROR_FUNCTION_SLOPE(T, V, x) ((T)(1.1283791671f) * TFM_CAT(tfm_exp_nonpos, V)(-(x) * (x)))
/* s (1 - s) as e / (1 + e)^2, e = e^-|x|, where 1 - s would cancel; and tanh's is 4 of that at 2x. */
#define SIGMOID_AT(T, V, e) ((e) / ((T)(1.0f) + (e)) / ((T)(1.0f) + (e)))
#define SIGMOID_SLOPE(T, V, x) SIGMOID_AT(T, V, TFM_CAT(tfm_exp_nonpos, V)(-fabs(x)))
#define HYPERBOLIC_SLOPE(T, V, x) ((T)(4.0f) * SIGMOID_AT(T, V, TFM_CAT(tfm_exp_nonpos, V)((T)(-2.0f) * fabs(x))))
#define CLIPPED_SLOPE(T, V, x) ((((x) < (T)(p)) | ((x) > (T)(q))) ? (T)(0.0f) : (T)(1.0f))
#define HARD_SIGMOID_SLOPE(T, V, x)                                                                                    \
    (((tfm_fma((T)(p), x, (T)(q)) <= (T)(0.0f)) | (tfm_fma((T)(p), x, (T)(q)) >= (T)(1.0f))) ? (T)(0.0f) : (T)(p))
#define HARD_SWISH_SLOPE(T, V, x)                                                                                      \
    ((x) <= (T)(-3.0f) ? (T)(0.0f) : (x) >= (T)(3.0f) ? (T)(1.0f) : tfm_fma(x, (T)(1.0f / 3.0f), (T)(0.5f)))

/* F of a vector. */
#ifdef TFM_VEC4
#define ONE_OF(F, x) (F(float, , x))
#define OF_VECTOR(F, v) ((tfm_vec)(ONE_OF(F, (v).x), ONE_OF(F, (v).y), ONE_OF(F, (v).z), ONE_OF(F, (v).w)))
#else
#define OF_VECTOR(F, v) (F(tfm_vec, _vec, v))
#endif

#define CASES                                                                                                          \
    CASE(0, NEGATIVE)                                                                                                  \
    CASE(1, ABSOLUTE)                                                                                                  \
    CASE(2, ROOT)                                                                                                      \
    CASE(3, INVERSE)                                                                                                   \
    CASE(4, EXPONENTIAL)                                                                                               \
    CASE(5, LOGARITHM)                                                                                                 \
    CASE(6, ERROR_FUNCTION)                                                                                            \
    CASE(7, SIGMOID)                                                                                                   \
    CASE(8, HYPERBOLIC)                                                                                                \
    CASE(9, HARD_SWISH)                                                                                                \
    CASE(10, HARD_SIGMOID)                                                                                             \
    CASE(11, CLIPPED)

TFM_KERNEL void unary(TFM_TENSOR(float, y), TFM_INPUT(float, x), const long function, const float p, const float q,
                      const long n) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x);
    __global float *out = TFM_AT(y);
    switch ((int)function) {
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        for (; i + TFM_WIDTH <= end; i += TFM_WIDTH) {                                                                 \
            const tfm_vec v = tfm_load(in + i);                                                                        \
            tfm_store(OF_VECTOR(F, v), out + i);                                                                       \
        }                                                                                                              \
        for (; i < end; i++) {                                                                                         \
            const float v = in[i];                                                                                     \
            out[i] = F(float, , v);                                                                                    \
        }                                                                                                              \
        break;
        CASES
#undef CASE
    }
}

/* The gradient is added to dx where `add` is not 0, else it is written over dx. */
TFM_KERNEL void unary_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, x), const long function,
                               const float p, const float q, const long n, const long add) {
    long i = TFM_ELEMENT();
    const long end = min(i + TFM_CHUNK, n);
    __global const float *in = TFM_AT(x), *from = TFM_AT(dy);
    __global float *out = TFM_AT(dx);
    switch ((int)function) {
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        for (; i + TFM_WIDTH <= end; i += TFM_WIDTH) {                                                                 \
            const tfm_vec v = tfm_load(in + i), d = tfm_load(from + i) * OF_VECTOR(F##_SLOPE, v);                      \
            tfm_store(add ? tfm_load(out + i) + d : d, out + i);                                                       \
        }                                                                                                              \
        for (; i < end; i++) {                                                                                         \
            const float v = in[i], d = from[i] * (F##_SLOPE(float, , v));                                              \
            out[i] = add ? out[i] + d : d;                                                                             \
        }                                                                                                              \
        break;
        CASES
#undef CASE
    }
}
