/* Argument checks of every op, tested with two: outputs that overlap pending inputs, and tensors larger than their
 * memory. Allowed in-place outputs are tested with each op. */
#include "support/harness.h"
#include "tfm/ops.h"

static void test_op_output_overlapping_an_input_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), z = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), made = {0};
    for (size_t by = 1; by < 32; by++) {
        tfm_tensor over = x;
        over.offset += by;
        harness_refused(tfm_add(ctx, &over, x, z), no, why);
        harness_refused(tfm_add(ctx, &over, z, x), no, why);
        over.offset = x.offset - by;
        harness_refused(tfm_add(ctx, &over, x, z), no, why);
    }
    harness_guards(x);
    harness_guards(z);
    harness_ok(tfm_add(ctx, &x, x, x)); /* in place is allowed */
    harness_ok(tfm_add(ctx, &z, x, z));
    harness_ok(tfm_add(ctx, &made, x, z));
}

static void test_tensor_beyond_its_buffer_is_rejected(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "within its memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), y = {0}, lie = x;
    lie.dims[0] = 1 << 20;
    harness_refused(tfm_softmax(ctx, &y, lie), no, why);
    lie.offset = SIZE_MAX - 3;
    lie.dims[0] = 4;
    harness_refused(tfm_softmax(ctx, &y, lie), no, why);
    lie = x;
    lie.dims[0] = lie.dims[1] = INT64_C(1) << 32;
    harness_refused(tfm_softmax(ctx, &y, lie), no, why);
    lie.dims[0] = lie.dims[1] = -1;
    harness_refused(tfm_softmax(ctx, &y, lie), no, why);
    lie = x;
    lie.rank = TFM_MAX_RANK + 1;
    harness_refused(tfm_softmax(ctx, &y, lie), no, why);
    y = x;
    y.offset += 1 << 20;
    harness_refused(tfm_softmax(ctx, &y, x), no, why);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_op_output_overlapping_an_input_is_rejected),
        cmocka_unit_test(test_tensor_beyond_its_buffer_is_rejected),
    };
    return cmocka_run_group_tests_name("doors", all, harness_setup, harness_teardown);
}
