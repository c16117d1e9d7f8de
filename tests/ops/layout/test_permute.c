/* Permutation of dimensions: bit-exact. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static void check(harness_random *random, tfm_dtype dtype, int rank, const int64_t *dims, const int *axes) {
    tfm_context *ctx = harness_context();
    const size_t size = tfm_dtype_size(dtype);
    int64_t count = 1, out_dims[TFM_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
        out_dims[i] = dims[axes[i]];
    }
    char *host = malloc((size_t)count * size), *want = malloc((size_t)count * size),
         *got = malloc((size_t)count * size);
    assert_true(host && want && got);
    for (size_t i = 0; i < (size_t)count * size; i++)
        host[i] = (char)harness_next(random); /* including NaN and subnormals */
    for (int64_t k = 0; k < count; k++) {
        int64_t place[TFM_MAX_RANK], at = 0;
        for (int64_t i = rank - 1, rest = k; i >= 0; rest /= out_dims[i--])
            place[axes[i]] = rest % out_dims[i];
        for (int i = 0; i < rank; i++)
            at = at * dims[i] + place[i];
        memcpy(want + (size_t)k * size, host + (size_t)at * size, size);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = harness_tensor(dtype, rank, dims, host), y = harness_tensor(dtype, rank, out_dims, NULL);
    harness_ok(tfm_permute(ctx, &y, x, axes));
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, want, (size_t)count * size);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(host);
    free(want);
    free(got);
}

static void test_permute_is_exact(void **state) {
    (void)state;
    harness_random random = {1};
    const tfm_dtype dtypes[] = {TFM_F32, TFM_F16, TFM_U8, TFM_I32};
    for (int i = 0; i < 4; i++) {
        check(&random, dtypes[i], 1, (int64_t[]){65}, (int[]){0});
        check(&random, dtypes[i], 2, (int64_t[]){65, 17}, (int[]){1, 0});
        check(&random, dtypes[i], 3, (int64_t[]){1, 1, 1}, (int[]){2, 0, 1});
        check(&random, dtypes[i], 3, (int64_t[]){3, 17, 65}, (int[]){2, 0, 1});
        check(&random, dtypes[i], 4, (int64_t[]){3, 17, 2, 65}, (int[]){0, 2, 1, 3}); /* heads first */
        check(&random, dtypes[i], 4, (int64_t[]){3, 17, 2, 65}, (int[]){0, 1, 2, 3});
        check(&random, dtypes[i], 5, (int64_t[]){2, 3, 5, 7, 17}, (int[]){4, 3, 2, 1, 0});
        check(&random, dtypes[i], 5, (int64_t[]){7, 3, 5, 2, 3}, (int[]){1, 3, 0, 2, 4});
        check(&random, dtypes[i], 5, (int64_t[]){3, 17, 2, 65, 33}, (int[]){2, 4, 0, 3, 1});
        check(&random, dtypes[i], 5, (int64_t[]){2, 65, 3, 5, 16}, (int[]){3, 4, 0, 2, 1});
        check(&random, dtypes[i], 5, (int64_t[]){1, 3, 1, 65, 1}, (int[]){3, 4, 1, 0, 2});
    }
    check(&random, TFM_F32, 2, (int64_t[]){1000, 1001}, (int[]){1, 0});
    check(&random, TFM_F32, 3, (int64_t[]){301, 333, 3}, (int[]){1, 0, 2});
}

typedef struct backward_case {
    int rank;
    int64_t dims[TFM_MAX_RANK];
    int axes[TFM_MAX_RANK];
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (size_t k = 0; k < c->count; k++) {
        int64_t place[TFM_MAX_RANK], at = 0, rest = (int64_t)k;
        for (int i = b->rank - 1; i >= 0; rest /= b->dims[b->axes[i--]])
            place[b->axes[i]] = rest % b->dims[b->axes[i]];
        for (int i = 0; i < b->rank; i++)
            at = at * b->dims[i] + place[i];
        y[k] = inputs[0][at];
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return tfm_permute(ctx, y, inputs[0], ((const backward_case *)c->user)->axes);
}

/* y = x permuted twice: gradients in between are overwritten, not accumulated. */
static tfm_status run_twice(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor same = {0};
    int identity[TFM_MAX_RANK];
    for (int i = 0; i < b->rank; i++)
        identity[i] = i;
    tfm_permute(ctx, &same, inputs[0], identity);
    return tfm_permute(ctx, y, same, b->axes);
}

static void test_permute_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    const backward_case cases[] = {
        {1, {1}, {0}},
        {2, {65, 17}, {1, 0}},
        {3, {3, 17, 65}, {2, 0, 1}},
        {2, {1000, 3}, {1, 0}},
        {4, {3, 17, 2, 65}, {0, 2, 1, 3}},
        {5, {2, 3, 5, 7, 17}, {4, 2, 3, 0, 1}},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        const backward_case *b = &cases[i / 2];
        size_t count = 1;
        for (int k = 0; k < b->rank; k++)
            count *= (size_t)b->dims[k];
        float *host = malloc(count * sizeof(float));
        assert_non_null(host);
        harness_fill(&random, host, count, 1);
        gradient_case c = {.name = "permute",
                           .inputs = {{.rank = b->rank, .host = host}},
                           .oracle = oracle_backward,
                           .run = i % 2 ? run_twice : run_backward,
                           .user = b,
                           .count = count,
                           .tolerance = 1e-6};
        memcpy(c.inputs[0].dims, b->dims, sizeof(b->dims));
        gradient_check(&c);
        free(host);
    }
}

static void test_permute_allocates_its_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t host[] = {0, 1, 2, 3, 4, 5};
    tfm_tensor x = HARNESS_TENSOR(TFM_I32, host, 2, 3), y = {0};
    harness_ok(tfm_permute(ctx, &y, x, (int[]){1, 0}));
    assert_true(y.rank == 2 && y.dims[0] == 3 && y.dims[1] == 2);
    int32_t *got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){0, 3, 1, 4, 2, 5}), sizeof(host));
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_permute_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), y = {0};
    const char *sentence = "permute: the axes must be those of (2, 3) F32, 0 to 1, each once";
    harness_refused(tfm_permute(ctx, &y, (tfm_tensor){0}, (int[]){0, 1}), TFM_ERROR_ARGUMENT, "permute: input 1");
    harness_refused(tfm_permute(ctx, &y, x, NULL), TFM_ERROR_ARGUMENT, "permute: axes is NULL");
    harness_refused(tfm_permute(ctx, &y, x, (int[]){0, 0}), TFM_ERROR_ARGUMENT, sentence);
    harness_refused(tfm_permute(ctx, &y, x, (int[]){0, 2}), TFM_ERROR_ARGUMENT, sentence);
    harness_refused(tfm_permute(ctx, &y, x, (int[]){-1, 0}), TFM_ERROR_ARGUMENT, sentence);
    y = x;
    harness_refused(tfm_permute(ctx, &y, x, (int[]){1, 0}), TFM_ERROR_ARGUMENT,
                    "permute: the output is (2, 3) F32, the result (3, 2) F32");
    harness_refused(tfm_permute(ctx, &y, x, (int[]){0, 1}), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permute_is_exact),
        cmocka_unit_test(test_permute_allocates_its_output),
        cmocka_unit_test(test_permute_rejects_bad_arguments),
        cmocka_unit_test(test_permute_gradients_match_double_precision),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
