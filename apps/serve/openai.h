/* OpenAI's API (openai*.c), its chats (chat.c) and its streams (sse.c). */
#ifndef TFM_SERVE_OPENAI_H
#define TFM_SERVE_OPENAI_H

#include "serve/request.h"

/* The paths of a field. */
enum {
    SERVE_CHAT_FIELDS = 1,
    SERVE_TEXT_FIELDS = 2,
    SERVE_EMBED_FIELDS = 4,
    SERVE_RERANK_FIELDS = 8,
    SERVE_SCORE_FIELDS = 16,
    SERVE_SPARSE_FIELDS = 32,
    SERVE_TOKENIZE_FIELDS = 64,
    SERVE_DETOKENIZE_FIELDS = 128,
    SERVE_RESPONSES_FIELDS = 256
};
/* Refuses fields of the wrong type, and unsupported fields unless their value has no effect; logs each unknown field
 * once (openai_fields.c). True, or false with the error reply. */
bool serve_fields_check(const serve_request *r, unsigned where, serve_reply *reply);

/* Shared functions (openai.c). The model of a request, if it supports the task; reranking needs no name if one model
 * supports it: */
serve_model *serve_openai_model(serve_request *r, serve_task task, const char *doing, serve_reply *reply);
/* A field, a text or a list, as a new list of texts; NULL with the error reply. */
json_t *serve_openai_texts(serve_request *r, const char *name, serve_reply *reply);
/* A job with a segment for each text of the list; takes ownership. */
serve_job *serve_openai_job(serve_request *r, json_t *list, serve_model *model, serve_task task, serve_reply *reply);
bool serve_openai_queue(serve_request *r, serve_job *job, serve_reply (*answer)(serve_request *r), serve_reply *reply);

/* Options of a generation (openai_options.c). True, or false with the error reply. */
bool serve_openai_options(serve_request *r, serve_job *job, serve_reply *reply);
/* The first field of a job that needs an engine; NULL: none. */
const char *serve_engine_field(const serve_job *job);
/* Why a model has none. */
#define SERVE_NO_ENGINE "with the rules of the model's generation_config.json"
/* The grammar of the text (openai_grammar.c): response_format, tool_choice, and fields of vLLM and llama.cpp. True, or
 * false with the error reply. */
bool serve_openai_grammar(serve_request *r, serve_job *job, serve_reply *reply);

/* Inputs of texts or token ids (openai_ids.c). A field, a text, token ids or a list of either: a new list of texts,
 * empty ones for *lists of token ids, which the caller releases; NULL with the error reply. */
json_t *serve_openai_inputs(serve_request *r, const char *name, json_t **lists, serve_reply *reply);
/* Sets the job's ids. False with the error reply, which names the field. */
bool serve_openai_read_ids(const serve_request *r, serve_job *job, const json_t *lists, const char *name,
                           serve_reply *reply);
/* Whether the model takes as many ids as segment `i` has; if not, sets the error reply. */
bool serve_openai_check_length(const serve_request *r, const serve_job *job, size_t i, const char *name,
                               serve_reply *reply);
/* Makes prompts of the prompts with the `suffix` that follows the text, if there is one. Its characters count. True, or
 * false with the error reply. */
bool serve_openai_fill_in(const serve_request *r, serve_job *job, bool ids, serve_reply *reply);
/* Whether a value is an id of the vocabulary. */
bool serve_is_token_id(const json_t *value, const serve_model *model);

/* Objects of OpenAI's API (openai_json.c): token usage of a job, */
json_t *serve_openai_usage(const serve_job *job);
/* system_fingerprint (static), */
const char *serve_openai_fingerprint(void);
/* a text of a generation, and an embedding. */
/* Calls of tools get ids. `index` is that of the choice. */
void serve_openai_name_calls(const serve_job *job, int index, json_t *calls);
json_t *serve_openai_choice(const serve_job *job, size_t segment, int best, int index);
json_t *serve_openai_vector(const float *numbers, size_t count, bool base64);

/* Adds a token of a text (openai_logprobs.c). Called by the worker. */
void serve_logprobs_add(const serve_batch_item *item, int rank, int32_t id, const tfm_token_log_probs *log_probs);
/* The value of `logprobs`, from token `first` on; null if not requested. */
json_t *serve_logprobs_json(const serve_job *job, size_t segment, int rank, size_t first);

/* The messages of a chat as a list of one prompt (chat.c); NULL with the error reply. Checks the
 * fields of the request first. */
json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply);
/* The field of the messages: messages, or input of /v1/responses. */
const char *serve_chat_field(const serve_request *r);
/* Sets the format of the answers to that prompt, which are the job's texts. */
void serve_chat_format(const serve_request *r, serve_job *job);

/* ---- /v1/responses (responses.c, responses_events.c) ------------------------------------------------------------ */

/* The response of a job that is done. */
json_t *serve_response_json(const serve_job *job);
/* Add the events of a stream, under the server's lock: the first ones, a part of the text ("content") or of the
 * reasoning ("reasoning_content"), the last ones, and a failure. False without memory. */
void serve_response_begin(serve_job *job);
bool serve_response_delta(serve_job *job, const char *name, const char *text, size_t bytes);
void serve_response_finish(serve_job *job);
void serve_response_fail(serve_job *job);

/* ---- Events (sse.c) ---------------------------------------------------------------------------------------------- */

/* Streams the events of a job, by its callbacks. False without memory. */
bool serve_stream_open(server *s, serve_job *job);
/* Whether there is an event to send, so that the status is 200. Under the server's lock. */
bool serve_stream_begun(const serve_job *job);
/* The reply that streams a job's events. */
enum MHD_Result serve_stream_send(serve_request *r);

#endif
