/* Reranking: /v1/rerank and /rerank in the formats of Jina, Cohere and text-embeddings-inference, /v1/score in
 * vLLM's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Requests -------------------------------------------------------------------------------------------------- */

/* A list of documents, texts or objects with a text, as a new list of texts; NULL with the error reply. */
static json_t *documents_of(serve_request *r, const char *name, serve_reply *reply) {
    const json_t *given = json_object_get(r->fields, name);
    json_t *list = json_array();
    bool good = json_is_array(given) && json_array_size(given) > 0;
    for (size_t i = 0; good && i < json_array_size(given); i++) {
        json_t *item = json_array_get(given, i), *text = json_is_object(item) ? json_object_get(item, "text") : item;
        good = json_is_string(text);
        json_array_append(list, text);
    }
    if (good && list)
        return list;
    *reply = serve_reply_field(r, name, NULL, "Invalid request: %s is not a list of strings or of objects with a text",
                               name);
    json_decref(list);
    return NULL;
}

/* The query counts once for each document, since it is read with each. */
static bool check_size(serve_request *r, const json_t *queries, const json_t *documents, serve_reply *reply) {
    const serve_limits *limits = &r->server->options->limits;
    const size_t count = json_array_size(documents), several = json_array_size(queries);
    size_t characters = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *query = json_array_get(queries, several > 1 ? i : 0), *document = json_array_get(documents, i);
        characters += serve_characters(json_string_value(query), json_string_length(query)) +
                      serve_characters(json_string_value(document), json_string_length(document));
    }
    if (count <= (size_t)limits->lines && characters <= (size_t)r->chars)
        return true;
    *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                               "the request has %zu pairs and %zu characters, with the query of each document: at most "
                               "%d and %d are taken",
                               count, characters, limits->lines, r->chars);
    return false;
}

/* A job that scores each document for its query, or the only query. Takes ownership of the lists. */
static serve_job *new_job(serve_request *r, json_t *queries, json_t *documents, serve_model *model, bool raw,
                          serve_reply *reply) {
    if (!check_size(r, queries, documents, reply)) {
        json_decref(queries);
        json_decref(documents);
        return NULL;
    }
    serve_job *job = serve_openai_job(r, documents, model, SERVE_RERANK, reply);
    if (job) {
        job->queries = calloc(job->count, sizeof(*job->queries));
        job->scores = calloc(job->count, sizeof(*job->scores));
        job->key.raw_scores = raw;
    }
    if (job && (!job->queries || !job->scores || json_array_append(documents, queries) != 0)) { /* keeps them */
        serve_job_free(job), job = NULL;
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    }
    for (size_t i = 0; job && i < job->count; i++)
        job->queries[i] = json_string_value(json_array_get(queries, json_array_size(queries) > 1 ? i : 0));
    json_decref(queries);
    return job;
}

/* ---- Ranking --------------------------------------------------------------------------------------------------- */

/* Higher scores first, of equal ones the first document. */
static int compare(const void *a, const void *b, void *user) {
    const float *scores = user;
    const size_t i = *(const size_t *)a, k = *(const size_t *)b;
    return scores[i] != scores[k] ? (scores[i] < scores[k] ? 1 : -1) : (i > k) - (i < k);
}

static json_t *result_json(const serve_job *job, size_t i) {
    const char *text = job->segments[i].text;
    json_t *result = json_pack("{s:I, s:f}", "index", (json_int_t)i, job->lists ? "score" : "relevance_score",
                               (double)job->scores[i]);
    if (job->returns_texts)
        json_object_set_new(result, job->lists ? "text" : "document",
                            job->lists ? json_string(text) : json_pack("{s:s}", "text", text));
    return result;
}

/* The most relevant documents, a list. */
static json_t *results_json(const serve_job *job) {
    size_t *order = calloc(job->count, sizeof(*order));
    json_t *results = order ? json_array() : NULL;
    for (size_t i = 0; order && i < job->count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, job->count, sizeof(*order), compare, job->scores);
    for (size_t i = 0; order && i < job->count && i < (size_t)job->top_n; i++)
        json_array_append_new(results, result_json(job, order[i]));
    free(order);
    return results;
}

static serve_reply answer_ranking(serve_request *r) {
    const serve_job *job = r->job;
    json_t *results = results_json(job);
    if (job->lists || !results)
        return serve_reply_json(MHD_HTTP_OK, results);
    return serve_reply_json(MHD_HTTP_OK,
                            json_pack("{s:s, s:s, s:o, s:o}", "object", "list", "model", job->key.model->name,
                                      "results", results, "usage", serve_openai_usage(job)));
}

static bool is_true(const serve_request *r, const char *name) {
    return json_is_true(json_object_get(r->fields, name));
}

/* text-embeddings-inference calls the documents `texts`, and answers a list. */
bool serve_v1_rerank(serve_request *r, serve_reply *reply) {
    const bool lists = json_object_get(r->fields, "texts") != NULL;
    serve_model *model = serve_openai_model(r, SERVE_RERANK, "rerank", reply);
    json_t *query = json_object_get(r->fields, "query");
    int top_n = 0;
    if (!model || !serve_fields_check(r, SERVE_RERANK_FIELDS, reply) ||
        !serve_request_integer(r, "top_n", 1, INT32_MAX, INT32_MAX, &top_n, reply))
        return false;
    if (!json_is_string(query)) {
        *reply = serve_reply_field(r, "query", NULL, "Invalid request: query is not a string");
        return false;
    }
    json_t *documents = documents_of(r, lists ? "texts" : "documents", reply);
    serve_job *job =
        documents ? new_job(r, json_pack("[O]", query), documents, model, is_true(r, "raw_scores"), reply) : NULL;
    if (!job)
        return false;
    job->lists = lists;
    job->top_n = top_n;
    job->returns_texts = is_true(r, lists ? "return_text" : "return_documents");
    return serve_openai_queue(r, job, answer_ranking, reply);
}

/* ---- Scores of pairs ------------------------------------------------------------------------------------------- */

static serve_reply answer_scores(serve_request *r) {
    const serve_job *job = r->job;
    json_t *data = json_array();
    for (size_t i = 0; i < job->count; i++)
        json_array_append_new(data, json_pack("{s:s, s:I, s:f}", "object", "score", "index", (json_int_t)i, "score",
                                              (double)job->scores[i]));
    return serve_reply_json(MHD_HTTP_OK,
                            json_pack("{s:s, s:s, s:o, s:o}", "object", "list", "model", job->key.model->name, "data",
                                      data, "usage", serve_openai_usage(job)));
}

bool serve_v1_score(serve_request *r, serve_reply *reply) {
    serve_model *model = serve_openai_model(r, SERVE_RERANK, "score pairs", reply);
    json_t *first =
        model && serve_fields_check(r, SERVE_SCORE_FIELDS, reply) ? serve_openai_texts(r, "text_1", reply) : NULL;
    json_t *second = first ? serve_openai_texts(r, "text_2", reply) : NULL;
    const size_t firsts = json_array_size(first), seconds = json_array_size(second);
    if (second && firsts > 1 && firsts != seconds) {
        *reply = serve_reply_field(r, "text_1", NULL,
                                   "Invalid request: text_1 has %zu texts and text_2 %zu: give one, or as many", firsts,
                                   seconds);
        json_decref(second), second = NULL;
    }
    if (!second) {
        json_decref(first);
        return false;
    }
    serve_job *job = new_job(r, first, second, model, is_true(r, "raw_scores"), reply);
    return job && serve_openai_queue(r, job, answer_scores, reply);
}
