/* y = f(a, b), one of the functions below, with dims that broadcast; and its backward. `function` is the number of enum
 * function in lib/ops/elementwise/binary.c.
 *
 * -DNUMBER is the type of a and b, and -DRESULT that of y. With -DARITHMETIC the functions are those that calculate, on
 * floats (then also -DREALS) or ints; without it they are those that give 1 for true and 0 for false as uchar. One
 * program holds all functions of its types; which of them runs is chosen outside the loops.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, in runs along which each of a and b has a stride of 1 or 0. The
 * strides are those of y, a and b. y may be the input that has its dims. */

#if defined(ARITHMETIC) && defined(REALS)
#define LOAD(T, p, step) ((step) ? tfm_load(p) : (T)(*(p)))
#define MINIMUM(T, a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define MAXIMUM(T, a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define DIVIDED(T, a, b) ((a) / (b))
#define POWER(T, a, b) pow(a, b)
#define SUBTRACTED(T, a, b) ((a) - (b))
#define MULTIPLIED(T, a, b) ((a) * (b))
#else
#define MINIMUM(T, a, b) min(a, b)
#define MAXIMUM(T, a, b) max(a, b)
/* No result is undefined: all of them wrap, and a quotient by 0 is 0. */
#define DIVIDED(T, a, b) ((b) == 0 ? 0 : (b) == -1 ? (int)(0u - (uint)(a)) : (a) / (b))
#define SUBTRACTED(T, a, b) ((uint)(a) - (uint)(b))
#define MULTIPLIED(T, a, b) ((uint)(a) * (uint)(b))
#define ADDED(T, a, b) ((uint)(a) + (uint)(b))
#endif

#ifdef ARITHMETIC
#define ALL_CASES CASE(0, SUBTRACTED) CASE(1, MULTIPLIED) CASE(2, DIVIDED) CASE(4, MINIMUM) CASE(5, MAXIMUM)
#ifdef REALS
#define CASES ALL_CASES CASE(3, POWER)
#else
#define CASES ALL_CASES CASE(6, ADDED)
#endif
#else
#define EQUAL(T, a, b) ((a) == (b))
#define LESS(T, a, b) ((a) < (b))
#define LESS_EQUAL(T, a, b) ((a) <= (b))
#define BOTH(T, a, b) ((a) != 0 && (b) != 0)
#define EITHER(T, a, b) ((a) != 0 || (b) != 0)
#define ONE_OF(T, a, b) (((a) != 0) != ((b) != 0))
#define CASES CASE(7, EQUAL) CASE(8, LESS) CASE(9, LESS_EQUAL) CASE(10, BOTH) CASE(11, EITHER) CASE(12, ONE_OF)
#endif

static inline void binary_run(__global RESULT *out, __global const NUMBER *a, __global const NUMBER *b,
                              const int function, const long run, const long a_step, const long b_step) {
    long c = 0;
    switch (function) {
#ifdef REALS
#define VECTORS(F)                                                                                                     \
    for (; c + TFM_WIDTH <= run; c += TFM_WIDTH) {                                                                     \
        const tfm_vec v = LOAD(tfm_vec, a + c * a_step, a_step), w = LOAD(tfm_vec, b + c * b_step, b_step);            \
        tfm_store(F(tfm_vec, v, w), out + c);                                                                          \
    }
#else
#define VECTORS(F)
#endif
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        VECTORS(F)                                                                                                     \
        for (; c < run; c++) {                                                                                         \
            const NUMBER v = a[c * a_step], w = b[c * b_step];                                                         \
            out[c] = (RESULT)F(NUMBER, v, w);                                                                          \
        }                                                                                                              \
        break;
        CASES
#undef CASE
    }
}

TFM_KERNEL void binary(TFM_TENSOR(RESULT, y), TFM_INPUT(NUMBER, a), TFM_INPUT(NUMBER, b), const long function,
                       const tfm_iter iter) {
    for (tfm_run run = tfm_run_first(&iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter))
        binary_run(TFM_AT(y) + run.first, TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1)),
                   TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2)), (int)function, run.count,
                   TFM_STRIDES(iter, 1)[TFM_ITER_LAST], TFM_STRIDES(iter, 2)[TFM_ITER_LAST]);
}

#ifdef REALS
/* df/da where `second` is 0, else df/db. Where a and b are equal, the slope of a minimum or a maximum is a half. */
static inline float slope(const int function, const int second, const float a, const float b) {
    switch (function) {
    case 0:
        return second ? -1.0f : 1.0f;
    case 1:
        return second ? a : b;
    case 2:
        return second ? -a / b / b : 1.0f / b;
    case 3:
        if (second) /* a^b log a; 0^b is flat where b is not below 0 */
            return a == 0.0f && b >= 0.0f ? 0.0f : pow(a, b) * log(a);
        return b == 0.0f ? 0.0f : b * pow(a, b - 1.0f);
    default: {
        const float own = second ? b : a, other = second ? a : b;
        const int wins = function == 4 ? own < other : own > other;
        return own == other ? 0.5f : wins || own != own ? 1.0f : 0.0f;
    }
    }
}

#define SUBTRACTED_SLOPE(T, second, a, b) ((T)((second) ? -1.0f : 1.0f))
#define MULTIPLIED_SLOPE(T, second, a, b) ((second) ? (a) : (b))
#define DIVIDED_SLOPE(T, second, a, b) ((second) ? -(a) / (b) / (b) : (T)(1.0f) / (b))

/* A run along the last dimension. The short functions are chosen outside the loop and take vectors; what is left of a
 * run, and the other functions, take one element after the other. */
static inline void backward_run(__global float *out, __global const float *from, __global const float *a,
                                __global const float *b, const int function, const int second, const int add,
                                const long run, const long a_step, const long b_step) {
    long c = 0;
    switch (function) {
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        for (; c + TFM_WIDTH <= run; c += TFM_WIDTH) {                                                                 \
            const tfm_vec v = LOAD(tfm_vec, a + c * a_step, a_step), w = LOAD(tfm_vec, b + c * b_step, b_step);        \
            const tfm_vec d = tfm_load(from + c) * F##_SLOPE(tfm_vec, second, v, w);                                   \
            tfm_store(add ? tfm_load(out + c) + d : d, out + c);                                                       \
        }                                                                                                              \
        break;
        CASE(0, SUBTRACTED)
        CASE(1, MULTIPLIED)
        CASE(2, DIVIDED)
#undef CASE
    }
    for (; c < run; c++) {
        const float d = from[c] * slope(function, second, a[c * a_step], b[c * b_step]);
        out[c] = add ? out[c] + d : d;
    }
}

/* dx = dy times the slope, in the places of y: the sum of dx over what was repeated is the gradient of a, or of b. It
 * is added to dx where `add` is not 0. */
TFM_KERNEL void binary_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, a), TFM_INPUT(float, b),
                                const long function, const long second, const long add, const tfm_iter iter) {
    for (tfm_run run = tfm_run_first(&iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter))
        backward_run(TFM_AT(dx) + run.first, TFM_AT(dy) + run.first,
                     TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1)),
                     TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2)), (int)function, (int)second, (int)add,
                     run.count, TFM_STRIDES(iter, 1)[TFM_ITER_LAST], TFM_STRIDES(iter, 2)[TFM_ITER_LAST]);
}
#endif
