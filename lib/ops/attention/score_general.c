/* General (Luong) attention scores: one GEMM with the weight, one with the keys. */
#include "ops/selftest/selftest.h"

tfm_status tfm_score_general(tfm_context *ctx, tfm_tensor *scores, tfm_tensor q, tfm_param *weight, tfm_tensor k) {
    const char *op = "score_general";
    const tfm_tensor w = weight ? weight->value : (tfm_tensor){0};
    if (TFM__OP_BEGIN(ctx, op, "ffF", q, k, w) != TFM_OK)
        return tfm_context_status(ctx);
    if (q.rank != 3 || k.rank != 3 || q.dims[0] != k.dims[0])
        return tfm__op_error(ctx, op, "q is %s and k %s: they must be (B, T, dq) and (B, S, dk)", TFM__SHAPE(q),
                             TFM__SHAPE(k));
    if (w.buffer && (w.rank != 2 || w.dims[0] != k.dims[2] || w.dims[1] != q.dims[2]))
        return tfm__op_error(ctx, op, "weight is %s, q %s and k %s: weight must be (dk, dq)", TFM__SHAPE(w),
                             TFM__SHAPE(q), TFM__SHAPE(k));
    if (!w.buffer && q.dims[2] != k.dims[2])
        return tfm__op_error(ctx, op, "q is %s and k %s: without a weight they must be equally wide", TFM__SHAPE(q),
                             TFM__SHAPE(k));
    if (tfm__op_output(ctx, op, scores, TFM_F32, 3, (int64_t[]){q.dims[0], q.dims[1], k.dims[1]}) != TFM_OK ||
        TFM__OP_NO_OVERLAP(ctx, op, *scores, q, k, w) != TFM_OK || tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    tfm_tensor turned = {0};
    if (w.buffer)
        tfm_linear(ctx, &turned, q, weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    tfm_gemm(ctx, scores, w.buffer ? turned : q, k, &(tfm_gemm_options){.transpose_b = true});
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

static void check(tfm__check *c) {
    const int64_t B = 2, T = 5, S = 37, dq = 17, dk = 33;
    float *q, *k, *w;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tq = RANDOM_FLOATS(q, B, T, dq), tk = RANDOM_FLOATS(k, B, S, dk);
    weight.value = RANDOM_FLOATS(w, dk, dq);
    double *want = EXPECTED(B * T * S);
    for (int64_t i = 0; tfm__check_ready(c) && i < B * T * S * dk * dq; i++) {
        const int64_t m = i % dq, n = i / dq % dk, at = i / dq / dk, row = at / S, key = row / T * S + at % S;
        want[at] += (double)q[row * dq + m] * (double)w[n * dq + m] * (double)k[key * dk + n];
    }
    tfm_score_general(c->ctx, &y, tq, &weight, tk);
    tfm__check_compare(c, y, want);
    tfm_param_free(c->ctx, &weight);
}

const tfm__check_entry tfm__selftest_score_general[] = {
    {"score_general", "", check, 0},
    {0},
};
