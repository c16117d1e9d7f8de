/* Register-tiled GEMM for GPU-style devices: cl/gemm/gemm_gpu_tiled.cl. */
#include <inttypes.h>
#include <stdio.h>
#include "ops/gemm/gemm_splitk.h"

/* Largest first; `speed` and `full_tiles` measured on an H100. */
static const struct tile {
    tfm__gemm_macro_tile macro_tile; /* m and n of a work-group */
    int k;                           /* half as much if operands are read one float at a time */
    int item_m, item_n;
} TILES[] = {
    {{128, 128, 1, 1.15, false, false}, 16, 8, 8},  /* 256 items */
    {{64, 64, 0.83, 1.45, false, false}, 16, 8, 4}, /* 128 */
    {{32, 64, 0.585, 2.1, false, false}, 32, 4, 4}, /* 128 */
    {{32, 32, 0.57, 3.8, false, false}, 16, 4, 4},  /* 64 */
    {{16, 64, 0.47, 2.4, false, false}, 32, 4, 4},  /* 64 */
    {{8, 64, 0.28, 2.3, false, false}, 32, 2, 4},   /* 64 */
};

/* A planned launch. */
typedef struct plan {
    const struct tile *tile; /* NULL: none fits the device */
    int unit;                /* floats per load: 4 or 1 */
    bool quads;              /* and stores of four */
    bool index64;            /* elements beyond 2^31 */
    tfm__gemm_splitk splitk;
} plan;

static size_t items_of(const struct tile *tile) {
    return (size_t)(tile->macro_tile.m / tile->item_m * (tile->macro_tile.n / tile->item_n));
}

/* Whether an item needs more registers for sums and prefetched floats than the device has by default. */
static bool wants_registers(tfm_context *ctx, const struct tile *tile) {
    const int most = tfm__context_tuning(ctx)->gemm_register_floats;
    const int ahead = tile->k * (tile->macro_tile.m + tile->macro_tile.n) / (int)items_of(tile);
    return most > 0 && (tile->item_m * tile->item_n > most || ahead > most);
}

static bool fits(tfm_context *ctx, const struct tile *tile) {
    const tfm__limits *limits = tfm__context_limits(ctx);
    if (wants_registers(ctx, tile) && !tfm__context_tuning(ctx)->large_grf_option)
        return false;
    const size_t items = items_of(tile);
    const size_t bytes = sizeof(float) * (size_t)tile->k * (size_t)(tile->macro_tile.m + tile->macro_tile.n + 8);
    return items <= limits->max_group && items <= limits->max_items[0] && bytes <= limits->local_bytes;
}

/* The tile that tests request; else the tuning row's, unless that tile is not usable. */
static tfm__gemm_setting setting_of(tfm_context *ctx, const tfm__gemm_task *task, unsigned refused) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->gemm_tile > 0 || tuning->gemm_split_k > 0)
        return (tfm__gemm_setting){tuning->gemm_tile, tuning->gemm_split_k, 0};
    const tfm__gemm_setting own = {0}, s = task->setting;
    return s.tile > 0 && (refused >> (s.tile - 1) & 1 || !fits(ctx, &TILES[s.tile - 1])) ? own : s;
}

/* `refused`: bit mask of tiles to skip. */
static plan plan_of(tfm_context *ctx, const tfm__gemm_task *task, unsigned refused) {
    const tfm__gemm_setting asked = setting_of(ctx, task, refused);
    plan best = {.unit = tfm__gemm_loads_vec4(task) ? 4 : 1};
    best.quads = best.unit == 4 && tfm__gemm_stores_vec4(task);
    unsigned usable = 0;
    for (size_t i = 0; i < TFM__COUNT(TILES); i++)
        if (fits(ctx, &TILES[i]) && !(refused >> i & 1) && (asked.tile == 0 || asked.tile == (int)i + 1))
            usable |= 1U << i;
    const int place = tfm__gemm_splitk_best(ctx, &best.splitk, task, TILES, (int)TFM__COUNT(TILES), sizeof(TILES[0]),
                                            usable, asked.split_k);
    best.tile = place < 0 ? NULL : &TILES[place];
    best.index64 = tfm__gemm_splitk_index64(ctx, task, &best.splitk);
    return best;
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    if (tfm__context_tuning(ctx)->class != TFM__CLASS_GPU)
        return "it is for GPU-style devices, and this one vectorizes a work-item";
    const plan p = plan_of(ctx, task, 0);
    if (!p.tile)
        return "the device's work-groups or local memory are too small for its tiles";
    return tfm__gemm_splitk_declines(task, &p.splitk);
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const plan p = plan_of(ctx, task, 0);
    return tfm__gemm_splitk_memory(task, &p.splitk);
}

