/* OpenAI's API: completions of prompts and chats. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* The ids of a segment's text; a chat template has already added special tokens. */
static tfm_status encode(serve_job *job, size_t i) {
    const cli_segment *segment = &job->segments[i];
    return tfm_tokenizer_encode_with(job->key.model->tokenizer, &job->ids[i], &job->id_counts[i], TFM_TARGET,
                                     segment->text, segment->bytes,
                                     &(tfm_encode_options){.no_special_tokens = job->chat});
}

/* Encodes the prompts, to refuse too long ones before queueing. */
static bool encode_all(serve_request *r, serve_job *job, serve_reply *reply) {
    const char *name = job->chat ? serve_chat_field(r) : "prompt";
    job->ids = calloc(job->count, sizeof(*job->ids));
    job->id_counts = calloc(job->count, sizeof(*job->id_counts));
    tfm_status status = job->ids && job->id_counts ? TFM_OK : TFM_ERROR_MEMORY;
    for (size_t i = 0; i < job->count && status == TFM_OK; i++) {
        status = encode(job, i);
        if (status == TFM_OK && !serve_openai_check_length(r, job, i, name, reply))
            return false;
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
    if (job->response.head)
        return serve_reply_json(MHD_HTTP_OK, serve_response_json(job));
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

/* Gives prompts of token ids their texts, which the answer repeats. */
static bool decode_prompts(const serve_request *r, serve_job *job, serve_reply *reply) {
    for (size_t i = 0; i < job->count; i++) {
        char *text = NULL;
        const tfm_status status =
            tfm_tokenizer_decode(job->key.model->tokenizer, &text, job->ids[i], job->id_counts[i]);
        if (status != TFM_OK || json_array_set_new(job->source, i, json_string(text)) != 0) {
            *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", tfm_error_message());
            tfm_text_free(&text);
            return false;
        }
        tfm_text_free(&text);
        job->segments[i].text = json_string_value(json_array_get(job->source, i));
    }
    return true;
}

/* Answers a job without new tokens: prompts alone. */
static serve_reply answer_prompts(serve_request *r, serve_job *job) {
    for (size_t i = 0; i < job->count; i++) {
        job->results[i].source_tokens = job->id_counts[i];
        for (int k = 0; k < job->key.n_best; k++)
            job->results[i].finish[k] = "length";
    }
    r->job = job;
    const serve_reply reply = answer_texts(r);
    r->job = NULL;
    return reply;
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
    bool good = serve_openai_options(r, job, reply) && serve_openai_fill_in(r, job, ids != NULL, reply) &&
                (ids ? serve_openai_read_ids(r, job, ids, "prompt", reply) : encode_all(r, job, reply));
    if (good && ids && job->echo)
        good = decode_prompts(r, job, reply);
    if (good && job->generate.max_new_tokens == 0) {
        *reply = answer_prompts(r, job);
        good = false;
    }
    job->response.head = json_incref(r->response);
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
    json_t *ids = NULL, *prompts = model ? serve_openai_inputs(r, "prompt", &ids, reply) : NULL;
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
