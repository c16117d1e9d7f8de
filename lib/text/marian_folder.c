#include "text/marian_folder.h"
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"

/* A folder being inspected. */
typedef struct folder {
    const char *dir;
    char **names;
    size_t count;
} folder;

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with) {
    const size_t length = strlen(name), tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

static bool has(const folder *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->names[i], name) == 0)
            return true;
    return false;
}

/* ---- By a YAML file ----------------------------------------------------------------------------------- */

/* Reads this file, and keeps it if it names models. */
static tfm_status try_options(tfm__marian_folder *out, const folder *f, const char *name) {
    char *path = tfm__path_join(f->dir, name);
    json_t *root = NULL;
    tfm_status status = path ? tfm__yaml_load(&root, path) : TFM_ERROR_MEMORY;
    if (status == TFM_OK && json_object_get(root, "models")) {
        out->options_path = path;
        out->options = root;
        return TFM_OK;
    }
    json_decref(root);
    free(path);
    return status;
}

/* Tries the usual names first, then any. */
static tfm_status find_options(tfm__marian_folder *out, const folder *f) {
    static const char *const USUAL[] = {"decoder.yml", "config.yml", "model.npz.decoder.yml"};
    tfm_status status = TFM_OK;
    for (size_t i = 0; i < TFM__COUNT(USUAL) && status == TFM_OK && !out->options; i++)
        if (has(f, USUAL[i]))
            status = try_options(out, f, USUAL[i]);
    for (size_t i = 0; i < f->count && status == TFM_OK && !out->options; i++)
        if ((ends(f->names[i], ".yml") || ends(f->names[i], ".yaml")) && !strstr(f->names[i], "vocab"))
            status = try_options(out, f, f->names[i]);
    return status;
}

/* The path of the `index`-th file of `key`, a list or a string, always in this folder, whatever folder the entry names.
 * Leaves *path unchanged if there is none. */
static tfm_status take_named(char **path, const tfm__marian_folder *files, const folder *f, const char *key,
                             size_t index) {
    const json_t *value = json_object_get(files->options, key);
    const json_t *item = json_is_array(value) ? json_array_get(value, index) : index == 0 ? value : NULL;
    if (!item || json_is_null(item))
        return TFM_OK;
    const char *name = json_string_value(item), *slash = name ? strrchr(name, '/') : NULL;
    if (!name || !*(slash ? slash + 1 : name))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `%s` has %s; the name of a file is needed", files->options_path, key,
                         tfm__json_text((char[TFM__JSON_TEXT]){0}, item));
    *path = tfm__path_join(f->dir, slash ? slash + 1 : name);
    return *path ? TFM_OK : TFM_ERROR_MEMORY;
}

static tfm_status take_all_named(tfm__marian_folder *out, const folder *f) {
    const size_t models = json_array_size(json_object_get(out->options, "models"));
    if (models > 1)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: `models` names %zu models of an ensemble; tfm runs one",
                         out->options_path, models);
    tfm_status status = take_named(&out->model, out, f, "models", 0);
    if (status == TFM_OK)
        status = take_named(&out->source, out, f, "vocabs", 0);
    if (status == TFM_OK)
        status = take_named(&out->target, out, f, "vocabs", 1);
    if (status == TFM_OK)
        status = take_named(&out->shortlist, out, f, "shortlist", 0);
    if (status == TFM_OK && !out->model)
        status = tfm__fail(TFM_ERROR_FORMAT, "%s: `models` is %s; a list with the name of a model is needed",
                           out->options_path,
                           tfm__json_text((char[TFM__JSON_TEXT]){0}, json_object_get(out->options, "models")));
    if (status == TFM_OK && out->shortlist && !tfm__file_exists(out->shortlist)) {
        tfm__log(TFM_LOG_WARNING, "%s: `shortlist` names %s, which does not exist: translation continues without it",
                 out->options_path, out->shortlist);
        free(out->shortlist);
        out->shortlist = NULL;
    }
    return status;
}

