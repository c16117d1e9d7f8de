/* Messages from standard input: a line, or several. */
#ifndef TFM_CHAT_MESSAGE_INPUT_H
#define TFM_CHAT_MESSAGE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include "chat/line_editor.h"

typedef struct chat_input {
    chat_editor *editor; /* NULL: standard input is no terminal */
    char *line;          /* of a file */
    size_t line_room;
    bool begun;
    char *text; /* the message */
    size_t bytes, room;
} chat_input;

/* Opens standard input: `screen` is the terminal for prompts, NULL for a file. CLI_OK, or CLI_FAILED after a message.
 */
int chat_input_open(chat_input *in, FILE *screen);
void chat_input_close(chat_input *in);
/* Reads a message: a line; while it ends in a backslash, the next line too; or the lines between `"""` and `"""`. *text
 * ends in a NUL and is valid until the next call. Out of memory is an END after a message. */
chat_line chat_input_read(chat_input *in, const char **text, size_t *bytes);

#endif
