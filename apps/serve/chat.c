/* Renders chats as ChatML prompts: <|im_start|>ROLE, the text and <|im_end|> for each message. */
#include <stdlib.h>
#include <string.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>
#include "serve/openai.h"
#include "serve/server.h"

static const char MARKER[] = "<|im_end|>";

bool serve_has_chat(const serve_model *model) {
    return model->chat.known;
}

/* ---- Messages -------------------------------------------------------------------------------------------------- */

typedef struct message {
    const char *role;
    char *content; /* NULL: invalid */
    size_t bytes;
} message;

/* Refuses a message, and names the invalid field. */
static bool refuse(const serve_request *r, size_t i, const char *field, const char *what, serve_reply *reply) {
    char name[96];
    snprintf(name, sizeof(name), "messages[%zu].%s", i, field);
    *reply = serve_reply_field(r, name, NULL, "Invalid request: %s %s", name, what);
    return false;
}

/* The role in templates: OpenAI's developer is system. NULL: unknown role. */
static const char *role_of(const json_t *item) {
    static const char *const ROLES[] = {"system", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(item, "role"));
    if (role && strcmp(role, "developer") == 0)
        return ROLES[0];
    for (size_t i = 0; role && i < CLI_COUNT(ROLES); i++)
        if (strcmp(role, ROLES[i]) == 0)
            return ROLES[i];
    return NULL;
}

/* Joins the parts of a content by line ends, as vLLM and llama.cpp do. */
static bool join_parts(const serve_request *r, size_t i, const json_t *parts, FILE *out, serve_reply *reply) {
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        char field[48];
        snprintf(field, sizeof(field), "content[%zu]", k);
        if (type && strcmp(type, "text") != 0)
            return refuse(r, i, field, "is not of type text: images, audio and files are not supported", reply);
        if (!type || !json_is_string(text))
            return refuse(r, i, field, "is not {\"type\": \"text\", \"text\": string}", reply);
        fprintf(out, "%s%s", k ? "\n" : "", json_string_value(text));
    }
    return true;
}

/* Refuses fields of a message that this template cannot express. */
static bool check_calls(const serve_request *r, size_t i, const json_t *item, serve_reply *reply) {
    static const char *const NAMES[] = {"tool_calls", "function_call", "audio"};
    for (size_t k = 0; k < CLI_COUNT(NAMES); k++) {
        const json_t *value = json_object_get(item, NAMES[k]);
        if (value && !json_is_null(value) && !(json_is_array(value) && json_array_size(value) == 0))
            return refuse(r, i, NAMES[k], "is not supported: leave it out", reply);
    }
    return true;
}

static bool read_message(const serve_request *r, const serve_chat *chat, size_t i, message *m, serve_reply *reply) {
    const json_t *item = json_array_get(json_object_get(r->fields, "messages"), i);
    const json_t *content = json_object_get(item, "content");
    m->role = role_of(item);
    if (!m->role)
        return refuse(r, i, "role", "is not system, developer, user, assistant or tool", reply);
    if (chat->tools && strcmp(m->role, "tool") == 0)
        return refuse(r, i, "role", "is tool, and tools are not supported with this model's template", reply);
    if (!check_calls(r, i, item, reply))
        return false;
    const bool none = (!content || json_is_null(content)) && strcmp(m->role, "assistant") == 0;
    if (!none && !json_is_string(content) && !json_is_array(content))
        return refuse(r, i, "content", "is neither a string nor a list of parts", reply);
    FILE *out = open_memstream(&m->content, &m->bytes);
    if (!out) {
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
        return false;
    }
    bool good = true;
    if (json_is_array(content))
        good = join_parts(r, i, content, out, reply);
    else if (!none)
        fputs(json_string_value(content), out);
    fclose(out);
    return good;
}

/* ---- Prompts --------------------------------------------------------------------------------------------------- */

/* The characters of Python's strip(). */
static bool is_blank(UChar32 c) {
    return u_isUWhiteSpace(c) || (c >= 0x1c && c <= 0x1f);
}

