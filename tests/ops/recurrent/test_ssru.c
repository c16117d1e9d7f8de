/* The SSRU recurrence against double precision: whole sequences, decode steps over cached states, gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

/* y and cells of (b, t, e) from `first` (b, e). */
static void oracle_of(double *y, double *cells, const int64_t dims[3], const double *x, const double *forget,
                      const double *first) {
    for (int64_t i = 0; i < dims[0] * dims[2]; i++) {
        double c = first ? first[i] : 0;
        for (int64_t t = 0; t < dims[1]; t++) {
            const int64_t at = (i / dims[2] * dims[1] + t) * dims[2] + i % dims[2];
            const double s = 1 / (1 + exp(-forget[at]));
            c = s * c + (1 - s) * x[at];
            y[at] = fmax(c, 0);
            if (cells)
                cells[at] = c;
        }
    }
}

static double *to_double(const float *x, size_t n) {
    double *out = malloc(n * sizeof(*out));
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)x[i];
    return out;
}

static void close_to(tfm_tensor got, const double *want, const char *what) {
    float *values = harness_floats(got);
    harness_close(values, want, tfm_tensor_count(got), 2e-6, what);
    harness_guards(got);
    free(values);
}

static const int64_t DIMS[][3] = {{3, 17, 33}, {1, 1, 1}, {2, 5, 1000}, {70, 1, 64}, {5, 2, 15}};

static void test_ssru_sequences_match_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {1};
    const tfm_tensor none = {0};
    for (size_t k = 0; k < sizeof(DIMS) / sizeof(*DIMS); k++) {
        const int64_t *dims = DIMS[k];
        const size_t n = (size_t)(dims[0] * dims[1] * dims[2]);
        float *x = malloc(n * sizeof(*x)), *forget = malloc(n * sizeof(*forget)), *first = malloc(n * sizeof(*first));
        double *y = malloc(n * sizeof(*y)), *cells = malloc(n * sizeof(*cells));
        assert_true(x && forget && first && y && cells);
        harness_fill(&random, x, n, 2);
        harness_fill(&random, forget, n, 4);
        harness_fill(&random, first, n, 2);
        forget[0] = 200; /* nothing new */
        forget[n - 1] = -200;
        double *wide_x = to_double(x, n), *wide_forget = to_double(forget, n), *wide_first = to_double(first, n);
        for (int from = 0; from < 2; from++) {
            tfm_tensor tx = harness_tensor(TFM_F32, 3, dims, x), tf = harness_tensor(TFM_F32, 3, dims, forget);
            tfm_tensor ty = harness_tensor(TFM_F32, 3, dims, NULL), tc = harness_tensor(TFM_F32, 3, dims, NULL);
            const tfm_tensor before = from ? HARNESS_TENSOR(TFM_F32, first, dims[0], dims[2]) : none;
            oracle_of(y, cells, dims, wide_x, wide_forget, from ? wide_first : NULL);
            harness_ok(tfm_ssru(ctx, &ty, &tc, tx, tf, before, none));
            close_to(ty, y, "ssru");
            close_to(tc, cells, "cells of ssru");
            harness_ok(tfm_ssru(ctx, &tf, &tc, tx, tf, before, none));
            close_to(tf, y, "ssru in place");
        }
        void *all[] = {x, forget, first, y, cells, wide_x, wide_forget, wide_first};
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
            free(all[i]);
    }
}

/* Decode steps, each continuing from its parent's row of the cache, equal the whole sequence. */
static void test_ssru_steps_from_cache_equal_whole_sequence(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {2};
    enum { B = 3, T = 4, E = 20, N = B * T };
    const tfm_tensor none = {0};
    float x[N * E], forget[N * E];
    double y[N * E];
    harness_fill(&random, x, N * E, 2);
    harness_fill(&random, forget, N * E, 2);
    double *wide_x = to_double(x, N * E), *wide_forget = to_double(forget, N * E);
    oracle_of(y, NULL, (int64_t[]){B, T, E}, wide_x, wide_forget, NULL);
    free(wide_x);
    free(wide_forget);
    tfm_tensor log = HARNESS_TENSOR(TFM_F32, NULL, N, E);
    for (int t = 0; t < T; t++) {
        float now_x[B * E], now_forget[B * E];
        double want[B * E];
        int32_t rows[B * T];
        for (int b = 0; b < B; b++) { /* each step moves sequences to other rows */
            const size_t from = (size_t)(b * T + t) * E, to = (size_t)((b + t) % B) * E;
            memcpy(now_x + to, x + from, E * sizeof(*x));
            memcpy(now_forget + to, forget + from, E * sizeof(*x));
            memcpy(want + to, y + from, E * sizeof(*y));
            for (int past = 0; past <= t; past++)
                rows[(b + t) % B * (t + 1) + past] = past * B + (b + past) % B;
        }
        tfm_tensor cells = {0}, ty = HARNESS_TENSOR(TFM_F32, NULL, B, 1, E);
        harness_ok(tfm_tensor_rows(ctx, &cells, log, t * B, B));
        harness_ok(tfm_tensor_reshape(ctx, &cells, cells, 3, (int64_t[]){B, 1, E}));
        harness_ok(tfm_ssru(ctx, &ty, &cells, HARNESS_TENSOR(TFM_F32, now_x, B, 1, E),
                            HARNESS_TENSOR(TFM_F32, now_forget, B, 1, E), log,
                            HARNESS_TENSOR(TFM_I32, rows, B, t + 1)));
        close_to(ty, want, "a step of ssru");
        harness_guards(log);
    }
    /* Rows out of the cache's range. */
    tfm_tensor ty = {0}, cells = {0}, tx = HARNESS_TENSOR(TFM_F32, x, B, 1, E);
    const int32_t outside[B * 2] = {N, 0, -1, 0, 2, 0};
    harness_ok(tfm_ssru(ctx, &ty, &cells, tx, tx, log, HARNESS_TENSOR(TFM_I32, outside, B, 2)));
    float *got = harness_floats(cells);
    for (int i = 0; i < B * E; i++)
        assert_true((isnan(got[i]) != 0) == (i < 2 * E));
    free(got);
    (void)none;
}

