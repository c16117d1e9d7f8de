/* Safetensors files: mapped, checked once at open, then looked up by name.
 *
 * What is open is true: every tensor's bytes lie in the file, fit its dtype and shape, and overlap no
 * other's. The data of a tensor starts at any byte: copy it, do not cast it. */
#ifndef TFM_LIB_SAFETENSORS_H
#define TFM_LIB_SAFETENSORS_H

#include <stdbool.h>
#include "base/base.h"
#include "tfm/tensor.h"

/* Bytes of a header at most, as the format's reference implementation limits it. */
#define TFM__SAFETENSORS_HEADER 100000000u

typedef struct tfm__safetensors tfm__safetensors;

typedef struct tfm__stored {
    const char *name;
    const char *file;       /* path of the file that holds it, for sentences */
    const char *dtype_name; /* as the file writes it: "F32" */
    bool usable;            /* `dtype` says what it is, and the rank fits; else only the name is of use */
    tfm_dtype dtype;
    int rank;
    int64_t dims[TFM_MAX_RANK];
    const unsigned char *data; /* in the mapped file, unaligned */
    size_t count;              /* elements */
    size_t bytes;
} tfm__stored;

/* Opens one file. Missing is TFM_ERROR_IO; one that is broken or lies is TFM_ERROR_FORMAT. */
tfm_status tfm__safetensors_open(tfm__safetensors **out, const char *path);

/* Opens the weights of a model directory: model.safetensors, or all that model.safetensors.index.json names.
 * Where there is only pytorch_model.bin the sentence says how to convert it. */
tfm_status tfm__safetensors_open_dir(tfm__safetensors **out, const char *dir);

/* Whether a file that tfm__tensors_write sealed is as it was written: TFM_ERROR_FORMAT if a byte of it has changed. One
 * without a seal passes. Reads the whole file. */
tfm_status tfm__safetensors_verify(const tfm__safetensors *file);

void tfm__safetensors_free(tfm__safetensors **file);

/* The tensor of that name, or NULL without a sentence. Borrowed from the file, like all below. */
const tfm__stored *tfm__safetensors_find(const tfm__safetensors *file, const char *name);

/* The same, but missing, of a dtype that cannot be used, or of other dims than given is TFM_ERROR_FORMAT or
 * TFM_ERROR_UNSUPPORTED. A dim of -1 takes any size. F32, F16 and BF16 are taken; I32 and U8 are refused:
 * weights are real numbers. */
tfm_status tfm__safetensors_get(const tfm__safetensors *file, const tfm__stored **out, const char *name,
                                int rank, const int64_t *dims);

/* What the first file's __metadata__ says under that name, or NULL without a sentence. */
const char *tfm__safetensors_remark(const tfm__safetensors *file, const char *name);

/* All tensors, by name in byte order: at least one. */
size_t tfm__safetensors_count(const tfm__safetensors *file);
const tfm__stored *tfm__safetensors_at(const tfm__safetensors *file, size_t index);

#endif
