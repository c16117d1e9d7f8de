/* Conversion among F32, F16 and BF16: cl/cast.cl. */
#include "ops/ops.h"

/* Whether two tensors, of whatever dtypes, share memory. */
static bool overlap(tfm_tensor a, tfm_tensor b) {
    const size_t size_a = tfm_dtype_size(a.dtype), size_b = tfm_dtype_size(b.dtype);
    return a.buffer == b.buffer && a.offset * size_a < (b.offset + tfm_tensor_count(b)) * size_b &&
           b.offset * size_b < (a.offset + tfm_tensor_count(a)) * size_a;
}

tfm_status tfm_cast(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_dtype dtype) {
    const char *op = "cast";
    if (TFM_OP_BEGIN(ctx, op, "h", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (dtype != TFM_F32 && dtype != TFM_F16 && dtype != TFM_BF16)
        return tfm__op_refuse(ctx, op, "cannot make %s of %s: only F32, F16 and BF16 are cast",
                              tfm_dtype_name(dtype), TFM_SHAPE(x));
    if (tfm__op_output(ctx, op, y, dtype, x.rank, x.dims) != TFM_OK)
        return tfm_context_status(ctx);
    if (overlap(*y, x))
        return tfm__op_refuse(ctx, op,
                              "y shares memory with x: elements would be read after they are overwritten, so "
                              "give y memory of its own");
    if (dtype == x.dtype)
        return tfm__tensor_copy(ctx, *y, x);
    const int64_t n = (int64_t)tfm_tensor_count(x);
    tfm__kernel *kernel = tfm__kernel_get(ctx, op, "cast", "-DFROM=%d -DTO=%d", (int)x.dtype, (int)dtype);
    return tfm__launch(ctx, kernel, tfm__element_grid(ctx, n),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T(x), TFM_I(n)));
}
