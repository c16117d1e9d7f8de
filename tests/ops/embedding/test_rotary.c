/* RoPE against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dev/device/context_internal.h"
#include "support/gradient.h"
#include "ops/embedding/rotary.h"

enum { FIRST, POSITIONS, PER_TOKEN, FORMS };

typedef struct task {
    int64_t B, T, H, D, half;
    bool heads_first, interleaved, in_place;
    int form;
} task;

/* Element i of x, rotated by the table row that `position` gives for its token. */
static double rotated(const task *s, const float *x, int64_t i, const float *cosines, const float *sines,
                      const int32_t *position) {
    const int64_t column = i % s->D, v = i / s->D, b = v / (s->T * s->H);
    const int64_t t = s->heads_first ? v % s->T : v / s->H % s->T, p = position[b * s->T + t];
    if (column >= 2 * s->half)
        return x[i];
    const int64_t pair = s->interleaved ? column / 2 : column % s->half;
    const bool second = s->interleaved ? column % 2 : column >= s->half;
    const int64_t apart = s->interleaved ? 1 : s->half;
    const double c = cosines[p * s->half + pair], sine = sines[p * s->half + pair];
    return second ? (double)x[i - apart] * sine + (double)x[i] * c : (double)x[i] * c - (double)x[i + apart] * sine;
}

static void check(harness_random *random, task s) {
    tfm_context *ctx = harness_context();
    const int64_t first = 3, P = s.form == PER_TOKEN ? s.B * s.T : s.T + 5, count = s.B * s.T * s.H * s.D;
    float *x_host = malloc((size_t)count * sizeof(float)), *c_host = malloc((size_t)(P * s.half) * sizeof(float)),
          *s_host = malloc((size_t)(P * s.half) * sizeof(float));
    double *want = malloc((size_t)count * sizeof(double));
    int32_t *position = malloc((size_t)(s.B * s.T) * sizeof(int32_t));
    assert_true(x_host && c_host && s_host && want && position);
    harness_fill(random, x_host, (size_t)count, 1);
    harness_fill(random, c_host, (size_t)(P * s.half), 1); /* not unit vectors, so that mixed-up pairs show */
    harness_fill(random, s_host, (size_t)(P * s.half), 1);
    for (int64_t i = 0; i < s.B * s.T; i++)
        position[i] = s.form == POSITIONS   ? (int32_t)harness_range(random, 0, P - 1)
                      : s.form == PER_TOKEN ? (int32_t)i
                                            : (int32_t)(first + i % s.T);
    for (int64_t i = 0; i < count; i++)
        want[i] = rotated(&s, x_host, i, c_host, s_host, position);

    harness_ok(tfm_scope_open(ctx));
    tfm_rotary_options options = {.heads = s.heads_first ? 0 : (int)s.H, .interleaved = s.interleaved};
    tfm_tensor x = s.heads_first ? HARNESS_TENSOR(TFM_F32, x_host, s.B, s.H, s.T, s.D)
                                 : HARNESS_TENSOR(TFM_F32, x_host, s.B, s.T, s.H * s.D);
    tfm_tensor y = s.in_place ? x : harness_tensor(TFM_F32, x.rank, x.dims, NULL), cosines, sines;
    if (s.form == PER_TOKEN) {
        cosines = HARNESS_TENSOR(TFM_F32, c_host, s.B, s.T, s.half);
        sines = HARNESS_TENSOR(TFM_F32, s_host, s.B, s.T, s.half);
    } else {
        cosines = HARNESS_TENSOR(TFM_F32, c_host, P, s.half);
        sines = HARNESS_TENSOR(TFM_F32, s_host, P, s.half);
    }
    if (s.form == POSITIONS)
        options.positions = HARNESS_TENSOR(TFM_I32, position, s.B, s.T);
    if (s.form == FIRST)
        options.first = first;
    harness_ok(tfm_rotary(ctx, &y, x, cosines, sines, &options));
    float *got = harness_floats(y);
    char what[120];
    snprintf(what, sizeof(what), "rotary of %lld x %lld x %lld x %lld, %lld pairs, form %d, %s%s", (long long)s.B,
             (long long)s.T, (long long)s.H, (long long)s.D, (long long)s.half, s.form,
             s.interleaved ? "interleaved" : "split", s.heads_first ? ", heads first" : "");
    harness_close(got, want, (size_t)count, 1e-6, what);
    harness_guards(y);
    harness_ok(tfm_scope_close(ctx, 0, NULL));
    free(got);
    free(x_host);
    free(c_host);
    free(s_host);
    free(want);
    free(position);
}

