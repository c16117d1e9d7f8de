/* Reads lines from a file or a pipe, as many at a time as are available. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

enum { READ_BYTES = 1 << 16 };

static int fail_read(const cli_lines *lines) {
    const char *why = strerror(errno);
    return cli_fail("cannot read %s%s%s: %s; give a readable file", lines->option ? lines->option : "",
                    lines->option ? " " : "", lines->name, why);
}

int cli_lines_open(cli_lines *lines, const char *option, const char *path) {
    bool standard = !path || strcmp(path, "-") == 0;
    *lines = (cli_lines){.name = standard ? "standard input" : path, .option = standard ? NULL : option};
    if (!standard)
        lines->fd = open(path, O_RDONLY | O_CLOEXEC);
    else if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) /* else it seems to hang */
        fputs("tfm: reading lines from this terminal; end with Ctrl-D\n", stderr);
    return lines->fd < 0 ? fail_read(lines) : CLI_OK;
}

void cli_lines_close(cli_lines *lines) {
    if (lines->fd > STDIN_FILENO)
        close(lines->fd);
    free(lines->buffer);
    free(lines->text);
    free(lines->bytes);
    *lines = (cli_lines){.fd = -1};
}

/* Whether a read would not block. Files never block. */
static bool ready(int fd) {
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    return poll(&asked, 1, 0) > 0;
}

/* Reads once, and appends to the buffer. */
static int read_more(cli_lines *lines) {
    if (lines->capacity - lines->used < READ_BYTES + 1) { /* 1: the NUL after a last line without an end */
        size_t larger = 2 * lines->capacity + READ_BYTES + 1;
        char *grown = realloc(lines->buffer, larger);
        if (!grown)
            return cli_fail("%s, line %zu: out of memory after %zu bytes", lines->name, lines->first + 1, lines->used);
        lines->buffer = grown;
        lines->capacity = larger;
    }
    ssize_t got;
    while ((got = read(lines->fd, lines->buffer + lines->used, READ_BYTES)) < 0) {
        struct pollfd asked = {.fd = lines->fd, .events = POLLIN};
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            poll(&asked, 1, -1);
        else if (errno != EINTR)
            return fail_read(lines);
    }
    lines->used += (size_t)got;
    lines->ended = got == 0;
    return CLI_OK;
}

static int append(cli_lines *lines, char *text, size_t bytes) {
    if (lines->count == lines->room) {
        size_t room = 2 * lines->room + 256;
        const char **texts = realloc(lines->text, room * sizeof(*texts));
        if (texts)
            lines->text = texts;
        size_t *sizes = texts ? realloc(lines->bytes, room * sizeof(*sizes)) : NULL;
        if (!sizes)
            return cli_fail("%s: out of memory for %zu lines", lines->name, room);
        lines->bytes = sizes;
        lines->room = room;
    }
    text[bytes] = 0;
    lines->text[lines->count] = text;
    lines->bytes[lines->count++] = bytes;
    return CLI_OK;
}

/* The lines in the first `whole` bytes of the buffer. */
static int split(cli_lines *lines, size_t whole) {
    int code = CLI_OK;
    if (lines->first == 0 && whole >= 3 && memcmp(lines->buffer, "\xEF\xBB\xBF", 3) == 0)
        lines->taken = 3;
    while (lines->taken < whole && code == CLI_OK) {
        char *text = lines->buffer + lines->taken, *end = memchr(text, '\n', whole - lines->taken);
        size_t bytes = end ? (size_t)(end - text) : whole - lines->taken;
        lines->taken += bytes + (end != NULL);
        code = append(lines, text, bytes - (bytes > 0 && text[bytes - 1] == '\r'));
    }
    return code;
}

/* Detects UTF-16 by its byte order mark; none of its lines is UTF-8. */
static int check_encoding(const cli_lines *lines) {
    if (lines->first > 0 || lines->used < 2 ||
        (memcmp(lines->buffer, "\xff\xfe", 2) != 0 && memcmp(lines->buffer, "\xfe\xff", 2) != 0))
        return CLI_OK;
    return cli_fail("%s is in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`", lines->name);
}

int cli_lines_next(cli_lines *lines, size_t bytes) {
    lines->first += lines->count;
    lines->count = 0;
    if (lines->taken > 0)
        memmove(lines->buffer, lines->buffer + lines->taken, lines->used -= lines->taken);
    lines->taken = 0;
    size_t whole = 0, seen = 0; /* bytes up to the last line's end, bytes searched */
    for (;;) {
        const char *end = lines->used > seen ? memrchr(lines->buffer + seen, '\n', lines->used - seen) : NULL;
        whole = end ? (size_t)(end + 1 - lines->buffer) : whole;
        seen = lines->used;
        if (lines->ended || (whole > 0 && (whole >= bytes || !ready(lines->fd))))
            break;
        if (read_more(lines) != CLI_OK)
            return CLI_FAILED;
    }
    return check_encoding(lines) == CLI_OK ? split(lines, lines->ended ? lines->used : whole) : CLI_FAILED;
}

int cli_lines_read_file(cli_lines *lines, const char *option, const char *path) {
    int code = cli_lines_open(lines, option, path);
    if (code != CLI_OK)
        return code;
    do { /* until the end, even if reads block */
        code = read_more(lines);
    } while (code == CLI_OK && !lines->ended);
    return code == CLI_OK ? check_encoding(lines) : code;
}

int cli_lines_read_all(cli_lines *lines, const char *option, const char *path) {
    const int code = cli_lines_read_file(lines, option, path);
    return code == CLI_OK ? split(lines, lines->used) : code;
}
