/* GEMM of a transposed a: cl/gemm/gemm_cpu_tn.cl. */
#include <math.h>
#include "ops/gemm/gemm.h"
#include "ops/reduce/sum.h"

/* Rows of a that one item sums. A small c has few strips, so K is split to give many cores work. Depends on shapes
 * alone, as does the order of the final sums. */
static int64_t chunk_of(const tfm__tuning *tuning, const tfm__gemm_task *task, int64_t strips) {
    const int64_t steps = tuning->gemm_tn_min_k, most = tfm__ceil_div(task->k, steps);
    int64_t split_k = tfm__ceil_div(tuning->gemm_tn_items, strips * task->batch);
    if (task->bias.buffer || task->activation != TFM_NO_ACTIVATION)
        split_k = 1;
    return tfm__ceil_div(most, split_k < most ? split_k : most) * steps;
}

/* Destination of the kernel: c, or one partial sum for each split. */
typedef struct target {
    tfm_tensor c, a_sums;
    tfm__gemm_addend addend;
    bool add_sums;
} target;

/* b in the layout of the kernel. */
typedef struct panels {
    tfm_tensor b;
    int64_t count, batch, panel, line;
} panels;

/* Few strips read b once or twice: packing would not pay. */
static bool packs_b(tfm_context *ctx, const tfm__gemm_task *task, int64_t strips) {
    return strips > tfm__context_tuning(ctx)->gemm_tn_unpacked_strips || task->n % tfm__gemm_panel_width(ctx) != 0 ||
           task->transpose_b;
}

static panels panels_of(tfm_context *ctx, const tfm__gemm_task *task, int64_t strips) {
    const int64_t width = tfm__gemm_panel_width(ctx);
    panels p = {task->b, tfm__ceil_div(task->n, width), task->n * task->k, width, task->n};
    if (packs_b(ctx, task, strips)) {
        p.panel = task->k * width;
        p.batch = p.count * p.panel;
        p.line = width;
        tfm__gemm_pack_b(ctx, &p.b, task, task->b.dtype);
    }
    if (task->shared_b)
        p.batch = 0;
    return p;
}

static void launch(tfm_context *ctx, const tfm__gemm_task *task, const target *to, int64_t strips, int64_t chunk,
                   int64_t split_k) {
    const panels p = panels_of(ctx, task, strips);
    /* With fewer items, several share a strip, and each packs some of its panels. */
    const int64_t few = tfm__context_tuning(ctx)->gemm_tn_shared_strips, items = strips * task->batch * split_k;
    const int64_t group = items < few ? tfm__gemm_even_group(p.count, tfm__ceil_div(p.count * items, few)) : p.count;
    const tfm__grid grid =
        TFM__GRID_3D((size_t)strips, (size_t)tfm__ceil_div(p.count, group), (size_t)(task->batch * split_k), 1, 1, 1);
    tfm__launch(ctx, tfm__gemm_panel_kernel(ctx, TFM__GEMM_CPU_TN, task->activation, TFM_F32), grid,
                TFM__ARGS(TFM__T_AS("c", to->c), TFM__T_AS("a_sums", to->a_sums), TFM__T_AS("a", task->a),
                          TFM__T_AS("b", p.b), TFM__T_AS("addend", to->addend.tensor), TFM__I_AS("m", task->m),
                          TFM__I_AS("n", task->n), TFM__I_AS("k", task->k), TFM__I(group), TFM__I(chunk),
                          TFM__I(split_k), TFM__I_AS("b_batch", p.batch), TFM__I_AS("b_panel", p.panel),
                          TFM__I_AS("b_line", p.line), TFM__I_AS("addend_batch", to->addend.batch),
                          TFM__I_AS("addend_row", to->addend.row),
                          TFM__I_AS("has_addend", to->addend.tensor.buffer != NULL),
                          TFM__I_AS("add_sums", to->add_sums), TFM__F_AS("alpha", task->alpha),
                          TFM__F_AS("min_value", task->activation == TFM_RELU ? 0.0f : -INFINITY)));
}

static int64_t strips_of(const tfm__tuning *tuning, const tfm__gemm_task *task) {
    return tfm__ceil_div(task->m, (int64_t)tuning->gemm_tn_strip_tiles * tuning->gemm_mr);
}

uint64_t tfm__gemm_cpu_tn_memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t strips = strips_of(tuning, task), split_k = tfm__ceil_div(task->k, chunk_of(tuning, task, strips));
    const uint64_t c_sums = sizeof(float) * (uint64_t)(task->batch * split_k * task->m * task->n),
                   a_sums = sizeof(float) * (uint64_t)(split_k * task->m);
    return (packs_b(ctx, task, strips) ? tfm__gemm_pack_memory(ctx, task, task->b.dtype) : 0) +
           (split_k > 1 ? tfm__pool_block_bytes(c_sums) : 0) +
           (split_k > 1 && task->a_sums.to.rank > 0 ? tfm__pool_block_bytes(a_sums) : 0);
}

tfm_status tfm__gemm_cpu_tn(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const int64_t strips = strips_of(tuning, task), chunk = chunk_of(tuning, task, strips),
                  split_k = tfm__ceil_div(task->k, chunk), batch = task->batch;
    target to = {task->c, task->a_sums.to, tfm__gemm_addend_of(task), task->a_sums.add};
    if (task->activation > TFM_RELU) { /* the splits are summed first: no activation in the kernel */
        tfm__gemm_task inner = *task;
        tfm_tensor c = task->c;
        inner.activation = TFM_NO_ACTIVATION;
        tfm__gemm_cpu_tn(ctx, &inner);
        return tfm_activate(ctx, &c, c, task->activation);
    }
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (split_k > 1) {
        to = (target){0};
        tfm_tensor_new(ctx, &to.c, TFM_F32, 4, (int64_t[]){batch, split_k, task->m, task->n});
        if (task->a_sums.to.buffer)
            tfm_tensor_new(ctx, &to.a_sums, TFM_F32, 2, (int64_t[]){split_k, task->m});
    }
    launch(ctx, task, &to, strips, chunk, split_k);
    if (split_k > 1) {
        tfm__sum_pair(ctx, (tfm__column_sum){{task->c, task->accumulate}, to.c, task->m * task->n},
                      (tfm__column_sum){task->a_sums, to.a_sums, task->m}, batch, split_k);
    }
    return tfm_scope_close(ctx, 0, NULL);
}