/* ---- By names ----------------------------------------------------------------------------------------- */

/* Whether it is in Marian's binary format: begins with a 64-bit 1. */
static bool is_binary(const char *path) {
    static const unsigned char BEGIN[8] = {1};
    tfm__file map;
    if (tfm__file_map(&map, path) != TFM_OK)
        return false;
    const bool is = map.size >= sizeof(BEGIN) && memcmp(map.data, BEGIN, sizeof(BEGIN)) == 0;
    tfm__file_unmap(&map);
    return is;
}

/* The only file with that prefix and suffix; NULL if there is none. */
static tfm_status take_only(char **path, const folder *f, const char *beginning, const char *end, bool binary) {
    const char *found = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->names[i];
        if (!begins(name, beginning) || !ends(name, end) || ends(name, ".optimizer.npz"))
            continue;
        char *whole = tfm__path_join(f->dir, name);
        if (!whole)
            return TFM_ERROR_MEMORY;
        if (binary && !is_binary(whole)) {
            free(whole);
            continue;
        }
        if (*path) {
            free(whole);
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s has both %s and %s: select one in a config.yml with `models` and `vocabs`", f->dir,
                             found, name);
        }
        found = name;
        *path = whole;
    }
    return TFM_OK;
}

static tfm_status take_usual(tfm__marian_folder *out, const folder *f) {
    tfm_status status = TFM_OK;
    if (has(f, "model.npz"))
        status = (out->model = tfm__path_join(f->dir, "model.npz")) ? TFM_OK : TFM_ERROR_MEMORY;
    else
        status = take_only(&out->model, f, "model", ".npz", false);
    if (status == TFM_OK && !out->model)
        status = take_only(&out->model, f, "model", ".bin", true);
    if (status != TFM_OK || !out->model)
        return status;
    status = take_only(&out->source, f, "srcvocab", ".spm", false);
    if (status == TFM_OK)
        status = take_only(&out->target, f, "trgvocab", ".spm", false);
    if (status == TFM_OK && !out->source && !out->target)
        status = take_only(&out->source, f, "vocab", ".spm", false);
    return status == TFM_OK ? take_only(&out->shortlist, f, "lex", ".bin", false) : status;
}

/* ---- The directory ------------------------------------------------------------------------------------ */

static tfm_status find(tfm__marian_folder *out, const folder *f) {
    bool any = false; /* a possible model file: without one, no YAML file is read */
    for (size_t i = 0; i < f->count; i++)
        any |= ends(f->names[i], ".npz") || ends(f->names[i], ".bin");
    if (!any || has(f, "config.json"))
        return TFM_OK;
    tfm_status status = find_options(out, f);
    if (status == TFM_OK)
        status = out->options ? take_all_named(out, f) : take_usual(out, f);
    if (status == TFM_OK && out->source && !out->target)
        status = (out->target = tfm__strdup(out->source)) ? TFM_OK : TFM_ERROR_MEMORY;
    return status;
}

tfm_status tfm__marian_folder_find(tfm__marian_folder *out, const char *dir) {
    folder f = {.dir = dir};
    *out = (tfm__marian_folder){0};
    if (!tfm__file_exists(dir))
        return TFM_OK;
    tfm_status status = tfm__dir_list(&f.names, &f.count, dir);
    if (status == TFM_OK)
        status = find(out, &f);
    tfm__names_free(f.names, f.count);
    if (status != TFM_OK)
        tfm__marian_folder_free(out);
    return status;
}

void tfm__marian_folder_free(tfm__marian_folder *files) {
    char *paths[] = {files->model, files->source, files->target, files->shortlist, files->options_path};
    for (size_t i = 0; i < TFM__COUNT(paths); i++)
        free(paths[i]);
    json_decref(files->options);
    *files = (tfm__marian_folder){0};
}
