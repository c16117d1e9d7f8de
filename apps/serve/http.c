/* HTTP by libmicrohttpd: port, routes, requests and replies. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include "serve/openai.h"
#include "serve/server.h"

static const serve_route ROUTES[] = {
    {"POST", "/translate", true, serve_translate},
    {"POST", "/translate_file", true, serve_translate_file},
    {"GET", "/download_file/{file}", false, serve_download_file},
    {"POST", "/detect", true, serve_detect},
    {"GET", "/languages", false, serve_languages},
    {"GET", "/frontend/settings", false, serve_settings},
    {"GET", "/health", false, serve_health},
    {"GET", "/ready", false, serve_ready},
    {"GET", "/status", false, serve_status},
    {"GET", "/metrics", true, serve_metrics},
    {"GET", "/openapi.json", false, serve_openapi},
    {"GET", "/", false, serve_page},
    {"GET", "/v1/models", true, serve_v1_models},
    {"GET", "/v1/models/{model}", true, serve_v1_model},
    {"POST", "/v1/embeddings", true, serve_v1_embeddings},
    {"POST", "/embed_sparse", true, serve_embed_sparse},
    {"POST", "/v1/rerank", true, serve_v1_rerank},
    {"POST", "/rerank", true, serve_v1_rerank},
    {"POST", "/v1/score", true, serve_v1_score},
    {"POST", "/v1/completions", true, serve_v1_completions},
    {"POST", "/v1/chat/completions", true, serve_v1_chat},
    {"POST", "/v1/responses", true, serve_v1_responses},
    {"POST", "/tokenize", true, serve_tokenize},
    {"POST", "/detokenize", true, serve_detokenize},
};

/* ---- Requests -------------------------------------------------------------------------------------------------- */

/* Queues a reply, and starts its send timeout. */
static enum MHD_Result send_answer(serve_request *r, serve_reply reply) {
    serve_connection_busy(r->server, r->of, false);
    return serve_reply_send(r, reply);
}

/* The client's address without its port. */
static void name_client(char *out, size_t bytes, struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    snprintf(out, bytes, "unknown");
    if (address && address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, out, (socklen_t)bytes);
    else if (address && address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, out, (socklen_t)bytes);
}

/* Whether a path matches a route, which may end in a name: "/v1/models/{model}". */
static bool is_path(const char *url, const char *path) {
    const char *name = strchr(path, '{');
    const size_t length = name ? (size_t)(name - path) : 0;
    return name ? strncmp(url, path, length) == 0 && url[length] : strcmp(url, path) == 0;
}

/* The path of a request's target, which may be absolute: "http://host/path" (RFC 9112, 3.2.2). */
static const char *path_of(const char *url) {
    const char *host = strncasecmp(url, "http://", 7) == 0    ? url + 7
                       : strncasecmp(url, "https://", 8) == 0 ? url + 8
                                                              : NULL;
    const char *path = host ? strchr(host, '/') : url;
    return path ? path : "/";
}

static serve_request *begin_request(server *s, struct MHD_Connection *connection, const char *url, const char *method) {
    serve_request *r = calloc(1, sizeof(*r));
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!r)
        return NULL;
    *r = (serve_request){
        .server = s, .connection = connection, .start = cli_seconds(), .of = serve_connection_of(connection)};
    r->chars = s->options->limits.chars;
    r->url = path_of(url);
    r->method = strcmp(method, "HEAD") == 0 ? "GET" : method;
    name_client(r->client, sizeof(r->client), connection);
    for (size_t i = 0; i < CLI_COUNT(ROUTES); i++)
        if (is_path(r->url, ROUTES[i].path))
            r->route = &ROUTES[i];
    r->too_large =
        length && strtoull(length, NULL, 10) > (unsigned long long)s->options->limits.chars * 12 + (64 << 10);
    atomic_fetch_add(&s->requests, 1);
    return r;
}

static serve_reply too_large(const serve_request *r) {
    serve_reply reply =
        serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "Invalid request: the body exceeds the limit of %d characters",
                          r->server->options->limits.chars);
    reply.close = true;
    return reply;
}

/* Handles a complete request: sets the reply, or returns false if a job makes it. */
static bool answer_now(serve_request *r, serve_reply *reply) {
    server *s = r->server;
    if (r->too_large) {
        *reply = too_large(r);
    } else if (s->options->origin && strcmp(r->method, "OPTIONS") == 0 && r->route) {
        *reply = (serve_reply){.code = MHD_HTTP_NO_CONTENT};
    } else if (!r->route) {
        *reply = serve_reply_error(r, MHD_HTTP_NOT_FOUND, "There is nothing at this path; see /openapi.json");
    } else if (strcmp(r->method, r->route->method) != 0) {
        *reply = serve_reply_error(r, MHD_HTTP_METHOD_NOT_ALLOWED, "%s takes %s", r->route->path, r->route->method);
    } else if (strcmp(r->method, "POST") == 0 && !serve_request_parse(r, reply)) {
        return true;
    } else if (r->route->guarded && !serve_request_allowed(r, reply)) {
        return true;
    } else {
        return !r->route->begin(r, reply);
    }
    return true;
}

/* The reply of a finished job. */
static serve_reply answer_job(serve_request *r) {
    const serve_job *job = r->job;
    if (serve_job_stopped(job) == SERVE_CLIENT_CLOSED && !job->answer_code)
        return (serve_reply){.code = 499, .close = true}; /* the client has disconnected */
    if (!job->answer_code)
        return r->answer(r);
    serve_reply reply = serve_reply_error(r, job->answer_code, "%s", job->failure ? job->failure : "out of memory");
    reply.retry_after = job->retry_after;
    return reply;
}

