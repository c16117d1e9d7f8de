/* Provider of int8 weights: kernels of CPU-style devices, cl/gemm/gemm_int8.cl; GPU-style devices: gemm_int8_gpu.c. */
#include <math.h>
#include <stdio.h>
#include "ops/gemm/gemm_int8.h"
#include "ops/gemm/kernel_validation.h"

/* As in the kernels: limits of rows and of row length for which an item quantizes the activations itself. */
enum { MAX_ROWS = 8, MAX_DEPTH = 4096, TILE = 32 };

/* Least rows for which dequantizing the weights pays. */
enum { MIN_ROWS_PACKED = 12 };

/* Its address is the key of the context's verdicts on the CPU kernels: vector and AMX. */
static char SLOT;
typedef struct state {
    unsigned char verdicts[2];
} state;

typedef tfm__gemm_task task;

static bool is_cpu(const tfm_context *ctx) {
    return tfm__context_tuning(ctx)->class == TFM__CLASS_CPU;
}

static state *state_of(tfm_context *ctx) {
    return tfm__context_storage_get_or_create(ctx, &SLOT, sizeof(state));
}

/* Whether many rows use the processor's AMX tiles. */
static bool has_amx(tfm_context *ctx) {
    const tfm__tuning *tuning = tfm__context_tuning(ctx);
    const state *s = state_of(ctx);
    return tuning->amx_int8 && tuning->width == 16 && s && s->verdicts[1] <= TFM__VALID && tfm__amx_allowed();
}

/* Quantized activations of so many rows: on CPU-style devices possibly as 16-bit numbers; AMX reads them in blocks. */
static int64_t row_bytes(tfm_context *ctx, int64_t m, int64_t k) {
    return has_amx(ctx) ? tfm__ceil_div(m, TILE) * TILE * tfm__int8_padded(k)
                        : m * tfm__int8_padded(k) * (is_cpu(ctx) ? 2 : 1);
}

/* ---- CPU-style devices ---- */

/* No activation and ReLU share a program. */
static tfm__kernel *cpu_kernel(tfm_context *ctx, const char *name, tfm_activation activation) {
    return tfm__kernel_get(ctx, "gemm_int8", name, "-DMAX_ROWS=%d -DMAX_DEPTH=%d -DTFM_ACTIVATION=%d%s", MAX_ROWS,
                           MAX_DEPTH, activation == TFM_RELU ? TFM_NO_ACTIVATION : activation,
                           has_amx(ctx) ? " -DTILES=1" : "");
}

/* Row sums of the weight, cached in place of a packed copy. */
static tfm_status find_row_sums(tfm_context *ctx, tfm_param *weight) {
    const int64_t n = weight->value.dims[0];
    if (weight->packed_version == weight->version + 1 && tfm__tensor_alive(ctx, weight->packed))
        return TFM_OK;
    tfm_tensor_free(ctx, &weight->packed);
    weight->packed_version = 0;
    if (tfm__tensor_new_persistent(ctx, &weight->packed, TFM_I32, 1, &n) != TFM_OK)
        return tfm_context_status(ctx);
    const tfm_status status =
        tfm__launch(ctx, cpu_kernel(ctx, "int8_row_sums", TFM_NO_ACTIVATION), tfm__row_grid(ctx, n),
                    TFM__ARGS(TFM__T_AS("out", weight->packed), TFM__T_AS("q", weight->value), TFM__I(n),
                              TFM__I_AS("k", weight->value.dims[1])));
    weight->packed_version = status == TFM_OK ? weight->version + 1 : 0;
    return status;
}

#define GEMM_ARGS(t)                                                                                                   \
    TFM__T_AS("q", (t)->weight->value), TFM__T_AS("scales", (t)->weight->scales),                                      \
        TFM__T_AS("row_sums", (t)->weight->packed), TFM__T_AS("bias", (t)->bias), TFM__I_AS("m", (t)->m),              \
        TFM__I_AS("n", (t)->n), TFM__I_AS("k", (t)->k), TFM__I_AS("has_bias", (t)->bias.buffer != NULL),               \
        TFM__F_AS("min_value", (t)->activation == TFM_RELU ? 0.0f : -INFINITY)

/* Columns of an item: enough to amortize quantizing the activations, with some items for each core. */
static int64_t few_columns(int64_t n) {
    const int64_t columns = tfm__ceil_div(n, 64);
    return columns <= 64 ? 64 : tfm__ceil_div(columns, 4) * 4;
}

