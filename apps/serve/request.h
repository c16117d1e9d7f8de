/* Requests and replies (request.c, framing.c, reply.c), and segments of texts (segments.c). */
#ifndef TFM_SERVE_REQUEST_H
#define TFM_SERVE_REQUEST_H

#include "serve/jobs.h"

typedef struct serve_request serve_request;

/* ---- Replies (reply.c) ------------------------------------------------------------------------------------------- */

typedef struct serve_reply {
    int code;
    char *body; /* freed after sending */
    size_t bytes;
    const char *type;   /* static */
    const char *policy; /* content security policy; NULL: allows nothing */
    int retry_after;
    bool close;
    bool attachment; /* a browser stores it */
} serve_reply;

/* A JSON reply; takes ownership of `value`; 500 if it is NULL. */
serve_reply serve_reply_json(int code, json_t *value);
/* 400 for a field of the request: OpenAI's `param`, and `code` unless NULL. */
serve_reply serve_reply_field(const serve_request *r, const char *param, const char *error_code, const char *format,
                              ...) TFM_PRINTF(4, 5);
/* An error in the format of LibreTranslate, or of OpenAI under /v1/. */
serve_reply serve_reply_error(const serve_request *r, int code, const char *format, ...) TFM_PRINTF(3, 4);
/* Queues the reply; its log line is written after sending. */
enum MHD_Result serve_reply_send(serve_request *r, serve_reply reply);
/* Adds the common headers. */
void serve_reply_headers(const server *s, struct MHD_Response *response, const char *policy);

/* ---- Requests (request.c, framing.c, keys.c)
 * ----------------------------------------------------------------------------- */

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
    char file[256];   /* the name of the file of a form's field `file`, only for its end */
    json_t *guess;    /* detected language, or a list; NULL: it was given */
    json_t *response; /* of /v1/responses: the fields that repeat the request */
    json_t *warnings; /* messages for the reply; NULL: none */
    bool form;
    serve_job *job;
    serve_reply (*answer)(serve_request *r); /* makes the reply when the job is done */
    int code;                                /* status of the reply */
    size_t sent, lines;
    int chars; /* maximum characters of its texts */
    double start;
};

/* Whether the body length is ambiguous: sets the reply, after which the connection is closed. */
bool serve_framing_error(serve_request *r, const char *version, serve_reply *reply);
/* Appends to the body. Bytes beyond the limit are discarded. */
void serve_request_body(serve_request *r, const char *data, size_t bytes);
/* Parses the body into `fields`. True, or false with the error reply. */
bool serve_request_parse(serve_request *r, serve_reply *refusal);
/* Frees the body, and fields that the reply does not need: a job may wait for long. */
void serve_request_release(serve_request *r);
/* A field as text, or NULL. */
const char *serve_request_text(const serve_request *r, const char *name);
/* An integer from low to high, `fallback` if absent. False, with the error reply, for anything else. */
bool serve_request_integer(const serve_request *r, const char *name, int low, int high, int fallback, int *out,
                           serve_reply *refusal);
/* Checks the API key and its limits, and names the client. True, or false with the error reply. */
bool serve_request_allowed(serve_request *r, serve_reply *refusal);
/* Number of characters of UTF-8 text. */
size_t serve_characters(const char *text, size_t bytes);

typedef struct serve_route {
    const char *method, *path;
    bool guarded;                                        /* requires a key, if there are any */
    bool (*begin)(serve_request *r, serve_reply *reply); /* false: `reply` is set; true: the job makes it */
} serve_route;

/* ---- Segments of texts (segments.c) ------------------------------------------------------------------------------ */

/* A job of the lines of `texts`, or with `sentences` of their sentences; `models`: a model for each text, with the
 * segments of one model together. NULL with the error reply if a limit is exceeded or a text is invalid. */
serve_job *serve_segments_split(serve_request *r, const char *const *texts, size_t count, bool sentences,
                                serve_model *const *models, serve_reply *refusal);
/* Text `of` of the request, joined from the best-th results of its segments; NULL without memory. */
char *serve_segments_join(const serve_job *job, size_t of, int best);

/* ---- Handlers ---------------------------------------------------------------------------------------------------- */

bool serve_translate(serve_request *r, serve_reply *reply);
bool serve_translate_file(serve_request *r, serve_reply *reply);
bool serve_download_file(serve_request *r, serve_reply *reply);
/* The ends of names of files that are translated. */
json_t *serve_file_formats(void);
bool serve_languages(serve_request *r, serve_reply *reply);
bool serve_detect(serve_request *r, serve_reply *reply);
bool serve_settings(serve_request *r, serve_reply *reply);
bool serve_health(serve_request *r, serve_reply *reply);
bool serve_ready(serve_request *r, serve_reply *reply);
bool serve_metrics(serve_request *r, serve_reply *reply);
bool serve_openapi(serve_request *r, serve_reply *reply);
bool serve_page(serve_request *r, serve_reply *reply);
bool serve_status(serve_request *r, serve_reply *reply);
bool serve_v1_models(serve_request *r, serve_reply *reply);
bool serve_v1_model(serve_request *r, serve_reply *reply);
bool serve_v1_embeddings(serve_request *r, serve_reply *reply);
bool serve_embed_sparse(serve_request *r, serve_reply *reply);
bool serve_v1_rerank(serve_request *r, serve_reply *reply);
bool serve_v1_score(serve_request *r, serve_reply *reply);
bool serve_v1_completions(serve_request *r, serve_reply *reply);
bool serve_v1_chat(serve_request *r, serve_reply *reply);
bool serve_v1_responses(serve_request *r, serve_reply *reply);
bool serve_tokenize(serve_request *r, serve_reply *reply);
bool serve_detokenize(serve_request *r, serve_reply *reply);

#endif
