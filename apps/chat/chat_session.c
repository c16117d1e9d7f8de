/* The loop of messages and commands. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "chat/chat_session.h"
#include "chat/message_input.h"

typedef struct command {
    const char *name, *argument, *about; /* argument: NULL for none; in brackets if optional */
    int (*run)(chat_session *s, const char *argument);
} command;

/* ---- Commands ------------------------------------------------------------------------------------------ */

static int run_system(chat_session *s, const char *text) {
    const char *system = chat_conversation_system(&s->conversation);
    if (*text)
        return chat_conversation_set_system(&s->conversation, text, strcmp(text, "\"\"") == 0 ? 0 : strlen(text));
    fprintf(stderr, "%s\n", system ? system : "[there is no system message]");
    return CLI_OK;
}

static int run_save(chat_session *s, const char *path) {
    const int code = chat_conversation_save(&s->conversation, path);
    if (code == CLI_OK)
        fprintf(stderr, "[saved: %zu messages]\n", json_array_size(s->conversation.messages));
    return code;
}

static int run_load(chat_session *s, const char *path) {
    const int code = chat_conversation_load(&s->conversation, path);
    if (code == CLI_OK)
        fprintf(stderr, "[loaded: %zu messages]\n", json_array_size(s->conversation.messages));
    return code;
}

static int run_undo(chat_session *s, const char *argument) {
    (void)argument;
    if (!chat_conversation_undo(&s->conversation, false))
        return cli_fail("there is no turn to remove");
    fputs("[the last turn is removed]\n", stderr);
    return CLI_OK;
}

static int run_retry(chat_session *s, const char *argument) {
    (void)argument;
    return chat_retry(s);
}

static int run_clear(chat_session *s, const char *argument) {
    (void)argument;
    chat_conversation_clear(&s->conversation);
    fputs("[a new conversation]\n", stderr);
    return CLI_OK;
}

static int run_help(chat_session *s, const char *argument);

static const command COMMANDS[] = {
    {"/system", "[TEXT]", "show or set the system message; \"\" removes it", run_system},
    {"/undo", NULL, "remove the last message and its answer", run_undo},
    {"/retry", NULL, "answer the last message again", run_retry},
    {"/clear", NULL, "remove all messages except the system message", run_clear},
    {"/save", "FILE", "write the messages as JSON", run_save},
    {"/load", "FILE", "continue the messages of a file", run_load},
    {"/help", NULL, "this list", run_help},
    {"/exit", NULL, "end; so does Ctrl-D", NULL},
};

static int run_help(chat_session *s, const char *argument) {
    (void)s, (void)argument;
    for (size_t i = 0; i < CLI_COUNT(COMMANDS); i++) {
        char left[32];
        const command *c = &COMMANDS[i];
        snprintf(left, sizeof(left), "%s %s", c->name, c->argument ? c->argument : "");
        fprintf(stderr, "  %-15s %s\n", left, c->about);
    }
    fputs("Several lines: end each but the last with a backslash, or write \"\"\" before and\n"
          "after them. A blank before a / makes it a message. Ctrl-C stops an answer.\n",
          stderr);
    return CLI_OK;
}

/* Runs "/name argument". *ends: it was /exit. */
static int run_command(chat_session *s, char *line, bool *ends) {
    const size_t name = strcspn(line, " \t\n");
    const char *argument = line + name + strspn(line + name, " \t\n");
    cli_suggestion near = {.word = line};
    for (size_t end = strlen(line); end > name && strchr(" \t\n", line[end - 1]);)
        line[--end] = 0;
    line[name] = 0;
    for (size_t i = 0; i < CLI_COUNT(COMMANDS); i++) {
        const command *c = &COMMANDS[i];
        cli_suggest(&near, c->name);
        if (strcmp(line, c->name) != 0)
            continue;
        if (!c->argument && *argument)
            return cli_fail("%s takes no argument", c->name);
        if (c->argument && c->argument[0] != '[' && !*argument)
            return cli_fail("%s needs an argument: %s %s", c->name, c->name, c->argument);
        *ends = !c->run;
        return c->run ? c->run(s, argument) : CLI_OK;
    }
    if (near.name)
        return cli_fail("there is no command %s: did you mean %s? /help lists them", line, near.name);
    return cli_fail("there is no command %s: /help lists them; a message that begins with / needs a blank before it",
                    line);
}

/* ---- The loop ------------------------------------------------------------------------------------------ */

static bool is_blank(const char *text, size_t bytes) {
    return strspn(text, " \t\n") == bytes;
}

/* One message or command. */
static int run_message(chat_session *s, const char *text, size_t bytes, bool *ends) {
    if (text[0] != '/')
        return is_blank(text, bytes) ? CLI_OK : chat_turn(s, text, bytes);
    char *line = strdup(text);
    const int code = line ? run_command(s, line, ends) : cli_fail("out of memory for a command");
    free(line);
    return code;
}

int chat_session_run(chat_session *s) {
    const bool terminal = isatty(STDIN_FILENO) && (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO));
    FILE *screen = isatty(STDOUT_FILENO) ? stdout : stderr;
    chat_input in;
    int code = chat_input_open(&in, terminal ? screen : NULL);
    if (code == CLI_OK && terminal)
        fprintf(stderr, "A context of %zu tokens. /help lists the commands, Ctrl-D ends.\n", s->conversation.context);
    for (bool ends = false; code == CLI_OK && !ends;) {
        const char *text;
        size_t bytes;
        if (terminal)
            chat_catch_interrupt(true);
        const chat_line got = chat_input_read(&in, &text, &bytes);
        if (got == CHAT_LINE_END)
            break;
        if (terminal)
            chat_catch_interrupt(false);
        if (got == CHAT_LINE)
            code = run_message(s, text, bytes, &ends);
        if (terminal && code == CLI_FAILED)
            code = CLI_OK; /* the message says what failed; the session continues */
    }
    chat_input_close(&in);
    return code;
}
