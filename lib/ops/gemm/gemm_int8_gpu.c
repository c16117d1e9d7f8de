/* Linear layers with int8 weights on GPU-style devices: few rows by cl/gemm/gemm_int8_gpu_skinny.cl, others by the
 * tiles of cl/gemm/gemm_int8_gpu_tile.cl.
 *
 * Both use the device's four-way int8 dot product (DP4A). As with matrix cores (gemm_mma.c), the instruction is known
 * from vendor documents and is untested here on most devices. So each kernel form that uses it is validated before its
 * first use, once per device, driver and kernel text: a small GEMM must equal the reference kernel to the bit, since
 * the sums are integers. A form that fails is used without the instruction, in plain OpenCL C. */
#include <math.h>
#include <stdio.h>
#include "ops/gemm/gemm_int8.h"
#include "ops/gemm/kernel_validation.h"

/* As in the kernels. */
enum { ITEMS = 128, LANES = 32, COLUMNS = 16, MAX_SLICED_K = 4, MAX_ROWS = 8, STEP = 32 };

/* Limit of rows of a group if the item takes registers to unpack bytes: quantized in local memory, and quantized
 * beforehand. */
enum { UNPACKED_ROWS = 4, UNPACKED_ROWS_QUANTIZED = 2 };

/* Limits of a group of few rows in bytes: K of most weights, and all rows that it quantizes. The sums take as much. */
enum { USUAL_DEPTH = 2048, OWN_BYTES = 16384 };

/* A weight of more bytes is likely evicted from caches between groups of rows. Limit in bytes of x that all groups
 * together may read to quantize it again, instead of an extra launch. Both are estimates. */
enum { LARGE = 16 << 20, MAX_REQUANTIZE_BYTES = 4 << 20 };

/* Largest first. `speed`: an item's throughput relative to one of the largest tile; fewer sums per item read local
 * memory more often. Estimates. */
enum { TILES = 3 };
static const struct tile {
    int size;
    double speed;
} TILE[TILES] = {{128, 1}, {64, 0.75}, {32, 0.4}};

/* A kernel and its defines, except the activation. */
typedef struct form {
    const struct tile *tile;   /* NULL: the few-row kernel */
    int rows, depth, sliced_k; /* of the few-row kernel */
    int unit;                  /* bytes per load: 16 or 1 */
    bool quads;                /* of the tiled kernel */
} form;

enum { DEPTHS = 3, ROW_KINDS = 4, SLICE_KINDS = 3, FORMS = 4 * TILES + 2 * DEPTHS * ROW_KINDS * SLICE_KINDS };

typedef struct state {
    unsigned char verdicts[TFM__DP4A_COUNT][FORMS];
    unsigned refused; /* tiles whose kernel the driver rejects with its group size */
    bool waited;      /* for another program's validation, in vain */
} state;

/* Its address is the key of the context's state. */
static char SLOT;

static state *state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(state));
}

/* ---- Kernel forms ------------------------------------------------------------------------------------------------ */

static bool fits(tfm_context *ctx, size_t items, size_t local_ints) {
    const tfm__limits *limits = tfm__context_limits(ctx);
    return items <= limits->max_group && items <= limits->max_items[0] &&
           local_ints * sizeof(int32_t) <= limits->local_bytes;
}

static size_t items_of(const form *f) {
    return f->tile ? 2 * (size_t)f->tile->size : ITEMS;
}

/* Local memory for both operands of two steps, and for the kernel that quantizes the rows before. */
static bool tile_fits(tfm_context *ctx, const struct tile *tile) {
    return fits(ctx, ITEMS, ITEMS) && fits(ctx, 2 * (size_t)tile->size, (size_t)(2 * 2 * STEP / 4 * (tile->size + 4)));
}

/* Local memory for the sums, or for the quantized rows, plus the reduction. */
static bool rows_fit(tfm_context *ctx, int rows) {
    const int sums = rows * 4 * (ITEMS + 1), own = OWN_BYTES / 4;
    return fits(ctx, ITEMS, (size_t)(sums > own ? sums : own) + ITEMS + MAX_ROWS);
}

