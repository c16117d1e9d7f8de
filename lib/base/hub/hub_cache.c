/* The cache of the Hugging Face hub: models--ORG--NAME/{refs,blobs,snapshots/COMMIT}, and local paths of names. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/hub/hub.h"
#include "tfm/hub.h"

char *tfm__hub_repo_dir(const char *cache, const char *repo) {
    const size_t org = strcspn(repo, "/");
    return tfm__format("%s/models--%.*s%s%s", cache, (int)org, repo, repo[org] ? "--" : "",
                       repo[org] ? repo + org + 1 : "");
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

tfm_status tfm__hub_commit(char **out, const char *repo_dir, const char *revision) {
    char *ref = tfm__format("%s/refs/%s", repo_dir, revision), *text = NULL;
    struct stat info;
    *out = NULL;
    if (!ref)
        return TFM_ERROR_MEMORY;
    tfm_status status = TFM_OK;
    if (stat(ref, &info) == 0 && S_ISREG(info.st_mode) && info.st_size < 256)
        status = tfm__file_read(&text, NULL, ref);
    else
        status = (text = tfm__strdup(revision)) ? TFM_OK : TFM_ERROR_MEMORY;
    free(ref);
    if (text)
        text[strcspn(text, " \r\n")] = '\0';
    const bool safe = text && tfm__hub_word_is_safe(text);
    char *snapshot = safe ? tfm__format("%s/snapshots/%s", repo_dir, text) : NULL;
    if (safe && !snapshot)
        status = TFM_ERROR_MEMORY;
    if (snapshot && is_folder(snapshot)) {
        *out = text;
        text = NULL;
    }
    free(snapshot);
    free(text);
    return status;
}

/* ---- Files of a folder ---------------------------------------------------------------------------------- */

typedef struct walk {
    char **paths;
    size_t count, capacity;
} walk;

static tfm_status walk_folder(walk *w, const char *dir, const char *prefix, int depth) {
    char **names = NULL;
    size_t count = 0;
    tfm_status status = tfm__dir_list(&names, &count, dir);
    for (size_t i = 0; i < count && status == TFM_OK; i++) {
        char *path = tfm__path_join(dir, names[i]), *relative = tfm__format("%s%s", prefix, names[i]);
        char *inside = relative ? tfm__format("%s/", relative) : NULL;
        struct stat info;
        if (!path || !inside)
            status = TFM_ERROR_MEMORY;
        else if (stat(path, &info) == 0 && S_ISDIR(info.st_mode) && depth > 0)
            status = walk_folder(w, path, inside, depth - 1);
        else if (stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                 (status = tfm__grow(&w->paths, &w->capacity, w->count + 1, sizeof(*w->paths))) == TFM_OK) {
            w->paths[w->count++] = relative;
            relative = NULL;
        }
        free(path);
        free(relative);
        free(inside);
    }
    tfm__names_free(names, count);
    return status;
}

tfm_status tfm__hub_walk(char ***paths, size_t *count, const char *dir) {
    enum { DEEPEST = 16 };
    walk w = {0};
    const tfm_status status = walk_folder(&w, dir, "", DEEPEST);
    *paths = w.paths;
    *count = w.count;
    if (status != TFM_OK) {
        tfm__names_free(w.paths, w.count);
        *paths = NULL;
        *count = 0;
    }
    return status;
}

/* ---- The path of a name --------------------------------------------------------------------------------- */

static bool ends(const char *text, const char *end) {
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* Whether a folder's files open without a GGUF file. */
static bool has_other_weights(char *const *paths, size_t count) {
    static const char *const ENDS[] = {".safetensors", ".bin", ".npz"};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < TFM__COUNT(ENDS); k++)
            if (ends(paths[i], ENDS[k]))
                return true;
    return false;
}

/* The folder, or the GGUF file in it that `wanted` selects; "" selects one only if there are no other weights. */
static tfm_status select_file(char **path, const char *dir, const char *wanted, const char *repo, const char *hint) {
    char **paths = NULL;
    size_t count = 0, selected = 0, files = 0;
    tfm_status status = tfm__hub_walk(&paths, &count, dir);
    for (size_t i = 0; i < count; i++)
        files += tfm__gguf_is_model(paths[i]);
    if (status == TFM_OK && !*wanted && (files == 0 || has_other_weights(paths, count)))
        *path = tfm__strdup(dir);
    else if (status == TFM_OK &&
             (status = tfm__gguf_select(&selected, (const char *const *)paths, count, wanted, repo, hint)) == TFM_OK)
        *path = tfm__path_join(dir, paths[selected]);
    tfm__names_free(paths, count);
    return status == TFM_OK && !*path ? TFM_ERROR_MEMORY : status;
}

