/* Messages on standard error: errors and progress lines. */
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/cli.h"

static bool progress_shown;

/* The bytes of a line that fit the terminal: a wrapped line could not be cleared. */
static size_t terminal_columns(void) {
    struct winsize window;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2 ? SIZE_MAX : window.ws_col - 1u;
}

static void truncate_to_terminal(char *line) {
    size_t end = terminal_columns();
    if (strlen(line) <= end)
        return;
    while (end > 0 && (line[end] & 0xC0) == 0x80) /* within a character */
        end--;
    line[end] = 0;
}

void cli_print_wrapped_to(FILE *file, int columns, int column, int indent, const char *text) {
    bool first = true;
    for (const char *word = text; *word;) {
        const int length = (int)strcspn(word, " ");
        if (!first && column + 1 + length > columns) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        fprintf(file, first ? "%.*s" : " %.*s", length, word);
        column += length + !first;
        first = false;
        word += length;
        word += strspn(word, " ");
    }
    fputc('\n', file);
}

void cli_print_wrapped(FILE *file, int column, int indent, const char *text) {
    struct winsize window;
    if (ioctl(fileno(file), TIOCGWINSZ, &window) == 0 && window.ws_col >= 2)
        cli_print_wrapped_to(file, window.ws_col, column, indent, text);
    else
        fprintf(file, "%s\n", text); /* with all its blanks: device selectors match any part of a name */
}

void cli_print_device(const tfm_context *ctx, const char *variant) {
    const tfm_device_info *device = tfm_context_device(ctx);
    char text[sizeof(device->name) + sizeof(device->opencl) + 64];
    snprintf(text, sizeof(text), "%s, %s%s%s", device->name, device->opencl, variant ? ", variant " : "",
             variant ? variant : "");
    cli_print_wrapped(stderr, 0, 2, text);
}

static bool deferring, silent;
static char deferred[4096];
static const char *deferred_command; /* command of the stored message's --help, or NULL */

void cli_defer_errors(bool keep_silent) {
    deferring = true;
    silent = keep_silent;
}

bool cli_silent(void) {
    return silent;
}

const char *cli_deferred_error(void) {
    return deferred;
}

void cli_print_deferred_error(const char *whose) {
    if (deferred_command)
        fprintf(stderr, "tfm %s: %s%s; see tfm %s --help\n", deferred_command, whose, deferred, deferred_command);
    else
        fprintf(stderr, "tfm: %s%s\n", whose, deferred);
}

static void defer_error(const char *command, const char *format, va_list args) {
    if (deferred[0])
        return;
    vsnprintf(deferred, sizeof(deferred), format, args);
    deferred_command = command;
}

void cli_progress(const char *format, ...) {
    char line[512];
    if ((!format && !progress_shown) || silent || !isatty(STDERR_FILENO))
        return;
    flockfile(stderr); /* several devices may build at the same time */
    fputs("\r\033[K", stderr);
    progress_shown = format != NULL;
    if (format) {
        va_list args;
        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        truncate_to_terminal(line);
        fputs(line, stderr);
    }
    fflush(stderr);
    funlockfile(stderr);
}

/* Formats the fields up to this rank, separated by this number of blanks; returns whether they fit. */
static bool join_fields(char *line, size_t room, const cli_field *fields, size_t count, int rank, int blanks) {
    size_t used = 0;
    line[0] = 0;
    for (size_t i = 0; i < count && used < room; i++)
        if (fields[i].rank <= rank && fields[i].text[0])
            used += (size_t)snprintf(line + used, room - used, "%*s%s", used ? blanks : 0, "", fields[i].text);
    return used < room && used <= terminal_columns();
}

void cli_progress_fields(const cli_field *fields, size_t count) {
    char line[512];
    int rank = 0;
    for (size_t i = 0; i < count; i++)
        rank = fields[i].rank > rank ? fields[i].rank : rank;
    while (!join_fields(line, sizeof(line), fields, count, rank, 2) &&
           !join_fields(line, sizeof(line), fields, count, rank, 1) && rank > 0)
        rank--;
    cli_progress("%s", line);
}

void cli_on_build(void *user, int count, double seconds) {
    enum { PATIENCE = 5 };         /* seconds until the first message */
    static double next = PATIENCE; /* the interval doubles with each message */
    (void)user;
    if (!isatty(STDERR_FILENO) && seconds >= next && !silent) {
        if (next == PATIENCE)
            fprintf(
                stderr,
                "tfm: building kernels for this device, %d so far; each is built once, and a model needs 10 to 20\n",
                count);
        else
            fprintf(stderr, "tfm: still building kernels for this device: %d so far, %.0f s\n", count, seconds);
        next = 2 * seconds;
    }
    cli_progress(seconds < 1 ? "building kernels for this device: %d" : "building kernels for this device: %d, %.0f s",
                 count, seconds);
}

int cli_fail(const char *format, ...) {
    cli_progress(NULL);
    va_list args;
    va_start(args, format);
    if (deferring) {
        defer_error(NULL, format, args);
        va_end(args);
        return CLI_FAILED;
    }
    fputs("tfm: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_FAILED;
}

/* The library's message without the leading function name. */
static const char *library_sentence(void) {
    static const char *const CALLS[] = {
        "translate: ", "score: ",    "score_texts: ", "attention_maps: ", "embed: ",
        "classify: ",  "search: ",   "generate: ",    "fill_mask: ",      "trainer_new: ",
        "selftest: ",  "hub_pull: ", "hub_remove: ",  "rerank: ",         "embedder_rerank: "};
    const char *sentence = tfm_error_message();
    for (size_t i = 0; i < CLI_COUNT(CALLS); i++)
        if (strncmp(sentence, CALLS[i], strlen(CALLS[i])) == 0)
            return sentence + strlen(CALLS[i]);
    return sentence;
}

int cli_fail_library(void) {
    return cli_fail("%s", library_sentence());
}

int cli_usage_error(const cli_syntax *syntax, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (deferring) {
        defer_error(syntax->name, format, args);
        va_end(args);
        return CLI_USAGE;
    }
    fprintf(stderr, "tfm %s: ", syntax->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; see tfm %s --help\n", syntax->name);
    va_end(args);
    return CLI_USAGE;
}
