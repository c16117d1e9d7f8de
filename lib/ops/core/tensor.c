/* Tensors as values: views and parameters. Sizes and memory are in lib/dev/memory/tensor_memory.c. */
#include <inttypes.h>
#include <string.h>
#include "ops/ops.h"

/* Whether the dims multiply to `count`, without overflow. */
static bool is_same_count(tfm_tensor view, size_t count) {
    if (count == 0) { /* the other dims must not overflow either: tfm__tensor_fits checks that */
        bool none = false;
        for (int i = 0; i < view.rank; i++)
            none |= view.dims[i] == 0;
        return none && tfm__tensor_fits(view);
    }
    for (int i = 0; i < view.rank; i++) {
        if (view.dims[i] < 1 || count % (uint64_t)view.dims[i] != 0)
            return false;
        count /= (size_t)view.dims[i];
    }
    return count == 1;
}

tfm_status tfm_tensor_reshape(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int rank, const int64_t *dims) {
    tfm_tensor view = x;
    view.rank = rank;
    if (dims && rank >= 1 && rank <= TFM_MAX_RANK) /* they may alias those of *out */
        memcpy(view.dims, dims, (size_t)rank * sizeof(*dims));
    if (tfm__tensor_begin(ctx, "tensor_reshape", out) != TFM_OK || TFM__NEEDS_ON(ctx, "tensor_reshape", dims) != TFM_OK)
        return tfm_context_status(ctx);
    if (TFM__OP_BEGIN(ctx, "reshape", "0*", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (rank < 1 || rank > TFM_MAX_RANK || !is_same_count(view, tfm_tensor_count(x)))
        return tfm__op_error(ctx, "reshape", "%s cannot be seen as %s", TFM__SHAPE(x), TFM__SHAPE(view));
    *out = view;
    return TFM_OK;
}

tfm_status tfm_tensor_rows(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int64_t first, int64_t count) {
    if (tfm__tensor_begin(ctx, "tensor_rows", out) != TFM_OK)
        return tfm_context_status(ctx);
    if (TFM__OP_BEGIN(ctx, "rows", "*", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (first < 0 || count < 1 || first > x.dims[0] - count)
        return tfm__op_error(ctx, "rows", "%s has no %" PRId64 " rows from %" PRId64, TFM__SHAPE(x), count, first);
    *out = x;
    out->offset += (size_t)first * (tfm_tensor_count(x) / (size_t)x.dims[0]);
    out->dims[0] = count;
    return TFM_OK;
}

void tfm_param_free(tfm_context *ctx, tfm_param *param) {
    if (!ctx || !param)
        return;
    tfm_tensor_free(ctx, &param->value);
    tfm_tensor_free(ctx, &param->packed);
    tfm_tensor_free(ctx, &param->scales);
    *param = (tfm_param){0};
}
