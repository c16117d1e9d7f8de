/* Matrix engines: cl/gemm_engine.cl, where a product may round to 16 bits what it reads: those of weights that are kept
 * in 16 bits, to the same ones, and any others where the context's tuning says so.
 *
 * What an engine does is known from its maker's documents, and from compilers, but for most devices nobody has run it
 * here. So each form of its kernel is tried before it is used: once for a device, its driver and the kernel's text, on
 * a small product whose result is compared with the plain kernel's on the same rounded numbers. A form that fails is
 * not used, and the next provider computes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "ops/gemm_ring.h"

enum { TILE_K = TFM__RING_K, LINE = TILE_K / 2 + 4, TILES = 4, RINGS = 3 };

/* Largest first; `speed` and `alone` as in gemm_tiled.c. Those of MMA were measured on an H100: a tile of 128 x 128,
 * which fits its core once, took longer than two of half of it. Those of AMD's engines are guesses. A wave has wave_m x
 * wave_n of a tile. After them, for MMA alone, the tiles of cl/gemm_ring.cl, measured there too: one of them nearly
 * fills a core, since its copies go on while it multiplies. */
struct tile {
    tfm__gemm_pace pace; /* which `narrows` in a ring */
    int wave_m, wave_n;
};

static const struct tile MMA_TILES[TILES + RINGS] = {
    {{128, 64, 2, 1.9, false, true}, 64, 32},   {{64, 64, 1.8, 2.9, false, true}, 32, 32},
    {{32, 32, 1.45, 4.8, false, true}, 16, 16}, {{16, 64, 0.95, 8, false, true}, 16, 32},
    {{128, 128, 5.2, 0.5, true, true}, 64, 64}, {{128, 64, 3.7, 0.5, true, true}, 64, 32},
    {{64, 64, 2.9, 0.5, true, true}, 32, 32}};
static const struct tile WMMA_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 32, 32},
                                              {{64, 64, 1.6, 2.5, false, false}, 32, 16},
                                              {{32, 32, 0.8, 4, false, false}, 16, 16},
                                              {{16, 32, 0.6, 4, false, false}, 16, 16}};
static const struct tile MFMA_TILES[TILES] = {{{128, 128, 2, 1.2, false, false}, 64, 64},
                                              {{64, 64, 1.4, 2, false, false}, 32, 32},
                                              {{32, 32, 0.6, 4, false, false}, 16, 32},
                                              {{16, 64, 0.6, 4, false, false}, 16, 64}};

/* Intel's are guesses, too: the largest waves that its compiler keeps in registers, of which a lane is asked to have
 * 256. With the usual 128 it has the sums of waves half as large in memory. */
#define DPAS_OPTION " -cl-intel-256-GRF-per-thread"
static const struct tile DPAS_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 16, 16},
                                              {{64, 64, 1.6, 2.5, false, false}, 16, 16},
                                              {{32, 32, 0.8, 4, false, false}, 16, 8},
                                              {{16, 32, 0.6, 4, false, false}, 8, 8}};
static const struct tile DPAS_16_TILES[TILES] = {{{128, 64, 2, 2, false, false}, 32, 16},
                                                 {{64, 64, 1.6, 2.5, false, false}, 32, 16},
                                                 {{32, 32, 0.8, 4, false, false}, 8, 16},
                                                 {{16, 32, 0.6, 4, false, false}, 8, 16}};

static const struct engine {
    int lanes, words; /* of a wave; of a lane's fragments of a and b: as cl/matrix_engine.cl has them */
    bool bf16;
    const struct tile *tiles;
    int count;
    const char *option; /* of the compiler, for the instruction; or NULL */
} ENGINE[TFM__ENGINES] = {
    [TFM__ENGINE_MMA] = {32, 6, true, MMA_TILES, TILES + RINGS, NULL},
    [TFM__ENGINE_MMA_8] = {32, 3, false, MMA_TILES, TILES, NULL},
    [TFM__ENGINE_WMMA] = {32, 16, true, WMMA_TILES, TILES, NULL},
    [TFM__ENGINE_MFMA] = {64, 4, true, MFMA_TILES, TILES, NULL},
    [TFM__ENGINE_DPAS] = {8, 16, true, DPAS_TILES, TILES, DPAS_OPTION},
    [TFM__ENGINE_DPAS_16] = {16, 16, true, DPAS_16_TILES, TILES, DPAS_OPTION},
};

