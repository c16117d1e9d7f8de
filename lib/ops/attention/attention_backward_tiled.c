/* Tiled backward pass of attention on GPU-style devices: cl/attention/attention_backward_tiled.cl. */
#include "ops/attention/attention.h"

enum { DELTA, KEYS, QUERIES }; /* kernels, by their number in the program */

/* Whether the register file is small and cannot be enlarged: items then have half as many accumulators, and the widest
 * heads are left to attention_backward.c. */
static bool is_narrow(const tfm_context *ctx) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return tuning->gemm_register_floats > 0 && !tuning->large_grf_option;
}
enum { MAX_NARROW = 256 }; /* of both widths */

static int most_sums(const tfm_context *ctx) {
    return is_narrow(ctx) ? 32 : 64;
}

/* Soft caps, masks and dropout also take registers; with more rows they would halve the items of a core. */
static tfm__attention_tile key_tile(const tfm_context *ctx, const tfm__attention *a) {
    const bool scored = a->soft_cap > 0 || a->mask.buffer, plain = !scored && !tfm__dropout_enabled(&a->dropout);
    return plain && tfm__attention_large_tiles(ctx, a)
               ? tfm__attention_large_tile(ctx, 32, a->key_width + a->value_width > 128 ? 128 : 64)
               : tfm__attention_tile_of(ctx, a->key_width + a->value_width, scored ? 32 : most_sums(ctx));
}

static tfm__attention_tile query_tile(const tfm_context *ctx, const tfm__attention *a) {
    return tfm__attention_large_tiles(ctx, a) ? tfm__attention_large_tile(ctx, 32, 64)
                                              : tfm__attention_tile_of(ctx, a->key_width, most_sums(ctx));
}

bool tfm__attention_backward_fits(const tfm_context *ctx, const tfm__attention *a) {
    return !(is_narrow(ctx) && a->key_width + a->value_width > MAX_NARROW) &&
           tfm__attention_tile_fits(ctx, a, key_tile(ctx, a)) && tfm__attention_tile_fits(ctx, a, query_tile(ctx, a));
}

static tfm__kernel *kernel_of(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, const char *name, int pass,
                              tfm__attention_tile t, int queries, int keys) {
    char items[TFM__ATTENTION_ITEMS];
    const char *more = tfm__context_tuning(ctx)->large_grf_option; /* accumulators fill the tile */
    const bool aligned = a->q.offset % 4 == 0 && a->k.offset % 4 == 0 && a->v.offset % 4 == 0 && a->y.offset % 4 == 0 &&
                         dy.offset % 4 == 0;
    return tfm__kernel_get(
        ctx, "attention_backward_tiled", name,
        "-DPASS=%d -DDK=%d -DDV=%d -DROWS=%d -DQUERIES=%d -DKEYS=%d -DALIGNED=%d -DSCORE_MOD=%d -DDROPOUT=%d%s%s", pass,
        (int)a->key_width, (int)a->value_width, t.rows, queries, keys, aligned, a->soft_cap > 0 || a->mask.buffer,
        tfm__dropout_enabled(&a->dropout), tfm__attention_items_define(items, ctx, t),
        more && pass != DELTA ? more : "");
}

static tfm_status keys_pass(tfm_context *ctx, const tfm__attention *a, tfm_tensor delta, tfm_tensor dy,
                            tfm__gradient dk, tfm__gradient dv) {
    const tfm__attention_tile t = key_tile(ctx, a);
    const int64_t all[] = {tfm__ceil_div(a->length, t.block_m), a->kv_heads, a->q.dims[0]};
    const int64_t group = a->heads / a->kv_heads;
    if (!dk.to.buffer)
        tfm_tensor_new(ctx, &dk.to, TFM_F32, a->k.rank, a->k.dims);
    if (!dv.to.buffer)
        tfm_tensor_new(ctx, &dv.to, TFM_F32, a->v.rank, a->v.dims);
    tfm__arg args[] = {TFM__T_AS("dk", dk.to),       TFM__T_AS("dv", dv.to),  TFM__I_AS("add_k", dk.add),
                       TFM__I_AS("add_v", dv.add),   TFM__T(delta),           TFM__T(dy),
                       TFM__T_AS("lse", a->lse),     TFM__I(group),           TFM__I_AS("first_tile", 0),
                       TFM__I_AS("first_head", 0),   TFM__I_AS("first_b", 0), TFM__F_AS("scale", a->scale),
                       TFM__F_AS("cap", a->soft_cap)};
    return tfm__attention_launch_tiles(
        ctx, a, kernel_of(ctx, a, dy, "attention_backward_keys", KEYS, t, t.block_n, t.block_m), t, all,
        t.block_m * group * a->targets * 2 * (a->key_width + a->value_width), TFM__COUNT(args), args, &args[8]);
}

static tfm_status queries_pass(tfm_context *ctx, const tfm__attention *a, tfm_tensor delta, tfm_tensor dy,
                               tfm__gradient dq) {
    const tfm__attention_tile t = query_tile(ctx, a);
    const int64_t all[] = {tfm__attention_query_tiles(a, t), a->heads, a->q.dims[0]};
    const int64_t group = a->heads / a->kv_heads;
    tfm__arg args[] = {TFM__T_AS("dq", dq.to),
                       TFM__I_AS("add_q", dq.add),
                       TFM__T(delta),
                       TFM__T(dy),
                       TFM__T_AS("lse", a->lse),
                       TFM__I(group),
                       TFM__I_AS("first_tile", 0),
                       TFM__I_AS("first_head", 0),
                       TFM__I_AS("first_b", 0),
                       TFM__F_AS("scale", a->scale),
                       TFM__F_AS("cap", a->soft_cap)};
    return tfm__attention_launch_tiles(
        ctx, a, kernel_of(ctx, a, dy, "attention_backward_queries", QUERIES, t, t.block_m, t.block_n), t, all,
        t.block_m * a->length * (2 * a->key_width + a->value_width), TFM__COUNT(args), args, &args[6]);
}

tfm_status tfm__attention_backward_tiled(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient dq,
                                         tfm__gradient dk, tfm__gradient dv) {
    const int64_t rows = a->q.dims[0] * a->heads * a->targets;
    const int group = tfm__context_tuning(ctx)->group;
    tfm_tensor delta = {0};
    tfm_tensor_new(ctx, &delta, TFM_F32, 3, (int64_t[]){a->q.dims[0], a->heads, a->targets});
    tfm__launch(ctx, kernel_of(ctx, a, dy, "attention_backward_delta", DELTA, tfm__attention_tile_of(ctx, 4, 4), 4, 4),
                tfm__row_grid(ctx, tfm__ceil_div(rows, group)),
                TFM__ARGS(TFM__T(delta), TFM__T_AS("y", a->y), TFM__T(dy), TFM__I(rows),
                          TFM__I_AS("targets", a->targets), TFM__I_AS("heads", a->heads),
                          TFM__I_AS("heads_first", a->heads_first)));
    if (dk.to.buffer || dv.to.buffer)
        keys_pass(ctx, a, delta, dy, dk, dv);
    if (dq.to.buffer)
        queries_pass(ctx, a, delta, dy, dq);
    return tfm_context_status(ctx);
}
