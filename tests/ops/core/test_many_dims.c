/* Tensors of up to 8 dimensions, and empty tensors, against plain loops. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

/* Coordinates of element `k` of row-major dims. */
static void place_of(int64_t *place, int64_t k, int rank, const int64_t *dims) {
    for (int i = rank - 1; i >= 0; k /= dims[i--])
        place[i] = k % dims[i];
}

/* Offset of coordinates in a tensor of the given dims; dims of 1 broadcast. */
static size_t offset_of(const int64_t *place, int rank, const int64_t *dims) {
    int64_t at = 0;
    for (int i = 0; i < rank; i++)
        at = at * dims[i] + (dims[i] == 1 ? 0 : place[i]);
    return (size_t)at;
}

/* No two dims can be merged: y has 8; kernels loop over 5 and the host over the rest. */
static void test_permute_of_eight_dims_is_exact(void **state) {
    (void)state;
    const int64_t dims[8] = {2, 3, 2, 1, 3, 2, 4, 5};
    const int axes[8] = {7, 2, 5, 3, 0, 6, 1, 4};
    enum { COUNT = 2 * 3 * 2 * 3 * 2 * 4 * 5 };
    float host[COUNT];
    int64_t permuted[8];
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    for (int i = 0; i < 8; i++)
        permuted[i] = dims[axes[i]];
    tfm_tensor x = harness_tensor(TFM_F32, 8, dims, host), y = harness_tensor(TFM_F32, 8, permuted, NULL);
    harness_ok(tfm_permute(harness_context(), &y, x, axes));
    harness_guards(y);
    float *got = harness_floats(y);
    for (int64_t k = 0; k < COUNT; k++) {
        int64_t place[8], from[8];
        place_of(place, k, 8, permuted);
        for (int i = 0; i < 8; i++)
            from[axes[i]] = place[i];
        assert_true(got[k] == host[offset_of(from, 8, dims)]);
    }
    free(got);
}

static void test_slice_of_seven_dims_is_exact(void **state) {
    (void)state;
    const int64_t dims[7] = {3, 2, 3, 2, 3, 2, 3};
    tfm_range ranges[7];
    enum { COUNT = 3 * 2 * 3 * 2 * 3 * 2 * 3 };
    float host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    for (int i = 0; i < 7; i++)
        ranges[i] = dims[i] == 3 ? (tfm_range){2, INT64_MIN, -2} : (tfm_range){1, 2, 1};
    tfm_tensor x = harness_tensor(TFM_F32, 7, dims, host), y = {0};
    harness_ok(tfm_slice(harness_context(), &y, x, ranges));
    float *got = harness_floats(y);
    assert_int_equal(tfm_tensor_count(y), 16);
    for (int64_t k = 0; k < 16; k++) {
        int64_t place[7];
        place_of(place, k, 7, y.dims);
        for (int i = 0; i < 7; i++)
            place[i] = dims[i] == 3 ? 2 - 2 * place[i] : 1;
        assert_true(got[k] == host[offset_of(place, 7, dims)]);
    }
    free(got);
}

static const int64_t A[8] = {2, 1, 3, 1, 2, 1, 3, 1}, B[8] = {1, 3, 1, 2, 1, 2, 1, 3},
                     SUM[8] = {2, 3, 3, 2, 2, 2, 3, 3};

/* Dims of a condition that broadcasts against A and B. */
static const int64_t CHOICE[8] = {2, 1, 1, 2, 1, 2, 1, 3};
static uint8_t choice[24];
typedef enum form { ADD, MUL, WHERE, FORMS } form;

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const form f = *(const form *)c->user;
    for (size_t k = 0; k < c->count; k++) {
        int64_t place[8];
        place_of(place, (int64_t)k, 8, SUM);
        const double a = inputs[0][offset_of(place, 8, A)], b = inputs[1][offset_of(place, 8, B)];
        y[k] = f == ADD ? a + b : f == MUL ? a * b : choice[offset_of(place, 8, CHOICE)] ? a : b;
    }
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const form f = *(const form *)c->user;
    return f == ADD   ? tfm_add(ctx, y, inputs[0], inputs[1])
           : f == MUL ? tfm_mul(ctx, y, inputs[0], inputs[1])
                      : tfm_where(ctx, y, harness_tensor(TFM_U8, 8, CHOICE, choice), inputs[0], inputs[1]);
}

