/* The messages of a conversation: editing, files, and the prompt. */
#include "chat/conversation.h"
#include <stdlib.h>
#include <string.h>

static const char *role_at(const chat_conversation *c, size_t i) {
    return json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
}

static bool is_role(const chat_conversation *c, size_t i, const char *role) {
    return i < json_array_size(c->messages) && strcmp(role_at(c, i), role) == 0;
}

/* Messages before the first turn. */
static size_t system_messages(const chat_conversation *c) {
    return is_role(c, 0, "system");
}

/* Earlier turns are part of the prompt again, if they fit. */
static void restore_dropped(chat_conversation *c) {
    c->first = system_messages(c);
    c->dropped = 0;
}

int chat_conversation_begin(chat_conversation *c) {
    c->messages = json_array();
    return c->messages ? CLI_OK : cli_fail("out of memory for a conversation");
}

void chat_conversation_free(chat_conversation *c) {
    json_decref(c->messages);
    tfm_ids_free(&c->ids);
    *c = (chat_conversation){0};
}

/* ---- Editing ------------------------------------------------------------------------------------------- */

static json_t *message_of(const char *role, const char *text, size_t bytes) {
    json_t *content = json_stringn(text, bytes);
    if (!content || strlen(text) != bytes) {
        json_decref(content);
        cli_fail("the %s message is not valid UTF-8 text, or has a NUL", role);
        return NULL;
    }
    return json_pack("{s:s, s:o}", "role", role, "content", content);
}

int chat_conversation_add(chat_conversation *c, const char *role, const char *text, size_t bytes) {
    json_t *message = message_of(role, text, bytes);
    if (!message)
        return CLI_FAILED;
    return json_array_append_new(c->messages, message) == 0 ? CLI_OK : cli_fail("out of memory for a message");
}

const char *chat_conversation_system(const chat_conversation *c) {
    return system_messages(c) ? json_string_value(json_object_get(json_array_get(c->messages, 0), "content")) : NULL;
}

int chat_conversation_set_system(chat_conversation *c, const char *text, size_t bytes) {
    json_t *message = bytes > 0 ? message_of("system", text, bytes) : NULL;
    if (bytes > 0 && !message)
        return CLI_FAILED;
    if (system_messages(c))
        json_array_remove(c->messages, 0);
    if (message && json_array_insert_new(c->messages, 0, message) != 0)
        return cli_fail("out of memory for a message");
    restore_dropped(c);
    return CLI_OK;
}

bool chat_conversation_undo(chat_conversation *c, bool keep_user) {
    const size_t count = json_array_size(c->messages);
    size_t from = count;
    while (from > 0 && !is_role(c, from - 1, "user"))
        from--;
    if (from == 0 || (keep_user && from == count))
        return false;
    for (size_t i = count; i > from - !keep_user; i--)
        json_array_remove(c->messages, i - 1);
    restore_dropped(c);
    return true;
}

void chat_conversation_clear(chat_conversation *c) {
    for (size_t i = json_array_size(c->messages); i > system_messages(c); i--)
        json_array_remove(c->messages, i - 1);
    restore_dropped(c);
}

void chat_conversation_restore(chat_conversation *c, json_t *messages) {
    json_decref(c->messages);
    c->messages = messages;
    restore_dropped(c);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

int chat_conversation_save(const chat_conversation *c, const char *path) {
    cli_output out;
    int code = cli_output_open(&out, path);
    if (code == CLI_OK) {
        json_dumpf(c->messages, out.file, JSON_INDENT(2));
        fputc('\n', out.file);
        cli_output_ok(&out);
    }
    const int closing = cli_output_close(&out, code == CLI_OK);
    return code == CLI_OK ? closing : code;
}

/* Reports the first value that is no message. */
static int check_messages(const json_t *messages, const char *path) {
    if (!json_is_array(messages))
        return cli_fail("%s is not a list of messages, {\"role\": string, \"content\": string}", path);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!role || !json_is_string(json_object_get(message, "content")))
            return cli_fail("%s: message %zu is not {\"role\": string, \"content\": string}", path, i + 1);
        if (i > 0 && strcmp(role, "system") == 0)
            return cli_fail("%s: message %zu has the role system: only the first one can", path, i + 1);
    }
    return CLI_OK;
}

int chat_conversation_load(chat_conversation *c, const char *path) {
    char why[CLI_REASON];
    json_t *root = cli_json_load(path, why);
    if (!root)
        return cli_fail("cannot load %s: %s", path, why);
    json_t *wrapped = json_object_get(root, "messages"); /* as in a request of OpenAI's API */
    json_t *messages = json_incref(wrapped ? wrapped : root);
    json_decref(root);
    const int code = check_messages(messages, path);
    if (code != CLI_OK) {
        json_decref(messages);
        return code;
    }
    chat_conversation_restore(c, messages);
    return CLI_OK;
}

/* ---- The prompt ---------------------------------------------------------------------------------------- */

/* The system message and the messages from `first` on, as the template reads them, as JSON text for free(). */
static char *prompt_messages(const chat_conversation *c) {
    json_t *list = json_array();
    const size_t fixed = system_messages(c);
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        json_t *message = json_array_get(c->messages, i);
        if (i >= fixed && i < c->first)
            continue;
        if (c->model->reads_strings) {
            json_array_append(list, message);
            continue;
        }
        json_t *copy = json_copy(message);
        json_object_set_new(copy, "content",
                            json_pack("[{s:s, s:O}]", "type", "text", "text", json_object_get(message, "content")));
        json_array_append_new(list, copy);
    }
    char *text = json_dumps(list, 0);
    json_decref(list);
    return text;
}

/* Renders and encodes the prompt from `first` on. */
static int encode(chat_conversation *c) {
    char *messages = prompt_messages(c), *text = NULL;
    tfm_ids_free(&c->ids);
    if (!messages)
        return cli_fail("out of memory for a prompt");
    const tfm_chat_options options = {.add_generation_prompt = true, .variables = c->variables};
    tfm_status status = tfm_chat_render(c->model->chat, &text, messages, &options);
    if (status == TFM_OK)
        status = tfm_tokenizer_encode_with(c->tokenizer, &c->ids, &c->count, TFM_TARGET, text, strlen(text),
                                           &(tfm_encode_options){.no_special_tokens = true});
    tfm_text_free(&text);
    free(messages);
    return status == TFM_OK ? CLI_OK : cli_fail_library();
}

/* Drops the oldest turn; false if only the last one is left. */
static bool drop_turn(chat_conversation *c) {
    size_t next = c->first + 1;
    while (next < json_array_size(c->messages) && !is_role(c, next, "user"))
        next++;
    if (next >= json_array_size(c->messages))
        return false;
    c->first = next;
    c->dropped++;
    return true;
}

int chat_conversation_prompt(chat_conversation *c) {
    const size_t limit = c->context - c->reserve, goal = limit - limit / 4, before = c->dropped;
    int code = encode(c);
    if (code != CLI_OK || c->count <= limit)
        return code;
    while (code == CLI_OK && c->count > goal && drop_turn(c))
        code = encode(c);
    if (code != CLI_OK)
        return code;
    if (c->count > limit)
        return cli_fail("the message is too long: with the system message it has %zu tokens, and of a context of %zu "
                        "tokens %zu are for the answer: shorten it",
                        c->count, c->context, c->reserve);
    if (c->dropped > before)
        fprintf(stderr, "[the context of %zu tokens is full: the oldest %zu turn%s dropped]\n", c->context, c->dropped,
                c->dropped == 1 ? " is" : "s are");
    return CLI_OK;
}
