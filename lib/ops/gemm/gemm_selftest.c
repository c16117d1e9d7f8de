/* Selftest of GEMM, by each provider. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/gemm/gemm_mma.h"
#include "ops/gemm/gemm_int8.h"

/* The form's first word is the provider. */
static const tfm__gemm_provider *provider_of(const tfm__check *c) {
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(c->form, ","), c->form);
    return tfm__gemm_find_provider(name);
}

/* c = relu(a b^T + bias), to cover both copies of b and the epilogue. */
static void gemm_shape(tfm__check *c, const char **declined, int64_t m, int64_t n, int64_t k) {
    float *a, *b, *bias;
    tfm_tensor y = {0}, ta = RANDOM_FLOATS(a, m, k), tb = RANDOM_FLOATS(b, n, k);
    tfm_gemm_options options = {.transpose_b = true, .bias = RANDOM_FLOATS(bias, n), .activation = TFM_RELU};
    double *want = EXPECTED(m * n);
    if (!tfm__check_ready(c) || tfm__gemm_with(c->ctx, provider_of(c), declined, &y, ta, tb, &options) != TFM_OK ||
        *declined)
        return;
    for (int64_t i = 0; i < m * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)a[i / n * k + p] * (double)b[i % n * k + p];
        want[i] = tfm__check_activation(sum, TFM_RELU);
    }
    tfm__check_compare(c, y, want);
}

static void check_shapes(tfm__check *c, size_t count, const int64_t (*shapes)[3]) {
    const char *declined = NULL;
    size_t ran = 0;
    for (size_t i = 0; i < count && tfm__check_ready(c); i++) {
        gemm_shape(c, &declined, shapes[i][0], shapes[i][1], shapes[i][2]);
        ran += !declined;
    }
    if (ran == 0)
        c->skip_reason = declined;
}

static void check(tfm__check *c) {
    static const int64_t shapes[][3] = {{1, 65, 33}, {5, 97, 132}, {37, 65, 100}};
    check_shapes(c, TFM__COUNT(shapes), shapes);
}

/* Split work: a column or K split for each compute unit, in two forms for few rows, and in tiles. */
static void check_shared(tfm__check *c) {
    static const int64_t shapes[][3] = {{1, 16, 1040}, {3, 5, 2100}, {37, 65, 2100}};
    check_shapes(c, TFM__COUNT(shapes), shapes);
}

static void mma_shape(tfm__check *c, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
    const tfm_dtype dtype = (tfm_dtype)c->number;
    float *a, *b;
    tfm_tensor y = {0};
    tfm_tensor ta = transpose_a ? RANDOM_FLOATS(a, k, m) : RANDOM_FLOATS(a, m, k);
    tfm_tensor tb = transpose_b ? RANDOM_FLOATS(b, n, k) : RANDOM_FLOATS(b, k, n);
    double *want = EXPECTED(m * n);
    const tfm_gemm_options options = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    if (!tfm__check_ready(c) ||
        tfm__gemm_with(c->ctx, &tfm__gemm_gpu_mma, &c->skip_reason, &y, ta, tb, &options) != TFM_OK || c->skip_reason)
        return;
    /* The first run was its validation: if it declines now, another provider computed the result. */
    const tfm__gemm_task task = {.batch = 1,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .c = y,
                                 .a = ta,
                                 .b = tb,
                                 .shared_b = true,
                                 .alpha = 1,
                                 .transpose_a = transpose_a,
                                 .transpose_b = transpose_b};
    c->skip_reason = tfm__gemm_gpu_mma.declines(c->ctx, &task);
    for (int64_t i = 0; !c->skip_reason && i < m * n; i++)
        for (int64_t p = 0; p < k; p++)
            want[i] += tfm__mma_rounded((double)(transpose_a ? a[p * m + i / n] : a[i / n * k + p]), dtype) *
                       tfm__mma_rounded((double)(transpose_b ? b[i % n * k + p] : b[p * n + i % n]), dtype);
    if (!c->skip_reason)
        tfm__check_compare(c, y, want);
}

