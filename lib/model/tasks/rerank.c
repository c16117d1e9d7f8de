/* Reranking by a cross-encoder, or by the cosine of embeddings. */
#include "tfm/rerank.h"
#include <math.h>
#include <string.h>
#include "base/hub/hub.h"
#include "model/tasks/batch.h"
#include "model/tasks/classify.h"
#include "model/tasks/embedder.h"
#include "model/tasks/rerank_prompts.h"

/* ---- Kinds ---- */

tfm_status tfm_rerank_read_kind(tfm_rerank_kind *out, const char *dir) {
    tfm_model_info info;
    char *path = NULL, *encoder = NULL;
    bool pools = false;
    if (TFM__NEEDS("rerank_read_kind", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *out = TFM_RERANK_NONE;
    tfm_status status = tfm__hub_resolve(&path, dir);
    if (status == TFM_OK)
        status = tfm__modules_encoder_dir(&encoder, path);
    if (status == TFM_OK)
        status = tfm_model_read_info(&info, encoder, &(tfm_model_options){.no_tokenizer = true});
    if (status == TFM_OK)
        status = tfm__modules_pool(&pools, path);
    if (status == TFM_OK && !info.encoder_layers && info.has_lm_head && !pools)
        *out = TFM_RERANK_LANGUAGE_MODEL;
    else if (status == TFM_OK && info.classes)
        *out = info.classes == 1 ? TFM_RERANK_CROSS_ENCODER : TFM_RERANK_NONE;
    else if (status == TFM_OK && !(info.encoder_layers && info.decoder_layers))
        *out = TFM_RERANK_EMBEDDER;
    free(path);
    free(encoder);
    return status;
}

/* ---- Arguments ---- */

/* The query of each document. New. */
static tfm_status queries_of(const char ***out, const char *query, size_t count, const tfm_rerank_options *o) {
    const char **queries = tfm__alloc(count, sizeof(*queries));
    for (size_t i = 0; queries && i < count; i++)
        queries[i] = o->queries ? o->queries[i] : query;
    *out = queries;
    return queries ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status check(const char *what, tfm_context *ctx, const char *query, const char *const *documents,
                        size_t count, const tfm_rerank_options *options) {
    if (!options->queries && !query)
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: query is NULL", what);
    if (options->queries && tfm__needs_texts(what, "queries", options->queries, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__needs_texts(what, "documents", documents, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "%s: %s", what, TFM__RESERVED_SET_MESSAGE);
    if (tfm__batch_check(what, options->batch_tokens) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__context_ready(ctx, what);
}

static tfm_embed_options embed_options(const tfm_rerank_options *o) {
    return (tfm_embed_options){.batch_tokens = o->batch_tokens,
                               .reject = o->reject,
                               .reject_user = o->reject_user,
                               .progress = o->progress,
                               .progress_user = o->progress_user,
                               .stats = o->stats};
}

/* ---- Cross-encoders ---- */

/* Whether the model is a language model; else it is a cross-encoder. */
static bool is_language_model(const tfm_model *model) {
    return !model->arch.encoder.layers && !model->arch.headless;
}

static tfm_status check_model(const tfm_model *model, const tfm_rerank_options *options) {
    if (!is_language_model(model) &&
        tfm__model_needs(model, "rerank", TFM__NEEDS_ENCODER | TFM__NEEDS_CLASSIFIER) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (!is_language_model(model) && model->classes.count != 1)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "rerank: the model has %d classes, and a relevance score is one: use a model with one class",
                         model->classes.count);
    return options->raw_scores || model->classes.rerank != TFM__SOFTMAX_SCORES
               ? TFM_OK
               : tfm__fail(TFM_ERROR_UNSUPPORTED,
                           "rerank: the model's `activation_fn` is neither Sigmoid nor Identity: "
                           "use raw_scores, and apply it to them");
}

tfm_status tfm_rerank(tfm_model *model, float *scores, const char *query, const char *const *documents, size_t count,
                      const tfm_rerank_options *options) {
    static const tfm_rerank_options defaults;
    const char **queries = NULL;
    options = options ? options : &defaults;
    if (TFM__NEEDS("rerank", model, scores, documents) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    tfm_status status = check("rerank", model->ctx, query, documents, count, options);
    if (status == TFM_OK)
        status = check_model(model, options);
    if (status == TFM_OK)
        status = queries_of(&queries, query, count, options);
    tfm_embed_options pairs = embed_options(options);
    if (status == TFM_OK && is_language_model(model)) {
        status = tfm__rerank_prompts(model, scores, queries, documents, count, options, &pairs);
    } else if (status == TFM_OK) {
        pairs.text_pairs = documents;
        status = tfm__classify(model, "rerank", scores, queries, count, &pairs,
                               options->raw_scores ? TFM__RAW_SCORES : model->classes.rerank);
    }
    free(queries);
    return status;
}

/* ---- Embedders ---- */

/* Distinct neighboring queries. */
typedef struct queries {
    const char **texts; /* [count] */
    size_t *of;         /* [documents]: the query of a document */
    size_t count, documents;
    const tfm_rerank_options *options;
} queries;

static tfm_status find_distinct(queries *q, const char *const *all, size_t documents) {
    q->texts = tfm__alloc(documents, sizeof(*q->texts));
    q->of = tfm__alloc(documents, sizeof(*q->of));
    q->documents = documents;
    if (!q->texts || !q->of)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < documents; i++) {
        if (i == 0 || all[i] != all[i - 1])
            q->texts[q->count++] = all[i];
        q->of[i] = q->count - 1;
    }
    return TFM_OK;
}

/* A bad query is one of each of its documents. */
static bool on_reject(void *user, size_t line, const char *message) {
    const queries *q = user;
    bool more = true;
    for (size_t i = 0; i < q->documents && more; i++)
        if (q->of[i] == line)
            more = q->options->reject(q->options->reject_user, i, message);
    return more;
}

/* The first prompt with one of the names; "" without any. */
static const char *prompt_of(const tfm_embedder *e, const char *const *names) {
    const char *found = NULL;
    for (; *names && !found; names++)
        found = tfm_embedder_prompt(e, *names);
    return found ? found : "";
}

static float cosine(const float *a, const float *b, size_t width) {
    double dot = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < width; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    const double lengths = sqrt(aa) * sqrt(bb);
    return (float)(lengths == 0 ? 0 : dot / lengths);
}

static void options_of(tfm_embedder *e, queries *q, tfm_embed_options *of_queries, tfm_embed_options *of_documents) {
    static const char *const QUERY[] = {"query", NULL}, *const DOCUMENT[] = {"document", "passage", "corpus", NULL};
    *of_queries = *of_documents = embed_options(q->options);
    of_documents->prompt = prompt_of(e, DOCUMENT);
    of_queries->prompt = prompt_of(e, QUERY);
    of_queries->progress = NULL;
    of_queries->reject = q->options->reject ? on_reject : NULL;
    of_queries->reject_user = q;
}

/* Scores of embedders with pooling. */
static tfm_status compare_texts(tfm_embedder *e, float *scores, queries *q, const char *const *documents) {
    const size_t width = (size_t)e->info.width;
    tfm_embed_options of_queries, of_documents;
    options_of(e, q, &of_queries, &of_documents);
    float *query_vectors = tfm__alloc(q->count * width, sizeof(*query_vectors));
    float *vectors = tfm__alloc(q->documents * width, sizeof(*vectors));
    tfm_status status = query_vectors && vectors ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm_embed(e, query_vectors, q->texts, q->count, &of_queries);
    if (status == TFM_OK)
        status = tfm_embed(e, vectors, documents, q->documents, &of_documents);
    for (size_t i = 0; i < q->documents && status == TFM_OK; i++)
        scores[i] = cosine(query_vectors + q->of[i] * width, vectors + i * width, width);
    free(query_vectors);
    free(vectors);
    return status;
}

/* ---- Late interaction ---- */

typedef struct late {
    const queries *queries;
    tfm_token_vectors *of_queries; /* [queries->count], with own vectors; of a bad one NULL */
    float *scores;
    bool out_of_memory;
} late;

static bool keep_query(void *user, const tfm_token_vectors *v) {
    late *l = user;
    const size_t bytes = v->count * (size_t)v->width * sizeof(*v->vectors);
    float *copy = tfm__alloc(bytes ? bytes : 1, 1);
    l->out_of_memory = l->out_of_memory || !copy;
    if (copy)
        memcpy(copy, v->vectors, bytes);
    l->of_queries[v->line] = *v;
    l->of_queries[v->line].vectors = copy;
    return true;
}

static bool score_document(void *user, const tfm_token_vectors *v) {
    late *l = user;
    const tfm_token_vectors *query = &l->of_queries[l->queries->of[v->line]];
    double score = NAN;
    if (query->vectors)
        tfm_maxsim(&score, query->vectors, query->count, v->vectors, v->count, v->width);
    l->scores[v->line] = (float)score;
    return true;
}

static tfm_status compare_tokens(tfm_embedder *e, float *scores, queries *q, const char *const *documents) {
    late l = {.queries = q, .scores = scores, .of_queries = tfm__alloc(q->count, sizeof(*l.of_queries))};
    tfm_embed_options of_queries, of_documents;
    options_of(e, q, &of_queries, &of_documents);
    for (size_t i = 0; i < q->documents; i++)
        scores[i] = NAN;
    tfm_status status = l.of_queries ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm_embed_tokens(e, q->texts, q->count, TFM_ROLE_QUERY, &of_queries, keep_query, &l);
    if (status == TFM_OK && l.out_of_memory)
        status = tfm__fail(TFM_ERROR_MEMORY, "embedder_rerank: out of memory for the vectors of %zu queries", q->count);
    if (status == TFM_OK)
        status = tfm_embed_tokens(e, documents, q->documents, TFM_ROLE_DOCUMENT, &of_documents, score_document, &l);
    for (size_t i = 0; l.of_queries && i < q->count; i++)
        free((void *)(uintptr_t)l.of_queries[i].vectors);
    free(l.of_queries);
    return status;
}

tfm_status tfm_embedder_rerank(tfm_embedder *e, float *scores, const char *query, const char *const *documents,
                               size_t count, const tfm_rerank_options *options) {
    static const tfm_rerank_options defaults;
    const char **all = NULL;
    options = options ? options : &defaults;
    if (TFM__NEEDS("embedder_rerank", e, scores, documents) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    queries q = {.options = options};
    tfm_status status = check("embedder_rerank", e->model->ctx, query, documents, count, options);
    if (status == TFM_OK)
        status = queries_of(&all, query, count, options);
    if (status == TFM_OK)
        status = find_distinct(&q, all, count);
    if (status == TFM_OK)
        status = e->by_token ? compare_tokens(e, scores, &q, documents) : compare_texts(e, scores, &q, documents);
    free(q.texts);
    free(q.of);
    free(all);
    return status;
}
