/* Addition: bit-exact. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { FRESH, OVER_A, OVER_B };

/* Zeros around the inputs: NaN + NaN of the guards would hide a write outside y. */
static tfm_tensor among_numbers(const float *host, int64_t n) {
    enum { AROUND = 33 };
    float *wide = calloc((size_t)n + 2 * AROUND, sizeof(float));
    assert_non_null(wide);
    memcpy(wide + AROUND, host, (size_t)n * sizeof(float));
    tfm_tensor whole = HARNESS_TENSOR(TFM_F32, wide, n + 2 * AROUND), x;
    harness_ok(tfm_tensor_rows(harness_context(), &x, whole, AROUND, n));
    free(wide);
    return x;
}

static void check(harness_random *random, int64_t n, int where) {
    tfm_context *ctx = harness_context();
    float *a_host = malloc((size_t)n * sizeof(float)), *b_host = malloc((size_t)n * sizeof(float));
    assert_true(a_host && b_host);
    for (int64_t i = 0; i < n; i++) {
        a_host[i] = (float)(int32_t)harness_next(random);
        b_host[i] = (float)(int32_t)harness_next(random);
    }
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor a = among_numbers(a_host, n), b = among_numbers(b_host, n);
    tfm_tensor y = where == OVER_A ? a : where == OVER_B ? b : HARNESS_TENSOR(TFM_F32, NULL, n);
    harness_ok(tfm_add(ctx, &y, a, b));
    float *got = harness_floats(y);
    for (int64_t i = 0; i < n; i++)
        assert_true(got[i] == a_host[i] + b_host[i]);
    if (where == FRESH)
        harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(a_host);
    free(b_host);
}

static void test_add_is_exact(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 3, 17, 65, 1000, 4095, 4097, 100003};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int where = FRESH; where <= OVER_B; where++)
            check(&random, sizes[i], where);
}

/* More work-groups than one grid dimension takes with few elements per item. */
static void test_add_of_many_elements_exceeds_one_grid_axis(void **state) {
    (void)state;
    harness_random random = {2};
    check(&random, INT64_C(9000001), FRESH);
}

static void test_add_of_a_tensor_to_itself_in_place(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[21];
    for (int i = 0; i < 21; i++)
        host[i] = (float)i;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 3, 7);
    harness_ok(tfm_add(ctx, &x, x, x));
    float *got = harness_floats(x);
    for (int i = 0; i < 21; i++)
        assert_true(got[i] == 2 * (float)i);
    free(got);
}

/* dims of a and b, both padded to rank 5; y is new, or in place of the input with y's dims. */
static void check_broadcast(harness_random *random, const int64_t *da, const int64_t *db, int first, int where) {
    tfm_context *ctx = harness_context();
    int64_t dims[5], na = 1, nb = 1, n = 1;
    for (int i = 0; i < 5; i++) {
        dims[i] = da[i] > db[i] ? da[i] : db[i];
        na *= da[i];
        nb *= db[i];
        n *= dims[i];
    }
    float *a_host = malloc((size_t)na * sizeof(float)), *b_host = malloc((size_t)nb * sizeof(float));
    assert_true(a_host && b_host);
    harness_fill(random, a_host, (size_t)na, 1);
    harness_fill(random, b_host, (size_t)nb, 1);
    harness_ok(tfm_scope_open(ctx));
    tfm_tensor a = harness_tensor(TFM_F32, 5, da, a_host);
    tfm_tensor b = harness_tensor(TFM_F32, 5 - first, db + first, b_host); /* without leading dims of 1 */
    tfm_tensor y = where == OVER_A ? a : harness_tensor(TFM_F32, 5, dims, NULL);
    harness_ok(tfm_add(ctx, &y, a, b));
    float *got = harness_floats(y);
    for (int64_t k = 0; k < n; k++) {
        int64_t place[5], at_a = 0, at_b = 0;
        for (int64_t i = 4, rest = k; i >= 0; rest /= dims[i--])
            place[i] = rest % dims[i];
        for (int i = 0; i < 5; i++) {
            at_a = at_a * da[i] + (da[i] == 1 ? 0 : place[i]);
            at_b = at_b * db[i] + (db[i] == 1 ? 0 : place[i]);
        }
        assert_true(got[k] == a_host[at_a] + b_host[at_b]);
    }
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(a_host);
    free(b_host);
}

static void test_add_broadcasts(void **state) {
    (void)state;
    harness_random random = {3};
    const struct {
        int64_t a[5], b[5];
        int first;
    } shapes[] = {
        {{1, 1, 3, 5, 65}, {1, 1, 1, 1, 65}, 4},    {{2, 3, 5, 7, 17}, {1, 3, 1, 7, 1}, 1},
        {{2, 3, 1, 7, 17}, {2, 1, 5, 1, 17}, 0},    {{1, 3, 5, 7, 1}, {2, 3, 1, 1, 33}, 0},
        {{2, 3, 5, 7, 17}, {1, 1, 1, 1, 1}, 4},     {{1, 1, 1, 1, 1}, {2, 1, 3, 1, 1000}, 0},
        {{1, 1, 1, 1000, 1}, {1, 1, 1, 1, 999}, 4}, {{1, 17, 1, 1, 65}, {1, 17, 1, 1, 65}, 1},
        {{1, 301, 1, 7, 3}, {1, 301, 9, 7, 1}, 1},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        check_broadcast(&random, shapes[i].a, shapes[i].b, shapes[i].first, FRESH);
        if (i == 0 || i == 1 || i == 4 || i == 7)
            check_broadcast(&random, shapes[i].a, shapes[i].b, shapes[i].first, OVER_A);
    }
}

