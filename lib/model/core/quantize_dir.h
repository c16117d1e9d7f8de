/* Shared by the files that write a changed model directory: quantize_dir.c copies it tensor by tensor,
 * quantize_int4.c makes 4-bit matrices of it, calibrate.c rounds those by the inputs of layers, merge.c merges
 * adapters. */
#ifndef TFM_MODEL_QUANTIZE_DIR_H
#define TFM_MODEL_QUANTIZE_DIR_H

#include <jansson.h>
#include "base/file.h"
#include "model/arch/family.h"
#include "model/core/param_roles.h"
#include "ops/quant/int4.h"

/* A stored tensor and its conversion. */
typedef struct tfm__quantize_item {
    const tfm__stored_tensor *stored;
    bool shrinks; /* a matrix of a layer, or an embedding table */
    bool transposed;
    bool linear;     /* a linear layer */
    bool in_block;   /* of a block: int4 if its columns fit */
    tfm__int4 int4;  /* its 4-bit form; or empty */
    bool calibrated; /* int4 is filled */
} tfm__quantize_item;

typedef struct tfm__quantize_job {
    const tfm__weights *file;
    const tfm__family *family;
    tfm_dtype dtype;              /* of shrinking tensors without an int4 form */
    bool groups;                  /* int8: fp16 scale and minimum of TFM__SCALE_GROUP columns, not a scale per output */
    const tfm_int4_options *int4; /* NULL: no int4 */
    int group;                    /* of int4: columns per scale */
    const tfm_adapter *adapters;  /* [adapter_count]: tensors keep their dtype, with the adapters merged; NULL: none */
    size_t adapter_count;
    tfm__quantize_item *items; /* [tfm__weights_count(file)] */
    tfm__writer to;
} tfm__quantize_job;

/* Writes the directory of a job. */
tfm_status tfm__quantize_dir(tfm__quantize_job *j, const char *out, const char *dir);

/* gguf_export.c: tfm_model_write_gguf with adapters. */
tfm_status tfm__gguf_export(const char *path, const char *dir, const char *type, const tfm_adapter *adapters,
                            size_t adapter_count);

/* ---- quantize_int4.c ---- */

/* Chooses the group and fills the int4 form of all matrices that have one. `dir` is the model's directory. */
tfm_status tfm__quantize_int4_fill(tfm__quantize_job *j, const char *dir);
/* Bytes of the tensors of a matrix, their names in the header, and their data. */
size_t tfm__quantize_int4_bytes(const tfm__quantize_item *x);
bool tfm__quantize_int4_name(json_t *header, const tfm__quantize_item *x, size_t *at);
tfm_status tfm__quantize_int4_write(tfm__quantize_job *j, const tfm__quantize_item *x);
/* quantization_config for config.json; NULL if out of memory. */
json_t *tfm__quantize_int4_config(const tfm__quantize_job *j);

/* ---- calibrate.c ---- */

/* Runs the model on the calibration text and rounds matrices by GPTQ in the order in which they are used, each with the
 * inputs that the rounded ones before it give. */
tfm_status tfm__quantize_calibrate(tfm__quantize_job *j, const char *dir);

#endif
