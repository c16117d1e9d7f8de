/* Sums for backward passes, and those of integers. */
#ifndef TFM_LIB_SUM_H
#define TFM_LIB_SUM_H

#include "ops/autograd/tape.h"

/* y = a + b, all three of as many elements. y may be a or b. */
tfm_status tfm__add_same_shape(tfm_context *ctx, tfm_tensor y, tfm_tensor a, tfm_tensor b);

/* y = a + b of I32 tensors with dims that broadcast: what tfm_add does of integers, in binary.c. */
tfm_status tfm__add_integers(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);

/* to = or += x, of as many elements: the backward of what passes a gradient on. Nothing is done where `to` is empty. */
tfm_status tfm__accumulate(tfm_context *ctx, tfm__gradient to, tfm_tensor x);

/* to (outer, inner) = or += the sums of x (outer, rows, inner) over its middle dimension, whatever dims both
 * have. An empty `to` is nothing to do. */
tfm_status tfm__sum_into(tfm_context *ctx, tfm__gradient to, tfm_tensor x, int64_t outer, int64_t rows, int64_t inner);

/* Bytes of device memory that tfm__sum_into takes on the way. */
uint64_t tfm__sum_workspace(int64_t outer, int64_t rows, int64_t inner);

/* Rows of which one work-group of a norm's backward makes one sum for its scales, when it has made their gradients. */
int64_t tfm__sum_chunk(tfm_context *ctx, int64_t rows);

/* A sum of x (outer, rows, inner) over rows, and where it goes. */
typedef struct tfm__column_sum {
    tfm__gradient to;
    tfm_tensor x;
    int64_t inner;
} tfm__column_sum;

/* The same of two, each of which may be none (an empty `to`), in one launch: small ones cost little but that.
 * Where both go to the same place they go one after the other. */
tfm_status tfm__sum_pair(tfm_context *ctx, tfm__column_sum one, tfm__column_sum two, int64_t outer, int64_t rows);

/* to (outer, count, width)[:, indices[i], :] = or += scale dy (outer, taken, width)[:, i, :], in the order of
 * i; zeros where no index is. An empty `to` is nothing to do. cl/layout/gather.cl. */
tfm_status tfm__index_add(tfm_context *ctx, tfm__gradient to, tfm_tensor dy, tfm_tensor indices, int64_t outer,
                          int64_t count, int64_t width, float scale);

/* The gradient of what was broadcast to dy's dims, as in NumPy: to = or += dy summed over what was repeated.
 */
tfm_status tfm__sum_to_size(tfm_context *ctx, tfm__gradient to, tfm_tensor dy);

#endif
