/* Tiled GEMM: split-K choice and launch. */
#include "ops/gemm/gemm_splitk.h"
#include <math.h>

static int64_t cores_of(tfm_context *ctx) {
    const unsigned units = tfm_context_device(ctx)->compute_units;
    return units > 0 ? units : 1;
}

static tfm__gemm_splitk splitk_into(const tfm__gemm_task *task, tfm__gemm_macro_tile macro_tile, int64_t split_k) {
    enum { MIN_CHUNK = 64, MAX_SPLIT_K = 64 };
    tfm__gemm_splitk splitk = {.macro_tile = macro_tile,
                               .tiles_m = tfm__ceil_div(task->m, macro_tile.m),
                               .tiles_n = tfm__ceil_div(task->n, macro_tile.n)};
    const int64_t most = task->k / MIN_CHUNK;
    split_k = split_k > most ? most : split_k;
    split_k = split_k > MAX_SPLIT_K ? MAX_SPLIT_K : split_k < 1 ? 1 : split_k;
    splitk.chunk = tfm__ceil_div(tfm__ceil_div(task->k, split_k), MIN_CHUNK) * MIN_CHUNK;
    splitk.split_k = task->k > splitk.chunk ? tfm__ceil_div(task->k, splitk.chunk) : 1;
    return splitk;
}

/* Costs below, in multiply-adds of a core: the reduction launch; the host's time for any launch; device time of a
 * conversion launch; a float that a core reads or writes; and one that it converts to 16 bits. */
static const double LAUNCH = 1e6, HOST = 1.25e6, CONVERT_LAUNCH = 0.3e6, MOVED = 62, CONVERT_ELEMENT = 51;

/* Separate launches that convert operands to 16 bits. */
static int conversion_launches(const tfm__gemm_task *task, const tfm__gemm_macro_tile *macro_tile) {
    return !macro_tile->converts ? 0 : task->b.dtype == TFM_F32 ? 2 : 1;
}

/* Their cost, as measured on an H100. */
static double conversion_cost(tfm_context *ctx, const tfm__gemm_task *task, int launches) {
    const double a = (double)(task->batch * task->m * task->k);
    const double b = launches > 1 ? (double)((task->shared_b ? 1 : task->batch) * task->k * task->n) : 0;
    return launches * CONVERT_LAUNCH + (launches > 0 ? CONVERT_ELEMENT * (a + b) / (double)cores_of(ctx) : 0);
}

/* Tiles that a core could compute in the time that it takes for `each`. */
static double filled(const tfm__gemm_macro_tile *macro_tile, double each) {
    if (macro_tile->gradual_fill)
        return sqrt(each * each + macro_tile->full_tiles * macro_tile->full_tiles);
    return each > macro_tile->full_tiles ? each : macro_tile->full_tiles;
}

/* Cost of the busiest core plus the split-K reduction (another launch, bound by memory), at least the host's launch
 * time. The constants are an H100's. fp32, 14 shapes of 64 to 4096 rows, each by 6 tiles and 1, 2 and 4 splits: the
 * cheapest by this model is within an eighth of the fastest for 10; small GEMMs may take 1.4 times the best time.
 * Matrix cores: tests/bench/results/h100.md. */
static double cost_of(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk) {
    const int64_t cores = cores_of(ctx);
    const int narrow = conversion_launches(task, &splitk->macro_tile),
              launches = 1 + narrow + (splitk->split_k > 1 ? 1 : 0);
    const double each = (double)tfm__ceil_div(splitk->tiles_m * splitk->tiles_n * task->batch * splitk->split_k, cores);
    const double depth =
        (double)(splitk->chunk < task->k ? splitk->chunk : task->k) + 32; /* start and end of a group */
    const double made = filled(&splitk->macro_tile, each) * splitk->macro_tile.m * splitk->macro_tile.n * depth /
                        splitk->macro_tile.speed;
    const double moved = (double)(splitk->split_k + 1) * (double)(task->batch * task->m * task->n);
    const double device =
        made + (splitk->split_k == 1 ? 0 : LAUNCH + MOVED * moved / (double)cores) + conversion_cost(ctx, task, narrow);
    return device > launches * HOST ? device : launches * HOST;
}

