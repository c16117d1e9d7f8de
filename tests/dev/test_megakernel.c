/* Launches that are collected and run in one kernel (lib/dev/launch/megakernel.h): the results are those of separate
 * launches to the bit, also with commands between them, with memory that is released at once, with several contexts,
 * which share buffers, and where kernels cannot be linked. Skipped on other drivers than PoCL, and on other devices
 * than CPUs. */
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "dev/device/context_internal.h"
#include "support/harness.h"
#include "tfm/ops.h"

enum { ROWS = 61, WIDTH = 1021, STEPS = 80, THREADS = 4, WEIGHTS = 400 };

static char folder[64] = "/tmp/tfm-megakernel-XXXXXX";

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *walk) {
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

static bool supported(void) {
    const tfm_context *ctx = harness_context();
    return ctx->on_pocl && ctx->info.type == TFM_DEVICE_CPU && ctx->tuning.class == TFM__CLASS_CPU;
}

static tfm_context *open_with(const char *mode) {
    tfm_context *ctx = NULL;
    if (mode)
        setenv("TFM_MEGAKERNEL", mode, 1);
    else
        unsetenv("TFM_MEGAKERNEL");
    harness_ok(tfm_context_open(&ctx, NULL));
    return ctx;
}

/* The first row of a is a counter of the host, which a step reads and writes. */
typedef struct chain {
    tfm_tensor a, b, sums;
} chain;

static void chain_begin(tfm_context *ctx, chain *s) {
    static _Thread_local float host[ROWS * WIDTH];
    harness_random random = {5};
    const int64_t dims[] = {ROWS, WIDTH};
    tfm_tensor *const all[] = {&s->a, &s->b, &s->sums};
    for (size_t i = 0; i < 3; i++) {
        harness_fill(&random, host, ROWS * WIDTH, 1);
        harness_ok(tfm_tensor_new(ctx, all[i], TFM_F32, 2, dims));
        harness_ok(tfm_tensor_write(ctx, *all[i], host));
    }
}

/* Launches that depend on each other, and reuse the pool's blocks. */
static void launch_chain(tfm_context *ctx, chain *s) {
    tfm_tensor soft = {0}, product = {0}, sum = {0};
    tfm_scope_open(ctx);
    tfm_softmax(ctx, &soft, s->a);
    tfm_mul(ctx, &product, soft, s->b);
    tfm_add(ctx, &sum, product, s->sums);
    tfm_add(ctx, &s->sums, sum, soft);
    tfm_mul(ctx, &s->a, s->sums, s->b);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void step(tfm_context *ctx, chain *s, void (*between)(tfm_context *ctx, chain *s, int number), int number) {
    tfm__megakernel_begin(ctx, 1);
    launch_chain(ctx, s);
    if (between)
        between(ctx, s, number);
    launch_chain(ctx, s);
    tfm__megakernel_end(ctx);
}

/* The sums after all steps. */
static void run(tfm_context *ctx, float *out, void (*between)(tfm_context *ctx, chain *s, int number)) {
    chain s = {{0}, {0}, {0}};
    chain_begin(ctx, &s);
    for (int i = 0; i < STEPS; i++)
        step(ctx, &s, between, i);
    harness_ok(tfm_tensor_read(ctx, out, s.sums));
}

static void compare(void (*between)(tfm_context *ctx, chain *s, int number), const char *mode, bool collects) {
    static float separate[ROWS * WIDTH], together[ROWS * WIDTH];
    tfm_context *ctx = open_with("0");
    run(ctx, separate, between);
    assert_int_equal(ctx->collected, 0);
    tfm_context_free(&ctx);
    ctx = open_with(mode);
    run(ctx, together, between);
    assert_int_equal(ctx->collected > 0, collects);
    tfm_context_free(&ctx);
    assert_memory_equal(separate, together, sizeof(separate));
}

static void test_results_equal_separate_launches(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    compare(NULL, "1", true);
}

static void test_steps_of_many_rows_are_launched_separately(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    tfm_context *ctx = open_with("1");
    chain s = {{0}, {0}, {0}};
    chain_begin(ctx, &s);
    const int64_t rows[] = {8, 64};
    for (size_t i = 0; i < 2; i++) {
        const uint64_t before = ctx->collected;
        for (int j = 0; j < STEPS; j++) {
            tfm__megakernel_begin(ctx, rows[i]);
            launch_chain(ctx, &s);
            tfm__megakernel_end(ctx);
        }
        assert_int_equal(ctx->collected > before, rows[i] == 8);
    }
    tfm_context_free(&ctx);
}

/* Commands that are no launches, and a wait. */
static void use_other_commands(tfm_context *ctx, chain *s, int number) {
    static _Thread_local float host[ROWS * WIDTH];
    tfm_tensor copy = {0};
    const float value = (float)number;
    harness_ok(tfm_tensor_new(ctx, &copy, TFM_F32, 2, s->a.dims));
    harness_ok(tfm__tensor_copy(ctx, copy, s->sums));
    harness_ok(tfm__tensor_fill(ctx, s->sums, &value));
    harness_ok(tfm_add(ctx, &s->sums, s->sums, copy));
    harness_ok(tfm_tensor_read(ctx, host, s->a));
    host[0] += 1;
    harness_ok(tfm_tensor_write(ctx, s->a, host));
    tfm_tensor_free(ctx, &copy);
}

static void test_other_commands_run_in_order(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    compare(use_other_commands, "1", true);
}

/* Work-groups of several items, which are not collected. */
static void use_reference_gemm(tfm_context *ctx, chain *s, int number) {
    (void)number;
    tfm_tensor square = {0}, y = {0};
    const tfm_gemm_options transposed = {.transpose_b = true};
    const char *declined;
    harness_ok(tfm_gemm_with(ctx, "reference", &declined, &square, s->sums, s->sums, &transposed));
    harness_ok(tfm_gemm_with(ctx, "reference", &declined, &y, square, s->sums, NULL));
    harness_ok(tfm_softmax(ctx, &s->sums, y));
    tfm_tensor_free(ctx, &square);
    tfm_tensor_free(ctx, &y);
}

static void test_larger_work_groups_run_in_order(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    compare(use_reference_gemm, "1", true);
}

/* Kernels that join later, so that others are linked while launches run. */
static void use_more_kernels(tfm_context *ctx, chain *s, int number) {
    if (number >= 10)
        harness_ok(tfm_max(ctx, &s->sums, s->sums, s->b));
    if (number >= 20)
        harness_ok(tfm_sub(ctx, &s->sums, s->sums, s->a));
    if (number >= 30)
        harness_ok(tfm_min(ctx, &s->sums, s->sums, s->b));
}

static void test_kernels_join_while_others_run(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    compare(use_more_kernels, "1", true);
}

/* Memory of the caller and of the pool, which is released while launches may still use it; later allocations get it. */
static void release_memory(tfm_context *ctx, chain *s, int number) {
    enum { LARGE = 1 << 20 };
    const int64_t dims[] = {ROWS, WIDTH}, large[] = {LARGE};
    float zero = 0;
    cl_int error;
    tfm_tensor own = {0}, sum = {0};
    cl_mem memory = clCreateBuffer(ctx->cl, CL_MEM_READ_WRITE, sizeof(float) * ROWS * WIDTH, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    harness_ok(tfm_tensor_wrap(ctx, &own, memory, 0, TFM_F32, 2, dims));
    clReleaseMemObject(memory);
    harness_ok(tfm_mul(ctx, &own, s->sums, s->b));
    harness_ok(tfm_add(ctx, &sum, own, s->sums));
    harness_ok(tfm_add(ctx, &s->sums, own, sum));
    tfm_tensor_free(ctx, &own);
    tfm_tensor_free(ctx, &sum);
    if (number % 2)
        tfm__pool_trim(ctx);
    harness_ok(tfm_tensor_new(ctx, &sum, TFM_F32, 1, large));
    harness_ok(tfm__tensor_fill(ctx, sum, &zero));
    tfm_tensor_free(ctx, &sum);
}

static void test_memory_is_released_after_its_last_use(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    compare(release_memory, "1", true);
}

static void *run_thread(void *out) {
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    for (int i = 0; i < 5; i++)
        run(ctx, out, i % 2 ? use_other_commands : NULL);
    run(ctx, out, NULL);
    assert_true(ctx->collected > 0);
    tfm_context_free(&ctx);
    return NULL;
}

static void test_several_contexts_do_not_wait_for_each_other(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    static float results[THREADS + 1][ROWS * WIDTH];
    pthread_t threads[THREADS];
    tfm_context *ctx = open_with("0");
    run(ctx, results[THREADS], NULL);
    tfm_context_free(&ctx);
    setenv("TFM_MEGAKERNEL", "1", 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, results[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_memory_equal(results[i], results[THREADS], sizeof(results[0]));
}

/* A context with weights that all contexts share. */
typedef struct sharer {
    tfm_context *ctx;
    pthread_t thread;
    tfm_tensor weights[WEIGHTS], squares[WEIGHTS];
} sharer;

static void *square_weights(void *argument) {
    sharer *s = argument;
    tfm__megakernel_begin(s->ctx, 1);
    for (int i = 0; i < WEIGHTS; i++)
        harness_ok(tfm_mul(s->ctx, &s->squares[i], s->weights[i], s->weights[i]));
    tfm__megakernel_end(s->ctx);
    return NULL;
}

/* All contexts ask for the weights' addresses at once, while the queue of the first one waits. */
static void test_contexts_share_buffers(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    enum { COUNT = 64 };
    static float host[COUNT], result[ROWS * WIDTH];
    static sharer sharers[THREADS];
    const int64_t dims[] = {COUNT};
    harness_random random = {7};
    harness_fill(&random, host, COUNT, 1);
    for (int t = 0; t < THREADS; t++)
        sharers[t].ctx = open_with("1");
    for (int t = 0; t < THREADS; t++)
        run(sharers[t].ctx, result, NULL);
    for (int t = 0; t < THREADS; t++) {
        sharer *s = &sharers[t];
        for (int i = 0; i < WEIGHTS; i++) {
            const tfm__shared_buffer_key key = {31, (uint64_t)i};
            if (t > 0) {
                assert_true(tfm__tensor_open_shared(s->ctx, &s->weights[i], key, TFM_F32, 1, dims));
                continue;
            }
            harness_ok(tfm__tensor_new_persistent(s->ctx, &s->weights[i], TFM_F32, 1, dims));
            harness_ok(tfm_tensor_write(s->ctx, s->weights[i], host));
            tfm__tensor_publish(s->ctx, s->weights[i], key);
        }
    }
    cl_int error;
    cl_event gate = clCreateUserEvent(sharers[0].ctx->cl, &error);
    assert_int_equal(error, CL_SUCCESS);
    assert_int_equal(clEnqueueBarrierWithWaitList(sharers[0].ctx->queue, 1, &gate, NULL), CL_SUCCESS);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&sharers[t].thread, NULL, square_weights, &sharers[t]), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(sharers[t].thread, NULL);
    assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    clReleaseEvent(gate);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < WEIGHTS; i++) {
            harness_ok(tfm_tensor_read(sharers[t].ctx, result, sharers[t].squares[i]));
            for (int k = 0; k < COUNT; k++)
                assert_true(result[k] == host[k] * host[k]);
        }
    }
    for (int t = 0; t < THREADS; t++)
        tfm_context_free(&sharers[t].ctx);
}

/* Runs without TFM_MEGAKERNEL: only the third context on an empty cache has the kernel. */
static void test_third_context_loads_the_kernel(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    char cache[128];
    snprintf(cache, sizeof(cache), "%s/cache", folder);
    const char *before = getenv("TFM_CACHE_DIR");
    char *saved = before ? strdup(before) : NULL;
    setenv("TFM_CACHE_DIR", cache, 1);
    static float first[ROWS * WIDTH], later[ROWS * WIDTH];
    for (int i = 0; i < 3; i++) {
        tfm_context *ctx = open_with(NULL);
        run(ctx, i == 0 ? first : later, NULL);
        assert_int_equal(ctx->collected > 0, i == 2);
        assert_int_equal(i == 2 ? ctx->builds : 0, 0);
        tfm_context_free(&ctx);
    }
    assert_memory_equal(first, later, sizeof(first));
    if (saved)
        setenv("TFM_CACHE_DIR", saved, 1);
    else
        unsetenv("TFM_CACHE_DIR");
    free(saved);
}

static void write_text(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_kernel_that_does_not_build_is_not_used(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    write_text("megakernel.cl", "this is no kernel\n");
    setenv("TFM_CL_DIR", folder, 1);
    compare(NULL, "1", false);
    unsetenv("TFM_CL_DIR");
}

/* As on a device whose kernels see other addresses than the host. */
static void test_other_addresses_are_noticed(void **unused) {
    (void)unused;
    if (!supported())
        skip();
    write_text(
        "megakernel.cl",
        "__kernel void megakernel(__global ulong *records, const long first, const long count) {\n"
        "    records[0] = 1;\n}\n"
        "__kernel void megakernel_address(__global ulong *records) {\n    records[0] = (ulong)records + 64;\n}\n");
    setenv("TFM_CL_DIR", folder, 1);
    compare(NULL, "1", false);
    unsetenv("TFM_CL_DIR");
}

static int setup(void **state) {
    return mkdtemp(folder) ? harness_setup(state) : -1;
}

static int teardown(void **state) {
    unsetenv("TFM_MEGAKERNEL");
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return harness_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_equal_separate_launches),
        cmocka_unit_test(test_steps_of_many_rows_are_launched_separately),
        cmocka_unit_test(test_other_commands_run_in_order),
        cmocka_unit_test(test_larger_work_groups_run_in_order),
        cmocka_unit_test(test_kernels_join_while_others_run),
        cmocka_unit_test(test_memory_is_released_after_its_last_use),
        cmocka_unit_test(test_several_contexts_do_not_wait_for_each_other),
        cmocka_unit_test(test_contexts_share_buffers),
        cmocka_unit_test(test_third_context_loads_the_kernel),
        cmocka_unit_test(test_kernel_that_does_not_build_is_not_used),
        cmocka_unit_test(test_other_addresses_are_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
