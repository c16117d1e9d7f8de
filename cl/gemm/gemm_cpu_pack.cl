/* Layout of packed b on CPU-style devices: panels of TFM_PANEL columns, the last one zero-padded.
 *
 *     F32, F16   [K][TFM_PANEL]
 *     BF16       [K / 2][TFM_PANEL][2]: pairs along K as the bf16 instructions need them, zero-padded to a multiple of
 *                32 rows, so that AMX tiles are whole
 *
 * The including text defines PANEL_BF16, 1 or 0. The host has the same depth in lib/ops/gemm/gemm_cpu_pack.c. */
#define PAIRED_DEPTH 32
#define PANEL_STEPS(k) (((k) + PAIRED_DEPTH - 1) / PAIRED_DEPTH)
#define PANEL_DEPTH(k) (PANEL_BF16 ? PANEL_STEPS(k) * PAIRED_DEPTH : (k))
