/* Gather of rows: bit-exact. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static void check(harness_random *random, tfm_dtype dtype, int64_t count, int64_t height, int64_t width, int64_t n) {
    tfm_context *ctx = harness_context();
    const int64_t row = height * width;
    int32_t *x_host = malloc((size_t)(count * row) * 4), *index = malloc((size_t)n * 4);
    int32_t *want = calloc((size_t)(n * row), 4), *got = malloc((size_t)(n * row) * 4);
    assert_true(x_host && index && want && got);
    for (int64_t i = 0; i < count * row; i++)
        x_host[i] = (int32_t)harness_next(random); /* as floats: including NaN and subnormals */
    for (int64_t i = 0; i < n; i++) {
        index[i] = (int32_t)harness_range(random, -1, count); /* both ends are out of range: zeros */
        if (index[i] >= 0 && index[i] < count)
            memcpy(want + i * row, x_host + index[i] * row, (size_t)row * 4);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(dtype, x_host, count, height, width), indices = HARNESS_TENSOR(TFM_I32, index, n);
    tfm_tensor y = HARNESS_TENSOR(dtype, NULL, n, height, width);
    harness_ok(tfm_gather(ctx, &y, x, indices));
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, want, (size_t)(n * row) * 4);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x_host);
    free(index);
    free(want);
    free(got);
}

static void test_gather_rows_is_exact(void **state) {
    (void)state;
    const int64_t widths[] = {1, 3, 17, 65, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        check(&random, TFM_F32, 5, 1, widths[i], 1);
        check(&random, TFM_F32, 9, 3, widths[i], 17);
        check(&random, TFM_I32, 2, 1, widths[i], 65);
    }
    check(&random, TFM_F32, 50, 1, 3, 100000);
    check(&random, TFM_F32, 3, 100, 333, 2);
}

/* x (outer, count, width), indices (2, n) along axis 1. */
static void check_axis(harness_random *random, int64_t outer, int64_t count, int64_t width, int64_t n) {
    tfm_context *ctx = harness_context();
    const int64_t total = outer * 2 * n * width;
    int32_t *x_host = malloc((size_t)(outer * count * width) * 4), *index = malloc((size_t)n * 8);
    int32_t *want = calloc((size_t)total, 4), *got = malloc((size_t)total * 4);
    assert_true(x_host && index && want && got);
    for (int64_t i = 0; i < outer * count * width; i++)
        x_host[i] = (int32_t)harness_next(random);
    for (int64_t i = 0; i < 2 * n; i++)
        index[i] = (int32_t)harness_range(random, -1, count);
    for (int64_t i = 0; i < total; i++) {
        const int64_t at = index[i / width % (2 * n)];
        if (at >= 0 && at < count)
            want[i] = x_host[(i / width / (2 * n) * count + at) * width + i % width];
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, x_host, outer, count, width), indices = HARNESS_TENSOR(TFM_I32, index, 2, n);
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, outer, 2, n, width);
    harness_ok(tfm_gather_axis(ctx, &y, x, indices, n % 2 ? 1 : -2));
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, want, (size_t)total * 4);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(x_host);
    free(index);
    free(want);
    free(got);
}

static void test_gather_along_any_axis_is_exact(void **state) {
    (void)state;
    const int64_t widths[] = {1, 3, 17, 65, 1000};
    harness_random random = {2};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        check_axis(&random, 1, 5, widths[i], 1);
        check_axis(&random, 3, 9, widths[i], 17);
        check_axis(&random, 65, 2, widths[i], 4);
    }
    tfm_context *ctx = harness_context(); /* the last axis, and the first with its dims in place of the output's */
    const int32_t values[] = {0, 1, 2, 3, 4, 5}, index[] = {2, 0};
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, values, 2, 3), indices = HARNESS_TENSOR(TFM_I32, index, 1, 2), y = {0};
    harness_ok(tfm_gather_axis(ctx, &y, x, indices, 1));
    assert_true(y.rank == 3 && y.dims[0] == 2 && y.dims[1] == 1 && y.dims[2] == 2);
    int32_t *got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){2, 0, 5, 3}), 16);
    free(got);
    tfm_tensor_free(ctx, &y);
    harness_ok(tfm_gather_axis(ctx, &y, x, indices, -2));
    assert_true(y.rank == 3 && y.dims[0] == 1 && y.dims[1] == 2 && y.dims[2] == 3);
    got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){0, 0, 0, 0, 1, 2}), 24);
    free(got);
    tfm_tensor_free(ctx, &y);
}

