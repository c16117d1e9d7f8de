/* Selection between two tensors: bit-exact, and its gradients. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static const int64_t Y[3] = {3, 5, 33}, C[3] = {3, 1, 33}, A[3] = {3, 5, 1}, B[3] = {1, 5, 33};

static size_t place_of(int64_t k, const int64_t *dims) {
    const int64_t at[3] = {k / (Y[1] * Y[2]), k / Y[2] % Y[1], k % Y[2]};
    size_t place = 0;
    for (int i = 0; i < 3; i++)
        place = place * (size_t)dims[i] + (size_t)(dims[i] == 1 ? 0 : at[i]);
    return place;
}

static void fill_choice(uint8_t *choice) {
    for (int i = 0; i < 99; i++)
        choice[i] = (uint8_t)(i * i % 3);
}

/* Elements of four, two and one byte, including NaN. */
static void test_where_is_exact_and_broadcasts(void **state) {
    (void)state;
    const tfm_dtype dtypes[] = {TFM_F32, TFM_I32, TFM_F16, TFM_U8};
    uint8_t choice[99], a[60], b[660], got[1980];
    harness_random random = {3};
    fill_choice(choice);
    for (size_t t = 0; t < sizeof(dtypes) / sizeof(*dtypes); t++) {
        const size_t size = tfm_dtype_size(dtypes[t]);
        for (size_t i = 0; i < sizeof(b); i++)
            b[i] = (uint8_t)harness_next(&random);
        for (size_t i = 0; i < sizeof(a); i++)
            a[i] = (uint8_t)harness_next(&random);
        tfm_tensor c = harness_tensor(TFM_U8, 3, C, choice), y = harness_tensor(dtypes[t], 3, Y, NULL);
        harness_ok(tfm_where(harness_context(), &y, c, harness_tensor(dtypes[t], 3, A, a),
                             harness_tensor(dtypes[t], 3, B, b)));
        harness_ok(tfm_tensor_read(harness_context(), got, y));
        for (int64_t k = 0; k < 495; k++) {
            const uint8_t *want = choice[place_of(k, C)] ? a + size * place_of(k, A) : b + size * place_of(k, B);
            assert_memory_equal(got + size * (size_t)k, want, size);
        }
        harness_guards(y);
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const uint8_t *choice = c->user;
    for (size_t k = 0; k < c->count; k++)
        y[k] =
            choice[place_of((int64_t)k, C)] ? inputs[0][place_of((int64_t)k, A)] : inputs[1][place_of((int64_t)k, B)];
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return tfm_where(ctx, y, harness_tensor(TFM_U8, 3, C, c->user), inputs[0], inputs[1]);
}

static void test_where_gradients_match_double_precision(void **state) {
    (void)state;
    uint8_t choice[99];
    float a[15], b[165];
    harness_random random = {4};
    fill_choice(choice);
    harness_fill(&random, a, 15, 1);
    harness_fill(&random, b, 165, 1);
    gradient_case c = {.name = "where",
                       .inputs = {{3, {0}, a, false}, {3, {0}, b, false}},
                       .oracle = oracle,
                       .run = run,
                       .user = choice,
                       .count = 495,
                       .tolerance = 3e-6};
    memcpy(c.inputs[0].dims, A, sizeof(A));
    memcpy(c.inputs[1].dims, B, sizeof(B));
    gradient_check(&c);
}

/* y in place of a, then of b; not over the condition or part of an input. */
static void test_where_in_place_of_an_input(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float a_host[66], b_host[33];
    uint8_t choice[66];
    for (int i = 0; i < 66; i++) {
        a_host[i] = (float)i;
        b_host[i % 33] = -1 - (float)(i % 33);
        choice[i] = (uint8_t)(i % 3 == 0);
    }
    tfm_tensor c = HARNESS_TENSOR(TFM_U8, choice, 2, 33), a = HARNESS_TENSOR(TFM_F32, a_host, 2, 33), over = a;
    tfm_tensor b = HARNESS_TENSOR(TFM_F32, b_host, 33), bytes = c;
    harness_ok(tfm_where(ctx, &a, c, a, b));
    harness_ok(tfm_where(ctx, &a, c, b, a));
    harness_guards(a);
    float *got = harness_floats(a);
    for (int i = 0; i < 66; i++)
        assert_true(got[i] == b_host[i % 33]);
    free(got);
    over.offset++;
    harness_refused(tfm_where(ctx, &over, c, a, b), TFM_ERROR_ARGUMENT, "where: the output (2, 33) F32 shares memory");
    harness_refused(tfm_where(ctx, &bytes, c, c, c), TFM_ERROR_ARGUMENT, "where: the output (2, 33) U8 shares memory");
}

static void test_where_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), c = HARNESS_TENSOR(TFM_U8, NULL, 2, 3), y = {0};
    tfm_tensor other = HARNESS_TENSOR(TFM_U8, NULL, 3, 2), ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    harness_refused(tfm_where(ctx, &y, x, x, x), TFM_ERROR_ARGUMENT, "where: the condition is (2, 3) F32");
    harness_refused(tfm_where(ctx, &y, c, x, ints), TFM_ERROR_ARGUMENT, "where: the condition is (2, 3) U8, a");
    harness_refused(tfm_where(ctx, &y, other, x, x), TFM_ERROR_ARGUMENT, "dims must be equal or 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_is_exact_and_broadcasts),
        cmocka_unit_test(test_where_gradients_match_double_precision),
        cmocka_unit_test(test_where_in_place_of_an_input),
        cmocka_unit_test(test_where_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
