/* The parts of a generated answer: reasoning, content, and calls of tools (answer_parts.c). */
#ifndef TFM_SERVE_ANSWER_PARTS_H
#define TFM_SERVE_ANSWER_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct answer_format {
    bool reasoning;    /* <think>...</think> at the beginning is reasoning */
    bool in_reasoning; /* the prompt ends with <think> */
    json_t *tools;     /* OpenAI's list: the answer may call them; or NULL */
    bool single;       /* of several calls only the first counts */
} answer_format;

/* Positions in the text. */
typedef struct answer_parts {
    size_t reasoning, reasoning_end;
    size_t content, content_end;
} answer_parts;

/* Splits a text. With `more` it may go on: the parts end before bytes that could belong to another part, and do not
 * shrink as the text grows. *calls, unless NULL, receives a new list of tool calls, as in OpenAI's messages, or NULL
 * for none; they have no id. */
answer_parts answer_split(const char *text, size_t bytes, const answer_format *format, bool more, json_t **calls);

#endif
