/* y = f(a, b) with broadcasting, for the functions below, and its backward. `function` is a number of enum function in
 * lib/ops/elementwise/binary.c.
 *
 * -DSCALAR is the type of a and b, -DRESULT that of y. With -DARITHMETIC the functions are arithmetic, on floats (then
 * also -DFLOATING) or ints; without it they are comparisons and logic, with 1 for true and 0 for false as uchar. One
 * program has all functions of its types; the choice is outside the loops.
 *
 * Layout: a work-item takes TFM_CHUNK elements of y, in runs along which each of a and b has a stride of 1 or 0. The
 * strides are those of y, a and b. y may be the input with its dims. */

#if defined(ARITHMETIC) && defined(FLOATING)
#define LOAD_OR_SPLAT(T, p, step) ((step) ? tfm_load(p) : (T)(*(p)))
#define OP_MIN(T, a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define OP_MAX(T, a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define OP_DIV(T, a, b) ((a) / (b))
#define OP_POW(T, a, b) pow(a, b)
#define OP_SUB(T, a, b) ((a) - (b))
#define OP_MUL(T, a, b) ((a) * (b))
#else
#define OP_MIN(T, a, b) min(a, b)
#define OP_MAX(T, a, b) max(a, b)
/* No result is undefined: all operations wrap, and a quotient by 0 is 0. */
#define OP_DIV(T, a, b) ((b) == 0 ? 0 : (b) == -1 ? (int)(0u - (uint)(a)) : (a) / (b))
#define OP_SUB(T, a, b) ((uint)(a) - (uint)(b))
#define OP_MUL(T, a, b) ((uint)(a) * (uint)(b))
#define OP_ADD(T, a, b) ((uint)(a) + (uint)(b))
#endif

#ifdef ARITHMETIC
#define ALL_CASES CASE(0, OP_SUB) CASE(1, OP_MUL) CASE(2, OP_DIV) CASE(4, OP_MIN) CASE(5, OP_MAX)
#ifdef FLOATING
#define CASES ALL_CASES CASE(3, OP_POW)
#else
#define CASES ALL_CASES CASE(6, OP_ADD)
#endif
#else
#define OP_EQUAL(T, a, b) ((a) == (b))
#define OP_LESS(T, a, b) ((a) < (b))
#define OP_LESS_EQUAL(T, a, b) ((a) <= (b))
#define OP_AND(T, a, b) ((a) != 0 && (b) != 0)
#define OP_OR(T, a, b) ((a) != 0 || (b) != 0)
#define OP_XOR(T, a, b) (((a) != 0) != ((b) != 0))
#define CASES                                                                                                          \
    CASE(7, OP_EQUAL) CASE(8, OP_LESS) CASE(9, OP_LESS_EQUAL) CASE(10, OP_AND) CASE(11, OP_OR) CASE(12, OP_XOR)
#endif

static inline void binary_run(__global RESULT *out, __global const SCALAR *a, __global const SCALAR *b,
                              const int function, const long run, const long a_step, const long b_step) {
    long c = 0;
    switch (function) {
#ifdef FLOATING
#define VECTOR_LOOP(F)                                                                                                 \
    for (; c + TFM_WIDTH <= run; c += TFM_WIDTH) {                                                                     \
        const tfm_vec v = LOAD_OR_SPLAT(tfm_vec, a + c * a_step, a_step),                                              \
                      w = LOAD_OR_SPLAT(tfm_vec, b + c * b_step, b_step);                                              \
        tfm_store(F(tfm_vec, v, w), out + c);                                                                          \
    }
#else
#define VECTOR_LOOP(F)
#endif
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        VECTOR_LOOP(F)                                                                                                 \
        for (; c < run; c++) {                                                                                         \
            const SCALAR v = a[c * a_step], w = b[c * b_step];                                                         \
            out[c] = (RESULT)F(SCALAR, v, w);                                                                          \
        }                                                                                                              \
        break;
        CASES
#undef CASE
    }
}

