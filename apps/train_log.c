/* train.jsonl, and what is said while a run goes on. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train.h"

/* How the first line of each start begins, and the last line of a run that came to its end. */
static const char START[] = "{\"type\":\"start\"", END[] = "{\"type\":\"end\"";

const char *const train_files[] = {"recipe.json",
                                   "source.spm",
                                   "target.spm",
                                   "target_vocab.json",
                                   "tokenizer_config.json",
                                   "added_tokens.json",
                                   "vocab.json",
                                   "special_tokens_map.json",
                                   "tokenizer.json",
                                   "merges.txt",
                                   "vocab.txt",
                                   "spiece.model",
                                   "sentencepiece.bpe.model",
                                   "tokenizer.model",
                                   "config.json",
                                   "generation_config.json",
                                   "model.safetensors",
                                   "train.jsonl",
                                   "checkpoint.safetensors",
                                   "curves.svg",
                                   NULL};

/* Files that are written beside their names have names of their own until they are complete. */
static bool unfinished(const char *name) {
    for (const char *const *file = train_files; *file; file++) {
        const size_t length = strlen(*file);
        if (strncmp(name, *file, length) == 0 &&
            (fnmatch(".tfm-??????", name + length, 0) == 0 || strcmp(name + length, ".unfinished") == 0 ||
             fnmatch("-*-of-*.unfinished", name + length, 0) == 0)) /* a shard of a checkpoint */
            return true;
    }
    /* A snapshot. */
    const size_t digits = strspn(name, "0123456789");
    return digits > 0 && strcmp(name + digits, ".safetensors.unfinished") == 0;
}

static void clear_away(const char *dir) {
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (unfinished(entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

int train_log_open(train_log *log, const char *dir) {
    *log = (train_log){.path = train_path(dir, "train.jsonl"), .terminal = isatty(STDERR_FILENO)};
    if (!log->path)
        return cli_fail("%s: out of memory", dir);
    log->file = fopen(log->path, "ae");
    if (!log->file)
        return cli_fail("cannot write %s: %s", log->path, strerror(errno));
    if (flock(fileno(log->file), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return cli_fail("another tfm train is at work in %s: wait for its end", dir);
    clear_away(dir);
    char *snapshots = train_path(dir, "snapshots");
    if (snapshots)
        clear_away(snapshots);
    free(snapshots);
    return CLI_OK;
}

int64_t train_log_last(const train_log *log, bool *ended, bool *resumed) {
    FILE *file = fopen(log->path, "re");
    char *line = NULL;
    size_t room = 0;
    int64_t last = 0;
    *ended = *resumed = false;
    while (file && getline(&line, &room, file) >= 0) {
        const bool start = strncmp(line, START, sizeof(START) - 1) == 0;
        const char *at = strstr(line, "\"update\":");
        const int64_t update = at ? strtoll(at + strlen("\"update\":"), NULL, 10) : 0;
        *ended |= strncmp(line, END, sizeof(END) - 1) == 0;
        *resumed |= start && update > 0;
        last = update > last ? update : last;
    }
    free(line);
    if (file)
        fclose(file);
    return last;
}

int train_log_cut(train_log *log, long bytes) {
    struct stat info;
    if (fstat(fileno(log->file), &info) != 0 || (info.st_size > bytes && ftruncate(fileno(log->file), bytes) != 0))
        return cli_fail("cannot write %s: %s", log->path, strerror(errno));
    return CLI_OK;
}

void train_log_close(train_log *log) {
    if (log->file)
        fclose(log->file);
    free(log->path);
    *log = (train_log){0};
}

int train_log_put(train_log *log, json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(8)) : NULL;
    json_decref(object);
    if (!text)
        return cli_fail("%s: out of memory", log->path);
    const bool written = fprintf(log->file, "%s\n", text) > 0 && fflush(log->file) == 0;
    const int error = errno;
    free(text);
    return written ? CLI_OK : cli_fail("cannot write %s: %s", log->path, strerror(error));
}

int train_log_sync(train_log *log, long *bytes) {
    if (fflush(log->file) != 0 || fsync(fileno(log->file)) != 0 || fseek(log->file, 0, SEEK_END) != 0 ||
        (*bytes = ftell(log->file)) < 0)
        return cli_fail("cannot write %s: %s", log->path, strerror(errno));
    return CLI_OK;
}

void train_say(const char *format, ...) {
    if (cli_silent())
        return;
    cli_progress(NULL);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