/* Result and gradients against the oracle. */
static void check_case(const gradient_case *c) {
    static double wide[GRADIENT_INPUTS][1296], want[1296];
    tfm_tensor inputs[GRADIENT_INPUTS], y = {0};
    double *at[GRADIENT_INPUTS] = {NULL};
    for (int i = 0; i < GRADIENT_INPUTS && c->inputs[i].rank; i++) {
        inputs[i] = harness_tensor(TFM_F32, c->inputs[i].rank, c->inputs[i].dims, c->inputs[i].host);
        at[i] = wide[i];
        for (size_t k = 0; k < tfm_tensor_count(inputs[i]); k++)
            wide[i][k] = (double)c->inputs[i].host[k];
    }
    c->oracle(c, want, at);
    harness_ok(c->run(c, harness_context(), &y, inputs));
    assert_int_equal(tfm_tensor_count(y), c->count);
    float *got = harness_floats(y);
    harness_close(got, want, c->count, c->tolerance, c->name);
    free(got);
    gradient_check(c);
}

static const int64_t X[8] = {2, 3, 2, 2, 3, 2, 2, 3}, TAKEN[8] = {1, 3, 2, 2, 2, 2, 3, 2};
enum { TAKEN_AXIS = 6, TAKEN_COUNT = 1 * 3 * 2 * 2 * 2 * 2 * 3 * 2 };
static int32_t taken[TAKEN_COUNT];

static void oracle_gather(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t k = 0; k < c->count; k++) {
        int64_t place[8];
        place_of(place, (int64_t)k, 8, TAKEN);
        place[TAKEN_AXIS] = taken[k] < 0 ? taken[k] + X[TAKEN_AXIS] : taken[k];
        y[k] = place[TAKEN_AXIS] < X[TAKEN_AXIS] ? inputs[0][offset_of(place, 8, X)] : 0;
    }
}

static tfm_status run_gather(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    (void)c;
    return tfm_gather_elements(ctx, y, inputs[0], harness_tensor(TFM_I32, 8, TAKEN, taken), TAKEN_AXIS);
}

/* Negative indices, and indices out of range. */
static void test_gather_elements_of_eight_dims(void **state) {
    (void)state;
    harness_random random = {6};
    float x[864];
    harness_fill(&random, x, 864, 1);
    for (int i = 0; i < TAKEN_COUNT; i++)
        taken[i] = i * i % 5 - 2;
    gradient_case c = {.name = "gather_elements of 8 dims",
                       .inputs = {{8, {0}, x, false}},
                       .oracle = oracle_gather,
                       .run = run_gather,
                       .count = TAKEN_COUNT,
                       .tolerance = 3e-6};
    memcpy(c.inputs[0].dims, X, sizeof(X));
    check_case(&c);
}

static void test_broadcast_of_eight_dims(void **state) {
    (void)state;
    harness_random random = {5};
    float a[36], b[36];
    harness_fill(&random, a, 36, 1);
    harness_fill(&random, b, 36, 1);
    for (size_t i = 0; i < sizeof(choice); i++)
        choice[i] = i * i % 3 == 1;
    form f = ADD;
    gradient_case c = {.name = "add, mul or where of 8 dims",
                       .user = &f,
                       .inputs = {{8, {0}, a, false}, {8, {0}, b, false}},
                       .oracle = oracle,
                       .run = run,
                       .count = 1296,
                       .tolerance = 3e-6};
    memcpy(c.inputs[0].dims, A, sizeof(A));
    memcpy(c.inputs[1].dims, B, sizeof(B));
    for (; f < FORMS; f++)
        check_case(&c);
}