/* Tile cost: whole tiles on each core in sequence. The largest tile has too few registers to unpack bytes. */
static const struct tile *best_tile(tfm_context *ctx, const tfm__gemm_task *t, tfm__dp4a dp4a, unsigned refused) {
    const int64_t units = tfm_context_device(ctx)->compute_units, cores = units > 0 ? units : 1;
    const int asked = tfm__context_tuning(ctx)->gemm_tile;
    const struct tile *best = NULL;
    double least = 0;
    for (int i = 0; i < TILES; i++) {
        const struct tile *tile = &TILE[i];
        if (refused >> i & 1 || (i == 0 && dp4a == TFM__DP4A_NONE) || (asked > 0 && asked <= TILES && asked != i + 1) ||
            !tile_fits(ctx, tile))
            continue;
        const int64_t groups = tfm__ceil_div(t->m, tile->size) * tfm__ceil_div(t->n, tile->size);
        const double time = (double)tfm__ceil_div(groups, cores) * tile->size * tile->size / tile->speed;
        if (!best || time < least) {
            best = tile;
            least = time;
        }
    }
    return best;
}

/* Sliced K, as in gemm_gpu_skinny.c: teams share columns until each compute unit has a group or two, as long as each
 * item has bytes to read. */
static int sliced_k_of(tfm_context *ctx, const tfm__gemm_task *t, int rows) {
    const int64_t units = tfm_context_device(ctx)->compute_units;
    const int64_t groups = tfm__ceil_div(t->n, COLUMNS) * tfm__ceil_div(t->m, rows);
    int sliced_k = 1;
    while (sliced_k < MAX_SLICED_K && groups * sliced_k < units && 2 * sliced_k * LANES * 16 <= t->k)
        sliced_k *= 2;
    return sliced_k;
}

/* False if no form fits the device. */
static bool find_form(tfm_context *ctx, form *f, const tfm__gemm_task *t, tfm__dp4a dp4a, unsigned refused) {
    const int64_t few = tfm__context_tuning(ctx)->gemm_skinny_rows;
    const tfm_tensor q = t->weight->value;
    *f = (form){.unit = t->k % 16 == 0 && q.offset % 16 == 0 && t->a.offset % 4 == 0 ? 16 : 1};
    if (t->m <= few && (t->m <= MAX_ROWS || t->n * t->k <= LARGE)) {
        const bool apart = f->unit == 1 || dp4a == TFM__DP4A_NONE;
        f->rows = apart ? UNPACKED_ROWS : MAX_ROWS;
        while (f->rows > 1 && f->rows / 2 >= t->m)
            f->rows /= 2;
        while (f->rows > 1 && !rows_fit(ctx, f->rows))
            f->rows /= 2;
        f->sliced_k = sliced_k_of(ctx, t, f->rows);
        const int64_t depth = tfm__int8_padded(t->k),
                      again = tfm__ceil_div(t->n, COLUMNS / f->sliced_k) * t->m * t->k * (int64_t)sizeof(float);
        if (again <= MAX_REQUANTIZE_BYTES && depth * f->rows <= OWN_BYTES)
            f->depth = depth <= USUAL_DEPTH ? USUAL_DEPTH : OWN_BYTES / f->rows;
        else if (apart && f->rows > UNPACKED_ROWS_QUANTIZED)
            f->rows = UNPACKED_ROWS_QUANTIZED;
        f->sliced_k = sliced_k_of(ctx, t, f->rows);
        if (rows_fit(ctx, f->rows))
            return true;
    }
    f->tile = best_tile(ctx, t, dp4a, refused);
    f->quads = t->n % 4 == 0 && t->c.offset % 4 == 0;
    return f->tile != NULL;
}

