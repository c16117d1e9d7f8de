/* Sequence pooling to one vector. */
#include <math.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

/* The formulas in double precision, for one column. */
static double pooled(tfm_pooling pooling, const float *column, int64_t stride, int64_t length, int64_t first) {
    double sum = 0, most = -INFINITY, weights = 0;
    if (pooling == TFM_POOL_CLS)
        return length > 0 ? (double)column[first < length ? first * stride : 0] : 0;
    if (first >= length)
        return 0;
    if (pooling == TFM_POOL_LAST)
        return (double)column[(length - 1) * stride];
    for (int64_t t = first; t < length; t++) {
        const double weight = pooling == TFM_POOL_WEIGHTED ? (double)(t + 1) : 1;
        sum += weight * (double)column[t * stride];
        weights += weight;
        most = fmax(most, (double)column[t * stride]);
    }
    return pooling == TFM_POOL_MAX ? most : sum / (pooling == TFM_POOL_MEAN_SQRT_LEN ? sqrt(weights) : weights);
}

static void check_shape(harness_random *random, int64_t batch, int64_t steps, int64_t width, int64_t first,
                        bool counted) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(batch * steps * width);
    float *host = malloc(count * sizeof(*host));
    double *want = malloc((size_t)(batch * width) * sizeof(*want));
    int32_t *lengths = malloc((size_t)batch * sizeof(*lengths));
    assert_true(host && want && lengths);
    harness_fill(random, host, count, 2);
    for (int64_t b = 0; b < batch; b++)
        lengths[b] = counted ? (int32_t)harness_range(random, b == 1 ? 0 : 1, steps) : (int32_t)steps;
    /* Values after a sequence's end are ignored. */
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = lengths[b] * width; i < steps * width; i++)
            host[b * steps * width + i] = NAN;
    for (int pooling = TFM_POOL_CLS; pooling < TFM_POOLINGS; pooling++) {
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, batch, steps, width),
                   y = HARNESS_TENSOR(TFM_F32, NULL, batch, width);
        tfm_tensor l = counted ? HARNESS_TENSOR(TFM_I32, lengths, batch) : (tfm_tensor){0};
        for (int64_t i = 0; i < batch * width; i++)
            want[i] = pooled((tfm_pooling)pooling, host + i / width * steps * width + i % width, width,
                             lengths[i / width], first);
        harness_ok(tfm_pool(ctx, &y, x, l, (tfm_pooling)pooling, first));
        harness_guards(y);
        float *got = harness_floats(y);
        harness_close(got, want, (size_t)(batch * width), 1e-6, "pool");
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    free(host);
    free(want);
    free(lengths);
}

static void test_pooling_matches_double_precision(void **state) {
    (void)state;
    harness_random random = {7};
    const int64_t widths[] = {1, 15, 16, 37, 384, 1030};
    for (size_t k = 0; k < sizeof(widths) / sizeof(*widths); k++) {
        check_shape(&random, 5, 13, widths[k], 0, true);
        check_shape(&random, 3, 9, widths[k], 4, true);
    }
    check_shape(&random, 2, 7, 33, 2, false);
    check_shape(&random, 1, 1, 20, 0, false);
}

static void test_pool_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 4), two = HARNESS_TENSOR(TFM_F32, NULL, 2, 4), y = {0};
    const int32_t three[] = {1, 1, 1};
    tfm_tensor lengths = HARNESS_TENSOR(TFM_I32, three, 3), over = two;
    over.buffer = x.buffer;
    over.offset = x.offset;
    over.generation = x.generation;
    harness_refused(tfm_pool(ctx, &y, two, (tfm_tensor){0}, TFM_POOL_MEAN, 0), TFM_ERROR_ARGUMENT, "(B, T, E)");
    harness_refused(tfm_pool(ctx, &y, x, lengths, TFM_POOL_MEAN, 0), TFM_ERROR_ARGUMENT, "one for each sequence");
    harness_refused(tfm_pool(ctx, &y, x, (tfm_tensor){0}, TFM_POOLINGS, 0), TFM_ERROR_ARGUMENT, "no pooling number 6");
    harness_refused(tfm_pool(ctx, &y, x, (tfm_tensor){0}, TFM_POOL_MEAN, -1), TFM_ERROR_ARGUMENT, "counts tokens");
    harness_refused(tfm_pool(ctx, &over, x, (tfm_tensor){0}, TFM_POOL_MEAN, 0), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling_matches_double_precision),
        cmocka_unit_test(test_pool_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
