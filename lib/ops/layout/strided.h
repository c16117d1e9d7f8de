/* Iteration over several tensors with separate strides, like PyTorch's TensorIterator: for broadcasting ops, gathers,
 * permute, slice and concat. The kernels' counterpart is the prelude's tfm_iter. */
#ifndef TFM_LIB_STRIDED_H
#define TFM_LIB_STRIDED_H

#include "ops/autograd/tape.h"

/* Limits of tensors in an iteration, and of a kernel's dims. */
enum { TFM__ITER_TENSORS = 4, TFM__ITER_DIMS = 5, TFM__ITER_OUTER = TFM_MAX_RANK - TFM__ITER_DIMS };

/* strides[w][i]: stride of tensor w in dim i. If more dims than a kernel supports remain after merging, the host loops
 * over the outer ones, a launch each: few shapes need that, and it is cheaper than more dims in every kernel. */
typedef struct tfm__iter {
    struct {
        int64_t n; /* product of the dims */
        int64_t dims[TFM__ITER_DIMS], strides[TFM__ITER_TENSORS][TFM__ITER_DIMS];
    } kernel; /* prelude.cl: tfm_iter */
    int64_t launches;
    int64_t outer_dims[TFM__ITER_OUTER], outer_strides[TFM__ITER_TENSORS][TFM__ITER_OUTER];
} tfm__iter;

/* Row-major strides of the given dims. */
void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims);

/* Merges dims that are contiguous in all `count` tensors, so that the last one, along which kernels run, is as long as
 * possible. Unused dims are 1. */
tfm__iter tfm__iter_make(int rank, const int64_t *dims, int count, const int64_t *const *strides);

/* The dims of y to which `count` inputs broadcast, as in NumPy, and the iteration over y (tensor 0) and inputs[i]
 * (tensor i + 1). False if the dims do not match. */
bool tfm__iter_broadcast(tfm__iter *iter, tfm_tensor *y, int count, const tfm_tensor *inputs);

/* Whether a work-item may take four elements at once (TFM_VEC4): the last dim is a multiple of four, each of the
 * `count` tensors has a stride of 1 or 0 along it, and runs of stride 1 begin at multiples of four. */
bool tfm__iter_can_vec4(const tfm_context *ctx, const tfm__iter *iter, int count, const tfm_tensor *tensors);

/* Launches a kernel whose last parameter is `const tfm_iter iter`; args precede it. Tensor i of args is tensor order[i]
 * of the iteration. */
enum { TFM__ITER_ARGS = 8 };
tfm_status tfm__iter_launch(tfm_context *ctx, const tfm__iter *iter, tfm__kernel *kernel, tfm__grid grid,
                            const int *order, size_t count, const tfm__arg *args);

/* Copies tensor 1 to tensor 0, from both offsets; equal element sizes. cl/layout/strided.cl. */
tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__iter *iter);
/* The same for the gradient of x, F32: copied to `to`, or accumulated. */
tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient to, tfm_tensor x, const tfm__iter *iter);

/* Backward pass of an input that was broadcast to dy's dims: the buffer for its unreduced gradient. Without
 * broadcasting, and without accumulation unless `adds`, that is `dx` itself; else a tensor of dy's dims in the current
 * scope, which tfm__broadcast_reduce sums over the broadcast dims. */
tfm__gradient tfm__broadcast_gradient(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, bool adds);
tfm_status tfm__broadcast_reduce(tfm_context *ctx, tfm__gradient dx, tfm__gradient whole);

#endif
