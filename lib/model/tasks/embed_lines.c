/* Embeddings of lines of text. */
#include <math.h>
#include <string.h>
#include "model/tasks/embedder.h"
#include "model/tasks/encode_lines.h"

typedef struct job {
    tfm_embedder *embedder;
    tfm__line_encoder line_encoder;
    int64_t skipped;
    float *vectors; /* [count][W] */
} job;

static tfm_status run_batch(void *user, tfm_model *on, tfm__line *const *batch, size_t n) {
    job *j = user;
    tfm_context *ctx = on->ctx;
    const size_t width = (size_t)j->embedder->info.width;
    tfm__encoded_batch in = {{0}, {0}, {0}};
    tfm_tensor vectors = {0};
    float *host = tfm__alloc(n * width, sizeof(*host));
    if (!host)
        return TFM_ERROR_MEMORY;
    tfm_scope_open(ctx);
    tfm__line_encoder_upload(&j->line_encoder, ctx, &in, batch, n);
    tfm__embed_batch(tfm__embedder_on(j->embedder, on), &vectors, in.ids, in.types, in.lengths, j->skipped);
    tfm_tensor_read(ctx, host, vectors);
    const tfm_status status = tfm_scope_close(ctx, 0, NULL);
    for (size_t i = 0; i < n && status == TFM_OK; i++)
        memcpy(j->vectors + batch[i]->index * width, host + i * width, width * sizeof(*host));
    free(host);
    return status;
}

/* Bad lines get NaN, lines without tokens zeros. */
static void fill_others(float *vectors, size_t width, const tfm__line *lines, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < width && !lines[i].ids; k++)
            vectors[i * width + k] = lines[i].rejected ? NAN : 0;
}

tfm_status tfm_embed(tfm_embedder *e, float *vectors, const char *const *lines, size_t count,
                     const tfm_embed_options *options) {
    static const tfm_embed_options defaults;
    options = options ? options : &defaults;
    if (TFM__NEEDS("embed", e, vectors) != TFM_OK ||
        (!options->token_ids &&
         (TFM__NEEDS("embed", lines) != TFM_OK || tfm__needs_texts("embed", "lines", lines, count) != TFM_OK)))
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "embed: %s", TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check("embed", options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (e->by_token)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "embed: the model has no pooling: use tfm_embed_tokens");
    if (tfm__context_ready(e->model->ctx, "embed") != TFM_OK)
        return tfm_context_status(e->model->ctx);
    job j = {.embedder = e, .vectors = vectors, .line_encoder = tfm__embedder_line_encoder(e, options)};
    tfm__line *encoded = NULL;
    const double start = tfm__seconds();
    tfm_status status = tfm__line_encoder_open(&j.line_encoder, "embed");
    if (status == TFM_OK && j.line_encoder.prompt && e->skip_prompt)
        status = tfm__line_encoder_prompt_tokens(&j.line_encoder, &j.skipped);
    if (status == TFM_OK)
        status = tfm__line_encoder_encode(&j.line_encoder, &encoded, lines, count);
    if (status == TFM_OK)
        status = tfm__line_encoder_run(&j.line_encoder, encoded, count, run_batch, &j);
    if (status == TFM_OK)
        fill_others(vectors, (size_t)e->info.width, encoded, count);
    if (status == TFM_OK)
        tfm__line_encoder_count(&j.line_encoder, start);
    tfm__lines_free(&encoded, encoded ? count : 0);
    return status;
}

tfm_status tfm_embeddings_truncate(float *vectors, size_t count, int width, int dimensions) {
    if (TFM__NEEDS("embeddings_truncate", vectors) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (dimensions < 1 || dimensions > width)
        return tfm__fail(TFM_ERROR_ARGUMENT, "embeddings_truncate: %d dimensions of %d: give 1 to %d", dimensions,
                         width, width);
    const size_t kept = (size_t)dimensions;
    for (size_t i = 0; i < count && dimensions < width; i++) {
        const float *from = vectors + i * (size_t)width;
        float *to = vectors + i * kept;
        double sum = 0;
        for (size_t k = 0; k < kept; k++)
            sum += (double)from[k] * (double)from[k];
        const double scale = sum > 0 ? 1 / sqrt(sum) : 1;
        for (size_t k = 0; k < kept; k++)
            to[k] = (float)((double)from[k] * scale);
    }
    return TFM_OK;
}
