/* PReLU against double precision. */
#include <stdlib.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t i = 0; i < c->count; i++)
        y[i] = inputs[0][i] * (inputs[0][i] > 0 ? 1 : inputs[1][i % (size_t)c->inputs[1].dims[0]]);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    (void)c;
    return tfm_prelu(ctx, y, inputs[0], inputs[1]);
}

static void check(int64_t rows, int64_t n) {
    static float x_host[1100 * 65], slope_host[65];
    static double want[1100 * 65];
    const size_t count = (size_t)(rows * n);
    harness_fill(&(harness_random){(uint64_t)n}, x_host, count, 2);
    harness_fill(&(harness_random){1}, slope_host, (size_t)n, 1);
    for (size_t i = 0; i < count; i++) {
        x_host[i] += x_host[i] > 0 ? 0.05f : -0.05f; /* the derivative jumps at 0 */
        want[i] = (double)x_host[i] * (x_host[i] > 0 ? 1 : (double)slope_host[i % (size_t)n]);
    }
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, x_host, rows, n), slope = HARNESS_TENSOR(TFM_F32, slope_host, n);
    tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, rows, n);
    harness_ok(tfm_prelu(harness_context(), &y, x, slope));
    harness_guards(y);
    float *got = harness_floats(y);
    harness_close(got, want, count, 1e-6, "prelu");
    free(got);
    gradient_check(&(gradient_case){.name = "prelu",
                                    .inputs = {{2, {rows, n}, x_host, false}, {1, {n}, slope_host, false}},
                                    .oracle = oracle,
                                    .run = run,
                                    .count = count,
                                    .tolerance = 2e-6});
}

static void test_prelu_values_and_gradients(void **state) {
    (void)state;
    const int64_t rows[] = {1, 5, 300, 1100}, sizes[] = {1, 3, 17, 65};
    for (size_t i = 0; i < 16; i++)
        check(rows[i / 4], sizes[i % 4]);
}

static void test_prelu_empty_tensor_and_overlap(void **state) {
    (void)state;
    tfm_tensor none = HARNESS_TENSOR(TFM_F32, NULL, 0, 6), y = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 6), slope = HARNESS_TENSOR(TFM_F32, NULL, 6), over = x;
    harness_ok(tfm_prelu(harness_context(), &y, none, slope));
    over.offset++;
    harness_refused(tfm_prelu(harness_context(), &over, x, slope), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prelu_values_and_gradients),
        cmocka_unit_test(test_prelu_empty_tensor_and_overlap),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
