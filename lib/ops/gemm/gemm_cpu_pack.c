/* Packed panels of b and the kernels that read them: cl/gemm/gemm_cpu_packed.cl. Tile sizes come from the device's
 * tuning (lib/dev/tuning/device_profiles.c). */
#include <math.h>
#include <string.h>
#include "ops/gemm/gemm.h"

enum { PIECE_BYTES = 4 << 20 }; /* bytes of a memory-mapped weight packed at a time */

int64_t tfm__gemm_panel_depth(tfm_dtype dtype, int64_t k) {
    const int64_t paired = 32; /* PAIRED_DEPTH of gemm_cpu_pack.cl */
    return dtype == TFM_BF16 ? tfm__ceil_div(k, paired) * paired : k;
}

const char *tfm__gemm_packed_declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    (void)task;
    return tuning->class == TFM__CLASS_CPU && tuning->gemm_mr > 0
               ? NULL
               : "it is for CPU-style devices, which vectorize a work-item";
}

/* Kernels looked up so far: looking up a name and its defines takes longer than a launch. */
typedef struct panel_kernels {
    tfm__kernel *all[TFM__PANEL_KERNELS][TFM_ACTIVATIONS][TFM_BF16 + 1];
} panel_kernels;

/* Its address is the key of the context's kernels. */
static char SLOT;

/* No activation and ReLU share a program: see `min_value` in the kernel. */
tfm__kernel *tfm__gemm_panel_kernel(tfm_context *ctx, tfm__panel_kernel which, tfm_activation activation,
                                    tfm_dtype stored) {
    static const struct {
        const char *file, *name;
    } kernels[] = {{"gemm_cpu_packed", "gemm_cpu_pack"},
                   {"gemm_cpu_packed", "gemm_cpu_skinny"},
                   {"gemm_cpu_packed", "gemm_cpu_skinny_unpacked"},
                   {"gemm_cpu_packed", "gemm_cpu_packed"},
                   {"gemm_cpu_tn", "gemm_cpu_tn"}};
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    panel_kernels *kept = tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(*kept));
    if (activation == TFM_RELU)
        activation = TFM_NO_ACTIVATION;
    tfm__kernel **kernel = kept ? &kept->all[which][activation][stored] : NULL;
    if (kernel && !*kernel)
        *kernel = tfm__kernel_get(ctx, kernels[which].file, kernels[which].name,
                                  "-DTFM_ROWS=%d -DTFM_PART_ROWS=%d -DTFM_VECTORS=%d -DTFM_TILES=%d "
                                  "-DTFM_ACTIVATION=%d%s",
                                  tuning->gemm_mr, tuning->gemm_mr_tail, tuning->gemm_nr_vectors,
                                  tuning->gemm_tn_strip_tiles, activation, tfm__load_dtype_define(stored));
    return kernel ? *kernel : NULL;
}

static tfm_status pack(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task) {
    if (packed.dtype != task->b.dtype)
        return tfm__gemm_bf16_pack_b(ctx, packed, task);
    const int64_t block = tfm__context_tuning(ctx)->gemm_pack_rows, n = task->n, k = task->k;
    const int64_t b_batch = n * k, b_row = task->transpose_b ? 1 : n, b_column = task->transpose_b ? k : 1;
    tfm__grid grid = TFM__GRID_3D((size_t)packed.dims[1], (size_t)tfm__ceil_div(packed.dims[2], block),
                                  (size_t)packed.dims[0], 1, 1, 1);
    return tfm__launch(ctx, tfm__gemm_panel_kernel(ctx, TFM__GEMM_CPU_PACK, TFM_NO_ACTIVATION, task->b.dtype), grid,
                       TFM__ARGS(TFM__T(packed), TFM__T_AS("b", task->b), TFM__I(n), TFM__I(k), TFM__I(block),
                                 TFM__I(b_batch), TFM__I(b_row), TFM__I(b_column)));
}

/* The same for a memory-mapped weight: in chunks, so that few of its pages are resident at a time. Afterwards only the
 * panels are read. */
static tfm_status pack_from_file(tfm_context *ctx, tfm_tensor packed, const tfm__gemm_task *task) {
    const int64_t width = packed.dims[3], depth = packed.dims[2], panels = packed.dims[1];
    const int64_t line = depth * width * (int64_t)tfm_dtype_size(task->b.dtype), step = 1 + PIECE_BYTES / line;
    for (int64_t first = 0; first < panels && tfm_context_status(ctx) == TFM_OK; first += step) {
        tfm__gemm_task part = *task;
        tfm_tensor out = packed;
        out.dims[1] = first + step < panels ? step : panels - first;
        out.offset += (size_t)(first * depth * width);
        part.n = out.dims[1] * width < task->n - first * width ? out.dims[1] * width : task->n - first * width;
        part.b.offset += (size_t)(first * width * task->k);
        part.b.dims[0] = part.n;
        pack(ctx, out, &part);
        tfm__tensor_evict_pages(ctx, part.b);
    }
    return tfm_context_status(ctx);
}

uint64_t tfm__gemm_pack_memory(tfm_context *ctx, const tfm__gemm_task *task, tfm_dtype dtype) {
    const int64_t width = tfm__gemm_panel_width(ctx), batch = task->shared_b ? 1 : task->batch;
    const int64_t numbers = batch * tfm__ceil_div(task->n, width) * width * tfm__gemm_panel_depth(dtype, task->k);
    return task->weight ? 0 : tfm__pool_block_bytes(tfm_dtype_size(dtype) * (uint64_t)numbers);
}