static unsigned char *verdict_of(tfm_context *ctx, const form *f, tfm__dp4a dp4a) {
    state *s = state_of(ctx);
    const int unit = f->unit == 16, depth = f->depth == 0 ? 0 : f->depth == USUAL_DEPTH ? 1 : 2;
    const int kind = f->rows == 8 ? 3 : f->rows == 4 ? 2 : f->rows == 2, slice_kind = f->sliced_k / 2; /* of 1, 2, 4 */
    const int place = f->tile ? (int)(f->tile - TILE) * 4 + 2 * f->quads + unit
                              : 4 * TILES + ((slice_kind * ROW_KINDS + kind) * DEPTHS + depth) * 2 + unit;
    return s ? &s->verdicts[dp4a][place] : NULL;
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

static const char *program_of(const form *f) {
    return f->tile ? "gemm_int8_gpu_tile" : "gemm_int8_gpu_skinny";
}

static tfm__kernel *kernel_of(tfm_context *ctx, const form *f, tfm__dp4a dp4a, tfm_activation activation) {
    const char *has = dp4a == TFM__DP4A_NONE ? "" : " -DTFM_HAS_DP4A";
    char split[24] = "";
    if (f->sliced_k > 1)
        snprintf(split, sizeof(split), " -DSLICED_K=%d", f->sliced_k);
    return f->tile ? tfm__kernel_get(ctx, program_of(f), program_of(f),
                                     "-DTILE=%d -DLOAD_WIDTH=%d -DSTORE_VEC4=%d -DDP4A=%d -DTFM_ACTIVATION=%d%s",
                                     f->tile->size, f->unit, f->quads, (int)dp4a, (int)activation, has)
                   : tfm__kernel_get(ctx, program_of(f), program_of(f),
                                     "-DROWS=%d -DDEPTH=%d -DLOAD_WIDTH=%d -DDP4A=%d -DTFM_ACTIVATION=%d%s%s", f->rows,
                                     f->depth, f->unit, (int)dp4a, (int)activation, split, has);
}

#define GEMM_ARGS(t)                                                                                                   \
    TFM__T_AS("q", (t)->weight->value), TFM__T_AS("scales", (t)->weight->scales), TFM__T_AS("bias", (t)->bias),        \
        TFM__I_AS("m", (t)->m), TFM__I_AS("n", (t)->n), TFM__I_AS("k", (t)->k),                                        \
        TFM__I_AS("has_bias", (t)->bias.buffer != NULL)

static void launch_form_kernel(tfm_context *ctx, const tfm__gemm_task *t, const form *f, tfm__kernel *kernel,
                               tfm_tensor a, tfm_tensor row_scales) {
    const size_t items = items_of(f);
    const int64_t height = f->tile ? f->tile->size : f->rows, width = f->tile ? f->tile->size : COLUMNS / f->sliced_k;
    const size_t groups = (size_t)(tfm__ceil_div(t->m, height) * tfm__ceil_div(t->n, width));
    if (f->tile)
        tfm__launch(ctx, kernel, TFM__GRID_1D(groups * items, items),
                    TFM__ARGS(TFM__T_AS("c", t->c), TFM__T(a), TFM__T(row_scales), GEMM_ARGS(t)));
    else
        tfm__launch(ctx, kernel, TFM__GRID_1D(groups * items, items),
                    TFM__ARGS(TFM__T_AS("c", t->c), TFM__T_AS("x", t->a), TFM__T(a), TFM__T(row_scales), GEMM_ARGS(t)));
}

static tfm_status launch_form(tfm_context *ctx, const tfm__gemm_task *t, const form *f, tfm__dp4a dp4a,
                              tfm_activation activation) {
    tfm__kernel *kernel = kernel_of(ctx, f, dp4a, activation);
    tfm_tensor a = {0}, row_scales = {0};
    tfm_scope_open(ctx);
    if (f->tile || f->depth == 0) {
        tfm_tensor_new(ctx, &a, TFM_I8, 2, (int64_t[]){t->m, tfm__int8_padded(t->k)});
        tfm_tensor_new(ctx, &row_scales, TFM_F32, 1, &t->m);
        if (tfm_context_status(ctx) == TFM_OK)
            tfm__launch(ctx, tfm__kernel_get(ctx, "int8_quantize", "int8_quantize", "-DLOAD_WIDTH=%d", f->unit),
                        TFM__GRID_1D((size_t)t->m * ITEMS, ITEMS),
                        TFM__ARGS(TFM__T(a), TFM__T(row_scales), TFM__T_AS("x", t->a), TFM__I_AS("k", t->k)));
    }
    if (tfm_context_status(ctx) == TFM_OK)
        launch_form_kernel(ctx, t, f, kernel, a, row_scales);
    return tfm_scope_close(ctx, 0, NULL);
}

/* ---- Validation -------------------------------------------------------------------------------------------------- */

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "the validation of the device's int8 dot products found a wrong result",
        [TFM__NOT_BUILT] = "the driver does not build the kernel with the device's int8 dot products",
        [TFM__CRASHED] = "the program ended in each validation of the device's int8 dot products: "
                         "`tfm tune --reset` clears the verdict",
        [TFM__BUSY] =
            "another program was still validating kernels on this device, so its int8 dot products are not used",
    };
    return WHY[v];
}

