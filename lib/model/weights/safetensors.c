/* Safetensors: the length of the header, the header (JSON), and the data. https://huggingface.co/docs/safetensors */
#include "model/weights/safetensors.h"
#include <jansson.h>
#include <string.h>
#include "base/json.h"
#include "model/weights/weight_reader.h"

/* ---- One tensor of the header ------------------------------------------------------------------------- */

static tfm_status read_shape(tfm__stored_tensor *out, const json_t *shape) {
    if (!json_is_array(shape) || json_array_size(shape) > 64)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `shape` must be a list of at most 64 sizes", out->file,
                         out->name);
    out->rank = (int)json_array_size(shape);
    out->count = 1;
    bool zero = false, overflow = false;
    for (int i = 0; i < out->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        int64_t value = json_is_integer(dim) ? (int64_t)json_integer_value(dim) : -1;
        if (value < 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: dimension %d is %s; an integer >= 0 is needed",
                             out->file, out->name, i, tfm__json_text((char[TFM__JSON_TEXT]){0}, dim));
        if (i < TFM_MAX_RANK)
            out->dims[i] = value;
        zero |= value == 0;
        overflow |= __builtin_mul_overflow(out->count, (size_t)value, &out->count);
    }
    if (zero)
        out->count = 0;
    else if (overflow)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: the product of its shape overflows", out->file, out->name);
    return TFM_OK;
}

static tfm_status read_dtype(tfm__stored_tensor *out, const json_t *dtype) {
    if (!json_is_string(dtype))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `dtype` must be a string", out->file, out->name);
    /* An unknown dtype is an error only when the tensor is used. */
    return tfm__stored_set_dtype(out, json_string_value(dtype));
}

static tfm_status read_offsets(tfm__stored_tensor *out, const json_t *offsets, const unsigned char *data, size_t size) {
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `data_offsets` must be two integers", out->file, out->name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: data_offsets [%lld, %lld] do not ascend from 0", out->file,
                         out->name, (long long)begin, (long long)end);
    if ((uint64_t)end > size)
        return tfm__fail(
            TFM_ERROR_FORMAT,
            "%s: tensor %s ends at byte %lld of the data, which has only %zu: the file was truncated; copy it again",
            out->file, out->name, (long long)end, size);
    out->data = data + begin;
    out->bytes = (size_t)(end - begin);
    return TFM_OK;
}

static tfm_status read_tensor(tfm__stored_tensor *out, const char *name, const json_t *entry, const char *path,
                              const unsigned char *data, size_t size) {
    tfm_status status = tfm__stored_check_name(name, strlen(name), path);
    if (status != TFM_OK)
        return status;
    *out = (tfm__stored_tensor){.name = name, .file = path, .dtype = TFM_U8};
    if (!json_is_object(entry))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s is %s; an object with dtype, shape and data_offsets is needed", path, name,
                         tfm__json_kind(entry));
    status = read_offsets(out, json_object_get(entry, "data_offsets"), data, size);
    if (status == TFM_OK)
        status = read_shape(out, json_object_get(entry, "shape"));
    if (status == TFM_OK)
        status = read_dtype(out, json_object_get(entry, "dtype"));
    return status;
}

/* ---- Consistency -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const tfm__stored_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : 0;
}

/* The format allows neither gaps nor overlaps; otherwise the header is wrong. */
static tfm_status check_places(tfm__stored_tensor *tensors, size_t count, const unsigned char *data, size_t size,
                               const char *path) {
    qsort(tensors, count, sizeof(*tensors), by_place);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t begin = (size_t)(tensors[i].data - data);
        if (begin < used)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: tensors %s and %s overlap", path, tensors[i - 1].name,
                             tensors[i].name);
        if (begin > used)
            return tfm__fail(TFM_ERROR_FORMAT,
                             "%s: bytes %zu to %zu of the data, before tensor %s, belong to no tensor", path, used,
                             begin, tensors[i].name);
        used = begin + tensors[i].bytes;
    }
    if (used != size)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the last %zu bytes of the data belong to no tensor", path, size - used);
    return TFM_OK;
}

static tfm_status read_header(tfm__weights_file *file, json_t *header, const unsigned char *data, size_t size) {
    const char *name;
    json_t *entry;
    file->tensors = tfm__alloc(json_object_size(header), sizeof(*file->tensors));
    if (!file->tensors)
        return TFM_ERROR_MEMORY;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!json_is_object(entry) &&
                !json_is_null(entry)) /* the reference implementation reads null as no metadata */
                return tfm__fail(TFM_ERROR_FORMAT, "%s: __metadata__ must be an object", file->path);
            continue;
        }
        tfm_status status = read_tensor(&file->tensors[file->count], name, entry, file->path, data, size);
        if (status != TFM_OK)
            return status;
        file->count++;
    }
    return check_places(file->tensors, file->count, data, size, file->path);
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static tfm_status read_file(tfm__weights_file *file) {
    const unsigned char *data = file->map.data;
    const size_t size = file->map.size;
    if (size < 8 && tfm__weights_check_text(file) != TFM_OK)
        return TFM_ERROR_FORMAT;
    if (size < 8)
        return tfm__fail(TFM_ERROR_FORMAT, "%s has %zu bytes: too short for a safetensors file", file->path, size);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | data[i];
    if (length > size - 8 && tfm__weights_check_text(file) != TFM_OK)
        return TFM_ERROR_FORMAT;
    if (length > size - 8)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s says that its header has %llu bytes, but only %zu follow: it was truncated, or is not a "
                         "safetensors file",
                         file->path, (unsigned long long)length, size - 8);
    if (length > TFM__SAFETENSORS_HEADER)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a header of %llu bytes exceeds the limit of %u", file->path,
                         (unsigned long long)length, TFM__SAFETENSORS_HEADER);
    char *name = tfm__format("the header of %s", file->path);
    if (!name)
        return TFM_ERROR_MEMORY;
    json_t *header = NULL;
    tfm_status status = tfm__json_parse(&header, (const char *)data + 8, (size_t)length, name);
    free(name);
    file->own = header; /* owns the names */
    if (status == TFM_OK)
        status = read_header(file, header, data + 8 + length, size - 8 - (size_t)length);
    return status;
}

static void release(tfm__weights_file *file) {
    json_decref(file->own);
}

static const char *metadata(const tfm__weights_file *file, const char *name) {
    return json_string_value(json_object_get(json_object_get(file->own, "__metadata__"), name));
}

const tfm__weights_reader tfm__safetensors_reader = {
    .kind = "safetensors",
    .suffix = ".safetensors",
    .single = "model.safetensors",
    .index = "model.safetensors.index.json",
    .read = read_file,
    .release = release,
    .metadata = metadata,
};

void tfm__checksum_encode(unsigned char out[TFM__CHECKSUM_BYTES], uint64_t hash) {
    for (int i = 0; i < TFM__CHECKSUM_BYTES; i++)
        out[i] = (unsigned char)(hash >> 8 * i);
}
