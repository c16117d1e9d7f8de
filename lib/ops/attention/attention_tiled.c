/* Tiled attention for heads with many queries on GPU-style devices: cl/attention/attention_tiled.cl. */
#include "ops/attention/attention.h"

enum { MIN_QUERIES = 16 }; /* queries of a head; with fewer, most of a tile would be idle */

/* Converting fp16 or bf16 to fp32 takes registers too. */
static tfm__attention_tile tile_of(const tfm_context *ctx, const tfm__attention *a) {
    if (!tfm__attention_large_tiles(ctx, a))
        return tfm__attention_tile_of(ctx, a->value_width, a->k.dtype == TFM_F32 ? 32 : 16);
    tfm__attention_tile t = tfm__attention_large_tile(ctx, 64, a->value_width > 64 ? 32 : 64);
    t.q_resident = tfm__context_tuning(ctx)->attention_resident_queries;
    t.q_resident = t.q_resident && tfm__attention_tile_fits(ctx, a, t);
    return t;
}

bool tfm__attention_tiled_fits(const tfm_context *ctx, const tfm__attention *a) {
    return a->targets >= MIN_QUERIES && tfm__attention_tile_fits(ctx, a, tile_of(ctx, a));
}

/* Keys of a KV cache are split if the call has few tiles, as in a decode step. Without a cache there are as many
 * queries as keys. */
static int64_t num_splits_for(const tfm_context *ctx, const tfm__attention *a, int64_t tiles) {
    return a->paged ? tfm__attention_num_splits(ctx, a, tiles) : 1;
}

tfm_status tfm__attention_tiled(tfm_context *ctx, const tfm__attention *a) {
    const tfm__attention_tile t = tile_of(ctx, a);
    const int64_t tiles = tfm__attention_query_tiles(a, t);
    const int64_t num_splits = num_splits_for(ctx, a, tiles * a->heads * a->q.dims[0]);
    const bool aligned = a->q.offset % 4 == 0 && a->k.offset % 4 == 0 && a->v.offset % 4 == 0;
    const bool drops = tfm__dropout_enabled(&a->dropout);
    char items[TFM__ATTENTION_ITEMS];
    const int64_t all[] = {tiles * num_splits, a->heads, a->q.dims[0]};
    const float log2e = 1.44269504088896340736F;
    tfm_scope_open(ctx);
    tfm__attention_split_kv split = {.part = *a};
    if (num_splits > 1)
        split = tfm__attention_split_kv_into(ctx, a, num_splits);
    tfm__kernel *kernel = tfm__kernel_get(
        ctx, "attention_tiled", "attention_tiled",
        "-DDK=%d -DDV=%d -DROWS=%d -DQUERIES=%d -DKEYS=%d -DALIGNED=%d -DKV_DTYPE=%d%s -DSCORE_MOD=%d "
        "-DDROPOUT=%d%s%s%s%s",
        (int)a->key_width, (int)a->value_width, t.rows, t.block_m, t.block_n, aligned, (int)a->k.dtype,
        tfm__attention_q_define(a), a->soft_cap > 0 || a->mask.buffer, drops, t.q_resident ? " -DQ_RESIDENT=1" : "",
        a->paged ? " -DPAGED=1" : "", num_splits > 1 ? " -DSPLIT=1" : "", tfm__attention_items_define(items, ctx, t));
    tfm__arg args[] = {TFM__T_AS("y", split.part.y),
                       TFM__T_AS("lse", split.part.lse),
                       TFM__I_AS("write_lse", a->lse.buffer != NULL),
                       TFM__I_AS("group", a->heads / a->kv_heads),
                       TFM__I_AS("first_tile", 0),
                       TFM__I_AS("first_head", 0),
                       TFM__I_AS("first_b", 0),
                       TFM__F_AS("scale", a->soft_cap > 0 ? a->scale / a->soft_cap : a->scale * log2e),
                       TFM__F_AS("cap", a->soft_cap * log2e),
                       TFM__ATTENTION_SPLIT_ARGS(split)};
    const size_t count = TFM__COUNT(args) - (num_splits > 1 ? 0 : 3);
    tfm__attention_launch_tiles(ctx, a, kernel, t, all,
                                t.block_m * a->length / num_splits * (a->key_width + a->value_width), count, args,
                                &args[4]);
    if (num_splits > 1)
        tfm__attention_combine(ctx, a, 1, split);
    return tfm_scope_close(ctx, 0, NULL);
}