/* Integers over the whole int8 range, with an extreme value first in each row: so the scale is 1 and quantization is
 * exact, however a division rounds. */
static void fill(float *x, int8_t *q, float *scales, const tfm__gemm_task *t) {
    uint64_t random = 17;
    for (int64_t i = 0; i < (t->m + t->n) * t->k; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int number = i % t->k == 0 ? 127 : (int)(random >> 33) % 255 - 127;
        if (i < t->m * t->k)
            x[i] = (float)number;
        else
            q[i - t->m * t->k] = (int8_t)number;
    }
    for (int64_t i = 0; i < t->n; i++)
        scales[i] = 1.0f + 0.01f * (float)i;
}

/* Runs both kernels into poisoned outputs; whether all elements are equal. */
static bool agree(tfm_context *ctx, tfm__gemm_task *t, const form *f, tfm__dp4a dp4a) {
    const size_t count = (size_t)(t->m * t->n);
    const float poison = NAN;
    float *got = tfm__alloc(2 * count, sizeof(*got)), *want = got ? got + count : NULL;
    bool same = false;
    if (!got)
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "linear: out of host memory to validate the dot products");
    tfm__tensor_fill(ctx, t->c, &poison);
    if (got && launch_form(ctx, t, f, dp4a, t->activation) == TFM_OK && tfm_tensor_read(ctx, got, t->c) == TFM_OK &&
        tfm__int8_reference(ctx, t) == TFM_OK && tfm_tensor_read(ctx, want, t->c) == TFM_OK) {
        same = true;
        for (size_t i = 0; i < count; i++)
            same = same && got[i] == want[i];
    }
    free(got);
    return same;
}

/* More than one tile or block of rows and columns, none of them whole, and several steps along K. For few rows, K
 * exceeds what all teams read at once, if a group may quantize rows that long. */
static bool compare(tfm_context *ctx, const form *f, tfm__dp4a dp4a) {
    const int odd = f->quads || f->unit == 16 ? 4 : 5;
    const int64_t line = (f->tile ? 1 : f->sliced_k) * LANES * 16 + (f->unit == 16 ? 16 : 11);
    tfm_param weight = {0};
    tfm__gemm_task t = {.m = (f->tile ? f->tile->size : f->rows) + 3,
                        .n = (f->tile ? f->tile->size : COLUMNS) + odd,
                        .k = f->depth > 0 && line > f->depth ? f->depth - (f->unit == 16 ? 16 : 5) : line,
                        .weight = &weight};
    float *x = tfm__alloc((size_t)(t.m * t.k), sizeof(*x)), *scales = tfm__alloc((size_t)t.n, sizeof(*scales));
    int8_t *q = tfm__alloc((size_t)(t.n * t.k), sizeof(*q));
    tfm_tensor_new(ctx, &t.c, TFM_F32, 2, (int64_t[]){t.m, t.n});
    tfm_tensor_new(ctx, &t.a, TFM_F32, 2, (int64_t[]){t.m, t.k});
    tfm_tensor_new(ctx, &weight.value, TFM_I8, 2, (int64_t[]){t.n, t.k});
    tfm_tensor_new(ctx, &weight.scales, TFM_F32, 1, &t.n);
    if (!x || !scales || !q) {
        tfm__context_fail(ctx, TFM_ERROR_MEMORY, "linear: out of host memory to validate the dot products");
    } else {
        fill(x, q, scales, &t);
        tfm_tensor_write(ctx, t.a, x);
        tfm_tensor_write(ctx, weight.value, q);
        tfm_tensor_write(ctx, weight.scales, scales);
    }
    free(x);
    free(scales);
    free(q);
    return tfm_context_status(ctx) == TFM_OK && agree(ctx, &t, f, dp4a);
}

