/* Answers of /v1/responses, and their events. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* ---- Items ------------------------------------------------------------------------------------------------------ */

/* An id: those of one response have one number. */
static json_t *id_of(const serve_job *job, const char *kind) {
    return json_sprintf("%s_%s", kind, strchr(job->id, '-') + 1);
}

static json_t *part_json(bool reasoning, const char *text) {
    return reasoning
               ? json_pack("{s:s, s:s}", "type", "reasoning_text", "text", text)
               : json_pack("{s:s, s:s, s:[], s:[]}", "type", "output_text", "text", text, "annotations", "logprobs");
}

/* The item of the reasoning, or of the text; `text` NULL: it begins. */
static json_t *text_item(const serve_job *job, bool reasoning, const char *text, const char *status) {
    json_t *content = text ? json_pack("[o]", part_json(reasoning, text)) : json_array();
    return reasoning ? json_pack("{s:o, s:s, s:s, s:[], s:o}", "id", id_of(job, "rs"), "type", "reasoning", "status",
                                 status, "summary", "content", content)
                     : json_pack("{s:o, s:s, s:s, s:s, s:o}", "id", id_of(job, "msg"), "type", "message", "status",
                                 status, "role", "assistant", "content", content);
}

static json_t *call_item(const serve_job *job, const json_t *call) {
    const json_t *function = json_object_get(call, "function");
    return json_pack("{s:o, s:s, s:s, s:O, s:O, s:O}", "id",
                     json_sprintf("fc_%s_%s", strchr(job->id, '-') + 1, json_string_value(json_object_get(call, "id"))),
                     "type", "function_call", "status", "completed", "call_id", json_object_get(call, "id"), "name",
                     json_object_get(function, "name"), "arguments", json_object_get(function, "arguments"));
}

/* The output of a job that is done. */
static json_t *output_of(const serve_job *job, const char *status) {
    json_t *choice = serve_openai_choice(job, 0, 0, 0), *message = json_object_get(choice, "message"), *call;
    const char *reasoning = json_string_value(json_object_get(message, "reasoning_content"));
    const char *content = json_string_value(json_object_get(message, "content"));
    json_t *output = json_array();
    size_t i;
    if (reasoning)
        json_array_append_new(output, text_item(job, true, reasoning, "completed"));
    if (content)
        json_array_append_new(output, text_item(job, false, content, status));
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
        json_array_append_new(output, call_item(job, call));
    json_decref(choice);
    return output;
}

/* ---- Responses -------------------------------------------------------------------------------------------------- */

static json_t *response_json(const serve_job *job, const char *status, json_t *output) {
    json_t *response = json_copy(job->response.head);
    json_object_set_new(response, "id", id_of(job, "resp"));
    json_object_set_new(response, "created_at", json_integer((json_int_t)job->created));
    json_object_set_new(response, "model", json_string(job->key.model->name));
    json_object_set_new(response, "status", json_string(status));
    json_object_set_new(response, "output", output);
    return response;
}

json_t *serve_response_json(const serve_job *job) {
    const serve_result *result = &job->results[0];
    const bool cut = result->finish[0] && strcmp(result->finish[0], "length") == 0;
    const char *status = cut ? "incomplete" : "completed";
    json_t *response = response_json(job, status, output_of(job, status));
    if (cut)
        json_object_set_new(response, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    json_object_set_new(response, "usage",
                        json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens",
                                  (json_int_t)result->source_tokens, "input_tokens_details", "cached_tokens",
                                  (json_int_t)result->cached_tokens, "output_tokens", (json_int_t)result->target_tokens,
                                  "output_tokens_details", "reasoning_tokens", 0, "total_tokens",
                                  (json_int_t)(result->source_tokens + result->target_tokens)));
    return response;
}

/* ---- Events ----------------------------------------------------------------------------------------------------- */

/* Adds an event; takes ownership of its fields. */
static void emit(serve_job *job, const char *type, json_t *fields) {
    json_object_set_new(fields, "type", json_string(type));
    json_object_set_new(fields, "sequence_number", json_integer(job->response.events++));
    job->response.emit(job, type, fields);
}

/* Adds an event of the newest item: with the numbers of its part if that has any. */
static void emit_of_item(serve_job *job, const char *type, const char *id, bool part, json_t *fields) {
    json_object_set_new(fields, "output_index", json_integer(job->response.items - 1));
    if (id)
        json_object_set_new(fields, "item_id", json_string(id));
    if (part)
        json_object_set_new(fields, "content_index", json_integer(0));
    emit(job, type, fields);
}

