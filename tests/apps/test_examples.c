/* Numbers printed by the examples, against double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/harness.h"

/* The output of an example. Freed by the caller. */
static char *output_of(const char *name) {
    char path[1024], *text = calloc(1, 1 << 14);
    assert_non_null(text);
    snprintf(path, sizeof(path), "%s/example_%s", TFM_EXAMPLES, name);
    FILE *pipe = popen(path, "r");
    assert_non_null(pipe);
    fread(text, 1, (1 << 14) - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    return text;
}

/* The `count` numbers below the line that begins with `title` equal these within `tolerance`. */
static void shows(const char *text, const char *title, const double *want, int count, double tolerance) {
    char line[64];
    snprintf(line, sizeof(line), "\n%s", title);
    const char *at = strstr(text, line);
    char *next = at ? strchr(at + 1, '\n') : NULL;
    if (!next) {
        fail_msg("no output is titled '%s'", title);
        return; /* unreachable, which the compiler does not know */
    }
    for (int i = 0; i < count; i++) {
        char *number = next;
        const double got = strtod(number, &next);
        if (next == number || !(fabs(got - want[i]) <= tolerance))
            fail_msg("%s: number %d is %.6f, not %.6f", title, i, got, want[i]);
    }
    while (*next == '\n' || *next == ' ')
        next++;
    if (strchr("-0123456789", *next) && *next)
        fail_msg("%s: more than %d numbers", title, count);
}

/* outputs (T, D), weights (T, S) of attention over S keys in heads of D / heads columns, values equal to the keys.
 * Weights are the last head's. */
static void attend(double *outputs, double *weights, const double *q, const double *k, const double *v, int T, int S,
                   int D, int heads, double scale) {
    const int width = D / heads;
    memset(outputs, 0, sizeof(*outputs) * (size_t)(T * D));
    for (int t = 0; t < T; t++)
        for (int h = 0; h < heads; h++) {
            double sum = 0;
            for (int s = 0; s < S; s++) {
                double score = 0;
                for (int d = h * width; d < (h + 1) * width; d++)
                    score += q[t * D + d] * k[s * D + d];
                sum += weights[t * S + s] = exp(scale * score);
            }
            for (int s = 0; s < S; s++) {
                weights[t * S + s] /= sum;
                for (int d = h * width; d < (h + 1) * width; d++)
                    outputs[t * D + d] += weights[t * S + s] * v[s * D + d];
            }
        }
}

static const double PRINTED = 1e-5; /* five digits, and fp32 */

static void test_self_attention_example_prints_right_numbers(void **state) {
    (void)state;
    const double keys[] = {0, 1, 1, 4, 4, 0, 2, 3, 1}, queries[] = {1, 0, 2, 2, 2, 2, 2, 1, 3};
    const double values[] = {1, 2, 3, 2, 8, 0, 2, 6, 3}, scores[] = {2, 4, 4, 4, 16, 12, 4, 12, 10};
    double outputs[9], weights[9];
    char *text = output_of("self_attention");
    shows(text, "keys", keys, 9, 0);
    shows(text, "queries", queries, 9, 0);
    shows(text, "values", values, 9, 0);
    shows(text, "scores", scores, 9, 0);
    attend(outputs, weights, queries, keys, values, 3, 3, 3, 1, 1);
    shows(text, "weights", weights, 9, PRINTED);
    shows(text, "outputs =", outputs, 9, PRINTED);
    const double known[] = {2, 7, 1.5, 2, 8, 0, 2, 7.8, 0.3}; /* rounded as in tutorials, from rounded weights */
    shows(text, "outputs =", known, 9, 0.35);
    attend(outputs, weights, queries, keys, values, 3, 3, 3, 1, 1 / sqrt(3));
    shows(text, "outputs with scores", outputs, 9, PRINTED);
    attend(outputs, weights, queries, keys, values, 3, 3, 3, 3, 1);
    shows(text, "outputs with three", outputs, 9, PRINTED);
    free(text);
}

static void test_cross_attention_example_prints_right_numbers(void **state) {
    (void)state;
    const double states[] = {0, 1, 1, 5, 0, 1, 1, 1, 0, 0, 5, 1}, query[] = {10, 5, 10}, scores[] = {15, 60, 15, 35};
    double context[3], weights[4];
    char *text = output_of("self_attention"), *second = strstr(text, "SEQUENCE");
    assert_non_null(second);
    shows(second, "decoder state", query, 3, 0);
    shows(second, "scores", scores, 4, 0);
    attend(context, weights, query, states, states, 1, 4, 3, 1, 1);
    shows(second, "weights", weights, 4, PRINTED);
    shows(second, "context =", context, 3, PRINTED);
    shows(second, "context =", (double[]){5, 0, 1}, 3, PRINTED);
    attend(context, weights, query, states, states, 1, 4, 3, 1, 1 / sqrt(3));
    shows(second, "context with scores", context, 3, PRINTED);
    attend(context, weights, query, states, states, 1, 4, 3, 3, 1);
    shows(second, "context with three", context, 3, PRINTED);
    free(text);
}

static void test_own_buffers_example_prints_right_numbers(void **state) {
    (void)state;
    char *text = output_of("own_buffers"), *next = text;
    for (int i = 0; i < 8; i++) {
        const double sum = exp(0) + exp(1) + exp(2) + exp(3), got = strtod(next, &next);
        assert_true(fabs(got - (i < 4 ? exp(i) / sum : 0.25)) <= PRINTED);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_self_attention_example_prints_right_numbers),
        cmocka_unit_test(test_cross_attention_example_prints_right_numbers),
        cmocka_unit_test(test_own_buffers_example_prints_right_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
