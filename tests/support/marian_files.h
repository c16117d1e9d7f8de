/* Writes files in Marian's binary format for tests; every field may be wrong. */
#ifndef TFM_TESTS_MARIAN_FILES_H
#define TFM_TESTS_MARIAN_FILES_H

#include "support/scratch.h"

enum { MARIAN_F32 = 0x404, MARIAN_F16 = 0x402, MARIAN_I8 = 0x101, MARIAN_INTGEMM8 = 0x4101, MARIAN_INTGEMM16 = 0x4102 };

/* One tensor. Its bytes are as in the file, including the multiplier of quantized ones. */
typedef struct marian_item {
    const char *name;
    uint64_t type;
    int rank;
    int dims[4];
    const void *data;
    size_t bytes;
    size_t padding; /* bytes after those */
} marian_item;

typedef struct marian_bytes {
    unsigned char *data;
    size_t size;
} marian_bytes;

static inline void marian_add(marian_bytes *out, const void *data, size_t bytes) {
    out->data = realloc(out->data, out->size + bytes + 1);
    assert_non_null(out->data);
    if (bytes > 0 && data)
        memcpy(out->data + out->size, data, bytes);
    else
        memset(out->data + out->size, 0x55, bytes); /* uninitialized, as in Marian */
    out->size += bytes;
}

static inline void marian_number(marian_bytes *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        marian_add(out, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

/* The whole file; free its data. */
static inline marian_bytes marian_file(const marian_item *items, size_t count) {
    marian_bytes out = {0};
    marian_number(&out, 1, 8);
    marian_number(&out, count, 8);
    for (size_t i = 0; i < count; i++) {
        marian_number(&out, strlen(items[i].name) + 1, 8);
        marian_number(&out, items[i].type, 8);
        marian_number(&out, (uint64_t)items[i].rank, 8);
        marian_number(&out, items[i].bytes + items[i].padding, 8);
    }
    for (size_t i = 0; i < count; i++)
        marian_add(&out, items[i].name, strlen(items[i].name) + 1);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < items[i].rank; k++)
            marian_number(&out, (uint64_t)(int64_t)items[i].dims[k], 4);
    const size_t gap = 256 - (out.size + 8) % 256;
    marian_number(&out, gap, 8);
    marian_add(&out, NULL, gap);
    for (size_t i = 0; i < count; i++) {
        marian_add(&out, items[i].data, items[i].bytes);
        marian_add(&out, NULL, items[i].padding);
    }
    return out;
}

static inline void marian_write(const char *name, const marian_item *items, size_t count) {
    marian_bytes file = marian_file(items, count);
    scratch_write(name, file.data, file.size);
    free(file.data);
}

#endif
