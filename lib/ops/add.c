/* Addition of two tensors of equal dims: cl/add.cl. */
#include "ops/ops.h"

tfm_status tfm_add(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b) {
    if (TFM_OP_BEGIN(ctx, "add", "ff", a, b) != TFM_OK)
        return tfm_context_status(ctx);
    if (!tfm__same_dims(a, b))
        return tfm__op_refuse(ctx, "add", "a is %s and b is %s: the dims must be equal", TFM_SHAPE(a),
                              TFM_SHAPE(b));
    if (tfm__op_output_like(ctx, "add", y, a) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(a);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "add", "add", "");
    return tfm__launch(ctx, kernel, tfm__element_grid(ctx, n),
                       TFM_ARGS(TFM_T_AS("y", *y), TFM_T(a), TFM_T(b), TFM_I(n)));
}
