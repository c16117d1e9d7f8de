/* The built-in functions of our kernels, for PoCL 3.1: its header declares 15,000, which takes most of the time of
 * building a small program. lib/dev/program/program.c puts this text before the prelude and defines the guard of that
 * header. Types and constants are in another header. A function is declared for all types that OpenCL C 1.2 has it for,
 * except double and vectors of three, so that no argument is converted silently. */
#define BUILTIN_SIZES(F, T) F(T, ) F(T, 2) F(T, 4) F(T, 8) F(T, 16)
#define BUILTIN_VECTOR_SIZES(F, T) F(T, 2) F(T, 4) F(T, 8) F(T, 16)
#define BUILTIN_INTEGERS(F) F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong)
#define BUILTIN __attribute__((overloadable))
#define BUILTIN_CONST __attribute__((overloadable, const))
#define BUILTIN_PURE __attribute__((overloadable, pure))

/* Work-items */
size_t BUILTIN_CONST get_global_size(uint);
size_t BUILTIN_CONST get_global_id(uint);
size_t BUILTIN_CONST get_local_size(uint);
size_t BUILTIN_CONST get_local_id(uint);
size_t BUILTIN_CONST get_num_groups(uint);
size_t BUILTIN_CONST get_group_id(uint);
void BUILTIN __attribute__((convergent)) barrier(cl_mem_fence_flags);
void BUILTIN mem_fence(cl_mem_fence_flags);

/* Floating point */
#define BUILTIN_FLOAT(T, n)                                                                                            \
    T##n BUILTIN_CONST ceil(T##n);                                                                                     \
    T##n BUILTIN_CONST cos(T##n);                                                                                      \
    T##n BUILTIN_CONST erf(T##n);                                                                                      \
    T##n BUILTIN_CONST erfc(T##n);                                                                                     \
    T##n BUILTIN_CONST exp(T##n);                                                                                      \
    T##n BUILTIN_CONST exp2(T##n);                                                                                     \
    T##n BUILTIN_CONST fabs(T##n);                                                                                     \
    T##n BUILTIN_CONST floor(T##n);                                                                                    \
    T##n BUILTIN_CONST log(T##n);                                                                                      \
    T##n BUILTIN_CONST log2(T##n);                                                                                     \
    T##n BUILTIN_CONST rint(T##n);                                                                                     \
    T##n BUILTIN_CONST round(T##n);                                                                                    \
    T##n BUILTIN_CONST rsqrt(T##n);                                                                                    \
    T##n BUILTIN_CONST sin(T##n);                                                                                      \
    T##n BUILTIN_CONST sqrt(T##n);                                                                                     \
    T##n BUILTIN_CONST tanh(T##n);                                                                                     \
    T##n BUILTIN_CONST trunc(T##n);                                                                                    \
    T##n BUILTIN_CONST copysign(T##n, T##n);                                                                           \
    T##n BUILTIN_CONST fmax(T##n, T##n);                                                                               \
    T##n BUILTIN_CONST fmin(T##n, T##n);                                                                               \
    T##n BUILTIN_CONST max(T##n, T##n);                                                                                \
    T##n BUILTIN_CONST min(T##n, T##n);                                                                                \
    T##n BUILTIN_CONST pow(T##n, T##n);                                                                                \
    T##n BUILTIN_CONST clamp(T##n, T##n, T##n);                                                                        \
    T##n BUILTIN_CONST fma(T##n, T##n, T##n);                                                                          \
    T##n BUILTIN_CONST mad(T##n, T##n, T##n);                                                                          \
    T##n BUILTIN_CONST select(T##n, T##n, int##n);                                                                     \
    T##n BUILTIN_CONST select(T##n, T##n, uint##n);                                                                    \
    int##n BUILTIN_CONST isfinite(T##n);                                                                               \
    int##n BUILTIN_CONST isnan(T##n);
#define BUILTIN_FLOAT_BY_SCALAR(T, n)                                                                                  \
    T##n BUILTIN_CONST fmax(T##n, T);                                                                                  \
    T##n BUILTIN_CONST fmin(T##n, T);                                                                                  \
    T##n BUILTIN_CONST max(T##n, T);                                                                                   \
    T##n BUILTIN_CONST min(T##n, T);                                                                                   \
    T##n BUILTIN_CONST clamp(T##n, T, T);
BUILTIN_SIZES(BUILTIN_FLOAT, float)
BUILTIN_VECTOR_SIZES(BUILTIN_FLOAT_BY_SCALAR, float)

/* Integers */
#define BUILTIN_INTEGER(T, n)                                                                                          \
    T##n BUILTIN_CONST clamp(T##n, T##n, T##n);                                                                        \
    T##n BUILTIN_CONST max(T##n, T##n);                                                                                \
    T##n BUILTIN_CONST min(T##n, T##n);                                                                                \
    T##n BUILTIN_CONST mul_hi(T##n, T##n);                                                                             \
    T##n BUILTIN_CONST popcount(T##n);                                                                                 \
    T##n BUILTIN_CONST rotate(T##n, T##n);
#define BUILTIN_INTEGER_BY_SCALAR(T, n)                                                                                \
    T##n BUILTIN_CONST clamp(T##n, T, T);                                                                              \
    T##n BUILTIN_CONST max(T##n, T);                                                                                   \
    T##n BUILTIN_CONST min(T##n, T);
