/* bf16 GEMM by processor instructions: dot products in cl/gemm/gemm_cpu_bf16.cl, AMX tiles in cl/gemm/gemm_cpu_amx.cl.
 * For bf16 weights, and for others if the context's tuning allows rounding to bf16, as in training. Inputs are rounded
 * to bf16, as for matrix cores (gemm_mma.c). Few rows are bound by reading the weight, so they stay with `cpu-skinny`,
 * which rounds nothing. */
#include <math.h>
#include "ops/gemm/gemm.h"
#include "ops/gemm/kernel_validation.h"

/* Rows of a block of cl/gemm/gemm_cpu_amx.cl, and of an item: enough to amortize reading a panel, few enough to stay in
 * L2 together with the panels. */
enum { BLOCK = 32, MIN_ROWS = 64, MAX_ROWS = 256 };

/* Instruction: vector dot products or AMX tiles. */
typedef enum form { AVX512_BF16, AMX, FORMS } form;

typedef struct state {
    unsigned char verdicts[FORMS]; /* of the instructions on this device */
    /* Kernels looked up so far: looking up a name and its defines takes longer than a launch. */
    tfm__kernel *round, *products[FORMS][TFM_ACTIVATIONS], *products_at[TFM_ACTIVATIONS];
} state;

/* Its address is the key of the context's state. */
static char SLOT;

static state *state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(state));
}

/* The better of the processor's instructions without a failed validation. */
static form form_of(tfm_context *ctx) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const state *s = state_of(ctx);
    const bool fits = tuning->width == 16 && tuning->gemm_nr_vectors == 2;
    return tuning->amx_bf16 && fits && s && s->verdicts[AMX] <= TFM__VALID &&
                   (tuning->mma_emulated || tfm__amx_allowed())
               ? AMX
               : AVX512_BF16;
}

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "bf16 GEMM by the processor's own instructions gave wrong results",
        [TFM__NOT_BUILT] = "the compiler does not build bf16 GEMM for the processor's own instructions",
    };
    return WHY[v];
}

static const char *declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const char *why = tfm__gemm_packed_declines(ctx, task);
    if (why)
        return why;
    const form which = form_of(ctx);
    if (which == AVX512_BF16 && !(tuning->avx512_bf16 && tuning->width == 16) && !tuning->mma_emulated)
        return "the processor has no bf16 dot products";
    if (tfm__gemm_input_dtype(ctx, task) != TFM_BF16)
        return "it is for bf16 weights, or GEMMs that may round to bf16";
    if (task->m <= tuning->gemm_mr_tail || task->batch > 1)
        return "it is for one matrix of more than 8 rows, or 4 where the device has fewer registers";
    const state *s = state_of(ctx);
    return s ? describe((tfm__verdict)s->verdicts[which]) : NULL;
}

/* Cached in `known`. No activation and ReLU share a program. `rounded_a`: a is already bf16 for the AMX kernel. */
static tfm__kernel *find(tfm_context *ctx, tfm__kernel **known, form which, const char *name, tfm_activation activation,
                         bool rounded_a) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    if (!*known)
        *known = tfm__kernel_get(ctx, which == AMX ? "gemm_cpu_amx" : "gemm_cpu_bf16", name,
                                 "-DTFM_ROWS=%d -DTFM_PART_ROWS=%d -DTFM_VECTORS=%d -DTFM_ACTIVATION=%d%s%s",
                                 tuning->gemm_mr, tuning->gemm_mr_tail, tuning->gemm_nr_vectors,
                                 activation == TFM_RELU ? TFM_NO_ACTIVATION : activation,
                                 tuning->mma_emulated ? " -DEMULATED" : "", rounded_a ? " -DROUNDED_A" : "");
    return *known;
}

#define GEMM_ARGS(read)                                                                                                \
    TFM__T_AS("c", task->c), TFM__T_AS("a", read), TFM__T(packed), TFM__T_AS("addend", addend.tensor),                 \
        TFM__I_AS("m", task->m), TFM__I_AS("n", task->n), TFM__I_AS("k", task->k), TFM__I(group),                      \
        TFM__I_AS("addend_row", addend.row), TFM__I_AS("has_addend", addend.tensor.buffer != NULL),                    \
        TFM__F_AS("alpha", task->alpha), TFM__F_AS("min_value", task->activation == TFM_RELU ? 0.0f : -INFINITY)

