/* Builds GGUF files for tests, by the format's description and independently of the library's code. */
#ifndef TFM_TESTS_GGUF_BUILDER_H
#define TFM_TESTS_GGUF_BUILDER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_bytes {
    unsigned char *data;
    size_t size, room;
} gguf_bytes;

typedef struct gguf_builder {
    gguf_bytes values, infos, data;
    uint64_t value_count, tensor_count;
    uint32_t version;   /* 0: 3 */
    uint64_t alignment; /* 0: 32, and no key */
} gguf_builder;

static inline void gguf_put(gguf_bytes *to, const void *data, size_t size) {
    if (to->size + size > to->room) {
        to->room = 2 * (to->size + size);
        to->data = realloc(to->data, to->room);
        if (!to->data)
            abort();
    }
    if (size)
        memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline void gguf_put_u32(gguf_bytes *to, uint32_t value) {
    gguf_put(to, &value, sizeof(value));
}

static inline void gguf_put_u64(gguf_bytes *to, uint64_t value) {
    gguf_put(to, &value, sizeof(value));
}

static inline void gguf_put_string(gguf_bytes *to, const char *text) {
    gguf_put_u64(to, strlen(text));
    gguf_put(to, text, strlen(text));
}

/* A key and a value of any kind, given as its bytes: 4 uint32, 5 int32, 6 float32, 7 bool, 8 string, 9 array, ... */
static inline void gguf_add_raw(gguf_builder *b, const char *key, uint32_t kind, const void *data, size_t size) {
    gguf_put_string(&b->values, key);
    gguf_put_u32(&b->values, kind);
    gguf_put(&b->values, data, size);
    b->value_count++;
}

static inline void gguf_add_u32(gguf_builder *b, const char *key, uint32_t value) {
    gguf_add_raw(b, key, 4, &value, sizeof(value));
}

static inline void gguf_add_f32(gguf_builder *b, const char *key, double value) {
    const float single = (float)value;
    gguf_add_raw(b, key, 6, &single, sizeof(single));
}

static inline void gguf_add_bool(gguf_builder *b, const char *key, bool value) {
    gguf_add_raw(b, key, 7, &(unsigned char){value}, 1);
}

static inline void gguf_add_string(gguf_builder *b, const char *key, const char *text) {
    gguf_add_raw(b, key, 8, NULL, 0);
    gguf_put_string(&b->values, text);
}

/* An array of numbers, `size` bytes of data in all. */
static inline void gguf_add_array(gguf_builder *b, const char *key, uint32_t kind, uint64_t count, const void *data,
                                  size_t size) {
    gguf_add_raw(b, key, 9, &kind, sizeof(kind));
    gguf_put_u64(&b->values, count);
    gguf_put(&b->values, data, size);
}

static inline void gguf_add_strings(gguf_builder *b, const char *key, const char *const *texts, size_t count) {
    gguf_add_array(b, key, 8, count, NULL, 0);
    for (size_t i = 0; i < count; i++)
        gguf_put_string(&b->values, texts[i]);
}

/* A tensor with dims outermost first, as in PyTorch. */
static inline void gguf_add_tensor(gguf_builder *b, const char *name, uint32_t type, int rank, const int64_t *dims,
                                   const void *data, size_t size) {
    static const unsigned char ZEROS[256];
    const size_t alignment = b->alignment ? (size_t)b->alignment : 32;
    while (b->data.size % alignment)
        gguf_put(&b->data, ZEROS, 1);
    gguf_put_string(&b->infos, name);
    gguf_put_u32(&b->infos, (uint32_t)rank);
    for (int i = rank - 1; i >= 0; i--)
        gguf_put_u64(&b->infos, (uint64_t)dims[i]);
    gguf_put_u32(&b->infos, type);
    gguf_put_u64(&b->infos, b->data.size);
    gguf_put(&b->data, data, size);
    b->tensor_count++;
}

/* The whole file, for free(); the builder is empty afterwards. */
static inline gguf_bytes gguf_finish(gguf_builder *b) {
    gguf_bytes out = {0};
    const size_t alignment = b->alignment ? (size_t)b->alignment : 32;
    if (b->alignment)
        gguf_add_u32(b, "general.alignment", (uint32_t)b->alignment);
    gguf_put(&out, "GGUF", 4);
    gguf_put_u32(&out, b->version ? b->version : 3);
    gguf_put_u64(&out, b->tensor_count);
    gguf_put_u64(&out, b->value_count);
    gguf_put(&out, b->values.data, b->values.size);
    gguf_put(&out, b->infos.data, b->infos.size);
    while (b->tensor_count && out.size % alignment)
        gguf_put(&out, "", 1);
    gguf_put(&out, b->data.data, b->data.size);
    free(b->values.data);
    free(b->infos.data);
    free(b->data.data);
    *b = (gguf_builder){0};
    return out;
}

#endif
