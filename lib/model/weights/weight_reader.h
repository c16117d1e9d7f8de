/* A weight file format: one tfm__weights_reader, listed in weight_file.c. */
#ifndef TFM_LIB_WEIGHT_READER_H
#define TFM_LIB_WEIGHT_READER_H

#include "base/file.h"
#include "model/weights/weight_file.h"

/* A file of a set. `path` and `map` are set by the caller, the rest by the reader. */
typedef struct tfm__weights_file {
    char *path;
    tfm__file map;
    tfm__stored_tensor *tensors; /* [count], for free(); in any order */
    size_t count;
    void *own; /* the reader's data, such as tensor names */
} tfm__weights_file;

typedef struct tfm__weights_reader {
    const char *kind;   /* display name: two or three words */
    const char *suffix; /* file suffix: ".safetensors" */
    const char *single; /* file name in a model directory: "model.safetensors"; NULL: any */
    bool drops_ones;    /* tensors may lack leading dims of 1 */
    const char *dtypes; /* dtypes that can be used, for messages; NULL: the usual ones */
    const char *index;  /* index of several files: "model.safetensors.index.json"; NULL: none */

    /* Whether a file with this suffix has this format; NULL: the default format of the suffix. */
    bool (*recognizes)(const tfm__file *map);

    /* Fills tensors, count and own, all checked against the mapped bytes. Fails with TFM_ERROR_FORMAT or
     * TFM_ERROR_UNSUPPORTED and a message, for any contents; `release` is called after a failure, too. */
    tfm_status (*read)(tfm__weights_file *file);
    /* Frees `own`. */
    void (*release)(tfm__weights_file *file);
    /* tfm__weights_metadata, or NULL if the format has none. */
    const char *(*metadata)(const tfm__weights_file *file, const char *name);
} tfm__weights_reader;

/* Takes over files that were read already, also on failure. `status`: an earlier failure, which is returned. */
tfm_status tfm__weights_adopt(tfm__weights **out, const tfm__weights_reader *reader, tfm__weights_file *files,
                              size_t count, tfm_status status);

extern const tfm__weights_reader tfm__safetensors_reader, tfm__torch_reader, tfm__npz_reader, tfm__marian_bin_reader,
    tfm__gguf_reader;

/* ---- Directories without a model (missing_weights.c) ---- */

/* Reports why there are no weights: what was found instead, and what to do. Never TFM_OK. `readers` is
 * NULL-terminated. */
tfm_status tfm__weights_report_missing(const char *dir, const tfm__weights_reader *const *readers);

/* Warns if the directory also has an adapter, which is ignored. */
void tfm__weights_warn_adapter(const char *dir);

/* ---- Shared by readers (weight_checks.c) ---- */

enum { TFM__MAX_TENSOR_NAME = 1024 };

/* Fails for a name that cannot be printed: empty, too long, or with control characters. */
tfm_status tfm__stored_check_name(const char *name, size_t length, const char *path);

/* Element size of a dtype ("F32"), or 0 if unknown. */
size_t tfm__stored_element(const char *dtype_name);

/* Sets dtype_name, dtype and usable; `name` is borrowed. TFM_ERROR_FORMAT if the number of elements does not match the
 * size. An unknown dtype is accepted until the tensor is used. */
tfm_status tfm__stored_set_dtype(tfm__stored_tensor *out, const char *name);

/* A string stored as a tensor of bytes, up to its first NUL, newly allocated. */
tfm_status tfm__stored_text(char **out, const tfm__stored_tensor *stored);

/* Fails for common mistakes: a web page or a text file instead of weights. */
tfm_status tfm__weights_check_text(const tfm__weights_file *file);

#endif
