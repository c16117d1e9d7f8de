/* int8-screened argmax of a linear layer with exact fp32 verification: cl/gemm/argmax_int8.cl. */
#include "ops/gemm/argmax_int8.h"
#include <math.h>
#include "ops/gemm/gemm_int8.h"
#include "ops/gemm/quantize.h"
#include "ops/selftest/selftest.h"

/* Bytes of approximate entries per chunk: small enough for a cache, and bounds the scratch memory. */
enum { APPROX_BYTES = 8 << 20 };

bool tfm__argmax_int8_supported(tfm_context *ctx, tfm_tensor weight) {
    return weight.dtype == TFM_F32 && weight.rank == 2 && weight.dims[1] <= TFM__INT8_MAX_K &&
           weight.dims[0] <= INT32_MAX && tfm__int8_is_fast(ctx);
}

static tfm__kernel *kernel(tfm_context *ctx, const char *name) {
    return tfm__kernel_get(ctx, "argmax_int8", name, "%s", "");
}

void tfm__int8_screen_free(tfm_context *ctx, tfm__int8_screen *screen) {
    tfm_param_free(ctx, &screen->bytes);
    tfm_tensor_free(ctx, &screen->bounds);
    screen->version = 0;
}

tfm_status tfm__int8_screen_update(tfm_context *ctx, tfm__int8_screen *screen, const tfm_param *weight) {
    const tfm_tensor w = weight->value;
    const int64_t n = w.dims[0], k = w.dims[1];
    if (screen->version == weight->version + 1)
        return tfm_context_status(ctx);
    tfm__int8_screen_free(ctx, screen);
    tfm__tensor_new_persistent(ctx, &screen->bytes.value, TFM_I8, 2, w.dims);
    tfm__tensor_new_persistent(ctx, &screen->bytes.scales, TFM_F32, 1, &n);
    tfm__tensor_new_persistent(ctx, &screen->bounds, TFM_F32, 2, (int64_t[]){2, n});
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel(ctx, "argmax_int8_quantize"), tfm__row_grid(ctx, n),
                    TFM__ARGS(TFM__T_AS("q", screen->bytes.value), TFM__T_AS("scales", screen->bytes.scales),
                              TFM__T_AS("bounds", screen->bounds), TFM__T(w), TFM__I(n), TFM__I(k)));
    screen->bytes.version = weight->version;
    if (tfm_context_status(ctx) == TFM_OK && tfm__int8_prepare(ctx, &screen->bytes) == TFM_OK)
        screen->version = weight->version + 1;
    return tfm_context_status(ctx);
}

/* Slices of a row's entries: one for each core, but none too short to pay for the norms. */
static int64_t parts_of(tfm_context *ctx, int64_t rows, int64_t n) {
    enum { SHORTEST = 2048 };
    const int64_t units = tfm_context_device(ctx)->compute_units, most = n / SHORTEST;
    const int64_t wanted = rows > 0 ? tfm__ceil_div(units, rows) : 1, parts = wanted < most ? wanted : most;
    return parts > 1 ? parts : 1;
}

/* Screens entries first .. first + N - 1, with their approximations approx (R, N). Computes the maximum of each slice,
 * or, with `accumulate`, of the entries and the current values and tokens. */
static void search_entries(tfm_context *ctx, tfm_tensor values, tfm_tensor tokens, tfm_tensor approx,
                           const tfm__argmax_int8_task *p, int64_t first, bool accumulate, int64_t parts) {
    const int64_t rows = approx.dims[0], n = approx.dims[1], length = tfm__ceil_div(tfm__ceil_div(n, parts), 64) * 64;
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel(ctx, "argmax_int8_verify"), tfm__row_grid(ctx, rows * parts),
                    TFM__ARGS(TFM__T(values), TFM__T(tokens), TFM__T_AS("verified", p->verified), TFM__T(approx),
                              TFM__T_AS("x", p->x), TFM__T_AS("w", p->weight->value), TFM__T_AS("bias", p->bias),
                              TFM__T_AS("bounds", p->screen->bounds), TFM__I(rows), TFM__I(n),
                              TFM__I_AS("k", p->x.dims[1]), TFM__I_AS("vocabulary", p->weight->value.dims[0]),
                              TFM__I_AS("first_entry", first), TFM__I_AS("accumulate", accumulate), TFM__I(parts),
                              TFM__I(length)));
}

static void make_results(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, int64_t rows, int64_t parts) {
    tfm_tensor_new(ctx, values, TFM_F32, 2, (int64_t[]){rows, parts});
    tfm_tensor_new(ctx, tokens, TFM_I32, 2, (int64_t[]){rows, parts});
}

tfm_status tfm__argmax_int8_approximate(tfm_context *ctx, tfm_tensor *approx, const tfm__argmax_int8_task *p) {
    return tfm_linear(ctx, approx, p->x, &p->screen->bytes, p->bias, TFM_NO_ACTIVATION);
}

