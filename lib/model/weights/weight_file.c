#include "model/weights/weight_file.h"
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "model/weights/packed_tensors.h"
#include "model/weights/safetensors.h"
#include "model/weights/weight_reader.h"

/* All formats, in order of preference within a directory. */
static const tfm__weights_reader *const READERS[] = {&tfm__safetensors_reader, &tfm__torch_reader, &tfm__npz_reader,
                                                     &tfm__marian_bin_reader, NULL};

struct tfm__weights {
    const tfm__weights_reader *reader;
    size_t file_count;
    tfm__weights_file *files;
    size_t count;
    tfm__stored_tensor *tensors; /* sorted by name */
    void *own;                   /* of the tensors, or NULL */
    void (*release)(void *own);
    void **put; /* [put_count]: data of tfm__weights_put */
    size_t put_count, put_room;
};

/* ---- A set of files ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const tfm__stored_tensor *)a)->name, ((const tfm__stored_tensor *)b)->name);
}

/* Which of the readers for this suffix accepts the file. */
static const tfm__weights_reader *choose(const tfm__weights_reader *reader, const tfm__file *map) {
    for (size_t i = 0; READERS[i]; i++)
        if (READERS[i]->recognizes && strcmp(READERS[i]->suffix, reader->suffix) == 0 && READERS[i]->recognizes(map))
            return READERS[i];
    return reader;
}

/* Adds the tensors of a file that was read. */
static tfm_status add_tensors(tfm__weights *out, const tfm__weights_file *added) {
    tfm__stored_tensor *tensors = tfm__realloc(out->tensors, out->count + added->count, sizeof(*tensors));
    if (!tensors)
        return TFM_ERROR_MEMORY;
    out->tensors = tensors;
    if (added->count > 0)
        memcpy(tensors + out->count, added->tensors, added->count * sizeof(*tensors));
    for (size_t i = 0; i < added->count; i++)
        tensors[out->count + i].identity = added->map.identity;
    out->count += added->count;
    return TFM_OK;
}

/* Opens a file and adds its tensors. On failure, partial results are freed with `out`. */
static tfm_status add_file(tfm__weights *out, const char *path) {
    tfm__weights_file *files = tfm__realloc(out->files, out->file_count + 1, sizeof(*files));
    if (!files)
        return TFM_ERROR_MEMORY;
    out->files = files;
    tfm__weights_file *added = &files[out->file_count++];
    *added = (tfm__weights_file){.path = tfm__strdup(path)};
    if (!added->path)
        return TFM_ERROR_MEMORY;
    tfm_status status = tfm__file_map(&added->map, path);
    if (status == TFM_OK && out->file_count == 1)
        out->reader = choose(out->reader, &added->map);
    if (status == TFM_OK)
        status = out->reader->read(added);
    return status == TFM_OK ? add_tensors(out, added) : status;
}

/* int8 tensors require a tensor of scales. */
static void find_scales(const tfm__weights *weights, tfm__stored_tensor *stored) {
    char name[TFM__MAX_TENSOR_NAME + sizeof(TFM__SCALES)];
    if (!stored->usable || stored->dtype != TFM_I8 || stored->scales)
        return;
    snprintf(name, sizeof(name), "%s%s", stored->name, TFM__SCALES);
    const tfm__stored_tensor *scales = tfm__weights_find(weights, name);
    const bool groups = scales && scales->usable && scales->dtype == TFM_F16 && scales->rank == 3;
    if (!groups && (!scales || !scales->usable || scales->dtype != TFM_F32 || scales->rank != 1))
        return;
    stored->scale_group = groups ? TFM__SCALE_GROUP : 0;
    stored->scales = scales->data;
    stored->scale_count = scales->count;
}

