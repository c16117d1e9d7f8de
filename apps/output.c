/* Results to standard output, or to a file that is there whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli.h"

/* The unfinished file, for the signal handler. */
static const char *volatile unfinished;

static void clean_up(int signal_number) {
    if (unfinished)
        unlink(unfinished);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int write_failed(const cli_output *out, int error) {
    const char *reason = error == EPIPE ? "its reader has gone" : error ? strerror(error) : "a write failed";
    return cli_fail("cannot write %s: %s", out->name, reason);
}

/* A new file beside `path`, with the access that the old one has or a new one would get. */
static int make_beside(cli_output *out, const char *path, const struct stat *old) {
    static const char suffix[] = ".tfm-XXXXXX";
    out->path = old ? realpath(path, NULL) : strdup(path); /* a link stays one */
    if (!out->path || !(out->temporary = malloc(strlen(out->path) + sizeof(suffix))))
        return cli_fail("cannot write %s: %s", path, strerror(errno));
    strcat(strcpy(out->temporary, out->path), suffix);
    int fd = mkostemp(out->temporary, O_CLOEXEC);
    if (fd < 0) {
        free(out->temporary);
        out->temporary = NULL;
        return cli_fail("cannot write beside %s: %s", path, strerror(errno));
    }
    unfinished = out->temporary;
    /* Signals that are ignored stay so, and who has a handler of its own closes the file itself. */
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < CLI_COUNT(signals); i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            signal(signals[i], clean_up);
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask);
    out->file = fdopen(fd, "w");
    return out->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

int cli_output_open(cli_output *out, const char *path) {
    struct stat old;
    *out = (cli_output){.file = stdout, .name = "standard output"};
    if (!path || strcmp(path, "-") == 0)
        return CLI_OK;
    *out = (cli_output){.name = path};
    bool exists = stat(path, &old) == 0;
    if (!exists || S_ISREG(old.st_mode))
        return make_beside(out, path, exists ? &old : NULL);
    /* A device or a pipe cannot be replaced: it is written to. */
    out->file = fopen(path, "we");
    return out->file ? CLI_OK : cli_fail("cannot write %s: %s", path, strerror(errno));
}

void cli_put_line(FILE *file, const char *text) {
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

bool cli_output_good(cli_output *out) {
    if (ferror(out->file) && !out->error)
        out->error = errno;
    return !ferror(out->file);
}

int cli_output_flush(cli_output *out) {
    errno = 0;
    int flushed = fflush(out->file);
    if (flushed == 0 && !ferror(out->file))
        return CLI_OK;
    int error = out->error ? out->error : errno;
    if (out->file == stdout) /* said once */
        clearerr(stdout);
    return write_failed(out, error);
}

int cli_output_close(cli_output *out, bool keep) {
    int code = CLI_OK;
    if (out->file) {
        if (keep)
            code = cli_output_flush(out);
        if (code == CLI_OK && keep && out->path && fsync(fileno(out->file)) != 0)
            code = write_failed(out, errno);
        if (out->file != stdout && fclose(out->file) != 0 && code == CLI_OK && keep)
            code = write_failed(out, errno);
    }
    if (out->temporary && (code != CLI_OK || !keep))
        unlink(out->temporary);
    else if (out->temporary && rename(out->temporary, out->path) != 0)
        code = write_failed(out, errno);
    unfinished = NULL;
    free(out->temporary);
    free(out->path);
    *out = (cli_output){0};
    return code;
}