tfm_status tfm__argmax_int8_verify(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, tfm_tensor approx,
                                   const tfm__argmax_int8_task *p) {
    const int64_t rows = approx.dims[0], parts = parts_of(ctx, rows, approx.dims[1]);
    tfm_tensor found = {0}, indices = {0};
    make_results(ctx, values, tokens, rows, 1);
    if (parts == 1) {
        search_entries(ctx, *values, *tokens, approx, p, 0, false, 1);
        return tfm_context_status(ctx);
    }
    tfm_scope_open(ctx);
    make_results(ctx, &found, &indices, rows, parts);
    search_entries(ctx, found, indices, approx, p, 0, false, parts);
    if (tfm_context_status(ctx) == TFM_OK)
        tfm__launch(ctx, kernel(ctx, "argmax_int8_merge"), tfm__row_grid(ctx, rows),
                    TFM__ARGS(TFM__T_AS("values", *values), TFM__T_AS("tokens", *tokens), TFM__T(found),
                              TFM__T(indices), TFM__I(rows), TFM__I(parts)));
    return tfm_scope_close(ctx, 0, NULL);
}

/* Rows first .. first + count - 1 of the screen's int8 matrix as a view with the screen's lifetime. */
static tfm_param bytes_of(tfm_context *ctx, const tfm_param *all, int64_t first, int64_t count) {
    tfm_param some = *all;
    tfm_tensor_rows(ctx, &some.value, all->value, first, count);
    tfm_tensor_rows(ctx, &some.scales, all->scales, first, count);
    tfm_tensor_rows(ctx, &some.packed, all->packed, first, count);
    return some;
}

tfm_status tfm__argmax_int8(tfm_context *ctx, tfm_tensor *values, tfm_tensor *tokens, const tfm__argmax_int8_task *p) {
    const int64_t rows = p->x.dims[0], vocabulary = p->weight->value.dims[0];
    const int64_t fit = APPROX_BYTES / 4 / (rows > 0 ? rows : 1) / 64 * 64, each = fit > 1024 ? fit : 1024;
    tfm_scope_open(ctx);
    if (each >= vocabulary || rows < tfm_context_device(ctx)->compute_units) { /* few rows: all cores share a row */
        tfm_tensor approx = {0};
        tfm__argmax_int8_approximate(ctx, &approx, p);
        tfm__argmax_int8_verify(ctx, values, tokens, approx, p);
        return tfm_scope_close(ctx, 2, (tfm_tensor *[]){values, tokens});
    }
    make_results(ctx, values, tokens, rows, 1);
    for (int64_t first = 0; first < vocabulary && tfm_context_status(ctx) == TFM_OK; first += each) {
        const int64_t count = vocabulary - first < each ? vocabulary - first : each;
        tfm_param bytes = bytes_of(ctx, &p->screen->bytes, first, count);
        tfm_tensor approx = {0}, bias = {0};
        tfm_scope_open(ctx);
        tfm_tensor_rows(ctx, &bias, p->bias, first, count);
        tfm_linear(ctx, &approx, p->x, &bytes, bias, TFM_NO_ACTIVATION);
        search_entries(ctx, *values, *tokens, approx, p, first, first > 0, 1);
        tfm_scope_close(ctx, 0, NULL);
    }
    return tfm_scope_close(ctx, 2, (tfm_tensor *[]){values, tokens});
}

/* ---- Selftest ---------------------------------------------------------------------------------------- */

/* Random entries: the value of the largest. */
static void check(tfm__check *c) {
    const int64_t rows = 3, n = c->number, k = 96;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm__int8_screen screen = {0};
    tfm_tensor values = {0}, tokens = {0};
    tfm_tensor tx = RANDOM_FLOATS(x, rows, k), tw = RANDOM_FLOATS(w, n, k), tb = RANDOM_FLOATS(bias, n);
    double *want = EXPECTED(rows);
    weight.value = tw;
    if (!tfm__check_ready(c))
        return;
    if (!tfm__argmax_int8_supported(c->ctx, tw)) {
        c->skip_reason = "int8 GEMM is not faster here";
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
    const int32_t none = 0;
    tfm__argmax_int8_task product = {.screen = &screen, .weight = &weight, .bias = tb, .x = tx};
    tfm__int8_screen_update(c->ctx, &screen, &weight);
    tfm_tensor_new(c->ctx, &product.verified, TFM_I32, 1, &(int64_t){1});
    tfm__tensor_fill(c->ctx, product.verified, &none);
    tfm__argmax_int8(c->ctx, &values, &tokens, &product);
    tfm__check_compare(c, values, want);
    tfm__int8_screen_free(c->ctx, &screen);
}

const tfm__check_entry tfm__selftest_argmax_int8[] = {
    {"argmax_int8", "", check, 1501},
    {0},
};
