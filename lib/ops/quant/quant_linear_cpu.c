/* Block-quantized linear layers of CPU-style devices: cl/quant/quant_linear_cpu.cl and quant_linear_int16.cl. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"
#include "ops/gemm/kernel_validation.h"
#include "ops/quant/quant_launch.h"

/* Its address is the key of the context's verdict on int16 dot products. */
static char SLOT;

/* Rows of x that a kernel takes at a time, and those of an item: they stay in the cache while the weights pass. */
enum { MAX_ROWS = 4, ROWS_OF_ITEM = 64 };

/* INT16 of the kernels. */
enum { NO_INT16, FEW_ROWS, MANY_ROWS };

static tfm__kernel *kernel_of(tfm_context *ctx, const tfm__quant_launch *l, const char *name, int int16) {
    char tile[32];
    snprintf(tile, sizeof(tile), "-DROWS=%d -DINT16=%d", l->m > 2 ? MAX_ROWS : (int)l->m, int16);
    return tfm__quant_kernel(ctx, l, name, tile);
}

/* Row blocks of an item: a few items for each core, so that the weights of an item follow each other in memory. */
static int64_t blocks_of_item(const tfm_context *ctx, const tfm__quant_launch *l, int64_t parts) {
    enum { ITEMS = 8, LEAST = 2 };
    const int64_t units = tfm_context_device(ctx)->compute_units, rows = tfm__quant_tile_rows(ctx);
    const int64_t wanted = tfm__ceil_div(ITEMS * (units > 0 ? units : 1), parts),
                  blocks = tfm__ceil_div(l->n[0] + l->n[1] + l->n[2], rows * wanted);
    return blocks > LEAST ? blocks : LEAST;
}

static tfm_status launch_fp32(tfm_context *ctx, tfm__quant_launch *l) {
    const int64_t rows = l->m < ROWS_OF_ITEM ? l->m : ROWS_OF_ITEM, parts = tfm__ceil_div(l->m, rows);
    const int64_t blocks = blocks_of_item(ctx, l, parts);
    const int64_t items = tfm__quant_number_items(l, blocks * tfm__quant_tile_rows(ctx));
    return tfm__launch(ctx, kernel_of(ctx, l, "quant_linear_fp32", NO_INT16),
                       TFM__GRID_2D((size_t)items, (size_t)parts, 1, 1),
                       TFM__ARGS(TFM__QUANT_OUTPUTS(l), TFM__T_AS("x", l->x), TFM__I_AS("k", l->k),
                                 TFM__I_AS("m", l->m), TFM__I(blocks), TFM__I(rows)));
}

/* Few rows: each item quantizes x. */
static tfm_status launch_few(tfm_context *ctx, tfm__quant_launch *l) {
    const int64_t blocks = blocks_of_item(ctx, l, 1);
    const int64_t items = tfm__quant_number_items(l, blocks * tfm__quant_tile_rows(ctx));
    return tfm__launch(ctx, kernel_of(ctx, l, "quant_linear_int16_few", FEW_ROWS), TFM__GRID_1D((size_t)items, 1),
                       TFM__ARGS(TFM__QUANT_OUTPUTS(l), TFM__T_AS("x", l->x), TFM__I_AS("k", l->k),
                                 TFM__I_AS("m", l->m), TFM__I(blocks)));
}

static tfm_status launch_many(tfm_context *ctx, tfm__quant_launch *l) {
    enum { QUANTIZED_ROWS = 8 };
    const int64_t rows = l->m < ROWS_OF_ITEM ? l->m : ROWS_OF_ITEM, parts = tfm__ceil_div(l->m, rows);
    const int64_t blocks = blocks_of_item(ctx, l, parts);
    const int64_t items = tfm__quant_number_items(l, blocks * tfm__quant_tile_rows(ctx));
    tfm_tensor q = {0}, scales = {0}, terms = {0};
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &q, TFM_I32, 2, (int64_t[]){l->m, l->k / 2});
    tfm_tensor_new(ctx, &scales, TFM_F32, 2, (int64_t[]){l->m, l->k / 32});
    tfm_tensor_new(ctx, &terms, l->format->minimum ? TFM_F32 : TFM_I32, 2, (int64_t[]){l->m, l->k / l->format->group});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel_of(ctx, l, "quant_linear_quantize", MANY_ROWS),
                    TFM__GRID_1D((size_t)tfm__ceil_div(l->m, QUANTIZED_ROWS), 1),
                    TFM__ARGS(TFM__T(q), TFM__T(scales), TFM__T(terms), TFM__T_AS("x", l->x), TFM__I_AS("k", l->k),
                              TFM__I_AS("m", l->m), TFM__I_AS("rows", QUANTIZED_ROWS)));
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel_of(ctx, l, "quant_linear_int16", MANY_ROWS),
                    TFM__GRID_2D((size_t)items, (size_t)parts, 1, 1),
                    TFM__ARGS(TFM__QUANT_OUTPUTS(l), TFM__T(q), TFM__T(scales), TFM__T(terms), TFM__I_AS("k", l->k),
                              TFM__I_AS("m", l->m), TFM__I(blocks), TFM__I(rows)));
    return tfm_scope_close(ctx, 0, NULL);
}

