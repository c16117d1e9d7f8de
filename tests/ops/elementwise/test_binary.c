/* Binary functions: broadcasting, dtypes, NaN and infinities, gradients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/gradient.h"
#include "tfm/ops.h"

typedef tfm_status (*op_fn)(tfm_context *ctx, tfm_tensor *y, tfm_tensor a, tfm_tensor b);
enum { SUB, MUL, DIV, POW, MIN, MAX, ADD, EQUAL, LESS, LESS_EQUAL, AND, OR, XOR, COUNT };

static const struct function {
    const char *name;
    op_fn op;
} FUNCTIONS[COUNT] = {
    {"sub", tfm_sub}, {"mul", tfm_mul}, {"div", tfm_div},     {"pow", tfm_pow},   {"min", tfm_min},
    {"max", tfm_max}, {"add", tfm_add}, {"equal", tfm_equal}, {"less", tfm_less}, {"less_equal", tfm_less_equal},
    {"and", tfm_and}, {"or", tfm_or},   {"xor", tfm_xor}};

static double wanted(int function, double a, double b) {
    switch (function) {
    case SUB:
        return a - b;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case POW:
        return pow(a, b);
    case MIN:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    case MAX:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    case ADD:
        return a + b;
    case EQUAL:
        return a == b;
    case LESS:
        return a < b;
    case LESS_EQUAL:
        return a <= b;
    case AND:
        return a != 0 && b != 0;
    case OR:
        return a != 0 || b != 0;
    default:
        return (a != 0) != (b != 0);
    }
}

/* Element k of y (d0, d1, d2) in a broadcast tensor of the given dims. */
static size_t place_of(int64_t k, const int64_t *y, const int64_t *dims) {
    const int64_t at[3] = {k / (y[1] * y[2]), k / y[2] % y[1], k % y[2]};
    size_t place = 0;
    for (int i = 0; i < 3; i++)
        place = place * (size_t)dims[i] + (size_t)(dims[i] == 1 ? 0 : at[i]);
    return place;
}

static const int64_t SHAPES[][3][3] = {{{3, 5, 65}, {3, 5, 65}, {3, 5, 65}},
                                       {{3, 5, 33}, {3, 1, 33}, {1, 5, 1}},
                                       {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
                                       {{2, 7, 17}, {1, 1, 17}, {2, 7, 1}},
                                       {{1, 3, 1000}, {1, 1, 1}, {1, 3, 1000}}};
enum { SHAPE_COUNT = sizeof(SHAPES) / sizeof(*SHAPES) };

static void test_binary_ops_on_floats_broadcast_and_match(void **state) {
    (void)state;
    harness_random random = {1};
    static float a[3000], b[3000];
    for (int f = 0; f <= LESS_EQUAL; f++)
        for (int s = 0; s < SHAPE_COUNT; s++) {
            const int64_t *d = SHAPES[s][0];
            harness_fill(&random, a, 3000, 1);
            harness_fill(&random, b, 3000, 1);
            for (int i = 0; i < 3000; i += 7)
                b[i] = f == POW ? 2 : i % 2 ? a[i] : 0;
            tfm_tensor ta = harness_tensor(TFM_F32, 3, SHAPES[s][1], a),
                       tb = harness_tensor(TFM_F32, 3, SHAPES[s][2], b);
            tfm_tensor y = harness_tensor(f < EQUAL ? TFM_F32 : TFM_U8, 3, d, NULL);
            harness_ok(FUNCTIONS[f].op(harness_context(), &y, ta, tb));
            uint8_t bytes[3000];
            float *got = f < EQUAL ? harness_floats(y) : NULL;
            if (!got)
                harness_ok(tfm_tensor_read(harness_context(), bytes, y));
            for (int64_t k = 0; k < d[0] * d[1] * d[2]; k++) {
                const double left = (double)a[place_of(k, d, SHAPES[s][1])],
                             right = (double)b[place_of(k, d, SHAPES[s][2])];
                const double want = wanted(f, left, right), is = got ? (double)got[k] : bytes[k];
                if (!(is == want || (isnan(is) && isnan(want)) || fabs(is - want) <= 2e-6 * fmax(fabs(want), 1e-30)))
                    fail_msg("%s of %.9g and %.9g is %.9g, not %.9g", FUNCTIONS[f].name, left, right, is, want);
            }
            harness_guards(y);
            free(got);
        }
}

/* NaN, infinities and zeros of both signs, each with each: as in IEEE and NumPy. */
static void test_binary_ops_on_nan_and_infinity_match_ieee(void **state) {
    (void)state;
    const float ends[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1, -2.5f, 3};
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, ends, 8, 1), b = HARNESS_TENSOR(TFM_F32, ends, 8);
    for (int f = SUB; f <= MAX; f++) {
        tfm_tensor y = HARNESS_TENSOR(TFM_F32, NULL, 8, 8);
        harness_ok(FUNCTIONS[f].op(harness_context(), &y, a, b));
        float *got = harness_floats(y);
        for (int k = 0; k < 64; k++) {
            const double want = wanted(f, (double)ends[k / 8], (double)ends[k % 8]);
            if (!(isnan(want) ? isnan(got[k])
                              : fabs((double)got[k] - want) <= 1e-6 * fabs(want) || (double)got[k] == want))
                fail_msg("%s of %g and %g is %g, not %g", FUNCTIONS[f].name, (double)ends[k / 8], (double)ends[k % 8],
                         (double)got[k], want);
        }
        free(got);
    }
}