/* Few tiles leave cores idle, so K may be split too, into chunks long enough to pay for the reduction. The splits of a
 * core write no more than two groups of the largest tile. */
tfm__gemm_splitk tfm__gemm_splitk_of(tfm_context *ctx, const tfm__gemm_task *task, tfm__gemm_macro_tile macro_tile,
                                     int64_t asked) {
    static const int64_t SPLITS[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    if (asked > 0)
        return splitk_into(task, macro_tile, asked);
    tfm__gemm_splitk best = splitk_into(task, macro_tile, 1);
    double least = cost_of(ctx, task, &best);
    for (size_t i = 0; i < TFM__COUNT(SPLITS); i++) {
        const tfm__gemm_splitk splitk = splitk_into(task, macro_tile, SPLITS[i]);
        const double made = (double)splitk.split_k * (double)task->batch * (double)task->m * (double)task->n;
        const double cost = splitk.split_k > best.split_k ? cost_of(ctx, task, &splitk) : least;
        if (cost < least && made <= 2.0 * 128 * 128 * (double)cores_of(ctx)) {
            best = splitk;
            least = cost;
        }
    }
    return best;
}

/* The cached plan of the GEMMs whose keys hash to this entry. */
typedef struct cache_entry {
    const void *tiles;
    int64_t m, n, k, batch, asked;
    unsigned usable;
    tfm_dtype stored; /* dtype of b */
    int place;
    tfm__gemm_splitk splitk;
} cache_entry;

enum { CACHE_ENTRIES = 256 };

/* Its address is the key of the context's cache. */
static char SLOT;

int tfm__gemm_splitk_best(tfm_context *ctx, tfm__gemm_splitk *out, const tfm__gemm_task *task, const void *tiles,
                          int count, size_t size, unsigned usable, int64_t asked) {
    cache_entry *all = tfm__context_storage_get_or_create(ctx, &SLOT, CACHE_ENTRIES * sizeof(cache_entry));
    if (!all)
        return -1;
    uint64_t hash = usable + (uint64_t)asked * 7 + (uint64_t)task->b.dtype * 31 + (uintptr_t)tiles;
    for (int i = 0; i < 4; i++)
        hash = (hash ^ (uint64_t)(int64_t[]){task->m, task->n, task->k, task->batch}[i]) * UINT64_C(0x9e3779b97f4a7c15);
    cache_entry *f = &all[hash >> 56];
    if (f->tiles != tiles || f->m != task->m || f->n != task->n || f->k != task->k || f->batch != task->batch ||
        f->asked != asked || f->usable != usable || f->stored != task->b.dtype) {
        double least = 0;
        *f = (cache_entry){tiles, task->m, task->n,       task->k, task->batch,
                           asked, usable,  task->b.dtype, -1,      {{0}, 0, 0, 0, 0}};
        for (int i = 0; i < count; i++) {
            if (!(usable >> i & 1))
                continue;
            const tfm__gemm_macro_tile *macro_tile = (const void *)((const char *)tiles + (size_t)i * size);
            const tfm__gemm_splitk splitk = tfm__gemm_splitk_of(ctx, task, *macro_tile, asked);
            const double cost = cost_of(ctx, task, &splitk);
            if (f->place < 0 || cost < least) {
                f->place = i;
                f->splitk = splitk;
                least = cost;
            }
        }
    }
    *out = f->splitk;
    return f->place;
}

/* Buffers are aligned, so groups of 4 floats at multiples of 4 are. */
bool tfm__gemm_loads_vec4(const tfm__gemm_task *task) {
    const int64_t a_line = task->transpose_a ? task->m : task->k, b_line = task->transpose_b ? task->k : task->n;
    return (a_line | b_line) % 4 == 0 && (task->a.offset | task->b.offset) % 4 == 0;
}

bool tfm__gemm_stores_vec4(const tfm__gemm_task *task) {
    return task->n % 4 == 0 && task->c.offset % 4 == 0;
}

bool tfm__gemm_splitk_index64(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk) {
    const int64_t most = INT32_MAX;
    return tfm__context_tuning(ctx)->gemm_index_64bit || task->batch * task->m * task->k > most ||
           task->batch * task->k * task->n > most || splitk->split_k * task->batch * task->m * task->n > most;
}

const char *tfm__gemm_splitk_declines(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk) {
    if (task->k < 1)
        return "the inner dimension is 0";
    return splitk->tiles_m * splitk->tiles_n > INT32_MAX / 256 ||
                   task->batch * splitk->split_k * splitk->tiles_m * splitk->tiles_n > INT32_MAX / 256
               ? "there are more tiles than a grid has groups"
               : NULL;
}

uint64_t tfm__gemm_splitk_memory(const tfm__gemm_task *task, const tfm__gemm_splitk *splitk) {
    return splitk->split_k > 1
               ? tfm__pool_block_bytes(sizeof(float) * (uint64_t)(splitk->split_k * task->batch * task->m * task->n))
               : 0;
}

/* c = activation(alpha times the sum of all splits + addend). */
static tfm_status reduce_splits(tfm_context *ctx, int64_t split_k, const tfm__gemm_task *task, tfm_tensor sums) {
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    const int64_t count = task->batch * task->m * task->n;
    const bool vec4 = task->n % 4 == 0 && TFM__CAN_VEC4(ctx, task->c, sums, addend.tensor);
    tfm__kernel *kernel = tfm__kernel_get(ctx, "gemm_splitk_reduce", "gemm_splitk_reduce", "-DTFM_ACTIVATION=%d%s",
                                          task->activation, tfm__vec4_define(vec4));
    return tfm__launch(ctx, kernel, tfm__vec4_grid(ctx, count, vec4),
                       TFM__ARGS(TFM__T_AS("c", task->c), TFM__T(sums), TFM__T_AS("addend", addend.tensor),
                                 TFM__I(count), TFM__I_AS("rows", task->m), TFM__I_AS("n", task->n), TFM__I(split_k),
                                 TFM__I_AS("addend_batch", addend.batch), TFM__I_AS("addend_row", addend.row),
                                 TFM__I_AS("has_addend", addend.tensor.buffer != NULL),
                                 TFM__F_AS("alpha", task->alpha)));
}

tfm_status tfm__gemm_splitk_run(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_splitk *splitk,
                                tfm__kernel *kernel, size_t items) {
    const bool whole = splitk->split_k == 1;
    const tfm__gemm_addend none = {0}, addend = whole ? tfm__gemm_addend_of(task) : none;
    tfm_tensor to = task->c;
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!whole) {
        to = (tfm_tensor){0};
        tfm_tensor_new(ctx, &to, TFM_F32, 1, (int64_t[]){splitk->split_k * task->batch * task->m * task->n});
    }
    const size_t groups = (size_t)(splitk->tiles_m * splitk->tiles_n * task->batch * splitk->split_k);
    const int64_t b_batch = task->shared_b ? 0 : task->k * task->n;
    tfm__launch(ctx, kernel, TFM__GRID_1D(groups * items, items),
                TFM__ARGS(TFM__T_AS("c", to), TFM__T_AS("a", task->a), TFM__T_AS("b", task->b),
                          TFM__T_AS("addend", addend.tensor), TFM__I_AS("batch", task->batch), TFM__I_AS("m", task->m),
                          TFM__I_AS("n", task->n), TFM__I_AS("k", task->k), TFM__I_AS("split_k", splitk->split_k),
                          TFM__I_AS("chunk", splitk->chunk), TFM__I(b_batch), TFM__I_AS("addend_batch", addend.batch),
                          TFM__I_AS("addend_row", addend.row), TFM__I_AS("has_addend", addend.tensor.buffer != NULL),
                          TFM__F_AS("alpha", task->alpha)));
    if (!whole)
        reduce_splits(ctx, splitk->split_k, task, to);
    return tfm_scope_close(ctx, 0, NULL);
}
