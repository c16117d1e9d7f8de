/* Layer norm against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { RESIDUAL = 1, GAMMA = 2, BETA = 4, SUM = 8, OVER_X = 16, OVER_RESIDUAL = 32 };

static float *random_floats(harness_random *random, size_t count, float mean, float scale) {
    float *host = malloc(count * sizeof(float));
    assert_non_null(host);
    harness_fill(random, host, count, scale);
    for (size_t i = 0; i < count; i++)
        host[i] += mean;
    return host;
}

/* s is the fp32 sum, as in the op; the rest is double. */
static void oracle(double *y, const float *s, int64_t rows, int64_t n, const float *gamma, const float *beta,
                   double epsilon) {
    for (int64_t r = 0; r < rows; r++, s += n, y += n) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += s[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += (s[i] - mean) * (s[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            y[i] = (s[i] - mean) / sqrt(variance + epsilon) * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
    }
}

static void check(harness_random *random, int64_t rows, int64_t n, int flags, float mean, double tolerance) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(rows * n);
    const float epsilon = 1e-5f;
    float *x_host = random_floats(random, count, mean, 1), *r_host = random_floats(random, count, 0, 1);
    float *g_host = random_floats(random, (size_t)n, 1, 0.5f), *b_host = random_floats(random, (size_t)n, 0, 1);
    float *s_host = malloc(count * sizeof(float));
    double *want = malloc(count * sizeof(double));
    assert_true(s_host && want);
    for (size_t i = 0; i < count; i++)
        s_host[i] = flags & RESIDUAL ? x_host[i] + r_host[i] : x_host[i];
    oracle(want, s_host, rows, n, flags & GAMMA ? g_host : NULL, flags & BETA ? b_host : NULL, epsilon);

    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, x_host, rows, n), residual = {0}, gamma = {0}, beta = {0}, sum = {0};
    if (flags & RESIDUAL)
        residual = HARNESS_TENSOR(TFM_F32, r_host, rows, n);
    if (flags & GAMMA)
        gamma = HARNESS_TENSOR(TFM_F32, g_host, n);
    if (flags & BETA)
        beta = HARNESS_TENSOR(TFM_F32, b_host, n);
    tfm_tensor y = flags & OVER_X ? x : HARNESS_TENSOR(TFM_F32, NULL, rows, n);
    if (flags & SUM)
        sum = flags & OVER_RESIDUAL ? residual : HARNESS_TENSOR(TFM_F32, NULL, rows, n);
    else if (flags & OVER_RESIDUAL)
        y = residual;
    harness_ok(tfm_layernorm(ctx, &y, flags & SUM ? &sum : NULL, x, residual, gamma, beta, epsilon));
    float *got = harness_floats(y);
    char what[80];
    snprintf(what, sizeof(what), "layernorm of %lld x %lld, flags %d", (long long)rows, (long long)n, flags);
    harness_close(got, want, count, tolerance, what);
    harness_guards(y);
    if (flags & SUM) {
        float *s = harness_floats(sum);
        assert_memory_equal(s, s_host, count * sizeof(float));
        harness_guards(sum);
        free(s);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(x_host);
    free(r_host);
    free(g_host);
    free(b_host);
    free(s_host);
    free(want);
}

static void test_layernorm_matches_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 16, 17, 65, 512, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int flags = 0; flags < 16; flags++)
            check(&random, 5, sizes[i], flags, 0, 2e-6);
        check(&random, 17, sizes[i], OVER_X | RESIDUAL | GAMMA | BETA, 0, 2e-6);
        check(&random, 17, sizes[i], OVER_X | RESIDUAL | GAMMA | BETA | SUM, 0, 2e-6);
        check(&random, 17, sizes[i], OVER_X | OVER_RESIDUAL | RESIDUAL | GAMMA | BETA | SUM, 0, 2e-6);
        check(&random, 17, sizes[i], OVER_RESIDUAL | RESIDUAL | GAMMA | BETA, 0, 2e-6);
    }
}

/* Data for which E[x^2] - E[x]^2 in fp32 is off by more than the variance. */
static void test_layernorm_of_large_mean_keeps_precision(void **state) {
    (void)state;
    harness_random random = {2};
    const int64_t sizes[] = {17, 65, 512, 1000, 4099};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        check(&random, 3, sizes[i], GAMMA | BETA, 1e4f, 4e-6);
        check(&random, 3, sizes[i], RESIDUAL | SUM, -1e4f, 4e-6);
    }
}

static void test_layernorm_of_many_rows_matches(void **state) {
    (void)state;
    harness_random random = {3};
    check(&random, harness_brief() ? 66000 : 100000, 7, RESIDUAL | GAMMA | BETA, 0, 5e-6);
}

