/* The packed micro-kernel: cl/gemm_packed.cl. Tile sizes come from the device's row (lib/dev/rows.c). */
#include <math.h>
#include <string.h>
#include "ops/gemm.h"

static int panel_width(const tfm_context *ctx) {
    const tfm__row *row = tfm__context_row(ctx);
    return row->gemm_vectors * row->width;
}

static int64_t divide_up(int64_t x, int64_t by) {
    return (x + by - 1) / by;
}

const char *tfm__gemm_declines_panels(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__row *row = tfm__context_row(ctx);
    (void)task;
    return row->class == TFM__WIDE && row->gemm_rows > 0 ? NULL
                                                         : "it is for devices that vectorise one work-item";
}

int tfm__gemm_small_rows(const tfm_context *ctx) {
    /* A tile of 12 x 2 vectors needs 32 registers, which hold 8 x 2 as well; where there are 16, 4 x 2. */
    return tfm__context_row(ctx)->gemm_rows >= 8 ? 8 : 4;
}

/* No activation and ReLU share a program: see `least` in the kernel. */
static tfm__kernel *kernel_get(tfm_context *ctx, tfm__panel_kernel which, tfm_activation activation,
                               tfm__a_layout layout) {
    static const char *const names[] = {"gemm_pack", "gemm_pack_a", "gemm_small", "gemm_small_loose",
                                        "gemm_packed"};
    static const char *const layouts[] = {"", " -DTFM_A_TRANSPOSED", " -DTFM_A_PACKED"};
    const tfm__row *row = tfm__context_row(ctx);
    tfm__gemm_state *state = tfm__gemm_state_of(ctx);
    if (activation == TFM_RELU)
        activation = TFM_NO_ACTIVATION;
    tfm__kernel **kernel = state ? &state->panel_kernels[which][layout][activation] : NULL;
    if (kernel && !*kernel)
        *kernel = tfm__kernel_get(ctx, "gemm_packed", names[which],
                                  "-DTFM_ROWS=%d -DTFM_HALF_ROWS=%d -DTFM_VECTORS=%d -DTFM_ACTIVATION=%d%s",
                                  row->gemm_rows, row->gemm_rows / 2, row->gemm_vectors, activation,
                                  layouts[layout]);
    return kernel ? *kernel : NULL;
}

static tfm_status pack(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task) {
    const int64_t block = 128, n = task->n, k = task->k;
    const int64_t b_batch = n * k, b_row = task->transpose_b ? 1 : n, b_column = task->transpose_b ? k : 1;
    tfm__grid grid =
        TFM_GRID_3D((size_t)packed.dims[1], (size_t)divide_up(k, block), (size_t)packed.dims[0], 1, 1, 1);
    return tfm__launch(ctx, kernel_get(ctx, TFM__GEMM_PACK, TFM_NO_ACTIVATION, TFM__A_AS_IT_IS), grid,
                       TFM_ARGS(TFM_T(packed), TFM_T_AS("b", task->b), TFM_I(n), TFM_I(k), TFM_I(block),
                                TFM_I(b_batch), TFM_I(b_row), TFM_I(b_column)));
}

/* b in panels: the weight's copy if it is of this value, else made now. A weight's copy outlives all scopes;
 * another one dies with the scope that the caller has opened. */
static tfm_status packed_b(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task) {
    const int width = panel_width(ctx);
    const int64_t dims[] = {task->shared_b ? 1 : task->batch, divide_up(task->n, width), task->k, width};
    tfm_param *weight = task->weight;
    if (!weight) {
        tfm_status status = tfm_tensor_new(ctx, packed, TFM_F32, 4, dims);
        return status == TFM_OK ? pack(ctx, *packed, task) : status;
    }
    bool fits = tfm__tensor_alive(ctx, weight->packed) && weight->packed_layout == width &&
                weight->packed.rank == 4 && memcmp(weight->packed.dims, dims, sizeof(dims)) == 0;
    if (!fits) {
        tfm_tensor_free(ctx, &weight->packed);
        weight->packed_version = 0;
        if (tfm_tensor_new(ctx, &weight->packed, TFM_F32, 4, dims) != TFM_OK)
            return tfm_context_status(ctx);
        tfm__tensor_keep(ctx, weight->packed);
        weight->packed_layout = width;
    }
    *packed = weight->packed;
    if (weight->packed_version == weight->version + 1)
        return TFM_OK;
    tfm_status status = pack(ctx, *packed, task);
    weight->packed_version = status == TFM_OK ? weight->version + 1 : 0;
    return status;
}

