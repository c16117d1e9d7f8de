/* OpenAI's API: completions of prompts and chats. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* Whether a value is one prompt of token ids. */
static bool is_ids(const json_t *value) {
    bool are = json_array_size(value) > 0;
    for (size_t i = 0; are && i < json_array_size(value); i++)
        are = json_is_number(json_array_get(value, i));
    return are;
}

/* The prompts of a request: texts, or empty texts and `lists` of token ids. NULL with the error reply. */
static json_t *read_prompts(serve_request *r, json_t **lists, serve_reply *reply) {
    json_t *value = json_object_get(r->fields, "prompt");
    const bool several = json_is_array(value) && is_ids(json_array_get(value, 0));
    *lists = is_ids(value) ? json_pack("[O]", value) : several ? json_incref(value) : NULL;
    if (!*lists)
        return serve_openai_texts(r, "prompt", reply);
    json_t *texts = json_array();
    bool good = true;
    for (size_t i = 0; i < json_array_size(*lists); i++) {
        good = good && is_ids(json_array_get(*lists, i));
        json_array_append_new(texts, json_string(""));
    }
    const size_t most = (size_t)r->server->options->limits.lines;
    if (good && json_array_size(*lists) <= most)
        return texts;
    *reply = good ? serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "prompt has %zu prompts: at most %zu are taken",
                                      json_array_size(*lists), most)
                  : serve_reply_field(r, "prompt", NULL, "Invalid request: prompt mixes token ids and something else");
    json_decref(texts);
    json_decref(*lists);
    return NULL;
}

/* The ids of segment `i`: given, or of its text; a chat template has already added special tokens. */
static tfm_status encode(serve_job *job, size_t i, const json_t *given) {
    const cli_segment *segment = &job->segments[i];
    const json_t *list = json_array_get(given, i);
    if (!given)
        return tfm_tokenizer_encode_with(job->key.model->tokenizer, &job->ids[i], &job->id_counts[i], TFM_TARGET,
                                         segment->text, segment->bytes,
                                         &(tfm_encode_options){.no_special_tokens = job->chat});
    job->id_counts[i] = json_array_size(list);
    job->ids[i] = calloc(job->id_counts[i], sizeof(**job->ids));
    for (size_t k = 0; job->ids[i] && k < job->id_counts[i]; k++) {
        const json_t *id = json_array_get(list, k);
        job->ids[i][k] = serve_openai_is_id(id, job->key.model) ? (int32_t)json_number_value(id) : -1;
    }
    return job->ids[i] ? TFM_OK : TFM_ERROR_MEMORY;
}

/* Encodes the prompts, to refuse too long ones before queueing. */
static bool encode_all(serve_request *r, serve_job *job, const json_t *given, serve_reply *reply) {
    const serve_model *model = job->key.model;
    const char *name = job->chat ? "messages" : "prompt";
    job->ids = calloc(job->count, sizeof(*job->ids));
    job->id_counts = calloc(job->count, sizeof(*job->id_counts));
    tfm_status status = job->ids && job->id_counts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < job->count && status == TFM_OK; i++) {
        status = encode(job, i, given);
        for (size_t k = 0; status == TFM_OK && given && k < job->id_counts[i]; k++)
            if (job->ids[i][k] < 0) {
                *reply = serve_reply_field(r, name, NULL, "Invalid request: token ids of prompt are from 0 to %d",
                                           model->vocabulary - 1);
                return false;
            }
        if (status == TFM_OK && job->id_counts[i] > (size_t)model->positions) {
            *reply =
                serve_reply_field(r, name, "context_length_exceeded",
                                  "This model's maximum context length is %d tokens, and %s %zu has %zu: shorten it",
                                  model->positions, job->chat ? "chat" : "prompt", i, job->id_counts[i]);
            return false;
        }
    }
    if (status == TFM_ERROR_INPUT || status == TFM_ERROR_ARGUMENT)
        *reply = serve_reply_field(r, name, NULL, "Invalid request: %s", tfm_error_message());
    else if (status != TFM_OK)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the request");
    return status == TFM_OK;
}

/* ---- Answers --------------------------------------------------------------------------------------------------- */

/* The next text to return: in order if all are, else the best one left. */
static int next_choice(const serve_job *job, const serve_result *result, int choice, bool *taken) {
    int best = -1;
    if (job->choices == job->key.n_best)
        return choice;
    for (int k = 0; k < job->key.n_best; k++)
        if (!taken[k] && (best < 0 || result->log_prob[k] > result->log_prob[best]))
            best = k;
    taken[best] = true;
    return best;
}

static serve_reply answer_texts(serve_request *r) {
    const serve_job *job = r->job;
    json_t *choices = json_array();
    for (size_t i = 0; i < job->count; i++) {
        bool taken[SERVE_TEXTS] = {false};
        for (int k = 0; k < job->choices; k++)
            json_array_append_new(choices, serve_openai_choice(job, i, next_choice(job, &job->results[i], k, taken),
                                                               (int)i * job->choices + k));
    }
    return serve_reply_json(MHD_HTTP_OK, json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o}", "id", job->id, "object",
                                                   job->chat ? "chat.completion" : "text_completion", "created",
                                                   (json_int_t)job->created, "model", job->key.model->name,
                                                   "system_fingerprint", serve_openai_fingerprint(), "choices", choices,
                                                   "usage", serve_openai_usage(job)));
}

/* The job takes ownership of `prompts`; `ids`: prompts of token ids. */
static bool begin_texts(serve_request *r, serve_model *model, json_t *prompts, const json_t *ids, bool chat,
                        serve_reply *reply) {
    serve_job *job = prompts ? serve_openai_job(r, prompts, model, SERVE_GENERATE, reply) : NULL;
    if (!job)
        return false;
    job->chat = chat;
    if (chat)
        serve_chat_format(r, job);
    const bool streams = json_is_true(json_object_get(r->fields, "stream"));
    bool good = serve_openai_options(r, job, reply) && encode_all(r, job, ids, reply);
    if (good && streams && !serve_stream_open(r->server, job)) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the stream");
        good = false;
    }
    if (!good) {
        serve_job_free(job);
        return false;
    }
    return serve_openai_queue(r, job, answer_texts, reply);
}

bool serve_v1_completions(serve_request *r, serve_reply *reply) {
    serve_model *model = serve_openai_model(r, SERVE_GENERATE, "generate text", reply);
    json_t *ids = NULL, *prompts = model ? read_prompts(r, &ids, reply) : NULL;
    const bool waits = prompts && begin_texts(r, model, prompts, ids, false, reply);
    if (prompts)
        json_decref(ids);
    return waits;
}

bool serve_v1_chat(serve_request *r, serve_reply *reply) {
    serve_model *model = serve_openai_model(r, SERVE_GENERATE, "generate text", reply);
    json_t *prompt = model ? serve_chat_prompt(r, model, reply) : NULL;
    return prompt && begin_texts(r, model, prompt, NULL, true, reply);
}