/* A product as it is run. */
typedef struct plan {
    const struct tile *tile; /* NULL: none fits the device */
    int unit;                /* floats that are read at once: 4 or 1; 0 where it is a ring's, which reads none */
    bool large;              /* elements after 2^31 */
    tfm__gemm_cut cut;
} plan;

/* Of a form of the kernel that was tried: by tile, whether b is stored in 16 bits, unit, inputs and transposes. */
typedef enum verdict {
    UNKNOWN,
    GOOD,
    WRONG,
    NOT_BUILT,
    CUT_ONCE,
    CUT_AGAIN,
    BUSY, /* another program is at a trial for too long: of this context alone, and not kept */
    VERDICTS
} verdict;
enum { CLASSES = (TILES + RINGS) << 5 };

typedef struct state {
    unsigned char verdicts[2 * TFM__ENGINES][CLASSES]; /* of engines, and of their emulations */
    bool waited;                                       /* for another program, in vain */
} state;

/* Seconds to wait for another program's trial, in which kernels are compiled. */
enum { PATIENCE = 20 };

/* Its address is the key under which a context keeps what was tried. */
static char SLOT;

static state *state_of(tfm_context *ctx) {
    return tfm__context_slot_made(ctx, &SLOT, sizeof(state));
}

tfm_dtype tfm__gemm_inputs(tfm_context *ctx, const tfm__gemm_task *task) {
    return task->b.dtype != TFM_F32 ? task->b.dtype : tfm__context_tuning(ctx)->gemm_inputs;
}

static const struct engine *engine_of(tfm_context *ctx) {
    return &ENGINE[tfm__context_tuning(ctx)->engine];
}

static size_t items_of(tfm_context *ctx, const struct tile *tile) {
    return (size_t)(tile->pace.m / tile->wave_m * (tile->pace.n / tile->wave_n) * engine_of(ctx)->lanes);
}

/* Bytes of local memory that the emulation takes besides; a ring's has a place for each item. */
static size_t emulation_of(tfm_context *ctx, const struct tile *tile) {
    const size_t words = (size_t)engine_of(ctx)->words + (tile->pace.narrows ? 1 : 0);
    return tfm__context_tuning(ctx)->engine_emulated ? sizeof(uint32_t) * items_of(ctx, tile) * words : 0;
}

/* Tiles of both operands that a ring has room for; more than 4 are of no use. */
static int stages_of(tfm_context *ctx, const struct tile *tile) {
    const size_t local = tfm__context_limits(ctx)->local_bytes, taken = emulation_of(ctx, tile);
    const size_t stages = local > taken ? (local - taken) / tfm__gemm_ring_stage(tile->pace) : 0;
    return stages > 4 ? 4 : (int)stages;
}

static bool fits(tfm_context *ctx, const struct tile *tile) {
    const tfm__limits *limits = tfm__context_limits(ctx);
    const size_t items = items_of(ctx, tile);
    if (items > limits->max_group || items > limits->max_items[0])
        return false;
    return tile->pace.narrows
               ? stages_of(ctx, tile) >= 2
               : sizeof(uint32_t) * (size_t)(LINE * (tile->pace.m + tile->pace.n)) + emulation_of(ctx, tile) <=
                     limits->local_bytes;
}

static int unit_of(const tfm__gemm_task *task, const struct tile *tile) {
    return tile->pace.narrows ? 0 : tfm__gemm_by_fours(task) ? 4 : 1;
}

