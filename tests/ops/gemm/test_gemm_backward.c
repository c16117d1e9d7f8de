/* Backward pass of GEMM: transposes, batches, shared b, biases, activations, and a weight used twice. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "ops/gemm/gemm.h"

enum { A, B, BIAS };

typedef struct problem {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b, shared_b, linear;
    tfm_activation activation;
    float alpha;
} problem;

static double activated(double v, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return v > 0 ? v : 0;
    case TFM_GELU:
        return v * 0.5 * erfc(-v / sqrt(2));
    case TFM_SILU:
        return v / (1 + exp(-v));
    default:
        return v;
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const problem *p = c->user;
    for (int64_t e = 0; e < (int64_t)c->count; e++) {
        const int64_t z = e / (p->m * p->n), i = e / p->n % p->m, j = e % p->n;
        const double *a = inputs[A] + z * p->m * p->k, *b = inputs[B] + (p->shared_b ? 0 : z * p->k * p->n);
        double sum = 0;
        for (int64_t s = 0; s < p->k; s++)
            sum += a[p->transpose_a ? s * p->m + i : i * p->k + s] * b[p->transpose_b ? j * p->k + s : s * p->n + j];
        y[e] = activated(p->alpha * sum + inputs[BIAS][j], p->activation);
    }
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const problem *p = c->user;
    if (!p->linear)
        return tfm_gemm(ctx, y, inputs[A], inputs[B],
                        &(tfm_gemm_options){.transpose_a = p->transpose_a,
                                            .transpose_b = p->transpose_b,
                                            .alpha = p->alpha,
                                            .bias = inputs[BIAS],
                                            .activation = p->activation});
    tfm_param weight = {.value = inputs[B]};
    tfm_status status = tfm_linear(ctx, y, inputs[A], &weight, inputs[BIAS], p->activation);
    tfm_tensor_free(ctx, &weight.packed); /* the tape does not need it */
    return status;
}

static void check(harness_random *random, problem p) {
    const int64_t most = 40000;
    float *a = malloc((size_t)most * sizeof(float)), *b = malloc((size_t)most * sizeof(float)), bias[300];
    assert_true(a && b);
    harness_fill(random, a, (size_t)most, 1);
    harness_fill(random, b, (size_t)most, 1 / sqrtf((float)p.k));
    harness_fill(random, bias, 300, 1);
    const int64_t a_rows = p.transpose_a ? p.k : p.m, a_columns = p.transpose_a ? p.m : p.k;
    const int64_t b_rows = p.transpose_b ? p.n : p.k, b_columns = p.transpose_b ? p.k : p.n;
    gradient_case c = {.name = p.linear ? "linear" : "gemm",
                       .inputs = {{3, {p.batch, a_rows, a_columns}, a, false},
                                  {3, {p.batch, b_rows, b_columns}, b, false},
                                  {1, {p.n}, bias, false}},
                       .oracle = oracle,
                       .run = run,
                       .user = &p,
                       .count = (size_t)(p.batch * p.m * p.n),
                       .tolerance = 5e-6};
    if (p.shared_b)
        c.inputs[B] = (gradient_input){2, {b_rows, b_columns}, b, false};
    gradient_check(&c);
    free(a);
    free(b);
}

static void test_gemm_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {1};
    const int64_t sizes[][3] = {{1, 1, 1}, {3, 17, 1}, {17, 3, 65}, {65, 33, 17}};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 4; t++)
            check(&random, (problem){.batch = 1,
                                     .m = sizes[s][0],
                                     .n = sizes[s][1],
                                     .k = sizes[s][2],
                                     .transpose_a = t & 1,
                                     .transpose_b = t & 2,
                                     .shared_b = true,
                                     .alpha = 0.5f});
}

static void test_batched_gemm_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {2};
    for (int t = 0; t < 8; t++)
        check(&random, (problem){.batch = 3,
                                 .m = 5,
                                 .n = 17,
                                 .k = 9,
                                 .transpose_a = t & 1,
                                 .transpose_b = t & 2,
                                 .shared_b = t & 4,
                                 .alpha = 2});
}

