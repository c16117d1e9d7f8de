/* Matrix cores (MMA): cl/gemm/gemm_mma.cl. Accepts GEMMs whose inputs may be rounded to 16 bits: weights stored as fp16
 * or bf16, and any others if the context's tuning allows it.
 *
 * The instructions are known from vendor documents and compilers, and are untested here on most devices. So each kernel
 * form is validated before its first use, once per device, driver and kernel text: a small GEMM is compared with the
 * reference kernel on the same rounded inputs. A form that fails is not used, and the next provider computes. */
#include "ops/gemm/gemm_mma.h"

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const char *why = tfm__mma_declines(ctx, task);
    if (why)
        return why;
    const tfm__mma_plan p = tfm__mma_plan_of(ctx, task);
    if (!p.tile)
        return "the device's work-groups or local memory are too small for its tiles";
    why = tfm__gemm_splitk_declines(task, &p.splitk);
    if (why)
        return why;
    const unsigned char *v = tfm__mma_verdict_on(ctx, task, &p);
    return v ? tfm__mma_describe((tfm__verdict)*v) : NULL;
}

/* The kernel of this GEMM, which may differ from the validated one in activation and index width. NULL if the driver
 * does not build it for this group size, which is remembered, or after a failure. */
static tfm__kernel *built(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    const int depth = tfm__scope_depth(ctx);
    tfm__kernel *kernel = tfm__mma_kernel(ctx, task, p);
    unsigned char *known = tfm__mma_verdict_on(ctx, task, p);
    if (kernel && tfm__kernel_max_workgroup(ctx, kernel) >= tfm__mma_items(ctx, p->tile))
        return kernel;
    if (tfm_context_status(ctx) == TFM_ERROR_BUILD)
        tfm__context_recover(ctx, depth);
    if (tfm_context_status(ctx) != TFM_OK || !known)
        return NULL;
    *known = TFM__NOT_BUILT;
    tfm__log(TFM_LOG_WARNING, "%s: %s: continuing without it", tfm_context_device(ctx)->name,
             tfm__mma_describe(TFM__NOT_BUILT));
    return NULL;
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__mma_plan p = tfm__mma_plan_of(ctx, task);
    tfm__kernel *kernel = tfm__mma_validate(ctx, task, &p) == TFM__VALID ? built(ctx, task, &p) : NULL;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    return kernel ? tfm__mma_launch(ctx, task, &p, kernel) : TFM__GEMM_DECLINED;
}

/* Validation takes a few matrices of a tile's size. */
static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__mma_plan p = tfm__mma_plan_of(ctx, task);
    const unsigned char *known = tfm__mma_verdict_on(ctx, task, &p);
    const uint64_t trial = known && *known == TFM__UNTESTED ? 10 * tfm__pool_block_bytes(sizeof(float) * 512 * 256) : 0;
    const uint64_t own = tfm__gemm_splitk_memory(task, &p.splitk) +
                         (p.tile->macro_tile.converts ? tfm__gemm_multistage_memory(task) : 0);
    return own > trial ? own : trial;
}

const tfm__gemm_provider tfm__gemm_gpu_mma = {.name = "gpu-mma",
                                              .declines = declines,
                                              .multiply = multiply,
                                              .memory = memory,
                                              .candidate = tfm__mma_candidate,
                                              .parse_setting = tfm__mma_parse_setting,
                                              .uses_setting = tfm__mma_uses_setting};