/* The place of what is known about this tile's kernel; NULL after a failure. */
static unsigned char *verdict_of(tfm_context *ctx, const tfm__gemm_task *task, const struct tile *tile) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    state *s = state_of(ctx);
    const size_t class = (size_t)(tile - engine_of(ctx)->tiles) << 5 | (task->b.dtype != TFM_F32 ? 16U : 0U) |
                         (unit_of(task, tile) == 4 ? 8U : 0U) | (tfm__gemm_inputs(ctx, task) == TFM_BF16 ? 4U : 0U) |
                         (task->transpose_a ? 2U : 0U) | (task->transpose_b ? 1U : 0U);
    return s ? &s->verdicts[2 * tuning->engine + tuning->engine_emulated][class] : NULL;
}

static unsigned char *verdict_on(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    return verdict_of(ctx, task, p->tile);
}

/* A ring that does not do what it should is passed over, and the other tiles go on. */
static bool usable(tfm_context *ctx, const tfm__gemm_task *task, const struct tile *tile) {
    if (!fits(ctx, tile) || (tile->pace.narrows && !tfm__gemm_ring_takes(task)))
        return false;
    const unsigned char *known = tile->pace.narrows ? verdict_of(ctx, task, tile) : NULL;
    return !known || *known <= GOOD;
}

static plan plan_of(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const struct engine *engine = engine_of(ctx);
    plan best = {0};
    unsigned all = 0;
    for (int i = 0; i < engine->count; i++)
        if ((tuning->gemm_tile == 0 || tuning->gemm_tile == i + 1) && usable(ctx, task, &engine->tiles[i]))
            all |= 1U << i;
    const int place = tfm__gemm_cut_best(ctx, &best.cut, task, engine->tiles, engine->count, sizeof(engine->tiles[0]),
                                         all, tuning->gemm_parts);
    if (place < 0)
        return best;
    best.tile = &engine->tiles[place];
    best.unit = unit_of(task, best.tile);
    best.large = best.tile->pace.narrows ? tfm__gemm_ring_large(ctx, task, &best.cut)
                                         : tfm__gemm_cut_large(ctx, task, &best.cut);
    return best;
}

static const char *trouble(verdict v) {
    static const char *const WHY[VERDICTS] = {
        [WRONG] = "the result of the device's matrix engine was wrong when it was tried",
        [NOT_BUILT] = "the driver does not build the kernel for the device's matrix engine",
        [CUT_AGAIN] = "the program ended each time that the device's matrix engine was tried: `tfm tune --reset` "
                      "forgets that",
        [BUSY] =
            "another program was still trying what it tries once on this device, so the device's matrix engine was "
            "not tried",
    };
    return WHY[v];
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (tuning->class != TFM__SIMT)
        return "the device vectorises what one work-item says";
    const tfm_dtype inputs = tfm__gemm_inputs(ctx, task);
    if (inputs == TFM_F32)
        return "the product reads numbers of 32 bits";
    if (tuning->engine == TFM__NO_ENGINE)
        return "the device has no matrix engine that this version knows";
    if (inputs == TFM_BF16 && !engine_of(ctx)->bf16)
        return "the device's matrix engine has no bf16";
    const plan p = plan_of(ctx, task);
    if (!p.tile)
        return "the device's work-groups or local memory are too small for its tiles";
    const char *why = tfm__gemm_cut_declines(task, &p.cut);
    if (why)
        return why;
    const unsigned char *v = verdict_on(ctx, task, &p);
    return v ? trouble((verdict)*v) : NULL;
}

static tfm__gemm_ring ring_of(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    return (tfm__gemm_ring){.cut = p->cut,
                            .inputs = tfm__gemm_inputs(ctx, task),
                            .wave_m = p->tile->wave_m,
                            .wave_n = p->tile->wave_n,
                            .stages = stages_of(ctx, p->tile),
                            .large = p->large};
}

