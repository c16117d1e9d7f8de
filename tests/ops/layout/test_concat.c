/* Concatenation: bit-exact. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { MOST = 4 };

/* `count` inputs (before, sizes[k], after) along axis 1. */
static void check(harness_random *random, tfm_dtype dtype, int64_t before, size_t count, const int64_t *sizes,
                  int64_t after) {
    tfm_context *ctx = harness_context();
    const size_t size = tfm_dtype_size(dtype);
    int64_t total = 0, done = 0;
    for (size_t k = 0; k < count; k++)
        total += sizes[k];
    const size_t bytes = (size_t)(before * total * after) * size, row = (size_t)(total * after) * size;
    char *want = malloc(bytes), *got = malloc(bytes);
    assert_true(want && got);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor inputs[MOST], y = HARNESS_TENSOR(dtype, NULL, before, total, after);
    for (size_t k = 0; k < count; done += sizes[k++]) {
        const size_t part = (size_t)(sizes[k] * after) * size;
        char *host = malloc((size_t)before * part);
        assert_non_null(host);
        for (size_t i = 0; i < (size_t)before * part; i++)
            host[i] = (char)harness_next(random);
        for (int64_t b = 0; b < before; b++)
            memcpy(want + (size_t)b * row + (size_t)(done * after) * size, host + (size_t)b * part, part);
        inputs[k] = HARNESS_TENSOR(dtype, host, before, sizes[k], after);
        free(host);
    }
    harness_ok(tfm_concat(ctx, &y, count, inputs, before % 2 ? 1 : -2));
    harness_ok(tfm_tensor_read(ctx, got, y));
    assert_memory_equal(got, want, bytes);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(want);
    free(got);
}

static void test_concat_is_exact(void **state) {
    (void)state;
    harness_random random = {1};
    const tfm_dtype dtypes[] = {TFM_F32, TFM_F16, TFM_U8, TFM_I32};
    const int64_t widths[] = {1, 3, 17, 65};
    for (int i = 0; i < 4; i++)
        for (int w = 0; w < 4; w++) {
            check(&random, dtypes[i], 1, 1, (int64_t[]){5}, widths[w]);
            check(&random, dtypes[i], 3, 2, (int64_t[]){65, 1}, widths[w]);
            check(&random, dtypes[i], 2, 4, (int64_t[]){1, 17, 3, 1000}, widths[w]);
        }
    check(&random, TFM_F32, 20001, 2, (int64_t[]){1, 2}, 3);
}

/* (a, b, a) of (rows, sizes[k], after) along axis 1, an input twice; or, with `between`, of copies, so the tape
 * computes gradients. */
typedef struct backward_case {
    int64_t rows, sizes[2], after;
    bool between;
} backward_case;

static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    for (int64_t r = 0; r < b->rows; r++)
        for (int k = 0; k < 3; k++)
            for (int64_t i = 0, run = b->sizes[k % 2] * b->after; i < run; i++)
                *y++ = inputs[k % 2][r * run + i];
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    tfm_tensor parts[3] = {inputs[0], inputs[1], inputs[0]};
    for (int k = 0; k < 2 && ((const backward_case *)c->user)->between; k++) {
        parts[k] = (tfm_tensor){0};
        tfm_activate(ctx, &parts[k], inputs[k], TFM_NO_ACTIVATION);
    }
    return tfm_concat(ctx, y, 3, parts, 1);
}

static void test_concat_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {2};
    const backward_case cases[] = {{1, {1, 3}, 1, false},    {3, {17, 1}, 5, false}, {5, {65, 17}, 1, true},
                                   {2, {1000, 3}, 1, false}, {1, {3, 2}, 65, true},  {300, {1, 3}, 3, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const backward_case *b = &cases[i];
        float host[2][5000];
        for (int k = 0; k < 2; k++)
            harness_fill(&random, host[k], (size_t)(b->rows * b->sizes[k] * b->after), 1);
        gradient_check(&(gradient_case){.name = "concat",
                                        .inputs = {{3, {b->rows, b->sizes[0], b->after}, host[0], false},
                                                   {3, {b->rows, b->sizes[1], b->after}, host[1], false}},
                                        .oracle = oracle_backward,
                                        .run = run_backward,
                                        .user = b,
                                        .count = (size_t)(b->rows * (2 * b->sizes[0] + b->sizes[1]) * b->after),
                                        .tolerance = 1e-6});
    }
}

/* Contiguous inputs, and the first axis. */
static void test_concat_along_first_axis_is_exact(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t host[] = {0, 1, 2, 3, 4, 5};
    tfm_tensor a = HARNESS_TENSOR(TFM_I32, host, 1, 2), b = HARNESS_TENSOR(TFM_I32, host + 2, 2, 2), y = {0};
    harness_ok(tfm_concat(ctx, &y, 3, (tfm_tensor[]){a, b, a}, 0));
    assert_true(y.rank == 2 && y.dims[0] == 4 && y.dims[1] == 2);
    int32_t *got = harness_ints(y);
    assert_memory_equal(got, ((int32_t[]){0, 1, 2, 3, 4, 5, 0, 1}), 8 * sizeof(int32_t));
    free(got);
    tfm_tensor_free(ctx, &y);
}

static void test_concat_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), b = HARNESS_TENSOR(TFM_F32, NULL, 2, 4), y = {0}, part;
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3), flat = HARNESS_TENSOR(TFM_F32, NULL, 6);
    harness_refused(tfm_concat(ctx, &y, 0, NULL, 0), TFM_ERROR_ARGUMENT, "concat: inputs is NULL");
    harness_refused(tfm_concat(ctx, &y, 0, &a, 0), TFM_ERROR_ARGUMENT, "concat: no inputs");
    harness_refused(tfm_concat(ctx, &y, 2, (tfm_tensor[]){a, {0}}, 0), TFM_ERROR_ARGUMENT, "concat: input 1 is an");
    harness_refused(tfm_concat(ctx, &y, 2, (tfm_tensor[]){a, b}, 0), TFM_ERROR_ARGUMENT,
                    "concat: input 2 is (2, 4) F32, but input 1 is (2, 3) F32: all but dimension 0 must be equal");
    harness_refused(tfm_concat(ctx, &y, 2, (tfm_tensor[]){a, ints}, 0), TFM_ERROR_ARGUMENT, "(2, 3) I32, but");
    harness_refused(tfm_concat(ctx, &y, 2, (tfm_tensor[]){a, flat}, 0), TFM_ERROR_ARGUMENT, "(6) F32, but");
    harness_refused(tfm_concat(ctx, &y, 2, (tfm_tensor[]){a, b}, 2), TFM_ERROR_ARGUMENT, "concat: axis 2 of");
    harness_refused(tfm_concat(ctx, &b, 2, (tfm_tensor[]){a, a}, 0), TFM_ERROR_ARGUMENT, "concat: the output is");
    harness_ok(tfm_tensor_rows(ctx, &part, a, 1, 1));
    harness_refused(tfm_concat(ctx, &a, 2, (tfm_tensor[]){part, part}, 0), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_concat_is_exact),
        cmocka_unit_test(test_concat_along_first_axis_is_exact),
        cmocka_unit_test(test_concat_rejects_bad_arguments),
        cmocka_unit_test(test_concat_gradients_match_double_precision),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
