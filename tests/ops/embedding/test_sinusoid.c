/* Sinusoidal position table. */
#include <math.h>
#include <stdlib.h>
#include "support/harness.h"
#include "tfm/ops.h"

static void check(int64_t positions, int64_t width, tfm_sinusoid_layout layout, bool given) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor table = {0};
    if (given)
        table = HARNESS_TENSOR(TFM_F32, NULL, positions, width);
    harness_ok(tfm_sinusoid(ctx, &table, given ? 0 : positions, given ? 0 : width, layout));
    assert_int_equal(table.dims[0], positions);
    assert_int_equal(table.dims[1], width);
    float *got = harness_floats(table);
    const int64_t sines = (width + 1) / 2;
    for (int64_t p = 0; p < positions; p++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t pair = layout == TFM_SINUSOID_SPLIT ? (c < sines ? c : c - sines) : c / 2;
            const bool sine = layout == TFM_SINUSOID_SPLIT ? c < sines : c % 2 == 0;
            const double angle = (double)p / pow(10000, 2 * (double)pair / (double)width);
            assert_true(fabs(got[p * width + c] - (sine ? sin(angle) : cos(angle))) < 1e-7);
        }
    if (given)
        harness_guards(table);
    free(got);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
}

static void test_sinusoid_matches_double_precision(void **state) {
    (void)state;
    const int64_t widths[] = {1, 2, 3, 17, 64, 65};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int given = 0; given < 2; given++) {
            check(300, widths[i], TFM_SINUSOID_INTERLEAVED, given);
            check(300, widths[i], TFM_SINUSOID_SPLIT, given);
        }
}

/* fairseq's formula: log(10000) / (half - 1) between the log frequencies, and 0 in the last column of an odd width. */
static void test_sinusoid_of_fairseq_matches_its_formula(void **state) {
    (void)state;
    const int64_t widths[] = {1, 2, 3, 17, 64};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        const int64_t width = widths[i], half = width / 2;
        tfm_tensor table = {0};
        tfm_scope_open(harness_context());
        harness_ok(tfm_sinusoid(harness_context(), &table, 300, width, TFM_SINUSOID_FAIRSEQ));
        float *got = harness_floats(table);
        for (int64_t k = 0; k < 300 * width; k++) {
            const int64_t column = k % width, pair = half ? column % half : 0;
            const double rate = half > 1 ? exp(-log(10000) / (double)(half - 1) * (double)pair) : 1;
            const double angle = (double)(k / width) * rate;
            assert_true(fabs(got[k] - (column >= 2 * half ? 0 : column < half ? sin(angle) : cos(angle))) < 1e-6);
        }
        free(got);
        harness_ok(tfm_scope_close(harness_context(), 0, NULL));
    }
}

/* PE(p + k) is PE(p) with each pair rotated by the angle k / 10000^(2i/E), the same for all p: the paper's motivation.
 * */
static void check_linear(tfm_sinusoid_layout layout) {
    tfm_context *ctx = harness_context();
    const int64_t positions = 500, width = 64;
    tfm_tensor table = {0};
    harness_ok(tfm_sinusoid(ctx, &table, positions, width, layout));
    float *pe = harness_floats(table);
    const int64_t shifts[] = {1, 7, 200};
    for (size_t s = 0; s < 3; s++)
        for (int64_t pair = 0; pair < width / 2; pair++) {
            const int64_t sine = layout == TFM_SINUSOID_SPLIT ? pair : 2 * pair;
            const int64_t cosine = layout == TFM_SINUSOID_SPLIT ? pair + width / 2 : 2 * pair + 1;
            const int64_t k = shifts[s];
            /* The rotation matrix, from PE(0) = (0, 1) and PE(k). */
            const double a = pe[k * width + cosine], b = pe[k * width + sine];
            for (int64_t p = 0; p + k < positions; p++) {
                const double u = pe[p * width + sine], v = pe[p * width + cosine];
                assert_true(fabs(pe[(p + k) * width + sine] - (a * u + b * v)) < 3e-7);
                assert_true(fabs(pe[(p + k) * width + cosine] - (a * v - b * u)) < 3e-7);
            }
        }
    free(pe);
    tfm_tensor_free(ctx, &table);
}

static void test_shifted_sinusoid_is_a_linear_map(void **state) {
    (void)state;
    check_linear(TFM_SINUSOID_INTERLEAVED);
    check_linear(TFM_SINUSOID_SPLIT);
}

static void test_sinusoid_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor flat = HARNESS_TENSOR(TFM_F32, NULL, 28), ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 5), none = {0};
    harness_refused(tfm_sinusoid(ctx, &flat, 0, 0, TFM_SINUSOID_SPLIT), TFM_ERROR_ARGUMENT,
                    "sinusoid: table is (28) F32");
    harness_refused(tfm_sinusoid(ctx, &ints, 0, 0, TFM_SINUSOID_SPLIT), TFM_ERROR_ARGUMENT, "sinusoid");
    harness_refused(tfm_sinusoid(ctx, &none, 3, 4, (tfm_sinusoid_layout)5), TFM_ERROR_ARGUMENT,
                    "sinusoid: there is no");
    harness_refused(tfm_sinusoid(ctx, &none, 0, 4, TFM_SINUSOID_SPLIT), TFM_ERROR_ARGUMENT, "sinusoid: ");
    harness_refused(tfm_sinusoid(ctx, &none, 3, -4, TFM_SINUSOID_SPLIT), TFM_ERROR_ARGUMENT, "sinusoid: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sinusoid_matches_double_precision),
        cmocka_unit_test(test_sinusoid_of_fairseq_matches_its_formula),
        cmocka_unit_test(test_shifted_sinusoid_is_a_linear_map),
        cmocka_unit_test(test_sinusoid_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
