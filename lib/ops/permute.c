/* Dimensions in another order: a strided copy, cl/strided.cl. */
#include "ops/selftest.h"
#include "ops/strided.h"
#include "ops/tape.h"

tfm_status tfm_permute(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes) {
    const char *op = "permute";
    if (TFM_OP_BEGIN(ctx, op, "*", x) != TFM_OK || TFM_TAPE_NONE(ctx, op, x) != TFM_OK)
        return tfm_context_status(ctx);
    int64_t dims[TFM_MAX_RANK], dense[TFM_MAX_RANK], to[TFM_MAX_RANK], from[TFM_MAX_RANK];
    unsigned seen = 0;
    tfm__dense_strides(dense, x.rank, x.dims);
    for (int i = 0; i < x.rank; i++) {
        if (!axes || axes[i] < 0 || axes[i] >= x.rank || (seen & 1u << axes[i]))
            return tfm__op_refuse(ctx, op, "the axes must be those of %s, 0 to %d, each once", TFM_SHAPE(x),
                                  x.rank - 1);
        seen |= 1u << axes[i];
        dims[i] = x.dims[axes[i]];
        from[i] = dense[axes[i]];
    }
    if (tfm__op_output(ctx, op, y, x.dtype, x.rank, dims) != TFM_OK || TFM_OP_APART(ctx, op, *y, x) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__dense_strides(to, x.rank, dims);
    const tfm__walk walk = tfm__walk_make(x.rank, dims, 2, (const int64_t *const[]){to, from});
    return tfm__strided_copy(ctx, *y, x, &walk);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t a = 3, b = 5, d = 17;
    float *x;
    tfm_tensor y = {0}, tx = FLOATS(x, a, b, d);
    double *want = WANTED(a * b * d);
    for (int64_t i = 0; tfm__check_ready(c) && i < a * b * d; i++)
        want[(i % d * a + i / d / b) * b + i / d % b] = (double)x[i];
    tfm_permute(c->ctx, &y, tx, (int[]){2, 0, 1});
    tfm__check_judge(c, y, want);
}

const tfm__check_entry tfm__selftest_permute[] = {
    {"permute", "", check, 0},
    {0},
};
