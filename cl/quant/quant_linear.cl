/* Linear layers with block-quantized weights: y (m, n) = activation(x w^T + bias), x (m, k), for up to three matrices w
 * (n, k) of one format with a launch; bias may be null. Sums are fp32.
 *
 * Build options: those of quant_tile.cl, and TFM_ACTIVATION; ROWS, the rows of x that an item or a work-group takes at
 * a time; INT16, on CPUs: 1 for few rows of x as integers, 2 for many; MANY, 1 for many rows on GPUs. A program has
 * only the kernels of one launch, because some drivers compile all. */
#include "quant_tile.cl"
#define LOAD_DTYPE 1 /* fp16 scales */
#include "half_load.cl"
#ifndef ROWS
#define ROWS 1
#endif
#ifndef INT16
#define INT16 0
#endif
#ifndef MANY
#define MANY 0
#endif

#define OUTPUT(i)                                                                                                      \
    TFM_TENSOR(float, y##i), TFM_INPUT(uint, w##i), TFM_INPUT(float, bias##i), const long n##i, const long end##i

/* One of the matrices, for a work-item or work-group with the number `at` in the launch: numbers below end0 belong to
 * the first. */
typedef struct target {
    __global float *y;
    __global const uint *w;
    __global const float *bias;
    long n, at;
} target;
static inline target target_of(__global float *y, __global const uint *w, __global const float *bias, long n, long at) {
    const target t = {y, w, bias, n, at};
    return t;
}
#define TARGET(i, first) target_of(TFM_AT(y##i), TFM_AT(w##i), bias##i ? TFM_AT(bias##i) : 0, n##i, at - (first))
#define FIND_TARGET(number)                                                                                            \
    const long at = number;                                                                                            \
    const target t = at < end0 ? TARGET(0, 0) : at < end1 ? TARGET(1, end0) : TARGET(2, end1)

static inline void put(const target *t, const long row, const long column, const float sum) {
    if (column < t->n)
        t->y[row * t->n + column] = tfm_activate(sum + (t->bias ? t->bias[column] : 0.0f));
}

#ifdef TFM_CLASS_CPU
#include "quant_linear_cpu.cl"
#if INT16
#include "quant_linear_int16.cl"
#endif
#if INT16 == 2
#include "quant_linear_int16_many.cl"
#endif
#else
#include "quant_linear_gpu.cl"
#endif
