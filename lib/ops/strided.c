/* Copies between strided views: cl/strided.cl. */
#include "ops/strided.h"

void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[i--])
        strides[i] = stride;
}

tfm__walk tfm__walk_make(int rank, const int64_t *dims, int count, const int64_t *const *strides) {
    tfm__walk walk = {.dims = {1, 1, 1, 1, 1}};
    int place = TFM_MAX_RANK; /* the dim filled last */
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1)
            continue;
        bool joins = place < TFM_MAX_RANK;
        for (int w = 0; w < count && joins; w++)
            joins = strides[w][i] == walk.strides[w][place] * walk.dims[place];
        if (joins) {
            walk.dims[place] *= dims[i];
            continue;
        }
        walk.dims[--place] = dims[i];
        for (int w = 0; w < count; w++)
            walk.strides[w][place] = strides[w][i];
    }
    if (place == TFM_MAX_RANK) /* a single element: let kernels take it for a contiguous one */
        for (int w = 0; w < count; w++)
            walk.strides[w][TFM_MAX_RANK - 1] = 1;
    return walk;
}

static tfm__kernel *kernel_get(tfm_context *ctx, const char *name, tfm__gradient to) {
    const size_t size = tfm_dtype_size(to.to.dtype);
    const char *type = to.add ? "float -DADD" : size == 4 ? "int" : size == 2 ? "short" : "char";
    return tfm__kernel_get(ctx, "strided", name, "-DELEMENT=%s", type);
}

/* The dim along which x is contiguous where a copy by tiles pays, else the last. */
static int turned_dim(const tfm_context *ctx, const tfm__walk *walk) {
    const int last = TFM_MAX_RANK - 1, width = tfm__context_row(ctx)->width;
    if (width == 1 || walk->strides[0][last] != 1 || walk->strides[1][last] == 1 || walk->dims[last] < width)
        return last;
    for (int j = 0; j < last; j++)
        if (walk->strides[1][j] == 1 && walk->dims[j] >= width)
            return j;
    return last;
}

static tfm_status launch_turn(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__walk *walk,
                              int turned) {
    const int64_t width = tfm__context_row(ctx)->width;
    const int64_t along = walk->dims[TFM_MAX_RANK - 1], across = walk->dims[turned];
    int64_t d[3], to[3], from[3], tiles = ((along + width - 1) / width) * ((across + width - 1) / width);
    for (int i = 0, k = 0; i < TFM_MAX_RANK - 1; i++) {
        if (i == turned)
            continue;
        d[k] = walk->dims[i];
        to[k] = walk->strides[0][i];
        from[k] = walk->strides[1][i];
        tiles *= d[k++];
    }
    return tfm__launch(ctx, kernel_get(ctx, "strided_turn", y), tfm__row_grid(ctx, tiles),
                       TFM_ARGS(TFM_T_AS("y", y.to), TFM_T(x), TFM_I(tiles), TFM_I(along), TFM_I(across),
                                TFM_I_AS("d1", d[1]), TFM_I_AS("d2", d[2]), TFM_I_AS("to0", to[0]),
                                TFM_I_AS("to1", to[1]), TFM_I_AS("to2", to[2]),
                                TFM_I_AS("to_across", walk->strides[0][turned]), TFM_I_AS("from0", from[0]),
                                TFM_I_AS("from1", from[1]), TFM_I_AS("from2", from[2]),
                                TFM_I_AS("from_along", walk->strides[1][TFM_MAX_RANK - 1])));
}

tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__walk *walk) {
    const int64_t *d = walk->dims, *to = walk->strides[0], *from = walk->strides[1];
    const int64_t n = d[0] * d[1] * d[2] * d[3] * d[4];
    const int turned = turned_dim(ctx, walk);
    if (!y.to.buffer)
        return tfm_context_status(ctx);
    if (turned < TFM_MAX_RANK - 1)
        return launch_turn(ctx, y, x, walk, turned);
    return tfm__launch(ctx, kernel_get(ctx, "strided", y), tfm__element_grid(ctx, n),
                       TFM_ARGS(TFM_T_AS("y", y.to), TFM_T(x), TFM_I(n), TFM_I_AS("d1", d[1]), TFM_I_AS("d2", d[2]),
                                TFM_I_AS("d3", d[3]), TFM_I_AS("d4", d[4]), TFM_I_AS("to0", to[0]),
                                TFM_I_AS("to1", to[1]), TFM_I_AS("to2", to[2]), TFM_I_AS("to3", to[3]),
                                TFM_I_AS("to4", to[4]), TFM_I_AS("from0", from[0]),
                                TFM_I_AS("from1", from[1]), TFM_I_AS("from2", from[2]),
                                TFM_I_AS("from3", from[3]), TFM_I_AS("from4", from[4])));
}

tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__walk *walk) {
    return tfm__strided_gradient(ctx, (tfm__gradient){y, false}, x, walk);
}