/* For the input dtype of the check's number: all transposes, and vector loads of four. */
static void check_mma(tfm__check *c) {
    const tfm_dtype before = tfm__context_set_gemm_input_dtype(c->ctx, (tfm_dtype)c->number);
    for (int t = 0; t < 4 && !c->skip_reason && tfm__check_ready(c); t++)
        mma_shape(c, 17, 65, 33, t & 1, t & 2);
    if (!c->skip_reason && tfm__check_ready(c))
        mma_shape(c, 100, 96, 64, false, true);
    tfm__context_set_gemm_input_dtype(c->ctx, before);
}

/* CLBlast switches algorithms at a size that its tables give for each device, 1984^3 at most. If the library chooses
 * CLBlast at that size, compare the last rows. */
static void check_large(tfm__check *c) {
    const int64_t size = 2048, rows = 2, first = size - rows;
    const tfm__gemm_provider *clblast = tfm__gemm_find_provider("clblast");
    float *a, *b;
    const tfm__gemm_task task = {.batch = 1, .m = size, .n = size, .k = size, .shared_b = true, .alpha = 1};
    if (tfm__gemm_select(c->ctx, &task) != clblast) {
        c->skip_reason = "the library's own kernels are faster here";
        return;
    }
    tfm_tensor y = {0}, last = {0}, ta = RANDOM_FLOATS(a, size, size), tb = RANDOM_FLOATS(b, size, size);
    double *want = EXPECTED(rows * size);
    if (!tfm__check_ready(c) || tfm__gemm_with(c->ctx, clblast, &c->skip_reason, &y, ta, tb, NULL) != TFM_OK ||
        c->skip_reason)
        return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = 0; p < size; p++)
            for (int64_t j = 0; j < size; j++)
                want[i * size + j] += (double)a[(first + i) * size + p] * (double)b[p * size + j];
    tfm_tensor_rows(c->ctx, &last, y, first, rows);
    tfm__check_compare(c, last, want);
    c->skip_reason = tfm__gemm_declines(c->ctx, clblast, &task); /* then another provider has computed it correctly */
}

static void check_linear(tfm__check *c) {
    const int64_t rows = 15, k = 33, n = 65;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, 3, 5, k), tw = RANDOM_FLOATS(w, n, k), tb = RANDOM_FLOATS(bias, n);
    double *want = EXPECTED(rows * n);
    weight.value = tw;
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)x[i / n * k + p] * (double)w[i % n * k + p];
        want[i] = tfm__check_activation(sum, TFM_SILU);
    }
    tfm_linear(c->ctx, &y, tx, &weight, tb, TFM_SILU);
    tfm__check_compare(c, y, want);
    tfm_param_free(c->ctx, &weight);
}

/* A 16-bit weight and an x, both with values exact in 16 bits, so matrix cores round nothing: few rows and many. */
static void stored_rows(tfm__check *c, int64_t rows) {
    const int64_t k = 132, n = 65;
    float *x, *w;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, rows, k), tw = RANDOM_FLOATS(w, n, k);
    double *want = EXPECTED(rows * n);
    if (!tfm__check_ready(c))
        return;
    for (int64_t i = 0; i < rows * k; i++)
        x[i] = rintf(32 * x[i]) / 64;
    for (int64_t i = 0; i < n * k; i++)
        w[i] = rintf(32 * w[i]) / 64;
    for (int64_t i = 0; i < rows * n; i++)
        for (int64_t p = 0; p < k; p++)
            want[i] += (double)x[i / n * k + p] * (double)w[i % n * k + p];
    tfm_tensor_write(c->ctx, tx, x);
    tfm_tensor_write(c->ctx, tw, w);
    tfm_cast(c->ctx, &weight.value, tw, (tfm_dtype)c->number);
    tfm_linear(c->ctx, &y, tx, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    tfm__check_compare(c, y, want);
    tfm_tensor_free(c->ctx, &weight.packed); /* the scope owns the value */
}

