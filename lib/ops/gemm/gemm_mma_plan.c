/* Matrix cores: tiles, tile choice, and the launch of cl/gemm/gemm_mma.cl or cl/gemm/gemm_mma_multistage.cl. */
#include "ops/gemm/gemm_mma.h"

enum { LINE = TILE_K / 2 + 4 };

/* Largest first; `speed` and `full_tiles` as in gemm_gpu_tiled.c. MMA was measured on an H100: a tile of 128 x 128,
 * which fits its core once, took longer than two of half of it. The numbers for AMD are estimates; `tfm tune
 * --precision` tries the tiles on the device. A subgroup computes wave_m x wave_n of a tile. The last tiles, for MMA
 * alone, are those of cl/gemm/gemm_mma_multistage.cl, measured there too: two of the largest fill a core's registers,
 * and one alone takes three quarters of their time. */
static const tfm__mma_tile MMA_TILES[TILES + MULTISTAGE_TILES] = {
    {{128, 64, 2, 1.9, false, true}, 64, 32},   {{64, 64, 1.8, 2.9, false, true}, 32, 32},
    {{32, 32, 1.45, 4.8, false, true}, 16, 16}, {{16, 64, 0.95, 8, false, true}, 16, 32},
    {{128, 128, 9.8, 1.7, true, true}, 64, 64}, {{128, 64, 7.5, 0.7, true, true}, 64, 32},
    {{64, 64, 5.9, 1.2, true, true}, 32, 32}};
static const tfm__mma_tile WMMA_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 32, 32},
                                                {{64, 64, 1.6, 2.5, false, false}, 32, 16},
                                                {{32, 32, 0.8, 4, false, false}, 16, 16},
                                                {{16, 32, 0.6, 4, false, false}, 16, 16}};
static const tfm__mma_tile MFMA_TILES[TILES] = {{{128, 128, 2, 1.2, false, false}, 64, 64},
                                                {{64, 64, 1.4, 2, false, false}, 32, 32},
                                                {{32, 32, 0.6, 4, false, false}, 16, 32},
                                                {{16, 64, 0.6, 4, false, false}, 16, 64}};

/* Intel's numbers are estimates, too: the largest subgroup tiles that its compiler keeps in registers, with 256
 * registers a lane. With the default of 128 it spills the sums of tiles half as large. */
#define DPAS_OPTION " -cl-intel-256-GRF-per-thread"
static const tfm__mma_tile DPAS_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 16, 16},
                                                {{64, 64, 1.6, 2.5, false, false}, 16, 16},
                                                {{32, 32, 0.8, 4, false, false}, 16, 8},
                                                {{16, 32, 0.6, 4, false, false}, 8, 8}};
static const tfm__mma_tile DPAS_16_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 32, 16},
                                                   {{64, 64, 1.6, 2.5, false, false}, 32, 16},
                                                   {{32, 32, 0.8, 4, false, false}, 8, 16},
                                                   {{16, 32, 0.6, 4, false, false}, 8, 16}};

static const tfm__mma_kind MMA_KINDS[TFM__MMA_COUNT] = {
    [TFM__MMA_M16N8K16] = {32, 6, true, MMA_TILES, TILES + MULTISTAGE_TILES, NULL},
    [TFM__MMA_M16N8K8] = {32, 3, false, MMA_TILES, TILES, NULL},
    [TFM__MMA_WMMA] = {32, 16, true, WMMA_TILES, TILES, NULL},
    [TFM__MMA_MFMA] = {64, 4, true, MFMA_TILES, TILES, NULL},
    [TFM__MMA_DPAS_8] = {8, 16, true, DPAS_TILES, TILES, DPAS_OPTION},
    [TFM__MMA_DPAS_16] = {16, 16, true, DPAS_16_TILES, TILES, DPAS_OPTION},
};

/* Its address is the key of the context's state. */
static char SLOT;

tfm__mma_state *tfm__mma_state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(tfm__mma_state));
}

const tfm__mma_kind *tfm__mma_kind_of(tfm_context *ctx) {
    return &MMA_KINDS[tfm__context_tuning(ctx)->mma];
}

size_t tfm__mma_items(tfm_context *ctx, const tfm__mma_tile *tile) {
    return (size_t)(tile->macro_tile.m / tile->wave_m * (tile->macro_tile.n / tile->wave_n) *
                    tfm__mma_kind_of(ctx)->lanes);
}

