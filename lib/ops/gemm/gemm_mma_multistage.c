/* Multistage (software-pipelined) GEMM of 16-bit operands: host side of cl/gemm/gemm_mma_multistage.cl. */
#include "ops/gemm/gemm_mma_multistage.h"

enum {
    CHUNK = 8,  /* numbers that are copied at once, and that an item rounds */
    GROUP = 128 /* items that round; devices with these matrix cores support such groups */
};

static int64_t whole(int64_t line) {
    return tfm__ceil_div(line, CHUNK) * CHUNK;
}

size_t tfm__gemm_multistage_stage_bytes(tfm__gemm_macro_tile macro_tile) {
    return sizeof(uint16_t) * TFM__MULTISTAGE_K * (size_t)(macro_tile.m + macro_tile.n);
}

bool tfm__gemm_multistage_aligned(const tfm__gemm_task *task) {
    const int64_t line = task->transpose_b ? task->k : task->n;
    return task->b.dtype == TFM_F32 || (line % CHUNK == 0 && task->b.offset % CHUNK == 0);
}

bool tfm__gemm_multistage_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk) {
    tfm__gemm_task padded = *task;
    padded.m = whole(task->m);
    padded.n = whole(task->n);
    padded.k = whole(task->k);
    return tfm__gemm_splitk_index64(ctx, &padded, splitk);
}

/* An fp32 operand as contiguous rows. */
typedef struct lines {
    int64_t count, length;
} lines;

static lines lines_of_a(const tfm__gemm_task *task) {
    return task->transpose_a ? (lines){task->batch * task->k, task->m} : (lines){task->batch * task->m, task->k};
}

static lines lines_of_b(const tfm__gemm_task *task) {
    const int64_t batch = task->shared_b ? 1 : task->batch;
    return task->transpose_b ? (lines){batch * task->n, task->k} : (lines){batch * task->k, task->n};
}

static uint64_t bytes_of(lines l) {
    return tfm__pool_block_bytes(sizeof(uint16_t) * (uint64_t)(l.count * whole(l.length)));
}

uint64_t tfm__gemm_multistage_memory(const tfm__gemm_task *task) {
    return bytes_of(lines_of_a(task)) + (task->b.dtype == TFM_F32 ? bytes_of(lines_of_b(task)) : 0);
}

tfm__kernel *tfm__gemm_multistage_kernel(tfm_context *ctx, const tfm__gemm_task *task,
                                         const tfm__gemm_multistage *multistage, const char *name) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tfm__kernel_get(ctx, "gemm_mma_multistage", name,
                           "-DMMA_KIND=%d -DMMA_DTYPE=%d -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DWAVE_M=%d -DWAVE_N=%d "
                           "-DSTAGES=%d -DINDEX=%s -DTRANSPOSE_A=%d -DTRANSPOSE_B=%d -DTFM_ACTIVATION=%d%s",
                           (int)tuning->mma, (int)multistage->inputs, multistage->splitk.macro_tile.m,
                           multistage->splitk.macro_tile.n, TFM__MULTISTAGE_K, multistage->wave_m, multistage->wave_n,
                           multistage->stages, multistage->index64 ? "long" : "int", task->transpose_a,
                           task->transpose_b,
                           multistage->splitk.split_k == 1 ? (int)task->activation : TFM_NO_ACTIVATION,
                           tuning->mma_emulated ? "" : " -DTFM_HAS_MMA");
}

/* Replaces `operand` by its 16-bit copy in the open scope. */
static void convert_operand(tfm_context *ctx, tfm_tensor *operand, const tfm__gemm_task *task,
                            const tfm__gemm_multistage *multistage, lines l) {
    const tfm_tensor from = *operand;
    tfm_tensor rounded = {0};
    tfm__kernel *kernel = tfm__gemm_multistage_kernel(ctx, task, multistage, "gemm_mma_round");
    tfm_tensor_new(ctx, &rounded, multistage->inputs, 2, (int64_t[]){l.count, whole(l.length)});
    if (l.length % CHUNK == 0) /* as one row if contiguous */
        l = (lines){1, l.count * l.length};
    const size_t groups = (size_t)tfm__ceil_div(l.count * tfm__ceil_div(l.length, CHUNK), GROUP);
    tfm__launch(ctx, kernel, TFM__GRID_1D(groups * GROUP, GROUP),
                TFM__ARGS(TFM__T(rounded), TFM__T(from), TFM__I_AS("lines", l.count), TFM__I_AS("line", l.length)));
    *operand = rounded;
}

tfm_status tfm__gemm_multistage_run(tfm_context *ctx, const tfm__gemm_task *task,
                                    const tfm__gemm_multistage *multistage, tfm__kernel *kernel, size_t items) {
    tfm__gemm_task own = *task;
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    convert_operand(ctx, &own.a, task, multistage, lines_of_a(task));
    if (task->b.dtype == TFM_F32)
        convert_operand(ctx, &own.b, task, multistage, lines_of_b(task));
    tfm__gemm_splitk_run(ctx, &own, &multistage->splitk, kernel, items);
    return tfm_scope_close(ctx, 0, NULL);
}
