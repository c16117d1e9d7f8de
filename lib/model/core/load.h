/* What the files that load a model share: load.c walks over its parameters, tensor_names.c finds their tensors,
 * embedding_tables.c says which are the tables of words, and upload.c brings them to the device. */
#ifndef TFM_MODEL_LOAD_H
#define TFM_MODEL_LOAD_H

#include "model/core/model.h"

typedef struct tfm__loader {
    const tfm__family *family;
    tfm__arch *arch;
    const tfm__weights *file;
    tfm_model *model;                              /* NULL: places are looked for, and nothing is put there */
    const tfm__stored_tensor *tables[TFM__TABLES]; /* source, target, output */
    const tfm__stored_tensor **used;               /* [count of the file] */
    size_t used_count;
    struct offer {
        tfm_tensor x;
        tfm__shared_buffer_key key;
    } * offers; /* what others may share, once the device has all of it */
    size_t offer_count, offer_room;
    uint64_t parameters, bytes; /* and what they take on the device */
    tfm_precision precision;
    tfm__tensor_map_fn on_match; /* is shown what is found, or NULL */
    void *user;
    tfm_status status;
} tfm__loader;

/* Whether a text ends so. */
bool tfm__ends_with(const char *text, const char *end);

/* The name of a tensor as the file has it; `name` itself where the file has none of its kind. */
const char *tfm__load_name(const tfm__loader *l, const char *name);

/* The other way: what the family calls a stored tensor of the text of a wrapper. Uses `text` where it is not `name`. */
const char *tfm__load_family_name(const tfm__loader *l, char *text, size_t size, const char *name);

/* The tensor of that name, as tfm__load_name() finds it, or NULL. */
const tfm__stored_tensor *tfm__load_find(const tfm__loader *l, const char *name);

/* Finds the tables of words, and what of arch says which of them are one. */
void tfm__load_tables(tfm__loader *l);

/* Whether this is a table that is used, or another copy of one. */
bool tfm__load_is_alias(const tfm__loader *l, const tfm__stored_tensor *stored);

/* What a parameter is on the device. */
tfm_dtype tfm__load_dtype(const tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Brings a parameter to the device; not for a loader without a model. */
tfm_status tfm__load_upload(tfm__loader *l, const tfm__parameter *p, const tfm__stored_tensor *stored);

/* Waits for the device, and lets other models share what has been put there. */
tfm_status tfm__load_publish(const tfm__loader *l);

#endif