static void test_rope_matches_double_precision(void **state) {
    (void)state;
    const int64_t widths[][2] = {{2, 1}, {7, 3}, {64, 32}, {66, 33}, {65, 17}, {128, 64}, {100, 16}};
    harness_random random = {1};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int bits = 0; bits < 8; bits++)
            for (int form = 0; form < FORMS; form++)
                check(&random, (task){.B = 2,
                                      .T = 5,
                                      .H = 3,
                                      .D = widths[i][0],
                                      .half = widths[i][1],
                                      .heads_first = bits & 1,
                                      .interleaved = bits & 2,
                                      .in_place = bits & 4,
                                      .form = form});
    check(&random, (task){.B = 1, .T = 1, .H = 1, .D = 1000, .half = 500, .form = FIRST});
    check(&random, (task){.B = 3,
                          .T = 65,
                          .H = 17,
                          .D = 32,
                          .half = 16,
                          .heads_first = true,
                          .interleaved = true,
                          .in_place = true,
                          .form = POSITIONS});
    check(&random, (task){.B = 2, .T = 3000, .H = 7, .D = 4, .half = 1, .form = FIRST});
}

typedef struct backward_case {
    task s;
    const float *cosines, *sines;
    const int32_t *position;
    bool between; /* x is a copy, so the tape computes its gradient */
} backward_case;

/* Linear in x, and the tables are fp32 values, so the oracle is exact. */
static void oracle_backward(const gradient_case *c, double *y, double *const *inputs) {
    const backward_case *b = c->user;
    const task *s = &b->s;
    for (int64_t i = 0; i < (int64_t)c->count; i++) {
        const int64_t column = i % s->D, v = i / s->D, batch = v / (s->T * s->H);
        const int64_t t = s->heads_first ? v % s->T : v / s->H % s->T, p = b->position[batch * s->T + t];
        const int64_t pair = s->interleaved ? column / 2 : column % s->half, apart = s->interleaved ? 1 : s->half;
        const bool second = s->interleaved ? column % 2 : column >= s->half;
        y[i] = inputs[0][i];
        if (column < 2 * s->half)
            y[i] = y[i] * b->cosines[p * s->half + pair] +
                   inputs[0][second ? i - apart : i + apart] * b->sines[p * s->half + pair] * (second ? 1 : -1);
    }
}

static tfm_status run_backward(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    const backward_case *b = c->user;
    const task *s = &b->s;
    tfm_tensor x = inputs[0], cosines = HARNESS_TENSOR(TFM_F32, b->cosines, s->T + 5, s->half),
               sines = HARNESS_TENSOR(TFM_F32, b->sines, s->T + 5, s->half);
    tfm_rotary_options options = {.heads = s->heads_first ? 0 : (int)s->H, .interleaved = s->interleaved, .first = 3};
    if (s->form == POSITIONS)
        options.positions = HARNESS_TENSOR(TFM_I32, b->position, s->B, s->T);
    if (b->between) {
        x = (tfm_tensor){0};
        tfm_activate(ctx, &x, inputs[0], TFM_NO_ACTIVATION);
    }
    return tfm_rotary(ctx, y, x, cosines, sines, &options);
}

static void test_rope_gradients_match_double_precision(void **state) {
    (void)state;
    const int64_t widths[][3] = {{2, 1, 5}, {7, 3, 5}, {65, 17, 3}, {66, 33, 1}, {1000, 500, 1}};
    harness_random random = {2};
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++)
        for (int bits = 0; bits < 8; bits++) {
            const int64_t D = widths[i][0], half = widths[i][1], T = widths[i][2];
            float x[2 * 5 * 3 * 1000], tables[2][10 * 500];
            int32_t position[2 * 5];
            harness_fill(&random, x, (size_t)(2 * T * 3 * D), 1);
            for (int k = 0; k < 2; k++)
                harness_fill(&random, tables[k], (size_t)((T + 5) * half), 1);
            for (int64_t k = 0; k < 2 * T; k++)
                position[k] = (int32_t)(bits & 4 ? harness_range(&random, 0, T + 4) : 3 + k % T);
            const backward_case b = {{2, T, 3, D, half, bits & 1, bits & 2, false, bits & 4 ? POSITIONS : FIRST},
                                     tables[0],
                                     tables[1],
                                     position,
                                     (bits & 1) == 0};
            gradient_case c = {.name = "rotary",
                               .inputs = {{3, {2, T, 3 * D}, x, false}},
                               .oracle = oracle_backward,
                               .run = run_backward,
                               .user = &b,
                               .count = (size_t)(2 * T * 3 * D),
                               .tolerance = 2e-6};
            if (b.s.heads_first)
                c.inputs[0] = (gradient_input){4, {2, 3, T, D}, x, false};
            gradient_check(&c);
        }
}

