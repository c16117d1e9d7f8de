/* Linear layers of few rows, as in decode: up to three GEMMs with the same x (M, K) in one launch,
 *
 *     c_i (M, N_i) = activation(x w_i^T + bias_i),   w_i (N_i, K), bias_i (N_i) or none
 *
 * bound by reading the weights. With NORMED 1 or 2, x is a layer norm or RMS norm of a + residual, recomputed by each
 * work-group for its rows, which is cheaper than another launch; groups of the first columns store it, and the sum, if
 * requested. With GATED there is one result of two layers,
 *
 *     c_0 = (x w_0^T + bias_0) activation(x w_1^T + bias_1),
 *
 * and a team computes two columns of it, from two rows of each weight.
 *
 * Layout: TEAMS teams of LANES work-items. A team has ROWS rows and 4 columns: its items read four consecutive floats
 * each of a row, coalesced, and add up partial sums; then these are reduced in local memory in a fixed order. If there
 * are too few columns for all compute units, SLICED_K teams share the same 4 and split K between them, which gives
 * SLICED_K times as many groups, and the teams' sums are added first. K, and the start of every tensor, are multiples
 * of
 * 4. Groups in one dimension: column blocks of all GEMMs for the first ROWS rows, and so on. With NORMED the rows of x
 * are in local memory, WIDTH = K floats each. Weights may be fp16 or bf16 (half_load.cl), and so may results: bit i of
 * HALF_C selects half_store.cl for c_i. */
#include "half_store.cl"
#include "half_load.cl"
#ifndef ROWS
#define ROWS 8
#define NORMED 0
#define WIDTH 4
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef HALF_C
#define HALF_C 0
#endif
#ifndef SLICED_K
#define SLICED_K 1 /* 2 or 4: of TEAMS */
#endif
#define LANES 32
#define TEAMS 4
#define ITEMS (LANES * TEAMS)
#define EACH (GATED ? 2 : 4) /* columns of a team */
#define COLUMNS (EACH * TEAMS / SLICED_K)
#define SUMS (ROWS * 4)

#if HALF_C & 1
typedef store_t result0;
#else
typedef float result0;
#endif
#if HALF_C & 2
typedef store_t result1;
#else
typedef float result1;
#endif
#if HALF_C & 4
typedef store_t result2;
#else
typedef float result2;
#endif

/* Local memory: the items' sums, a line of ITEMS for each of SUMS, padded by one float against bank conflicts; before
 * that the rows of x, and the sums of their norms. */
#define SUMS_LINE (ITEMS + 1)
#define LAST (SLICED_K > 1 ? SLICED_K : LANES) /* sums left to add for a row and column at the end */
#define NORM_FLOATS (NORMED ? ROWS * WIDTH + ITEMS : 0)
#define FLOATS (SUMS * SUMS_LINE > NORM_FLOATS ? SUMS * SUMS_LINE : NORM_FLOATS)

