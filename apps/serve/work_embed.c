/* Embeddings of a batch. */
#include <stdlib.h>
#include <string.h>
#include "serve/server.h"

static bool on_reject(void *user, size_t line, const char *message) {
    const serve_batch_item *item = &((const serve_batch_item *)user)[line];
    serve_job_fail(item->job, MHD_HTTP_BAD_REQUEST, "input %zu: %s", item->segment, message);
    return true;
}

/* The buffer of a job's embeddings. */
static bool make_room(serve_job *job, int width) {
    if (!job->vectors)
        job->vectors = calloc(job->count * (size_t)width, sizeof(*job->vectors));
    job->width = width;
    return job->vectors != NULL;
}

/* The tokens of a line with its prompt, for the usage. */
static size_t count_tokens(const serve_instance *instance, const char *prompt, const char *line, size_t bytes) {
    const size_t most = (size_t)tfm_embedder_get_info(instance->embedder)->max_tokens,
                 before = prompt ? strlen(prompt) : 0;
    char *text = malloc(before + bytes + 1);
    int32_t *ids = NULL;
    size_t count = 0;
    if (text) {
        memcpy(text, prompt ? prompt : "", before);
        memcpy(text + before, line, bytes);
    }
    if (!text || tfm_tokenizer_encode(tfm_model_tokenizer(instance->model), &ids, &count, TFM_SOURCE, text,
                                      before + bytes) != TFM_OK)
        count = 0;
    tfm_ids_free(&ids);
    free(text);
    return count < most ? count : most;
}

/* The text of a job's prompt. False, with a failed job, if the directory has no such prompt. */
static bool find_prompt(serve_job *job, const serve_instance *instance, const char **prompt) {
    *prompt = job->prompt_name ? tfm_embedder_prompt(instance->embedder, job->prompt_name) : NULL;
    if (job->prompt_name && !*prompt)
        serve_job_fail(job, MHD_HTTP_BAD_REQUEST, "Invalid request: prompt_name: the model '%s' has no prompt '%.60s'",
                       job->key.model->name, job->prompt_name);
    return *prompt || !job->prompt_name;
}

/* Keeps the vectors of a line's tokens. */
static bool on_vectors(void *user, const tfm_token_vectors *v) {
    const serve_batch_item *item = &((const serve_batch_item *)user)[v->line];
    const size_t bytes = v->count * (size_t)v->width * sizeof(*v->vectors);
    serve_result *result = &item->job->results[item->segment];
    result->vectors = malloc(bytes + 1);
    result->vector_count = v->count;
    if (result->vectors)
        memcpy(result->vectors, v->vectors, bytes);
    else
        serve_job_fail(item->job, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the vectors");
    return true;
}

tfm_status serve_work_embed(serve_worker *w, serve_model *model, const serve_batch_item *items, size_t count) {
    server *s = w->server;
    const serve_instance *instance = &model->instances[w->number];
    const int width = tfm_embedder_get_info(instance->embedder)->width;
    const char *prompt = NULL;
    if (!find_prompt(items[0].job, instance, &prompt))
        return TFM_OK;
    const char **lines = calloc(count, sizeof(*lines));
    size_t *bytes = calloc(count, sizeof(*bytes));
    float *vectors = calloc(count * (size_t)width, sizeof(*vectors));
    tfm_prompt *ids = calloc(count, sizeof(*ids));
    tfm_status status = lines && bytes && vectors && ids ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        serve_job *job = items[i].job;
        const size_t k = items[i].segment;
        lines[i] = job->segments[k].text;
        bytes[i] = job->segments[k].bytes;
        if (job->key.token_ids)
            ids[i] = (tfm_prompt){.ids = job->ids[k], .count = job->id_counts[k]};
        job->results[k].source_tokens =
            job->key.token_ids ? ids[i].count
                               : count_tokens(instance, prompt ? prompt : tfm_embedder_prompt(instance->embedder, NULL),
                                              lines[i], bytes[i]);
        status = make_room(job, width) ? TFM_OK : TFM_ERROR_MEMORY;
    }
    tfm_embed_stats stats = {0};
    const tfm_embed_options options = {
        .line_bytes = bytes,
        .token_ids = items[0].job->key.token_ids ? ids : NULL,
        .prompt = prompt,
        .batch_tokens = serve_queue_micro_batch_tokens(w, s->options->text.batch_tokens, LEAST_TOKENS),
        .reject = on_reject,
        .reject_user = (void *)(uintptr_t)items,
        .stats = &stats};
    const bool sparse = items[0].job->key.sparse, tokens = !sparse && model->token_vectors;
    const tfm_text_role role = items[0].job->key.query ? TFM_ROLE_QUERY : TFM_ROLE_DOCUMENT;
    if (status == TFM_OK)
        status = sparse   ? serve_work_sparse(instance, items, lines, count, &options)
                 : tokens ? tfm_embed_tokens(instance->embedder, lines, count, role, &options, on_vectors,
                                             (void *)(uintptr_t)items)
                          : tfm_embed(instance->embedder, vectors, lines, count, &options);
    for (size_t i = 0; i < count && status == TFM_OK && !sparse && !tokens; i++)
        memcpy(items[i].job->vectors + items[i].segment * (size_t)width, vectors + i * (size_t)width,
               (size_t)width * sizeof(*vectors));
    atomic_fetch_add(&model->counters->source_tokens, stats.tokens);
    free(lines);
    free(bytes);
    free(vectors);
    free(ids);
    return status;
}
