/* Layer norm and RMS norm of overlapping views: gradients that share rows. */
#include <math.h>
#include "support/gradient.h"
#include "tfm/ops.h"

enum { N = 17, ROWS = 40 }; /* several chunks of rows: a work-group has 16 */

/* x is rows 0 .. ROWS - 1 of the first input, the residual is `shift` rows further. */
typedef struct views {
    int64_t shift;
    bool centered; /* layernorm or rmsnorm */
    bool between;  /* views of a copy, so the tape computes its gradient */
} views;

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const views *v = c->user;
    for (int64_t r = 0; r < ROWS; r++) {
        double s[N], mean = 0, square = 0;
        for (int64_t i = 0; i < N; i++) {
            s[i] = inputs[0][r * N + i] + inputs[0][(r + v->shift) * N + i];
            mean += v->centered ? s[i] / N : 0;
        }
        for (int64_t i = 0; i < N; i++)
            square += (s[i] - mean) * (s[i] - mean) / N;
        for (int64_t i = 0; i < N; i++)
            *y++ = (s[i] - mean) / sqrt(square + 1e-2) * inputs[1][i];
    }
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const views *v = c->user;
    tfm_tensor both = inputs[0], x = {0}, residual = {0};
    if (v->between) {
        both = (tfm_tensor){0};
        tfm_activate(ctx, &both, inputs[0], TFM_NO_ACTIVATION);
    }
    tfm_tensor_rows(ctx, &x, both, 0, ROWS);
    tfm_tensor_rows(ctx, &residual, both, v->shift, ROWS);
    if (v->centered)
        return tfm_layernorm(ctx, y, NULL, x, residual, inputs[1], (tfm_tensor){0}, 1e-2f);
    return tfm_rmsnorm(ctx, y, NULL, x, residual, inputs[1], -1, 1e-2f);
}

static void check(bool centered) {
    harness_random random = {1};
    float x[2 * ROWS * N], gamma[N];
    harness_fill(&random, x, 2 * ROWS * N, 2);
    harness_fill(&random, gamma, N, 1);
    const int64_t shifts[] = {0, 1, 16, ROWS - 1}; /* by 16, neighboring groups process the same row at a time */
    for (int i = 0; i < 8; i++) {
        const views v = {shifts[i / 2], centered, i % 2 == 1};
        gradient_check(
            &(gradient_case){.name = centered ? "layernorm of overlapping rows" : "rmsnorm of overlapping rows",
                             .inputs = {{2, {ROWS + v.shift, N}, x, false}, {1, {N}, gamma, false}},
                             .oracle = oracle,
                             .run = run,
                             .user = &v,
                             .count = ROWS * N,
                             .tolerance = 5e-6,
                             .repeats = 5});
    }
}

static void test_layernorm_gradients_of_overlapping_views_sum(void **state) {
    (void)state;
    check(true);
}

static void test_rmsnorm_gradients_of_overlapping_views_sum(void **state) {
    (void)state;
    check(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm_gradients_of_overlapping_views_sum),
        cmocka_unit_test(test_rmsnorm_gradients_of_overlapping_views_sum),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
