/* Walking several tensors at once, each with strides of its own: permute, slice, concat and broadcast are this. */
#ifndef TFM_LIB_STRIDED_H
#define TFM_LIB_STRIDED_H

#include "ops/tape.h"

/* Tensors that are walked at the same time, and the dims that a kernel walks. */
enum { TFM__WALKERS = 4, TFM__WALK_DIMS = 5 };

/* The elements of a grid, each `strides[w]` elements apart in tensor w. A kernel walks dims[0] x ... x
 * dims[TFM__WALK_DIMS - 1], `n` places. Where a grid has more dims even after joining, those before go in `pieces`
 * launches, each at its own offset: few shapes have that many, and a launch is cheaper than dims in every kernel. */
typedef struct tfm__walk {
    int64_t dims[TFM__WALK_DIMS];
    int64_t strides[TFM__WALKERS][TFM__WALK_DIMS];
    int64_t n, pieces;
    int64_t outer_dims[TFM_MAX_RANK - TFM__WALK_DIMS];
    int64_t outer_strides[TFM__WALKERS][TFM_MAX_RANK - TFM__WALK_DIMS];
} tfm__walk;

/* x, which is tensor w of the walk, as it lies for the walk's piece. */
tfm_tensor tfm__walk_at(const tfm__walk *walk, int w, int64_t piece, tfm_tensor x);

/* Strides of a row-major tensor of these dims. */
void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims);

/* Puts `rank` dims and strides into the last places, ones in front. Dims that lie one after the other in all of the
 * `count` tensors become one, so the last, which kernels run along, is as long as can be. */
tfm__walk tfm__walk_make(int rank, const int64_t *dims, int count, const int64_t *const *strides);

/* Whether a work-item may walk four places at once (TFM_FOURS): the last dim is made of fours, along which each of
 * `count` tensors goes on or stays, and all that go on begin each run of it at multiples of four. */
bool tfm__walk_by_fours(const tfm_context *ctx, const tfm__walk *walk, int count, const tfm_tensor *tensors);

/* Arguments of a kernel that walks, after the first `first`: n, d1 to d4, and the strides of all tensors but the first,
 * which is walked in a row: a0 to a4 of the second, b0 to b4, c0 to c4. Returns how many arguments there are now. */
enum { TFM__WALK_ARGS = 5 + 5 * (TFM__WALKERS - 1) };
size_t tfm__walk_args(tfm__arg *args, size_t first, const tfm__walk *walk, int count);

/* The dims of what broadcasts to all of `count` inputs, as in NumPy, and each one's strides in them, 0 where it
 * repeats: strides[0] is of the result, strides[w] of inputs[w - 1]. False where they do not fit. */
bool tfm__broadcast(tfm_tensor *y, int64_t strides[][TFM_MAX_RANK], size_t count, const tfm_tensor *inputs);

/* y[walk of strides[0]] = x[walk of strides[1]], both from their offsets on; equal element sizes. cl/strided.cl. */
tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__walk *walk);
/* The same for the gradient of x, F32: copied to `to`, or added. */
tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient to, tfm_tensor x, const tfm__walk *walk);

#endif
