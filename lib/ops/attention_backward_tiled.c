/* Attention backwards by tiles, on SIMT devices: cl/attention_backward_tiled.cl. */
#include "ops/attention.h"

/* What one launch computes at most, in multiplications: a device of 40 GFLOP/s does that in less than half a second, so
 * that nobody waits for a picture, and no driver takes the launch for one that hangs. */
#define LAUNCH_WORK (INT64_C(1) << 33)
enum { OWN, KEYS, QUERIES }; /* kernels by their number in the program */
enum { LEAST_GROUP = 32, MOST_WIDTH = 128, MOST_OWNED = 64, MOST_PASSING = 128, ITEM_PRODUCTS = 16 };
enum { MOST_GROUPS = 65535 }; /* of a grid in all dimensions but the first: CUDA's */

/* Owned rows of a tile, and those that come by. An item has ITEM_PRODUCTS products of one tile, and of `columns` that a
 * work-group sums up for each owned row it has `sums` at most, unless groups are small: all of them live in registers.
 */
typedef struct tile {
    int owned, passing;
} tile;

static tile tile_of(const tfm_context *ctx, int64_t columns, int64_t sums) {
    const int group = tfm__context_tuning(ctx)->group;
    tile t = {8, 0};
    while (t.owned < MOST_OWNED && t.owned * 2 * columns <= sums * group)
        t.owned *= 2;
    while (ITEM_PRODUCTS * group / t.owned > MOST_PASSING)
        t.owned *= 2;
    t.passing = ITEM_PRODUCTS * group / t.owned;
    return t;
}

/* Soft caps and masks need registers too. */
static tile key_tile(const tfm_context *ctx, const tfm__attention *a) {
    return tile_of(ctx, a->key_width + a->value_width, a->cap > 0 || a->mask.buffer ? 32 : 64);
}

static tile query_tile(const tfm_context *ctx, const tfm__attention *a) {
    return tile_of(ctx, a->key_width, 64);
}

/* Bytes of local memory, at most: what is staged, weights, two sums a query, and a little. */
static size_t local_bytes(tile t) {
    const int rows = t.owned + t.passing, staged = rows * (rows > 96 ? 5 : 9), weights = t.passing * (t.owned / 4 + 1);
    return (size_t)(staged + weights) * 4 * sizeof(float) + (size_t)MOST_PASSING * 3 * sizeof(float);
}

/* Within a sequence kernels count bytes in 32 bits. */
static bool small(const tfm__attention *a) {
    const int64_t queries = (a->targets + MOST_PASSING) * a->heads, keys = (a->length + MOST_PASSING) * a->kv_heads;
    const int64_t most = UINT32_MAX / ((int64_t)MOST_WIDTH * (int64_t)sizeof(float));
    return queries <= most && keys <= most;
}

bool tfm__attention_backward_fits(const tfm_context *ctx, const tfm__attention *a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->class != TFM__SIMT || tuning->group < LEAST_GROUP || a->key_width % 4 != 0 || a->value_width % 4 != 0 ||
        a->key_width > MOST_WIDTH || a->value_width > MOST_WIDTH || !small(a))
        return false;
    const size_t there = tfm__context_limits(ctx)->local_bytes;
    return local_bytes(key_tile(ctx, a)) <= there && local_bytes(query_tile(ctx, a)) <= there;
}

static tfm__kernel *kernel_of(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, const char *name, int pass,
                              int queries, int keys) {
    const bool aligned = a->q.offset % 4 == 0 && a->k.offset % 4 == 0 && a->v.offset % 4 == 0 && a->y.offset % 4 == 0 &&
                         dy.offset % 4 == 0;
    return tfm__kernel_get(ctx, "attention_backward_tiled", name,
                           "-DPASS=%d -DDK=%d -DDV=%d -DQUERIES=%d -DKEYS=%d -DALIGNED=%d -DSCORED=%d -DDROPS=%d", pass,
                           (int)a->key_width, (int)a->value_width, queries, keys, aligned, a->cap > 0 || a->mask.buffer,
                           tfm__dropout_on(&a->dropout));
}

/* A pass over tiles, heads and sequences, each work-group of `work` multiplications, in as many launches as that needs.
 * `first` are the arguments that say where a launch begins. */
