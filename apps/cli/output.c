/* Writes results to standard output, or atomically to a file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};

/* The unfinished file for the signal handler, and the number of bytes to keep: whole lines. */
static const char *volatile unfinished;
static char *partial;
static int unfinished_fd;
static off_t kept_bytes;
static size_t kept_lines;
static char goodbye[PATH_MAX + 128]; /* the handler's message: the file of the kept lines, if any */
static pthread_t owner;              /* the writing thread */

static bool reader_gone;

bool cli_stdout_closed(void) {
    return reader_gone;
}

/* Renames the finished part to NAME.partial; async-signal-safe. */
static bool keep_partial(void) {
    return kept_lines > 0 && ftruncate(unfinished_fd, kept_bytes) == 0 && rename(unfinished, partial) == 0;
}

static void clean_up(int signal_number) {
    if (!pthread_equal(pthread_self(), owner)) { /* the owner blocks signals while it changes this state */
        pthread_kill(owner, signal_number);
        return;
    }
    const bool kept = unfinished && keep_partial();
    if (unfinished && !kept)
        unlink(unfinished);
    if (unfinished && kept == (kept_lines > 0) && write(STDERR_FILENO, goodbye, strlen(goodbye)) < 0)
        goodbye[0] = 0;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Ignored signals stay ignored; code with its own handler closes the file. */
void cli_catch_signals(void) {
    owner = pthread_self();
    for (size_t i = 0; i < CLI_COUNT(SIGNALS); i++) {
        struct sigaction now;
        if (sigaction(SIGNALS[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            signal(SIGNALS[i], clean_up);
    }
}

/* A closed pipe on standard output, as by `head`, is no error: the program ends quietly. */
static int write_failed(const cli_output *out, int error) {
    if (error == EPIPE && out->file == stdout) {
        reader_gone = true;
        return CLI_FAILED;
    }
    const char *reason = error == EPIPE ? "its reader closed the pipe" : error ? strerror(error) : "a write failed";
    return cli_fail("cannot write %s: %s", out->name, reason);
}

/* The escape sequence that clears a progress line. */
static const char *clear_line(void) {
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}

/* Creates a file next to `path`, with the old file's mode or that of a new one. */
static int make_next_to(cli_output *out, const char *path, const struct stat *old) {
    static const char suffix[] = ".tfm-XXXXXX";
    struct stat link;
    const bool follow =
        old && lstat(path, &link) == 0 && S_ISLNK(link.st_mode); /* replace the target of a symbolic link */
    out->path = follow ? realpath(path, NULL) : strdup(path);
    if (!out->path || !(out->temporary = malloc(strlen(out->path) + sizeof(suffix))))
        return cli_fail("cannot write %s: %s", path, strerror(errno));
    strcat(strcpy(out->temporary, out->path), suffix);
    int fd = mkostemp(out->temporary, O_CLOEXEC);
    if (fd < 0) {
        free(out->temporary);
        out->temporary = NULL;
        return cli_fail("cannot write next to %s: %s", path, strerror(errno));
    }
    out->partial = malloc(strlen(out->path) + sizeof(".partial"));
    if (out->partial)
        strcat(strcpy(out->partial, out->path), ".partial");
    partial = out->partial;
    unfinished_fd = fd;
    kept_lines = 0;
    snprintf(goodbye, sizeof(goodbye), "%stfm: stopped before the first result was complete: nothing was written\n",
             clear_line());
    unfinished = out->temporary;
    cli_catch_signals();
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask);
    out->file = fdopen(fd, "w");
    return out->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

/* The descriptor of a name such as /dev/fd/N or /dev/stdout, or -1. */
static int descriptor_of(const char *path) {
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    int fd = strcmp(path, "/dev/stdout") == 0 ? STDOUT_FILENO : strcmp(path, "/dev/stderr") == 0 ? STDERR_FILENO : -1;
    for (size_t i = 0; i < CLI_COUNT(folders) && fd < 0; i++) {
        const size_t length = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], length) == 0 && path[length] >= '0' && path[length] <= '9') {
            const long number = strtol(path + length, &end, 10);
            fd = !*end && number <= INT_MAX ? (int)number : -1;
        }
    }
    return fd;
}

int cli_output_open(cli_output *out, const char *path) {
    struct stat old;
    const int fd = path ? descriptor_of(path) : -1;
    *out = (cli_output){.file = stdout, .name = "standard output"};
    if (!path || strcmp(path, "-") == 0 || fd == STDOUT_FILENO)
        return CLI_OK;
    *out = (cli_output){.name = path};
    if (fd >= 0) { /* other programs may write to its file too: write to it instead of replacing it */
        const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        out->file = copy >= 0 ? fdopen(copy, "w") : NULL;
        return out->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
    }
    bool exists = stat(path, &old) == 0;
    if (!exists || S_ISREG(old.st_mode))
        return make_next_to(out, path, exists ? &old : NULL);
    /* A device or a pipe cannot be replaced: write to it directly. */
    out->file = fopen(path, "we");
    return out->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

void cli_write_line(FILE *file, const char *text) {
    while (*text) {
        size_t plain = strcspn(text, "\r\n");
        fwrite(text, 1, plain, file);
        text += plain;
        if (*text) {
            fputc(' ', file);
            text++;
        }
    }
}

bool cli_output_ok(cli_output *out) {
    if (ferror(out->file) && !out->error)
        out->error = errno;
    return !ferror(out->file) && !out->error;
}

int cli_output_flush(cli_output *out) {
    errno = 0;
    int flushed = fflush(out->file);
    if (flushed == 0 && cli_output_ok(out))
        return CLI_OK;
    int error = out->error ? out->error : errno;
    if (out->file == stdout) { /* reported once */
        clearerr(stdout);
        out->error = 0;
    }
    return write_failed(out, error);
}

/* Blocks signals while the handler's state is changed. */
static void block_signals(sigset_t *before) {
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < CLI_COUNT(SIGNALS); i++)
        sigaddset(&signals, SIGNALS[i]);
    pthread_sigmask(SIG_BLOCK, &signals, before);
}

static const char *lines_are(void) {
    return kept_lines == 1 ? "line is" : "lines are";
}

int cli_output_checkpoint(cli_output *out, size_t lines) {
    sigset_t before;
    block_signals(&before);
    int code = cli_output_flush(out);
    if (code == CLI_OK && lines > 0 && out->temporary && out->partial) {
        kept_bytes = ftello(out->file);
        kept_lines = lines;
        snprintf(goodbye, sizeof(goodbye), "%stfm: stopped; the first %zu %s in %s\n", clear_line(), lines, lines_are(),
                 out->partial);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* Closes the temporary file: renames it if it is `whole`, else keeps its finished lines, if any. Signals are blocked.
 */
static int settle(cli_output *out, bool whole) {
    int code = CLI_OK;
    bool named = false;
    if (!whole) {
        fflush(out->file); /* otherwise closing the file would write after the kept lines */
        named = keep_partial();
    }
    if (fclose(out->file) != 0 && whole)
        code = write_failed(out, errno);
    if (whole && code == CLI_OK && rename(out->temporary, out->path) == 0) {
        if (kept_lines > 0 && out->partial)
            unlink(out->partial); /* of an earlier run, superseded by this one */
        return CLI_OK;
    }
    if (whole && code == CLI_OK)
        code = write_failed(out, errno);
    if (whole && kept_lines > 0 && out->partial)
        named = rename(out->temporary, out->partial) == 0;
    if (named)
        cli_fail("the first %zu %s in %s", kept_lines, lines_are(), out->partial);
    else
        unlink(out->temporary);
    return code;
}

int cli_output_close(cli_output *out, bool keep) {
    int code = CLI_OK;
    sigset_t before;
    if (out->temporary)
        block_signals(&before);
    if (out->file && keep)
        code = cli_output_flush(out);
    if (out->file && code == CLI_OK && keep && out->path && fsync(fileno(out->file)) != 0)
        code = write_failed(out, errno);
    const bool whole = code == CLI_OK && keep;
    if (out->temporary && out->file) {
        const int settled = settle(out, whole);
        code = code == CLI_OK ? settled : code;
    } else if (out->temporary) {
        unlink(out->temporary);
    } else if (out->file && out->file != stdout && fclose(out->file) != 0 && whole) {
        code = write_failed(out, errno);
    }
    unfinished = NULL;
    partial = NULL;
    kept_lines = 0;
    if (out->temporary)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(out->partial);
    free(out->temporary);
    free(out->path);
    *out = (cli_output){0};
    return code;
}
