/* Heads of encoder-only models: masked-token prediction, sequence classification. */
#include "model/core/model.h"
#include "tfm/embed.h"
#include "ops/ops.h"

void tfm__head_new(tfm__head *head, const tfm__arch *arch) {
    head->norm = (tfm_norm){.epsilon = arch->encoder.epsilon, .kind = arch->encoder.norm};
}

void tfm__head_free(tfm_context *ctx, tfm__head *head) {
    tfm_dense_free(ctx, &head->dense);
    tfm_norm_free(ctx, &head->norm);
    tfm_dense_free(ctx, &head->out);
}

/* ---- Passes ---- */

/* *out (..., E) = norm(activation(x weight^T + bias)); the norm is optional. */
static tfm_status run_head(tfm_model *model, tfm_tensor *out, tfm_tensor x) {
    tfm_context *ctx = model->ctx;
    const tfm__head_arch *arch = &model->arch.head;
    tfm_tensor hidden = {0};
    tfm_scope_open(ctx);
    tfm_dense_forward(ctx, &hidden, &model->head.dense, x, arch->tanh ? TFM_NO_ACTIVATION : arch->activation);
    if (arch->tanh)
        tfm_tanh(ctx, &hidden, hidden);
    if (arch->norm)
        tfm_norm_forward(ctx, out, NULL, &model->head.norm, hidden, (tfm_tensor){0});
    else
        *out = hidden;
    return tfm_scope_close(ctx, 1, (tfm_tensor *[]){out});
}

/* Fails if the model has no such head, or the input is not (..., E). */
static tfm_status check_encoded(tfm_model *model, const char *what, int part, tfm_tensor encoded, int rank) {
    if (tfm__model_needs(model, what, part) != TFM_OK)
        return tfm__context_fail(model->ctx, TFM_ERROR_ARGUMENT, "%s", tfm_error_message());
    if (TFM__OP_BEGIN(model->ctx, what, "f", encoded) != TFM_OK)
        return tfm_context_status(model->ctx);
    if (encoded.rank < rank || tfm__last_dim(encoded) != model->arch.encoder.width)
        return tfm__op_error(model->ctx, what, "encoded is %s: the model's encoder returns (B, T, %d)",
                             TFM__SHAPE(encoded), model->arch.encoder.width);
    return TFM_OK;
}

tfm_status tfm_model_encode_pairs(tfm_model *model, tfm_tensor *encoded, tfm_tensor ids, tfm_tensor types,
                                  tfm_tensor lengths) {
    if (TFM__NEEDS("model_encode_pairs", model, encoded) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__model_encode_typed(model, encoded, ids, types, lengths);
}

tfm_status tfm_model_mlm_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded) {
    const char *what = "model_word_logits";
    if (TFM__NEEDS(what, model, logits) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (check_encoded(model, what, TFM__NEEDS_MLM_HEAD, encoded, 2) != TFM_OK)
        return tfm_context_status(model->ctx);
    tfm_tensor hidden = {0};
    tfm_scope_open(model->ctx);
    run_head(model, &hidden, encoded);
    tfm__model_logits(model, logits, hidden, model->logits_bias);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}

tfm_status tfm_model_class_logits(tfm_model *model, tfm_tensor *logits, tfm_tensor encoded, tfm_tensor lengths) {
    const char *what = "model_class_logits";
    if (TFM__NEEDS(what, model, logits) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (check_encoded(model, what, TFM__NEEDS_CLASSIFIER, encoded, 3) != TFM_OK)
        return tfm_context_status(model->ctx);
    tfm_tensor text = {0}, hidden = {0};
    tfm_scope_open(model->ctx);
    tfm_pool(model->ctx, &text, encoded, lengths, model->arch.head.mean ? TFM_POOL_MEAN : TFM_POOL_CLS, 0);
    run_head(model, &hidden, text);
    tfm_dense_forward(model->ctx, logits, &model->head.out, hidden, TFM_NO_ACTIVATION);
    return tfm_scope_close(model->ctx, 1, (tfm_tensor *[]){logits});
}
