/* L2 norm of a vector, such as all gradients: cl/norm/l2_norm.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

tfm_status tfm_l2_norm(tfm_context *ctx, tfm_tensor *norm, tfm_tensor x) {
    const char *op = "l2_norm";
    const int64_t chunk = 16384, one = 1;
    if (TFM__OP_BEGIN(ctx, op, "f", x) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, op, x) != TFM_OK ||
        tfm__op_output(ctx, op, norm, TFM_F32, 1, &one) != TFM_OK || TFM__OP_NO_OVERLAP(ctx, op, *norm, x) != TFM_OK)
        return tfm_context_status(ctx);
    const int64_t n = (int64_t)tfm_tensor_count(x), chunks = tfm__ceil_div(n, chunk);
    tfm_tensor partial = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &partial, TFM_F32, 1, &chunks);
    tfm__launch(ctx, tfm__kernel_get(ctx, op, "l2_norm_partial", ""), tfm__row_grid(ctx, chunks),
                TFM__ARGS(TFM__T(partial), TFM__T(x), TFM__I(n), TFM__I(chunk)));
    tfm__launch(ctx, tfm__kernel_get(ctx, op, "l2_norm_final", ""), tfm__row_grid(ctx, 1),
                TFM__ARGS(TFM__T_AS("norm", *norm), TFM__T(partial), TFM__I(chunks)));
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t n = 40000;
    float *x;
    tfm_tensor norm = {0}, tx = RANDOM_FLOATS(x, n);
    double *want = EXPECTED(1), sum = 0;
    for (int64_t i = 0; tfm__check_ready(c) && i < n; i++)
        sum += (double)x[i] * (double)x[i];
    want[0] = sqrt(sum);
    tfm_l2_norm(c->ctx, &norm, tx);
    tfm__check_compare(c, norm, want);
}

const tfm__check_entry tfm__selftest_l2_norm[] = {
    {"l2_norm", "", check, 0},
    {0},
};