typedef struct backward_case {
    int64_t outer, count, width, n;
    const int32_t *indices;
    bool between; /* x is a copy, so the tape computes its gradient */
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (int64_t i = 0; i < (int64_t)c->count; i++) {
        const int64_t at = b->indices[i / b->width % b->n];
        y[i] =
            at < 0 || at >= b->count ? 0 : inputs[0][(i / b->width / b->n * b->count + at) * b->width + i % b->width];
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor x = inputs[0], indices = HARNESS_TENSOR(TFM_I32, b->indices, b->n);
    if (b->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
    }
    if (x.rank == 2)
        return tfm_gather(ctx, y, x, indices);
    return tfm_gather_axis(ctx, y, x, indices, 1);
}

/* Rows taken more than once, and never; indices out of range. */
static void test_gather_gradients_sum_repeated_rows(void **state) {
    (void)state;
    harness_random random = {3};
    const int64_t widths[] = {1, 3, 17, 65, 1000};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int form = 0; form < 4; form++) {
            float host[70 * 65];
            int32_t indices[2500];
            backward_case b = {form < 2 ? 1 : widths[i] > 17 ? 2 : 70,
                               widths[i] > 17 ? 2 : 3,
                               widths[i],
                               widths[i] > 17 ? 5 : 9,
                               indices,
                               form % 2};
            if (form == 0 && widths[i] < 17) { /* many for one row */
                b.count = 100;
                b.n = widths[i] == 3 ? 2500 : 100; /* more than one pass of a group */
            }
            for (int64_t k = 0; k < b.n; k++)
                indices[k] = (int32_t)harness_range(&random, -1, form == 0 && b.n <= 100 ? 2 : b.count);
            harness_fill(&random, host, (size_t)(b.outer * b.count * b.width), 1);
            gradient_case c = {.name = "gather",
                               .inputs = {{2, {b.count, b.width}, host, false}},
                               .oracle = oracle_backward,
                               .run = run_backward,
                               .user = &b,
                               .count = (size_t)(b.outer * b.n * b.width),
                               .tolerance = 2e-6};
            if (form >= 2)
                c.inputs[0] = (gradient_input){3, {b.outer, b.count, b.width}, host, false};
            gradient_check(&c);
        }
}

/* One dimension: single elements; the output is new. */
static void test_gather_of_index_outside_is_zero(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t values[] = {10, 11, 12, 13}, index[] = {3, 0, 0, INT32_MAX, 2, INT32_MIN, -1, 4};
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, values, 4), indices = HARNESS_TENSOR(TFM_I32, index, 8), y = {0};
    harness_ok(tfm_gather(ctx, &y, x, indices));
    assert_int_equal(y.rank, 1);
    int32_t *got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){13, 10, 10, 0, 12, 0, 0, 0}), sizeof(index));
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_gather_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 3), two = HARNESS_TENSOR(TFM_I32, NULL, 2), y = {0};
    tfm_tensor square = HARNESS_TENSOR(TFM_I32, NULL, 2, 2), half = HARNESS_TENSOR(TFM_F16, NULL, 4, 3);
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3), part;
    harness_refused(tfm_gather(ctx, &y, x, square), TFM_ERROR_ARGUMENT, "gather: indices is (2, 2) I32");
    harness_refused(tfm_gather(ctx, &y, x, x), TFM_ERROR_ARGUMENT, "gather: input 2");
    harness_refused(tfm_gather(ctx, &y, half, two), TFM_ERROR_ARGUMENT, "gather: input 1 is (4, 3) F16");
    harness_refused(tfm_gather(ctx, &ints, x, two), TFM_ERROR_ARGUMENT, "gather: the output is (2, 3) I32");
    tfm_tensor deep = HARNESS_TENSOR(TFM_I32, NULL, 1, 1, 1, 1, 1, 1, 1, 2);
    harness_refused(tfm_gather_axis(ctx, &y, x, two, 2), TFM_ERROR_ARGUMENT, "gather: axis 2 of (4, 3) F32");
    harness_refused(tfm_gather_axis(ctx, &y, x, deep, 0), TFM_ERROR_ARGUMENT, "9 dimensions, at most 8");
    harness_ok(tfm_tensor_rows(ctx, &part, x, 2, 2));
    harness_refused(tfm_gather(ctx, &part, x, two), TFM_ERROR_ARGUMENT, "gather: the output");
}

/* Rows of a buffer into other rows of it: allowed, since they do not overlap. */
static void test_gather_between_disjoint_rows_of_one_buffer(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[6][20];
    for (int i = 0; i < 120; i++)
        host[i / 20][i % 20] = (float)i;
    const int32_t index[] = {2, 0};
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, host, 6, 20), x, y, indices = HARNESS_TENSOR(TFM_I32, index, 2);
    harness_ok(tfm_tensor_rows(ctx, &x, whole, 0, 3));
    harness_ok(tfm_tensor_rows(ctx, &y, whole, 3, 2));
    harness_ok(tfm_gather(ctx, &y, x, indices));
    memcpy(host[3], host[2], sizeof(host[0]));
    memcpy(host[4], host[0], sizeof(host[0]));
    float *got = harness_floats(whole);
    assert_memory_equal(got, host, sizeof(host));
    harness_guards(whole);
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_rows_is_exact),
        cmocka_unit_test(test_gather_gradients_sum_repeated_rows),
        cmocka_unit_test(test_gather_along_any_axis_is_exact),
        cmocka_unit_test(test_gather_of_index_outside_is_zero),
        cmocka_unit_test(test_gather_rejects_bad_arguments),
        cmocka_unit_test(test_gather_between_disjoint_rows_of_one_buffer),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
