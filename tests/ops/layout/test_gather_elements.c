/* Gather of elements along a dimension: exact, and its gradients. */
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef struct shape {
    int64_t x[3], indices[3];
    int axis;
    int32_t *host; /* the indices */
} shape;

/* Source index of element k of y; -1: out of range. */
static int64_t place_of(const shape *s, int64_t k) {
    int64_t at[3] = {k / (s->indices[1] * s->indices[2]), k / s->indices[2] % s->indices[1], k % s->indices[2]};
    const int64_t n = s->x[s->axis], index = s->host[k] < 0 ? s->host[k] + n : s->host[k];
    at[s->axis] = index;
    return index < 0 || index >= n ? -1 : (at[0] * s->x[1] + at[1]) * s->x[2] + at[2];
}

static const shape SHAPES[] = {
    {{3, 5, 17}, {3, 9, 17}, 1, NULL},
    {{7, 4, 33}, {3, 4, 33}, 0, NULL},
    {{2, 5, 1000}, {2, 5, 65}, 2, NULL},
    {{6, 5, 4}, {4, 3, 9}, 2, NULL},
};
enum { SHAPE_COUNT = sizeof(SHAPES) / sizeof(*SHAPES), MOST = 10000 };

static int64_t count_of(const int64_t *dims) {
    return dims[0] * dims[1] * dims[2];
}

static void fill(shape *s, int32_t *host, int beyond) {
    const int n = (int)s->x[s->axis];
    for (int64_t k = 0; k < count_of(s->indices); k++)
        host[k] = (int32_t)(k * 7919 % (2 * n + 2 * beyond)) - n - beyond;
    s->host = host;
}

static void test_gather_elements_is_exact(void **state) {
    (void)state;
    static float host[MOST];
    static int32_t indices[MOST];
    for (int i = 0; i < MOST; i++)
        host[i] = (float)i + 1;
    for (int k = 0; k < SHAPE_COUNT; k++) {
        shape s = SHAPES[k];
        fill(&s, indices, 2);
        tfm_tensor x = harness_tensor(TFM_F32, 3, s.x, host), i = harness_tensor(TFM_I32, 3, s.indices, indices);
        tfm_tensor y = harness_tensor(TFM_F32, 3, s.indices, NULL);
        harness_ok(tfm_gather_elements(harness_context(), &y, x, i, s.axis - 3));
        harness_guards(y);
        float *got = harness_floats(y);
        for (int64_t at = 0; at < count_of(s.indices); at++)
            assert_true(got[at] == (place_of(&s, at) < 0 ? 0 : host[place_of(&s, at)]));
        free(got);
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    for (size_t k = 0; k < c->count; k++) {
        const int64_t place = place_of(c->user, (int64_t)k);
        y[k] = place < 0 ? 0 : inputs[0][place];
    }
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const shape *s = c->user;
    return tfm_gather_elements(ctx, y, inputs[0], harness_tensor(TFM_I32, 3, s->indices, s->host), s->axis);
}

/* An element with several indices gets all their gradients; one without gets 0. */
static void test_gather_elements_gradients_sum_repeated_elements(void **state) {
    (void)state;
    harness_random random = {5};
    static float host[MOST];
    static int32_t indices[MOST];
    harness_fill(&random, host, MOST, 1);
    for (int k = 0; k < SHAPE_COUNT; k++) {
        shape s = SHAPES[k];
        fill(&s, indices, 1);
        gradient_case c = {.name = "gather_elements",
                           .inputs = {{3, {0}, host, false}},
                           .oracle = oracle,
                           .run = run,
                           .user = &s,
                           .count = (size_t)count_of(s.indices),
                           .tolerance = 3e-6};
        memcpy(c.inputs[0].dims, s.x, sizeof(s.x));
        gradient_check(&c);
    }
}

static void test_gather_elements_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), y = {0}, more = HARNESS_TENSOR(TFM_I32, NULL, 3, 3);
    tfm_tensor flat = HARNESS_TENSOR(TFM_I32, NULL, 2), half = HARNESS_TENSOR(TFM_F16, NULL, 3, 3);
    harness_refused(tfm_gather_elements(ctx, &y, x, more, 1), TFM_ERROR_ARGUMENT,
                    "x is (2, 3) F32 and the indices are (3, 3) I32: they must not be larger along axis 0");
    harness_refused(tfm_gather_elements(ctx, &y, x, flat, 0), TFM_ERROR_ARGUMENT, "they must have as many dims as x");
    harness_refused(tfm_gather_elements(ctx, &y, x, more, 2), TFM_ERROR_ARGUMENT, "gather_elements: axis 2");
    harness_refused(tfm_gather_elements(ctx, &y, half, more, 0), TFM_ERROR_ARGUMENT, "gather_elements: input 1 is");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_elements_is_exact),
        cmocka_unit_test(test_gather_elements_gradients_sum_repeated_elements),
        cmocka_unit_test(test_gather_elements_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
