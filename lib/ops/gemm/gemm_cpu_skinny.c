/* CPU GEMM of few rows, as in decode: bound by reading b, from the same panels as gemm_cpu_packed. */
#include "ops/gemm/gemm.h"

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const char *why = tfm__gemm_packed_declines(ctx, task);
    if (!why && task->m > tfm__context_tuning(ctx)->gemm_mr_tail)
        why = "it is for few rows: 8, or 4 where the device has fewer registers";
    if (!why && task->transpose_a)
        why = "it reads rows of a, which is transposed";
    return why;
}

/* Only a weight's panels are reused; packing another b would not pay. */
static bool is_unpacked(const tfm__gemm_task *task) {
    return !task->weight && !task->transpose_b;
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    return tfm__gemm_launch_packed(ctx, task, 1,
                                   is_unpacked(task) ? TFM__GEMM_CPU_SKINNY_UNPACKED : TFM__GEMM_CPU_SKINNY, 1, 1);
}

static tfm_status multiply_grouped(tfm_context *ctx, const tfm__gemm_task *tasks, int count) {
    return tfm__gemm_launch_packed(ctx, tasks, count, TFM__GEMM_CPU_SKINNY, 1, 1);
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    return is_unpacked(task) ? 0 : tfm__gemm_pack_memory(ctx, task, task->b.dtype);
}

const tfm__gemm_provider tfm__gemm_cpu_skinny = {
    .name = "cpu-skinny",
    .declines = declines,
    .multiply = multiply,
    .multiply_grouped = multiply_grouped,
    .memory = memory,
    .packs_weights = true,
};
