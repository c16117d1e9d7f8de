/* What a kind of weight file brings: one tfm__weights_reader, and a line in weight_file.c that lists it. */
#ifndef TFM_LIB_WEIGHT_READER_H
#define TFM_LIB_WEIGHT_READER_H

#include "base/file.h"
#include "model/weights/weight_file.h"

/* One file of a set. `path` and `map` are there before a reader is asked; it fills in the rest. */
typedef struct tfm__weights_file {
    char *path;
    tfm__file map;
    tfm__stored_tensor *tensors; /* [count], for free(); in any order */
    size_t count;
    void *own; /* what the reader keeps for the tensors, such as their names */
} tfm__weights_file;

typedef struct tfm__weights_reader {
    const char *kind;   /* for people: two or three words */
    const char *suffix; /* of the names of such files: ".safetensors" */
    const char *single; /* the name in a model's directory: "model.safetensors"; NULL where any may stand there */
    const char *index;  /* the name of the list of several such files: "model.safetensors.index.json"; NULL: none */

    /* Whether a file whose name fits several kinds is of this one; NULL of the kind that takes what nobody knows. */
    bool (*recognises)(const tfm__file *map);

    /* Fills in tensors, count and own, all of it checked against the mapped bytes. Whatever is in the file, it fails
     * with TFM_ERROR_FORMAT or TFM_ERROR_UNSUPPORTED and a sentence; `release` is called after a failure, too. */
    tfm_status (*read)(tfm__weights_file *file);
    /* Frees what `own` is. */
    void (*release)(tfm__weights_file *file);
    /* tfm__weights_metadata, or NULL where such files say nothing of themselves. */
    const char *(*metadata)(const tfm__weights_file *file, const char *name);
} tfm__weights_reader;

extern const tfm__weights_reader tfm__safetensors_reader, tfm__torch_reader, tfm__npz_reader, tfm__marian_bin_reader;

/* ---- Directories without a model in them (missing_weights.c) ---- */

/* Says why there are no weights: what lies in their place, and what to do. Never TFM_OK. `readers` ends with NULL. */
tfm_status tfm__weights_report_missing(const char *dir, const tfm__weights_reader *const *readers);

/* Warns where a directory has an adapter beside its weights, which is not run. */
void tfm__weights_warn_adapter(const char *dir);

/* ---- What readers share (weight_checks.c) ---- */

enum { TFM__MAX_TENSOR_NAME = 1024 };

/* Refuses a name that a sentence could not show: empty, too long, or with control characters. */
tfm_status tfm__stored_check_name(const char *name, size_t length, const char *path);

/* Bytes of an element of that dtype ("F32"), or 0 of one that is not known. */
size_t tfm__stored_element(const char *dtype_name);

/* Sets dtype_name, dtype and usable. `name` is borrowed. TFM_ERROR_FORMAT where the count of elements does not fill the
 * tensor's bytes. A dtype that is not known is fine: nobody may ask for that tensor. */
tfm_status tfm__stored_set_dtype(tfm__stored_tensor *out, const char *name);

/* A text that is stored as a tensor of bytes, up to its first NUL, in fresh memory. */
tfm_status tfm__stored_text(char **out, const tfm__stored_tensor *stored);

/* Refuses what is no file of weights at all, and is often found in the place of one: a web page, or a text. */
tfm_status tfm__weights_check_text(const tfm__weights_file *file);

#endif
