/* Sums for backward passes, and integer sums. */
#ifndef TFM_LIB_SUM_H
#define TFM_LIB_SUM_H

#include "ops/autograd/tape.h"

/* y = a + b of equal sizes. y may be a or b. */
tfm_status tfm__add_same_shape(tfm_context *ctx, tfm_tensor y, tfm_tensor a, tfm_tensor b);

/* y = a + b of I32 tensors with broadcasting: the integer case of tfm_add, in binary.c. */
tfm_status tfm__add_integers(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* to = or += x of equal sizes: the backward of ops that pass a gradient on. An empty `to` is skipped. */
tfm_status tfm__accumulate(tfm_context *ctx, tfm__gradient to, tfm_tensor x);

/* to (outer, inner) = or += the sums of x (outer, rows, inner) over its middle dimension, regardless of their dims. An
 * empty `to` is skipped. */
tfm_status tfm__sum_into(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer, int64_t rows, int64_t inner);

/* Temporary device memory of tfm__sum_into, in bytes. */
uint64_t tfm__sum_workspace(int64_t outer, int64_t rows, int64_t inner);

/* Rows of one work-group's partial sum in a norm's backward, for the gradients of its scales. */
int64_t tfm__sum_chunk(tfm_context *ctx, int64_t rows);

/* A sum of x (outer, rows, inner) over rows, and its destination. */
typedef struct tfm__column_sum {
    tfm__gradient to;
    tfm_tensor x;
    int64_t inner;
} tfm__column_sum;

/* The same for two sums in one launch, which dominates the cost of small ones; an empty `to` is skipped. With the same
 * destination they run one after the other. */
tfm_status tfm__sum_pair(tfm_context *ctx, tfm__column_sum one, tfm__column_sum two, int64_t outer, int64_t rows);

/* to (outer, count, width)[:, indices[i], :] = or += scale dy (outer, taken, width)[:, i, :], in the order of i; zeros
 * for rows without an index. An empty `to` is skipped. cl/layout/gather.cl. */
tfm_status tfm__index_add(tfm_context *ctx, tfm__gradient to, tfm_tensor dy, tfm_tensor indices, int64_t outer,
                          int64_t count, int64_t width, float scale);

/* The gradient of an input that was broadcast to dy's dims, as in NumPy: to = or += dy summed over the broadcast dims.
 */
tfm_status tfm__sum_to_size(tfm_context *ctx, tfm__gradient to, tfm_tensor dy);

#endif