static void test_linear_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    for (int activation = TFM_NO_ACTIVATION; activation <= TFM_SILU; activation++)
        if (activation != TFM_RELU && activation != TFM_GELU_TANH)
            check(&random, (problem){.batch = 1,
                                     .m = 33,
                                     .n = 17,
                                     .k = 65,
                                     .transpose_b = true,
                                     .shared_b = true,
                                     .linear = true,
                                     .activation = (tfm_activation)activation,
                                     .alpha = 1});
    check(&random, (problem){.batch = 2,
                             .m = 150,
                             .n = 5,
                             .k = 3,
                             .transpose_b = true,
                             .shared_b = true,
                             .linear = true,
                             .alpha = 1}); /* the bias: a two-stage sum */
    check(&random, (problem){.batch = 1,
                             .m = 600,
                             .n = 40,
                             .k = 32,
                             .transpose_b = true,
                             .shared_b = true,
                             .linear = true,
                             .alpha = 1}); /* split over rows */
}

/* ReLU kinks disturb finite differences: here the bias keeps each result away from 0. */
static void oracle_relu(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t e = 0; e < c->count; e++) {
        double sum = inputs[BIAS][e % 17];
        for (int s = 0; s < 9; s++)
            sum += inputs[A][e / 17 * 9 + (size_t)s] * inputs[B][e % 17 * 9 + (size_t)s];
        y[e] = sum > 0 ? sum : 0;
    }
}

static tfm_status run_relu(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_param weight = {.value = inputs[B]};
    (void)c;
    tfm_status status = tfm_linear(ctx, y, inputs[A], &weight, inputs[BIAS], TFM_RELU);
    tfm_tensor_free(ctx, &weight.packed);
    return status;
}

static void test_relu_linear_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {4};
    float a[33 * 9], b[17 * 9], bias[17];
    harness_fill(&random, a, 33 * 9, 0.3f);
    harness_fill(&random, b, 17 * 9, 0.3f);
    for (int j = 0; j < 17; j++)
        bias[j] = j % 2 ? 4 : -4;
    gradient_check(&(gradient_case){.name = "linear with relu",
                                    .inputs = {{2, {33, 9}, a, false}, {2, {17, 9}, b, false}, {1, {17}, bias, false}},
                                    .oracle = oracle_relu,
                                    .run = run_relu,
                                    .count = 33 * 17,
                                    .tolerance = 3e-6});
}

/* y = x w^T w: a weight that is packed once, with two gradients that add up. */
static tfm_status run_twice(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_tensor hidden = {0};
    (void)c;
    tfm_param weight = {.value = inputs[B]};
    tfm_linear(ctx, &hidden, inputs[A], &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    tfm_status status = tfm_linear(ctx, y, hidden, &weight, (tfm_tensor){0}, TFM_NO_ACTIVATION);
    tfm_tensor_free(ctx, &weight.packed);
    return status;
}

static void oracle_twice(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t r = 0; r < c->count / 17; r++) {
        double hidden[17];
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j < 17; j++) {
                double sum = 0;
                for (int s = 0; s < 17; s++)
                    sum += (pass ? hidden[s] : inputs[A][r * 17 + (size_t)s]) * inputs[B][j * 17 + s];
                y[r * 17 + (size_t)j] = sum;
                if (j == 16)
                    for (int s = 0; s < 17 && !pass; s++)
                        hidden[s] = y[r * 17 + (size_t)s];
            }
    }
}

static void test_weight_used_twice_sums_its_gradients(void **state) {
    (void)state;
    harness_random random = {5};
    float a[20 * 17], b[17 * 17];
    harness_fill(&random, a, 20 * 17, 1);
    harness_fill(&random, b, 17 * 17, 0.3f);
    gradient_check(&(gradient_case){.name = "a weight used twice",
                                    .inputs = {{2, {20, 17}, a, false}, {2, {17, 17}, b, false}},
                                    .oracle = oracle_twice,
                                    .run = run_twice,
                                    .count = 20 * 17,
                                    .tolerance = 5e-6});
}

/* A weight gradient (m, n) and its bias gradient (m) together, of dz (rows, m) and x (rows, n). */
typedef struct gradients {
    int64_t rows, m, n;
} gradients;

/* Bits of `which`: compute the weight gradient, the bias gradient, and accumulate each. */
enum { WEIGHT = 1, BOTH = 3, ADD_WEIGHT = 4, ADD_BIAS = 8 };

static float *floats(harness_random *random, int64_t count) {
    float *x = malloc((size_t)count * sizeof(float));
    assert_non_null(x);
    harness_fill(random, x, (size_t)count, 1);
    return x;
}

