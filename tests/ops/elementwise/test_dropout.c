/* Dropout: rate, independence, and the same mask in backward and forward. The op's self-test compares the mask with a
 * host Philox. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

/* Dropout of ones. */
static float *dropped_ones(int64_t rows, int64_t n, tfm_dropout_options dropout, bool in_place) {
    tfm_context *ctx = harness_context();
    float *ones = malloc((size_t)(rows * n) * sizeof(float));
    assert_non_null(ones);
    for (int64_t i = 0; i < rows * n; i++)
        ones[i] = 1;
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, ones, rows, n), y = in_place ? x : HARNESS_TENSOR(TFM_F32, NULL, rows, n);
    harness_ok(tfm_dropout(ctx, &y, x, &dropout));
    harness_guards(y);
    free(ones);
    float *got = harness_floats(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return got;
}

/* Each element is 0 or 1 / (1 - rate), at the given rate within six standard deviations. */
static void test_dropout_rate_is_met(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    const float rates[] = {0, 0.1f, 0.5f, 0.9f};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
        for (size_t r = 0; r < sizeof(rates) / sizeof(*rates); r++) {
            const int64_t rows = 33, n = sizes[s];
            float *got =
                dropped_ones(rows, n, (tfm_dropout_options){.rate = rates[r], .seed = 5, .stream = s}, s % 2 == 0);
            int64_t dropped = 0;
            for (int64_t i = 0; i < rows * n; i++) {
                dropped += got[i] == 0;
                assert_true(got[i] == 0 || fabsf(got[i] * (1 - rates[r]) - 1) < 1e-6f);
            }
            const double want = rates[r] * (double)(rows * n), deviation = sqrt(want * (1 - rates[r]));
            assert_true(fabs((double)dropped - want) <= 6 * deviation + 1e-3);
            free(got);
        }
}

/* The mask marks retained elements; without dropout, all of them. */
static void test_dropout_mask_tells_kept_elements(void **state) {
    (void)state;
    const float rates[] = {0, 0.5f};
    float ones[3 * 333];
    for (int i = 0; i < 999; i++)
        ones[i] = 1;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, ones, 3, 333);
    for (int r = 0; r < 2; r++) {
        const tfm_dropout_options dropout = {.rate = rates[r], .seed = 3, .stream = 9};
        tfm_tensor y = {0}, mask = {0};
        uint8_t stayed[999];
        harness_ok(tfm_dropout_masked(harness_context(), &y, &mask, x, &dropout));
        assert_true(mask.dtype == TFM_U8 && mask.rank == 2 && mask.dims[1] == 333);
        harness_ok(tfm_tensor_read(harness_context(), stayed, mask));
        float *got = harness_floats(y);
        for (int i = 0; i < 999; i++)
            assert_int_equal(stayed[i], got[i] != 0);
        free(got);
        tfm_tensor_free(harness_context(), &y);
        tfm_tensor_free(harness_context(), &mask);
    }
}

/* Another seed, stream or row samples another mask; equal ones the same, for any number of rows. */
static void test_dropout_seed_and_stream_select_the_mask(void **state) {
    (void)state;
    const int64_t n = 1000;
    float *first = dropped_ones(2, n, (tfm_dropout_options){.rate = 0.5f, .seed = 1, .stream = 1}, false);
    float *same = dropped_ones(1, n, (tfm_dropout_options){.rate = 0.5f, .seed = 1, .stream = 1}, true);
    assert_memory_equal(first, same, (size_t)n * sizeof(float));
    const tfm_dropout_options others[] = {{.rate = 0.5f, .seed = 2, .stream = 1},
                                          {.rate = 0.5f, .seed = 1, .stream = 2},
                                          {.rate = 0.5f, .seed = 1ull << 32 | 1, .stream = 1},
                                          {.rate = 0.5f, .seed = 1, .stream = 1ull << 32 | 1}};
    for (size_t o = 0; o <= sizeof(others) / sizeof(*others); o++) {
        float *other = o == 0 ? NULL : dropped_ones(1, n, others[o - 1], false);
        const float *row = o == 0 ? first + n : other; /* o = 0: the second row of the first */
        int64_t agree = 0;
        for (int64_t i = 0; i < n; i++)
            agree += first[i] == row[i];
        assert_in_range(agree, 405, 595); /* 6 standard deviations */
        free(other);
    }
    free(first);
    free(same);
}

static const double *factors; /* of the current case */

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t i = 0; i < c->count; i++)
        y[i] = factors[i] * inputs[0][i];
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return tfm_dropout(ctx, y, inputs[0], c->user);
}

static void test_dropout_backward_uses_the_forward_mask(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000};
    const tfm_dropout_options dropout = {.rate = 0.4f, .seed = 77, .stream = 3};
    harness_random random = {8};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        float host[3000], *got = dropped_ones(3, sizes[s], dropout, false);
        double wide[3000];
        harness_fill(&random, host, 3000, 1);
        for (int64_t i = 0; i < 3 * sizes[s]; i++)
            wide[i] = got[i];
        factors = wide;
        gradient_check(&(gradient_case){.name = "dropout",
                                        .inputs = {{2, {3, sizes[s]}, host, false}},
                                        .oracle = oracle,
                                        .run = run,
                                        .user = &dropout,
                                        .count = (size_t)(3 * sizes[s]),
                                        .tolerance = 1e-6});
        free(got);
    }
}

static void test_dropout_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 3, 17), y = {0}, over = x;
    const float bad[] = {-0.1f, 1, 2, NAN};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        harness_refused(tfm_dropout(harness_context(), &y, x, &(tfm_dropout_options){.rate = bad[i]}),
                        TFM_ERROR_ARGUMENT, "dropout: the dropout rate is");
    over.offset++;
    harness_refused(tfm_dropout(harness_context(), &over, x, NULL), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_mask_tells_kept_elements),
        cmocka_unit_test(test_dropout_rate_is_met),
        cmocka_unit_test(test_dropout_seed_and_stream_select_the_mask),
        cmocka_unit_test(test_dropout_backward_uses_the_forward_mask),
        cmocka_unit_test(test_dropout_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
