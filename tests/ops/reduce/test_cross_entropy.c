/* Cross-entropy with label smoothing, of logits and of a chunked linear layer. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef struct entropy {
    int64_t rows, width, n; /* width 0: of logits */
    float smoothing, scale;
    int64_t chunk;
    bool bias;
    const int32_t *targets;
    float cap;
} entropy;

/* The loss of one row, and its nll. */
static double row_loss(const double *z, int64_t n, int32_t target, double smoothing, double *nll) {
    double maximum = -INFINITY, sum = 0, mean = 0;
    *nll = 0;
    if (target < 0 || target >= n)
        return 0;
    for (int64_t i = 0; i < n; i++)
        maximum = fmax(maximum, z[i]);
    for (int64_t i = 0; i < n; i++) {
        sum += exp(z[i] - maximum);
        mean += (z[i] - maximum) / (double)n;
    }
    *nll = log(sum) + maximum - z[target];
    return log(sum) + maximum - (1 - smoothing) * z[target] - (smoothing > 0 ? smoothing * (mean + maximum) : 0);
}

static double loss_of(const entropy *e, double *const *inputs, double *nll) {
    double sum = 0, *z = malloc((size_t)e->n * sizeof(double));
    assert_non_null(z);
    *nll = 0;
    for (int64_t r = 0; r < e->rows; r++) {
        double one;
        for (int64_t i = 0; i < e->n; i++) {
            z[i] = e->width ? (e->bias ? inputs[2][i] : 0) : inputs[0][r * e->n + i];
            for (int64_t k = 0; k < e->width; k++)
                z[i] += inputs[0][r * e->width + k] * inputs[1][i * e->width + k];
            z[i] = e->cap > 0 ? (double)e->cap * tanh(z[i] / (double)e->cap) : z[i];
        }
        sum += row_loss(z, e->n, e->targets[r], (double)e->smoothing, &one);
        *nll += one;
    }
    free(z);
    return sum;
}

/* The gradient is of scale * loss, as in the oracle; the op's loss is scaled for the comparison. */
static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const entropy *e = c->user;
    double nll;
    *y = loss_of(e, inputs, &nll) * (e->scale != 0 ? (double)e->scale : 1);
}

static tfm_status run_with(const entropy *e, tfm_context *ctx, tfm_tensor *loss, tfm_tensor *nll, tfm_tensor *inputs) {
    const tfm_cross_entropy_options o = {
        .label_smoothing = e->smoothing, .scale = e->scale, .chunk = e->chunk, .soft_cap = e->cap};
    tfm_tensor targets = HARNESS_TENSOR(TFM_I32, e->targets, e->rows);
    if (!e->width)
        return tfm_cross_entropy(ctx, loss, nll, inputs[0], targets, &o);
    tfm_param weight = {.value = inputs[1]};
    tfm_status status = tfm_linear_cross_entropy(ctx, loss, nll, inputs[0], &weight,
                                                 e->bias ? inputs[2] : (tfm_tensor){0}, targets, &o);
    tfm_tensor_free(ctx, &weight.packed);
    return status;
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return run_with(c->user, ctx, y, NULL, inputs);
}