/* The sum of v over the items of each team, in a fixed order. Force-inlined, as tfm_group_reduce. */
static inline __attribute__((always_inline)) float team_sum(const float v, __local float *parts, const int id) {
    barrier(CLK_LOCAL_MEM_FENCE); /* the previous sum has been read */
    parts[id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
#pragma unroll 4
    for (int l = 0; l < LANES; l++)
        sum += parts[id / LANES * LANES + l];
    return sum;
}

/* The sum of `count` elements. */
static inline float line_sum(__local const float *from, const int count) {
    float sum = 0.0f;
    for (int l = 0; l < count; l++)
        sum += from[l];
    return sum;
}

/* ---- Rows of x ---- */

#if NORMED
/* Inputs and outputs of a norm; residual, gamma, beta, sum and normed may be NULL. */
#define OPTIONAL(name) (name ? TFM_AT(name) : 0)
typedef struct norm_tensors {
    __global const float *a, *residual, *gamma, *beta;
    __global float *sum, *normed;
} norm_tensors;

/* One row of x by one team: a + residual to `line` in local memory, normalized there. All items of the group must call
 * this. A team without a row (`idle`) reads another's row and writes nothing; `first` is the row's offset in global
 * memory, and `writes` whether this group stores the row there. */
static inline __attribute__((always_inline)) void normalize_row(__local float *line, __local float *parts,
                                                                const norm_tensors t, const long first, const int id,
                                                                const int idle, const int writes, const float epsilon) {
    const int lane = id % LANES;
    float mean = 0.0f, rest = 0.0f, square = 0.0f;
    for (int s = lane * 4; s < WIDTH; s += LANES * 4) {
        float4 v = *(__global const float4 *)(t.a + first + s);
        if (t.residual)
            v += *(__global const float4 *)(t.residual + first + s);
        if (!idle)
            *(__local float4 *)(line + s) = v;
        if (t.sum && writes)
            *(__global float4 *)(t.sum + first + s) = v;
        mean += (v.x + v.y) + (v.z + v.w);
    }
#if NORMED == 1
    mean = team_sum(mean, parts, id) / WIDTH;
#else
    mean = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    /* The rounding error of the mean is the mean of the differences: cl/norm/layernorm.cl. */
    for (int s = lane * 4; s < WIDTH; s += LANES * 4) {
        const float4 v = *(__local const float4 *)(line + s) - mean;
        rest += (v.x + v.y) + (v.z + v.w);
        square += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
#if NORMED == 1
    rest = team_sum(rest, parts, id) / WIDTH;
#else
    rest = 0.0f;
#endif
    square = team_sum(square, parts, id) / WIDTH;
    const float inverse = 1.0f / sqrt(fmax(square - rest * rest, 0.0f) + epsilon);
    barrier(CLK_LOCAL_MEM_FENCE); /* idle teams have read another's row */
    for (int s = lane * 4; s < WIDTH && !idle; s += LANES * 4) {
        const float4 scale = t.gamma ? *(__global const float4 *)(t.gamma + s) : (float4)(1.0f);
        const float4 shift = t.beta ? *(__global const float4 *)(t.beta + s) : (float4)(0.0f);
        const float4 y = ((*(__local const float4 *)(line + s) - mean) - rest) * inverse * scale + shift;
        *(__local float4 *)(line + s) = y;
        if (t.normed && writes)
            *(__global float4 *)(t.normed + first + s) = y;
    }
}
#endif

/* ---- Dot products ---- */

/* Rows of x: WIDTH floats each in local memory, or `rows` rows of `depth` floats in global memory. */
#if NORMED
typedef __local const float *x_pointer;
#define X(x, r, s) (*(__local const float4 *)((x) + (r)*WIDTH + (s)))
#else
typedef __global const float *x_pointer;
#define X(x, r, s) (*(__global const float4 *)((x) + (long)min(r, rows - 1) * depth + (s)))
#endif
#define ADD(e, v, b) acc[e] = tfm_fma(v.x, b.x, tfm_fma(v.y, b.y, tfm_fma(v.z, b.z, tfm_fma(v.w, b.w, acc[e]))));

/* acc (ROWS, 4) = the item's share of the dot products of rows of x with four weight rows `line`. */
static inline void multiply_accumulate(float *acc, x_pointer x, __global const load_t *const *line, const int first,
                                       const int depth, const int rows) {
#pragma unroll
    for (int e = 0; e < SUMS; e++)
        acc[e] = 0.0f;
    for (int s = first; s < depth; s += SLICED_K * LANES * 4) {
        const float4 b0 = load_as_float4(line[0] + s), b1 = load_as_float4(line[1] + s);
        const float4 b2 = load_as_float4(line[2] + s), b3 = load_as_float4(line[3] + s);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 v = X(x, r, s);
            ADD(r * 4, v, b0)
            ADD(r * 4 + 1, v, b1)
            ADD(r * 4 + 2, v, b2)
            ADD(r * 4 + 3, v, b3)
        }
    }
}

/* Stores the items' sums in local memory, reduced to LAST for each row and column of a team. */
static inline __attribute__((always_inline)) void share_sums(__local float *sums, const float *acc, const int id) {
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int e = 0; e < SUMS; e++)
        sums[e * SUMS_LINE + id] = acc[e];
    barrier(CLK_LOCAL_MEM_FENCE);
#if SLICED_K > 1
    /* The sum of each team, one item for each; the results are contiguous. */
    const int mine = id % SUMS * SUMS_LINE, its = id / SUMS;
    const float team_total = id < SUMS * TEAMS ? line_sum(sums + mine + its * LANES, LANES) : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < SUMS * TEAMS)
        sums[mine + its] = team_total;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
}

/* ---- Epilogue ---- */