static tfm_status launch_skinny(tfm_context *ctx, const task *t) {
    const int64_t columns = few_columns(t->n);
    return tfm__launch(ctx, cpu_kernel(ctx, "gemm_int8_cpu_skinny", t->activation),
                       TFM__GRID_1D((size_t)tfm__ceil_div(t->n, columns), 1),
                       TFM__ARGS(TFM__T_AS("c", t->c), TFM__T_AS("x", t->a), GEMM_ARGS(t), TFM__I(columns)));
}

/* From so many rows, packing a weight once for AMX pays, up to so many bytes; the readers of a larger weight (a
 * vocabulary) repack it themselves. */
enum { MIN_ROWS_AMX = 384, MAX_PANEL_BYTES = 8 << 20, K_CHUNK = 512 }; /* elements of a K chunk, and of columns */

static tfm_status launch_packed(tfm_context *ctx, const task *t, tfm_tensor a, tfm_tensor row_scales) {
    /* Strips and tiles are as in the kernel: tiles of 6 or 8 rows, or of 32 with AMX. Many rows amortize packing the
     * columns. With several K chunks, an item has as many rows as it has accumulators; with one chunk, as many as fit
     * L2 (`block` bytes), but fewer if a core had less than ITEMS items. With narrower vectors, activations may take
     * two bytes. */
    enum { BLOCK = 144 << 10, NARROW_BLOCK = 64 << 10, MAX_ROWS_OF_PIECE = 384, ITEMS = 8 };
    const int64_t block = tfm__context_tuning(ctx)->width == 16 ? BLOCK : NARROW_BLOCK;
    const bool own = has_amx(ctx);
    const int64_t strip = 32, kept = own ? 256 : 96, tiles = own ? TILE : 24,
                  units = tfm_context_device(ctx)->compute_units;
    const int64_t columns = tfm__ceil_div(t->n, strip), fit = block / tfm__int8_padded(t->k) / tiles * tiles,
                  of_chunk = fit < MAX_ROWS_OF_PIECE ? fit : MAX_ROWS_OF_PIECE;
    int64_t most = t->k <= K_CHUNK && of_chunk > kept && !own ? of_chunk : kept;
    while (most > kept && columns * tfm__ceil_div(t->m, most) < ITEMS * units)
        most = most / 2 > kept ? most / 2 / tiles * tiles : kept;
    const int64_t each = tfm__ceil_div(t->m, tfm__ceil_div(t->m, most)), rows = tfm__ceil_div(each, tiles) * tiles;
    return tfm__launch(ctx, cpu_kernel(ctx, "gemm_int8_cpu_packed", t->activation),
                       TFM__GRID_2D((size_t)columns, (size_t)tfm__ceil_div(t->m, rows), 1, 1),
                       TFM__ARGS(TFM__T_AS("c", t->c), TFM__T(a), TFM__T(row_scales), GEMM_ARGS(t), TFM__I(rows)));
}

static int64_t panel_ints(const task *t) {
    return tfm__ceil_div(t->n, TILE) * (tfm__int8_padded(t->k) / 4) * TILE;
}
static bool uses_amx_panels(tfm_context *ctx, const task *t) {
    return has_amx(ctx) && t->m >= (t->k > K_CHUNK ? 4 * MIN_ROWS_AMX : MIN_ROWS_AMX) &&
           4 * panel_ints(t) <= MAX_PANEL_BYTES;
}
/* Whether each row of x is read once, so that the kernel can quantize it in place. */
static bool reads_once(tfm_context *ctx, const task *t) {
    return uses_amx_panels(ctx, t) && t->k <= K_CHUNK && t->n <= K_CHUNK;
}

/* A multiple of the number of cores as groups of rows, each of which fits L2. */
static void launch_amx(tfm_context *ctx, const task *t, tfm_tensor a, tfm_tensor row_scales) {
    const int64_t units = tfm_context_device(ctx)->compute_units, cores = units > 0 ? units : 1, most = 256;
    const int64_t strips = tfm__ceil_div(t->n, TILE), count = panel_ints(t);
    const int64_t wanted = tfm__ceil_div(tfm__ceil_div(t->m, most), cores) * cores, least = tfm__ceil_div(t->m, TILE);
    const int64_t rows = tfm__ceil_div(tfm__ceil_div(t->m, wanted < least ? wanted : least), TILE) * TILE;
    const int64_t parts = tfm__ceil_div(t->m, rows), shares = tfm__ceil_div(cores, parts);
    const int64_t group = tfm__ceil_div(strips, shares < strips ? shares : strips);
    tfm_tensor panels = {0};
    if (tfm_tensor_new(ctx, &panels, TFM_I32, 1, &count) != TFM_OK)
        return;
    tfm__launch(
        ctx, cpu_kernel(ctx, "int8_pack_b", t->activation), TFM__GRID_1D((size_t)strips, 1),
        TFM__ARGS(TFM__T(panels), TFM__T_AS("q", t->weight->value), TFM__I_AS("n", t->n), TFM__I_AS("k", t->k)));
    tfm__launch(ctx, cpu_kernel(ctx, "gemm_int8_cpu_amx", t->activation),
                TFM__GRID_2D((size_t)parts, (size_t)tfm__ceil_div(strips, group), 1, 1),
                TFM__ARGS(TFM__T_AS("c", t->c), TFM__T_AS("x", a.buffer ? (tfm_tensor){0} : t->a), TFM__T(a),
                          TFM__T(row_scales), GEMM_ARGS(t), TFM__T(panels), TFM__I(rows), TFM__I(group)));
}

