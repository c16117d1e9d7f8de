/* The weights of a model: named tensors in files that are mapped, checked once when they are opened, and then looked up
 * by name. Every kind of file has a reader of its own (weight_reader.h); nobody else sees which kind it is.
 *
 * What is open is true: every tensor's bytes lie in the file and fit its dtype and shape. The data of a tensor starts
 * at any byte: copy it, do not cast it. */
#ifndef TFM_LIB_WEIGHT_FILE_H
#define TFM_LIB_WEIGHT_FILE_H

#include <stdbool.h>
#include "base/base.h"
#include "tfm/tensor.h"

/* One or several files, opened as one set of tensors. Any number of threads may read it. */
typedef struct tfm__weights tfm__weights;

typedef struct tfm__stored_tensor {
    const char *name;
    const char *file;       /* The path of the file that has it, for sentences. */
    uint64_t identity;      /* The identity of that file, as tfm__file has it. */
    const char *dtype_name; /* The dtype as safetensors spells it, such as "F32". */
    bool usable;            /* Whether `dtype` says what it is and the rank fits. If not, only the name is of use. */
    tfm_dtype dtype;
    int rank;
    int64_t dims[TFM_MAX_RANK];
    const unsigned char *data;   /* Where it lies in the mapped file, unaligned: row-major, the lowest byte first. */
    const char *encoding;        /* How the file has it where that is not `dtype`: "int8". NULL: as it is. */
    float unit;                  /* Above 0 where all numbers are whole multiples of it, up to 128 of them. */
    const unsigned char *scales; /* Of I8: F32 numbers, one for each output, which its bytes are multiplied by. */
    size_t scale_count;
    size_t count; /* How many elements it has. */
    size_t bytes; /* How many bytes they take. */
} tfm__stored_tensor;

/* Opens one file: one whose name ends with ".bin" as Marian's where it begins like that, else as PyTorch's, one with
 * ".npz" as NumPy's, any other as safetensors. Missing is TFM_ERROR_IO; one that is broken or lies is TFM_ERROR_FORMAT.
 */
tfm_status tfm__weights_open(tfm__weights **out, const char *path);

/* Opens one file that tfm__tensors_write has written: safetensors, whatever its name ends with. */
tfm_status tfm__weights_open_written(tfm__weights **out, const char *path);

/* Opens the weights of a model directory: the first that is there of model.safetensors, all files that
 * model.safetensors.index.json names, pytorch_model.bin, and all files that pytorch_model.bin.index.json names. */
tfm_status tfm__weights_open_dir(tfm__weights **out, const char *dir);

/* Where a directory without a model in it is an adapter's, or of GGUF, says so and what to do: TFM_ERROR_UNSUPPORTED.
 */
tfm_status tfm__weights_check_unsupported(const char *dir);

/* Whether a file that tfm__tensors_write sealed is as it was written: TFM_ERROR_FORMAT if a byte of it has changed. One
 * without a seal passes. Reads the whole file. */
tfm_status tfm__weights_verify(const tfm__weights *weights);

/* Frees the weights and sets the pointer to NULL. Does nothing for NULL. */
void tfm__weights_free(tfm__weights **weights);

/* The tensor of that name, or NULL without a sentence. Borrowed from the weights, like all below. */
const tfm__stored_tensor *tfm__weights_find(const tfm__weights *weights, const char *name);

/* The same, but missing, of a dtype that cannot be used, or of other dims than given is TFM_ERROR_FORMAT or
 * TFM_ERROR_UNSUPPORTED. A dim of -1 takes any size. F32, F16 and BF16 are taken, and I8 beside
 * which there are scales; I32 and U8 are refused: weights are real numbers. */
tfm_status tfm__weights_get(const tfm__weights *weights, const tfm__stored_tensor **out, const char *name, int rank,
                            const int64_t *dims);

/* What the first file says of itself under that name (__metadata__ of safetensors, and the configuration that Marian
 * keeps in a model), or NULL without a sentence. */
#define TFM__MARIAN_CONFIG "special:model.yml"
const char *tfm__weights_metadata(const tfm__weights *weights, const char *name);

/* All tensors, by name in byte order: at least one. */
size_t tfm__weights_count(const tfm__weights *weights);
const tfm__stored_tensor *tfm__weights_at(const tfm__weights *weights, size_t index);

/* What stands after the name of a tensor of bytes in the name of its scales. */
#define TFM__SCALES "_scale"

/* Whether the tensor lies in its file as it is, and then from which byte on. */
bool tfm__weights_file_offset(uint64_t *first, const tfm__weights *weights, const tfm__stored_tensor *stored);
/* Lets go of the memory that reading the tensor has taken; it can be read again. */
void tfm__weights_evict(const tfm__weights *weights, const tfm__stored_tensor *stored);

/* The kind of the files in two or three words, static: "safetensors", "PyTorch .bin". And how many files there are. */
const char *tfm__weights_kind(const tfm__weights *weights);
size_t tfm__weights_files(const tfm__weights *weights);

#endif