static inline void store_result(__global void *c, const long at, const int which, const float result) {
#if HALF_C
    if (HALF_C >> which & 1) {
        store_from_float(result, (__global store_t *)c + at);
        return;
    }
#endif
    ((__global float *)c)[at] = result;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_gpu_skinny(TFM_TENSOR(result0, c0), TFM_TENSOR(result1, c1), TFM_TENSOR(result2, c2), TFM_INPUT(load_t, w0),
                TFM_INPUT(load_t, w1), TFM_INPUT(load_t, w2), TFM_INPUT(float, bias0), TFM_INPUT(float, bias1),
                TFM_INPUT(float, bias2), const long n0, const long n1, const long n2, TFM_INPUT(float, a),
                TFM_INPUT(float, residual), TFM_INPUT(float, gamma), TFM_INPUT(float, beta), TFM_TENSOR(float, sum),
                TFM_TENSOR(float, normed), const long m, const long k, const float epsilon) {
    __local float local_floats[FLOATS] __attribute__((aligned(16)));
    const int id = (int)get_local_id(0), lane = id % LANES, team = id / LANES;
    const int blocks0 = ((int)n0 + COLUMNS - 1) / COLUMNS, blocks1 = ((int)n1 + COLUMNS - 1) / COLUMNS;
    const int blocks = blocks0 + blocks1 + ((int)n2 + COLUMNS - 1) / COLUMNS;
    const int all = (int)(get_group_id(0) % blocks), row = (int)(get_group_id(0) / blocks) * ROWS;
    const int which = (all >= blocks0) + (all >= blocks0 + blocks1);
    const int block = all - (which > 0 ? blocks0 : 0) - (which > 1 ? blocks1 : 0);
    const int n = (int)(which == 0 ? n0 : which == 1 ? n1 : n2), depth = (int)k, rows = min(ROWS, (int)m - row);
    __global const load_t *w = which == 0 ? TFM_AT(w0) : which == 1 ? TFM_AT(w1) : TFM_AT(w2);

#if NORMED
    __local float *x = local_floats, *parts = local_floats + ROWS * WIDTH;
    const norm_tensors tensors = {TFM_AT(a),      OPTIONAL(residual), OPTIONAL(gamma),
                                  OPTIONAL(beta), OPTIONAL(sum),      OPTIONAL(normed)};
    for (int r = team; r - team < ROWS; r += TEAMS) { /* a row for each team */
        const int own = min(r, ROWS - 1);
        normalize_row(x + own * WIDTH, parts, tensors, (long)(row + min(own, rows - 1)) * WIDTH, id, r >= ROWS,
                      r < rows && all == 0, epsilon);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    __global const float *x = TFM_AT(a) + (long)row * depth;
#endif

    /* Rows and columns beyond the last are copies of the last, and are not stored. */
    const int column = block * COLUMNS + team / SLICED_K * EACH;
    __global const load_t *line[4];
    float acc[SUMS];
#pragma unroll
    for (int j = 0; j < 4; j++)
        line[j] = (j < EACH ? w : TFM_AT(w1)) + (long)min(column + j % EACH, n - 1) * depth;
    multiply_accumulate(acc, x, line, (team % SLICED_K * LANES + lane) * 4, depth, rows);
    share_sums(local_floats, acc, id);

    __global void *c = which == 0   ? (__global void *)TFM_AT(c0)
                       : which == 1 ? (__global void *)TFM_AT(c1)
                                    : (__global void *)TFM_AT(c2);
    __global const float *bias = which == 0 ? bias0 : which == 1 ? bias1 : bias2;
    const long bias_offset = which == 0 ? bias0_offset : which == 1 ? bias1_offset : bias2_offset;
    for (int e = id; e < ROWS * COLUMNS; e += ITEMS) {
        const int r = e / COLUMNS, j = e % COLUMNS, q = block * COLUMNS + j;
        __local const float *from = local_floats + (r * 4 + j % EACH) * SUMS_LINE + j / EACH * LAST;
        const float total = line_sum(from, LAST) + (bias ? TFM_AT(bias)[min(q, n - 1)] : 0.0f);
#if GATED
        const float gate = line_sum(from + EACH * SUMS_LINE, LAST) + (bias1 ? TFM_AT(bias1)[min(q, n - 1)] : 0.0f);
        const float result = tfm_activate(gate) * total;
#else
        const float result = tfm_activate(total);
#endif
        if (r < rows && q < n)
            store_result(c, (long)(row + r) * n + q, which, result);
    }
}
