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

tfm_status tfm__attention_cpu(tfm_context *ctx, const tfm__attention *a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t batch = a->q.dims[0], queries = a->heads / a->kv_heads * a->targets;
    /* Transposing keys does not pay for one query. Very wide keys or accumulators would overflow a thread's stack as
     * private copies. */
    if (queries == 1 || a->key_width > tuning->attention_max_head_dim ||
        a->value_width > tuning->attention_max_head_dim) {
        const int64_t together = a->mapped ? 8 : 1; /* sequences that the kernel interleaves if keys are many */
        return tfm__attention_enqueue_forward(ctx, a, "attention_cpu_decode", "attention_cpu_decode", 1,
                                              tfm__ceil_div(batch, together) * together * a->kv_heads * queries, batch);
    }
    const int block = block_of(ctx, a);
    const int64_t items = items_of(a, block);
    return tfm__attention_enqueue_forward(ctx, a, "attention_cpu", "attention_cpu", block, items, items);
}
