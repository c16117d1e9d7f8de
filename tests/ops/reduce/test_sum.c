/* Sums over the middle dimension, of one tensor and of two. */
#include <stdio.h>
#include <stdlib.h>
#include "support/harness.h"
#include "ops/reduce/sum.h"

/* One of x (outer, rows, inner); an inner of 0: none. */
typedef struct part {
    int64_t inner;
    bool add;
    float *x, *y;
    tfm__column_sum sum;
} part;

static float *floats(harness_random *random, int64_t count) {
    float *x = malloc((size_t)count * sizeof(float));
    assert_non_null(x);
    harness_fill(random, x, (size_t)count, 1);
    return x;
}

static void make(harness_random *random, part *p, int64_t outer, int64_t rows) {
    if (p->inner == 0)
        return;
    p->x = floats(random, outer * rows * p->inner);
    p->y = floats(random, outer * p->inner);
    p->sum.inner = p->inner;
    p->sum.x = HARNESS_TENSOR(TFM_F32, p->x, outer, rows, p->inner);
    p->sum.to.to = HARNESS_TENSOR(TFM_F32, p->add ? p->y : NULL, outer, p->inner);
    p->sum.to.add = p->add;
}

static void compare(const part *p, int64_t outer, int64_t rows) {
    if (p->inner == 0)
        return;
    double *want = calloc((size_t)(outer * p->inner), sizeof(double));
    assert_non_null(want);
    for (int64_t at = 0; at < outer * p->inner; at++) {
        const int64_t o = at / p->inner, i = at % p->inner;
        want[at] = p->add ? (double)p->y[at] : 0;
        for (int64_t r = 0; r < rows; r++)
            want[at] += (double)p->x[(o * rows + r) * p->inner + i];
    }
    char what[100];
    snprintf(what, sizeof(what), "sum of (%d, %d, %d)%s", (int)outer, (int)rows, (int)p->inner,
             p->add ? ", added" : "");
    float *got = harness_floats(p->sum.to.to);
    harness_close(got, want, (size_t)(outer * p->inner), 1e-5, what);
    harness_guards(p->sum.to.to);
    harness_guards(p->sum.x);
    free(got);
    free(want);
}

static void check(harness_random *random, int64_t outer, int64_t rows, part one, part two) {
    tfm_context *ctx = harness_context();
    harness_ok(tfm_scope_open(ctx));
    make(random, &one, outer, rows);
    make(random, &two, outer, rows);
    harness_ok(tfm__sum_pair(ctx, one.sum, two.sum, outer, rows));
    compare(&one, outer, rows);
    compare(&two, outer, rows);
    if (one.inner) {
        one.add = one.sum.to.add = false;
        harness_ok(tfm__sum_into(ctx, one.sum.to, one.sum.x, outer, rows, one.inner));
        compare(&one, outer, rows);
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(one.x);
    free(one.y);
    free(two.x);
    free(two.y);
}

/* One launch, and, from 129 rows on, two. */
static void test_two_sums_in_one_launch_match_double_precision(void **state) {
    (void)state;
    harness_random random = {1};
    const int64_t rows[] = {1, 3, 17, 65, 128, 129, 1000}, inner[] = {0, 1, 3, 17, 65, 1000};
    int number = 0;
    for (int r = 0; r < 7; r++)
        for (int one = 0; one < 6; one++)
            for (int two = 0; two < 6; two++, number++)
                if (!harness_slow() || number % 5 == 0)
                    check(&random, 1 + 2 * (number % 3 == 0), rows[r], (part){.inner = inner[one], .add = number & 1},
                          (part){.inner = inner[two], .add = number & 2});
}

/* A tensor used as both inputs, as gamma and beta may be: its gradients are added in sequence; a race would show
 * occasionally. */
static void test_two_sums_into_one_tensor_add_up(void **state) {
    (void)state;
    const int64_t inner = 4000, rows = 128;
    harness_random random = {2};
    part one = {.inner = inner}, two = {.inner = inner, .add = true};
    harness_ok(tfm_scope_open(harness_context()));
    make(&random, &one, 1, rows);
    make(&random, &two, 1, rows);
    two.sum.to.to = one.sum.to.to;
    for (int64_t i = 0; i < inner; i++) {
        two.y[i] = 0;
        for (int64_t r = 0; r < rows; r++)
            two.y[i] += one.x[r * inner + i];
    }
    for (int pass = 0; pass < (harness_slow() ? 2 : 30); pass++) {
        harness_ok(tfm__sum_pair(harness_context(), one.sum, two.sum, 1, rows));
        compare(&two, 1, rows);
    }
    harness_ok(tfm_scope_close(harness_context(), 0, NULL));
    free(one.x);
    free(one.y);
    free(two.x);
    free(two.y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_sums_in_one_launch_match_double_precision),
        cmocka_unit_test(test_two_sums_into_one_tensor_add_up),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
