/* The tensors that a pickle of torch.save tells of, and where their numbers are said to be.
 *
 * A *storage* is a run of numbers that lies outside of the pickle, under a key. A tensor is a view of one: it begins at
 * an offset, and a step in each dimension goes on by a stride. Tied weights are several tensors of one storage. */
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
    const unsigned char *data; /* [bytes], set by whoever finds it */
} tfm__torch_storage;

typedef struct tfm__torch_view {
    size_t storage;
    int64_t offset;                         /* in elements */
    const tfm__pickle_value *size, *stride; /* tuples of integers >= 0 of one length */
} tfm__torch_view;

/* What is read of one file. Starts as {.path}. */
typedef struct tfm__torch {
    const char *path;
    tfm__torch_storage *storages; /* the same key again wherever a tensor names it */
    size_t storage_count, storage_room;
    tfm__torch_view *views;
    size_t view_count, view_room;
} tfm__torch;

void tfm__torch_free(tfm__torch *torch);

/* For pickles of torch.save; `user` is a tfm__torch. Takes OrderedDict, and what PyTorch makes tensors and parameters
 * with; any other name is TFM_ERROR_UNSUPPORTED. */
extern const tfm__pickle_callbacks tfm__torch_callbacks;

/* The tensors of the dict `root` by their names, once all storages have their data: fills in tensors, count and own.
 * Where a tensor's numbers do not lie in a row, they are copied. */
tfm_status tfm__torch_collect(const tfm__torch *torch, tfm__weights_file *file, const tfm__pickle_value *root);

/* Frees file->own. */
void tfm__torch_release(tfm__weights_file *file);

#endif
