/* Server-sent events: the worker appends, the connection sends when it can; a slow client blocks no one. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* A chat's text so far, and the bytes of its parts that events have. */
typedef struct streamed_text {
    char *text;
    size_t bytes, room, reasoning, content;
} streamed_text;

typedef struct serve_stream {
    server *server;
    streamed_text *texts; /* [count * n_best] */
    char *text;           /* unsent */
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

/* Appends an event with a name. */
static void append_event(serve_job *job, const char *name, json_t *event) {
    append(job->stream, "event: ");
    append(job->stream, name);
    append(job->stream, "\n");
    append_json(job->stream, event);
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

/* An event of one text. Takes ownership of `delta`, of a chat. */
static json_t *chunk_of(serve_job *job, int index, json_t *delta, const char *text, const char *finish) {
    json_t *logprobs = job->stream->begun ? new_logprobs(job, index) : json_null();
    json_t *choice = delta ? json_pack("{s:i, s:o, s:o, s:s?}", "index", index, "delta", delta, "logprobs", logprobs,
                                       "finish_reason", finish)
                           : json_pack("{s:i, s:s, s:o, s:s?}", "index", index, "text", text, "logprobs", logprobs,
                                       "finish_reason", finish);
    return event_of(job, json_pack("[o]", choice), NULL);
}

bool serve_stream_begun(const serve_job *job) {
    return job->stream->begun || (job->state == SERVE_DONE && !job->answer_code);
}

/* The first events, one for each text, under the lock. */
static void begin(serve_job *job) {
    serve_stream *stream = job->stream;
    if (!stream->begun && job->response.head)
        serve_response_begin(job);
    for (int i = 0;
         !stream->begun && !job->response.head && (job->chat || job->echo) && i < (int)job->count * job->key.n_best;
         i++) {
        json_t *delta = job->chat ? json_pack("{s:s, s:s, s:n}", "role", "assistant", "content", "", "refusal") : NULL;
        append_json(stream, chunk_of(job, i, delta, job->segments[i / job->key.n_best].text, NULL));
    }
    stream->begun = true;
}

/* Appends what a part has more than `sent`. */
static void append_part(serve_job *job, int index, const char *name, const char *text, size_t begin, size_t end,
                        size_t *sent) {
    if (end <= begin + *sent)
        return;
    const char *at = text + begin + *sent;
    const size_t bytes = end - begin - *sent;
    *sent = end - begin;
    if (!job->response.head)
        append_json(job->stream, chunk_of(job, index, json_pack("{s:s%}", name, at, bytes), NULL, NULL));
    else if (!serve_response_delta(job, name, at, bytes))
        job->stream->out_of_memory = true;
}

/* Appends the new parts of a chat's text, under the lock. With `more` it goes on. Returns the calls of tools. */
static json_t *append_parts(serve_job *job, int index, bool more) {
    streamed_text *t = &job->stream->texts[index];
    json_t *calls = NULL;
    const char *text = t->text ? t->text : "";
    const answer_parts p = answer_split(text, t->bytes, &job->format, more, more ? NULL : &calls);
    append_part(job, index, "reasoning_content", text, p.reasoning, p.reasoning_end, &t->reasoning);
    append_part(job, index, "content", text, p.content, p.content_end, &t->content);
    return calls;
}

static void on_text(serve_job *job, int index, const char *text) {
    serve_stream *stream = job->stream;
    streamed_text *t = &stream->texts[index];
    const size_t bytes = strlen(text);
    pthread_mutex_lock(&stream->server->lock);
    begin(job);
    if (!job->chat) {
        append_json(stream, chunk_of(job, index, NULL, text, NULL));
    } else if (cli_grow(&t->text, &t->room, t->bytes + bytes + 1, 1)) {
        memcpy(t->text + t->bytes, text, bytes + 1);
        t->bytes += bytes;
        json_decref(append_parts(job, index, true));
    } else {
        stream->out_of_memory = true;
    }
    wake(job);
    pthread_mutex_unlock(&stream->server->lock);
}

/* The last events of a text. */
static void finish(serve_job *job, int index, const char *reason) {
    json_t *calls = job->chat ? append_parts(job, index, false) : NULL, *call;
    size_t i;
    if (job->response.head) {
        json_decref(calls);
        serve_response_finish(job);
        return;
    }
    serve_openai_name_calls(job, index, calls);
    json_array_foreach(calls, i, call) json_object_set_new(call, "index", json_integer((json_int_t)i));
    if (calls) {
        append_json(job->stream, chunk_of(job, index, json_pack("{s:o}", "tool_calls", calls), NULL, NULL));
        reason = "tool_calls";
    }
    append_json(job->stream, chunk_of(job, index, job->chat ? json_object() : NULL, "", reason));
}

static void on_done(serve_job *job) {
    serve_stream *stream = job->stream;
    if (job->answer_code && !stream->begun)
        return; /* the reply has the status of the failure */
    begin(job);
    for (size_t i = 0; i < job->count && !job->answer_code; i++)
        for (int best = 0; best < job->key.n_best; best++)
            finish(job, (int)i * job->key.n_best + best,
                   job->results[i].finish[best] ? job->results[i].finish[best] : "stop");
    if (job->answer_code && job->response.head)
        serve_response_fail(job);
    else if (job->answer_code)
        append_json(stream,
                    json_pack("{s:{s:s, s:s, s:n, s:n}}", "error", "message",
                              job->failure ? job->failure : "out of memory", "type",
                              job->answer_code >= 500 ? "server_error" : "invalid_request_error", "param", "code"));
    if (job->tells_usage && !job->answer_code)
        append_json(stream, event_of(job, json_array(), serve_openai_usage(job)));
    if (!job->response.head)
        append(stream, "data: [DONE]\n\n");
    stream->ended = true;
    serve_connection_busy(stream->server, serve_connection_of(job->connection), false);
}

static void on_free(serve_job *job) {
    for (size_t i = 0; job->stream->texts && i < job->count * (size_t)job->key.n_best; i++)
        free(job->stream->texts[i].text);
    free(job->stream->texts);
    free(job->stream->text);
    free(job->stream);
}

bool serve_stream_open(server *s, serve_job *job) {
    job->stream = calloc(1, sizeof(*job->stream));
    if (!job->stream)
        return false;
    job->stream->server = s;
    job->stream->texts = calloc(job->count * (size_t)job->key.n_best, sizeof(*job->stream->texts));
    if (!job->stream->texts) {
        free(job->stream);
        job->stream = NULL;
        return false;
    }
    job->response.emit = append_event;
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
