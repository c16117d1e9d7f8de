/* One-hot encoding. */
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

/* The depth as first, middle and last dimension; negative indices, and indices out of range. */
static void test_onehot_matches_definition(void **state) {
    (void)state;
    enum { ROWS = 5, COLUMNS = 33, DEPTH = 7 };
    int32_t indices[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        indices[i] = i % (2 * DEPTH + 5) - DEPTH - 2;
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, indices, ROWS, COLUMNS);
    for (int axis = -1; axis <= 1; axis++) {
        const int64_t dims[3][3] = {{ROWS, COLUMNS, DEPTH}, {DEPTH, ROWS, COLUMNS}, {ROWS, DEPTH, COLUMNS}};
        tfm_tensor y = axis < 1 ? harness_tensor(TFM_F32, 3, dims[axis + 1], NULL) : (tfm_tensor){0};
        const int64_t inner = axis == -1 ? 1 : axis == 0 ? ROWS * COLUMNS : COLUMNS;
        harness_ok(tfm_onehot(harness_context(), &y, x, DEPTH, axis, -1, 2.5f));
        assert_true(y.rank == 3 && y.dims[axis < 0 ? 2 : axis] == DEPTH);
        float *got = harness_floats(y);
        for (int64_t k = 0; k < ROWS * COLUMNS * DEPTH; k++) {
            const int32_t index = indices[k / (DEPTH * inner) * inner + k % inner];
            const bool here = (index < 0 ? index + DEPTH : index) == k / inner % DEPTH;
            assert_true(got[k] == (here ? 2.5f : -1.0f));
        }
        if (axis < 1)
            harness_guards(y);
        else
            tfm_tensor_free(harness_context(), &y);
        free(got);
    }
}

static void test_onehot_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, NULL, 2, 3), y = {0}, floats = HARNESS_TENSOR(TFM_F32, NULL, 2, 3);
    harness_refused(tfm_onehot(ctx, &y, x, 4, 3, 0, 1), TFM_ERROR_ARGUMENT, "onehot: axis 3 of depth 4");
    harness_refused(tfm_onehot(ctx, &y, x, 0, 0, 0, 1), TFM_ERROR_ARGUMENT, "onehot: axis 0 of depth 0");
    harness_refused(tfm_onehot(ctx, &y, floats, 4, 0, 0, 1), TFM_ERROR_ARGUMENT, "onehot: input 1 is (2, 3) F32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onehot_matches_definition),
        cmocka_unit_test(test_onehot_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