static tfm__kernel *kernel_of(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (p->tile->pace.narrows) {
        const tfm__gemm_ring ring = ring_of(ctx, task, p);
        return tfm__gemm_ring_kernel(ctx, task, &ring, "gemm_ring");
    }
    return tfm__kernel_get(ctx, "gemm_engine", "gemm_engine",
                           "-DENGINE=%d -DINPUT=%d -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DWAVE_M=%d -DWAVE_N=%d "
                           "-DUNIT=%d -DINDEX=%s -DTURNED_A=%d -DTURNED_B=%d -DTFM_ACTIVATION=%d%s%s%s",
                           (int)tuning->engine, (int)tfm__gemm_inputs(ctx, task), p->tile->pace.m, p->tile->pace.n,
                           TILE_K, p->tile->wave_m, p->tile->wave_n, p->unit, p->large ? "long" : "int",
                           task->transpose_a, task->transpose_b,
                           p->cut.parts == 1 ? (int)task->activation : TFM_NO_ACTIVATION,
                           tfm__stored_define(task->b.dtype), tuning->engine_emulated ? "" : " -DTFM_HAS_ENGINE",
                           tuning->engine_emulated || !engine_of(ctx)->option ? "" : engine_of(ctx)->option);
}

static tfm_status launch(tfm_context *ctx, const tfm__gemm_task *task, const plan *p, tfm__kernel *kernel) {
    const size_t items = items_of(ctx, p->tile);
    if (!p->tile->pace.narrows)
        return tfm__gemm_cut_run(ctx, task, &p->cut, kernel, items);
    const tfm__gemm_ring ring = ring_of(ctx, task, p);
    return tfm__gemm_ring_run(ctx, task, &ring, kernel, items);
}

/* ---- The trial --------------------------------------------------------------------------------------------------- */

/* Random numbers of [-1, 1), the same at each trial: (rows, columns), as they are, in 16 bits, and what those are. */
static void fill(tfm_context *ctx, tfm_tensor *raw, tfm_tensor *narrow, tfm_tensor *rounded, tfm_dtype inputs,
                 int64_t rows, int64_t columns) {
    const size_t count = (size_t)(rows * columns);
    float *host = tfm__alloc(count, sizeof(*host));
    uint64_t random = 17;
    if (!host) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory for the trial of a matrix engine");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(int32_t)(random >> 32) / 2147483648.0f;
    }
    tfm_tensor_new(ctx, raw, TFM_F32, 2, (int64_t[]){rows, columns});
    tfm_tensor_write(ctx, *raw, host);
    tfm_cast(ctx, narrow, *raw, inputs);
    tfm_cast(ctx, rounded, *narrow, TFM_F32);
    free(host);
}

/* Whether c is what `want` is, but for the order of its sums. */
static bool agree(tfm_context *ctx, tfm_tensor c, tfm_tensor want) {
    const size_t count = tfm_tensor_count(c);
    float *x = tfm__alloc(count, sizeof(*x)), *y = tfm__alloc(count, sizeof(*y));
    double worst = 0, squares = 0;
    if (!x || !y)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory for the trial of a matrix engine");
    else if (tfm_tensor_read(ctx, x, c) == TFM_OK && tfm_tensor_read(ctx, y, want) == TFM_OK)
        for (size_t i = 0; i < count; i++) {
            const double error = fabs((double)x[i] - (double)y[i]);
            worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
            squares += (double)y[i] * (double)y[i];
        }
    free(x);
    free(y);
    return squares > 0 && worst < 1e-4 * sqrt(squares / (double)count);
}

/* A product of the plan's kernel beside the plain one: more than one tile each way, and none of them whole; and twice
 * round a ring, which takes stored numbers by eights. */
