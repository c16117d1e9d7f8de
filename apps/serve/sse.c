/* Server-sent events: the worker appends, the connection sends when it can; a slow client blocks no one. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

typedef struct serve_stream {
    server *server;
    char *text; /* unsent */
    size_t bytes, room, sent;
    bool begun, ended, out_of_memory;
} serve_stream;

/* Under the lock. */
static void append(serve_stream *stream, const char *text) {
    const size_t bytes = strlen(text);
    if (stream->out_of_memory || !cli_grow(&stream->text, &stream->room, stream->bytes + bytes, 1)) {
        stream->out_of_memory = true;
        return;
    }
    memcpy(stream->text + stream->bytes, text, bytes);
    stream->bytes += bytes;
}

static void wake(serve_job *job) {
    if (!job->suspended || !job->connection)
        return;
    job->suspended = false;
    MHD_resume_connection(job->connection);
}

static void append_json(serve_stream *stream, json_t *event) {
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(event);
    if (text) {
        append(stream, "data: ");
        append(stream, text);
        append(stream, "\n\n");
    }
    stream->out_of_memory = stream->out_of_memory || !text;
    free(text);
}

/* An event of OpenAI's API. Takes ownership of `choices`. */
static json_t *event_of(const serve_job *job, json_t *choices, json_t *usage) {
    json_t *event =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", job->id, "object",
                  job->chat ? "chat.completion.chunk" : "text_completion", "created", (json_int_t)job->created, "model",
                  job->key.model->name, "system_fingerprint", serve_openai_fingerprint(), "choices", choices);
    if (event && job->tells_usage)
        json_object_set_new(event, "usage", usage ? usage : json_null());
    return event;
}

/* logprobs of the tokens since the last event of a text; null without any. */
static json_t *new_logprobs(serve_job *job, int index) {
    const size_t segment = (size_t)(index / job->key.n_best);
    const int rank = index % job->key.n_best;
    serve_result *result = &job->results[segment];
    const size_t first = result->streamed[rank];
    result->streamed[rank] = json_array_size(result->logprobs[rank]);
    return result->streamed[rank] > first ? serve_logprobs_json(job, segment, rank, first) : json_null();
}

/* A chunk of text; of a chat, without `text` and `finish`, the start of a message. */
static json_t *chunk(serve_job *job, int index, const char *text, const char *finish) {
    json_t *logprobs = text ? new_logprobs(job, index) : json_null();
    if (!job->chat)
        return event_of(job,
                        json_pack("[{s:i, s:s, s:o, s:s?}]", "index", index, "text", text ? text : "", "logprobs",
                                  logprobs, "finish_reason", finish),
                        NULL);
    json_t *delta = finish ? json_object()
                    : text ? json_pack("{s:s}", "content", text)
                           : json_pack("{s:s, s:s, s:n}", "role", "assistant", "content", "", "refusal");
    return event_of(job,
                    json_pack("[{s:i, s:o, s:o, s:s?}]", "index", index, "delta", delta, "logprobs", logprobs,
                              "finish_reason", finish),
                    NULL);
}

bool serve_stream_begun(const serve_job *job) {
    return job->stream->begun || (job->state == SERVE_DONE && !job->answer_code);
}

/* The first events, one for each text, under the lock. */
static void begin(serve_job *job) {
    serve_stream *stream = job->stream;
    for (int i = 0; !stream->begun && job->chat && i < (int)job->count * job->key.n_best; i++)
        append_json(stream, chunk(job, i, NULL, NULL));
    stream->begun = true;
}

static void on_text(serve_job *job, int index, const char *text) {
    serve_stream *stream = job->stream;
    json_t *event = chunk(job, index, text, NULL);
    pthread_mutex_lock(&stream->server->lock);
    begin(job);
    append_json(stream, event);
    wake(job);
    pthread_mutex_unlock(&stream->server->lock);
}

static void on_done(serve_job *job) {
    serve_stream *stream = job->stream;
    if (job->answer_code && !stream->begun)
        return; /* the reply has the status of the failure */
    begin(job);
    for (size_t i = 0; i < job->count && !job->answer_code; i++)
        for (int best = 0; best < job->key.n_best; best++)
            append_json(stream, chunk(job, (int)i * job->key.n_best + best, "",
                                      job->results[i].finish[best] ? job->results[i].finish[best] : "stop"));
    if (job->answer_code)
        append_json(stream,
                    json_pack("{s:{s:s, s:s, s:n, s:n}}", "error", "message",
                              job->failure ? job->failure : "out of memory", "type",
                              job->answer_code >= 500 ? "server_error" : "invalid_request_error", "param", "code"));
    if (job->tells_usage && !job->answer_code)
        append_json(stream, event_of(job, json_array(), serve_openai_usage(job)));
    append(stream, "data: [DONE]\n\n");
    stream->ended = true;
    serve_connection_busy(stream->server, serve_connection_of(job->connection), false);
}

static void on_free(serve_job *job) {
    free(job->stream->text);
    free(job->stream);
}

bool serve_stream_open(server *s, serve_job *job) {
    job->stream = calloc(1, sizeof(*job->stream));
    if (!job->stream)
        return false;
    job->stream->server = s;
    job->on_text = on_text;
    job->on_done = on_done;
    job->on_free = on_free;
    return true;
}

/* Gives the connection unsent data; suspends it if there is none. */
static ssize_t read_stream(void *user, uint64_t at, char *out, size_t most) {
    serve_job *job = user;
    serve_stream *stream = job->stream;
    ssize_t given = 0;
    (void)at;
    pthread_mutex_lock(&stream->server->lock);
    const size_t left = stream->bytes - stream->sent;
    if (stream->out_of_memory) {
        given = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        given = (ssize_t)(left < most ? left : most);
        memcpy(out, stream->text + stream->sent, (size_t)given);
        stream->sent += (size_t)given;
        if (stream->sent == stream->bytes)
            stream->sent = stream->bytes = 0;
    } else if (stream->ended) {
        given = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        job->suspended = true;
        MHD_suspend_connection(job->connection);
    }
    pthread_mutex_unlock(&stream->server->lock);
    return given;
}

enum MHD_Result serve_stream_send(serve_request *r) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, r->job, NULL);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    serve_reply_headers(r->server, response, NULL);
    r->code = MHD_HTTP_OK;
    r->answered = true;
    const enum MHD_Result result = MHD_queue_response(r->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}