typedef struct backward_case {
    int64_t dims[3];
    bool cells; /* The gradient also flows through the cells. */
} backward_case;

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    double *cells = malloc(c->count * sizeof(*cells));
    assert_non_null(cells);
    oracle_of(y, cells, b->dims, inputs[0], inputs[1], NULL);
    for (size_t i = 0; b->cells && i < c->count; i++)
        y[i] += cells[i];
    free(cells);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    tfm_tensor own = {0}, cells = {0};
    const tfm_tensor none = {0};
    if (!b->cells)
        return tfm_ssru(ctx, y, &cells, inputs[0], inputs[1], none, none);
    tfm_ssru(ctx, &own, &cells, inputs[0], inputs[1], none, none);
    return tfm_add(ctx, y, own, cells);
}

/* Moves x so that no cell comes near 0, the kink of y. */
static void keep_apart(float *x, const float *forget, const int64_t dims[3]) {
    for (int64_t i = 0; i < dims[0] * dims[2]; i++) {
        double c = 0;
        for (int64_t t = 0; t < dims[1]; t++) {
            const int64_t at = (i / dims[2] * dims[1] + t) * dims[2] + i % dims[2];
            const double s = 1 / (1 + exp(-(double)forget[at])), next = s * c + (1 - s) * (double)x[at];
            if (fabs(next) < 0.05)
                x[at] += (float)(0.1 / (1 - s));
            c = s * c + (1 - s) * (double)x[at];
        }
    }
}

static void test_ssru_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {3};
    static float x[10000], forget[10000];
    harness_fill(&random, forget, 10000, 2);
    for (size_t k = 0; k < 8; k++) {
        backward_case b = {.cells = k % 2};
        memcpy(b.dims, DIMS[k / 2], sizeof(b.dims));
        harness_fill(&random, x, 10000, 2);
        keep_apart(x, forget, b.dims);
        gradient_check(&(gradient_case){.name = "ssru",
                                        .inputs = {{3, {b.dims[0], b.dims[1], b.dims[2]}, x, false},
                                                   {3, {b.dims[0], b.dims[1], b.dims[2]}, forget, k == 6}},
                                        .oracle = oracle,
                                        .run = run,
                                        .user = &b,
                                        .count = (size_t)(b.dims[0] * b.dims[1] * b.dims[2]),
                                        .tolerance = 1e-5});
    }
}

static void test_ssru_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_tensor none = {0};
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 3, 8), other = HARNESS_TENSOR(TFM_F32, NULL, 2, 8), y = {0},
               c = {0};
    tfm_tensor log = HARNESS_TENSOR(TFM_F32, NULL, 5, 8), rows = HARNESS_TENSOR(TFM_I32, NULL, 2, 2);
    harness_refused(tfm_ssru(ctx, &y, &c, x, other, none, none), TFM_ERROR_ARGUMENT,
                    "x is (2, 3, 8) F32 and forget (2, 8)");
    harness_refused(tfm_ssru(ctx, &y, &c, x, x, rows, none), TFM_ERROR_ARGUMENT, "ssru: input 3");
    harness_refused(tfm_ssru(ctx, &y, &c, x, x, x, none), TFM_ERROR_ARGUMENT, "initial is (2, 3, 8) F32");
    harness_refused(tfm_ssru(ctx, &y, &c, x, x, log, none), TFM_ERROR_ARGUMENT, "a row for each of the 2 sequences");
    harness_refused(tfm_ssru(ctx, &y, &c, x, x, none, rows), TFM_ERROR_ARGUMENT, "kv_indices is (2, 2) I32");
    harness_refused(tfm_ssru(ctx, &y, &x, x, x, none, none), TFM_ERROR_ARGUMENT, "shares memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ssru_sequences_match_double_precision),
        cmocka_unit_test(test_ssru_steps_from_cache_equal_whole_sequence),
        cmocka_unit_test(test_ssru_gradients_match_double_precision),
        cmocka_unit_test(test_ssru_rejects_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
