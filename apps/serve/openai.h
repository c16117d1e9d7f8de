/* OpenAI's API (openai*.c), its chats (chat.c) and its streams (sse.c). */
#ifndef TFM_SERVE_OPENAI_H
#define TFM_SERVE_OPENAI_H

#include "serve/request.h"

/* Which fields a path takes. */
enum { SERVE_CHAT_FIELDS = 1, SERVE_TEXT_FIELDS = 2, SERVE_EMBED_FIELDS = 4 };
/* Refuses fields of the wrong type, and those that are not supported unless they have a value that changes nothing;
 * names unknown ones in the log, each once (openai_fields.c). True, or false with the answer. */
bool serve_fields_check(const serve_request *r, unsigned where, serve_reply *reply);

/* What requests of OpenAI's API share (openai.c). The model that a request names, if it is for such a task: */
serve_model *serve_openai_model(serve_request *r, serve_task task, const char *doing, serve_reply *reply);
/* A field as a new list of texts, of which it is one or several; NULL with the answer. */
json_t *serve_openai_texts(serve_request *r, const char *name, serve_reply *reply);
/* A job with a segment for each text of the list, which it takes over. */
serve_job *serve_openai_job(serve_request *r, json_t *list, serve_model *model, serve_task task, serve_reply *reply);
bool serve_openai_queue(serve_request *r, serve_job *job, serve_reply (*answer)(serve_request *r), serve_reply *reply);

/* Objects of OpenAI's API (openai_json.c): how many tokens a job took, */
json_t *serve_openai_usage(const serve_job *job);
/* system_fingerprint, what wrote a text (static), */
const char *serve_openai_fingerprint(void);
/* a text of a generation, and an embedding. */
json_t *serve_openai_choice(const serve_job *job, size_t segment, int best);
json_t *serve_openai_vector(const float *numbers, size_t count, bool base64);

/* The messages of a chat as a list of one prompt (chat.c); NULL with the answer where the model's template is none that
 * is run here. */
json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply);

/* ---- Events (sse.c) ---------------------------------------------------------------------------------------------- */

/* Has the events of a job sent as they come, by its callbacks. False without memory. */
bool serve_stream_open(server *s, serve_job *job);
/* Whether there is something to send, so that the answer is 200. Under the server's lock. */
bool serve_stream_begun(const serve_job *job);
/* The answer that sends a job's events. */
enum MHD_Result serve_stream_send(serve_request *r);

#endif
