/* Register tiles for devices that run work-items side by side: cl/gemm_tiled.cl. */
#include <inttypes.h>
#include <stdio.h>
#include "ops/gemm.h"

/* Largest first. `speed`: products a second of a device that is full of it, about, as a part of the first one's. */
static const struct tile {
    int m, n, k; /* of a work-group; k is half as much where operands are read a float at a time */
    int item_m, item_n;
    double speed;
} TILES[] = {
    {128, 128, 16, 8, 8, 1},  /* 256 items */
    {64, 64, 16, 8, 4, 0.8},  /* 128 */
    {32, 64, 32, 4, 4, 0.6},  /* 128 */
    {32, 32, 16, 4, 4, 0.5},  /* 64 */
    {16, 64, 32, 4, 4, 0.45}, /* 64 */
    {8, 64, 32, 2, 4, 0.3},   /* 64 */
};

/* A product as it is run. */
typedef struct plan {
    const struct tile *tile; /* NULL: none fits the device */
    int unit;                /* floats that are read at once: 4 or 1 */
    bool large;              /* elements after 2^31 */
    int64_t tiles_m, tiles_n, parts, chunk;
} plan;

static size_t items_of(const struct tile *tile) {
    return (size_t)(tile->m / tile->item_m * (tile->n / tile->item_n));
}

static bool fits(const struct tile *tile, const tfm__limits *limits) {
    const size_t items = items_of(tile);
    const size_t bytes = sizeof(float) * (size_t)tile->k * (size_t)(tile->m + tile->n + 8);
    return items <= limits->max_group && items <= limits->max_items[0] && bytes <= limits->local_bytes;
}

/* Groups of 4 floats begin at multiples of 4 everywhere: buffers do. */
static bool by_fours(const tfm__gemm_task *task) {
    const int64_t a_line = task->transpose_a ? task->m : task->k, b_line = task->transpose_b ? task->k : task->n;
    return (a_line | b_line | task->n) % 4 == 0 && (task->a.offset | task->b.offset | task->c.offset) % 4 == 0;
}

/* Few tiles leave cores idle, so the inner dimension is cut too, until each core has two groups: into chunks that are
 * long enough to be worth the sum over them, and not more than fit a sensible share of memory. */
static void cut(plan *p, const tfm__gemm_task *task, int64_t cores, int64_t asked) {
    enum { LEAST_CHUNK = 64, MOST_PARTS = 64 };
    const int64_t groups = p->tiles_m * p->tiles_n * task->batch;
    int64_t parts = asked > 0 ? asked : groups < 2 * cores ? 2 * cores / groups : 1;
    const int64_t most = task->k / LEAST_CHUNK;
    parts = parts > most ? most : parts;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts < 1 ? 1 : parts;
    p->chunk = tfm__divide_up(tfm__divide_up(task->k, parts), LEAST_CHUNK) * LEAST_CHUNK;
    p->parts = task->k > p->chunk ? tfm__divide_up(task->k, p->chunk) : 1;
}

/* How long it takes, in products of the largest tile: as many rounds as the busiest core has, which goes on with two
 * groups at a time, and the sum over parts, which reads as slowly as it is short. */
static double cost(const plan *p, const tfm__gemm_task *task, int64_t cores) {
    const double rounds = (double)tfm__divide_up(p->tiles_m * p->tiles_n * task->batch * p->parts, cores);
    const double depth = (double)(p->chunk < task->k ? p->chunk : task->k) + 32; /* and a group begins and ends */
    const double made = rounds * p->tile->m * p->tile->n * depth / p->tile->speed;
    const double summed = p->parts == 1 ? 0 : 32.0 * (double)(p->parts + 1) * (double)(task->batch * task->m * task->n);
    return made + summed / (double)cores;
}

/* What tests ask for; else what the table of `tfm tune` has, unless that tile cannot be taken. */
static tfm__gemm_setting setting_of(tfm_context *ctx, const tfm__gemm_task *task, unsigned refused) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->gemm_tile > 0 || tuning->gemm_parts > 0)
        return (tfm__gemm_setting){tuning->gemm_tile, tuning->gemm_parts};
    const tfm__gemm_setting own = {0}, s = tfm__gemm_setting_of(ctx, &tfm__gemm_tiled, task);
    return s.tile > 0 && (refused >> (s.tile - 1) & 1 || !fits(&TILES[s.tile - 1], tfm__context_limits(ctx))) ? own : s;
}

