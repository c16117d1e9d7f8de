#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

static size_t count_of(const gradient_input *in) {
    size_t count = 1;
    for (int i = 0; i < in->rank; i++)
        count *= (size_t)in->dims[i];
    return count;
}

static double weighted(const gradient_case *c, double *y, double *const *inputs, const float *dy) {
    double sum = 0;
    c->oracle(c, y, inputs);
    for (size_t i = 0; i < c->count; i++)
        sum += dy[i] * y[i];
    return sum;
}

/* d(dy . y) / d(inputs[which][at]) by a fourth-order central difference of the oracle. */
static double difference(const gradient_case *c, double *y, double *const *inputs, const float *dy, int which,
                         size_t at) {
    const double x = inputs[which][at], h = 1e-3 * fmax(1, fabs(x));
    double f[4];
    for (int i = 0; i < 4; i++) {
        inputs[which][at] = x + h * (double[]){-2, -1, 1, 2}[i];
        f[i] = weighted(c, y, inputs, dy);
    }
    inputs[which][at] = x;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

typedef struct pass {
    float *y, *gradients[GRADIENT_INPUTS];
} pass;

/* Forward only; with backward, gradients accumulated to `before`; with inputs made by another op, so that the backward
 * pass writes their gradients first, over uninitialized memory. */
typedef enum pass_mode { FORWARD, WATCHED, BETWEEN } pass_mode;

/* The bits of x, as the output of an op. */
static tfm_tensor made_from(tfm_context *ctx, tfm_tensor x) {
    tfm_tensor less = {0}, y = {0};
    harness_ok(tfm_neg(ctx, &less, x));
    harness_ok(tfm_neg(ctx, &y, less));
    return y;
}

static pass run_pass(const gradient_case *c, const float *dy, float *const *before, pass_mode mode) {
    const bool recorded = mode != FORWARD;
    tfm_context *ctx = harness_context();
    tfm_tensor inputs[GRADIENT_INPUTS] = {{0}}, given[GRADIENT_INPUTS], gradients[GRADIENT_INPUTS] = {{0}}, y = {0};
    pass result = {0};
    harness_ok(tfm_scope_open(ctx));
    for (int i = 0; i < GRADIENT_INPUTS && c->inputs[i].rank; i++) {
        const gradient_input *in = &c->inputs[i];
        inputs[i] = harness_tensor(TFM_F32, in->rank, in->dims, in->host);
        if (!in->fixed)
            gradients[i] = harness_tensor(TFM_F32, in->rank, in->dims, before[i]);
    }
    if (recorded)
        harness_ok(tfm_tape_start(ctx));
    for (int i = 0; recorded && i < GRADIENT_INPUTS; i++)
        if (gradients[i].buffer)
            harness_ok(tfm_tape_watch(ctx, inputs[i], gradients[i]));
    harness_ok(tfm_scope_open(ctx)); /* the tape must keep tensors of this scope alive */
    for (int i = 0; i < GRADIENT_INPUTS; i++)
        given[i] = mode == BETWEEN && gradients[i].buffer ? made_from(ctx, inputs[i]) : inputs[i];
    harness_ok(c->run(c, ctx, &y, given));
    harness_ok(tfm_scope_close(ctx, 1, (tfm_tensor *[]){&y}));
    assert_int_equal(tfm_tensor_count(y), c->count);
    result.y = harness_floats(y);
    if (recorded) {
        tfm_tensor seed = {0};
        if (!c->ones)
            seed = harness_tensor(TFM_F32, y.rank, y.dims, dy);
        harness_ok(tfm_backward(ctx, y, seed));
        if (!c->ones)
            harness_guards(seed);
    }
    for (int i = 0; i < GRADIENT_INPUTS; i++) {
        if (inputs[i].buffer)
            harness_guards(inputs[i]);
        if (recorded && gradients[i].buffer) {
            result.gradients[i] = harness_floats(gradients[i]);
            harness_guards(gradients[i]);
        }
    }
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    return result;
}

static void pass_free(pass *p) {
    free(p->y);
    for (int i = 0; i < GRADIENT_INPUTS; i++)
        free(p->gradients[i]);
}

/* The maximum number of compared gradient elements of an input: each needs four runs of the oracle. */
static size_t samples(void) {
    bool few = harness_brief();
#ifdef __SANITIZE_ADDRESS__
    const char *all = getenv("TFM_GRADIENT_ALL");
    few = few || !all || strcmp(all, "1") != 0;
#endif
    return few ? 40 : 400;
}

static void check_gradient(const gradient_case *c, int which, double *const *inputs, const float *dy,
                           const float *before, const float *got) {
    if (harness_poses())
        return;
    const size_t count = count_of(&c->inputs[which]), step = count / samples() + 1;
    double *y = malloc(c->count * sizeof(double)), *want = malloc(count * sizeof(double));
    float *found = malloc(count * sizeof(float));
    assert_true(y && want && found);
    size_t n = 0;
    for (size_t at = 0; at < count; at += step, n++) {
        want[n] = before[at] + difference(c, y, inputs, dy, which, at);
        found[n] = got[at];
    }
    char what[128];
    snprintf(what, sizeof(what), "gradient of input %d of %s, every %zu-th", which, c->name, step);
    harness_close(found, want, n, c->tolerance, what);
    free(y);
    free(want);
    free(found);
}

static void check_repeats(const gradient_case *c, const float *dy, float *const *before, const pass *first) {
    for (int repeat = 0; repeat < (c->repeats > 0 ? c->repeats : 1); repeat++) {
        pass again = run_pass(c, dy, before, WATCHED);
        for (int i = 0; i < GRADIENT_INPUTS; i++)
            if (first->gradients[i] &&
                memcmp(first->gradients[i], again.gradients[i], count_of(&c->inputs[i]) * sizeof(float)) != 0)
                fail_msg("%s: two passes give two gradients of input %d", c->name, i);
        pass_free(&again);
    }
}

/* Gradients do not depend on the origin of the inputs, except for the order of the last addition. */
static void check_between(const gradient_case *c, const float *dy, float *const *before, const pass *first) {
    pass between = run_pass(c, dy, before, BETWEEN);
    for (int i = 0; i < GRADIENT_INPUTS; i++) {
        const size_t count = first->gradients[i] ? count_of(&c->inputs[i]) : 0;
        double *want = malloc((count + 1) * sizeof(double));
        char what[128];
        assert_non_null(want);
        for (size_t k = 0; k < count; k++)
            want[k] = (double)first->gradients[i][k];
        snprintf(what, sizeof(what), "gradient of input %d of %s where an op made it", i, c->name);
        if (count > 0)
            harness_close(between.gradients[i], want, count, c->tolerance, what);
        free(want);
    }
    pass_free(&between);
}

void gradient_check(const gradient_case *c) {
    harness_random random = {77};
    double *inputs[GRADIENT_INPUTS] = {NULL};
    float *before[GRADIENT_INPUTS] = {NULL}, *dy = malloc(c->count * sizeof(float));
    assert_non_null(dy);
    harness_fill(&random, dy, c->count, 1);
    for (size_t i = 0; c->ones && i < c->count; i++)
        dy[i] = 1;
    for (int i = 0; i < GRADIENT_INPUTS && c->inputs[i].rank; i++) {
        const size_t count = count_of(&c->inputs[i]);
        inputs[i] = malloc(count * sizeof(double));
        before[i] = malloc(count * sizeof(float));
        assert_true(inputs[i] && before[i]);
        harness_fill(&random, before[i], count, 1);
        for (size_t at = 0; at < count; at++)
            inputs[i][at] = c->inputs[i].host[at];
    }
    pass plain = run_pass(c, dy, before, FORWARD), first = run_pass(c, dy, before, WATCHED);
    for (size_t i = 0; i < c->count; i++)
        if (memcmp(plain.y + i, first.y + i, sizeof(float)) != 0)
            fail_msg("%s: element %zu is %.9g when recorded, else %.9g", c->name, i, (double)first.y[i],
                     (double)plain.y[i]);
    for (int i = 0; i < GRADIENT_INPUTS; i++)
        if (first.gradients[i])
            check_gradient(c, i, inputs, dy, before[i], first.gradients[i]);
    check_repeats(c, dy, before, &first);
    if (!c->watched_only)
        check_between(c, dy, before, &first);
    pass_free(&plain);
    pass_free(&first);
    for (int i = 0; i < GRADIENT_INPUTS; i++) {
        free(inputs[i]);
        free(before[i]);
    }
    free(dy);
}