/* want (m, n) = or += -0.5 dz^T x; with x NULL want (m), n being 1, = or += the column sums of dz. */
static void compare(const gradients *g, tfm_tensor got, int64_t n, const float *before, const float *dz, const float *x,
                    const char *what) {
    double *want = calloc((size_t)(g->m * n), sizeof(double));
    assert_non_null(want);
    for (int64_t r = 0; r < g->rows; r++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < n; j++)
                want[i * n + j] += (double)dz[r * g->m + i] * (x ? -0.5 * (double)x[r * n + j] : 1);
    for (int64_t i = 0; before && i < g->m * n; i++)
        want[i] += (double)before[i];
    float *found = harness_floats(got);
    harness_close(found, want, (size_t)(g->m * n), 1e-5, what);
    harness_guards(got);
    free(found);
    free(want);
}

static void check_gradients(harness_random *random, gradients g, int which) {
    tfm_context *ctx = harness_context();
    float *dz = floats(random, g.rows * g.m), *x = floats(random, g.rows * g.n);
    float *w = which & ADD_WEIGHT ? floats(random, g.m * g.n) : NULL,
          *b = which & ADD_BIAS ? floats(random, g.m) : NULL;
    tfm__gradient dw = {{0}, w != NULL}, dbias = {{0}, b != NULL};
    harness_ok(tfm_scope_open(ctx));
    if (which & WEIGHT)
        dw.to = HARNESS_TENSOR(TFM_F32, w, g.m, g.n);
    if (which & BOTH & ~WEIGHT)
        dbias.to = HARNESS_TENSOR(TFM_F32, b, g.m);
    tfm_tensor tz = HARNESS_TENSOR(TFM_F32, dz, g.rows, g.m), tx = HARNESS_TENSOR(TFM_F32, x, g.rows, g.n);
    harness_ok(tfm__gemm_gradients(ctx, dw, dbias, tz, tx, -0.5f));
    harness_guards(tz);
    harness_guards(tx);
    char what[120];
    snprintf(what, sizeof(what), "gradient of %d x %d, %d rows, bits %d", (int)g.m, (int)g.n, (int)g.rows, which);
    if (dw.to.buffer)
        compare(&g, dw.to, g.n, w, dz, x, what);
    if (dbias.to.buffer)
        compare(&g, dbias.to, 1, b, dz, NULL, what);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(dz);
    free(x);
    free(w);
    free(b);
}

static void test_linear_gradient_kernels_match_double_precision(void **state) {
    (void)state;
    harness_random random = {6};
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    int number = 0;
    for (int i = 0; i < 5 * 5 * 5; i++) {
        const gradients g = {sizes[i % 5], sizes[i / 5 % 5], sizes[i / 25]};
        if ((double)g.rows * (double)g.m * (double)g.n > 2e6)
            continue;
        if (number % 3 == 0 || !harness_brief())
            check_gradients(&random, g, number % 16);
        number++;
    }
    static const gradients large[] = {{200, 100, 300}, /* panels of a strip distributed over items */
                                      {600, 100, 40},  /* split over rows */
                                      {600, 1500, 2}}; /* in blocks, no split */
    for (int which = 0; which < 16; which++)
        for (int i = 0; i < 3; i++)
            if (which % 3 == i || !harness_brief())
                check_gradients(&random, large[i], which);
}

/* A bias gradient sums many rows: rounding errors must not grow linearly. */
static void test_bias_gradient_of_many_rows_keeps_precision(void **state) {
    (void)state;
    enum { ROWS = 1 << 17, M = 3 };
    tfm_context *ctx = harness_context();
    float *dz = malloc(ROWS * M * sizeof(float));
    double want[M];
    assert_non_null(dz);
    for (int i = 0; i < ROWS * M; i++)
        dz[i] = 0.1f;
    for (int i = 0; i < M; i++)
        want[i] = ROWS * (double)0.1f;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor tz = HARNESS_TENSOR(TFM_F32, dz, ROWS, M), tx = HARNESS_TENSOR(TFM_F32, dz, ROWS, 1),
               dw = HARNESS_TENSOR(TFM_F32, NULL, M, 1), dbias = HARNESS_TENSOR(TFM_F32, NULL, M);
    harness_ok(tfm__gemm_gradients(ctx, (tfm__gradient){dw, false}, (tfm__gradient){dbias, false}, tz, tx, 1));
    float *got = harness_floats(dbias);
    harness_close(got, want, M, 2.5e-5, "sum of many rows");
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(dz);
}