/* Whether the reply is a stream: errors before its first event have their own status. */
static bool streams(const serve_request *r) {
    server *s = r->server;
    pthread_mutex_lock(&s->lock);
    const bool is = r->job->stream && serve_stream_begun(r->job);
    pthread_mutex_unlock(&s->lock);
    return is;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **state) {
    serve_request *r = *state;
    serve_reply reply;
    if (!r) {
        *state = r = begin_request(user, connection, url, method);
        if (!r)
            return MHD_NO;
        if (serve_framing_error(r, version, &reply))
            return serve_reply_send(r, reply);
        return r->too_large ? serve_reply_send(r, too_large(r)) : MHD_YES;
    }
    if (*bytes > 0) {
        serve_request_body(r, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    if (r->answered)
        return MHD_YES;
    if (r->job) /* its connection resumes */
        return streams(r) ? serve_stream_send(r) : send_answer(r, answer_job(r));
    serve_connection_busy(r->server, r->of, true);
    if (answer_now(r, &reply))
        return send_answer(r, reply);
    serve_request_release(r);
    return MHD_YES; /* suspended */
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *bytes, void **state) {
    server *s = user;
    pthread_mutex_lock(&s->http);
    const enum MHD_Result result = handle(user, connection, url, method, version, data, bytes, state);
    pthread_mutex_unlock(&s->http);
    return result;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why) {
    server *s = user;
    serve_request *r = *state;
    (void)connection, (void)why;
    if (!r)
        return;
    const double seconds = cli_seconds() - r->start;
    serve_connection_busy(s, r->of, false);
    serve_histogram_observe(&s->counters.seconds, seconds);
    if (r->code >= 100 && r->code < 600)
        atomic_fetch_add(&s->counters.classes[r->code / 100], 1);
    serve_log_request(r);
    if (r->job)
        serve_queue_detach(s, r->job);
    json_decref(r->fields);
    json_decref(r->guess);
    json_decref(r->response);
    json_decref(r->warnings);
    free(r->body);
    free(r);
    *state = NULL;
    atomic_fetch_sub(&s->requests, 1);
}

/* ---- The port -------------------------------------------------------------------------------------------------- */

static int bind_to(const struct addrinfo *address) {
    const int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int open_port(serve_options *o) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct sockaddr_storage taken;
    socklen_t length = sizeof(taken);
    char port[16];
    snprintf(port, sizeof(port), "%d", o->port);
    const int error = getaddrinfo(o->host, port, &hints, &found);
    if (error) {
        cli_fail("cannot listen on --host %s: %s; give an address of this machine, such as 127.0.0.1", o->host,
                 gai_strerror(error));
        return -1;
    }
    const int fd = bind_to(found);
    freeaddrinfo(found);
    if (fd < 0)
        cli_fail("cannot listen on --host %s, --port %d: %s; give %s", o->host, o->port, strerror(errno),
                 errno == EADDRNOTAVAIL ? "an address of this machine, such as 127.0.0.1"
                                        : "another --port, or 0 for any that is free");
    else if (getsockname(fd, (struct sockaddr *)&taken, &length) == 0)
        o->port = ntohs(taken.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&taken)->sin6_port
                                                    : ((struct sockaddr_in *)&taken)->sin_port);
    return fd;
}

static void no_log(void *user, const char *format, va_list args) {
    (void)user, (void)format, (void)args; /* messages about client errors */
}

static char *read_file(const char *option, const char *path) {
    errno = 0;
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *text = file ? calloc(1, (1 << 20) + 1) : NULL;
    if (text && fread(text, 1, 1 << 20, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    if (!text && path)
        cli_fail("cannot read --%s %s: %s; give a readable PEM file", option, path,
                 errno ? strerror(errno) : "it is empty");
    return text;
}

int serve_http_start(server *s) {
    serve_options *o = s->options;
    char *certificate = read_file("tls-cert", o->certificate);
    char *key = certificate ? read_file("tls-key", o->certificate_key) : NULL;
    const int fd = o->certificate && !key ? -1 : open_port(o); /* both options, or neither */
    /* Not epoll: with it libmicrohttpd 0.9.75 sometimes reads nothing from simultaneous connections until they time
     * out. */
    const unsigned flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    const struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate}, {MHD_OPTION_HTTPS_MEM_KEY, 0, key}, {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    if (fd >= 0)
        s->daemon = MHD_start_daemon(
            flags | (certificate ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, no_log,
            NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
            MHD_OPTION_NOTIFY_CONNECTION, serve_connection_notify, s, MHD_OPTION_CONNECTION_LIMIT,
            (unsigned)o->limits.connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->limits.seconds,
            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, certificate ? secure : plain, MHD_OPTION_END);
    free(certificate);
    free(key);
    if (s->daemon)
        return CLI_OK;
    if (fd >= 0) {
        close(fd);
        return cli_fail("the server does not start%s",
                        o->certificate ? ": is the certificate PEM, and the key its own?" : "");
    }
    return CLI_FAILED;
}

void serve_http_quiesce(server *s) {
    const int fd = MHD_quiesce_daemon(s->daemon);
    if (fd >= 0)
        close(fd);
}

void serve_http_stop(server *s) {
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}
