/* Pooling: one vector for each sequence: cl/reduce/pool.cl. */
#include <inttypes.h>
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

#define OP "pool"

tfm_status tfm_pool(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, tfm_tensor lengths, tfm_pooling pooling,
                    int64_t first) {
    if (TFM__OP_BEGIN(ctx, OP, "fI", x, lengths) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, OP, x) != TFM_OK)
        return tfm_context_status(ctx);
    if (x.rank != 3)
        return tfm__op_error(ctx, OP, "x is %s: it must be (B, T, E)", TFM__SHAPE(x));
    if (lengths.buffer && (lengths.rank != 1 || lengths.dims[0] != x.dims[0]))
        return tfm__op_error(ctx, OP, "lengths is %s: x %s needs one for each sequence", TFM__SHAPE(lengths),
                             TFM__SHAPE(x));
    if (pooling < TFM_POOL_CLS || pooling >= TFM_POOLINGS)
        return tfm__op_error(ctx, OP, "there is no pooling number %d", (int)pooling);
    if (first < 0)
        return tfm__op_error(ctx, OP, "`first` is %" PRId64 ": it counts tokens, from 0", first);
    const int64_t dims[] = {x.dims[0], x.dims[2]}, n = dims[0] * dims[1];
    if (tfm__op_output(ctx, OP, y, TFM_F32, 2, dims) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, OP, *y, x, lengths) != TFM_OK)
        return tfm_context_status(ctx);
    return tfm__launch(ctx, tfm__kernel_get(ctx, OP, "pool", "-DTFM_POOL=%d", (int)pooling), tfm__element_grid(ctx, n),
                       TFM__ARGS(TFM__T_AS("y", *y), TFM__T(x), TFM__T(lengths), TFM__I(n),
                                 TFM__I_AS("steps", x.dims[1]), TFM__I_AS("width", x.dims[2]),
                                 TFM__I_AS("begin", first)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static double pooled(tfm_pooling pooling, const float *column, int64_t stride, int64_t length, int64_t first) {
    const int64_t from = pooling == TFM_POOL_LAST ? length - 1 : first;
    const int64_t to = pooling == TFM_POOL_CLS ? first + 1 : length;
    double sum = 0, most = -INFINITY, weights = 0;
    for (int64_t t = from; t < to; t++) {
        const double weight = pooling == TFM_POOL_WEIGHTED ? (double)(t + 1) : 1;
        sum += weight * (double)column[t * stride];
        weights += weight;
        most = fmax(most, (double)column[t * stride]);
    }
    return pooling == TFM_POOL_MAX ? most : sum / (pooling == TFM_POOL_MEAN_SQRT_LEN ? sqrt(weights) : weights);
}

static void check(tfm__check *c) {
    const int64_t batch = 3, steps = 11, width = 37, first = 1;
    const tfm_pooling pooling = (tfm_pooling)c->number;
    float *x;
    int32_t *lengths;
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, batch, steps, width), tl = RANDOM_INTS(lengths, 2, batch);
    double *want = EXPECTED(batch * width);
    for (int64_t b = 0; tfm__check_ready(c) && b < batch; b++)
        lengths[b] = (int32_t)(steps - 4 * b);
    if (tfm__check_ready(c))
        tfm_tensor_write(c->ctx, tl, lengths);
    for (int64_t i = 0; tfm__check_ready(c) && i < batch * width; i++)
        want[i] = pooled(pooling, x + i / width * steps * width + i % width, width, lengths[i / width], first);
    tfm_pool(c->ctx, &y, tx, tl, pooling, first);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_pool[] = {
    {OP, "first", check, TFM_POOL_CLS},
    {OP, "mean", check, TFM_POOL_MEAN},
    {OP, "max", check, TFM_POOL_MAX},
    {OP, "root", check, TFM_POOL_MEAN_SQRT_LEN},
    {OP, "weighted", check, TFM_POOL_WEIGHTED},
    {OP, "last", check, TFM_POOL_LAST},
    {0},
};
