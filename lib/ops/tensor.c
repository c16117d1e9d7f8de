/* Tensors as values: sizes, names, views, parameters. Their memory is lib/dev/pool.c. */
#include <inttypes.h>
#include <string.h>
#include "ops/ops.h"

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {
    [TFM_F32] = {"F32", 4}, [TFM_F16] = {"F16", 2}, [TFM_BF16] = {"BF16", 2},
    [TFM_I32] = {"I32", 4}, [TFM_U8] = {"U8", 1},
};

size_t tfm_dtype_size(tfm_dtype dtype) {
    return (size_t)dtype < TFM_COUNT(DTYPES) ? DTYPES[dtype].bytes : 1;
}

const char *tfm_dtype_name(tfm_dtype dtype) {
    return (size_t)dtype < TFM_COUNT(DTYPES) ? DTYPES[dtype].name : "unknown dtype";
}

size_t tfm_tensor_count(tfm_tensor x) {
    size_t count = x.rank > 0 ? 1 : 0;
    for (int i = 0; i < x.rank; i++)
        count *= (size_t)x.dims[i];
    return count;
}

/* Whether the dims are positive and multiply to `count`, which is sane, without a product that wraps. */
static bool same_count(tfm_tensor view, size_t count) {
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
    if (rank >= 1 && rank <= TFM_MAX_RANK)
        memcpy(view.dims, dims, (size_t)rank * sizeof(*dims));
    *out = (tfm_tensor){0};
    if (TFM_OP_BEGIN(ctx, "reshape", "*", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (rank < 1 || rank > TFM_MAX_RANK || !same_count(view, tfm_tensor_count(x)))
        return tfm__op_refuse(ctx, "reshape", "%s cannot be seen as %s", TFM_SHAPE(x), TFM_SHAPE(view));
    *out = view;
    return TFM_OK;
}

tfm_status tfm_tensor_rows(tfm_context *ctx, tfm_tensor *out, tfm_tensor x, int64_t first, int64_t count) {
    *out = (tfm_tensor){0};
    if (TFM_OP_BEGIN(ctx, "rows", "*", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (first < 0 || count < 1 || first > x.dims[0] - count)
        return tfm__op_refuse(ctx, "rows", "%s has no %" PRId64 " rows from %" PRId64, TFM_SHAPE(x), count,
                              first);
    *out = x;
    out->offset += (size_t)first * (tfm_tensor_count(x) / (size_t)x.dims[0]);
    out->dims[0] = count;
    return TFM_OK;
}

void tfm_param_free(tfm_context *ctx, tfm_param *param) {
    tfm_tensor_free(ctx, &param->value);
    tfm_tensor_free(ctx, &param->packed);
    *param = (tfm_param){0};
}
