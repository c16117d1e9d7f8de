/* RMS norm against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { RESIDUAL = 1, GAMMA = 2, SUM = 4, OVER_X = 8, OVER_RESIDUAL = 16 };

/* (rows / 3, 3, n / k, k), normalized over the last dimension or, where k > 1, the last two. */
static void check(harness_random *random, int64_t rows, int64_t n, int64_t k, int flags) {
    tfm_context *ctx = harness_context();
    const size_t count = (size_t)(rows * n);
    const int64_t dims[] = {rows / 3, 3, n / k, k};
    const int rank = k > 1 ? 4 : 3, axis = 2;
    const float epsilon = 1e-2f; /* so that it matters */
    float *x_host = malloc(count * sizeof(float)), *r_host = malloc(count * sizeof(float)),
          *s_host = malloc(count * sizeof(float)), *g_host = malloc((size_t)n * sizeof(float));
    double *want = malloc(count * sizeof(double));
    assert_true(x_host && r_host && s_host && g_host && want);
    harness_fill(random, x_host, count, 2);
    harness_fill(random, r_host, count, 1);
    harness_fill(random, g_host, (size_t)n, 1);
    for (size_t i = 0; i < count; i++)
        s_host[i] = flags & RESIDUAL ? x_host[i] + r_host[i] : x_host[i];
    for (int64_t r = 0; r < rows; r++) {
        const float *s = s_host + r * n;
        double square = 0;
        for (int64_t i = 0; i < n; i++)
            square += (double)s[i] * s[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            want[r * n + i] = s[i] / sqrt(square + (double)epsilon) * (flags & GAMMA ? g_host[i] : 1);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = harness_tensor(TFM_F32, rank, dims, x_host), residual = {0}, gamma = {0}, sum = {0};
    if (flags & RESIDUAL)
        residual = harness_tensor(TFM_F32, rank, dims, r_host);
    if (flags & GAMMA)
        gamma = harness_tensor(TFM_F32, rank - axis, dims + axis, g_host);
    tfm_tensor y = flags & OVER_X ? x : harness_tensor(TFM_F32, rank, dims, NULL);
    if (flags & SUM)
        sum = flags & OVER_RESIDUAL ? residual : harness_tensor(TFM_F32, rank, dims, NULL);
    else if (flags & OVER_RESIDUAL)
        y = residual;
    harness_ok(tfm_rmsnorm(ctx, &y, flags & SUM ? &sum : NULL, x, residual, gamma, flags & OVER_X ? axis : axis - rank,
                           epsilon));
    float *got = harness_floats(y);
    char what[80];
    snprintf(what, sizeof(what), "rmsnorm of %lld x %lld, flags %d", (long long)rows, (long long)n, flags);
    harness_close(got, want, count, 2e-6, what);
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
    free(s_host);
    free(g_host);
    free(want);
}

static void test_rmsnorm_matches_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 16, 17, 65, 512, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int flags = 0; flags < 8; flags++)
            check(&random, 6, sizes[i], 1, flags);
        check(&random, 3, sizes[i], 1, OVER_X | RESIDUAL | GAMMA | SUM);
        check(&random, 15, 5 * sizes[i], 5, OVER_X | OVER_RESIDUAL | RESIDUAL | GAMMA | SUM);
        check(&random, 15, 3 * sizes[i], 3, OVER_RESIDUAL | RESIDUAL | GAMMA);
    }
    check(&random, 99999, 7, 1, RESIDUAL | GAMMA);
}

static void test_rmsnorm_of_zeros_is_zero(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[17] = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 1, 17), y = {0}, none = {0};
    harness_ok(tfm_rmsnorm(ctx, &y, NULL, x, none, none, -1, 1e-6f));
    float *got = harness_floats(y);
    for (int i = 0; i < 17; i++)
        assert_true(got[i] == 0);
    free(got);
    tfm_tensor_free(ctx, &y);
}