static void test_binary_ops_on_integers_wrap_as_numpy(void **state) {
    (void)state;
    const int32_t numbers[] = {0, 1, -1, 7, -7, 2147483647, INT32_MIN, 2};
    tfm_tensor a = HARNESS_TENSOR(TFM_I32, numbers, 8, 1), b = HARNESS_TENSOR(TFM_I32, numbers, 8);
    for (int f = SUB; f <= LESS_EQUAL; f++) {
        if (f == POW)
            continue;
        tfm_tensor y = HARNESS_TENSOR(f < EQUAL ? TFM_I32 : TFM_U8, NULL, 8, 8);
        int32_t got[64];
        uint8_t bytes[64];
        harness_ok(FUNCTIONS[f].op(harness_context(), &y, a, b));
        harness_ok(tfm_tensor_read(harness_context(), f < EQUAL ? (void *)got : bytes, y));
        for (int k = 0; k < 64; k++) {
            const int64_t left = numbers[k / 8], right = numbers[k % 8];
            const int64_t want = f == DIV   ? right == 0 ? 0 : left / right
                                 : f == MUL ? left * right
                                            : (int64_t)wanted(f, (double)left, (double)right);
            assert_int_equal(f < EQUAL ? got[k] : bytes[k], (int32_t)(uint32_t)(uint64_t)want);
        }
        harness_guards(y);
    }
}

static void test_logical_ops_treat_any_nonzero_as_true(void **state) {
    (void)state;
    const uint8_t a_host[] = {0, 1, 2, 0, 255}, b_host[] = {0, 0, 7, 1, 255};
    tfm_tensor a = HARNESS_TENSOR(TFM_U8, a_host, 5), b = HARNESS_TENSOR(TFM_U8, b_host, 5);
    for (int f = EQUAL; f <= XOR; f++) {
        tfm_tensor y = HARNESS_TENSOR(TFM_U8, NULL, 5);
        uint8_t got[5];
        harness_ok(FUNCTIONS[f].op(harness_context(), &y, a, b));
        harness_ok(tfm_tensor_read(harness_context(), got, y));
        for (int k = 0; k < 5; k++)
            assert_int_equal(got[k], wanted(f, a_host[k], b_host[k]));
        harness_guards(y);
    }
}

typedef struct user {
    int function;
    const int64_t *y, *a, *b;
} user;

static void oracle(const gradient_case *c, double *y, double *const *inputs) {
    const user *u = c->user;
    for (size_t k = 0; k < c->count; k++)
        y[k] = wanted(u->function, inputs[0][place_of((int64_t)k, u->y, u->a)],
                      inputs[1][place_of((int64_t)k, u->y, u->b)]);
}

static tfm_status run(const gradient_case *c, tfm_context *ctx, tfm_tensor *y, tfm_tensor *inputs) {
    return FUNCTIONS[((const user *)c->user)->function].op(ctx, y, inputs[0], inputs[1]);
}

/* b not near 0, a positive, and a not near b. */
static void test_binary_gradients_match_double_precision(void **state) {
    (void)state;
    harness_random random = {9};
    static float a[3000], b[3000];
    for (int f = SUB; f <= MAX; f++)
        for (int s = 0; s < 4; s++) {
            for (int i = 0; i < 3000; i++) {
                a[i] = (float)harness_range(&random, 2, 60) / 20;
                b[i] = (float)harness_range(&random, 2, 60) / 20 + 0.025f;
            }
            const user u = {f, SHAPES[s][0], SHAPES[s][1], SHAPES[s][2]};
            gradient_case c = {.name = FUNCTIONS[f].name,
                               .inputs = {{3, {0}, a, false}, {3, {0}, b, false}},
                               .oracle = oracle,
                               .run = run,
                               .user = &u,
                               .count = (size_t)(u.y[0] * u.y[1] * u.y[2]),
                               .tolerance = 1e-5};
            memcpy(c.inputs[0].dims, u.a, sizeof(SHAPES[0][0]));
            memcpy(c.inputs[1].dims, u.b, sizeof(SHAPES[0][0]));
            gradient_check(&c);
        }
}