static void begin_item(serve_job *job, json_t *item) {
    job->response.items++;
    emit_of_item(job, "response.output_item.added", NULL, false, json_pack("{s:o}", "item", item));
}

/* Begins the item of a text. */
static void begin_text(serve_job *job, const char *name) {
    const bool reasoning = strcmp(name, "content") != 0;
    json_t *id = id_of(job, reasoning ? "rs" : "msg");
    job->response.open = name;
    job->response.bytes = 0;
    begin_item(job, text_item(job, reasoning, NULL, "in_progress"));
    emit_of_item(job, "response.content_part.added", json_string_value(id), true,
                 json_pack("{s:o}", "part", part_json(reasoning, "")));
    json_decref(id);
}

/* Ends the item of a text, if there is one. */
static void end_text(serve_job *job, const char *status) {
    serve_response *response = &job->response;
    if (!response->open)
        return;
    const bool reasoning = strcmp(response->open, "content") != 0;
    const char *text = response->bytes > 0 ? response->text : "";
    json_t *id = id_of(job, reasoning ? "rs" : "msg"), *done = json_pack("{s:s}", "text", text);
    if (!reasoning)
        json_object_set_new(done, "logprobs", json_array());
    emit_of_item(job, reasoning ? "response.reasoning_text.done" : "response.output_text.done", json_string_value(id),
                 true, done);
    emit_of_item(job, "response.content_part.done", json_string_value(id), true,
                 json_pack("{s:o}", "part", part_json(reasoning, text)));
    emit_of_item(job, "response.output_item.done", NULL, false,
                 json_pack("{s:o}", "item", text_item(job, reasoning, text, reasoning ? "completed" : status)));
    json_decref(id);
    response->open = NULL;
}

void serve_response_begin(serve_job *job) {
    static const char *const TYPES[] = {"response.created", "response.in_progress"};
    for (size_t i = 0; i < CLI_COUNT(TYPES); i++)
        emit(job, TYPES[i], json_pack("{s:o}", "response", response_json(job, "in_progress", json_array())));
}

bool serve_response_delta(serve_job *job, const char *name, const char *text, size_t bytes) {
    serve_response *response = &job->response;
    const bool reasoning = strcmp(name, "content") != 0;
    if (!response->open || strcmp(response->open, name) != 0) {
        end_text(job, "completed");
        begin_text(job, name);
    }
    if (!cli_grow(&response->text, &response->room, response->bytes + bytes + 1, 1))
        return false;
    memcpy(response->text + response->bytes, text, bytes);
    response->bytes += bytes;
    response->text[response->bytes] = 0;
    json_t *id = id_of(job, reasoning ? "rs" : "msg"), *delta = json_pack("{s:s%}", "delta", text, bytes);
    if (!reasoning)
        json_object_set_new(delta, "logprobs", json_array());
    emit_of_item(job, reasoning ? "response.reasoning_text.delta" : "response.output_text.delta", json_string_value(id),
                 true, delta);
    json_decref(id);
    return true;
}

/* The events of a call: its arguments are one delta. */
static void stream_call(serve_job *job, json_t *item) {
    const char *id = json_string_value(json_object_get(item, "id"));
    json_t *arguments = json_object_get(item, "arguments"), *begun = json_copy(item);
    json_object_set_new(begun, "arguments", json_string(""));
    json_object_set_new(begun, "status", json_string("in_progress"));
    begin_item(job, begun);
    emit_of_item(job, "response.function_call_arguments.delta", id, false, json_pack("{s:O}", "delta", arguments));
    emit_of_item(job, "response.function_call_arguments.done", id, false,
                 json_pack("{s:O, s:O}", "arguments", arguments, "name", json_object_get(item, "name")));
    emit_of_item(job, "response.output_item.done", NULL, false, json_pack("{s:O}", "item", item));
}

void serve_response_finish(serve_job *job) {
    json_t *whole = serve_response_json(job), *output = json_object_get(whole, "output");
    const char *status = json_string_value(json_object_get(whole, "status"));
    char type[32];
    snprintf(type, sizeof(type), "response.%s", status);
    end_text(job, status);
    for (size_t i = (size_t)job->response.items; i < json_array_size(output); i++) {
        json_t *item = json_array_get(output, i);
        if (!json_object_get(item, "content")) {
            stream_call(job, item);
            continue;
        }
        begin_text(job, "content"); /* an empty one */
        end_text(job, status);
    }
    emit(job, type, json_pack("{s:o}", "response", whole));
}

void serve_response_fail(serve_job *job) {
    emit(job, "error",
         json_pack("{s:s, s:n, s:n}", "message", job->failure ? job->failure : "out of memory", "code", "param"));
}
