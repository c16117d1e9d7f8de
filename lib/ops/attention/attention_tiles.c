/* Tiles of attention on GPU-style devices: sizes, resource limits and bounded launches.
 * cl/attention/attention_tiles.cl. */
#include <stdio.h>
#include "ops/attention/attention.h"

/* Limit of one launch in multiply-adds: a device of 40 GFLOP/s computes LAUNCH_WORK in less than half a second, and a
 * compute unit of 3 GFLOP/s its UNIT_WORK. So a desktop stays responsive and no driver's watchdog fires. Devices with
 * many units get more, since a launch that cannot fill them leaves units idle. */
#define LAUNCH_WORK (INT64_C(1) << 33)
#define UNIT_WORK (INT64_C(1) << 29)
enum { MIN_GROUP = 32, MAX_WIDTH = 256, LARGE_TILE_WIDTH = 128, MAX_BLOCK_M = 64, MAX_BLOCK_N = 128, ITEM_KEYS = 4 };
enum { MAX_GROUPS = 65535 }; /* grid limit of CUDA in every dimension except the first */
/* Least work-group size and local memory of a device whose items take more than TFM__ATTENTION_ROWS rows. */
enum { LARGE_TILE_GROUP = 128, LARGE_TILE_LOCAL = 36 << 10 };

int64_t tfm__attention_launch_macs(const tfm_context *ctx) {
    const int64_t said = tfm__context_tuning(ctx)->attention_max_launch_macs;
    const int64_t units = (int64_t)tfm_context_device(ctx)->compute_units * UNIT_WORK;
    return said > 0 ? said : units > LAUNCH_WORK ? units : LAUNCH_WORK;
}

bool tfm__attention_large_tiles(const tfm_context *ctx, const tfm__attention *a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t least = tuning->attention_tile_min_rows;
    const bool narrow = a->key_width <= LARGE_TILE_WIDTH && a->value_width <= LARGE_TILE_WIDTH; /* sums in registers */
    return narrow && tuning->attention_tile_rows > TFM__ATTENTION_ROWS && a->targets >= least && a->length >= least &&
           tuning->group >= LARGE_TILE_GROUP && tfm__context_limits(ctx)->local_bytes >= LARGE_TILE_LOCAL;
}

tfm__attention_tile tfm__attention_tile_of(const tfm_context *ctx, int64_t columns, int64_t sums) {
    const int group = tfm__context_tuning(ctx)->group, products = TFM__ATTENTION_ROWS * ITEM_KEYS * group;
    tfm__attention_tile t = {.block_m = 2 * TFM__ATTENTION_ROWS, .rows = TFM__ATTENTION_ROWS, .group = group};
    while (t.block_m < MAX_BLOCK_M && t.block_m * 2 * columns <= sums * group)
        t.block_m *= 2;
    while (products / t.block_m > MAX_BLOCK_N)
        t.block_m *= 2;
    t.block_n = products / t.block_m;
    return t;
}

tfm__attention_tile tfm__attention_large_tile(const tfm_context *ctx, int block_m, int block_n) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    return (tfm__attention_tile){.block_m = block_m,
                                 .block_n = block_n,
                                 .rows = tuning->attention_tile_rows,
                                 .group = block_m * block_n / (ITEM_KEYS * tuning->attention_tile_rows)};
}

const char *tfm__attention_items_define(char text[TFM__ATTENTION_ITEMS], const tfm_context *ctx,
                                        tfm__attention_tile t) {
    text[0] = '\0';
    if (t.group != tfm__context_tuning(ctx)->group)
        snprintf(text, TFM__ATTENTION_ITEMS, " -DITEMS=%d", t.group);
    return text;
}

/* Upper bound of local memory in bytes: staged keys, weights, two sums a query and some more, plus resident queries. */
static size_t local_bytes(const tfm__attention *a, tfm__attention_tile t) {
    const int64_t rows = t.block_n + (t.q_resident ? 0 : t.block_m), staged = rows * (rows > 96 ? 5 : 9);
    const int64_t weights = t.block_n * (t.block_m / 4 + 1 + (t.rows > TFM__ATTENTION_ROWS));
    const int64_t kept = t.q_resident ? t.block_m * (tfm__ceil_div(a->key_width, 16) * 4 + 1) : 0;
    return (size_t)(staged + weights + kept) * 4 * sizeof(float) + (size_t)MAX_BLOCK_N * 3 * sizeof(float);
}

bool tfm__attention_tile_fits(const tfm_context *ctx, const tfm__attention *a, tfm__attention_tile t) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    /* Byte offsets within a sequence, and within a paged KV cache, are 32 bits in the kernels. */
    const int64_t queries = (a->targets + MAX_BLOCK_N) * a->heads;
    const int64_t keys = a->paged ? a->k.dims[0] : a->length + MAX_BLOCK_N;
    const int64_t widest = a->key_width > a->value_width ? a->key_width : a->value_width;
    const int64_t span = tfm__kv_span(a->k.dtype, widest);
    return tuning->class == TFM__CLASS_GPU && tuning->group >= MIN_GROUP && a->key_width % 4 == 0 &&
           a->value_width % 4 == 0 && a->key_width <= MAX_WIDTH && a->value_width <= MAX_WIDTH &&
           queries <= UINT32_MAX / (widest * (int64_t)sizeof(float)) &&
           keys <= UINT32_MAX / (span * a->kv_heads * (int64_t)tfm_dtype_size(a->k.dtype)) &&
           local_bytes(a, t) <= tfm__context_limits(ctx)->local_bytes;
}

tfm_status tfm__attention_launch_tiles(tfm_context *ctx, const tfm__attention *a, tfm__kernel *kernel,
                                       tfm__attention_tile t, const int64_t *all, int64_t work, size_t count,
                                       tfm__arg *args, tfm__arg *first) {
    const size_t group = (size_t)t.group;
    const int64_t bound = tfm__attention_launch_macs(ctx);
    int64_t room = work < bound ? bound / (work + 1) : 1, most[3];
    for (int i = 0; i < 3; i++) {
        most[i] = room < all[i] ? room : all[i];
        most[i] = i > 0 && most[i] > MAX_GROUPS ? MAX_GROUPS : most[i];
        room = most[i] < all[i] || all[i] == 0 ? 1 : room / all[i];
    }
    for (int64_t b = 0; b < all[2]; b += most[2])
        for (int64_t h = 0; h < all[1]; h += most[1])
            for (int64_t i = 0; i < all[0]; i += most[0]) {
                const int64_t from[] = {i, h, b};
                tfm__grid grid = {.local = {group, 1, 1}};
                for (int d = 0; d < 3; d++) {
                    const int64_t left = all[d] - from[d];
                    first[d].integer = from[d];
                    grid.global[d] = (size_t)(left < most[d] ? left : most[d]) * grid.local[d];
                }
                tfm__attention_enqueue(ctx, a, kernel, grid, count, args);
            }
    return tfm_context_status(ctx);
}