static bool compare(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    const bool ring = p->tile->pace.narrows;
    const int64_t odd = ring && task->b.dtype != TFM_F32 ? 8
                        : p->unit == 4                   ? 4
                                                         : 5,
                  m = p->tile->pace.m + odd, n = p->tile->pace.n + odd, k = (ring ? 8 : 2) * TILE_K + odd;
    const tfm_dtype inputs = tfm__gemm_inputs(ctx, task);
    tfm_tensor a = {0}, b = {0}, c = {0}, want = {0}, narrow_a = {0}, narrow_b = {0}, round_a = {0}, round_b = {0};
    const float poison = NAN;
    fill(ctx, &a, &narrow_a, &round_a, inputs, task->transpose_a ? k : m, task->transpose_a ? m : k);
    fill(ctx, &b, &narrow_b, &round_b, inputs, task->transpose_b ? n : k, task->transpose_b ? k : n);
    tfm_tensor_new(ctx, &c, TFM_F32, 2, (int64_t[]){m, n});
    tfm_tensor_new(ctx, &want, TFM_F32, 2, (int64_t[]){m, n});
    tfm__tensor_fill(ctx, c, &poison);
    tfm__gemm_task trial = {.batch = 1, .m = m, .n = n, .k = k, .c = c, .a = a, .b = b, .shared_b = true, .alpha = 1};
    trial.b = task->b.dtype != TFM_F32 ? narrow_b : b;
    trial.transpose_a = task->transpose_a;
    trial.transpose_b = task->transpose_b;
    plan own = *p;
    own.large = false;
    own.cut = tfm__gemm_cut_of(ctx, &trial, p->tile->pace, 1);
    tfm__kernel *kernel = kernel_of(ctx, &trial, &own);
    launch(ctx, &trial, &own, kernel);
    trial.c = want;
    trial.a = round_a;
    trial.b = round_b;
    tfm__gemm_plain.run(ctx, &trial);
    return agree(ctx, c, want);
}

/* Tries the plan's kernel. UNKNOWN where it could not be tried, and the context has failed: for want of memory, or to
 * begin anew in smaller groups. */
static verdict try_it(tfm_context *ctx, const tfm__gemm_task *task, const plan *p, const char *what) {
    const int depth = tfm__scope_depth(ctx);
    const bool recorded = tfm__tape_pause(ctx);
    verdict v = UNKNOWN;
    if (tfm_scope_open(ctx) == TFM_OK) {
        tfm__kernel *kernel = kernel_of(ctx, task, p);
        if (kernel && tfm__kernel_most(ctx, kernel) < items_of(ctx, p->tile))
            v = NOT_BUILT;
        else
            v = compare(ctx, task, p) ? GOOD : WRONG;
    }
    const tfm_status status = tfm_context_status(ctx);
    if (status == TFM_OK) {
        tfm_scope_close(ctx, 0, NULL);
    } else if (status == TFM_ERROR_BUILD || status == TFM_ERROR_DEVICE) {
        v = status == TFM_ERROR_BUILD ? NOT_BUILT : WRONG;
        tfm__context_recover(ctx, depth);
    } else {
        v = UNKNOWN;
    }
    tfm__tape_resume(ctx, recorded);
    if (v > GOOD)
        tfm__log(TFM_LOG_WARNING, "%s: %s (%s): going on without it", tfm_context_device(ctx)->name, trouble(v), what);
    return v;
}

/* The program whose text a verdict is of. */
static const char *program_of(const plan *p) {
    return p->tile->pace.narrows ? "gemm_ring" : "gemm_engine";
}

static verdict kept(tfm_context *ctx, const plan *p, const char *what) {
    int stored = UNKNOWN;
    return tfm__proven_get(ctx, &stored, program_of(p), what) && stored > UNKNOWN && stored < BUSY ? (verdict)stored
                                                                                                   : UNKNOWN;
}

/* Tries it, unless a verdict is kept by now. A driver may end the program, and is then tried once more only: the first
 * time it may have been the user. */
static verdict try_once(tfm_context *ctx, const tfm__gemm_task *task, const plan *p, tfm__trial *trial,
                        const char *what) {
    const verdict last = kept(ctx, p, what);
    if (last != UNKNOWN && last != CUT_ONCE)
        return last;
    tfm__trial_mark(ctx, trial, last == CUT_ONCE ? CUT_AGAIN : CUT_ONCE, program_of(p), what);
    const verdict v = try_it(ctx, task, p, what);
    tfm__proven_set(ctx, v, program_of(p), what);
    return v;
}

