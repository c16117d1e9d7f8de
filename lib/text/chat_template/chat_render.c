/* The public functions of chat templates. */
#include <stdio.h>
#include <sys/time.h>
#include "base/hub/hub.h"
#include "base/json.h"
#include "text/chat_template/chat_files.h"
#include "text/chat_template/chat_messages.h"
#include "text/chat_template/jinja_evaluate.h"
#include "text/chat_template/jinja_repr.h"
#include "text/utf8.h"
#include "tfm/chat.h"

/* A template, parsed. */
typedef struct chat_template {
    const char *name, *source; /* of `templates` */
    tfm__jinja memory;
    tfm__jinja_node *body;
    tfm_status status; /* of parsing */
    char *message;     /* the error of parsing, or NULL */
} chat_template;

struct tfm_chat {
    json_t *templates, *tokens;
    chat_template *parsed;
    size_t count;
};

/* Parses a template; a failure is kept for its use. */
static tfm_status parse(chat_template *out, const char *name, const json_t *source) {
    const char *text = json_string_value(source);
    const size_t bytes = json_string_length(source);
    char saved[TFM__MESSAGE_MAX];
    *out = (chat_template){.name = name, .source = text};
    out->memory = (tfm__jinja){
        .what = "chat_render", .memory_limit = TFM__JINJA_MEMORY, .step_limit = TFM__JINJA_STEPS, .line = 1};
    tfm__error_save(saved);
    if (strlen(text) < bytes)
        tfm__jinja_fail(&out->memory, TFM_ERROR_FORMAT, "the template has a NUL");
    else
        out->body = tfm__jinja_parse(&out->memory, text, bytes);
    if (out->memory.status == TFM_OK)
        tfm__jinja_check(&out->memory, out->body);
    out->status = out->memory.status;
    if (out->status != TFM_OK)
        out->message = tfm__strdup(tfm_error_message());
    tfm__error_restore(saved);
    return out->status == TFM_ERROR_MEMORY || (out->status != TFM_OK && !out->message)
               ? tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a chat template")
               : TFM_OK;
}

/* Parses all templates. */
static tfm_status parse_all(tfm_chat *chat) {
    const char *name;
    json_t *source;
    tfm_status status = TFM_OK;
    chat->parsed = tfm__alloc(json_object_size(chat->templates) + 1, sizeof(*chat->parsed));
    if (!chat->parsed)
        return TFM_ERROR_MEMORY;
    json_object_foreach(chat->templates, name, source) {
        if (status == TFM_OK)
            status = parse(&chat->parsed[chat->count++], name, source);
    }
    return status;
}

tfm_status tfm_chat_open(tfm_chat **out, const char *dir) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("chat_open", out, dir) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    char *path = NULL;
    tfm_chat *chat = tfm__alloc(1, sizeof(*chat));
    tfm_status status = chat ? tfm__hub_resolve(&path, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__chat_files_read(&chat->templates, &chat->tokens, path);
    free(path);
    if (status == TFM_OK)
        status = parse_all(chat);
    if (status == TFM_OK)
        *out = chat;
    else
        tfm_chat_free(&chat);
    return status;
}

tfm_status tfm_chat_new(tfm_chat **out, const char *text, size_t bytes, const char *variables) {
    TFM__CLEAR_OUT(out);
    if (TFM__NEEDS("chat_new", out, text) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (tfm__utf8_valid(text, bytes) < bytes)
        return tfm__fail(TFM_ERROR_FORMAT, "chat_new: the template is not UTF-8");
    tfm_chat *chat = tfm__alloc(1, sizeof(*chat));
    tfm_status status = chat ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && variables)
        status = tfm__json_parse(&chat->tokens, variables, strlen(variables), "chat_new: variables");
    if (status == TFM_OK) {
        chat->templates = json_pack("{ss%}", "default", text, bytes);
        chat->tokens = chat->tokens ? chat->tokens : json_object();
        status = chat->templates && chat->tokens
                     ? parse_all(chat)
                     : tfm__fail(TFM_ERROR_MEMORY, "out of host memory for a chat template");
    }
    if (status == TFM_OK)
        *out = chat;
    else
        tfm_chat_free(&chat);
    return status;
}

