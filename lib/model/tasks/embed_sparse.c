/* Sparse embeddings of SPLADE ("SPLADE: Sparse Lexical and Expansion Model for First Stage Ranking", Formal et al.
 * 2021): for each token of the vocabulary the largest log(1 + ReLU(logit)) of the masked-LM head over a text's tokens.
 */
#include <math.h>
#include "model/tasks/encode_lines.h"
#include "tfm/ops.h"

/* Maximum bytes of the logits of a batch of several texts. */
enum { LOGIT_BYTES = 64 << 20 };

typedef struct sparse {
    int32_t *ids;
    float *weights;
    size_t count;
} sparse;

typedef struct job {
    tfm__line_encoder line_encoder;
    sparse *vectors; /* [count] */
} job;

static void free_sparse(sparse *v) {
    free(v->ids);
    free(v->weights);
    *v = (sparse){0};
}

/* `most`: the largest logit of each token over the text. A batch may be repeated. */
static tfm_status keep(sparse *v, const float *most, size_t vocabulary) {
    size_t count = 0;
    free_sparse(v);
    for (size_t i = 0; i < vocabulary; i++)
        count += most[i] > 0;
    v->ids = tfm__alloc(count, sizeof(*v->ids));
    v->weights = tfm__alloc(count, sizeof(*v->weights));
    if (!v->ids || !v->weights)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < vocabulary; i++)
        if (most[i] > 0) {
            v->ids[v->count] = (int32_t)i;
            v->weights[v->count++] = (float)log1p((double)most[i]);
        }
    return TFM_OK;
}

/* ReLU and the logarithm increase, so that they follow the maximum. */
static tfm_status run_batch(void *user, tfm_model *model, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = model->ctx;
    const size_t vocabulary = (size_t)model->arch.encoder.vocabulary;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor encoded = {0}, logits = {0}, most = {0};
    float *host = tfm__alloc(n * vocabulary, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n);
    tfm__model_encode_typed(model, &encoded, in.ids, in.types, in.lengths);
    tfm_model_mlm_logits(model, &logits, encoded);
    tfm_pool(ctx, &most, logits, in.lengths, TFM_POOL_MAX, 0);
    tfm_tensor_read(ctx, host, most);
    tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        status = keep(&j->vectors[batch[i]->index], host + i * vocabulary, vocabulary);
    free(host);
    return status;
}

static tfm_status emit_all(const job *j, const tfm__line *lines, size_t count, tfm_sparse_embedding_fn emit,
                           void *user) {
    for (size_t i = 0; i < count; i++) {
        const sparse *v = &j->vectors[i];
        const tfm_sparse_embedding vector = {.line = i, .count = v->count, .ids = v->ids, .weights = v->weights};
        if (lines[i].ids && !emit(user, &vector))
            return tfm__fail(TFM_ERROR_CANCELLED, "embed_sparse was stopped at line %zu", i + 1);
    }
    return TFM_OK;
}

static tfm_status check(tfm_model *model, const tfm_embed_options *options) {
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed_sparse: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("embed_sparse", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (options->token_ids || options->text_pairs)
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed_sparse: token_ids and text_pairs are not supported: give lines");
    if (tfm__context_ready(model->ctx, "embed_sparse") != TFM_OK)
        return tfm_context_status(model->ctx);
    if (tfm__model_needs(model, "embed_sparse", TFM__NEEDS_ENCODER | TFM__NEEDS_MLM_HEAD) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return !model->classes.other_splade
               ? TFM_OK
               : tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "embed_sparse: the model's SpladePooling sums, or takes the logarithm twice, which is not "
                           "supported: use a model with the pooling \"max\" and the activation \"relu\"");
}

/* Logits have a row of the vocabulary for each token. */
static int batch_tokens(const tfm_model *model, const tfm_embed_options *options) {
    const int most = LOGIT_BYTES / ((int)sizeof(float) * model->arch.encoder.vocabulary) + 1;
    return options->batch_tokens && options->batch_tokens < most ? options->batch_tokens : most;
}

tfm_status tfm_embed_sparse(tfm_model *model, const char *const *lines, size_t count, const tfm_embed_options *options,
                            tfm_sparse_embedding_fn emit, void *user) {
    static const tfm_embed_options defaults;
    options = options ? options : &defaults;
    if (TFM__NEEDS("embed_sparse", model, lines, emit ? "" : NULL) != TFM_OK ||
        tfm__needs_texts("embed_sparse", "lines", lines, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check(model, options);
    if (status != TFM_OK)
        return status;
    tfm_embed_options limited = *options;
    limited.batch_tokens = batch_tokens(model, options);
    const size_t positions = (size_t)model->arch.encoder.max_positions, limit = (size_t)model->classes.max_tokens;
    job j = {.vectors = tfm__alloc(count, sizeof(*j.vectors)),
             .line_encoder = {.model = model,
                              .options = &limited,
                              .max_tokens = limit && limit < positions ? limit : positions,
                              .prompt = options->prompt}};
    tfm__line *encoded = NULL;
    const double start = tfm__seconds();
    status = j.vectors ? tfm__line_encoder_open(&j.line_encoder, "embed_sparse") : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__line_encoder_encode(&j.line_encoder, &encoded, lines, count);
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, encoded, count, run_batch, &j);
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    if (status == TFM_OK)
        status = emit_all(&j, encoded, count, emit, user);
    tfm__lines_free(&encoded, encoded ? count : 0);
    for (size_t i = 0; j.vectors && i < count; i++)
        free_sparse(&j.vectors[i]);
    free(j.vectors);
    return status;
}
