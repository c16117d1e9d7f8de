/* The files of a repository, from answers of the hub. All of it is untrusted. */
#include <string.h>
#include "base/hub/hub.h"
#include "base/json.h"

enum { MOST_FILES = 100000 };

void tfm__hub_list_free(tfm__hub_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->files[i].path);
        free(list->files[i].etag);
    }
    free(list->files);
    *list = (tfm__hub_list){0};
}

static bool is_hex(const char *text, size_t length) {
    return text && strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

/* Adds one file. Paths that cannot be a model's file, such as .gitattributes or ../x, are skipped. */
static tfm_status add_file(tfm__hub_list *list, const char *path, const json_t *size, const json_t *lfs, const char *id,
                           const char *name) {
    enum { SHA256 = 64 };
    const char *sha256 = json_string_value(json_object_get(lfs, "oid"));
    if (!sha256)
        sha256 = json_string_value(json_object_get(lfs, "sha256"));
    if (json_is_integer(json_object_get(lfs, "size")))
        size = json_object_get(lfs, "size");
    if (!tfm__hub_path_is_safe(path))
        return TFM_OK;
    if (list->count >= MOST_FILES)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s has more than %d files, so it is not a model: check the name", name,
                         (int)MOST_FILES);
    if (size && (!json_is_integer(size) || json_integer_value(size) < 0))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the hub gives %s as the size of %s: try again", name,
                         tfm__json_text((char[TFM__JSON_TEXT]){0}, size), path);
    if (lfs && !json_is_null(lfs) && !is_hex(sha256, SHA256))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the hub gives no SHA-256 of %s: try again", name, path);
    if (tfm__grow(&list->files, &list->capacity, list->count + 1, sizeof(*list->files)) != TFM_OK)
        return TFM_ERROR_MEMORY;
    tfm__hub_file *file = &list->files[list->count++];
    const char *etag = sha256 ? sha256 : id && *id && tfm__hub_word_is_safe(id) ? id : NULL;
    *file = (tfm__hub_file){.path = tfm__strdup(path), .lfs = sha256 != NULL, .sized = size != NULL};
    file->size = size ? (uint64_t)json_integer_value(size) : 0;
    file->etag = etag ? tfm__strdup(etag) : NULL;
    return file->path && (file->etag || !etag) ? TFM_OK : TFM_ERROR_MEMORY;
}

tfm_status tfm__hub_list_add_tree(tfm__hub_list *list, const json_t *tree, const char *name) {
    tfm_status status = TFM_OK;
    if (!json_is_array(tree))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the hub's list of files is %s instead of a list: check HF_ENDPOINT",
                         name, tfm__json_kind(tree));
    for (size_t i = 0; i < json_array_size(tree) && status == TFM_OK; i++) {
        const json_t *entry = json_array_get(tree, i);
        const char *type = json_string_value(json_object_get(entry, "type"));
        const char *path = json_string_value(json_object_get(entry, "path"));
        if (!path)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: an entry of the hub's list of files has no path: check HF_ENDPOINT",
                             name);
        if (!type || strcmp(type, "file") == 0)
            status = add_file(list, path, json_object_get(entry, "size"), json_object_get(entry, "lfs"),
                              json_string_value(json_object_get(entry, "oid")), name);
    }
    return status;
}

tfm_status tfm__hub_list_add_siblings(tfm__hub_list *list, const json_t *info, const char *name) {
    const json_t *siblings = json_object_get(info, "siblings");
    tfm_status status = TFM_OK;
    if (!json_is_array(siblings))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the hub gives no list of its files: check HF_ENDPOINT", name);
    for (size_t i = 0; i < json_array_size(siblings) && status == TFM_OK; i++) {
        const json_t *entry = json_array_get(siblings, i);
        const char *path = json_string_value(json_object_get(entry, "rfilename"));
        if (path)
            status = add_file(list, path, json_object_get(entry, "size"), json_object_get(entry, "lfs"),
                              json_string_value(json_object_get(entry, "blobId")), name);
    }
    return status;
}

const char *tfm__hub_info_commit(const json_t *info, const char *name) {
    const char *commit = json_string_value(json_object_get(info, "sha"));
    if (commit && *commit && tfm__hub_word_is_safe(commit))
        return commit;
    tfm__fail(TFM_ERROR_FORMAT, "%s: the hub names no commit of this model: check HF_ENDPOINT", name);
    return NULL;
}
