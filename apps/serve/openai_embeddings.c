/* OpenAI's API: embeddings. */
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* A list of the vectors of a text's tokens. */
static json_t *token_vectors_json(const serve_job *job, size_t segment, bool packed) {
    const serve_result *result = &job->results[segment];
    json_t *list = json_array();
    for (size_t i = 0; i < result->vector_count; i++)
        json_array_append_new(
            list, serve_openai_vector(result->vectors + i * (size_t)job->width, (size_t)job->width, packed));
    return list;
}

static serve_reply answer_vectors(serve_request *r) {
    const serve_job *job = r->job;
    const bool tokens = job->key.model->token_vectors;
    const char *format = serve_request_text(r, "encoding_format");
    const bool packed = format && strcmp(format, "base64") == 0;
    json_t *data = json_array();
    if (!tokens)
        tfm_embeddings_truncate(job->vectors, job->count, job->width, job->dimensions);
    for (size_t i = 0; i < job->count; i++) {
        json_t *value =
            tokens ? token_vectors_json(job, i, packed)
                   : serve_openai_vector(job->vectors + i * (size_t)job->dimensions, (size_t)job->dimensions, packed);
        json_array_append_new(data,
                              json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i, "embedding", value));
    }
    return serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:o, s:s, s:o}", "object", "list", "data", data, "model",
                                                   job->key.model->name, "usage", serve_openai_usage(job)));
}

/* Checks the fields, and reads the number of dimensions. */
static bool check_embeddings(serve_request *r, const serve_model *model, int *dimensions, serve_reply *reply) {
    const char *format = serve_request_text(r, "encoding_format");
    if (!serve_fields_check(r, SERVE_EMBED_FIELDS, reply))
        return false;
    if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0) {
        *reply = serve_reply_field(r, "encoding_format", NULL, "Invalid request: encoding_format is float or base64");
        return false;
    }
    const char *type = serve_request_text(r, "input_type");
    if (type && !model->token_vectors) {
        *reply = serve_reply_field(r, "input_type", "unsupported_parameter",
                                   "Invalid request: input_type is for models of late interaction: leave it out");
        return false;
    }
    if (type && strcmp(type, "query") != 0 && strcmp(type, "document") != 0) {
        *reply = serve_reply_field(r, "input_type", NULL, "Invalid request: input_type is query or document");
        return false;
    }
    return serve_request_integer(r, "dimensions", model->token_vectors ? model->width : 1, model->width, model->width,
                                 dimensions, reply);
}

bool serve_v1_embeddings(serve_request *r, serve_reply *reply) {
    int dimensions = 0;
    json_t *ids = NULL;
    serve_model *model = serve_openai_model(r, SERVE_EMBED, "compute embeddings", reply);
    json_t *list =
        model && check_embeddings(r, model, &dimensions, reply) ? serve_openai_inputs(r, "input", &ids, reply) : NULL;
    serve_job *job = list ? serve_openai_job(r, list, model, SERVE_EMBED, reply) : NULL;
    const char *prompt = serve_request_text(r, "prompt_name");
    static uint64_t numbers;
    if (job && ids && prompt) {
        *reply = serve_reply_field(r, "prompt_name", NULL, "Invalid request: prompt_name is for texts, not token ids");
        serve_job_free(job), job = NULL;
    }
    if (job && ids && !serve_openai_read_ids(r, job, ids, "input", reply))
        serve_job_free(job), job = NULL;
    if (job) {
        job->dimensions = dimensions;
        job->key.token_ids = ids != NULL;
        const char *type = serve_request_text(r, "input_type");
        job->key.query = type && strcmp(type, "query") == 0;
    }
    json_decref(ids);
    if (job && prompt) { /* a batch has one prompt */
        job->prompt_name = strdup(prompt);
        job->key.alone = ++numbers;
    }
    return job && serve_openai_queue(r, job, answer_vectors, reply);
}
