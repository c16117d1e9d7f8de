/* fp32 GEMM on a processor's AMX bf16 tiles: each float is split exactly into three bf16 numbers, and six of the nine
 * partial products, those within fp32 precision, are added: cl/gemm/gemm_cpu_bf16x3.cl. So only sums are rounded, as
 * with fp32 instructions. */
#include <math.h>
#include "ops/gemm/gemm.h"
#include "ops/gemm/kernel_validation.h"

/* As in the kernel: bf16 parts of a float, rows of a block, panels that an item processes together, steps of 32 along K
 * in one chunk, and words of that chunk. */
enum { SHARES = 3, BLOCK = 32, PANELS = 8, STEPS = 16, SCRATCH = PANELS * SHARES * STEPS * 16 * 32 };

typedef struct state {
    unsigned char verdict; /* of the instruction on this device */
    /* Kernels looked up so far: looking up a name and its defines takes longer than a launch. */
    tfm__kernel *products[2][TFM_ACTIVATIONS]; /* a as given, and a transposed */
} state;

/* Its address is the key of the context's state. */
static char SLOT;

static state *state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(state));
}

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "bf16x3 GEMM by the processor's AMX tiles gave wrong results",
        [TFM__NOT_BUILT] = "the compiler does not build bf16x3 GEMM for the processor's AMX tiles",
    };
    return WHY[v];
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const char *why = tfm__gemm_packed_declines(ctx, task);
    if (why)
        return why;
    if (!tuning->amx_bf16 || tuning->width != 16 || tuning->gemm_nr_vectors != 2 ||
        !(tuning->mma_emulated || tfm__amx_allowed()))
        return "the processor has no bf16 AMX tiles";
    if (task->b.dtype != TFM_F32 || tfm__gemm_input_dtype(ctx, task) != TFM_F32)
        return "it is for fp32 that may not be rounded";
    if (task->batch > 1)
        return "it is for one matrix";
    const state *s = state_of(ctx);
    return s ? describe((tfm__verdict)s->verdict) : NULL;
}

/* No activation and ReLU share a program. */
static tfm__kernel *kernel_of(tfm_context *ctx, state *s, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const tfm_activation activation = task->activation == TFM_RELU ? TFM_NO_ACTIVATION : task->activation;
    tfm__kernel **known = &s->products[task->transpose_a][activation];
    if (!*known)
        *known = tfm__kernel_get(ctx, "gemm_cpu_bf16x3", "gemm_cpu_bf16x3", "-DTFM_VECTORS=%d -DTFM_ACTIVATION=%d%s%s",
                                 tuning->gemm_nr_vectors, activation, tuning->mma_emulated ? " -DEMULATED" : "",
                                 task->transpose_a ? " -DTRANSPOSE_A" : "");
    return *known;
}

/* Work distribution of c: rows and panels of an item. */
typedef struct partition {
    int64_t rows, group, row_items, panel_items;
} partition;

/* One item for each core, in the shape of least cost. An item splits a's rows again for each PANELS panels (more for a
 * shorter K); splitting a number costs as much as multiplying it by that many. */
static partition partition_of(const tfm_context *ctx, const tfm__gemm_task *task) {
    enum { SPLITTING = 50 };
    const int64_t units = tfm_context_device(ctx)->compute_units, cores = units > 0 ? units : 1;
    const int64_t width = tfm__gemm_panel_width(ctx), panels = tfm__ceil_div(task->n, width);
    const int64_t steps = tfm__ceil_div(task->k, 32),
                  together = PANELS * (steps > 0 && steps < STEPS ? STEPS / steps : 1);
    partition best = {0};
    int64_t least = INT64_MAX;
    for (int64_t r = 1; r <= cores; r++) {
        partition d = {.rows = tfm__ceil_div(tfm__ceil_div(task->m, r), BLOCK) * BLOCK,
                       .group = tfm__ceil_div(panels, cores / r)};
        d.row_items = tfm__ceil_div(task->m, d.rows);
        d.panel_items = tfm__ceil_div(panels, d.group);
        const int64_t columns = d.group * width, passes = tfm__ceil_div(d.group, together);
        const int64_t cost = d.rows * columns + SPLITTING * (d.rows * passes + columns);
        if (cost < least) {
            least = cost;
            best = d;
        }
    }
    return best;
}

