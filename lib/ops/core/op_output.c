/* Output checks of every op: creates the output, or checks the given one and that it does not overlap other tensors. */
#include <string.h>
#include "ops/autograd/tape.h"

tfm_status tfm__op_output(tfm_context *ctx, const char *op, tfm_tensor *out, tfm_dtype dtype, int rank,
                          const int64_t *dims) {
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!out)
        return tfm__op_error(ctx, op, "it needs an output, which may be an empty tensor");
    if (!out->buffer)
        return tfm_tensor_new(ctx, out, dtype, rank, dims);
    if (!tfm__tensor_alive(ctx, *out))
        return tfm__op_error(ctx, op, "the output %s is of another context or used after its scope was closed",
                             TFM__SHAPE(*out));
    if (!tfm__tensor_fits(*out))
        return tfm__op_error(ctx, op, "the output %s does not lie within its memory", TFM__SHAPE(*out));
    const char *held = tfm__tape_overwrites(ctx, *out);
    if (held)
        return tfm__op_error(ctx, op, "the output %s overlaps %s: give it separate memory", TFM__SHAPE(*out), held);
    if (out->dtype != dtype || out->rank != rank || memcmp(out->dims, dims, (size_t)rank * sizeof(*dims)) != 0) {
        tfm_tensor want = {.dtype = dtype, .rank = rank};
        memcpy(want.dims, dims, (size_t)rank * sizeof(*dims));
        return tfm__op_error(ctx, op, "the output is %s, the result %s", TFM__SHAPE(*out), TFM__SHAPE(want));
    }
    return TFM_OK;
}

tfm_status tfm__op_output_like(tfm_context *ctx, const char *op, tfm_tensor *out, tfm_tensor like) {
    return tfm__op_output(ctx, op, out, like.dtype, like.rank, like.dims);
}
