/* Shared by op files: argument checks and launch helpers. */
#ifndef TFM_LIB_OPS_H
#define TFM_LIB_OPS_H

#include "dev/dev.h"
#include "tfm/ops.h"

/* Every op starts with `if (tfm__op_begin(ctx, "softmax", ...) != TFM_OK) return status`. Checks that the context has
 * not failed, and that each of the `count` inputs is alive, of this context, and of a dtype in `dtypes` (one letter an
 * input: f F32, i I32, h F16/BF16/F32, m the same or U8, k F16/BF16/F32/I8, b I8, 4 any four-byte dtype; lower case:
 * required, upper case: may be empty). A tensor with a dim of 0 is refused, unless `dtypes` begins with a 0. */
tfm_status tfm__op_begin(tfm_context *ctx, const char *op, const char *dtypes, size_t count, const tfm_tensor *inputs);
#define TFM__OP_BEGIN(ctx, op, dtypes, ...)                                                                            \
    tfm__op_begin(ctx, op, dtypes, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor),                           \
                  (tfm_tensor[]){__VA_ARGS__})

/* Refuses options with fields unknown to this version. */
#define TFM__OP_OPTIONS(ctx, op, options)                                                                              \
    (TFM__RESERVED_SET(options) ? tfm__op_error(ctx, op, "%s", TFM__RESERVED_SET_MESSAGE) : tfm_context_status(ctx))

/* Creates *out if it has no buffer, else checks that it is alive and has that dtype and dims. */
tfm_status tfm__op_output(tfm_context *ctx, const char *op, tfm_tensor *out, tfm_dtype dtype, int rank,
                          const int64_t *dims);
/* The same with the dtype and dims of another tensor. */
tfm_status tfm__op_output_like(tfm_context *ctx, const char *op, tfm_tensor *out, tfm_tensor like);

/* Fails with TFM_ERROR_ARGUMENT: "softmax: <sentence>". */
tfm_status tfm__op_error(tfm_context *ctx, const char *op, const char *format, ...) TFM_PRINTF(3, 4);

/* "(2, 3, 128) F32" for sentences; `text` holds at least TFM__SHAPE_TEXT bytes; returned. */
#define TFM__SHAPE_TEXT 192
const char *tfm__shape_text(char *text, tfm_tensor x);
/* For one use in a call's arguments: the compound literal lives as long as the enclosing block. */
#define TFM__SHAPE(x) tfm__shape_text((char[TFM__SHAPE_TEXT]){0}, x)

/* Whether two tensors have the same dims. */
bool tfm__same_dims(tfm_tensor a, tfm_tensor b);
/* Whether two tensors overlap in memory. */
bool tfm__overlap(tfm_tensor a, tfm_tensor b);
/* Refuses an output that overlaps one of `count` other tensors, inputs or outputs; empty ones are skipped. With
 * in_place it may be the same elements in the same order. */
tfm_status tfm__op_no_overlap(tfm_context *ctx, const char *op, bool in_place, tfm_tensor out, size_t count,
                              const tfm_tensor *others);
#define TFM__OP_NO_OVERLAP(ctx, op, out, ...)                                                                          \
    tfm__op_no_overlap(ctx, op, false, out, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor),                  \
                       (tfm_tensor[]){__VA_ARGS__})
#define TFM__OP_IN_PLACE(ctx, op, out, ...)                                                                            \
    tfm__op_no_overlap(ctx, op, true, out, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor),                   \
                       (tfm_tensor[]){__VA_ARGS__})
/* The last dimension, and the product of all before it. */
int64_t tfm__last_dim(tfm_tensor x);
int64_t tfm__row_count(tfm_tensor x);

/* Normalizes an axis to 0 .. rank - 1, counting negative ones from the end; refuses one out of range. */
tfm_status tfm__op_axis(tfm_context *ctx, const char *op, int *axis, tfm_tensor x);
/* Products of x's dims: before `axis`, and from `axis` on. */
int64_t tfm__dims_before(tfm_tensor x, int axis);
int64_t tfm__dims_from(tfm_tensor x, int axis);

/* A grid for a kernel with `group` work-items for each of `rows` rows (group 1 on CPU-style devices). Rows are on the x
 * axis, rows beyond 32768 on y, because some drivers recompile kernels for wide grids. The kernel gets its row from
 * TFM_ROW() and returns if it is >= rows. */
tfm__grid tfm__row_grid(const tfm_context *ctx, int64_t rows);
/* Work-groups for `columns` columns, TFM_WIDTH of them an item, on a row grid: item `block` of the kernel begins at
 * column TFM_COLUMN(block). */
int64_t tfm__column_blocks(const tfm_context *ctx, int64_t columns);
/* A grid with one work-item per `chunk` elements of the device's row, in work-groups of `group`: for elementwise
 * kernels that begin at TFM_ELEMENT(). */
tfm__grid tfm__element_grid(const tfm_context *ctx, int64_t elements);
/* Whether work-items of a GPU-style device may take four elements at once (TFM_VEC4 in the prelude): tensors begin at
 * multiples of four. Then the define, and the grid. */
bool tfm__can_vec4(const tfm_context *ctx, size_t count, const tfm_tensor *tensors);
const char *tfm__vec4_define(bool vec4);
tfm__grid tfm__vec4_grid(const tfm_context *ctx, int64_t elements, bool vec4);
#define TFM__CAN_VEC4(ctx, ...)                                                                                        \
    tfm__can_vec4(ctx, sizeof((tfm_tensor[]){__VA_ARGS__}) / sizeof(tfm_tensor), (const tfm_tensor[]){__VA_ARGS__})

/* The define of the input dtype (F32, F16 or BF16) for kernels with half_load.cl; for the end of a list of defines.
 * Empty for F32. */
const char *tfm__load_dtype_define(tfm_dtype dtype);
/* The same for the output dtype, with half_store.cl. */
const char *tfm__store_dtype_define(tfm_dtype dtype);
/* For activations stored as 16 bits: finite values beyond F16's range saturate to its largest. */
const char *tfm__saturating_store_define(tfm_dtype dtype);
/* y (F32, F16 or BF16, already created) = x (F32), converted with that define (in cast.c). No backward pass. */
tfm_status tfm__cast_saturating(tfm_context *ctx, tfm_tensor y, tfm_tensor x);
/* Whether an output was created as F16 or BF16. */
static inline bool tfm__is_half(tfm_tensor y) {
    return y.buffer && (y.dtype == TFM_F16 || y.dtype == TFM_BF16);
}

/* Default number of rows of logits that tfm_linear_cross_entropy keeps in memory at a time. */
int64_t tfm__cross_entropy_chunk(int64_t rows, int64_t vocabulary);

#endif
