/* Messages from standard input. */
#include "chat/message_input.h"
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

static const char QUOTES[] = "\"\"\"";
enum { QUOTE_BYTES = sizeof(QUOTES) - 1 };

int chat_input_open(chat_input *in, FILE *screen) {
    *in = (chat_input){0};
    if (!screen)
        return CLI_OK;
    in->editor = chat_editor_new(screen);
    return in->editor ? CLI_OK : cli_fail("cannot edit lines on this terminal: redirect standard input");
}

void chat_input_close(chat_input *in) {
    chat_editor_free(&in->editor);
    free(in->line);
    free(in->text);
}

static chat_line read_line(chat_input *in, const char *prompt, const char **line, size_t *bytes) {
    if (in->editor)
        return chat_editor_read(in->editor, prompt, line, bytes);
    const ssize_t got = getline(&in->line, &in->line_room, stdin);
    if (got <= 0)
        return CHAT_LINE_END;
    *line = in->line;
    *bytes = (size_t)got - (in->line[got - 1] == '\n');
    *bytes -= *bytes > 0 && in->line[*bytes - 1] == '\r';
    if (!in->begun && *bytes >= 3 && memcmp(*line, "\xEF\xBB\xBF", 3) == 0) {
        *line += 3;
        *bytes -= 3;
    }
    in->begun = true;
    return CHAT_LINE;
}

static chat_line append(chat_input *in, const char *text, size_t bytes) {
    if (!cli_grow(&in->text, &in->room, in->bytes + bytes + 1, 1)) {
        cli_fail("out of memory for a message of %zu bytes", in->bytes + bytes);
        return CHAT_LINE_END;
    }
    if (bytes > 0)
        memcpy(in->text + in->bytes, text, bytes);
    in->bytes += bytes;
    in->text[in->bytes] = 0;
    return CHAT_LINE;
}

/* Reads the next line of a message, and appends it after a line end. */
static chat_line append_line(chat_input *in) {
    const char *line;
    size_t bytes;
    chat_line got = read_line(in, "... ", &line, &bytes);
    if (got == CHAT_LINE)
        got = append(in, "\n", 1);
    return got == CHAT_LINE ? append(in, line, bytes) : got;
}

/* Whether the text from `from` on ends in quotes and blanks; removes them, and a line end before them. */
static bool close_quotes(chat_input *in, size_t from) {
    size_t end = in->bytes;
    while (end > from && (in->text[end - 1] == ' ' || in->text[end - 1] == '\t'))
        end--;
    if (end < from + QUOTE_BYTES || memcmp(in->text + end - QUOTE_BYTES, QUOTES, QUOTE_BYTES) != 0)
        return false;
    end -= QUOTE_BYTES;
    end -= end > from && in->text[end - 1] == '\n';
    in->text[in->bytes = end] = 0;
    return true;
}

/* The lines up to the closing quotes; the text begins with the opening ones. At the end of the input they may lack. */
static chat_line read_quoted(chat_input *in) {
    chat_line got = CHAT_LINE;
    while (got == CHAT_LINE && !close_quotes(in, QUOTE_BYTES))
        got = append_line(in);
    if (got == CHAT_LINE_CANCELLED)
        return got;
    const size_t skipped = QUOTE_BYTES + (in->bytes > QUOTE_BYTES && in->text[QUOTE_BYTES] == '\n');
    memmove(in->text, in->text + skipped, in->bytes + 1 - skipped);
    in->bytes -= skipped;
    return CHAT_LINE;
}

chat_line chat_input_read(chat_input *in, const char **text, size_t *bytes) {
    const char *line;
    size_t length;
    in->bytes = 0;
    chat_line got = read_line(in, "> ", &line, &length);
    if (got == CHAT_LINE)
        got = append(in, line, length);
    if (got == CHAT_LINE && in->bytes >= QUOTE_BYTES && memcmp(in->text, QUOTES, QUOTE_BYTES) == 0)
        got = read_quoted(in);
    else
        while (got == CHAT_LINE && in->bytes > 0 && in->text[in->bytes - 1] == '\\') {
            in->text[--in->bytes] = 0;
            got = append_line(in);
        }
    if (got == CHAT_LINE_END && in->bytes > 0) /* the input ends within the message */
        got = CHAT_LINE;
    *text = in->text;
    *bytes = in->bytes;
    return got;
}
