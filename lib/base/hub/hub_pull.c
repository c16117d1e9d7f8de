/* tfm_hub_pull: lists a repository, downloads the files of its model, and makes the snapshot. */
#include <string.h>
#include <sys/stat.h>
#include "base/file.h"
#include "base/hub/hub_download.h"
#include "base/json.h"
#include "tfm/hub.h"

enum { MOST_BYTES = 64 << 20, MOST_PAGES = 1000, WORKERS = 8, MOST_WORKERS = 64 };

typedef struct pull {
    tfm__hub_session session;
    tfm__hub_store store;
    tfm__hub_list list;
    const tfm__hub_name *name;
    const tfm_hub_options *options;
} pull;

/* ---- Progress ------------------------------------------------------------------------------------------- */

static bool report(void *user, const tfm__hub_file *finished, uint64_t bytes) {
    const pull *p = user;
    tfm_hub_progress now = {.bytes = bytes, .finished = finished ? finished->path : NULL};
    for (size_t i = 0; i < p->list.count; i++) {
        const tfm__hub_file *file = &p->list.files[i];
        if (!file->wanted)
            continue;
        now.total_files++;
        now.files += file->done;
        now.bytes += file->done ? file->size : 0;
        now.total_bytes += file->size;
    }
    return !p->options->progress || p->options->progress(p->options->progress_user, &now);
}

static bool keep_going(void *user) {
    return report(user, NULL, 0);
}

/* ---- Answers of the API --------------------------------------------------------------------------------- */

typedef struct answer {
    char *text;
    size_t bytes, capacity;
} answer;

static tfm_status empty_answer(tfm__hub_request *r) {
    ((answer *)r->user)->bytes = 0;
    r->offset = 0;
    return TFM_OK;
}

static tfm_status add_answer(tfm__hub_request *r, const char *bytes, size_t count) {
    answer *a = r->user;
    if (count > MOST_BYTES - a->bytes)
        return tfm__fail(TFM_ERROR_FORMAT, "the answer to %s has more than %d MB: check HF_ENDPOINT", r->url,
                         MOST_BYTES >> 20);
    if (tfm__grow(&a->text, &a->capacity, a->bytes + count, 1) != TFM_OK)
        return TFM_ERROR_MEMORY;
    memcpy(a->text + a->bytes, bytes, count);
    a->bytes += count;
    return TFM_OK;
}

/* GET of JSON. `next`: the URL of the next page, or "". A missing page is not an error if `missing` is not NULL. */
static tfm_status get_json(pull *p, json_t **out, char next[2048], const char *url, bool *missing) {
    answer a = {0};
    tfm__hub_request r = {
        .url = url, .what = "", .begin = empty_answer, .rewind = empty_answer, .data = add_answer, .user = &a};
    tfm__hub_request *one = &r;
    p->session.keep_going = keep_going;
    p->session.user = p;
    tfm_status status = tfm__hub_run(&p->session, &one, 1, 1);
    *out = NULL;
    if (missing)
        *missing = status == TFM_ERROR_IO && r.code == 404;
    if (status == TFM_OK && (!a.text || a.text[tfm__json_skip_bom(a.text, a.bytes)] == '<'))
        status = tfm__fail(TFM_ERROR_FORMAT, "%s answers with a web page instead of JSON: check HF_ENDPOINT", url);
    if (status == TFM_OK)
        status = tfm__json_read(out, a.text, a.bytes, url);
    memcpy(next, r.headers.next, sizeof(r.headers.next));
    free(a.text);
    return status;
}

