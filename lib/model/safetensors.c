#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "model/safetensors_header.h"

typedef struct shard {
    char *path;
    tfm__file file;
    json_t *header; /* owns the names */
} shard;

struct tfm__safetensors {
    size_t shard_count;
    shard *shards;
    size_t count;
    tfm__stored *tensors; /* by name */
};

/* ---- One file ----------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const tfm__stored *)a)->name, ((const tfm__stored *)b)->name);
}

static tfm_status read_tensors(tfm__safetensors *out, shard *from, const unsigned char *data, size_t size) {
    size_t count, capacity = out->count + json_object_size(from->header);
    tfm__stored *tensors = tfm__realloc(out->tensors, capacity, sizeof(*tensors));
    if (!tensors)
        return TFM_ERROR_MEMORY;
    out->tensors = tensors;
    tfm_status status =
        tfm__safetensors_header(tensors + out->count, &count, from->header, from->path, data, size);
    if (status == TFM_OK)
        out->count += count;
    return status;
}

/* Adds one file's tensors. What it leaves behind on failure is freed with `out`. */
static tfm_status add_file(tfm__safetensors *out, const char *path) {
    shard *shards = tfm__realloc(out->shards, out->shard_count + 1, sizeof(*shards));
    if (!shards)
        return TFM_ERROR_MEMORY;
    out->shards = shards;
    shard *added = &shards[out->shard_count++];
    *added = (shard){.path = tfm__strdup(path)};
    if (!added->path)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__file_map(&added->file, path);
    if (status != TFM_OK)
        return status;

    const unsigned char *data = added->file.data;
    size_t size = added->file.size;
    if (size < 8)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has %zu bytes: too short for a safetensors file", path, size);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | data[i];
    if (header > size - 8)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s says that its header has %llu bytes, but only %zu follow: it was cut, or is no "
                         "safetensors file",
                         path, (unsigned long long)header, size - 8);
    if (header > TFM__SAFETENSORS_HEADER)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: a header of %llu bytes is longer than the %u that are allowed", path,
                         (unsigned long long)header, TFM__SAFETENSORS_HEADER);
    char *name = tfm__format("the header of %s", path);
    if (!name)
        return TFM_ERROR_MEMORY;
    status = tfm__json_parse(&added->header, (const char *)data + 8, (size_t)header, name);
    free(name);
    if (status != TFM_OK)
        return status;
    return read_tensors(out, added, data + 8 + header, size - 8 - (size_t)header);
}

static tfm_status finish(tfm__safetensors *file) {
    if (file->count == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s holds no tensors", file->shards[0].path);
    qsort(file->tensors, file->count, sizeof(*file->tensors), by_name);
    for (size_t i = 1; i < file->count; i++)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return tfm__fail(TFM_ERROR_FORMAT, "tensor %s is in both %s and %s", file->tensors[i].name,
                             file->tensors[i - 1].file, file->tensors[i].file);
    return TFM_OK;
}

tfm_status tfm__safetensors_open(tfm__safetensors **out, const char *path) {
    *out = NULL;
    tfm__safetensors *file = tfm__alloc(1, sizeof(*file));
    if (!file)
        return TFM_ERROR_MEMORY;
    tfm_status status = add_file(file, path);
    if (status == TFM_OK)
        status = finish(file);
    if (status != TFM_OK)
        tfm__safetensors_free(&file);
    *out = file;
    return status;
}

tfm_status tfm__safetensors_verify(const tfm__safetensors *file) {
    const tfm__file *all = &file->shards[0].file;
    const tfm__stored *seal = tfm__safetensors_find(file, TFM__SEAL);
    unsigned char wanted[TFM__SEAL_BYTES];
    if (!seal && !tfm__safetensors_remark(file, TFM__SEALED))
        return TFM_OK;
    if (seal && seal->bytes == sizeof(wanted) && seal->data + seal->bytes == all->data + all->size) {
        tfm__seal(wanted, tfm__hash64(all->data, all->size - sizeof(wanted), 0));
        if (memcmp(seal->data, wanted, sizeof(wanted)) == 0)
            return TFM_OK;
    }
    return tfm__fail(
        TFM_ERROR_FORMAT,
        "%s is damaged, or was written by another program: its checksum is not that of its bytes; copy "
        "it again, or take an earlier one",
        file->shards[0].path);
}

/* ---- A model directory -------------------------------------------------------------------------------- */

static bool shard_is_open(const tfm__safetensors *file, const char *path) {
    for (size_t i = 0; i < file->shard_count; i++)
        if (strcmp(file->shards[i].path, path) == 0)
            return true;
    return false;
}

/* Opens every file that the index's weight_map (tensor to file) names. */
static tfm_status add_indexed(tfm__safetensors *out, const char *dir, const char *index, const json_t *map) {
    if (!json_is_object(map) || json_object_size(map) == 0)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: `weight_map` must be an object from tensor names to file names", index);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *file = json_string_value(value);
        /* Only files of this very folder: an index must not reach elsewhere. */
        if (!file || !*file || strchr(file, '/'))
            return tfm__fail(TFM_ERROR_FORMAT, "%s: weight_map: %s is not the name of a file beside it",
                             index, tfm__json_text((char[TFM_JSON_TEXT]){0}, value));
        char *path = tfm__path_join(dir, file);
        tfm_status status = !path                      ? TFM_ERROR_MEMORY
                            : shard_is_open(out, path) ? TFM_OK
                                                       : add_file(out, path);
        free(path);
        if (status != TFM_OK)
            return status;
    }
    tfm_status status = finish(out);
    if (status != TFM_OK)
        return status;
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        if (!tfm__safetensors_find(out, name))
            return tfm__fail(TFM_ERROR_FORMAT, "%s names tensor %.200s, which is not in %s", index, name,
                             json_string_value(value));
    }
    return TFM_OK;
}

