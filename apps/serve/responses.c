/* OpenAI's /v1/responses: the request becomes one of /v1/chat/completions, the answer and its events are translated
 * back (responses_events.c). Nothing is stored. */
#include <stdlib.h>
#include <string.h>
#include "serve/openai.h"
#include "serve/server.h"

/* Refuses a field by its name. */
static bool refuse(const serve_request *r, const char *name, const char *what, serve_reply *reply) {
    *reply = serve_reply_field(r, name, NULL, "Invalid request: %s %s", name, what);
    return false;
}

/* ---- Input ------------------------------------------------------------------------------------------------------ */

/* The content of a message: a text, or parts of texts, which are of type text in chats. NULL if it is neither. */
static json_t *content_of(const json_t *content) {
    static const char *const TYPES[] = {"input_text", "output_text", "text"};
    json_t *parts = json_is_array(content) ? json_array() : NULL;
    for (size_t i = 0; parts && i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        bool known = false;
        for (size_t k = 0; k < CLI_COUNT(TYPES); k++)
            known |= type && strcmp(type, TYPES[k]) == 0;
        if (!known || !json_is_string(text)) {
            json_decref(parts);
            return NULL;
        }
        json_array_append_new(parts, json_pack("{s:s, s:O}", "type", "text", "text", text));
    }
    return json_is_string(content) ? json_incref((json_t *)content) : parts;
}

/* Adds a call of a function to the assistant's last message, or to a new one. False if it is none. */
static bool add_call(json_t *messages, const json_t *item) {
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    json_t *call =
        json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(item, "call_id"), "type", "function", "function",
                  "name", json_object_get(item, "name"), "arguments", json_object_get(item, "arguments"));
    if (!call)
        return false;
    if (!role || strcmp(role, "assistant") != 0) {
        last = json_pack("{s:s, s:n}", "role", "assistant", "content");
        json_array_append_new(messages, last);
    }
    if (!json_object_get(last, "tool_calls"))
        json_object_set_new(last, "tool_calls", json_array());
    return json_array_append_new(json_object_get(last, "tool_calls"), call) == 0;
}

/* Adds an item of the input to the messages: a message, a call of a function, or its output. Reasoning is left out, as
 * templates do with that of earlier turns. */
static bool add_item(const serve_request *r, json_t *messages, size_t i, const json_t *item, serve_reply *reply) {
    const char *type = json_string_value(json_object_get(item, "type"));
    char name[48];
    snprintf(name, sizeof(name), "input[%zu]", i);
    if (type && strcmp(type, "reasoning") == 0)
        return true;
    if (type && strcmp(type, "function_call") == 0)
        return add_call(messages, item) ||
               refuse(r, name, "is a function_call without call_id, name or arguments", reply);
    const bool output = type && strcmp(type, "function_call_output") == 0;
    if (!json_is_object(item) || (type && !output && strcmp(type, "message") != 0))
        return refuse(r, name, "is not of type message, function_call, function_call_output or reasoning", reply);
    if (!output && !json_is_string(json_object_get(item, "role")))
        return refuse(r, name, "has no role", reply);
    json_t *content = content_of(json_object_get(item, output ? "output" : "content")), *message = NULL;
    if (!content)
        return refuse(r, name, "has no text: images, audio and files are not supported", reply);
    if (output)
        message = json_pack("{s:s, s:O*, s:o}", "role", "tool", "tool_call_id", json_object_get(item, "call_id"),
                            "content", content);
    else
        message = json_pack("{s:O, s:o}", "role", json_object_get(item, "role"), "content", content);
    return json_array_append_new(messages, message) == 0 || refuse(r, name, "exceeds the memory", reply);
}

/* The messages of a chat; NULL with the error reply. */
static json_t *messages_of(const serve_request *r, serve_reply *reply) {
    json_t *input = json_object_get(r->fields, "input"), *instructions = json_object_get(r->fields, "instructions");
    json_t *messages = json_array();
    bool good = json_is_string(input) || json_array_size(input) > 0 ||
                refuse(r, "input", "is neither a string nor a list of messages", reply);
    if (json_is_string(instructions))
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input))
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    for (size_t i = 0; good && i < json_array_size(input); i++)
        good = add_item(r, messages, i, json_array_get(input, i), reply);
    if (good)
        return messages;
    json_decref(messages);
    return NULL;
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

/* The fields `name` of an object that it has, in a new object. */
static json_t *selected(const json_t *from, const char *const *names, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++)
        if (json_object_get(from, names[i]))
            json_object_set(object, names[i], json_object_get(from, names[i]));
    return object;
}

