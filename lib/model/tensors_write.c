#include "model/tensors_write.h"
#include <jansson.h>
#include <string.h>
#include "base/file.h"
#include "tfm/ops.h"

static size_t bytes_of(const tfm__entry *entry) {
    return tfm_tensor_count(entry->x) * tfm_dtype_size(entry->dtype);
}

/* The header's text, for free(); NULL without memory. */
static char *header_text(const tfm__entry *entries, size_t count) {
    json_t *header = json_object();
    size_t at = 0;
    for (size_t i = 0; header && i < count; i++) {
        const size_t end = at + bytes_of(&entries[i]);
        json_t *shape = json_array();
        for (int d = 0; shape && d < entries[i].x.rank; d++)
            json_array_append_new(shape, json_integer(entries[i].x.dims[d]));
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", tfm_dtype_name(entries[i].dtype), "shape",
                                  shape, "data_offsets", (json_int_t)at, (json_int_t)end);
        if (!entry || json_object_set_new(header, entries[i].name, entry) != 0) {
            json_decref(header);
            header = NULL;
        }
        at = end;
    }
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return text;
}

static tfm_status copy_out(tfm_context *ctx, unsigned char *to, const tfm__entry *entry) {
    tfm_tensor x = entry->x;
    tfm_scope_open(ctx);
    if (entry->dtype != x.dtype) {
        x = (tfm_tensor){0};
        tfm_cast(ctx, &x, entry->x, entry->dtype);
    }
    tfm_tensor_read(ctx, to, x);
    return tfm_scope_close(ctx, 0, NULL);
}

/* The length of the header, the header, filled up with spaces so that the data is aligned, the data. */
tfm_status tfm__tensors_write(tfm_context *ctx, const char *path, const tfm__entry *entries, size_t count) {
    char *text = header_text(entries, count);
    const size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    size_t size = 8 + padded, at = size;
    for (size_t i = 0; i < count; i++)
        size += bytes_of(&entries[i]);
    unsigned char *file = text ? tfm__alloc(size, 1) : NULL;
    tfm_status status =
        file ? TFM_OK : tfm__fail(TFM_ERROR_MEMORY, "%s: no host memory for its %zu bytes", path, size);
    if (file) {
        for (int i = 0; i < 8; i++)
            file[i] = (unsigned char)(padded >> 8 * i);
        memset(file + 8, ' ', padded);
        memcpy(file + 8, text, length);
    }
    for (size_t i = 0; i < count && status == TFM_OK; at += bytes_of(&entries[i++]))
        status = copy_out(ctx, file + at, &entries[i]);
    if (status == TFM_OK)
        status = tfm__file_write(path, file, size);
    free(text);
    free(file);
    return status;
}
