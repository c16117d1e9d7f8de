/* Iteration over tensors with different strides, and strided copies: cl/layout/strided.cl. */
#include <string.h>
#include "ops/layout/strided.h"
#include "ops/reduce/sum.h"

void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[i--])
        strides[i] = stride;
}

tfm__iter tfm__iter_make(int rank, const int64_t *dims, int count, const int64_t *const *strides) {
    int64_t merged[TFM_MAX_RANK], apart[TFM__ITER_TENSORS][TFM_MAX_RANK] = {{0}};
    int place = TFM_MAX_RANK; /* the dim filled last */
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1)
            continue;
        bool merges = place < TFM_MAX_RANK;
        for (int w = 0; w < count && merges; w++)
            merges = strides[w][i] == apart[w][place] * merged[place];
        if (merges) {
            merged[place] *= dims[i];
            continue;
        }
        merged[--place] = dims[i];
        for (int w = 0; w < count; w++)
            apart[w][place] = strides[w][i];
    }
    if (place == TFM_MAX_RANK) /* a single element: kernels may treat it as contiguous */
        for (int w = 0; w < count; w++)
            apart[w][TFM_MAX_RANK - 1] = 1;
    tfm__iter iter = {.kernel.n = 1, .launches = 1};
    for (int i = 0; i < TFM_MAX_RANK; i++) {
        const int64_t dim = i < place ? 1 : merged[i];
        const int inner = i - TFM__ITER_OUTER;
        if (inner < 0)
            iter.launches *= iter.outer_dims[i] = dim;
        else
            iter.kernel.n *= iter.kernel.dims[inner] = dim;
        for (int w = 0; w < count; w++)
            *(inner < 0 ? &iter.outer_strides[w][i] : &iter.kernel.strides[w][inner]) = apart[w][i];
    }
    if (iter.kernel.n == 0)
        iter.launches = 0;
    return iter;
}

bool tfm__iter_broadcast(tfm__iter *iter, tfm_tensor *y, int count, const tfm_tensor *inputs) {
    int64_t strides[TFM__ITER_TENSORS][TFM_MAX_RANK];
    y->rank = 0;
    for (int w = 0; w < count; w++)
        y->rank = inputs[w].rank > y->rank ? inputs[w].rank : y->rank;
    for (int i = 0; i < y->rank; i++)
        y->dims[i] = 1;
    for (int w = 0; w < count; w++) {
        const int missing = y->rank - inputs[w].rank;
        int64_t dense[TFM_MAX_RANK];
        tfm__dense_strides(dense, inputs[w].rank, inputs[w].dims);
        for (int i = 0; i < y->rank; i++) {
            const int64_t dim = i < missing ? 1 : inputs[w].dims[i - missing];
            strides[w + 1][i] = dim == 1 ? 0 : dense[i - missing];
            if (dim != 1 && y->dims[i] != 1 && dim != y->dims[i])
                return false;
            if (dim != 1)
                y->dims[i] = dim;
        }
    }
    tfm__dense_strides(strides[0], y->rank, y->dims);
    *iter = tfm__iter_make(y->rank, y->dims, count + 1,
                           (const int64_t *const[]){strides[0], strides[1], strides[2], strides[3]});
    return true;
}

bool tfm__iter_can_vec4(const tfm_context *ctx, const tfm__iter *iter, int count, const tfm_tensor *tensors) {
    const int last = TFM__ITER_DIMS - 1;
    bool vec4 = iter->kernel.dims[last] % 4 == 0;
    for (int w = 0; w < count && vec4; w++) {
        const int64_t *strides = iter->kernel.strides[w];
        vec4 = strides[last] == 0 || (strides[last] == 1 && tfm__can_vec4(ctx, 1, &tensors[w]));
        for (int i = 0; i < last && strides[last] == 1; i++)
            vec4 = vec4 && (iter->kernel.dims[i] == 1 || strides[i] % 4 == 0);
        for (int i = 0; i < TFM__ITER_OUTER && strides[last] == 1; i++)
            vec4 = vec4 && (iter->outer_dims[i] == 1 || iter->outer_strides[w][i] % 4 == 0);
    }
    return vec4 && tfm__can_vec4(ctx, 0, NULL);
}

/* Offset of tensor w in a launch. */
static size_t outer_offset(const tfm__iter *iter, int w, int64_t launch) {
    int64_t offset = 0;
    for (int i = TFM__ITER_OUTER - 1; i >= 0; launch /= iter->outer_dims[i--])
        offset += launch % iter->outer_dims[i] * iter->outer_strides[w][i];
    return (size_t)offset;
}

