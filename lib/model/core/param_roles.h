/* A model's parameters by role, in order, and their stored tensors. */
#ifndef TFM_LIB_PARAM_ROLES_H
#define TFM_LIB_PARAM_ROLES_H

#include "model/arch/family.h"
#include "model/weights/weight_file.h"
#include "tfm/model.h"

typedef enum tfm__parameter_kind { TFM__MATRIX, TFM__BIAS, TFM__GAMMA, TFM__BETA, TFM__EMBEDDING } tfm__parameter_kind;

/* A parameter: rows `first` to `first` + dims[0] of `total` stored rows with this name. */
typedef struct tfm__parameter {
    tfm_param *param; /* NULL without a model */
    tfm__role role;
    tfm__parameter_kind kind;
    int rank;
    int64_t dims[2];  /* (outputs, inputs), or (size) */
    const char *name; /* in files; valid during the call */
    bool transposed;  /* stored as (inputs, outputs) */
    int64_t first, total;
    int64_t interleaved; /* width of a head whose two halves of rows are stored interleaved; 0: rows are in order */
    int64_t run, step;   /* of each `step` stored rows, the first `run` belong to it; 0: contiguous */
    int64_t zero_rows;   /* the last rows of dims[0], zero and not stored */
    float offset;        /* added to stored values */
    int row, rows; /* Number of rows stored as separate tensors, of which this is `row`; 0: one tensor. Their names have
                      the row's number for `#`. */
} tfm__parameter;

/* Storage of a role in one of the stacks. Names are NULL if the family has no such role. */
const tfm__naming *tfm__role_naming(const tfm__family *family, bool decoder, tfm__role role);

/* The name of a row that is a separate tensor. */
void tfm__row_name(char *out, size_t size, const char *name, int row);

/* Calls `each` for every parameter until it fails, in fixed order: tables, stack parameters, blocks (encoder before
 * decoder), head. `model` may be NULL and is not changed. */
typedef tfm_status (*tfm__parameter_fn)(void *user, const tfm__parameter *parameter);
tfm_status tfm__params_visit(const tfm__family *family, const tfm__arch *arch, tfm_model *model, tfm__parameter_fn each,
                             void *user);

/* Matches every stored tensor with a parameter and vice versa, or fails; then uploads them unless `model` is NULL.
 * Updates the ties in `arch` to the file's. *parameters: their number, shared ones once, without sinusoids. *bytes:
 * their size on the device. `options`: precisions; may be NULL. */
tfm_status tfm__model_load(uint64_t *parameters, uint64_t *bytes, const tfm__family *family, tfm__arch *arch,
                           const tfm__weights *file, tfm_model *model, const tfm_model_options *options);

/* Makes the same match, and calls back with each parameter and its stored tensor; then with further copies of
 * tables. */
typedef tfm_status (*tfm__tensor_map_fn)(void *user, const tfm__parameter *parameter, const tfm__stored_tensor *stored);
tfm_status tfm__model_map_tensors(const tfm__family *family, tfm__arch *arch, const tfm__weights *file,
                                  tfm__tensor_map_fn on_match, void *user);

/* The same without copies of tables, and without a check of the other stored tensors. */
tfm_status tfm__model_map_parameters(const tfm__family *family, tfm__arch *arch, const tfm__weights *file,
                                     tfm__tensor_map_fn on_match, void *user);

#endif