/* The tools in the form of chats. */
static bool set_tools(const serve_request *r, json_t *chat, serve_reply *reply) {
    static const char *const NAMES[] = {"name", "description", "parameters", "strict"};
    const json_t *tools = json_object_get(r->fields, "tools"), *choice = json_object_get(r->fields, "tool_choice");
    const char *chosen = json_string_value(json_object_get(choice, "type"));
    json_t *list = json_array();
    json_object_set_new(chat, "tools", list);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        const json_t *parameters = json_object_get(tool, "parameters");
        if (!type || strcmp(type, "function") != 0 || !json_is_string(json_object_get(tool, "name")) ||
            (parameters && !json_is_null(parameters) && !json_is_object(parameters)))
            return refuse(r, "tools",
                          "has a tool that is no function with a name and a schema: others are not supported", reply);
        json_array_append_new(
            list, json_pack("{s:s, s:o}", "type", "function", "function", selected(tool, NAMES, CLI_COUNT(NAMES))));
    }
    if (json_is_object(choice) && (!chosen || strcmp(chosen, "function") != 0))
        return refuse(r, "tool_choice", "is not none, auto, required, or {\"type\": \"function\", \"name\": string}",
                      reply);
    if (json_is_object(choice))
        json_object_set_new(chat, "tool_choice",
                            json_pack("{s:s, s:o}", "type", "function", "function", selected(choice, NAMES, 1)));
    else if (choice)
        json_object_set(chat, "tool_choice", (json_t *)choice);
    return true;
}

/* text.format as the response_format of chats. */
static bool set_format(const serve_request *r, json_t *chat, serve_reply *reply) {
    const json_t *text = json_object_get(r->fields, "text"), *format = json_object_get(text, "format"),
                 *verbosity = json_object_get(text, "verbosity");
    const char *type = json_string_value(json_object_get(format, "type")), *wanted = json_string_value(verbosity);
    if (verbosity && !json_is_null(verbosity) && (!wanted || strcmp(wanted, "medium") != 0))
        return refuse(r, "text.verbosity", "is not supported: leave it out", reply);
    if (!format || json_is_null(format))
        return true;
    if (!type || (json_object_get(format, "name") && !json_is_string(json_object_get(format, "name"))) ||
        (json_object_get(format, "schema") && !json_is_object(json_object_get(format, "schema"))))
        return refuse(r, "text.format", "is not of type text, json_object, or json_schema with a schema", reply);
    json_t *other = json_pack("{s:s}", "type", type);
    if (strcmp(type, "json_schema") == 0)
        json_object_set(other, "json_schema", (json_t *)format);
    return json_object_set_new(chat, "response_format", other) == 0;
}

/* The fields of the answer that repeat the request. */
static json_t *head_of(const serve_request *r) {
    static const char *const DEFAULTS[] = {
        "{\"object\": \"response\", \"background\": false, \"error\": null, \"incomplete_details\": null,"
        "\"previous_response_id\": null, \"reasoning\": {\"effort\": null, \"summary\": null}, \"store\": false,"
        "\"truncation\": \"disabled\"}",
        "{\"instructions\": null, \"max_output_tokens\": null, \"metadata\": {}, \"parallel_tool_calls\": true,"
        "\"temperature\": 1.0, \"text\": {\"format\": {\"type\": \"text\"}}, \"tool_choice\": \"auto\", \"tools\": [],"
        "\"top_p\": 1.0, \"user\": null}"};
    json_t *head = json_loads(DEFAULTS[0], 0, NULL), *given = json_loads(DEFAULTS[1], 0, NULL), *value;
    const char *name;
    json_object_foreach(given, name, value) {
        json_t *own = json_object_get(r->fields, name);
        json_object_set(head, name, own && !json_is_null(own) ? own : value);
    }
    json_decref(given);
    return head;
}

bool serve_v1_responses(serve_request *r, serve_reply *reply) {
    static const char *const SAME[] = {"model",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "repetition_penalty",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "logit_bias",
                                       "seed",
                                       "stop",
                                       "stop_token_ids",
                                       "ignore_eos",
                                       "min_tokens",
                                       "guided_json",
                                       "guided_choice",
                                       "guided_grammar",
                                       "structured_outputs",
                                       "grammar",
                                       "json_schema",
                                       "reasoning_format",
                                       "chat_template_kwargs",
                                       "documents",
                                       "parallel_tool_calls",
                                       "user",
                                       "stream",
                                       "api_key",
                                       "prompt_lookup_num_tokens"};
    int most = 0;
    if (!serve_fields_check(r, SERVE_RESPONSES_FIELDS, reply) ||
        !serve_request_integer(r, "max_output_tokens", 1, r->server->options->limits.max_new_tokens, 0, &most, reply))
        return false;
    json_t *messages = messages_of(r, reply), *chat = messages ? selected(r->fields, SAME, CLI_COUNT(SAME)) : NULL;
    if (!chat) {
        json_decref(messages);
        return false;
    }
    json_object_set_new(chat, "messages", messages);
    if (most > 0)
        json_object_set_new(chat, "max_tokens", json_integer(most));
    if (!set_tools(r, chat, reply) || !set_format(r, chat, reply)) {
        json_decref(chat);
        return false;
    }
    r->response = head_of(r);
    json_decref(r->fields);
    r->fields = chat;
    return serve_v1_chat(r, reply);
}