/* Offset in `in` of an element of y's dims (d0, d1, d2, d3); in's dims are 1 or equal. */
static size_t broadcast_at(const gradient_input *in, const int64_t *index) {
    size_t at = 0;
    for (int i = 0; i < in->rank; i++)
        at = at * (size_t)in->dims[i] + (size_t)(in->dims[i] == 1 ? 0 : index[4 - in->rank + i]);
    return at;
}

static void oracle_broadcast(const gradient_case *c, double *y, double *const *inputs) {
    const int64_t *d = c->user;
    for (size_t e = 0; e < c->count; e++) {
        int64_t index[4], rest = (int64_t)e;
        for (int i = 3; i >= 0; i--) {
            index[i] = rest % d[i];
            rest /= d[i];
        }
        y[e] = inputs[0][broadcast_at(&c->inputs[0], index)] + inputs[1][broadcast_at(&c->inputs[1], index)];
    }
}

static tfm_status run_add(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    (void)c;
    return tfm_add(ctx, y, inputs[0], inputs[1]);
}

/* Gradients of broadcast inputs are summed: over first, last, inner and several dims, and over many rows. */
static void test_add_gradients_sum_broadcast_dims(void **state) {
    (void)state;
    static const struct {
        int64_t y[4];
        int rank_a, rank_b;
        int64_t a[4], b[4];
    } cases[] = {
        {{1, 1, 3, 17}, 2, 2, {3, 17}, {3, 17}},           {{1, 1, 65, 17}, 2, 1, {65, 17}, {17}},
        {{1, 1, 17, 65}, 2, 2, {17, 1}, {17, 65}},         {{2, 3, 5, 4}, 4, 4, {2, 3, 5, 4}, {1, 3, 1, 4}},
        {{2, 3, 5, 4}, 4, 4, {2, 1, 5, 1}, {1, 3, 1, 4}},  {{1, 1, 1000, 3}, 2, 1, {1000, 3}, {1}},
        {{1, 2, 300, 17}, 3, 3, {2, 300, 17}, {2, 1, 17}}, {{1, 1, 1, 1}, 1, 1, {1}, {1}},
    };
    harness_random random = {12};
    float a[12000], b[12000];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        gradient_case c = {.name = "add",
                           .inputs = {{cases[i].rank_a, {0}, a, false}, {cases[i].rank_b, {0}, b, false}},
                           .oracle = oracle_broadcast,
                           .run = run_add,
                           .user = cases[i].y,
                           .count = 1,
                           .tolerance = 3e-6};
        harness_fill(&random, a, 12000, 1);
        harness_fill(&random, b, 12000, 1);
        memcpy(c.inputs[0].dims, cases[i].a, sizeof(cases[i].a));
        memcpy(c.inputs[1].dims, cases[i].b, sizeof(cases[i].b));
        for (int d = 0; d < 4; d++)
            c.count *= (size_t)cases[i].y[d];
        gradient_check(&c);
    }
}

static void test_add_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), b = HARNESS_TENSOR(TFM_F32, NULL, 3, 2), y = {0};
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    harness_refused(tfm_add(ctx, &y, a, b), TFM_ERROR_ARGUMENT, "add: a is (2, 3) F32 and b is (3, 2) F32");
    harness_refused(tfm_add(ctx, &y, a, ints), TFM_ERROR_ARGUMENT, "add: input 2 is (2, 3) I32");
    harness_refused(tfm_add(ctx, &y, a, (tfm_tensor){0}), TFM_ERROR_ARGUMENT, "add: input 2 is an empty tensor");
    tfm_tensor column = HARNESS_TENSOR(TFM_F32, NULL, 2, 1), rows = HARNESS_TENSOR(TFM_F32, NULL, 4, 1, 3), part;
    harness_refused(tfm_add(ctx, &column, a, column), TFM_ERROR_ARGUMENT, "add: the output is (2, 1) F32");
    harness_ok(tfm_tensor_rows(ctx, &part, rows, 1, 1));
    harness_refused(tfm_add(ctx, &rows, rows, part), TFM_ERROR_ARGUMENT, "add: the output (4, 1, 3) F32 shares memory");
    harness_refused(tfm_add(ctx, &b, a, a), TFM_ERROR_ARGUMENT, "add: the output is (3, 2) F32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_is_exact),
        cmocka_unit_test(test_add_of_many_elements_exceeds_one_grid_axis),
        cmocka_unit_test(test_add_of_a_tensor_to_itself_in_place),
        cmocka_unit_test(test_add_broadcasts),
        cmocka_unit_test(test_add_gradients_sum_broadcast_dims),
        cmocka_unit_test(test_add_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