static void check(harness_random *random, entropy e) {
    tfm_context *ctx = harness_context();
    const int64_t width = e.width ? e.width : e.n;
    float *x = malloc((size_t)(e.rows * width) * sizeof(float)), *w = malloc((size_t)(e.n * width) * sizeof(float)),
          *bias = malloc((size_t)e.n * sizeof(float));
    int32_t *targets = malloc((size_t)e.rows * sizeof(int32_t));
    double *wide[3] = {malloc((size_t)(e.rows * width) * sizeof(double)),
                       malloc((size_t)(e.n * width) * sizeof(double)), malloc((size_t)e.n * sizeof(double))};
    assert_true(x && w && bias && targets && wide[0] && wide[1] && wide[2]);
    harness_fill(random, x, (size_t)(e.rows * width), 1);
    harness_fill(random, w, (size_t)(e.n * width), 1);
    harness_fill(random, bias, (size_t)e.n, 1);
    for (int64_t r = 0; r < e.rows; r++) /* a few are ignored */
        targets[r] = (int32_t)(r % 7 == 3 ? (r % 2 ? -1 : e.n) : harness_range(random, 0, e.n - 1));
    e.targets = targets;
    for (int64_t i = 0; i < e.rows * width; i++)
        wide[0][i] = x[i];
    for (int64_t i = 0; i < e.n * width; i++)
        wide[1][i] = w[i];
    for (int64_t i = 0; i < e.n; i++)
        wide[2][i] = bias[i];
    gradient_case c = {.name = e.width ? "linear cross entropy" : "cross entropy",
                       .inputs = {{2, {e.rows, width}, x, false}},
                       .oracle = oracle,
                       .run = run,
                       .user = &e,
                       .count = 1,
                       .tolerance = 5e-6,
                       .ones = e.width > 0,
                       .watched_only = e.width > 0};
    if (e.width)
        c.inputs[1] = (gradient_input){2, {e.n, width}, w, false};
    if (e.width && e.bias)
        c.inputs[2] = (gradient_input){1, {e.n}, bias, false};
    gradient_check(&c);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor inputs[3] = {HARNESS_TENSOR(TFM_F32, x, e.rows, width), HARNESS_TENSOR(TFM_F32, w, e.n, width),
                            HARNESS_TENSOR(TFM_F32, bias, e.n)};
    tfm_tensor loss = HARNESS_TENSOR(TFM_F32, NULL, 1), nll = HARNESS_TENSOR(TFM_F32, NULL, 1);
    harness_ok(run_with(&e, ctx, &loss, &nll, inputs));
    float *got = harness_floats(loss), *got_nll = harness_floats(nll);
    double want_nll, want = loss_of(&e, wide, &want_nll);
    assert_true(fabs(*got - want) <= 2e-6 * fmax(1, fabs(want)));
    assert_true(fabs(*got_nll - want_nll) <= 2e-6 * fmax(1, fabs(want_nll)));
    harness_guards(loss);
    harness_guards(nll);
    harness_guards(inputs[0]);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(got_nll);
    free(x);
    free(w);
    free(bias);
    free(targets);
    for (int i = 0; i < 3; i++)
        free(wide[i]);
}

static void test_cross_entropy_of_logits_matches_oracle(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        check(&random, (entropy){9, 0, sizes[i], 0, 0, 0, false, NULL, 0});
        check(&random, (entropy){9, 0, sizes[i], 0.1f, 0.25f, 0, false, NULL, 0});
        check(&random, (entropy){9, 0, sizes[i], 0.1f, 0.25f, 0, false, NULL, 0.7f});
    }
}

static void test_chunked_linear_cross_entropy_matches_oracle(void **state) {
    (void)state;
    harness_random random = {2};
    check(&random, (entropy){1, 3, 17, 0.1f, 0, 0, true, NULL, 0});
    check(&random, (entropy){17, 17, 65, 0.1f, 0.5f, 5, true, NULL, 0}); /* chunks that do not divide the rows */
    check(&random, (entropy){20, 5, 130, 0, 0, 1, false, NULL, 0});
    check(&random, (entropy){33, 17, 65, 0.2f, 0, 0, false, NULL, 0});
    check(&random, (entropy){17, 17, 65, 0.1f, 0.5f, 5, true, NULL, 1.5f});
    check(&random, (entropy){20, 5, 130, 0, 0, 1, false, NULL, 0.5f});
}

