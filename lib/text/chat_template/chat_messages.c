#include "text/chat_template/chat_messages.h"
#include <string.h>
#include "base/json.h"
#include "text/chat_template/jinja_case.h"

static const char MARK[] = "CONTINUE_FINAL_MESSAGE_TAG ";

/* `thinking` first if the message has none, and `reasoning_content`: both are the reasoning of the message. */
static tfm_status alias_reasoning(json_t *messages, size_t index, json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *reasoning = NULL;
    for (size_t i = 0; i < TFM__COUNT(names) && !reasoning; i++)
        reasoning = json_object_get(message, names[i]);
    if (!reasoning)
        return TFM_OK;
    json_t *copy = json_object();
    if (!copy || json_object_set(copy, "thinking", reasoning) != 0 || json_object_update(copy, message) != 0 ||
        json_object_set(copy, "reasoning_content", reasoning) != 0 || json_array_set_new(messages, index, copy) != 0)
        return tfm__fail(TFM_ERROR_MEMORY, "chat_render: out of host memory");
    return TFM_OK;
}

tfm_status tfm__chat_messages_normalize(json_t *messages) {
    json_t *message, *value;
    const char *name;
    void *next;
    size_t i;
    if (!json_is_array(messages) || !json_array_size(messages))
        return tfm__fail(TFM_ERROR_INPUT, "chat_render: messages is %s; a list with at least one message is needed",
                         json_is_array(messages) ? "an empty list" : tfm__json_kind(messages));
    json_array_foreach(messages, i, message) {
        if (!json_is_object(message))
            return tfm__fail(TFM_ERROR_INPUT, "chat_render: messages[%zu] is %s; an object with a role is needed", i,
                             tfm__json_kind(message));
        json_object_foreach_safe(message, next, name, value) {
            if (json_is_null(value))
                json_object_del(message, name);
        }
        if (alias_reasoning(messages, i, message) != TFM_OK)
            return TFM_ERROR_MEMORY;
    }
    return TFM_OK;
}

/* Appends the mark to a field; false without memory. */
static bool mark_field(json_t *object, const char *field) {
    char *marked = tfm__format("%s%s", json_string_value(json_object_get(object, field)), MARK);
    const bool good = marked && json_object_set_new(object, field, json_string(marked)) == 0;
    free(marked);
    return good;
}

tfm_status tfm__chat_messages_mark(char **text, json_t *messages, const char *source) {
    json_t *message = json_array_get(messages, json_array_size(messages) - 1);
    json_t *content = json_object_get(message, "content"), *object = message;
    const char *field = "content";
    *text = NULL;
    if (json_is_array(content)) {
        object = NULL;
        field = "text";
        for (size_t i = json_array_size(content); i-- > 0 && !object;)
            if (json_object_get(json_array_get(content, i), field))
                object = json_array_get(content, i);
    }
    if (!json_is_string(json_object_get(object, field)))
        return tfm__fail(TFM_ERROR_INPUT,
                         "chat_render: continue_final_message is set, but the last message has no text");
    if (!strstr(source, "content"))
        return tfm__fail(TFM_ERROR_INPUT,
                         "chat_render: continue_final_message is set, but the chat template reads no content");
    *text = tfm__strdup(json_string_value(json_object_get(object, field)));
    return *text && mark_field(object, field) ? TFM_OK : tfm__fail(TFM_ERROR_MEMORY, "chat_render: out of host memory");
}

/* The part of a text without blanks around it. */
static const char *strip(const char *text, size_t *bytes) {
    size_t from = 0, to = strlen(text), next = 0;
    while (from < to && tfm__jinja_is_space(tfm__char_next(text, &next)))
        from = next;
    while (to > from && tfm__jinja_is_space(tfm__char_before(text, to)))
        do
            to--;
        while (((unsigned char)text[to] & 0xc0) == 0x80);
    *bytes = to - from;
    return text + from;
}

/* The last place of the mark without its blank; NULL if there is none. */
static const char *find_mark(const tfm__bytes *rendered, size_t bytes) {
    for (size_t at = rendered->count < bytes ? 0 : rendered->count - bytes + 1; at-- > 0;)
        if (memcmp(rendered->data + at, MARK, bytes) == 0)
            return rendered->data + at;
    return NULL;
}

tfm_status tfm__chat_messages_cut(tfm__bytes *rendered, const char *text) {
    const size_t mark = strlen(MARK) - 1;
    size_t bytes;
    const char *words = strip(text, &bytes), *found = find_mark(rendered, mark);
    if (!found || (bytes && !memmem(rendered->data, rendered->count, words, bytes)))
        return tfm__fail(TFM_ERROR_INPUT, "chat_render: continue_final_message is set, but the chat template does not "
                                          "write the text of the last message as it is");
    const size_t at = (size_t)(found - rendered->data);
    const bool blank = at + mark < rendered->count && rendered->data[at + mark] == ' ';
    rendered->count = at;
    while (!blank && rendered->count && tfm__jinja_is_space(tfm__char_before(rendered->data, rendered->count)))
        do
            rendered->count--;
        while (((unsigned char)rendered->data[rendered->count] & 0xc0) == 0x80);
    return TFM_OK;
}
