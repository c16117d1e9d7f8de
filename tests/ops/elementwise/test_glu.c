/* Gated linear units against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static double activated(double x, tfm_activation activation) {
    switch (activation) {
    case TFM_RELU:
        return x > 0 ? x : 0;
    case TFM_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case TFM_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case TFM_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

enum { HALVES_GATE_FIRST, HALVES_GATE_LAST, APART, OVER_X, OVER_GATE, FORMS };

static void check(harness_random *random, int64_t rows, int64_t n, tfm_activation activation, int form) {
    tfm_context *ctx = harness_context();
    const bool halves = form <= HALVES_GATE_LAST;
    const size_t count = (size_t)(rows * n);
    float *host = malloc(2 * count * sizeof(float)), *x_host = malloc(count * sizeof(float)),
          *g_host = malloc(count * sizeof(float));
    double *want = malloc(count * sizeof(double));
    assert_true(host && x_host && g_host && want);
    harness_fill(random, host, 2 * count, 3);
    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t at = i / n * 2 * n + i % n;
        g_host[i] = host[form == HALVES_GATE_LAST ? at + n : at];
        x_host[i] = host[form == HALVES_GATE_LAST ? at : at + n];
        want[i] = activated(g_host[i], activation) * x_host[i];
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x, gate = {0}, y = {0};
    if (halves) {
        x = HARNESS_TENSOR(TFM_F32, host, rows, 1, 2 * n);
    } else {
        x = HARNESS_TENSOR(TFM_F32, x_host, rows, 1, n);
        gate = HARNESS_TENSOR(TFM_F32, g_host, rows, 1, n);
    }
    y = form == OVER_X ? x : form == OVER_GATE ? gate : HARNESS_TENSOR(TFM_F32, NULL, rows, 1, n);
    harness_ok(tfm_glu(ctx, &y, x, gate, activation, halves ? (tfm_glu_layout)form : TFM_GLU_GATE_FIRST));
    float *got = harness_floats(y);
    char what[80];
    snprintf(what, sizeof(what), "glu of %lld x %lld, activation %d, form %d", (long long)rows, (long long)n,
             (int)activation, form);
    harness_close(got, want, count, 2e-6, what);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(host);
    free(x_host);
    free(g_host);
    free(want);
}

static void test_glu_matches_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int form = 0; form < FORMS; form++)
            for (int a = TFM_NO_ACTIVATION; a <= TFM_SILU; a++)
                check(&random, 1 + (a + form) % 3 * 8, sizes[i], (tfm_activation)a, form);
    check(&random, 9, 12345, TFM_SILU, HALVES_GATE_FIRST);
    check(&random, 30001, 5, TFM_GELU, HALVES_GATE_LAST);
}

enum { BOTH = FORMS }; /* x is the gate as well */