/* Huge logits, an impossible one, and a non-finite loss is not hidden. */
static void test_cross_entropy_of_extreme_logits_is_right(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float z[3][17];
    const int32_t targets[3] = {0, 16, 4};
    for (int i = 0; i < 17; i++) {
        z[0][i] = 1e4f + (float)i;
        z[1][i] = -1e4f - (float)i;
        z[2][i] = 0;
    }
    const float thirds[] = {0, -INFINITY, -FLT_MAX, NAN};
    for (int i = 0; i < 4; i++) {
        tfm_tensor loss = {0};
        const bool bad = isnan(thirds[i]);
        z[2][3] = thirds[i];
        harness_ok(tfm_scope_open(ctx));
        harness_ok(tfm_cross_entropy(ctx, &loss, NULL, HARNESS_TENSOR(TFM_F32, z, 3, 17),
                                     HARNESS_TENSOR(TFM_I32, targets, 3), NULL));
        float *got = harness_floats(loss);
        double sum = 0;
        for (int k = 0; k < 17; k++)
            sum += exp(-k);
        const double want = 2 * (16 + log(sum)) + log(thirds[i] < 0 ? 16 : 17);
        assert_true(bad ? isnan(*got) : fabs(*got - want) < 1e-3);
        free(got);
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
}

/* A target of probability 0 has infinite loss, smoothed or not, as in the oracle; so has smoothing over an impossible
 * class. This does not hide a NaN. */
static void test_cross_entropy_of_infinite_logits_is_infinite(void **state) {
    (void)state;
    enum { N = 37 };
    tfm_context *ctx = harness_context();
    for (int smooth = 0; smooth < 2; smooth++)
        for (int32_t target = 3; target < 5; target++) /* of probability 0 and above 0 */
            for (int hidden = 0; hidden < 2; hidden++) {
                float z[N];
                double wide[N], want_nll;
                for (int i = 0; i < N; i++)
                    z[i] = i == 3 ? -INFINITY : 0.1f * (float)i;
                z[35] = hidden ? NAN : z[35];
                for (int i = 0; i < N; i++)
                    wide[i] = (double)z[i];
                const double smoothing = smooth ? 0.125 : 0, want = row_loss(wide, N, target, smoothing, &want_nll);
                tfm_tensor loss = {0}, nll = {0};
                harness_ok(tfm_scope_open(ctx));
                harness_ok(tfm_cross_entropy(ctx, &loss, &nll, HARNESS_TENSOR(TFM_F32, z, 1, N),
                                             HARNESS_TENSOR(TFM_I32, &target, 1),
                                             &(tfm_cross_entropy_options){.label_smoothing = (float)smoothing}));
                float *got = harness_floats(loss), *got_nll = harness_floats(nll);
                if (hidden) {
                    assert_true(isnan(*got) && isnan(*got_nll));
                } else {
                    assert_true(isinf(want) == (target == 3 || smooth) && isinf(want_nll) == (target == 3));
                    assert_true(isinf(want) ? *got == INFINITY : fabs(*got - want) < 1e-5);
                    assert_true(isinf(want_nll) ? *got_nll == INFINITY : fabs(*got_nll - want_nll) < 1e-5);
                }
                free(got);
                free(got_nll);
                harness_ok(tfm_scope_close(ctx, 0, NULL));
            }
}

static void test_cross_entropy_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor z = HARNESS_TENSOR(TFM_F32, NULL, 3, 17), targets = HARNESS_TENSOR(TFM_I32, NULL, 3), loss = {0},
               two = HARNESS_TENSOR(TFM_I32, NULL, 2), dz = HARNESS_TENSOR(TFM_F32, NULL, 3, 17), y = {0};
    tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, NULL, 5, 16)};
    harness_refused(tfm_cross_entropy(ctx, &loss, NULL, z, two, NULL), TFM_ERROR_ARGUMENT, "one for each row");
    harness_refused(tfm_cross_entropy(ctx, &loss, NULL, z, targets, &(tfm_cross_entropy_options){.label_smoothing = 1}),
                    TFM_ERROR_ARGUMENT, "smoothing must lie in [0, 1)");
    harness_refused(tfm_cross_entropy(ctx, &loss, NULL, z, targets, &(tfm_cross_entropy_options){.soft_cap = -1}),
                    TFM_ERROR_ARGUMENT, "cap -1");
    harness_refused(tfm_cross_entropy(ctx, &loss, &loss, z, targets, NULL), TFM_ERROR_ARGUMENT, "shares memory");
    loss = (tfm_tensor){0};
    harness_refused(tfm_linear_cross_entropy(ctx, &loss, NULL, z, &weight, (tfm_tensor){0}, targets, NULL),
                    TFM_ERROR_ARGUMENT, "the weight must be (V, E)");
    /* A computed weight would need its gradient before it exists. */
    tfm_tensor w = HARNESS_TENSOR(TFM_F32, NULL, 5, 17), dw = HARNESS_TENSOR(TFM_F32, NULL, 5, 17);
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, w, dw));
    harness_ok(tfm_tape_watch(ctx, z, dz));
    harness_ok(tfm_activate(ctx, &y, w, TFM_SILU));
    weight = (tfm_param){.value = y};
    harness_refused(tfm_linear_cross_entropy(ctx, &loss, NULL, z, &weight, (tfm_tensor){0}, targets, NULL),
                    TFM_ERROR_ARGUMENT, "is the result of an op");
    tfm_tape_stop(ctx);
    tfm_tensor_free(ctx, &weight.packed);
}