static tfm_status open_indexed(tfm__safetensors **out, const char *dir, const char *index) {
    json_t *root = NULL;
    tfm_status status = tfm__json_load(&root, index);
    if (status != TFM_OK)
        return status;
    tfm__safetensors *file = tfm__alloc(1, sizeof(*file));
    status = file ? add_indexed(file, dir, index, json_object_get(root, "weight_map")) : TFM_ERROR_MEMORY;
    json_decref(root);
    if (status != TFM_OK)
        tfm__safetensors_free(&file);
    *out = file;
    return status;
}

tfm_status tfm__safetensors_open_dir(tfm__safetensors **out, const char *dir) {
    *out = NULL;
    char *single = tfm__path_join(dir, "model.safetensors");
    char *index = tfm__path_join(dir, "model.safetensors.index.json");
    char *torch = tfm__path_join(dir, "pytorch_model.bin");
    tfm_status status = TFM_ERROR_MEMORY;
    if (!single || !index || !torch)
        ;
    else if (tfm__file_exists(single))
        status = tfm__safetensors_open(out, single);
    else if (tfm__file_exists(index))
        status = open_indexed(out, dir, index);
    else if (tfm__file_exists(torch))
        status =
            tfm__fail(TFM_ERROR_UNSUPPORTED,
                      "%s has only pytorch_model.bin; convert it once: python3 -c \"from transformers import "
                      "MarianMTModel; MarianMTModel.from_pretrained('%s').save_pretrained('%s')\"",
                      dir, dir, dir);
    else
        status = tfm__fail(TFM_ERROR_IO, "%s has no model.safetensors%s", dir,
                           tfm__file_exists(dir) ? "" : "; there is no such folder");
    free(single);
    free(index);
    free(torch);
    return status;
}

void tfm__safetensors_free(tfm__safetensors **file) {
    if (!file || !*file)
        return;
    for (size_t i = 0; i < (*file)->shard_count; i++) {
        shard *s = &(*file)->shards[i];
        tfm__file_unmap(&s->file);
        json_decref(s->header);
        free(s->path);
    }
    free((*file)->shards);
    free((*file)->tensors);
    free(*file);
    *file = NULL;
}

/* ---- Looking up --------------------------------------------------------------------------------------- */

const tfm__stored *tfm__safetensors_find(const tfm__safetensors *file, const char *name) {
    tfm__stored key = {.name = name};
    return bsearch(&key, file->tensors, file->count, sizeof(key), by_name);
}

const char *tfm__safetensors_remark(const tfm__safetensors *file, const char *name) {
    return json_string_value(json_object_get(json_object_get(file->shards[0].header, "__metadata__"), name));
}

/* "(6001, 128)"; a dim of -1 as "any". */
static const char *dims_text(char *text, size_t size, int rank, const int64_t *dims) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < rank && i < TFM_MAX_RANK && used < size; i++) {
        const char *comma = i ? ", " : "";
        used +=
            (size_t)(dims[i] < 0 ? snprintf(text + used, size - used, "%sany", comma)
                                 : snprintf(text + used, size - used, "%s%lld", comma, (long long)dims[i]));
    }
    if (used < size)
        snprintf(text + used, size - used, rank > TFM_MAX_RANK ? ", ...)" : ")");
    return text;
}

tfm_status tfm__safetensors_get(const tfm__safetensors *file, const tfm__stored **out, const char *name,
                                int rank, const int64_t *dims) {
    *out = NULL;
    const tfm__stored *found = tfm__safetensors_find(file, name);
    if (!found)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no tensor %s: config.json is another model's",
                         file->shards[0].path, name);
    bool same = found->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = dims[i] < 0 || dims[i] == found->dims[i];
    if (!same) {
        char is[TFM_MAX_RANK * 24], needed[TFM_MAX_RANK * 24];
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has shape %s; the configuration needs %s",
                         found->file, name, dims_text(is, sizeof(is), found->rank, found->dims),
                         dims_text(needed, sizeof(needed), rank, dims));
    }
    if (!found->usable || (found->dtype != TFM_F32 && found->dtype != TFM_F16 && found->dtype != TFM_BF16))
        return tfm__fail(TFM_ERROR_UNSUPPORTED,
                         "%s: tensor %s has dtype %.20s; F32, F16 and BF16 can be used", found->file, name,
                         found->dtype_name);
    *out = found;
    return TFM_OK;
}

size_t tfm__safetensors_count(const tfm__safetensors *file) {
    return file->count;
}

const tfm__stored *tfm__safetensors_at(const tfm__safetensors *file, size_t index) {
    return index < file->count ? &file->tensors[index] : NULL;
}