/* Over the trailing dims of (5, 3, 4, n) from `axis` on, with statistics if requested. */
static void check_axes(harness_random *random, int64_t n, int axis, int flags, bool mean_out, bool inv_out) {
    tfm_context *ctx = harness_context();
    const int64_t dims[4] = {5, 3, 4, n};
    int64_t rows = 1, width = 1, ones[4];
    for (int i = 0; i < 4; i++) {
        *(i < axis ? &rows : &width) *= dims[i];
        ones[i] = i < axis ? dims[i] : 1;
    }
    const size_t count = (size_t)(rows * width);
    const float epsilon = 1e-2f; /* so that it matters */
    float *host = random_floats(random, count, 3, 2), *g_host = random_floats(random, (size_t)width, 1, 0.5f),
          *b_host = random_floats(random, (size_t)width, 0, 1);
    double *want = malloc(count * sizeof(double)), *means = calloc((size_t)rows, sizeof(double)),
           *inverses = calloc((size_t)rows, sizeof(double));
    assert_true(want && means && inverses);
    oracle(want, host, rows, width, flags & GAMMA ? g_host : NULL, flags & BETA ? b_host : NULL, (double)epsilon);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < width; i++)
            means[r] += host[r * width + i] / (double)width;
        for (int64_t i = 0; i < width; i++)
            inverses[r] += pow(host[r * width + i] - means[r], 2) / (double)width;
        inverses[r] = 1 / sqrt(inverses[r] + (double)epsilon);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = harness_tensor(TFM_F32, 4, dims, host), gamma = {0}, beta = {0};
    tfm_tensor y = flags & OVER_X ? x : harness_tensor(TFM_F32, 4, dims, NULL);
    tfm_tensor mean = harness_tensor(TFM_F32, 4, ones, NULL), inv_std = {0}; /* one given, one new */
    if (flags & GAMMA)
        gamma = harness_tensor(TFM_F32, 4 - axis, dims + axis, g_host);
    if (flags & BETA)
        beta = harness_tensor(TFM_F32, 4 - axis, dims + axis, b_host);
    harness_ok(tfm_layernorm_axes(ctx, &y, mean_out ? &mean : NULL, inv_out ? &inv_std : NULL, x, gamma, beta,
                                  flags & OVER_X ? axis - 4 : axis, epsilon));
    float *got = harness_floats(y);
    harness_close(got, want, count, 2e-6, "layernorm over several axes");
    harness_guards(y);
    free(got);
    if (mean_out) {
        got = harness_floats(mean);
        harness_close(got, means, (size_t)rows, 1e-6, "mean");
        harness_guards(mean);
        free(got);
    }
    if (inv_out) {
        assert_memory_equal(inv_std.dims, ones, sizeof(ones));
        got = harness_floats(inv_std);
        harness_close(got, inverses, (size_t)rows, 1e-6, "inverse deviation");
        free(got);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(host);
    free(g_host);
    free(b_host);
    free(want);
    free(means);
    free(inverses);
}

static void test_layernorm_over_any_axis_matches(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65};
    harness_random random = {4};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int axis = 0; axis < 4; axis++) {
            check_axes(&random, sizes[i], axis, 0, true, true);
            check_axes(&random, sizes[i], axis, GAMMA | OVER_X, false, true);
            check_axes(&random, sizes[i], axis, BETA, true, false);
            check_axes(&random, sizes[i], axis, GAMMA | BETA, false, false);
        }
}

static void test_layernorm_of_constant_row_is_zero(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[65];
    for (int i = 0; i < 65; i++)
        host[i] = 12345.678f;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 1, 65), y = {0};
    harness_ok(tfm_layernorm(ctx, &y, NULL, x, (tfm_tensor){0}, (tfm_tensor){0}, (tfm_tensor){0}, 1e-5f));
    float *got = harness_floats(y);
    for (int i = 0; i < 65; i++)
        assert_true(fabsf(got[i]) < 1e-6f);
    free(got);
    tfm_tensor_free(ctx, &y);
}

