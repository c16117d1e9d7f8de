/* The packed CPU micro-kernel: cl/gemm/gemm_cpu_packed.cl. */
#include "ops/gemm/gemm.h"

static tfm_status multiply_grouped(tfm_context *ctx, const tfm__gemm_task *tasks, int count) {
    const int64_t row_tiles = tfm__ceil_div(tasks[0].m, tfm__context_tuning(ctx)->gemm_mr);
    return tfm__gemm_launch_packed(ctx, tasks, count, TFM__GEMM_CPU_PACKED, row_tiles,
                                   tfm__gemm_panel_group(ctx, tasks, count, row_tiles));
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    return task->transpose_a ? tfm__gemm_cpu_tn(ctx, task) : multiply_grouped(ctx, task, 1);
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    return task->transpose_a ? tfm__gemm_cpu_tn_memory(ctx, task) : tfm__gemm_pack_memory(ctx, task, task->b.dtype);
}

const tfm__gemm_provider tfm__gemm_cpu_packed = {
    .name = "cpu-packed",
    .declines = tfm__gemm_packed_declines,
    .multiply = multiply,
    .multiply_grouped = multiply_grouped,
    .memory = memory,
    .packs_weights = true,
    .sums_columns = true,
};
