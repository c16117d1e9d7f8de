/* Attention whose keys several work-groups share, for a step of decoding on SIMT devices: with few queries and many
 * keys a device would be empty for the most part. cl/attention.cl. */
#include "ops/attention.h"

enum { MOST_SPANS = 64 };

/* Keys, at most, that any query of the call sees, from the nearest to the furthest of a sequence. Those of the past are
 * counted in steps, so that a text is cut alike whether its table has room for more or not. */
static int64_t keys_seen(const tfm__attention *a) {
    const int64_t window = a->to - a->from + a->targets - 1, end = a->to + a->targets - 1;
    int64_t seen = a->length < a->columns ? a->length : a->columns;
    if (a->paged)
        seen = tfm__divide_up(seen, TFM__TABLE_ROOM) * TFM__TABLE_ROOM;
    seen = window < seen ? window : seen;
    return !a->aligned && end < seen ? end : seen;
}

/* As many spans as give each compute unit its work-groups, but none so short that it is not worth the sum over them. */
int64_t tfm__attention_spans(const tfm_context *ctx, const tfm__attention *a, int64_t items) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t units = tfm_context_device(ctx)->compute_units, wish = (units > 0 ? units : 1) * tuning->split_groups;
    if (tuning->split_keys == 0 || items < 1 || tfm__dropout_on(&a->dropout) || a->log_sum.buffer)
        return 1;
    const int64_t most = keys_seen(a) / tuning->split_keys;
    int64_t spans = tfm__divide_up(wish, items);
    spans = spans > most ? most : spans;
    return spans > MOST_SPANS ? MOST_SPANS : spans > 1 ? spans : 1;
}

tfm_status tfm__attention_split(tfm_context *ctx, const tfm__attention *a, int block, int64_t items, int64_t spans) {
    const int64_t rows = a->q.dims[0] * a->heads * a->targets, count = rows * a->value_width;
    const int64_t span = tfm__divide_up(keys_seen(a), spans);
    tfm__attention part = *a;
    part.y = part.log_sum = (tfm_tensor){0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &part.y, TFM_F32, 3, (int64_t[]){spans, rows, a->value_width});
    tfm_tensor_new(ctx, &part.log_sum, TFM_F32, 3, (int64_t[]){spans, rows, 2});
    tfm__kernel *kernel = tfm__attention_kernel(ctx, a, "attention", "attention_group", block, " -DSPLIT=1");
    tfm__kernel *join = tfm__attention_kernel(ctx, a, "attention", "attention_join", block, " -DSPLIT=1");
    tfm__attention_enqueue(
        ctx, &part, kernel, tfm__row_grid(ctx, items * spans),
        TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(&part, items), TFM__I(spans), TFM__I(span), TFM__I_AS("query_rows", rows)));
    tfm__launch(ctx, join, tfm__element_grid(ctx, count),
                TFM__ARGS(TFM__T_AS("y", a->y), TFM__T_AS("span_sums", part.y), TFM__T_AS("tops", part.log_sum),
                          TFM__I_AS("n", count), TFM__I(spans), TFM__I_AS("query_rows", rows)));
    return tfm_scope_close(ctx, 0, NULL);
}
