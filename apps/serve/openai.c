/* OpenAI's API: models, and shared functions. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Models ---------------------------------------------------------------------------------------------------- */

static json_t *model_json(const server *s, const serve_model *m) {
    return json_pack("{s:s, s:s, s:I, s:s}", "id", m->name, "object", "model", "created", (json_int_t)s->started_at,
                     "owned_by", "tfm");
}

bool serve_v1_models(serve_request *r, serve_reply *reply) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->server->models.count; i++)
        json_array_append_new(list, model_json(r->server, r->server->models.items[i]));
    *reply = serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:o}", "object", "list", "data", list));
    return false;
}

static serve_reply no_model(const serve_request *r, const char *name) {
    return serve_reply_error(r, MHD_HTTP_NOT_FOUND, "There is no model '%.60s'; see /v1/models", name);
}

bool serve_v1_model(serve_request *r, serve_reply *reply) {
    const char *name = r->url + strlen("/v1/models/");
    const serve_model *m = serve_model_named(&r->server->models, name);
    *reply = m ? serve_reply_json(MHD_HTTP_OK, model_json(r->server, m)) : no_model(r, name);
    return false;
}

/* The only cross-encoder or embedding model; NULL if there are several. */
static serve_model *only_reranker(const serve_models *models) {
    serve_model *found = NULL;
    for (size_t i = 0; i < models->count; i++)
        if (models->items[i]->rerank == TFM_RERANK_CROSS_ENCODER || models->items[i]->rerank == TFM_RERANK_EMBEDDER) {
            if (found)
                return NULL;
            found = models->items[i];
        }
    return found;
}

serve_model *serve_openai_model(serve_request *r, serve_task task, const char *doing, serve_reply *reply) {
    const char *name = serve_request_text(r, "model");
    const bool none = !json_object_get(r->fields, "model");
    serve_model *m = name                           ? serve_model_named(&r->server->models, name)
                     : none && task == SERVE_RERANK ? only_reranker(&r->server->models)
                                                    : NULL;
    const bool does = m && (task == SERVE_EMBED    ? m->width > 0
                            : task == SERVE_RERANK ? m->rerank != TFM_RERANK_NONE
                                                   : m->task == task);
    if (!name && !m)
        *reply = serve_reply_field(r, "model", NULL, "Invalid request: missing model parameter");
    else if (!m)
        *reply = no_model(r, name);
    else if (!does)
        *reply = serve_reply_field(r, "model", NULL, "The model '%s' does not %s", m->name, doing);
    return does ? m : NULL;
}

/* ---- Jobs ------------------------------------------------------------------------------------------------------ */

json_t *serve_openai_texts(serve_request *r, const char *name, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, name);
    json_t *list = json_is_string(value) ? json_pack("[O]", value) : json_incref(value);
    bool good = json_is_array(list) && json_array_size(list) > 0;
    size_t characters = 0;
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        good = json_is_string(text);
        if (good)
            characters += serve_characters(json_string_value(text), json_string_length(text));
    }
    if (good && characters <= (size_t)r->chars && json_array_size(list) <= (size_t)r->server->options->limits.lines)
        return list;
    *reply =
        good ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE,
                                 "%s has %zu texts and %zu characters: at most %d and %d are taken", name,
                                 json_array_size(list), characters, r->server->options->limits.lines, r->chars)
             : serve_reply_field(r, name, NULL, "Invalid request: %s is neither a string nor a list of strings", name);
    json_decref(list);
    return NULL;
}

serve_job *serve_openai_job(serve_request *r, json_t *list, serve_model *model, serve_task task, serve_reply *reply) {
    serve_job *job = serve_job_new(json_array_size(list));
    if (!job) {
        json_decref(list);
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
        return NULL;
    }
    job->source = list;
    job->texts = r->lines = job->count;
    serve_job_set_models(job, &model, 1);
    job->key.task = task;
    for (size_t i = 0; i < job->count; i++) {
        const json_t *text = json_array_get(list, i);
        job->segments[i] = (cli_segment){.text = json_string_value(text), .bytes = json_string_length(text), .of = i};
    }
    return job;
}

bool serve_openai_queue(serve_request *r, serve_job *job, serve_reply (*answer)(serve_request *r), serve_reply *reply) {
    r->job = job;
    r->answer = answer;
    if (serve_queue_add(r->server, job, r->connection, r->client))
        return true;
    *reply = serve_reply_error(r, job->answer_code, "%s", job->failure ? job->failure : "out of memory");
    reply->retry_after = job->retry_after;
    return false;
}