static tfm_status launch_gemm(tfm_context *ctx, const task *t) {
    const int64_t columns = 64, least_items = tfm__context_tuning(ctx)->gemm_panel_group_min_items, k = t->k;
    int64_t rows = 96, few = tfm__ceil_div(t->m, 64); /* of an item that quantizes activations */
    while (rows > 12 && tfm__ceil_div(t->m, rows) * tfm__ceil_div(t->n, columns) < least_items)
        rows /= 2;
    tfm_tensor a = {0}, row_scales = {0};
    tfm_scope_open(ctx);
    if (reads_once(ctx, t)) {
        if (tfm_context_status(ctx) == TFM_OK)
            launch_amx(ctx, t, a, row_scales);
        return tfm_scope_close(ctx, 0, NULL);
    }
    const int64_t bytes = row_bytes(ctx, t->m, k);
    tfm_tensor_new(ctx, &a, TFM_I8, 1, &bytes);
    tfm_tensor_new(ctx, &row_scales, TFM_F32, 1, &t->m);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, cpu_kernel(ctx, "int8_quantize_rows", t->activation),
                    TFM__GRID_1D((size_t)tfm__ceil_div(t->m, few), 1),
                    TFM__ARGS(TFM__T(a), TFM__T(row_scales), TFM__T_AS("x", t->a), TFM__I_AS("m", t->m), TFM__I(k),
                              TFM__I_AS("rows", few)));
    if (tfm_context_status(ctx) == TFM_OK && uses_amx_panels(ctx, t))
        launch_amx(ctx, t, a, row_scales);
    else if (tfm_context_status(ctx) == TFM_OK && t->m >= MIN_ROWS_PACKED)
        launch_packed(ctx, t, a, row_scales);
    else if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, cpu_kernel(ctx, "gemm_int8_cpu", t->activation),
                    TFM__GRID_2D((size_t)tfm__ceil_div(t->m, rows), (size_t)tfm__ceil_div(t->n, columns), 1, 1),
                    TFM__ARGS(TFM__T_AS("c", t->c), TFM__T(a), TFM__T(row_scales), GEMM_ARGS(t), TFM__I(rows),
                              TFM__I(columns)));
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status launch_cpu(tfm_context *ctx, const task *t) {
    if (find_row_sums(ctx, t->weight) != TFM_OK)
        return tfm_context_status(ctx);
    return t->m <= MAX_ROWS && t->k <= MAX_DEPTH ? launch_skinny(ctx, t) : launch_gemm(ctx, t);
}

/* ---- Validation ---- */

/* Shapes of the validation: rows for each kernel, and sizes that are no multiple of a vector. */
enum { VALIDATION_SKINNY = 4, VALIDATION_M = 10, VALIDATION_PACKED = 27, VALIDATION_N = 51, VALIDATION_K = 613 };

/* Values up to the limits of int8, whose products would saturate 16-bit sums. */
static void fill_validation(float *x, int8_t *q, float *scales) {
    for (int i = 0; i < VALIDATION_PACKED * VALIDATION_K; i++)
        x[i] = i % 5 == 0 ? -1.0f : i % 7 < 4 ? 1.0f : (float)(i % 255 - 127) / 127;
    for (int i = 0; i < VALIDATION_N * VALIDATION_K; i++)
        q[i] = (int8_t)(i % 3 == 0 ? 127 : i % 5 == 0 ? -127 : i * 37 % 255 - 127);
    for (int i = 0; i < VALIDATION_N; i++)
        scales[i] = 0.01f * (float)(i + 1);
}