static tfm__kernel *kernel_of(tfm_context *ctx, const plan *p, const tfm__gemm_task *task) {
    const struct tile *tile = p->tile;
    return tfm__kernel_get(
        ctx, "gemm_gpu_tiled", "gemm_gpu_tiled",
        "-DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DITEM_M=%d -DITEM_N=%d -DLOAD_WIDTH=%d -DSTORE_VEC4=%d "
        "-DINDEX=%s -DTRANSPOSE_A=%d -DTRANSPOSE_B=%d -DTFM_ACTIVATION=%d%s%s",
        tile->macro_tile.m, tile->macro_tile.n, p->unit == 4 ? tile->k : tile->k / 2, tile->item_m, tile->item_n,
        p->unit, p->quads, p->index64 ? "long" : "int", task->transpose_a, task->transpose_b,
        p->splitk.split_k == 1 ? (int)task->activation : TFM_NO_ACTIVATION, tfm__load_dtype_define(task->b.dtype),
        wants_registers(ctx, tile) ? tfm__context_tuning(ctx)->large_grf_option : "");
}

/* The best tile whose kernel the driver accepts with its group size. */
static tfm__kernel *choose(tfm_context *ctx, plan *p, const tfm__gemm_task *task) {
    for (unsigned refused = 0;; refused |= 1U << (p->tile - TILES)) {
        *p = plan_of(ctx, task, refused);
        tfm__kernel *kernel = p->tile ? kernel_of(ctx, p, task) : NULL;
        if (!kernel || tfm__kernel_max_workgroup(ctx, kernel) >= items_of(p->tile))
            return kernel;
    }
}

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    plan p;
    tfm__kernel *kernel = choose(ctx, &p, task);
    return p.tile ? tfm__gemm_splitk_run(ctx, task, &p.splitk, kernel, items_of(p.tile))
                  : tfm__gemm_reference.multiply(ctx, task);
}

/* ---- Candidate settings: "64x64x16/4" is a tile and the number of K splits ---- */

static bool candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNING_TEXT_MAX]) {
    static const int64_t SPLITS[] = {0, 1, 2, 4, 8, 16}; /* the first is the heuristic's */
    const struct tile *tile = &TILES[index / TFM__COUNT(SPLITS)];
    const int64_t asked = SPLITS[index % TFM__COUNT(SPLITS)];
    if (index >= TFM__COUNT(TILES) * TFM__COUNT(SPLITS))
        return false;
    setting[0] = 0;
    const int64_t by_rule = tfm__gemm_splitk_of(ctx, task, tile->macro_tile, 0).split_k,
                  split_k = tfm__gemm_splitk_of(ctx, task, tile->macro_tile, asked).split_k;
    /* Split counts that round to an earlier candidate are skipped. */
    if (!fits(ctx, tile) || (asked > 0 && (split_k != asked || asked == by_rule)))
        return true;
    const int used =
        snprintf(setting, TFM__TUNING_TEXT_MAX, "%dx%dx%d", tile->macro_tile.m, tile->macro_tile.n, tile->k);
    if (asked > 0)
        snprintf(setting + used, TFM__TUNING_TEXT_MAX - (size_t)used, "/%d", (int)asked);
    return true;
}

static bool parse_setting(tfm_context *ctx, tfm__gemm_setting *out, const char *text) {
    (void)ctx;
    int m = 0, n = 0, k = 0, split_k = 0, end = 0, more = 0;
    if (sscanf(text, "%4dx%4dx%4d%n/%4d%n", &m, &n, &k, &end, &split_k, &more) < 3 || text[more > 0 ? more : end] ||
        split_k < 0)
        return false;
    for (size_t i = 0; i < TFM__COUNT(TILES); i++)
        if (TILES[i].macro_tile.m == m && TILES[i].macro_tile.n == n && TILES[i].k == k) {
            *out = (tfm__gemm_setting){(int)i + 1, split_k, 0};
            return true;
        }
    return false;
}

const tfm__gemm_provider tfm__gemm_gpu_tiled = {.name = "gpu-tiled",
                                                .declines = declines,
                                                .multiply = multiply,
                                                .memory = memory,
                                                .candidate = candidate,
                                                .parse_setting = parse_setting};
