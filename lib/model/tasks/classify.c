/* Sequence classification. */
#include "model/tasks/classify.h"
#include <math.h>
#include <string.h>
#include "model/tasks/encode_lines.h"

typedef struct job {
    tfm__line_encoder line_encoder;
    tfm__scores kind;
    float *scores; /* [count][classes] */
} job;

static void softmax(float *x, size_t count) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, (double)x[i]);
    for (size_t i = 0; i < count; i++)
        sum += exp((double)x[i] - most);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(exp((double)x[i] - most) / sum);
}

static void score(float *x, size_t count, tfm__scores scores) {
    if (scores == TFM__SOFTMAX_SCORES)
        softmax(x, count);
    for (size_t i = 0; i < count && scores == TFM__SIGMOID_SCORES; i++)
        x[i] = (float)(1 / (1 + exp(-(double)x[i])));
}

static tfm_status run_batch(void *user, tfm_model *model, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = model->ctx;
    const size_t classes = (size_t)j->line_encoder.model->classes.count;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor encoded = {0}, logits = {0};
    float *host = tfm__alloc(n * classes, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n);
    tfm__model_encode_typed(model, &encoded, in.ids, in.types, in.lengths);
    tfm_model_class_logits(model, &logits, encoded, in.lengths);
    tfm_tensor_read(ctx, host, logits);
    const tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++) {
        float *to = j->scores + batch[i]->index * classes;
        memcpy(to, host + i * classes, classes * sizeof(*to));
        score(to, classes, j->kind);
    }
    free(host);
    return status;
}

tfm_status tfm__classify(tfm_model *model, const char *what, float *scores, const char *const *lines, size_t count,
                         const tfm_embed_options *options, tfm__scores kind) {
    const size_t positions = (size_t)model->arch.encoder.max_positions, limit = (size_t)model->classes.max_tokens;
    job j = {.kind = kind,
             .scores = scores,
             .line_encoder = {.model = model,
                              .options = options,
                              .max_tokens = limit && limit < positions ? limit : positions,
                              .prompt = options->prompt}};
    tfm__line *encoded = NULL;
    const double start = tfm__seconds();
    tfm_status status = tfm__line_encoder_open(&j.line_encoder, what);
    if (status == TFM_OK)
        status = tfm__line_encoder_encode(&j.line_encoder, &encoded, lines, count);
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, encoded, count, run_batch, &j);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        for (int k = 0; k < model->classes.count && !encoded[i].ids; k++)
            scores[i * (size_t)model->classes.count + (size_t)k] = NAN;
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    tfm__lines_free(&encoded, encoded ? count : 0);
    return status;
}

tfm_status tfm_classify(tfm_model *model, float *scores, const char *const *lines, size_t count,
                        const tfm_embed_options *options) {
    static const tfm_embed_options defaults;
    if (TFM__NEEDS("classify", model, scores, lines) != TFM_OK ||
        tfm__needs_texts("classify", "lines", lines, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    options = options ? options : &defaults;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "classify: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("classify", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__context_ready(model->ctx, "classify") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "classify", TFM__NEEDS_ENCODER | TFM__NEEDS_CLASSIFIER) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__classify(model, "classify", scores, lines, count, options, model->classes.scores);
}
