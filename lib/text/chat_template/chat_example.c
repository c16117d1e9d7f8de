/* Conversations as training examples: the tokens of the rendered text, and which of them are the assistant's. */
#include <string.h>
#include "base/json.h"
#include "text/chat_template/chat_files.h"
#include "tfm/chat.h"

/* The time of `strftime_now`, so that a corpus has the same tokens every day: 2026-01-01. */
enum { NOW = 1767225600 };

/* ---- Forms of conversations ---- */

/* The role of a ShareGPT speaker; NULL for an unknown one. */
static const char *sharegpt_role(const char *from) {
    static const char *const ROLES[][2] = {
        {"human", "user"},        {"user", "user"},           {"gpt", "assistant"},
        {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"model", "assistant"},
        {"system", "system"},     {"tool", "tool"},           {"function_response", "tool"},
        {"observation", "tool"}};
    for (size_t i = 0; from && i < TFM__COUNT(ROLES); i++)
        if (strcmp(from, ROLES[i][0]) == 0)
            return ROLES[i][1];
    return NULL;
}

static tfm_status append(json_t *messages, const char *role, json_t *content) {
    return json_array_append_new(messages, json_pack("{ssso}", "role", role, "content", content)) == 0
               ? TFM_OK
               : TFM_ERROR_MEMORY;
}

/* ShareGPT: [{"from": "human", "value": "..."}, ...]. */
static tfm_status from_sharegpt(json_t *messages, const json_t *turns) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < json_array_size(turns) && status == TFM_OK; i++) {
        json_t *turn = json_array_get(turns, i), *value = json_object_get(turn, "value");
        const char *from = json_string_value(json_object_get(turn, "from")), *role = sharegpt_role(from);
        if (json_object_get(turn, "role"))
            status = json_array_append(messages, turn) == 0 ? TFM_OK : TFM_ERROR_MEMORY;
        else if (!role || !json_is_string(value))
            status = tfm__fail(TFM_ERROR_INPUT,
                               "conversations[%zu] needs a string \"value\", and in \"from\" human, gpt, system or "
                               "tool%s%.40s",
                               i, from ? ", not " : "", from ? from : "");
        else
            status = append(messages, role, json_incref(value));
    }
    return status;
}

/* Alpaca: {"instruction": "...", "input": "...", "output": "..."}; `input` and `system` may be missing or empty. */
static tfm_status from_alpaca(json_t *messages, const json_t *object) {
    const char *parts[4] = {"system", "instruction", "input", "output"};
    tfm_status status = TFM_OK;
    for (int i = 0; i < 4; i++) {
        const json_t *value = json_object_get(object, parts[i]);
        const bool needed = i == 1 || i == 3;
        if (!json_is_string(value) && (needed || (value && !json_is_null(value))))
            return tfm__fail(TFM_ERROR_INPUT, "\"%s\" is %s; a string is needed", parts[i],
                             value ? tfm__json_kind(value) : "missing");
        parts[i] = json_string_value(value);
    }
    char *prompt = parts[2] && *parts[2] ? tfm__format("%s\n\n%s", parts[1], parts[2]) : tfm__strdup(parts[1]);
    if (!prompt)
        return TFM_ERROR_MEMORY;
    if (parts[0] && *parts[0])
        status = append(messages, "system", json_string(parts[0]));
    if (status == TFM_OK)
        status = append(messages, "user", json_string(prompt));
    if (status == TFM_OK)
        status = append(messages, "assistant", json_string(parts[3]));
    free(prompt);
    return status;
}

static bool has_prompt(const json_t *object, json_type type) {
    const json_t *prompt = json_object_get(object, "prompt"), *completion = json_object_get(object, "completion");
    return prompt && completion && json_typeof(prompt) == type && json_typeof(completion) == type;
}