/* `refused`: a bit for each tile that is not to be taken. */
static plan plan_of(tfm_context *ctx, const tfm__gemm_task *task, unsigned refused) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const unsigned units = tfm_context_device(ctx)->compute_units;
    const int64_t cores = units > 0 ? units : 1, most = INT32_MAX;
    const tfm__gemm_setting asked = setting_of(ctx, task, refused);
    plan best = {0};
    double least = 0;
    for (size_t i = 0; i < TFM__COUNT(TILES); i++) {
        plan p = {.tile = &TILES[i], .unit = by_fours(task) ? 4 : 1};
        if (!fits(p.tile, tfm__context_limits(ctx)) || (refused >> i & 1) ||
            (asked.tile > 0 && asked.tile != (int)i + 1))
            continue;
        p.tiles_m = tfm__divide_up(task->m, p.tile->m);
        p.tiles_n = tfm__divide_up(task->n, p.tile->n);
        cut(&p, task, cores, asked.parts);
        const double c = cost(&p, task, cores);
        if (!best.tile || c < least) {
            best = p;
            least = c;
        }
    }
    best.large = tuning->gemm_large || task->batch * task->m * task->k > most ||
                 task->batch * task->k * task->n > most || best.parts * task->batch * task->m * task->n > most;
    return best;
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    if (tfm__context_tuning(ctx)->class != TFM__SIMT)
        return "the device vectorises what one work-item says";
    const plan p = plan_of(ctx, task, 0);
    if (!p.tile)
        return "the device's work-groups or local memory are too small for its tiles";
    if (task->k < 1)
        return "there is nothing to add up";
    return p.tiles_m * p.tiles_n > INT32_MAX / 256 || task->batch * p.parts * p.tiles_m * p.tiles_n > INT32_MAX / 256
               ? "there are more tiles than a grid has groups"
               : NULL;
}

static uint64_t part_bytes(const plan *p, const tfm__gemm_task *task) {
    return sizeof(float) * (uint64_t)(p->parts * task->batch * task->m * task->n);
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const plan p = plan_of(ctx, task, 0);
    return p.parts > 1 ? tfm__pool_block(part_bytes(&p, task)) : 0;
}

/* c = activation(alpha times the sum of all parts + addend). */
static tfm_status add_parts(tfm_context *ctx, const plan *p, const tfm__gemm_task *task, tfm_tensor sums) {
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    const int64_t count = task->batch * task->m * task->n;
    tfm__kernel *kernel = tfm__kernel_get(ctx, "gemm_tiled", "gemm_tiled_sum", "-DTFM_ACTIVATION=%d", task->activation);
    return tfm__launch(
        ctx, kernel, tfm__element_grid(ctx, count),
        TFM__ARGS(TFM__T_AS("c", task->c), TFM__T(sums), TFM__T_AS("addend", addend.tensor), TFM__I(count),
                  TFM__I_AS("rows", task->m), TFM__I_AS("n", task->n), TFM__I_AS("parts", p->parts),
                  TFM__I_AS("addend_batch", addend.batch), TFM__I_AS("addend_row", addend.row),
                  TFM__I_AS("has_addend", addend.tensor.buffer != NULL), TFM__F_AS("alpha", task->alpha)));
}

static tfm__kernel *kernel_of(tfm_context *ctx, const plan *p, const tfm__gemm_task *task) {
    const struct tile *tile = p->tile;
    return tfm__kernel_get(ctx, "gemm_tiled", "gemm_tiled",
                           "-DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DITEM_M=%d -DITEM_N=%d -DUNIT=%d -DINDEX=%s "
                           "-DTURNED_A=%d -DTURNED_B=%d -DTFM_ACTIVATION=%d%s",
                           tile->m, tile->n, p->unit == 4 ? tile->k : tile->k / 2, tile->item_m, tile->item_n, p->unit,
                           p->large ? "long" : "int", task->transpose_a, task->transpose_b,
                           p->parts == 1 ? (int)task->activation : TFM_NO_ACTIVATION,
                           tfm__stored_define(task->b.dtype));
}

