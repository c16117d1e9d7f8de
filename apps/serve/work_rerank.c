/* Relevance scores of a batch of pairs of a query and a document. */
#include <stdlib.h>
#include <string.h>
#include <tfm/rerank.h>
#include "serve/server.h"

static bool on_reject(void *user, size_t line, const char *message) {
    const serve_batch_item *item = &((const serve_batch_item *)user)[line];
    serve_job_fail(item->job, MHD_HTTP_BAD_REQUEST, "document %zu: %s", item->segment, message);
    return true;
}

/* Tokens of a text, or of a pair, for the usage. */
static size_t count_tokens(const serve_instance *instance, const char *text, const char *pair) {
    const size_t most = (size_t)tfm_model_get_info(instance->model)->max_positions;
    const tfm_encode_options options = {.text_pair = pair, .text_pair_bytes = pair ? strlen(pair) : 0};
    int32_t *ids = NULL;
    size_t count = 0;
    if (tfm_tokenizer_encode_with(tfm_model_tokenizer(instance->model), &ids, &count, TFM_SOURCE, text, strlen(text),
                                  &options) != TFM_OK)
        count = 0;
    tfm_ids_free(&ids);
    return count < most ? count : most;
}

tfm_status serve_work_rerank(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count) {
    server *s = w->server;
    const serve_instance *instance = &model->instances[w->number];
    const bool embeds = model->rerank == TFM_RERANK_EMBEDDER, pairs = model->rerank == TFM_RERANK_CROSS_ENCODER;
    const char **queries = calloc(count, sizeof(*queries)), **documents = calloc(count, sizeof(*documents));
    float *scores = calloc(count, sizeof(*scores));
    tfm_status status = queries && documents && scores ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        queries[i] = items[i].job->queries[items[i].segment];
        documents[i] = items[i].job->segments[items[i].segment].text;
        items[i].job->results[items[i].segment].source_tokens =
            pairs ? count_tokens(instance, queries[i], documents[i])
                  : count_tokens(instance, queries[i], NULL) + count_tokens(instance, documents[i], NULL);
    }
    tfm_embed_stats stats = {0};
    const tfm_rerank_options options = {
        .queries = queries,
        .chat = model->chat.chat,
        .raw_scores = items[0].job->key.raw_scores,
        .batch_tokens = serve_queue_micro_batch_tokens(w, s->options->text.batch_tokens, LEAST_TOKENS),
        .reject = on_reject,
        .reject_user = (void *)(uintptr_t)items,
        .stats = &stats};
    if (status == TFM_OK)
        status = embeds ? tfm_embedder_rerank(instance->embedder, scores, NULL, documents, count, &options)
                        : tfm_rerank(instance->model, scores, NULL, documents, count, &options);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        items[i].job->scores[items[i].segment] = scores[i];
    atomic_fetch_add(&model->counters->source_tokens, stats.tokens);
    free(queries);
    free(documents);
    free(scores);
    return status;
}