/* The messages of any form, a new list. */
static tfm_status read_messages(json_t **out, const json_t *object) {
    const json_t *given = json_object_get(object, "messages"), *turns = json_object_get(object, "conversations");
    *out = json_array();
    if (!*out)
        return TFM_ERROR_MEMORY;
    if (json_is_array(given))
        return json_array_extend(*out, (json_t *)(uintptr_t)given) == 0 ? TFM_OK : TFM_ERROR_MEMORY;
    if (json_is_array(turns))
        return from_sharegpt(*out, turns);
    if (has_prompt(object, JSON_ARRAY))
        return json_array_extend(*out, json_object_get(object, "prompt")) == 0 &&
                       json_array_extend(*out, json_object_get(object, "completion")) == 0
                   ? TFM_OK
                   : TFM_ERROR_MEMORY;
    if (json_object_get(object, "instruction"))
        return from_alpaca(*out, object);
    return tfm__fail(TFM_ERROR_INPUT, "it is not a JSON object with a list \"messages\" or \"conversations\", with "
                                      "\"instruction\" and \"output\", or with \"prompt\" and \"completion\"");
}

/* ---- Tokens ---- */

typedef struct job {
    const tfm_chat *chat;
    const tfm_tokenizer *tokenizer;
    json_t *messages;
    char *tools; /* JSON, or NULL */
    char *text;  /* rendered */
    int32_t *ids;
    size_t count;
    int32_t *ends; /* tokens that end a turn */
    size_t end_count;
    bool *learned; /* [count] */
} job;

static tfm_status encode(const job *j, int32_t **ids, size_t *count, const char *text) {
    return tfm_tokenizer_encode_with(j->tokenizer, ids, count, TFM_TARGET, text, strlen(text),
                                     &(tfm_encode_options){.no_special_tokens = true});
}

/* Renders the first `count` messages. */
static tfm_status render(const job *j, char **text, size_t count, bool add_generation_prompt) {
    json_t *some = json_array();
    bool good = some != NULL;
    for (size_t i = 0; i < count && good; i++)
        good = json_array_append(some, json_array_get(j->messages, i)) == 0;
    char *messages = good ? json_dumps(some, JSON_COMPACT) : NULL;
    json_decref(some);
    *text = NULL;
    const tfm_status status =
        messages ? tfm_chat_render(j->chat, text, messages,
                                   &(tfm_chat_options){
                                       .add_generation_prompt = add_generation_prompt, .tools = j->tools, .now = NOW})
                 : TFM_ERROR_MEMORY;
    free(messages);
    return status;
}

/* Sets *at to the number of tokens before the end of the first `count` messages in the whole conversation; *found is
 * false if the template renders them differently there. A token across the boundary is not before it. */
static tfm_status find_boundary(const job *j, size_t *at, bool *found, size_t count, bool add_generation_prompt) {
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    tfm_status status = count > 0 ? render(j, &text, count, add_generation_prompt) : TFM_OK;
    *found = status == TFM_OK && text && strncmp(j->text, text, strlen(text)) == 0;
    *at = 0;
    if (*found)
        status = encode(j, &ids, &n, text);
    while (*found && *at < n && *at < j->count && ids[*at] == j->ids[*at])
        ++*at;
    tfm_ids_free(&ids);
    tfm_text_free(&text);
    return status == TFM_ERROR_INPUT ? TFM_OK : status; /* the template refuses incomplete conversations */
}

/* Marks the tokens of an assistant's message, up to the end of its turn. */
static tfm_status learn_turn(job *j, size_t message) {
    size_t from, to = j->count;
    bool found, ended = false;
    tfm_status status = find_boundary(j, &from, &found, message, true);
    if (status != TFM_OK || !found)
        return status;
    if (message + 1 < json_array_size(j->messages))
        status = find_boundary(j, &to, &found, message + 1, false);
    to = found ? to : j->count;
    for (size_t i = from; i < to && !ended; i++) {
        j->learned[i] = true;
        for (size_t k = 0; k < j->end_count; k++)
            ended = ended || j->ids[i] == j->ends[k];
    }
    return status;
}

