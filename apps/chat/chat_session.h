/* A chat with a model: shared by the files of tfm chat. */
#ifndef TFM_CHAT_SESSION_H
#define TFM_CHAT_SESSION_H

#include "chat/conversation.h"

typedef struct chat_session {
    tfm_context *ctx;
    tfm_model *model;
    tfm_prompt_cache *cache; /* the KV cache of the last prompt and its answer */
    cli_chat_model templates;
    chat_conversation conversation;
    tfm_generate_options options; /* of all answers */
    int max_new_tokens;           /* of an answer; 0: what the context leaves */
    cli_output out;               /* standard output: answers */
    bool terminal;                /* `out` is a terminal: control characters are replaced */
    bool stats;
    uint64_t answers; /* answers so far: each has its own random numbers */
} chat_session;

/* From here on Ctrl-C sets a flag that ends an answer. `reading`: it also ends a system call that waits, which reads a
 * line; a write of an answer would fail. */
void chat_catch_interrupt(bool reading);

/* Generates, prints and appends the answer to the conversation's last message. CLI_OK, also if Ctrl-C or a limit ended
 * it; CLI_FAILED after a message, with the conversation unchanged. */
int chat_answer(chat_session *s);
/* Appends a message of the user, and answers it. After CLI_FAILED the conversation is as before. */
int chat_turn(chat_session *s, const char *text, size_t bytes);
/* Replaces the last answer by another one; the same rules. */
int chat_retry(chat_session *s);

/* Reads messages and commands from standard input, from a terminal with prompts, to its end or /exit. CLI_FAILED if
 * something failed, except at a terminal. */
int chat_session_run(chat_session *s);

#endif
