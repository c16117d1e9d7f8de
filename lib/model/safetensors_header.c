/* The header of one safetensors file: JSON to checked tensors. */
#include <string.h>
#include "base/json.h"
#include "model/safetensors_header.h"

#define MAX_NAME 1024

static const struct {
    const char *name;
    size_t size;
    int dtype; /* tfm_dtype, or -1: known, but nothing here computes with it */
} DTYPES[] = {
    {"F32", 4, TFM_F32}, {"F16", 2, TFM_F16}, {"BF16", 2, TFM_BF16}, {"I32", 4, TFM_I32}, {"U8", 1, TFM_U8},
    {"F64", 8, -1},      {"I64", 8, -1},      {"U64", 8, -1},        {"U32", 4, -1},      {"I16", 2, -1},
    {"U16", 2, -1},      {"I8", 1, -1},       {"BOOL", 1, -1},       {"F8_E4M3", 1, -1},  {"F8_E5M2", 1, -1},
};

/* ---- One tensor of the header ------------------------------------------------------------------------- */

static tfm_status check_name(const char *name, const char *path) {
    size_t length = strlen(name);
    if (length == 0 || length > MAX_NAME)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a tensor's name has %zu bytes; 1 to %d are allowed", path,
                         length, MAX_NAME);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: a tensor's name has a control character", path);
    return TFM_OK;
}

static tfm_status read_shape(tfm__stored *out, const json_t *shape) {
    if (!json_is_array(shape) || json_array_size(shape) > 64)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `shape` must be a list of at most 64 sizes",
                         out->file, out->name);
    out->rank = (int)json_array_size(shape);
    out->count = 1;
    bool zero = false, overflow = false;
    for (int i = 0; i < out->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        int64_t value = json_is_integer(dim) ? (int64_t)json_integer_value(dim) : -1;
        if (value < 0)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: dimension %d is %s; an integer >= 0 is needed",
                             out->file, out->name, i, tfm__json_text((char[TFM_JSON_TEXT]){0}, dim));
        if (i < TFM_MAX_RANK)
            out->dims[i] = value;
        zero |= value == 0;
        overflow |= __builtin_mul_overflow(out->count, (size_t)value, &out->count);
    }
    if (zero)
        out->count = 0;
    else if (overflow)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: the product of its shape overflows", out->file,
                         out->name);
    return TFM_OK;
}

static tfm_status read_dtype(tfm__stored *out, const json_t *dtype) {
    if (!json_is_string(dtype))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `dtype` must be a string", out->file, out->name);
    out->dtype_name = json_string_value(dtype);
    for (size_t i = 0; i < TFM_COUNT(DTYPES); i++) {
        if (strcmp(out->dtype_name, DTYPES[i].name) != 0)
            continue;
        size_t needed;
        if (__builtin_mul_overflow(out->count, DTYPES[i].size, &needed) || needed != out->bytes)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: %zu elements of %s do not fill its %zu bytes",
                             out->file, out->name, out->count, out->dtype_name, out->bytes);
        out->usable = DTYPES[i].dtype >= 0 && out->rank <= TFM_MAX_RANK;
        out->dtype = out->usable ? (tfm_dtype)DTYPES[i].dtype : TFM_U8;
    }
    /* An unknown dtype may be fine in a tensor that nobody asks for. */
    return TFM_OK;
}

static tfm_status read_offsets(tfm__stored *out, const json_t *offsets, const unsigned char *data,
                               size_t size) {
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: `data_offsets` must be two integers", out->file,
                         out->name);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: data_offsets [%lld, %lld] do not ascend from 0",
                         out->file, out->name, (long long)begin, (long long)end);
    if ((uint64_t)end > size)
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s ends at byte %lld of the data, which has only %zu: the file was cut; "
                         "copy it again",
                         out->file, out->name, (long long)end, size);
    out->data = data + begin;
    out->bytes = (size_t)(end - begin);
    return TFM_OK;
}

static tfm_status read_tensor(tfm__stored *out, const char *name, const json_t *entry, const char *path,
                              const unsigned char *data, size_t size) {
    tfm_status status = check_name(name, path);
    if (status != TFM_OK)
        return status;
    *out = (tfm__stored){.name = name, .file = path, .dtype = TFM_U8};
    if (!json_is_object(entry))
        return tfm__fail(TFM_ERROR_FORMAT,
                         "%s: tensor %s is %s; an object with dtype, shape and data_offsets is needed", path,
                         name, tfm__json_kind(entry));
    status = read_offsets(out, json_object_get(entry, "data_offsets"), data, size);
    if (status == TFM_OK)
        status = read_shape(out, json_object_get(entry, "shape"));
    if (status == TFM_OK)
        status = read_dtype(out, json_object_get(entry, "dtype"));
    return status;
}

/* ---- All of them -------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const tfm__stored *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : 0;
}

/* The format leaves no byte unused and none used twice; anything else is a header that lies. */
static tfm_status check_places(tfm__stored *tensors, size_t count, const unsigned char *data, size_t size,
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
                             "%s: bytes %zu to %zu of the data, before tensor %s, belong to no tensor", path,
                             used, begin, tensors[i].name);
        used = begin + tensors[i].bytes;
    }
    if (used != size)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: the last %zu bytes of the data belong to no tensor", path,
                         size - used);
    return TFM_OK;
}

tfm_status tfm__safetensors_header(tfm__stored *out, size_t *count, json_t *header, const char *path,
                                   const unsigned char *data, size_t size) {
    const char *name;
    json_t *entry;
    *count = 0;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!json_is_object(entry))
                return tfm__fail(TFM_ERROR_FORMAT, "%s: __metadata__ must be an object", path);
            continue;
        }
        tfm_status status = read_tensor(&out[*count], name, entry, path, data, size);
        if (status != TFM_OK)
            return status;
        ++*count;
    }
    return check_places(out, *count, data, size, path);
}

void tfm__seal(unsigned char out[TFM__SEAL_BYTES], uint64_t hash) {
    for (int i = 0; i < TFM__SEAL_BYTES; i++)
        out[i] = (unsigned char)(hash >> 8 * i);
}
