/* Copies between strided views: cl/strided.cl. */
#include "ops/strided.h"

void tfm__dense_strides(int64_t *strides, int rank, const int64_t *dims) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[i--])
        strides[i] = stride;
}

bool tfm__broadcast(tfm_tensor *y, int64_t strides[][TFM_MAX_RANK], size_t count, const tfm_tensor *inputs) {
    y->rank = 0;
    for (size_t w = 0; w < count; w++)
        y->rank = inputs[w].rank > y->rank ? inputs[w].rank : y->rank;
    for (int i = 0; i < y->rank; i++)
        y->dims[i] = 1;
    for (size_t w = 0; w < count; w++) {
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
    return true;
}

tfm__walk tfm__walk_make(int rank, const int64_t *dims, int count, const int64_t *const *strides) {
    enum { OUTER = TFM_MAX_RANK - TFM__WALK_DIMS };
    int64_t joined[TFM_MAX_RANK], apart[TFM__WALKERS][TFM_MAX_RANK] = {{0}};
    int place = TFM_MAX_RANK; /* the dim filled last */
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1)
            continue;
        bool joins = place < TFM_MAX_RANK;
        for (int w = 0; w < count && joins; w++)
            joins = strides[w][i] == apart[w][place] * joined[place];
        if (joins) {
            joined[place] *= dims[i];
            continue;
        }
        joined[--place] = dims[i];
        for (int w = 0; w < count; w++)
            apart[w][place] = strides[w][i];
    }
    if (place == TFM_MAX_RANK) /* a single element: let kernels take it for a contiguous one */
        for (int w = 0; w < count; w++)
            apart[w][TFM_MAX_RANK - 1] = 1;
    tfm__walk walk = {.n = 1, .pieces = 1};
    for (int i = 0; i < TFM_MAX_RANK; i++) {
        const int64_t dim = i < place ? 1 : joined[i];
        if (i < OUTER)
            walk.pieces *= walk.outer_dims[i] = dim;
        else
            walk.n *= walk.dims[i - OUTER] = dim;
        for (int w = 0; w < count; w++)
            *(i < OUTER ? &walk.outer_strides[w][i] : &walk.strides[w][i - OUTER]) = apart[w][i];
    }
    if (walk.n == 0)
        walk.pieces = 0;
    return walk;
}

tfm_tensor tfm__walk_at(const tfm__walk *walk, int w, int64_t piece, tfm_tensor x) {
    int64_t offset = 0;
    for (int i = TFM_MAX_RANK - TFM__WALK_DIMS - 1; i >= 0; piece /= walk->outer_dims[i--])
        offset += piece % walk->outer_dims[i] * walk->outer_strides[w][i];
    x.offset = (size_t)((int64_t)x.offset + offset);
    return x;
}

bool tfm__walk_by_fours(const tfm_context *ctx, const tfm__walk *walk, int count, const tfm_tensor *tensors) {
    const int last = TFM__WALK_DIMS - 1;
    bool fours = walk->dims[last] % 4 == 0;
    for (int w = 0; w < count && fours; w++) {
        const int64_t *strides = walk->strides[w];
        fours = strides[last] == 0 || (strides[last] == 1 && tfm__by_fours(ctx, 1, &tensors[w]));
        for (int i = 0; i < last && strides[last] == 1; i++)
            fours = fours && (walk->dims[i] == 1 || strides[i] % 4 == 0);
    }
    return fours && tfm__by_fours(ctx, 0, NULL);
}

static size_t put_dims(tfm__arg *args, size_t first, const tfm__walk *walk) {
    static const char *const DIMS[] = {"n", "d1", "d2", "d3", "d4"};
    for (int i = 0; i < TFM__WALK_DIMS; i++)
        args[first++] = (tfm__arg)TFM__I_AS(DIMS[i], i == 0 ? walk->n : walk->dims[i]);
    return first;
}

static size_t put_strides(tfm__arg *args, size_t first, const char *const *names, const int64_t *strides) {
    for (int i = 0; i < TFM__WALK_DIMS; i++)
        args[first++] = (tfm__arg)TFM__I_AS(names[i], strides[i]);
    return first;
}

size_t tfm__walk_args(tfm__arg *args, size_t first, const tfm__walk *walk, int count) {
    static const char *const STRIDES[TFM__WALKERS - 1][TFM__WALK_DIMS] = {
        {"a0", "a1", "a2", "a3", "a4"}, {"b0", "b1", "b2", "b3", "b4"}, {"c0", "c1", "c2", "c3", "c4"}};
    first = put_dims(args, first, walk);
    for (int w = 1; w < count; w++)
        first = put_strides(args, first, STRIDES[w - 1], walk->strides[w]);
    return first;
}

