/* What a context keeps of memory that nobody uses any more: a sixteenth of what was in use at most, and no more. */
#include "dev/dev.h"
#include "harness.h"

enum { TENSORS = 4, ROUNDS = 8 };

/* So many tensors of `bytes` at the same time, for as long as a scope is open. */
static void take(tfm_context *ctx, int count, int64_t bytes) {
    harness_ok(tfm_scope_open(ctx));
    for (int i = 0; i < count; i++) {
        tfm_tensor x;
        harness_ok(tfm_tensor_new(ctx, &x, TFM_U8, 1, &bytes));
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_shapes_that_grow(void **state) {
    tfm_context *ctx;
    int64_t bytes = 1000;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    const uint64_t before = tfm_context_memory(ctx);
    for (int i = 0; i < ROUNDS; i++, bytes = bytes * 5 / 2)
        take(ctx, TENSORS, bytes);
    const uint64_t used = before + TENSORS * tfm__pool_block((uint64_t)bytes * 2 / 5);
    assert_in_range(tfm_context_memory(ctx), used, used + used / 16);
    tfm_context_free(&ctx);
}

static void test_shapes_that_shrink(void **state) {
    tfm_context *ctx;
    int64_t bytes = 1 << 20;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    take(ctx, TENSORS, bytes);
    const uint64_t used = tfm_context_memory(ctx);
    for (int i = 0; i < ROUNDS; i++, bytes = bytes * 2 / 5)
        take(ctx, TENSORS, bytes);
    take(ctx, TENSORS, 1 << 20); /* the large ones may be gone by now: they come again */
    assert_in_range(tfm_context_memory(ctx), used, used + used / 16);
    tfm_context_free(&ctx);
}

/* Sizes as drawn, several of them at a time. What blocks that are larger than what is asked come to is bounded too:
 * none is more than eight times as large. */
static void test_shapes_as_drawn(void **state) {
    harness_random random = {31};
    tfm_context *ctx;
    uint64_t most = 0;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    const uint64_t before = tfm_context_memory(ctx);
    for (int round = 0; round < 200; round++) {
        uint64_t used = 0;
        harness_ok(tfm_scope_open(ctx));
        const int count = (int)harness_range(&random, 1, 12);
        for (int i = 0; i < count; i++) {
            const int64_t bytes = (int64_t)1 << harness_range(&random, 8, 18),
                          odd = bytes + harness_range(&random, 0, bytes);
            tfm_tensor x;
            harness_ok(tfm_tensor_new(ctx, &x, TFM_U8, 1, &odd));
            used += tfm__pool_block((uint64_t)odd);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        most = used > most ? used : most;
    }
    assert_in_range(tfm_context_memory(ctx) - before, most, 2 * most);
    tfm_context_free(&ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes_that_grow),
                                       cmocka_unit_test(test_shapes_that_shrink),
                                       cmocka_unit_test(test_shapes_as_drawn)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
