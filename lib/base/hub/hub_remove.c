/* Deletes models from the cache. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "tfm/hub.h"

typedef struct removal {
    const tfm__hub_name *name;
    char *repo_dir, *commit, *snapshots;
    uint64_t bytes;
    bool dry_run;
} removal;

static tfm_status fail(const char *path) {
    return tfm__fail(TFM_ERROR_IO, "cannot delete %s: %s; check the permissions of the cache folder", path,
                     strerror(errno));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

/* Deletes a folder or file with all below it, without following links. */
static tfm_status remove_all(const removal *r, const char *path) {
    enum { DESCRIPTORS = 16 };
    struct stat info;
    if (r->dry_run || lstat(path, &info) != 0)
        return TFM_OK;
    return nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS) == 0 ? TFM_OK : fail(path);
}

static tfm_status remove_format(const removal *r, char *path) {
    const tfm_status status = path ? remove_all(r, path) : TFM_ERROR_MEMORY;
    free(path);
    return status;
}

/* ---- Blobs of a snapshot -------------------------------------------------------------------------------- */

/* The name of the blob that a file of a snapshot links to; "" for a file that is no such link. */
static void blob_of(char blob[256], const char *path) {
    char target[4096];
    const ssize_t length = readlink(path, target, sizeof(target) - 1);
    blob[0] = '\0';
    if (length <= 0)
        return;
    target[length] = '\0';
    const char *slash = strrchr(target, '/'), *folder = strstr(target, "blobs/");
    if (slash && folder && folder + 5 == slash && tfm__hub_word_is_safe(slash + 1))
        snprintf(blob, 256, "%.255s", slash + 1);
}

/* Whether the file belongs to the removal: of the commit, and of the GGUF file if one is named. */
static bool is_removed(const removal *r, const char *path, const char *gguf) {
    const size_t length = strlen(r->commit);
    if (strncmp(path, r->commit, length) != 0 || path[length] != '/')
        return false;
    return !*gguf || tfm__gguf_same_split(path + length + 1, gguf);
}

/* Whether the blob stays, because of a file that stays, or was deleted with a file before paths[index]. */
static bool is_settled(const removal *r, char *const *paths, size_t count, size_t index, const char *gguf,
                       const char *blob) {
    for (size_t i = 0; i < count; i++) {
        char other[256], *path;
        if (i >= index && is_removed(r, paths[i], gguf))
            continue;
        path = tfm__path_join(r->snapshots, paths[i]);
        if (path)
            blob_of(other, path);
        const bool same = path && strcmp(other, blob) == 0;
        free(path);
        if (same)
            return true;
    }
    return false;
}

/* Deletes one file of a snapshot, and its blob if no other file uses that. */
static tfm_status remove_file(removal *r, char *const *paths, size_t count, size_t index, const char *gguf) {
    char blob[256], *whole = tfm__path_join(r->snapshots, paths[index]), *stored;
    struct stat info;
    if (!whole)
        return TFM_ERROR_MEMORY;
    blob_of(blob, whole);
    const bool linked = blob[0] != '\0', stays = linked && is_settled(r, paths, count, index, gguf, blob);
    stored = linked ? tfm__format("%s/blobs/%s", r->repo_dir, blob) : tfm__strdup(whole);
    tfm_status status = stored ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && !stays && lstat(stored, &info) == 0) {
        r->bytes += (uint64_t)info.st_size;
        status = remove_all(r, stored);
    }
    if (status == TFM_OK && !r->dry_run && unlink(whole) != 0 && errno != ENOENT)
        status = fail(whole);
    free(stored);
    free(whole);
    return status;
}

static tfm_status remove_files(removal *r, const char *gguf) {
    char **paths = NULL;
    size_t count = 0;
    tfm_status status = tfm__hub_walk(&paths, &count, r->snapshots);
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        if (is_removed(r, paths[i], gguf))
            status = remove_file(r, paths, count, i, gguf);
    tfm__names_free(paths, count);
    return status;
}

/* ---- What is removed ------------------------------------------------------------------------------------ */

