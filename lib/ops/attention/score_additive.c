/* Additive (Bahdanau) attention scores: cl/attention/score_additive.cl. */
#include <math.h>
#include "ops/selftest/selftest.h"
#include "ops/autograd/tape.h"

tfm_status tfm_score_additive(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_tensor k, tfm_tensor v) {
    const char *op = "score_additive";
    if (TFM__OP_BEGIN(ctx, op, "fff", q, k, v) != TFM_OK || TFM__TAPE_NO_BACKWARD(ctx, op, q, k, v) != TFM_OK)
        return tfm_context_status(ctx);
    if (q.rank != 3 || k.rank != 3 || v.rank != 1 || q.dims[0] != k.dims[0] || q.dims[2] != k.dims[2] ||
        v.dims[0] != q.dims[2])
        return tfm__op_error(ctx, op, "q is %s, k %s and v %s: they must be (B, T, A), (B, S, A) and (A)",
                             TFM__SHAPE(q), TFM__SHAPE(k), TFM__SHAPE(v));
    const int64_t B = q.dims[0], T = q.dims[1], S = k.dims[1], A = q.dims[2];
    if (tfm__op_output(ctx, op, scores, TFM_F32, 3, (int64_t[]){B, T, S}) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *scores, q, k, v) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t keys = tuning->width > 1 ? 64 : tuning->group, queries = tuning->width > 1 ? 1 : 4;
    const int64_t items = B * tfm__ceil_div(T, queries) * tfm__ceil_div(S, keys);
    return tfm__launch(ctx, tfm__kernel_get(ctx, op, "score_additive", "-DKEYS=%d", (int)keys),
                       tfm__row_grid(ctx, items),
                       TFM__ARGS(TFM__T_AS("scores", *scores), TFM__T(q), TFM__T(k), TFM__T(v), TFM__I(items),
                                 TFM__I(T), TFM__I(S), TFM__I(A)));
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t B = 2, T = 5, S = 67, A = 37;
    float *q, *k, *v;
    tfm_tensor y = {0}, tq = RANDOM_FLOATS(q, B, T, A), tk = RANDOM_FLOATS(k, B, S, A), tv = RANDOM_FLOATS(v, A);
    double *want = EXPECTED(B * T * S);
    for (int64_t i = 0; tfm__check_ready(c) && i < B * T * S * A; i++) {
        const int64_t a = i % A, s = i / A % S, row = i / A / S;
        want[i / A] += (double)v[a] * tanh((double)q[row * A + a] + (double)k[(row / T * S + s) * A + a]);
    }
    tfm_score_additive(c->ctx, &y, tq, tk, tv);
    tfm__check_compare(c, y, want);
}

const tfm__check_entry tfm__selftest_score_additive[] = {
    {"score_additive", "", check, 0},
    {0},
};
