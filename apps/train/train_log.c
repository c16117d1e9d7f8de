/* train.jsonl, and messages of a run. */
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
#include "train/train.h"

/* Prefixes of the first line of each start, and of the last line of a completed run. */
static const char START[] = "{\"type\":\"start\"", END[] = "{\"type\":\"end\"";

static const char *const FILES[] = {
    "recipe.json", "config.json", "generation_config.json", "model.safetensors",
    "train.jsonl", "curves.svg",  "checkpoint.safetensors",
};

static const char *const TEXT_FILES[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "target_vocab.json",
    "chat_template.json",
};

static bool is_one_of(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

const char train_templates[] = "additional_chat_templates";

bool train_is_tokenizer_file(const char *name) {
    static const char *const ENDS[] = {".spm", ".model", ".jinja", ".tiktoken"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < CLI_COUNT(ENDS); i++)
        if (length > strlen(ENDS[i]) && strcmp(name + length - strlen(ENDS[i]), ENDS[i]) == 0)
            return true;
    return is_one_of(TEXT_FILES, CLI_COUNT(TEXT_FILES), name);
}

bool train_is_file(const char *name) {
    return is_one_of(FILES, CLI_COUNT(FILES), name) || train_is_tokenizer_file(name);
}

/* Temporary names of incomplete files. */
static bool unfinished(const char *name) {
    static const char *const ENDS[] = {".tfm-??????", ".unfinished", "-*-of-*.unfinished"}; /* last: shards */
    char file[256];
    for (size_t length = 1; name[length] && length < sizeof(file); length++)
        for (size_t i = 0; i < CLI_COUNT(ENDS); i++)
            if (fnmatch(ENDS[i], name + length, 0) == 0) {
                snprintf(file, sizeof(file), "%.*s", (int)length, name);
                if (train_is_file(file))
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
        return cli_fail("another tfm train is running in %s: wait for its end", dir);
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
    cli_output out = {.file = log->file, .name = log->path};
    cli_write_json(&out, object, 8);
    return cli_output_flush(&out);
}

int train_log_sync(train_log *log, long *bytes) {
    if (fflush(log->file) != 0 || fsync(fileno(log->file)) != 0 || fseek(log->file, 0, SEEK_END) != 0 ||
        (*bytes = ftell(log->file)) < 0)
        return cli_fail("cannot write %s: %s", log->path, strerror(errno));
    return CLI_OK;
}

void train_print(const char *format, ...) {
    if (cli_silent())
        return;
    cli_progress(NULL);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}
