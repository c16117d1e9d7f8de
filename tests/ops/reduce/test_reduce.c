/* Sums, means, maxima and minima over any dimensions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef tfm_status (*op_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor x, const int *axes, size_t count, bool keep);
enum { SUM, MEAN, MAX, MIN, COUNT };
static const op_fn OPS[COUNT] = {tfm_reduce_sum, tfm_reduce_mean, tfm_reduce_max, tfm_reduce_min};

/* x, and its reduced dims. */
typedef struct shape {
    int function, rank;
    int64_t dims[4];
    bool gone[4];
} shape;

static void oracle_of(const shape *s, double *y, const double *x) {
    int64_t count = 1, places = 1;
    for (int i = 0; i < s->rank; i++) {
        count *= s->dims[i];
        places *= s->gone[i] ? 1 : s->dims[i];
    }
    const double start = s->function == MAX ? -INFINITY : s->function == MIN ? INFINITY : 0;
    for (int64_t k = 0; k < places; k++)
        y[k] = start;
    for (int64_t k = 0; k < count; k++) {
        int64_t at = 0, stride = 1, rest = k;
        for (int i = s->rank - 1; i >= 0; rest /= s->dims[i--])
            if (!s->gone[i]) {
                at += rest % s->dims[i] * stride;
                stride *= s->dims[i];
            }
        const bool wins = s->function == MAX ? x[k] > y[at] : x[k] < y[at];
        y[at] = s->function == SUM    ? y[at] + x[k]
                : s->function == MEAN ? y[at] + x[k] / (double)(count / places)
                : wins || isnan(x[k]) ? x[k]
                                      : y[at];
    }
}

static size_t axes_of(const shape *s, int *axes) {
    size_t count = 0;
    for (int i = 0; i < s->rank; i++)
        if (s->gone[i])
            axes[count++] = i % 2 ? i - s->rank : i;
    return count;
}

static const shape SHAPES[] = {
    {0, 1, {1}, {true}},
    {0, 1, {10007}, {true}},
    {0, 2, {3, 65}, {false, true}},
    {0, 2, {65, 3}, {true, false}},
    {0, 3, {5, 17, 33}, {false, true, false}},
    {0, 3, {2, 301, 17}, {false, true, false}},
    {0, 4, {3, 5, 4, 17}, {true, false, true, false}},
    {0, 4, {3, 5, 4, 17}, {true, true, true, true}},
    {0, 4, {3, 5, 1, 17}, {false, true, true, true}},
    {0, 3, {7, 1, 3}, {false, true, false}},
    {0, 2, {8200, 2}, {true, false}}, /* sums of sums of sums */
};
enum { SHAPE_COUNT = sizeof(SHAPES) / sizeof(*SHAPES), MOST = 16400 };

static void test_reductions_match_double_precision(void **state) {
    (void)state;
    harness_random random = {2};
    static float host[MOST];
    static double wide[MOST], want[MOST];
    for (int f = 0; f < COUNT; f++)
        for (int k = 0; k < SHAPE_COUNT; k++) {
            shape s = SHAPES[k];
            s.function = f;
            harness_fill(&random, host, MOST, 1);
            if (f >= MAX)
                host[10] = NAN;
            for (int i = 0; i < MOST; i++)
                wide[i] = (double)host[i];
            oracle_of(&s, want, wide);
            int axes[4];
            const size_t count = axes_of(&s, axes);
            for (int keep = 0; keep < 2; keep++) {
                tfm_tensor x = harness_tensor(TFM_F32, s.rank, s.dims, host), y = {0};
                int64_t dims[4];
                for (int i = 0; i < s.rank; i++)
                    dims[i] = s.gone[i] ? 1 : s.dims[i];
                if (keep)
                    y = harness_tensor(TFM_F32, s.rank, dims, NULL);
                harness_ok(OPS[f](harness_context(), &y, x, axes, count, keep));
                assert_int_equal(y.rank, keep ? s.rank : s.rank > (int)count ? s.rank - (int)count : 1);
                float *got = harness_floats(y);
                for (size_t i = 0; i < tfm_tensor_count(y); i++)
                    if (isnan(want[i]) ? !isnan(got[i])
                                       : !(fabs((double)got[i] - want[i]) <= 1e-5 * fmax(1, fabs(want[i]))))
                        fail_msg("function %d, shape %d, place %zu: %.9g, not %.9g", f, k, i, (double)got[i], want[i]);
                free(got);
                if (keep)
                    harness_guards(y);
                else
                    tfm_tensor_free(harness_context(), &y);
            }
        }
}