static void check_stored(tfm__check *c) {
    stored_rows(c, 3);
    stored_rows(c, 29);
}

const tfm__check_entry tfm__selftest_gemm[] = {
    {"gemm", "cpu-skinny", check, 0},
    {"gemm", "cpu-bf16x3", check, 0},
    {"gemm", "cpu-packed", check, 0},
    {"gemm", "gpu-skinny", check, 0},
    {"gemm", "gpu-skinny, shared", check_shared, 0},
    {"gemm", "gpu-tiled", check, 0},
    {"gemm", "gpu-tiled, shared", check_shared, 0},
    {"gemm", "reference", check, 0},
    {"gemm", "gpu-mma, f16", check_mma, TFM_F16},
    {"gemm", "gpu-mma, bf16", check_mma, TFM_BF16},
    {"gemm", "gpu-mma, f16, tiles", tfm__mma_check_tiles, TFM_F16},
    {"gemm", "gpu-mma, bf16, tiles", tfm__mma_check_tiles, TFM_BF16},
    {"gemm", "gpu-mma, f16, multistage", tfm__mma_check_multistage, TFM_F16},
    {"gemm", "gpu-mma, bf16, multistage", tfm__mma_check_multistage, TFM_BF16},
    {"gemm", "clblast", check, 0},
    {"gemm", "clblast, large", check_large, 0},
    {"linear", "silu", check_linear, 0},
    {"linear", "f16", check_stored, TFM_F16},
    {"linear", "bf16", check_stored, TFM_BF16},
    {0},
};

/* ---- Int8 weights ---- */

/* Rows of x with a largest value of 127 quantize exactly, so only the scaling of the result rounds. */
static void check_int8_rows(tfm__check *c, int64_t m, int64_t k, bool by_dots) {
    const int64_t n = 37;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tx = RANDOM_FLOATS(x, m, k), tw = RANDOM_FLOATS(w, n, k), tb = RANDOM_FLOATS(bias, n);
    double *want = EXPECTED(m * n);
    if (!tfm__check_ready(c))
        return;
    for (int64_t i = 0; i < m * k; i++)
        x[i] = i % k == 0 ? 127 : rintf(60 * x[i]);
    for (int64_t i = 0; i < n * k; i++)
        w[i] = i % k == 0 ? 127 : rintf(60 * w[i]);
    for (int64_t i = 0; i < m * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)x[i / n * k + p] * (double)w[i % n * k + p];
        want[i] = tfm__check_activation(sum, TFM_RELU);
    }
    tfm_tensor_write(c->ctx, tx, x);
    tfm_tensor_write(c->ctx, tw, w);
    weight.value = tw;
    if (tfm_param_quantize(c->ctx, &weight) == TFM_OK)
        tfm_linear(c->ctx, &y, tx, &weight, tb, TFM_RELU);
    if (by_dots)
        c->skip_reason = tfm__int8_dp4a_declines(
            c->ctx, &(tfm__gemm_task){.m = m, .n = n, .k = k, .c = y, .a = tx, .weight = &weight});
    if (!c->skip_reason)
        tfm__check_compare(c, y, want);
    tfm_param_free(c->ctx, &weight);
}

static void check_int8(tfm__check *c) {
    check_int8_rows(c, c->number, 165, false);
}

/* Long enough for several work-groups to share a column. */
static void check_int8_shared(tfm__check *c) {
    check_int8_rows(c, 3, 2096, false);
}

/* Whether the device's dot products are used: few rows, and a tile. */
static void check_dp4a(tfm__check *c) {
    check_int8_rows(c, 3, 165, true);
    if (!c->skip_reason && tfm__check_ready(c))
        check_int8_rows(c, 67, 165, true);
}

const tfm__check_entry tfm__selftest_gemm_int8[] = {
    {"linear int8", "few rows", check_int8, 3},
    {"linear int8", "few rows, shared", check_int8_shared, 0},
    {"linear int8", "many rows", check_int8, 67},
    {"linear int8", "dot products", check_dp4a, 0},
    {0},
};