static tfm_status launches(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel, const int64_t *all,
                           int64_t work, size_t count, tfm__arg *args, tfm__arg *first) {
    const size_t group = (size_t)tfm__context_tuning(ctx)->group;
    int64_t room = work < LAUNCH_WORK ? LAUNCH_WORK / work : 1, most[3];
    for (int i = 0; i < 3; i++) {
        most[i] = room < all[i] ? room : all[i];
        most[i] = i > 0 && most[i] > MOST_GROUPS ? MOST_GROUPS : most[i];
        room = most[i] < all[i] ? 1 : room / (all[i] ? all[i] : 1);
    }
    for (int64_t b = 0; b < all[2]; b += most[2])
        for (int64_t h = 0; h < all[1]; h += most[1])
            for (int64_t t = 0; t < all[0]; t += most[0]) {
                const int64_t from[] = {t, h, b};
                tfm__grid grid = {.local = {group, 1, 1}};
                for (int i = 0; i < 3; i++) {
                    const int64_t left = all[i] - from[i];
                    first[i].integer = from[i];
                    grid.global[i] = (size_t)(left < most[i] ? left : most[i]) * grid.local[i];
                }
                tfm__attention_enqueue(ctx, a, kernel, grid, count, args);
            }
    return tfm_context_status(ctx);
}

static tfm_status keys_pass(tfm_context *ctx, const tfm__attention *a, tfm_tensor own, tfm_tensor dy, tfm__gradient dk,
                            tfm__gradient dv) {
    const tile t = key_tile(ctx, a);
    const int64_t all[] = {tfm__divide_up(a->length, t.owned), a->kv_heads, a->q.dims[0]};
    const int64_t group = a->heads / a->kv_heads;
    if (!dk.to.buffer)
        tfm_tensor_new(ctx, &dk.to, TFM_F32, a->k.rank, a->k.dims);
    if (!dv.to.buffer)
        tfm_tensor_new(ctx, &dv.to, TFM_F32, a->v.rank, a->v.dims);
    tfm__arg args[] = {TFM__T_AS("dk", dk.to),
                       TFM__T_AS("dv", dv.to),
                       TFM__I_AS("add_k", dk.add),
                       TFM__I_AS("add_v", dv.add),
                       TFM__T(own),
                       TFM__T(dy),
                       TFM__T_AS("log_sum", a->log_sum),
                       TFM__I(group),
                       TFM__I_AS("first_tile", 0),
                       TFM__I_AS("first_head", 0),
                       TFM__I_AS("first_b", 0),
                       TFM__F_AS("scale", a->scale),
                       TFM__F_AS("cap", a->cap)};
    return launches(ctx, a, kernel_of(ctx, a, dy, "attention_backward_keys", KEYS, t.passing, t.owned), all,
                    t.owned * group * a->targets * 2 * (a->key_width + a->value_width), TFM__COUNT(args), args,
                    &args[8]);
}

static tfm_status queries_pass(tfm_context *ctx, const tfm__attention *a, tfm_tensor own, tfm_tensor dy,
                               tfm__gradient dq) {
    const tile t = query_tile(ctx, a);
    const int before =
        tfm__dropout_on(&a->dropout) ? 3 : 0; /* a head's first tile may begin so many queries before it */
    const int64_t all[] = {tfm__divide_up(a->targets + before, t.owned), a->heads, a->q.dims[0]};
    const int64_t group = a->heads / a->kv_heads;
    tfm__arg args[] = {TFM__T_AS("dq", dq.to),
                       TFM__I_AS("add_q", dq.add),
                       TFM__T(own),
                       TFM__T(dy),
                       TFM__T_AS("log_sum", a->log_sum),
                       TFM__I(group),
                       TFM__I_AS("first_tile", 0),
                       TFM__I_AS("first_head", 0),
                       TFM__I_AS("first_b", 0),
                       TFM__F_AS("scale", a->scale),
                       TFM__F_AS("cap", a->cap)};
    return launches(ctx, a, kernel_of(ctx, a, dy, "attention_backward_queries", QUERIES, t.owned, t.passing), all,
                    t.owned * a->length * (2 * a->key_width + a->value_width), TFM__COUNT(args), args, &args[6]);
}

tfm_status tfm__attention_backward_tiled(tfm_context *ctx, const tfm__attention *a, tfm_tensor dy, tfm__gradient dq,
                                         tfm__gradient dk, tfm__gradient dv) {
    const int64_t rows = a->q.dims[0] * a->heads * a->targets;
    const int group = tfm__context_tuning(ctx)->group;
    tfm_tensor own = {0};
    tfm_tensor_new(ctx, &own, TFM_F32, 3, (int64_t[]){a->q.dims[0], a->heads, a->targets});
    tfm__launch(ctx, kernel_of(ctx, a, dy, "attention_backward_own", OWN, 4, 4),
                tfm__row_grid(ctx, tfm__divide_up(rows, group)),
                TFM__ARGS(TFM__T(own), TFM__T_AS("y", a->y), TFM__T(dy), TFM__I(rows), TFM__I_AS("targets", a->targets),
                          TFM__I_AS("heads", a->heads), TFM__I_AS("heads_first", a->heads_first)));
    if (dk.to.buffer || dv.to.buffer)
        keys_pass(ctx, a, own, dy, dk, dv);
    if (dq.to.buffer)
        queries_pass(ctx, a, own, dy, dq);
    return tfm_context_status(ctx);
}
