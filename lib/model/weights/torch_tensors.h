/* Tensors in a pickle of torch.save, and their storages.
 *
 * A *storage* is an array outside of the pickle, identified by a key. A tensor is a strided view of one. Tied weights
 * are several tensors with one storage. */
#ifndef TFM_LIB_TORCH_TENSORS_H
#define TFM_LIB_TORCH_TENSORS_H

#include "model/weights/pickle.h"
#include "model/weights/weight_reader.h"

typedef struct tfm__torch_storage {
    const char *key; /* [key_bytes], in the pickle; no control characters */
    size_t key_bytes;
    const char *dtype; /* "F32"; static */
    size_t bytes;
    bool found;
    const unsigned char *data; /* [bytes], set by the file reader */
} tfm__torch_storage;

typedef struct tfm__torch_view {
    size_t storage;
    int64_t offset;                         /* in elements */
    const tfm__pickle_value *size, *stride; /* tuples of integers >= 0, of equal length */
} tfm__torch_view;

/* Tensors of one file. Initialize as {.path}. */
typedef struct tfm__torch {
    const char *path;
    tfm__torch_storage *storages; /* a key occurs once for each tensor that uses it */
    size_t storage_count, storage_room;
    tfm__torch_view *views;
    size_t view_count, view_room;
} tfm__torch;

void tfm__torch_free(tfm__torch *torch);

/* Callbacks for torch.save; `user` is a tfm__torch. Accepts OrderedDict and PyTorch's constructors of tensors and
 * parameters; other names are TFM_ERROR_UNSUPPORTED. */
extern const tfm__pickle_callbacks tfm__torch_callbacks;

/* The tensors of the dict `root` by name, once all storages have their data: fills tensors, count and own. Views that
 * are not contiguous are copied. */
tfm_status tfm__torch_collect(const tfm__torch *torch, tfm__weights_file *file, const tfm__pickle_value *root);

/* Frees file->own. */
void tfm__torch_release(tfm__weights_file *file);

#endif
