/* Free memory that a context keeps: no block for longer than 16384 reuses of others, and in training at most a
 * sixteenth of the peak use, or some MB. The memory is never written, so most of it is never resident. */
#include "dev/dev.h"
#include "support/harness.h"

enum { TENSORS = 4, ROUNDS = 8, LEAST_RESERVE = 4 << 20, KEPT = 1 << 14, REVIEW = 1 << 10 };

static uint64_t with_reserve(uint64_t used) {
    return used + (used / 16 < LEAST_RESERVE ? LEAST_RESERVE : used / 16);
}

/* So many tensors of `bytes` at once, in one scope. */
static void take(tfm_context *ctx, int count, int64_t bytes) {
    harness_ok(tfm_scope_open(ctx));
    for (int i = 0; i < count; i++) {
        tfm_tensor x;
        harness_ok(tfm_tensor_new(ctx, &x, TFM_U8, 1, &bytes));
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_pool_of_growing_tensors_is_bounded(void **state) {
    tfm_context *ctx;
    int64_t bytes = 40000;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    tfm__pool_limit_unused(ctx);
    const uint64_t before = tfm_context_peak_memory(ctx);
    for (int i = 0; i < ROUNDS; i++, bytes = bytes * 5 / 2)
        take(ctx, TENSORS, bytes);
    const uint64_t used = before + TENSORS * tfm__pool_block_bytes((uint64_t)bytes * 2 / 5);
    assert_in_range(tfm_context_peak_memory(ctx), used, with_reserve(used));
    tfm_context_free(&ctx);
}

static void test_pool_of_shrinking_tensors_is_bounded(void **state) {
    tfm_context *ctx;
    int64_t bytes = 1 << 24;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    tfm__pool_limit_unused(ctx);
    take(ctx, TENSORS, bytes);
    const uint64_t used = tfm_context_peak_memory(ctx);
    for (int i = 0; i < ROUNDS; i++, bytes = bytes * 2 / 5)
        take(ctx, TENSORS, bytes);
    take(ctx, TENSORS, 1 << 24); /* the large ones may be freed by now: they are allocated again */
    assert_in_range(tfm_context_peak_memory(ctx), used, with_reserve(used));
    tfm_context_free(&ctx);
}

/* Random sizes, several at a time. Blocks larger than the request are bounded too: at most eight times as large. */
static void test_pool_of_random_tensors_is_bounded(void **state) {
    harness_random random = {31};
    tfm_context *ctx;
    uint64_t most = 0;
    (void)state;
    harness_ok(tfm_context_open(&ctx, NULL));
    tfm__pool_limit_unused(ctx);
    const uint64_t before = tfm_context_peak_memory(ctx);
    for (int round = 0; round < 200; round++) {
        uint64_t used = 0;
        harness_ok(tfm_scope_open(ctx));
        const int count = (int)harness_range(&random, 1, 12);
        for (int i = 0; i < count; i++) {
            const int64_t bytes = (int64_t)1 << harness_range(&random, 14, 24),
                          odd = bytes + harness_range(&random, 0, bytes);
            tfm_tensor x;
            harness_ok(tfm_tensor_new(ctx, &x, TFM_U8, 1, &odd));
            used += tfm__pool_block_bytes((uint64_t)odd);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
        most = used > most ? used : most;
    }
    assert_in_range(tfm_context_peak_memory(ctx) - before, most, with_reserve(2 * most));
    tfm_context_free(&ctx);
}

/* A failed request changes nothing: later ones are bounded as before. */
static void test_pool_stays_bounded_after_failed_allocation(void **state) {
    tfm_context *ctx;
    tfm_tensor x;
    (void)state;
    harness_ok(tfm_context_open(&ctx, &(tfm_context_options){.memory_limit = 160 << 20}));
    tfm__pool_limit_unused(ctx);
    take(ctx, TENSORS, 1 << 24);
    const uint64_t used = tfm_context_peak_memory(ctx);
    assert_int_equal(tfm_tensor_new(ctx, &x, TFM_U8, 1, (int64_t[]){512 << 20}), TFM_ERROR_MEMORY);
    tfm_context_clear_error(ctx);
    take(ctx, TENSORS, 1 << 24); /* again, since a failed request frees unused blocks */
    for (int64_t bytes = 1 << 23; bytes > 1 << 18; bytes = bytes * 2 / 5)
        take(ctx, TENSORS, bytes);
    assert_in_range(tfm_context_peak_memory(ctx), used, with_reserve(used));
    tfm_context_free(&ctx);
}

/* Peak memory of a context if one batch needs large blocks, then `others` small ones are reused, and a batch with
 * larger blocks follows. */
static uint64_t held_after(int others) {
    tfm_context *ctx;
    harness_ok(tfm_context_open(&ctx, NULL));
    const uint64_t before = tfm_context_peak_memory(ctx);
    take(ctx, TENSORS, 1 << 22);
    for (int i = 0; i < others; i += TENSORS)
        take(ctx, TENSORS, 256);
    take(ctx, TENSORS, 1 << 24);
    const uint64_t held = tfm_context_peak_memory(ctx) - before;
    tfm_context_free(&ctx);
    return held / TENSORS;
}

static void test_unused_block_is_released(void **state) {
    (void)state;
    assert_in_range(held_after(KEPT + REVIEW + TENSORS), 1 << 24, (1 << 24) + (1 << 12));
}

static void test_recently_used_block_is_kept(void **state) {
    (void)state;
    assert_in_range(held_after(KEPT - TENSORS), (1 << 24) + (1 << 22), (1 << 24) + (1 << 22) + (1 << 12));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool_of_growing_tensors_is_bounded),
                                       cmocka_unit_test(test_pool_of_shrinking_tensors_is_bounded),
                                       cmocka_unit_test(test_pool_of_random_tensors_is_bounded),
                                       cmocka_unit_test(test_pool_stays_bounded_after_failed_allocation),
                                       cmocka_unit_test(test_unused_block_is_released),
                                       cmocka_unit_test(test_recently_used_block_is_kept)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
