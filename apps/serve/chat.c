/* Prompts of chats: prepares the messages of a request, and renders them with the model's chat template. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

bool serve_has_chat(const serve_model *model) {
    return cli_chat_model_has_template(&model->chat);
}

/* ---- Messages -------------------------------------------------------------------------------------------------- */

const char *serve_chat_field(const serve_request *r) {
    return r->response ? "input" : "messages";
}

/* Refuses a message, and names the invalid field; of /v1/responses, whose items are numbered otherwise, the input. */
static bool refuse(const serve_request *r, size_t i, const char *field, const char *what, serve_reply *reply) {
    char name[96];
    snprintf(name, sizeof(name), "messages[%zu].%s", i, field);
    if (r->response)
        *reply = serve_reply_field(r, serve_chat_field(r), NULL, "Invalid request: input has an item whose %s %s",
                                   field, what);
    else
        *reply = serve_reply_field(r, name, NULL, "Invalid request: %s %s", name, what);
    return false;
}

/* The usual roles and any role that the template names; otherwise OpenAI's developer is system. */
static bool set_role(const serve_request *r, const serve_model *model, size_t i, json_t *message, serve_reply *reply) {
    static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(message, "role"));
    bool known = role && *role && strstr(tfm_chat_source(model->chat.chat, NULL), role);
    for (size_t k = 0; role && k < CLI_COUNT(ROLES); k++)
        known |= strcmp(role, ROLES[k]) == 0;
    if (!known && role && strcmp(role, "developer") == 0)
        return json_object_set_new(message, "role", json_string(ROLES[0])) == 0;
    return known ||
           refuse(r, i, "role", "is not system, developer, user, assistant, tool or a role of the model", reply);
}

/* Checks the parts of a content: texts only. */
static bool check_parts(const serve_request *r, size_t i, const json_t *parts, serve_reply *reply) {
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        char field[48];
        snprintf(field, sizeof(field), "content[%zu]", k);
        if (type && strcmp(type, "text") != 0)
            return refuse(r, i, field, "is not of type text: images, audio and files are not supported", reply);
        if (!type || !json_is_string(text))
            return refuse(r, i, field, "is not {\"type\": \"text\", \"text\": string}", reply);
    }
    return true;
}

/* Joins the parts of a content by line ends, as vLLM and llama.cpp do; NULL without memory. */
static json_t *joined(const json_t *parts) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    for (size_t k = 0; out && k < json_array_size(parts); k++)
        fprintf(out, "%s%s", k ? "\n" : "", json_string_value(json_object_get(json_array_get(parts, k), "text")));
    if (out)
        fclose(out);
    json_t *string = text ? json_stringn(text, bytes) : NULL;
    free(text);
    return string;
}

/* The content in the form that the template reads. */
static bool set_content(const serve_request *r, const serve_model *model, size_t i, json_t *message,
                        serve_reply *reply) {
    json_t *content = json_object_get(message, "content"), *other = NULL;
    const char *role = json_string_value(json_object_get(message, "role"));
    const bool none = (!content || json_is_null(content)) && strcmp(role, "assistant") == 0;
    if (!none && !json_is_string(content) && !json_is_array(content))
        return refuse(r, i, "content", "is neither a string nor a list of parts", reply);
    if (json_is_array(content) && !check_parts(r, i, content, reply))
        return false;
    if (none)
        other = json_string("");
    else if (json_is_array(content) && !model->chat.reads_lists)
        other = joined(content);
    else if (json_is_string(content) && !model->chat.reads_strings)
        other = json_pack("[{s:s, s:O}]", "type", "text", "text", content);
    else
        return true;
    if (other && json_object_set_new(message, "content", other) == 0)
        return true;
    *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    return false;
}

/* Calls of tools: templates read the arguments as an object, OpenAI's clients send JSON text. */
static bool set_calls(const serve_request *r, size_t i, json_t *message, serve_reply *reply) {
    static const char *const UNSUPPORTED[] = {"function_call", "audio"};
    json_t *calls = json_object_get(message, "tool_calls");
    for (size_t k = 0; k < CLI_COUNT(UNSUPPORTED); k++) {
        const json_t *value = json_object_get(message, UNSUPPORTED[k]);
        if (value && !json_is_null(value))
            return refuse(r, i, UNSUPPORTED[k], "is not supported: leave it out", reply);
    }
    if (calls && !json_is_null(calls) && !json_is_array(calls))
        return refuse(r, i, "tool_calls", "is not a list", reply);
    if (json_array_size(calls) == 0)
        json_object_del(message, "tool_calls");
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *function = json_object_get(json_array_get(calls, k), "function");
        const char *text = json_string_value(json_object_get(function, "arguments"));
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return refuse(r, i, "tool_calls", "has a call without function.name", reply);
        json_t *arguments = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        if (json_is_object(arguments))
            json_object_set(function, "arguments", arguments);
        json_decref(arguments);
    }
    return true;
}