static void launch_vectors(tfm_context *ctx, state *s, const tfm__gemm_task *task, tfm_tensor packed) {
    const int64_t row_tiles = tfm__ceil_div(task->m, tfm__context_tuning(ctx)->gemm_mr);
    const int64_t panels = tfm__ceil_div(task->n, tfm__gemm_panel_width(ctx)), rows = tfm__ceil_div(task->m, 64);
    const int64_t group = tfm__gemm_panel_group(ctx, task, 1, row_tiles);
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    tfm_tensor rounded = {0};
    if (task->transpose_a) {
        tfm__gemm_bf16_pack_at(ctx, &rounded, task);
    } else if (tfm_tensor_new(ctx, &rounded, TFM_BF16, 2, (int64_t[]){task->m, tfm__gemm_bf16_row_stride(task->k)}) ==
               TFM_OK) {
        tfm__launch(ctx, find(ctx, &s->round, AVX512_BF16, "gemm_cpu_bf16_round", TFM_NO_ACTIVATION, false),
                    TFM__GRID_1D((size_t)tfm__ceil_div(task->m, rows), 1),
                    TFM__ARGS(TFM__T(rounded), TFM__T_AS("a", task->a), TFM__I_AS("m", task->m),
                              TFM__I_AS("k", task->k), TFM__I(rows)));
    }
    if (tfm_context_status(ctx) != TFM_OK)
        return;
    tfm__launch(
        ctx,
        find(ctx, &s->products[AVX512_BF16][task->activation], AVX512_BF16, "gemm_cpu_bf16", task->activation, false),
        TFM__GRID_2D((size_t)row_tiles, (size_t)tfm__ceil_div(panels, group), 1, 1), TFM__ARGS(GEMM_ARGS(rounded)));
}

/* A multiple of the number of cores as blocks of rows. With too few rows, cores share a block, and each rounds its
 * inputs. */
static void launch_amx(tfm_context *ctx, state *s, const tfm__gemm_task *task, tfm_tensor packed) {
    const int64_t units = tfm_context_device(ctx)->compute_units, cores = units > 0 ? units : 1;
    const int64_t panels = tfm__ceil_div(task->n, tfm__gemm_panel_width(ctx));
    const int64_t wanted = tfm__ceil_div(tfm__ceil_div(task->m, MAX_ROWS), cores) * cores;
    const int64_t most = tfm__ceil_div(task->m, MIN_ROWS), parts = wanted < most ? wanted : most;
    const int64_t rows = tfm__ceil_div(tfm__ceil_div(task->m, parts), BLOCK) * BLOCK;
    const int64_t row_parts = tfm__ceil_div(task->m, rows), shares = tfm__ceil_div(cores, row_parts);
    const int64_t group = tfm__ceil_div(panels, shares < panels ? shares : panels);
    const tfm__gemm_addend addend = tfm__gemm_addend_of(task);
    tfm__kernel **known = task->transpose_a ? &s->products_at[task->activation] : &s->products[AMX][task->activation];
    tfm_tensor read = task->transpose_a ? (tfm_tensor){0} : task->a;
    if (task->transpose_a && tfm__gemm_bf16_pack_at(ctx, &read, task) != TFM_OK)
        return;
    tfm__launch(ctx, find(ctx, known, AMX, "gemm_cpu_amx", task->activation, task->transpose_a),
                TFM__GRID_2D((size_t)row_parts, (size_t)tfm__ceil_div(panels, group), 1, 1),
                TFM__ARGS(GEMM_ARGS(read), TFM__I(rows)));
}