/* Writes a text, with `trims` stripped. */
static void put_content(FILE *out, const message *m, bool trims) {
    int32_t from = 0, to = (int32_t)m->bytes, next;
    UChar32 c;
    for (next = from; trims && from < to; from = next) {
        U8_NEXT(m->content, next, to, c);
        if (!is_blank(c))
            break;
    }
    for (next = to; trims && to > from; to = next) {
        U8_PREV(m->content, from, next, c);
        if (!is_blank(c))
            break;
    }
    fwrite(m->content + from, 1, (size_t)(to - from), out);
}

static void put_chat(FILE *out, const serve_chat *chat, const message *messages, size_t count) {
    const char *line = chat->line ? "\n" : "";
    if (chat->bos && chat->bos_token)
        fputs(chat->bos_token, out);
    if (chat->system && strcmp(messages[0].role, "system") != 0)
        fprintf(out, "<|im_start|>system\n%s%s\n", chat->system, MARKER);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<|im_start|>%s\n", messages[i].role);
        put_content(out, &messages[i], chat->trims);
        fprintf(out, "%s%s", MARKER, line);
    }
    if (chat->after_assistant || strcmp(messages[count - 1].role, "assistant") != 0)
        fputs("<|im_start|>assistant\n", out);
}

/* The prompt of the request's messages, for free(); NULL with the error reply. */
static char *prompt_of(serve_request *r, const serve_model *model, size_t *bytes, serve_reply *reply) {
    const size_t count = json_array_size(json_object_get(r->fields, "messages"));
    message *messages = calloc(count ? count : 1, sizeof(*messages));
    char *text = NULL;
    bool good = messages && count > 0;
    if (!good)
        *reply = serve_reply_field(
            r, "messages", NULL, "Invalid request: messages is not a list of {\"role\": string, \"content\": string}");
    for (size_t i = 0; good && i < count; i++)
        good = read_message(r, &model->chat, i, &messages[i], reply);
    FILE *out = good ? open_memstream(&text, bytes) : NULL;
    if (out) {
        put_chat(out, &model->chat, messages, count);
        fclose(out);
    }
    if (good && !text)
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    for (size_t i = 0; messages && i < count; i++)
        free(messages[i].content);
    free(messages);
    return text;
}

json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply) {
    size_t bytes = 0;
    if (!serve_has_chat(model)) {
        *reply = serve_reply_field(
            r, "model", NULL,
            model->chat.text ? "The model '%s' has a chat template other than ChatML, the only supported one: "
                               "render the prompt for /v1/completions"
                             : "The model '%s' has no chat template: use /v1/completions",
            model->name);
        return NULL;
    }
    char *text = prompt_of(r, model, &bytes, reply);
    const size_t limit = (size_t)r->server->options->limits.chars;
    json_t *list = NULL;
    if (text && serve_characters(text, bytes) > limit)
        *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "messages have more than %zu characters", limit);
    else if (text && !(list = json_pack("[s%]", text, bytes)))
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    free(text);
    return list;
}

/* ---- The end of a turn ----------------------------------------------------------------------------------------- */

/* Whether a token is visible in decoded text. */
static bool is_seen(const tfm_tokenizer *tokenizer, int32_t id) {
    char *text = NULL;
    const bool seen = tfm_tokenizer_decode(tokenizer, &text, &id, 1) == TFM_OK && *text;
    tfm_text_free(&text);
    return seen;
}

/* Adds the end of a turn, unless it is an EOS of the model: a special token by its id, other text as a stop string. */
static void add_end(serve_model *model, const char *token, bool any_text) {
    const int32_t id = token ? tfm_tokenizer_piece_id(model->tokenizer, TFM_TARGET, token) : -1;
    if (!token || (id >= 0 && id == model->eos_id) || (id < 0 && !any_text))
        return;
    if (id < 0 || is_seen(model->tokenizer, id))
        model->end_texts[model->end_text_count++] = token;
    else
        model->ends[model->end_count++] = id;
}

void serve_chat_stop_tokens(serve_model *model) {
    const char *eos = model->chat.eos_token;
    add_end(model, eos, false);
    if (!eos || strcmp(eos, MARKER) != 0)
        add_end(model, MARKER, true);
}
