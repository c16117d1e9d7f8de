/* Selects the files of a model in a repository: configuration, tokenizer, and weights in one format. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include "base/hub/hub.h"

/* Files that are read next to the weights, in the root and in folders of sentence-transformers modules. */
static const char *const SMALL[] = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "vocab.txt",
                                    "merges.txt",
                                    "target_vocab.json",
                                    "tokenizer.model",
                                    "spiece.model",
                                    "sentencepiece*.model",
                                    "*.spm",
                                    "chat_template.json",
                                    "chat_template.jinja",
                                    "modules.json",
                                    "sentence_*_config.json",
                                    "config_sentence_transformers.json",
                                    "quantize_config.json",
                                    "quant_config.json",
                                    NULL};
/* Weights by preference: a file, or else its index and the files that the index names. */
static const char *const WEIGHTS[][2] = {{"model.safetensors", "model.safetensors.index.json"},
                                         {"pytorch_model.bin", "pytorch_model.bin.index.json"}};
/* Marian's own directories, without a config.json. */
static const char *const MARIAN[] = {"model*.npz", "model*.bin", "*.yml", "*.yaml", "*vocab*.spm", "lex*.bin", NULL};

typedef struct plan {
    tfm__hub_list *list;
    const tfm__hub_name *name;
    tfm__hub_read_fn *read;
    void *user;
} plan;

/* The file "FOLDER/NAME"; NULL if there is none. `folder` is "" for the root. */
static tfm__hub_file *find(const plan *p, const char *folder, const char *name) {
    const size_t length = strlen(folder);
    for (size_t i = 0; i < p->list->count; i++) {
        const char *path = p->list->files[i].path;
        const char *rest = strncmp(path, folder, length) == 0 ? path + length : NULL;
        if (rest && length > 0)
            rest = *rest == '/' ? rest + 1 : NULL;
        if (rest && strcmp(rest, name) == 0)
            return &p->list->files[i];
    }
    return NULL;
}

/* Marks the files directly in a folder whose names match. */
static void want_matching(const plan *p, const char *folder, const char *const *patterns) {
    const size_t length = strlen(folder);
    for (size_t i = 0; i < p->list->count; i++) {
        tfm__hub_file *file = &p->list->files[i];
        const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
        const size_t in = slash ? (size_t)(slash - file->path) : 0;
        if (in != length || strncmp(file->path, folder, length) != 0)
            continue;
        for (const char *const *pattern = patterns; *pattern; pattern++)
            file->wanted |= fnmatch(*pattern, name, 0) == 0;
    }
}

/* Marks the files that an index names, once it is there. */
static tfm_status want_indexed(const plan *p, const char *folder, const tfm__hub_file *index) {
    json_t *root = NULL, *map;
    const char *tensor;
    json_t *value;
    tfm_status status = p->read(p->user, &root, index);
    map = json_object_get(root, "weight_map");
    json_object_foreach(map, tensor, value) {
        tfm__hub_file *file = json_is_string(value) ? find(p, folder, json_string_value(value)) : NULL;
        if (!file && status == TFM_OK)
            status =
                tfm__fail(TFM_ERROR_FORMAT,
                          "%s: %s names %.200s, which the repository does not have: use another "
                          "revision",
                          p->name->repo, index->path, json_is_string(value) ? json_string_value(value) : "no file");
        if (file)
            file->wanted = true;
    }
    json_decref(root);
    return status;
}

/* Marks the files of one folder. */
static tfm_status want_folder(const plan *p, const char *folder, bool *weights) {
    want_matching(p, folder, SMALL);
    for (size_t i = 0; i < TFM__COUNT(WEIGHTS); i++) {
        tfm__hub_file *single = find(p, folder, WEIGHTS[i][0]), *index = find(p, folder, WEIGHTS[i][1]);
        if (!single && !index)
            continue;
        *weights = true;
        (single ? single : index)->wanted = true;
        return single ? TFM_OK : want_indexed(p, folder, index);
    }
    return TFM_OK;
}

/* The folders that modules.json names, once it is there. */
static tfm_status want_modules(const plan *p, bool *weights) {
    const tfm__hub_file *modules = find(p, "", "modules.json");
    json_t *root = NULL;
    tfm_status status = modules ? p->read(p->user, &root, modules) : TFM_OK;
    for (size_t i = 0; i < json_array_size(root) && status == TFM_OK; i++) {
        const char *folder = json_string_value(json_object_get(json_array_get(root, i), "path"));
        if (folder && *folder && tfm__hub_path_is_safe(folder))
            status = want_folder(p, folder, weights);
    }
    *weights |= modules && !root; /* unknown yet */
    json_decref(root);
    return status;
}

static tfm_status want_gguf(const plan *p) {
    const char **paths = tfm__alloc(p->list->count + 1, sizeof(*paths));
    size_t selected = 0;
    if (!paths)
        return TFM_ERROR_MEMORY;
    for (size_t i = 0; i < p->list->count; i++)
        paths[i] = p->list->files[i].path;
    const tfm_status status = tfm__gguf_select(&selected, paths, p->list->count, p->name->file, p->name->repo, "");
    for (size_t i = 0; i < p->list->count && status == TFM_OK; i++)
        p->list->files[i].wanted |= tfm__gguf_same_split(paths[i], paths[selected]);
    free(paths);
    return status;
}

/* Names some files, for the message that a repository has no usable weights. */
static tfm_status fail_unusable(const plan *p) {
    char text[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < p->list->count && used + strlen(p->list->files[i].path) + 8 < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "", p->list->files[i].path);
    return tfm__fail(TFM_ERROR_UNSUPPORTED,
                     "%s has none of model.safetensors, pytorch_model.bin, their index files and "
                     "GGUF files: give a repository with one; it has %s",
                     p->name->repo, *text ? text : "no files");
}

tfm_status tfm__hub_plan(tfm__hub_list *list, const tfm__hub_name *name, tfm__hub_read_fn *read, void *user) {
    const plan p = {list, name, read, user};
    bool weights = false, gguf = *name->file != '\0';
    if (!gguf) {
        tfm_status status = want_folder(&p, "", &weights);
        if (status == TFM_OK)
            status = want_modules(&p, &weights);
        if (status != TFM_OK || weights)
            return status;
    }
    for (size_t i = 0; i < list->count; i++)
        gguf |= tfm__gguf_is_model(list->files[i].path);
    for (size_t i = 0; gguf && i < list->count; i++)
        list->files[i].wanted = false; /* a GGUF file has its configuration and tokenizer inside */
    if (gguf)
        return want_gguf(&p);
    if (!find(&p, "", "config.json"))
        want_matching(&p, "", MARIAN);
    for (size_t i = 0; i < list->count; i++)
        weights |= list->files[i].wanted && fnmatch("*.[bn][ip][nz]", list->files[i].path, 0) == 0;
    return weights ? TFM_OK : fail_unusable(&p);
}
