/* Pinned host memory for transfers: zeroed, read into and written from; from the driver unless the device is a CPU or
 * the driver fails (TFM_FAULT_NAME). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"

enum { COUNT = 5000, SLICE = 777 };

static void test_pinned_memory_reads_and_writes_tensors(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm__pinned_memory *room = NULL;
    float *x = tfm__pinned_memory_new(ctx, &room, COUNT * sizeof(*x));
    assert_non_null(x);
    assert_int_equal(tfm__pinned_memory_is_mapped(room),
                     ctx->tuning.class != TFM__CLASS_CPU && !getenv("TFM_FAULT_NAME"));
    for (int i = 0; i < COUNT; i++)
        assert_true(x[i] == 0);
    harness_ok(tfm_context_status(ctx));
    float from[COUNT];
    for (int i = 0; i < COUNT; i++)
        from[i] = (float)i;
    tfm_tensor a = harness_tensor(TFM_F32, 1, &(int64_t){COUNT}, from), part = {0};
    tfm__async_read *reads[2] = {0};
    for (int i = 0; i < 2; i++) { /* two asynchronous reads into separate parts of the buffer */
        part = a;
        part.dims[0] = SLICE;
        part.offset += i ? COUNT - SLICE : 0;
        harness_ok(tfm__async_read_into(ctx, &reads[i], x + (i ? COUNT - SLICE : 0), part));
    }
    for (int i = 0; i < 2; i++) {
        assert_non_null(tfm__async_read_wait(ctx, reads[i]));
        tfm__async_read_free(ctx, &reads[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_true(x[i] == (i < SLICE || i >= COUNT - SLICE ? (float)i : 0));
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)-i;
    harness_ok(tfm_tensor_write(ctx, a, x));
    tfm__pinned_memory_free(ctx, &room);
    assert_null(room);
    float *got = harness_floats(a);
    for (int i = 0; i < COUNT; i++)
        assert_true(got[i] == (float)-i);
    harness_guards(a);
    free(got);
    tfm_tensor_free(ctx, &a);
}

/* More than available memory; the context stays usable. */
static void test_oversized_pinned_allocation_leaves_context_usable(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    printf("skipped: the sanitizer aborts on huge allocations\n");
    skip();
#endif
    tfm_context *ctx = harness_context();
    tfm__pinned_memory *room = NULL;
    assert_null(tfm__pinned_memory_new(ctx, &room, SIZE_MAX / 4));
    assert_null(room);
    tfm__pinned_memory_free(ctx, &room);
    harness_ok(tfm_context_status(ctx));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pinned_memory_reads_and_writes_tensors),
                                       cmocka_unit_test(test_oversized_pinned_allocation_leaves_context_usable)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