static tfm__kernel *kernel_get(tfm_context *ctx, const char *name, tfm__gradient to, bool fours) {
    const size_t size = tfm_dtype_size(to.to.dtype);
    const char *type = to.add ? "float -DADD" : size == 4 ? "int" : size == 2 ? "short" : "char";
    return tfm__kernel_get(ctx, "strided", name, "-DELEMENT=%s%s", type, tfm__fours_define(fours));
}

/* The dim along which x is contiguous where a copy by tiles pays, else the last. */
static int turned_dim(const tfm_context *ctx, const tfm__walk *walk) {
    const int last = TFM__WALK_DIMS - 1, width = tfm__context_tuning(ctx)->width;
    if (width == 1 || walk->strides[0][last] != 1 || walk->strides[1][last] == 1 || walk->dims[last] < width)
        return last;
    for (int j = 0; j < last; j++)
        if (walk->strides[1][j] == 1 && walk->dims[j] >= width)
            return j;
    return last;
}

static tfm_status launch_turn(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__walk *walk, int turned) {
    const int64_t width = tfm__context_tuning(ctx)->width;
    const int64_t along = walk->dims[TFM__WALK_DIMS - 1], across = walk->dims[turned];
    int64_t d[3], to[3], from[3], tiles = tfm__divide_up(along, width) * tfm__divide_up(across, width);
    for (int i = 0, k = 0; i < TFM__WALK_DIMS - 1; i++) {
        if (i == turned)
            continue;
        d[k] = walk->dims[i];
        to[k] = walk->strides[0][i];
        from[k] = walk->strides[1][i];
        tiles *= d[k++];
    }
    return tfm__launch(ctx, kernel_get(ctx, "strided_turn", y, false), tfm__row_grid(ctx, tiles),
                       TFM__ARGS(TFM__T_AS("y", y.to), TFM__T(x), TFM__I(tiles), TFM__I(along), TFM__I(across),
                                 TFM__I_AS("d1", d[1]), TFM__I_AS("d2", d[2]), TFM__I_AS("to0", to[0]),
                                 TFM__I_AS("to1", to[1]), TFM__I_AS("to2", to[2]),
                                 TFM__I_AS("to_across", walk->strides[0][turned]), TFM__I_AS("from0", from[0]),
                                 TFM__I_AS("from1", from[1]), TFM__I_AS("from2", from[2]),
                                 TFM__I_AS("from_along", walk->strides[1][TFM__WALK_DIMS - 1])));
}

static tfm_status launch_places(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__walk *walk) {
    static const char *const TO[] = {"to0", "to1", "to2", "to3", "to4"};
    static const char *const FROM[] = {"from0", "from1", "from2", "from3", "from4"};
    tfm__arg args[2 + 3 * TFM__WALK_DIMS] = {TFM__T_AS("y", y.to), TFM__T(x)};
    size_t count = put_dims(args, 2, walk);
    count = put_strides(args, count, TO, walk->strides[0]);
    count = put_strides(args, count, FROM, walk->strides[1]);
    const bool fours = walk->strides[0][TFM__WALK_DIMS - 1] == 1 && walk->strides[1][TFM__WALK_DIMS - 1] == 1 &&
                       tfm__walk_by_fours(ctx, walk, 2, (const tfm_tensor[]){y.to, x});
    return tfm__launch(ctx, kernel_get(ctx, "strided", y, fours), tfm__fours_grid(ctx, walk->n, fours), count, args);
}

tfm_status tfm__strided_gradient(tfm_context *ctx, tfm__gradient y, tfm_tensor x, const tfm__walk *walk) {
    if (!y.to.buffer)
        return tfm_context_status(ctx);
    const int turned = turned_dim(ctx, walk);
    for (int64_t piece = 0; piece < walk->pieces && tfm_context_status(ctx) == TFM_OK; piece++) {
        const tfm__gradient to = {tfm__walk_at(walk, 0, piece, y.to), y.add};
        const tfm_tensor from = tfm__walk_at(walk, 1, piece, x);
        if (turned < TFM__WALK_DIMS - 1)
            launch_turn(ctx, to, from, walk, turned);
        else
            launch_places(ctx, to, from, walk);
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__strided_copy(tfm_context *ctx, tfm_tensor y, tfm_tensor x, const tfm__walk *walk) {
    return tfm__strided_gradient(ctx, (tfm__gradient){y, false}, x, walk);
}