static void test_rope_of_position_outside_is_nan(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const int32_t index[] = {0, -1, 4, INT32_MAX, INT32_MIN, 3};
    float host[6 * 2 * 3], ones[4] = {1, 1, 1, 1}, zeros[4] = {0};
    for (int i = 0; i < 36; i++)
        host[i] = (float)i;
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, host, 1, 6, 6), y = HARNESS_TENSOR(TFM_F32, NULL, 1, 6, 6);
    tfm_tensor cosines = HARNESS_TENSOR(TFM_F32, ones, 4, 1), sines = HARNESS_TENSOR(TFM_F32, zeros, 4, 1);
    tfm_rotary_options options = {.heads = 2, .positions = HARNESS_TENSOR(TFM_I32, index, 1, 6)};
    harness_ok(tfm_rotary(ctx, &y, x, cosines, sines, &options));
    float *got = harness_floats(y);
    for (int i = 0; i < 36; i++)
        assert_true(i / 6 == 0 || i / 6 == 5 ? got[i] == host[i] : isnan(got[i]));
    free(got);
    harness_guards(y);
}

static void test_rope_tables_match_double_precision(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float bases[] = {0, 500000};
    for (int k = 0; k < 2; k++) {
        tfm_tensor cosines = HARNESS_TENSOR(TFM_F32, NULL, 3000, 17), sines = {0};
        harness_ok(tfm_rotary_tables(ctx, &cosines, &sines, 3000, 34, bases[k]));
        float *c = harness_floats(cosines), *s = harness_floats(sines);
        for (int i = 0; i < 3000 * 17; i++) {
            const double angle = i / 17 * pow(k ? 500000 : 10000, -2.0 * (i % 17) / 34);
            assert_true(fabs(c[i] - cos(angle)) < 1e-7 && fabs(s[i] - sin(angle)) < 1e-7);
        }
        harness_guards(cosines);
        free(c);
        free(s);
        tfm_tensor_free(ctx, &sines);
    }
}

/* The dot product of a rotated query and key depends on their distance alone. */
static void test_rope_dot_product_depends_on_distance_only(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    harness_random random = {2};
    float q[64], k[64];
    harness_fill(&random, q, 64, 1);
    harness_fill(&random, k, 64, 1);
    tfm_tensor cosines = {0}, sines = {0};
    harness_ok(tfm_rotary_tables(ctx, &cosines, &sines, 600, 64, 0));
    double dot_products[2];
    for (int shift = 0; shift < 2; shift++) {
        float *rotated_pair[2];
        for (int which = 0; which < 2; which++) {
            tfm_tensor x = HARNESS_TENSOR(TFM_F32, which ? k : q, 1, 1, 1, 64), y = {0};
            tfm_rotary_options options = {.first = shift * 500 + which * 7};
            harness_ok(tfm_rotary(ctx, &y, x, cosines, sines, &options));
            rotated_pair[which] = harness_floats(y);
            tfm_tensor_free(ctx, &y);
        }
        dot_products[shift] = 0;
        for (int i = 0; i < 64; i++)
            dot_products[shift] += (double)rotated_pair[0][i] * rotated_pair[1][i];
        free(rotated_pair[0]);
        free(rotated_pair[1]);
    }
    assert_true(fabs(dot_products[0] - dot_products[1]) < 1e-4);
    tfm_tensor_free(ctx, &cosines);
    tfm_tensor_free(ctx, &sines);
}

static void test_rope_rejects_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 2, 5, 12), c = HARNESS_TENSOR(TFM_F32, NULL, 8, 2), y = {0};
    tfm_tensor wide = HARNESS_TENSOR(TFM_F32, NULL, 8, 3), odd = HARNESS_TENSOR(TFM_F32, NULL, 2, 4, 2);
    tfm_tensor tokens = HARNESS_TENSOR(TFM_F32, NULL, 2, 5, 2), ids = HARNESS_TENSOR(TFM_I32, NULL, 2, 5);
    tfm_rotary_options o = {.heads = 3};
    harness_refused(tfm_rotary(ctx, &y, x, c, c, NULL), TFM_ERROR_ARGUMENT,
                    "rotary: x is (2, 5, 12) F32 and heads is 0");
    o.heads = 5;
    harness_refused(tfm_rotary(ctx, &y, x, c, c, &o), TFM_ERROR_ARGUMENT, "heads is 5");
    o.heads = 3;
    harness_refused(tfm_rotary(ctx, &y, x, c, wide, &o), TFM_ERROR_ARGUMENT, "but sines is (8, 3) F32");
    harness_refused(tfm_rotary(ctx, &y, x, wide, wide, &o), TFM_ERROR_ARGUMENT, "do not fit a head of 4 columns");
    harness_refused(tfm_rotary(ctx, &y, x, odd, odd, &o), TFM_ERROR_ARGUMENT, "must be (P, R/2) or (2, 5, R/2)");
    o.first = 4;
    harness_refused(tfm_rotary(ctx, &y, x, c, c, &o), TFM_ERROR_ARGUMENT, "rotary: positions 4 to 8 are not in");
    o.first = -1;
    harness_refused(tfm_rotary(ctx, &y, x, c, c, &o), TFM_ERROR_ARGUMENT, "positions -1 to 3 are not in");
    o.positions = ids;
    harness_refused(tfm_rotary(ctx, &y, x, tokens, tokens, &o), TFM_ERROR_ARGUMENT, "positions must be (2, 5)");
    o.positions = c;
    harness_refused(tfm_rotary(ctx, &y, x, c, c, &o), TFM_ERROR_ARGUMENT, "rotary: input 4");
    harness_refused(tfm_rotary_tables(ctx, &y, &wide, 3, 5, 0), TFM_ERROR_ARGUMENT, "rotary_tables: 3 positions");
    harness_refused(tfm_rotary_tables(ctx, &y, &wide, 3, 4, -1), TFM_ERROR_ARGUMENT, "base is -1");
}

