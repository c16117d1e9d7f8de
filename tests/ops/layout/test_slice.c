/* Slices: bit-exact. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

/* The indices of Python's range, by iteration; returns how many. */
static int64_t walk(int64_t *places, tfm_range r, int64_t n) {
    int64_t count = 0, step = r.step ? r.step : 1, start = r.start, end = r.end;
    if (start < 0 && start >= -n)
        start += n;
    if (end < 0 && end >= -n)
        end += n;
    for (int64_t i = 0; i < n; i++) { /* the i-th index met */
        const int64_t at = step > 0 ? i : n - 1 - i;
        const int64_t first = step > 0 ? (start < 0 ? 0 : start) : (start >= n ? n - 1 : start);
        const bool inside = step > 0 ? at >= first && at < end : at <= first && at > end;
        if (inside && (at - first) % step == 0)
            places[count++] = at;
    }
    return count;
}

static void check(harness_random *random, tfm_dtype dtype, const int64_t *dims, const tfm_range *ranges) {
    tfm_context *ctx = harness_context();
    const size_t size = tfm_dtype_size(dtype);
    const size_t count = (size_t)(dims[0] * dims[1] * dims[2]);
    int64_t *places[3], out[3];
    for (int i = 0; i < 3; i++) {
        places[i] = malloc((size_t)dims[i] * sizeof(int64_t));
        assert_non_null(places[i]);
        out[i] = walk(places[i], ranges[i], dims[i]);
        assert_true(out[i] > 0);
    }
    const size_t result = (size_t)(out[0] * out[1] * out[2]);
    char *host = malloc(count * size), *want = malloc(result * size), *got = malloc(result * size), *at = want;
    assert_true(host && want && got);
    for (size_t i = 0; i < count * size; i++)
        host[i] = (char)harness_next(random);
    for (int64_t a = 0; a < out[0]; a++)
        for (int64_t b = 0; b < out[1]; b++)
            for (int64_t c = 0; c < out[2]; c++, at += size)
                memcpy(at, host + (size_t)((places[0][a] * dims[1] + places[1][b]) * dims[2] + places[2][c]) * size,
                       size);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = harness_tensor(dtype, 3, dims, host), y = harness_tensor(dtype, 3, out, NULL);
    harness_ok(tfm_slice(ctx, &y, x, ranges));
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, want, result * size);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    for (int i = 0; i < 3; i++)
        free(places[i]);
    free(host);
    free(want);
    free(got);
}

static void test_slice_of_any_range_is_exact(void **state) {
    (void)state;
    harness_random random = {1};
    const int64_t dims[] = {5, 17, 65};
    const tfm_range ranges[][3] = {
        {TFM_WHOLE, TFM_WHOLE, TFM_WHOLE},
        {{1, 3, 1}, TFM_WHOLE, TFM_WHOLE},
        {TFM_WHOLE, {2, 9, 0}, TFM_WHOLE},
        {TFM_WHOLE, TFM_WHOLE, {33, 64, 1}},
        {{0, 5, 2}, {1, -1, 3}, {-40, 60, 7}},
        {{-1, INT64_MIN, -1}, {INT64_MAX, 2, -5}, {64, -66, -2}},
        {{4, 1, -3}, {-17, INT64_MAX, INT64_MAX}, {INT64_MIN, -64, 1}},
        {{2, 1, INT64_MIN}, {-100, 100, 16}, {100, -100, -64}},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        check(&random, TFM_F32, dims, ranges[i]);
        check(&random, TFM_BF16, dims, ranges[i]);
        check(&random, TFM_U8, dims, ranges[i]);
    }
    check(&random, TFM_I32, (int64_t[]){1, 1, 1}, (tfm_range[]){TFM_WHOLE, {-1, 1, 1}, {0, INT64_MIN, -1}});
    check(&random, TFM_F32, (int64_t[]){3, 1001, 1000}, (tfm_range[]){{2, 0, -1}, {1, 1000, 1}, {5, 996, 1}});
}