/* A gradient case beyond its inputs x, residual, gamma, beta. */
typedef struct backward_case {
    int64_t rows, n;
    int flags;
    bool axes;            /* tfm_layernorm_axes over n = 5 n / 5 */
    const double *factor; /* of the residual: 0 or 1 / (1 - rate) */
    tfm_dropout_options dropout;
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    const double *x = inputs[0], *residual = inputs[1], *gamma = inputs[2], *beta = inputs[3];
    for (int64_t r = 0; r < b->rows; r++, x += b->n, residual += b->n, y += b->n) {
        double mean = 0, variance = 0, s[1000];
        for (int64_t i = 0; i < b->n; i++) {
            s[i] = x[i] + (b->flags & RESIDUAL ? b->factor[r * b->n + i] * residual[i] : 0);
            mean += s[i] / (double)b->n;
        }
        for (int64_t i = 0; i < b->n; i++)
            variance += (s[i] - mean) * (s[i] - mean) / (double)b->n;
        for (int64_t i = 0; i < b->n; i++)
            y[i] = (s[i] - mean) / sqrt(variance + 0.01) * (b->flags & GAMMA ? gamma[i] : 1) +
                   (b->flags & BETA ? beta[i] : 0) + (b->flags & SUM ? s[i] : 0);
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    const tfm_tensor none = {0}, gamma = b->flags & GAMMA ? inputs[2] : none, beta = b->flags & BETA ? inputs[3] : none;
    tfm_tensor sum = {0}, normed = {0};
    if (b->axes)
        return tfm_layernorm_axes(ctx, y, NULL, NULL, inputs[0], gamma, beta, 1, 0.01f);
    tfm_layernorm_dropout(ctx, b->flags & SUM ? &normed : y, b->flags & SUM ? &sum : NULL, inputs[0],
                          b->flags & RESIDUAL ? inputs[1] : none, gamma, beta, 0.01f, &b->dropout);
    return b->flags & SUM ? tfm_add(ctx, y, normed, sum) : tfm_context_status(ctx);
}

/* Dropout of ones. */
static double *dropout_factors(const tfm_dropout_options *dropout, int64_t rows, int64_t n) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(rows * n);
    double *factors = malloc(count * sizeof(double));
    float *ones = malloc(count * sizeof(float));
    assert_true(factors && ones);
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, ones, rows, n), y = {0};
    harness_ok(tfm_dropout(ctx, &y, x, dropout));
    float *got = harness_floats(y);
    for (size_t i = 0; i < count; i++)
        factors[i] = got[i];
    tfm_tensor_free(ctx, &x);
    tfm_tensor_free(ctx, &y);
    free(got);
    free(ones);
    return factors;
}

static void check_backward(harness_random *random, int64_t rows, int64_t n, int flags, float rate, bool axes) {
    backward_case b = {rows, n, flags, axes, NULL, {.rate = rate, .seed = 99, .stream = 7}};
    double *factor = dropout_factors(&b.dropout, rows, n);
    const size_t count = (size_t)(rows * n);
    float *x = random_floats(random, count, 1, 1), *residual = random_floats(random, count, 0, 1);
    float *gamma = random_floats(random, (size_t)n, 1, 0.5f), *beta = random_floats(random, (size_t)n, 0, 1);
    b.factor = factor;
    gradient_case c = {.name = "layernorm",
                       .inputs = {{2, {rows, n}, x, false},
                                  {2, {rows, n}, residual, !(flags & RESIDUAL)},
                                  {1, {n}, gamma, !(flags & GAMMA)},
                                  {1, {n}, beta, !(flags & BETA)}},
                       .oracle = oracle_backward,
                       .run = run_backward,
                       .user = &b,
                       .count = count,
                       .tolerance = 5e-6};
    if (axes) {
        c.inputs[0] = (gradient_input){3, {rows, n / 5, 5}, x, false};
        c.inputs[2].rank = c.inputs[3].rank = 2;
        c.inputs[2].dims[0] = c.inputs[3].dims[0] = n / 5;
        c.inputs[2].dims[1] = c.inputs[3].dims[1] = 5;
    }
    gradient_check(&c);
    free(factor);
    free(x);
    free(residual);
    free(gamma);
    free(beta);
}

static void test_layernorm_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 130};
    harness_random random = {6};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int flags = 0; flags < 16; flags += sizes[i] == 65 ? 1 : 5)
            check_backward(&random, 5, sizes[i], flags, 0, false);
    check_backward(&random, 2, 1000, RESIDUAL | GAMMA | BETA, 0.3f, false);
    check_backward(&random, 5, 65, RESIDUAL | GAMMA | BETA, 0.5f, false);
    check_backward(&random, 40, 130, RESIDUAL | GAMMA | BETA | SUM, 0.1f, false);
    check_backward(&random, 1100, 3, RESIDUAL | GAMMA | BETA, 0, false); /* many chunks of rows */
    check_backward(&random, 5, 85, GAMMA | BETA, 0, true);
}

