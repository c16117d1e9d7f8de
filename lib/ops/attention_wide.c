/* Attention on wide devices: cl/attention_wide.cl, cl/attention_query.cl. */
#include "ops/attention.h"

/* Queries of one work-item that transposes keys for all of them: as many as leave its state in the first
 * caches. */
static int block_of(const tfm__attention *a) {
    const int64_t width = a->key_width + a->value_width;
    return width <= 256 ? 64 : width <= 1024 ? 16 : 8;
}

tfm_status tfm__attention_wide(tfm_context *ctx, const tfm__attention *a) {
    const int64_t batch = a->q.dims[0], queries = a->heads / a->kv_heads * a->targets;
    /* Keys are not worth transposing for one query, nor are private copies of very wide ones or of the sums of
     * very wide values: a thread's stack would not hold them. */
    if (queries == 1 || a->key_width > 4096 || a->value_width > 4096) {
        const int64_t row = a->mapped ? 8 : 1; /* the kernel takes so many sequences side by side */
        return tfm__attention_fused(ctx, a, "attention_query", "attention_query", 1,
                                     (batch + row - 1) / row * row * a->kv_heads * queries, batch);
    }
    const int block = block_of(a);
    const int64_t items = batch * a->kv_heads * ((queries + block - 1) / block);
    return tfm__attention_fused(ctx, a, "attention_wide", "attention_block", block, items, items);
}
