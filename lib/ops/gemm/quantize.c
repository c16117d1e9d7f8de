/* Quantization of weights to int8. */
#include "ops/gemm/quantize.h"
#include <math.h>
#include <string.h>

/* The bits of |x|: as integers they order like the numbers, with non-finite ones last. */
static int32_t magnitude(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffff;
}

bool tfm__quantize_row(int8_t *out, float *scale, const float *in, size_t count) {
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = magnitude(in[i]) > largest ? magnitude(in[i]) : largest;
    float most;
    memcpy(&most, &largest, sizeof(most));
    const bool counts = largest < 0x7f800000 && most > 1e-30f;
    const float inverse = counts ? 127 / most : 0, rounder = 12582912.0f; /* + 1.5 2^23 rounds to an integer */
    *scale = counts ? most / 127 : 0;
    for (size_t i = 0; i < count; i++) {
        float x = (counts ? in[i] : 0) * inverse + rounder;
        int32_t bits;
        memcpy(&bits, &x, sizeof(bits));
        out[i] = (int8_t)(bits - 0x4B400000);
    }
    return largest < 0x7f800000;
}

/* Host copies of a parameter during quantization. */
typedef struct copies {
    float *floats, *scales;
    int8_t *bytes;
} copies;

static tfm_status quantize(tfm_context *ctx, tfm_param *param, copies *host) {
    const tfm_tensor x = param->value;
    const size_t rows = (size_t)x.dims[0], columns = (size_t)x.dims[1];
    tfm_param made = {.version = param->version};
    if (!host->floats || !host->scales || !host->bytes)
        return tfm__context_fail(ctx, TFM_ERROR_MEMORY, "param_quantize: out of host memory");
    if (tfm_tensor_read(ctx, host->floats, x) != TFM_OK)
        return tfm_context_status(ctx);
    for (size_t i = 0; i < rows; i++)
        if (!tfm__quantize_row(host->bytes + i * columns, host->scales + i, host->floats + i * columns, columns))
            return tfm__op_error(ctx, "param_quantize", "row %zu of %s has a number that is not finite", i,
                                 TFM__SHAPE(x));
    tfm__tensor_new_persistent(ctx, &made.value, TFM_I8, 2, x.dims);
    tfm__tensor_new_persistent(ctx, &made.scales, TFM_F32, 1, x.dims);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm_tensor_write(ctx, made.value, host->bytes);
    if (tfm_context_status(ctx) == TFM_OK && tfm_tensor_write(ctx, made.scales, host->scales) == TFM_OK) {
        tfm_param_free(ctx, param);
        *param = made;
    } else {
        tfm_param_free(ctx, &made);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm_param_quantize(tfm_context *ctx, tfm_param *param) {
    const char *op = "param_quantize";
    if (TFM__NEEDS_ON(ctx, op, param) != TFM_OK || TFM__OP_BEGIN(ctx, op, "f", param->value) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_tensor x = param->value;
    if (x.rank != 2 || x.dims[1] > TFM__INT8_MAX_K)
        return tfm__op_error(ctx, op, "the weight is %s: (N, K) with K up to %d is needed", TFM__SHAPE(x),
                             TFM__INT8_MAX_K);
    copies host = {tfm__alloc(tfm_tensor_count(x), sizeof(float)), tfm__alloc((size_t)x.dims[0], sizeof(float)),
                   tfm__alloc(tfm_tensor_count(x), 1)};
    const tfm_status status = quantize(ctx, param, &host);
    free(host.floats);
    free(host.scales);
    free(host.bytes);
    return status;
}

/* Rows of a block-quantized table as F32. */
static tfm_status block_rows(tfm_context *ctx, tfm_param *out, const tfm_param *table, tfm_tensor ids) {
    tfm__tensor_new_persistent(ctx, &out->value, TFM_F32, 2, (int64_t[]){ids.dims[0], table->block_dims[1]});
    return tfm__embedding_param(ctx, &out->value, table, ids, 1, (tfm_tensor){0}, 0, NULL);
}

tfm_status tfm__param_rows(tfm_context *ctx, tfm_param *out, const tfm_param *table, tfm_tensor ids) {
    const tfm_tensor value = table->value;
    const int64_t count = ids.dims[0], width = value.dims[1];
    tfm_tensor from = {0}, to = {0};
    out->exact_input = table->exact_input;
    if (table->block_type)
        return block_rows(ctx, out, table, ids);
    tfm__tensor_new_persistent(ctx, &out->value, value.dtype, 2, (int64_t[]){count, width});
    if (value.dtype == TFM_F32)
        return tfm_gather(ctx, &out->value, value, ids);
    const bool bytes = value.dtype == TFM_I8;
    if (TFM__OP_BEGIN(ctx, "param_rows", bytes ? "bi" : "hi", value, ids) != TFM_OK)
        return tfm_context_status(ctx);
    const char *type = bytes ? "char" : "ushort";
    tfm__launch(ctx, tfm__kernel_get(ctx, "embedding", "gather_rows", "-DELEMENT=%s", type), tfm__row_grid(ctx, count),
                TFM__ARGS(TFM__T_AS("out", out->value), TFM__T_AS("table", value), TFM__T(ids), TFM__I(count),
                          TFM__I(width), TFM__I_AS("vocabulary", value.dims[0])));
    if (!bytes)
        return tfm_context_status(ctx);
    tfm__tensor_new_persistent(ctx, &out->scales, TFM_F32, 1, &count);
    tfm_tensor_reshape(ctx, &from, table->scales, 2, (int64_t[]){value.dims[0], 1});
    tfm_tensor_reshape(ctx, &to, out->scales, 2, (int64_t[]){count, 1});
    return tfm_gather(ctx, &to, from, ids);
}
