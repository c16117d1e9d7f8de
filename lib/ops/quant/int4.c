#include "ops/quant/int4.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"

bool tfm__int4_new(tfm__int4 *out, int64_t rows, int64_t columns, int group) {
    *out = (tfm__int4){.rows = rows, .columns = columns, .group = group};
    out->codes = tfm__alloc((size_t)rows, (size_t)columns / 2);
    out->scales = tfm__alloc((size_t)(rows * (columns / group)), sizeof(*out->scales));
    out->zeros = tfm__alloc((size_t)(rows * (columns / group)), sizeof(*out->zeros));
    if (out->codes && out->scales && out->zeros)
        return true;
    tfm__int4_free(out);
    return false;
}

void tfm__int4_free(tfm__int4 *x) {
    free(x->codes);
    free(x->scales);
    free(x->zeros);
    *x = (tfm__int4){0};
}

/* Scale and zero point of a group. */
typedef struct grid {
    float scale, zero;
} grid;

static float clamped(float x) {
    return x < 0 ? 0 : x > 15 ? 15 : x;
}

static float code_of(const grid *g, float weight) {
    return clamped(rintf(weight / g->scale) + g->zero);
}

/* The grid from the smallest to the largest weight, and with 0. False if a number is not finite or too large. */
static bool find_grid(grid *out, tfm__int4 *to, int64_t row, int64_t group, const float *weights) {
    float low = 0, high = 0;
    bool finite = true;
    for (int i = 0; i < to->group; i++) {
        finite &= isfinite(weights[i]);
        low = weights[i] < low ? weights[i] : low;
        high = weights[i] > high ? weights[i] : high;
    }
    uint16_t half = tfm__half_from_float(high / 15 - low / 15);
    if (half == 0)
        half = 1; /* the smallest number: all weights become 0, or nearly */
    out->scale = tfm__half_to_float(half);
    out->zero = clamped(rintf(-low / out->scale));
    const int64_t at = row * (to->columns / to->group) + group;
    to->scales[at] = half;
    to->zeros[at] = (uint8_t)out->zero;
    return finite && half < 0x7c00;
}

static void put_code(tfm__int4 *to, int64_t row, int64_t column, float code) {
    uint8_t *byte = &to->codes[(row * to->columns + column) / 2];
    *byte = (uint8_t)(column % 2 ? (*byte & 15) | (int)code << 4 : (*byte & 0xf0) | (int)code);
}

bool tfm__int4_round(tfm__int4 *out, int64_t row, const float *weights) {
    grid g = {0};
    for (int64_t j = 0; j < out->columns; j++) {
        if (j % out->group == 0 && !find_grid(&g, out, row, j / out->group, weights + j))
            return false;
        put_code(out, row, j, code_of(&g, weights[j]));
    }
    return true;
}

/* ---- GPTQ ---- */

/* y += a x, in runs of eight, for auto-vectorization. */
static void add_scaled(double *restrict y, double a, const double *restrict x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            y[i + k] += a * x[i + k];
    for (; i < n; i++)
        y[i] += a * x[i];
}

static void add_scaled_floats(float *restrict y, float a, const float *restrict x, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            y[i + k] += a * x[i + k];
    for (; i < n; i++)
        y[i] += a * x[i];
}

/* Rows that stay in the cache. */
enum { BLOCK = 32 };

/* h, whose lower half is read, becomes the lower l with h = l^T l. False if it is not positive definite. */
static bool factorize(double *h, int64_t k) {
    for (int64_t end = k; end > 0; end = end > BLOCK ? end - BLOCK : 0) {
        const int64_t first = end > BLOCK ? end - BLOCK : 0;
        for (int64_t j = end - 1; j >= first; j--) {
            double *row = h + j * k;
            const double pivot = row[j], root = sqrt(pivot);
            if (!(pivot > 0) || !isfinite(pivot))
                return false;
            for (int64_t i = 0; i <= j; i++)
                row[i] /= root;
            for (int64_t i = first; i < j; i++)
                add_scaled(h + i * k, -row[i], row, i + 1);
        }
        for (int64_t i = 0; i < first; i++)
            for (int64_t j = end - 1; j >= first; j--)
                add_scaled(h + i * k, -h[j * k + i], h + j * k, i + 1);
    }
    return true;
}

/* inverse (k, k), zeros before: that of the lower l. */
static void invert(double *inverse, const double *l, int64_t k) {
    for (int64_t first = 0; first < k; first += BLOCK) {
        const int64_t end = first + BLOCK < k ? first + BLOCK : k;
        for (int64_t i = 0; i < first; i++)
            for (int64_t j = first; j < end; j++)
                add_scaled(inverse + j * k, -l[j * k + i], inverse + i * k, i + 1);
        for (int64_t j = first; j < end; j++) {
            double *row = inverse + j * k;
            for (int64_t i = first; i < j; i++)
                add_scaled(row, -l[j * k + i], inverse + i * k, i + 1);
            row[j] = 1;
            for (int64_t i = 0; i <= j; i++)
                row[i] /= l[j * k + j];
        }
    }
}

/* Adds 1 % of the mean to the diagonal, so that columns without inputs have a factor. */
static void damp(double *h, int64_t k) {
    double mean = 0;
    for (int64_t i = 0; i < k; i++)
        mean += h[i * k + i] / (double)k;
    for (int64_t i = 0; i < k; i++)
        h[i * k + i] += mean > 0 ? 0.01 * mean : 1;
}

tfm_status tfm__gptq_factor(float *upper, double *h, int64_t k) {
    double *inverse = tfm__alloc((size_t)(k * k), sizeof(*inverse));
    if (!inverse)
        return TFM_ERROR_MEMORY;
    damp(h, k);
    const bool valid = factorize(h, k);
    if (valid)
        invert(inverse, h, k);
    for (int64_t i = 0; valid && i < k; i++)
        for (int64_t j = 0; j < k; j++)
            upper[i * k + j] = (float)inverse[j * k + i];
    free(inverse);
    return valid ? TFM_OK
                 : tfm__fail(TFM_ERROR_INPUT,
                             "the products of a layer's inputs are not finite: calibrate with another text");
}

bool tfm__gptq_round(tfm__int4 *out, const int64_t *rows, int64_t count, float *weights, const float *upper) {
    const int64_t k = out->columns;
    grid grids[TFM__GPTQ_ROWS];
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < count; i++) {
            float *row = weights + i * k;
            if (j % out->group == 0 && !find_grid(&grids[i], out, rows[i], j / out->group, row + j))
                return false;
            const float code = code_of(&grids[i], row[j]), value = grids[i].scale * (code - grids[i].zero),
                        error = (row[j] - value) / upper[j * k + j];
            put_code(out, rows[i], j, code);
            add_scaled_floats(row + j + 1, -error, upper + j * k + j + 1, k - j - 1);
            row[j] = value;
        }
    return true;
}