/* A bias that is a row of its weight: their gradients overlap, the bias's comes first. */
static void test_bias_tied_to_weight_row_sums_gradients(void **state) {
    (void)state;
    const gradients g = {40, 130, 500};
    tfm_context *ctx = harness_context();
    harness_random random = {7};
    float *dz = floats(&random, g.rows * g.m), *x = floats(&random, g.rows * g.n), *w = floats(&random, g.m * g.n);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor tz = HARNESS_TENSOR(TFM_F32, dz, g.rows, g.m), tx = HARNESS_TENSOR(TFM_F32, x, g.rows, g.n);
    tfm_tensor dw = HARNESS_TENSOR(TFM_F32, w, g.m, g.n), dbias = dw;
    dbias.rank = 1;
    dbias.dims[0] = g.m;
    harness_ok(tfm__gemm_gradients(ctx, (tfm__gradient){dw, true}, (tfm__gradient){dbias, false}, tz, tx, -0.5f));
    for (int64_t i = 0; i < g.m; i++) {
        w[i] = 0;
        for (int64_t r = 0; r < g.rows; r++)
            w[i] += dz[r * g.m + i];
    }
    compare(&g, dw, g.n, w, dz, x, "a bias that is a row of its weight");
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(dz);
    free(x);
    free(w);
}

/* The estimated memory of a layer's GEMMs in training is an upper bound of the real one. */
static void test_gemm_backward_memory_estimate_holds(void **state) {
    (void)state;
    enum { ROWS = 8192, INPUTS = 16, OUTPUTS = 64 };
    tfm_context *ctx = NULL;
    tfm_tensor dz = {0}, x = {0}, dw = {0}, dbias = {0};
    harness_ok(tfm_context_open(&ctx, NULL));
    harness_ok(tfm_tensor_new(ctx, &dz, TFM_F32, 2, (int64_t[]){ROWS, OUTPUTS}));
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){ROWS, INPUTS}));
    harness_ok(tfm_tensor_new(ctx, &dw, TFM_F32, 2, (int64_t[]){OUTPUTS, INPUTS}));
    harness_ok(tfm_tensor_new(ctx, &dbias, TFM_F32, 1, (int64_t[]){OUTPUTS}));
    const uint64_t before = tfm_context_peak_memory(ctx), estimate = tfm__gemm_layer_memory(ctx, ROWS, INPUTS, OUTPUTS);
    harness_ok(tfm__gemm_gradients(ctx, (tfm__gradient){dw, true}, (tfm__gradient){dbias, true}, dz, x, 1));
    if (tfm_context_peak_memory(ctx) - before > estimate)
        fail_msg("%llu bytes are allocated, more than the estimate of %llu",
                 (unsigned long long)(tfm_context_peak_memory(ctx) - before), (unsigned long long)estimate);
    tfm_context_free(&ctx);
}

static void test_accumulating_gemm_has_no_backward_pass(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 3, 5), b = HARNESS_TENSOR(TFM_F32, NULL, 5, 4),
               c = HARNESS_TENSOR(TFM_F32, NULL, 3, 4), da = HARNESS_TENSOR(TFM_F32, NULL, 3, 5);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, a, da));
    harness_refused(tfm_gemm(ctx, &c, a, b, &(tfm_gemm_options){.accumulate = true}), TFM_ERROR_ARGUMENT,
                    "accumulating has no backward pass");
    tfm_tape_stop(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm_gradients_match_double_precision),
        cmocka_unit_test(test_batched_gemm_gradients_match_double_precision),
        cmocka_unit_test(test_linear_gradients_match_double_precision),
        cmocka_unit_test(test_relu_linear_gradients_match_double_precision),
        cmocka_unit_test(test_weight_used_twice_sums_its_gradients),
        cmocka_unit_test(test_linear_gradient_kernels_match_double_precision),
        cmocka_unit_test(test_bias_gradient_of_many_rows_keeps_precision),
        cmocka_unit_test(test_bias_tied_to_weight_row_sums_gradients),
        cmocka_unit_test(test_accumulating_gemm_has_no_backward_pass),
        cmocka_unit_test(test_gemm_backward_memory_estimate_holds),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
