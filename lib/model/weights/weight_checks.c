/* Shared by the readers of weight files: checks of names, dtypes and sizes. */
#include <string.h>
#include "base/json.h"
#include "model/weights/weight_reader.h"
#include "text/utf8.h"

static const struct {
    const char *name;
    size_t size;
    int dtype; /* tfm_dtype, or -1: known but not supported */
} DTYPES[] = {
    {"F32", 4, TFM_F32}, {"F16", 2, TFM_F16}, {"BF16", 2, TFM_BF16}, {"I32", 4, TFM_I32}, {"U8", 1, TFM_U8},
    {"F64", 8, -1},      {"I64", 8, -1},      {"U64", 8, -1},        {"U32", 4, -1},      {"I16", 2, -1},
    {"U16", 2, -1},      {"I8", 1, TFM_I8},   {"BOOL", 1, -1},       {"F8_E4M3", 1, -1},  {"F8_E5M2", 1, -1},
    {"C64", 8, -1},      {"C128", 16, -1},
};

tfm_status tfm__stored_check_name(const char *name, size_t length, const char *path) {
    if (length == 0 || length > TFM__MAX_TENSOR_NAME)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: a tensor's name has %zu bytes; 1 to %d are allowed", path, length,
                         TFM__MAX_TENSOR_NAME);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: a tensor's name has a control character", path);
    return TFM_OK;
}

size_t tfm__stored_element(const char *dtype_name) {
    for (size_t i = 0; i < TFM__COUNT(DTYPES); i++)
        if (strcmp(dtype_name, DTYPES[i].name) == 0)
            return DTYPES[i].size;
    return 0;
}

tfm_status tfm__stored_set_dtype(tfm__stored_tensor *out, const char *name) {
    out->dtype_name = name;
    out->usable = false;
    out->dtype = TFM_U8;
    for (size_t i = 0; i < TFM__COUNT(DTYPES); i++) {
        if (strcmp(name, DTYPES[i].name) != 0)
            continue;
        size_t needed;
        if (__builtin_mul_overflow(out->count, DTYPES[i].size, &needed) || needed != out->bytes)
            return tfm__fail(TFM_ERROR_FORMAT, "%s: tensor %s: %zu elements of %s do not fill its %zu bytes", out->file,
                             out->name, out->count, name, out->bytes);
        out->usable = DTYPES[i].dtype >= 0 && out->rank <= TFM_MAX_RANK;
        out->dtype = out->usable ? (tfm_dtype)DTYPES[i].dtype : TFM_U8;
    }
    return TFM_OK;
}

tfm_status tfm__stored_text(char **out, const tfm__stored_tensor *stored) {
    if (stored->bytes != stored->count)
        return tfm__fail(TFM_ERROR_FORMAT, "%s: %s holds %s, not a string", stored->file, stored->name,
                         stored->dtype_name);
    *out = tfm__alloc(stored->bytes + 1, 1);
    if (!*out)
        return TFM_ERROR_MEMORY;
    if (stored->bytes > 0)
        memcpy(*out, stored->data, stored->bytes);
    return TFM_OK;
}

tfm_status tfm__weights_check_text(const tfm__weights_file *file) {
    const unsigned char *data = file->map.data;
    const size_t size = file->map.size < 512 ? file->map.size : 512;
    if (size == 0)
        return tfm__fail(TFM_ERROR_FORMAT, "%s is empty: copy or download it again", file->path);
    bool text = true;
    size_t begin = tfm__json_skip_bom(data, size);
    for (size_t i = 0; i < size; i++)
        text &= data[i] >= 0x20 ? data[i] != 0x7f : data[i] >= 9 && data[i] <= 13;
    /* The last character may be truncated. */
    if (!text || tfm__utf8_valid((const char *)data, size) + 3 < size)
        return TFM_OK;
    const char first = begin < size ? (char)data[begin] : 0;
    return tfm__fail(TFM_ERROR_FORMAT, "%s is %s, not weights: download the file itself", file->path,
                     first == '<'                   ? "a web page"
                     : first == '{' || first == '[' ? "a text in JSON"
                                                    : "a text");
}