typedef struct backward_case {
    int64_t rows, n;
    tfm_activation activation;
    int form;
    bool between; /* of copies, so the tape computes their gradients */
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (int64_t i = 0; i < b->rows * b->n; i++) {
        const int64_t at = i / b->n * 2 * b->n + i % b->n;
        if (b->form <= HALVES_GATE_LAST)
            y[i] = activated(inputs[0][b->form ? at + b->n : at], b->activation) * inputs[0][b->form ? at : at + b->n];
        else
            y[i] = activated(inputs[b->form == BOTH ? 0 : 1][i], b->activation) * inputs[0][i];
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor x = inputs[0], gate = b->form == APART ? inputs[1] : (tfm_tensor){0};
    if (b->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
        if (gate.buffer) {
            gate = (tfm_tensor){0};
            tfm_activate(ctx, &gate, inputs[1], TFM_NO_ACTIVATION);
        }
    }
    return tfm_glu(ctx, y, x, b->form == BOTH ? x : gate, b->activation,
                   b->form == HALVES_GATE_LAST ? TFM_GLU_GATE_LAST : TFM_GLU_GATE_FIRST);
}

static void check_backward(harness_random *random, backward_case b) {
    const int64_t width = b.form <= HALVES_GATE_LAST ? 2 * b.n : b.n;
    float x[4000], gate[4000];
    harness_fill(random, x, (size_t)(b.rows * width), 2);
    harness_fill(random, gate, (size_t)(b.rows * width), 2);
    for (int64_t i = 0; i < b.rows * width; i++) { /* away from ReLU's kink */
        x[i] += x[i] < 0 ? -0.02F : 0.02F;
        gate[i] += gate[i] < 0 ? -0.02F : 0.02F;
    }
    gradient_case c = {.name = "glu",
                       .inputs = {{2, {b.rows, width}, x, false}},
                       .oracle = oracle_backward,
                       .run = run_backward,
                       .user = &b,
                       .count = (size_t)(b.rows * b.n),
                       .tolerance = 3e-6};
    if (b.form == APART)
        c.inputs[1] = (gradient_input){2, {b.rows, width}, gate, false};
    gradient_check(&c);
}

static void test_glu_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    const int forms[] = {HALVES_GATE_FIRST, HALVES_GATE_LAST, APART, BOTH};
    harness_random random = {2};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int form = 0; form < 4; form++)
            for (int a = TFM_NO_ACTIVATION; a <= TFM_SILU; a++)
                if (sizes[i] != 1000 || a == TFM_SILU)
                    check_backward(&random, (backward_case){sizes[i] == 1000 ? 2 : 1 + (a + form) % 3 * 8, sizes[i],
                                                            (tfm_activation)a, forms[form], (a + form) % 2 == 0});
}

/* Accepts empty tensors, as all pointwise ops do. */
static void test_glu_accepts_empty_tensors(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = {0}, y = {0}, z = {0};
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){0, 6}));
    harness_ok(tfm_glu(ctx, &y, x, x, TFM_SILU, TFM_GLU_GATE_FIRST));
    harness_ok(tfm_glu(ctx, &z, x, (tfm_tensor){0}, TFM_SILU, TFM_GLU_GATE_FIRST));
    assert_true(y.dims[0] == 0 && y.dims[1] == 6 && z.dims[0] == 0 && z.dims[1] == 3);
}

static void test_glu_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), odd = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), y = {0}, part;
    harness_refused(tfm_glu(ctx, &y, none, none, TFM_SILU, 0), TFM_ERROR_ARGUMENT, "glu: input 1 is an empty");
    harness_refused(tfm_glu(ctx, &y, odd, none, TFM_SILU, 0), TFM_ERROR_ARGUMENT, "glu: x is (2, 3) F32");
    harness_refused(tfm_glu(ctx, &y, x, odd, TFM_SILU, 0), TFM_ERROR_ARGUMENT, "glu: gate is (2, 3) F32");
    harness_refused(tfm_glu(ctx, &y, x, x, (tfm_activation)99, 0), TFM_ERROR_ARGUMENT, "no activation 99");
    harness_refused(tfm_glu(ctx, &y, x, none, TFM_SILU, (tfm_glu_layout)7), TFM_ERROR_ARGUMENT, "no layout 7");
    harness_refused(tfm_glu(ctx, &x, x, none, TFM_SILU, 0), TFM_ERROR_ARGUMENT, "glu: the output is (2, 6) F32");
    harness_ok(tfm_tensor_reshape(ctx, &part, x, 2, (int64_t[]){4, 3}));
    harness_ok(tfm_tensor_rows(ctx, &part, part, 0, 2));
    harness_refused(tfm_glu(ctx, &part, x, none, TFM_SILU, 0), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_glu_matches_double_precision),
                                       cmocka_unit_test(test_glu_gradients_match_double_precision),
                                       cmocka_unit_test(test_glu_accepts_empty_tensors),
                                       cmocka_unit_test(test_glu_rejects_bad_arguments)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
