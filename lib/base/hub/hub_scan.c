/* Lists and deletes models of the cache. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "tfm/hub.h"

/* ---- Listing -------------------------------------------------------------------------------------------- */

typedef struct entry {
    char *name, *refs, *commit, *path;
    size_t files;
    uint64_t bytes;
} entry;

typedef struct scan {
    entry *entries;
    size_t count, capacity;
} scan;

/* "ORG/NAME" of a folder "models--ORG--NAME"; NULL with *status OK for other folders. */
static char *name_of(tfm_status *status, const char *folder) {
    static const char BEGINNING[] = "models--";
    tfm__hub_name parsed;
    *status = TFM_OK;
    if (strncmp(folder, BEGINNING, sizeof(BEGINNING) - 1) != 0)
        return NULL;
    const char *org = folder + sizeof(BEGINNING) - 1, *rest = strstr(org, "--");
    char *name = rest ? tfm__format("%.*s/%s", (int)(rest - org), org, rest + 2) : tfm__strdup(org);
    if (!name)
        *status = TFM_ERROR_MEMORY;
    else if (!tfm__hub_name_parse(&parsed, name) || strcmp(parsed.repo, name) != 0) {
        free(name);
        name = NULL;
    }
    return name;
}

/* The branches and tags of a commit, separated by ", ". */
static tfm_status refs_of(char **out, const char *repo_dir, const char *commit) {
    char **refs = NULL, *folder = tfm__path_join(repo_dir, "refs");
    size_t count = 0;
    *out = tfm__strdup("");
    tfm_status status = folder && *out ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(folder))
        status = tfm__hub_walk(&refs, &count, folder);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *of = NULL, *more = NULL;
        status = tfm__hub_commit(&of, repo_dir, refs[i]);
        if (status == TFM_OK && of && strcmp(of, commit) == 0) {
            more = tfm__format("%s%s%s", *out, **out ? ", " : "", refs[i]);
            status = more ? TFM_OK : TFM_ERROR_MEMORY;
        }
        if (more) {
            free(*out);
            *out = more;
        }
        free(of);
    }
    tfm__names_free(refs, count);
    free(folder);
    return status;
}

/* Counts the files of a snapshot; files with the same content count their bytes once. */
static tfm_status measure(entry *e) {
    char **paths = NULL;
    ino_t *seen = NULL;
    size_t count = 0;
    tfm_status status = tfm__hub_walk(&paths, &count, e->path);
    if (status == TFM_OK && !(seen = tfm__alloc(count + 1, sizeof(*seen))))
        status = TFM_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        struct stat info = {0};
        size_t k = 0;
        char *path = tfm__path_join(e->path, paths[i]);
        if (!path || stat(path, &info) != 0)
            status = path ? TFM_OK : TFM_ERROR_MEMORY;
        while (k < i && seen[k] != info.st_ino)
            k++;
        seen[i] = info.st_ino;
        e->bytes += k == i ? (uint64_t)info.st_size : 0;
        free(path);
    }
    e->files = count;
    tfm__names_free(paths, count);
    free(seen);
    return status;
}

static tfm_status add_repo(scan *s, const char *repo_dir, const char *name) {
    char **commits = NULL, *snapshots = tfm__path_join(repo_dir, "snapshots");
    size_t count = 0;
    tfm_status status = snapshots ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK && tfm__file_exists(snapshots))
        status = tfm__dir_list(&commits, &count, snapshots);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        status = tfm__grow(&s->entries, &s->capacity, s->count + 1, sizeof(*s->entries));
        if (status != TFM_OK)
            break;
        entry *e = &s->entries[s->count++];
        *e = (entry){.name = tfm__strdup(name), .commit = tfm__strdup(commits[i])};
        e->path = tfm__path_join(snapshots, commits[i]);
        status = e->name && e->commit && e->path ? refs_of(&e->refs, repo_dir, commits[i]) : TFM_ERROR_MEMORY;
        if (status == TFM_OK)
            status = measure(e);
    }
    tfm__names_free(commits, count);
    free(snapshots);
    return status;
}

static tfm_status add_all(scan *s, const char *cache) {
    char **folders = NULL;
    size_t count = 0;
    tfm_status status = tfm__file_exists(cache) ? tfm__dir_list(&folders, &count, cache) : TFM_OK;
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *name = name_of(&status, folders[i]), *repo_dir = name ? tfm__path_join(cache, folders[i]) : NULL;
        if (name && status == TFM_OK)
            status = repo_dir ? add_repo(s, repo_dir, name) : TFM_ERROR_MEMORY;
        free(name);
        free(repo_dir);
    }
    tfm__names_free(folders, count);
    return status;
}

/* Appends a text to the block; *at is behind the last one. */
static const char *put(char **at, const char *text) {
    const char *begin = *at;
    *at = stpcpy(*at, text) + 1;
    return begin;
}

/* Copies all into one block. */
static tfm_status pack(tfm_hub_model **models, const scan *s) {
    size_t bytes = s->count * sizeof(**models) + 1;
    for (size_t i = 0; i < s->count; i++) {
        const entry *e = &s->entries[i];
        bytes += strlen(e->name) + strlen(e->refs) + strlen(e->commit) + strlen(e->path) + 4;
    }
    *models = tfm__alloc(bytes, 1);
    if (!*models)
        return TFM_ERROR_MEMORY;
    char *at = (char *)(*models + s->count);
    for (size_t i = 0; i < s->count; i++) {
        const entry *e = &s->entries[i];
        tfm_hub_model *m = *models + i;
        m->name = put(&at, e->name);
        m->refs = put(&at, e->refs);
        m->commit = put(&at, e->commit);
        m->path = put(&at, e->path);
        m->files = e->files;
        m->bytes = e->bytes;
    }
    return TFM_OK;
}

tfm_status tfm_hub_list(tfm_hub_model **models, size_t *count) {
    char *cache = NULL;
    scan s = {0};
    TFM__CLEAR_OUT(models);
    if (TFM__NEEDS("hub_list", models, count) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    *count = 0;
    tfm_status status = tfm__hub_cache_dir(&cache);
    if (status == TFM_OK)
        status = add_all(&s, cache);
    if (status == TFM_OK)
        status = pack(models, &s);
    if (status == TFM_OK)
        *count = s.count;
    for (size_t i = 0; i < s.count; i++) {
        free(s.entries[i].name);
        free(s.entries[i].refs);
        free(s.entries[i].commit);
        free(s.entries[i].path);
    }
    free(s.entries);
    free(cache);
    return status;
}

void tfm_hub_models_free(tfm_hub_model **models) {
    if (!models)
        return;
    free(*models);
    *models = NULL;
}
