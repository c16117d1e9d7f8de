/* Softmax and log-softmax against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef tfm_status (*op_fn)(tfm_context *, tfm_tensor *, tfm_tensor);

static void oracle(double *y, const float *x, int64_t rows, int64_t n, bool logarithm) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double maximum = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            maximum = fmax(maximum, x[i]);
        double shift = isinf(maximum) ? 0 : maximum;
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i] - shift);
        for (int64_t i = 0; i < n; i++)
            y[i] = sum == 0 ? (logarithm ? -INFINITY : 0)
                            : (logarithm ? x[i] - shift - log(sum) : exp(x[i] - shift) / sum * (double)n);
    }
}

/* One shape. Probabilities are compared as multiples of 1/n, so that small ones matter, and large ones relatively. */
static void check(op_fn op, int64_t rows, int64_t n, float *host, bool in_place, double tolerance) {
    tfm_context *ctx = harness_context();
    const bool logarithm = op == tfm_log_softmax;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, rows, n);
    tfm_tensor y = in_place ? x : HARNESS_TENSOR(TFM_F32, NULL, rows, n);
    harness_ok(op(ctx, &y, x));
    float *got = harness_floats(y);
    double *want = malloc((size_t)(rows * n) * sizeof(double));
    assert_non_null(want);
    oracle(want, host, rows, n, logarithm);
    char what[80];
    snprintf(what, sizeof(what), "%ssoftmax of %lld x %lld", logarithm ? "log " : "", (long long)rows, (long long)n);
    for (int64_t i = 0; !logarithm && i < rows * n; i++) {
        const double size = fmax(1, want[i]);
        got[i] = (float)(got[i] * (double)n / size);
        want[i] /= size;
    }
    harness_close(got, want, (size_t)(rows * n), tolerance, what);
    harness_guards(y);
    harness_guards(x);
    free(got);
    free(want);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static float *random_rows(harness_random *random, int64_t rows, int64_t n, float scale) {
    float *host = malloc((size_t)(rows * n) * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, (size_t)(rows * n), scale);
    return host;
}

static void test_softmax_matches_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 16, 17, 65, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int64_t rows = 1; rows <= 17; rows += 8) {
            float *host = random_rows(&random, rows, sizes[i], 5);
            for (int in_place = 0; in_place < 2; in_place++) {
                check(tfm_softmax, rows, sizes[i], host, in_place, 2e-6);
                check(tfm_log_softmax, rows, sizes[i], host, in_place, 1e-6);
            }
            free(host);
        }
}

/* Dimension `axis` of (2, 3, n, ...): each line along it is a row of the oracle. */
static void check_axis(bool logarithm, const int64_t *dims, int axis, const float *host, bool in_place) {
    tfm_context *ctx = harness_context();
    int64_t rows = 1, inner = 1;
    const int64_t n = dims[axis];
    for (int i = 0; i < 4; i++) {
        rows *= i < axis ? dims[i] : 1;
        inner *= i > axis ? dims[i] : 1;
    }
    const size_t count = (size_t)(rows * n * inner);
    double *want = malloc(count * sizeof(double)), *line = malloc((size_t)n * sizeof(double));
    float *in = malloc((size_t)n * sizeof(float));
    assert_true(want && line && in);
    for (int64_t r = 0; r < rows * inner; r++) {
        const int64_t at = r / inner * n * inner + r % inner;
        for (int64_t i = 0; i < n; i++)
            in[i] = host[at + i * inner];
        oracle(line, in, 1, n, logarithm);
        for (int64_t i = 0; i < n; i++)
            want[at + i * inner] = logarithm ? line[i] : line[i] / (double)n;
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = harness_tensor(TFM_F32, 4, dims, host);
    tfm_tensor y = in_place ? x : harness_tensor(TFM_F32, 4, dims, NULL);
    const int given = in_place ? axis - 4 : axis;
    harness_ok(logarithm ? tfm_log_softmax_axis(ctx, &y, x, given) : tfm_softmax_axis(ctx, &y, x, given));
    float *got = harness_floats(y);
    char what[100];
    snprintf(what, sizeof(what), "%ssoftmax over axis %d of %lld x %lld x %lld", logarithm ? "log " : "", given,
             (long long)rows, (long long)n, (long long)inner);
    harness_close(got, want, count, 3e-6, what);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(want);
    free(line);
    free(in);
}

static void test_softmax_over_any_axis_matches(void **state) {
    (void)state;
    const int64_t shapes[][4] = {{2, 3, 5, 17}, {3, 65, 1, 7}, {17, 1, 3, 1}, {1, 1000, 1, 33}, {65, 3, 2, 16}};
    harness_random random = {5};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        const int64_t *d = shapes[i], count = d[0] * d[1] * d[2] * d[3];
        float *host = random_rows(&random, 1, count, 4);
        for (int64_t k = 0; k < count; k += 11)
            host[k] = k % 3 ? -INFINITY : 3e38f;
        if (i == 0)
            for (int k = 0; k < 3 * 5 * 17; k++)
                host[k] = -INFINITY; /* along axes 1 to 3: nothing else */
        for (int axis = 0; axis < 4; axis++)
            for (int logarithm = 0; logarithm < 2; logarithm++)
                for (int in_place = 0; in_place < 2; in_place++)
                    check_axis(logarithm, d, axis, host, in_place);
        free(host);
    }
    const int64_t wide[4] = {9, 3, 1, 40001}; /* more groups than one grid dimension takes */
    float *host = random_rows(&random, 27, 40001, 1);
    check_axis(false, wide, 1, host, false);
    free(host);
}

