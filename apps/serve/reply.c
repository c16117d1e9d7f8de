/* Replies: headers, JSON bodies, errors. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "serve/request.h"
#include "serve/server.h"

/* Content security policy of replies other than the page. */
static const char NOTHING[] = "default-src 'none'; frame-ancestors 'none'";

serve_reply serve_reply_json(int code, json_t *value) {
    serve_reply reply = {.code = code, .type = "application/json; charset=utf-8"};
    reply.body = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!reply.body) {
        reply.code = MHD_HTTP_INTERNAL_SERVER_ERROR;
        reply.body = strdup("{\"error\":\"out of memory for the answer\"}");
    }
    reply.bytes = reply.body ? strlen(reply.body) : 0;
    return reply;
}

/* OpenAI's error type for a status. */
static const char *kind_of(int code) {
    return code == MHD_HTTP_UNAUTHORIZED        ? "authentication_error"
           : code == MHD_HTTP_TOO_MANY_REQUESTS ? "rate_limit_error"
           : code >= 500                        ? "server_error"
                                                : "invalid_request_error";
}

serve_reply serve_reply_field(const serve_request *r, const char *param, const char *error_code, const char *format,
                              ...) {
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    json_t *text = json_string(sentence);
    if (strncmp(r->url, "/v1/", 4) != 0 || !text) {
        json_decref(text);
        return serve_reply_error(r, MHD_HTTP_BAD_REQUEST, "%s", sentence);
    }
    return serve_reply_json(MHD_HTTP_BAD_REQUEST,
                            json_pack("{s:{s:o, s:s, s:s, s:s?}}", "error", "message", text, "type",
                                      kind_of(MHD_HTTP_BAD_REQUEST), "param", param, "code", error_code));
}

serve_reply serve_reply_error(const serve_request *r, int code, const char *format, ...) {
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    json_t *text = json_string(sentence);
    if (!text) /* a quotation in it is not UTF-8, or was truncated within a character */
        text = json_string(MHD_get_reason_phrase_for((unsigned)code));
    if (strncmp(r->url, "/v1/", 4) != 0)
        return serve_reply_json(code, json_pack("{s:o}", "error", text));
    return serve_reply_json(code, json_pack("{s:{s:o, s:s, s:n, s:s?}}", "error", "message", text, "type",
                                            kind_of(code), "param", "code",
                                            code == MHD_HTTP_UNAUTHORIZED ? "invalid_api_key"
                                            : code == MHD_HTTP_NOT_FOUND  ? "not_found"
                                                                          : NULL));
}

static void add(struct MHD_Response *response, const char *name, const char *value) {
    MHD_add_response_header(response, name, value);
}

void serve_reply_headers(const server *s, struct MHD_Response *response, const char *policy) {
    add(response, "Cache-Control", "no-store");
    add(response, "Content-Security-Policy", policy ? policy : NOTHING);
    add(response, "X-Content-Type-Options", "nosniff");
    add(response, "X-Frame-Options", "DENY");
    add(response, "Referrer-Policy", "no-referrer");
    add(response, "Cross-Origin-Resource-Policy", s->options->origin ? "cross-origin" : "same-origin");
    add(response, "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
    if (s->options->certificate)
        add(response, "Strict-Transport-Security", "max-age=31536000");
    if (s->options->origin) {
        add(response, "Access-Control-Allow-Origin", s->options->origin);
        add(response, "Access-Control-Allow-Headers",
            "Authorization, Content-Type, *"); /* OpenAI's clients add headers */
        add(response, "Access-Control-Allow-Methods", "GET, POST");
        add(response, "Vary", "Origin");
    }
}

/* The methods of a path. */
static const char *methods_of(const serve_request *r) {
    return r->route && strcmp(r->route->method, "POST") == 0 ? "POST" : "GET, HEAD";
}

/* Replies of OpenAI's API end in a line end, like the original, for curl on a terminal. */
static void end_line(const serve_request *r, serve_reply *reply) {
    char *text = strncmp(r->url, "/v1/", 4) == 0 && reply->body ? realloc(reply->body, reply->bytes + 2) : NULL;
    if (!text)
        return;
    text[reply->bytes++] = '\n';
    text[reply->bytes] = 0;
    reply->body = text;
}

enum MHD_Result serve_reply_send(serve_request *r, serve_reply reply) {
    end_line(r, &reply);
    struct MHD_Response *response =
        reply.body ? MHD_create_response_from_buffer(reply.bytes, reply.body, MHD_RESPMEM_MUST_FREE)
                   : MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response) {
        free(reply.body);
        return MHD_NO;
    }
    if (reply.type)
        add(response, "Content-Type", reply.type);
    if (reply.attachment)
        add(response, "Content-Disposition", "attachment");
    if (reply.retry_after > 0) {
        char seconds[16];
        snprintf(seconds, sizeof(seconds), "%d", reply.retry_after);
        add(response, "Retry-After", seconds);
    }
    if (reply.code == MHD_HTTP_UNAUTHORIZED)
        add(response, "WWW-Authenticate", "Bearer");
    if (reply.code == MHD_HTTP_METHOD_NOT_ALLOWED)
        add(response, "Allow", methods_of(r));
    if (reply.close || r->server->draining)
        add(response, "Connection", "close");
    serve_reply_headers(r->server, response, reply.policy);
    r->code = reply.code;
    r->sent = reply.bytes;
    r->answered = true;
    const enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)reply.code, response);
    MHD_destroy_response(response);
    return result;
}
