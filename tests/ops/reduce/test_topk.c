/* Top k of each row, and log-sum-exp, against a full sort. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "support/brief.h"
#include "tfm/ops.h"

static const float *sorted_row;

static float number(float x) {
    return isnan(x) ? -INFINITY : x;
}

static int later(const void *a, const void *b) {
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const float x = number(sorted_row[i]), y = number(sorted_row[j]);
    return x > y ? -1 : x < y ? 1 : i < j ? -1 : i > j;
}

static double lse(const float *x, int64_t n) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, number(x[i]));
    if (isinf(most))
        return most;
    for (int64_t i = 0; i < n; i++)
        sum += exp(number(x[i]) - most);
    return most + log(sum);
}

/* Host values are compared bit by bit: the op copies them. */
static void check(const float *host, int64_t rows, int64_t n, int k) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, rows, n), values = HARNESS_TENSOR(TFM_F32, NULL, rows, k);
    tfm_tensor indices = HARNESS_TENSOR(TFM_I32, NULL, rows, k), sums = HARNESS_TENSOR(TFM_F32, NULL, rows);
    tfm_tensor alone_values = {0}, alone_indices = {0};
    harness_ok(tfm_topk(ctx, &values, &indices, &sums, x, k));
    harness_ok(tfm_topk(ctx, &alone_values, &alone_indices, NULL, x, k));
    float *value = harness_floats(values), *sum = harness_floats(sums), *alone_value = harness_floats(alone_values);
    int32_t *index = harness_ints(indices), *alone_index = harness_ints(alone_indices);
    int32_t *order = malloc((size_t)n * sizeof(*order));
    double *want = malloc((size_t)rows * sizeof(*want));
    assert_true(order && want);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++)
            order[i] = (int32_t)i;
        sorted_row = host + r * n;
        qsort(order, (size_t)n, sizeof(*order), later);
        want[r] = lse(sorted_row, n);
        for (int i = 0; i < k; i++) {
            const int64_t at = r * k + i;
            if (index[at] != order[i] || value[at] != number(sorted_row[order[i]]) || alone_index[at] != index[at] ||
                alone_value[at] != value[at])
                fail_msg("%lld x %lld, row %lld, place %d of %d: (%g, %d), alone (%g, %d), wanted (%g, %d)",
                         (long long)rows, (long long)n, (long long)r, i, k, (double)value[at], index[at],
                         (double)alone_value[at], alone_index[at], (double)sorted_row[order[i]], order[i]);
        }
    }
    harness_close(sum, want, (size_t)rows, 1e-6, "log sum exp");
    harness_guards(values);
    harness_guards(indices);
    harness_guards(sums);
    free(value);
    free(sum);
    free(alone_value);
    free(index);
    free(alone_index);
    free(order);
    free(want);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static float *floats(int64_t count) {
    float *host = malloc((size_t)count * sizeof(float));
    assert_non_null(host);
    return host;
}

static void test_topk_matches_full_sort(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 257, 1000, 6001, 17000, 70001};
    const int ks[] = {1, 2, 5, 8, 16, 64};
    const bool half = harness_slow() || less();
    harness_random random = {1};
    for (size_t i = 0; i < (harness_slow() ? 12 : 14); i++)
        for (size_t j = 0; j < 6; j++)
            if (ks[j] <= sizes[i] && !(half && (i + j) % 2)) {
                float *host = floats(3 * sizes[i]);
                harness_fill(&random, host, (size_t)(3 * sizes[i]), j % 2 ? 1 : 12);
                check(host, 3, sizes[i], ks[j]);
                free(host);
            }
}

/* Few distinct numbers: nearly all ranks are ties. Ascending rows: every number is a new maximum. */
static void test_topk_ties_go_to_the_first(void **state) {
    (void)state;
    const int64_t sizes[] = {5, 64, 1000, 6001};
    harness_random random = {2};
    for (size_t i = 0; i < 4; i++) {
        const int64_t n = sizes[i];
        float *host = floats(6 * n);
        for (int64_t j = 0; j < n; j++) {
            host[j] = (float)harness_range(&random, 0, 2);
            host[n + j] = 0.5F;
            host[2 * n + j] = (float)j;
            host[3 * n + j] = (float)-j;
            host[4 * n + j] = (float)(j % 32 == 7 ? j / 32 : -1); /* all the best in one part */
            host[5 * n + j] = j % 2 ? 0.0F : -0.0F;               /* equal, with different bits */
        }
        check(host, 6, n, n < 40 ? (int)n : 40);
        free(host);
    }
}

static void test_topk_skips_nan_and_infinite_entries(void **state) {
    (void)state;
    const int64_t sizes[] = {6, 100, 6001};
    harness_random random = {3};
    for (size_t i = 0; i < 3; i++) {
        const int64_t n = sizes[i];
        float *host = floats(6 * n);
        for (int64_t j = 0; j < n; j++) {
            host[j] = -INFINITY;
            host[n + j] = NAN;
            host[2 * n + j] = j == n / 2 ? 3.0F : j % 2 ? -INFINITY : NAN;
            host[3 * n + j] = j % 3 ? harness_normal(&random) : NAN;
            host[4 * n + j] = j == n - 2 ? INFINITY : j % 3 ? harness_normal(&random) : -INFINITY;
            host[5 * n + j] = j >= n - 2 ? -3e38F : -INFINITY;
        }
        check(host, 6, n, 6);
        free(host);
    }
}

