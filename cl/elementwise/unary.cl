/* y = f(x) on n elements, for the functions below, and dx = dy f'(x). `function` is a number of enum function in
 * lib/ops/elementwise/unary.c, p and q are its parameters. f(NaN) is NaN, and so is f(x) outside its domain, as the
 * root of -1. Derivatives at NaN are NaN too, except the piecewise constant ones: neg -1, clip 1, hard_sigmoid p.
 *
 * One program has all functions, so that a device compiles it once; the choice is outside the loops.
 *
 * Layout: a work-item takes TFM_CHUNK elements. y may be x, and dx may be dy. */

/* (T) is float or tfm_vec, V the suffix of the prelude's functions for it. */
#define OP_NEG(T, V, x) (-(x))
#define OP_ABS(T, V, x) fabs(x)
#define OP_SQRT(T, V, x) sqrt(x)
#define OP_RECIPROCAL(T, V, x) ((T)(1.0f) / (x))
#define OP_EXP(T, V, x) exp(x)
#define OP_LOG(T, V, x) log(x)
#define OP_ERF(T, V, x) erf(x)
#define OP_SIGMOID(T, V, x) TFM_SIGMOID(T, V, x)
#define OP_TANH(T, V, x) tanh(x)
/* With this order of comparisons NaN stays, and p > q gives q. */
#define CLAMPED(T, x, p, q) ((x) < (T)(p) ? (T)(p) : (x)) > (T)(q) ? (T)(q) : ((x) < (T)(p) ? (T)(p) : (x))
#define OP_CLIP(T, V, x) (CLAMPED(T, x, p, q))
#define OP_HARD_SIGMOID(T, V, x) (CLAMPED(T, tfm_fma((T)(p), x, (T)(q)), 0.0f, 1.0f))
#define OP_HARDSWISH(T, V, x)                                                                                          \
    ((x) <= (T)(-3.0f) ? (T)(0.0f) : (x) >= (T)(3.0f) ? (x) : (x) * (((x) + (T)(3.0f)) * (T)(1.0f / 6.0f)))

#define OP_NEG_GRAD(T, V, x) ((T)(-1.0f))
/* 0 and NaN are returned as the derivative: llvmpipe (Mesa 22.3) computes NaN times 0 as 0. */
#define OP_ABS_GRAD(T, V, x) ((x) > (T)(0.0f) ? (T)(1.0f) : (x) < (T)(0.0f) ? (T)(-1.0f) : (x))
#define OP_SQRT_GRAD(T, V, x) ((T)(0.5f) / sqrt(x))
#define OP_RECIPROCAL_GRAD(T, V, x) ((T)(-1.0f) / (x) / (x))
#define OP_EXP_GRAD(T, V, x) exp(x)
#define OP_LOG_GRAD(T, V, x) ((T)(1.0f) / (x))
#define OP_ERF_GRAD(T, V, x) ((T)(1.1283791671f) * TFM_CAT(tfm_exp_nonpos, V)(-(x) * (x)))
/* s (1 - s) as e / (1 + e)^2, e = e^-|x|, because 1 - s would cancel; tanh's derivative is 4 times that at 2x. */
#define SIGMOID_GRAD_OF_EXP(T, V, e) ((e) / ((T)(1.0f) + (e)) / ((T)(1.0f) + (e)))
#define OP_SIGMOID_GRAD(T, V, x) SIGMOID_GRAD_OF_EXP(T, V, TFM_CAT(tfm_exp_nonpos, V)(-fabs(x)))
#define OP_TANH_GRAD(T, V, x) ((T)(4.0f) * SIGMOID_GRAD_OF_EXP(T, V, TFM_CAT(tfm_exp_nonpos, V)((T)(-2.0f) * fabs(x))))
#define OP_CLIP_GRAD(T, V, x) ((((x) < (T)(p)) | ((x) > (T)(q))) ? (T)(0.0f) : (T)(1.0f))
#define OP_HARD_SIGMOID_GRAD(T, V, x)                                                                                  \
    (((tfm_fma((T)(p), x, (T)(q)) <= (T)(0.0f)) | (tfm_fma((T)(p), x, (T)(q)) >= (T)(1.0f))) ? (T)(0.0f) : (T)(p))
#define OP_HARDSWISH_GRAD(T, V, x)                                                                                     \
    ((x) <= (T)(-3.0f) ? (T)(0.0f) : (x) >= (T)(3.0f) ? (T)(1.0f) : tfm_fma(x, (T)(1.0f / 3.0f), (T)(0.5f)))

/* F of a vector. */
#ifdef TFM_VEC4
#define ON_SCALAR(F, x) (F(float, , x))
#define ON_VECTOR(F, v) ((tfm_vec)(ON_SCALAR(F, (v).x), ON_SCALAR(F, (v).y), ON_SCALAR(F, (v).z), ON_SCALAR(F, (v).w)))
#else
#define ON_VECTOR(F, v) (F(tfm_vec, _vec, v))
#endif

#define CASES                                                                                                          \
    CASE(0, OP_NEG)                                                                                                    \
    CASE(1, OP_ABS)                                                                                                    \
    CASE(2, OP_SQRT)                                                                                                   \
    CASE(3, OP_RECIPROCAL)                                                                                             \
    CASE(4, OP_EXP)                                                                                                    \
    CASE(5, OP_LOG)                                                                                                    \
    CASE(6, OP_ERF)                                                                                                    \
    CASE(7, OP_SIGMOID)                                                                                                \
    CASE(8, OP_TANH)                                                                                                   \
    CASE(9, OP_HARDSWISH)                                                                                              \
    CASE(10, OP_HARD_SIGMOID)                                                                                          \
    CASE(11, OP_CLIP)

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
            tfm_store(ON_VECTOR(F, v), out + i);                                                                       \
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

/* The gradient is accumulated to dx if `add` is not 0, else it overwrites dx. */
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
            const tfm_vec v = tfm_load(in + i), d = tfm_load(from + i) * ON_VECTOR(F##_GRAD, v);                       \
            tfm_store(add ? tfm_load(out + i) + d : d, out + i);                                                       \
        }                                                                                                              \
        for (; i < end; i++) {                                                                                         \
            const float v = in[i], d = from[i] * (F##_GRAD(float, , v));                                               \
            out[i] = add ? out[i] + d : d;                                                                             \
        }                                                                                                              \
        break;
        CASES
#undef CASE
    }
}