static void test_softmax_of_large_values_is_finite(void **state) {
    (void)state;
    harness_random random = {2};
    float *host = random_rows(&random, 5, 333, 3);
    for (int i = 0; i < 5 * 333; i++)
        host[i] += i < 333 ? 1e4f : i < 666 ? -1e4f : i < 999 ? 3e38f : 0;
    check(tfm_softmax, 5, 333, host, false, 2e-6);
    check(tfm_log_softmax, 5, 333, host, false, 1e-6);
    free(host);
}

static void test_softmax_all_masked_row_is_zero(void **state) {
    (void)state;
    harness_random random = {3};
    for (int64_t n = 1; n <= 40; n += 13) {
        float *host = random_rows(&random, 4, n, 1);
        for (int64_t i = 0; i < n; i++)
            host[n + i] = -INFINITY; /* row 1: nothing else */
        for (int64_t i = 0; i + 1 < n; i++)
            host[2 * n + i] = -INFINITY; /* row 2: all but the last */
        host[3 * n] = -INFINITY;
        check(tfm_softmax, 4, n, host, false, 2e-6);
        check(tfm_log_softmax, 4, n, host, false, 1e-6);
        free(host);
    }
}

static void test_softmax_nan_stays_in_its_row(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[2][19] = {{0}};
    host[0][18] = NAN;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 2, 19), y = {0};
    harness_ok(tfm_softmax(ctx, &y, x));
    float *got = harness_floats(y);
    for (int i = 0; i < 19; i++) {
        assert_true(isnan(got[i]));
        assert_true(fabsf(got[19 + i] - 1.0f / 19) < 1e-7f);
    }
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_softmax_of_many_rows_matches(void **state) {
    (void)state;
    harness_random random = {4};
    const int64_t rows = harness_brief() ? 66000 : 100000;
    float *host = random_rows(&random, rows, 3, 2);
    check(tfm_softmax, rows, 3, host, false, 2e-6);
    check(tfm_log_softmax, rows, 3, host, true, 1e-6);
    free(host);
}

static void test_softmax_allocates_its_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[24] = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 2, 3, 1, 4), y = {0};
    harness_ok(tfm_softmax(ctx, &y, x));
    assert_int_equal(y.rank, 4);
    assert_memory_equal(y.dims, x.dims, 4 * sizeof(int64_t));
    float *got = harness_floats(y);
    for (int i = 0; i < 24; i++)
        assert_true(fabsf(got[i] - 0.25f) < 1e-7f);
    free(got);
    tfm_tensor_free(ctx, &y);
}

typedef struct softmax_case {
    bool logarithm;
    int axis;
} softmax_case;

