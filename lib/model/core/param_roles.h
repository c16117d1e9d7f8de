/* A model's parameters, by role and in order, and what stored tensor each of them is. */
#ifndef TFM_LIB_PARAM_ROLES_H
#define TFM_LIB_PARAM_ROLES_H

#include "model/arch/family.h"
#include "model/weights/weight_file.h"
#include "tfm/model.h"

typedef enum tfm__parameter_kind { TFM__MATRIX, TFM__BIAS, TFM__GAMMA, TFM__BETA, TFM__EMBEDDING } tfm__parameter_kind;

/* One parameter. Its values are rows `first` to `first` + dims[0] of the `total` that the file has under this name. */
typedef struct tfm__parameter {
    tfm_param *param; /* Where the model has it. NULL if there is no model. */
    tfm__role role;
    tfm__parameter_kind kind;
    int rank;
    int64_t dims[2];  /* (outputs, inputs), or (size) */
    const char *name; /* Its name in files, valid during the call. */
    bool transposed;  /* It is stored as (inputs, outputs). */
    int64_t first, total;
    int64_t run, step; /* Of each `step` rows of the file, `run` are its own; 0: they are one piece. */
    int64_t zero_rows; /* How many rows, the last of dims[0], are zeros, and not in the file. */
    float offset;      /* What is added to the numbers of the file. */
    int row, rows;     /* Each of its `rows` rows is a tensor in files, of which `row` is one; 0 rows: it is one tensor.
                          In their names the row's number stands in place of `#`. */
} tfm__parameter;

/* How a role of one of the two stacks is stored. Names are NULL where the family has no such role. */
const tfm__naming *tfm__role_naming(const tfm__family *family, bool decoder, tfm__role role);

/* The name of a row that is a tensor of its own. */
void tfm__row_name(char *out, size_t size, const char *name, int row);

/* Calls `each` for every parameter, in one order, until it fails: tables, what stands around the blocks, then block by
 * block, the encoder's before the decoder's, and the head. It changes nothing. `model` may be NULL. */
typedef tfm_status (*tfm__parameter_fn)(void *user, const tfm__parameter *parameter);
tfm_status tfm__params_visit(const tfm__family *family, const tfm__arch *arch, tfm_model *model, tfm__parameter_fn each,
                             void *user);

/* Finds a place for every stored tensor and a stored tensor for every parameter, or says why it cannot; then, if
 * `model` is not NULL, puts them there. `arch` is the model's; its ties become what the file has. *parameters: their
 * number, shared ones once, tables of sinusoids not counted. *bytes: what they take on the device. `precision` says
 * whether the matrices become bytes there. */
tfm_status tfm__model_load(uint64_t *parameters, uint64_t *bytes, const tfm__family *family, tfm__arch *arch,
                           const tfm__weights *file, tfm_model *model, tfm_precision precision);

/* Finds the same places, and shows which stored tensor each parameter is, or is a part of; then copies of tables, which
 * no parameter needs, as the tables that they copy. */
typedef tfm_status (*tfm__tensor_map_fn)(void *user, const tfm__parameter *parameter, const tfm__stored_tensor *stored);
tfm_status tfm__model_map_tensors(const tfm__family *family, tfm__arch *arch, const tfm__weights *file,
                                  tfm__tensor_map_fn on_match, void *user);

#endif
