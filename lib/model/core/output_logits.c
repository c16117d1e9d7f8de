/* Logits from the output of a stack. */
#include "model/core/forward_pass.h"
#include "ops/ops.h"

tfm_status tfm__model_scale_output(tfm_model *model, tfm_tensor *out, tfm_tensor x) {
    const float scale = model->arch.output_scale;
    tfm_tensor factor = {0};
    if (scale == 0) {
        *out = x;
        return tfm_context_status(model->ctx);
    }
    tfm_tensor_new(model->ctx, &factor, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(model->ctx, factor, &scale);
    tfm_mul(model->ctx, out, x, factor);
    tfm_tensor_free(model->ctx, &factor);
    return tfm_context_status(model->ctx);
}

tfm_status tfm__model_cap_logits(tfm_model *model, tfm_tensor logits, tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    tfm_tensor factor = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &factor, TFM_F32, 1, &(int64_t){1});
    tfm__tensor_fill(ctx, factor, &model->arch.logit_cap);
    tfm_div(ctx, &logits, logits, factor);
    tfm_tanh(ctx, &logits, logits);
    tfm_mul(ctx, &logits, logits, factor);
    if (bias.buffer)
        tfm_add(ctx, &logits, logits, bias);
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_tensor tfm__model_inner_bias(const tfm_model *model, tfm_tensor bias) {
    return model->arch.logit_cap == 0 ? bias : (tfm_tensor){0};
}

tfm_status tfm__model_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor hidden, tfm_tensor bias) {
    tfm_context *ctx = model->ctx;
    tfm_tensor scaled = {0};
    tfm_scope_open(ctx);
    tfm__model_scale_output(model, &scaled, hidden);
    tfm_linear(ctx, logits, scaled, model->output, tfm__model_inner_bias(model, bias), TFM_NO_ACTIVATION);
    if (model->arch.logit_cap != 0)
        tfm__model_cap_logits(model, *logits, bias);
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){logits});
}