static tfm_status finish(tfm__weights *weights) {
    if (weights->count == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s holds no tensors", weights->files[0].path);
    qsort(weights->tensors, weights->count, sizeof(*weights->tensors), by_name);
    for (size_t i = 1; i < weights->count; i++) {
        const tfm__stored_tensor *a = &weights->tensors[i - 1], *b = &weights->tensors[i];
        if (by_name(a, b) == 0)
            return strcmp(a->file, b->file) == 0
                       ? tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s occurs twice", a->file, a->name)
                       : tfm__fail(TFM_ERROR_FORMAT, "tensor %s is in both %s and %s", a->name, a->file, b->file);
    }
    for (size_t i = 0; i < weights->count; i++)
        find_scales(weights, &weights->tensors[i]);
    return TFM_OK;
}

static void close_files(const tfm__weights *weights) {
    for (size_t i = 0; i < weights->file_count; i++) {
        tfm__weights_file *file = &weights->files[i];
        weights->reader->release(file);
        free(file->tensors);
        tfm__file_unmap(&file->map);
        free(file->path);
    }
    free(weights->files);
    free(weights->tensors);
    for (size_t i = 0; i < weights->put_count; i++)
        free(weights->put[i]);
    free(weights->put);
    if (weights->own)
        weights->release(weights->own);
}

static tfm_status open_file(tfm__weights **out, const char *path, const tfm__weights_reader *reader) {
    tfm__weights *weights = tfm__alloc(1, sizeof(*weights));
    *out = weights;
    if (!weights)
        return TFM_ERROR_MEMORY;
    weights->reader = reader;
    tfm_status status = add_file(weights, path);
    if (status == TFM_OK)
        status = finish(weights);
    if (status != TFM_OK)
        tfm__weights_free(out);
    return status;
}

tfm_status tfm__weights_adopt(tfm__weights **out, const tfm__weights_reader *reader, tfm__weights_file *files,
                              size_t count, tfm_status status) {
    const tfm__weights all = {.reader = reader, .files = files, .file_count = count};
    tfm__weights *weights = *out = tfm__alloc(1, sizeof(*weights));
    if (!weights) {
        close_files(&all);
        return TFM_ERROR_MEMORY;
    }
    *weights = all;
    for (size_t i = 0; i < count && status == TFM_OK; i++)
        status = add_tensors(weights, &files[i]);
    if (status == TFM_OK)
        status = finish(weights);
    if (status != TFM_OK)
        tfm__weights_free(out);
    return status;
}

tfm_status tfm__weights_replace(tfm__weights *weights, tfm__stored_tensor *tensors, size_t count, void *own,
                                void (*release)(void *own)) {
    free(weights->tensors);
    weights->tensors = tensors;
    weights->count = count;
    weights->own = own;
    weights->release = release;
    return finish(weights);
}

tfm_status tfm__weights_put(tfm__weights *weights, const tfm__stored_tensor *stored, const tfm__stored_tensor *changed,
                            void *data) {
    const tfm_status status =
        tfm__grow(&weights->put, &weights->put_room, weights->put_count + 1, sizeof(*weights->put));
    if (status != TFM_OK) {
        free(data);
        return status;
    }
    weights->put[weights->put_count++] = data;
    tfm__stored_tensor *own = &weights->tensors[stored - weights->tensors];
    *own = *changed;
    own->data = data;
    return TFM_OK;
}

static bool has_suffix(const char *path, const char *suffix) {
    const size_t length = strlen(path), end = strlen(suffix);
    return length >= end && strcmp(path + length - end, suffix) == 0;
}

tfm_status tfm__weights_open(tfm__weights **out, const char *path) {
    const tfm__weights_reader *reader = READERS[0];
    for (size_t i = TFM__COUNT(READERS) - 1;
         i-- > 1;) /* the first reader with a suffix; it may pass to others with the same suffix */
        if (has_suffix(path, READERS[i]->suffix))
            reader = READERS[i];
    return open_file(out, path, reader);
}

tfm_status tfm__weights_open_written(tfm__weights **out, const char *path) {
    return open_file(out, path, &tfm__safetensors_reader);
}

void tfm__weights_free(tfm__weights **weights) {
    if (!weights || !*weights)
        return;
    close_files(*weights);
    free(*weights);
    *weights = NULL;
}

static const tfm__file *file_of(const tfm__weights *weights, const tfm__stored_tensor *stored) {
    for (size_t i = 0; i < weights->file_count; i++) {
        const tfm__file *map = &weights->files[i].map;
        if (map->data && (uintptr_t)stored->data >= (uintptr_t)map->data &&
            (uintptr_t)stored->data - (uintptr_t)map->data < map->size)
            return map;
    }
    return NULL;
}

bool tfm__weights_file_offset(uint64_t *first, const tfm__weights *weights, const tfm__stored_tensor *stored) {
    const tfm__file *map = file_of(weights, stored);
    if (map)
        *first = (uint64_t)(stored->data - map->data);
    return map != NULL;
}

void tfm__weights_evict(const tfm__weights *weights, const tfm__stored_tensor *stored) {
    const tfm__file *map = file_of(weights, stored);
    if (map)
        tfm__file_evict(map, stored->data, stored->packed ? stored->packed->code_bytes : stored->bytes);
}

tfm_status tfm__weights_verify(const tfm__weights *weights) {
    const tfm__file *all = &weights->files[0].map;
    const tfm__stored_tensor *seal = tfm__weights_find(weights, TFM__CHECKSUM_TENSOR);
    unsigned char wanted[TFM__CHECKSUM_BYTES];
    if (!seal && !tfm__weights_metadata(weights, TFM__CHECKSUM_KEY))
        return TFM_OK;
    if (seal && seal->bytes == sizeof(wanted) && seal->data + seal->bytes == all->data + all->size) {
        tfm__checksum_encode(wanted, tfm__hash64(all->data, all->size - sizeof(wanted), 0));
        if (memcmp(seal->data, wanted, sizeof(wanted)) == 0)
            return TFM_OK;
    }
    return tfm__fail(TFM_ERROR_FORMAT,
                     "%s is damaged, or was written by another program: its checksum is wrong; copy it again, or take "
                     "an earlier one",
                     weights->files[0].path);
}

/* ---- A model directory -------------------------------------------------------------------------------- */

static bool is_open(const tfm__weights *weights, const char *path) {
    for (size_t i = 0; i < weights->file_count; i++)
        if (strcmp(weights->files[i].path, path) == 0)
            return true;
    return false;
}

/* Opens every file in the index's weight_map (tensor to file). */
static tfm_status add_indexed(tfm__weights *out, const char *dir, const char *index, const json_t *map) {
    if (!json_is_object(map) || json_object_size(map) == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: `weight_map` must be an object from tensor names to file names", index);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        const char *file = json_string_value(value);
        /* Only files in the same folder: an index must not point outside. */
        if (!file || !*file || strchr(file, '/'))
            return tfm__fail(TFM_ERROR_FORMAT, "%s: weight_map: %s is not a file name in the same folder", index,
                             tfm__json_text((char[TFM__JSON_TEXT]){0}, value));
        char *path = tfm__path_join(dir, file);
        tfm_status status = !path ? TFM_ERROR_MEMORY : is_open(out, path) ? TFM_OK : add_file(out, path);
        free(path);
        if (status != TFM_OK)
            return status;
    }
    tfm_status status = finish(out);
    if (status != TFM_OK)
        return status;
    json_object_foreach((json_t *)(uintptr_t)map, name, value) {
        if (!tfm__weights_find(out, name))
            return tfm__fail(TFM_ERROR_FORMAT, "%s names tensor %.200s, which is not in %s", index, name,
                             json_string_value(value));
    }
    return TFM_OK;
}

static tfm_status open_indexed(tfm__weights **out, const char *dir, const char *index,
                               const tfm__weights_reader *reader) {
    json_t *root = NULL;
    tfm_status status = tfm__json_load(&root, index);
    if (status != TFM_OK)
        return status;
    tfm__weights *weights = tfm__alloc(1, sizeof(*weights));
    if (weights)
        weights->reader = reader;
    status = weights ? add_indexed(weights, dir, index, json_object_get(root, "weight_map")) : TFM_ERROR_MEMORY;
    json_decref(root);
    if (status != TFM_OK)
        tfm__weights_free(&weights);
    *out = weights;
    return status;
}

tfm_status tfm__weights_open_dir(tfm__weights **out, const char *dir) {
    *out = NULL;
    for (size_t i = 0; READERS[i] && READERS[i]->single; i++) {
        char *single = tfm__path_join(dir, READERS[i]->single), *index = tfm__path_join(dir, READERS[i]->index);
        const bool one = single && tfm__file_exists(single), some = index && tfm__file_exists(index);
        const tfm_status status = !single || !index ? TFM_ERROR_MEMORY
                                  : one             ? open_file(out, single, READERS[i])
                                  : some            ? open_indexed(out, dir, index, READERS[i])
                                                    : TFM_OK;
        free(single);
        free(index);
        if (status == TFM_OK && (one || some))
            tfm__weights_warn_adapter(dir);
        if (one || some || status != TFM_OK)
            return status;
    }
    return tfm__weights_report_missing(dir, READERS);
}

/* ---- Looking up --------------------------------------------------------------------------------------- */

const tfm__stored_tensor *tfm__weights_find(const tfm__weights *weights, const char *name) {
    tfm__stored_tensor key = {.name = name};
    return bsearch(&key, weights->tensors, weights->count, sizeof(key), by_name);
}

const char *tfm__weights_metadata(const tfm__weights *weights, const char *name) {
    return weights->reader->metadata ? weights->reader->metadata(&weights->files[0], name) : NULL;
}

const char *tfm__weights_kind(const tfm__weights *weights) {
    return weights->reader->kind;
}

size_t tfm__weights_files(const tfm__weights *weights) {
    return weights->file_count;
}

/* "(6001, 128)"; a dim of -1 as "any". */
static const char *dims_text(char *text, size_t size, int rank, const int64_t *dims) {
    size_t used = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < rank && i < TFM_MAX_RANK && used < size; i++) {
        const char *comma = i ? ", " : "";
        used += (size_t)(dims[i] < 0 ? snprintf(text + used, size - used, "%sany", comma)
                                     : snprintf(text + used, size - used, "%s%lld", comma, (long long)dims[i]));
    }
    if (used < size)
        snprintf(text + used, size - used, rank > TFM_MAX_RANK ? ", ...)" : ")");
    return text;
}