static tfm_status launch_int16(tfm_context *ctx, tfm__quant_launch *l) {
    enum { FEW = 8, MAX_NUMBERS = 32768 }; /* as in the kernel */
    return l->m <= FEW && l->m * l->k <= MAX_NUMBERS ? launch_few(ctx, l) : launch_many(ctx, l);
}

/* ---- Validation ---- */

enum { VALIDATION_N = 19, VALIDATION_K = 96 };

static float *fill_validation(uint8_t *blocks, float *x) {
    const uint16_t one = tfm__half_from_float(1);
    for (int i = 0; i < VALIDATION_N * VALIDATION_K / 32; i++) {
        memcpy(blocks + 34 * i, &one, 2);
        for (int j = 0; j < 32; j++)
            blocks[34 * i + 2 + j] = (uint8_t)(j % 3 == 0 ? 127 : i * 37 + j * 91);
    }
    for (int i = 0; i < VALIDATION_K; i++)
        x[i] = i % 32 == 0 ? 32767 : (float)(i * 7919 % 65535 - 32767);
    return x;
}

/* Whether y = w x within the rounding of fp32 sums. Computed here: a reference kernel would be one more to compile. */
static bool is_right(const float *y, const tfm__quant_format *format, const uint8_t *blocks, const float *x) {
    float w[VALIDATION_K];
    bool right = true;
    for (int i = 0; i < VALIDATION_N; i++) {
        double sum = 0;
        tfm__quant_unpack(format, w, blocks + i * VALIDATION_K / 32 * 34, VALIDATION_K / 32);
        for (int k = 0; k < VALIDATION_K; k++)
            sum += (double)w[k] * (double)x[k];
        right = right && fabs((double)y[i] - sum) <= 1e-5 * 127 * 32767 * VALIDATION_K;
    }
    return right;
}

static tfm__verdict compare(tfm_context *ctx, const void *none) {
    (void)none;
    uint8_t blocks[VALIDATION_N * VALIDATION_K / 32 * 34];
    float x[VALIDATION_K], got[VALIDATION_N];
    tfm_param w;
    tfm__quant_launch l = {.format = tfm__quant_format_of(TFM__QUANT_Q8_0), .m = 1, .n = {VALIDATION_N}};
    fill_validation(blocks, x);
    l.k = VALIDATION_K;
    tfm_tensor_new(ctx, &l.x, TFM_F32, 2, (int64_t[]){1, l.k});
    tfm_tensor_new(ctx, &l.y[0], TFM_F32, 1, l.n);
    tfm__quant_upload(ctx, &w, "validation", l.format, &(tfm__quant_rows){.of = blocks}, VALIDATION_N, l.k);
    l.w[0] = w.value;
    const bool right = tfm_context_status(ctx) == TFM_OK && tfm_tensor_write(ctx, l.x, x) == TFM_OK &&
                       launch_few(ctx, &l) == TFM_OK && tfm_tensor_read(ctx, got, l.y[0]) == TFM_OK &&
                       is_right(got, l.format, blocks, x);
    tfm_param_free(ctx, &w);
    return right ? TFM__VALID : TFM__WRONG;
}

static const char *describe(tfm__verdict v) {
    static const char *const WHY[TFM__VERDICTS] = {
        [TFM__WRONG] = "int16 dot products by the processor's own instructions gave wrong results",
        [TFM__NOT_BUILT] = "the compiler does not build int16 dot products by the processor's own instructions",
    };
    return WHY[v];
}

/* Whether the device has int16 dot products, which are valid. Known ones have vectors of 8 or more. */
static bool has_int16(tfm_context *ctx) {
    enum { MIN_WIDTH = 8 };
    const int width = tfm__context_tuning(ctx)->width;
    unsigned char *verdict = tfm__context_storage_get_or_create(ctx, &SLOT, 1);
    char what[32];
    snprintf(what, sizeof(what), "vectors of %d numbers", width);
    return width >= MIN_WIDTH && verdict &&
           tfm__validate(ctx, verdict,
                         &(tfm__validation){.program = "quant_linear",
                                            .what = what,
                                            .without = "them, which is slower for block-quantized weights",
                                            .describe = describe,
                                            .compare = compare}) == TFM__VALID;
}

tfm_status tfm__quant_linear_cpu(tfm_context *ctx, tfm__quant_launch *l) {
    const bool int16 = l->form != TFM__QUANT_ACTIVATION_FP32 && has_int16(ctx);
    if (tfm_context_status(ctx) != TFM_OK)
        return tfm_context_status(ctx);
    return int16 ? launch_int16(ctx, l) : launch_fp32(ctx, l);
}
