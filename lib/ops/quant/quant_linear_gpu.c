/* Block-quantized linear layers of GPU-style devices: cl/quant/quant_linear_gpu.cl. */
#include <stdio.h>
#include "ops/quant/quant_launch.h"

#define ALL_ARGS(l) TFM__QUANT_OUTPUTS(l), TFM__T_AS("x", (l)->x), TFM__I_AS("k", (l)->k)

static int power_of_two(int64_t most, int limit) {
    int x = 1;
    while (2 * x <= most && 2 * x <= limit)
        x *= 2;
    return x;
}

/* Work-items that a group may have. */
static int64_t max_items(const tfm_context *ctx) {
    const tfm__limits *limits = tfm__context_limits(ctx);
    return (int64_t)(limits->max_group < limits->max_items[0] ? limits->max_group : limits->max_items[0]);
}

static tfm_status launch_few(tfm_context *ctx, tfm__quant_launch *l) {
    enum { MAX_SLICES = 8, MAX_ROWS = 8 };
    const int64_t most = max_items(ctx), chunks = l->k / 32;
    const int lanes = power_of_two(most, tfm__quant_tile_rows(ctx));
    const int slices = power_of_two(most / lanes < chunks ? most / lanes : chunks, MAX_SLICES);
    const int64_t groups = tfm__quant_number_items(l, lanes);
    for (int64_t first = 0; first < l->m && tfm_context_status(ctx) == TFM_OK;) {
        const int rows = power_of_two(l->m - first, MAX_ROWS);
        char tile[64];
        snprintf(tile, sizeof(tile), "-DROWS=%d -DSLICES=%d -DLANES=%d", rows, slices, lanes);
        tfm__launch(ctx, tfm__quant_kernel(ctx, l, "quant_linear_few", tile),
                    TFM__GRID_1D((size_t)(groups * slices * lanes), (size_t)(slices * lanes)),
                    TFM__ARGS(ALL_ARGS(l), TFM__I(first)));
        first += rows;
    }
    return tfm_context_status(ctx);
}

tfm_status tfm__quant_linear_gpu(tfm_context *ctx, tfm__quant_launch *l) {
    enum { FEW = 8, MIN_SIDE = 4, MAX_SIDE = 16 };
    int side = MAX_SIDE;
    while (side > MIN_SIDE && side * side > max_items(ctx))
        side /= 2;
    if (l->m <= FEW || side * side > max_items(ctx))
        return launch_few(ctx, l);
    const int64_t size = 4 * side, groups = tfm__quant_number_items(l, size), items = side * side;
    char tile[64];
    snprintf(tile, sizeof(tile), "-DMANY=1 -DSIDE=%d", side);
    return tfm__launch(ctx, tfm__quant_kernel(ctx, l, "quant_linear_many", tile),
                       TFM__GRID_2D((size_t)(groups * items), (size_t)tfm__ceil_div(l->m, size), (size_t)items, 1),
                       TFM__ARGS(ALL_ARGS(l), TFM__I_AS("m", l->m)));
}
