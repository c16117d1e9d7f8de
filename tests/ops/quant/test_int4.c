/* Rounding to 4 bits on the host: to nearest within half a step, and by GPTQ against definitions in double precision.
 */
#include "ops/quant/int4.h"
#include <math.h>
#include <stdlib.h>
#include "base/half.h"
#include "support/harness.h"

static float value_of(const tfm__int4 *x, int64_t row, int64_t column) {
    const int64_t at = row * (x->columns / x->group) + column / x->group;
    const int code = x->codes[(row * x->columns + column) / 2] >> column % 2 * 4 & 15;
    return tfm__half_to_float(x->scales[at]) * (float)(code - x->zeros[at]);
}

static void test_rounding_is_within_half_a_step(void **state) {
    (void)state;
    enum { ROWS = 5, COLUMNS = 192 };
    const int groups[] = {32, 64, 96};
    harness_random random = {3};
    float row[COLUMNS];
    for (int g = 0; g < 3; g++) {
        tfm__int4 x;
        assert_true(tfm__int4_new(&x, ROWS, COLUMNS, groups[g]));
        for (int i = 0; i < ROWS; i++) {
            harness_fill(&random, row, COLUMNS, 0.1f);
            for (int j = 0; j < COLUMNS && i == 1; j++) /* only positive ones, then zeros */
                row[j] = j < 96 ? fabsf(row[j]) + 1 : 0;
            assert_true(tfm__int4_round(&x, i, row));
            for (int j = 0; j < COLUMNS; j++) {
                const float step = tfm__half_to_float(x.scales[i * (COLUMNS / groups[g]) + j / groups[g]]);
                assert_true(fabsf(value_of(&x, i, j) - row[j]) <= 1.01f * step); /* the zero point is rounded, too */
                assert_true(row[j] != 0 || value_of(&x, i, j) == 0);
            }
        }
        row[7] = NAN;
        assert_false(tfm__int4_round(&x, 0, row));
        row[7] = 1e7f; /* beyond the range of fp16 scales */
        assert_false(tfm__int4_round(&x, 0, row));
        tfm__int4_free(&x);
    }
}

/* h = x^T x of correlated inputs; the last column has none. */
static double *make_hessian(harness_random *random, int64_t k, int64_t samples) {
    double *h = calloc((size_t)(k * k), sizeof(*h));
    float *x = malloc((size_t)k * sizeof(*x));
    assert_true(h && x);
    for (int64_t s = 0; s < samples; s++) {
        harness_fill(random, x, (size_t)k, 1);
        for (int64_t i = 1; i < k; i++)
            x[i] = 0.9f * x[i - 1] + 0.4f * x[i];
        x[k - 1] = 0;
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++)
                h[i * k + j] += (double)x[i] * (double)x[j];
    }
    free(x);
    return h;
}

/* upper^T upper (h + damping) = 1. */
static void test_gptq_factor_inverts_the_damped_hessian(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 7, 32, 33, 100};
    harness_random random = {4};
    for (size_t s = 0; s < TFM__COUNT(sizes); s++) {
        const int64_t k = sizes[s];
        double *h = make_hessian(&random, k, 3 * k), *kept = malloc((size_t)(k * k) * sizeof(*kept)), mean = 0;
        float *upper = malloc((size_t)(k * k) * sizeof(*upper));
        assert_true(kept && upper);
        memcpy(kept, h, (size_t)(k * k) * sizeof(*h));
        for (int64_t i = 0; i < k; i++)
            mean += h[i * k + i] / (double)k;
        for (int64_t i = 0; i < k; i++)
            kept[i * k + i] += mean > 0 ? 0.01 * mean : 1;
        harness_ok(tfm__gptq_factor(upper, h, k));
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++) {
                double sum = 0;
                assert_true(i <= j || upper[i * k + j] == 0);
                for (int64_t p = 0; p < k; p++) {
                    double inverse = 0; /* of (i, p) */
                    for (int64_t q = 0; q < k; q++)
                        inverse += (double)upper[q * k + i] * (double)upper[q * k + p];
                    sum += inverse * kept[p * k + j];
                }
                assert_true(fabs(sum - (i == j)) < 1e-4);
            }
        kept[0] = NAN;
        assert_int_equal(tfm__gptq_factor(upper, kept, k), TFM_ERROR_INPUT);
        free(h);
        free(kept);
        free(upper);
    }
}

/* Sum over rows of (w - q) h (w - q)^T: the change of the layer's outputs. */
static double change(const float *w, const tfm__int4 *x, const double *h) {
    const int64_t k = x->columns;
    double total = 0;
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++)
                total += ((double)w[r * k + i] - (double)value_of(x, r, i)) * h[i * k + j] *
                         ((double)w[r * k + j] - (double)value_of(x, r, j));
    return total;
}

static void test_gptq_changes_outputs_less_than_rounding(void **state) {
    (void)state;
    enum { ROWS = 11, K = 96 };
    harness_random random = {5};
    tfm__int4 nearest, gptq;
    float w[ROWS * K], left[ROWS * K], upper[K * K];
    double *h = make_hessian(&random, K, 400), *kept = malloc(K * K * sizeof(*kept));
    assert_true(kept && tfm__int4_new(&nearest, ROWS, K, 32) && tfm__int4_new(&gptq, ROWS, K, 32));
    memcpy(kept, h, K * K * sizeof(*kept));
    harness_fill(&random, w, ROWS * K, 0.1f);
    memcpy(left, w, sizeof(left));
    harness_ok(tfm__gptq_factor(upper, h, K));
    for (int64_t i = 0; i < ROWS; i += TFM__GPTQ_ROWS) {
        int64_t rows[TFM__GPTQ_ROWS];
        const int64_t count = ROWS - i < TFM__GPTQ_ROWS ? ROWS - i : TFM__GPTQ_ROWS;
        for (int64_t r = 0; r < count; r++)
            rows[r] = i + r;
        assert_true(tfm__gptq_round(&gptq, rows, count, left + i * K, upper));
    }
    for (int64_t i = 0; i < ROWS; i++)
        assert_true(tfm__int4_round(&nearest, i, w + i * K));
    for (int64_t e = 0; e < ROWS * K; e++)
        assert_true(left[e] == value_of(&gptq, e / K, e % K)); /* the dequantized weights */
    assert_true(change(w, &gptq, kept) < 0.5 * change(w, &nearest, kept));
    tfm__int4_free(&nearest);
    tfm__int4_free(&gptq);
    free(h);
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding_is_within_half_a_step),
        cmocka_unit_test(test_gptq_factor_inverts_the_damped_hessian),
        cmocka_unit_test(test_gptq_changes_outputs_less_than_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