/* Extra local memory in bytes of the emulation; multistage takes a slot for each item. */
static size_t emulation_of(tfm_context *ctx, const tfm__mma_tile *tile) {
    const size_t words = (size_t)tfm__mma_kind_of(ctx)->words + (tile->macro_tile.converts ? 1 : 0);
    return tfm__context_tuning(ctx)->mma_emulated ? sizeof(uint32_t) * tfm__mma_items(ctx, tile) * words : 0;
}

int tfm__mma_stages(tfm_context *ctx, const tfm__mma_tile *tile, int asked) {
    if (!tile->macro_tile.converts)
        return 0;
    const size_t local = tfm__context_limits(ctx)->local_bytes, taken = emulation_of(ctx, tile);
    const size_t stages = local > taken ? (local - taken) / tfm__gemm_multistage_stage_bytes(tile->macro_tile) : 0;
    const int most = stages > MAX_STAGES ? MAX_STAGES : (int)stages;
    return asked >= MIN_STAGES && asked < most ? asked : most;
}

bool tfm__mma_fits(tfm_context *ctx, const tfm__mma_tile *tile) {
    const tfm__limits *limits = tfm__context_limits(ctx);
    const size_t items = tfm__mma_items(ctx, tile);
    if (items > limits->max_group || items > limits->max_items[0])
        return false;
    return tile->macro_tile.converts ? tfm__mma_stages(ctx, tile, 0) >= MIN_STAGES
                                     : sizeof(uint32_t) * (size_t)(LINE * (tile->macro_tile.m + tile->macro_tile.n)) +
                                               emulation_of(ctx, tile) <=
                                           limits->local_bytes;
}

static int unit_of(const tfm__gemm_task *task, const tfm__mma_tile *tile) {
    return tile->macro_tile.converts ? 0 : tfm__gemm_loads_vec4(task) ? 4 : 1;
}

unsigned char *tfm__mma_verdict_of(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile,
                                   int stages) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    tfm__mma_state *s = tfm__mma_state_of(ctx);
    const int own = (int)(tile - tfm__mma_kind_of(ctx)->tiles);
    const int form = stages > 0 ? TILES + (own - TILES) * DEPTHS + stages - MIN_STAGES : own;
    const size_t class = (size_t)form << 5 | (task->b.dtype != TFM_F32 ? 16U : 0U) |
                         (unit_of(task, tile) == 4 ? 8U : 0U) |
                         (tfm__gemm_input_dtype(ctx, task) == TFM_BF16 ? 4U : 0U) | (task->transpose_a ? 2U : 0U) |
                         (task->transpose_b ? 1U : 0U);
    return s ? &s->verdicts[2 * tuning->mma + tuning->mma_emulated][class] : NULL;
}

unsigned char *tfm__mma_verdict_on(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    return tfm__mma_verdict_of(ctx, task, p->tile, p->stages);
}

bool tfm__mma_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages) {
    if (!tfm__mma_fits(ctx, tile) || (tile->macro_tile.converts && !tfm__gemm_multistage_aligned(task)))
        return false;
    const unsigned char *known =
        tile->macro_tile.converts ? tfm__mma_verdict_of(ctx, task, tile, tfm__mma_stages(ctx, tile, stages)) : NULL;
    return !known || *known <= TFM__VALID;
}

bool tfm__mma_setting_usable(tfm_context *ctx, const tfm__gemm_task *task, const tfm__gemm_setting *s) {
    if (s->tile < 1 || s->tile > tfm__mma_kind_of(ctx)->count)
        return false;
    const tfm__mma_tile *tile = &tfm__mma_kind_of(ctx)->tiles[s->tile - 1];
    if (!tfm__mma_usable(ctx, task, tile, s->stages) ||
        (s->stages > 0 && tfm__mma_stages(ctx, tile, s->stages) != s->stages))
        return false;
    const unsigned char *known = tfm__mma_verdict_of(ctx, task, tile, tfm__mma_stages(ctx, tile, s->stages));
    return !known || *known <= TFM__VALID;
}

/* The tile that tests request; else the tuning row's. */
static tfm__gemm_setting setting_of(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->gemm_tile > 0 || tuning->gemm_split_k > 0)
        return (tfm__gemm_setting){tuning->gemm_tile, tuning->gemm_split_k, 0};
    const tfm__gemm_setting own = {0}, s = task->setting;
    return tfm__mma_setting_usable(ctx, task, &s) ? s : own;
}

/* Fields that follow from a plan's tile and split-K. */
static void complete(tfm_context *ctx, const tfm__gemm_task *task, tfm__mma_plan *p, int stages) {
    p->unit = unit_of(task, p->tile);
    p->stages = tfm__mma_stages(ctx, p->tile, stages);
    p->index64 = p->tile->macro_tile.converts ? tfm__gemm_multistage_index64(ctx, task, &p->splitk)
                                              : tfm__gemm_splitk_index64(ctx, task, &p->splitk);
}

