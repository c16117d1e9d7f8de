/* Chats as prompts. Templates of models are programs in Jinja's language; what is run here is the one that many models
 * have, ChatML, known by its text. Every other one is refused. */
#include <stdlib.h>
#include <string.h>
#include "serve.h"

/* ChatML as models write it down, without blanks and with one kind of quotes. Both end a prompt only where they are
 * asked to, as they are here. */
static const char *const CHATML[] = {
    "{%formessageinmessages%}{{'<|im_start|>'+message['role']+'\\n'+message['content']+'<|im_end|>'+'\\n'}}{%endfor%}"
    "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}",
    "{%ifnotadd_generation_promptisdefined%}{%setadd_generation_prompt=false%}{%endif%}{%formessageinmessages%}"
    "{{'<|im_start|>'+message['role']+'\\n'+message['content']+'<|im_end|>'+'\\n'}}{%endfor%}"
    "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}{%endif%}",
};

/* Whether a template is one of those. */
static bool is_chatml(const char *text) {
    char *bare = malloc(2 * strlen(text) + 1), *at = bare;
    bool known = false;
    if (!bare)
        return false;
    char quote = 0;
    for (; *text; text++) {
        if ((*text == '"' || *text == '\'') && (!quote || quote == *text))
            quote = quote ? 0 : *text;
        if (*text == '\n' && quote) { /* a line end inside quotes, as some files have it */
            *at++ = '\\';
            *at++ = 'n';
        } else if (!strchr(" \n\r\t", *text)) {
            *at++ = *text == '"' ? '\'' : *text;
        }
    }
    *at = 0;
    for (size_t i = 0; i < CLI_COUNT(CHATML) && !known; i++)
        known = strcmp(bare, CHATML[i]) == 0;
    free(bare);
    return known;
}

bool serve_chats(const serve_model *model) {
    return model->chat && is_chatml(model->chat);
}

static bool is_role(const char *role) {
    return role && (strcmp(role, "system") == 0 || strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0);
}

static bool put_message(FILE *out, const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    const char *content = json_string_value(json_object_get(message, "content"));
    if (!is_role(role) || !content)
        return false;
    fprintf(out, "<|im_start|>%s\n%s<|im_end|>\n", role, content);
    return true;
}

json_t *serve_chat_prompt(serve_request *r, const serve_model *model, serve_reply *reply) {
    const json_t *messages = json_object_get(r->fields, "messages");
    char *text = NULL;
    size_t bytes = 0;
    if (!serve_chats(model)) {
        *reply =
            serve_reply_error(r, MHD_HTTP_BAD_REQUEST,
                              model->chat ? "The model '%s' has a chat template that is not ChatML, which is the only "
                                            "one run here: write the prompt yourself for /v1/completions"
                                          : "The model '%s' has no chat template: use /v1/completions",
                              model->name);
        return NULL;
    }
    FILE *out = open_memstream(&text, &bytes);
    bool good = out && json_array_size(messages) > 0;
    for (size_t i = 0; good && i < json_array_size(messages); i++)
        good = put_message(out, json_array_get(messages, i));
    if (good)
        fputs("<|im_start|>assistant\n", out);
    if (out)
        fclose(out);
    const size_t limit = (size_t)r->server->options->limits.chars;
    json_t *list = NULL;
    if (!good)
        *reply = serve_reply_error(r, MHD_HTTP_BAD_REQUEST,
                                   "Invalid request: messages is no list of {\"role\": system, user or assistant, "
                                   "\"content\": text}");
    else if (serve_characters(text, bytes) > limit)
        *reply = serve_reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, "messages have more than %zu characters", limit);
    else if (!(list = json_pack("[s%]", text, bytes)))
        *reply = serve_reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory for the messages");
    free(text);
    return list;
}