/* An empty tensor has memory and dims, and passes through all data-movement ops. */
static void test_empty_tensors_pass_through_ops(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float host[6] = {1, 2, 3, 4, 5, 6};
    tfm_tensor none = {0}, y = {0}, view, full = HARNESS_TENSOR(TFM_F32, host, 2, 3);
    harness_ok(tfm_tensor_new(ctx, &none, TFM_F32, 3, (int64_t[]){2, 0, 3}));
    assert_int_equal(tfm_tensor_count(none), 0);
    harness_ok(tfm_tensor_write(ctx, none, host));
    harness_ok(tfm_tensor_read(ctx, &(float){0}, none));
    harness_ok(tfm_tensor_reshape(ctx, &view, none, 2, (int64_t[]){0, 7}));
    harness_refused(tfm_tensor_reshape(ctx, &view, none, 2, (int64_t[]){1, 7}), TFM_ERROR_ARGUMENT,
                    "cannot be seen as");
    harness_refused(tfm_tensor_reshape(ctx, &view, full, 2, (int64_t[]){0, 6}), TFM_ERROR_ARGUMENT,
                    "cannot be seen as");
    harness_ok(tfm_permute(ctx, &y, none, (int[]){2, 1, 0}));
    assert_true(y.dims[0] == 3 && y.dims[1] == 0 && y.dims[2] == 2);
    y = (tfm_tensor){0};
    harness_ok(tfm_add(ctx, &y, none, HARNESS_TENSOR(TFM_F32, host, 1, 3)));
    assert_true(y.rank == 3 && y.dims[1] == 0);
    harness_refused(tfm_add(ctx, &view, none, HARNESS_TENSOR(TFM_F32, host, 2, 3)), TFM_ERROR_ARGUMENT,
                    "dims must be equal or 1");
    y = (tfm_tensor){0};
    harness_ok(tfm_tensor_reshape(ctx, &view, none, 2, (int64_t[]){0, 3}));
    harness_ok(tfm_concat(ctx, &y, 3, (tfm_tensor[]){view, full, view}, 0));
    float *got = harness_floats(y);
    assert_true(y.dims[0] == 2 && memcmp(got, host, sizeof(host)) == 0);
    free(got);
    y = (tfm_tensor){0};
    harness_ok(tfm_softmax(ctx, &y, none));
    y = (tfm_tensor){0};
    harness_ok(tfm_activate(ctx, &y, none, TFM_GELU));
    tfm_tensor row = HARNESS_TENSOR(TFM_F32, host, 1, 3), truth = {0}, indices = {0};
    y = (tfm_tensor){0};
    harness_ok(tfm_tanh(ctx, &y, none));
    y = (tfm_tensor){0};
    harness_ok(tfm_mul(ctx, &y, none, row));
    assert_true(y.rank == 3 && y.dims[1] == 0);
    harness_ok(tfm_less(ctx, &truth, none, row));
    y = (tfm_tensor){0};
    harness_ok(tfm_where(ctx, &y, truth, row, none));
    assert_true(y.rank == 3 && y.dims[1] == 0);
    for (int axis = 0; axis < 3; axis++) {
        y = (tfm_tensor){0};
        harness_ok(tfm_cumsum(ctx, &y, none, axis, false, true));
    }
    harness_ok(tfm_tensor_new(ctx, &indices, TFM_I32, 3, (int64_t[]){2, 0, 3}));
    y = (tfm_tensor){0};
    harness_ok(tfm_gather_elements(ctx, &y, none, indices, 2));
    y = (tfm_tensor){0};
    harness_ok(tfm_onehot(ctx, &y, indices, 4, -1, 0, 1));
    assert_true(y.rank == 4 && y.dims[3] == 4 && tfm_tensor_count(y) == 0);
    /* Valid indices into an empty tensor: 0. */
    y = (tfm_tensor){0};
    harness_ok(tfm_tensor_reshape(ctx, &view, none, 2, (int64_t[]){2, 0}));
    harness_ok(tfm_gather_elements(ctx, &y, view, HARNESS_TENSOR(TFM_I32, ((int32_t[]){0, 1}), 2, 1), 1));
    got = harness_floats(y);
    assert_true(got[0] == 0 && got[1] == 0);
    free(got);
    y = (tfm_tensor){0};
    harness_refused(tfm_layernorm(ctx, &y, NULL, none, (tfm_tensor){0}, (tfm_tensor){0}, (tfm_tensor){0}, 1e-5f),
                    TFM_ERROR_ARGUMENT, "layernorm: input 1, (2, 0, 3) F32, has no elements");
}

/* The gradient of a dim broadcast to size 0 is 0. */
static void test_empty_broadcast_has_zero_gradient(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float host[3] = {1, 2, 3}, was[3] = {7, 8, 9};
    tfm_tensor none = {0}, y = {0}, x = HARNESS_TENSOR(TFM_F32, host, 3), dx = HARNESS_TENSOR(TFM_F32, was, 3);
    harness_ok(tfm_tensor_new(ctx, &none, TFM_F32, 2, (int64_t[]){0, 3}));
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_add(ctx, &y, none, x));
    tfm_tensor whole = {0}, row = HARNESS_TENSOR(TFM_F32, host, 1, 3);
    tfm_tensor product = {0}, chosen = {0}, sums = {0}, flags = {0};
    harness_ok(tfm_tensor_new(ctx, &flags, TFM_U8, 1, (int64_t[]){3}));
    harness_ok(tfm_mul(ctx, &product, y, x));
    harness_ok(tfm_where(ctx, &chosen, flags, product, x));
    harness_ok(tfm_cumsum(ctx, &sums, chosen, 0, true, false));
    harness_ok(tfm_concat(ctx, &whole, 2, (tfm_tensor[]){sums, row}, 0));
    harness_ok(tfm_backward(ctx, whole, (tfm_tensor){0}));
    float *got = harness_floats(dx);
    assert_memory_equal(got, was, sizeof(was));
    free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permute_of_eight_dims_is_exact),    cmocka_unit_test(test_slice_of_seven_dims_is_exact),
        cmocka_unit_test(test_broadcast_of_eight_dims),           cmocka_unit_test(test_empty_tensors_pass_through_ops),
        cmocka_unit_test(test_empty_broadcast_has_zero_gradient), cmocka_unit_test(test_gather_elements_of_eight_dims),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
