/* Grouped GEMM: several linear layers of one input in one launch, by the provider chosen for each of them. */
#include <string.h>
#include "ops/gemm/gemm.h"
#include "ops/gemm/fused_linear.h"
#include "ops/quant/quant.h"

/* Its address is the key of the context's observer. */
static char SLOT;

void tfm__linear_set_observer(tfm_context *ctx, const tfm__linear_observer *observer) {
    tfm__linear_observer *stored = tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(*stored));
    if (stored)
        *stored = observer ? *observer : (tfm__linear_observer){0};
}

const tfm__linear_observer *tfm__linear_get_observer(const tfm_context *ctx) {
    const tfm__linear_observer *stored = tfm__context_storage_get(ctx, &SLOT);
    return stored && stored->before ? stored : NULL;
}

/* The layer as a GEMM task; false if it cannot be grouped. */
static bool plan(tfm_context *ctx, tfm__gemm_task *task, tfm_tensor x, const tfm__fused_output *out,
                 tfm_activation activation) {
    const tfm_tensor w = out->weight->value, bias = out->bias;
    *task = (tfm__gemm_task){.batch = 1,
                             .m = tfm__row_count(x),
                             .k = tfm__last_dim(x),
                             .a = x,
                             .b = w,
                             .bias = bias,
                             .transpose_b = true,
                             .shared_b = true,
                             .alpha = 1,
                             .activation = activation,
                             .weight = out->weight};
    if (activation < TFM_NO_ACTIVATION || activation >= TFM_ACTIVATIONS || !w.buffer || w.dtype > TFM_BF16 ||
        w.rank != 2 || w.dims[1] != task->k || w.dims[0] == 0 || task->m == 0 || task->k == 0 || task->m > INT32_MAX ||
        task->k > INT32_MAX || w.dims[0] > INT32_MAX || !out->y || tfm__is_half(*out->y) ||
        TFM__TAPE_REQUIRES_GRAD(ctx, x, w, bias) || (bias.buffer && (bias.rank != 1 || bias.dims[0] != w.dims[0])))
        return false;
    task->n = w.dims[0];
    return true;
}

/* Whether all weights are block-quantized, and all outputs F32. */
static bool all_blocks(int count, const tfm__fused_output *out) {
    for (int i = 0; i < count; i++)
        if (!out[i].weight->block_type || !out[i].y || tfm__is_half(*out[i].y) ||
            out[i].weight->exact_input != out[0].weight->exact_input)
            return false;
    return true;
}

bool tfm__linear_grouped(tfm_context *ctx, tfm_tensor x, int count, const tfm__fused_output *out,
                         tfm_activation activation) {
    tfm__gemm_task tasks[TFM__GEMM_MAX_GROUP];
    const tfm__gemm_provider *provider = NULL;
    if (count < 2 || count > TFM__GEMM_MAX_GROUP || tfm_context_status(ctx) != TFM_OK || !x.buffer ||
        tfm__linear_get_observer(ctx))
        return false;
    if (all_blocks(count, out)) {
        tfm__quant_linear(ctx, x, count, out, activation, tfm__quant_activation_of(out[0].weight));
        return true;
    }
    for (int i = 0; i < count; i++) {
        if (!plan(ctx, &tasks[i], x, &out[i], activation) || tasks[i].b.dtype != tasks[0].b.dtype)
            return false;
        const tfm__gemm_provider *chosen = tfm__gemm_select(ctx, &tasks[i]);
        if (!chosen || !chosen->multiply_grouped || (provider && chosen != provider))
            return false;
        provider = chosen;
    }
    for (int i = 0; i < count; i++) {
        int64_t dims[TFM_MAX_RANK];
        memcpy(dims, x.dims, sizeof(dims));
        dims[x.rank - 1] = tasks[i].n;
        if (TFM__OP_BEGIN(ctx, "linear", "fhF", x, tasks[i].b, tasks[i].bias) != TFM_OK ||
            tfm__op_output(ctx, "linear", out[i].y, TFM_F32, x.rank, dims) != TFM_OK ||
            TFM__OP_NO_OVERLAP(ctx, "linear", *out[i].y, x, tasks[i].b, tasks[i].bias) != TFM_OK)
            return true; /* the context has the error */
        tasks[i].c = *out[i].y;
    }
    provider->multiply_grouped(ctx, tasks, count);
    return true;
}
