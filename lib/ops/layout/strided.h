/* Iteration over several tensors at once, each with its own strides, as PyTorch's TensorIterator does it: ops that
 * broadcast, gathers, permute, slice and concat. In kernels it is the prelude's tfm_iter. */
#ifndef TFM_LIB_STRIDED_H
#define TFM_LIB_STRIDED_H

#include "ops/autograd/tape.h"

/* Tensors that are iterated over together, and the dims that a kernel iterates over. */
enum { TFM__ITER_TENSORS = 4, TFM__ITER_DIMS = 5, TFM__ITER_OUTER = TFM_MAX_RANK - TFM__ITER_DIMS };

/* Tensor w has a stride of strides[w][i] in dim i. Where more dims than a kernel has are left after merging, the first
 * ones are iterated over on the host, a launch each: few shapes have that many, and a launch is cheaper than more dims
 * in every kernel. */
typedef struct tfm__iter {
    struct {
        int64_t n; /* the product of the dims */
        int64_t dims[TFM__ITER_DIMS], strides[TFM__ITER_TENSORS][TFM__ITER_DIMS];
    } kernel; /* prelude.cl: tfm_iter */
    int64_t launches;
    int64_t outer_dims[TFM__ITER_OUTER], outer_strides[TFM__ITER_TENSORS][TFM__ITER_OUTER];
} tfm__iter;

/* Strides of a row-major tensor of these dims. */
void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims);

/* Dims that are contiguous in all of the `count` tensors are merged, so the last one, which kernels run along, is as
 * long as can be. Unused dims are 1. */
tfm__iter tfm__iter_make(int rank, const int64_t *dims, int count, const int64_t *const *strides);

/* The dims of y to which all of `count` inputs broadcast, as in NumPy, and the iteration over y, tensor 0, and
 * inputs[i], tensor i + 1. False where the dims do not fit. */
bool tfm__iter_broadcast(tfm__iter *iter, tfm_tensor *y, int count, const tfm_tensor *inputs);

/* Whether a work-item may take four elements at once (TFM_VEC4): the last dim is a multiple of four, along which each
 * of the `count` tensors has a stride of 1 or 0, and those with 1 begin each run at a multiple of four. */
bool tfm__iter_can_vec4(const tfm_context *ctx, const tfm__iter *iter, int count, const tfm_tensor *tensors);

/* Launches a kernel whose last parameter is `const tfm_iter iter`; args are those before it. The i-th tensor of args is
 * tensor order[i] of the iteration. */
enum { TFM__ITER_ARGS = 8 };
tfm_status tfm__iter_launch(tfm_context *ctx, const tfm__iter *iter, tfm__kernel *kernel, tfm__grid grid,
                            const int *order, size_t count, const tfm__arg *args);

/* Tensor 0 = tensor 1, from both offsets on; equal element sizes. cl/layout/strided.cl. */
tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__iter *iter);
/* The same for the gradient of x, F32: copied to `to`, or added. */
tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient to, tfm_tensor x, const tfm__iter *iter);

/* The backward pass of an input that was broadcast to dy's dims. Where nothing was repeated and, unless `adds`, nothing
 * is to be added, `dx` itself is written; else a tensor of dy's dims in the current scope, for
 * tfm__broadcast_reduce to sum over what was repeated. */
tfm__gradient tfm__broadcast_gradient(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, bool adds);
tfm_status tfm__broadcast_reduce(tfm_context *ctx, tfm__gradient dx, tfm__gradient whole);

#endif
