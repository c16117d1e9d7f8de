/* Conversion among F32, F16 and BF16: cl/cast.cl. */
#include "ops/ops.h"

tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype) {
    const char *op = "cast";
    if (TFM_OP_BEGIN(ctx, op, "h", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__op_refuse(ctx, op, "cannot make %s of %s: only F32, F16 and BF16 are cast",
                              tfm_dtype_name(dtype), TFM_SHAPE(x));
    if (tfm__op_output(ctx, op, y, dtype, x.rank, x.dims) != TFM_OK || TFM_OP_APART(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype == x.dtype)
        return tfm__tensor_copy(ctx, *y, x);
    const int64_t n = (int64_t)tfm_tensor_count(x);
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "cast", "-DFROM=%d -DTO=%d", (int)x.dtype, (int)dtype);
    return tfm__launch(ctx, kernel, tfm__element_grid(ctx, n),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_I(n)));
}
