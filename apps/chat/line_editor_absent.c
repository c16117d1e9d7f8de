/* Lines from a terminal in a build without libedit. */
#include <errno.h>
#include <stdlib.h>
#include "chat/line_editor.h"

struct chat_editor {
    FILE *screen;
    char *line;
    size_t room;
};

chat_editor *chat_editor_new(FILE *screen) {
    chat_editor *editor = calloc(1, sizeof(*editor));
    if (editor)
        editor->screen = screen;
    return editor;
}

chat_line chat_editor_read(chat_editor *editor, const char *prompt, const char **line, size_t *bytes) {
    fputs(prompt, editor->screen);
    fflush(editor->screen);
    errno = 0;
    const ssize_t got = getline(&editor->line, &editor->room, stdin);
    if (got <= 0) {
        const chat_line end = errno == EINTR ? CHAT_LINE_CANCELLED : CHAT_LINE_END;
        clearerr(stdin);
        fputc('\n', editor->screen);
        fflush(editor->screen);
        return end;
    }
    *line = editor->line;
    *bytes = (size_t)got - (editor->line[got - 1] == '\n');
    return CHAT_LINE;
}

void chat_editor_free(chat_editor **pointer) {
    chat_editor *editor = *pointer;
    *pointer = NULL;
    if (!editor)
        return;
    free(editor->line);
    free(editor);
}
