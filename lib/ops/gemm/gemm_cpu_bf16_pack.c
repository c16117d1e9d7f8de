/* Packs fp32 operands as bf16 for the processor's bf16 instructions: cl/gemm/gemm_cpu_bf16_pack.cl. */
#include "ops/gemm/gemm.h"

enum { BLOCK = 512 }; /* rows of a that an item transposes, a multiple of PAIRED_DEPTH of gemm_cpu_pack.cl */

enum { PACK_B, PACK_AT, KERNELS };

/* Its address is the key of the context's kernels: looking up a name and its defines takes longer than a launch. */
static char SLOT;

static tfm__kernel *kernel_of(tfm_context *ctx, int which) {
    static const char *const names[] = {"gemm_cpu_bf16_pack_b", "gemm_cpu_bf16_pack_at"};
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    tfm__kernel **kernels = tfm__context_storage_get_or_create(ctx, &SLOT, KERNELS * sizeof(*kernels));
    if (kernels && !kernels[which])
        kernels[which] =
            tfm__kernel_get(ctx, "gemm_cpu_bf16_pack", names[which], "-DTFM_VECTORS=%d -DTFM_ACTIVATION=%d%s",
                            tuning->gemm_nr_vectors, (int)TFM_NO_ACTIVATION, tuning->mma_emulated ? " -DEMULATED" : "");
    return kernels ? kernels[which] : NULL;
}

int64_t tfm__gemm_bf16_row_stride(int64_t k) {
    return (tfm__ceil_div(k, 32) | 1) * 32;
}

tfm_status tfm__gemm_bf16_pack_b(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task) {
    const int64_t block = tfm__context_tuning(ctx)->gemm_pack_rows, n = task->n, k = task->k;
    const int64_t b_row = task->transpose_b ? 1 : n, b_column = task->transpose_b ? k : 1;
    return tfm__launch(ctx, kernel_of(ctx, PACK_B),
                       TFM__GRID_2D((size_t)packed.dims[1], (size_t)tfm__ceil_div(packed.dims[2], block), 1, 1),
                       TFM__ARGS(TFM__T(packed), TFM__T_AS("b", task->b), TFM__I(n), TFM__I(k), TFM__I(block),
                                 TFM__I(b_row), TFM__I(b_column)));
}

uint64_t tfm__gemm_bf16_memory(const tfm__gemm_task *task) {
    return tfm__pool_block_bytes(sizeof(uint16_t) * (uint64_t)(task->m * tfm__gemm_bf16_row_stride(task->k)));
}

tfm_status tfm__gemm_bf16_pack_at(tfm_context *ctx, tfm_tensor *rounded, const tfm__gemm_task *task) {
    const int64_t m = task->m, k = task->k, block = BLOCK;
    if (tfm_tensor_new(ctx, rounded, TFM_BF16, 2, (int64_t[]){m, tfm__gemm_bf16_row_stride(k)}) != TFM_OK)
        return tfm_context_status(ctx);
    return tfm__launch(
        ctx, kernel_of(ctx, PACK_AT),
        TFM__GRID_2D((size_t)tfm__ceil_div(m, tfm__gemm_panel_width(ctx)), (size_t)tfm__ceil_div(k, block), 1, 1),
        TFM__ARGS(TFM__T_AS("rounded", *rounded), TFM__T_AS("a", task->a), TFM__I(m), TFM__I(k), TFM__I(block)));
}
