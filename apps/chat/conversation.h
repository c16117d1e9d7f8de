/* The messages of a conversation, and the prompt that they make. */
#ifndef TFM_CHAT_CONVERSATION_H
#define TFM_CHAT_CONVERSATION_H

#include <jansson.h>
#include "cli/chat_model.h"

typedef struct chat_conversation {
    const cli_chat_model *model;
    const tfm_tokenizer *tokenizer;
    const char *variables; /* further variables of the template as JSON, or NULL */
    size_t context;        /* maximum tokens of a prompt and its answer */
    size_t reserve;        /* tokens that a prompt leaves for its answer */
    json_t *messages;      /* [{"role": string, "content": string}]; the first one may be the system message */
    size_t first;          /* first message of the prompt after the system message: earlier turns are dropped */
    size_t dropped;        /* turns before `first` */
    int32_t *ids;          /* [count]: the prompt of the last chat_conversation_prompt */
    size_t count;
} chat_conversation;

/* Starts without messages. CLI_OK, or CLI_FAILED after a message; free in any case. */
int chat_conversation_begin(chat_conversation *c);
void chat_conversation_free(chat_conversation *c);

/* The text of the system message, or NULL. */
const char *chat_conversation_system(const chat_conversation *c);
/* Sets the system message; "" removes it. CLI_OK, or CLI_FAILED after a message. */
int chat_conversation_set_system(chat_conversation *c, const char *text, size_t bytes);
/* Appends a message. CLI_OK, or CLI_FAILED after a message, for a text that is not UTF-8 and out of memory. */
int chat_conversation_add(chat_conversation *c, const char *role, const char *text, size_t bytes);
/* Removes the messages from the last one of the user on, which is kept with `keep_user`. False if there is none, or
 * nothing after it. */
bool chat_conversation_undo(chat_conversation *c, bool keep_user);
/* Removes all messages except the system message. */
void chat_conversation_clear(chat_conversation *c);

/* Sets all messages to an earlier copy, which the conversation then owns. */
void chat_conversation_restore(chat_conversation *c, json_t *messages);

/* Writes the messages to a file as JSON; reads them from one, or leaves them unchanged. CLI_OK, or CLI_FAILED after a
 * message. */
int chat_conversation_save(const chat_conversation *c, const char *path);
int chat_conversation_load(chat_conversation *c, const char *path);

/* Renders and encodes the prompt of the next answer. If it does not leave `reserve` tokens, the oldest turns are
 * dropped until a quarter of the rest is free, with a line on standard error. CLI_OK, or CLI_FAILED after a message. */
int chat_conversation_prompt(chat_conversation *c);

#endif
