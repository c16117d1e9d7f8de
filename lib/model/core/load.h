/* Shared by the files that load a model: load.c traverses the parameters, tensor_names.c finds their tensors,
 * embedding_tables.c finds the tables, upload.c copies to the device. */
#ifndef TFM_MODEL_LOAD_H
#define TFM_MODEL_LOAD_H

#include "model/core/model.h"

typedef struct tfm__loader {
    const tfm__family *family;
    tfm__arch *arch;
    const tfm__weights *file;
    tfm_model *model;                              /* NULL: tensors are matched but not uploaded */
    const tfm__stored_tensor *tables[TFM__TABLES]; /* source, target, output */
    const tfm__stored_tensor **used;               /* [count of the file] */
    size_t used_count;
    struct offer {
        tfm_tensor x;
        tfm__shared_buffer_key key;
    } * offers; /* published for other models when the upload is complete */
    size_t offer_count, offer_room;
    uint64_t parameters, bytes; /* and their size on the device */
    tfm_precision precision;
    bool exact_input;            /* activations are not rounded: tfm_param.exact_input */
    tfm__tensor_map_fn on_match; /* called with each match, or NULL */
    void *user;
    tfm_status status;
} tfm__loader;

/* Whether `text` has this suffix. */
bool tfm__ends_with(const char *text, const char *end);

/* Whether a stored tensor of this name is no parameter, but known. */
bool tfm__load_ignores(const tfm__family *family, const char *name);

/* The file's name of a tensor; `name` if the file does not have it. */
const char *tfm__load_name(const tfm__loader *l, const char *name);

/* The inverse: the family's name of a stored tensor of a multimodal model. Written to `text` if it differs from
 * `name`. */
const char *tfm__load_family_name(const tfm__loader *l, char *text, size_t size, const char *name);

/* The tensor found by tfm__load_name(), or NULL. */
const tfm__stored_tensor *tfm__load_find(const tfm__loader *l, const char *name);

/* Finds the embedding tables, and sets the ties in arch. */
void tfm__load_tables(tfm__loader *l);

/* Whether this is a used table, or another copy of one. */
bool tfm__load_is_alias(const tfm__loader *l, const tfm__stored_tensor *stored);

/* The dtype of a parameter on the device. */
tfm_dtype tfm__load_dtype(const tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Its bytes there, for `count` elements; those of blocks as in the file. */
uint64_t tfm__load_bytes(const tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored,
                         uint64_t count);

/* Uploads a parameter; requires l->model. */
tfm_status tfm__load_upload(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Waits for the device, then publishes the buffers for sharing. */
tfm_status tfm__load_publish(const tfm__loader *l);

#endif