/* Empty reductions: 0, NaN, and the identities of min and max. */
static void test_reduction_of_nothing_is_its_identity(void **state) {
    (void)state;
    const double want[COUNT] = {0, NAN, -INFINITY, INFINITY};
    for (int f = 0; f < COUNT; f++) {
        tfm_tensor x = {0}, y = {0};
        harness_ok(tfm_tensor_new(harness_context(), &x, TFM_F32, 3, (int64_t[]){2, 0, 3}));
        harness_ok(OPS[f](harness_context(), &y, x, (int[]){1}, 1, false));
        assert_true(y.rank == 2 && y.dims[0] == 2 && y.dims[1] == 3);
        float *got = harness_floats(y);
        for (int i = 0; i < 6; i++)
            assert_true((double)got[i] == want[f] || (isnan(got[i]) && isnan(want[f])));
        free(got);
        tfm_tensor_free(harness_context(), &y);
        harness_ok(OPS[f](harness_context(), &y, x, (int[]){0}, 1, true));
        assert_true(y.rank == 3 && y.dims[0] == 1 && y.dims[1] == 0);
        tfm_tensor_free(harness_context(), &y);
        harness_ok(OPS[f](harness_context(), &y, x, NULL, 0, false));
        got = harness_floats(y);
        assert_true((double)got[0] == want[f] || (isnan(got[0]) && isnan(want[f])));
        free(got);
        tfm_tensor_free(harness_context(), &y);
    }
}

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    oracle_of(c->user, y, inputs[0]);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const shape *s = c->user;
    int axes[4];
    const size_t count = axes_of(s, axes);
    return OPS[s->function](ctx, y, inputs[0], axes, count, false);
}

/* Numbers that differ by more than the finite-difference step. */
static void test_reduction_gradients_match_double_precision(void **state) {
    (void)state;
    static float host[MOST];
    for (int f = 0; f < COUNT; f++)
        for (int k = 1; k < SHAPE_COUNT; k++) {
            shape s = SHAPES[k];
            s.function = f;
            gradient_case c = {.name = "reduce",
                               .inputs = {{s.rank, {0}, host, false}},
                               .oracle = oracle,
                               .run = run,
                               .user = &s,
                               .count = 1,
                               .tolerance = 1e-5};
            if (f >= MAX && (k == 1 || k == SHAPE_COUNT - 1))
                continue; /* ten thousand numbers cannot all differ enough */
            for (int i = 0; i < MOST; i++)
                host[i] = f >= MAX ? (float)(i * 331 % 10301) / 50 : (float)(i % 17) / 8 - 1;
            memcpy(c.inputs[0].dims, s.dims, sizeof(s.dims));
            for (int i = 0; i < s.rank; i++)
                c.count *= s.gone[i] ? 1 : (size_t)s.dims[i];
            gradient_check(&c);
        }
}

/* Equal extrema share the gradient. */
static void test_equal_maxima_share_the_gradient(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float host[] = {1, 5, 5, 2, 5, 5}, zeros[6] = {0}, want[] = {0, 0.25f, 0.25f, 0, 0.25f, 0.25f};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 6), dx = HARNESS_TENSOR(TFM_F32, zeros, 6), y = {0};
    harness_ok(tfm_tape_start(ctx));
    harness_ok(tfm_tape_watch(ctx, x, dx));
    harness_ok(tfm_reduce_max(ctx, &y, x, NULL, 0, false));
    harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
    float *got = harness_floats(dx);
    assert_memory_equal(got, want, sizeof(want));
    free(got);
}

/* A mean divides: of 41 ones it is 1, unlike 41 times a rounded 1/41. */
static void test_mean_of_ones_is_exactly_one(void **state) {
    (void)state;
    float host[41];
    for (int i = 0; i < 41; i++)
        host[i] = 1;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 41), y = {0};
    harness_ok(tfm_reduce_mean(harness_context(), &y, x, NULL, 0, false));
    float *got = harness_floats(y);
    assert_true(got[0] == 1);
    free(got);
}

static void test_reduce_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor cube = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 2), over = cube;
    over.rank = 1;
    over.dims[0] = 3;
    harness_refused(tfm_reduce_max(ctx, &over, cube, (int[]){0, 2}, 2, false), TFM_ERROR_ARGUMENT,
                    "reduce_max: the output (3) F32 shares memory");
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), y = {0}, ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3);
    harness_refused(tfm_reduce_sum(ctx, &y, x, (int[]){2}, 1, false), TFM_ERROR_ARGUMENT,
                    "reduce_sum: axis 2 of (2, 3)");
    harness_refused(tfm_reduce_max(ctx, &y, x, (int[]){1, -1}, 2, false), TFM_ERROR_ARGUMENT, "is there twice");
    harness_refused(tfm_reduce_mean(ctx, &y, ints, NULL, 0, false), TFM_ERROR_ARGUMENT,
                    "reduce_mean: input 1 is (2, 3)");
    harness_refused(tfm_reduce_min(ctx, NULL, x, NULL, 0, false), TFM_ERROR_ARGUMENT, "reduce_min: it needs an output");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_match_double_precision),
        cmocka_unit_test(test_reduction_of_nothing_is_its_identity),
        cmocka_unit_test(test_reduction_gradients_match_double_precision),
        cmocka_unit_test(test_equal_maxima_share_the_gradient),
        cmocka_unit_test(test_mean_of_ones_is_exactly_one),
        cmocka_unit_test(test_reduce_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