/* The linear layer's gradients assume dy = 1: another dy, of the caller or an op, is rejected; a sum of losses works.
 * */
static void test_linear_cross_entropy_rejects_another_upstream_gradient(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float zeros[15] = {0}, dys[] = {1, 0.5f, NAN};
    float host[15], wide[15], first[2][15];
    harness_random random = {5};
    harness_fill(&random, host, 15, 1);
    harness_fill(&random, wide, 15, 1);
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 5, 3), none = {0};
    tfm_tensor targets = HARNESS_TENSOR(TFM_I32, ((const int32_t[]){0, 1, 2, 3, 4}), 5);
    for (int which = 0; which < 7; which++) {
        tfm_param weight = {.value = HARNESS_TENSOR(TFM_F32, wide, 5, 3)};
        tfm_tensor to_x = HARNESS_TENSOR(TFM_F32, zeros, 5, 3), to_w = HARNESS_TENSOR(TFM_F32, zeros, 5, 3);
        tfm_tensor loss = {0}, all = {0}, dy = {0};
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, x, to_x));
        harness_ok(tfm_tape_watch(ctx, weight.value, to_w));
        harness_ok(tfm_linear_cross_entropy(ctx, &loss, NULL, x, &weight, none, targets, NULL));
        if (which < 3)
            dy = HARNESS_TENSOR(TFM_F32, &dys[which], 1);
        else if (which < 5)
            harness_ok(tfm_add(ctx, &all, loss, which == 3 ? loss : HARNESS_TENSOR(TFM_F32, zeros, 1)));
        else if (which == 6) /* a loss without backward pass */
            harness_ok(tfm_add(ctx, &all, x, x));
        const tfm_status status = tfm_backward(ctx, all.buffer ? all : loss, dy);
        if (which == 1 || which == 2 || which == 3) {
            harness_refused(status, TFM_ERROR_ARGUMENT, which == 1 ? "is 0.5, but it must be 1" : "but it must be 1");
        } else if (which == 6) {
            harness_refused(status, TFM_ERROR_ARGUMENT, "its loss does not contribute to y");
        } else {
            harness_ok(status);
            float *got[2] = {harness_floats(to_x), harness_floats(to_w)};
            for (int i = 0; i < 2; i++) {
                if (which == 0)
                    memcpy(first[i], got[i], sizeof(first[i]));
                assert_memory_equal(first[i], got[i], sizeof(first[i]));
                assert_true(fabsf(first[i][0]) > 1e-3f);
                free(got[i]);
            }
        }
        tfm_tensor_free(ctx, &weight.packed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross_entropy_of_logits_matches_oracle),
        cmocka_unit_test(test_chunked_linear_cross_entropy_matches_oracle),
        cmocka_unit_test(test_cross_entropy_of_extreme_logits_is_right),
        cmocka_unit_test(test_cross_entropy_rejects_bad_arguments),
        cmocka_unit_test(test_linear_cross_entropy_rejects_another_upstream_gradient),
        cmocka_unit_test(test_cross_entropy_of_infinite_logits_is_infinite),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