static tfm_status launch(tfm_context *ctx, const tfm__gemm_task *task) {
    state *s = state_of(ctx);
    tfm_tensor packed = {0};
    if (!s || tfm_scope_open(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    if (tfm__gemm_pack_b(ctx, &packed, task, TFM_BF16) == TFM_OK)
        (form_of(ctx) == AMX ? launch_amx : launch_vectors)(ctx, s, task, packed);
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- Validation of the instruction ----------------------------------------------------------------------------- */

enum { VALIDATION_M = 21, VALIDATION_N = 45, VALIDATION_K = 37 };

/* Values exact in bf16 with exact sums, so that both kernels must agree. */
static void fill_validation(float *a, uint16_t *b) {
    for (int i = 0; i < VALIDATION_M * VALIDATION_K; i++)
        a[i] = (float)(i * 7 % 31 - 15);
    for (int i = 0; i < VALIDATION_N * VALIDATION_K; i++) {
        const union {
            float value;
            uint32_t bits;
        } number = {.value = (float)(i * 11 % 37 - 18) / 8};
        b[i] = (uint16_t)(number.bits >> 16);
    }
}

static tfm__verdict compare(tfm_context *ctx, const void *none) {
    (void)none;
    float a[VALIDATION_M * VALIDATION_K], got[VALIDATION_M * VALIDATION_N], want[VALIDATION_M * VALIDATION_N];
    uint16_t b[VALIDATION_N * VALIDATION_K];
    tfm_param weight = {0};
    tfm__gemm_task t = {
        .batch = 1, .m = VALIDATION_M, .n = VALIDATION_N, .k = VALIDATION_K, .shared_b = true, .alpha = 1};
    tfm_tensor plain = {0};
    fill_validation(a, b);
    tfm_tensor_new(ctx, &t.a, TFM_F32, 2, (int64_t[]){t.m, t.k});
    tfm_tensor_new(ctx, &weight.value, TFM_BF16, 2, (int64_t[]){t.n, t.k});
    tfm_tensor_new(ctx, &t.c, TFM_F32, 2, (int64_t[]){t.m, t.n});
    tfm_tensor_new(ctx, &plain, TFM_F32, 2, (int64_t[]){t.m, t.n});
    tfm_tensor_write(ctx, t.a, a);
    tfm_tensor_write(ctx, weight.value, b);
    t.b = weight.value;
    t.weight = &weight;
    t.transpose_b = true;
    bool right = launch(ctx, &t) == TFM_OK && tfm_tensor_read(ctx, got, t.c) == TFM_OK;
    t.c = plain;
    t.weight = NULL;
    right = right && tfm__gemm_reference.multiply(ctx, &t) == TFM_OK && tfm_tensor_read(ctx, want, t.c) == TFM_OK;
    for (int i = 0; right && i < VALIDATION_M * VALIDATION_N; i++)
        right = got[i] == want[i];
    tfm_tensor_free(ctx, &weight.packed);
    return right ? TFM__VALID : TFM__WRONG;
}

/* Emulations, used only by tests, do not count as an instruction. */
static tfm__verdict validate(tfm_context *ctx, state *s, form which) {
    const bool emulated = tfm__context_tuning(ctx)->mma_emulated;
    return tfm__validate(ctx, &s->verdicts[which],
                         &(tfm__validation){.program = emulated       ? NULL
                                                       : which == AMX ? "gemm_cpu_amx"
                                                                      : "gemm_cpu_bf16",
                                            .what = which == AMX ? "AMX tiles" : "vectors",
                                            .without = "them, which is slower",
                                            .describe = describe,
                                            .compare = compare});
}

/* ---- The provider ------------------------------------------------------------------------------------------------ */

static tfm_status multiply(tfm_context *ctx, const tfm__gemm_task *task) {
    state *s = state_of(ctx);
    const tfm__verdict v = s ? validate(ctx, s, form_of(ctx)) : TFM__UNTESTED;
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    return v == TFM__VALID ? launch(ctx, task) : TFM__GEMM_DECLINED;
}

static uint64_t memory(tfm_context *ctx, const tfm__gemm_task *task) {
    const state *s = state_of(ctx);
    const uint64_t trial =
        s && s->verdicts[form_of(ctx)] == TFM__UNTESTED ? 6 * tfm__pool_block_bytes(sizeof(float) * 64 * 64) : 0;
    /* If the AMX validation fails, the dot-product kernel runs, which needs memory for rounded operands. */
    const bool tiles = form_of(ctx) == AMX && s && s->verdicts[AMX] == TFM__VALID;
    const uint64_t own = tiles && !task->transpose_a ? 0 : tfm__gemm_bf16_memory(task);
    return own + tfm__gemm_pack_memory(ctx, task, TFM_BF16) + trial;
}

const tfm__gemm_provider tfm__gemm_cpu_bf16 = {
    .name = "cpu-bf16",
    .declines = declines,
    .multiply = multiply,
    .memory = memory,
    .packs_weights = true,
};