/* Sums of very many, of very distant, and of very large numbers. */
static void test_topk_log_sum_exp_of_extremes_is_right(void **state) {
    (void)state;
    const int64_t n = harness_slow() ? 6000 : 66000;
    float *host = floats(4 * n);
    for (int64_t j = 0; j < n; j++) {
        host[j] = 1.0F;
        host[n + j] = j == 5 ? 0.0F : -12.0F;
        host[2 * n + j] = 1e30F * (float)(j % 7);
        host[3 * n + j] = (float)j * 0.01F - 700.0F;
    }
    check(host, 4, n, 3);
    free(host);
}

static void test_topk_of_many_rows_matches(void **state) {
    (void)state;
    const int64_t rows = harness_slow() ? 300 : less() ? 4000 : 40000;
    harness_random random = {4};
    float *host = floats(rows * 20);
    harness_fill(&random, host, (size_t)(rows * 20), 1);
    check(host, rows, 20, 4);
    free(host);
}

/* Integers that fp32 cannot distinguish, extremes, and equal ones. */
static void test_topk_of_integers_is_exact(void **state) {
    (void)state;
    enum { ROWS = 3, N = 333, K = 64 };
    int32_t host[ROWS * N];
    for (int i = 0; i < ROWS * N; i++)
        host[i] = i % 50 == 7 ? INT32_MIN : i % 41 == 3 ? INT32_MAX - i % 5 : 1000000000 + i * 7919 % 97;
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, host, ROWS, N), values = {0}, indices = {0};
    harness_ok(tfm_topk(harness_context(), &values, &indices, NULL, x, K));
    assert_int_equal(values.dtype, TFM_I32);
    int32_t *got = harness_ints(values), *at = harness_ints(indices);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) {
            const int32_t *row = host + r * N;
            int rank = 0;
            for (int j = 0; j < N; j++)
                rank += row[j] > row[i] || (row[j] == row[i] && j < i);
            if (rank < K)
                assert_true(got[r * K + rank] == row[i] && at[r * K + rank] == i);
        }
    free(got);
    free(at);
}

/* Rows split over several work-groups, if the device does so: shorter and longer than a group's step. */
static void test_topk_shared_by_work_groups_matches(void **state) {
    tfm__tuning *tuning = &harness_context()->tuning;
    const tfm__tuning before = *tuning;
    const int64_t sizes[] = {129, 1000, 17000}, parts[] = {1, 200, 3000};
    harness_random random = {8};
    if (tuning->class != TFM__CLASS_GPU || harness_slow())
        skip();
    tuning->split_workgroups = 1 << 20;
    for (size_t i = 0; i < 3; i++) {
        float *host = floats(3 * sizes[i]);
        tuning->split_min_logits = parts[i];
        harness_fill(&random, host, (size_t)(3 * sizes[i]), 3);
        check(host, 3, sizes[i], 1);
        check(host, 3, sizes[i], 64);
        free(host);
    }
    tuning->split_min_logits = 200;
    test_topk_ties_go_to_the_first(state);
    test_topk_skips_nan_and_infinite_entries(state);
    const uint64_t launches = harness_context()->launches;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 9000), values = {0}, indices = {0};
    harness_ok(tfm_topk(harness_context(), &values, &indices, NULL, x, 5));
    assert_int_equal(harness_context()->launches - launches, 2);
    *tuning = before;
}

static void test_topk_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 3, 70), flat = HARNESS_TENSOR(TFM_F32, NULL, 70), values = {0};
    tfm_tensor numbers = HARNESS_TENSOR(TFM_I32, NULL, 3, 70), indices = {0};
    harness_refused(tfm_topk(ctx, &values, &indices, NULL, x, 0), TFM_ERROR_ARGUMENT, "from 1 to 64");
    harness_refused(tfm_topk(ctx, &values, &indices, NULL, x, 65), TFM_ERROR_ARGUMENT, "(3, 70) F32");
    harness_refused(tfm_topk(ctx, &values, &indices, NULL, flat, 2), TFM_ERROR_ARGUMENT, "not (R, N)");
    tfm_tensor sums = {0}, bytes = HARNESS_TENSOR(TFM_U8, NULL, 3, 70);
    harness_refused(tfm_topk(ctx, &values, &indices, &sums, numbers, 2), TFM_ERROR_ARGUMENT, "only F32 has a log sum");
    harness_refused(tfm_topk(ctx, &values, &indices, NULL, bytes, 2), TFM_ERROR_ARGUMENT, "dtype");
    indices = x;
    harness_refused(tfm_topk(ctx, &values, &indices, NULL, x, 2), TFM_ERROR_ARGUMENT, "output");
}

static void test_topk_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), column = x, sums = x, ints = {0};
    tfm_tensor best = HARNESS_TENSOR(TFM_F32, NULL, 4, 1);
    column.dims[1] = 1;
    sums.rank = 1;
    harness_refused(tfm_topk(ctx, &column, &ints, NULL, x, 1), no, why);
    harness_refused(tfm_topk(ctx, &best, &ints, &sums, x, 1), no, why);
    sums = best;
    sums.rank = 1;
    harness_refused(tfm_topk(ctx, &best, &ints, &sums, x, 1), no, why);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_topk_shared_by_work_groups_matches),
        cmocka_unit_test(test_topk_matches_full_sort),
        cmocka_unit_test(test_topk_ties_go_to_the_first),
        cmocka_unit_test(test_topk_skips_nan_and_infinite_entries),
        cmocka_unit_test(test_topk_log_sum_exp_of_extremes_is_right),
        cmocka_unit_test(test_topk_of_many_rows_matches),
        cmocka_unit_test(test_topk_rejects_bad_arguments),
        cmocka_unit_test(test_topk_rejects_overlapping_output),
        cmocka_unit_test(test_topk_of_integers_is_exact),
    };
    return cmocka_run_group_tests_name("topk", all, harness_setup, harness_teardown);
}
