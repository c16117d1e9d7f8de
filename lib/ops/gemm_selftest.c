/* The selftest of matrix multiplication, by each provider. */
#include "ops/gemm.h"
#include "ops/selftest.h"

/* c = relu(a b^T + bias), so that both copies of b and the epilogue are met. */
static void gemm_shape(tfm__check *c, const char **declined, int64_t m, int64_t n, int64_t k) {
    float *a, *b, *bias;
    tfm_tensor y = {0}, ta = FLOATS(a, m, k), tb = FLOATS(b, n, k);
    tfm_gemm_options options = {.transpose_b = true, .bias = FLOATS(bias, n), .activation = TFM_RELU};
    double *want = WANTED(m * n);
    if (!tfm__check_ready(c) ||
        tfm__gemm_with(c->ctx, tfm__gemm_all[c->number], declined, &y, ta, tb, &options) != TFM_OK || *declined)
        return;
    for (int64_t i = 0; i < m * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)a[i / n * k + p] * (double)b[i % n * k + p];
        want[i] = tfm__check_activated(sum, TFM_RELU);
    }
    tfm__check_judge(c, y, want);
}

static void check(tfm__check *c) {
    static const int64_t shapes[][3] = {{1, 65, 33}, {5, 97, 132}, {37, 65, 100}};
    const char *declined = NULL;
    size_t ran = 0;
    for (size_t i = 0; i < TFM__COUNT(shapes) && tfm__check_ready(c); i++) {
        gemm_shape(c, &declined, shapes[i][0], shapes[i][1], shapes[i][2]);
        ran += !declined;
    }
    if (ran == 0)
        c->why = declined;
}

/* CLBlast multiplies in another way from a size on that its tables give each device, 1984^3 at most: where it is what
 * the library takes, the last rows of such a product. */
static void check_large(tfm__check *c) {
    const int64_t size = 2048, rows = 2, first = size - rows;
    float *a, *b;
    const tfm__gemm_task task = {.batch = 1, .m = size, .n = size, .k = size, .shared_b = true, .alpha = 1};
    if (tfm__gemm_choose(c->ctx, &task) != tfm__gemm_all[c->number]) {
        c->why = "the library's own kernels are faster here";
        return;
    }
    tfm_tensor y = {0}, last = {0}, ta = FLOATS(a, size, size), tb = FLOATS(b, size, size);
    double *want = WANTED(rows * size);
    if (!tfm__check_ready(c) || tfm__gemm_with(c->ctx, tfm__gemm_all[c->number], &c->why, &y, ta, tb, NULL) != TFM_OK ||
        c->why)
        return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t p = 0; p < size; p++)
            for (int64_t j = 0; j < size; j++)
                want[i * size + j] += (double)a[(first + i) * size + p] * (double)b[p * size + j];
    tfm_tensor_rows(c->ctx, &last, y, first, rows);
    tfm__check_judge(c, last, want);
    c->why = tfm__gemm_trouble(c->ctx, tfm__gemm_all[c->number]); /* then another provider has made it right */
}

static void check_linear(tfm__check *c) {
    const int64_t rows = 15, k = 33, n = 65;
    float *x, *w, *bias;
    tfm_param weight = {0};
    tfm_tensor y = {0}, tx = FLOATS(x, 3, 5, k), tw = FLOATS(w, n, k), tb = FLOATS(bias, n);
    double *want = WANTED(rows * n);
    weight.value = tw;
    for (int64_t i = 0; tfm__check_ready(c) && i < rows * n; i++) {
        double sum = (double)bias[i % n];
        for (int64_t p = 0; p < k; p++)
            sum += (double)x[i / n * k + p] * (double)w[i % n * k + p];
        want[i] = tfm__check_activated(sum, TFM_SILU);
    }
    tfm_linear(c->ctx, &y, tx, &weight, tb, TFM_SILU);
    tfm__check_judge(c, y, want);
    tfm_param_free(c->ctx, &weight);
}

const tfm__check_entry tfm__selftest_gemm[] = {
    {"gemm", "small", check, 0},
    {"gemm", "packed", check, 1},
    {"gemm", "rows", check, 2},
    {"gemm", "tiled", check, 3},
    {"gemm", "plain", check, 4},
    {"gemm", "clblast", check, 5},
    {"gemm", "clblast, large", check_large, 5},
    {"linear", "silu", check_linear, 0},
    {0},
};
