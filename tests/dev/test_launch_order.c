/* Several contexts on one device that launch the same kernel with different grid sizes concurrently. PoCL aborts if the
 * largest so far runs next to another (lib/dev/pocl/launch_order.c), so the tests check only that the process survives,
 * with correct results. Skipped on other drivers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"
#include "tfm/ops.h"

enum { CONTEXTS = 9, ROUNDS = 30, LAUNCHES = 150, WIDEST = 512 };

static bool on_pocl(void) {
    return strcmp(tfm_context_device(harness_context())->platform, "Portable Computing Language") == 0;
}

static tfm_context *open_another(void) {
    tfm_context *ctx = NULL;
    harness_ok(tfm_context_open(&ctx, NULL));
    return ctx;
}

/* `rows` of `length` ones. */
static tfm_tensor ones(tfm_context *ctx, int64_t rows, int64_t length) {
    tfm_tensor x = {0};
    float *host = malloc((size_t)(rows * length) * sizeof(float));
    for (int64_t i = 0; i < rows * length; i++)
        host[i] = 1;
    harness_ok(tfm_tensor_new(ctx, &x, TFM_F32, 2, (int64_t[]){rows, length}));
    harness_ok(tfm_tensor_write(ctx, x, host));
    free(host);
    return x;
}

/* Launches of eight contexts wait for a long one, so that the driver starts several at once, and a larger one of a
 * ninth among them. */
static void test_wider_launch_waits_on_pocl(void **state) {
    (void)state;
    if (!on_pocl())
        skip();
    const int64_t length = 1 << 14, long_length = 1 << 22;
    const int units = tfm_context_device(harness_context())->compute_units;
    const int64_t narrow = units > 0 && units < 16 ? units : 16; /* one row per possible PoCL thread */
    tfm_context *contexts[CONTEXTS];
    tfm_tensor few[CONTEXTS], y[CONTEXTS] = {{0}}, sum = {0};
    for (int c = 0; c < CONTEXTS; c++) {
        contexts[c] = open_another();
        few[c] = ones(contexts[c], narrow, length);
        harness_ok(tfm_softmax(contexts[c], &y[c], few[c])); /* compiles, and waits for it */
    }
    tfm_context *wide = contexts[CONTEXTS - 1], *first = harness_context();
    tfm_tensor many_ones = ones(first, 1, long_length);
    harness_ok(tfm_add(first, &sum, many_ones, many_ones));
    for (int64_t rows = narrow + 1; rows <= narrow + ROUNDS; rows++) {
        tfm_tensor many = ones(wide, rows, length), z = {0};
        harness_ok(tfm_tensor_new(wide, &z, TFM_F32, 2, many.dims));
        harness_ok(tfm_add(first, &sum, many_ones, many_ones));
        for (int c = 0; c < CONTEXTS - 1; c++)
            harness_ok(tfm_softmax(contexts[c], &y[c], few[c]));
        harness_ok(tfm_softmax(wide, &z, many));
        float *host = malloc((size_t)(rows * length) * sizeof(float));
        harness_ok(tfm_tensor_read(wide, host, z));
        assert_true(host[0] == 1 / (float)length && host[rows * length - 1] == 1 / (float)length);
        free(host);
        tfm_tensor_free(wide, &z);
        tfm_tensor_free(wide, &many);
    }
    for (int c = 0; c < CONTEXTS; c++) {
        harness_ok(tfm_context_finish(contexts[c]));
        tfm_context_free(&contexts[c]);
    }
    tfm_tensor_free(first, &sum);
    tfm_tensor_free(first, &many_ones);
}

typedef struct worker {
    tfm_context *ctx;
    uint64_t seed;
    char wrong[512]; /* the error message, or "" */
} worker;

/* A random number of rows; cmocka assertions work in the main thread only. */
static void *work(void *user) {
    worker *w = user;
    harness_random random = {w->seed};
    float host[WIDEST * 3];
    for (int i = 0; i < LAUNCHES && !w->wrong[0]; i++) {
        const int64_t rows = harness_range(&random, 1, 1 + (int64_t)(WIDEST - 1) * i / LAUNCHES);
        for (int64_t j = 0; j < rows * 3; j++)
            host[j] = (float)(j % 3);
        tfm_scope_open(w->ctx);
        tfm_tensor x = {0}, y = {0}, z = {0};
        if (tfm_tensor_new(w->ctx, &x, TFM_F32, 2, (int64_t[]){rows, 3}) != TFM_OK ||
            tfm_tensor_write(w->ctx, x, host) != TFM_OK || tfm_add(w->ctx, &y, x, x) != TFM_OK ||
            tfm_softmax(w->ctx, &z, y) != TFM_OK || tfm_tensor_read(w->ctx, host, z) != TFM_OK)
            snprintf(w->wrong, sizeof(w->wrong), "%s", tfm_error_message());
        /* 1, e^2 and e^4 over their sum */
        else if (!harness_poses() && !(host[rows * 3 - 1] > 0.866f && host[rows * 3 - 1] < 0.868f))
            snprintf(w->wrong, sizeof(w->wrong), "softmax of %d rows is wrong", (int)rows);
        tfm_scope_close(w->ctx, 0, NULL);
    }
    return NULL;
}

static void test_threads_launch_grids_of_any_width(void **state) {
    (void)state;
    if (!on_pocl())
        skip();
    worker workers[CONTEXTS];
    pthread_t threads[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++)
        workers[i] = (worker){.ctx = open_another(), .seed = (uint64_t)i + 1};
    for (int i = 0; i < CONTEXTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < CONTEXTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CONTEXTS; i++) {
        if (workers[i].wrong[0])
            fail_msg("context %d: %s", i, workers[i].wrong);
        tfm_context_free(&workers[i].ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wider_launch_waits_on_pocl),
        cmocka_unit_test(test_threads_launch_grids_of_any_width),
    };
    return cmocka_run_group_tests(tests, NULL, harness_teardown);
}