#define BUILTIN_INTEGER_SIZES(T) BUILTIN_SIZES(BUILTIN_INTEGER, T) BUILTIN_VECTOR_SIZES(BUILTIN_INTEGER_BY_SCALAR, T)
BUILTIN_INTEGERS(BUILTIN_INTEGER_SIZES)
#define BUILTIN_SIGNED(T, n)                                                                                           \
    u##T##n BUILTIN_CONST abs(T##n);                                                                                   \
    u##T##n BUILTIN_CONST abs(u##T##n);                                                                                \
    int BUILTIN_CONST all(T##n);                                                                                       \
    int BUILTIN_CONST any(T##n);                                                                                       \
    T##n BUILTIN_CONST select(T##n, T##n, T##n);                                                                       \
    T##n BUILTIN_CONST select(T##n, T##n, u##T##n);                                                                    \
    u##T##n BUILTIN_CONST select(u##T##n, u##T##n, T##n);                                                              \
    u##T##n BUILTIN_CONST select(u##T##n, u##T##n, u##T##n);
BUILTIN_SIZES(BUILTIN_SIGNED, char)
BUILTIN_SIZES(BUILTIN_SIGNED, short)
BUILTIN_SIZES(BUILTIN_SIGNED, int)
BUILTIN_SIZES(BUILTIN_SIGNED, long)

/* Conversions */
#define BUILTIN_CONVERT(T, n)                                                                                          \
    char##n BUILTIN_CONST convert_char##n(T##n);                                                                       \
    uchar##n BUILTIN_CONST convert_uchar##n(T##n);                                                                     \
    short##n BUILTIN_CONST convert_short##n(T##n);                                                                     \
    ushort##n BUILTIN_CONST convert_ushort##n(T##n);                                                                   \
    int##n BUILTIN_CONST convert_int##n(T##n);                                                                         \
    uint##n BUILTIN_CONST convert_uint##n(T##n);                                                                       \
    long##n BUILTIN_CONST convert_long##n(T##n);                                                                       \
    ulong##n BUILTIN_CONST convert_ulong##n(T##n);                                                                     \
    float##n BUILTIN_CONST convert_float##n(T##n);
#define BUILTIN_CONVERT_SIZES(T) BUILTIN_SIZES(BUILTIN_CONVERT, T)
BUILTIN_INTEGERS(BUILTIN_CONVERT_SIZES)
BUILTIN_CONVERT_SIZES(float)

/* Memory */
#define BUILTIN_LOAD(T, n)                                                                                             \
    T##n BUILTIN_PURE vload##n(size_t, const __constant T *);                                                          \
    T##n BUILTIN_PURE vload##n(size_t, const __global T *);                                                            \
    T##n BUILTIN_PURE vload##n(size_t, const __local T *);                                                             \
    T##n BUILTIN_PURE vload##n(size_t, const __private T *);                                                           \
    void BUILTIN vstore##n(T##n, size_t, __global T *);                                                                \
    void BUILTIN vstore##n(T##n, size_t, __local T *);                                                                 \
    void BUILTIN vstore##n(T##n, size_t, __private T *);
#define BUILTIN_LOAD_SIZES(T) BUILTIN_VECTOR_SIZES(BUILTIN_LOAD, T)
BUILTIN_INTEGERS(BUILTIN_LOAD_SIZES)
BUILTIN_LOAD_SIZES(float)
#define BUILTIN_HALF(T, n)                                                                                             \
    T##n BUILTIN_PURE vload_half##n(size_t, const __constant half *);                                                  \
    T##n BUILTIN_PURE vload_half##n(size_t, const __global half *);                                                    \
    T##n BUILTIN_PURE vload_half##n(size_t, const __local half *);                                                     \
    T##n BUILTIN_PURE vload_half##n(size_t, const __private half *);                                                   \
    void BUILTIN vstore_half##n(T##n, size_t, __global half *);                                                        \
    void BUILTIN vstore_half##n(T##n, size_t, __local half *);                                                         \
    void BUILTIN vstore_half##n(T##n, size_t, __private half *);                                                       \
    void BUILTIN vstore_half##n##_rte(T##n, size_t, __global half *);                                                  \
    void BUILTIN vstore_half##n##_rte(T##n, size_t, __local half *);                                                   \
    void BUILTIN vstore_half##n##_rte(T##n, size_t, __private half *);
#define BUILTIN_ALIGNED_HALF(T, n)                                                                                     \
    T##n BUILTIN_PURE vloada_half##n(size_t, const __constant half *);                                                 \
    T##n BUILTIN_PURE vloada_half##n(size_t, const __global half *);                                                   \
    T##n BUILTIN_PURE vloada_half##n(size_t, const __local half *);                                                    \
    T##n BUILTIN_PURE vloada_half##n(size_t, const __private half *);                                                  \
    void BUILTIN vstorea_half##n##_rte(T##n, size_t, __global half *);                                                 \
    void BUILTIN vstorea_half##n##_rte(T##n, size_t, __local half *);                                                  \
    void BUILTIN vstorea_half##n##_rte(T##n, size_t, __private half *);
BUILTIN_SIZES(BUILTIN_HALF, float)
BUILTIN_VECTOR_SIZES(BUILTIN_ALIGNED_HALF, float)
#define BUILTIN_ATOMIC(T, P)                                                                                           \
    T BUILTIN atomic_add(volatile P T *, T);                                                                           \
    T BUILTIN atomic_dec(volatile P T *);                                                                              \
    T BUILTIN atomic_inc(volatile P T *);                                                                              \
    T BUILTIN atomic_or(volatile P T *, T);
BUILTIN_ATOMIC(int, __global)
BUILTIN_ATOMIC(uint, __global)
BUILTIN_ATOMIC(int, __local)
BUILTIN_ATOMIC(uint, __local)