tfm_status tfm__iter_launch(tfm_context *ctx, const tfm__iter *iter, tfm__kernel *kernel, tfm__grid grid,
                            const int *order, size_t count, const tfm__arg *args) {
    tfm__arg all[TFM__ITER_ARGS + 1];
    for (int64_t launch = 0; launch < iter->launches && tfm_context_status(ctx) == TFM_OK; launch++) {
        memcpy(all, args, count * sizeof(*args));
        for (size_t i = 0, tensor = 0; i < count; i++)
            if (all[i].kind == TFM__ARG_TENSOR)
                all[i].tensor.offset += outer_offset(iter, order[tensor++], launch);
        all[count] = (tfm__arg)TFM__STRUCT_AS("iter", iter->kernel);
        tfm__launch(ctx, kernel, grid, count + 1, all);
    }
    return tfm_context_status(ctx);
}

static tfm__kernel *kernel_get(tfm_context *ctx, const char *name, tfm__gradient to, bool vec4) {
    const size_t size = tfm_dtype_size(to.to.dtype);
    const char *type = to.add ? "float -DADD" : size == 4 ? "int" : size == 2 ? "short" : "char";
    return tfm__kernel_get(ctx, "strided", name, "-DELEMENT=%s%s", type, tfm__vec4_define(vec4));
}

/* Swaps the dim along which x is contiguous with the last but one, if a tiled copy pays. */
static bool tiled(const tfm_context *ctx, tfm__iter *iter) {
    const int last = TFM__ITER_DIMS - 1, width = tfm__context_tuning(ctx)->width;
    int64_t *const lists[] = {iter->kernel.dims, iter->kernel.strides[0], iter->kernel.strides[1]};
    if (width == 1 || lists[1][last] != 1 || lists[2][last] == 1 || lists[0][last] < width)
        return false;
    int dim = 0;
    while (dim < last && (lists[2][dim] != 1 || lists[0][dim] < width))
        dim++;
    for (int i = 0; i < 3 && dim < last - 1; i++) {
        const int64_t own = lists[i][dim];
        memmove(&lists[i][dim], &lists[i][dim + 1], (size_t)(last - 1 - dim) * sizeof(own));
        lists[i][last - 1] = own;
    }
    return dim < last;
}

tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__iter *iter) {
    if (!y.to.buffer)
        return tfm_context_status(ctx);
    const int last = TFM__ITER_DIMS - 1;
    const int64_t width = tfm__context_tuning(ctx)->width, n = iter->kernel.n;
    tfm__iter by_tiles = *iter;
    if (tiled(ctx, &by_tiles)) {
        const int64_t *dims = by_tiles.kernel.dims, area = dims[last] * dims[last - 1];
        const int64_t tiles = n / area * tfm__ceil_div(dims[last], width) * tfm__ceil_div(dims[last - 1], width);
        return tfm__iter_launch(ctx, &by_tiles, kernel_get(ctx, "strided_transpose", y, false),
                                tfm__row_grid(ctx, tiles), (const int[]){0, 1},
                                TFM__ARGS(TFM__T_AS("y", y.to), TFM__T(x), TFM__I(tiles)));
    }
    const bool vec4 = iter->kernel.strides[0][last] == 1 && iter->kernel.strides[1][last] == 1 &&
                      tfm__iter_can_vec4(ctx, iter, 2, (const tfm_tensor[]){y.to, x});
    return tfm__iter_launch(ctx, iter, kernel_get(ctx, "strided", y, vec4), tfm__vec4_grid(ctx, n, vec4),
                            (const int[]){0, 1}, TFM__ARGS(TFM__T_AS("y", y.to), TFM__T(x)));
}

tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__iter *iter) {
    return tfm__strided_gradient(ctx, (tfm__gradient){y, false}, x, iter);
}

tfm__gradient tfm__broadcast_gradient(tfm_context *ctx, tfm__gradient dx, tfm_tensor dy, bool adds) {
    if (tfm_tensor_count(dx.to) == tfm_tensor_count(dy) && (adds || !dx.add))
        return dx;
    tfm__gradient whole = {{0}, false};
    tfm_tensor_new(ctx, &whole.to, TFM_F32, dy.rank, dy.dims);
    return whole;
}

tfm_status tfm__broadcast_reduce(tfm_context *ctx, tfm__gradient dx, tfm__gradient whole) {
    return whole.to.buffer == dx.to.buffer ? tfm_context_status(ctx) : tfm__sum_to_size(ctx, dx, whole.to);
}
