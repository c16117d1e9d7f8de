/* Writes GGUF files: version 3, little-endian, aligned to 32 bytes. First all metadata and tensors are declared, in
 * memory; then the data of the tensors follow in the same order.
 *
 * Failed additions are remembered: tfm__gguf_writer_begin returns TFM_ERROR_MEMORY. Not thread-safe. */
#ifndef TFM_LIB_GGUF_WRITE_H
#define TFM_LIB_GGUF_WRITE_H

#include "base/gguf.h"

enum { TFM__GGUF_ALIGNMENT = 32 };

typedef struct tfm__gguf_buffer {
    unsigned char *data;
    size_t count, capacity;
} tfm__gguf_buffer;

/* Initially {0}. */
typedef struct tfm__gguf_writer {
    tfm__gguf_buffer values, tensors;
    uint64_t value_count, tensor_count;
    uint64_t data_bytes; /* of all tensors declared, with padding */
    uint64_t written;    /* bytes of data so far */
    tfm__writer file;
    bool failed;
} tfm__gguf_writer;

/* ---- Metadata: each key once ---- */

void tfm__gguf_add_u32(tfm__gguf_writer *writer, const char *key, uint32_t value);
void tfm__gguf_add_f32(tfm__gguf_writer *writer, const char *key, float value);
void tfm__gguf_add_bool(tfm__gguf_writer *writer, const char *key, bool value);
void tfm__gguf_add_string(tfm__gguf_writer *writer, const char *key, const char *text);
/* An array of `count` numbers of this kind, `size` bytes in all, little-endian. */
void tfm__gguf_add_numbers(tfm__gguf_writer *writer, const char *key, tfm__gguf_kind kind, const void *data,
                           size_t count, size_t size);
/* An array of strings: declares it; then exactly `count` times tfm__gguf_add_element. */
void tfm__gguf_add_strings(tfm__gguf_writer *writer, const char *key, size_t count);
void tfm__gguf_add_element(tfm__gguf_writer *writer, const char *text, size_t bytes);
/* A copy of a value of another file; arrays of arrays are skipped. */
void tfm__gguf_add_value(tfm__gguf_writer *writer, const tfm__gguf_value *value);

/* ---- Tensors ---- */

/* Declares a tensor: dims outermost first, `bytes` of data. */
void tfm__gguf_add_tensor(tfm__gguf_writer *writer, const char *name, uint32_t type, int rank, const int64_t *dims,
                          uint64_t bytes);

/* Opens the file, and writes all that was declared. */
tfm_status tfm__gguf_writer_begin(tfm__gguf_writer *writer, const char *path);
/* The next data of a tensor; the last part of each is followed by tfm__gguf_writer_pad. */
tfm_status tfm__gguf_writer_data(tfm__gguf_writer *writer, const void *data, size_t size);
tfm_status tfm__gguf_writer_pad(tfm__gguf_writer *writer);
/* With TFM_OK the file replaces its path; with another status it is removed. Returns the status. Also without
 * tfm__gguf_writer_begin: frees the memory. */
tfm_status tfm__gguf_writer_close(tfm__gguf_writer *writer, tfm_status status);

#endif
