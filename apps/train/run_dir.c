/* The directory of a new run: created, locked, and restored if the run never begins. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "train/train.h"

/* Creates a folder with its parents. *kept: length of the path that existed before. */
static int make(const char *path, size_t *kept) {
    char *part = strdup(path);
    int code = part ? CLI_OK : cli_fail("%s: out of memory", path);
    *kept = strlen(path);
    for (char *end = part; code == CLI_OK && end;) {
        const size_t before = (size_t)(end - part);
        end = strchr(end + 1, '/');
        if (end)
            *end = 0;
        if (mkdir(part, 0777) == 0)
            *kept = before < *kept ? before : *kept;
        else if (errno != EEXIST)
            code = cli_fail("cannot make the folder %s: %s", part, strerror(errno));
        if (end)
            *end = '/';
    }
    free(part);
    return code;
}

/* Removes the created folders that are empty. */
static void unmake(const char *path, size_t kept) {
    char *part = strdup(path);
    while (part && strlen(part) > kept) {
        rmdir(part);
        char *end = strrchr(part, '/');
        *(end ? end : part) = 0;
    }
    free(part);
}

/* An empty log belongs to a run that starts at this moment; take() handles it. */
static int check_free(const char *dir) {
    struct stat info;
    if (train_exists(dir, "recipe.json"))
        return cli_fail("%s holds a run already: resume it by --resume %s, or give another directory", dir, dir);
    DIR *folder = opendir(dir);
    int code = CLI_OK;
    for (struct dirent *entry; code == CLI_OK && folder && (entry = readdir(folder));) {
        const bool empty = fstatat(dirfd(folder), entry->d_name, &info, 0) == 0 && info.st_size == 0;
        if (train_is_file(entry->d_name) && !(empty && strcmp(entry->d_name, "train.jsonl") == 0))
            code = cli_fail("%s holds another model's %s: give another directory", dir, entry->d_name);
    }
    if (folder)
        closedir(folder);
    if (code != CLI_OK)
        return code;
    if (train_snapshot_count(dir) > 0)
        return cli_fail("%s/snapshots holds another run's snapshots: give another directory", dir);
    return CLI_OK;
}

/* Nothing is written before the directory is locked; after a failure nothing is left. */
static int take(train_run *r) {
    int code = check_free(r->dir); /* another run may have locked it first */
    if (code == CLI_OK && (code = train_recipe_write(&r->recipe, r->dir)) != CLI_OK)
        train_run_dir_release(r);
    return code;
}

int train_run_dir_claim(train_run *r) {
    if (check_free(r->dir) != CLI_OK)
        return CLI_FAILED;
    char *snapshots = train_path(r->dir, "snapshots");
    int code = snapshots ? make(snapshots, &r->kept) : cli_fail("%s: out of memory", r->dir);
    if (code == CLI_OK)
        code = train_log_open(&r->log, r->dir);
    if (code == CLI_OK)
        code = take(r);
    else if (snapshots && !r->log.file) /* if there is a log, the folders now belong to another run */
        unmake(snapshots, r->kept);
    free(snapshots);
    return code;
}

static void remove_files(const char *dir) {
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (train_is_file(entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

void train_run_dir_release(train_run *r) {
    char *templates = train_path(r->dir, train_templates);
    remove_files(r->dir);
    if (templates) {
        remove_files(templates);
        rmdir(templates);
    }
    free(templates);
    train_log_close(&r->log); /* NFS keeps an open file in its folder under another name */
    char *snapshots = train_path(r->dir, "snapshots");
    if (snapshots)
        unmake(snapshots, r->kept);
    free(snapshots);
}
