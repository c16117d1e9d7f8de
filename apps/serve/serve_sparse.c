/* Sparse embeddings (SPLADE): /embed_sparse in the format of text-embeddings-inference. */
#include <stdlib.h>
#include "serve/openai.h"
#include "serve/server.h"

static serve_reply answer_sparse(serve_request *r) {
    const serve_job *job = r->job;
    json_t *list = json_array();
    for (size_t i = 0; i < job->count; i++)
        json_array_append(list, job->results[i].detail);
    return serve_reply_json(MHD_HTTP_OK, list);
}

bool serve_embed_sparse(serve_request *r, serve_reply *reply) {
    const serve_models *models = &r->server->models;
    if (!json_object_get(r->fields, "model") && models->count == 1)
        json_object_set_new(r->fields, "model", json_string(models->items[0]->name));
    serve_model *model = serve_openai_model(r, SERVE_EMBED, "compute embeddings", reply);
    json_t *list =
        model && serve_fields_check(r, SERVE_SPARSE_FIELDS, reply) ? serve_openai_texts(r, "inputs", reply) : NULL;
    serve_job *job = list ? serve_openai_job(r, list, model, SERVE_EMBED, reply) : NULL;
    if (job)
        job->key.sparse = true;
    return job && serve_openai_queue(r, job, answer_sparse, reply);
}

static bool on_vector(void *user, const tfm_sparse_embedding *v) {
    const serve_batch_item *item = &((const serve_batch_item *)user)[v->line];
    json_t *list = json_array();
    json_decref(item->job->results[item->segment].detail); /* of a batch that is repeated */
    for (size_t i = 0; i < v->count; i++)
        json_array_append_new(list, json_pack("{s:i, s:f}", "index", v->ids[i], "value", (double)v->weights[i]));
    item->job->results[item->segment].detail = list;
    return list != NULL;
}

tfm_status serve_work_sparse(const serve_instance *instance, const serve_batch_item *items, const char *const *lines,
                             size_t count, const tfm_embed_options *options) {
    const tfm_status status =
        tfm_embed_sparse(instance->model, lines, count, options, on_vector, (void *)(uintptr_t)items);
    for (size_t i = 0; i < count && (status == TFM_ERROR_ARGUMENT || status == TFM_ERROR_UNSUPPORTED); i++)
        serve_job_fail(items[i].job, MHD_HTTP_BAD_REQUEST, "The model '%s' has no sparse embeddings: %s",
                       items[i].job->key.model->name, tfm_error_message());
    return status == TFM_ERROR_ARGUMENT || status == TFM_ERROR_UNSUPPORTED ? TFM_OK : status;
}
