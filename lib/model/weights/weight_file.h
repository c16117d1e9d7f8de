/* The weights of a model: named tensors in memory-mapped files, validated when opened. Each file format has a
 * reader (weight_reader.h); callers do not depend on the format.
 *
 * Every tensor's data lies within its file and fits its dtype and shape. It may be unaligned: copy it, do not cast the
 * pointer. */
#ifndef TFM_LIB_WEIGHT_FILE_H
#define TFM_LIB_WEIGHT_FILE_H

#include <stdbool.h>
#include "base/base.h"
#include "tfm/tensor.h"

/* One or several files as one set of tensors. Read-only; thread-safe. */
typedef struct tfm__weights tfm__weights;

typedef struct tfm__stored_tensor {
    const char *name;
    const char *file;       /* path of its file, for messages */
    uint64_t identity;      /* identity of that file (tfm__file) */
    const char *dtype_name; /* safetensors' spelling, such as "F32" */
    bool usable;            /* `dtype` is valid and the rank fits; if not, only the name is valid */
    tfm_dtype dtype;
    int rank;
    int64_t dims[TFM_MAX_RANK];
    const unsigned char *data;              /* in the mapped file, unaligned: row-major, little-endian */
    const struct tfm__quant_format *blocks; /* F32 values stored as blocks of this GGUF type, along rows; else NULL */
    const struct tfm__packed *packed; /* F32 values stored as packed integers (packed_tensors.h), or NULL; `blocks`
                                         is then their form on a device, or NULL */
    const char *encoding;             /* stored encoding if it differs from `dtype`: "int8"; or NULL */
    float unit;                       /* if > 0: all values are multiples of it, by at most 128 */
    const unsigned char *scales; /* I8: F32 scales, one per output; or F16 scale and minimum per output and group */
    size_t scale_count;
    int scale_group; /* I8: columns of a group, TFM__SCALE_GROUP; 0: a scale per output */
    size_t count;    /* number of elements */
    size_t bytes;    /* size of the data */
} tfm__stored_tensor;

/* Opens one file by its suffix: ".bin" Marian's (by its first bytes) or PyTorch's, ".npz" NumPy's, else safetensors.
 * Missing is TFM_ERROR_IO, damaged or inconsistent is TFM_ERROR_FORMAT. */
tfm_status tfm__weights_open(tfm__weights **out, const char *path);

/* Opens a file of tfm__tensors_write: safetensors with any suffix. */
tfm_status tfm__weights_open_written(tfm__weights **out, const char *path);

/* Opens the weights of a model directory, the first of: model.safetensors, all files in model.safetensors.index.json,
 * pytorch_model.bin, all files in pytorch_model.bin.index.json. */
tfm_status tfm__weights_open_dir(tfm__weights **out, const char *dir);

/* Takes over an open GGUF file, also on failure: frees it and sets the pointer to NULL. Tensors keep their names.
 * TFM_ERROR_FORMAT if it has none. */
struct tfm__gguf;
tfm_status tfm__weights_open_gguf(tfm__weights **out, struct tfm__gguf **gguf);

/* TFM_ERROR_UNSUPPORTED with advice if a directory without a model has an adapter. */
tfm_status tfm__weights_check_unsupported(const char *dir);

/* Verifies the checksum written by tfm__tensors_write: TFM_ERROR_FORMAT if it differs. A file without one passes. Reads
 * the whole file. */
tfm_status tfm__weights_verify(const tfm__weights *weights);

/* Frees the weights and sets the pointer to NULL; NULL is ignored. */
void tfm__weights_free(tfm__weights **weights);

/* Replaces all tensors by `tensors`, in any order, which now belong to the weights, also on failure; `release` frees
 * `own` with them. */
tfm_status tfm__weights_replace(tfm__weights *weights, tfm__stored_tensor *tensors, size_t count, void *own,
                                void (*release)(void *own));

/* Changes `stored`, a tensor of the weights, in place to `changed`, of the same name, with other data: those now belong
 * to the weights, also on failure. The old ones stay until the weights are freed. */
tfm_status tfm__weights_put(tfm__weights *weights, const tfm__stored_tensor *stored, const tfm__stored_tensor *changed,
                            void *data);

/* The tensor of this name, or NULL without a message. Owned by the weights, as are all results below. */
const tfm__stored_tensor *tfm__weights_find(const tfm__weights *weights, const char *name);

/* The same, but fails (TFM_ERROR_FORMAT, TFM_ERROR_UNSUPPORTED) if it is missing, or has another dtype or other dims. A
 * dim of -1 matches any size; GGUF tensors may lack leading dims of 1. Accepts F32, F16, BF16, and I8 with scales; I32
 * and U8 are refused. */
tfm_status tfm__weights_get(const tfm__weights *weights, const tfm__stored_tensor **out, const char *name, int rank,
                            const int64_t *dims);

/* A metadata entry of the first file (safetensors' __metadata__, Marian's configuration), or NULL without a message. */
#define TFM__MARIAN_CONFIG "special:model.yml"
const char *tfm__weights_metadata(const tfm__weights *weights, const char *name);

/* Number of tensors, >= 1, sorted by name in byte order. */
size_t tfm__weights_count(const tfm__weights *weights);
const tfm__stored_tensor *tfm__weights_at(const tfm__weights *weights, size_t index);

/* Suffix of the tensor with an int8 tensor's scales: (N) F32, or (N, K / TFM__SCALE_GROUP rounded up, 2) F16: a weight
 * is scale x (integer + 128) + minimum. */
#define TFM__SCALES "_scale"
enum { TFM__SCALE_GROUP = 32 };

/* Whether the tensor is stored unchanged in its file, and its offset there. */
bool tfm__weights_file_offset(uint64_t *first, const tfm__weights *weights, const tfm__stored_tensor *stored);
/* Releases the memory of pages read for the tensor; it can be read again. */
void tfm__weights_evict(const tfm__weights *weights, const tfm__stored_tensor *stored);

/* The format as static text, "safetensors", "PyTorch .bin"; and the number of files. */
const char *tfm__weights_kind(const tfm__weights *weights);
size_t tfm__weights_files(const tfm__weights *weights);

#endif