/* y, or y + sum, or sum alone. */
enum { ONLY_SUM = 32 };
typedef struct backward_case {
    int64_t rows, n;
    int flags;
    bool between; /* x is a copy, so the tape computes its gradient */
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (int64_t r = 0; r < b->rows; r++) {
        double square = 0, s[1000];
        for (int64_t i = 0; i < b->n; i++) {
            s[i] = inputs[0][r * b->n + i] + (b->flags & RESIDUAL ? inputs[1][r * b->n + i] : 0);
            square += s[i] * s[i] / (double)b->n;
        }
        for (int64_t i = 0; i < b->n; i++)
            *y++ = (b->flags & ONLY_SUM ? 0 : s[i] / sqrt(square + 1e-2) * (b->flags & GAMMA ? inputs[2][i] : 1)) +
                   (b->flags & SUM ? s[i] : 0);
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    const tfm_tensor none = {0};
    tfm_tensor x = inputs[0], sum = {0}, normal = {0};
    if (b->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
    }
    tfm_rmsnorm(ctx, &normal, b->flags & SUM ? &sum : NULL, x, b->flags & RESIDUAL ? inputs[1] : none,
                b->flags & GAMMA ? inputs[2] : none, -1, 1e-2f);
    if (b->flags & ONLY_SUM)
        return tfm_activate(ctx, y, sum, TFM_NO_ACTIVATION);
    return b->flags & SUM ? tfm_add(ctx, y, normal, sum) : tfm_activate(ctx, y, normal, TFM_NO_ACTIVATION);
}

static void check_backward(harness_random *random, backward_case b) {
    const size_t count = (size_t)(b.rows * b.n);
    float x[4000], residual[4000], gamma[1000];
    harness_fill(random, x, count, 2);
    harness_fill(random, residual, count, 1);
    harness_fill(random, gamma, (size_t)b.n, 1);
    gradient_check(&(gradient_case){.name = "rmsnorm",
                                    .inputs = {{2, {b.rows, b.n}, x, false},
                                               {2, {b.rows, b.n}, residual, !(b.flags & RESIDUAL)},
                                               {1, {b.n}, gamma, !(b.flags & GAMMA)}},
                                    .oracle = oracle_backward,
                                    .run = run_backward,
                                    .user = &b,
                                    .count = count,
                                    .tolerance = 5e-6});
}

static void test_rmsnorm_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    harness_random random = {4};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int flags = 0; flags < 8; flags++)
            check_backward(&random, (backward_case){sizes[i] == 1000 ? 2 : 5, sizes[i], flags, flags & 1});
    check_backward(&random, (backward_case){40, 65, RESIDUAL | GAMMA | SUM, true});
    check_backward(&random, (backward_case){5, 65, RESIDUAL | SUM | ONLY_SUM, true});
    check_backward(&random, (backward_case){1100, 3, RESIDUAL | GAMMA, false}); /* many chunks of rows */
}

static void test_rmsnorm_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), other = HARNESS_TENSOR(TFM_F32, NULL, 6, 2), y = {0};
    harness_refused(tfm_rmsnorm(ctx, &y, NULL, none, none, none, -1, 0), TFM_ERROR_ARGUMENT, "rmsnorm");
    harness_refused(tfm_rmsnorm(ctx, &y, NULL, x, other, none, -1, 0), TFM_ERROR_ARGUMENT,
                    "rmsnorm: residual is (6, 2) F32, but x is (2, 6) F32");
    harness_refused(tfm_rmsnorm(ctx, &y, NULL, x, none, other, 0, 0), TFM_ERROR_ARGUMENT,
                    "rmsnorm: gamma is (6, 2) F32");
    harness_refused(tfm_rmsnorm(ctx, &y, NULL, x, none, none, 2, 0), TFM_ERROR_ARGUMENT, "rmsnorm: axis 2");
    harness_refused(tfm_rmsnorm(ctx, &y, NULL, x, none, none, -1, NAN), TFM_ERROR_ARGUMENT, "epsilon is");
    harness_refused(tfm_rmsnorm(ctx, &other, NULL, x, none, none, -1, 0), TFM_ERROR_ARGUMENT, "rmsnorm: the output");
}

static void test_rmsnorm_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), z = HARNESS_TENSOR(TFM_F32, NULL, 4, 8);
    tfm_tensor over = x, row = x;
    over.offset += 3;
    row.rank = 1;
    row.dims[0] = 8;
    harness_refused(tfm_rmsnorm(ctx, &over, NULL, x, none, none, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &over, NULL, z, x, none, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &z, &over, x, none, none, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &x, &over, z, none, none, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &x, &x, z, none, none, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &x, NULL, z, none, row, -1, 0), no, why);
    harness_refused(tfm_rmsnorm(ctx, &z, &x, z, none, row, -1, 0), no, why);
    harness_ok(tfm_rmsnorm(ctx, &x, &z, x, z, none, -1, 0)); /* in place is allowed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm_matches_double_precision),
        cmocka_unit_test(test_rmsnorm_gradients_match_double_precision),
        cmocka_unit_test(test_rmsnorm_of_zeros_is_zero),
        cmocka_unit_test(test_rmsnorm_rejects_bad_arguments),
        cmocka_unit_test(test_rmsnorm_rejects_overlapping_output),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
