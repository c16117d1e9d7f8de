/* GGUF files: the metadata and tensors of one model, in one file or in parts, memory-mapped and read in place.
 *
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: versions 2 and 3, little-endian. Every length, offset and
 * count is checked against the mapped bytes when the file is opened, so the accessors below never read past it. Text is
 * not checked: it may hold NULs and invalid UTF-8. An open file is read-only and thread-safe. */
#ifndef TFM_LIB_GGUF_H
#define TFM_LIB_GGUF_H

#include "base/file.h"

/* ---- Tensor types ---- */

/* A type of tensors, by the number of the format. lib/ops/quant converts some of them. */
typedef struct tfm__gguf_type_info {
    const char *name;       /* "Q4_K"; static */
    size_t elements, bytes; /* of a block; 1 element for plain types. Blocks lie along rows. */
} tfm__gguf_type_info;

/* NULL for an unknown number. */
const tfm__gguf_type_info *tfm__gguf_type_get(uint32_t type);

/* ---- Files ---- */

typedef struct tfm__gguf tfm__gguf;

/* The GGUF file that the path of a model stands for, for free(): the path itself if it is a file with the suffix .gguf
 * or with GGUF's first bytes; in a folder that has no safetensors, PyTorch or NumPy weights, its only .gguf file (of a
 * split model the first part; files named mmproj* are skipped). *out is NULL, without an error, for all other paths.
 * TFM_ERROR_ARGUMENT if a folder has several. */
tfm_status tfm__gguf_locate(char **out, const char *path);

/* Opens a file. If it is a part of a split model (NAME-00002-of-00003.gguf), all parts are opened; metadata are the
 * first part's. TFM_ERROR_IO if a file is missing, TFM_ERROR_FORMAT if damaged, TFM_ERROR_UNSUPPORTED for version 1,
 * later versions and big-endian files. */
tfm_status tfm__gguf_open(tfm__gguf **out, const char *path);
/* Frees it and sets the pointer to NULL; NULL is ignored. */
void tfm__gguf_close(tfm__gguf **gguf);

/* The parts, >= 1, and their paths and maps. */
size_t tfm__gguf_parts(const tfm__gguf *gguf);
const char *tfm__gguf_path(const tfm__gguf *gguf, size_t part);
const tfm__file *tfm__gguf_map(const tfm__gguf *gguf, size_t part);

/* ---- Metadata ---- */

/* Text in the file, not NUL-terminated. */
typedef struct tfm__gguf_text {
    const char *data;
    size_t bytes;
} tfm__gguf_text;

/* Kinds of values, with the numbers of the format. */
typedef enum tfm__gguf_kind {
    TFM__GGUF_UINT8,
    TFM__GGUF_INT8,
    TFM__GGUF_UINT16,
    TFM__GGUF_INT16,
    TFM__GGUF_UINT32,
    TFM__GGUF_INT32,
    TFM__GGUF_FLOAT32,
    TFM__GGUF_BOOL,
    TFM__GGUF_STRING,
    TFM__GGUF_ARRAY,
    TFM__GGUF_UINT64,
    TFM__GGUF_INT64,
    TFM__GGUF_FLOAT64,
    TFM__GGUF_KINDS
} tfm__gguf_kind;

/* A value: an array, or a scalar, which reads as an array of 1. */
typedef struct tfm__gguf_value {
    tfm__gguf_text key;  /* no control characters */
    tfm__gguf_kind kind; /* of the elements. TFM__GGUF_ARRAY: an array of arrays, which has no accessor */
    bool is_array;
    size_t count;              /* of elements; 1 for a scalar */
    const unsigned char *data; /* the first element, unaligned, little-endian */
    const size_t *strings;     /* [count]: offsets in `data` of an array's strings; else NULL */
} tfm__gguf_value;

/* The value of a key, or NULL without a message. Owned by the file. */
const tfm__gguf_value *tfm__gguf_find(const tfm__gguf *gguf, const char *key);

/* All values, sorted by key. NULL past the end. */
size_t tfm__gguf_values(const tfm__gguf *gguf);
const tfm__gguf_value *tfm__gguf_value_at(const tfm__gguf *gguf, size_t index);

/* Element `index` of a value, which may be NULL. False, with *out unchanged and no message, if there is no such element
 * or it is of another kind: integers of any width must fit; f64 accepts integers and floats (f32 exactly); a bool is 0
 * or 1. */
bool tfm__gguf_u64(uint64_t *out, const tfm__gguf_value *value, size_t index);
bool tfm__gguf_i64(int64_t *out, const tfm__gguf_value *value, size_t index);
bool tfm__gguf_f64(double *out, const tfm__gguf_value *value, size_t index);
bool tfm__gguf_bool(bool *out, const tfm__gguf_value *value, size_t index);
bool tfm__gguf_string(tfm__gguf_text *out, const tfm__gguf_value *value, size_t index);

/* Whether the element is this string. */
bool tfm__gguf_is(const tfm__gguf_value *value, size_t index, const char *text);

/* ---- Tensors ---- */

enum { TFM__GGUF_MAX_RANK = 4 };

typedef struct tfm__gguf_tensor {
    char *name;                       /* no control characters */
    uint32_t type;                    /* known to tfm__gguf_type_get */
    int rank;                         /* 1 to TFM__GGUF_MAX_RANK */
    int64_t dims[TFM__GGUF_MAX_RANK]; /* >= 1, the outermost first, opposite to the file; the last is a row */
    size_t count;                     /* number of elements */
    const unsigned char *data;        /* aligned to general.alignment (a power of 2, 32 by default) within the file */
    size_t bytes;
    size_t part; /* index of its file */
} tfm__gguf_tensor;

/* All tensors of all parts, sorted by name. NULL past the end. A file may have none (a vocabulary alone). */
size_t tfm__gguf_tensors(const tfm__gguf *gguf);
const tfm__gguf_tensor *tfm__gguf_tensor_at(const tfm__gguf *gguf, size_t index);

/* The tensor of this name, or NULL without a message. */
const tfm__gguf_tensor *tfm__gguf_tensor_find(const tfm__gguf *gguf, const char *name);

#endif
