/* Lines from a terminal, edited by libedit, with a history of the session. */
#include "chat/line_editor.h"
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { HISTORY = 1000 };

struct chat_editor {
    EditLine *el;
    History *history;
    FILE *screen;
    char prompt[16];
    bool cancelled;
};

static char *prompt_of(EditLine *el) {
    chat_editor *editor = NULL;
    el_get(el, EL_CLIENTDATA, &editor);
    return editor->prompt;
}

/* Ends the line; the caller discards it. */
static unsigned char cancel_line(EditLine *el, int key) {
    chat_editor *editor = NULL;
    (void)key;
    el_get(el, EL_CLIENTDATA, &editor);
    editor->cancelled = true;
    return CC_EOF;
}

static unsigned char suspend(EditLine *el, int key) {
    (void)key;
    el_set(el, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(el, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
}

/* Characters are UTF-8 even if the locale is not set. */
static void set_locale(void) {
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

chat_editor *chat_editor_new(FILE *screen) {
    chat_editor *editor = calloc(1, sizeof(*editor));
    HistEvent event;
    set_locale();
    if (!editor || !(editor->el = el_init("tfm", stdin, screen, stderr)) || !(editor->history = history_init())) {
        chat_editor_free(&editor);
        return NULL;
    }
    editor->screen = screen;
    history(editor->history, &event, H_SETSIZE, HISTORY);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->el, EL_CLIENTDATA, editor);
    el_set(editor->el, EL_PROMPT, prompt_of);
    el_set(editor->el, EL_HIST, history, editor->history);
    el_set(editor->el, EL_EDITOR, "emacs");
    el_set(editor->el, EL_SIGNAL, 1);
    /* While a line is edited, Ctrl-C and Ctrl-Z are keys and send no signals. */
    el_set(editor->el, EL_SETTY, "-d", "-isig", NULL);
    el_set(editor->el, EL_ADDFN, "tfm-cancel-line", "discard the line", cancel_line);
    el_set(editor->el, EL_ADDFN, "tfm-suspend", "suspend the program", suspend);
    el_source(editor->el, NULL); /* the user's ~/.editrc */
    el_set(editor->el, EL_BIND, "^C", "tfm-cancel-line", NULL);
    el_set(editor->el, EL_BIND, "^Z", "tfm-suspend", NULL);
    return editor;
}

chat_line chat_editor_read(chat_editor *editor, const char *prompt, const char **line, size_t *bytes) {
    int count = 0;
    HistEvent event;
    snprintf(editor->prompt, sizeof(editor->prompt), "%s", prompt);
    editor->cancelled = false;
    /* el_gets prints the prompt first: a Ctrl-D typed before it changes the mode would be lost. */
    el_set(editor->el, EL_PREP_TERM, 1);
    const char *text = el_gets(editor->el, &count);
    if (editor->cancelled || !text || count <= 0) {
        fputs(editor->cancelled ? "^C\n" : "\n", editor->screen);
        fflush(editor->screen);
        return editor->cancelled ? CHAT_LINE_CANCELLED : CHAT_LINE_END;
    }
    *line = text;
    *bytes = strlen(text); /* `count` is in characters in some versions */
    if (*bytes > 0 && text[*bytes - 1] == '\n')
        --*bytes;
    if (*bytes > 0)
        history(editor->history, &event, H_ENTER, text);
    return CHAT_LINE;
}

void chat_editor_free(chat_editor **pointer) {
    chat_editor *editor = *pointer;
    *pointer = NULL;
    if (!editor)
        return;
    if (editor->history)
        history_end(editor->history);
    if (editor->el)
        el_end(editor->el);
    free(editor);
}
