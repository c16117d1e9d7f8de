/* How b lies where CPU-style devices multiply by it: in panels of TFM_PANEL columns, the last of which is filled up
 * with zeros.
 *
 *     F32, F16   [K][TFM_PANEL]
 *     BF16       [K / 2][TFM_PANEL][2]: two numbers of a column lie side by side, as instructions for bf16 take them,
 *                and zeros follow up to a multiple of 32 rows, so that a tile of such an engine never ends in between
 *
 * The text that includes this one defines PANEL_BF16, 1 or 0. The host has the same depth in
 * lib/ops/gemm/gemm_cpu_pack.c. */
#define PAIRED_DEPTH 32
#define PANEL_STEPS(k) (((k) + PAIRED_DEPTH - 1) / PAIRED_DEPTH)
#define PANEL_DEPTH(k) (PANEL_BF16 ? PANEL_STEPS(k) * PAIRED_DEPTH : (k))
