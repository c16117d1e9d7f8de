/* Attention whose keys several work-groups share, for a step of decoding or a short prompt after a long past on SIMT
 * devices: with few queries and many keys a device would be empty for the most part. cl/attention/attention.cl. */
#include "ops/attention/attention.h"

enum { MOST_SPANS = 64, PAST_STEP = 32 };

/* Keys, at most, that any query of the call sees, from the nearest to the furthest of a sequence. Those of the past are
 * counted in steps of PAST_STEP, so that its spans grow only now and then. */
static int64_t keys_seen(const tfm__attention *a) {
    const int64_t window = a->to - a->from + a->targets - 1, end = a->to + a->targets - 1;
    int64_t seen = a->length < a->columns ? a->length : a->columns;
    if (a->paged)
        seen = tfm__ceil_div(seen, PAST_STEP) * PAST_STEP;
    seen = window < seen ? window : seen;
    return !a->aligned && end < seen ? end : seen;
}

/* As many spans as give each compute unit its work-groups, but none so short that it is not worth the sum over them. */
int64_t tfm__attention_spans(const tfm_context *ctx, const tfm__attention *a, int64_t items) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t units = tfm_context_device(ctx)->compute_units,
                  wish = (units > 0 ? units : 1) * tuning->split_workgroups;
    if (tuning->split_min_keys == 0 || items < 1 || tfm__dropout_enabled(&a->dropout) || a->log_sum.buffer)
        return 1;
    const int64_t most = keys_seen(a) / tuning->split_min_keys;
    int64_t spans = tfm__ceil_div(wish, items);
    spans = spans > most ? most : spans;
    return spans > MOST_SPANS ? MOST_SPANS : spans > 1 ? spans : 1;
}

tfm__attention_cut tfm__attention_cut_into(tfm_context *ctx, const tfm__attention *a, int64_t spans) {
    const int64_t rows = a->q.dims[0] * a->heads * a->targets;
    tfm__attention_cut cut = {
        .part = *a, .spans = spans, .span = tfm__ceil_div(keys_seen(a), spans), .query_rows = rows};
    cut.part.y = cut.part.log_sum = (tfm_tensor){0};
    tfm_tensor_new(ctx, &cut.part.y, TFM_F32, 3, (int64_t[]){spans, rows, a->value_width});
    tfm_tensor_new(ctx, &cut.part.log_sum, TFM_F32, 3, (int64_t[]){spans, rows, 2});
    return cut;
}

tfm_status tfm__attention_join(tfm_context *ctx, const tfm__attention *a, int block, tfm__attention_cut cut) {
    const int64_t count = cut.query_rows * a->value_width;
    tfm__kernel *join = tfm__attention_kernel(ctx, a, "attention", "attention_join", block, " -DSPLIT=1");
    return tfm__launch(ctx, join, tfm__element_grid(ctx, count),
                       TFM__ARGS(TFM__T_AS("y", a->y), TFM__T_AS("span_sums", cut.part.y),
                                 TFM__T_AS("tops", cut.part.log_sum), TFM__I_AS("n", count),
                                 TFM__I_AS("spans", cut.spans), TFM__I_AS("query_rows", cut.query_rows)));
}

tfm_status tfm__attention_split(tfm_context *ctx, const tfm__attention *a, int block, int64_t items, int64_t spans) {
    tfm_scope_open(ctx);
    const tfm__attention_cut cut = tfm__attention_cut_into(ctx, a, spans);
    tfm__kernel *kernel = tfm__attention_kernel(ctx, a, "attention", "attention_group", block, " -DSPLIT=1");
    tfm__attention_enqueue(ctx, &cut.part, kernel, tfm__row_grid(ctx, items * spans),
                           TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(&cut.part, items), TFM__ATTENTION_CUT_ARGS(cut)));
    tfm__attention_join(ctx, a, block, cut);
    return tfm_scope_close(ctx, 0, NULL);
}
