/* The largest entries of products, found by bytes and proven by floats: cl/screen.cl. */
#include "ops/screen.h"
#include <math.h>
#include "ops/gemm_int8.h"
#include "ops/quantize.h"
#include "ops/selftest.h"

bool tfm__screen_serves(tfm_context *ctx, tfm_tensor weight) {
    return weight.dtype == TFM_F32 && weight.rank == 2 && weight.dims[1] <= TFM__BYTES_WIDEST &&
           weight.dims[0] <= INT32_MAX && tfm__int8_is_fast(ctx);
}

static tfm__kernel *kernel(tfm_context *ctx, const char *name) {
    return tfm__kernel_get(ctx, "screen", name, "%s", "");
}

void tfm__screen_free(tfm_context *ctx, tfm__screen *screen) {
    tfm_param_free(ctx, &screen->bytes);
    tfm_tensor_free(ctx, &screen->bounds);
    screen->version = 0;
}

tfm_status tfm__screen_make(tfm_context *ctx, tfm__screen *screen, const tfm_param *weight) {
    const tfm_tensor w = weight->value;
    const int64_t n = w.dims[0], k = w.dims[1];
    if (screen->version == weight->version + 1)
        return tfm_context_status(ctx);
    tfm__screen_free(ctx, screen);
    tfm__tensor_new_lasting(ctx, &screen->bytes.value, TFM_I8, 2, w.dims);
    tfm__tensor_new_lasting(ctx, &screen->bytes.scales, TFM_F32, 1, &n);
    tfm__tensor_new_lasting(ctx, &screen->bounds, TFM_F32, 2, (int64_t[]){2, n});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel(ctx, "screen_bytes"), tfm__row_grid(ctx, n),
                    TFM__ARGS(TFM__T_AS("q", screen->bytes.value), TFM__T_AS("scales", screen->bytes.scales),
                              TFM__T_AS("bounds", screen->bounds), TFM__T(w), TFM__I(n), TFM__I(k)));
    screen->bytes.version = weight->version;
    screen->version = tfm_context_status(ctx) == TFM_OK ? weight->version + 1 : 0;
    return tfm_context_status(ctx);
}

/* Parts of a row's entries: so many that there is an item for each core, but no shorter than what pays for norms. */
static int64_t parts_of(tfm_context *ctx, int64_t rows, int64_t n) {
    enum { SHORTEST = 2048 };
    const int64_t units = tfm_context_device(ctx)->compute_units, most = n / SHORTEST;
    const int64_t wanted = rows > 0 ? tfm__divide_up(units, rows) : 1, parts = wanted < most ? wanted : most;
    return parts > 1 ? parts : 1;
}

int64_t tfm__screen_best(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor *sums, tfm_tensor near,
                         tfm_tensor x, const tfm__screen *screen, const tfm_param *weight, tfm_tensor bias) {
    const int64_t rows = near.dims[0], n = near.dims[1], k = weight->value.dims[1];
    const int64_t parts = parts_of(ctx, rows, n), length = tfm__divide_up(tfm__divide_up(n, parts), 64) * 64;
    const bool whole = parts == 1;
    tfm_tensor_new(ctx, values, TFM_F32, whole ? 2 : 3, (int64_t[]){rows, parts, 1});
    tfm_tensor_new(ctx, tokens, TFM_I32, whole ? 2 : 3, (int64_t[]){rows, parts, 1});
    tfm_tensor_new(ctx, sums, TFM_F32, whole ? 1 : 3, (int64_t[]){rows, parts, 2});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel(ctx, "screen_best"), tfm__row_grid(ctx, rows * parts),
                    TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("tokens", *tokens), TFM__T_AS("sums", *sums),
                              TFM__T(near), TFM__T(x), TFM__T_AS("w", weight->value), TFM__T(bias),
                              TFM__T_AS("bounds", screen->bounds), TFM__I(rows), TFM__I(n), TFM__I(k), TFM__I(parts),
                              TFM__I(length)));
    return parts;
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Entries that lie so close that bytes alone take another one for the largest. */
static void check(tfm__check *c) {
    const int64_t rows = 3, n = c->number, k = 96;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm__screen screen = {0};
    tfm_tensor near = {0}, values = {0}, tokens = {0}, sums = {0};
    tfm_tensor tx = FLOATS(x, rows, k), tw = FLOATS(w, n, k), tb = FLOATS(bias, n);
    double *want = WANTED(rows);
    weight.value = tw;
    if (!tfm__check_ready(c))
        return;
    if (!tfm__screen_serves(c->ctx, tw)) {
        c->why = "products of bytes are not faster here";
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        want[r] = -INFINITY;
        for (int64_t j = 0; j < n; j++) {
            double sum = (double)bias[j];
            for (int64_t p = 0; p < k; p++)
                sum += (double)x[r * k + p] * (double)w[j * k + p];
            want[r] = fmax(want[r], sum);
        }
    }
    tfm__screen_make(c->ctx, &screen, &weight);
    tfm_linear(c->ctx, &near, tx, &screen.bytes, tb, TFM_NO_ACTIVATION);
    tfm__screen_best(c->ctx, &values, &tokens, &sums, near, tx, &screen, &weight, tb);
    if (values.rank == 2)
        tfm__check_judge(c, values, want);
    tfm__screen_free(c->ctx, &screen);
}

const tfm__check_entry tfm__selftest_screen[] = {
    {"screen", "", check, 1501},
    {0},
};