/* Lists the files of the commit, page by page. */
static tfm_status list_tree(pull *p, bool *missing) {
    char next[2048], *commit = tfm__hub_escape(p->store.commit, false);
    char *url = commit ? tfm__format("%s/api/models/%s/tree/%s?recursive=true&expand=false", p->session.endpoint,
                                     p->name->repo, commit)
                       : NULL;
    tfm_status status = url ? TFM_OK : TFM_ERROR_MEMORY;
    for (int page = 0; status == TFM_OK && url; page++) {
        json_t *tree = NULL;
        status = page < MOST_PAGES ? get_json(p, &tree, next, url, page == 0 ? missing : NULL)
                                   : tfm__fail(TFM_ERROR_FORMAT,
                                               "%s: the hub's list of files does not end: check "
                                               "HF_ENDPOINT",
                                               p->name->repo);
        if (status == TFM_OK)
            status = tfm__hub_list_add_tree(&p->list, tree, p->name->repo);
        json_decref(tree);
        free(url);
        url = NULL;
        if (status == TFM_OK && next[0])
            status = (url = tfm__format("%s%s", next[0] == '/' ? p->session.endpoint : "", next)) ? TFM_OK
                                                                                                  : TFM_ERROR_MEMORY;
    }
    free(commit);
    free(url);
    return status;
}

/* Finds the commit of the revision, and its files. */
static tfm_status list_files(pull *p, const char *revision) {
    char next[2048], *escaped = tfm__hub_escape(revision, false);
    char *url =
        escaped ? tfm__format("%s/api/models/%s/revision/%s?blobs=true", p->session.endpoint, p->name->repo, escaped)
                : NULL;
    json_t *info = NULL;
    bool missing = false;
    tfm_status status = url ? get_json(p, &info, next, url, NULL) : TFM_ERROR_MEMORY;
    const char *commit = status == TFM_OK ? tfm__hub_info_commit(info, p->name->repo) : NULL;
    if (status == TFM_OK && !commit)
        status = TFM_ERROR_FORMAT;
    if (status == TFM_OK)
        status = tfm__hub_store_open(&p->store, p->name->repo, commit);
    if (status == TFM_OK)
        status = list_tree(p, &missing);
    if (missing) /* a mirror without this part of the API */
        status = tfm__hub_list_add_siblings(&p->list, info, p->name->repo);
    json_decref(info);
    free(escaped);
    free(url);
    return status;
}

/* ---- Files ---------------------------------------------------------------------------------------------- */

/* A file of the snapshot, or else its blob; NULL if it is not downloaded. For free(). */
static char *local_path(const pull *p, const tfm__hub_file *file) {
    char *path = tfm__format("%s/snapshots/%s/%s", p->store.repo_dir, p->store.commit, file->path);
    if (path && !tfm__file_exists(path)) {
        free(path);
        path = file->etag ? tfm__hub_blob(&p->store, file->etag, "") : NULL;
    }
    if (path && !tfm__file_exists(path)) {
        free(path);
        path = NULL;
    }
    return path;
}

static tfm_status read_file(void *user, json_t **out, const tfm__hub_file *file) {
    char *path = local_path(user, file), *text = NULL;
    size_t bytes = 0;
    tfm_status status = path ? tfm__file_read(&text, &bytes, path) : TFM_OK;
    if (status == TFM_OK && path)
        status = tfm__json_read(out, text, bytes, file->path);
    free(text);
    free(path);
    return status;
}

/* Marks wanted files that are in the cache as done; returns the number of the others. */
static size_t count_missing(pull *p) {
    size_t missing = 0;
    struct stat info;
    for (size_t i = 0; i < p->list.count; i++) {
        tfm__hub_file *file = &p->list.files[i];
        if (!file->wanted || file->done)
            continue;
        char *path = local_path(p, file);
        if (path && stat(path, &info) == 0) {
            file->done = file->sized = true;
            file->size = (uint64_t)info.st_size;
        }
        missing += !file->done;
        free(path);
    }
    return missing;
}

static tfm_status download(pull *p) {
    const int workers = p->options->max_workers ? p->options->max_workers : WORKERS;
    tfm_status status = TFM_OK;
    for (size_t missing = 1; status == TFM_OK && missing > 0;) {
        status = tfm__hub_plan(&p->list, p->name, read_file, p);
        missing = status == TFM_OK ? count_missing(p) : 0;
        if (missing > 0)
            status = tfm__hub_download(&p->session, &p->store, &p->list, p->name->repo, (size_t)workers, report, p);
    }
    return status;
}