static void test_rope_rejects_overlapping_output(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const tfm_status no = TFM_ERROR_ARGUMENT;
    const char *why = "shares memory";
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, 1, 2, 4, 8), over = x, pairs = x;
    tfm_tensor c = HARNESS_TENSOR(TFM_F32, NULL, 4, 4);
    over.offset += 3;
    pairs.rank = 2;
    pairs.dims[0] = pairs.dims[1] = 4;
    harness_refused(tfm_rotary(ctx, &over, x, c, c, NULL), no, why);
    harness_refused(tfm_rotary(ctx, &x, x, pairs, pairs, NULL), no, why);
    harness_ok(tfm_rotary(ctx, &x, x, c, c, NULL)); /* in place is allowed */
}

/* Queries and keys in one launch are bit-identical to separate launches. */
static void test_rope_of_queries_and_keys_equals_separate_calls(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    enum { B = 2, T = 3, D = 10, P = 9 };
    harness_random random = {6};
    const int heads[] = {5, 2};
    float host[B * T * 5 * D], tables[2 * P * 4];
    int32_t positions[B * T] = {0, 8, 3, 9, -1, 4}; /* two out of range */
    harness_fill(&random, host, B * T * 5 * D, 1);
    harness_fill(&random, tables, 2 * P * 4, 1);
    for (int placed = 0; placed < 2; placed++) {
        harness_ok(tfm_scope_open(ctx));
        tfm_tensor cosines = HARNESS_TENSOR(TFM_F32, tables, P, 4),
                   sines = HARNESS_TENSOR(TFM_F32, tables + P * 4, P, 4);
        tfm_rotary_options options = {.first = placed ? 0 : 2};
        tfm_tensor x[2], y[2], one[2] = {{0}};
        if (placed)
            options.positions = HARNESS_TENSOR(TFM_I32, positions, B, T);
        for (int i = 0; i < 2; i++) {
            x[i] = HARNESS_TENSOR(TFM_F32, host, B, T, heads[i] * D);
            y[i] = HARNESS_TENSOR(TFM_F32, NULL, B, T, heads[i] * D);
            options.heads = heads[i];
            harness_ok(tfm_rotary(ctx, &one[i], x[i], cosines, sines, &options));
        }
        const uint64_t launches = ctx->launches;
        harness_ok(tfm__rotary_pair(ctx, &y[0], x[0], heads[0], &y[1], x[1], cosines, sines, &options));
        assert_int_equal(ctx->launches - launches, 1);
        for (int i = 0; i < 2; i++) {
            float *got = harness_floats(y[i]), *want = harness_floats(one[i]);
            harness_guards(y[i]);
            assert_memory_equal(got, want, (size_t)(B * T * heads[i] * D) * sizeof(float));
            free(got);
            free(want);
        }
        harness_ok(tfm_scope_close(ctx, 0, NULL));
    }
    tfm_tensor x = HARNESS_TENSOR(TFM_F32, NULL, B, T, 20), other = HARNESS_TENSOR(TFM_F32, NULL, B, T, 40),
               y[2] = {{0}};
    tfm_tensor table = HARNESS_TENSOR(TFM_F32, NULL, P, 4);
    harness_refused(tfm__rotary_pair(ctx, &y[0], x, 2, &y[1], other, table, table, &(tfm_rotary_options){.heads = 2}),
                    TFM_ERROR_ARGUMENT, "of one D");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_of_queries_and_keys_equals_separate_calls),
        cmocka_unit_test(test_rope_matches_double_precision),
        cmocka_unit_test(test_rope_gradients_match_double_precision),
        cmocka_unit_test(test_rope_of_position_outside_is_nan),
        cmocka_unit_test(test_rope_tables_match_double_precision),
        cmocka_unit_test(test_rope_dot_product_depends_on_distance_only),
        cmocka_unit_test(test_rope_rejects_bad_arguments),
        cmocka_unit_test(test_rope_rejects_overlapping_output),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
