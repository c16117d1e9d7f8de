/* Attention scores as an output, for inspection: cl/attention/attention_scores.cl. */
#include "ops/attention/attention.h"

tfm_status tfm__attention_scores(tfm_context *ctx, const tfm__attention *a, tfm_tensor scores,
                                 tfm_attention_stage stage) {
    const int64_t items = a->q.dims[0] * a->heads * a->targets;
    const tfm_attention_stage reached = stage == TFM_ATTENTION_WEIGHTS ? TFM_ATTENTION_MASKED : stage;
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "attention_scores", "attention_scores", "-DDK=%d -DDV=1 -DKV_DTYPE=%d%s",
                        (int)a->key_width, (int)a->k.dtype, tfm__attention_q_define(a)); /* no values are read */
    tfm__attention all = *a;
    all.dropout.rate = 0; /* the scores are inspected without dropout */
    tfm__attention_enqueue(ctx, &all, kernel, tfm__row_grid(ctx, items),
                           TFM__ARGS(TFM__T(scores), TFM__I_AS("stage", reached), TFM__I(items),
                                     TFM__F_AS("scale", a->scale), TFM__F_AS("cap", a->soft_cap)));
    return stage == TFM_ATTENTION_WEIGHTS ? tfm_softmax(ctx, &scores, scores) : tfm_context_status(ctx);
}