/* Files that transformers requests in any case; the hub's answer that they do not exist is recorded. */
static void record_absent(const pull *p) {
    static const char *const NAMES[] = {"adapter_config.json",     "added_tokens.json", "chat_template.jinja",
                                        "chat_template.json",      "config.json",       "generation_config.json",
                                        "special_tokens_map.json", "tokenizer.json",    "tokenizer.model",
                                        "tokenizer_config.json",   "model.safetensors", "model.safetensors.index.json",
                                        "processor_config.json",   "modules.json"};
    for (size_t k = 0; k < TFM__COUNT(NAMES); k++) {
        bool there = false;
        for (size_t i = 0; i < p->list.count && !there; i++)
            there = strcmp(p->list.files[i].path, NAMES[k]) == 0;
        if (!there)
            tfm__hub_store_absent(&p->store, NAMES[k]);
    }
}

/* Makes the snapshot, after all of its files are there. */
static tfm_status make_snapshot(pull *p, const char *revision) {
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < p->list.count && status == TFM_OK; i++)
        if (p->list.files[i].wanted && !tfm__hub_store_has(&p->store, p->list.files[i].path))
            status = tfm__hub_store_link(&p->store, p->list.files[i].path, p->list.files[i].etag);
    if (status == TFM_OK)
        status = tfm__hub_store_ref(&p->store, revision);
    if (status == TFM_OK)
        record_absent(p);
    return status;
}

/* ---- The call ------------------------------------------------------------------------------------------- */

static tfm_status check(tfm__hub_name *name, const char *text, const tfm_hub_options *o) {
    const char *colon = strchr(text, ':');
    if (!tfm__hub_name_parse(name, text))
        return tfm__fail(TFM_ERROR_ARGUMENT,
                         "hub_pull: %.200s is not a name of the Hugging Face hub: give ORG/NAME, "
                         "ORG/NAME@REVISION, ORG/NAME:FILE.gguf or ORG/NAME:Q4_K_M",
                         text);
    if (o->max_workers < 0 || o->max_workers > MOST_WORKERS)
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_pull: max_workers is %d: give 1 to %d, or 0", o->max_workers,
                         MOST_WORKERS);
    if (!o->revision)
        return TFM_OK;
    const char *at = strchr(text, '@');
    if (at && (!colon || at < colon) && strcmp(o->revision, name->revision) != 0)
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_pull: the revision is %s in the name and %s in the options: give one",
                         name->revision, o->revision);
    if (strlen(o->revision) >= sizeof(name->revision) || !tfm__hub_path_is_safe(o->revision))
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_pull: %.200s is not a revision: give a branch, a tag or a commit",
                         o->revision);
    memcpy(name->revision, o->revision, strlen(o->revision) + 1);
    return TFM_OK;
}

/* The path of the downloaded model. */
static tfm_status find_pulled(char **path, const pull *p) {
    char *name = tfm__format("%s@%s%s%s", p->name->repo, p->store.commit, *p->name->file ? ":" : "", p->name->file);
    const tfm_status status = name ? tfm__hub_resolve(path, name) : TFM_ERROR_MEMORY;
    free(name);
    return status;
}

tfm_status tfm_hub_pull(char **path, const char *text, const tfm_hub_options *options) {
    static const tfm_hub_options DEFAULTS = {0};
    tfm__hub_name name;
    TFM__CLEAR_OUT(path);
    if (TFM__NEEDS("hub_pull", text) != TFM_OK)
        return TFM_ERROR_ARGUMENT;
    if (TFM__RESERVED_SET(options))
        return tfm__fail(TFM_ERROR_ARGUMENT, "hub_pull: %s", TFM__RESERVED_SET_MESSAGE);
    pull p = {.name = &name, .options = options ? options : &DEFAULTS};
    tfm_status status = check(&name, text, p.options);
    if (status != TFM_OK)
        return status;
    status = tfm__hub_session_open(&p.session, name.repo);
    if (status == TFM_OK)
        status = list_files(&p, name.revision);
    if (status == TFM_OK)
        status = download(&p);
    if (status == TFM_OK)
        status = make_snapshot(&p, name.revision);
    if (status == TFM_OK && path)
        status = find_pulled(path, &p);
    tfm__hub_session_close(&p.session);
    tfm__hub_store_close(&p.store);
    tfm__hub_list_free(&p.list);
    return status;
}