TFM_KERNEL void binary(TFM_TENSOR(RESULT, y), TFM_INPUT(SCALAR, a), TFM_INPUT(SCALAR, b), const long function,
                       const tfm_iter iter) {
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter))
        binary_run(TFM_AT(y) + run.first, TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1)),
                   TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2)), (int)function, run.count,
                   TFM_STRIDES(iter, 1)[TFM_ITER_LAST], TFM_STRIDES(iter, 2)[TFM_ITER_LAST]);
}

#ifdef FLOATING
/* df/da if `second` is 0, else df/db. For equal a and b, the derivative of a minimum or a maximum is 0.5. */
static inline float binary_grad(const int function, const int second, const float a, const float b) {
    switch (function) {
    case 0:
        return second ? -1.0f : 1.0f;
    case 1:
        return second ? a : b;
    case 2:
        return second ? -a / b / b : 1.0f / b;
    case 3:
        if (second) /* a^b log a; the derivative of 0^b is 0 for b >= 0 */
            return a == 0.0f && b >= 0.0f ? 0.0f : pow(a, b) * log(a);
        return b == 0.0f ? 0.0f : b * pow(a, b - 1.0f);
    default: {
        const float own = second ? b : a, other = second ? a : b;
        const int wins = function == 4 ? own < other : own > other;
        return own == other ? 0.5f : wins || own != own ? 1.0f : 0.0f;
    }
    }
}

#define OP_SUB_GRAD(T, second, a, b) ((T)((second) ? -1.0f : 1.0f))
#define OP_MUL_GRAD(T, second, a, b) ((second) ? (a) : (b))
#define OP_DIV_GRAD(T, second, a, b) ((second) ? -(a) / (b) / (b) : (T)(1.0f) / (b))

/* A run along the last dimension. Short functions are selected outside the loop and use vectors; the remainder of a
 * run, and other functions, go element by element. */
static inline void binary_backward_run(__global float *out, __global const float *from, __global const float *a,
                                       __global const float *b, const int function, const int second, const int add,
                                       const long run, const long a_step, const long b_step) {
    long c = 0;
    switch (function) {
#define CASE(number, F)                                                                                                \
    case number:                                                                                                       \
        for (; c + TFM_WIDTH <= run; c += TFM_WIDTH) {                                                                 \
            const tfm_vec v = LOAD_OR_SPLAT(tfm_vec, a + c * a_step, a_step),                                          \
                          w = LOAD_OR_SPLAT(tfm_vec, b + c * b_step, b_step);                                          \
            const tfm_vec d = tfm_load(from + c) * F##_GRAD(tfm_vec, second, v, w);                                    \
            tfm_store(add ? tfm_load(out + c) + d : d, out + c);                                                       \
        }                                                                                                              \
        break;
        CASE(0, OP_SUB)
        CASE(1, OP_MUL)
        CASE(2, OP_DIV)
#undef CASE
    }
    for (; c < run; c++) {
        const float d = from[c] * binary_grad(function, second, a[c * a_step], b[c * b_step]);
        out[c] = add ? out[c] + d : d;
    }
}

/* dx = dy times the derivative, at the elements of y: the sum of dx over the broadcast dims is the gradient of a, or of
 * b. Accumulated if `add` is not 0. */
TFM_KERNEL void binary_backward(TFM_TENSOR(float, dx), TFM_INPUT(float, dy), TFM_INPUT(float, a), TFM_INPUT(float, b),
                                const long function, const long second, const long add, const tfm_iter iter) {
    tfm_run run;
    for (tfm_run_first(&run, &iter, TFM_ELEMENT(), TFM_CHUNK); run.count > 0; tfm_run_next(&run, &iter))
        binary_backward_run(
            TFM_AT(dx) + run.first, TFM_AT(dy) + run.first, TFM_AT(a) + tfm_run_offset(&run, TFM_STRIDES(iter, 1)),
            TFM_AT(b) + tfm_run_offset(&run, TFM_STRIDES(iter, 2)), (int)function, (int)second, (int)add, run.count,
            TFM_STRIDES(iter, 1)[TFM_ITER_LAST], TFM_STRIDES(iter, 2)[TFM_ITER_LAST]);
}
#endif
