/* Lines from a terminal: libedit (line_editor.c), or the terminal's own editing (line_editor_absent.c). */
#ifndef TFM_CHAT_LINE_EDITOR_H
#define TFM_CHAT_LINE_EDITOR_H

#include <stdio.h>

typedef struct chat_editor chat_editor;

typedef enum chat_line { CHAT_LINE, CHAT_LINE_CANCELLED, CHAT_LINE_END } chat_line;

/* Prompts are written to `screen`. NULL without memory. */
chat_editor *chat_editor_new(FILE *screen);
/* Reads a line without its end: *line is valid until the next call. CANCELLED: Ctrl-C; END: Ctrl-D on an empty line, or
 * the end of the input. */
chat_line chat_editor_read(chat_editor *editor, const char *prompt, const char **line, size_t *bytes);
void chat_editor_free(chat_editor **editor);

#endif