/* The best tile whose kernel the driver takes in groups of so many items. */
static tfm__kernel *choose(tfm_context *ctx, plan *p, const tfm__gemm_task *task) {
    for (unsigned refused = 0;; refused |= 1U << (p->tile - TILES)) {
        *p = plan_of(ctx, task, refused);
        tfm__kernel *kernel = p->tile ? kernel_of(ctx, p, task) : NULL;
        if (!kernel || tfm__kernel_most(ctx, kernel) >= items_of(p->tile))
            return kernel;
    }
}

static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task) {
    plan p;
    tfm__kernel *kernel = choose(ctx, &p, task);
    if (!p.tile)
        return tfm__gemm_plain.run(ctx, task);
    const bool whole = p.parts == 1;
    const tfm__gemm_addend none = {0}, addend = whole ? tfm__gemm_addend_of(task) : none;
    tfm_tensor to = task->c;
    if (tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!whole) {
        to = (tfm_tensor){0};
        tfm_tensor_new(ctx, &to, TFM_F32, 1, (int64_t[]){p.parts * task->batch * task->m * task->n});
    }
    const size_t groups = (size_t)(p.tiles_m * p.tiles_n * task->batch * p.parts);
    const int64_t b_batch = task->shared_b ? 0 : task->k * task->n;
    tfm__launch(ctx, kernel, TFM__GRID_1D(groups * items_of(p.tile), items_of(p.tile)),
                TFM__ARGS(TFM__T_AS("c", to), TFM__T_AS("a", task->a), TFM__T_AS("b", task->b),
                          TFM__T_AS("addend", addend.tensor), TFM__I_AS("batch", task->batch), TFM__I_AS("m", task->m),
                          TFM__I_AS("n", task->n), TFM__I_AS("k", task->k), TFM__I_AS("parts", p.parts),
                          TFM__I_AS("chunk", p.chunk), TFM__I(b_batch), TFM__I_AS("addend_batch", addend.batch),
                          TFM__I_AS("addend_row", addend.row), TFM__I_AS("has_addend", addend.tensor.buffer != NULL),
                          TFM__F_AS("alpha", task->alpha)));
    if (!whole)
        add_parts(ctx, &p, task, to);
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- What else could be run: "64x64x16/4" is a tile and the parts of the inner dimension ---- */

static bool candidate(tfm_context *ctx, const tfm__gemm_task *task, size_t index, char setting[TFM__TUNED_TEXT]) {
    static const int64_t PARTS[] = {0, 1, 2, 4, 8, 16}; /* the first is by the rule */
    const struct tile *tile = &TILES[index / TFM__COUNT(PARTS)];
    const int64_t asked = PARTS[index % TFM__COUNT(PARTS)];
    const unsigned units = tfm_context_device(ctx)->compute_units;
    if (index >= TFM__COUNT(TILES) * TFM__COUNT(PARTS))
        return false;
    setting[0] = 0;
    plan p = {.tile = tile, .tiles_m = tfm__divide_up(task->m, tile->m), .tiles_n = tfm__divide_up(task->n, tile->n)};
    cut(&p, task, units > 0 ? units : 1, 0);
    const int64_t by_rule = p.parts;
    cut(&p, task, units > 0 ? units : 1, asked);
    /* Parts that come to what was tried already are not tried again. */
    if (!fits(tile, tfm__context_limits(ctx)) || (asked > 0 && (p.parts != asked || asked == by_rule)))
        return true;
    const int used = snprintf(setting, TFM__TUNED_TEXT, "%dx%dx%d", tile->m, tile->n, tile->k);
    if (asked > 0)
        snprintf(setting + used, TFM__TUNED_TEXT - (size_t)used, "/%d", (int)asked);
    return true;
}

static bool read_setting(tfm__gemm_setting *out, const char *text) {
    int m = 0, n = 0, k = 0, parts = 0, end = 0, more = 0;
    if (sscanf(text, "%4dx%4dx%4d%n/%4d%n", &m, &n, &k, &end, &parts, &more) < 3 || text[more > 0 ? more : end] ||
        parts < 0)
        return false;
    for (size_t i = 0; i < TFM__COUNT(TILES); i++)
        if (TILES[i].m == m && TILES[i].n == n && TILES[i].k == k) {
            *out = (tfm__gemm_setting){(int)i + 1, parts};
            return true;
        }
    return false;
}

const tfm__gemm_provider tfm__gemm_tiled = {.name = "tiled",
                                            .declines = declines,
                                            .run = run,
                                            .memory = memory,
                                            .candidate = candidate,
                                            .read_setting = read_setting};