/* How to download the name; returns `text`. */
static const char *download_hint(char *text, size_t room, const char *given, const tfm__hub_name *name) {
    if (tfm__hub_can_download())
        snprintf(text, room, "download it with `tfm pull %s`", given);
    else if (strchr(name->file, '.'))
        snprintf(text, room, "download it with `hf download %s %s`", name->repo, name->file);
    else
        snprintf(text, room, "download it with `hf download %s`", name->repo);
    return text;
}

static tfm_status fail_absent(const char *repo_dir, const char *given, const tfm__hub_name *name, const char *hint) {
    char *snapshots = tfm__path_join(repo_dir, "snapshots");
    if (!snapshots)
        return TFM_ERROR_MEMORY;
    const bool any = tfm__file_exists(snapshots);
    free(snapshots);
    if (any)
        return tfm__fail(TFM_ERROR_IO,
                         "cannot open %s: the cache of the Hugging Face hub has %s, but not its revision "
                         "%s; %s",
                         given, name->repo, name->revision, hint);
    return tfm__fail(TFM_ERROR_IO,
                     "cannot open %s: there is no such directory, and no model of this name in the cache "
                     "of the Hugging Face hub; %s",
                     given, hint);
}

/* The model of a name in the cache. */
static tfm_status resolve_cached(char **path, const char *text, const tfm__hub_name *name) {
    char *cache = NULL, *repo_dir = NULL, *commit = NULL, hint[2048];
    download_hint(hint, sizeof(hint), text, name);
    tfm_status status = tfm__hub_cache_dir(&cache);
    if (status == TFM_OK)
        status = (repo_dir = tfm__hub_repo_dir(cache, name->repo)) ? TFM_OK : TFM_ERROR_MEMORY;
    if (status == TFM_OK)
        status = tfm__hub_commit(&commit, repo_dir, name->revision);
    if (status == TFM_OK && !commit)
        status = fail_absent(repo_dir, text, name, hint);
    char *snapshot = status == TFM_OK ? tfm__format("%s/snapshots/%s", repo_dir, commit) : NULL;
    if (status == TFM_OK)
        status = snapshot ? select_file(path, snapshot, name->file, name->repo, hint) : TFM_ERROR_MEMORY;
    free(snapshot);
    free(commit);
    free(repo_dir);
    free(cache);
    return status;
}

tfm_status tfm__hub_resolve(char **path, const char *text) {
    tfm__hub_name name;
    *path = NULL;
    const size_t folder = strcspn(text, ":");
    if (!tfm__file_exists(text) && text[folder]) { /* FOLDER:FILE */
        char *dir = tfm__format("%.*s", (int)folder, text);
        if (!dir)
            return TFM_ERROR_MEMORY;
        const bool local = is_folder(dir);
        const tfm_status status = local ? select_file(path, dir, text + folder + 1, dir, "") : TFM_OK;
        free(dir);
        if (local)
            return status;
    }
    if (!tfm__file_exists(text) && tfm__hub_name_parse(&name, text))
        return resolve_cached(path, text, &name);
    *path = tfm__strdup(text);
    return *path ? TFM_OK : TFM_ERROR_MEMORY;
}

bool tfm__hub_completion(char *hint, size_t room, const char *dir) {
    char given[1024];
    tfm__hub_name name;
    const char *repo = strstr(dir, "/models--"), *end = repo ? strstr(repo, "/snapshots/") : NULL;
    if (!end)
        return false;
    repo += strlen("/models--");
    const char *mark = strstr(repo, "--"), *commit = end + strlen("/snapshots/");
    const int org = (int)((mark && mark < end ? mark : end) - repo),
              rest = mark && mark < end ? (int)(end - mark) - 2 : 0;
    const int length = snprintf(given, sizeof(given), "%.*s%s%.*s@%.*s", org, repo, rest ? "/" : "", rest,
                                rest ? mark + 2 : "", (int)strcspn(commit, "/"), commit);
    if (length >= (int)sizeof(given) || !tfm__hub_name_parse(&name, given))
        return false;
    download_hint(hint, room, given, &name);
    return true;
}

tfm_status tfm_hub_find(char **path, const char *name) {
    TFM__CLEAR_OUT(path);
    if (TFM__NEEDS("hub_find", path, name) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    return tfm__hub_resolve(path, name);
}
