/* Linear layers with block-quantized weights: cl/quant/quant_linear.cl. */
#include <string.h>
#include "ops/autograd/tape.h"
#include "ops/quant/quant.h"
#include "ops/quant/quant_launch.h"

#define OP "quant_linear"

static tfm_status check_output(tfm_context *ctx, tfm_tensor x, const tfm__quant_output *out) {
    const tfm__quant_matrix *w = out->weight;
    int64_t dims[TFM_MAX_RANK];
    if (TFM__OP_BEGIN(ctx, OP, "4F", w->data, out->bias) != TFM_OK)
        return tfm_context_status(ctx);
    if (!tfm__quant_fits(w->format, w->n, w->k) || w->data.rank != 1 ||
        w->data.dims[0] != tfm__quant_words(ctx, w->format, w->n, w->k))
        return tfm__op_error(ctx, OP, "the weight is not a block-quantized matrix of this device");
    if (tfm__last_dim(x) != w->k)
        return tfm__op_error(ctx, OP, "x is %s, but the weight has %lld columns", TFM__SHAPE(x), (long long)w->k);
    if (out->bias.buffer && (out->bias.rank != 1 || out->bias.dims[0] != w->n))
        return tfm__op_error(ctx, OP, "bias is %s, but the weight has %lld rows", TFM__SHAPE(out->bias),
                             (long long)w->n);
    memcpy(dims, x.dims, sizeof(dims));
    dims[x.rank - 1] = w->n;
    if (tfm__op_output(ctx, OP, out->y, TFM_F32, x.rank, dims) != TFM_OK)
        return tfm_context_status(ctx);
    return TFM__OP_NO_OVERLAP(ctx, OP, *out->y, x, w->data, out->bias);
}

static tfm_status check(tfm_context *ctx, tfm_tensor x, int count, const tfm__quant_output *out,
                        tfm_activation activation) {
    if (TFM__OP_BEGIN(ctx, OP, "0f", x) != TFM_OK)
        return tfm_context_status(ctx);
    if (count < 1 || count > TFM__QUANT_MAX_OUTPUTS)
        return tfm__op_error(ctx, OP, "%d layers of one input: 1 to %d are supported", count, TFM__QUANT_MAX_OUTPUTS);
    if (activation < TFM_NO_ACTIVATION || activation >= TFM_ACTIVATIONS)
        return tfm__op_error(ctx, OP, "%d is not a tfm_activation", (int)activation);
    if (tfm__row_count(x) > INT32_MAX)
        return tfm__op_error(ctx, OP, "x is %s: at most 2^31 - 1 rows are supported", TFM__SHAPE(x));
    for (int i = 0; i < count; i++)
        if (TFM__TAPE_NO_BACKWARD(ctx, OP, x, out[i].bias) != TFM_OK || check_output(ctx, x, &out[i]) != TFM_OK)
            return tfm_context_status(ctx);
    for (int i = 1; i < count; i++)
        if (TFM__OP_NO_OVERLAP(ctx, OP, *out[i].y, *out[0].y, *out[i - 1].y) != TFM_OK)
            return tfm_context_status(ctx);
    return TFM_OK;
}

static tfm_status launch(tfm_context *ctx, tfm__quant_launch *l) {
    if (l->m == 0)
        return tfm_context_status(ctx);
    return tfm__context_tuning(ctx)->class == TFM__CLASS_CPU ? tfm__quant_linear_cpu(ctx, l)
                                                             : tfm__quant_linear_gpu(ctx, l);
}

tfm_status tfm__quant_linear(tfm_context *ctx, tfm_tensor x, int count, const tfm__quant_output *out,
                             tfm_activation activation, tfm__quant_activation form) {
    if (check(ctx, x, count, out, activation) != TFM_OK)
        return tfm_context_status(ctx);
    bool done[TFM__QUANT_MAX_OUTPUTS] = {false};
    for (int i = 0; i < count; i++) {
        tfm__quant_launch l = {.format = out[i].weight->format,
                               .x = x,
                               .m = tfm__row_count(x),
                               .k = tfm__last_dim(x),
                               .activation = activation,
                               .form = form};
        for (int j = i, at = 0; j < count; j++) {
            if (done[j] || out[j].weight->format != l.format)
                continue;
            done[j] = true;
            l.y[at] = *out[j].y;
            l.w[at] = out[j].weight->data;
            l.bias[at] = out[j].bias;
            l.n[at++] = out[j].weight->n;
        }
        if (l.n[0] > 0 && launch(ctx, &l) != TFM_OK)
            return tfm_context_status(ctx);
    }
    return tfm_context_status(ctx);
}
