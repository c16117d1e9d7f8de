/* Addition: exact. */
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "tfm/ops.h"

enum { FRESH, OVER_A, OVER_B };

/* In the middle of zeros: NaN + NaN of the guards would hide a write outside y. */
static tfm_tensor among_numbers(const float *host, int64_t n) {
    enum { AROUND = 33 };
    float *wide = calloc((size_t)n + 2 * AROUND, sizeof(float));
    assert_non_null(wide);
    memcpy(wide + AROUND, host, (size_t)n * sizeof(float));
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, wide, n + 2 * AROUND), x;
    harness_ok(tfm_tensor_rows(harness_context(), &x, whole, AROUND, n));
    free(wide);
    return x;
}

static void check(harness_random *random, int64_t n, int where) {
    tfm_context *ctx = harness_context();
    float *a_host = malloc((size_t)n * sizeof(float)), *b_host = malloc((size_t)n * sizeof(float));
    assert_true(a_host && b_host);
    for (int64_t i = 0; i < n; i++) {
        a_host[i] = (float)(int32_t)harness_next(random);
        b_host[i] = (float)(int32_t)harness_next(random);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor a = among_numbers(a_host, n), b = among_numbers(b_host, n);
    tfm_tensor y = where == OVER_A ? a : where == OVER_B ? b : HARNESS_TENSOR(TFM_F32, NULL, n);
    harness_ok(tfm_add(ctx, &y, a, b));
    float *got = harness_floats(y);
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] == a_host[i] + b_host[i]);
    if (where == FRESH)
        harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(a_host);
    free(b_host);
}

static void test_shapes(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 4095, 4097, 100003};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int where = FRESH; where <= OVER_B; where++)
            check(&random, sizes[i], where);
}

/* More work-groups than one axis of the grid takes where an item has few elements. */
static void test_many(void **state) {
    (void)state;
    harness_random random = {2};
    check(&random, INT64_C(9000001), FRESH);
}

static void test_itself(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[21];
    for (int i = 0; i < 21; i++)
        host[i] = (float)i;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 3, 7);
    harness_ok(tfm_add(ctx, &x, x, x));
    float *got = harness_floats(x);
    for (int i = 0; i < 21; i++)
        assert_true(got[i] == 2 * (float)i);
    free(got);
}

static void test_refused(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), b = HARNESS_TENSOR(TFM_F32, NULL, 3, 2), y = {0};
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    harness_refused(tfm_add(ctx, &y, a, b), TFM_ERROR_ARGUMENT, "add: a is (2, 3) F32 and b is (3, 2) F32");
    harness_refused(tfm_add(ctx, &y, a, ints), TFM_ERROR_ARGUMENT, "add: input 2 is (2, 3) I32");
    harness_refused(tfm_add(ctx, &y, a, (tfm_tensor){0}), TFM_ERROR_ARGUMENT,
                    "add: input 2 is an empty tensor");
    harness_refused(tfm_add(ctx, &b, a, a), TFM_ERROR_ARGUMENT, "add: the output is (3, 2) F32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_itself),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
