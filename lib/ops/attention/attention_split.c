/* Split-KV attention for a decode step or a short prompt after a long past on GPU-style devices: a few queries alone
 * would leave most compute units idle. cl/attention/attention.cl. */
#include "ops/attention/attention.h"

enum { MAX_SPLITS = 64, PAST_STEP = 32 };

/* Upper bound of the keys that a query sees. The past is rounded up to PAST_STEP, so that the number of splits changes
 * rarely. */
static int64_t keys_seen(const tfm__attention *a) {
    const int64_t window = a->to - a->from + a->targets - 1, end = a->to + a->targets - 1;
    int64_t seen = a->length < a->columns ? a->length : a->columns;
    if (a->paged)
        seen = tfm__ceil_div(seen, PAST_STEP) * PAST_STEP;
    seen = window < seen ? window : seen;
    return !a->bottom_right && end < seen ? end : seen;
}

/* Enough splits to fill each compute unit, but none too short to pay for the final reduction. */
int64_t tfm__attention_num_splits(const tfm_context *ctx, const tfm__attention *a, int64_t items) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t units = tfm_context_device(ctx)->compute_units,
                  target = (units > 0 ? units : 1) * tuning->split_workgroups;
    if (tuning->split_min_keys == 0 || items < 1 || tfm__dropout_enabled(&a->dropout) || a->lse.buffer)
        return 1;
    const int64_t most = keys_seen(a) / tuning->split_min_keys;
    int64_t num_splits = tfm__ceil_div(target, items);
    num_splits = num_splits > most ? most : num_splits;
    return num_splits > MAX_SPLITS ? MAX_SPLITS : num_splits > 1 ? num_splits : 1;
}

tfm__attention_split_kv tfm__attention_split_kv_into(tfm_context *ctx, const tfm__attention *a, int64_t num_splits) {
    const int64_t rows = a->q.dims[0] * a->heads * a->targets;
    tfm__attention_split_kv split = {.part = *a,
                                     .num_splits = num_splits,
                                     .split_size = tfm__ceil_div(keys_seen(a), num_splits),
                                     .query_rows = rows};
    split.part.y = split.part.lse = (tfm_tensor){0};
    tfm_tensor_new(ctx, &split.part.y, TFM_F32, 3, (int64_t[]){num_splits, rows, a->value_width});
    tfm_tensor_new(ctx, &split.part.lse, TFM_F32, 3, (int64_t[]){num_splits, rows, 2});
    return split;
}

tfm_status tfm__attention_combine(tfm_context *ctx, const tfm__attention *a, int block, tfm__attention_split_kv split) {
    const int64_t count = split.query_rows * a->value_width;
    tfm__kernel *join = tfm__attention_kernel(ctx, a, "attention", "attention_combine", block, " -DSPLIT=1");
    return tfm__launch(ctx, join, tfm__element_grid(ctx, count),
                       TFM__ARGS(TFM__T_AS("y", a->y), TFM__T_AS("partial_y", split.part.y),
                                 TFM__T_AS("partial_lse", split.part.lse), TFM__I_AS("n", count),
                                 TFM__I_AS("num_splits", split.num_splits), TFM__I_AS("query_rows", split.query_rows)));
}

tfm_status tfm__attention_split(tfm_context *ctx, const tfm__attention *a, int block, int64_t items,
                                int64_t num_splits) {
    tfm_scope_open(ctx);
    const tfm__attention_split_kv split = tfm__attention_split_kv_into(ctx, a, num_splits);
    tfm__kernel *kernel = tfm__attention_kernel(ctx, a, "attention", "attention_gpu", block, " -DSPLIT=1");
    tfm__attention_enqueue(ctx, &split.part, kernel, tfm__row_grid(ctx, items * num_splits),
                           TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(&split.part, items), TFM__ATTENTION_SPLIT_ARGS(split)));
    tfm__attention_combine(ctx, a, block, split);
    return tfm_scope_close(ctx, 0, NULL);
}