typedef struct backward_case {
    int64_t dims[3];
    tfm_range ranges[3];
    bool between; /* x is a copy, so the tape computes its gradient */
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    int64_t places[3][1000], out[3];
    for (int i = 0; i < 3; i++)
        out[i] = walk(places[i], b->ranges[i], b->dims[i]);
    for (size_t k = 0; k < c->count; k++) {
        const int64_t i = (int64_t)k, at = places[0][i / out[2] / out[1]] * b->dims[1] + places[1][i / out[2] % out[1]];
        y[k] = inputs[0][at * b->dims[2] + places[2][i % out[2]]];
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor x = inputs[0];
    if (b->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
    }
    return tfm_slice(ctx, y, x, b->ranges);
}

static void test_slice_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {2};
    const backward_case cases[] = {
        {{1, 1, 1}, {TFM_WHOLE, TFM_WHOLE, TFM_WHOLE}, false},
        {{5, 17, 3}, {TFM_WHOLE, {2, 9, 0}, TFM_WHOLE}, true},
        {{3, 17, 65}, {{0, 5, 2}, {1, -1, 3}, {-40, 60, 7}}, true},
        {{3, 17, 65}, {{-1, INT64_MIN, -1}, {INT64_MAX, 2, -5}, {64, -66, -2}}, false},
        {{1, 3, 1000}, {TFM_WHOLE, {2, 0, -1}, {5, 996, 1}}, true},
        {{1, 3, 1000}, {TFM_WHOLE, {-2, INT64_MAX, 1}, {5, 996, 1}}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const backward_case *b = &cases[i];
        float host[3 * 17 * 65];
        int64_t count = 1, places[1000];
        for (int k = 0; k < 3; k++)
            count *= walk(places, b->ranges[k], b->dims[k]);
        harness_fill(&random, host, (size_t)(b->dims[0] * b->dims[1] * b->dims[2]), 1);
        gradient_check(&(gradient_case){.name = "slice",
                                        .inputs = {{3, {b->dims[0], b->dims[1], b->dims[2]}, host, false}},
                                        .oracle = oracle_backward,
                                        .run = run_backward,
                                        .user = b,
                                        .count = (size_t)count,
                                        .tolerance = 1e-6});
    }
}

static void test_slice_allocates_its_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t host[] = {0, 1, 2, 3, 4, 5};
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, host, 6), y = {0};
    harness_ok(tfm_slice(ctx, &y, x, &(tfm_range){-2, 0, -2}));
    assert_true(y.rank == 1 && y.dims[0] == 2);
    int32_t *got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){4, 2}), 8);
    free(got);
    tfm_tensor_free(ctx, &y);
}

/* An empty range gives a dim of 0, as in Python. */
static void test_slice_of_empty_range_has_dim_zero(void **state) {
    (void)state;
    const tfm_range ranges[] = {{3, 3, 1}, {6, 9, 1}, {1, 3, -1}, {-7, INT64_MIN, -1}};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 6);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        tfm_tensor y = {0};
        harness_ok(tfm_slice(harness_context(), &y, x, &ranges[i]));
        assert_true(y.rank == 1 && y.dims[0] == 0 && tfm_tensor_count(y) == 0);
        tfm_tensor_free(harness_context(), &y);
    }
}

static void test_slice_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 6), two = HARNESS_TENSOR(TFM_F32, NULL, 2), y = {0};
    harness_refused(tfm_slice(ctx, &y, x, NULL), TFM_ERROR_ARGUMENT, "slice: ranges is NULL");
    harness_refused(tfm_slice(ctx, &two, x, &(tfm_range){1, 4, 1}), TFM_ERROR_ARGUMENT, "slice: the output is");
    y = x;
    harness_refused(tfm_slice(ctx, &y, x, &TFM_WHOLE), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_of_any_range_is_exact),
        cmocka_unit_test(test_slice_allocates_its_output),
        cmocka_unit_test(test_slice_of_empty_range_has_dim_zero),
        cmocka_unit_test(test_slice_rejects_bad_arguments),
        cmocka_unit_test(test_slice_gradients_match_double_precision),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