/* Statistics of a row with NaN are NaN, those of the next row are not. */
static void test_layernorm_nan_stays_in_its_row(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    const float host[2][6] = {{1, 2, NAN, 4, 5, 6}, {1, 2, 3, 4, 5, 6}};
    tfm_tensor y = {0}, mean = {0}, inv_std = {0}, x = HARNESS_TENSOR(TFM_F32, host, 2, 6);
    harness_ok(tfm_layernorm_axes(ctx, &y, &mean, &inv_std, x, none, none, -1, 1e-5f));
    float *found[] = {harness_floats(y), harness_floats(mean), harness_floats(inv_std)};
    for (int i = 0; i < 6; i++)
        assert_true(isnan(found[0][i]) && fabs((double)found[0][6 + i] - (i - 2.5) / sqrt(35.0 / 12)) < 1e-5);
    assert_true(isnan(found[1][0]) && isnan(found[2][0]) && found[1][1] == 3.5f && isfinite(found[2][1]));
    for (int i = 0; i < 3; i++)
        free(found[i]);
}

static void test_layernorm_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), other = HARNESS_TENSOR(TFM_F32, NULL, 6, 2);
    tfm_tensor five = HARNESS_TENSOR(TFM_F32, NULL, 5), row = HARNESS_TENSOR(TFM_F32, NULL, 1, 6), y = {0};
    harness_refused(tfm_layernorm(ctx, &y, NULL, none, none, none, none, 0), TFM_ERROR_ARGUMENT, "layernorm");
    harness_refused(tfm_layernorm(ctx, &y, NULL, x, other, none, none, 0), TFM_ERROR_ARGUMENT,
                    "layernorm: residual is (6, 2) F32, but x is (2, 6) F32");
    harness_refused(tfm_layernorm(ctx, &y, NULL, x, none, five, none, 0), TFM_ERROR_ARGUMENT, "gamma is (5) F32");
    harness_refused(tfm_layernorm(ctx, &y, NULL, x, none, none, row, 0), TFM_ERROR_ARGUMENT, "beta is (1, 6) F32");
    harness_refused(tfm_layernorm(ctx, &y, NULL, x, none, none, none, -1), TFM_ERROR_ARGUMENT, "epsilon is -1");
    harness_refused(tfm_layernorm(ctx, &y, NULL, x, none, none, none, NAN), TFM_ERROR_ARGUMENT, "epsilon is");
    harness_refused(tfm_layernorm(ctx, &y, &y, x, none, none, none, 0), TFM_ERROR_ARGUMENT, "shares memory");
    harness_refused(tfm_layernorm(ctx, &other, NULL, x, none, none, none, 0), TFM_ERROR_ARGUMENT,
                    "layernorm: the output");
    harness_refused(tfm_layernorm_axes(ctx, &y, NULL, NULL, x, none, none, 2, 0), TFM_ERROR_ARGUMENT,
                    "layernorm: axis 2 of (2, 6) F32");
    harness_refused(tfm_layernorm_axes(ctx, &y, NULL, NULL, x, row, none, 0, 0), TFM_ERROR_ARGUMENT,
                    "gamma is (1, 6) F32");
    harness_refused(tfm_layernorm_axes(ctx, &y, &five, NULL, x, none, none, -1, 0), TFM_ERROR_ARGUMENT,
                    "layernorm: the output is (5) F32, the result (2, 1) F32");
    y = x;
    harness_refused(tfm_layernorm(ctx, &y, &x, x, none, none, none, 0), TFM_ERROR_ARGUMENT, "shares memory");
}

static void test_layernorm_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), z = HARNESS_TENSOR(TFM_F32, NULL, 4, 8);
    tfm_tensor over = x, row = x, column = x;
    over.offset += 3;
    row.rank = 1;
    row.dims[0] = 8;
    column.dims[1] = 1;
    harness_refused(tfm_layernorm(ctx, &over, NULL, x, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &over, NULL, z, x, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &z, &over, x, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, &over, z, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, NULL, z, none, row, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, NULL, z, none, none, row, 0), no, why);
    harness_refused(tfm_layernorm_axes(ctx, &z, &column, NULL, x, none, none, -1, 0), no, why);
    harness_refused(tfm_layernorm_axes(ctx, &x, NULL, &column, z, none, none, -1, 0), no, why);
    harness_guards(x);
    harness_guards(z);
    harness_ok(tfm_layernorm(ctx, &x, &z, x, z, none, none, 0)); /* in place is allowed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm_matches_double_precision),
        cmocka_unit_test(test_layernorm_of_large_mean_keeps_precision),
        cmocka_unit_test(test_layernorm_of_many_rows_matches),
        cmocka_unit_test(test_layernorm_of_constant_row_is_zero),
        cmocka_unit_test(test_layernorm_over_any_axis_matches),
        cmocka_unit_test(test_layernorm_rejects_bad_arguments),
        cmocka_unit_test(test_layernorm_rejects_overlapping_output),
        cmocka_unit_test(test_layernorm_gradients_match_double_precision),
        cmocka_unit_test(test_layernorm_nan_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