/* What is known of the plan's kernel, by now. Emulations, which only tests run, are tried in each context. */
static verdict prove(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    unsigned char *known = verdict_on(ctx, task, p);
    tfm__trial trial;
    char what[160];
    if (!known || *known != UNKNOWN)
        return known ? (verdict)*known : UNKNOWN;
    snprintf(what, sizeof(what), "engine %d of %s, %s %dx%dx%d in waves of %dx%d, %c%c by %d%s%s", (int)tuning->engine,
             tfm_dtype_name(tfm__gemm_inputs(ctx, task)), p->tile->pace.narrows ? "ring" : "tile", p->tile->pace.m,
             p->tile->pace.n, TILE_K, p->tile->wave_m, p->tile->wave_n, task->transpose_a ? 't' : 'n',
             task->transpose_b ? 't' : 'n', p->tile->pace.narrows ? stages_of(ctx, p->tile) : p->unit,
             task->b.dtype != TFM_F32 ? ", b stored as " : "",
             task->b.dtype != TFM_F32 ? tfm_dtype_name(task->b.dtype) : "");
    if (tuning->engine_emulated)
        return (verdict)(*known = (unsigned char)try_it(ctx, task, p, what));
    const verdict last = kept(ctx, p, what);
    if (last != UNKNOWN && last < CUT_ONCE)
        return (verdict)(*known = (unsigned char)last);
    /* What is kept may be the mark of another program's trial, which is waited for. */
    state *s = state_of(ctx);
    if (tfm__trial_begin(&trial, s->waited ? 0 : PATIENCE)) {
        *known = (unsigned char)try_once(ctx, task, p, &trial, what);
        tfm__trial_end(&trial);
    } else {
        *known = BUSY;
        tfm__log(s->waited ? TFM_LOG_INFO : TFM_LOG_WARNING, "%s: %s (%s): going on without it",
                 tfm_context_device(ctx)->name, trouble(BUSY), what);
        s->waited = true;
    }
    return (verdict)*known;
}

/* ---- The provider ------------------------------------------------------------------------------------------------ */

/* The kernel of this product, which has an activation and indices that the one that was tried had not. NULL where the
 * driver does not build it for groups of so many, which is remembered, or where the context has failed. */
static tfm__kernel *built(tfm_context *ctx, const tfm__gemm_task *task, const plan *p) {
    const int depth = tfm__scope_depth(ctx);
    tfm__kernel *kernel = kernel_of(ctx, task, p);
    unsigned char *known = verdict_on(ctx, task, p);
    if (kernel && tfm__kernel_most(ctx, kernel) >= items_of(ctx, p->tile))
        return kernel;
    if (tfm_context_status(ctx) == TFM_ERROR_BUILD)
        tfm__context_recover(ctx, depth);
    if (tfm_context_status(ctx) != TFM_OK || !known)
        return NULL;
    *known = NOT_BUILT;
    tfm__log(TFM_LOG_WARNING, "%s: %s: going on without it", tfm_context_device(ctx)->name, trouble(NOT_BUILT));
    return NULL;
}

static tfm_status run(tfm_context *ctx, const tfm__gemm_task *task) {
    const plan p = plan_of(ctx, task);
    tfm__kernel *kernel = prove(ctx, task, &p) == GOOD ? built(ctx, task, &p) : NULL;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (!kernel)
        return tfm__gemm_run(ctx, tfm__gemm_choose(ctx, task), task); /* which is another one now */
    return launch(ctx, task, &p, kernel);
}

/* A trial has a few matrices of a tile's size. */
static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const plan p = plan_of(ctx, task);
    const unsigned char *known = verdict_on(ctx, task, &p);
    const uint64_t trial = known && *known == UNKNOWN ? 10 * tfm__pool_block(sizeof(float) * 512 * 256) : 0;
    const uint64_t own = tfm__gemm_cut_memory(task, &p.cut) + (p.tile->pace.narrows ? tfm__gemm_ring_memory(task) : 0);
    return own > trial ? own : trial;
}

const tfm__gemm_provider tfm__gemm_engine = {.name = "engine", .declines = declines, .run = run, .memory = memory};