tfm__mma_plan tfm__mma_plan_with(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_tile *tile, int stages,
                                 int64_t split_k) {
    tfm__mma_plan p = {.tile = tile, .splitk = tfm__gemm_splitk_of(ctx, task, tile->macro_tile, split_k)};
    complete(ctx, task, &p, stages);
    return p;
}

tfm__mma_plan tfm__mma_plan_of(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__mma_kind *kind = tfm__mma_kind_of(ctx);
    const tfm__gemm_setting asked = setting_of(ctx, task);
    tfm__mma_plan best = {0};
    unsigned all = 0;
    for (int i = 0; i < kind->count; i++)
        if ((asked.tile == 0 || asked.tile == i + 1) && tfm__mma_usable(ctx, task, &kind->tiles[i], asked.stages))
            all |= 1U << i;
    const int place = tfm__gemm_splitk_best(ctx, &best.splitk, task, kind->tiles, kind->count, sizeof(kind->tiles[0]),
                                            all, asked.split_k);
    if (place < 0)
        return best;
    best.tile = &kind->tiles[place];
    complete(ctx, task, &best, asked.stages);
    return best;
}

const char *tfm__mma_describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "the validation of the device's matrix cores found a wrong result",
        [TFM__NOT_BUILT] = "the driver does not build the kernel for the device's matrix cores",
        [TFM__CRASHED] = "the program ended in each validation of the device's matrix cores: `tfm tune --reset` "
                         "clears the verdict",
        [TFM__BUSY] = "another program was still validating kernels on this device, so its matrix cores are not used",
    };
    return WHY[v];
}

const char *tfm__mma_declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->class != TFM__CLASS_GPU)
        return "it is for GPU-style devices, and this one vectorizes a work-item";
    const tfm_dtype inputs = tfm__gemm_input_dtype(ctx, task);
    if (inputs == TFM_F32)
        return "the GEMM reads fp32";
    if (tuning->mma == TFM__MMA_NONE)
        return "the device has no matrix cores that this version supports";
    if (inputs == TFM_BF16 && !tfm__mma_kind_of(ctx)->bf16)
        return "the device's matrix cores have no bf16";
    return NULL;
}

static tfm__gemm_multistage multistage_of(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    return (tfm__gemm_multistage){.splitk = p->splitk,
                                  .inputs = tfm__gemm_input_dtype(ctx, task),
                                  .wave_m = p->tile->wave_m,
                                  .wave_n = p->tile->wave_n,
                                  .stages = p->stages,
                                  .index64 = p->index64};
}

tfm__kernel *tfm__mma_kernel(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const tfm__mma_kind *kind = tfm__mma_kind_of(ctx);
    if (p->tile->macro_tile.converts) {
        const tfm__gemm_multistage multistage = multistage_of(ctx, task, p);
        return tfm__gemm_multistage_kernel(ctx, task, &multistage, "gemm_mma_multistage");
    }
    return tfm__kernel_get(
        ctx, "gemm_mma", "gemm_mma",
        "-DMMA_KIND=%d -DMMA_DTYPE=%d -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DWAVE_M=%d -DWAVE_N=%d "
        "-DLOAD_WIDTH=%d -DINDEX=%s -DTRANSPOSE_A=%d -DTRANSPOSE_B=%d -DTFM_ACTIVATION=%d%s%s%s",
        (int)tuning->mma, (int)tfm__gemm_input_dtype(ctx, task), p->tile->macro_tile.m, p->tile->macro_tile.n, TILE_K,
        p->tile->wave_m, p->tile->wave_n, p->unit, p->index64 ? "long" : "int", task->transpose_a, task->transpose_b,
        p->splitk.split_k == 1 ? (int)task->activation : TFM_NO_ACTIVATION, tfm__load_dtype_define(task->b.dtype),
        tuning->mma_emulated ? "" : " -DTFM_HAS_MMA", tuning->mma_emulated || !kind->option ? "" : kind->option);
}

tfm_status tfm__mma_launch(tfm_context *ctx, const tfm__gemm_task *task, const tfm__mma_plan *p, tfm__kernel *kernel) {
    const size_t items = tfm__mma_items(ctx, p->tile);
    if (!p->tile->macro_tile.converts)
        return tfm__gemm_splitk_run(ctx, task, &p->splitk, kernel, items);
    const tfm__gemm_multistage multistage = multistage_of(ctx, task, p);
    return tfm__gemm_multistage_run(ctx, task, &multistage, kernel, items);
}
