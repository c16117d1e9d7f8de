/* Requests and their answers (request.c, framing.c, reply.c), and texts as segments (segments.c). */
#ifndef TFM_SERVE_REQUEST_H
#define TFM_SERVE_REQUEST_H

#include "serve/jobs.h"

typedef struct serve_request serve_request;

/* ---- Answers (reply.c) ------------------------------------------------------------------------------------------- */

typedef struct serve_reply {
    int code;
    char *body; /* freed when it is sent */
    size_t bytes;
    const char *type;   /* static */
    const char *policy; /* of content; NULL: none may be used */
    int retry_after;
    bool close;
} serve_reply;

/* An answer of JSON, which takes `value` over; 500 where that is NULL. */
serve_reply serve_reply_json(int code, json_t *value);
/* 400, of a field of the request: OpenAI's `param`, and its `code` unless that is NULL. */
serve_reply serve_reply_field(const serve_request *r, const char *param, const char *error_code, const char *format,
                              ...) TFM_PRINTF(4, 5);
/* An error as the path's clients expect it: LibreTranslate's, or under /v1/ OpenAI's. */
serve_reply serve_reply_error(const serve_request *r, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Queues the answer and writes the log's line later, when it has been sent. */
enum MHD_Result serve_reply_send(serve_request *r, serve_reply reply);
/* Adds the headers that every answer has. */
void serve_reply_headers(const server *s, struct MHD_Response *response, const char *policy);

/* ---- Requests (request.c, framing.c) ----------------------------------------------------------------------------- */

struct serve_request {
    server *server;
    struct serve_connection *of;
    struct MHD_Connection *connection;
    const char *method, *url; /* libmicrohttpd's */
    const struct serve_route *route;
    char client[72];
    char *body;
    size_t bytes, room;
    bool too_large, out_of_memory, answered, counted;
    json_t *fields;   /* of the body, JSON or a form */
    json_t *guess;    /* the language that was detected, or a list of them; NULL: it was given */
    json_t *warnings; /* sentences for the answer; NULL: none */
    bool form;
    serve_job *job;
    serve_reply (*answer)(serve_request *r); /* makes the answer when the job is done */
    int code;                                /* of the answer */
    size_t sent, lines;
    double start;
};

/* Whether the headers leave a doubt where the body ends: the answer then, after which the connection is closed. */
bool serve_framing_error(serve_request *r, const char *version, serve_reply *reply);
/* Appends to the body. What is beyond the limit is read and forgotten. */
void serve_request_body(serve_request *r, const char *data, size_t bytes);
/* Makes `fields` of the body. True, or false with the answer. */
bool serve_request_parse(serve_request *r, serve_reply *refusal);
/* Drops the body, and of the fields what no answer asks for: the job has what it needs, and may wait for long. */
void serve_request_release(serve_request *r);
/* A field as text, or NULL. */
const char *serve_request_text(const serve_request *r, const char *name);
/* A whole number from low to high, `fallback` where there is none. False, with the answer, for anything else. */
bool serve_request_integer(const serve_request *r, const char *name, int low, int high, int fallback, int *out,
                           serve_reply *refusal);
/* Whether the request has one of the keys; also names the client. True, or false with the answer. */
bool serve_request_allowed(serve_request *r, serve_reply *refusal);
/* The characters of UTF-8. */
size_t serve_characters(const char *text, size_t bytes);

typedef struct serve_route {
    const char *method, *path;
    bool guarded;                                        /* wants a key, where there are any */
    bool (*begin)(serve_request *r, serve_reply *reply); /* false: `reply` is the answer; true: the job makes it */
} serve_route;

/* ---- Pieces of texts (segments.c) -------------------------------------------------------------------------------- */

/* A job of the lines of `texts`, or with `sentences` of the sentences of each; with `models` the text's own model works
 * on each, and the segments of one model are together. NULL with the answer where a limit forbids it or a text is
 * damaged. */
serve_job *serve_segments_split(serve_request *r, const char *const *texts, size_t count, bool sentences,
                                serve_model *const *models, serve_reply *refusal);
/* Text `of` of the request, put together from the best-th results of its segments; NULL without memory. */
char *serve_segments_join(const serve_job *job, size_t of, int best);

/* ---- What paths answer ------------------------------------------------------------------------------------------- */

bool serve_translate(serve_request *r, serve_reply *reply);
bool serve_languages(serve_request *r, serve_reply *reply);
bool serve_detect(serve_request *r, serve_reply *reply);
bool serve_settings(serve_request *r, serve_reply *reply);
bool serve_health(serve_request *r, serve_reply *reply);
bool serve_metrics(serve_request *r, serve_reply *reply);
bool serve_openapi(serve_request *r, serve_reply *reply);
bool serve_page(serve_request *r, serve_reply *reply);
bool serve_status(serve_request *r, serve_reply *reply);
bool serve_v1_models(serve_request *r, serve_reply *reply);
bool serve_v1_model(serve_request *r, serve_reply *reply);
bool serve_v1_embeddings(serve_request *r, serve_reply *reply);
bool serve_v1_completions(serve_request *r, serve_reply *reply);
bool serve_v1_chat(serve_request *r, serve_reply *reply);

#endif