static tfm_status launch(tfm_context *ctx, const tfm__gemm_task *task) {
    state *s = state_of(ctx);
    const partition d = partition_of(ctx, task);
    const int64_t n = task->n, k = task->k, width = tfm__gemm_panel_width(ctx);
    const int64_t words = d.row_items * d.panel_items * SCRATCH;
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    const bool packed = task->weight != NULL, across = !packed && task->transpose_b;
    const int64_t b_row = packed ? width : across ? 1 : n, b_column = across ? k : 1;
    const int64_t b_panel = packed ? width * k : width * b_column;
    tfm_tensor b = task->b, scratch = {0};
    if (!s || tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (packed)
        tfm__gemm_pack_b(ctx, &b, task, TFM_F32);
    tfm_tensor_new(ctx, &scratch, TFM_I32, 1, &words);
    tfm__launch(ctx, kernel_of(ctx, s, task), TFM__GRID_2D((size_t)d.row_items, (size_t)d.panel_items, 1, 1),
                TFM__ARGS(TFM__T_AS("c", task->c), TFM__T_AS("a", task->a), TFM__T(b),
                          TFM__T_AS("addend", addend.tensor), TFM__T(scratch), TFM__I_AS("m", task->m), TFM__I(n),
                          TFM__I(k), TFM__I_AS("rows", d.rows), TFM__I_AS("group", d.group), TFM__I(b_panel),
                          TFM__I(b_row), TFM__I(b_column),
                          TFM__I_AS("b_width", packed ? tfm__ceil_div(n, width) * width : n),
                          TFM__I_AS("addend_row", addend.row), TFM__I_AS("has_addend", addend.tensor.buffer != NULL),
                          TFM__F_AS("alpha", task->alpha),
                          TFM__F_AS("min_value", task->activation == TFM_RELU ? 0.0f : -INFINITY)));
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- Validation of the instruction ----------------------------------------------------------------------------- */

/* Whole and partial blocks, two chunks of K, and a bias. */
static const tfm__gemm_task VALIDATION_TASK = {.batch = 1, .m = 70, .n = 77, .k = 600, .shared_b = true, .alpha = 1};

/* Random numbers with all 24 bits and either sign, of 0.5 to 1 in size. Rounding of sums, which are about 14, gives
 * errors of at most 1.5e-5; without one of the smallest partial products many errors exceed 5e-5. */
static void fill_validation(float *x, int count, uint32_t seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ldexpf((float)(0x800000u | seed >> 9), -24) * (seed >> 8 & 1 ? -1.0f : 1.0f);
    }
}

static tfm__verdict compare(tfm_context *ctx, const void *none) {
    (void)none;
    tfm__gemm_task t = VALIDATION_TASK;
    const int m = (int)t.m, n = (int)t.n, k = (int)t.k;
    float *a = tfm__alloc((size_t)(m * k), sizeof(*a)), *b = tfm__alloc((size_t)(k * n), sizeof(*b));
    float *bias = tfm__alloc((size_t)n, sizeof(*bias)), *got = tfm__alloc((size_t)(m * n), sizeof(*got));
    bool right = a && b && bias && got;
    if (!right)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "gemm: out of host memory");
    if (right) {
        fill_validation(a, m * k, 1);
        fill_validation(b, k * n, 2);
        fill_validation(bias, n, 3);
        tfm_tensor_new(ctx, &t.a, TFM_F32, 2, (int64_t[]){m, k});
        tfm_tensor_new(ctx, &t.b, TFM_F32, 2, (int64_t[]){k, n});
        tfm_tensor_new(ctx, &t.bias, TFM_F32, 1, &t.n);
        tfm_tensor_new(ctx, &t.c, TFM_F32, 2, (int64_t[]){m, n});
        tfm_tensor_write(ctx, t.a, a);
        tfm_tensor_write(ctx, t.b, b);
        tfm_tensor_write(ctx, t.bias, bias);
        right = launch(ctx, &t) == TFM_OK && tfm_tensor_read(ctx, got, t.c) == TFM_OK;
    }
    for (int i = 0; right && i < m * n; i++) {
        double sum = (double)bias[i % n];
        for (int p = 0; p < k; p++)
            sum += (double)a[i / n * k + p] * (double)b[p * n + i % n];
        right = fabs((double)got[i] - sum) < 5e-5;
    }
    free(a);
    free(b);
    free(bias);
    free(got);
    return right ? TFM__VALID : TFM__WRONG;
}

/* Emulations, used only by tests, do not count as an instruction. */
static tfm__verdict validate(tfm_context *ctx, state *s) {
    return tfm__validate(
        ctx, &s->verdict,
        &(tfm__validation){.program = tfm__context_tuning(ctx)->mma_emulated ? NULL : "gemm_cpu_bf16x3",
                           .what = "AMX tiles",
                           .without = "them, which is slower",
                           .describe = describe,
                           .compare = compare});
}

/* ---- The provider ------------------------------------------------------------------------------------------------ */

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    state *s = state_of(ctx);
    const tfm__verdict v = s ? validate(ctx, s) : TFM__UNTESTED;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    return v == TFM__VALID ? launch(ctx, task) : TFM__GEMM_DECLINED;
}

static uint64_t scratch_memory(const tfm_context *ctx, const tfm__gemm_task *task) {
    const partition d = partition_of(ctx, task);
    return tfm__pool_block_bytes(sizeof(int32_t) * (uint64_t)(d.row_items * d.panel_items * SCRATCH));
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const state *s = state_of(ctx);
    const uint64_t own = scratch_memory(ctx, task);
    if (!s || s->verdict != TFM__UNTESTED)
        return own;
    /* Before validation: its memory, and that of a `cpu-packed` fallback. */
    const uint64_t packed = tfm__gemm_cpu_packed.memory(ctx, task);
    const uint64_t trial = tfm__pool_block_bytes(sizeof(float) * (uint64_t)(VALIDATION_TASK.m * VALIDATION_TASK.k)) +
                           tfm__pool_block_bytes(sizeof(float) * (uint64_t)(VALIDATION_TASK.k * VALIDATION_TASK.n)) +
                           tfm__pool_block_bytes(sizeof(float) * (uint64_t)(VALIDATION_TASK.m * VALIDATION_TASK.n)) +
                           tfm__pool_block_bytes(sizeof(float) * (uint64_t)VALIDATION_TASK.n) +
                           scratch_memory(ctx, &VALIDATION_TASK);
    return (own > packed ? own : packed) + trial;
}

const tfm__gemm_provider tfm__gemm_cpu_bf16x3 = {
    .name = "cpu-bf16x3",
    .declines = declines,
    .multiply = multiply,
    .memory = memory,
    .packs_weights = true,
};
