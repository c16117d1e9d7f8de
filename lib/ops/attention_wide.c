/* Attention on wide devices: cl/attention_wide.cl, cl/attention_query.cl. */
#include "ops/attention.h"

/* Queries of one work-item that transposes keys for all of them. */
static int block_of(const tfm__tuning *tuning, const tfm__attention *a) {
    const tfm__attention_block *block = tuning->attention_blocks, *last = block + TFM__ATTENTION_BLOCKS - 1;
    while (block < last && a->key_width + a->value_width > block->most_width)
        block++;
    return block->queries;
}

tfm_status tfm__attention_wide(tfm_context *ctx, const tfm__attention *a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t batch = a->q.dims[0], queries = a->heads / a->kv_heads * a->targets;
    /* Keys are not worth transposing for one query, nor are private copies of very wide ones or of the sums of
     * very wide values: a thread's stack would not hold them. */
    if (queries == 1 || a->key_width > tuning->attention_widest || a->value_width > tuning->attention_widest) {
        const int64_t beside = a->mapped ? 8 : 1; /* the kernel takes so many sequences side by side */
        return tfm__attention_fused(ctx, a, "attention_query", "attention_query", 1,
                                    tfm__divide_up(batch, beside) * beside * a->kv_heads * queries, batch);
    }
    const int block = block_of(tuning, a);
    const int64_t items = batch * a->kv_heads * tfm__divide_up(queries, block);
    return tfm__attention_fused(ctx, a, "attention_wide", "attention_block", block, items, items);
}