void tfm_chat_free(tfm_chat **chat) {
    if (!chat || !*chat)
        return;
    for (size_t i = 0; i < (*chat)->count; i++) {
        tfm__jinja_free(&(*chat)->parsed[i].memory);
        free((*chat)->parsed[i].message);
    }
    free((*chat)->parsed);
    json_decref((*chat)->templates);
    json_decref((*chat)->tokens);
    free(*chat);
    *chat = NULL;
}

static const chat_template *find(const tfm_chat *chat, const char *name) {
    for (size_t i = 0; i < chat->count; i++)
        if (strcmp(chat->parsed[i].name, name) == 0)
            return &chat->parsed[i];
    return NULL;
}

const char *tfm_chat_source(const tfm_chat *chat, const char *name) {
    const chat_template *found = chat ? find(chat, name ? name : "default") : NULL;
    return found ? found->source : NULL;
}

const char *tfm_chat_token(const tfm_chat *chat, const char *name) {
    return chat && name ? json_string_value(json_object_get(chat->tokens, name)) : NULL;
}

/* ---- Rendering ------------------------------------------------------------------------------------------------- */

/* JSON inputs of one call. */
typedef struct inputs {
    json_t *messages, *tools, *documents, *variables;
    char *final; /* the text that continue_final_message continues */
} inputs;