/* Runs both kernels and compares: sums are integers, so only the rounding of their scaling may differ. */
static bool agree(tfm_context *ctx, task *t) {
    float want[VALIDATION_PACKED * VALIDATION_N], got[VALIDATION_PACKED * VALIDATION_N];
    const int64_t count = t->m * t->n;
    tfm_tensor plain = {0};
    t->c = (tfm_tensor){0};
    tfm_tensor_new(ctx, &plain, TFM_F32, 2, (int64_t[]){t->m, t->n});
    tfm_tensor_new(ctx, &t->c, TFM_F32, 2, (int64_t[]){t->m, t->n});
    if (tfm_context_status(ctx) != TFM_OK || launch_cpu(ctx, t) != TFM_OK || tfm_tensor_read(ctx, got, t->c) != TFM_OK)
        return false;
    t->c = plain;
    if (tfm__int8_reference(ctx, t) != TFM_OK || tfm_tensor_read(ctx, want, t->c) != TFM_OK)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
            return false;
    return true;
}

static tfm__verdict compare(tfm_context *ctx, const void *none) {
    (void)none;
    float x[VALIDATION_PACKED * VALIDATION_K], scales[VALIDATION_N];
    int8_t q[VALIDATION_N * VALIDATION_K];
    tfm_param weight = {0};
    task t = {.m = VALIDATION_SKINNY, .n = VALIDATION_N, .k = VALIDATION_K, .weight = &weight};
    fill_validation(x, q, scales);
    tfm_tensor_new(ctx, &t.a, TFM_F32, 2, (int64_t[]){VALIDATION_PACKED, VALIDATION_K});
    tfm__tensor_new_persistent(ctx, &weight.value, TFM_I8, 2, (int64_t[]){VALIDATION_N, VALIDATION_K});
    tfm__tensor_new_persistent(ctx, &weight.scales, TFM_F32, 1, (int64_t[]){VALIDATION_N});
    if (tfm_context_status(ctx) == TFM_OK) {
        tfm_tensor_write(ctx, t.a, x);
        tfm_tensor_write(ctx, weight.value, q);
        tfm_tensor_write(ctx, weight.scales, scales);
    }
    bool right = tfm_context_status(ctx) == TFM_OK && agree(ctx, &t);
    t.m = VALIDATION_M;
    right = right && agree(ctx, &t);
    t.m = VALIDATION_PACKED;
    right = right && agree(ctx, &t);
    tfm_param_free(ctx, &weight);
    return right ? TFM__VALID : TFM__WRONG;
}

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "int8 GEMM by the processor's own instructions gave wrong results",
        [TFM__NOT_BUILT] = "the compiler does not build int8 GEMM for the processor's own instructions",
    };
    return WHY[v];
}

static tfm__verdict validate(tfm_context *ctx, state *s, bool tiles) {
    char what[64];
    snprintf(what, sizeof(what), "%s of %d numbers", tiles ? "AMX tiles, vectors" : "vectors",
             tfm__context_tuning(ctx)->width);
    return tfm__validate(ctx, &s->verdicts[tiles],
                         &(tfm__validation){.program = "gemm_int8",
                                            .what = what,
                                            .without = "them, which is slower for int8 weights",
                                            .describe = describe,
                                            .compare = compare});
}

/* Whether the kernels of CPU-style devices are valid here: AMX, else vectors. */
static bool valid_on_cpu(tfm_context *ctx) {
    state *s = state_of(ctx);
    if (s && has_amx(ctx) && validate(ctx, s, true) == TFM__VALID)
        return true;
    return s && tfm_context_status(ctx) == TFM_OK && validate(ctx, s, false) == TFM__VALID;
}

bool tfm__int8_is_fast(tfm_context *ctx) {
    enum { MIN_WIDTH = 8 }; /* no known int8 instruction for narrower vectors */
    return is_cpu(ctx) && tfm__context_tuning(ctx)->width >= MIN_WIDTH && tfm_context_status(ctx) == TFM_OK &&
           valid_on_cpu(ctx);
}

tfm_status tfm__int8_prepare(tfm_context *ctx, tfm_param *weight) {
    return is_cpu(ctx) ? find_row_sums(ctx, weight) : tfm_context_status(ctx);
}

/* ---- The provider ---- */

static const char *declines(tfm_context *ctx, const task *t) {
    (void)ctx;
    (void)t;
    return NULL;
}

static tfm_status multiply(tfm_context *ctx, const task *t) {
    if (!is_cpu(ctx))
        return tfm__int8_gpu(ctx, t);
    const bool wide = valid_on_cpu(ctx);
    return tfm_context_status(ctx) != TFM_OK ? tfm_context_status(ctx)
           : wide                            ? launch_cpu(ctx, t)
                                             : tfm__int8_reference(ctx, t);
}

const tfm__gemm_provider tfm__gemm_int8 = {
    .name = "int8", .declines = declines, .multiply = multiply, .packs_weights = true, .int8 = true};