static void oracle_axis(const gradient_case *c, double *y, double *const *inputs) {
    const softmax_case *s = c->user;
    const gradient_input *in = &c->inputs[0];
    int64_t inner = 1;
    for (int i = s->axis + 1; i < in->rank; i++)
        inner *= in->dims[i];
    const int64_t n = in->dims[s->axis];
    for (int64_t line = 0; line < (int64_t)c->count / n; line++) {
        const double *x = inputs[0] + line / inner * n * inner + line % inner;
        double *out = y + (x - inputs[0]), sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += exp(x[i * inner]);
        for (int64_t i = 0; i < n; i++)
            out[i * inner] = s->logarithm ? x[i * inner] - log(sum) : exp(x[i * inner]) / sum;
    }
}

static tfm_status run_axis(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const softmax_case *s = c->user;
    return s->logarithm ? tfm_log_softmax_axis(ctx, y, inputs[0], s->axis)
                        : tfm_softmax_axis(ctx, y, inputs[0], s->axis);
}

static void test_softmax_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t shapes[][3] = {{1, 1, 1}, {3, 17, 1}, {2, 65, 3}, {3, 3, 17}, {2, 1, 1000}, {1, 1000, 1}, {1, 5, 65}};
    harness_random random = {9};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int variant = 0; variant < 4; variant++) {
            const int64_t *d = shapes[i];
            const softmax_case s = {variant % 2 == 1, variant < 2 ? 1 : 2};
            float *host = random_rows(&random, d[0] * d[1], d[2], 2);
            gradient_check(&(gradient_case){.name = s.logarithm ? "log_softmax" : "softmax",
                                            .inputs = {{3, {d[0], d[1], d[2]}, host, false}},
                                            .oracle = oracle_axis,
                                            .run = run_axis,
                                            .user = &s,
                                            .count = (size_t)(d[0] * d[1] * d[2]),
                                            .tolerance = 3e-6});
            free(host);
        }
}

static void test_softmax_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), whole = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    tfm_tensor small = HARNESS_TENSOR(TFM_F32, NULL, 3, 2), y = {0};
    harness_refused(tfm_softmax(ctx, &y, (tfm_tensor){0}), TFM_ERROR_ARGUMENT, "softmax");
    harness_refused(tfm_softmax(ctx, &y, whole), TFM_ERROR_ARGUMENT, "softmax: input 1 is (2, 3) I32");
    harness_refused(tfm_softmax(ctx, &small, x), TFM_ERROR_ARGUMENT, "softmax: the output is (3, 2) F32");
    harness_refused(tfm_log_softmax(ctx, &small, x), TFM_ERROR_ARGUMENT, "log_softmax");
    harness_refused(tfm_softmax_axis(ctx, &y, x, 2), TFM_ERROR_ARGUMENT,
                    "softmax: axis 2 of (2, 3) F32: it must be from -2 to 1");
    harness_refused(tfm_log_softmax_axis(ctx, &y, x, -3), TFM_ERROR_ARGUMENT, "log_softmax: axis -3");
    assert_null(y.buffer);
}

static void test_softmax_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), over = x;
    over.offset += 3;
    harness_refused(tfm_softmax(ctx, &over, x), no, why);
    harness_refused(tfm_log_softmax_axis(ctx, &over, x, 0), no, why);
    harness_ok(tfm_softmax(ctx, &x, x)); /* in place is allowed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_matches_double_precision),
        cmocka_unit_test(test_softmax_of_large_values_is_finite),
        cmocka_unit_test(test_softmax_all_masked_row_is_zero),
        cmocka_unit_test(test_softmax_nan_stays_in_its_row),
        cmocka_unit_test(test_softmax_of_many_rows_matches),
        cmocka_unit_test(test_softmax_allocates_its_output),
        cmocka_unit_test(test_softmax_over_any_axis_matches),
        cmocka_unit_test(test_softmax_gradients_match_double_precision),
        cmocka_unit_test(test_softmax_rejects_bad_arguments),
        cmocka_unit_test(test_softmax_rejects_overlapping_output),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
