/* What every op's door refuses: outputs that lie over what is still to be read, and tensors that claim more
 * than their memory. */
#include <string.h>
#include "harness.h"
#include "tfm/ops.h"

static const tfm_tensor none;

/* `x` moved by some elements: over itself, but not in place. */
static tfm_tensor shifted(tfm_tensor x, size_t by) {
    x.offset += by;
    return x;
}

static void test_shared_memory(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 4, 8), z = HARNESS_TENSOR(TFM_F32, NULL, 4, 8);
    tfm_tensor ids = HARNESS_TENSOR(TFM_I32, NULL, 4), over = shifted(x, 3), row = x, made = {0}, ints = {0};
    row.rank = 1;
    row.dims[0] = 8;
    harness_refused(tfm_activate(ctx, &over, x, TFM_RELU), no, why);
    harness_refused(tfm_softmax(ctx, &over, x), no, why);
    harness_refused(tfm_log_softmax_axis(ctx, &over, x, 0), no, why);
    harness_refused(tfm_add(ctx, &over, x, z), no, why);
    harness_refused(tfm_add(ctx, &over, z, x), no, why);
    harness_refused(tfm_layernorm(ctx, &over, NULL, x, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &over, NULL, z, x, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &z, &over, x, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, &over, z, none, none, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, NULL, z, none, row, none, 0), no, why);
    harness_refused(tfm_layernorm(ctx, &x, NULL, z, none, none, row, 0), no, why);
    tfm_tensor column = x;
    column.dims[1] = 1;
    harness_refused(tfm_layernorm_axes(ctx, &z, &column, NULL, x, none, none, -1, 0), no, why);
    harness_refused(tfm_layernorm_axes(ctx, &x, NULL, &column, z, none, none, -1, 0), no, why);
    harness_refused(tfm_embedding(ctx, &over, x, ids, 1, none, 0), no, why);
    harness_refused(tfm_embedding(ctx, &x, z, ids, 1, x, 0), no, why);
    harness_refused(tfm_topk(ctx, &column, &ints, NULL, x, 1), no, why);
    tfm_tensor sums = x, best = HARNESS_TENSOR(TFM_F32, NULL, 4, 1);
    sums.rank = 1;
    harness_refused(tfm_topk(ctx, &best, &ints, &sums, x, 1), no, why);
    sums = best;
    sums.rank = 1;
    harness_refused(tfm_topk(ctx, &best, &ints, &sums, x, 1), no, why);
    tfm_tensor q = x, far = z;
    q.rank = far.rank = 4;
    memcpy(q.dims, (int64_t[]){1, 1, 4, 8}, 4 * sizeof(int64_t));
    memcpy(far.dims, q.dims, sizeof(q.dims));
    harness_refused(tfm_attention(ctx, &q, q, far, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, q, far, NULL), no, why);
    harness_refused(tfm_attention(ctx, &q, far, far, q, NULL), no, why);
    harness_guards(x);
    harness_guards(z);
    harness_ok(tfm_softmax(ctx, &x, x)); /* in place is well */
    harness_ok(tfm_activate(ctx, &x, x, TFM_RELU));
    harness_ok(tfm_add(ctx, &x, x, x));
    harness_ok(tfm_layernorm(ctx, &x, &z, x, z, none, none, 0));
    harness_ok(tfm_add(ctx, &made, x, z));
}

static void test_lying_tensors(void **state) {
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
    y = shifted(x, 1 << 20);
    harness_refused(tfm_softmax(ctx, &y, x), no, why);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_lying_tensors),
    };
    return cmocka_run_group_tests_name("doors", all, harness_setup, harness_teardown);
}