/* Equal inputs get half the gradient each; 0 to a power has a gradient too. */
static void test_binary_gradients_of_ties_and_zero_powers(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    const float a_host[] = {0, 0, 0, 2}, b_host[] = {2, 1, 0, 0}, zeros[4] = {0};
    const float power[] = {0, 1, 0, 0}, of_b[] = {0, 0, 0, logf(2)}, half[] = {0, 0, 0.5f, 1};
    for (int f = POW; f <= MAX; f += 2) {
        tfm_tensor a = HARNESS_TENSOR(TFM_F32, a_host, 4), b = HARNESS_TENSOR(TFM_F32, b_host, 4), y = {0};
        tfm_tensor da = HARNESS_TENSOR(TFM_F32, zeros, 4), db = HARNESS_TENSOR(TFM_F32, zeros, 4);
        harness_ok(tfm_tape_start(ctx));
        harness_ok(tfm_tape_watch(ctx, a, da));
        harness_ok(tfm_tape_watch(ctx, b, db));
        harness_ok(FUNCTIONS[f].op(ctx, &y, a, b));
        harness_ok(tfm_backward(ctx, y, (tfm_tensor){0}));
        float *got_a = harness_floats(da), *got_b = harness_floats(db);
        for (int i = 0; i < 4; i++) {
            const float want_b = f == POW ? of_b[i] : 1 - half[i];
            assert_true(fabsf(got_a[i] - (f == POW ? power[i] : half[i])) < 1e-6f && fabsf(got_b[i] - want_b) < 1e-6f);
        }
        free(got_a);
        free(got_b);
        tfm_tensor_free(ctx, &y);
    }
}

/* y in place of the input with its dims, and of no other. */
static void test_binary_ops_in_place_of_the_larger_input(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    float host[2 * 33];
    for (int i = 0; i < 2 * 33; i++)
        host[i] = (float)i;
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, host, 2, 33), b = HARNESS_TENSOR(TFM_F32, host, 33), over = a;
    harness_ok(tfm_mul(ctx, &a, a, b));
    harness_ok(tfm_sub(ctx, &a, b, a));
    harness_guards(a);
    float *got = harness_floats(a);
    for (int i = 0; i < 2 * 33; i++)
        assert_true(got[i] == host[i % 33] - host[i] * host[i % 33]);
    free(got);
    over.offset++;
    harness_refused(tfm_mul(ctx, &over, a, b), TFM_ERROR_ARGUMENT, "mul: the output (2, 33) F32 shares memory");
    over = HARNESS_TENSOR(TFM_F32, host, 2, 33);
    b = over;
    b.rank = 1;
    b.dims[0] = 33;
    harness_refused(tfm_mul(ctx, &over, a, b), TFM_ERROR_ARGUMENT, "mul: the output (2, 33) F32 shares memory");
}

static void test_binary_ops_reject_bad_arguments(void **state) {
    (void)state;
    tfm_context *ctx = harness_context();
    tfm_tensor a = HARNESS_TENSOR(TFM_F32, NULL, 2, 3), b = HARNESS_TENSOR(TFM_F32, NULL, 3, 2), y = {0};
    tfm_tensor ints = HARNESS_TENSOR(TFM_I32, NULL, 2, 3), bytes = HARNESS_TENSOR(TFM_U8, NULL, 2, 3);
    harness_refused(tfm_mul(ctx, &y, a, b), TFM_ERROR_ARGUMENT, "mul: a is (2, 3) F32 and b is (3, 2) F32: dims");
    harness_refused(tfm_mul(ctx, &y, a, ints), TFM_ERROR_ARGUMENT,
                    "mul: a is (2, 3) F32 and b is (2, 3) I32: they must be both F32 or both I32");
    harness_refused(tfm_pow(ctx, &y, ints, ints), TFM_ERROR_ARGUMENT,
                    "pow: a is (2, 3) I32 and b is (2, 3) I32: they must be both F32");
    harness_refused(tfm_and(ctx, &y, a, a), TFM_ERROR_ARGUMENT,
                    "and: a is (2, 3) F32 and b is (2, 3) F32: they must be both U8");
    harness_refused(tfm_div(ctx, &y, bytes, bytes), TFM_ERROR_ARGUMENT, "div: a is (2, 3) U8");
    harness_refused(tfm_less(ctx, &a, a, a), TFM_ERROR_ARGUMENT, "less: the output is (2, 3) F32");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary_ops_on_floats_broadcast_and_match),
        cmocka_unit_test(test_binary_ops_on_nan_and_infinity_match_ieee),
        cmocka_unit_test(test_binary_ops_on_integers_wrap_as_numpy),
        cmocka_unit_test(test_logical_ops_treat_any_nonzero_as_true),
        cmocka_unit_test(test_binary_gradients_match_double_precision),
        cmocka_unit_test(test_binary_gradients_of_ties_and_zero_powers),
        cmocka_unit_test(test_binary_ops_in_place_of_the_larger_input),
        cmocka_unit_test(test_binary_ops_reject_bad_arguments),
    };
    return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
