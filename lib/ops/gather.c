/* Rows by index: cl/gather.cl. */
#include <string.h>
#include "ops/ops.h"

/* Whether two tensors of four-byte elements share memory. */
static bool overlap(tfm_tensor a, tfm_tensor b) {
    return a.buffer == b.buffer && a.offset < b.offset + tfm_tensor_count(b) &&
           b.offset < a.offset + tfm_tensor_count(a);
}

tfm_status tfm_gather(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor indices) {
    const char *op = "gather";
    if (TFM_OP_BEGIN(ctx, op, "4i", x, indices) != TFM_OK)
        return tfm_context_status(ctx);
    if (indices.rank != 1)
        return tfm__op_refuse(ctx, op, "indices is %s: it must have one dimension", TFM_SHAPE(indices));
    int64_t dims[TFM_MAX_RANK];
    memcpy(dims, x.dims, sizeof(dims));
    dims[0] = indices.dims[0];
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, dims) != TFM_OK)
        return tfm_context_status(ctx);
    if (overlap(*y, x) || overlap(*y, indices))
        return tfm__op_refuse(ctx, op,
                              "y shares memory with an input: rows would be read after they are overwritten, "
                              "so give y memory of its own");
    const int64_t n = (int64_t)tfm_tensor_count(*y), count = x.dims[0], width = n / dims[0];
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "gather", "");
    return tfm__launch(
        ctx, kernel, tfm__element_grid(ctx, n),
        TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_T(indices), TFM_I(n), TFM_I(width), TFM_I(count)));
}
