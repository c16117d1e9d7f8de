/* Attention on CPU-style devices: cl/attention/attention_cpu.cl, cl/attention/attention_cpu_decode.cl. */
#include "ops/attention/attention.h"

/* Queries of a work-item's block. */
static int64_t items_of(const tfm__attention *a, int block) {
    return a->q.dims[0] * a->kv_heads * tfm__ceil_div(a->heads / a->kv_heads * a->targets, block);
}

/* Queries of a work-item that transposes keys once for all of them. Results do not depend on this number. */
static int block_of(tfm_context *ctx, const tfm__attention *a) {
    enum { EACH = 4 }; /* work-items of a core, for load balance */
    const tfm__attention_block *block = tfm__context_tuning(ctx)->attention_blocks,
                               *last = block + TFM__ATTENTION_BLOCKS - 1;
    const int64_t cores = tfm_context_device(ctx)->compute_units;
    while (block < last && a->key_width + a->value_width > block->max_head_dim)
        block++;
    const bool several = a->heads / a->kv_heads * a->targets > block->queries_large;
    return several && items_of(a, block->queries_large) >= EACH * cores ? block->queries_large : block->queries;
}

/* Keys of a work-item of the decode kernel. Spans are the same for any batch and device, so results are too. */
enum { SPAN = 128, MAX_TOGETHER = 8, MAX_PRIVATE = 1024 };

/* The decode kernel with `block` queries for each load of a key. Keys of long texts are split over work-items, which
 * one text alone would not give to all cores. */
static tfm_status decode(tfm_context *ctx, const tfm__attention *a, int block) {
    const int64_t batch = a->q.dims[0], queries = a->heads / a->kv_heads * a->targets;
    const int64_t together = a->mapped ? 8 : 1; /* sequences that the kernel interleaves if keys are many */
    const int64_t items = tfm__ceil_div(batch, together) * together * a->kv_heads * tfm__ceil_div(queries, block);
    const int64_t window = tfm__ceil_div((int64_t)a->to - a->from, SPAN) + 1, all = tfm__ceil_div(a->length, SPAN),
                  spans = window < all ? window : all;
    const bool split = spans > 1 && !a->lse.buffer && !tfm__dropout_enabled(&a->dropout);
    tfm__kernel *kernel = tfm__attention_kernel(ctx, a, "attention_cpu_decode", "attention_cpu_decode", block, "");
    if (!split)
        return tfm__attention_enqueue(
            ctx, a, kernel, tfm__row_grid(ctx, items),
            TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(a, batch), TFM__I_AS("span", 0), TFM__I_AS("spans", 1)));
    const int64_t rows = batch * a->heads * a->targets;
    tfm__attention part = *a;
    part.y = part.lse = (tfm_tensor){0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &part.y, TFM_F32, 3, (int64_t[]){spans, rows, a->value_width});
    tfm_tensor_new(ctx, &part.lse, TFM_F32, 3, (int64_t[]){spans, rows, 2});
    tfm__attention_enqueue(
        ctx, &part, kernel, tfm__row_grid(ctx, items * spans),
        TFM__ARGS(TFM__ATTENTION_FUSED_ARGS(&part, batch), TFM__I_AS("span", SPAN), TFM__I_AS("spans", spans)));
    tfm__kernel *combine = tfm__attention_kernel(ctx, a, "attention_cpu_decode", "attention_cpu_combine", block, "");
    tfm__launch(ctx, combine, tfm__row_grid(ctx, rows),
                TFM__ARGS(TFM__T_AS("y", a->y), TFM__T_AS("partial_y", part.y), TFM__T_AS("partial_lse", part.lse),
                          TFM__I_AS("rows", rows), TFM__I_AS("spans", spans)));
    return tfm_scope_close(ctx, 0, NULL);
}

tfm_status tfm__attention_cpu(tfm_context *ctx, const tfm__attention *a) {
    const int64_t widest = tfm__context_tuning(ctx)->attention_max_head_dim, group = a->heads / a->kv_heads;
    /* Transposing keys does not pay for the queries of one token. Very wide keys or accumulators would overflow a
     * thread's stack as private copies. */
    if (a->targets == 1 && a->key_width + a->value_width <= MAX_PRIVATE)
        return decode(ctx, a, (int)tfm__ceil_div(group, tfm__ceil_div(group, MAX_TOGETHER)));
    if (group * a->targets == 1 || a->key_width > widest || a->value_width > widest)
        return decode(ctx, a, 1);
    const int block = block_of(ctx, a);
    const int64_t items = items_of(a, block);
    return tfm__attention_enqueue_forward(ctx, a, "attention_cpu", "attention_cpu", block, items, items);
}
