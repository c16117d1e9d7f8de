/* Walking several tensors at once, each with strides of its own: permute, slice, concat and broadcast are this. */
#ifndef TFM_LIB_STRIDED_H
#define TFM_LIB_STRIDED_H

#include "ops/tape.h"

enum { TFM__WALKERS = 3 };

/* The elements of a grid of dims[0] x ... x dims[TFM_MAX_RANK - 1], each `strides[w]` elements apart in tensor w. */
typedef struct tfm__walk {
    int64_t dims[TFM_MAX_RANK];
    int64_t strides[TFM__WALKERS][TFM_MAX_RANK];
} tfm__walk;

/* Strides of a row-major tensor of these dims. */
void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims);

/* Puts `rank` dims and strides into the last places, ones in front. Dims that lie behind each other in all of the `count`
 * tensors become one, so the last, which kernels run along, is as long as can be. */
tfm__walk tfm__walk_make(int rank, const int64_t *dims, int count, const int64_t *const *strides);

/* y[walk of strides[0]] = x[walk of strides[1]], both from their offsets on; equal element sizes. cl/strided.cl. */
tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__walk *walk);
/* The same for the gradient of x, F32: copied to `to`, or added. */
tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient to, tfm_tensor x, const tfm__walk *walk);

#endif
