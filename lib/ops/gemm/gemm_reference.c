/* The reference kernel, for every task and device: cl/gemm/gemm_reference.cl. */
#include "ops/gemm/gemm.h"

/* Largest first, by the work-group that the device supports; the first one is for few rows. */
static const struct tile {
    int64_t most_rows; /* limit of the task's rows; 0: any */
    int m, n, k;       /* of a work-group */
    int item_m, item_n;
} TILES[] = {
    {8, 8, 64, 16, 1, 4},  /* 16 x 8 items */
    {0, 64, 64, 16, 4, 4}, /* 16 x 16 */
    {0, 32, 32, 16, 4, 4}, /* 8 x 8 */
    {0, 16, 16, 16, 4, 4}, /* 4 x 4 */
    {0, 4, 4, 16, 4, 4},   /* 1 x 1 */
};

static bool fits(const struct tile *tile, const tfm__limits *limits, int64_t rows) {
    const size_t x = (size_t)(tile->n / tile->item_n), y = (size_t)(tile->m / tile->item_m);
    size_t bytes = sizeof(float) * (size_t)tile->k * (size_t)(tile->m + tile->n + 2);
    return x * y <= limits->max_group && x <= limits->max_items[0] && y <= limits->max_items[1] &&
           bytes <= limits->local_bytes && (!tile->most_rows || rows <= tile->most_rows);
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    (void)ctx;
    (void)task;
    return NULL;
}

static size_t at_most(int64_t groups, int64_t most) {
    return (size_t)(groups < most ? groups : most);
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    const int64_t m = task->m, n = task->n, k = task->k, batch = task->batch;
    const int64_t widest = 32768; /* groups along y and z: some devices end at 65535; the kernel loops over the rest */
    const struct tile *tile = TILES, *last = TILES + TFM__COUNT(TILES) - 1;
    while (tile < last && !fits(tile, tfm__context_limits(ctx), m))
        tile++;
    tfm__kernel *kernel = tfm__kernel_get(
        ctx, "gemm_reference", "gemm_reference",
        "-DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DITEM_M=%d -DITEM_N=%d -DTFM_ACTIVATION=%d%s", tile->m, tile->n, tile->k,
        tile->item_m, tile->item_n, task->activation, tfm__load_dtype_define(task->b.dtype));
    const size_t x = (size_t)(tile->n / tile->item_n), y = (size_t)(tile->m / tile->item_m);
    tfm__grid grid = TFM__GRID_3D((size_t)tfm__ceil_div(n, tile->n) * x, at_most(tfm__ceil_div(m, tile->m), widest) * y,
                                  at_most(batch, widest), x, y, 1);
    const int64_t a_batch = m * k, b_batch = task->shared_b ? 0 : k * n;
    const int64_t a_row = task->transpose_a ? 1 : k, a_column = task->transpose_a ? m : 1;
    const int64_t b_row = task->transpose_b ? 1 : n, b_column = task->transpose_b ? k : 1;
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    return tfm__launch(
        ctx, kernel, grid,
        TFM__ARGS(TFM__T_AS("c", task->c), TFM__T_AS("a", task->a), TFM__T_AS("b", task->b),
                  TFM__T_AS("addend", addend.tensor), TFM__I(batch), TFM__I(m), TFM__I(n), TFM__I(k), TFM__I(a_batch),
                  TFM__I(a_row), TFM__I(a_column), TFM__I(b_batch), TFM__I(b_row), TFM__I(b_column),
                  TFM__I_AS("addend_batch", addend.batch), TFM__I_AS("addend_row", addend.row),
                  TFM__I_AS("has_addend", addend.tensor.buffer != NULL), TFM__F_AS("alpha", task->alpha)));
}

tfm_status tfm__gemm_epilogue(tfm_context *ctx, const tfm__gemm_task *task) {
    if (!task->bias.buffer && task->activation == TFM_NO_ACTIVATION)
        return tfm_context_status(ctx);
    const int64_t count = task->batch * task->m * task->n;
    tfm__kernel *kernel =
        tfm__kernel_get(ctx, "gemm_reference", "gemm_epilogue", "-DTFM_ACTIVATION=%d", task->activation);
    return tfm__launch(ctx, kernel, tfm__element_grid(ctx, count),
                       TFM__ARGS(TFM__T_AS("c", task->c), TFM__T_AS("bias", task->bias), TFM__I(count),
                                 TFM__I_AS("n", task->n), TFM__I_AS("has_bias", task->bias.buffer != NULL)));
}

const tfm__gemm_provider tfm__gemm_reference = {.name = "reference", .declines = declines, .multiply = multiply};