/* A kernel form and its instruction under validation. */
typedef struct validation_form {
    const form *form;
    tfm__dp4a dp4a;
} validation_form;

static tfm__verdict compare_form(tfm_context *ctx, const void *of) {
    const validation_form *d = of;
    return compare(ctx, d->form, d->dp4a) ? TFM__VALID : TFM__WRONG;
}

/* The current verdict on the form. */
static tfm__verdict validate(tfm_context *ctx, const form *f, tfm__dp4a dp4a) {
    unsigned char *known = verdict_of(ctx, f, dp4a);
    char what[96];
    if (!known || *known != TFM__UNTESTED)
        return known ? (tfm__verdict)*known : TFM__UNTESTED;
    if (f->tile)
        snprintf(what, sizeof(what), "dot %d, tile of %d, by %d%s", (int)dp4a, f->tile->size, f->unit,
                 f->quads ? ", in quads" : "");
    else
        snprintf(what, sizeof(what), "dot %d, rows %d of %d, by %d%s", (int)dp4a, f->rows, f->depth, f->unit,
                 f->sliced_k == 1   ? ""
                 : f->sliced_k == 2 ? ", in 2 parts"
                                    : ", in 4 parts");
    const validation_form d = {f, dp4a};
    return tfm__validate(ctx, known,
                         &(tfm__validation){.program = program_of(f),
                                            .what = what,
                                            .without = "them",
                                            .describe = describe,
                                            .compare = compare_form,
                                            .form = &d,
                                            .optional = true, /* some AMD devices have only part of the instructions */
                                            .waited = &state_of(ctx)->waited});
}

/* ---- GEMM -------------------------------------------------------------------------------------------------------- */

/* Chooses the form and its instruction; false if none fits, or the context has failed. Skips tiles whose group size the
 * driver rejects. */
static bool choose(tfm_context *ctx, form *f, tfm__dp4a *dp4a, const tfm__gemm_task *t) {
    state *s = state_of(ctx);
    *dp4a = tfm__context_tuning(ctx)->dp4a;
    while (s && find_form(ctx, f, t, *dp4a, s->refused)) {
        const int depth = tfm__scope_depth(ctx);
        tfm__kernel *kernel = kernel_of(ctx, f, *dp4a, t->activation);
        if (!kernel && (*dp4a == TFM__DP4A_NONE || tfm_context_status(ctx) != TFM_ERROR_BUILD))
            return false;
        if (!kernel) /* validation builds the kernel again and stores the result */
            tfm__context_recover(ctx, depth);
        if (kernel && f->tile && tfm__kernel_max_workgroup(ctx, kernel) < items_of(f))
            s->refused |= 1U << (f->tile - TILE);
        else if (*dp4a == TFM__DP4A_NONE || (validate(ctx, f, *dp4a) == TFM__VALID && kernel))
            return tfm_context_status(ctx) == TFM_OK;
        else if (tfm_context_status(ctx) != TFM_OK)
            return false;
        else
            *dp4a = TFM__DP4A_NONE;
    }
    return false;
}

tfm_status tfm__int8_gpu(tfm_context *ctx, const tfm__gemm_task *task) {
    form f;
    tfm__dp4a dp4a;
    if (tfm__context_tuning(ctx)->int8_gpu && choose(ctx, &f, &dp4a, task))
        return launch_form(ctx, task, &f, dp4a, task->activation);
    return tfm_context_status(ctx) == TFM_OK ? tfm__int8_reference(ctx, task) : tfm_context_status(ctx);
}

const char *tfm__int8_dp4a_declines(tfm_context *ctx, const tfm__gemm_task *task) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const state *s = state_of(ctx);
    form f;
    if (!tuning->int8_gpu || !s || !find_form(ctx, &f, task, tuning->dp4a, s->refused))
        return "the device uses another int8 instruction";
    if (tuning->dp4a == TFM__DP4A_NONE)
        return "the device has no int8 dot products that this version supports";
    const unsigned char *known = verdict_of(ctx, &f, tuning->dp4a);
    return known ? describe((tfm__verdict)*known) : NULL;
}
