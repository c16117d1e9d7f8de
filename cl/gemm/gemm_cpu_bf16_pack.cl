/* Packs fp32 operands for gemm_cpu_bf16.cl and gemm_cpu_amx.cl: rounded to bf16, in pairs of neighbors along K. In
 * mixed-precision training this applies to fp32 weights in forward and backward, and to both operands of a weight's
 * gradient.
 *
 * Build options: those of bf16_pack.cl. */
#define STORE_DTYPE 2
#include "gemm_epilogue.cl"
#include "half_store.cl"
#define PANEL_BF16 1
#include "gemm_cpu_pack.cl"
#include "bf16_pack.cl"
#include "bf16_pack_transpose.cl"

/* packed: the panels of gemm_cpu_pack.cl, from b with b[p][x] at p b_row + x b_column, one of which is 1. Grid: panels
 * x blocks of `block` rows, a multiple of PAIRED_DEPTH. */
TFM_KERNEL void gemm_cpu_bf16_pack_b(TFM_TENSOR(uint, packed), TFM_INPUT(float, b), const long n, const long k,
                                     const long block, const long b_row, const long b_column) {
    const long panel = get_global_id(0), first = get_global_id(1) * block, last = min(first + block, PANEL_DEPTH(k));
    const matrix from = {TFM_AT(b), b_row, b_column, k, n};
    __global uint *to = TFM_AT(packed) + panel * (PANEL_DEPTH(k) / 2) * TFM_PANEL;
    for (long p = first; p < last; p += DEPTH)
        for (int j = 0; j < TFM_VECTORS; j++) {
            tfm_uvec lines[TFM_WIDTH];
            take_across(lines, &from, p, panel * TFM_PANEL + j * TFM_WIDTH);
#pragma unroll
            for (int i = 0; i < TFM_WIDTH; i++)
                tfm_store(lines[i], to + (p / 2 + i) * TFM_PANEL + j * TFM_WIDTH);
        }
}

/* rounded: rows as from gemm_cpu_bf16_round, from a (K, M). Grid: ceil(M / TFM_PANEL) x blocks of `block` rows of a, a
 * multiple of PAIRED_DEPTH. */
TFM_KERNEL void gemm_cpu_bf16_pack_at(TFM_TENSOR(uint, rounded), TFM_INPUT(float, a), const long m, const long k,
                                      const long block) {
    const long row = get_global_id(0) * TFM_PANEL, first = get_global_id(1) * block;
    const long last = min(first + block, PANEL_DEPTH(k));
    const matrix from = {TFM_AT(a), m, 1, k, m};
    for (long p = first; p < last; p += DEPTH)
        for (long x = row; x < min(row + TFM_PANEL, m); x += TFM_WIDTH) {
            tfm_uvec lines[TFM_WIDTH];
            take_across(lines, &from, p, x);
            transpose_block(lines);
#pragma unroll
            for (int i = 0; i < TFM_WIDTH; i++)
                if (x + i < m)
                    tfm_store(lines[i], TFM_AT(rounded) + (x + i) * ROW_PAIRS(k) + p / 2);
        }
}