/* A transposed a in tiles of the kernel's rows, for the scope that the caller has opened. */
static tfm_status packed_a(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task) {
    const int64_t block = 128, m = task->m, k = task->k, rows = tfm__context_row(ctx)->gemm_rows;
    const int64_t dims[] = {task->batch, divide_up(m, rows), k, rows};
    if (tfm_tensor_new(ctx, packed, TFM_F32, 4, dims) != TFM_OK)
        return tfm_context_status(ctx);
    tfm__grid grid = TFM_GRID_3D((size_t)dims[1], (size_t)divide_up(k, block), (size_t)task->batch, 1, 1, 1);
    return tfm__launch(
        ctx, kernel_get(ctx, TFM__GEMM_PACK_A, TFM_NO_ACTIVATION, TFM__A_AS_IT_IS), grid,
        TFM_ARGS(TFM_T_AS("packed", *packed), TFM_T_AS("a", task->a), TFM_I(m), TFM_I(k), TFM_I(block)));
}

tfm_status tfm__gemm_on_panels(tfm_context *ctx, const tfm__gemm_task *task, tfm__panel_kernel kernel,
                               int64_t row_tiles, bool pack_a) {
    const bool loose = kernel == TFM__GEMM_SMALL_LOOSE;
    const int64_t panels = divide_up(task->n, panel_width(ctx));
    tfm_tensor packed = task->b, a = task->a;
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if ((loose || packed_b(ctx, &packed, task) == TFM_OK) && (!pack_a || packed_a(ctx, &a, task) == TFM_OK)) {
        const int64_t b_columns = loose ? task->n : panels * panel_width(ctx);
        const int64_t b_batch = task->shared_b ? 0 : b_columns * task->k;
        const tfm__a_layout layout = pack_a              ? TFM__A_PACKED
                                     : task->transpose_a ? TFM__A_TRANSPOSED
                                                         : TFM__A_AS_IT_IS;
        tfm__grid grid = TFM_GRID_3D((size_t)row_tiles, (size_t)panels, (size_t)task->batch, 1, 1, 1);
        const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
        tfm__launch(
            ctx, kernel_get(ctx, kernel, task->activation, layout), grid,
            TFM_ARGS(TFM_T_AS("c", task->c), TFM_T(a), TFM_T(packed), TFM_T_AS("addend", addend.tensor),
                     TFM_I_AS("m", task->m), TFM_I_AS("n", task->n), TFM_I_AS("k", task->k), TFM_I(b_batch),
                     TFM_I_AS("addend_batch", addend.batch), TFM_I_AS("addend_row", addend.row),
                     TFM_I_AS("has_addend", addend.tensor.buffer != NULL), TFM_F_AS("alpha", task->alpha),
                     TFM_F_AS("least", task->activation == TFM_RELU ? 0.0f : -INFINITY)));
    }
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task) {
    /* A tile of a is read once for each panel: with few of them, packing it would not pay. */
    const bool pack_a = task->transpose_a && task->n > 2 * panel_width(ctx);
    return tfm__gemm_on_panels(ctx, task, TFM__GEMM_PACKED,
                               divide_up(task->m, tfm__context_row(ctx)->gemm_rows), pack_a);
}

const tfm__gemm_provider tfm__gemm_packed = {"packed", tfm__gemm_declines_panels, run};