static tfm_status encode_messages(job *j) {
    const size_t count = json_array_size(j->messages);
    tfm_status status = render(j, &j->text, count, false);
    if (status == TFM_OK)
        status = encode(j, &j->ids, &j->count, j->text);
    if (status == TFM_OK)
        status = tfm_chat_end_tokens(j->chat, &j->ends, &j->end_count, j->tokenizer);
    if (status == TFM_OK && !(j->learned = tfm__alloc(j->count, sizeof(*j->learned))))
        status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        const char *role = json_string_value(json_object_get(json_array_get(j->messages, i), "role"));
        if (role && strcmp(role, "assistant") == 0)
            status = learn_turn(j, i);
    }
    return status;
}

/* Plain text without a template: the completion is learned, with EOS. */
static tfm_status encode_completion(job *j, const char *prompt, const char *completion) {
    int32_t *ids = NULL;
    size_t n = 0, at = 0;
    const int32_t eos = tfm_tokenizer_get_info(j->tokenizer)->target_eos;
    char *text = tfm__format("%s%s", prompt, completion);
    tfm_status status = text ? tfm_tokenizer_encode(j->tokenizer, &j->ids, &j->count, TFM_TARGET, text, strlen(text))
                             : TFM_ERROR_MEMORY;
    free(text);
    if (status == TFM_OK)
        status = tfm_tokenizer_encode(j->tokenizer, &ids, &n, TFM_TARGET, prompt, strlen(prompt));
    if (status == TFM_OK && eos >= 0 && (j->count == 0 || j->ids[j->count - 1] != eos)) {
        size_t room = j->count;
        status = tfm__grow(&j->ids, &room, j->count + 1, sizeof(*j->ids));
        if (status == TFM_OK)
            j->ids[j->count++] = eos;
    }
    if (status == TFM_OK && !(j->learned = tfm__alloc(j->count, sizeof(*j->learned))))
        status = TFM_ERROR_MEMORY;
    while (status == TFM_OK && at < n && at < j->count && ids[at] == j->ids[at])
        at++;
    for (size_t i = at; status == TFM_OK && i < j->count; i++)
        j->learned[i] = true;
    tfm_ids_free(&ids);
    return status;
}

static tfm_status encode_object(job *j, const json_t *object) {
    const json_t *tools = json_object_get(object, "tools");
    size_t learned = 0;
    tfm_status status;
    if (json_is_array(tools) && json_array_size(tools) > 0 && !(j->tools = json_dumps(tools, JSON_COMPACT)))
        return TFM_ERROR_MEMORY;
    if (has_prompt(object, JSON_STRING)) {
        status = encode_completion(j, json_string_value(json_object_get(object, "prompt")),
                                   json_string_value(json_object_get(object, "completion")));
    } else {
        status = read_messages(&j->messages, object);
        if (status == TFM_OK)
            status = encode_messages(j);
    }
    for (size_t i = 0; i < j->count && status == TFM_OK; i++) {
        learned += j->learned[i] && i > 0;
        j->ids[i] = j->learned[i] ? j->ids[i] : ~j->ids[i];
    }
    return status == TFM_OK && learned == 0
               ? tfm__fail(TFM_ERROR_INPUT, "it has no message of the assistant to learn from, or the chat template "
                                            "renders it differently in the whole conversation")
               : status;
}

tfm_status tfm_chat_encode_example(const tfm_chat *chat, int32_t **ids, size_t *count, const tfm_tokenizer *tokenizer,
                                   const char *conversation, size_t bytes) {
    TFM__CLEAR_OUT(ids);
    if (TFM__NEEDS("chat_encode_example", chat, ids, count, tokenizer, conversation) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    json_t *object = NULL;
    job j = {.chat = chat, .tokenizer = tokenizer};
    tfm_status status = tfm__json_parse(&object, conversation, bytes, "the conversation");
    *count = 0;
    status = status == TFM_ERROR_FORMAT ? TFM_ERROR_INPUT : status;
    if (status == TFM_OK)
        status = encode_object(&j, object);
    if (status == TFM_OK) {
        *ids = j.ids;
        *count = j.count;
    } else {
        tfm_ids_free(&j.ids);
    }
    json_decref(object);
    json_decref(j.messages);
    free(j.tools);
    tfm_text_free(&j.text);
    tfm_ids_free(&j.ends);
    free(j.learned);
    return status;
}
