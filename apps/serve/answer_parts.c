/* Splits generated answers. Calls of tools are written as
 *
 *     <tool_call>{"name": ..., "arguments": {...}}</tool_call>      Hermes, Qwen; with a list also Granite
 *     [TOOL_CALLS][{"name": ..., "arguments": {...}}]               Mistral, where the marker may be a special token
 *     <|python_tag|>{"name": ..., "parameters": {...}}              Llama 3, also without the marker and with ;
 *
 * A text that is no valid call stays content. */
#include "serve/answer_parts.h"
#include <stdlib.h>
#include <string.h>

static const char THINK[] = "<think>", END_THINK[] = "</think>", CALL[] = "<tool_call>", END_CALL[] = "</tool_call>";
static const char *const MARKERS[] = {"[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<tool_call>"};
enum { MARKER_COUNT = sizeof(MARKERS) / sizeof(*MARKERS), MOST_CALLS = 128 };

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t skip_blanks(const char *text, size_t at, size_t end) {
    while (at < end && is_blank(text[at]))
        at++;
    return at;
}

static size_t trim_end(const char *text, size_t begin, size_t end) {
    while (end > begin && is_blank(text[end - 1]))
        end--;
    return end;
}

static bool begins(const char *text, size_t bytes, const char *word) {
    return bytes >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* Whether the whole text is the beginning of a longer word. */
static bool may_become(const char *text, size_t bytes, const char *word) {
    return bytes < strlen(word) && memcmp(text, word, bytes) == 0;
}

/* The position of a word from `at` on, or `end`. */
static size_t find(const char *text, size_t at, size_t end, const char *word) {
    while (at < end && !begins(text + at, end - at, word))
        at++;
    return at;
}

/* The end without a beginning of the word there. */
static size_t without_beginning(const char *text, size_t begin, size_t end, const char *word) {
    for (size_t at = end > begin + strlen(word) ? end - strlen(word) : begin; at < end; at++)
        if (may_become(text + at, end - at, word))
            return at;
    return end;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static bool is_tool(const json_t *tools, const char *name) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *known = json_string_value(json_object_get(function, "name"));
        if (known && strcmp(known, name) == 0)
            return true;
    }
    return false;
}

/* Adds a call, or each of a list. False if it is none. */
static bool add_call(json_t *calls, const json_t *value, const json_t *tools) {
    const char *name = json_string_value(json_object_get(value, "name"));
    const json_t *arguments = json_object_get(value, "arguments");
    bool good = json_array_size(value) > 0;
    for (size_t i = 0; i < json_array_size(value) && good; i++)
        good = !json_is_array(json_array_get(value, i)) && add_call(calls, json_array_get(value, i), tools);
    if (json_is_array(value))
        return good;
    arguments = arguments ? arguments : json_object_get(value, "parameters");
    if (!name || !is_tool(tools, name) || (arguments && !json_is_object(arguments) && !json_is_string(arguments)) ||
        json_array_size(calls) >= MOST_CALLS)
        return false;
    char *text = json_is_object(arguments) ? json_dumps(arguments, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    const char *given = text ? text : arguments ? json_string_value(arguments) : "{}";
    json_t *call = json_pack("{s:s, s:{s:s, s:s}}", "type", "function", "function", "name", name, "arguments",
                             given ? given : "{}");
    free(text);
    return call && json_array_append_new(calls, call) == 0;
}

/* Values of JSON one after the other, also with ; between them. */
static bool add_values(json_t *calls, const char *text, size_t begin, size_t end, const json_t *tools) {
    bool any = false;
    for (size_t at = skip_blanks(text, begin, end); at < end;) {
        json_error_t error;
        json_t *value = json_loadb(text + at, end - at, JSON_DISABLE_EOF_CHECK, &error);
        const bool good = value && add_call(calls, value, tools);
        json_decref(value);
        if (!good || error.position <= 0)
            return false;
        any = true;
        at = skip_blanks(text, at + (size_t)error.position, end);
        if (at < end && text[at] == ';')
            at = skip_blanks(text, at + 1, end);
    }
    return any;
}

/* Calls from `begin` on to the end, or NULL. */
static json_t *read_calls(const char *text, size_t begin, size_t end, const json_t *tools) {
    json_t *calls = json_array();
    bool good = begin < end;
    for (size_t at = begin; at < end && good;) {
        size_t stop = end, next = end;
        for (int i = 0; i < MARKER_COUNT; i++)
            if (begins(text + at, end - at, MARKERS[i])) {
                at += strlen(MARKERS[i]);
                break;
            }
        stop = find(text, at, end, END_CALL);
        next = stop < end ? skip_blanks(text, stop + strlen(END_CALL), end) : end;
        good = add_values(calls, text, at, stop, tools) && (next == end || begins(text + next, end - next, CALL));
        at = next;
    }
    if (good && json_array_size(calls) > 0)
        return calls;
    json_decref(calls);
    return NULL;
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

/* Reads the reasoning. Returns where the content begins; the end if that is not known yet. */
static size_t split_reasoning(answer_parts *p, const char *text, size_t bytes, const answer_format *format, bool more) {
    const size_t first = skip_blanks(text, 0, bytes);
    const bool marked = begins(text + first, bytes - first, THINK);
    if (!format->reasoning)
        return 0;
    if (more && may_become(text + first, bytes - first, THINK))
        return bytes;
    if (!marked && !format->in_reasoning)
        return 0;
    p->reasoning = p->reasoning_end = skip_blanks(text, marked ? first + strlen(THINK) : first, bytes);
    const size_t end = find(text, p->reasoning, bytes, END_THINK);
    const size_t known = end == bytes && more ? without_beginning(text, p->reasoning, bytes, END_THINK) : end;
    p->reasoning_end = trim_end(text, p->reasoning, known);
    return end < bytes ? skip_blanks(text, end + strlen(END_THINK), bytes) : bytes;
}

/* Whether the text from `at` on may be a call without <tool_call> around it. */
static bool begins_call(const char *text, size_t at, size_t bytes, bool more) {
    bool may = at < bytes && (text[at] == '{' || text[at] == '[');
    for (int i = 0; i < MARKER_COUNT; i++)
        may =
            may || begins(text + at, bytes - at, MARKERS[i]) || (more && may_become(text + at, bytes - at, MARKERS[i]));
    return may;
}

answer_parts answer_split(const char *text, size_t bytes, const answer_format *format, bool more, json_t **calls) {
    answer_parts p = {0};
    if (calls)
        *calls = NULL;
    p.content = split_reasoning(&p, text, bytes, format, more);
    p.content_end = bytes;
    if (!format->tools)
        return p;
    const size_t first = skip_blanks(text, p.content, bytes);
    size_t at = begins_call(text, first, bytes, more) ? first : find(text, p.content, bytes, CALL);
    json_t *found = more ? NULL : read_calls(text, at, bytes, format->tools);
    if (more && at == bytes)
        at = without_beginning(text, p.content, bytes, CALL);
    if (found || more)
        p.content_end = trim_end(text, p.content, at);
    while (found && format->single && json_array_size(found) > 1)
        json_array_remove(found, 1);
    if (calls)
        *calls = found;
    else
        json_decref(found);
    return p;
}