/* A copy of the request's messages for the template; NULL with the error reply. */
static json_t *read_messages(const serve_request *r, const serve_model *model, serve_reply *reply) {
    json_t *messages = json_deep_copy(json_object_get(r->fields, "messages"));
    bool good = json_array_size(messages) > 0;
    if (!good)
        *reply = serve_reply_field(
            r, "messages", NULL, "Invalid request: messages is not a list of {\"role\": string, \"content\": string}");
    for (size_t i = 0; good && i < json_array_size(messages); i++) {
        json_t *message = json_array_get(messages, i);
        if (!json_is_object(message))
            good = refuse(r, i, "role", "is missing", reply);
        else
            good = set_role(r, model, i, message, reply) && set_calls(r, i, message, reply) &&
                   set_content(r, model, i, message, reply);
    }
    if (!good) {
        json_decref(messages);
        messages = NULL;
    }
    return messages;
}

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* A field of the request as JSON text for free(), or NULL if it is absent or an empty list. */
static char *text_of(const serve_request *r, const char *name) {
    const json_t *value = json_object_get(r->fields, name);
    return (json_is_array(value) && json_array_size(value)) || json_is_object(value) ? json_dumps(value, 0) : NULL;
}

/* Whether the template receives the tools of the request. */
static bool uses_tools(const serve_request *r) {
    const char *choice = json_string_value(json_object_get(r->fields, "tool_choice"));
    return !choice || strcmp(choice, "none") != 0;
}

/* Renders messages; NULL with the error reply. */
static char *render(serve_request *r, const serve_model *model, const json_t *messages, serve_reply *reply) {
    char *input = json_dumps(messages, 0), *tools = uses_tools(r) ? text_of(r, "tools") : NULL,
         *documents = text_of(r, "documents"), *variables = text_of(r, "chat_template_kwargs"), *text = NULL;
    const json_t *prompt = json_object_get(r->fields, "add_generation_prompt");
    const bool continues = json_is_true(json_object_get(r->fields, "continue_final_message"));
    tfm_chat_options options = {.add_generation_prompt =
                                    prompt && !json_is_null(prompt) ? json_is_true(prompt) : !continues,
                                .continue_final_message = continues,
                                .tools = tools,
                                .documents = documents,
                                .variables = variables};
    if (!input)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    else if (continues && options.add_generation_prompt)
        *reply =
            serve_reply_field(r, "continue_final_message", NULL,
                              "Invalid request: continue_final_message and add_generation_prompt exclude each other");
    else {
        const tfm_status status = tfm_chat_render(model->chat.chat, &text, input, &options);
        if (status == TFM_ERROR_MEMORY)
            *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
        else if (status != TFM_OK)
            *reply = serve_reply_field(r, status == TFM_ERROR_INPUT ? serve_chat_field(r) : "model", NULL,
                                       "Invalid request: %s", tfm_error_message());
    }
    free(input);
    free(tools);
    free(documents);
    free(variables);
    return text;
}

json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply) {
    if (!serve_has_chat(model)) {
        *reply = serve_reply_field(r, "model", NULL, "The model '%s' has no chat template: use /v1/completions",
                                   model->name);
        return NULL;
    }
    if (!serve_fields_check(r, SERVE_CHAT_FIELDS, reply))
        return NULL;
    json_t *messages = read_messages(r, model, reply), *list = NULL;
    char *text = messages ? render(r, model, messages, reply) : NULL;
    const size_t bytes = text ? strlen(text) : 0, limit = (size_t)r->chars;
    if (text && serve_characters(text, bytes) > limit)
        *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "%s has more than %zu characters",
                                   serve_chat_field(r), limit);
    else if (text && !(list = json_pack("[s%]", text, bytes)))
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    tfm_text_free(&text);
    json_decref(messages);
    return list;
}

/* Whether the last mark of a reasoning model in the prompt opens its reasoning. */
static bool opens_reasoning(const char *prompt, size_t bytes) {
    static const char THINK[] = "<think>";
    while (bytes > 0 && strchr(" \n", prompt[bytes - 1]))
        bytes--;
    return bytes >= strlen(THINK) && memcmp(prompt + bytes - strlen(THINK), THINK, strlen(THINK)) == 0;
}

void serve_chat_format(const serve_request *r, serve_job *job) {
    json_t *tools = json_object_get(r->fields, "tools");
    const char *format = serve_request_text(r, "reasoning_format"),
               *source = tfm_chat_source(job->key.model->chat.chat, NULL);
    if (json_array_size(tools) > 0 && uses_tools(r))
        job->format.tools = json_incref(tools);
    job->format.single = json_is_false(json_object_get(r->fields, "parallel_tool_calls"));
    job->format.reasoning = source && strstr(source, "</think>") && !(format && strcmp(format, "none") == 0);
    job->format.in_reasoning = opens_reasoning(job->segments[0].text, job->segments[0].bytes);
}
