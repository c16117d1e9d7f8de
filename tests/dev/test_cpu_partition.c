/* Contexts that share the cores of a CPU: partitions over time, and results independent of them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "dev/pocl/cpu_partition.h"
#include "support/harness.h"
#include "ops/ops.h"

enum { MEMBERS = 3, SIZE = 96, TURNS = 40 };

static bool shared_here(tfm_context *ctx) {
    return ctx->on_pocl && ctx->info.compute_units > 1;
}

/* A GEMM whose result is read. */
static tfm_status multiply(tfm_context *ctx, float *result, float first) {
    static float a[SIZE * SIZE], b[SIZE * SIZE];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    tfm_tensor x = {0}, y = {0}, z = {0};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SIZE * SIZE; i++) {
        a[i] = first + (float)(i % 7);
        b[i] = (float)(i % 5) - 2;
    }
    tfm_scope_open(ctx);
    tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){SIZE, SIZE});
    tfm_tensor_new(ctx, &y, TFM_F32, 2, (int64_t[]){SIZE, SIZE});
    tfm_tensor_write(ctx, x, a);
    tfm_tensor_write(ctx, y, b);
    pthread_mutex_unlock(&lock);
    tfm_gemm(ctx, &z, x, y, NULL);
    tfm_gemm(ctx, &z, x, y, NULL);
    tfm_tensor_read(ctx, result, z);
    return tfm_scope_close(ctx, 0, NULL);
}

static void expect(const tfm_context *ctx, size_t part, size_t parts) {
    assert_int_equal(ctx->partitions ? ctx->partitions : 1, parts);
    assert_int_equal(ctx->partition, part);
    assert_true(parts == 1 ? !ctx->full_queue || ctx->queue == ctx->full_queue
                           : ctx->full_queue && ctx->queue != ctx->full_queue);
}

/* Each has a partition after its first read, and all cores again when it is the only one. */
static void test_contexts_share_cpu_cores_in_turn(void **state) {
    (void)state;
    tfm_context *all[2] = {0};
    float *want = malloc(SIZE * SIZE * sizeof(float)), *got = malloc(SIZE * SIZE * sizeof(float));
    assert_true(want && got);
    for (int i = 0; i < 2; i++)
        harness_ok(tfm_context_open(&all[i], NULL));
    const size_t two = shared_here(all[0]) ? 2 : 1, second = two - 1;
    harness_ok(multiply(all[0], want, 1));
    expect(all[0], 0, 1);
    tfm__cpu_partition_share(all[0], true);
    tfm__cpu_partition_share(all[0], true); /* equals no other */
    expect(all[0], 0, 1);
    tfm__cpu_partition_share(all[1], true);
    expect(all[1], second, two);
    expect(all[0], 0, 1);
    for (int i = 0; i < 2; i++) {
        harness_ok(multiply(all[i], got, 1));
        expect(all[i], i == 0 ? 0 : second, two);
        harness_ok(multiply(all[i], got, 1));
        assert_memory_equal(got, want, SIZE * SIZE * sizeof(float));
    }
    tfm__cpu_partition_share(all[0], false);
    expect(all[0], 0, 1);
    expect(all[1], second, two);
    harness_ok(multiply(all[1], got, 1));
    expect(all[1], 0, 1);
    assert_memory_equal(got, want, SIZE * SIZE * sizeof(float));
    tfm__cpu_partition_share(all[0], true); /* behind the other one */
    expect(all[0], second, two);
    tfm_context_free(&all[0]);
    harness_ok(multiply(all[1], got, 1));
    expect(all[1], 0, 1);
    tfm_context_free(&all[1]);
    free(want);
    free(got);
}

/* A caller's queue is unchanged. */
static void test_callers_queue_is_not_partitioned(void **state) {
    (void)state;
    tfm_context *all[2] = {0}, *wrapped = NULL;
    for (int i = 0; i < 2; i++) {
        harness_ok(tfm_context_open(&all[i], NULL));
        tfm__cpu_partition_share(all[i], true);
    }
    harness_ok(tfm_context_wrap(&wrapped, all[0]->cl, all[0]->device, NULL, NULL));
    tfm__cpu_partition_share(wrapped, true);
    expect(wrapped, 0, 1);
    tfm_context_free(&wrapped);
    for (int i = 0; i < 2; i++)
        tfm_context_free(&all[i]);
}

typedef struct member {
    pthread_t thread;
    float first, last[SIZE * SIZE];
    bool same;
} member;

/* Opens and closes contexts while others work. */
static void *come_and_go(void *user) {
    member *m = user;
    tfm_context *ctx = NULL;
    float *got = malloc(sizeof(m->last));
    m->same = got && tfm_context_open(&ctx, NULL) == TFM_OK;
    for (int i = 0; m->same && i < TURNS; i++) {
        if (i % 4 != 1)
            tfm__cpu_partition_share(ctx, i % 4 != 3);
        m->same = multiply(ctx, got, m->first) == TFM_OK;
        m->same = m->same && (i == 0 || memcmp(got, m->last, sizeof(m->last)) == 0);
        memcpy(m->last, got, sizeof(m->last));
    }
    tfm_context_free(&ctx);
    free(got);
    return NULL;
}

static void test_partitioned_contexts_give_right_results_in_threads(void **state) {
    (void)state;
    static member members[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        members[i].first = (float)i;
        assert_int_equal(pthread_create(&members[i].thread, NULL, come_and_go, &members[i]), 0);
    }
    for (int i = 0; i < MEMBERS; i++) {
        pthread_join(members[i].thread, NULL);
        assert_true(members[i].same);
        for (int e = 0; e < SIZE * SIZE; e++) {
            double want = 0;
            for (int k = 0; k < SIZE; k++)
                want += (members[i].first + (double)((e / SIZE * SIZE + k) % 7)) *
                        ((double)((k * SIZE + e % SIZE) % 5) - 2);
            assert_true((double)members[i].last[e] == want); /* integers */
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_contexts_share_cpu_cores_in_turn),
                                       cmocka_unit_test(test_callers_queue_is_not_partitioned),
                                       cmocka_unit_test(test_partitioned_contexts_give_right_results_in_threads)};
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
