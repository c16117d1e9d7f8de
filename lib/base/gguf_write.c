#include <string.h>
#include "base/gguf_write.h"

static void put(tfm__gguf_writer *w, tfm__gguf_buffer *to, const void *data, size_t size) {
    if (w->failed || size == 0)
        return;
    if (size > SIZE_MAX - to->count || tfm__grow(&to->data, &to->capacity, to->count + size, 1) != TFM_OK) {
        w->failed = true;
        return;
    }
    memcpy(to->data + to->count, data, size);
    to->count += size;
}

static void put_u32(tfm__gguf_writer *w, tfm__gguf_buffer *to, uint32_t value) {
    put(w, to, &value, sizeof(value)); /* little-endian, as all supported hosts */
}

static void put_u64(tfm__gguf_writer *w, tfm__gguf_buffer *to, uint64_t value) {
    put(w, to, &value, sizeof(value));
}

static void put_text(tfm__gguf_writer *w, tfm__gguf_buffer *to, const char *text, size_t bytes) {
    put_u64(w, to, bytes);
    put(w, to, text, bytes);
}

/* ---- Metadata ----------------------------------------------------------------------------------------- */

static void add_key(tfm__gguf_writer *w, const char *key, tfm__gguf_kind kind) {
    put_text(w, &w->values, key, strlen(key));
    put_u32(w, &w->values, (uint32_t)kind);
    w->value_count++;
}

void tfm__gguf_add_u32(tfm__gguf_writer *w, const char *key, uint32_t value) {
    add_key(w, key, TFM__GGUF_UINT32);
    put_u32(w, &w->values, value);
}

void tfm__gguf_add_f32(tfm__gguf_writer *w, const char *key, float value) {
    add_key(w, key, TFM__GGUF_FLOAT32);
    put(w, &w->values, &value, sizeof(value));
}

void tfm__gguf_add_bool(tfm__gguf_writer *w, const char *key, bool value) {
    add_key(w, key, TFM__GGUF_BOOL);
    put(w, &w->values, value ? "\1" : "\0", 1);
}

void tfm__gguf_add_string(tfm__gguf_writer *w, const char *key, const char *text) {
    add_key(w, key, TFM__GGUF_STRING);
    put_text(w, &w->values, text, strlen(text));
}

static void add_array(tfm__gguf_writer *w, const char *key, tfm__gguf_kind kind, size_t count) {
    add_key(w, key, TFM__GGUF_ARRAY);
    put_u32(w, &w->values, (uint32_t)kind);
    put_u64(w, &w->values, count);
}

void tfm__gguf_add_numbers(tfm__gguf_writer *w, const char *key, tfm__gguf_kind kind, const void *data, size_t count,
                           size_t size) {
    add_array(w, key, kind, count);
    put(w, &w->values, data, size);
}

void tfm__gguf_add_strings(tfm__gguf_writer *w, const char *key, size_t count) {
    add_array(w, key, TFM__GGUF_STRING, count);
}

void tfm__gguf_add_element(tfm__gguf_writer *w, const char *text, size_t bytes) {
    put_text(w, &w->values, text, bytes);
}

void tfm__gguf_add_value(tfm__gguf_writer *w, const tfm__gguf_value *value) {
    static const size_t SIZES[TFM__GGUF_KINDS] = {
        [TFM__GGUF_UINT8] = 1,  [TFM__GGUF_INT8] = 1,  [TFM__GGUF_UINT16] = 2,  [TFM__GGUF_INT16] = 2,
        [TFM__GGUF_UINT32] = 4, [TFM__GGUF_INT32] = 4, [TFM__GGUF_FLOAT32] = 4, [TFM__GGUF_BOOL] = 1,
        [TFM__GGUF_UINT64] = 8, [TFM__GGUF_INT64] = 8, [TFM__GGUF_FLOAT64] = 8,
    };
    if (value->kind == TFM__GGUF_ARRAY)
        return;
    put_text(w, &w->values, value->key.data, value->key.bytes);
    put_u32(w, &w->values, (uint32_t)(value->is_array ? TFM__GGUF_ARRAY : value->kind));
    w->value_count++;
    if (value->is_array) {
        put_u32(w, &w->values, (uint32_t)value->kind);
        put_u64(w, &w->values, value->count);
    }
    if (value->kind != TFM__GGUF_STRING)
        put(w, &w->values, value->data, value->count * SIZES[value->kind]);
    for (size_t i = 0; value->kind == TFM__GGUF_STRING && i < value->count; i++) {
        tfm__gguf_text text = {0};
        tfm__gguf_string(&text, value, i);
        put_text(w, &w->values, text.data, text.bytes);
    }
}

/* ---- Tensors ------------------------------------------------------------------------------------------ */

static uint64_t padding(uint64_t size) {
    return (TFM__GGUF_ALIGNMENT - size % TFM__GGUF_ALIGNMENT) % TFM__GGUF_ALIGNMENT;
}

void tfm__gguf_add_tensor(tfm__gguf_writer *w, const char *name, uint32_t type, int rank, const int64_t *dims,
                          uint64_t bytes) {
    put_text(w, &w->tensors, name, strlen(name));
    put_u32(w, &w->tensors, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--)
        put_u64(w, &w->tensors, (uint64_t)dims[i]);
    put_u32(w, &w->tensors, type);
    put_u64(w, &w->tensors, w->data_bytes);
    w->data_bytes += bytes + padding(bytes);
    w->tensor_count++;
}

tfm_status tfm__gguf_writer_begin(tfm__gguf_writer *w, const char *path) {
    tfm__gguf_buffer head = {0};
    put(w, &head, "GGUF", 4);
    put_u32(w, &head, 3);
    put_u64(w, &head, w->tensor_count);
    put_u64(w, &head, w->value_count);
    tfm_status status = w->failed ? tfm__fail(TFM_ERROR_MEMORY, "%s: out of host memory for the metadata", path)
                                  : tfm__writer_open(&w->file, path);
    if (status == TFM_OK)
        status = tfm__writer_add(&w->file, head.data, head.count);
    if (status == TFM_OK && w->values.count)
        status = tfm__writer_add(&w->file, w->values.data, w->values.count);
    if (status == TFM_OK && w->tensors.count)
        status = tfm__writer_add(&w->file, w->tensors.data, w->tensors.count);
    const uint64_t size = head.count + w->values.count + w->tensors.count;
    if (status == TFM_OK && padding(size))
        status = tfm__writer_add(&w->file, (unsigned char[TFM__GGUF_ALIGNMENT]){0}, (size_t)padding(size));
    free(head.data);
    return status;
}

tfm_status tfm__gguf_writer_data(tfm__gguf_writer *w, const void *data, size_t size) {
    w->written += size;
    return tfm__writer_add(&w->file, data, size);
}

tfm_status tfm__gguf_writer_pad(tfm__gguf_writer *w) {
    const size_t size = (size_t)padding(w->written);
    return size ? tfm__gguf_writer_data(w, (unsigned char[TFM__GGUF_ALIGNMENT]){0}, size) : TFM_OK;
}

tfm_status tfm__gguf_writer_close(tfm__gguf_writer *w, tfm_status status) {
    if (status == TFM_OK && w->written != w->data_bytes)
        status = tfm__fail(TFM_ERROR_ARGUMENT, "%s: %llu bytes of tensors were written, and %llu were declared",
                           w->file.path, (unsigned long long)w->written, (unsigned long long)w->data_bytes);
    if (w->file.name)
        status = tfm__writer_close(&w->file, status);
    free(w->values.data);
    free(w->tensors.data);
    *w = (tfm__gguf_writer){0};
    return status;
}