/* Whether the shape matches. */
static bool fits(const tfm__weights *weights, const tfm__stored_tensor *found, int rank, const int64_t *dims) {
    const int missing = weights->reader->drops_ones && found->rank < rank ? rank - found->rank : 0;
    bool same = found->rank + missing == rank;
    for (int i = 0; same && i < rank; i++)
        same = dims[i] < 0 || dims[i] == (i < missing ? 1 : found->dims[i - missing]);
    return same;
}

tfm_status tfm__weights_get(const tfm__weights *weights, const tfm__stored_tensor **out, const char *name, int rank,
                            const int64_t *dims) {
    *out = NULL;
    const tfm__stored_tensor *found = tfm__weights_find(weights, name);
    if (!found)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has no tensor %s: config.json belongs to another model",
                         weights->files[0].path, name);
    if (!fits(weights, found, rank, dims)) {
        char is[TFM_MAX_RANK * 24], needed[TFM_MAX_RANK * 24];
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s has shape %s; the configuration needs %s", found->file, name,
                         dims_text(is, sizeof(is), found->rank, found->dims),
                         dims_text(needed, sizeof(needed), rank, dims));
    }
    if (found->usable && found->dtype == TFM_I8 && !found->scales)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s is int8, but its scales %s%s are missing", found->file, name,
                         name, TFM__SCALES);
    if (!found->usable || found->dtype == TFM_I32 || found->dtype == TFM_U8)
        return tfm__fail(TFM_ERROR_UNSUPPORTED, "%s: tensor %s has dtype %.20s; %s can be used", found->file, name,
                         found->dtype_name,
                         weights->reader->dtypes ? weights->reader->dtypes : "F32, F16, BF16 and, with scales, I8");
    *out = found;
    return TFM_OK;
}

size_t tfm__weights_count(const tfm__weights *weights) {
    return weights->count;
}

const tfm__stored_tensor *tfm__weights_at(const tfm__weights *weights, size_t index) {
    return index < weights->count ? &weights->tensors[index] : NULL;
}
