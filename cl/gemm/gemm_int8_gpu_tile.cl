/* Register-tiled int8 GEMM for GPU-style devices: c (M, N) = activation(a w^T + bias), quantized as in
 * cl/gemm/gemm_int8.cl; a (M, PADDED_K(K)) and row_scales (M) come from cl/gemm/int8_quantize.cl.
 *
 * A work-group computes TILE x TILE of c in steps of STEP bytes of K, staged as words in local memory, a line of the
 * tile for each word of a step. An item holds ITEM_M x ITEM_N sums in registers: quads of four neighboring rows and
 * columns, LY quads of rows and LX quads of columns apart, as in cl/gemm/gemm_gpu_tiled.cl. The next step is loaded to
 * registers while the current one is multiplied, and local memory is double-buffered, for one barrier a step.
 *
 * Layout: ITEMS = 2 TILE items in one dimension, each of which loads 16 bytes of a and of w a step. Groups in one
 * dimension, too: all column blocks for the first TILE rows, and so on. STORE_VEC4 is 1 if rows of c are aligned to
 * four floats, so that vectors are written. */
#include "int8_common.cl"
#include "dp4a.cl"
#ifndef TILE
#define TILE 64
#define STORE_VEC4 0
#endif
#define STEP 32
#define WORDS (STEP / 4)
#define ITEMS (2 * TILE)
#if TILE >= 64
#define ITEM_M 8
#else
#define ITEM_M 4
#endif
#if TILE >= 128
#define ITEM_N 8
#else
#define ITEM_N 4
#endif
#define LX (TILE / ITEM_N)
#define LY (TILE / ITEM_M)
/* Padded by four words, so that two neighboring items store their parts of a row to different banks. */
#define LINE (TILE + 4)
/* Words between branches: with more, compilers hold more of local memory in registers than there are. */
#define UNROLL (ITEM_M * ITEM_N > 32 ? 2 : 4)

static inline void put(__local int *to, const int4 v) {
    to[0] = v.x;
    to[LINE] = v.y;
    to[2 * LINE] = v.z;
    to[3 * LINE] = v.w;
}

/* Words of a line in quads, `apart` words from each other. Not a function: clang unrolls its loop too late for gfx1100,
 * which then uses indexed registers. */
#define TAKE(to, from, count, apart)                                                                                   \
    _Pragma("unroll") for (int quad = 0; quad < (count) / 4; quad++) {                                                 \
        const int4 words = *(__local const int4 *)((from) + quad * (apart));                                           \
        to[4 * quad] = words.x;                                                                                        \
        to[4 * quad + 1] = words.y;                                                                                    \
        to[4 * quad + 2] = words.z;                                                                                    \
        to[4 * quad + 3] = words.w;                                                                                    \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_int8_gpu_tile(TFM_TENSOR(float, c), TFM_INPUT(char, a), TFM_INPUT(float, row_scales), TFM_INPUT(char, q),
                   TFM_INPUT(float, scales), TFM_INPUT(float, bias), const long m, const long n, const long k,
                   const long has_bias) {
    __local int a_tile[2 * WORDS * LINE] __attribute__((aligned(16)));
    __local int b_tile[2 * WORDS * LINE] __attribute__((aligned(16)));
    const int id = (int)get_local_id(0), x = id % LX, y = id / LX;
    const int height = (int)m, width = (int)n, depth = (int)k, blocks = (width + TILE - 1) / TILE;
    const int column = (int)(get_group_id(0) % blocks) * TILE, row = (int)(get_group_id(0) / blocks) * TILE;

    /* Loads of this item: half a step of a row and of a column. Beyond the last they are copies of the last, and are
     * not stored. */
    const int first = id % 2 * (STEP / 2), at = id % 2 * (WORDS / 2) * LINE + id / 2;
    __global const char *from_a = TFM_AT(a) + (long)min(row + id / 2, height - 1) * PADDED_K(depth) + first;
    __global const char *from_b = TFM_AT(q) + (long)min(column + id / 2, width - 1) * depth + first;

    int sum[ITEM_M][ITEM_N];
#pragma unroll
    for (int i = 0; i < ITEM_M; i++)
#pragma unroll
        for (int j = 0; j < ITEM_N; j++)
            sum[i][j] = 0;

    int4 next_a = *(__global const int4 *)from_a, next_b = load_bytes16(from_b, depth - first);
    for (int s = 0, stage = 0; s < depth; s += STEP, stage = WORDS * LINE - stage) {
        /* Items that still multiply read the other stage. */
        put(a_tile + stage + at, next_a);
        put(b_tile + stage + at, next_b);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (s + STEP < depth) {
            next_a = *(__global const int4 *)(from_a + s + STEP);
            next_b = load_bytes16(from_b + s + STEP, depth - first - s - STEP);
        }
        __local const int *line_a = a_tile + stage + y * 4, *line_b = b_tile + stage + x * 4;
#pragma unroll UNROLL
        for (int w = 0; w < WORDS; w++) {
            int u[ITEM_M], v[ITEM_N];
            TAKE(u, line_a + w * LINE, ITEM_M, 4 * LY)
            TAKE(v, line_b + w * LINE, ITEM_N, 4 * LX)
#pragma unroll
            for (int i = 0; i < ITEM_M; i++)
#pragma unroll
                for (int j = 0; j < ITEM_N; j++)
                    sum[i][j] = dp4a(u[i], v[j], sum[i][j]);
        }
    }

#pragma unroll
    for (int i = 0; i < ITEM_M; i++) {
        const int r = row + y * 4 + i / 4 * 4 * LY + i % 4;
        if (r >= height)
            continue;
        const float step = TFM_AT(row_scales)[r];
#pragma unroll
        for (int j = 0; j < ITEM_N; j += 4) {
            const int p = column + x * 4 + j * LX;
            __global float *to = TFM_AT(c) + (long)r * width + p;
            float out[4];
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int place = min(p + l, width - 1);
                out[l] = tfm_activate(
                    tfm_fma((float)sum[i][j + l], step * TFM_AT(scales)[place], has_bias ? TFM_AT(bias)[place] : 0.0f));
            }
#if STORE_VEC4
            if (p < width)
                *(__global float4 *)to = (float4)(out[0], out[1], out[2], out[3]);
#else
#pragma unroll
            for (int l = 0; l < 4; l++)
                if (p + l < width)
                    to[l] = out[l];
#endif
        }
    }
}