tfm_status tfm__gemm_pack_b(tfm_context *ctx, tfm_tensor *packed, const tfm__gemm_task *task, tfm_dtype dtype) {
    const int width = tfm__gemm_panel_width(ctx);
    const int64_t dims[] = {task->shared_b ? 1 : task->batch, tfm__ceil_div(task->n, width),
                            tfm__gemm_panel_depth(dtype, task->k), width};
    tfm_param *weight = task->weight;
    if (!weight) {
        tfm_status status = tfm_tensor_new(ctx, packed, dtype, 4, dims);
        return status == TFM_OK ? pack(ctx, *packed, task) : status;
    }
    bool fits = tfm__tensor_alive(ctx, weight->packed) && weight->packed_layout == width && weight->packed.rank == 4 &&
                weight->packed.dtype == dtype && memcmp(weight->packed.dims, dims, sizeof(dims)) == 0;
    if (!fits) {
        tfm_tensor_free(ctx, &weight->packed);
        weight->packed_version = 0;
        if (tfm_tensor_new(ctx, &weight->packed, dtype, 4, dims) != TFM_OK)
            return tfm_context_status(ctx);
        tfm__tensor_persist(ctx, weight->packed);
        weight->packed_layout = width;
    }
    *packed = weight->packed;
    if (weight->packed_version == weight->version + 1)
        return TFM_OK;
    const bool rows = task->transpose_b && task->b.rank == 2 && packed->dims[0] == 1;
    tfm_status status =
        rows && tfm__tensor_is_mmapped(task->b) ? pack_from_file(ctx, *packed, task) : pack(ctx, *packed, task);
    weight->packed_version = status == TFM_OK ? weight->version + 1 : 0;
    return status;
}

int64_t tfm__gemm_panel_group(const tfm_context *ctx, const tfm__gemm_task *tasks, int count, int64_t row_tiles) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const tfm__gemm_task *task = &tasks[0];
    const int64_t width = tfm__gemm_panel_width(ctx);
    int64_t panels = 0, all = 0;
    for (int i = 0; i < count; i++) {
        const int64_t own = tfm__ceil_div(tasks[i].n, width);
        panels = own > panels ? own : panels;
        all += own;
    }
    const int64_t by_size = tuning->gemm_panel_group_bytes / (task->k * width * (int64_t)tfm_dtype_size(task->b.dtype));
    const int64_t by_items = row_tiles * all * task->batch / tuning->gemm_panel_group_min_items;
    const int64_t group = by_size < by_items ? by_size : by_items;
    return tfm__gemm_even_group(panels, group > 1 ? group : 1);
}

int64_t tfm__gemm_even_group(int64_t panels, int64_t group) {
    return panels > group ? tfm__ceil_div(panels, tfm__ceil_div(panels, group)) : group;
}

tfm_status tfm__gemm_launch_packed(tfm_context *ctx, const tfm__gemm_task *tasks, int count, tfm__panel_kernel kernel,
                                   int64_t row_tiles, int64_t group) {
    const bool unpacked = kernel == TFM__GEMM_CPU_SKINNY_UNPACKED, joined = count > 1;
    const tfm__gemm_task *task = &tasks[0];
    const int64_t width = tfm__gemm_panel_width(ctx), depth = tfm__gemm_panel_depth(task->b.dtype, task->k);
    tfm_tensor packed[TFM__GEMM_MAX_GROUP] = {task->b};
    tfm__gemm_addend addends[TFM__GEMM_MAX_GROUP] = {0};
    int64_t n[TFM__GEMM_MAX_GROUP] = {0}, panels = 0, has_addend = 0;
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    for (int i = 0; i < count; i++) {
        const int64_t own = tfm__ceil_div(tasks[i].n, width);
        if (!unpacked)
            tfm__gemm_pack_b(ctx, &packed[i], &tasks[i], task->b.dtype);
        addends[i] = tfm__gemm_addend_of(&tasks[i]);
        has_addend |= (int64_t)(addends[i].tensor.buffer != NULL) << i;
        n[i] = tasks[i].n;
        panels = own > panels ? own : panels;
    }
    const int64_t b_batch = task->shared_b ? 0 : unpacked ? task->n * task->k : panels * width * depth;
    const tfm__grid grid = TFM__GRID_3D((size_t)row_tiles, (size_t)tfm__ceil_div(panels, group),
                                        (size_t)(joined ? count : task->batch), 1, 1, 1);
    const tfm_tensor c1 = joined ? tasks[1].c : (tfm_tensor){0}, c2 = count > 2 ? tasks[2].c : (tfm_tensor){0};
    tfm__launch(ctx, tfm__gemm_panel_kernel(ctx, kernel, task->activation, task->b.dtype), grid,
                TFM__ARGS(TFM__T_AS("c", task->c), TFM__T_AS("a", task->a), TFM__T_AS("packed", packed[0]),
                          TFM__T_AS("addend", addends[0].tensor), TFM__T(c1), TFM__T_AS("packed1", packed[1]),
                          TFM__T_AS("addend1", addends[1].tensor), TFM__T(c2), TFM__T_AS("packed2", packed[2]),
                          TFM__T_AS("addend2", addends[2].tensor), TFM__I_AS("m", task->m), TFM__I_AS("n", n[0]),
                          TFM__I_AS("n1", n[1]), TFM__I_AS("n2", n[2]), TFM__I_AS("k", task->k), TFM__I(group),
                          TFM__I(joined), TFM__I(b_batch), TFM__I_AS("addend_batch", addends[0].batch),
                          TFM__I_AS("addend_row", addends[0].row), TFM__I(has_addend), TFM__F_AS("alpha", task->alpha),
                          TFM__F_AS("min_value", task->activation == TFM_RELU ? 0.0f : -INFINITY)));
    return tfm_scope_close(ctx, 0, NULL);
}
