/* log p of the tokens of one text, and of the most probable ones in their places. */
#include <math.h>
#include "model/decode/decode_loop.h"
#include "model/tasks/score.h"
#include "tfm/ops.h"

static tfm_status check(const tfm_model *model, const int32_t *ids, size_t count, int top) {
    const int vocabulary = model->arch.decoder.vocabulary;
    if (tfm__context_ready(model->ctx, "score_ids") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "score_ids", TFM__NEEDS_DECODER | TFM__NEEDS_OUTPUT) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (model->arch.encoder.layers > 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "score_ids: the model, of the family %s, translates", model->family->name);
    if (top < 0 || top > TFM__MAX_TOP || top > vocabulary)
        return tfm__fail(TFM_ERROR_ARGUMENT, "score_ids: top is %d: give 0 to %d", top, TFM__MAX_TOP);
    if (count == 0 || count > (size_t)model->info.max_positions)
        return tfm__fail(TFM_ERROR_INPUT, "score_ids: the text has %zu tokens: give 1 to %d", count,
                         model->info.max_positions);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return tfm__fail(TFM_ERROR_ARGUMENT, "score_ids: id %zu is %d: give 0 to %d", i, (int)ids[i],
                             vocabulary - 1);
    return TFM_OK;
}

/* log p of ids 1 to `rows`. */
static tfm_status compute(tfm_model *model, const int32_t *ids, int64_t rows, float *log_probs,
                          const tfm__top_tokens *top) {
    tfm_context *ctx = model->ctx;
    tfm_tensor input = {0}, target = {0}, hidden = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &input, TFM_I32, 2, (int64_t[]){1, rows});
    tfm_tensor_new(ctx, &target, TFM_I32, 2, (int64_t[]){1, rows});
    tfm_tensor_write(ctx, input, ids);
    tfm_tensor_write(ctx, target, ids + 1);
    tfm__model_decode_hidden(model, &hidden, input, (tfm_tensor){0}, (tfm_tensor){0}, NULL);
    tfm_status status = tfm__token_log_probs(model, log_probs, top, hidden, target);
    tfm_scope_close(ctx, 0, NULL);
    for (int64_t i = 0; i < rows && status == TFM_OK; i++)
        if (isnan(log_probs[i]))
            status = tfm__fail(TFM_ERROR_FORMAT, "the model's probabilities are not finite: its weights are damaged");
    return status;
}

tfm_status tfm_score_ids(tfm_model *model, const int32_t *ids, size_t count, int top, tfm_log_probs_fn on_log_probs,
                         void *user) {
    if (TFM__NEEDS("score_ids", model, ids, on_log_probs ? "" : NULL) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check(model, ids, count, top);
    if (status != TFM_OK)
        return status;
    const size_t rows = count - 1, most = (size_t)(top > 0 ? top : 1);
    float *log_probs = tfm__alloc(count, sizeof(*log_probs));
    tfm__top_tokens tops = {top, tfm__alloc(count * most, sizeof(*tops.ids)),
                            tfm__alloc(count * most, sizeof(*tops.log_probs))};
    status = log_probs && tops.ids && tops.log_probs ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && rows > 0)
        status = compute(model, ids, (int64_t)rows, log_probs, top > 0 ? &tops : NULL);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        tfm_token_log_probs scores = {.log_prob = NAN}; /* nothing is before the first token */
        if (i > 0)
            scores = (tfm_token_log_probs){log_probs[i - 1], (size_t)top, tops.ids + (i - 1) * most,
                                           tops.log_probs + (i - 1) * most};
        on_log_probs(user, i, 0, ids[i], &scores);
    }
    free(log_probs);
    free(tops.ids);
    free(tops.log_probs);
    return status;
}