/* Reads an optional argument of a type; null is none. */
static tfm_status read_json(json_t **out, const char *text, const char *name, json_type type) {
    tfm_status status = text ? tfm__json_read(out, text, strlen(text), name) : TFM_OK;
    if (status != TFM_OK)
        return status == TFM_ERROR_FORMAT ? TFM_ERROR_INPUT : status;
    if (*out && json_is_null(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    if (*out && json_typeof(*out) != type)
        return tfm__fail(TFM_ERROR_INPUT, "%s is %s; %s is needed", name, tfm__json_kind(*out),
                         type == JSON_ARRAY ? "a list" : "an object");
    return TFM_OK;
}

/* The same for a list of objects. */
static tfm_status read_objects(json_t **out, const char *text, const char *name) {
    const tfm_status status = read_json(out, text, name, JSON_ARRAY);
    for (size_t i = 0; status == TFM_OK && i < json_array_size(*out); i++)
        if (!json_is_object(json_array_get(*out, i)))
            return tfm__fail(TFM_ERROR_INPUT, "%s[%zu] is %s; an object is needed", name, i,
                             tfm__json_kind(json_array_get(*out, i)));
    return status;
}

static tfm_status read_inputs(inputs *in, const char *messages, const tfm_chat_options *options) {
    tfm_status status = read_json(&in->messages, messages, "chat_render: messages", JSON_ARRAY);
    if (status == TFM_OK)
        status = tfm__chat_messages_normalize(in->messages);
    if (status == TFM_OK)
        status = read_objects(&in->tools, options->tools, "chat_render: tools");
    if (status == TFM_OK)
        status = read_objects(&in->documents, options->documents, "chat_render: documents");
    if (status == TFM_OK)
        status = read_json(&in->variables, options->variables, "chat_render: variables", JSON_OBJECT);
    return status;
}

static const chat_template *choose(const tfm_chat *chat, const tfm_chat_options *options) {
    const chat_template *found = NULL;
    if (options->template_name)
        return find(chat, options->template_name);
    if (options->tools)
        found = find(chat, "tool_use");
    return found ? found : find(chat, "default");
}

static void set(tfm__jinja *j, tfm__jinja_value variables, const char *name, tfm__jinja_value value) {
    if (j->status == TFM_OK)
        tfm__jinja_dict_set_text(j, variables.dict, name, value);
}

/* The variables of the template: those of the caller replace special tokens. */
static tfm__jinja_value variables_of(tfm__jinja *j, const tfm_chat *chat, const inputs *in, bool prompt) {
    const tfm__jinja_value variables = tfm__jinja_dict_new(j);
    const char *name;
    json_t *value;
    json_object_foreach(chat->tokens, name, value) {
        set(j, variables, name, tfm__jinja_from_json(j, value));
    }
    json_object_foreach(in->variables, name, value) {
        set(j, variables, name, tfm__jinja_from_json(j, value));
    }
    set(j, variables, "messages", tfm__jinja_from_json(j, in->messages));
    set(j, variables, "tools", in->tools ? tfm__jinja_from_json(j, in->tools) : tfm__jinja_none());
    set(j, variables, "documents", in->documents ? tfm__jinja_from_json(j, in->documents) : tfm__jinja_none());
    set(j, variables, "add_generation_prompt", tfm__jinja_bool(prompt));
    return variables;
}

static tfm__jinja_time time_of(int64_t seconds) {
    struct timeval now = {.tv_sec = (time_t)seconds};
    tfm__jinja_time out = {0};
    if (!seconds)
        gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &out.local);
    out.microseconds = (int)now.tv_usec;
    return out;
}

static tfm_status run(tfm__bytes *rendered, const tfm_chat *chat, const chat_template *template, const inputs *in,
                      const tfm_chat_options *options) {
    const tfm__jinja_time now = time_of(options->now);
    tfm__jinja j = {.what = "chat_render",
                    .memory_limit = TFM__JINJA_MEMORY,
                    .step_limit = TFM__JINJA_STEPS,
                    .now = &now,
                    .line = 1};
    const tfm__jinja_value variables = variables_of(&j, chat, in, options->add_generation_prompt);
    if (j.status == TFM_OK) {
        const tfm__jinja_value text = tfm__jinja_render(&j, template->body, variables.dict);
        if (j.status == TFM_OK)
            tfm__bytes_add(rendered, text.string->data, text.string->bytes);
    }
    tfm__jinja_free(&j);
    return j.status;
}

static tfm_status render(char **text, const tfm_chat *chat, inputs *in, const char *messages,
                         const tfm_chat_options *options) {
    const chat_template *template = choose(chat, options);
    tfm__bytes rendered = {0};
    if (!template)
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "chat_render: the model has no chat template%s%s: write the prompt yourself",
                         options->template_name ? " named " : "", options->template_name ? options->template_name : "");
    if (template->status != TFM_OK)
        return tfm__fail(template->status, "%s", template->message);
    tfm_status status = read_inputs(in, messages, options);
    if (status == TFM_OK && options->continue_final_message)
        status = tfm__chat_messages_mark(&in->final, in->messages, template->source);
    if (status == TFM_OK)
        status = run(&rendered, chat, template, in, options);
    if (status == TFM_OK && options->continue_final_message)
        status = tfm__chat_messages_cut(&rendered, in->final);
    *text = status == TFM_OK ? tfm__bytes_take(&rendered) : NULL;
    tfm__bytes_free(&rendered);
    return status == TFM_OK && !*text ? tfm__fail(TFM_ERROR_MEMORY, "chat_render: out of host memory") : status;
}

tfm_status tfm_chat_render(const tfm_chat *chat, char **text, const char *messages, const tfm_chat_options *options) {
    static const tfm_chat_options none;
    inputs in = {0};
    TFM__CLEAR_OUT(text);
    if (TFM__NEEDS("chat_render", chat, text, messages) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "chat_render: " TFM__RESERVED_SET_MESSAGE);
    options = options ? options : &none;
    if (options->continue_final_message && options->add_generation_prompt)
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "chat_render: continue_final_message and add_generation_prompt exclude each other");
    const tfm_status status = render(text, chat, &in, messages, options);
    json_decref(in.messages);
    json_decref(in.tools);
    json_decref(in.documents);
    json_decref(in.variables);
    free(in.final);
    return status;
}
