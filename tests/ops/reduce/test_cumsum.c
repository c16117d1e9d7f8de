/* Cumulative sums, from either end, inclusive and exclusive. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef struct shape {
    int64_t dims[3];
    int axis;
    bool exclusive, reverse;
} shape;

static void oracle_of(const shape *s, double *y, const double *x) {
    int64_t outer = 1, inner = 1, n = s->dims[s->axis];
    for (int i = 0; i < 3; i++)
        *(i < s->axis ? &outer : &inner) *= i == s->axis ? 1 : s->dims[i];
    for (int64_t k = 0; k < outer * inner; k++) {
        double sum = 0;
        for (int64_t r = 0; r < n; r++) {
            const int64_t at = (k / inner * n + (s->reverse ? n - 1 - r : r)) * inner + k % inner;
            y[at] = s->exclusive ? sum : sum + x[at];
            sum += x[at];
        }
    }
}

static const int64_t DIMS[][3] = {{3, 17, 33}, {1, 1, 1}, {2, 5, 1000}};

static void test_cumsum_matches_definition(void **state) {
    (void)state;
    static float host[10000];
    static double wide[10000], want[10000];
    static int32_t ints[10000];
    for (int i = 0; i < 10000; i++) {
        ints[i] = i * 37 % 101 - 50;
        host[i] = (float)ints[i];
        wide[i] = ints[i];
    }
    for (int k = 0; k < 3 * 3 * 4; k++) {
        shape s = {{0}, k / 4 % 3, k % 2, k / 2 % 2};
        memcpy(s.dims, DIMS[k / 12], sizeof(s.dims));
        const size_t n = (size_t)(s.dims[0] * s.dims[1] * s.dims[2]);
        oracle_of(&s, want, wide);
        tfm_tensor x = harness_tensor(TFM_F32, 3, s.dims, host), y = harness_tensor(TFM_F32, 3, s.dims, NULL);
        tfm_tensor i = harness_tensor(TFM_I32, 3, s.dims, ints), j = harness_tensor(TFM_I32, 3, s.dims, NULL);
        harness_ok(tfm_cumsum(harness_context(), &y, x, s.axis - 3 * (k % 2), s.exclusive, s.reverse));
        harness_ok(tfm_cumsum(harness_context(), &j, i, s.axis, s.exclusive, s.reverse));
        harness_guards(y);
        harness_guards(j);
        float *got = harness_floats(y);
        int32_t *whole = harness_ints(j);
        for (size_t at = 0; at < n; at++)
            assert_true((double)got[at] == want[at] && whole[at] == (int32_t)want[at]);
        free(got);
        free(whole);
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    oracle_of(c->user, y, inputs[0]);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const shape *s = c->user;
    return tfm_cumsum(ctx, y, inputs[0], s->axis, s->exclusive, s->reverse);
}

static void test_cumsum_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    float host[3 * 17 * 33];
    harness_fill(&random, host, 3 * 17 * 33, 1);
    for (int k = 0; k < 8; k++) {
        const shape s = {{3, 17, 33}, 1 + k / 4, k % 2, k / 2 % 2};
        gradient_check(&(gradient_case){.name = "cumsum",
                                        .inputs = {{3, {3, 17, 33}, host, false}},
                                        .oracle = oracle,
                                        .run = run,
                                        .user = &s,
                                        .count = 3 * 17 * 33,
                                        .tolerance = 1e-5});
    }
}

static void test_cumsum_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), y = {0}, bytes = HARNESS_TENSOR(TFM_U8, NULL, 2, 3);
    harness_refused(tfm_cumsum(ctx, &y, x, 2, false, false), TFM_ERROR_ARGUMENT, "cumsum: axis 2 of (2, 3) F32");
    harness_refused(tfm_cumsum(ctx, &y, bytes, 0, false, false), TFM_ERROR_ARGUMENT, "cumsum: input 1 is (2, 3) U8");
    harness_refused(tfm_cumsum(ctx, &x, x, 0, false, false), TFM_ERROR_ARGUMENT, "cumsum: the output");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cumsum_matches_definition),
        cmocka_unit_test(test_cumsum_gradients_match_double_precision),
        cmocka_unit_test(test_cumsum_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