/* Deletes the references to the commit. */
static tfm_status remove_refs(const removal *r) {
    char **refs = NULL, *folder = tfm__path_join(r->repo_dir, "refs");
    size_t count = 0;
    tfm_status status = folder ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(folder))
        status = tfm__hub_walk(&refs, &count, folder);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *of = NULL;
        status = tfm__hub_commit(&of, r->repo_dir, refs[i]);
        if (status == TFM_OK && of && strcmp(of, r->commit) == 0)
            status = remove_format(r, tfm__path_join(folder, refs[i]));
        free(of);
    }
    tfm__names_free(refs, count);
    free(folder);
    return status;
}

static tfm_status remove_snapshot(removal *r) {
    tfm_status status = remove_files(r, "");
    if (status == TFM_OK)
        status = remove_refs(r);
    if (status == TFM_OK)
        status = remove_format(r, tfm__path_join(r->snapshots, r->commit));
    if (status == TFM_OK)
        status = remove_format(r, tfm__format("%s/.no_exist/%s", r->repo_dir, r->commit));
    if (status == TFM_OK) /* huggingface_hub's list of the files of a commit */
        status = remove_format(r, tfm__format("%s/trees/%s.json", r->repo_dir, r->commit));
    return status;
}

/* Deletes the selected GGUF file; the snapshot too if nothing is left in it. */
static tfm_status remove_gguf(removal *r) {
    char **paths = NULL, *dir = tfm__path_join(r->snapshots, r->commit);
    size_t count = 0, selected = 0, left = 0;
    tfm_status status = dir ? tfm__hub_walk(&paths, &count, dir) : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__gguf_select(&selected, (const char *const *)paths, count, r->name->file, r->name->repo, "");
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        left += !tfm__gguf_same_split(paths[i], paths[selected]);
    if (status == TFM_OK)
        status = left ? remove_files(r, paths[selected]) : remove_snapshot(r);
    tfm__names_free(paths, count);
    free(dir);
    return status;
}

/* nftw has no argument for its function. */
static _Thread_local uint64_t total;

static int add_size(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)path, (void)at;
    total += kind == FTW_F ? (uint64_t)info->st_size : 0;
    return 0;
}

static tfm_status remove_repo(removal *r, const char *cache) {
    enum { DESCRIPTORS = 16 };
    total = 0;
    nftw(r->repo_dir, add_size, DESCRIPTORS, FTW_PHYS);
    r->bytes = total;
    tfm_status status = remove_all(r, r->repo_dir);
    if (status == TFM_OK)
        status = remove_format(r, tfm__format("%s/.locks%s", cache, r->repo_dir + strlen(cache)));
    return status;
}

tfm_status tfm_hub_remove(uint64_t *bytes, const char *text, bool dry_run) {
    tfm__hub_name name;
    char *cache = NULL;
    if (TFM__NEEDS("hub_remove", bytes, text) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *bytes = 0;
    if (!tfm__hub_name_parse(&name, text))
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_remove: %.200s is not a name of the Hugging Face hub: give ORG/NAME",
                         text);
    removal r = {.name = &name, .dry_run = dry_run};
    tfm_status status = tfm__hub_cache_dir(&cache);
    if (status == TFM_OK && (!(r.repo_dir = tfm__hub_repo_dir(cache, name.repo)) ||
                             !(r.snapshots = tfm__path_join(r.repo_dir, "snapshots"))))
        status = TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__hub_commit(&r.commit, r.repo_dir, name.revision);
    const bool whole = !strchr(text, '@') && !*name.file;
    if (status == TFM_OK && (whole ? !tfm__file_exists(r.repo_dir) : !r.commit))
        status = tfm__fail(TFM_ERROR_IO,
                           "cannot delete %s: the cache of the Hugging Face hub has no such model; `tfm "
                           "models` lists it",
                           text);
    if (status == TFM_OK)
        status = whole ? remove_repo(&r, cache) : *name.file ? remove_gguf(&r) : remove_snapshot(&r);
    *bytes = r.bytes;
    free(r.repo_dir);
    free(r.snapshots);
    free(r.commit);
    free(cache);
    return status;
}
